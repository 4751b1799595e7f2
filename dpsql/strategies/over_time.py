"""Strategies over time: how running totals over periods are measured while periods close, one number for each of them.

When a period closes, the sum over all periods so far is measured once, each period with a weight that only depends on how long
ago it is (its *lag*). As the weights form a lower triangular matrix, the running totals up to any time follow from the
measurements up to then. Nothing is measured again, and what was told stays.

With all weights but the first 0, each period is measured by itself, and the errors of running totals grow with the square root
of their number. The best weights known for the noise of zCDP are the square root of summation, s_k = C(2k, k) / 4^k
(`strategies.square_root`): errors grow with the logarithm, and so does what a period is charged in all, the sum of the squares of
its weights. Weights are equal over stretches of lags, so that few numbers say what each period is charged; this costs 1 % of
accuracy at most. The sum is over a fixed number of lags, the *horizon*, so that what a period is charged is known from the start.
After that a new stream of measurements begins, and running totals add up the last total of each stream.

Every measurement is also one of the running totals themselves: with d the differences between the weights of successive lags,
y_t = sum_k d_k s_(t-k). So totals follow from earlier ones, and their errors are those of the filter 1 / d.

Sources: Fichtenberger, Henzinger and Upadhyay, Constant Matters: Fine-grained Error Bound on Differentially Private Continual
Observation, ICML 2023; Andersson and Pagh, Streaming Private Continual Counting via Binning, 2024, for stretches of lags.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen
from dpsql.trusted.cached import cached_property

UNIT = 2**12  # of weights
STRETCH = 1.2  # by which weights of one stretch differ at most


class OverTime(Frozen):
    """`stretches` are numbers of successive lags from 0 on, up to the horizon, with the weight of each of them."""

    stretches: tuple[tuple[int, int], ...]

    @cached_property
    def weights(self) -> NDArray[np.int64]:
        """The weight of each lag."""
        return np.repeat([weight for _, weight in self.stretches], [many for many, _ in self.stretches])

    @property
    def horizon(self) -> int:
        return len(self.weights)

    @property
    def length(self) -> float:
        """The square root of the sum of the squares of all weights: how far a period moves all of its measurements together."""
        return float(np.sqrt((self.weights.astype(float) ** 2).sum()))

    def at(self, place: int) -> tuple[tuple[int, int], ...]:
        """The weights of the periods of a stream when the one at a place, from 0, has closed: numbers of successive periods, the
        first one first, with the weight of each."""
        made, left = list[tuple[int, int]](), place + 1
        for many, weight in self.stretches:
            if left:
                made.append((min(many, left), weight))
                left -= made[-1][0]
        return tuple(reversed(made))

    def totals(self, measured: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        """The running totals that follow from the measurements of one stream, the first ones."""
        lags, steps = self._steps
        found: list[NDArray[np.float64]] = []
        for t, number in enumerate(measured):
            back = [(found[t - lag], step) for lag, step in zip(lags, steps, strict=True) if 0 < lag <= t]
            found.append((number - sum((total * step for total, step in back), np.zeros_like(number))) / steps[0])
        return found

    def errors(self, count: int) -> NDArray[np.float64]:
        """The standard deviations of the first running totals of a stream, for noise of standard deviation 1 in measurements."""
        lags, steps = self._steps
        answer = np.zeros(count)
        answer[0] = 1 / steps[0]
        for t in range(1, count):
            there = (lags > 0) & (lags <= t)
            answer[t] = -(steps[there] @ answer[t - lags[there]]) / steps[0]
        return np.sqrt(np.cumsum(answer**2))

    @property
    def _steps(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The lags at which weights change, and by how much."""
        starts = np.cumsum([0, *(many for many, _ in self.stretches)])[:-1]
        return starts, np.diff([0, *(weight for _, weight in self.stretches)])


@lru_cache(maxsize=8)
def square_root(horizon: int) -> OverTime:
    """The square root of summation, up to a horizon."""
    exact = np.cumprod([1.0, *((2 * k - 1) / (2 * k) for k in range(1, horizon))])
    stretches, start = list[tuple[int, int]](), 0
    while start < horizon:
        end = start + int(np.searchsorted(-exact[start:], -exact[start] / STRETCH, side="right"))
        stretches.append((end - start, round(UNIT * float(np.sqrt((exact[start:end] ** 2).mean())))))
        start = end
    return OverTime(stretches=tuple(stretches))
