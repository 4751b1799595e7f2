"""The keys of a GROUP BY that enough entities have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from dpsql.accounting.cost import FREE, Cost, concentrated, pure
from dpsql.cells import Cells
from dpsql.plan.certificate import Certificate
from dpsql.plan.operators.tally import Tally


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys of a GROUP BY that enough entities have. The plan counts, for each key, the entities that have it, or, where rows
    rest on several entities, rows.

    Cost: let c be the certificate's stability. If an entity's rows have different keys, it adds one to the count of at most c
    keys; else it moves all counts by c together. See the rules.
    """

    plan: Tally
    rule: KeyRule

    def cost(self, certificate: Certificate) -> Cost:
        rows = certificate.below.rows
        if rows == 0:
            return FREE
        if rows is None or certificate.summands[0].l1 != rows:
            raise ValueError("keys are counted by rows that are limited")
        return self.rule.cost(rows) if certificate.apart else self.rule.cost_of_moves(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The keys that may be shown, in canonical order."""

    keys: Cells
