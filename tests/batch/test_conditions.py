"""Conditions are true for the same values of a column as where the engine evaluates each at every value."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from dpsql.backends.scratch import DuckScratch
from dpsql.batch.attributes import AttributeColumn
from dpsql.batch.conditions import truths
from dpsql.sql.binding.domains import Scratch
from dpsql.trusted.plan.expr.nodes import Call, Case, Cast, Expr, Literal, Ref, Value, predicate, real, whole
from dpsql.types import Type

DAY, NOON = dt.date(2020, 2, 27), dt.datetime(2020, 2, 27, 12)
COLUMNS: dict[str, tuple[Type, list[Value]]] = {
    "whole numbers": (Type.BIGINT, [-1, *range(300), 300, None]),
    "whole numbers with gaps": (Type.BIGINT, [*range(-30, 30, 7), None, 1000, 999]),
    "long whole numbers": (Type.BIGINT, [-2**63, -2**53 - 1, 0, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1, None]),
    "repeated whole numbers": (Type.BIGINT, [5, 3, None, 3, 5, 9, None, 4]),
    "numbers": (Type.DOUBLE, [-2.5, -0.0, 0.0, 0.1, 0.30000000000000004, 0.3, 7, 7.5, 1e300, -5e-324, 5e-324, None]),
    "numbers without order": (Type.DOUBLE, [0.5, math.inf, -math.inf, math.nan, 3.0, None]),
    "texts": (Type.VARCHAR, ["b", "a", "", "ä", "A", "a ", "NULL", "it's", "a", None]),
    "days": (Type.DATE, [None, *(DAY + dt.timedelta(days) for days in range(5)), dt.date.min, dt.date.max]),
    "moments": (Type.TIMESTAMP, [*(NOON + dt.timedelta(microseconds=n) for n in range(-2, 3)), dt.datetime.min, dt.datetime.max, None]),
    "truths": (Type.BOOLEAN, [False, True, None]),
    "nothing": (Type.BIGINT, [None]),
}


def constant(kind: Type, values: Sequence[Value], dice: Random) -> Expr:
    """A value of the column, one between or beyond its values, or NULL."""
    known = [value for value in values if value is not None and value == value]
    value = dice.choice(known) if known else None
    moved: Value = value
    match value:
        case bool():
            pass
        case int():
            moved = min(max(value + dice.choice((0, 0, 1, -1)), -2**63), 2**63 - 1)
        case float():
            moved = dice.choice((value, value + 0.25, math.nextafter(value, 9.0), -value))
        case str():
            moved = dice.choice((value, value + "x", value.upper()))
        case dt.datetime() if value not in (dt.datetime.min, dt.datetime.max):
            moved = value + dt.timedelta(microseconds=dice.choice((0, 1, -1)))
        case dt.date() if not isinstance(value, dt.datetime) and value not in (dt.date.min, dt.date.max):
            moved = value + dt.timedelta(days=dice.choice((0, 1, -1)))
    return Literal(value=None if dice.random() < 0.1 else moved, type=kind)


def condition(ref: Ref, values: Sequence[Value], dice: Random, depth: int = 2) -> Expr:
    def below() -> Expr:
        return condition(ref, values, dice, depth - 1)

    def other() -> Expr:
        return constant(ref.type, values, dice)

    if depth and dice.random() < 0.6:
        word = dice.choice(("and", "or", "not", "case"))
        if word == "case":
            return Case(branches=((below(), below()),), otherwise=below(), type=Type.BOOLEAN)
        return predicate("not", below()) if word == "not" else predicate(word, below(), below())
    if ref.type is Type.BIGINT and dice.random() < 0.3:
        left = Cast(input=ref, target="DOUBLE", type=Type.DOUBLE)
        return predicate(dice.choice(("<", "<=", ">", ">=", "=", "<>")), left, real(dice.choice((2.5, -0.5, 3.0, 1e15, 0.0, 2.0**53, 2.0**60))))
    if ref.type.numeric and dice.random() < 0.2:  # more than a comparison with a constant
        return predicate("=", Call(function="abs", args=(ref,), type=ref.type), Literal(value=3, type=ref.type))
    if ref.type is Type.VARCHAR and dice.random() < 0.2:
        return predicate("like", ref, Literal(value="a%", type=Type.VARCHAR))
    word = dice.choice(("=", "<>", "<", "<=", ">", ">=", "is not distinct from", "is distinct from", "in", "is null", "is not null"))
    if word in ("is null", "is not null"):
        return predicate(word, ref)
    if word == "in":
        return predicate(word, ref, *(other() for _ in range(dice.randint(1, 4))))
    return predicate(word, *((ref, other()) if dice.random() < 0.7 else (other(), ref)))


@pytest.mark.parametrize("name", COLUMNS)
def test_conditions_are_true_where_the_engine_says_so(name: str) -> None:
    kind, values = COLUMNS[name]
    scratch, dice, ref = DuckScratch(), Random(name), Ref(column="v", type=kind)
    tests = list(dict.fromkeys(condition(ref, values, dice) for _ in range(400)))
    found = dict(truths(tests, {"v": (kind, values)}, scratch))
    assert list(found) != [] and set(found) == set(tests)
    for first in range(0, len(tests), 50):
        some = tests[first : first + 50]
        rows = scratch.evaluate(some, {"v": (kind, values)})
        for at, test in enumerate(some):
            assert found[test].tolist() == [row[at] is True for row in rows], test
    scratch.close()


def test_conditions_on_two_columns_that_vary_together() -> None:
    scratch, refs = DuckScratch(), [Ref(column=name, type=Type.BIGINT) for name in ("v", "w")]
    columns = {"v": (Type.BIGINT, [1, 2, 3, None]), "w": (Type.BIGINT, [4, 4, None, 5])}
    tests = [predicate("<", refs[0], whole(3)), predicate("=", refs[1], whole(4)), predicate("<", *refs)]
    found = dict(truths(tests, columns, scratch))
    assert [found[test].tolist() for test in tests] == [[True, True, False, False], [True, True, False, False], [True, True, False, False]]
    scratch.close()


def test_what_is_told_of_a_cell_comes_before_its_representative() -> None:
    scratch, ref = DuckScratch(), Ref(column="v", type=Type.BIGINT)
    test = predicate(">", ref, whole(2))
    column = AttributeColumn(name="v", refs=(ref,), code=ref, values=(1, 2, 3, None), stands=((1, 2, 3, None),),
                             told={test: {0: True, 2: "no value of this key"}})
    (bits,) = column.where_true([test], scratch).values()
    assert np.unpackbits(bits, count=4).tolist() == [1, 0, 0, 0]
    scratch.close()


class Counting(DuckScratch):
    """Counts the values at which conditions are evaluated."""

    rows = 0

    def truths(self, tests, columns):  # type: ignore[no-untyped-def]
        self.rows += sum(len(values) for _, values in columns.values())
        return super().truths(tests, columns)


def test_ranges_are_evaluated_at_their_ends_alone() -> None:
    scratch, ref, dice = Counting(), Ref(column="v", type=Type.BIGINT), Random(1)
    counted: Scratch = scratch
    tests = [predicate(word, ref, whole(dice.randrange(50_000))) for word in ("<=", ">=") for _ in range(100)]
    found = dict(truths(tests, {"v": (Type.BIGINT, [*range(50_000), None])}, counted))
    assert set(found) == set(tests) and scratch.rows <= 2 * 202
    scratch.close()


class Texts(DuckScratch):
    """Keeps the number of expressions of each statement."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def _selected(self, exprs, *tables):  # type: ignore[no-untyped-def]
        self.sizes.append(len(exprs))
        return super()._selected(exprs, *tables)


def test_conditions_that_differ_in_constants_are_one_expression() -> None:
    scratch, ref = Texts(), Ref(column="v", type=Type.BIGINT)
    tests: list[Expr] = [predicate("and", predicate(">=", ref, whole(n)), predicate("<", ref, whole(n + 3))) for n in range(50)]
    tests += [predicate("=", whole(7), ref), predicate("is null", ref)]
    values = [*range(60), None]
    found = scratch.truths(tests, {"v": (Type.BIGINT, values)})
    assert scratch.sizes == [1, 2]
    for n in range(50):
        assert found[n].tolist() == [value is not None and n <= value < n + 3 for value in values]
    assert found[50].tolist() == [value == 7 for value in values] and found[51].tolist() == [value is None for value in values]
    scratch.close()


def test_many_rows_are_evaluated_without_a_table_of_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.backends.scratch.MOST_ALIKE", 20)
    scratch, ref = Texts(), Ref(column="v", type=Type.BIGINT)
    found = scratch.truths([predicate("<", ref, whole(n)) for n in (1, 2, 3)], {"v": (Type.BIGINT, [*range(9)])})
    assert scratch.sizes == [3] and found.sum(axis=1).tolist() == [1, 2, 3]
    scratch.close()
