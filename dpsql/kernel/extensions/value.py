"""V(level): the sum of weights that is left when no entity may have more than `level`; worked out only as far as needed.

For rows r with weights w_r >= 0 that name sets of entities,

    V(level) = max { sum x_r : 0 <= x_r <= w_r, for every entity e: sum of x_r over the rows that name e <= level }.

Sensitivity. Let removing e delete exactly the rows that name it (so no row appears or changes: the query is deletion-monotone),
each row listing an owner once. Setting x_r = 0 on the rows of e in a best solution loses at most `level`, and what is left is
feasible without e: V falls by at most `level`. A solution without e stays feasible with it: V does not rise. So V moves by at
most `level`, in one direction, whatever the rows are. It needs w >= 0: with a weight below zero the zero that replaces x_r is
not feasible. Source: Lipschitz extensions of Kasiviswanathan, Nissim, Raskhodnikova and Smith, TCC 2013; for joins, Dong,
Fang, Yi, Tao and Machanavajjhala, R2T, SIGMOD 2022.

What is released is a whole number of units of 1 / UNIT, F = floor(UNIT * B): B = V where rows have one owner (closed form) or
two (flow), else V <= B <= V + slack / UNIT (`linear`). Then UNIT * B moves by at most UNIT * level + slack, the integer `pull`
of `plan.operators.shares`; so does its floor. F depends on the sets and the level alone: the way there (rows in canonical
order, one thread, a choice of solver by size) does not look at noise, at other levels or at how F will be used. Where F stands
above an upper bound of V that the level's own rows give, it is lowered to that: the smaller of the two is within the slack too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsql.kernel.extensions import bounds
from dpsql.kernel.extensions.flow import flow
from dpsql.kernel.extensions.linear import BITS, Certified, Door, Program, doors_for, linear
from dpsql.kernel.extensions.merging import Reduced, reduced
from dpsql.kernel.extensions.owned import Owned, loads
from dpsql.plan.operators.shares import EXACT_FLOW, UNIT, slack


class Extension:
    """F at each of several levels, between bounds that `refine` narrows until they meet: low[j] <= F(levels[j]) <= high[j]."""

    def __init__(self, rows: Owned, levels: Sequence[int], owners: int, doors: Sequence[Door] = ()) -> None:
        """`owners` is the public number of owner columns, which decides the slack; `doors` replaces the choice of solvers."""
        self._rows, self.levels, self._owners, self._doors = rows, tuple(levels), owners, doors
        self._totals = loads(rows.owners, rows.weights, rows.entities)
        self._reduced: dict[int, Reduced] = {}
        ranked, groups = bounds.by_heaviest(rows.owners, rows.weights, self._totals)
        sizes = bounds.by_size(rows.owners, rows.weights)
        self.low, self.high = [], []
        for level in self.levels:
            self.low.append(bounds.lower(groups, np.minimum(1.0, level / np.maximum(ranked, 1))))
            self.high.append(bounds.upper(sizes, int(np.minimum(ranked, level).sum())))
        self._ceiling = list(self.high)

    def left(self, j: int) -> Reduced:
        """What is left to solve of a level that was refined."""
        return self._reduced[j]

    def exact(self, j: int) -> bool:
        return self.low[j] == self.high[j]

    def value(self, j: int) -> int:
        """F(levels[j])."""
        while not self.exact(j):
            self.refine(j)
        return self.low[j]

    def refine(self, j: int, floor: int | None = None) -> None:
        """Know more about one level. With a `floor` it may stop as soon as F is known to be below it."""
        small = self._reduced.get(j)
        if small is None:
            self._reduced[j] = small = reduced(self._rows, self._totals, self.levels[j])
            if small.solved:
                self._settle(j, Certified(UNIT * small.fixed, small.spent << BITS))
                return
            whole = UNIT * small.fixed
            room = int(np.minimum(small.loads, small.capacities).sum())
            self._ceiling[j] = min(self._ceiling[j], whole + bounds.upper(bounds.by_size(small.owners, small.weights), room))
            kept = bounds.least_of(small.owners, bounds.shares(small.capacities, small.loads))
            self._narrow(j, whole + bounds.lower(small.weights, kept), self._ceiling[j])
            return
        allowed = slack(self.levels[j], self._owners)
        if small.widest <= 2 and int(small.capacities.max()) < EXACT_FLOW:
            self._narrow(j, *2 * [UNIT * small.fixed + flow(small.owners[:, :2], small.weights, small.capacities)])
            return
        program = Program(small.owners, small.weights, small.capacities)
        rest = None if floor is None else floor - UNIT * small.fixed
        found = linear(program, allowed, self._doors or doors_for(len(small.weights)), rest)
        self._settle(j, Certified(UNIT * small.fixed + found.units, (small.spent << BITS) + found.slope, found.reached))

    def _settle(self, j: int, found: Certified) -> None:
        """A bound of level j is one of every level: for fixed prices it is linear in the level, with their sum as slope."""
        if found.reached:
            value = min(found.units, self._ceiling[j])
            self.low[j] = self.high[j] = value
        for i, level in enumerate(self.levels):
            moved = found.units + 1 + -((self.levels[j] - level) * UNIT * found.slope >> BITS)
            self.high[i] = max(self.low[i], min(self.high[i], moved + slack(level, self._owners)))

    def _narrow(self, j: int, low: int, high: int) -> None:
        self.low[j] = max(self.low[j], low)
        self.high[j] = max(self.low[j], min(self.high[j], high))
