"""Coarser versions of columns of numbers, dates and times, in which they are counted together with others.

A column by itself is known well in many values or bins; pairs of columns have so many combinations of these that noise hides all
of them. So each column has versions of at most 16, 8 and 4 parts, each merging those of the one before, with about as many rows
in each part as the counts of the column say. A model has the versions as further columns, with the combinations that cannot occur
at 0, and a method chooses a version for each pair as it chooses the pair. The counts are released ones, so the versions are
public.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import replace
from dpsql.synthesis.binned_views import ColumnParts, with_parts
from dpsql.synthesis.counted_values import number_of
from dpsql.synthesis.method import CodedColumn, CodedTable
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.workload.factors import Array

Places: TypeAlias = NDArray[np.int64]
LEVELS = 16, 8, 4  # parts of the coarser versions, at most


def with_levels(table: CodedTable, counts: Mapping[str, Array]) -> CodedTable:
    """The table with coarser versions of its ordered columns, for those that have none yet; `counts` has those of the values of
    each, and is empty where they are not known yet and values are taken to be equally frequent."""
    found, parts, settled = list[CodedColumn](), list[ColumnParts](), {column.of for column in table.coarser}
    for column in (column for column in table.columns if column.ordered and column.name not in settled):
        order = _in_order(column)
        groups, of = np.arange(len(order), dtype=np.int64), column
        for most in (most for most in LEVELS if most < len(order)):
            own = np.asarray(counts.get(column.name, np.ones(len(column.values))))
            sums = np.bincount(groups, own[order])
            merged = grouped(sums, most)
            if merged[-1] == len(merged) - 1:
                continue  # as fine as the one before
            groups = merged[groups]
            starts = [order[at] for at in np.flatnonzero(np.diff(groups, prepend=-1))]
            made = _coarser(of, f"{column.name} in {len(starts)} parts", merged)
            found.append(made)
            parts.append(ColumnParts(column=column.column, starts=tuple(column.values[at] for at in starts)))
            of = made
    if not found:
        return table
    view, columns = with_parts(table.leveled or table.view, parts)
    return replace(table, leveled=view, coarser=(*table.coarser, *(
        replace(one, column=column) for one, column in zip(found, columns, strict=True))))


def _in_order(column: CodedColumn) -> list[int]:
    """The indices of the values of a column, from low to high, without that of NULL."""
    found = [at for at, value in enumerate(column.values) if value is not None]
    return found if column.of else sorted(found, key=lambda at: number_of(column.values[at]))


def grouped(counts: NDArray[Any], most: int) -> Places:
    """For each entry in order the number of its group: consecutive entries in at most `most` groups, with about equal sums of
    counts. An entry with more than such a sum is a group by itself, so that a value that many rows share stays apart."""
    enough = max(float(counts.sum()), 0.0) / most
    while True:
        numbers = _greedy(counts, enough)
        if numbers[-1] < most:
            return numbers
        enough = max(enough * 1.1, float(counts.max()) / most, 1e-9)


def _greedy(counts: NDArray[Any], enough: float) -> Places:
    """The groups that end where they have enough, or before a large entry."""
    numbers, number, sum_so_far = np.zeros(len(counts), dtype=np.int64), 0, 0.0
    for at, count in enumerate(counts.tolist()):
        if at and (sum_so_far >= enough or count > enough):
            number, sum_so_far = number + 1, 0.0
        numbers[at] = number
        sum_so_far += count
    return numbers


def _coarser(of: CodedColumn, name: str, merged: Places) -> CodedColumn:
    """The version of a column whose values are merged into these groups, in their order; NULL stays by itself."""
    places = dict(zip(_in_order(of), merged.tolist(), strict=True))
    count = int(merged[-1]) + 1
    values: tuple[Value, ...] = (*range(count), *((None,) if None in of.values else ()))
    return CodedColumn(column="", name=name, values=values, of=of.name, ordered=True,
                       merged=tuple(places.get(at, count) for at in range(len(of.values))))
