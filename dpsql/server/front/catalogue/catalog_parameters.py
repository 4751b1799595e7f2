"""Parameters as constants of DuckDB that keep their types, in queries of the catalogue and in those without a table."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

from sqlglot import exp

from dpsql.errors import DataError
from dpsql.server.front.terms.types_on_wire import MOST_DIGITS

FINAL = "final"
_PLAIN = ("", "VARCHAR")


def constant(value: object, kind: str = "") -> exp.Expr:
    """A value sent by a client as a node, cast to its `kind` if that is known. Raises DataError for a decimal with too many
    digits."""
    kind = kind.replace("OID", "BIGINT")
    if isinstance(value, list | tuple):
        made: exp.Expr = exp.Array(expressions=[constant(each, kind.removesuffix("[]")) for each in value])
        return made if kind in _PLAIN else _final(made, f"{_type(kind.removesuffix('[]'), *value)}[]")
    return _literal(value) if kind in _PLAIN else _final(_literal(value), _type(kind, value))


def _final(node: exp.Expr, kind: str) -> exp.Expr:
    """A cast to a type of DuckDB; it is not translated as casts to types of PostgreSQL are."""
    made = exp.cast(node, kind, dialect="duckdb")
    made.meta[FINAL] = True
    return made


def decimal(number: exp.Literal) -> exp.Expr:
    """A literal number as a decimal with all of its digits."""
    return _final(number.copy(), f"DECIMAL({MOST_DIGITS}, {len(number.name.partition('.')[2])})")


def _literal(value: object) -> exp.Expr:
    if isinstance(value, dt.date):
        return exp.Literal.string(value.isoformat())
    if isinstance(value, float) and not math.isfinite(value):  # sqlglot would make NULL of it
        return _final(exp.Literal.string(str(value)), "DOUBLE")
    if isinstance(value, Decimal):
        return exp.Literal.string(format(value, "f"))
    return exp.convert(value if isinstance(value, str | int | float | bool) or value is None else str(value))


def _type(kind: str, *values: object) -> str:
    """The type for constants of a kind; for decimals, one with room for all of their digits."""
    if kind != "DECIMAL":
        return kind
    numbers = [Decimal(value) for value in values if isinstance(value, int | Decimal)]
    scale = max((-int(number.as_tuple().exponent) for number in numbers), default=0)
    if any(number.adjusted() + 1 + max(scale, 0) > MOST_DIGITS for number in numbers):
        raise DataError(f"decimals have at most {MOST_DIGITS} digits here", code="type", try_="a double")
    return f"DECIMAL({MOST_DIGITS}, {max(scale, 0)})"
