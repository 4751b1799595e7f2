"""The sorted values of each cell, shared by the measurements of quantiles."""

from __future__ import annotations

import itertools
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen, field, settle
from dpsql.trusted.measurements.reading.occupied_cells import NOWHERE, places_of
from dpsql.trusted.measurements.reading.request import Context
from dpsql.trusted.plan.cells import Cells
from dpsql.trusted.plan.operators.ranks import Ranks

Integers = NDArray[np.int64]
Column: TypeAlias = np.ma.MaskedArray[Any, Any]
DENSE = 4  # numbers up to so many times the number of values are counted without sorting them
NONE = np.zeros(0, dtype=np.int64)


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
    """The ranked values of every listed cell, from any of the forms in which `Ranks` gives its rows."""
    columns = context.columns(plan)
    keys, rest = columns[: len(plan.keys)], columns[len(plan.keys):]
    if not keys:
        return [ranked(*_present(*rest)) for _ in cells]  # of which there is one at most
    places = places_of(keys, cells, len(rest[0]))
    if len(rest) == 1:
        return _listed(rest[0], places, len(cells))
    order = np.argsort(places, kind="stable")
    ends = np.searchsorted(places[order], np.arange(len(cells) + 1))
    values, counts = (column[order] for column in rest)
    return [ranked(*_present(values[first:last], counts[first:last])) for first, last in itertools.pairwise(ends)]


def _listed(lists: Column, places: Integers, cells: int) -> list[Ranked]:
    """The ranked values of every cell, given lists of values and the cell of each list."""
    found: list[list[NDArray[Any]]] = [[] for _ in range(cells)]
    for place, values in zip(places.tolist(), np.ma.getdata(lists), strict=True):
        if place != NOWHERE:
            found[place].extend(_present(np.ma.asarray(values)))
    return [ranked(np.concatenate(parts) if parts else NONE) for parts in found]


def _present(values: Column, *beside: Column) -> list[NDArray[Any]]:
    """Columns without the rows in which the first is NULL."""
    if not np.ma.is_masked(values):
        return [np.ma.getdata(column) for column in (values, *beside)]
    kept = ~np.ma.getmaskarray(values)
    return [np.ma.getdata(column)[kept] for column in (values, *beside)]


def ranked(values: NDArray[Any], counts: NDArray[Any] | None = None) -> Ranked:
    """Values in order; the counts of equal values are added up. Without counts each value counts once."""
    if counts is None or np.all(counts == 1):
        return Ranked(*_counted(values))
    order = np.argsort(values)
    given, times = values[order].astype(np.int64), counts[order].astype(np.int64)
    first = np.flatnonzero(np.concatenate(([True], given[1:] != given[:-1])))
    return Ranked(given[first], np.add.reduceat(times, first))


def _counted(values: NDArray[Any]) -> tuple[Integers, Integers]:
    """The different values, none of which is negative, and how often each occurs."""
    if len(values) and values.max() < DENSE * len(values):
        table = np.bincount(values)
        found = np.flatnonzero(table)
        return found, table[found]
    found, times = np.unique(values, return_counts=True)
    return found.astype(np.int64), times.astype(np.int64)
