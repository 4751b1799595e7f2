"""Least squares over several measurements of the same rows, each over columns of its own.

All of them are linear queries over the cells of all columns together: a measurement that does not involve a column is over the
marginal without it. Each noisy number is weighted by the inverse of its variance, so the best linear unbiased answer to every
query that is a combination of the measurements follows from one covariance matrix of cells; cells that no query distinguishes
are merged.

A measurement that does not involve a column counts all rows, and one that does counts the rows in its cells. These are the same
rows, as every row is in exactly one cell of each column, with cells for undeclared values among them (`batch.attributes`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsql.batch.records import MeasuredQueries
from dpsql.frozen import Frozen
from dpsql.trusted.cached import cached_property
from dpsql.workload.domain import DENSE
from dpsql.workload.factors import Array, Total
from dpsql.workload.workload import Product, Workload

WRITTEN = 2**24  # entries of the matrices of queries over cells
MERGED = 2048  # cells that are left after merging
TOLERANCE = 1e-7  # relative length of the part of a query that may lie outside the measured space


class ColumnCells(Frozen, kw_only=False):
    """The cells of some columns, the last changing fastest."""

    columns: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.sizes)

    def with_columns(self, columns: Sequence[str], sizes: Sequence[int]) -> ColumnCells:
        """With further columns at the end."""
        new = [(column, size) for column, size in zip(columns, sizes, strict=True) if column not in self.columns]
        return ColumnCells((*self.columns, *(column for column, _ in new)), (*self.sizes, *(size for _, size in new)))

    def spread(self, matrix: Array, columns: Sequence[str], sizes: Sequence[int]) -> Array:
        """Queries over the cells of some of the columns, in any order, as queries over all cells: a row for each query."""
        table = matrix.reshape(len(matrix), *sizes)
        order = sorted(range(len(columns)), key=lambda i: self.columns.index(columns[i]))
        table = table.transpose(0, *(1 + i for i in order))
        shape = [len(matrix), *(size if column in columns else 1 for column, size in zip(self.columns, self.sizes, strict=True))]
        return np.broadcast_to(table.reshape(shape), (len(matrix), *self.sizes)).reshape(len(matrix), self.size)


def weighted(asked: MeasuredQueries, cells: ColumnCells) -> Array:
    """The queries of a measurement over all cells, (queries, cells), each divided by the standard deviation of its noise."""
    sizes = (math.prod(asked.sizes),) if asked.line else asked.sizes
    found = []
    for block in asked.blocks:
        factors = [dict(zip(block.axes, block.factors, strict=True)).get(axis, Total(size)) for axis, size in enumerate(sizes)]
        matrix = Product(tuple(factors)).dense().astype(float)
        found.append(cells.spread(matrix, asked.columns, asked.sizes) / deviation(asked, block.scale))
    return np.concatenate(found)


def deviation(asked: MeasuredQueries, scale: float) -> float:
    """The standard deviation of noise of this scale; for Laplace noise, sqrt(2) times the scale."""
    return scale * (math.sqrt(2) if asked.noise == "laplace" else 1)


def given(asked: MeasuredQueries, answers: Sequence[Sequence[int]]) -> Array:
    """The answers of all blocks, one after the other, each divided by the standard deviation of its noise."""
    return np.concatenate([np.array(each, dtype=float) / deviation(asked, block.scale)
                           for each, block in zip(answers, asked.blocks, strict=True)])


def fitting(own: ColumnCells, queries: int, measured: Sequence[MeasuredQueries]) -> tuple[ColumnCells, list[int]]:
    """Cells of these and further columns, and the indices of the measurements that can be combined over them: first those over
    these columns only, then others as long as the matrices are not too large."""
    cells, chosen, rows = own, [], queries
    inside = [i for i, asked in enumerate(measured) if set(asked.columns) <= set(own.columns)]
    for i in [*inside, *(i for i in range(len(measured)) if i not in inside)]:
        wider = cells.with_columns(measured[i].columns, measured[i].sizes)
        more = rows + sum(block.rows for block in measured[i].blocks)
        if wider.size <= DENSE and wider.size * more <= WRITTEN:
            cells, rows = wider, more
            chosen.append(i)
    return cells, sorted(chosen)


class Combined(Frozen):
    """Matrices over merged cells: a row for each query, and a row for each measurement, divided by its standard deviation."""

    queries: Array
    measured: Array

    @classmethod
    def of(cls, queries: Array, measured: Array) -> Combined:
        """Merge cells whose columns are equal, and drop cells that no query counts."""
        whole = np.concatenate([queries, measured])
        _, first = np.unique(whole, axis=1, return_index=True)
        kept = np.array([i for i in sorted(first.tolist()) if whole[:, i].any()], dtype=np.int64)
        return cls(queries=queries[:, kept], measured=measured[:, kept])

    @property
    def small(self) -> bool:
        return int(self.queries.shape[1]) <= MERGED

    @cached_property
    def _normal(self) -> Array:
        return np.asarray(self.measured.T @ self.measured)

    @cached_property
    def _roots(self) -> Array:
        """R such that R R' is a generalised inverse of the normal matrix; which one does not matter for combinations of what was
        measured. Columns are normalised, so that the rank is determined reliably."""
        lengths = np.sqrt(np.maximum(np.diag(self._normal), 1e-300))
        values, vectors = np.linalg.eigh(self._normal / lengths[:, None] / lengths[None, :])
        known = values > 1e-11 * max(float(values.max(initial=0.0)), 1e-300)
        return np.asarray(vectors[:, known] / np.sqrt(values[known]) / lengths[:, None])

    def variances(self) -> Array:
        """The variance of each query; infinite if it is not a combination of the measurements."""
        mixed = self.queries @ self._roots
        left = self.queries - mixed @ (self._roots.T @ self._normal)
        outside = np.abs(left).max(axis=1, initial=0.0) > TOLERANCE * np.abs(self.queries).max(axis=1, initial=0.0)
        return np.where(outside, math.inf, (mixed**2).sum(axis=1))

    def answers(self, given: Array) -> Array:
        """The best linear unbiased answer to each query, from what `given` returns for all measurements."""
        return np.asarray((self.queries @ self._roots) @ (self._roots.T @ (self.measured.T @ given)))


def queries_over(workload: Workload, columns: Sequence[str], cells: ColumnCells) -> Array:
    """The queries of a workload over the cells of these and further columns, (queries, cells)."""
    sizes = workload.domain.shape if columns else ()
    matrix = np.concatenate([part.dense() for part in workload.parts]).astype(float)
    return cells.spread(matrix, columns, sizes)
