"""The sorted values of each cell, shared by the measurements of quantiles."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.frozen import Frozen, field, settle
from dpsql.trusted.measurements.reading.occupied_cells import places_of
from dpsql.trusted.measurements.reading.request import Context
from dpsql.trusted.plan.cells import Cells
from dpsql.trusted.plan.operators.ranks import Ranks

Integers = NDArray[np.int64]


class Ranked(Frozen, kw_only=False):
    """Distinct grid values in increasing order, and the number of rows with each. `upto` has the number of rows before each
    value, and finally that of all rows."""

    values: Integers
    counts: Integers
    upto: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def __post_init__(self) -> None:
        if not len(self.upto):
            settle(self, "upto", np.append(0, np.cumsum(self.counts, dtype=np.int64)))

    def between(self, low: int, high: int) -> Ranked:
        first, last = np.searchsorted(self.values, (low, high + 1))
        return self.part(int(first), int(last))

    def part(self, first: int, last: int) -> Ranked:
        """The values at positions first <= i < last."""
        return Ranked(self.values[first:last], self.counts[first:last], self.upto[first : last + 1])

    @property
    def total(self) -> int:
        return int(self.upto[-1] - self.upto[0])


def read(plan: Ranks, cells: Cells, context: Context) -> list[Ranked]:
    """The ranked values of every listed cell."""
    if context.last.asked != (plan, cells):
        context.last.found = _read(plan, cells, context)
        context.last.asked = (plan, cells)
    found: list[Ranked] = context.last.found
    return found


def _read(plan: Ranks, cells: Cells, context: Context) -> list[Ranked]:
    if not plan.keys:
        return [ranked(*context.arrays(plan)) for _ in cells]  # of which there is one at most
    *keys, values, counts = context.columns(plan)
    places = places_of(keys, cells, len(values))
    order = np.argsort(places, kind="stable")
    ends = np.searchsorted(places[order], np.arange(len(cells) + 1))
    sorted_values, times = (np.asarray(np.ma.getdata(column)[order], dtype=np.int64) for column in (values, counts))
    return [ranked(sorted_values[first:last], times[first:last]) for first, last in itertools.pairwise(ends)]


def ranked(values: ArrayLike, counts: ArrayLike) -> Ranked:
    """Values in order; the counts of equal values are added up."""
    given, times = np.asarray(values, dtype=np.int64), np.asarray(counts, dtype=np.int64)
    if np.all(times == 1):
        return Ranked(*np.unique(given, return_counts=True))
    order = np.argsort(given)
    given, times = given[order], times[order]
    first = np.flatnonzero(np.concatenate(([True], given[1:] != given[:-1])))
    return Ranked(given[first], np.add.reduceat(times, first))
