"""Sums over rows that name several entities each, at a level chosen by the number of entities to remove until none exceeds it."""

from __future__ import annotations

from fractions import Fraction

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import FREE, Cost, pure
from dpsql.trusted.extensions.removal_distance import RemovalDistances
from dpsql.trusted.field_types import Assumptions, Word
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
from dpsql.trusted.measurements.several.many_removals import ManyRemovals
from dpsql.trusted.measurements.several.many_sets import EITHER, Listed
from dpsql.trusted.measurements.several.sets import Columns, columns_of, in_cells, in_memory, read, released
from dpsql.trusted.noise.choice import WholeScore, choice_cost, compared, least, one_sided
from dpsql.trusted.noise.integer import Noise
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.operators.owner_sets import NEAR, UNIT, OwnerSets


class Removed(Frozen, OfOnePlan):
    """The extensions of the sums of all cells at one of several levels, drawn by how many entities must be removed until none
    exceeds it.

    With Q_i that number for `levels[i]` (`extensions.removal_distance`), in units of 1 / UNIT, the level released is the i
    with the least Q_i + log_priors[i] - G_i, the first of several, where the G_i are whole numbers >= 0 with P(G >= n) =
    exp(-n / scale): permute-and-flip in the form of a noisy maximum. With `flip` False it is drawn with probability
    proportional to exp(-(Q_i + log_priors[i]) / scale), an exponential mechanism. Then for each cell the extension at
    that level, as in `Balance`, is released with fresh noise `noises[i]`.

    Cost of the level. When an entity leaves, Q_i falls by at most UNIT + NEAR and rises by at most NEAR, so that the difference
    of two of them changes by at most D = UNIT + 2 NEAR, as `noise.choice` needs in either case. (It would be about twice as much
    if the Q could move in opposite directions.) For any number of cells, there is one Q for each level.

    Cost of the sums: `several.levels.cost_of_sums`.

    Source: the sequence of removal distances of Chen and Zhou, SIGMOD 2013; here a level is drawn; they search for an index.
    """

    plan: OwnerSets
    levels: tuple[Level, ...]
    log_priors: tuple[WholeScore, ...]
    scale: ScaleOfScores
    noises: tuple[Noise, ...]
    flip: bool = True
    cells: CellCount = 1

    def assumptions(self) -> Assumptions:
        return assumptions(self.plan, self.levels, self.cells, self.noises, self.log_priors)

    def cost(self, certificate: Certificate) -> Cost:
        if not are_bounded(self.plan, certificate):
            return FREE
        return choice_cost(UNIT + 2 * NEAR, self.scale, flip=self.flip) + cost_of_sums(self.plan, self.levels, self.noises,
                                                                                       self.cells)

    def release(self, context: Context, certificate: Certificate) -> ExtensionSums:
        columns, removals = levels_of(self, context)
        if self.flip:
            place = least(removals, [log_prior - one_sided(self.scale, context.noise) for log_prior in self.log_priors])
        else:
            place = compared(removals, self.log_priors, self.scale, context.noise)
        return sums_at(self, columns, place, context)


class RecursiveSums(Frozen, OfOnePlan):
    """The recursive mechanism: the extensions of the sums of all cells, roughly at the first level that needs no more removals
    than its index.

    With Q_i as in `Removed` and steps c_i = (UNIT + NEAR) i, let i* be the first i with Q_i <= c_i, or the last one. The
    release is i* + `shift` + discrete Laplace noise of this `scale`, clamped to the valid indices; then for each cell the
    extension at that level, as in `Balance`, with fresh noise.

    Cost of the level. Let D have one more entity than D'. *From D' to D:* with i the i* of D', Q_(i+1) <= UNIT R_(i+1) + NEAR
    <= UNIT (R'_i + 1) + NEAR <= Q'_i + UNIT + NEAR <= c_(i+1), as R falls with the level, and by one at most when an entity
    leaves. *From D to D':* with i the i* of D, Q'_(i+1) <= UNIT R_i + NEAR <= Q_i + NEAR <= c_(i+1). So i* moves by at most
    one, and epsilon = 1 / scale. (The second line, for D alone, says that Q_i <= c_i holds from i* on, so that i* can be
    found by bisection.) With geometrically spaced levels, the logarithm of the level moves by one step.

    Cost of the sums: `several.levels.cost_of_sums`.

    Source: Chen and Zhou, Recursive mechanism: towards node differential privacy and unrestricted joins, SIGMOD 2013, with
    integers in place of reals. Its two sequences are the H and G of `extensions.removal_distance`.
    """

    plan: OwnerSets
    levels: tuple[Level, ...]
    scale: ScaleOfScores
    shift: Word
    noises: tuple[Noise, ...]
    cells: CellCount = 1

    def assumptions(self) -> Assumptions:
        return assumptions(self.plan, self.levels, self.cells, self.noises)

    def cost(self, certificate: Certificate) -> Cost:
        if not are_bounded(self.plan, certificate):
            return FREE
        return pure(1 / Fraction(self.scale)) + cost_of_sums(self.plan, self.levels, self.noises, self.cells)

    def release(self, context: Context, certificate: Certificate) -> ExtensionSums:
        columns, removals = levels_of(self, context)
        noisy = context.noise.laplace([first(removals)], self.scale)[0] + self.shift
        return sums_at(self, columns, min(max(noisy, 0), len(self.levels) - 1), context)


def levels_of(request: Removed | RecursiveSums, context: Context) -> tuple[Columns | None, RemovalDistances]:
    """The sets of a request's plan (None if they do not fit into memory), and the removal distances."""
    plan, columns = request.plan, columns_of(request.plan, context)
    if columns is None:
        cells = range(request.cells) if plan.cell is not None else (None,)
        return None, ManyRemovals([Listed(plan, cell, context, EITHER) for cell in cells], request.levels)
    return columns, RemovalDistances(in_cells(columns, plan, request.cells), request.levels, context.solvers)


def sums_at(request: Removed | RecursiveSums, columns: Columns | None, place: int, context: Context) -> ExtensionSums:
    """The extensions at the level with this index, with its noise."""
    levels, plan = (request.levels[place],), request.plan
    cells = (read(plan, levels, request.cells, context) if columns is None
             else in_memory(columns, plan, levels, request.cells, context.solvers))
    return released(cells, 0, place, request.noises[place], context.noise)


def first(removals: RemovalDistances) -> int:
    """The first i with Q_i <= (UNIT + NEAR) i, or the last i; by bisection, as the inequality holds from there on."""
    low, high = 0, len(removals.levels) - 1
    while low < high:
        middle = (low + high) // 2
        if removals.at_most(middle, (UNIT + NEAR) * middle):
            high = middle
        else:
            low = middle + 1
    return low
