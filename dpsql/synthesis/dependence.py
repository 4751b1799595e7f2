"""How strongly two columns of a synthetic table depend on each other, in its rows and by the measured counts."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen, replace
from dpsql.models.table_domain import Columns
from dpsql.synthesis.counted_values import numbers_of
from dpsql.synthesis.released_table import SyntheticColumn
from dpsql.synthesis.table_comparison import MarginalComparison, TableComparison, means_by_entry

Numbers: TypeAlias = NDArray[np.float64]


class Correlation(Frozen, eq=False):
    """The correlation of two columns of numbers: in the rows of the table, in these rows if each value is replaced by the mean of
    its bin, and by the measured counts of these bins, with the standard error that is due to their noise. NaN where the counts
    tell none. `cells` has the counts without NULL.

    Error. With z = (x - mean) / deviation, the correlation r of weighted cells changes with the count of a cell by
    (z_x z_y - r (z_x^2 + z_y^2) / 2) / total. The noise of the counts is independent, so their changes add up in squares.
    """

    pair: Columns
    rows: float
    binned: float
    measured: float
    error: float
    cells: MarginalComparison


def correlations(compared: TableComparison) -> list[Correlation]:
    """The correlations of all pairs of columns of numbers that were counted together, the strongest first."""
    columns = {column.name: column for column in compared.table.columns}
    found = [_correlation(columns[one], columns[two], counts, compared) for (one, two), counts in compared.pairs.items()
             if counts is not None and _is_number(columns[one]) and _is_number(columns[two])]
    return sorted(found, key=lambda each: -abs(np.nan_to_num(each.measured)))


def strongest_unmeasured(compared: TableComparison, most: int) -> list[tuple[Columns, float]]:
    """The pairs that were never counted together and depend on each other most in the rows of the table, in their coarsest
    versions, by Cramér's V without its bias (Bergsma, 2013)."""
    found = [(pair, cramers_v(compared.drawn((compared.coarsest(pair[0]), compared.coarsest(pair[1]))), compared.table.rows))
             for pair, counts in compared.pairs.items() if counts is None]
    return sorted(found, key=lambda each: -each[1])[:most]


def cramers_v(counts: Numbers, rows: float) -> float:
    """Cramér's V of a table of counts, scaled to this number of rows, corrected for its bias."""
    shares = counts / max(float(counts.sum()), 1e-300)
    shares = shares[shares.sum(axis=1) > 0][:, shares.sum(axis=0) > 0]
    expected = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    free = [size - 1 for size in shares.shape]
    if min(free) < 1 or rows < 2:
        return 0.0
    square = max(0.0, float((np.square(shares - expected) / expected).sum()) - free[0] * free[1] / (rows - 1))
    least = min(size - size * size / (rows - 1) for size in free)
    return min(1.0, math.sqrt(square / least)) if least > 0 else 0.0


def _is_number(column: SyntheticColumn) -> bool:
    return column.type.numeric or column.type.temporal


def _correlation(one: SyntheticColumn, two: SyntheticColumn, counts: MarginalComparison,
                 compared: TableComparison) -> Correlation:
    numbers = [numbers_of(column.values) for column in (one, two)]
    means = [means_by_entry([(own, compared.places[version])], size)
             for own, version, size in zip(numbers, counts.columns, counts.measured.shape, strict=True)]
    kept = np.ix_(*(~np.isnan(mean) for mean in means))  # NULL has no number, and an entry without rows no mean
    x, y = (mean[~np.isnan(mean)] for mean in means)
    cells = replace(counts, measured=counts.measured[kept], drawn=counts.drawn[kept])
    measured, slopes = _of_cells(cells.measured, x, y)
    return Correlation(pair=(one.name, two.name), rows=_of_rows(*numbers), binned=_of_cells(cells.drawn, x, y)[0], cells=cells,
                       measured=measured, error=counts.error * math.sqrt(float(np.square(slopes).sum())))


def _of_rows(x: Numbers, y: Numbers) -> float:
    there = ~np.isnan(x) & ~np.isnan(y)
    if there.sum() < 2 or np.ptp(x[there]) == 0 or np.ptp(y[there]) == 0:
        return math.nan
    return float(np.corrcoef(x[there], y[there])[0, 1])


def _of_cells(counts: Numbers, x: Numbers, y: Numbers) -> tuple[float, Numbers]:
    """The correlation of counted cells, and its slopes in the counts. NaN if noise leaves no deviation."""
    total = float(counts.sum())
    if counts.size == 0 or total <= 0:
        return math.nan, np.full(counts.shape, math.nan)
    shares = counts / total
    x, y = x - shares.sum(axis=1) @ x, y - shares.sum(axis=0) @ y
    squares = float(shares.sum(axis=1) @ x**2), float(shares.sum(axis=0) @ y**2)
    if min(squares) <= 0:
        return math.nan, np.full(counts.shape, math.nan)
    x, y = x / math.sqrt(squares[0]), y / math.sqrt(squares[1])
    correlation = float(x @ shares @ y)
    slopes = (np.outer(x, y) - correlation * (x[:, None]**2 + y**2) / 2) / total
    return correlation, slopes
