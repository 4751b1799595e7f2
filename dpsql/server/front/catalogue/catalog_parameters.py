"""Parameters of questions to the catalogue, and of questions without a table, as constants of DuckDB that keep their types."""

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
    """A value sent by a client, as a node; one of its `kind`, if that is known. Raises DataError for a decimal with too many
    digits."""
    if isinstance(value, list | tuple):
        made: exp.Expr = exp.Array(expressions=[constant(each, kind.removesuffix("[]")) for each in value])
        return made if kind in _PLAIN else _final(made, _type(kind, None))
    return _literal(value) if kind in _PLAIN else _final(_literal(value), _type(kind, value))


def _final(node: exp.Expr, kind: str) -> exp.Expr:
    """A cast to a type of DuckDB, which is not one of PostgreSQL that still has to be translated."""
    made = exp.cast(node, kind, dialect="duckdb")
    made.meta[FINAL] = True
    return made


def decimal(number: exp.Literal) -> exp.Expr:
    """A number that is written, as a decimal with all of its digits."""
    return _final(number.copy(), f"DECIMAL({MOST_DIGITS}, {len(number.name.partition('.')[2])})")


def _literal(value: object) -> exp.Expr:
    if isinstance(value, dt.date):
        return exp.Literal.string(value.isoformat())
    if isinstance(value, float) and not math.isfinite(value):  # sqlglot would make NULL of it
        return _final(exp.Literal.string(str(value)), "DOUBLE")
    if isinstance(value, Decimal):
        return exp.Literal.string(format(value, "f") if value.is_finite() else str(value))
    return exp.convert(value if isinstance(value, str | int | float | bool) or value is None else str(value))


def _type(kind: str, value: object) -> str:
    if not kind.startswith("DECIMAL"):
        return kind
    number = Decimal(value) if isinstance(value, int | Decimal) else Decimal(0)
    if not number.is_finite():
        return "DOUBLE"
    scale = max(-int(number.as_tuple().exponent), 0) if isinstance(value, int | Decimal) else 10
    if len(format(number.copy_abs(), "f").replace(".", "")) > MOST_DIGITS:
        raise DataError(f"decimals have at most {MOST_DIGITS} digits here", code="type", try_="a double")
    return f"DECIMAL({MOST_DIGITS}, {scale}){'[]' * kind.endswith('[]')}"
