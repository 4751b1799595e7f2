"""Noisy marginals of a table, as released: what a graphical model is fitted to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from dpsql.frozen import Frozen
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.workload.factors import Array

LEAST_TOTAL = 1e-6  # rows of a table whose noisy counts add up to less


class MarginalMeasurement(Frozen):
    """Counts of all combinations of values of some columns, with independent noise of mean 0. They may be negative."""

    columns: Columns
    values: Array  # one axis for each column, in this order
    variance: float  # of the noise in each cell

    def __post_init__(self) -> None:
        if not self.columns or len(set(self.columns)) != len(self.columns):
            raise ValueError("a marginal has at least one column, and none twice")
        if not (np.isfinite(self.variance) and self.variance > 0 and np.isfinite(self.values).all()):
            raise ValueError("noisy counts are finite, and the variance of their noise is positive")


def combined(domain: TableDomain, measurements: Iterable[MarginalMeasurement]) -> list[MarginalMeasurement]:
    """At most one measurement for each set of columns: the mean of the given ones, weighted by their inverse variances.

    Columns come in the order of the table. Raises ValueError if an array does not have the shape of its marginal.
    """
    weights: dict[Columns, float] = {}
    sums: dict[Columns, Array] = {}
    for each in measurements:
        if np.shape(each.values) != domain.shape(each.columns):
            raise ValueError(f"the marginal of {', '.join(each.columns)} has the shape {domain.shape(each.columns)}, "
                             f"not {np.shape(each.values)}")
        columns = domain.ordered(each.columns)
        values = np.transpose(each.values, [each.columns.index(column) for column in columns]) / each.variance
        weights[columns] = weights.get(columns, 0.0) + 1 / each.variance
        sums[columns] = sums.get(columns, 0.0) + values
    return [MarginalMeasurement(columns=columns, values=sums[columns] / weight, variance=1 / weight)
            for columns, weight in weights.items()]


def estimated_total(measurements: Sequence[MarginalMeasurement]) -> float:
    """The number of rows: the mean of the totals of the marginals, weighted by their inverse variances; at least `LEAST_TOTAL`.

    The noise of the total of n cells has n times the variance of a cell. Raises ValueError if nothing was measured.
    """
    if not measurements:
        raise ValueError("nothing was measured, so the number of rows must be given")
    totals = [float(each.values.sum()) for each in measurements]
    weights = [1 / (each.variance * each.values.size) for each in measurements]
    return max(float(np.average(totals, weights=weights)), LEAST_TOTAL)


def nearest_counts(noisy: Array, total: float) -> Array:
    """The nearest numbers that are not negative and add up to `total`: the projection onto a simplex."""
    falling = np.sort(noisy)[::-1]
    surplus = (falling.cumsum() - total) / np.arange(1, len(falling) + 1)
    return np.maximum(noisy - float(surplus[falling >= surplus][-1]), 0.0)
