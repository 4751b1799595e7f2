"""Print expressions as SQL. (`questions.shown_expressions` prints them for people.)

`to_sql` is the only place where an expression becomes SQL. It prints every composite in parentheses, every literal with its
type, every function by the guarded template of the table, and nothing an analyst wrote except literals.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping

from dpsql.trusted.plan.expr.functions import CARRIER, DECIMAL, MEMBERSHIP, Overload, overload
from dpsql.trusted.plan.expr.nodes import Call, Case, Cast, Expr, Literal, Ref, Value, merged
from dpsql.types import Type


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text_literal(value: object) -> str:
    """A text as SQL."""
    return "'" + str(value).replace("'", "''") + "'"


def literal(value: Value, kind: Type) -> str:
    """A typed constant. Text is quoted; numbers are printed so that they read back as the same number."""
    if value is None:
        return f"CAST(NULL AS {kind.value})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        value = merged(value)
        if not math.isfinite(value):
            return f"CAST('{value}' AS DOUBLE)"
    if isinstance(value, int | float):
        return f"CAST({value!r} AS {kind.value})" if value >= 0 else f"CAST(({value!r}) AS {kind.value})"
    text = value.isoformat(sep=" ") if isinstance(value, dt.datetime) else str(value)
    return f"CAST({text_literal(text)} AS {kind.value})"


def settled(printed: str, kind: Type) -> str:
    """The expression that represents all values equal to a value when rows are grouped.

    A plan has only one equality, that of `=`, with NULL equal to NULL if rows are grouped. Frequencies, keys of tables, joins,
    groups and disjointness all refer to it. So values that differ by `=` are never merged here. Some numbers are equal by `=`
    although their texts differ: -0.0 and 0.0, or two NaN. Of these an engine shows the one that it met first, which depends on
    other rows; so they are replaced by one of them. In all other types, equal values are identical: a day outside the years 1 to
    9999 is a value like any other (`readable` says what clients are shown of it).
    """
    if kind is not Type.DOUBLE:
        return printed
    zero, nan = "CAST(0 AS DOUBLE)", "CAST('nan' AS DOUBLE)"
    return f"(CASE WHEN {printed} = {zero} THEN {zero} WHEN isnan({printed}) THEN {nan} ELSE {printed} END)"


_READABLE = {Type.DATE: ("0001-01-01", "9999-12-31"), Type.TIMESTAMP: ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999")}


def readable(printed: str, kind: Type) -> str:
    """The condition under which a client can read a value; empty if it can read every value of its type. NULL can be read.

    Python has no days outside the years 1 to 9999: it would read infinite ones as the first or last day, and others as texts.
    """
    if kind not in _READABLE:
        return ""
    first, last = (f"{kind.value} '{day}'" for day in _READABLE[kind])
    return f"COALESCE(({printed} >= {first}) AND ({printed} <= {last}), TRUE)"


def all_readable(columns: Iterable[tuple[str, Type]], word: str = " WHERE ") -> str:
    """The clause that excludes rows with a column that cannot be read; empty if all can be read."""
    tests = [test for printed, kind in columns if (test := readable(printed, kind))]
    return word + " AND ".join(tests) if tests else ""


def to_sql(expr: Expr, names: Mapping[str, str]) -> str:
    """The guarded SQL of an expression; `names` prints each column."""
    match expr:
        case Ref(column=column):
            return names[column]
        case Literal(value=value):
            return literal(value, expr.type)
        case Call(function=name, args=args):
            printed = [to_sql(arg, names) for arg in args]
            if name == MEMBERSHIP:
                return f"({printed[0]} IN ({', '.join(printed[1:])}))"
            return _row(name, expr).print(printed)
        case Case(branches=branches, otherwise=otherwise):
            arms = " ".join(f"WHEN {to_sql(when, names)} THEN {to_sql(then, names)}" for when, then in branches)
            return f"(CASE {arms} ELSE {to_sql(otherwise, names)} END)"
        case Cast(input=below, target=target):
            return cast(to_sql(below, names), target, expr.type)
        case other:
            raise TypeError(f"unknown expression {type(other).__name__}")


def cast(printed: str, target: str, carrier: Type) -> str:
    """A cast that gives NULL if it fails, then the widening to the type that carries the value. Raises ValueError for a target
    that is not a type, because the target is printed unchanged."""
    if target not in CARRIER and not DECIMAL.fullmatch(target):
        raise ValueError("a cast is to a type of the engine")
    tried = f"TRY_CAST({printed} AS {target})"
    if target == carrier.value:
        return tried
    return f"CAST({tried} AS {carrier.value})"


def _row(name: str, expr: Call) -> Overload:
    row = overload(name, [arg.type for arg in expr.args])
    if row is None:
        raise TypeError(f"no overload of {name}")
    return row
