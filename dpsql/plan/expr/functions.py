"""The table of scalar functions: how each is written, what it accepts, what is known of its values, and how it is printed so that
it is total.

To add a function, add one row to `TABLE`, under its name in SQL:

    "asinh": _row("asinh(cost)", overloads=_real("asinh({0})", iv.monotone(math.asinh))),

then run `python -m tests.support.function_table`, which writes the words of `grammar/expr.lark` and the table of
`grammar/README.md`. All else follows from the row: `sql/text/syntax.py` finds what sqlglot makes of each word(a, b) among the
ways in which it is written, so that the allowlist takes it and the binder binds it, and mistyped names are corrected to it; tests
bind and run every way, print every overload over extreme rows, and try it on neighbouring tables. Where sqlglot's node holds
more than the arguments in their order (trim, log), or the function is an operator, `sql/text/border.py` accepts the node and
`sql/binding/expressions.py` has a clause for it; where these are missing, the tests of the row fail. The row holds names only,
as this room is trusted and sqlglot is not. What is sent to the engine is the template: show, by the rule below, that it raises
for no row, and by `range` where its values lie; extreme rows try both in tests, and nothing checks them when statements run.

A function that is not in the table is refused. Each way to call one is an `Overload`; the guarded templates follow one
rule: *whatever the arguments hold, the printed expression does not raise* (NULL stands where the plain function would raise,
overflow or be undefined). Integer arithmetic stays in 64 bits only where `proved` shows from the physical ranges of the
arguments that it cannot leave them; otherwise the binder takes the DOUBLE overload. An engine may evaluate an expression on rows
that a condition leaves out, so these ranges follow from the expression's own text and the stored types; and as a second wall each
such operation stands in a TRY of its own, which gives NULL where a range was wrong. One TRY around several would be none: where
two of them share a part, DuckDB works that part out beforehand, outside of both.

Changes against plain DuckDB, all documented in the grammar's README: x / 0 and x % 0 are NULL; logarithms, roots and powers
outside their domain are NULL; impossible casts are NULL; exp of more than 700 is NULL; dates outside the years 1 to 9999 are
NULL under date functions; texts of more than 65536 characters are cut before they are joined.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpsql.plan.expr import intervals as iv
from dpsql.plan.expr.nodes import Value
from dpsql.types import ANY_NUMBER, Interval, Type

BOOLEAN, BIGINT, DOUBLE, VARCHAR = Type.BOOLEAN, Type.BIGINT, Type.DOUBLE, Type.VARCHAR
DATE, TIMESTAMP = Type.DATE, Type.TIMESTAMP

# Texts are cut to so many characters before they are joined: joined often enough, long ones would be too long for an engine.
LONGEST = 2**16

# One bit is left free, so that one more addition by a backend's own rewriting could not overflow either.
SAFE_INTEGERS = Interval(-(2**62), 2**62)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overload:
    """One way to call a function.

    args       the argument types; with `variadic` the last one repeats
    result     the type of the value
    sql        the guarded template; ``{0}``, ``{1}`` are the printed arguments, ``{all}`` all of them with commas
    range      the interval of the value from those of the arguments
    strict     NULL in any argument gives NULL
    undefined  the guard may give NULL although no argument is NULL
    whole      the value is a whole number even where its type is DOUBLE
    constants  positions of arguments that must be literals
    accepts    a check of those literals; returns what is wrong, or an empty string
    proved     whether 64 bits hold the value, from the physical ranges of the arguments
    """

    args: tuple[Type, ...]
    result: Type
    sql: str
    variadic: bool = False
    range: iv.Rule = iv.anything
    null_skipping_range: Callable[[tuple[Interval, ...], tuple[bool, ...]], Interval] | None = None
    strict: bool = True
    undefined: bool = False
    whole: bool = False
    constants: tuple[int, ...] = ()
    accepts: Callable[[Sequence[Value]], str] | None = None
    proved: Callable[..., bool] | None = None

    def matches(self, types: Sequence[Type]) -> bool:
        if self.variadic:
            return len(types) >= len(self.args) and all(
                given is self.args[min(i, len(self.args) - 1)] for i, given in enumerate(types))
        return tuple(types) == self.args

    def print(self, args: Sequence[str]) -> str:
        return self.sql.format(*args, all=", ".join(args))


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A row of the table.

    written    conditions and values that call it, over the tables of `tests/support/worlds.py`: every way in which it is written,
               as `word(a, b)` or otherwise; none for what no text can ask for
    overloads  what it accepts, and what is known of it
    family     the entry of the grammar's README that it shares with others; empty for an entry of its own
    """

    written: tuple[str, ...]
    overloads: tuple[Overload, ...]
    family: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """The words before a bracket in the ways in which it is written."""
        return tuple(dict.fromkeys(found[1] for way in self.written if (found := re.match(r"(\w+)\(", way))))

    @property
    def calls(self) -> tuple[tuple[str, int], ...]:
        """Of the ways in which it is written, each word(a, b) whose arguments are those of an overload: word and their number."""
        found = [(call[1], call[2].count(", ") + 1) for way in self.written if (call := _CALL.fullmatch(way))]
        return tuple((word, count) for word, count in dict.fromkeys(found) if any(
            len(row.args) == count or (row.variadic and len(row.args) <= count) for row in self.overloads))


