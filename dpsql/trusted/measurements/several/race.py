"""Race to the top: the largest of several noisy underestimates, without computing those that cannot be the largest."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import FREE, Cost
from dpsql.trusted.field_types import Assumptions, Word
from dpsql.trusted.measurements.reading.request import Context, OfOnePlan
from dpsql.trusted.measurements.several.levels import CellCount, ExtensionSums, Level, are_bounded, assumptions, times
from dpsql.trusted.measurements.several.sets import Sums, read
from dpsql.trusted.noise.integer import Noise, drawn
from dpsql.trusted.plan.certificate import Certificate, Sensitivity
from dpsql.trusted.plan.operators.owner_sets import OwnerSets, lipschitz_constant


class Race(Frozen, OfOnePlan):
    """The sum of the weights of each cell, as the largest of several noisy underestimates: race to the top (R2T).

    With F_j the extension of the sum at `levels[j]` (`extensions.lipschitz_extension`), in units, the release is the
    largest of 0 and all F_j + noise_j - `penalties[j]`, with its index. Where the plan is signed, the positive and the negative
    weights have a race each, and the sum released is their difference. Every cell has its own races, over its own sets.

    Cost. An entity moves F_j by at most `lipschitz_constant(levels[j], owners)`, so the cost is the sum of the costs of all
    noises at these sensitivities, over levels, races and cells. (An entity whose weight reaches the highest level moves them all
    by that; one of small weight moves the high levels by a small part of it.) Subtracting the public penalties and taking the
    largest are post-processing. Leaving out levels that cannot win is too, as it does not change the result (`highest`).

    The penalties play no role in privacy: each noise stays below its penalty with a probability that the mechanism
    chooses, so that a noisy underestimate rarely exceeds the exact sum.

    Source: Dong, Fang, Yi, Tao and Machanavajjhala, SIGMOD 2022.
    """

    plan: OwnerSets
    levels: tuple[Level, ...]
    noises: tuple[Noise, ...]
    penalties: tuple[Word, ...]
    cells: CellCount = 1

    def assumptions(self) -> Assumptions:
        return assumptions(self.plan, self.levels, self.cells, self.noises, self.penalties)

    def cost(self, certificate: Certificate) -> Cost:
        if not are_bounded(self.plan, certificate):
            return FREE
        total = FREE
        for level, noise in zip(self.levels, self.noises, strict=True):
            moved = lipschitz_constant(level, self.plan.width)
            total += noise.cost(Sensitivity(l1=moved, l2=moved))
        return times(total, self.cells * (2 if self.plan.signed else 1))

    def release(self, context: Context, certificate: Certificate) -> ExtensionSums:
        """Release the sums; see `Race` for the value. The noise is drawn first, before anything is known about a level."""
        totals, levels = [], []
        for parts in read(self.plan, self.levels, self.cells, context):
            won = [highest(part, [drawn(noise, context.noise) - penalty for noise, penalty in zip(
                self.noises, self.penalties, strict=True)]) for part in parts]
            totals.append(sum(sign * value for sign, (value, _) in zip((1, -1), won, strict=False)))
            levels.append(tuple(place for _, place in won))
        return ExtensionSums(totals=tuple(totals), levels=tuple(levels))


def highest(extension: Sums, shifts: Sequence[int]) -> tuple[int, int | None]:
    """max(0, max over j of F_j + shifts[j]), and the first j that attains it; (0, None) if none is above 0.

    Proof that computing every F_j would give the same. In each round low[j] <= F_j <= high[j]; take the j whose high[j] +
    shifts[j] is the largest, the first of several. If that is 0 or less, so is every F_i + shifts[i]. If F_j is known, then every
    other i has F_i + shifts[i] <= high[i] + shifts[i] <= F_j + shifts[j], and where they are equal i is later: j wins. Otherwise
    j is refined, which can happen only finitely often. The shifts, which include noise, decide only which levels are computed:
    `refine` does not receive them, and F_j depends on nothing but the sets and the level (`extensions.lipschitz_extension`), in
    whatever order levels are computed. A level that is not computed has an F_j too, but one that cannot win.
    """
    places = range(len(shifts))
    while True:
        best = max(places, key=lambda j: (extension.high[j] + shifts[j], -j))
        if extension.high[best] + shifts[best] <= 0:
            return 0, None
        if extension.exact(best):
            return extension.low[best] + shifts[best], best
        extension.refine(best)
