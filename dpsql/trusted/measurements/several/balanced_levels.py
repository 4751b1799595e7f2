"""Choosing the level that balances truncation bias and noise, and releasing the extension at that level."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import FREE, Cost
from dpsql.trusted.field_types import Assumptions
from dpsql.trusted.measurements.reading.request import Context, OfOnePlan
from dpsql.trusted.measurements.several.levels import (
    CellCount,
    ExtensionSums,
    Level,
    ScaleOfScores,
    are_bounded,
    assumptions,
    cost_of_sums,
)
from dpsql.trusted.measurements.several.sets import Sums, read, released
from dpsql.trusted.noise.choice import WholeScore, choice_cost, compared
from dpsql.trusted.noise.integer import Noise
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.operators.owner_sets import UNIT, OwnerSets, lipschitz_constant, slack


class Balance(Frozen, OfOnePlan):
    """The extensions of the sums of all cells at one of several levels, drawn so that truncation bias and noise balance.

    Let F_j be that of `Race`, summed over all cells and both signs of weights, and t_j the levels. The score of level i is

        s_i = max(0, max over j > i of floor((F_j - F_i) / t_j)):

    roughly the number of entities above it, in units of 1 / UNIT. Level i is drawn with probability proportional to
    exp(-(s_i + log_priors[i]) / scale): an exponential mechanism, with public log-priors that make high levels rarer, as an
    unnecessarily high level means much noise. Then each cell's F of the positive weights less its F of the negative ones, at that
    level, is released with fresh noise `noises[i]`.

    Cost of the level. When an entity leaves, F_j falls by at most K(t_j), the Lipschitz constant (`lipschitz_constant`), and
    rises by at most slack(t_j), for each part of each cell (two parts in a cell where weights have two signs). So F_j - F_i falls
    by at most K(t_j) + slack(t_i) and rises by at most K(t_i) + slack(t_j); each floor, and so s_i, falls by at most A
    and rises by at most B, the largest of these over t_j, rounded up: the difference of two scores changes by at most A + B, as
    `noise.choice` needs. For powers of two B is half of A. Where rows have one owner, F_j - F_i is a sum over entities of UNIT *
    (min(load, t_j) - min(load, t_i)), each between 0 and UNIT (t_j - t_i): it falls by that at most when an
    entity leaves, and does not rise. Levels are drawn exactly so (`noise.choice.compared`).

    Cost of the sums. A sum of one part moves by at most K(t_i). With two parts, V of each falls by at most t_i when an entity
    leaves, so their difference moves by at most t_i, plus the slack of each part: UNIT t_i + 2 slack(t_i). The level is already
    released, so the cost is that of the most expensive level. An entity may move the sums of all cells, and their noise is
    independent: the costs add up.

    Why one level for all cells: with a level for each, every choice would get only a share of the budget, and be as coarse as
    the noise of a cell. With one choice the scores of all cells add up, and so do the differences between levels.

    Source: choosing among Lipschitz extensions by how much they cut off, Raskhodnikova and Smith, FOCS 2016, with a score of
    lower sensitivity in place of theirs.
    """

    plan: OwnerSets
    levels: tuple[Level, ...]
    log_priors: tuple[WholeScore, ...]
    scale: ScaleOfScores
    noises: tuple[Noise, ...]
    cells: CellCount = 1

    def assumptions(self) -> Assumptions:
        return assumptions(self.plan, self.levels, self.cells, self.noises, self.log_priors)

    def cost(self, certificate: Certificate) -> Cost:
        if not are_bounded(self.plan, certificate):
            return FREE
        chosen = BalancedLevel(plan=self.plan, levels=self.levels, log_priors=self.log_priors, scale=self.scale, cells=self.cells)
        return chosen.cost(certificate) + cost_of_sums(self.plan, self.levels, self.noises, self.cells)

    def release(self, context: Context, certificate: Certificate) -> ExtensionSums:
        """See above for the scores, their proof, and the noise."""
        cells = read(self.plan, self.levels, self.cells, context)
        place = level_of(self, cells, context)
        return released(cells, place, place, self.noises[place], context.noise)


class BalancedLevel(Frozen, OfOnePlan):
    """The level that `Balance` would draw, and nothing else; its cost is the first part of the cost of `Balance`."""

    plan: OwnerSets
    levels: tuple[Level, ...]
    log_priors: tuple[WholeScore, ...]
    scale: ScaleOfScores
    cells: CellCount = 1

    def assumptions(self) -> Assumptions:
        return assumptions(self.plan, self.levels, self.cells, None, self.log_priors)

    def cost(self, certificate: Certificate) -> Cost:
        if not are_bounded(self.plan, certificate):
            return FREE
        parts = 2 if self.plan.signed else 1
        return choice_cost(score_range(self.levels, self.plan.width, parts * self.cells), self.scale, flip=False)

    def release(self, context: Context, certificate: Certificate) -> ExtensionSums:
        return ExtensionSums(totals=(), levels=((level_of(self, read(self.plan, self.levels, self.cells, context), context),),))


def score_range(levels: tuple[int, ...], owners: int, parts: int) -> int:
    """A + B of `Balance`, for `parts` parts of all cells together; levels increase."""
    falls, rises = [0], [0]
    if owners == 1:  # (high - low) / high is largest for the lowest and the highest one
        return -(-parts * UNIT * (levels[-1] - levels[0]) // levels[-1])
    for low, high in combinations(levels, 2):
        falls.append(-(-parts * (lipschitz_constant(high, owners) + slack(low, owners)) // high))
        rises.append(-(-parts * (lipschitz_constant(low, owners) + slack(high, owners)) // high))
    return max(falls) + max(rises)


def level_of(request: Balance | BalancedLevel, cells: Sequence[tuple[Sums, ...]], context: Context) -> int:
    """The index of the level drawn; see `Balance`."""
    scores = Scores([part for parts in cells for part in parts], request.levels)
    return compared(scores, request.log_priors, request.scale, context.noise)


class Scores:
    """The scores of `Balance`, compared without being computed exactly."""

    def __init__(self, parts: Sequence[Sums], levels: Sequence[int]) -> None:
        self._parts, self._levels = parts, levels
        self._add_up()

    def _add_up(self) -> None:
        """The bounds of all parts together, at each level."""
        self._low = [sum(part.low[j] for part in self._parts) for j in range(len(self._levels))]
        self._high = [sum(part.high[j] for part in self._parts) for j in range(len(self._levels))]

    def at_least(self, i: int) -> int:
        """A lower bound of s_i."""
        high = self._high[i]
        return max(0, *[(low - high) // level for low, level in zip(self._low[i:], self._levels[i:], strict=True)])

    def at_most(self, i: int, limit: int) -> bool:
        """Whether s_i <= limit.

        Proof. With low <= F <= high, (F_j - F_i) / t_j lies between (low_j - high_i) / t_j and (high_j - low_i) / t_j, rounded
        down. If a lower end exceeds the limit for some j, so does s_i; if no upper end does for any j, s_i does not either.
        Otherwise a level not yet known exactly of a doubtful pair is refined, the higher one first, as it is easier; once both
        are known, both ends are the same number.
        """
        while self.at_least(i) <= limit:
            doubtful = [j for j in range(i + 1, len(self._levels)) if (self._high[j] - self._low[i]) // self._levels[j] > limit]
            if not doubtful:
                return True
            place, part = next((place, part) for place in (doubtful[-1], i) for part in self._parts if not part.exact(place))
            part.refine(place)
            self._add_up()
        return False
