"""The values of each cell in order, shared by the looks at quantiles."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.cells import Cells, cell_of
from dpsql.kernel.looks.context import Context
from dpsql.plan.operators.ranks import Ranks

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ranked:
    """Distinct grid values in rising order, and how many rows have each."""

    values: Integers
    counts: Integers

    def between(self, low: int, high: int) -> Ranked:
        first, last = np.searchsorted(self.values, (low, high + 1))
        return Ranked(self.values[first:last], self.counts[first:last])

    @property
    def total(self) -> int:
        return int(self.counts.sum())


def read(plan: Ranks, cells: Cells, context: Context) -> list[Ranked]:
    """The ranked values of every listed cell."""
    sql = context.sql(plan)
    if not plan.keys:
        if tuple(cells) != ((),):
            raise ValueError("without keys there is one cell")
        values, counts = (np.asarray(column, dtype=np.int64) for column in context.reader.arrays(sql))
        order = np.argsort(values, kind="stable")
        return [Ranked(values[order], counts[order])]
    found: dict[tuple[Any, ...], Counter[int]] = {cell_of(key): Counter() for key in cells}
    if len(found) != len(cells):
        raise ValueError("a cell is listed twice, and would be looked at twice at the price of once")
    for row in context.reader.rows(sql):
        cell = found.get(cell_of(row[:-2]))
        if cell is not None:
            cell[row[-2]] += row[-1]
    ranked = []
    for key in cells:
        table = np.array(sorted(found[cell_of(key)].items()), dtype=np.int64).reshape(-1, 2)
        ranked.append(Ranked(table[:, 0], table[:, 1]))
    return ranked