_CALL = re.compile(r"(\w+)\(({0}(?:, {0})*)\)".format(r"(?:\w+|'[^',]*')"))


def _row(*written: str, overloads: tuple[Overload, ...], family: str = "") -> Function:
    return Function(written=written, overloads=overloads, family=family)


def _fits(rule: iv.Rule) -> Callable[..., bool]:
    return lambda *ranges: rule(*ranges).inside(SAFE_INTEGERS)


def _divides(dividend: Interval, divisor: Interval) -> bool:
    """Of all whole divisors -1 alone, which makes the lowest of the numbers one too high, leads out of 64 bits."""
    return dividend.inside(SAFE_INTEGERS) or not divisor.low <= -1 <= divisor.high


def _arithmetic(symbol: str, rule: iv.Rule) -> tuple[Overload, ...]:
    text = "({0} " + symbol + " {1})"
    return (Overload(args=(BIGINT, BIGINT), result=BIGINT, sql="TRY" + text, range=rule, proved=_fits(rule)),
            Overload(args=(DOUBLE, DOUBLE), result=DOUBLE, sql=text, range=rule))


def _comparison(symbol: str, *, strict: bool = True) -> tuple[Overload, ...]:
    return tuple(Overload(args=(kind, kind), result=BOOLEAN, sql="({0} " + symbol + " {1})", strict=strict) for kind in Type)


def _whole_number(rule: iv.Rule, sql: str) -> tuple[Overload, ...]:
    """floor and its like: nothing to do for integers."""
    return (Overload(args=(BIGINT,), result=BIGINT, sql="{0}", range=iv.first),
            Overload(args=(DOUBLE,), result=DOUBLE, sql=sql, range=rule, whole=True))


def _real(sql: str, rule: iv.Rule, *, undefined: bool = False) -> tuple[Overload, ...]:
    return (Overload(args=(DOUBLE,), result=DOUBLE, sql=sql, range=rule, undefined=undefined),)


def _text(sql: str, *extra: Type, result: Type = VARCHAR, rule: iv.Rule = iv.constant(-math.inf, math.inf),
          accepts: Callable[[Sequence[Value]], str] | None = None) -> tuple[Overload, ...]:
    return (Overload(args=(VARCHAR, *extra), result=result, sql=sql, range=rule,
                     constants=tuple(range(1, 1 + len(extra))), accepts=accepts),)


def _no_null(values: Sequence[Value]) -> str:
    return "NULL is not a constant that can be used here" if any(value is None for value in values) else ""


def _bounded_integer(low: int, high: int) -> Callable[[Sequence[Value]], str]:
    def accepts(values: Sequence[Value]) -> str:
        fine = all(isinstance(value, int) and low <= value <= high for value in values)
        return "" if fine else f"a whole number between {low} and {high} is needed here"
    return accepts


_FIRST_DAY, _LAST_DAY = "DATE '0001-01-01'", "DATE '9999-12-31'"
_FIRST_TIME, _LAST_TIME = "TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '9999-12-31 23:59:59'"


