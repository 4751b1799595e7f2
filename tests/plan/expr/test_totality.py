"""No expression raises, whatever a row holds, and no value leaves what is derived of it: random expressions over extreme rows."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import random
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import duckdb
import pytest

from dpsql.backends.duckdb import scratch
from dpsql.backends.scratch import DuckScratch
from dpsql.errors import SqlError
from dpsql.frozen import Frozen
from dpsql.questions.shown_expressions import show
from dpsql.sql.binding import typing
from dpsql.trusted.declarations.tables import Domain
from dpsql.trusted.plan.expr.facts import Facts, NotTotal, facts
from dpsql.trusted.plan.expr.functions import CARRIER, FUNCTIONS, LONGEST, Overload
from dpsql.trusted.plan.expr.nodes import Call, Cast, Expr, Literal, Ref, Value, walk
from dpsql.trusted.plan.expr.nodes import columns as columns_of
from dpsql.trusted.plan.expr.printing import to_sql
from dpsql.types import INT64, Interval, Type

DAY = dt.date.toordinal


def whole(bits: int, low: int, high: int) -> Facts:
    return Facts(type=Type.BIGINT, physical=Interval(-(2**bits), 2**bits - 1), declared=Interval(low, high), whole=True)


class Column(Frozen, kw_only=False):
    """A column, its type in the database, what is known of it, and the ends of what it may hold."""

    sql: str
    facts: Facts
    extremes: Sequence[Any]


BIG = [0, 1, -1, 2**63 - 1, -(2**63), 2**62, -(2**62), 2**62 + 1, 2**53 + 1, -(2**53) - 1, 3_037_000_500, -(2**31), 7]
REAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e308, -1.7976931348623157e308, 5e-324, -5e-324, 2.2250738585072014e-308, math.nan,
        math.inf, -math.inf, 1e16, 9.3e18, -9.3e18, 700.0, 709.8, -745.2, 1e-9, 123.456, 2**31 - 0.5, 32767.5,
        127.49999999999999, 255.5]
TEXT = ["", " ", "a", "A%b_c", "x" * 70_000, "ß", "İi̇", "日本語", "🦆👨\u200d👩\u200d👧", "e\u0301", "'; --", "\\", "%", "\n\t\r",
        "\ufeff", "1", "-7.5e3", "1e400", " 42 ", "nan", "infinity", "true", "2020-02-30", "2020-02-29", "0001-01-01",
        "infinity ", "294247-01-10", "12:00", "2020-01-01 25:00:00", "9" * 400, "0x1F", "1_000", "\x7f\x01", "NULL"]
DATES = ["0001-01-01", "9999-12-31", "infinity", "-infinity", "0044-03-15 (BC)", "290000-12-31", "5881580-07-10",
         "5877642-06-25 (BC)", "1582-10-10", "1970-01-01", "2020-02-29", "2000-12-31", "0201-01-01", "9000-01-01", "0200-12-31",
         "9000-01-02", "2019-12-30"]
TIMES = ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "9999-12-31 23:59:59", "infinity", "-infinity",
         "290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54.775806", "1969-12-31 23:59:59.999999", "2020-02-29 12:30:45.123456",
         "0201-01-01 00:00:00", "9000-01-01 00:00:00", "2016-12-31 23:59:59", "0000-12-31 23:59:59"]

COLUMNS: dict[str, Column] = {
    "big": Column("BIGINT", Facts(type=Type.BIGINT, physical=INT64, whole=True), BIG),
    "mid": Column("INTEGER", whole(31, -1000, 50_000), [0, 1, -1, 2**31 - 1, -(2**31), 7, 1000, -3]),
    "tiny": Column("TINYINT NOT NULL", Facts(type=Type.BIGINT, nullable=False, physical=Interval(-128, 127),
                                             declared=Interval(-3, 5), whole=True), [0, 1, -1, 127, -128]),
    "unsigned": Column("UINTEGER", Facts(type=Type.BIGINT, physical=Interval(0, 2**32 - 1), declared=Interval(0, 10), whole=True,
                                         domain=Domain(tuple(range(11)))), [0, 1, 2**32 - 1, 2**31]),
    "real": Column("DOUBLE", Facts(type=Type.DOUBLE), REAL),
    "small": Column("DOUBLE", Facts(type=Type.DOUBLE, declared=Interval(-3, 7.5)), REAL),
    "sure": Column("DOUBLE NOT NULL", Facts(type=Type.DOUBLE, nullable=False, declared=Interval(0.25, 1e6)), REAL),
    "floating": Column("FLOAT", Facts(type=Type.DOUBLE, declared=Interval(-1, 1)),
                       [0.0, 3.4028234663852886e38, math.nan, -math.inf]),
    "yes": Column("BOOLEAN", Facts(type=Type.BOOLEAN, domain=Domain((False, True))), [True, False]),
    "text": Column("VARCHAR", Facts(type=Type.VARCHAR), TEXT),
    "word": Column("VARCHAR NOT NULL", Facts(type=Type.VARCHAR, nullable=False, domain=Domain(("a", "b", "ß"))), TEXT),
    "day": Column("DATE", Facts(type=Type.DATE, declared=Interval(DAY(dt.date(1920, 1, 1)), DAY(dt.date(2020, 12, 31)))), DATES),
    "date": Column("DATE NOT NULL", Facts(type=Type.DATE, nullable=False), DATES),
    "time": Column("TIMESTAMP", Facts(type=Type.TIMESTAMP,
                                      declared=Interval(DAY(dt.date(2018, 1, 1)), DAY(dt.date(2021, 12, 31)))), TIMES),
    "moment": Column("TIMESTAMP", Facts(type=Type.TIMESTAMP), TIMES),
}
ENV: Mapping[str, Facts] = {name: column.facts for name, column in COLUMNS.items()}
NAMES = {name: f'"{name}"' for name in COLUMNS}
WIDENED = "SELECT " + ", ".join(
    f"CAST({NAMES[name]} AS {column.facts.type.value}) AS {NAMES[name]}" for name, column in COLUMNS.items()) + " FROM t"
ROWS = 40


# -- rows


def wild(draw: random.Random, name: str, extremes: Sequence[Any]) -> Any:
    return None if COLUMNS[name].facts.nullable and draw.random() < 0.1 else draw.choice(extremes)


def tame(draw: random.Random, name: str, extremes: Sequence[Any]) -> Any:
    """A value as the owner declares them: within the range or among the listed ones."""
    known = COLUMNS[name].facts
    if known.nullable and draw.random() < 0.1:
        return None
    if known.domain is not None:
        return draw.choice(known.domain.values)
    ends = known.declared
    match known.type:
        case Type.BIGINT:
            low, high = int(max(ends.low, known.physical.low)), int(min(ends.high, known.physical.high))
            return draw.choice([low, high, draw.randint(low, high), min(high, max(low, 0))])
        case Type.DOUBLE if ends.finite:
            return draw.choice([ends.low, ends.high, draw.uniform(ends.low, ends.high), min(ends.high, max(ends.low, 0.0)), 0.5])
        case Type.DATE | Type.TIMESTAMP if ends.finite:
            found = dt.date.fromordinal(draw.choice([int(ends.low), int(ends.high), draw.randint(int(ends.low), int(ends.high))]))
            if known.type is Type.DATE:
                return found
            return dt.datetime.combine(found, dt.time(*draw.choice([(0, 0), (23, 59, 59, 999_999), (12, 30)])))
    return draw.choice(extremes)


Values = Callable[[random.Random, str, Sequence[Any]], Any]


def table(draw: random.Random, value: Values, rows: int = ROWS) -> duckdb.DuckDBPyConnection:
    """A table of few or many extremes in each column: an engine plans by the least and the greatest value of a column."""
    extremes = {name: draw.sample(list(column.extremes), k=min(len(column.extremes), draw.choice([1, 2, 3, 99])))
                for name, column in COLUMNS.items()}
    connection = scratch()
    connection.execute(f"CREATE TABLE t ({', '.join(f'{NAMES[name]} {column.sql}' for name, column in COLUMNS.items())})")
    for _ in range(rows):
        row = [value(draw, name, extremes[name]) for name in COLUMNS]
        casts = ", ".join(f"CAST(? AS {column.sql.split()[0]})" for column in COLUMNS.values())
        connection.execute(f"INSERT INTO t VALUES ({casts})", row)
    return connection


# -- expressions


class Maker:
    """Random expressions of a wanted type, made the way the binder makes them."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.by_result: dict[Type, list[tuple[str, Overload]]] = {kind: [] for kind in Type}
        for name, rows in FUNCTIONS.items():
            for row in rows:
                self.by_result[row.result].append((name, row))

    def make(self, kind: Type, depth: int) -> Expr:
        while True:
            try:
                made = self._try(kind, depth)
                facts(made, ENV)
            except (SqlError, NotTotal):
                continue
            if made.type is kind:
                return made

    def _try(self, kind: Type, depth: int) -> Expr:
        draw = self.draw
        if depth == 0 or draw.random() < 0.12:
            if draw.random() < 0.25:
                return self.literal(kind)
            return Ref(column=draw.choice([name for name, column in COLUMNS.items() if column.facts.type is kind]), type=kind)
        pick = draw.random()
        if pick < 0.1:
            branches = [(self.make(Type.BOOLEAN, depth - 1), self.make(kind, depth - 1)) for _ in range(draw.randint(1, 2))]
            return typing.case(branches, self.make(kind, depth - 1) if draw.random() < 0.7 else None, None)
        if pick < 0.22:
            targets = [name for name, (carrier, _) in CARRIER.items() if carrier is kind]
            if kind is Type.DOUBLE:
                targets += ["DECIMAL(18,3)", "DECIMAL(38,9)", "DECIMAL(4,0)", "DECIMAL(1,1)"]
            return Cast(input=self.make(draw.choice(list(Type)), depth - 1), target=draw.choice(targets), type=kind)
        if pick < 0.26 and kind is Type.BOOLEAN:
            subject = self.make(draw.choice(list(Type)), depth - 1)
            return typing.membership(subject, [self.literal(subject.type) for _ in range(draw.randint(1, 4))], ENV, None)
        name, row = draw.choice(self.by_result[kind])
        kinds = list(row.args) + ([row.args[-1]] * draw.randint(0, 2) if row.variadic else [])
        args = [self.constant(name, i, part) if i in row.constants else self.make(part, depth - 1)
                for i, part in enumerate(kinds)]
        return typing.call(name, args, ENV, None)

    def constant(self, name: str, at: int, kind: Type) -> Expr:
        draw = self.draw
        if name.startswith("regexp_replace") and at == 2:
            value: Value = draw.choice(["y", "", r"\0", r"<\1>", r"\\1", r"\2\1\2", "日", r"\0\0\0"])
        elif name.startswith("regexp"):
            value = draw.choice(["a", "^.*$", "[a-z]+", "(x|y)*", "(.)(.?)", "((a))|([(]+)", r"\d{2,4}", ".", "", "日", r"\p{L}+"])
        elif name.endswith("_escape"):
            value = draw.choice(["a!%", "!!", "_!_%", "", "a"]) if at == 1 else "!"
        elif name == "strftime":
            value = draw.choice(["%Y-%m", "%Y%m%d %H:%M:%S", "%y %j %b %B %a %A %w %u %U %W %V %G %p %I %%", "é", "%"])
        elif name == "replace":
            value = draw.choice(["aa", "日本", "%%%"]) if at == 1 else draw.choice(["", "b", "🦆"])
        elif name in ("lpad", "rpad") and kind is Type.BIGINT:
            value = draw.choice([0, 1, 3, 1000])
        elif name in ("lpad", "rpad"):
            value = draw.choice([".", "🦆", "e\u0301x"])
        elif name.startswith("time_bucket"):
            value = draw.choice([1, 2, 3, 7, 15, 1200])
        elif kind is Type.BIGINT:
            value = draw.choice([0, 1, 2, 3, -1, 15, 16, 1200, -1200, 10_000, -10_000, 36_500, -36_500])
        elif kind is Type.DOUBLE:
            value = draw.choice([0.0, 1.0, 2.0, 3.0, -1.0, -3.0, 0.5, -0.5, 1e3, 1 / 3, 1e300, math.inf, -math.inf, math.nan])
        else:
            return self.literal(kind)
        return Literal(value=value, type=kind)

    def literal(self, kind: Type) -> Expr:
        draw = self.draw
        if draw.random() < 0.06:
            return Literal(value=None, type=kind)
        match kind:
            case Type.BOOLEAN:
                value: Value = draw.random() < 0.5
            case Type.BIGINT:
                value = draw.choice([*BIG, draw.randint(-10, 10), draw.randint(-(2**40), 2**40)])
            case Type.DOUBLE:
                value = draw.choice([*REAL, draw.uniform(-10, 10)])
            case Type.VARCHAR:
                value = draw.choice([text for text in TEXT if len(text) < 500])
            case Type.DATE:
                value = draw.choice([dt.date.min, dt.date.max, dt.date(2020, 2, 29),
                                     dt.date.fromordinal(draw.randint(1, 3_000_000))])
            case Type.TIMESTAMP:
                value = draw.choice([dt.datetime.min, dt.datetime.max, dt.datetime(2020, 2, 29, 1, 2, 3, 4)])
        return Literal(value=value, type=kind)


