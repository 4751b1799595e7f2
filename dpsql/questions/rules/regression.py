"""Statistics of two columns from noisy sums over rows: covariance, correlation, and the least-squares line.

Columns are measured from a centre, by default the middle of their range: there the largest square and product of a row are as
small as possible, and so is the noise that hides one row. With n rows, u and v the deviations of the two columns, and

    S = n sum(uv) - sum(u) sum(v),   U = n sum(u^2) - sum(u)^2,   V = n sum(v^2) - sum(v)^2,

a covariance is S / n^2, a slope S / U, and a correlation S / root(U V). Intervals are computed from S, U and V, which are smooth
functions of the noisy sums, and not from the quotients, which vary wildly where the denominator is as small as its noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from dpsql.estimates import Ends, Estimate, fieller
from dpsql.frozen import Frozen, replace
from dpsql.questions.rules.correlation import correlation_ends
from dpsql.trusted.plan.operators.summands import Moments
from dpsql.types import Interval

LEAST_ROWS = 2.0  # intervals are informative only where there are surely as many rows


def middle(ends: Interval) -> float:
    """The midpoint of a finite range. Fractions, as the sum of two floats may exceed the largest one."""
    return float((Fraction(ends.low) + Fraction(ends.high)) / 2)


class ColumnSums(Frozen):
    """The number of rows, the sum of a column's deviations from `centre`, and that of their squares, if the degree is two."""

    ends: Interval
    centre: float
    rows: Estimate
    first: Estimate
    second: Estimate | None

    @classmethod
    def of(cls, summand: Moments, ends: Interval, parts: Sequence[Estimate]) -> ColumnSums:
        """The sums from Bernstein sums, with deviations from the middle of the range. The sum of a polynomial over rows is a
        combination of Bernstein sums whose coefficients are the values of its polar form at the ends of the grid."""
        step, centre = float(summand.grid.step), middle(ends)
        low = float(summand.grid.low) - centre
        high = low + summand.grid.most * step
        if summand.degree == 1:
            powers: list[tuple[float, ...]] = [(1.0, 1.0), (high, low)]
        else:
            powers = [(1.0, 1.0, 1.0), (high, (low + high) / 2, low), (high**2, low * high, low**2)]
        rows, first, *second = (_mixed(parts, [factor / summand.total for factor in factors]) for factors in powers)
        return cls(ends=ends, centre=centre, rows=rows, first=first, second=second[0] if second else None)


def _mixed(parts: Sequence[Estimate], factors: Sequence[float]) -> Estimate:
    total = parts[0] * factors[0]
    for part, factor in zip(parts[1:], factors[1:], strict=False):  # the last one may count missing values
        total = total + part * factor
    return total


def statistic(function: str, y: ColumnSums, x: ColumnSums, products: Estimate) -> Estimate:
    """One of the statistics in `PAIRS`, for each cell; NULL if there are too few rows or a column does not vary.

    `products` is the sum of the products of the deviations from the centres.
    """
    with np.errstate(all="ignore"):
        return PAIRS[function].finish(_Pair(y=y, x=x, products=products))


