"""A cutting-plane search over rows in memory, for programs in which a few entities are in most of the rows.

Not trusted: its points and prices are checked as any others are, by `dpsql.trusted.extensions.certified`.
"""

from __future__ import annotations

import numpy as np

from dpsql.solvers.simplex import solved
from dpsql.trusted.extensions.ask_solvers import Solvers
from dpsql.trusted.extensions.certified import WHOLE
from dpsql.trusted.extensions.cuts import CuttingPlanes, short
from dpsql.trusted.extensions.linear_program import LinearProgram, Point, Reals
from dpsql.trusted.extensions.owned import Integers, Owned, arranged, loads
from dpsql.trusted.extensions.words import total
from dpsql.trusted.plan.operators.owner_sets import UNIT

ROUNDS = 4
ALONE = Solvers(packings=lambda packing: [solved(packing)])


class Rows:
    """The rows of a program, as a source."""

    def __init__(self, program: LinearProgram) -> None:
        self._rows = Owned(program.weights, program.owners, len(program.capacities))

    def cut(self, prices: Integers) -> tuple[int, list[int]]:
        open_ = short(self._rows, prices) > 0
        weights = self._rows.weights[open_]
        return total(weights), loads(self._rows.owners[open_], weights, self._rows.entities).tolist()

    def near(self, prices: Integers, many: int) -> Owned:
        far = np.abs(short(self._rows, prices))
        return self._some(np.argpartition(far, many)[:many] if many < len(far) else np.arange(len(far)))

    def sample(self, many: int) -> Owned:
        return self._some(np.arange(0, len(self._rows.weights), max(1, len(self._rows.weights) // many)))

    def _some(self, at: Integers) -> Owned:
        at = np.sort(at)
        return Owned(self._rows.weights[at], np.asfortranarray(self._rows.owners[at]), self._rows.entities)


def by_cuts(program: LinearProgram, gap: float) -> Point:
    """A solver: the point and the prices found by a few rounds of cuts over rows in memory. This suffices if a few entities
    are in most of the rows; otherwise other solvers are faster.
    """
    rows = Owned(program.weights, program.owners, len(program.capacities))
    search = CuttingPlanes(Rows(program), program.capacities.tolist(), halves=False, solvers=ALONE)
    search.narrowed(max(1, int(gap * UNIT) - 1), ROUNDS)
    taken, shares = search.point
    part = np.zeros(len(rows.weights))
    for share, prices in zip(shares.tolist(), search.prices, strict=False):
        if share:
            part += share * (short(rows, prices) > 0)
    found: Reals = np.minimum(part, 1.0) * rows.weights
    found[places(rows, search.listed)[: len(taken)]] = taken
    return Point(rows=found, prices=search.best / WHOLE)


def places(rows: Owned, some: Owned) -> Integers:
    """The indices of some of the rows among all of them."""
    order, first = arranged(np.concatenate((rows.owners, some.owners)), rows.entities)
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.cumsum(first) - 1
    return order[first][group[len(rows.weights):]]
