"""A coin whose bias falls with the distance: the paper's EM_count, naive and improved.

The improved score is 1 - |q - q_s| / (2 tau) for "yes", of sensitivity 1 / (2 tau), which makes the log-odds of "yes"
epsilon (tau - |q - q_s|), held within ±epsilon tau: however wrong the synthetic answer is, the answer is "yes" with
probability 1 / (1 + exp(epsilon tau)). The paper's code computes exponentials that overflow; here it is a difference of
scores. The naive score is 1 for the true answer and 0 for the other one.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpsql.mechanisms.additive_noise import scale_of
from dpsql.questions.all_aggregates import Kind
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.vote import MOST_VOTES, Vote, Voted
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.summands import Count
from dpsql.validation.deciders.decider import Check, Decision, Outcome


class Coin:
    """Log-odds that fall with the distance (improved), or depend only on the side (naive)."""

    def __init__(self, name: str, *, blunt: bool) -> None:
        self.name, self._blunt = name, blunt

    def judge(self, case: Check) -> str | None:
        if case.asked.held:
            return "the rows of an entity are not limited"
        if case.asked.call.aggregate.kind is not Kind.COUNT or case.asked.keys:
            return "it decides one COUNT, without groups"
        return None

    def decide(self, case: Check, allotted: Cost) -> Decision:
        asked = case.asked
        range_ = asked.ranges[0]
        counted = Count(column=next(iter(asked.call.columns), None), when=asked.call.when)
        plan = GroupedSums(input=asked.view, keys=(), summands=(counted,))
        voted: Voted = yield Vote(plan=plan, low=range_.low, high=range_.high, most=self._most(case), blunt=self._blunt,
                                  scale=scale_of(1 / allotted.as_epsilon))
        return Outcome(within=voted.yes)

    def wrong(self, case: Check, allotted: Cost, distance: int) -> float | None:
        """With d entities to go, the count is at least (d - 1) rows (times those of an entity) from the border."""
        near = Fraction(1, 2) if self._blunt else min(self._most(case), Fraction(distance - 1) * case.rows)
        return 1 / (1 + math.exp(min(float(allotted.as_epsilon * near / case.rows), 700.0)))

    @staticmethod
    def _most(case: Check) -> Fraction:
        return min(Fraction(MOST_VOTES), (case.asked.ranges[0].high - case.asked.ranges[0].low) / 2)
