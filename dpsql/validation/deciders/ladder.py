"""Sums without a known largest value: the paper's R2T_sum and SVT_sum, over sums of the values up to 2, 4, 8, ...

A sum of the values up to t (greater ones are dropped) moves by t with one row, where values are not negative; the paper assumes
that, and where a domain has negative values these deciders are refused. R2T_sum pays for every level and takes the largest noisy
sum, lowered; SVT_sum asks level after level whether a sum passes the ends of the interval. Its answer rests on
`AboveThresholdOfSums`: the stop is all that is told. Both stop at the declared bound; `private_stop` finds a lower level first,
for a third of the price, from a quantile of the rows. That is private and, as sums go, wrong: a twentieth of the rows may be a
fifth of the sum.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from fractions import Fraction
from typing import Any

from dpsql.frozen import Frozen
from dpsql.mechanisms.additive_noise import scale_of
from dpsql.questions.all_aggregates import Kind
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.above_threshold import SUM_GRAIN, AboveThresholdOfSums, Rising, Stopped
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.noise.integer import DiscreteLaplace
from dpsql.trusted.plan.expr.nodes import Expr, Literal, Ref, predicate
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Count, GridSum
from dpsql.types import Type
from dpsql.validation.deciders.decider import Check, Decision, Outcome
from dpsql.validation.deciders.flip import tail
from dpsql.validation.forms import bounded, column_of

MOST_LEVELS = 20
BETA = Fraction(1, 20)  # the chance that R2T's answer is above the truth
COVERED = Fraction(19, 20)  # of the rows, by the level that `private_stop` finds


class Ladder(Frozen):
    """The levels of a case, and its rows with, for each level, whether their value is up to it."""

    case: Check
    grid: Quantizer
    levels: tuple[int, ...]

    @property
    def rows(self) -> Project:
        asked, column = self.case.asked, column_of(self.case.asked)
        kept = tuple((found.id, found.name, found.ref) for found in asked.view.fields)
        tests = tuple((f"upto{j}", f"upto{j}", self._upto(column.ref, level)) for j, level in enumerate(self.levels))
        return Project(input=asked.view, columns=(*kept, *tests))

    def _upto(self, ref: Ref, level: int) -> Expr:
        end = float(self.grid.value(level))
        literal = Literal(value=math.floor(end) if ref.type is Type.BIGINT else end, type=ref.type)
        found = predicate("<=", ref, literal)
        when = self.case.asked.call.when
        return found if when is None else predicate("and", Ref(column=when, type=Type.BOOLEAN), found)

    def sums(self, upto: Sequence[int]) -> tuple[GridSum, ...]:
        """The sums of the values up to each of some levels."""
        return tuple(GridSum(column=column_of(self.case.asked).id, when=f"upto{j}", grid=Quantizer(
            low=0.0, high=float(self.grid.value(self.levels[j])), step=self.grid.step, from_low=False)) for j in upto)


def ladder_of(case: Check) -> Ladder:
    """Levels that are powers of two, ending at the bound; only the greatest ones, up to a maximum number."""
    grid = bounded(column_of(case.asked), case.asked.call)
    count = min(MOST_LEVELS, max(1, grid.most.bit_length()))
    return Ladder(case=case, grid=grid, levels=tuple(-(-grid.most >> (count - 1 - j)) if j < count - 1 else grid.most
                                                     for j in range(count)))


def _judge(case: Check) -> str | None:
    if case.asked.held:
        return "the rows of an entity are not limited"
    if case.asked.call.aggregate.kind is not Kind.TOTAL or case.asked.keys:
        return "it decides one SUM, without groups"
    if bounded(column_of(case.asked), case.asked.call).least < 0:
        return "its levels limit sums only if values are not negative"
    return None


class RaceSum:
    """R2T_sum: within where the largest lowered noisy sum is."""

    name = "r2t"

    def judge(self, case: Check) -> str | None:
        return _judge(case)

    def decide(self, case: Check, allotted: Cost) -> Decision:
        ladder = ladder_of(case)
        many, noises = len(ladder.levels), self._noises(ladder, allotted)
        released: MeasuredSums = yield NoisySums(plan=GroupedSums(input=ladder.rows, keys=(), summands=ladder.sums(range(many))),
                                                 cells=((),), noises=noises)
        rare = math.log(many / float(BETA))
        best = max(0.0, *(totals[0][0] - noise.scale * rare for totals, noise in zip(released.totals, noises, strict=True)))
        return Outcome(within=case.asked.ranges[0].holds(Fraction(best) * ladder.grid.step))

    def wrong(self, case: Check, allotted: Cost, distance: int) -> float | None:
        """The sum is g = (d - 1) times the most that an entity adds from either end. The answer is that far below it only if the
        last noise is, less what it is lowered by; and as far above it, with k levels, if some noise is: which each is with a
        chance of BETA / k exp(-g / scale) at most, as no level's sum is above the whole one."""
        ladder = ladder_of(case)
        last, gap = self._noises(ladder, allotted)[-1], (distance - 1) * ladder.levels[-1] * case.rows
        lowered = last.scale * math.log(len(ladder.levels) / float(BETA))
        return min(1.0, tail(last, math.ceil(gap - lowered)) + float(BETA) * math.exp(-gap / last.scale))

    @staticmethod
    def _noises(ladder: Ladder, allotted: Cost) -> tuple[DiscreteLaplace, ...]:
        """To what a summand adds at most, which may be above its level by what a float is."""
        share = allotted.part(Fraction(1, len(ladder.levels)))
        return tuple(DiscreteLaplace(scale=scale_of(part.l1 * ladder.case.rows / share.as_epsilon))
                     for part in ladder.sums(range(len(ladder.levels))))


