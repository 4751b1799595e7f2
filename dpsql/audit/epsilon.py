"""A statistical lower bound on epsilon, from samples of outcomes on two neighbouring databases.

(epsilon, delta)-DP says P(S) <= exp(epsilon) Q(S) + delta for every event S, where P and Q are the distributions of outcomes on
the two databases. So any event, with bounds on its two probabilities, refutes an epsilon that is too small. An eighth of the
samples is used to propose events, a quarter to select one, and the rest to test it: the event is fixed when it is tested.

Events are half-lines of a number computed from the outcome: of each of its coordinates; of their projection on the direction
that best separates the two means (Fisher); and of the estimated log ratio of P and Q in bins, whose half-lines are the most
powerful events (Neyman and Pearson). The bins are those of all coordinates together, which are coarse if there are many; or fine
bins of each coordinate, whose log ratios are summed, which is the same if coordinates are independent. Probabilities are bounded
exactly (Clopper and Pearson 1934), so the bound exceeds the true epsilon with a probability of at most 1 - confidence, whatever
the distributions are.

Sources: Ding, Wang, Wang, Zhang and Kifer, Detecting Violations of Differential Privacy, CCS 2018; Bichsel, Steffen, Bogunovic
and Vechev, DP-Sniper, S&P 2021; Jagielski, Ullman and Oprea, Auditing Differentially Private Machine Learning, NeurIPS 2020.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.frozen import Frozen

Numbers = NDArray[np.float64]
CUTS = 400  # thresholds that are tried for each number
BINS, MOST_BINS = 24, 4096  # number of bins of each coordinate, and of all together
FINE = 64  # bins of a coordinate if there are many samples: each bin then still has hundreds of those that propose events
CARE = 0.75  # exponent of the error probability when an event is selected, which has fewer samples than its test


class EpsilonBound(Frozen):
    """The true epsilon is at least this one, with the confidence asked for. `event` is the event that distinguishes the
    databases."""

    epsilon: float
    event: str


class Feature(Frozen, kw_only=False):
    """A number computed from outcomes. If it estimates ln P / Q, `ends` are its least and its greatest value."""

    name: str
    of: Callable[[Numbers], Numbers]
    ends: tuple[float, float] | None = None


class TailEvent(Frozen, kw_only=False):
    """The event that a feature is above a cut, or not above; `first` says on which of the two databases it is likelier."""

    feature: Feature
    cut: float
    above: bool
    first: bool

    def __str__(self) -> str:
        where = "first" if self.first else "second"
        return f"{self.feature.name} {'>' if self.above else '<='} {self.cut:.6g}, likelier on the {where}"

    def hits(self, sample: Numbers) -> int:
        over = int((self.feature.of(sample) > self.cut).sum())
        return over if self.above else len(sample) - over


def lower_bound(first: ArrayLike, second: ArrayLike, *, confidence: float = 0.9999, delta: float = 0.0) -> EpsilonBound:
    """The largest epsilon that samples of outcomes on two neighbouring databases refute, at a given delta.

    Samples have the shape (samples, numbers), or (samples,) for one number each; NaN stands for a missing value. Outcomes must be
    independent within and between the samples. Raises ValueError for fewer than 8, or if the two differ in their numbers.
    """
    chance = (1 - confidence) / 2
    suggest, choose, judge = parts(first, second)
    tried = [_best(feature, *choose, chance**CARE, delta) for feature in features(*suggest)]
    event = max(tried, key=lambda pair: pair[0])[1]
    likelier, other = judge if event.first else judge[::-1]
    found = _bounds(np.array([event.hits(likelier)]), len(likelier), np.array([event.hits(other)]), len(other), chance, delta)
    return EpsilonBound(epsilon=max(0.0, float(found[0])), event=str(event))


Part: TypeAlias = tuple[Numbers, Numbers]


def parts(first: ArrayLike, second: ArrayLike) -> tuple[Part, Part, Part]:
    """Both samples split in three, to propose, select and test events: one, two and five of every eight outcomes."""
    a, b = _table(first), _table(second)
    if a.shape[1] != b.shape[1] or not a.shape[1] or min(len(a), len(b)) < 8:
        raise ValueError("two samples of the same kind are needed")

    def part(*places: int) -> Part:
        return a[np.isin(np.arange(len(a)) % 8, places)], b[np.isin(np.arange(len(b)) % 8, places)]

    return part(0), part(1, 2), part(3, 4, 5, 6, 7)


def _table(sample: ArrayLike) -> Numbers:
    """Samples as an array (samples, numbers); missing values come first in the order."""
    table = np.asarray(sample, dtype=np.float64)
    return np.nan_to_num(table.reshape(len(table), -1), nan=-1e300, posinf=1e299, neginf=-1e299)


def _best(feature: Feature, a: Numbers, b: Numbers, chance: float, delta: float) -> tuple[float, TailEvent]:
    """The half-line of a feature that gives the largest lower bound on epsilon, and this bound."""
    x, y = np.sort(feature.of(a)), np.sort(feature.of(b))
    cuts = _cuts(np.concatenate((x, y)))
    over = [len(line) - np.searchsorted(line, cuts, side="right") for line in (x, y)]
    found = []
    for above in (True, False):
        hits = over if above else [len(a) - over[0], len(b) - over[1]]
        for first in (True, False):
            p, q = hits if first else hits[::-1]
            m, n = (len(a), len(b)) if first else (len(b), len(a))
            bounds = _bounds(p, m, q, n, chance, delta)
            at = int(np.argmax(bounds))
            found.append((float(bounds[at]), TailEvent(feature, float(cuts[at]), above, first)))
    return max(found, key=lambda pair: pair[0])


def _bounds(p: NDArray[np.int64], m: int, q: NDArray[np.int64], n: int, chance: float, delta: float) -> Numbers:
    """A lower bound on ln((P - delta) / Q) from p hits of m and q of n, from exact one-sided bounds that each fail with
    `chance`."""
    from scipy.stats import beta

    low = np.where(p > 0, beta.ppf(chance, np.maximum(p, 1), m - p + 1), 0.0)
    high = np.where(q < n, beta.ppf(1 - chance, q + 1, np.maximum(n - q, 1)), 1.0)
    return np.asarray(np.log(np.maximum(low - delta, 1e-300) / high))


def _cuts(values: Numbers) -> Numbers:
    """Thresholds: all distinct values if there are few, else quantiles, denser in the tails."""
    places = np.unique(values)
    if len(places) <= CUTS:
        return places
    tail = np.geomspace(10 / len(values), 0.5, CUTS // 2)
    return np.unique(np.quantile(values, np.concatenate((tail, 1 - tail)), method="nearest"))


def features(a: Numbers, b: Numbers) -> list[Feature]:
    """The features proposed by samples of both databases."""
    both = np.concatenate((a, b))
    found = [Feature(f"number {i + 1}", lambda sample, i=i: sample[:, i]) for i in range(both.shape[1])]  # type: ignore[misc]
    vary = [i for i in range(both.shape[1]) if (both[:, i] != both[0, i]).any()]
    if 2 ** len(vary) <= MOST_BINS:
        found.append(_log_ratio(a, b, vary))
    if len(vary) > 1:
        each = [_log_ratio(a, b, [i]) for i in vary]
        low, high = (sum(one.ends[at] for one in each if one.ends) for at in (0, 1))
        found.append(Feature("the sum of ratios in bins", lambda sample: np.sum([one.of(sample) for one in each], axis=0),
                             (low, high)))
        found.append(_direction(a, b))
    return found


def _direction(a: Numbers, b: Numbers) -> Feature:
    """Fisher's linear discriminant, with coordinates in units of their interquartile range."""
    both = np.concatenate((a, b))
    middle, spread = np.median(both, axis=0), np.subtract(*np.quantile(both, (0.75, 0.25), axis=0))
    spread = np.where(spread > 0, spread, np.maximum(np.clip(both, -1e100, 1e100).std(axis=0), 1e-12))

    def scaled(sample: Numbers) -> Numbers:
        return np.asarray(np.clip((sample - middle) / spread, -50, 50))

    within = np.cov(scaled(a), rowvar=False) + np.cov(scaled(b), rowvar=False) + 1e-9 * np.eye(a.shape[1])
    weights = np.linalg.solve(within, scaled(a).mean(axis=0) - scaled(b).mean(axis=0))
    return Feature("the direction of the means", lambda sample: np.asarray(scaled(sample) @ weights))


def _log_ratio(a: Numbers, b: Numbers, columns: list[int]) -> Feature:
    """The log ratio of the two samples' frequencies in each cell of a coarse grid over some columns."""
    both = np.concatenate((a, b))
    bins = min(max(BINS, min(FINE, math.isqrt(len(both)) // 4)), int(MOST_BINS ** (1 / max(1, len(columns)))))
    inner = np.linspace(0, 1, bins + 1)[1:-1]
    edges = [np.unique(np.quantile(both[:, i], inner, method="nearest")) for i in columns]

    def cell(sample: Numbers) -> NDArray[np.int64]:
        place = np.zeros(len(sample), dtype=np.int64)
        for i, cuts in zip(columns, edges, strict=True):
            place = place * (len(cuts) + 1) + np.searchsorted(cuts, sample[:, i], side="left")
        return place

    size = math.prod(len(cuts) + 1 for cuts in edges)
    share = [(np.bincount(cell(sample), minlength=size) + 0.5) / len(sample) for sample in (a, b)]
    ratio = np.log(share[0]) - np.log(share[1])
    return Feature("the ratio in a bin", lambda sample: np.asarray(ratio[cell(sample)]), (float(ratio.min()), float(ratio.max())))