class _Pair(Frozen):
    y: ColumnSums
    x: ColumnSums
    products: Estimate

    @property
    def _rows(self) -> Estimate:
        """The number of rows: the mean of the noisy numbers that come with each of the two columns."""
        return (self.y.rows + self.x.rows) * 0.5

    @property
    def _joint(self) -> Estimate:
        return self._rows * self.products - self.x.first * self.y.first

    def _spread(self, column: ColumnSums) -> Estimate:
        assert column.second is not None
        return self._rows * column.second - column.first * column.first

    def covariance(self, *, sample: bool) -> Estimate:
        rows = self._rows
        under = rows * (rows + -1.0 if sample else rows)
        widths = [float(column.ends.high) - float(column.ends.low) for column in (self.y, self.x)]
        most = math.prod(widths) / (2 if sample else 4)  # of two rows in opposite corners
        made = self._told(self._joint / under, lambda confidence: fieller(self._joint, under, confidence), -most, most)
        return made.where(rows.values > (1 if sample else 0))

    def slope(self) -> Estimate:
        return self._over_spread(self._joint)

    def _over_spread(self, above: Estimate) -> Estimate:
        """A quotient by U, the spread of x; NULL if this is not positive."""
        spread = self._spread(self.x)
        made = self._told(above / spread, lambda confidence: fieller(above, spread, confidence), -math.inf, math.inf)
        return made.where((spread.values > 0) & (self._rows.values > 1))

    def intercept(self) -> Estimate:
        """The intercept of the line: (sum(v) sum(u^2) - sum(u) sum(uv)) / U for the deviations, moved to where x is 0."""
        assert self.x.second is not None
        here = self.y.first * self.x.second - self.x.first * self.products
        return self._over_spread(here - self._joint * self.x.centre) + self.y.centre

    def correlation(self) -> Estimate:
        joint, spreads = self._joint, (self._spread(self.x), self._spread(self.y))
        made = self._told(joint / (spreads[0] * spreads[1]).root(),
                          lambda confidence: correlation_ends(joint, *spreads, confidence), -1.0, 1.0)
        return made.where((spreads[0].values > 0) & (spreads[1].values > 0) & (self._rows.values > 1))

    def explained(self) -> Estimate:
        """The square of the correlation."""
        root = self.correlation()

        def ends(confidence: float) -> Ends:
            low, high = root.ends(confidence)
            sizes = np.abs(low), np.abs(high)
            return np.where(low * high <= 0, 0.0, np.minimum(*sizes) ** 2), np.maximum(*sizes) ** 2

        return replace(root * root, drawn=ends).within(0.0, 1.0)

    def _told(self, made: Estimate, ends: Callable[[float], Ends], low: float, high: float) -> Estimate:
        """A statistic in [low, high], with its interval; it is all of that range where there may be fewer than LEAST_ROWS
        rows."""
        def guarded(confidence: float) -> Ends:
            with np.errstate(all="ignore"):
                lows, highs = ends(confidence)
                unsure = (self._rows.ends(confidence)[0] < LEAST_ROWS) | np.isnan(lows) | np.isnan(highs)
            return np.where(unsure, low, np.clip(lows, low, high)), np.where(unsure, high, np.clip(highs, low, high))

        return replace(made, linear=False, drawn=guarded).within(low, high)


class OfPair(Frozen):
    """The mathematics of one row of `questions.all_aggregates`.

    powers  the highest power of the first and of the second column that is summed
    range   the range of the statistic, whatever the rows are, from those of the columns
    """

    powers: tuple[int, int]
    finish: Callable[[_Pair], Estimate]
    range: Callable[[Interval, Interval], tuple[float, float]] = lambda y, x: (-math.inf, math.inf)


def _covariances(divisor: int, y: Interval, x: Interval) -> tuple[float, float]:
    """By Cauchy and Schwarz, up to the root of the product of the largest variances, which are squared widths over `divisor`."""
    if not y.finite:
        return -math.inf, math.inf
    most = math.prod(float(ends.high) - float(ends.low) for ends in (y, x)) / divisor
    return -most, most


PAIRS = {
    "covar_pop": OfPair(powers=(1, 1), finish=lambda pair: pair.covariance(sample=False), range=partial(_covariances, 4)),
    "covar_samp": OfPair(powers=(1, 1), finish=lambda pair: pair.covariance(sample=True), range=partial(_covariances, 2)),
    "regr_slope": OfPair(powers=(1, 2), finish=_Pair.slope),
    "regr_intercept": OfPair(powers=(1, 2), finish=_Pair.intercept),
    "regr_r2": OfPair(powers=(2, 2), finish=_Pair.explained, range=lambda y, x: (0.0, 1.0)),
    "corr": OfPair(powers=(2, 2), finish=_Pair.correlation, range=lambda y, x: (-1.0, 1.0)),
}