# -- evaluation and checks


def evaluate(connection: duckdb.DuckDBPyConnection, exprs: Sequence[Expr]) -> list[tuple[Any, ...]]:
    """The values of expressions; moments as text, as Python cannot hold them all, and texts in short.

    Names the expression that raises.
    """
    shown = {Type.DATE: "CAST({} AS VARCHAR)", Type.TIMESTAMP: "CAST({} AS VARCHAR)", Type.VARCHAR: "left({}, 40)"}
    columns = [shown.get(expr.type, "{}").format(to_sql(expr, NAMES)) for expr in exprs]
    try:
        return connection.execute(f"SELECT {', '.join(columns)} FROM ({WIDENED}) AS t0").fetchall()
    except duckdb.Error as fault:
        if len(exprs) == 1:
            pytest.fail(f"raises: {show(exprs[0], {})}\n{columns[0]}\n{fault}")
    half = len(exprs) // 2
    parts = [evaluate(connection, exprs[:half]), evaluate(connection, exprs[half:])]
    return [a + b for a, b in zip(*parts, strict=True)]


def day_of(text: str) -> int | None:
    """The day number of a date or moment within the years that Python knows."""
    try:
        return dt.date.fromisoformat(text[:10]).toordinal() if "BC" not in text and text[4] == "-" else None
    except ValueError:
        return None


