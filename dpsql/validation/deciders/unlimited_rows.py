"""Counts and sums over rows that are not limited for each entity, as in joins: decided on a Lipschitz extension.

The level is drawn as for an answer (`mechanisms.truncation.balance`), for a part of the price; the flip distance of the
extension has the rest. So what is decided is whether the *extension* lies within, which equals the sum where no entity adds
more than the level; the level is shown.
"""

from __future__ import annotations

from fractions import Fraction

from dpsql.mechanisms.additive_noise import bought
from dpsql.mechanisms.mechanism import Shared, TaskContext
from dpsql.mechanisms.truncation.balance import Balanced
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.flip_distance import FlipDistances, NoisyFlipDistance
from dpsql.trusted.measurements.several.balanced_levels import Balance, BalancedLevel
from dpsql.trusted.measurements.several.levels import ExtensionSums
from dpsql.trusted.plan.operators.owner_sets import LARGEST
from dpsql.trusted.plan.operators.summands import GridSum
from dpsql.validation.deciders.decider import Check, Decision
from dpsql.validation.deciders.flip import outcome, tail
from dpsql.validation.forms import held_to, shares_of

MOST_ROWS = 2**20  # of one entity: the end of the ladder of levels


class ExtensionDistance:
    """Within where the noisy slack of the extension is 1 or more, at a level that is drawn."""

    name = "held_distance"

    def judge(self, case: Check) -> str | None:
        if not case.asked.held:
            return "the rows of an entity are limited"
        if case.asked.clip is not None:
            return "the level is given"
        shares_of(case.asked)  # raises, located
        return None

    def decide(self, case: Check, allotted: Cost) -> Decision:
        plan = shares_of(case.asked)
        task = Shared(at=0, input=plan.input, owners=plan.owners, summand=plan.summand, bound="balance",
                      most=min(LARGEST, MOST_ROWS * plan.summand.l1))
        asked = Balanced.told(task=task, price=allotted, cells=1).request(TaskContext(cells=((),), keys=()))
        assert isinstance(asked, Balance)
        found: ExtensionSums = yield BalancedLevel(plan=plan, levels=asked.levels, log_priors=asked.log_priors, scale=asked.scale)
        place = found.levels[0][0]
        assert place is not None
        level, noise = asked.levels[place], bought(1, self._left(allotted))
        told: FlipDistances = yield NoisyFlipDistance(tests=(held_to(case.asked, level),), noise=noise)
        step = plan.summand.grid.step if isinstance(plan.summand, GridSum) else Fraction(1)
        return outcome(told.slacks[0], noise, held=level * step)

    def wrong(self, case: Check, allotted: Cost, distance: int) -> float | None:
        return tail(bought(1, self._left(allotted)), distance)

    @staticmethod
    def _left(allotted: Cost) -> Cost:
        """What is left for the decision after the level has been drawn."""
        told = Balanced.told
        return allotted.part(1 - (told.of_epsilon if allotted.epsilon is not None else told.of_rho))
