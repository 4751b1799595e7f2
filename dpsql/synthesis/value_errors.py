"""How far sums and averages of a column of a synthetic table may be off, as far as the counts of its values tell.

A sum is a linear query of the counts c of the column's entries: sum(c m), where m are the means of the entries. The error of the
table's sum is sum((drawn - c) m) = sum((drawn - measured) m) + sum((measured - c) m). The first term is known. The second is
noise, whose variance is that of a count times sum(m^2). So the size of the first term and 2.12 standard errors of the second
bound the error, even if the model has followed the noise. For an average a, m - a replaces m, and the bound is divided by the
number of rows.

This assumes that private numbers within a bin are spread as the drawn ones: m is the mean of these, from which some of a bin's
rows differ by chance. The ends of the bins bound what any other spread would add.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from dpsql.frozen import Frozen
from dpsql.models.table_domain import Columns
from dpsql.synthesis.measured_counts import EntryNumbers, MeasuredCounts
from dpsql.workload.factors import Array

QUANTILE = 2.12  # standard errors with 95 % of a sum of Laplace or normal noise: 3.00 / sqrt(2) of one with Laplace noise


class NumberError(Frozen):
    """About how far a sum, or an average over `rows` rows, may be off, with 95 % probability, because of the errors of counts by
    `columns`; and how much more, if numbers within a bin are spread differently than in the table. The margin of an average is in
    inverse proportion to the rows."""

    columns: Columns
    rows: int
    margin: float
    more: float


class _Cells(Frozen, eq=False):
    """Counts with axes for groups, for other cells, any of which an answer may add up, and for the entries of a column.

    error       of each count
    correlated  None if errors are independent; otherwise how many measured counts each is the sum of
    """

    columns: Columns
    numbers: EntryNumbers
    measured: Array
    drawn: Array
    error: float
    correlated: float | None

    def margin(self, weights: Array, rows: float) -> Array:
        """How far weighted sums of counts may be off in each group of a table with so many rows."""
        deviation = np.sqrt(np.square(self._noise(weights)) + self._spread(rows))
        return np.asarray(self._off(weights) + QUANTILE * deviation)

    def _off(self, weights: Array) -> Array:
        """The largest distance of weighted sums of drawn counts from measured ones, in each group, over any of its cells."""
        apart = np.einsum("gwe,ge->gw", self.measured - self.drawn, weights)
        return np.asarray(np.maximum(np.maximum(apart, 0).sum(axis=1), -np.minimum(apart, 0).sum(axis=1)))

    def _noise(self, weights: Array) -> Array:
        """The largest standard error of weighted sums of measured counts in each group."""
        cells = self.measured.shape[1]
        if self.correlated is None:
            return np.asarray(self.error * np.sqrt(cells * np.square(weights).sum(axis=1)))
        return np.asarray(self.error * math.sqrt(self.correlated) * cells * np.abs(weights).sum(axis=1))

    def _spread(self, rows: float) -> Array:
        """The variance, in each group, of sums of numbers given their entries: of private rows, and of as many drawn ones
        whose sums are scaled to them."""
        variances = np.nan_to_num(self.numbers.variances)
        return np.asarray((1 + self.drawn.sum() / max(rows, 1)) * (np.maximum(self.drawn, 0).sum(axis=1) @ variances))


def error_of_sum(table: MeasuredCounts, value: str, columns: Sequence[str], summed: Collection[str] = ()) -> NumberError | None:
    """The error of sums of a column by others, of which some are `summed` over; None if it is not known, as they were not counted
    together, or as the column has no numbers. With several sums, this is the largest of their errors."""
    cells = _cells(table, value, columns, summed)
    if cells is None:
        return None
    groups, scale = len(cells.measured), table.rows / table.total
    weights = np.broadcast_to(np.nan_to_num(cells.numbers.means), (groups, cells.measured.shape[2]))
    margin = cells.margin(weights, table.rows)
    more = np.maximum(cells.measured, cells.drawn).clip(min=0).sum(axis=1) @ cells.numbers.reach
    return NumberError(columns=cells.columns, rows=table.rows, margin=float(margin.max(initial=0)) * scale,
                        more=float(more.max(initial=0)) * scale)


def error_of_mean(table: MeasuredCounts, value: str, columns: Sequence[str], summed: Collection[str] = ()) -> NumberError | None:
    """The error of averages of a column by others, as above: the largest, as if each was over the average number of rows. If it
    were larger than the range of the column then, it is stated for more rows, as it is in inverse proportion to their number."""
    cells = _cells(table, value, columns, summed)
    if cells is None:
        return None
    there, scale = ~np.isnan(cells.numbers.means), table.rows / table.total
    counts, means = cells.drawn * there, np.nan_to_num(cells.numbers.means)
    rows = counts.sum(axis=2)
    averages = np.divide(counts @ means, rows, out=np.full(rows.shape, np.nan), where=rows > 0)
    groups = rows.sum(axis=1) > 0
    if not groups.any():
        return None
    margin = np.zeros(len(rows))
    for centre in (np.fmin.reduce(averages, axis=1), np.fmax.reduce(averages, axis=1)):  # a sum of some cells is between these
        weights = np.where(there, means - np.nan_to_num(centre)[:, None], 0)
        margin = np.maximum(margin, cells.margin(weights, table.rows))
    many = float(rows.sum()) * scale / np.count_nonzero(rows)
    more = (counts.sum(axis=1) @ cells.numbers.reach)[groups] / rows.sum(axis=1)[groups]
    off, widest = float(margin[groups].max()) * scale, float(np.nanmax(cells.numbers.highs) - np.nanmin(cells.numbers.lows))
    if not columns:
        each = max(round(many), 1)
        return NumberError(columns=cells.columns, rows=each, margin=min(off / each, widest), more=float(more.max()))
    each = _rounded(many)
    if widest > 0 and off > each * widest:  # over so few rows, an average may be anything
        each = _rounded(off / widest, up=True)
    return NumberError(columns=cells.columns, rows=each, margin=off / each, more=float(more.max()))


def _cells(table: MeasuredCounts, value: str, columns: Sequence[str], summed: Collection[str]) -> _Cells | None:
    """The counts of a column by others: those that were made for this table, or else one set of known ones."""
    own = table.marginals[:len(table.marginals) - table.known]
    found, correlated = table.by([*columns, value], own), None
    if found is None:
        known = [(one, each.measured.size / one.measured.size) for each in table.marginals[len(own):]
                 if (one := table.by([*columns, value], [each])) is not None]
        if not known:
            return None
        found, correlated = min(known, key=lambda each: each[0].error * math.sqrt(each[1]))
    numbers = table.numbers.get(found.columns[-1])
    if numbers is None:
        return None
    axes = [at for at, column in enumerate(columns) if column not in summed]
    order = (*axes, *(at for at in range(len(columns)) if at not in axes), len(columns))
    shape = (math.prod(found.measured.shape[at] for at in axes), -1, found.measured.shape[-1])
    return _Cells(columns=found.columns, numbers=numbers, error=found.error, correlated=correlated,
                  measured=found.measured.transpose(order).reshape(shape), drawn=found.drawn.transpose(order).reshape(shape))


def _rounded(rows: float, *, up: bool = False) -> int:
    """A number of rows with its first digit alone, at least 1."""
    rows = max(rows, 1)
    unit = 10.0 ** math.floor(math.log10(rows))
    return round((math.ceil(rows / unit) if up else rows // unit) * unit)