def number_of(value: Any, kind: Type) -> float | None:
    if value is None or kind in (Type.BOOLEAN, Type.VARCHAR):
        return None
    return day_of(value) if kind.temporal else value


def check(expr: Expr, known: Facts, value: Any, *, declared: bool) -> None:
    """A value against what is derived of it."""
    assert value is not None or known.nullable, "NULL where there is none"
    if value is None:
        return
    if known.type is Type.BIGINT:
        assert isinstance(value, int) and INT64.low <= value <= INT64.high
        assert known.physical.low <= value <= known.physical.high, f"{value} is out of {known.physical}"
    if known.whole and known.type is Type.DOUBLE and math.isfinite(value):
        assert value == math.floor(value), f"{value} is not whole"
    if known.step is not None and math.isfinite(value):
        nearest = float(round(Fraction(value) / known.step) * known.step)
        assert math.isclose(value, nearest, rel_tol=1e-15, abs_tol=1e-18), f"{value} is no multiple of {known.step}"
    number = number_of(value, known.type)
    if declared and number is not None:
        slack = 1e-9 * max(1.0, abs(number)) if known.type is Type.DOUBLE and math.isfinite(number) else 0
        if not math.isnan(number):  # which counts as missing
            assert known.declared.low - slack <= number <= known.declared.high + slack, f"{number} is out of {known.declared}"
    if declared and known.domain is not None:
        assert value in known.domain.values, f"{value!r} is not in the domain"


