"""Values that are put where they were awaited: everything that was proved before holds after, whatever the value."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from typing import Any

import pytest
from support import worlds
from support.binding import Bench, bench

from dpsql.frozen import replace
from dpsql.questions.question import Output, Question
from dpsql.questions.rules.substitute import as_columns, clamped_value, has_placeholders, substitute
from dpsql.trusted.plan.expr.facts import facts
from dpsql.trusted.plan.expr.nodes import Call, Case, Cast, Expr, Literal, Placeholder, Ref, Value
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.types import ANY_NUMBER, Interval, Type

NONE_FITS = Interval(-5, 5)


@pytest.fixture(scope="module")
def a_bench() -> Iterator[Bench]:
    with bench(worlds.world(4, people=20)) as made:
        yield made


def awaited(kind: Type = Type.DOUBLE, *, declared: Interval = ANY_NUMBER, physical: Interval = ANY_NUMBER, name: str = "w") -> Placeholder:
    return Placeholder(id=name, type=kind, physical=physical, declared=declared)


# -- where


def test_values_are_put_everywhere_and_nothing_else_changes() -> None:
    one, other = awaited(name="one"), awaited(name="other")
    deep = Case(branches=((Call(function=">", args=(Cast(input=one, target="DOUBLE", type=Type.DOUBLE), other), type=Type.BOOLEAN),
                           one),), otherwise=other, type=Type.DOUBLE)
    table = Constants(columns=(), rows=((),))
    plan = Filter(input=Filter(input=table, condition=replace(deep, type=Type.BOOLEAN)), condition=deep)
    question = Question(view=plan, keys=(), aggregates=(), outputs=(Output(name="x", expr=deep),), having=one)
    assert list(has_placeholders(question)) == ["one", "other"] and has_placeholders(table) == {}
    half = substitute(question, {"one": 1.5})
    assert list(has_placeholders(half)) == ["other"] and half.having == Literal(value=1.5, type=Type.DOUBLE)
    whole = substitute(half, {"other": 2.5})
    assert has_placeholders(whole) == {} and isinstance(whole.view, Filter) and whole.view.input.input is table  # type: ignore[attr-defined]
    assert substitute(whole, {"one": 7.0}) is whole and substitute(table, {"one": 7.0}) is table


def test_over_noisy_rows_they_are_columns() -> None:
    expr = Call(function="-", args=(Ref(column="n", type=Type.DOUBLE), awaited()), type=Type.DOUBLE)
    assert as_columns(expr) == Call(function="-", args=(Ref(column="n", type=Type.DOUBLE), Ref(column="w", type=Type.DOUBLE)),
                                    type=Type.DOUBLE)


# -- what


@pytest.mark.parametrize(("kind", "declared", "physical", "value", "expected"), [
    (Type.DOUBLE, ANY_NUMBER, ANY_NUMBER, 1e300, 1e300), (Type.DOUBLE, NONE_FITS, ANY_NUMBER, 9.5, 5.0),
    (Type.DOUBLE, NONE_FITS, ANY_NUMBER, math.nan, None), (Type.DOUBLE, NONE_FITS, ANY_NUMBER, math.inf, None),
    (Type.DOUBLE, ANY_NUMBER, ANY_NUMBER, -math.inf, None), (Type.BIGINT, ANY_NUMBER, Interval(-8, 8), 10**18, 8),
    (Type.BIGINT, NONE_FITS, Interval(-8, 8), -7, -5), (Type.BIGINT, ANY_NUMBER, ANY_NUMBER, None, None),
    (Type.BOOLEAN, ANY_NUMBER, ANY_NUMBER, True, True), (Type.VARCHAR, ANY_NUMBER, ANY_NUMBER, "x", "x"),
    (Type.DATE, Interval(700000, 700001), ANY_NUMBER, dt.date(1900, 1, 1), dt.date.fromordinal(700000)),
    (Type.DATE, Interval(1, 800000), ANY_NUMBER, dt.date(1900, 1, 1), dt.date(1900, 1, 1)),
    (Type.TIMESTAMP, ANY_NUMBER, ANY_NUMBER, dt.datetime(1900, 1, 1, 5), dt.datetime(1900, 1, 1, 5)),
])
def test_a_value_is_held_in_what_was_told_of_it(kind: Type, declared: Interval, physical: Interval, value: Value, expected: Value) -> None:
    found = clamped_value(awaited(kind, declared=declared, physical=physical), value)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize("kind", list(Type))
@pytest.mark.parametrize("value", ["none", "some"])
def test_a_constant_is_known_at_least_as_well(kind: Type, value: str) -> None:
    told = awaited(kind, declared=Interval(10, 20) if kind.numeric else ANY_NUMBER, physical=Interval(0, 30) if kind is Type.BIGINT else ANY_NUMBER)
    some: dict[Type, Value] = {Type.BOOLEAN: True, Type.BIGINT: 99, Type.DOUBLE: -3.5, Type.VARCHAR: "a", Type.DATE: dt.date(2000, 1, 1),
                               Type.TIMESTAMP: dt.datetime(2000, 1, 1)}
    before, after = facts(told, {}), facts(substitute(told, {"w": None if value == "none" else some[kind]}), {})
    assert narrower(after, before) and after.nullable == (value == "none")


def narrower(after: Any, before: Any) -> bool:
    return (after.type is before.type and (before.nullable or not after.nullable)
            and all(new.inside(old) or not old.finite for new, old in (
                (after.physical, before.physical), (after.declared, before.declared))))


# Expressions in which X is awaited: of whole numbers, of numbers, and of dates.
WHOLE = """age + X; age - X; X - age; age * X; X * X; -X; abs(X); sign(X - 3); age // X; X // age; age % X; X % 7; X / age; age / X;
    least(age, X); greatest(X, age); greatest(least(age, X), 3); coalesce(X, age); nullif(age, X); nullif(X, 5); floor(X / 3);
    CASE WHEN age > X THEN X ELSE age END; CASE WHEN X IS NULL THEN 1 ELSE X END; CAST(X AS DOUBLE) * age; CAST(X AS SMALLINT);
    (age + X) * (age - X); age * 3 + X * 5 - 1; X ** 2; sqrt(X); ln(X); exp(X - 50); round(X / 7, 1); X::VARCHAR || 'x'; X BETWEEN 1 AND age;
    age IN (1, 2) AND X > 3; X IS DISTINCT FROM age; if(X > 3, age, X); CAST(CAST(X AS VARCHAR) AS INTEGER) + age; year(born) - X;
    X // 3 * age; (X + 1) % (age + 1); length(left(nickname, 3)) + X; abs(X - age) // 10; trunc(X / 3.5); ceil(age / X)"""
