"""The table of scalar functions: how each is written, what it accepts, what is known of its values, and how it is printed so
that it never fails.

To add a function, add one row to `TABLE`, under its name in SQL:

    "asinh": _row(_real("asinh({0})", iv.monotone(math.asinh)), "asinh(cost)"),

(if one row defines several functions of a kind, adding a name there is enough), then run `python -m
tests.support.function_table`, which writes the words of `grammar/expr.lark` and the table of `grammar/README.md`. All else
follows from the row. For each way of writing the function as word(a, b), `sql/text/syntax.py` finds out which node sqlglot
makes of it, so that the allowlist accepts the function, the binder binds it, and mistyped names are corrected to it. Tests
bind and run every way, print every overload over extreme rows, and try it on neighbouring tables. If sqlglot's node has more
than the arguments in their order (trim, log), or the function is an operator, `sql/text/border.py` must accept the node and
`sql/binding/expressions.py` needs a clause for it; if these are missing, the tests of the row fail. The row contains names
only, as this package is trusted and sqlglot is not. The engine receives the template: show that it raises for no row, by the
rule below, and state in `range` where its values lie. Tests try both with extreme rows, but nothing checks them when
statements run. Each row is more to read for someone who wants to trust the kernel: `tests/house/test_trust.py` sets the limit.

A function that is not in the table is refused. Each way to call one is an `Overload`; the guarded templates follow one rule:
*the printed expression raises for no values of its arguments* (NULL stands where the plain function would raise,
overflow or be undefined). Integer arithmetic uses 64 bits only if `proved` shows from the physical ranges of the arguments
that no result needs more; otherwise the binder takes the DOUBLE overload. An engine may evaluate an expression on rows that a
condition leaves out, so these ranges follow from the expression's own text and the stored types. As a second protection, each
such operation is in a TRY of its own, which gives NULL if a range was wrong. A single TRY around several operations would not
protect: if two of them share a part, DuckDB evaluates that part beforehand, outside of both.

Changes against plain DuckDB, all documented in the grammar's README: x / 0 and x % 0 are NULL; logarithms, roots and powers
outside their domain are NULL; impossible casts and days that do not exist (make_date) are NULL; exp of more than 700 is NULL;
dates outside the years 1 to 9999 are NULL under date functions; texts of more than 65536 characters are cut before they are
joined.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from dpsql.frozen import Frozen
from dpsql.trusted.plan.expr import intervals as iv
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.types import ANY_NUMBER, Interval, Type

BOOLEAN, BIGINT, DOUBLE, VARCHAR = Type.BOOLEAN, Type.BIGINT, Type.DOUBLE, Type.VARCHAR
DATE, TIMESTAMP = Type.DATE, Type.TIMESTAMP

# Texts are cut to so many characters before they are joined: joined often enough, long ones would be too long for an engine.
LONGEST = 2**16

# One bit is left free, so that one more addition by a backend's own rewriting could not overflow either.
SAFE_INTEGERS = Interval(-(2**62), 2**62)


class Overload(Frozen):
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


class Function(Frozen):
    """A row of the table.

    written    conditions and values that call it, over the tables of `tests/support/worlds.py`: every way in which it is written,
               as `word(a, b)` or otherwise; none for what no text can ask for
    overloads  what it accepts, and what is known of it
    """

    written: tuple[str, ...]
    overloads: tuple[Overload, ...]


def _row(overloads: tuple[Overload, ...], *written: str) -> Function:
    return Function(overloads=overloads, written=written)


def _fits(rule: iv.Rule) -> Callable[..., bool]:
    return lambda *ranges: rule(*ranges).inside(SAFE_INTEGERS)


def _divides(dividend: Interval, divisor: Interval) -> bool:
    """Whether the quotient fits into 64 bits. Of all whole divisors, only -1 can make it too large: it turns the lowest number
    into one above the highest."""
    return dividend.inside(SAFE_INTEGERS) or not divisor.low <= -1 <= divisor.high


def _arithmetic(sql: str, rule: iv.Rule, *, numbers: int = 2) -> tuple[Overload, ...]:
    return (Overload(args=(BIGINT,) * numbers, result=BIGINT, sql="TRY" + sql, range=rule, proved=_fits(rule)),
            Overload(args=(DOUBLE,) * numbers, result=DOUBLE, sql=sql, range=rule))


def _division(symbol: str, kind: Type, rule: iv.Rule) -> Overload:
    sql, proved = f"({{0}} {symbol} NULLIF({{1}}, CAST(0 AS {kind.value})))", _divides if kind is BIGINT else None
    return Overload(args=(kind, kind), result=kind, sql="TRY" * (kind is BIGINT) + sql, range=rule, undefined=True, proved=proved)


def _comparison(symbol: str, *, strict: bool = True) -> tuple[Overload, ...]:
    return tuple(Overload(args=(kind, kind), result=BOOLEAN, sql="({0} " + symbol + " {1})", strict=strict) for kind in Type)


def _null_test(words: str) -> tuple[Overload, ...]:
    return tuple(Overload(args=(kind,), result=BOOLEAN, sql="({0} " + words + ")", strict=False) for kind in Type)


_ORDERED = tuple(kind for kind in Type if kind is not BOOLEAN)


def _of_one_type(sql: str, kinds: Iterable[Type] = Type, **known: Any) -> tuple[Overload, ...]:
    return tuple(Overload(args=(one, one), result=one, sql=sql, variadic="{all}" in sql, strict=False, **known) for one in kinds)


def _whole_number(rule: iv.Rule, sql: str) -> tuple[Overload, ...]:
    """floor and similar functions, which leave integers unchanged."""
    return (Overload(args=(BIGINT,), result=BIGINT, sql="{0}", range=iv.first),
            Overload(args=(DOUBLE,), result=DOUBLE, sql=sql, range=rule, whole=True))


def _real(sql: str, rule: iv.Rule = iv.anything, *, undefined: bool = False, result: Type = DOUBLE) -> tuple[Overload, ...]:
    return (Overload(args=(DOUBLE,), result=result, sql=sql, range=rule, undefined=undefined),)


def _where(test: str, name: str, rule: iv.Rule) -> tuple[Overload, ...]:
    return _real(f"(CASE WHEN {test} THEN {name}({{0}}) END)", rule, undefined=True)


def _text(sql: str, *extra: Type, result: Type = VARCHAR, rule: iv.Rule = iv.constant(-math.inf, math.inf),
          accepts: Callable[[Sequence[Value]], str] | None = None) -> tuple[Overload, ...]:
    return (Overload(args=(VARCHAR, *extra), result=result, sql=sql, range=rule,
                     constants=tuple(range(1, 1 + len(extra))), accepts=accepts),)


def _test(sql: str) -> tuple[Overload, ...]:
    return _text(sql, VARCHAR, result=BOOLEAN, accepts=_no_null)


def _piece(sql: str, *more: Type) -> tuple[Overload, ...]:
    return _text(sql, BIGINT, *more, accepts=_bounded_integer(-10000, 10000))


def _no_null(values: Sequence[Value]) -> str:
    return "NULL is not a constant that can be used here" if any(value is None for value in values) else ""


def _escaped(values: Sequence[Value]) -> str:
    """Refuses patterns that end in their escape sign, and escape signs of several bytes: DuckDB would raise as soon as a row
    reaches them.

    If case is ignored, DuckDB looks for the sign in lower case, so letters are refused: one could then end a pattern that does
    not end in it here. All other ASCII signs are unchanged in lower case, and nothing else becomes one of them.
    """
    pattern, sign = values
    if not isinstance(pattern, str) or not isinstance(sign, str) or not re.fullmatch("[!-$&-@[-^`{-~]", sign):
        return "this needs a pattern, and one ASCII sign that is not a letter, % or _"
    return "the pattern ends in its escape sign" if pattern.replace(sign * 2, "").endswith(sign) else ""


def _no_longer(values: Sequence[Value]) -> str:
    """Refuses replacements that are longer than the text they replace: repeated, they could become too long for an engine."""
    old, new = values
    fits = isinstance(old, str) and isinstance(new, str) and old != "" and len(new) <= len(old)
    return "" if fits else "this needs a text, and a replacement that is not longer"


def _found(values: Sequence[Value]) -> str:
    """Refuses patterns whose matches could begin or end within a letter, where DuckDB raises: \\C is one byte of a letter, and
    \\B is between two."""
    within = isinstance(values[0], str) and any(sign in values[0] for sign in ("\\B", "\\C"))
    return _no_null(values) or ("a pattern without \\B and \\C, which match within letters, is needed here" if within else "")


def _short(values: Sequence[Value]) -> str:
    """Limits replacements of a pattern. It may match between any two letters, and each match is replaced; the replacement may
    contain at most three groups, so that texts become at most four times as long. DuckDB raises, as soon as a row gets there, if
    an escape sign is followed neither by another one nor by the number of a group of the pattern. The groups are counted from
    below: by the parentheses that are neither escaped, nor in a class of letters, nor followed by a question mark; as none if
    text is quoted, or if a class contains a [, which may begin another class there or end a range."""
    pattern, new = values
    if not (isinstance(pattern, str) and isinstance(new, str) and len(new) <= 20 and REPLACEMENT.fullmatch(new)):
        return "this needs a pattern, and a replacement of at most 20 letters, in which \\ precedes only \\ or a digit"
    named = [int(number) for number in re.findall(r"\\([0-9])", new.replace("\\\\", ""))]
    rest = LITERAL.sub("", pattern)
    groups = 0 if "\\Q" in pattern or "[" in rest else len(re.findall(r"\((?!\?)", rest))
    if len(named) > 3 or max(named, default=0) > groups:
        return "a replacement may contain at most three groups of the pattern, (...), by their numbers"
    return _found(values)


def _group(values: Sequence[Value]) -> str:
    return _found(values) or _bounded_integer(0, 9)(values[1:])


def _filled(values: Sequence[Value]) -> str:
    """Refuses an empty filling, for which DuckDB raises as soon as a text is too short."""
    length, filling = values
    fits = isinstance(length, int) and 0 <= length <= 1000 and isinstance(filling, str) and filling != ""
    return "" if fits else "this needs a length from 0 to 1000, and a text that is not empty"


def _strftime(values: Sequence[Value]) -> str:
    fits = all(isinstance(value, str) and 0 < len(value) <= 200 and FORMATS.fullmatch(value) for value in values)
    return "" if fits else "a format of %Y %m %d %H %M %S %y %j %b %B %a %A %w %u %U %W %V %G %p %I and %% is needed here"


def _bounded_integer(low: int, high: int) -> Callable[[Sequence[Value]], str]:
    wrong = f"a whole number between {low} and {high} is needed here"
    return lambda values: "" if all(isinstance(value, int) and low <= value <= high for value in values) else wrong


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


def _part(name: str, low: int, high: int, *kinds: Type) -> tuple[Overload, ...]:
    rule = _year_range if name == "year" else iv.constant(low, high)
    return tuple(Overload(args=(kind,), result=BIGINT, undefined=True, range=rule,
                          sql="(" + _guard_time(kind, f"CAST({name}({_weekly(name, kind)}) AS BIGINT)", 0) + ")")
                 for kind in kinds or (DATE, TIMESTAMP))


def day_number(value: dt.date) -> int:
    """The number that represents a date, or the day of a timestamp, in intervals."""
    return value.toordinal()


def _year_range(days: Interval) -> Interval:
    return Interval(*(dt.date.fromordinal(int(min(max(day, 1), dt.date.max.toordinal()))).year for day in (days.low, days.high)))


REPLACEMENT = re.compile(r"([^\\]|\\[\\0-9])*", re.DOTALL)
LITERAL = re.compile(r"\\.|\[\^?+\]?+(\\.|[^\]\[\\])*\]", re.DOTALL)  # letters that are escaped, and classes of letters
FORMATS = re.compile(r"(%[YmdHMSyjbBaAwuUWVGpI%]|[^%])*", re.DOTALL)
HELD = "held within"  # a whole number between two constants, NULL beyond them: for numbers that conditions hold there
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
LONGEST_DAYS = {"year": 366, "month": 31, "week": 7, "day": 1, "hour": 1 / 24, "minute": 1 / 1440, "second": 1 / 86400}


def _truncations() -> dict[str, Function]:
    """date_trunc, date_diff and similar functions with the unit in their name, because the unit must be a constant."""
    table: dict[str, Function] = {}
    for unit in UNITS:
        table[f"date_trunc_{unit}"] = _row(tuple(
            Overload(args=(kind,), result=TIMESTAMP, undefined=True, range=_trunc_range,
                     sql="(" + _guard_time(kind, f"CAST(date_trunc('{unit}', {_weekly(unit, kind)}) AS TIMESTAMP)", 0) + ")")
            for kind in (DATE, TIMESTAMP)), f"date_trunc('{unit}', seen)")
        table[f"date_diff_{unit}"] = _row(tuple(
            Overload(args=(kind, kind), result=BIGINT, undefined=True, range=_diff_range(unit),
                     sql="(" + _guard_time(kind, f"date_diff('{unit}', {{0}}, {{1}})", 0, 1) + ")")
            for kind in (DATE, TIMESTAMP)), *(f"{word}('{unit}', born, seen)" for word in ("date_diff", "datediff")))
        table[f"date_sub_{unit}"] = _row(tuple(
            Overload(args=(kind, kind), result=BIGINT, undefined=True, range=_diff_range(unit),
                     sql="(" + _guard_time(kind, f"date_sub('{unit}', {{0}}, {{1}})", 0, 1) + ")")
            for kind in (DATE, TIMESTAMP)), *(f"{word}('{unit}', born, seen)" for word in ("date_sub", "datesub")))
    for unit in LONGEST_DAYS:
        # The guard keeps a century of room at both ends, more than the largest constant step can cross.
        steps = f"to_{unit}s(CAST({{1}} AS INTEGER))"
        table[f"add_{unit}s"] = _row(tuple(
            Overload(args=(kind, BIGINT), result=TIMESTAMP, undefined=True, constants=(1,), range=_shift_range(unit),
                     accepts=_bounded_integer(-1200, 1200), sql=_with_room(kind, f"CAST(({{0}} + {steps}) AS TIMESTAMP)"))
            for kind in (DATE, TIMESTAMP)), *(f"{shift} {unit.upper()}" for shift in ("seen + INTERVAL 3", "born - INTERVAL 2")))
        table[f"time_bucket_{unit}s"] = _row(tuple(
            Overload(args=(kind, BIGINT), result=kind, undefined=True, constants=(1,), range=_bucket_range(unit),
                     accepts=_bounded_integer(1, 1200),
                     sql=_with_room(kind, f"CAST(time_bucket({steps}, {{0}}) AS {kind.value})"))
            for kind in (DATE, TIMESTAMP)), f"time_bucket(INTERVAL 2 {unit.upper()}, seen)")
    return table


def _with_room(kind: Type, body: str) -> str:
    return f"(CASE WHEN ({{0}} >= {kind.value} '0201-01-01') AND ({{0}} <= {kind.value} '9000-01-01') THEN {body} END)"


def _trunc_range(days: Interval) -> Interval:
    return Interval(days.low - 366, days.high)


def _last_day_range(days: Interval) -> Interval:
    return Interval(days.low, days.high + 30)


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
    """The rule for adding units to a moment. Ends are whole days, so adding a part of a day may lead into the next one."""
    longest, part = LONGEST_DAYS[unit], int(unit in ("hour", "minute", "second"))
    return lambda days, steps: iv.outward(iv.add(iv.add(days, Interval(-part, part)), iv.multiply(steps, Interval(0, longest))))


def _bucket_range(unit: str) -> iv.Rule:
    """The rule for buckets: a bucket begins at most its own length before a moment in it."""
    longest = LONGEST_DAYS[unit]
    return lambda days, steps: iv.outward(Interval(days.low - steps.high * longest, days.high))


def _epoch_range(scale: int) -> iv.Rule:
    """The rule for seconds since the epoch: moments of a day are within that day."""
    return lambda days: iv.multiply(Interval(days.low - _EPOCH, days.high - _EPOCH + 1), Interval(86400 * scale, 86400 * scale))


def _date_range(years: Interval, *_: Interval) -> Interval:
    low, high = (int(min(max(end, 1), 9999)) for end in (years.low, years.high))
    return Interval(day_number(dt.date(low, 1, 1)), day_number(dt.date(high, 12, 31)))


_EPOCH = dt.date(1970, 1, 1).toordinal()


TABLE: dict[str, Function] = {
    # truth values
    "and": _row((Overload(args=(BOOLEAN, BOOLEAN), result=BOOLEAN, sql="({0} AND {1})", strict=False),), "active AND sex = 'f'"),
    "or": _row((Overload(args=(BOOLEAN, BOOLEAN), result=BOOLEAN, sql="({0} OR {1})", strict=False),), "active OR sex = 'f'"),
    "not": _row((Overload(args=(BOOLEAN,), result=BOOLEAN, sql="(NOT {0})"),), "NOT active"),
    "=": _row(_comparison("="), "age = 30", "age == 30"), "<>": _row(_comparison("<>"), "age <> 30", "age != 30"),
    **{symbol: _row(_comparison(symbol), f"age {symbol} 30") for symbol in ("<", "<=", ">", ">=")},
    "is distinct from": _row(_comparison("IS DISTINCT FROM", strict=False), "sex IS DISTINCT FROM 'f'"),
    "is not distinct from": _row(_comparison("IS NOT DISTINCT FROM", strict=False),
                                 "sex IS NOT DISTINCT FROM 'f'", "active IS TRUE"),
    "is null": _row(_null_test("IS NULL"), "sex IS NULL"), "is not null": _row(_null_test("IS NOT NULL"), "sex IS NOT NULL"),
    # NULL
    "coalesce": _row(_of_one_type("COALESCE({all})", range=iv.hull), "coalesce(sex, '?')", "ifnull(sex, '?')"),
    "nullif": _row(_of_one_type("NULLIF({0}, {1})", undefined=True, range=iv.first), "nullif(age, 0)"),
    "least": _row(_of_one_type("LEAST({all})", _ORDERED, null_skipping_range=iv.least), "least(age, 50)"),
    "greatest": _row(_of_one_type("GREATEST({all})", _ORDERED, null_skipping_range=iv.greatest), "greatest(age, 18)"),
    # numbers
    "+": _row(_arithmetic("({0} + {1})", iv.add), "age + 1"), "-": _row(_arithmetic("({0} - {1})", iv.subtract), "age - 1"),
    "*": _row(_arithmetic("({0} * {1})", iv.multiply), "age * 2"), "/": _row((_division("/", DOUBLE, iv.divide),), "age / 2"),
    "//": _row((_division("//", BIGINT, iv.integer_divide),), "age // 10"),
    "%": _row((_division("%", BIGINT, iv.whole_modulo), _division("%", DOUBLE, iv.modulo)), "age % 10", "mod(age, 10)"),
    **{name: _row((Overload(args=(BIGINT, BIGINT), result=BIGINT, sql=sql, range=rule),), way) for name, sql, rule, way in (
        ("&", "({0} & {1})", iv.common_bits, "age & 6"), ("|", "({0} | {1})", iv.bits, "age | 6"),
        ("xor", "xor({0}, {1})", iv.bits, "xor(age, 6)"))},
    "negate": _row(_arithmetic("(-{0})", iv.negate, numbers=1), "-age"),
    "abs": _row((Overload(args=(BIGINT,), result=BIGINT, sql="TRY(abs({0}))", range=iv.absolute, proved=_fits(iv.absolute)),
                 Overload(args=(DOUBLE,), result=DOUBLE, sql="abs({0})", range=iv.absolute)), "abs(age)"),
    HELD: _row((Overload(args=(BIGINT, BIGINT, BIGINT), result=BIGINT, constants=(1, 2), range=iv.clamp_range, accepts=_no_null,
                         sql="(CASE WHEN ({0} >= {1}) AND ({0} <= {2}) THEN {0} END)"),)),
    "sign": _row(tuple(Overload(args=(kind,), result=BIGINT, sql="CAST(sign({0}) AS BIGINT)", range=iv.constant(-1, 1))
                       for kind in (BIGINT, DOUBLE)), "sign(age)"),
    "floor": _row(_whole_number(iv.rounded(math.floor), "floor({0})"), "floor(cost)"),
    "ceil": _row(_whole_number(iv.rounded(math.ceil), "ceil({0})"), "ceil(cost)", "ceiling(cost)"),
    "trunc": _row(_whole_number(iv.rounded(math.trunc), "trunc({0})"), "trunc(cost)"),
    "round": _row((*_whole_number(iv.outward, "round({0})"),
                   Overload(args=(DOUBLE, BIGINT), result=DOUBLE, sql="round({0}, CAST({1} AS INTEGER))", range=iv.round_to,
                            constants=(1,), accepts=_bounded_integer(-15, 15))), "round(cost)", "round(cost, 1)",
                  "round(cost, -1)"),
    "sqrt": _row(_where("{0} >= CAST(0 AS DOUBLE)", "sqrt", iv.monotone(math.sqrt, 0)), "sqrt(cost)"),
    "ln": _row(_where("{0} > CAST(0 AS DOUBLE)", "ln", iv.monotone(lambda x: math.log(x), 0)), "ln(cost)", "log(3, cost)"),
    "log10": _row(_where("{0} > CAST(0 AS DOUBLE)", "log10", iv.monotone(math.log10, 0)),
                  "log10(cost)", "log(cost)", "log(10, cost)"),
    "log2": _row(_where("{0} > CAST(0 AS DOUBLE)", "log2", iv.monotone(math.log2, 0)), "log2(cost)", "log(2, cost)"),
    "exp": _row(_where("{0} < CAST(700 AS DOUBLE)", "exp",
                       iv.monotone(lambda x: math.exp(x) if x > -700 else 0.0, -math.inf, 700)), "exp(cost)"),
    "pow": _row((Overload(args=(DOUBLE, DOUBLE), result=DOUBLE, constants=(1,), undefined=True, range=iv.power, accepts=_no_null,
                          sql="(CASE WHEN ({0} > CAST(0 AS DOUBLE)) OR ({1} = CAST(0 AS DOUBLE)) OR ({1} > CAST(0 AS DOUBLE) "
                              "AND ({0} = CAST(0 AS DOUBLE) OR {1} = floor({1}))) THEN pow({0}, {1}) END)"),),
                "pow(cost, 2)", "power(cost, 2)", "cost ** 2"),
    **{name: _row(_where("isfinite({0})", name, iv.constant(-end, end)), f"{name}(cost)")
       for name, end in (("sin", 1), ("cos", 1), ("tan", math.inf))},
    **{name: _row(_real(name + "({0})", iv.monotone(rule)), f"{name}(cost)")
       for name, rule in (("cbrt", math.cbrt), ("atan", math.atan), ("radians", math.radians), ("degrees", math.degrees))},
    **{name: _row(_where("abs({0}) <= CAST(1 AS DOUBLE)", name, iv.constant(low, low + math.pi)), f"{name}(cost)")
       for name, low in (("asin", -math.pi / 2), ("acos", 0.0))},
    "tanh": _row(_real("tanh({0})", iv.monotone(math.tanh)), "tanh(cost)"),
    "atan2": _row((Overload(args=(DOUBLE, DOUBLE), result=DOUBLE, sql="atan2({0}, {1})", range=iv.constant(-math.pi, math.pi)),),
                  "atan2(cost, weight)"),
    **{name: _row(_real(name + "({0})", result=BOOLEAN), f"{name}(cost)") for name in ("isnan", "isinf", "isfinite")},
    # text
    **{name: _row(_text(name + "({0})"), f"{name}(note)") for name in ("lower", "upper", "reverse", "strip_accents")},
    **{name: _row((*_text(name + "({0})"), *_text(name + "({0}, {1})", VARCHAR, accepts=_no_null)), f"{name}(note)",
                  f"{name}(note, 'li')") for name in ("trim", "ltrim", "rtrim")},
    "replace": _row(_text(f"replace(left({{0}}, {LONGEST}), {{1}}, {{2}})", VARCHAR, VARCHAR, accepts=_no_longer),
                    "replace(note, 'll', 'y')"),
    **{name: _row(_text(f"{name}({{0}}, CAST({{1}} AS INTEGER), {{2}})", BIGINT, VARCHAR, accepts=_filled),
                  f"{name}(note, 3, '.')") for name in ("lpad", "rpad")},
    "length": _row(_text("length({0})", result=BIGINT, rule=iv.constant(0, 2**32)), "length(note)"),
    "substring": _row((*_piece("substring({0}, {1}, {2})", BIGINT), *_piece("substring({0}, {1})")), "substring(note, 1, 2)",
                      "substring(note, 2)", "substr(note, 1, 2)", "substr(note, 2)", "substring(note FROM 1 FOR 2)"),
    "left": _row(_piece("left({0}, {1})"), "left(note, 1)"), "right": _row(_piece("right({0}, {1})"), "right(note, 1)"),
    "split_part": _row(_text("split_part({0}, {1}, {2})", VARCHAR, BIGINT, accepts=_no_null), "split_part(note, 'l', 1)"),
    "contains": _row(_test("contains({0}, {1})"), "contains(note, 'i')"),
    "starts_with": _row(_test("starts_with({0}, {1})"), "starts_with(note, 'i')", "prefix(note, 'i')"),
    "ends_with": _row(_test("ends_with({0}, {1})"), "ends_with(note, 'l')", "suffix(note, 'l')"),
    "strpos": _row(_text("strpos({0}, {1})", VARCHAR, result=BIGINT, rule=iv.constant(0, 2**32), accepts=_no_null),
                   "strpos(note, 'l')", "position('l' IN note)", "instr(note, 'l')"),
    "like": _row(_test("({0} LIKE {1})"), "note LIKE 'i%'", "note ~~ 'i%'"),
    "ilike": _row(_test("({0} ILIKE {1})"), "note ILIKE 'I%'"), "glob": _row(_test("({0} GLOB {1})"), "note GLOB 'i*'"),
    **{f"{word.lower()}_escape": _row(_text(f"({{0}} {word} {{1}} ESCAPE {{2}})", VARCHAR, VARCHAR, result=BOOLEAN,
                                            accepts=_escaped), f"note {word} 'i!%' ESCAPE '!'") for word in ("LIKE", "ILIKE")},
    "regexp_matches": _row(_test("regexp_matches({0}, {1})"), "regexp_matches(note, '^i')", "note ~ '^i'"),
    "regexp_extract": _row((*_text("regexp_extract({0}, {1})", VARCHAR, accepts=_found), *_text(
        "regexp_extract({0}, {1}, CAST({2} AS INTEGER))", VARCHAR, BIGINT, accepts=_group)), "regexp_extract(note, 'i.')",
                           "regexp_extract(note, 'i(.)', 1)"),
    **{f"regexp_replace{name}": _row(_text(f"regexp_replace(left({{0}}, {most}), {{1}}, {{2}}{option})", VARCHAR, VARCHAR,
                                           accepts=_short), f"regexp_replace(note, 'l+', 'y'{option})",
                                     f"regexp_replace(note, '(i)(.)', '\\2-\\1'{option})")
       for name, option, most in (("", "", LONGEST // 2), ("_all", ", 'g'", LONGEST // 16))},  # as each letter may become 21
    "regexp_full_match": _row(_test("regexp_full_match({0}, {1})"), "regexp_full_match(note, 'i.*')"),
    "||": _row((Overload(args=(VARCHAR, VARCHAR), result=VARCHAR, sql=f"(left({{0}}, {LONGEST}) || left({{1}}, {LONGEST}))"),),
               "sex || note", "concat(sex, age)"),
    # time
    "year": _row(_part("year", 1, 9999), "year(born)", "extract(year FROM seen)", "date_part('year', seen)"),
    **{name: _row(_part(name, 1, last), f"{name}(born)")
       for name, last in (("quarter", 4), ("month", 12), ("isodow", 7), ("century", 100))},
    "decade": _row(_part("decade", 0, 999), "decade(born)"),
    "strftime": _row(tuple(Overload(args=(kind, VARCHAR), result=VARCHAR, undefined=True, constants=(1,), accepts=_strftime,
                                    sql="(" + _guard_time(kind, "strftime({0}, {1})", 0) + ")") for kind in (DATE, TIMESTAMP)),
                     "strftime(seen, '%Y-%m')", "strftime(born, '%A')"),
    "epoch": _row(tuple(Overload(args=(kind,), result=DOUBLE, undefined=True, range=_epoch_range(1),
                                 sql="(" + _guard_time(kind, "epoch({0})", 0) + ")") for kind in (DATE, TIMESTAMP)),
                  "epoch(seen)", "extract(epoch FROM seen)"),
    "make_date": _row((Overload(args=(BIGINT, BIGINT, BIGINT), result=DATE, undefined=True, range=_date_range,
                                sql="(CASE WHEN ({0} >= 1) AND ({0} <= 9999) "
                                    "THEN TRY_CAST(concat({0}, '-', {1}, '-', {2}) AS DATE) END)"),),
                      "make_date(year, 2, 28)"),
    "week": _row(_part("week", 1, 53), "week(born)", "weekofyear(born)"),
    "day": _row(_part("day", 1, 31), "day(born)", "dayofmonth(born)"),
    "dayofyear": _row(_part("dayofyear", 1, 366), "dayofyear(born)", "extract(doy FROM born)"),
    "dayofweek": _row(_part("dayofweek", 0, 6), "dayofweek(born)", "weekday(born)", "extract(dow FROM born)"),
    **{name: _row(tuple(Overload(args=(kind,), result=VARCHAR, undefined=True,
                                 sql="(" + _guard_time(kind, name + "({0})", 0) + ")") for kind in (DATE, TIMESTAMP)),
                  f"{name}(born)", f"{name}(seen)") for name in ("dayname", "monthname")},
    "last_day": _row(tuple(Overload(args=(kind,), result=DATE, undefined=True, range=_last_day_range,
                                    sql="(" + _guard_time(kind, "last_day({0})", 0) + ")") for kind in (DATE, TIMESTAMP)),
                     "last_day(born)", "last_day(seen)"),
    **{name: _row(_part(name, 0, to, TIMESTAMP), f"{name}(seen)") for name, to in (("hour", 23), ("minute", 59), ("second", 59))},
    "days_between": _row((Overload(args=(DATE, DATE), result=BIGINT, undefined=True, range=iv.subtract,
                                   sql="(" + _guard_time(DATE, "({0} - {1})", 0, 1) + ")"),), "born - DATE '2000-01-01'"),
    "add_to_date": _row((Overload(args=(DATE, BIGINT), result=DATE, undefined=True, constants=(1,), range=iv.add,
                                  accepts=_bounded_integer(-36500, 36500),
                                  sql="(CASE WHEN ({0} >= DATE '0201-01-01') AND ({0} <= DATE '9000-01-01') "
                                      "THEN ({0} + CAST({1} AS INTEGER)) END)"),), "born + 30", "born - 30"),
    **_truncations(),
}

FUNCTIONS: dict[str, tuple[Overload, ...]] = {name: row.overloads for name, row in TABLE.items()}

MEMBERSHIP = "in"  # x IN (constants): any number of arguments of one type, so it is not a row of the table


def overload(function: str, types: Sequence[Type]) -> Overload | None:
    """The overload in the table for exactly these argument types; None if there is none."""
    if function == MEMBERSHIP:
        return Overload(args=tuple(types), result=BOOLEAN, sql="({0} IN ({list}))")
    return next((row for row in FUNCTIONS.get(function, ()) if row.matches(types)), None)


@lru_cache(maxsize=4096)
def times(sql: str, arguments: int) -> tuple[int, ...]:
    """How often a template prints each of its arguments, and at least once."""
    return tuple(max(1, sql.count(f"{{{i}}}")) for i in range(arguments))


# The SQL types a cast may name, the wide type that carries their values, and the range that holds in every database.
_SIGNED = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63}
DECIMAL = re.compile("|".join(rf"DECIMAL\({width},{scale}\)" for width in range(1, 39) for scale in range(width + 1)))
CARRIER: dict[str, tuple[Type, Interval]] = {
    **{name: (BIGINT, Interval(-(2**bits), 2**bits - 1)) for name, bits in _SIGNED.items()},
    **{"U" + name: (BIGINT, Interval(0, 2**(bits + 1) - 1)) for name, bits in _SIGNED.items() if bits < 63},
    "BOOLEAN": (BOOLEAN, ANY_NUMBER), "DOUBLE": (DOUBLE, ANY_NUMBER), "FLOAT": (DOUBLE, ANY_NUMBER),
    "VARCHAR": (VARCHAR, ANY_NUMBER), "DATE": (DATE, ANY_NUMBER), "TIMESTAMP": (TIMESTAMP, ANY_NUMBER),
}