def run(seed: int, count: int, value: Values, *, declared: bool) -> None:
    draw = random.Random(seed)
    maker, kinds = Maker(draw), list(Type)
    while count > 0:
        connection = table(draw, value)
        exprs = [maker.make(draw.choice(kinds), draw.choice([1, 2, 2, 3, 3])) for _ in range(min(count, 250))]
        count -= len(exprs)
        known = [facts(expr, ENV) for expr in exprs]
        rows = evaluate(connection, exprs)
        for i, (expr, found) in enumerate(zip(exprs, known, strict=True)):
            assert found.type is expr.type
            for row in rows:
                try:
                    check(expr, found, row[i], declared=declared)
                except AssertionError as fault:
                    pytest.fail(f"{show(expr, {})}\nderived {found}\n{to_sql(expr, NAMES)}\n{fault}")
            if expr.type is Type.BOOLEAN and i % 5 == 0:
                assert filtered(connection, expr) == sum(row[i] is True for row in rows), show(expr, {})
        connection.close()


def filtered(connection: duckdb.DuckDBPyConnection, condition: Expr) -> int:
    """How many rows a condition lets pass where it is pushed towards the table."""
    found = connection.execute(f"SELECT COUNT(*) FROM ({WIDENED}) AS t0 WHERE {to_sql(condition, NAMES)}").fetchall()
    return int(found[0][0])


