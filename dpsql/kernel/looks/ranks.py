"""The values of each cell in order, shared by the looks at quantiles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.cells import Cells, cell_of
from dpsql.kernel.looks.context import Context
from dpsql.plan.operators.ranks import Ranks

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ranked:
    """Distinct grid values in rising order, and how many rows have each; `upto` counts rows from some place on to before each."""

    values: Integers
    counts: Integers
    upto: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def __post_init__(self) -> None:
        if not len(self.upto):
            object.__setattr__(self, "upto", np.append(0, np.cumsum(self.counts, dtype=np.int64)))

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
    sql = context.sql(plan)
    if not plan.keys:
        if tuple(cells) != ((),):
            raise ValueError("without keys there is one cell")
        return [ranked(*context.reader.arrays(sql))]
    found: dict[tuple[Any, ...], tuple[list[int], list[int]]] = {cell_of(key): ([], []) for key in cells}
    if len(found) != len(cells):
        raise ValueError("a cell is listed twice, and would be looked at twice at the price of once")
    dropped: tuple[list[int], list[int]] = ([], [])
    known: dict[tuple[Any, ...], tuple[list[int], list[int]]] = {}
    for row in context.reader.rows(sql):
        key = row[:-2]
        cell = known.get(key)
        if cell is None:
            cell = known[key] = found.get(cell_of(key), dropped)
        cell[0].append(row[-2])
        cell[1].append(row[-1])
    return [ranked(*found[cell_of(key)]) for key in cells]


def ranked(values: ArrayLike, counts: ArrayLike) -> Ranked:
    """Values in order; the counts of equal ones are added up."""
    given, times = np.asarray(values, dtype=np.int64), np.asarray(counts, dtype=np.int64)
    if np.all(times == 1):
        return Ranked(*np.unique(given, return_counts=True))
    order = np.argsort(given)
    given, times = given[order], times[order]
    first = np.flatnonzero(np.concatenate(([True], given[1:] != given[:-1])))
    return Ranked(given[first], np.add.reduceat(times, first))
