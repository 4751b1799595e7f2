"""Whether a key may be shown, from the number of entities that have it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from dpsql.accounting.cost import Cost, concentrated, pure
from dpsql.noise.source import Source

BITS = 128
MOST_WEIGHTS = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedGeometric:
    """Keep a key that n entities have with the largest probability that (epsilon, delta)-DP for one key allows.

    Source: Desfontaines, Voss, Gipson and Mandayam, Differentially Private Partition Selection, PoPETs 2022, Theorem 1.
    """

    epsilon: Fraction
    delta: Fraction

    def cost(self, keys: int) -> Cost:
        return pure(self.epsilon * keys, self.delta * keys)

    def cost_of_moves(self, rows: int) -> Cost:
        """Where the counts of an entity's keys move by so many together, one key's perhaps by all of them.

        Proof. Go from one database to its neighbour by one row at a time: each step moves the count n of one key by one, at a
        cost of (epsilon, delta) for whether that key is shown. Along the c steps of one key that is (c epsilon, delta times the
        sum of e^(i epsilon) over i < c), and keys add up. With the c adding up to `rows` at most, the sums add up to at most
        rows e^((rows - 1) epsilon). (Group privacy: Vadhan, The Complexity of Differential Privacy, 2017, Lemma 2.2.)
        """
        exponent = float(self.epsilon) * (rows - 1)
        if exponent > 700:
            return pure(self.epsilon * rows, Fraction(1))
        return pure(self.epsilon * rows, min(self.delta * rows * Fraction(math.exp(exponent) * (1 + 1e-9)), Fraction(1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianThreshold:
    """Keep a key where its number of entities plus discrete Gaussian noise reaches `threshold`.

    Cost for an entity with c keys: rho = c / (2 sigma^2) for keys that others have too. A key that only this entity has shows
    with probability P(1 + Z >= threshold) at most, which is P(N(0, sigma^2) >= threshold - 2) at most (Canonne, Kamath and
    Steinke 2020, Proposition 25); over c keys that is delta <= c times that.
    """

    sigma: float
    threshold: int

    def cost(self, keys: int) -> Cost:
        tail = max(0.5 * math.erfc((self.threshold - 2) / (self.sigma * math.sqrt(2))), LEAST_TAIL)
        return concentrated(Fraction(keys) / (2 * Fraction(self.sigma) ** 2), Fraction(keys) * Fraction(tail * (1 + 1e-9)))

    def cost_of_moves(self, rows: int) -> Cost:
        raise ValueError("this rule is for counts of entities")


LEAST_TAIL = 1e-300  # erfc of more is 0 in floats, and the tail is not
KeyRule: TypeAlias = TruncatedGeometric | GaussianThreshold


def kept(counts: Sequence[int], rule: KeyRule, source: Source) -> list[bool]:
    """Whether the rule lets the key of each count pass; keys that nobody has do not."""
    match rule:
        case GaussianThreshold(sigma=sigma, threshold=threshold):
            passed = [noisy >= threshold for noisy in source.gaussian(counts, sigma)]
        case TruncatedGeometric(epsilon=epsilon, delta=delta):
            weights = selection_weights(epsilon, delta)
            passed = [count > 0 and source.coin(weights[min(count, len(weights) - 1)], BITS) for count in counts]
    return [count > 0 and each for count, each in zip(counts, passed, strict=True)]


@lru_cache(maxsize=32)
def selection_weights(epsilon: Fraction, delta: Fraction) -> tuple[int, ...]:
    """p[n] * 2^128: the probabilities with which a key of n entities is kept, up to the first that is 1.

    p[0] = 0, p[n + 1] = min(e^eps p[n] + delta, 1 - e^-eps (1 - p[n] - delta), 1): the largest that (eps, delta)-DP allows
    (Desfontaines et al. 2022, Theorem 1). Here in integers with e^eps replaced by a fraction that is not above it and every
    rounding downwards. Both inequalities between p[n] and p[n + 1] that the theorem needs still hold: p[n + 1] <= r p[n] +
    delta, and 1 - p[n + 1] >= (1 - p[n] - delta) / r, for r <= e^eps; the other two hold as p does not fall.
    """
    one, scale = 1 << BITS, 10**30
    digits = Context(prec=60, rounding=ROUND_FLOOR)
    exponent = digits.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    # The factor, far above the rounding error of sixty digits, keeps r below e^eps.
    below = digits.subtract(Decimal(1), Decimal(10) ** -50)
    r = int(digits.multiply(digits.multiply(digits.exp(exponent), Decimal(scale)), below))
    d = int(delta * one)
    weights = [0]
    while weights[-1] < one:
        p = weights[-1]
        rest = max(0, one - p - d)
        following = min(p * r // scale + d, one - -(-rest * scale // r), one)
        if following <= p or len(weights) > MOST_WEIGHTS:
            raise ValueError("epsilon or delta is too small to select keys")
        weights.append(following)
    return tuple(weights)
