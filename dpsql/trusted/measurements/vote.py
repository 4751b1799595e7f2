"""Whether a count lies within an interval: a biased coin whose log-odds grow with the distance from the ends."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import FREE, Cost, pure
from dpsql.trusted.field_types import Assumptions, NumberRange, Scale
from dpsql.trusted.measurements.reading.occupied_cells import sums_in
from dpsql.trusted.measurements.reading.request import Context, OfOnePlan
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.summands import Count

VOTE_GRAIN = 2**20  # scores are whole multiples of 1 / VOTE_GRAIN
MOST_VOTES = 2**31  # the largest score, so that floats hold its multiples


class Vote(Frozen, OfOnePlan):
    """Yes with log-odds v / (k `scale`), where v = min(n - low, high - n) for a count n, clamped to ±`most`, and k is the
    number of rows of an entity.

    With `blunt`, v is 1/2 strictly inside the interval and -1/2 elsewhere.

    Cost. A row moves n by 1, and so v by 1 at most (clamping and the minimum are 1-Lipschitz, and the two values of a blunt v are
    1 apart); an entity of k rows moves floor(VOTE_GRAIN v / k) by VOTE_GRAIN at most. So the log-odds move by 1 / scale at most,
    and so does the logarithm of either probability: epsilon = 1 / scale.
    """

    plan: GroupedSums
    low: Annotated[Fraction, NumberRange()]
    high: Annotated[Fraction, NumberRange()]
    most: Annotated[Fraction, NumberRange(least=0, most=MOST_VOTES)]
    scale: Scale
    blunt: bool = False

    def assumptions(self) -> Assumptions:
        counted = [type(part) for part in self.plan.summands] == [Count] and not self.plan.keys
        yield counted, "a vote needs one count without groups"
        yield self.low <= self.high, "the ends of an interval must be in order"

    def score(self, count: int, rows: int) -> int:
        """v / rows in units of 1 / VOTE_GRAIN, rounded down."""
        near = min(count - self.low, self.high - count)
        held = max(-self.most, min(self.most, near)) if not self.blunt else Fraction(1 if near > 0 else -1, 2)
        return int(held * VOTE_GRAIN // rows)

    def cost(self, certificate: Certificate) -> Cost:
        return FREE if certificate.below.public else pure(1 / Fraction(self.scale))

    def release(self, context: Context, certificate: Certificate) -> Voted:
        """A yes with the log-odds given in `Vote`."""
        count = sums_in(context.columns(self.plan), 0, ((),))[0][0]
        score = self.score(count, certificate.rows) / 2
        return Voted(yes=context.noise.exponential([score, -score], self.scale * VOTE_GRAIN) == 0)


class Voted(Frozen):
    """A yes or a no."""

    yes: bool


