"""Columns in which NULL may be noise alone: none is drawn there.

No count is negative in a model. So a column without NULL, whose count is 0 up to noise, would get 0.4 standard errors of NULL on
average, and some half of the time: a table with twelve such columns would nearly always have NULL where the private rows have
none. NULL is drawn if its count, as measured, is two standard errors or more: then somebody has it, with the confidence of all
intervals here. Otherwise the rows that would have NULL are drawn again, given their other columns, among the other values. A
column loses two standard errors of NULL at most, which nobody could tell from noise. All of it is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from dpsql.frozen import Frozen
from dpsql.models.conditional_draws import Allowed
from dpsql.models.noisy_marginals import MarginalMeasurement, combined
from dpsql.models.sampling import Places, UniformDraws
from dpsql.models.table_domain import TableDomain
from dpsql.models.table_model import TableModel
from dpsql.synthesis.method import CodedColumn, CodedTable
from dpsql.synthesis.table_comparison import summed
from dpsql.trusted.plan.expr.nodes import Value

SURE = 2  # standard errors
Counted: TypeAlias = tuple[float, float]  # a number of rows, and its variance


class DoubtfulNulls(Frozen):
    """The columns in which NULL may be noise alone, among all columns of a table."""

    columns: tuple[str, ...]
    all_columns: tuple[CodedColumn, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the table should know."""
        if not self.columns:
            return ()
        return (note_on(self.columns),)

    def replaced(self, drawn: Places, model: TableModel, draws: UniformDraws) -> Places:
        """Rows drawn from the model, with the other columns as they are, and other values instead of doubtful NULL. Columns are
        in the order of the model."""
        at = {name: place for place, name in enumerate(model.domain.columns)}
        for column in (each for each in self.all_columns if each.name in self.columns):
            wrong = np.flatnonzero(drawn[:, at[column.name]] == column.values.index(None))
            if len(wrong):
                known = np.array([value is not None for value in column.values])
                given = {each.name: drawn[wrong, at[each.name]] for each in self.all_columns if each.name != column.name}
                allowed = {column.name: Allowed(patterns=known[None], at=np.zeros(len(wrong), dtype=np.int64))}
                drawn[wrong] = model.draw_given(len(wrong), given, draws, allowed)
        return drawn


def doubtful_nulls(table: CodedTable, measured: Iterable[MarginalMeasurement]) -> DoubtfulNulls:
    """The columns with fewer NULLs, by all that was measured of them, than could be told from noise."""
    marginals = tuple(measured)
    return DoubtfulNulls(all_columns=table.columns, columns=tuple(
        column.name for column in table.columns if _doubtful(column, marginals)))


def _doubtful(column: CodedColumn, measured: Sequence[MarginalMeasurement]) -> bool:
    found = counted(column, None, measured) if len(column.values) > 1 else None
    return found is not None and not is_sure([found])


def counted(column: CodedColumn, value: Value, measured: Iterable[MarginalMeasurement]) -> Counted | None:
    """The number of rows with a value, by all that was measured of a column; None if the value is not listed, or nothing was
    measured."""
    told = [summed(each, (column.name,)) for each in measured if column.name in each.columns]
    if value not in column.values or not told:
        return None
    found, = combined(TableDomain(columns=(column.name,), sizes=(len(column.values),)), told)
    return float(np.asarray(found.values)[column.values.index(value)]), found.variance


def is_sure(counts: Sequence[Counted]) -> bool:
    """Whether some of the rows that were counted, in parts, can be told from noise: by the mean of the parts, weighted by inverse
    variances."""
    weights = [1 / variance for _, variance in counts]
    return sum(weight * count for weight, (count, _) in zip(weights, counts, strict=True)) >= SURE * math.sqrt(sum(weights))


def note_on(columns: Sequence[str]) -> str:
    """What a reader should know of columns in which no NULL is drawn."""
    return (f"no NULL is drawn in {', '.join(columns)}: fewer were measured than {SURE} standard errors, so it is "
            "unknown whether there are any")
