"""Which of many questions in a row stand out: the sparse vector technique."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from dpsql.accounting.cost import FREE, Cost, pure
from dpsql.measurements.measure import dense
from dpsql.measurements.reading.context import Context
from dpsql.measurements.several.balance import patience
from dpsql.measurements.slack import Test, Within, check_slacks, moved, read, slack_of
from dpsql.noise.integer import check_scale
from dpsql.plan.certificate import Certificate
from dpsql.plan.node import Stability
from dpsql.plan.operators.summands import Count, GridSum
from dpsql.plan.operators.summary import Summary
from dpsql.plan.operators.tally import Tally

SUM_GRAIN = 2**16  # sums are compared in 1 / SUM_GRAIN of what a row adds
MOST_WIDTHS = 20  # of the noise of one comparison


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

    @property
    def plans(self) -> tuple[Summary, ...]:
        return (self.plan,)

    def cost(self, certificate: Certificate) -> Cost:
        added = {type(part) for part in self.plan.summands}
        if certificate.below.rows is None or self.plan.keys or not added <= {Count, GridSum}:
            raise ValueError("sums are compared with thresholds in one group, where rows are limited")
        if not self.steps or any(type(step.at) is not int or not 0 <= step.at < len(self.plan.summands) for step in self.steps):
            raise ValueError("a step is one of the sums")
        check_scale(self.scale_limit)
        check_scale(self.scale_query)
        if certificate.below.rows == 0:
            return FREE
        ways = 1 if self.rising and certificate.below.owners else 2
        return pure(SUM_GRAIN / Fraction(self.scale_limit) + ways * SUM_GRAIN / Fraction(self.scale_query))

    def release(self, context: Context, certificate: Certificate) -> Stopped:
        """See `Above`; one scan reads all the sums."""
        plan = self.plan
        totals = dense(context.reader.rows(context.sql(plan)), 0, len(plan.totals), ((),))
        limit = context.noise.laplace([0], self.scale_limit)[0]
        for i, step in enumerate(self.steps):
            unit = max(1, plan.summands[step.at].l1) * certificate.rows
            reached = SUM_GRAIN * totals[step.at][0] // unit
            wanted = int(SUM_GRAIN * step.threshold // unit)
            if reached + context.noise.laplace([0], self.scale_query)[0] >= wanted + limit:
                return Stopped(step=i)
        return Stopped(step=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The step that said yes; None where none did."""

    step: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """Which of some tests fail, until what may be spent on failures is spent; the rest stay untested.

    Asked in order is whether slack_i + z <= noise_i + `limits[j]`, for noise_i whose scale is 2^j `scale_query`, the widest
    first: the first yes is told, as a failure that costs 1 / 2^j of what one at the narrowest noise costs, of which `most` may
    be spent. All noise is one-sided: whole numbers n >= 0 with probability proportional to exp(-n / scale). The slack is that
    of `Slack` for each test by itself; `split` asks of the sides of a test one after the other.

    Cost. Let S be a slack on one database and S' on the neighbour, and keep all noise but z, to which 1 is added, and the noise
    of each yes, to which 2 is added. As S' + 1 >= S a no stays a no, and as S' + 1 <= S + 2 a yes stays a yes. Noise is only
    added to, so one-sided noise is enough, and changes its probability by exp(-1 / scale) for each 1: epsilon =
    1 / scale_limit + 2 most / scale_query. What may still be spent is a function of what was told.

    With `split` each test is parted into what rows that come can only raise, and what they can only lower, and either kind has
    a z of its own. Let an entity come. For slacks that rise (S <= S' <= S + 1) z stays: a no stays one, and a yes does if 1 is
    added to its noise. For those that fall (S - 1 <= S' <= S) 1 is added to z: a no stays one, and so does a yes if 1 is added
    to its noise. If an entity leaves, the kinds change places. So epsilon = 1 / scale_limit + most / scale_query.

    Sources: Lyu, Su and Li, Understanding the Sparse Vector Technique, PVLDB 2017 (monotone queries); Liu, Wang, Liu, Li and
    Chen, Accuracy-enhanced Sparse Vector Technique with Exponential Noise, PVLDB 2024; Ding, Wang, Zhang and Kifer, Free Gap
    Information, PVLDB 2019 (adaptive prices).
    """

    tests: tuple[Test, ...]
    most: int
    limits: tuple[int, ...]
    scale_limit: float
    scale_query: float
    split: bool = False

    def cost(self, *certificates: Certificate) -> Cost:
        check_slacks(self.tests, certificates)
        if any(isinstance(test, Within) and test.exact for test in self.tests):
            raise ValueError("the two ends of a test are told apart, and an exact one knows the nearer end only")
        if not 1 <= len(self.limits) <= MOST_WIDTHS or any(type(limit) is not int for limit in self.limits):
            raise ValueError("a failure is told at some noise")
        if type(self.most) is not int or self.most < 1:
            raise ValueError("the number of failures that are told is a whole number")
        check_scale(self.scale_limit)
        check_scale(self.scale_query)
        check_scale(self.scale_query * 2 ** (len(self.limits) - 1))
        if all(certificate.below.rows == 0 for certificate in certificates):
            return FREE
        pairs = zip(self.tests, certificates, strict=True)
        if self.split and not all(splits(test, certificate.below) for test, certificate in pairs):
            raise ValueError("a row that comes may raise or lower one side of a test")
        steps = 1 if self.split else 2
        return pure(1 / Fraction(self.scale_limit) + steps * self.most / Fraction(self.scale_query))

    def release(self, context: Context, *certificates: Certificate) -> Failed:
        """Which tests fail, as long as failures may be told."""
        slacks = []
        for test, sides, certificate in zip(self.tests, read(self.tests, context), certificates, strict=True):
            rows = moved(test, certificate)
            ways = dict.fromkeys(test.ways) if self.split else {0: None}
            slacks.append({way: slack_of([side for side, own in zip(sides, test.ways, strict=True) if way in (0, own)], rows)
                           for way in ways})
        return Failed(failed=tuple(failing(self, slacks, context)))

    @property
    def plans(self) -> tuple[Summary, ...]:
        return tuple(test.plan for test in self.tests)


def splits(test: Test, below: Stability) -> bool:
    """Whether an entity that comes can only raise some sides of a test, and only lower the others: it only brings rows."""
    return bool(below.owners) and 0 not in test.ways


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """For each test that was asked, whether it failed."""

    failed: tuple[bool, ...]


def failing(request: Failing, slacks: Iterable[Mapping[int, int]], context: Context) -> list[bool]:
    """Whether each test fails, from its slacks by the way in which rows that come move them; see `Failing`."""
    limits = {way: patience(request.scale_limit, context) for way in (-1, 0, 1)}
    finest = 2 ** (len(request.limits) - 1)
    left, found = request.most * finest, []
    for ways in slacks:
        if left < finest:
            break
        price = next((finest >> j for way, slack in ways.items() for j in reversed(range(len(request.limits)))
                      if slack + limits[way] <= patience(request.scale_query * 2**j, context) + request.limits[j]), 0)
        left -= price
        found.append(price > 0)
    return found
