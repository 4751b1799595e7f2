"""The sparse vector technique: which of a sequence of questions pass a threshold."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate
from typing import Annotated

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import FREE, Cost
from dpsql.trusted.field_types import WIDEST, Assumptions, Natural, NumberRange, Positive, Scale, Word
from dpsql.trusted.measurements.flip_distance import Test, Within, check_slacks, moved, read, slack_of
from dpsql.trusted.measurements.reading.occupied_cells import sums_in
from dpsql.trusted.measurements.reading.request import Context, OfOnePlan
from dpsql.trusted.noise.sparse_vector import first_small, small, sparse_cost
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.node import Stability, Summary
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.summands import Count, GridSum
from dpsql.types import Type

SUM_GRAIN = 2**16  # sums are compared in units of 1 / SUM_GRAIN of the most that an entity adds
MOST_STEPS = 2**16  # of one ladder: each has noise of its own, which is drawn without a pause
MOST_WIDTHS = 20  # different scales that the noise of a comparison may have


class AboveThresholdOfCounts(Frozen, OfOnePlan):
    """The first rung of a ladder that few rows exceed, by the sparse vector technique with one answer.

    The plan counts rows by an integer key 0, 1, ... up to the number of `limits`; q_j counts those with a key above j. q_0,
    q_1, ... are compared in order, until q_j + noise <= `limits[j]` + noise'; the answer is that j, or the number of limits.
    All rungs share noise'. If it is far below zero, increasing limits keep the answer from being the top rung.

    Cost: `noise.sparse_vector` with g_j = q_j - limits[j]. Let an entity remove u rows and add w, u + w <= r. Then
    for all j, q_j changes to a number between q_j - u and q_j + w. So z moves by at most r, and the noise of the yes by at most
    r too, not 2r, even if some rows are removed and others added.
    """

    plan: GroupedSums
    limits: tuple[Word, ...]
    scale_limit: Scale
    scale_query: Scale

    def assumptions(self) -> Assumptions:
        yield [type(part) for part in self.plan.summands] == [Count], "a ladder needs one count"
        yield len(self.plan.keys) == 1, "a ladder needs one key"
        yield self.plan.input.field(self.plan.keys[0]).facts.type is Type.BIGINT, "the rungs of a ladder must be whole numbers"
        yield len(self.limits) <= MOST_STEPS, f"a ladder has {MOST_STEPS} rungs at most"

    def cost(self, certificate: Certificate) -> Cost:
        if certificate.below.public:
            return FREE
        rows = certificate.rows
        return sparse_cost(rows, rows, self.scale_limit, self.scale_query)

    def release(self, context: Context, certificate: Certificate) -> Rung:
        """Climb until the noisy number of rows above a rung falls to the noisy limit; see `AboveThresholdOfCounts`."""
        rungs = len(self.limits)
        counts = [0] * (rungs + 1)
        for key, count in context.rows(self.plan):
            if key is not None and 0 <= key <= rungs:
                counts[key] += count
        above = [rows - limit for rows, limit in zip([*accumulate(counts[:0:-1])][::-1], self.limits, strict=True)]
        stopped = first_small(above, self.scale_limit, self.scale_query, context.noise)
        return Rung(rung=rungs if stopped is None else stopped)


class Rung(Frozen):
    """The rung at which the ladder stopped."""

    rung: int


class Rising(Frozen):
    """A step of `AboveThresholdOfSums`: whether the total of summand `at` reaches `threshold`, in the summand's integers."""

    at: Natural
    threshold: Annotated[Fraction, NumberRange()]


