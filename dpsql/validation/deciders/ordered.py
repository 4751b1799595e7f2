"""Deciders of quantiles: the paper's EM_med and Hist_med, for any rank.

EM_med draws a value by the exponential mechanism and looks whether that lies within. The paper's score counts the values below
only, so that with ties its best value is one above the median, and uses a sensitivity of 1 where 1/2 is enough; the score here is
that of `measurements.select.Select`. Hist_med compares noisy numbers of values on either side with half a noisy count. The sides
are disjoint only for a positive tolerance, which a tolerance here always is.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpsql.mechanisms.additive_noise import scale_of
from dpsql.questions.chosen_grids import quantizer
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.measurements.select import ROUNDING, Segment, Select, Selected, Target, score_change
from dpsql.trusted.noise.integer import DiscreteLaplace
from dpsql.trusted.plan.expr.nodes import Case as When
from dpsql.trusted.plan.expr.nodes import Expr, predicate, whole
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.ranks import Ranks
from dpsql.trusted.plan.operators.summands import Count
from dpsql.types import Type
from dpsql.validation.deciders.decider import Check, Decision, Outcome
from dpsql.validation.deciders.flip import tail
from dpsql.validation.forms import column_of, greatest_inside

SIDE = "side"
LOW, INSIDE, HIGH = 0, 1, 2


def _judge(case: Check) -> str | None:
    if case.asked.held:
        return "the rows of an entity are not limited"
    if case.asked.call.fraction in (None, 0, 1):
        return "it decides MEDIAN and quantiles"
    return None


class DrawnValue:
    """Within where a value drawn near the rank is."""

    name = "exponential"

    def judge(self, case: Check) -> str | None:
        reason = _judge(case)
        return "the column has no declared bounds" if reason is None and self._grid(case) is None else reason

    def decide(self, case: Check, allotted: Cost) -> Decision:
        asked, grid = case.asked, self._grid(case)
        assert grid is not None
        whole = (Segment(low=0, high=grid.most, target=self._target(case)),)
        found: Selected = yield Select(
            plan=Ranks(input=asked.view, keys=asked.keys, column=asked.call.columns[0], grid=grid, when=asked.call.when),
            cells=asked.cells, segments=(whole,) * len(asked.cells), scale=self._scale(case, allotted))
        drawn = [grid.value(values[0]) for values in found.values]
        return Outcome(within=all(part.holds(value) for value, part in zip(drawn, asked.ranges, strict=True)))

    def wrong(self, case: Check, allotted: Cost, distance: int) -> float | None:
        """The quantile itself has the score 0. If d entities have to go, the counts are (d - 1) max(p, 1 - p) rows from the
        border (see `Sides.wrong`), and the score of every value on the wrong side of it is at least as far below 0: each has a
        weight of at most exp(-that / scale)."""
        grid = self._grid(case)
        assert grid is not None
        short = float((distance - 1) * case.rows * score_change(self._target(case))) / 2 / self._scale(case, allotted)
        return min(1.0, len(case.asked.cells) * (grid.most + 1) * math.exp(-short))

    @staticmethod
    def _target(case: Check) -> Target:
        assert case.asked.call.fraction is not None
        return Target(fraction=case.asked.call.fraction)

    def _scale(self, case: Check, allotted: Cost) -> float:
        # bounded range: rho = epsilon^2 / 8
        epsilon = allotted.as_epsilon if allotted.epsilon is not None else 2 * allotted.as_epsilon
        return scale_of(Fraction(case.rows * score_change(self._target(case))) / (epsilon - case.rows * ROUNDING))

    @staticmethod
    def _grid(case: Check) -> Quantizer | None:
        return quantizer(column_of(case.asked).facts, from_low=True)


class Sides:
    """Within where the noisy numbers of values on either side leave the rank between them."""

    name = "histogram"

    def judge(self, case: Check) -> str | None:
        return _judge(case) or ("it decides one group" if case.asked.keys else None)

    def decide(self, case: Check, allotted: Cost) -> Decision:
        call = case.asked.call
        assert call.fraction is not None
        noise = self._noise(case, allotted)
        counted: MeasuredSums = yield NoisySums(plan=GroupedSums(input=case.asked.view, keys=(), summands=(
            Count(column=call.columns[0], when=call.when),)), cells=((),), noises=(noise,))
        sides: MeasuredSums = yield NoisySums(plan=GroupedSums(input=self._sided(case), keys=(SIDE,),
                                                               summands=(Count(when=call.when),)),
                                              cells=((LOW,), (HIGH,)), noises=(noise,))
        low, high = sides.totals[0][0]
        rows = counted.totals[0][0][0]
        return Outcome(within=low < call.fraction * rows and high <= (1 - call.fraction) * rows)

    def wrong(self, case: Check, allotted: Cost, distance: int) -> float | None:
        """With n values, a of them below the interval and p the rank, p n - a moves by max(p, 1 - p) with a row at most, and so
        it is at least (d - 1) max(p, 1 - p) rows from the border, on its side; so is the number above. For a wrong decision the
        noise of the side, less p times that of n, passes this: either passes half of it, on either side of the interval."""
        fraction = case.asked.call.fraction
        assert fraction is not None
        half = Fraction(distance - 1) * case.rows * max(fraction, 1 - fraction) / 2
        noise = self._noise(case, allotted)
        side, whole = (tail(noise, math.ceil(half / part)) for part in (Fraction(1), max(fraction, 1 - fraction)))
        return min(1.0, 2 * (side + whole))

    @staticmethod
    def _noise(case: Check, allotted: Cost) -> DiscreteLaplace:
        return DiscreteLaplace(scale=scale_of(case.rows / allotted.part(Fraction(1, 2)).as_epsilon))

    @staticmethod
    def _sided(case: Check) -> Project:
        """The view with the side on which each value lies; missing values are inside, where nothing is counted."""
        asked, column, range_ = case.asked, column_of(case.asked), case.asked.ranges[0]
        side: Expr = When(branches=(
            (predicate("<=", column.ref, greatest_inside(column, range_.low, strict=False)), whole(LOW)),
            (predicate("<=", column.ref, greatest_inside(column, range_.high, strict=True)), whole(INSIDE)),
            (predicate("is not null", column.ref), whole(HIGH))), otherwise=whole(INSIDE), type=Type.BIGINT)
        if column.facts.type is Type.DOUBLE:
            side = When(branches=((predicate("isnan", column.ref), whole(INSIDE)),), otherwise=side, type=Type.BIGINT)
        kept = tuple((found.id, found.name, found.ref) for found in asked.view.fields)
        return Project(input=asked.view, columns=(*kept, (SIDE, SIDE, side)))
