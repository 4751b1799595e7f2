"""How much rho is it, at least? A lower bound of zero-concentrated DP, from outcomes on two neighbouring databases.

rho-zCDP says D_a(P || Q) <= a rho for the Renyi divergence of every order a > 1, and so for its limit at a = 1, the
Kullback-Leibler divergence, KL(P || Q) <= rho. For every bounded number f of an outcome

    KL(P || Q) >= E_P[f] - ln E_Q[e^f]

(Donsker and Varadhan 1983), with equality for f = ln dP / dQ. So f is the logarithm of a ratio of shares in bins that one part of
the samples suggests, another part chooses and the rest judge; both means are bounded from the side that hurts by the
empirical Bernstein bound (Maurer and Pontil, COLT 2009, Theorem 4), each but for half of 1 - confidence. Of two Gaussians all
of rho is found but for sampling error: with a million samples a scale that is five percent too small, which is eleven of rho.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpsql.audit.epsilon import Feature, Numbers, features, parts

WIDEST = 20.0  # of f: what is beyond is cut off


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """No rho below this one holds, but for a chance of 1 - confidence. `by` says what told the databases apart."""

    rho: float
    by: str


def least_rho(first: ArrayLike, second: ArrayLike, *, confidence: float = 0.9999) -> Leak:
    """The largest rho that samples of outcomes on two neighbours rule out; see `epsilon.lower_bound` for samples."""
    chance = (1 - confidence) / 2
    suggest, choose, judge = parts(first, second)
    tried = [(_found(feature, sign, *choose, chance), feature, sign)
             for feature in features(*suggest) if feature.ends is not None for sign in (1, -1)]
    _, feature, sign = max(tried, key=lambda case: case[0])
    return Leak(rho=max(0.0, _found(feature, sign, *judge, chance)),
                by=f"{feature.name}, likelier on the {'first' if sign == 1 else 'second'}")


def _found(feature: Feature, sign: int, a: Numbers, b: Numbers, chance: float) -> float:
    """A lower bound of KL(first || second) where the sign is 1, of KL(second || first) where it is -1."""
    if feature.ends is None:
        raise ValueError("a ratio is needed")
    low, high = (max(-WIDEST, min(WIDEST, end)) for end in sorted(sign * end for end in feature.ends))
    here, there = (np.clip(sign * feature.of(part), low, high) for part in ((a, b) if sign == 1 else (b, a)))
    grown = np.exp(there)
    mean = float(here.mean()) - _margin(here, high - low, chance)
    return mean - math.log(float(grown.mean()) + _margin(grown, math.exp(high) - math.exp(low), chance))


def _margin(values: Numbers, width: float, chance: float) -> float:
    """How far a mean of independent values within an interval of this width may be from its expectation, but for a chance."""
    n, log = len(values), math.log(2 / chance)
    return math.sqrt(2 * float(values.var(ddof=1)) * log / n) + 7 * width * log / (3 * (n - 1))