@pytest.mark.slow
def test_no_expression_raises_and_physical_facts_hold_on_extreme_rows(effort: float) -> None:
    run(1, round(3500 * effort), wild, declared=False)


@pytest.mark.slow
def test_declared_ranges_hold_where_columns_keep_theirs(effort: float) -> None:
    run(2, round(2500 * effort), tame, declared=True)


def test_every_function_is_tried_on_every_extreme() -> None:
    """Each overload with plain columns, that hold one extreme each in turn, so that no function is left to chance."""
    draw = random.Random(3)
    maker, tried, exprs = Maker(draw), 0, []
    for name, rows in FUNCTIONS.items():
        for row in rows:
            columns = [[column for column, known in ENV.items() if known.type is kind] for kind in row.args]
            for _ in range(2):
                args = [maker.constant(name, i, kind) if i in row.constants else Ref(column=draw.choice(columns[i]), type=kind)
                        for i, kind in enumerate(row.args)]
                with contextlib.suppress(SqlError):
                    exprs.append(typing.call(name, args, ENV, None))
                    tried += 1
    known = [facts(expr, ENV) for expr in exprs]
    for at in range(max(len(column.extremes) for column in COLUMNS.values())):
        connection = table(draw, lambda _, name, extremes: COLUMNS[name].extremes[at % len(COLUMNS[name].extremes)], 2)  # noqa: B023
        fresh = [i for i, expr in enumerate(exprs) if any(at < len(COLUMNS[name].extremes) for name in columns_of(expr))]
        for start in range(0, len(fresh), 300):
            part = fresh[start:start + 300]
            for i, value in zip(part, evaluate(connection, [exprs[i] for i in part])[0], strict=True):
                check(exprs[i], known[i], value, declared=False)
        connection.close()
    assert {part.function for expr in exprs for part in walk(expr) if isinstance(part, Call)} == set(FUNCTIONS)
    assert tried > 2 * 100


