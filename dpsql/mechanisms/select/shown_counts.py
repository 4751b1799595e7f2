"""The counts of groups with undeclared keys: the noisy counts by which keys are shown, at no cost beyond that of the keys.

A group is shown if its noisy count, y = n + z, reaches a threshold t. So among the groups that are shown, small ones have large
noise, and the interval is conditional on y >= t: it contains the n for which neither P(Y >= y | Y >= t) nor P(Y <= y | Y >= t)
is below (1 - confidence) / 2. As the noise is log-concave, Y given Y >= t increases stochastically with n; so these n are the
whole numbers between two ends, and whichever groups happen to be shown, an interval covers its n with the stated confidence. A
key that is shown has at least one entity. (Conditional inference after selection: Fithian, Sun and Taylor, Optimal Inference
After Model Selection, 2014.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates import Ends, Estimate, NoiseTerm, Numbers, released
from dpsql.frozen import replace
from dpsql.trusted.noise.key_selection import KeyRule, TruncatedGeometric

WIDE = 12  # standard deviations at which unbounded noise is cut: the probability beyond is below any other error here


def shown_counts(name: tuple[int, ...], counts: NDArray[np.int64], rule: KeyRule) -> Estimate:
    """The number of entities of each group, from the noisy count that the rule released for its key."""
    values = counts.astype(np.float64)
    return replace(released(name, values, noise_of(rule)), below=values - 1, drawn=partial(_ends, counts, rule))


def noise_of(rule: KeyRule) -> NoiseTerm:
    """The noise of a count over all groups, shown or not. Truncated noise is a kind of its own."""
    if not isinstance(rule, TruncatedGeometric):
        return NoiseTerm(kind="gaussian", scale=rule.sigma)
    weights = _weights(rule)
    squares = np.arange(-rule.reach, rule.reach + 1.0) ** 2
    return NoiseTerm(kind="normal", scale=math.sqrt(float((weights * squares).sum() / weights.sum())))


def _ends(counts: NDArray[np.int64], rule: KeyRule, confidence: float) -> Ends:
    least, (tail, far) = rule.threshold, _tail(rule)
    outside, ones = (1 - confidence) / 2, np.ones_like(counts)

    def above(n: NDArray[np.int64]) -> Numbers:
        """P(Y >= y | Y >= t) for the counts that were shown."""
        return tail(counts - n) / tail(least - n)

    def not_above(n: NDArray[np.int64]) -> Numbers:
        return 1 - tail(counts + 1 - n) / tail(least - n)

    low = _first(lambda n: above(n) >= outside, np.maximum(ones, counts - far), np.maximum(ones, counts))
    high = _first(lambda n: not_above(n) < outside, np.maximum(ones, counts), np.maximum(ones, counts) + far + 1) - 1
    return low.astype(np.float64), np.maximum(high, low).astype(np.float64)


def _tail(rule: KeyRule) -> tuple[Callable[[NDArray[np.int64]], Numbers], int]:
    """The function m -> P(z >= m), up to a factor, and how far from zero the noise reaches."""
    weights = _weights(rule)
    far = len(weights) // 2
    tails = np.append(np.cumsum(weights[::-1])[::-1], 0.0)
    return lambda m: tails[np.clip(m + far, 0, 2 * far + 1)], far


def _weights(rule: KeyRule) -> Numbers:
    """P(z = -far), ..., P(z = far), up to a common factor."""
    if isinstance(rule, TruncatedGeometric):
        return np.exp(-np.abs(np.arange(-rule.reach, rule.reach + 1)) / rule.scale)
    far = max(rule.threshold, 0) + math.ceil(WIDE * rule.sigma)
    return np.exp(-(np.arange(-far, far + 1) ** 2) / (2 * rule.sigma**2))


def _first(holds: Callable[[NDArray[np.int64]], NDArray[np.bool_]], low: NDArray[np.int64],
           high: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first number of each range at which a monotone condition holds; it holds at the end of the range."""
    while (low < high).any():
        middle = (low + high) // 2
        there = holds(middle) | (low >= high)
        low, high = np.where(there, low, middle + 1), np.where(there & (low < high), middle, high)
    return high
