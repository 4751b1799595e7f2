"""Expressions as text: literals come back as they were, and people see plain operators."""

from __future__ import annotations

import datetime as dt
import math
import random
import struct
from collections.abc import Sequence

import pytest

from dpsql.backends.duckdb import scratch
from dpsql.questions.shown_expressions import show
from dpsql.trusted.plan.expr.nodes import Call, Case, Cast, Expr, Literal, Ref, Value
from dpsql.trusted.plan.expr.printing import cast, literal, quote, settled, to_sql
from dpsql.types import Type

AGE, NAME, HERE = Ref(column="c1", type=Type.BIGINT), Ref(column="c2", type=Type.VARCHAR), Ref(column="c3", type=Type.BOOLEAN)
NAMES = {"c1": "age", "c2": "name", "c3": "here"}


def integer(value: int) -> Literal:
    return Literal(value=value, type=Type.BIGINT)


def call(name: str, *args: Expr, type: Type = Type.BOOLEAN) -> Call:
    return Call(function=name, args=args, type=type)


# -- literals


def read_back(values: Sequence[tuple[Value, Type]]) -> list[tuple[object, str]]:
    connection = scratch()
    printed = [to_sql(Literal(value=value, type=kind), {}) for value, kind in values]
    row = connection.execute("SELECT " + ", ".join(f"{text}, typeof({text})" for text in printed)).fetchall()[0]
    return [(row[i], row[i + 1]) for i in range(0, len(row), 2)]


def same(a: object, b: object) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return struct.pack("d", a + 0.0) == struct.pack("d", b) or (math.isnan(a) and math.isnan(b))  # zero has no sign
    return type(a) is type(b) and a == b


def check(values: Sequence[Value], kind: Type) -> None:
    for value, (found, name) in zip(values, read_back([(value, kind) for value in values]), strict=True):
        assert same(value, found), (value, found)
        assert name == kind.value


def test_numbers_come_back_to_the_last_bit(effort: float) -> None:
    draw = random.Random(1)
    floats = [0.0, -0.0, 0.1, -0.1, 1e22, 1e23, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, math.inf,
              -math.inf, math.nan, 1e16, 123456789012345680.0, 2.0**63, -(2.0**63), 1 / 3, 1e-7, 9007199254740993.0]
    while len(floats) < 1500 * effort:
        number = struct.unpack("d", draw.randbytes(8))[0]
        floats += [] if math.isnan(number) else [number]
    check(floats, Type.DOUBLE)
    integers = [0, -1, 1, 2**63 - 1, -(2**63), 2**53 + 1, -(2**31) - 1, 10**18]
    check([*integers, *(draw.randint(-(2**63), 2**63 - 1) for _ in range(200))], Type.BIGINT)


def test_texts_come_back_letter_by_letter(effort: float) -> None:
    draw = random.Random(2)
    odd = ["", "'", "''", "'''", "\\", "\\'", "\"", "; DROP TABLE t; --", "/* x */", "-- ", "\n\r\t\x01\x7f",
           "$1 ? :x %s {0} {all}", "日本語", "🦆\u200d🦆", "e\u0301", "\u202e", "\ufeff",
           "E'\\n'", "$$", "x" * 20_000, "NULL", "\u2028", "''; SELECT '"]
    letters = "'\"\\;-/*$%{}\n\t é日🦆aE"
    check([*odd, *("".join(draw.choices(letters, k=draw.randint(0, 12))) for _ in range(round(500 * effort)))], Type.VARCHAR)


def test_days_and_moments_come_back() -> None:
    draw = random.Random(3)
    check([dt.date.min, dt.date.max, dt.date(2020, 2, 29), dt.date(1, 12, 31),
           *(dt.date.fromordinal(draw.randint(1, dt.date.max.toordinal())) for _ in range(200))], Type.DATE)
    century = dt.timedelta(days=36_500)
    check([dt.datetime.min, dt.datetime.max, dt.datetime(2020, 2, 29, 12, 0), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
           dt.datetime(2020, 1, 1, 0, 0, 0, 1), *(dt.datetime.min + century * draw.uniform(0, 99) for _ in range(200))],
          Type.TIMESTAMP)


def test_truth_values_and_typed_nulls_come_back() -> None:
    check([True, False, None], Type.BOOLEAN)
    for kind in Type:
        check([None], kind)


def test_no_literal_opens_a_comment_or_a_quote() -> None:
    """A negative number stands in brackets, and a quote of a text is doubled."""
    assert literal(-5, Type.BIGINT) == "CAST((-5) AS BIGINT)" and literal(-0.5, Type.DOUBLE) == "CAST((-0.5) AS DOUBLE)"
    minus = call("-", integer(3), integer(-4), type=Type.BIGINT)
    assert "--" not in to_sql(minus, {})
    assert scratch().execute(f"SELECT {to_sql(minus, {})}").fetchall() == [(7,)]
    assert literal("a'b", Type.VARCHAR) == "CAST('a''b' AS VARCHAR)"


@pytest.mark.parametrize("name", ["a", "A b", "a\"b", "\"", "select", "", "é;--", "x.y"])
def test_names_are_quoted(name: str) -> None:
    text = quote(name)
    assert text[0] == text[-1] == "\"" and text[1:-1].replace('""', "") == name.replace('"', "")
    if name:
        assert scratch().execute(f"SELECT 1 AS {text}").description[0][0] == name