SIGNS = [*"aAkKiIxX!%_\\.*+?()[]{}|^$01-,' \n\x01", "İ", "ß", "\u212a", "é", "\u0301", "🦆", "ǅ", "%Y", "%j", "%%"]
"""Of constants: letters whose other case is one of them, and what means something to somebody."""


def test_no_constant_that_is_accepted_raises(effort: float) -> None:
    """Constants at random. An engine may change them before it reads them, as ILIKE does to a pattern and its sign of escape, and
    raises then on the first row that gets far enough."""
    draw = random.Random(4)
    taking = [(name, row) for name, rows in FUNCTIONS.items() if not name.startswith("regexp") for row in rows
              if any(row.args[i] is Type.VARCHAR for i in row.constants)]
    exprs = []
    for _ in range(round(8000 * effort)):
        name, row = draw.choice([pair for pair in taking if "escape" in pair[0]] if draw.random() < 0.5 else taking)
        args = [_any_constant(draw, kind) if i in row.constants else Ref(column={
            Type.VARCHAR: "text", Type.DATE: "date", Type.TIMESTAMP: "moment"}[kind], type=kind) for i, kind in enumerate(row.args)]
        with contextlib.suppress(SqlError):
            exprs.append(typing.call(name, args, ENV, None))
    assert {part.function for part in exprs if isinstance(part, Call)} == {name for name, _ in taking}
    connection = table(draw, lambda draw, name, extremes: "".join(draw.choices(SIGNS, k=2)) if name == "text" else wild(
        draw, name, extremes), 300)
    for start in range(0, len(exprs), 250):
        evaluate(connection, exprs[start:start + 250])


PATTERNS = [".", "a", "é", "İ", r"\C", r"\\", "C", r"\b", r"\B", "^", "$", "(", ")", "(a)", "|", "*", "?", "{2}", "[^a]", "(?i)", "(?s)", r"\pL",
            r"\Q", r"\E", r"\x{e9}", r"\xc3", r"[[:alpha:]]", "\x00"]


def test_no_regular_expression_that_is_accepted_raises(effort: float) -> None:
    """Of those that the engine reads. It finds parts of letters in some, and raises where what it finds or leaves is none."""
    draw = random.Random(8)
    taking = [(name, row) for name, rows in FUNCTIONS.items() if name.startswith("regexp") for row in rows]
    scratch_of_patterns, exprs = DuckScratch(), []
    for _ in range(round(3000 * effort)):
        pattern = "".join(draw.choices(PATTERNS, k=draw.choice([1, 2, 3, 4])))
        if not scratch_of_patterns.compiles(pattern):
            continue
        name, row = draw.choice(taking)
        constants = [Literal(value=pattern, type=Type.VARCHAR), _any_constant(draw, row.args[-1])]
        with contextlib.suppress(SqlError):
            exprs.append(typing.call(name, [Ref(column="text", type=Type.VARCHAR), *constants[:len(row.args) - 1]], ENV, None))
    scratch_of_patterns.close()
    assert {part.function for part in exprs if isinstance(part, Call)} == {name for name, _ in taking}
    connection = table(draw, lambda draw, name, extremes: "".join(draw.choices(["a", "é", "日", "🦆", "\u0301", "C", "\n"], k=3)) if (
        name == "text") else wild(draw, name, extremes), 300)
    for start in range(0, len(exprs), 250):
        evaluate(connection, exprs[start:start + 250])


def _any_constant(draw: random.Random, kind: Type) -> Expr:
    value: Value = "".join(draw.choices(SIGNS, k=draw.choice([1, 1, 2, 2, 3]))) if kind is Type.VARCHAR else draw.choice([0, 1, 3])
    return Literal(value=value, type=kind)


