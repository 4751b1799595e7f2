"""Aggregates of one column, computed from its number of rows, its mean and its variance.

Each line of `MEANS` and `SPREADS` is the mathematics of one row of `questions.all_aggregates`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpsql.estimates import Estimate
from dpsql.frozen import Frozen
from dpsql.questions.all_aggregates import AGGREGATES, Kind
from dpsql.questions.parts import Recipe, Released
from dpsql.questions.rules.regression import ColumnSums, statistic
from dpsql.trusted.plan.operators.summands import Moments
from dpsql.types import Interval


class OfMean(Frozen):
    """An aggregate computed from the mean of what is summed; `end` gives the end of its range from that of the values."""

    finish: Callable[[Estimate], Estimate]
    end: Callable[[float], float]


class OfVariance(Frozen):
    """An aggregate computed from a variance and the number of rows.

    sample  the variance is that of a sample: the sum of squares is divided by one less than the number of rows
    most    the largest value, from the width of the range of the column. A variance is largest with half of the rows at each end
            (Popoviciu's inequality); that of a sample, with two rows
    """

    sample: bool = False
    finish: Callable[[Estimate, Estimate], Estimate]
    most: Callable[[float], float]


MEANS = {
    "avg": OfMean(finish=lambda mean: mean, end=float),
    "geomean": OfMean(finish=Estimate.exponential, end=math.exp),  # of logarithms
}
SPREADS = {
    "var_pop": OfVariance(finish=lambda variance, rows: variance, most=lambda width: width**2 / 4),
    "var_samp": OfVariance(finish=lambda variance, rows: variance, most=lambda width: width**2 / 2, sample=True),
    "stddev_pop": OfVariance(finish=lambda variance, rows: variance.root(), most=lambda width: width / 2),
    "stddev_samp": OfVariance(finish=lambda variance, rows: variance.root(), most=lambda width: width / math.sqrt(2),
                              sample=True),
}


def range_of(function: str, ends: Interval) -> tuple[float, float]:
    """The range of a MEAN or SPREAD for any rows, if the values of its column lie in `ends`."""
    low, high = float(ends.low), float(ends.high)
    if function in MEANS:
        return MEANS[function].end(low), MEANS[function].end(high)
    return 0.0, SPREADS[function].most(high - low)


def spread(function: str, x: ColumnSums) -> Estimate:
    """A SPREAD from sums of deviations; NULL if there are too few rows. The variance is the covariance of the column with
    itself."""
    assert x.second is not None
    row = SPREADS[function]
    variance = statistic("covar_samp" if row.sample else "covar_pop", x, x, x.second).within(0.0, math.inf)
    return row.finish(variance, x.rows)


def from_moments(function: str, part: int, summand: Moments, ends: Interval) -> Recipe:
    """A TOTAL, MEAN or SPREAD of a column with this range, computed from Bernstein sums; see `summands.Moments`."""
    top, step, low = summand.grid.most, float(summand.grid.step), float(summand.grid.low)
    count, kind = rows_of(part, summand, missing=False), AGGREGATES[function].kind

    def first(released: Released) -> Estimate:
        """The sum of n = (x - low) / step."""
        parts = released[part]
        return parts[0] if summand.degree == 1 else (parts[0] + parts[1] * 0.5) / top

    def recipe(released: Released) -> Estimate:
        rows, total = count(released), first(released)
        if kind is Kind.TOTAL:
            return total * step + rows * low
        mean = total / rows
        if kind is Kind.MEAN:
            mean = (mean * step + low).within(float(ends.low), float(ends.high)).where(rows.values > 0)
            return MEANS[function].finish(mean)
        row = SPREADS[function]
        variance = (released[part][0] / rows - mean * mean) * step**2
        if row.sample:
            variance = (variance * rows / (rows + -1.0)).where(rows.values > 1)
        return row.finish(variance.within(0, np.inf).where(rows.values > 0), rows)

    return recipe


def rows_of(part: int, summand: Moments, *, missing: bool) -> Recipe:
    """The number of rows, from moments: the components add up to M^degree for each row."""

    def recipe(released: Released) -> Estimate:
        parts = released[part][: summand.degree + 1 + (summand.missing and missing)]
        total = parts[0]
        for other in parts[1:]:
            total = total + other
        return total / summand.total

    return recipe
