"""The cost of a release, and how costs add up: exact fractions, and the integers of the ledger.

A cost has two valid accounts of the same release side by side: a pure epsilon (None if the release has none), and rho
of zero-concentrated DP, both up to a failure probability `delta`. An epsilon-DP release is (epsilon^2 / 2)-zCDP (Bun and
Steinke 2016, Proposition 1.4); an (epsilon, delta)-DP release whose privacy loss exceeds epsilon only in an event of
probability delta is so up to delta. Costs of adaptively chosen releases add up in each account.

These two determine the cost of a charge at each of the Renyi `ORDERS`, which adds up too. At order a, rho-zCDP is at most a
rho, by definition, and an epsilon-DP release with distributions P and Q costs at most as much as randomized response. Proof: Z
= P / Q lies between e^-epsilon and e^epsilon and has mean 1 under Q, and z^a is convex, so E[Z^a] is at most the value at 1 of
the chord between these ends,

    (e^(a epsilon) + e^((1 - a) epsilon)) / (1 + e^epsilon) = e^((a - 1) epsilon) (1 + e^-((2a - 1) epsilon)) / (1 + e^-epsilon),

with equality for randomized response, where Z takes no other values (its divergence: Mironov 2017, Proposition 5; the argument:
Bun and Steinke 2016, Proposition 3.3). The divergence is log(E[Z^a]) / (a - 1), so it is below epsilon by

    (log(1 + e^-epsilon) - log(1 + e^-((2a - 1) epsilon))) / (a - 1).

Epsilon-DP is symmetric in P and Q, and so is this bound. For releases that may fail, see `privacy_filter`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from operator import add

from dpsql.frozen import Frozen, field
from dpsql.trusted.declarations.names import normal

NANO = 10**9
ATTO = 10**18
ORDERS = tuple(2**k for k in range(1, 17))  # must never change: no proof would cover what was allowed before with other orders


class Cost(Frozen):
    """The exact cost of one release or of several."""

    epsilon: Fraction | None
    rho: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if min(self.epsilon or 0, self.rho, self.delta) < 0:
            raise ValueError("a cost cannot be negative: privacy cannot be regained")

    def __add__(self, other: Cost) -> Cost:
        both = None if self.epsilon is None or other.epsilon is None else self.epsilon + other.epsilon
        return Cost(epsilon=both, rho=self.rho + other.rho, delta=self.delta + other.delta)

    def covers(self, spent: Cost) -> bool:
        """Whether a charge of this cost pays for what was spent, in *every* account that it claims.

        A charged pure epsilon also pays for rho: epsilon-DP is (epsilon^2 / 2)-zCDP.
        """
        if spent.delta > self.delta:
            return False
        if self.epsilon is None:
            return spent.rho <= self.rho
        pure = spent.epsilon is not None and spent.epsilon <= self.epsilon
        return pure and (spent.rho <= self.rho or self.epsilon**2 / 2 <= self.rho)

    def part(self, share: Fraction, *, delta: Fraction = Fraction(0)) -> Cost:
        """A share of this amount in its own account: of epsilon where it is pure, of rho otherwise."""
        if self.epsilon is None:
            return Cost(epsilon=None, rho=self.rho * share, delta=delta)
        return pure(self.epsilon * share, delta)

    @property
    def as_epsilon(self) -> Fraction:
        """The largest epsilon of an epsilon-DP release that this amount pays for; the square root is rounded down."""
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


class Charge(Frozen):
    """A cost in nano-epsilon, nano-rho and atto-delta, or a sum of such costs; sums of charges are exact."""

    epsilon: int | None
    rho: int
    delta: int
    _summed: tuple[int | None, int, tuple[int, ...]] | None = field(default=None, compare=False, repr=False)

    def __add__(self, other: Charge) -> Charge:
        both = None if self.epsilon is None or other.epsilon is None else self.epsilon + other.epsilon
        return Charge.summed(both, self.rho + other.rho, self.delta + other.delta, map(add, self.renyi, other.renyi))

    @staticmethod
    def summed(epsilon: int | None, rho: int, delta: int, renyi: Iterable[int]) -> Charge:
        """A sum of charges, by its accounts: those of the Renyi orders do not follow from the others."""
        return Charge(epsilon=epsilon, rho=rho, delta=delta, _summed=(epsilon, rho, tuple(renyi)))

    @property
    def renyi(self) -> tuple[int, ...]:
        """The cost at each of the `ORDERS`, in billionths: derived from epsilon and rho or, for a sum, the sum of its parts.

        A copy with another epsilon or rho is no longer that sum.
        """
        epsilon, rho, parts = self._summed or (None, 0, ())
        return parts if parts and (epsilon, rho) == (self.epsilon, self.rho) else _renyi(self.epsilon, self.rho)


@lru_cache(maxsize=4096)  # prices recur
def _renyi(epsilon: int | None, rho: int) -> tuple[int, ...]:
    return tuple(order * rho if epsilon is None else min(order * rho, epsilon - _below(epsilon, order)) for order in ORDERS)


def _below(epsilon: int, order: int) -> int:
    """The amount by which the Renyi divergence of a pure release stays below epsilon, in billionths, rounded down.

    It is at most log(2) / (a - 1), so the rounding error of floats is less than a millionth of the one billionth that is
    subtracted to cover it.
    """
    real = epsilon / NANO
    gap = (math.log1p(math.exp(-real)) - math.log1p(math.exp(-(2 * order - 1) * real))) / (order - 1)
    return max(0, math.floor(gap * NANO) - 1)


NOTHING = Charge(epsilon=0, rho=0, delta=0)


class Account(Frozen):
    """The account a charge belongs to: an analyst's, within a budget."""

    budget: str
    analyst: str

    @property
    def named(self) -> Account:
        """The same account under its normal name, by which events are counted."""
        return Account(budget=self.budget, analyst=normal(self.analyst))
