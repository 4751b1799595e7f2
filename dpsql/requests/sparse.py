"""Which of many questions in a row stand out: the sparse vector technique."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpsql.accounting.cost import FREE, Cost, pure
from dpsql.plan.certificate import Certificate
from dpsql.plan.operators.summands import Count, GridSum
from dpsql.plan.operators.tally import Tally
from dpsql.requests.slack import Within, check_slacks

SUM_GRAIN = 2**16  # sums are compared in 1 / SUM_GRAIN of what a row adds


@dataclass(frozen=True, slots=True, kw_only=True)
class Rising:
    """A step of `Above`: whether the total of summand `at` reaches `threshold`, in the summand's integers."""

    at: int
    threshold: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Above:
    """The first of several sums that reaches its threshold.

    Asked in order is whether q_j + noise_j >= t_j + noise', with q_j and t_j the total and its threshold in 1 / SUM_GRAIN of
    the most that an entity adds, rounded down; the first yes is told, and nothing after it is asked.

    Cost. An entity moves each q_j by SUM_GRAIN at most (rounding down keeps whole numbers apart). Shift noise' by SUM_GRAIN
    and, for the step that says yes, its own noise: by SUM_GRAIN where all sums move one way (an entity only takes rows with
    it, and no summand has negative values), else by twice that. So epsilon = SUM_GRAIN / scale_limit + (1 or 2) SUM_GRAIN /
    scale_query (Dwork et al. 2009; Lyu, Su and Li 2017). Steps before the yes are a prefix of the output and cost nothing
    more.
    """

    plan: Tally
    steps: tuple[Rising, ...]
    scale_limit: float
    scale_query: float

    @property
    def rising(self) -> bool:
        """Whether a further row can only raise the sums."""
        return all(isinstance(part, Count) or (isinstance(part, GridSum) and part.grid.least >= 0) for part in self.plan.summands)

    def cost(self, *certificates: Certificate) -> Cost:
        certificate, = certificates
        if certificate.below.rows == 0:
            return FREE
        if certificate.below.rows is None or self.plan.keys or any(part.components != 1 for part in self.plan.summands):
            raise ValueError("sums are compared with thresholds in one group, where rows are limited")
        ways = 1 if self.rising and certificate.below.owners else 2
        return pure(SUM_GRAIN / Fraction(self.scale_limit) + ways * SUM_GRAIN / Fraction(self.scale_query))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The step that said yes; None where none did."""

    step: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """Which of some tests fail, until `most` of them were found; the rest stay untested.

    Asked in order is whether slack_i + noise_i <= `limit` + noise', with the slack of `Slack` for each test by itself.

    Cost. An entity moves each slack by 1 at most, either way. Keep all noise of the tests that pass, shift noise' by 1 and
    the noise of each of at most `most` failures by 2: epsilon = 1 / scale_limit + 2 most / scale_query (Lyu, Su and Li 2017,
    Theorem 4).
    """

    tests: tuple[Within, ...]
    most: int
    limit: int
    scale_limit: float
    scale_query: float

    def cost(self, *certificates: Certificate) -> Cost:
        check_slacks(self.tests, certificates)
        if all(certificate.below.rows == 0 for certificate in certificates):
            return FREE
        return pure(1 / Fraction(self.scale_limit) + 2 * self.most / Fraction(self.scale_query))


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """For each test that was asked, whether it failed."""

    failed: tuple[bool, ...]