class AboveThresholdOfSums(Frozen, OfOnePlan):
    """The first of several sums that reaches its threshold.

    The steps test in order whether q_j + noise_j >= t_j + noise', with q_j and t_j the total and its threshold in units of 1 /
    SUM_GRAIN of the most that an entity adds, rounded down; the first yes is released and ends the search.

    Cost: `noise.sparse_vector` with g_j = t_j - q_j. An entity moves each q_j by SUM_GRAIN at most (rounding down
    does not increase an integer distance). Where all sums move in one direction (an entity that leaves only removes rows, and
    no summand has negative values), u + w is SUM_GRAIN too, else twice that.
    """

    plan: GroupedSums
    steps: tuple[Rising, ...]
    scale_limit: Scale
    scale_query: Scale

    def assumptions(self) -> Assumptions:
        yield {*map(type, self.plan.summands)} <= {Count, GridSum}, "thresholds need counts or sums of one number per row"
        yield not self.plan.keys, "thresholds need sums without groups"
        yield 1 <= len(self.steps) <= MOST_STEPS, f"there must be 1 to {MOST_STEPS} steps"
        yield all(step.at < len(self.plan.summands) for step in self.steps), "each step must refer to one of the sums"

    @property
    def rising(self) -> bool:
        """Whether an additional row can only increase the sums."""
        return all(isinstance(part, Count) or (isinstance(part, GridSum) and part.grid.least >= 0) for part in self.plan.summands)

    def cost(self, certificate: Certificate) -> Cost:
        if certificate.below.public:
            return FREE
        ways = 1 if self.rising and certificate.below.owners else 2
        return sparse_cost(SUM_GRAIN, ways * SUM_GRAIN, self.scale_limit, self.scale_query)

    def release(self, context: Context, certificate: Certificate) -> Stopped:
        """Release the first sum that reaches its threshold; see `AboveThresholdOfSums`. All sums are read in one scan."""
        plan = self.plan
        totals = sums_in(context.columns(plan), 0, ((),))
        units = [max(1, plan.summands[step.at].l1) * certificate.rows for step in self.steps]
        gaps = [int(SUM_GRAIN * step.threshold // unit) - SUM_GRAIN * totals[step.at][0] // unit
                for step, unit in zip(self.steps, units, strict=True)]
        return Stopped(step=first_small(gaps, self.scale_limit, self.scale_query, context.noise))


class Stopped(Frozen):
    """The step that was answered yes; None if none was."""

    step: int | None


class AboveThresholdOfTests(Frozen):
    """Which of several tests fail, until the allowed number of failures is used up; the rest stay untested.

    Each test i is compared in order, slack_i + z <= noise_i + `limits[j]`, with noise_i of scale 2^j `scale_query`, the widest
    first. The first yes is released as a failure; it costs 1 / 2^j of a failure at the narrowest noise, of which `most` may be
    spent. All noise is one-sided: integers n >= 0 with probability proportional to exp(-n / scale). The slack is that of
    `NoisyFlipDistance` for each test alone; with `split` the sides of a test are compared one after the other.

    Cost: `noise.sparse_vector`. A slack rises or falls by 1, so z moves by 1 and the noise of a yes by 2. With
    `split`, each test is divided into sides that added rows can only raise and sides that they can only lower, and each kind
    has its own z. When an entity is added, u is 0 and w is 1 for slacks that rise, and vice versa for those that fall; when one
    is removed, the kinds swap roles: the z move by 1 in total, and the noise of a yes by 1.
    """

    tests: tuple[Test, ...]
    most: Positive
    limits: tuple[Word, ...]
    scale_limit: Scale
    scale_query: Scale
    split: bool = False

    def assumptions(self) -> Assumptions:
        yield self.tests, "a comparison needs a test"
        one_end = any(isinstance(test, Within) and test.exact for test in self.tests)
        yield not one_end, "sides are compared one by one, but an exact test computes only the nearer end of its interval"
        yield 1 <= len(self.limits) <= MOST_WIDTHS, f"there must be 1 to {MOST_WIDTHS} limits"
        yield self.scale_query * 2 ** (len(self.limits) - 1) <= WIDEST, "the widest noise must fit into 64 bits"

    def cost(self, *certificates: Certificate) -> Cost:
        check_slacks(self.tests, certificates)
        if all(certificate.below.public for certificate in certificates):
            return FREE
        pairs = zip(self.tests, certificates, strict=True)
        if self.split and not all(splits(test, certificate.below) for test, certificate in pairs):
            raise ValueError("an added entity might raise as well as lower one side of a test")
        steps = 1 if self.split else 2
        return sparse_cost(1, steps, self.scale_limit, self.scale_query, self.most)

    def release(self, context: Context, *certificates: Certificate) -> Failed:
        """Which tests fail, until the allowed number of failures is used up."""
        slacks = []
        for test, sides, certificate in zip(self.tests, read(self.tests, context), certificates, strict=True):
            rows = moved(test, certificate)
            ways = dict.fromkeys(test.ways) if self.split else {0: None}
            slacks.append({way: slack_of([side for side, own in zip(sides, test.ways, strict=True) if way in (0, own)], rows)
                           for way in ways})
        return Failed(failed=tuple(small(slacks, self.limits, self.scale_limit, self.scale_query, self.most, context.noise)))

    @property
    def plans(self) -> tuple[Summary, ...]:
        return tuple(test.plan for test in self.tests)


def splits(test: Test, below: Stability) -> bool:
    """Whether an added entity, which only adds rows, can only raise some sides of a test and only lower the others."""
    return bool(below.owners) and 0 not in test.ways


class Failed(Frozen):
    """For each test that was evaluated, whether it failed."""

    failed: tuple[bool, ...]