NUMBERS = """income + X; income * X; X / income; least(income, X); least(greatest(income, 0), X); greatest(X, income - X); sqrt(X);
    sqrt(income - X); ln(X); ln(income / X); exp(X / 1e4); X ** 0.5; (income - X) ** 2; (income - X) ** 0.5; cbrt(X); sin(X); atan(X * income);
    round(X); round(income - X, 2); floor(X); CAST(X AS BIGINT) + age; CAST(X AS DECIMAL(8, 2)); CASE WHEN income > X THEN X ELSE income END;
    coalesce(income, X); X % income; income % X; degrees(X); abs(income - X) / X; CAST(income > X AS INTEGER); X < income AND age > 3;
    log10(X - 5e4); exp(X - 5e4); sqrt(X - 5e4); pow(X - 5e4, 0.5)"""
DAYS = """year(X) - year(born); born > X; date_diff('day', X, born); X - born; born - X; coalesce(born, X); least(born, X); date_trunc('month', X);
    X + 30; month(X) * age; CASE WHEN X > born THEN X ELSE born END; X + INTERVAL 3 MONTH; extract(doy FROM X)"""
CASES = [(kind, part.strip()) for kind, parts in (("whole", WHOLE), ("number", NUMBERS), ("day", DAYS)) for part in parts.split(";")]
ASKED = {"whole": "(SELECT MAX(age) FROM people)", "number": "(SELECT AVG(income) FROM people)", "day": "(SELECT MIN(born) FROM people)"}
VALUES: dict[str, list[Value]] = {
    "whole": [0, 1, -1, 50, 100, 10**12, -(10**18), None], "number": [0.0, 1.0, -1.0, 5e4, 1e5, 1e300, math.nan, math.inf, None],
    "day": [dt.date(1920, 1, 1), dt.date(2020, 12, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31), None]}


@pytest.mark.parametrize(("kind", "text"), CASES, ids=[text for _, text in CASES])
def test_an_expression_is_as_safe_with_the_value_as_before(kind: str, text: str, a_bench: Bench) -> None:
    """What was told of it is still true, it is still total, and the engine evaluates it for every row."""
    question = a_bench.bind(f"SELECT COUNT(*) FROM people WHERE ({text.replace('X', ASKED[kind])}) IS NOT NULL OR age > 3")
    (scalar,) = question.scalars
    node = next(node for node in _below(question.view) if isinstance(node, Filter))
    expr = _tested(node.condition)
    before = facts(expr, node.input.env)
    for value in VALUES[kind]:
        settled = substitute(expr, {scalar.awaited.id: value})
        assert narrower(facts(settled, node.input.env), before), value
        assert a_bench.rows(substitute(question.view, {scalar.awaited.id: value})) is not None


def _below(node: Node) -> Iterator[Node]:
    yield node
    for part in node.inputs:
        yield from _below(part)


def _tested(condition: Expr) -> Expr:
    """The expression of which `IS NOT NULL OR age > 3` is asked."""
    assert isinstance(condition, Call) and isinstance(condition.args[0], Call)
    return condition.args[0].args[0]


def test_a_wrong_range_would_be_found(a_bench: Bench) -> None:
    """So that the cases above are not passed by knowing nothing."""
    told = awaited(Type.BIGINT, declared=Interval(0, 10), physical=Interval(0, 10))
    product = Call(function="*", args=(told, told), type=Type.BIGINT)
    assert not narrower(facts(Literal(value=200, type=Type.BIGINT), {}), facts(product, {}))
