"""The counts of groups that are shown because of them: numbers that come with undeclared keys, for no price beside that of the
keys.

A group is shown where its count with noise, y = n + z, reaches a threshold t, so of the groups that are shown those of few
entities have noise that is large. The interval is therefore that of y given that y >= t: it holds the n for which neither P(Y
>= y | Y >= t) nor P(Y <= y | Y >= t) is below half of what the confidence leaves. Y given Y >= t is the larger, in every
quantile, the larger n is, as the noise is log-concave; so these n are the whole numbers between two ends, and whichever groups
happen to be shown, an interval covers its n with the confidence. A key that is shown has one entity at least. (Conditional
inference after selection: Fithian, Sun and Taylor, Optimal Inference After Model Selection, 2014.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates import Ends, Estimate, NoiseTerm, Numbers, released
from dpsql.measurements import KeyRule, TruncatedGeometric

WIDE = 12  # standard deviations of noise that has no ends: beyond them is less than any error here


def shown_counts(name: tuple[int, ...], counts: NDArray[np.int64], rule: KeyRule) -> Estimate:
    """The number of entities of each group, from what the rule told of its key."""
    values = counts.astype(np.float64)
    return replace(released(name, values, noise_of(rule)), below=values - 1, drawn=partial(_ends, counts, rule))


def noise_of(rule: KeyRule) -> NoiseTerm:
    """The noise of a count, of all that there are: where it is cut off it is of no kind that others are."""
    if not isinstance(rule, TruncatedGeometric):
        return NoiseTerm(kind="gaussian", scale=rule.sigma)
    weights = _weights(rule)
    squares = np.arange(-rule.reach, rule.reach + 1.0) ** 2
    return NoiseTerm(kind="normal", scale=math.sqrt(float((weights * squares).sum() / weights.sum())))


def _ends(counts: NDArray[np.int64], rule: KeyRule, confidence: float) -> Ends:
    least, (tail, far) = rule.threshold, _tail(rule)
    outside, ones = (1 - confidence) / 2, np.ones_like(counts)

    def above(n: NDArray[np.int64]) -> Numbers:
        """P(Y >= y) of what is shown."""
        return tail(counts - n) / tail(least - n)

    def not_above(n: NDArray[np.int64]) -> Numbers:
        return 1 - tail(counts + 1 - n) / tail(least - n)

    low = _first(lambda n: above(n) >= outside, np.maximum(ones, counts - far), np.maximum(ones, counts))
    high = _first(lambda n: not_above(n) < outside, np.maximum(ones, counts), np.maximum(ones, counts) + far + 1) - 1
    return low.astype(np.float64), np.maximum(high, low).astype(np.float64)


def _tail(rule: KeyRule) -> tuple[Callable[[NDArray[np.int64]], Numbers], int]:
    """m -> a multiple of P(z >= m), and how far the noise reaches."""
    weights = _weights(rule)
    far = len(weights) // 2
    tails = np.append(np.cumsum(weights[::-1])[::-1], 0.0)
    return lambda m: tails[np.clip(m + far, 0, 2 * far + 1)], far


def _weights(rule: KeyRule) -> Numbers:
    """Multiples of P(z = -far), ..., P(z = far)."""
    if isinstance(rule, TruncatedGeometric):
        return np.exp(-np.abs(np.arange(-rule.reach, rule.reach + 1)) / rule.scale)
    far = max(rule.threshold, 0) + math.ceil(WIDE * rule.sigma)
    return np.exp(-(np.arange(-far, far + 1) ** 2) / (2 * rule.sigma**2))


def _first(holds: Callable[[NDArray[np.int64]], NDArray[np.bool_]], low: NDArray[np.int64],
           high: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first number of each range from which on something holds; it holds at the end."""
    while (low < high).any():
        middle = (low + high) // 2
        there = holds(middle) | (low >= high)
        low, high = np.where(there, low, middle + 1), np.where(there & (low < high), middle, high)
    return high