# -- composites


def test_composites_stand_in_brackets() -> None:
    expr = call("*", call("+", AGE, integer(1), type=Type.BIGINT), integer(2), type=Type.BIGINT)
    assert to_sql(expr, NAMES) == "TRY(TRY(age + CAST(1 AS BIGINT)) * CAST(2 AS BIGINT))"
    assert to_sql(call("not", call("or", HERE, HERE)), NAMES) == "(NOT (here OR here))"
    assert to_sql(call("in", AGE, integer(1), integer(2)), NAMES) == "(age IN (CAST(1 AS BIGINT), CAST(2 AS BIGINT)))"
    assert to_sql(Case(branches=((HERE, AGE),), otherwise=integer(0), type=Type.BIGINT), NAMES) == (
        "(CASE WHEN here THEN age ELSE CAST(0 AS BIGINT) END)")


def test_precedence_is_that_of_the_tree() -> None:
    a, b, c = integer(7), integer(2), integer(3)
    expr = call("-", a, call("-", b, c, type=Type.BIGINT), type=Type.BIGINT)
    power = call("*", call("+", a, b, type=Type.BIGINT), c, type=Type.BIGINT)
    found = scratch().execute(f"SELECT {to_sql(expr, {})}, {to_sql(power, {})}").fetchall()
    assert found == [(8, 27)]


@pytest.mark.parametrize("target, kind, expected", [
    ("INTEGER", Type.BIGINT, "CAST(TRY_CAST(x AS INTEGER) AS BIGINT)"), ("BIGINT", Type.BIGINT, "TRY_CAST(x AS BIGINT)"),
    ("DECIMAL(10,2)", Type.DOUBLE, "CAST(TRY_CAST(x AS DECIMAL(10,2)) AS DOUBLE)"),
    ("VARCHAR", Type.VARCHAR, "TRY_CAST(x AS VARCHAR)")])
def test_casts_never_raise_and_end_in_a_wide_type(target: str, kind: Type, expected: str) -> None:
    assert cast("x", target, kind) == expected
    assert to_sql(Cast(input=AGE, target=target, type=kind), {"c1": "x"}) == expected


def test_unknown_types_and_functions_are_not_printed() -> None:
    with pytest.raises(ValueError):
        cast("x", "BLOB", Type.VARCHAR)
    with pytest.raises(TypeError):
        to_sql(call("no such function", AGE), NAMES)
    with pytest.raises(TypeError):
        to_sql(call("+", AGE, NAME), NAMES)
    for text in (to_sql, show):
        with pytest.raises(TypeError):
            text(Expr(type=Type.BIGINT), {})
    with pytest.raises(KeyError):
        to_sql(AGE, {})


def test_equal_numbers_settle_on_one() -> None:
    connection = scratch()
    values = ", ".join(f"({literal(value, Type.DOUBLE)})" for value in (0.0, -0.0, math.nan, 1.5, None))
    rows = connection.execute(f"SELECT DISTINCT CAST({settled('x', Type.DOUBLE)} AS VARCHAR) FROM "
                              f"(VALUES {values}, (-CAST('nan' AS DOUBLE))) AS t(x)").fetchall()
    assert sorted(rows, key=str) == [("0.0",), ("1.5",), ("nan",), (None,)]
    assert settled("x", Type.VARCHAR) == "x"


# -- for people


@pytest.mark.parametrize("expr, text", [
    (AGE, "age"), (Ref(column="c9", type=Type.BIGINT), "c9"), (integer(-5), "-5"), (Literal(value=None, type=Type.DATE), "NULL"),
    (Literal(value=True, type=Type.BOOLEAN), "TRUE"), (Literal(value="x", type=Type.VARCHAR), "'x'"),
    (Literal(value=dt.date(2020, 1, 2), type=Type.DATE), "'2020-01-02'"), (Literal(value=0.5, type=Type.DOUBLE), "0.5"),
    (call(">", AGE, integer(30)), "age > 30"), (call("is null", NAME), "name IS NULL"), (call("not", HERE), "NOT here"),
    (call("and", call(">", AGE, integer(1)), call("<", AGE, integer(9))), "(age > 1) AND (age < 9)"),
    (call("is not distinct from", AGE, integer(1)), "age IS NOT DISTINCT FROM 1"),
    (call("negate", AGE, type=Type.BIGINT), "-age"), (call("lower", NAME, type=Type.VARCHAR), "lower(name)"),
    (call("in", AGE, *map(integer, range(3))), "age IN (0, 1, 2)"),
    (call("in", AGE, *map(integer, range(9))), "age IN (0, 1, 2, 3, 4, ...)"),
    (Cast(input=call("+", AGE, integer(1), type=Type.BIGINT), target="VARCHAR", type=Type.VARCHAR), "CAST(age + 1 AS VARCHAR)"),
    (Case(branches=((HERE, integer(1)),), otherwise=integer(0), type=Type.BIGINT), "CASE WHEN here THEN 1 ELSE 0 END"),
    (call("like", NAME, Literal(value="a%", type=Type.VARCHAR)), "name LIKE 'a%'"),
])
def test_people_see_plain_operators(expr: Expr, text: str) -> None:
    assert show(expr, NAMES) == text
