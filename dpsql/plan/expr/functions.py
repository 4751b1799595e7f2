"""The table of scalar functions: what each accepts, what is known of its values, and how it is printed so that it is total.

A function that is not in the table is refused. Each row of the table is an `Overload`; the guarded templates follow one
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


def _truncations() -> dict[str, tuple[Overload, ...]]:
    """date_trunc and date_diff with their unit in the name, as the unit must be a constant."""
    table: dict[str, tuple[Overload, ...]] = {}
    for unit in UNITS:
        table[f"date_trunc_{unit}"] = tuple(
            Overload(args=(kind,), result=TIMESTAMP, undefined=True, range=_trunc_range,
                     sql="(" + _guard_time(kind, f"CAST(date_trunc('{unit}', {_weekly(unit, kind)}) AS TIMESTAMP)", 0) + ")")
            for kind in (DATE, TIMESTAMP))
        table[f"date_diff_{unit}"] = tuple(
            Overload(args=(kind, kind), result=BIGINT, undefined=True, range=_diff_range(unit),
                     sql="(" + _guard_time(kind, f"date_diff('{unit}', {{0}}, {{1}})", 0, 1) + ")")
            for kind in (DATE, TIMESTAMP))
    for unit in ("day", "week", "month", "year"):
        # The guard keeps a century of room at both ends, more than the largest constant step can cross.
        table[f"add_{unit}s"] = tuple(
            Overload(args=(kind, BIGINT), result=TIMESTAMP, undefined=True, constants=(1,), range=_shift_range(unit),
                     accepts=_bounded_integer(-1200, 1200),
                     sql=f"(CASE WHEN ({{0}} >= {word} '0201-01-01') AND ({{0}} <= {word} '9000-01-01') "
                         f"THEN CAST(({{0}} + to_{unit}s(CAST({{1}} AS INTEGER))) AS TIMESTAMP) END)")
            for kind, word in ((DATE, "DATE"), (TIMESTAMP, "TIMESTAMP")))
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


FUNCTIONS: dict[str, tuple[Overload, ...]] = {
    # truth values
    "and": (Overload(args=(BOOLEAN, BOOLEAN), result=BOOLEAN, sql="({0} AND {1})", strict=False),),
    "or": (Overload(args=(BOOLEAN, BOOLEAN), result=BOOLEAN, sql="({0} OR {1})", strict=False),),
    "not": (Overload(args=(BOOLEAN,), result=BOOLEAN, sql="(NOT {0})"),),
    "=": _comparison("="), "<>": _comparison("<>"),
    "<": _comparison("<"), "<=": _comparison("<="), ">": _comparison(">"), ">=": _comparison(">="),
    "is distinct from": _comparison("IS DISTINCT FROM", strict=False),
    "is not distinct from": _comparison("IS NOT DISTINCT FROM", strict=False),
    "is null": tuple(Overload(args=(kind,), result=BOOLEAN, sql="({0} IS NULL)", strict=False) for kind in Type),
    "is not null": tuple(Overload(args=(kind,), result=BOOLEAN, sql="({0} IS NOT NULL)", strict=False) for kind in Type),
    # NULL
    "coalesce": tuple(Overload(args=(kind, kind), variadic=True, result=kind, sql="COALESCE({all})", strict=False,
                               range=iv.hull) for kind in Type),
    "nullif": tuple(Overload(args=(kind, kind), result=kind, sql="NULLIF({0}, {1})", strict=False, undefined=True,
                             range=iv.first) for kind in Type),
    "least": tuple(Overload(args=(kind, kind), variadic=True, result=kind, sql="LEAST({all})", strict=False,
                            null_skipping_range=iv.least) for kind in Type if kind is not BOOLEAN),
    "greatest": tuple(Overload(args=(kind, kind), variadic=True, result=kind, sql="GREATEST({all})", strict=False,
                               null_skipping_range=iv.greatest) for kind in Type if kind is not BOOLEAN),
    # numbers
    "+": _arithmetic("+", iv.add), "-": _arithmetic("-", iv.subtract), "*": _arithmetic("*", iv.multiply),
    "/": (Overload(args=(DOUBLE, DOUBLE), result=DOUBLE, sql="({0} / NULLIF({1}, CAST(0 AS DOUBLE)))", range=iv.divide,
                   undefined=True),),
    "//": (Overload(args=(BIGINT, BIGINT), result=BIGINT, sql="TRY({0} // NULLIF({1}, CAST(0 AS BIGINT)))",
                    range=iv.integer_divide, undefined=True, proved=_divides),),
    "%": (Overload(args=(BIGINT, BIGINT), result=BIGINT, sql="TRY({0} % NULLIF({1}, CAST(0 AS BIGINT)))", range=iv.modulo,
                   undefined=True, proved=_divides),
          Overload(args=(DOUBLE, DOUBLE), result=DOUBLE, sql="({0} % NULLIF({1}, CAST(0 AS DOUBLE)))", range=iv.modulo,
                   undefined=True)),
    "negate": (Overload(args=(BIGINT,), result=BIGINT, sql="TRY(-{0})", range=iv.negate, proved=_fits(iv.negate)),
               Overload(args=(DOUBLE,), result=DOUBLE, sql="(-{0})", range=iv.negate)),
    "abs": (Overload(args=(BIGINT,), result=BIGINT, sql="TRY(abs({0}))", range=iv.absolute, proved=_fits(iv.absolute)),
            Overload(args=(DOUBLE,), result=DOUBLE, sql="abs({0})", range=iv.absolute)),
    HELD: (Overload(args=(BIGINT, BIGINT, BIGINT), result=BIGINT, constants=(1, 2), range=iv.held, accepts=_no_null,
                    sql="(CASE WHEN ({0} >= {1}) AND ({0} <= {2}) THEN {0} END)"),),
    "sign": tuple(Overload(args=(kind,), result=BIGINT, sql="CAST(sign({0}) AS BIGINT)", range=iv.constant(-1, 1))
                  for kind in (BIGINT, DOUBLE)),
    "floor": _whole_number(iv.rounded(math.floor), "floor({0})"),
    "ceil": _whole_number(iv.rounded(math.ceil), "ceil({0})"),
    "trunc": _whole_number(iv.rounded(math.trunc), "trunc({0})"),
    "round": (*_whole_number(iv.outward, "round({0})"),
              Overload(args=(DOUBLE, BIGINT), result=DOUBLE, sql="round({0}, CAST({1} AS INTEGER))", range=iv.round_to,
                       constants=(1,), accepts=_bounded_integer(0, 15))),
    "sqrt": _real("(CASE WHEN {0} >= CAST(0 AS DOUBLE) THEN sqrt({0}) END)", iv.monotone(math.sqrt, 0), undefined=True),
    "cbrt": _real("cbrt({0})", iv.monotone(math.cbrt)),
    "ln": _real("(CASE WHEN {0} > CAST(0 AS DOUBLE) THEN ln({0}) END)", iv.monotone(lambda x: math.log(x), 0), undefined=True),
    "log10": _real("(CASE WHEN {0} > CAST(0 AS DOUBLE) THEN log10({0}) END)", iv.monotone(math.log10, 0), undefined=True),
    "log2": _real("(CASE WHEN {0} > CAST(0 AS DOUBLE) THEN log2({0}) END)", iv.monotone(math.log2, 0), undefined=True),
    "exp": _real("(CASE WHEN {0} < CAST(700 AS DOUBLE) THEN exp({0}) END)",
                 iv.monotone(lambda x: math.exp(x) if x > -700 else 0.0, -math.inf, 700), undefined=True),
    "pow": (Overload(args=(DOUBLE, DOUBLE), result=DOUBLE, constants=(1,), undefined=True, range=iv.power, accepts=_no_null,
                     sql="(CASE WHEN ({0} > CAST(0 AS DOUBLE)) OR ({1} = CAST(0 AS DOUBLE)) OR ({1} > CAST(0 AS DOUBLE) AND "
                         "({0} = CAST(0 AS DOUBLE) OR {1} = floor({1}))) THEN pow({0}, {1}) END)"),),
    "sin": _real("(CASE WHEN isfinite({0}) THEN sin({0}) END)", iv.constant(-1, 1), undefined=True),
    "cos": _real("(CASE WHEN isfinite({0}) THEN cos({0}) END)", iv.constant(-1, 1), undefined=True),
    "tan": _real("(CASE WHEN isfinite({0}) THEN tan({0}) END)", iv.constant(-math.inf, math.inf), undefined=True),
    "atan": _real("atan({0})", iv.monotone(math.atan)),
    "radians": _real("radians({0})", iv.monotone(math.radians)),
    "degrees": _real("degrees({0})", iv.monotone(math.degrees)),
    "isnan": (Overload(args=(DOUBLE,), result=BOOLEAN, sql="isnan({0})"),),
    "isinf": (Overload(args=(DOUBLE,), result=BOOLEAN, sql="isinf({0})"),),
    "isfinite": (Overload(args=(DOUBLE,), result=BOOLEAN, sql="isfinite({0})"),),
    # text
    "lower": _text("lower({0})"), "upper": _text("upper({0})"), "reverse": _text("reverse({0})"),
    "trim": _text("trim({0})"), "ltrim": _text("ltrim({0})"), "rtrim": _text("rtrim({0})"),
    "length": _text("length({0})", result=BIGINT, rule=iv.constant(0, 2**32)),
    "substring": (*_text("substring({0}, {1}, {2})", BIGINT, BIGINT, accepts=_bounded_integer(-10000, 10000)),
                  *_text("substring({0}, {1})", BIGINT, accepts=_bounded_integer(-10000, 10000))),
    "left": _text("left({0}, {1})", BIGINT, accepts=_bounded_integer(-10000, 10000)),
    "right": _text("right({0}, {1})", BIGINT, accepts=_bounded_integer(-10000, 10000)),
    "contains": _text("contains({0}, {1})", VARCHAR, result=BOOLEAN, accepts=_no_null),
    "starts_with": _text("starts_with({0}, {1})", VARCHAR, result=BOOLEAN, accepts=_no_null),
    "ends_with": _text("ends_with({0}, {1})", VARCHAR, result=BOOLEAN, accepts=_no_null),
    "strpos": _text("strpos({0}, {1})", VARCHAR, result=BIGINT, rule=iv.constant(0, 2**32), accepts=_no_null),
    "like": _text("({0} LIKE {1})", VARCHAR, result=BOOLEAN, accepts=_no_null),
    "ilike": _text("({0} ILIKE {1})", VARCHAR, result=BOOLEAN, accepts=_no_null),
    "regexp_matches": _text("regexp_matches({0}, {1})", VARCHAR, result=BOOLEAN, accepts=_no_null),
    "regexp_full_match": _text("regexp_full_match({0}, {1})", VARCHAR, result=BOOLEAN, accepts=_no_null),
    "||": (Overload(args=(VARCHAR, VARCHAR), result=VARCHAR, sql=f"(left({{0}}, {LONGEST}) || left({{1}}, {LONGEST}))"),),
    # time
    "year": _part("year", 1, 9999), "quarter": _part("quarter", 1, 4), "month": _part("month", 1, 12),
    "week": _part("week", 1, 53), "day": _part("day", 1, 31), "dayofyear": _part("dayofyear", 1, 366),
    "dayofweek": _part("dayofweek", 0, 6), "isodow": _part("isodow", 1, 7),
    "hour": _part("hour", 0, 23, of=(TIMESTAMP,)), "minute": _part("minute", 0, 59, of=(TIMESTAMP,)),
    "second": _part("second", 0, 59, of=(TIMESTAMP,)),
    "days_between": (Overload(args=(DATE, DATE), result=BIGINT, undefined=True, range=iv.subtract,
                              sql="(" + _guard_time(DATE, "({0} - {1})", 0, 1) + ")"),),
    "add_to_date": (Overload(args=(DATE, BIGINT), result=DATE, undefined=True, constants=(1,), range=iv.add,
                             accepts=_bounded_integer(-36500, 36500),
                             sql="(CASE WHEN ({0} >= DATE '0201-01-01') AND ({0} <= DATE '9000-01-01') "
                                 "THEN ({0} + CAST({1} AS INTEGER)) END)"),),
    **_truncations(),
}

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
