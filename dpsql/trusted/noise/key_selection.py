"""Partition selection: whether a key may be shown, given the number of entities that have it, with the noisy count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import Cost, concentrated, pure
from dpsql.trusted.field_types import Delta, Epsilon, Scale, Word
from dpsql.trusted.noise.source import Source


class TruncatedGeometric(Frozen):
    """Show a key of n entities, together with n + z, if n + z > `reach`: z is discrete Laplace noise of scale 1 / epsilon,
    conditioned on |z| <= reach, and reach is the least number with P(z = reach) <= delta.

    Proof that this is (epsilon, delta)-DP for one key. The outcome for n entities with z is the outcome for n + 1 with z - 1.
    Every z but -reach has such a counterpart, and their probabilities differ by a factor of e^epsilon at most; so the
    probabilities p and p' of any set of outcomes satisfy p <= e^epsilon p' + P(z = -reach). The other direction is the same with
    z + 1 and reach. A key that nobody has is not shown, as z <= reach, so leaving it out makes no difference.

    No (epsilon, delta)-DP rule shows any key with a larger probability, if delta is a value that P(z = reach) takes.
    Source: Desfontaines, Voss, Gipson and Mandayam, Differentially Private Partition Selection, PoPETs 2022 (Theorem 1, and the
    truncated symmetric geometric distribution, by which counts come with the keys).
    """

    epsilon: Epsilon
    delta: Delta

    @property
    def scale(self) -> float:
        """The scale of the noise: 1 / epsilon, rounded up."""
        return float(1 / self.epsilon) * (1 + 1e-15)

    @property
    def reach(self) -> int:
        """With q = exp(-1 / scale), P(z = k) is q^k (1 - q) / (1 + q - 2 q^(k + 1)), at most delta where k is at least the scale
        times ln(1 + (1 - q) (1 - delta) / (delta (1 + q))); the last factor far exceeds the rounding error of floats.
        """
        delta, ratio = float(self.delta), math.tanh(0.5 / self.scale)  # (1 - q) / (1 + q)
        return max(0, math.ceil(self.scale * math.log1p(ratio * (1 - delta) / delta) * (1 + 1e-9)))

    @property
    def threshold(self) -> int:
        """The least count that is released."""
        return self.reach + 1

    def cost(self, keys: int) -> Cost:
        return pure(self.epsilon * keys, self.delta * keys)

    def cost_of_moves(self, rows: int) -> Cost:
        """The cost where the counts of an entity's keys change by `rows` in total, perhaps all of it in one key.

        Proof. Go from one database to its neighbour by one row at a time: each step moves the count n of one key by one, which
        costs (epsilon, delta) for the release about that key. The c steps of one key cost (c epsilon, delta times the sum of
        e^(i epsilon) over i < c), and the costs of keys add up. As the c add up to `rows` at most, the sums add up to at most
        rows e^((rows - 1) epsilon). (Group privacy: Vadhan, The Complexity of Differential Privacy, 2017, Lemma 2.2.)
        """
        exponent = float(self.epsilon) * (rows - 1)
        if exponent > 700:
            return pure(self.epsilon * rows, Fraction(1))
        return pure(self.epsilon * rows, min(self.delta * rows * Fraction(math.exp(exponent) * (1 + 1e-9)), Fraction(1)))


class GaussianThreshold(Frozen):
    """Show a key if its number of entities plus discrete Gaussian noise reaches `threshold`, together with that sum.

    Cost for an entity with c keys: rho = c / (2 sigma^2) for keys that other entities have too. A key that only this entity has
    is shown with probability P(1 + Z >= threshold) at most, which is P(N(0, sigma^2) >= threshold - 2) at most (Canonne, Kamath
    and Steinke 2020, Proposition 25); over c keys that is delta <= c times that.
    """

    sigma: Scale
    threshold: Word

    def cost(self, keys: int) -> Cost:
        tail = max(0.5 * math.erfc((self.threshold - 2) / (self.sigma * math.sqrt(2))), LEAST_TAIL)
        return concentrated(Fraction(keys) / (2 * Fraction(self.sigma) ** 2), Fraction(keys) * Fraction(tail * (1 + 1e-9)))

    def cost_of_moves(self, rows: int) -> Cost:
        raise ValueError("this rule is for counts of entities only")


LEAST_TAIL = 1e-300  # beyond this erfc is 0 in floats, and the tail is not
KeyRule: TypeAlias = TruncatedGeometric | GaussianThreshold


def shown(counts: Sequence[int], rule: KeyRule, source: Source) -> list[int | None]:
    """The outcome of the rule for the key of each count: a noisy count, or None. Keys without entities are not shown."""
    match rule:
        case GaussianThreshold(sigma=sigma, threshold=threshold):
            told = [noisy if noisy >= threshold else None for noisy in source.gaussian(counts, sigma)]
        case TruncatedGeometric():
            told = source.above(counts, rule.scale, rule.reach)
    return [noisy if count > 0 else None for count, noisy in zip(counts, told, strict=True)]