def _guard_time(kind: Type, body: str, *positions: int) -> str:
    first, last = (_FIRST_DAY, _LAST_DAY) if kind is DATE else (_FIRST_TIME, _LAST_TIME)
    test = " AND ".join(f"({{{i}}} >= {first}) AND ({{{i}}} <= {last})" for i in positions)
    return f"CASE WHEN {test} THEN {body} END"


def _weekly(unit: str, kind: Type) -> str:
    """The argument of a function of weeks.

    DuckDB works such a function out for the least date of a column while it plans, beyond any guard, and it raises for the
    first dates there are. It knows no least moment where that date is none.
    """
    return "CAST({0} AS TIMESTAMP)" if unit == "week" and kind is DATE else "{0}"


def _part(name: str, low: int, high: int, *, of: tuple[Type, ...] = (DATE, TIMESTAMP)) -> tuple[Overload, ...]:
    rule = _year_range if name == "year" else iv.constant(low, high)
    return tuple(Overload(args=(kind,), result=BIGINT, undefined=True, range=rule,
                          sql="(" + _guard_time(kind, f"CAST({name}({_weekly(name, kind)}) AS BIGINT)", 0) + ")") for kind in of)


def day_number(value: dt.date) -> int:
    """The number that stands for a date or the day of a timestamp in intervals."""
    return value.toordinal()


def _year_range(days: Interval) -> Interval:
    def year(day: float) -> int:
        return dt.date.fromordinal(int(min(max(day, 1), dt.date.max.toordinal()))).year
    return Interval(year(days.low), year(days.high))


HELD = "held within"  # a whole number between two constants, NULL beyond them: for numbers that conditions hold there
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


def _truncations() -> dict[str, Function]:
    """date_trunc and date_diff with their unit in the name, as the unit must be a constant."""
    table: dict[str, Function] = {}
    for unit in UNITS:
        table[f"date_trunc_{unit}"] = _row(f"date_trunc('{unit}', seen)", family="date_trunc_*", overloads=tuple(
            Overload(args=(kind,), result=TIMESTAMP, undefined=True, range=_trunc_range,
                     sql="(" + _guard_time(kind, f"CAST(date_trunc('{unit}', {_weekly(unit, kind)}) AS TIMESTAMP)", 0) + ")")
            for kind in (DATE, TIMESTAMP)))
        written = (f"date_diff('{unit}', born, seen)", f"datediff('{unit}', born, seen)")
        table[f"date_diff_{unit}"] = _row(*written, family="date_diff_*", overloads=tuple(
            Overload(args=(kind, kind), result=BIGINT, undefined=True, range=_diff_range(unit),
                     sql="(" + _guard_time(kind, f"date_diff('{unit}', {{0}}, {{1}})", 0, 1) + ")")
            for kind in (DATE, TIMESTAMP)))
    for unit in ("day", "week", "month", "year"):
        # The guard keeps a century of room at both ends, more than the largest constant step can cross.
        written = (f"seen + INTERVAL 3 {unit.upper()}", f"born - INTERVAL 2 {unit.upper()}")
        table[f"add_{unit}s"] = _row(*written, family="add_*", overloads=tuple(
            Overload(args=(kind, BIGINT), result=TIMESTAMP, undefined=True, constants=(1,), range=_shift_range(unit),
                     accepts=_bounded_integer(-1200, 1200),
                     sql=f"(CASE WHEN ({{0}} >= {word} '0201-01-01') AND ({{0}} <= {word} '9000-01-01') "
                         f"THEN CAST(({{0}} + to_{unit}s(CAST({{1}} AS INTEGER))) AS TIMESTAMP) END)")
            for kind, word in ((DATE, "DATE"), (TIMESTAMP, "TIMESTAMP"))))
    return table


def _trunc_range(days: Interval) -> Interval:
    return Interval(days.low - 366, days.high)


