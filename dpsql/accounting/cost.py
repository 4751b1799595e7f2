"""What a release costs, and how costs add up: exact fractions, and the integers of the ledger.

A cost carries two valid accounts of the same release side by side: a pure epsilon (None where the release has none), and rho
of zero-concentrated DP, both up to a failure probability `delta`. An epsilon-DP release is (epsilon^2 / 2)-zCDP (Bun and
Steinke 2016, Proposition 1.4); an (epsilon, delta)-DP release whose privacy loss exceeds epsilon only in an event of
probability delta is so up to delta. Costs of adaptively chosen releases add up in each account.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

NANO = 10**9
ATTO = 10**18


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The exact cost of one release or of several."""

    epsilon: Fraction | None
    rho: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if min(self.epsilon or 0, self.rho, self.delta) < 0:
            raise ValueError("a cost is never negative: nothing gives privacy back")

    def __add__(self, other: Cost) -> Cost:
        both = None if self.epsilon is None or other.epsilon is None else self.epsilon + other.epsilon
        return Cost(epsilon=both, rho=self.rho + other.rho, delta=self.delta + other.delta)

    def covers(self, spent: Cost) -> bool:
        """Whether a charge of this cost pays for what was spent, in *every* account that it claims.

        A pure epsilon pays for rho too, as far as it is charged: epsilon-DP is (epsilon^2 / 2)-zCDP.
        """
        if spent.delta > self.delta:
            return False
        if self.epsilon is None:
            return spent.rho <= self.rho
        pure = spent.epsilon is not None and spent.epsilon <= self.epsilon
        return pure and (spent.rho <= self.rho or self.epsilon**2 / 2 <= self.rho)

    def part(self, share: Fraction, *, delta: Fraction = Fraction(0)) -> Cost:
        """A share of this amount, in the account that it is held in: of epsilon where it is pure, of rho otherwise."""
        if self.epsilon is None:
            return Cost(epsilon=None, rho=self.rho * share, delta=delta)
        return pure(self.epsilon * share, delta)

    @property
    def as_epsilon(self) -> Fraction:
        """The largest epsilon of an epsilon-DP release that this amount pays for; a square root is rounded down."""
        return self.epsilon if self.epsilon is not None else root(2 * self.rho)

    def rounded(self) -> Charge:
        """The cost in the ledger's integers, rounded up."""
        return Charge(epsilon=None if self.epsilon is None else math.ceil(self.epsilon * NANO),
                      rho=math.ceil(self.rho * NANO), delta=math.ceil(self.delta * ATTO))


def root(number: Fraction) -> Fraction:
    """A square root, rounded down to a multiple of 2^-64."""
    return Fraction(math.isqrt(math.floor(number * 2**128)), 2**64)


FREE = Cost(epsilon=Fraction(0), rho=Fraction(0))


def pure(epsilon: Fraction, delta: Fraction = Fraction(0)) -> Cost:
    return Cost(epsilon=epsilon, rho=epsilon * epsilon / 2, delta=delta)


def concentrated(rho: Fraction, delta: Fraction = Fraction(0)) -> Cost:
    return Cost(epsilon=None, rho=rho, delta=delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """A cost in nano-epsilon, nano-rho and atto-delta; sums of charges are exact."""

    epsilon: int | None
    rho: int
    delta: int

    def __add__(self, other: Charge) -> Charge:
        both = None if self.epsilon is None or other.epsilon is None else self.epsilon + other.epsilon
        return Charge(epsilon=both, rho=self.rho + other.rho, delta=self.delta + other.delta)


NOTHING = Charge(epsilon=0, rho=0, delta=0)
