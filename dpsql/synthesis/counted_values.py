"""What the counts of a column are of: its values one by one, or its bins; and where each row lies among them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen
from dpsql.synthesis.packed_values import EPOCH, CodedValues, NumberValues, in_memory, in_ones
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.types import Type

MICROSECONDS = 86_400_000_000  # of a day
NOWHERE = -1


class CountedValues(Frozen):
    """The entries of a column's axis in a marginal.

    listed  values, or numbers of bins, in the order of the axis; NULL is among them if rows may have it
    edges   the first number of each bin, and the end of the last one, in days since year 1 for dates and times; none if
            values are counted one by one
    """

    listed: tuple[Value, ...]
    edges: tuple[float, ...] = ()

    @property
    def size(self) -> int:
        """The number of entries."""
        return len(self.listed)

    def places(self, values: Sequence[Value]) -> NDArray[np.int64]:
        """The index of the entry that counts each value. Raises KeyError if none does."""
        values = in_memory(values)
        if isinstance(values, CodedValues):
            present = np.flatnonzero(np.bincount(values.places, minlength=len(values.listed)))
            found = np.zeros(len(values.listed), dtype=np.int64)
            found[present] = self.places([values.listed[place] for place in present.tolist()])
            return np.asarray(found[values.places], dtype=np.int64)
        place = {value: at for at, value in enumerate(self.listed)}
        if not self.edges:
            return np.array([place[value] for value in values], dtype=np.int64)
        numbers, missing = _numbers_of(values)
        bins = np.clip(np.searchsorted(self.edges, numbers, side="right") - 1, 0, len(self.edges) - 2)
        entries = np.array([place.get(at, NOWHERE) for at in range(len(self.edges) - 1)], dtype=np.int64)[bins]
        entries[missing] = place.get(None, NOWHERE)
        if (entries == NOWHERE).any():
            raise KeyError("no entry counts a value")
        return entries


def _numbers_of(values: Sequence[Value]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The positions of values on the axis of edges, and which of them are NULL."""
    values = in_memory(values)
    if not isinstance(values, NumberValues):
        missing = np.array([value is None for value in values], dtype=np.bool_)
        return np.array([0.0 if value is None else number_of(value) for value in values], dtype=np.float64), missing
    none = np.zeros(len(values), dtype=np.bool_) if values.missing is None else values.missing
    unit = MICROSECONDS if values.type is Type.TIMESTAMP else 1
    start = EPOCH if values.type.temporal else 0
    return in_ones(values.numbers, values.parts) / unit + start, none


def numbers_of(values: Sequence[Value]) -> NDArray[np.float64]:
    """The positions of numbers, dates or times on the axis of edges; NaN for NULL."""
    numbers, missing = _numbers_of(values)
    return np.where(missing, np.nan, numbers)


def number_of(value: Value) -> float:
    """The position of a number, date or time on the axis of edges."""
    if isinstance(value, dt.datetime):
        return value.toordinal() + (value - dt.datetime.fromordinal(value.toordinal())) / dt.timedelta(days=1)
    return float(value.toordinal() if isinstance(value, dt.date) else value)  # type: ignore[arg-type]