def _diff_range(unit: str) -> iv.Rule:
    shortest, longest = {"year": (365, 366), "quarter": (90, 92), "month": (28, 31), "week": (7, 7)}.get(unit, (1, 1))
    per_day = {"hour": 24, "minute": 1440, "second": 86400}.get(unit, 1)

    def rule(a: Interval, b: Interval) -> Interval:
        gap = iv.subtract(b, a)
        if per_day > 1:  # ends are days, so that times may lie almost a day further apart
            gap = Interval(gap.low - 1, gap.high + 1)
        low, high = gap.low / (longest if gap.low > 0 else shortest), gap.high / (shortest if gap.high > 0 else longest)
        return iv.outward(Interval(low * per_day - 1, high * per_day + 1))

    return rule


def _shift_range(unit: str) -> iv.Rule:
    longest = {"day": 1, "week": 7, "month": 31, "year": 366}[unit]
    return lambda days, steps: iv.add(days, iv.multiply(steps, Interval(0, longest)))


TABLE: dict[str, Function] = {
    # truth values
    "and": _row("active AND sex = 'f'",
        overloads=(Overload(args=(BOOLEAN, BOOLEAN), result=BOOLEAN, sql="({0} AND {1})", strict=False),)),
    "or": _row("active OR sex = 'f'",
        overloads=(Overload(args=(BOOLEAN, BOOLEAN), result=BOOLEAN, sql="({0} OR {1})", strict=False),)),
    "not": _row("NOT active", overloads=(Overload(args=(BOOLEAN,), result=BOOLEAN, sql="(NOT {0})"),)),
    "=": _row("age = 30", "age == 30", overloads=_comparison("=")),
    "<>": _row("age <> 30", "age != 30", overloads=_comparison("<>")),
    "<": _row("age < 30", overloads=_comparison("<")),
    "<=": _row("age <= 30", overloads=_comparison("<=")),
    ">": _row("age > 30", overloads=_comparison(">")),
    ">=": _row("age >= 30", overloads=_comparison(">=")),
    "is distinct from": _row("sex IS DISTINCT FROM 'f'", overloads=_comparison("IS DISTINCT FROM", strict=False)),
    "is not distinct from": _row("sex IS NOT DISTINCT FROM 'f'", "active IS TRUE",
        overloads=_comparison("IS NOT DISTINCT FROM", strict=False)),
    "is null": _row("sex IS NULL",
        overloads=tuple(Overload(args=(kind,), result=BOOLEAN, sql="({0} IS NULL)", strict=False) for kind in Type)),
    "is not null": _row("sex IS NOT NULL",
        overloads=tuple(Overload(args=(kind,), result=BOOLEAN, sql="({0} IS NOT NULL)", strict=False) for kind in Type)),
    # NULL
    "coalesce": _row("coalesce(sex, '?')", "ifnull(sex, '?')",
        overloads=tuple(Overload(args=(kind, kind), variadic=True, result=kind, sql="COALESCE({all})", strict=False,
                                 range=iv.hull) for kind in Type)),
    "nullif": _row("nullif(age, 0)",
        overloads=tuple(Overload(args=(kind, kind), result=kind, sql="NULLIF({0}, {1})", strict=False, undefined=True,
                                 range=iv.first) for kind in Type)),
    "least": _row("least(age, 50)",
        overloads=tuple(Overload(args=(kind, kind), variadic=True, result=kind, sql="LEAST({all})", strict=False,
                                 null_skipping_range=iv.least) for kind in Type if kind is not BOOLEAN)),
    "greatest": _row("greatest(age, 18)",
        overloads=tuple(Overload(args=(kind, kind), variadic=True, result=kind, sql="GREATEST({all})", strict=False,
                                 null_skipping_range=iv.greatest) for kind in Type if kind is not BOOLEAN)),
    # numbers
    "+": _row("age + 1", overloads=_arithmetic("+", iv.add)),
    "-": _row("age - 1", overloads=_arithmetic("-", iv.subtract)),
    "*": _row("age * 2", overloads=_arithmetic("*", iv.multiply)),
    "/": _row("age / 2",
        overloads=(Overload(args=(DOUBLE, DOUBLE), result=DOUBLE, sql="({0} / NULLIF({1}, CAST(0 AS DOUBLE)))", range=iv.divide,
                            undefined=True),)),
    "//": _row("age // 10",
        overloads=(Overload(args=(BIGINT, BIGINT), result=BIGINT, sql="TRY({0} // NULLIF({1}, CAST(0 AS BIGINT)))",
                            range=iv.integer_divide, undefined=True, proved=_divides),)),
    "%": _row("age % 10", "mod(age, 10)",
        overloads=(Overload(args=(BIGINT, BIGINT), result=BIGINT, sql="TRY({0} % NULLIF({1}, CAST(0 AS BIGINT)))",
                            range=iv.modulo, undefined=True, proved=_divides),
                   Overload(args=(DOUBLE, DOUBLE), result=DOUBLE, sql="({0} % NULLIF({1}, CAST(0 AS DOUBLE)))", range=iv.modulo,
                            undefined=True))),
    "negate": _row("-age",
        overloads=(Overload(args=(BIGINT,), result=BIGINT, sql="TRY(-{0})", range=iv.negate, proved=_fits(iv.negate)),
                   Overload(args=(DOUBLE,), result=DOUBLE, sql="(-{0})", range=iv.negate))),
    "abs": _row("abs(age)",
        overloads=(Overload(args=(BIGINT,), result=BIGINT, sql="TRY(abs({0}))", range=iv.absolute, proved=_fits(iv.absolute)),
                   Overload(args=(DOUBLE,), result=DOUBLE, sql="abs({0})", range=iv.absolute))),
    HELD: _row(overloads=(
        Overload(args=(BIGINT, BIGINT, BIGINT), result=BIGINT, constants=(1, 2), range=iv.held, accepts=_no_null,
                 sql="(CASE WHEN ({0} >= {1}) AND ({0} <= {2}) THEN {0} END)"),)),
    "sign": _row("sign(age)",
        overloads=tuple(Overload(args=(kind,), result=BIGINT, sql="CAST(sign({0}) AS BIGINT)", range=iv.constant(-1, 1))
                        for kind in (BIGINT, DOUBLE))),
    "floor": _row("floor(cost)", overloads=_whole_number(iv.rounded(math.floor), "floor({0})")),
    "ceil": _row("ceil(cost)", "ceiling(cost)", overloads=_whole_number(iv.rounded(math.ceil), "ceil({0})")),
    "trunc": _row("trunc(cost)", overloads=_whole_number(iv.rounded(math.trunc), "trunc({0})")),
    "round": _row("round(cost)", "round(cost, 1)",
        overloads=(*_whole_number(iv.outward, "round({0})"),
                   Overload(args=(DOUBLE, BIGINT), result=DOUBLE, sql="round({0}, CAST({1} AS INTEGER))", range=iv.round_to,
                            constants=(1,), accepts=_bounded_integer(0, 15)))),
    "sqrt": _row("sqrt(cost)",
        overloads=_real("(CASE WHEN {0} >= CAST(0 AS DOUBLE) THEN sqrt({0}) END)", iv.monotone(math.sqrt, 0), undefined=True)),
    "cbrt": _row("cbrt(cost)", overloads=_real("cbrt({0})", iv.monotone(math.cbrt))),
    "ln": _row("ln(cost)", "log(3, cost)",
        overloads=_real("(CASE WHEN {0} > CAST(0 AS DOUBLE) THEN ln({0}) END)", iv.monotone(lambda x: math.log(x), 0),
                        undefined=True)),
    "log10": _row("log10(cost)", "log(cost)", "log(10, cost)",
        overloads=_real("(CASE WHEN {0} > CAST(0 AS DOUBLE) THEN log10({0}) END)", iv.monotone(math.log10, 0), undefined=True)),
    "log2": _row("log2(cost)", "log(2, cost)",
        overloads=_real("(CASE WHEN {0} > CAST(0 AS DOUBLE) THEN log2({0}) END)", iv.monotone(math.log2, 0), undefined=True)),
    "exp": _row("exp(cost)",
        overloads=_real("(CASE WHEN {0} < CAST(700 AS DOUBLE) THEN exp({0}) END)",
                        iv.monotone(lambda x: math.exp(x) if x > -700 else 0.0, -math.inf, 700), undefined=True)),
    "pow": _row("pow(cost, 2)", "power(cost, 2)", "cost ** 2",
        overloads=(Overload(args=(DOUBLE, DOUBLE), result=DOUBLE, constants=(1,), undefined=True, range=iv.power,
                            accepts=_no_null,
                            sql="(CASE WHEN ({0} > CAST(0 AS DOUBLE)) OR ({1} = CAST(0 AS DOUBLE)) OR ({1} > CAST(0 AS DOUBLE) "
                                "AND ({0} = CAST(0 AS DOUBLE) OR {1} = floor({1}))) THEN pow({0}, {1}) END)"),)),
    "sin": _row("sin(cost)", overloads=_real("(CASE WHEN isfinite({0}) THEN sin({0}) END)", iv.constant(-1, 1), undefined=True)),
    "cos": _row("cos(cost)", overloads=_real("(CASE WHEN isfinite({0}) THEN cos({0}) END)", iv.constant(-1, 1), undefined=True)),
    "tan": _row("tan(cost)",
        overloads=_real("(CASE WHEN isfinite({0}) THEN tan({0}) END)", iv.constant(-math.inf, math.inf), undefined=True)),
    "atan": _row("atan(cost)", overloads=_real("atan({0})", iv.monotone(math.atan))),
    "radians": _row("radians(cost)", overloads=_real("radians({0})", iv.monotone(math.radians))),
    "degrees": _row("degrees(cost)", overloads=_real("degrees({0})", iv.monotone(math.degrees))),
    "isnan": _row("isnan(cost)", overloads=(Overload(args=(DOUBLE,), result=BOOLEAN, sql="isnan({0})"),)),
    "isinf": _row("isinf(cost)", overloads=(Overload(args=(DOUBLE,), result=BOOLEAN, sql="isinf({0})"),)),
    "isfinite": _row("isfinite(cost)", overloads=(Overload(args=(DOUBLE,), result=BOOLEAN, sql="isfinite({0})"),)),
    # text
    "lower": _row("lower(sex)", overloads=_text("lower({0})")),
    "upper": _row("upper(sex)", overloads=_text("upper({0})")),
    "reverse": _row("reverse(note)", overloads=_text("reverse({0})")),
    "trim": _row("trim(note)", overloads=_text("trim({0})")),
    "ltrim": _row("ltrim(note)", overloads=_text("ltrim({0})")),
    "rtrim": _row("rtrim(note)", overloads=_text("rtrim({0})")),
    "length": _row("length(note)", overloads=_text("length({0})", result=BIGINT, rule=iv.constant(0, 2**32))),
    "substring": _row("substring(note, 1, 2)", "substring(note, 2)", "substr(note, 1, 2)", "substr(note, 2)",
                      "substring(note FROM 1 FOR 2)",
        overloads=(*_text("substring({0}, {1}, {2})", BIGINT, BIGINT, accepts=_bounded_integer(-10000, 10000)),
                   *_text("substring({0}, {1})", BIGINT, accepts=_bounded_integer(-10000, 10000)))),
    "left": _row("left(note, 1)", overloads=_text("left({0}, {1})", BIGINT, accepts=_bounded_integer(-10000, 10000))),
    "right": _row("right(note, 1)", overloads=_text("right({0}, {1})", BIGINT, accepts=_bounded_integer(-10000, 10000))),
    "contains": _row("contains(note, 'i')", overloads=_text("contains({0}, {1})", VARCHAR, result=BOOLEAN, accepts=_no_null)),
    "starts_with": _row("starts_with(note, 'i')", "prefix(note, 'i')",
        overloads=_text("starts_with({0}, {1})", VARCHAR, result=BOOLEAN, accepts=_no_null)),
    "ends_with": _row("ends_with(note, 'l')", "suffix(note, 'l')",
        overloads=_text("ends_with({0}, {1})", VARCHAR, result=BOOLEAN, accepts=_no_null)),
    "strpos": _row("strpos(note, 'l')", "position('l' IN note)", "instr(note, 'l')",
        overloads=_text("strpos({0}, {1})", VARCHAR, result=BIGINT, rule=iv.constant(0, 2**32), accepts=_no_null)),
    "like": _row("note LIKE 'i%'", "note ~~ 'i%'", overloads=_text("({0} LIKE {1})", VARCHAR, result=BOOLEAN, accepts=_no_null)),
    "ilike": _row("note ILIKE 'I%'", overloads=_text("({0} ILIKE {1})", VARCHAR, result=BOOLEAN, accepts=_no_null)),
    "regexp_matches": _row("regexp_matches(note, '^i')", "note ~ '^i'",
        overloads=_text("regexp_matches({0}, {1})", VARCHAR, result=BOOLEAN, accepts=_no_null)),
    "regexp_full_match": _row("regexp_full_match(note, 'i.*')",
        overloads=_text("regexp_full_match({0}, {1})", VARCHAR, result=BOOLEAN, accepts=_no_null)),
    "||": _row("sex || note", "concat(sex, age)",
        overloads=(Overload(args=(VARCHAR, VARCHAR), result=VARCHAR,
                            sql=f"(left({{0}}, {LONGEST}) || left({{1}}, {LONGEST}))"),)),
    # time
    "year": _row("year(born)", "extract(year FROM seen)", "date_part('year', seen)", overloads=_part("year", 1, 9999)),
    "quarter": _row("quarter(born)", overloads=_part("quarter", 1, 4)),
    "month": _row("month(born)", overloads=_part("month", 1, 12)),
    "week": _row("week(born)", "weekofyear(born)", overloads=_part("week", 1, 53)),
    "day": _row("day(born)", "dayofmonth(born)", overloads=_part("day", 1, 31)),
    "dayofyear": _row("dayofyear(born)", "extract(doy FROM born)", overloads=_part("dayofyear", 1, 366)),
    "dayofweek": _row("dayofweek(born)", "weekday(born)", "extract(dow FROM born)", overloads=_part("dayofweek", 0, 6)),
    "isodow": _row("isodow(born)", overloads=_part("isodow", 1, 7)),
    "hour": _row("hour(seen)", overloads=_part("hour", 0, 23, of=(TIMESTAMP,))),
    "minute": _row("minute(seen)", overloads=_part("minute", 0, 59, of=(TIMESTAMP,))),
    "second": _row("second(seen)", overloads=_part("second", 0, 59, of=(TIMESTAMP,))),
    "days_between": _row("born - DATE '2000-01-01'",
        overloads=(Overload(args=(DATE, DATE), result=BIGINT, undefined=True, range=iv.subtract, sql="(" + _guard_time(DATE,
                            "({0} - {1})", 0, 1) + ")"),)),
    "add_to_date": _row("born + 30", "born - 30",
        overloads=(Overload(args=(DATE, BIGINT), result=DATE, undefined=True, constants=(1,), range=iv.add,
                            accepts=_bounded_integer(-36500, 36500),
                            sql="(CASE WHEN ({0} >= DATE '0201-01-01') AND ({0} <= DATE '9000-01-01') "
                            "THEN ({0} + CAST({1} AS INTEGER)) END)"),)),
    **_truncations(),
}

