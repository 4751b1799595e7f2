"""The values, bins and counts of a synthetic table's columns, as texts of its page."""

from __future__ import annotations

import datetime as dt
import math
from itertools import pairwise

from dpsql.synthesis.released_table import SyntheticColumn
from dpsql.synthesis.table_comparison import Z
from dpsql.types import Type

WHOLE = (Type.BIGINT, Type.DATE)


def labelled(column: SyntheticColumn) -> list[str]:
    """The entries that were counted, as text; NULL is one of them."""
    if column.counted is None:
        return []
    bins = [_bin_text(low, high, column.type) for low, high in pairwise(column.counted.edges)]
    return [bins[entry] if bins and isinstance(entry, int) else value_text(entry) for entry in column.counted.listed]


def value_text(value: object) -> str:
    """A listed value."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"{value:,.10g}"
        case dt.date():
            return value.isoformat().replace("T", " ")
        case _:
            return str(value) or "''"


def _bin_text(low: float, high: float, kind: Type) -> str:
    whole = kind in WHOLE
    first, last = edge_text(low, kind), edge_text(high - whole, kind)
    return first if first == last else f"{first} to {last}"


def edge_text(edge: float, kind: Type) -> str:
    """A place on the axis of edges."""
    if not kind.temporal:
        return f"{edge:,.6g}"
    day = dt.datetime.fromordinal(int(edge))
    return day.date().isoformat() if kind is Type.DATE else (day + dt.timedelta(days=edge - int(edge))).isoformat(" ", "minutes")


def number_text(number: float, kind: Type) -> str:
    """A value by its place on the axis of edges."""
    if kind.temporal:
        return edge_text(number, kind)
    return value_text(int(number) if kind is Type.BIGINT else number)


def end_text(end: float, length: float, kind: Type) -> str:
    """A place on an axis of this length, with as many decimals as matter."""
    if kind.temporal or kind in WHOLE:
        return edge_text(float(int(end)) if kind in WHOLE else end, kind)
    return f"{end:,.{max(0, 2 - math.floor(math.log10(length)))}f}"


def measured_text(count: float, error: float) -> str:
    """A noisy count, which may be negative, with its 95 % interval."""
    return f"measured {count:,.0f} ± {margin(error)}"


def margin(error: float) -> str:
    """Half of a 95 % interval."""
    return f"{Z * error:,.0f}" if Z * error >= 10 else f"{Z * error:.2g}"