def test_long_texts_are_cut_before_they_are_joined() -> None:
    """Joined a thousand times over, a long text would not fit an engine, and the fault would tell that there is one."""
    env, text = {"text": Facts(type=Type.VARCHAR)}, Ref(column="text", type=Type.VARCHAR)

    def joined(times: int) -> Expr:
        return text if times == 1 else typing.call("||", [joined(times // 2), joined(times - times // 2)], env, None)

    connection = scratch()
    connection.execute("CREATE TABLE t AS SELECT repeat('x', 1000000) AS text UNION ALL SELECT 'y'")
    found = connection.execute(f"SELECT length({to_sql(joined(3000), {'text': 'text'})}) FROM t ORDER BY 1").fetchall()
    assert found == [(3000,), (2 * LONGEST,)]


def test_long_texts_are_cut_before_much_is_put_in() -> None:
    """Between any two letters twenty others: what comes of the longest text takes no more room than two that are joined, nearly."""
    env, text = {"text": Facts(type=Type.VARCHAR)}, Ref(column="text", type=Type.VARCHAR)
    constants = [Literal(value=value, type=Type.VARCHAR) for value in ("", "y" * 20)]
    replaced = typing.call("regexp_replace_all", [text, *constants], env, None)
    connection = scratch()
    connection.execute("CREATE TABLE t AS SELECT repeat('x', 1000000) AS text UNION ALL SELECT 'xx'")
    found = connection.execute(f"SELECT length({to_sql(replaced, {'text': 'text'})}) FROM t ORDER BY 1").fetchall()
    assert found == [(62,), (21 * LONGEST // 16 + 20,)]


def test_no_group_is_put_in_that_a_pattern_does_not_have(effort: float) -> None:
    """DuckDB raises for those at the first row: whatever brackets stand for in a pattern, it never counts fewer groups."""
    draw, connection, tried = random.Random(3), scratch(), 0
    signs = ["(", ")", "(", ")", "(?:", "(?P<n>", "[", "]", "^", "\\", "[:alpha:]", "|", "*", "a", "Q", "E", "?", "{2}", "-", ":", "(?i)"]
    row = FUNCTIONS["regexp_replace"][0]
    assert row.accepts is not None
    for _ in range(int(30_000 * effort)):
        pattern = "".join(draw.choices(signs, k=draw.randint(1, 9)))
        for new in (r"\1", r"\2\\3"):
            if row.accepts((pattern, new)) == "":
                with contextlib.suppress(duckdb.InvalidInputException):
                    connection.execute("SELECT regexp_matches('', ?)", [pattern])
                    tried += 1
                    connection.execute("CREATE OR REPLACE TABLE r AS SELECT ? AS pattern, ? AS new", [pattern, new])
                    raised = connection.execute("SELECT TRY(regexp_replace('', pattern, new)) IS NULL FROM r").fetchone()
                    assert raised == (False,), (pattern, new)
    assert tried > 300 * effort


def test_ranges_of_any_size_are_worked_out() -> None:
    """Products of large ranges end at infinity, and not in a fault."""
    x: Expr = Literal(value=2**62, type=Type.BIGINT)
    product: Expr = Cast(input=x, target="DOUBLE", type=Type.DOUBLE)
    for _ in range(6):
        product = typing.call("*", [product, product], {}, None)
        floor = typing.call("floor", [product], {}, None)
        for name in ("+", "-", "*", "/", "%"):
            facts(typing.call(name, [floor, product], {}, None), {})
            facts(typing.call(name, [product, Literal(value=1e308, type=Type.DOUBLE)], {}, None), {})
        facts(Cast(input=floor, target="DECIMAL(18,3)", type=Type.DOUBLE), {})
        facts(Cast(input=floor, target="FLOAT", type=Type.DOUBLE), {})
    assert facts(product, {}).declared.high == math.inf