FUNCTIONS: dict[str, tuple[Overload, ...]] = {name: row.overloads for name, row in TABLE.items()}

MEMBERSHIP = "in"  # x IN (constants): any number of arguments of one type, so it is not a row of the table


def overload(function: str, types: Sequence[Type]) -> Overload | None:
    """The row of the table for these exact argument types, or None."""
    if function == MEMBERSHIP:
        return Overload(args=tuple(types), result=BOOLEAN, sql="({0} IN ({list}))")
    return next((row for row in FUNCTIONS.get(function, ()) if row.matches(types)), None)


# The SQL types a cast may name, the wide type that carries their values, and the range that holds in every database.
_SIGNED = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63}
CARRIER: dict[str, tuple[Type, Interval]] = {
    **{name: (BIGINT, Interval(-(2**bits), 2**bits - 1)) for name, bits in _SIGNED.items()},
    **{"U" + name: (BIGINT, Interval(0, 2**(bits + 1) - 1)) for name, bits in _SIGNED.items() if bits < 63},
    "BOOLEAN": (BOOLEAN, ANY_NUMBER), "DOUBLE": (DOUBLE, ANY_NUMBER), "FLOAT": (DOUBLE, ANY_NUMBER),
    "VARCHAR": (VARCHAR, ANY_NUMBER), "DATE": (DATE, ANY_NUMBER), "TIMESTAMP": (TIMESTAMP, ANY_NUMBER),
}
