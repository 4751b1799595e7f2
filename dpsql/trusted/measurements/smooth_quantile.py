"""Quantiles with noise scaled to their smooth sensitivity."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import FREE, Cost, pure
from dpsql.trusted.field_types import Assumptions, Delta, Epsilon
from dpsql.trusted.measurements.reading.request import Context, OfOnePlan
from dpsql.trusted.measurements.reading.sorted_values import Ranked, read
from dpsql.trusted.measurements.select import Target
from dpsql.trusted.noise.smooth import laplace, laplace_beta, told_size
from dpsql.trusted.plan.cells import Cells, are_cells
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.operators.ranks import Ranks
from dpsql.trusted.stopping import each


class Smooth(Frozen, OfOnePlan):
    """For each cell, a quantile of the ranks plus Laplace noise scaled to its smooth sensitivity, and a noisy size of that
    noise.

    With S the beta-smooth upper bound on the local sensitivity of the quantile (Nissim, Raskhodnikova and Smith 2007), for
    neighbours that differ in one entity of at most k rows, integer noise Z with probability proportional to exp(-|z| / t),
    t = 2 S / epsilon, is added to the integer value.

    Cost: `noise.smooth`, for both the quantile and the size of its noise. It is that of the worst rows: where half of them lie at
    either end, one entity moves the quantile by all of S. Where values lie close together around the quantile it moves by a small
    part of S, as a smooth bound has to allow for rows some steps away.

    With several cells an entity may have at most one row, so that it is in one cell only.
    """

    plan: Ranks
    cells: Cells
    target: Target
    epsilon: Epsilon
    delta: Delta
    epsilon_size: Epsilon

    def assumptions(self) -> Assumptions:
        yield are_cells(self.cells, self.plan.keys), "cells must be different, each with a value for every key"
        yield self.beta > 0, "epsilon is too small for a smooth bound"

    def cost(self, certificate: Certificate) -> Cost:
        if certificate.below.public:
            return FREE
        if certificate.rows > 1 and len(self.cells) > 1:
            raise ValueError("smooth sensitivity over several cells allows an entity only one row")
        return pure(self.epsilon + self.epsilon_size, self.delta)

    def release(self, context: Context, certificate: Certificate) -> Smoothed:
        """The noisy quantile of every cell."""
        values, sizes = [], []
        top = ((self.plan.grid.most + 1) << self.plan.ties) - 1
        for ranked in each(read(self.plan, self.cells, context)):
            middle, spread = quantile_index(ranked.total, self.target.fraction), expand(ranked)
            sensitivity = smooth_sensitivity(spread, middle, top, certificate.rows, self.beta)
            exact = int(at(spread, np.array([middle]), top)[0])
            values.append(laplace(exact, sensitivity, self.epsilon, context.noise))
            sizes.append(told_size(sensitivity, self.beta, self.epsilon_size, context.noise))
        return Smoothed(values=tuple(values), sizes=tuple(sizes))

    @property
    def beta(self) -> float:
        """The smoothness of S."""
        return laplace_beta(float(self.epsilon), float(self.delta))


class Smoothed(Frozen):
    """For each cell, the noisy grid value and the noisy number floor(ln S / beta)."""

    values: tuple[int, ...]
    sizes: tuple[int, ...]


LEAST = 2.0**-10  # of S, in grid steps: a constant is a smooth bound too, and this one hardly ever matters


def quantile_index(rows: int, fraction: Fraction) -> int:
    """The one-based position of a quantile among `rows` rows; 0, which stands for the lower bound, if there are none."""
    return max(min(rows, 1), math.ceil(fraction * rows))


def expand(ranked: Ranked) -> NDArray[np.int64]:
    """All rows in order, one entry each."""
    return np.repeat(ranked.values, ranked.counts)


def at(ordered: NDArray[np.int64], positions: NDArray[np.int64], top: int) -> NDArray[np.int64]:
    """Entries at one-based positions; the lower bound before the first, the upper bound after the last."""
    inside = ordered[np.clip(positions - 1, 0, len(ordered) - 1)] if len(ordered) else np.zeros_like(positions)
    return np.where(positions <= 0, 0, np.where(positions > len(ordered), top, inside))


def smooth_sensitivity(ordered: NDArray[np.int64], middle: int, top: int, rows: int, beta: float) -> float:
    """S = max of exp(-beta (w / k - 1)) (x[h] - x[i]) over positions i <= middle <= h of width w = h - i >= 1, k = `rows`.

    Proof. Adding or removing r <= k rows shifts every position, `middle` included, by at most r. So the quantile moves at most
    from x[middle] to x[middle - k] or x[middle + k]: windows with w <= k, whose weight is at least 1. So S bounds the local
    sensitivity. And a window of D lies in a window of the neighbour D' that is at most k wider and still contains `middle`, and
    whose weight is at least exp(-beta) times as large: S(D) <= exp(beta) S(D'). For k = 1 this is exactly the smooth sensitivity
    of Nissim, Raskhodnikova and Smith (2007), the smallest such bound; but it is never less than `LEAST`.

    In O(w log w) for the w positions that can matter: for i < i' and h' < h, exp(-beta h / k)(x[h] - x[i]) >=
    exp(-beta h' / k)(x[h'] - x[i]) stays true with i' in place of i, so the best right end never moves left while i moves
    right, and the maximum over all pairs is found by divide and conquer (their Section 3.1).
    """
    rate = beta / rows
    near = float(top)  # where a window of `rows` holds all of them; there may be far fewer rows than `rows`
    if rows <= len(ordered):
        steps = np.arange(rows + 1)
        near = float((at(ordered, middle + steps, top) - at(ordered, middle + steps - rows, top)).max())
    sure = max(near, math.exp(beta - rate * (len(ordered) + 1)) * top, LEAST)  # the whole range is a window too
    reach = min(len(ordered) + 1, math.ceil((beta + math.log(max(1.0, top / sure))) / rate) + 1)
    lefts = np.arange(max(0, middle - reach), middle + 1)
    rights = np.arange(middle, min(len(ordered) + 1, middle + reach) + 1)
    low, high = at(ordered, lefts, top), at(ordered, rights, top)
    best = sure

    def search(first: int, last: int, start: int, stop: int) -> None:
        nonlocal best
        while first < last:
            i = (first + last) // 2
            widths = rights[start:stop] - lefts[i]
            scores = np.where(widths > 0, np.exp(beta - rate * widths) * (high[start:stop] - low[i]), 0)
            h = int(np.argmax(scores))
            best = max(best, float(scores[h]))
            search(first, i, start, start + h + 1)
            first, start = i + 1, start + h

    search(0, len(lefts), 0, len(rights))
    return best
