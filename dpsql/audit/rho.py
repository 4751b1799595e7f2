"""A statistical lower bound on the rho of zero-concentrated DP, from samples of outcomes on two neighbouring databases.

rho-zCDP says D_a(P || Q) <= a rho for the Renyi divergence of every order a > 1, and so for its limit at a = 1, the
Kullback-Leibler divergence, KL(P || Q) <= rho. For every bounded number f of an outcome

    KL(P || Q) >= E_P[f] - ln E_Q[e^f]

(Donsker and Varadhan 1983), with equality for f = ln dP / dQ. So f is the log ratio of frequencies in bins, which one part of the
samples is used to propose, another to select and the rest to test. Both means are bounded conservatively by the empirical
Bernstein bound (Maurer and Pontil, COLT 2009, Theorem 4), each with an error probability of half of 1 - confidence. For two
Gaussians the bound is tight up to sampling error: a million samples detect a scale that is five percent too small, which makes
rho eleven percent too large.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from dpsql.audit.epsilon import Feature, Numbers, features, parts
from dpsql.frozen import Frozen

WIDEST = 20.0  # f is clipped to [-20, 20]


class Leak(Frozen):
    """The true rho is at least this one, with the confidence asked for. `by` is the feature that distinguishes the databases."""

    rho: float
    by: str


def least_rho(first: ArrayLike, second: ArrayLike, *, confidence: float = 0.9999) -> Leak:
    """The largest rho that samples of outcomes on two neighbouring databases refute; see `epsilon.lower_bound` for their
    shape."""
    chance = (1 - confidence) / 2
    suggest, choose, judge = parts(first, second)
    tried = [(_found(feature, sign, *choose, chance), feature, sign)
             for feature in features(*suggest) if feature.ends is not None for sign in (1, -1)]
    _, feature, sign = max(tried, key=lambda case: case[0])
    return Leak(rho=max(0.0, _found(feature, sign, *judge, chance)),
                by=f"{feature.name}, likelier on the {'first' if sign == 1 else 'second'}")


def _found(feature: Feature, sign: int, a: Numbers, b: Numbers, chance: float) -> float:
    """A lower bound on KL(first || second) if the sign is 1, on KL(second || first) if it is -1."""
    if feature.ends is None:
        raise ValueError("a ratio is needed")
    low, high = (max(-WIDEST, min(WIDEST, end)) for end in sorted(sign * end for end in feature.ends))
    here, there = (np.clip(sign * feature.of(part), low, high) for part in ((a, b) if sign == 1 else (b, a)))
    grown = np.exp(there)
    mean = float(here.mean()) - _margin(here, high - low, chance)
    return mean - math.log(float(grown.mean()) + _margin(grown, math.exp(high) - math.exp(low), chance))


def _margin(values: Numbers, width: float, chance: float) -> float:
    """How far the mean of independent values in an interval of this width may be from its expectation, except with `chance`."""
    n, log = len(values), math.log(2 / chance)
    return math.sqrt(2 * float(values.var(ddof=1)) * log / n) + 7 * width * log / (3 * (n - 1))
