"""What the counts of a column are of: its values one by one, or its bins; and where each row lies among them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen
from dpsql.trusted.plan.expr.nodes import Value


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
        place = {value: at for at, value in enumerate(self.listed)}
        if not self.edges:
            return np.array([place[value] for value in values], dtype=np.int64)
        last = len(self.edges) - 2
        numbers = np.array([self.edges[0] if value is None else number_of(value) for value in values], dtype=np.float64)
        bins = np.clip(np.searchsorted(self.edges, numbers, side="right") - 1, 0, last)
        return np.array([place[None if value is None else number] for value, number in zip(values, bins.tolist(), strict=True)],
                        dtype=np.int64)


def number_of(value: Value) -> float:
    """The position of a number, date or time on the axis of edges."""
    if isinstance(value, dt.datetime):
        return value.toordinal() + (value - dt.datetime.fromordinal(value.toordinal())) / dt.timedelta(days=1)
    return float(value.toordinal() if isinstance(value, dt.date) else value)  # type: ignore[arg-type]
