"""Guesses from the values of a column what to declare: a list, a range or bounds, and whether it is free of NULL.

It is proposed to the owner alone. Bounds are round, and contain all values; what the owner takes over is public.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping

from dpsql.catalog.schema import carried_as
from dpsql.catalog.writing import Value
from dpsql.frozen import Frozen
from dpsql.trusted.declarations.tables import Scalar
from dpsql.types import Type

MOST_LISTED = 20  # values that are proposed as a list
REPEATED = 5  # rows of each value, on average, that make it one of a list and not a name


class ColumnValues(Frozen):
    """The values of a column: of how many rows, how many are NULL, how many are different, the least and the greatest, and the
    values themselves where they are few."""

    rows: int
    nulls: int
    different: int
    low: Scalar | None
    high: Scalar | None
    values: tuple[Scalar, ...] = ()


class ColumnGuess(Frozen):
    """A declaration that the values of a column suggest, and the reason."""

    column: str
    entries: Mapping[str, Value]
    why: str


def column_guess(column: str, sql_type: str, seen: ColumnValues) -> ColumnGuess | None:
    """Guess declarations for a column from its values; None if these suggest nothing, as for a column that identifies each
    row."""
    carried = carried_as(sql_type)
    if carried is None or seen.low is None or seen.high is None or (
            seen.different == seen.rows - seen.nulls > MOST_LISTED and carried[0] in (Type.VARCHAR, Type.BIGINT)):
        return None
    declared, why = _of_values(carried[0], seen)
    entries = {**declared, **({"nullable": False} if not seen.nulls else {})}
    none = "never NULL" if not seen.nulls else f"NULL in {seen.nulls:,} rows of {seen.rows:,}"
    return ColumnGuess(column=column, entries=entries, why="; ".join(filter(None, (why, none)))) if entries else None


def _of_values(kind: Type, seen: ColumnValues) -> tuple[dict[str, Value], str]:
    low, high = seen.low, seen.high
    if kind is Type.VARCHAR:
        listed = len(seen.values) > 0 and seen.rows - seen.nulls >= REPEATED * seen.different
        return ({"values": sorted(seen.values, key=str)}, f"{seen.different} different texts") if listed else ({}, "")
    if isinstance(low, dt.datetime) and isinstance(high, dt.datetime):
        ends: list[Value] = [dt.datetime(low.year, 1, 1), dt.datetime(high.year, 12, 31, 23, 59, 59)]
        return {"bounds": ends}, f"from {low} to {high}"
    if isinstance(low, dt.date) and isinstance(high, dt.date):
        return {"range": [dt.date(low.year, 1, 1), dt.date(high.year, 12, 31)]}, f"from {low} to {high}"
    if isinstance(low, bool) or not isinstance(low, int | float) or isinstance(high, bool) or not isinstance(high, int | float):
        return {}, ""
    few = kind is Type.BIGINT and len(seen.values) > 0 and high - low < 2 * MOST_LISTED
    first, last = (low, high) if few else rounded_out(low, high)
    whole = kind is Type.BIGINT and last - first <= 1000
    return {"range" if whole else "bounds": [first, last]}, f"from {low:g} to {high:g}"


def rounded_out(low: float, high: float) -> tuple[float, float]:
    """Round numbers that enclose both ends: multiples of the power of ten below their distance; 0 if the lower end is near it."""
    size = high - low
    if not math.isfinite(size) or size <= 0:
        return min(low, 0), max(high, 1)
    step = 10.0 ** math.floor(math.log10(size))
    first = 0.0 if 0 <= low < size else math.floor(low / step) * step
    last = 0.0 if -size < high <= 0 else math.ceil(high / step) * step
    whole = all(float(end).is_integer() for end in (first, last))
    return (int(first), int(last)) if whole else (round(first, 12), round(last, 12))