class SparseSum:
    """SVT_sum: above the upper end at some level: no; else above the lower end: yes; else no."""

    def __init__(self, name: str, *, private_stop: bool) -> None:
        self.name, self._private_stop = name, private_stop

    def judge(self, case: Check) -> str | None:
        return _judge(case)

    def decide(self, case: Check, allotted: Cost) -> Decision:
        ladder = ladder_of(case)
        last = len(ladder.levels)
        third = allotted.part(Fraction(1, 3))
        if self._private_stop:
            last = 1 + (yield from private_stop(ladder, third))
        asked, upto = case.asked.ranges[0], range(last)
        scale = self._scale(allotted)
        high, low = asked.high / ladder.grid.step, math.floor(asked.low / ladder.grid.step) + 1
        steps = tuple(Rising(at=j, threshold=end) for end in (high, Fraction(low)) for j in upto)
        found: Stopped = yield AboveThresholdOfSums(plan=GroupedSums(input=ladder.rows, keys=(), summands=ladder.sums(upto)),
                                                    steps=steps,
                                                    scale_limit=scale, scale_query=scale)
        return Outcome(within=found.step is not None and found.step >= last)

    def wrong(self, case: Check, allotted: Cost, distance: int) -> float | None:
        """The last level has the whole sum, (d - 1) SUM_GRAIN from either end, and no level's sum is nearer to an end that is
        above it. A comparison goes wrong where one of two noises passes half of that; of k levels, k + 1 comparisons decide. The
        private stop may leave out a part of the sum, however far it is from the ends, and has no such bound."""
        if self._private_stop:
            return None
        gap, noise = (distance - 1) * SUM_GRAIN - 1, DiscreteLaplace(scale=self._scale(allotted))
        return min(1.0, (len(ladder_of(case).levels) + 1) * 2 * tail(noise, -(-gap // 2)))

    def _scale(self, allotted: Cost) -> float:
        return _compared(allotted.part(Fraction(2, 3)) if self._private_stop else allotted)


def _compared(allotted: Cost) -> float:
    """The scale of the noise of the limit and of that of what is compared with it: an epsilon each, which add up, so that it is
    the epsilon that is halved, in whatever account it is held."""
    return scale_of(2 * SUM_GRAIN / allotted.as_epsilon)


def private_stop(ladder: Ladder, allotted: Cost) -> Generator[Request, Any, int]:
    """The paper's Algorithm 4: the first level that covers most rows, as noisy counts see it."""
    call, rows = ladder.case.asked.call, ladder.case.rows
    part = allotted.part(Fraction(1, 3))
    noise = DiscreteLaplace(scale=scale_of(rows / part.as_epsilon))
    counted: MeasuredSums = yield NoisySums(plan=GroupedSums(input=ladder.case.asked.view, keys=(), summands=(
        Count(column=call.columns[0], when=call.when),)), cells=((),), noises=(noise,))
    wanted = COVERED * counted.totals[0][0][0]
    scale = _compared(allotted.part(Fraction(2, 3)))
    covered: Stopped = yield AboveThresholdOfSums(
        plan=GroupedSums(input=ladder.rows, keys=(), summands=tuple(Count(when=f"upto{j}") for j in range(len(ladder.levels)))),
        steps=tuple(Rising(at=j, threshold=wanted) for j in range(len(ladder.levels))), scale_limit=scale, scale_query=scale)
    return covered.step if covered.step is not None else len(ladder.levels) - 1
