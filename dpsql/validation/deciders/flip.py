"""The flip distance: decide by how many entities would have to be added or removed to change the truth.

For COUNT, COUNT(DISTINCT), MEDIAN and SUM (without groups) where an entity has one row, the slack is that distance exactly, and
no decider of the same epsilon and the same worst case is better on any database (`flip_distance.NoisyFlipDistance`). For a SUM
outside an interval that one row can jump over, for AVG and for other quantiles it may be smaller. One price holds for all groups.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from dpsql.estimates import margin
from dpsql.mechanisms.additive_noise import bought, error_of
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.flip_distance import FlipDistances, NoisyFlipDistance
from dpsql.trusted.noise.integer import DiscreteGaussian, DiscreteLaplace, Noise
from dpsql.validation.deciders.decider import CONFIDENCE, Check, Decision, Outcome
from dpsql.validation.forms import shares_of, within


class FlipDistance:
    """Within where the noisy slack is 1 or more."""

    name = "flip_distance"

    def judge(self, case: Check) -> str | None:
        if case.asked.held and case.asked.clip is None:
            shares_of(case.asked)  # raises, located
            return "the rows of an entity are not limited"
        within(case.asked)  # raises, located
        return None

    def decide(self, case: Check, allotted: Cost) -> Decision:
        noise = bought(1, allotted)
        found: FlipDistances = yield NoisyFlipDistance(tests=(within(case.asked),), noise=noise)
        return outcome(found.slacks[0], noise)

    def wrong(self, case: Check, allotted: Cost, distance: int) -> float | None:
        return tail(bought(1, allotted), distance)


def outcome(slack: int, noise: Noise, held: Fraction | None = None) -> Outcome:
    """The decision that follows from a noisy slack.

    If the truth is "outside" the slack is 0 or less, so P(noise >= slack) bounds the chance of a result as good; if it is
    "within", the slack is 1 or more, and P(1 + noise <= slack) that of one as bad. Both hold for any slack there.
    """
    error = error_of(noise)
    width = 0.0 if error is None else margin((error,), (1.0,), CONFIDENCE)
    return Outcome(within=slack >= 1, slack=slack, spread=math.sqrt(noise.variance), margin=width, p_outside=tail(noise, slack),
                   p_inside=tail(noise, 1 - slack), held=None if held is None else float(held))


@lru_cache(maxsize=2**12)  # the checks of a suite ask for the same ones
def tail(noise: Noise, least: int) -> float:
    """P(noise >= least), for symmetric integer noise."""
    if least <= 0:
        return 1 - tail(noise, 1 - least)
    match noise:
        case DiscreteLaplace(scale=scale):
            q = math.exp(-1 / scale)
            return q**least / (1 + q)
        case DiscreteGaussian(sigma=sigma):
            if sigma > 1000:  # the sum is an integral, to 1e-6
                return 0.5 * math.erfc((least - 0.5) / (sigma * math.sqrt(2)))
            far = math.ceil(40 * sigma) + 1
            weights = [math.exp(-(z * z) / (2 * sigma * sigma)) for z in range(far)]
            return sum(weights[least:]) / (2 * sum(weights) - weights[0])
