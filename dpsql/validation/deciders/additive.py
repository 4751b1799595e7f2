"""The answer plus noise, and whether that lies within: the paper's LM_count and LM_sum, and an average of two noisy sums.

The paper (DP-PQD, section 4) scales the noise of a sum to the width of its domain. For neighbours that add or remove an entity
it must be the greatest absolute value, and values must be clamped to the domain: both are done here. Noise is discrete.
"""

from __future__ import annotations

from fractions import Fraction

from dpsql.mechanisms.additive_noise import bought
from dpsql.questions.all_aggregates import Kind
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.summands import Count, GridSum, Summand
from dpsql.validation.deciders.decider import Check, Decision, Outcome
from dpsql.validation.deciders.flip import tail
from dpsql.validation.forms import bounded, column_of


class Additive:
    """Within where all noisy answers are."""

    name = "additive"

    def judge(self, case: Check) -> str | None:
        if case.asked.held:
            return "the rows of an entity are not limited"
        if not case.asked.call.aggregate.plain:
            return "it adds noise to COUNT, SUM and AVG"
        if case.asked.call.aggregate.kind is not Kind.COUNT:
            bounded(column_of(case.asked), case.asked.call)
        return None

    def decide(self, case: Check, allotted: Cost) -> Decision:
        asked, summands = case.asked, self._summands(case)
        noises = tuple(bought(part.l1 * case.rows, allotted.part(Fraction(1, len(summands)))) for part in summands)
        released: MeasuredSums = yield NoisySums(plan=GroupedSums(input=asked.view, keys=asked.keys, summands=summands),
                                                 cells=asked.cells,
                                                 noises=noises)
        found = [self._answer(case, [totals[0][g] for totals in released.totals]) for g in range(len(asked.cells))]
        return Outcome(within=all(value is not None and part.holds(value)
                                  for value, part in zip(found, asked.ranges, strict=True)))

    def wrong(self, case: Check, allotted: Cost, distance: int) -> float | None:
        """A wrong decision needs noise that moves one answer: to the inside, if it is outside; over either end, if all are
        inside, where the nearer end bounds both tails.

        Propositions 4.3 and 5.2 of the paper have wrong decisions with a chance of at most w from ln(1 / (2 w)) / epsilon on. In
        the middle of the interval both tails count, so it is ln(1 / w) / epsilon.
        """
        if case.asked.call.aggregate.average:
            return None
        unit = self._summands(case)[0].l1 * case.rows
        return min(1.0, 2 * len(case.asked.cells) * tail(bought(unit, allotted), (distance - 1) * unit + 1))

    @staticmethod
    def _summands(case: Check) -> tuple[Summand, ...]:
        call = case.asked.call
        column = next(iter(call.columns), None)
        counted = Count(column=column, when=call.when)
        if call.aggregate.kind is Kind.COUNT or column is None:
            return (counted,)
        total = GridSum(column=column, when=call.when, grid=bounded(column_of(case.asked), call))
        return (total,) if call.aggregate.kind is Kind.TOTAL else (total, counted)

    @staticmethod
    def _answer(case: Check, totals: list[int]) -> Fraction | None:
        call = case.asked.call
        if call.aggregate.kind is Kind.COUNT:
            return Fraction(totals[0])
        total = totals[0] * bounded(column_of(case.asked), call).step
        if call.aggregate.kind is Kind.TOTAL:
            return total
        return total / totals[1] if totals[1] > 0 else None
