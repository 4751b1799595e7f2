"""Columns whose values follow from another column's, as zip codes determine states, where nobody says how they do.

For a part of the price the rows are counted by both columns together; each value of the one then stands for the value of the
other that it was counted with most often. So the dependency holds in every row that is drawn, also where noise hid the right
value. The dependent column is left out of the model, and costs nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpsql.frozen import Frozen, replace
from dpsql.models.table_domain import Columns
from dpsql.synthesis.column_forms import ListedColumn
from dpsql.synthesis.method import CodedColumn, SynthesisTask
from dpsql.synthesis.methods.marginal_requests import counted, noise_for
from dpsql.synthesis.valid_combinations import FollowingColumn
from dpsql.trusted.measurements.reading.request import Request

EACH, TOGETHER = Fraction(1, 10), Fraction(1, 4)  # of the price: for one dependency, and for all of them at most


class DependentColumn(Frozen):
    """A listed column, at which place of the table's columns it is, and the listed column that determines it."""

    at: int
    form: ListedColumn
    coded: CodedColumn
    of: str


def part_for(dependent: Sequence[DependentColumn]) -> Fraction:
    """The part of the price for each of these columns."""
    return min(EACH, TOGETHER / max(len(dependent), 1))


def determined(task: SynthesisTask, dependent: Sequence[DependentColumn]) -> Generator[Request, Any, tuple[FollowingColumn, ...]]:
    """The values that follow, for a part of the price of the task."""
    table = replace(task.table, columns=(*task.table.columns, *(one.coded for one in dependent)))
    values, found = {column.name: column.values for column in table.columns}, list[FollowingColumn]()
    for one in dependent:
        counts = (yield from counted(table, (one.of, one.coded.name), task.price.part(part_for(dependent)))).values
        most = np.argmax(counts, axis=1).tolist()
        found.append(FollowingColumn(at=one.at, form=one.form, of=one.of, values={
            value: one.coded.values[place] for value, place in zip(values[one.of], most, strict=True)}))
    return tuple(found)


def without_dependent(workload: Iterable[Columns], dependent: Sequence[DependentColumn]) -> tuple[Columns, ...]:
    """The workload with each dependent column replaced by the column that determines it."""
    of = {one.coded.name: one.of for one in dependent}
    return tuple(tuple(dict.fromkeys(of.get(column, column) for column in columns)) for columns in workload)


def dependency_stage(task: SynthesisTask, dependent: Sequence[DependentColumn]) -> str:
    """The stage in words, for EXPLAIN."""
    error = math.sqrt(noise_for(task.table, task.price.part(part_for(dependent))).variance)
    return (f"counts of {', '.join(f'{one.of} and {one.coded.name}' for one in dependent)}, of which one determines the other: "
            f"standard error {error:.3g}")
