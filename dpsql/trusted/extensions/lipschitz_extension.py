"""V(level), the Lipschitz extension of a sum: the largest total when no entity may have more than `level`; computed only as
far as needed.

For rows r with weights w_r >= 0 that name sets of entities,

    V(level) = max { sum x_r : 0 <= x_r <= w_r, for every entity e: sum of x_r over the rows that name e <= level }.

Rows may also name values, whose limit is 1 instead of the level. Then V is the size of a largest fractional matching of values to
entities in which every entity has at most `level` values.

Sensitivity. Let removing e delete exactly the rows that name it (so no row appears or changes: the query is deletion-monotone),
each row listing an owner once. Setting x_r = 0 on the rows of e in a best solution loses at most `level`, and the rest is
feasible without e: V falls by at most `level`. A solution without e stays feasible with it: V does not rise. So V moves by at
most `level`, in one direction, whatever the rows and the limits of values are. It needs w >= 0: with a weight below zero the
zero that replaces x_r is not feasible. Source: Lipschitz extensions of Kasiviswanathan, Nissim, Raskhodnikova and Smith, TCC
2013; for joins, Dong, Fang, Yi, Tao and Machanavajjhala, R2T, SIGMOD 2022; for values, Knop and Steinke, Counting Distinct
Elements Under Person-Level Differential Privacy, NeurIPS 2023.

What is released is a whole number F of units of 1 / UNIT with

    floor(UNIT V) <= F <= UNIT V + slack,                                                                                (*)

where slack is 0 for rows of one or two owners, else `level` (`plan.operators.owner_sets`). So F moves by at most
`lipschitz_constant` = UNIT level + slack. Proof. Let V' be V without e: V' <= V <= V' + level. As UNIT level is an integer,
floor(UNIT V) <= floor(UNIT V') + UNIT level; and F <= floor(UNIT V) + slack, as F and slack are integers. So F - F' <= UNIT level
+ slack, and F' - F <= floor(UNIT V') + slack - floor(UNIT V) <= slack. That holds for any two numbers that satisfy (*), each for
its own rows, however they were found: it does not matter which solver was accurate enough, or whether one is missing, crashed
or returned nonsense. F must only be independent of the noise that is added to it or influences its use, as adding F must be a
shift by a fixed number. `linear` sees only the rows and the level: no noise, no other level, no clock, nor how F will be
used. With the same solvers available F is a function of the sets and the level alone, as rows are in canonical order, solvers
run on one thread, without random choices, and the choice of solvers is by size.

Before F is computed it has bounds, `low` <= F <= `high`, from closed forms and from the dual prices of levels already
computed; a level is computed fully or not at all. If the bounds meet beforehand, F is that number; and if the closed
forms of a level are within the slack, F is the upper one, whatever comes later. Where a bound D of (*) exceeds an upper bound
that the level's own rows give in closed form, F is lowered to that: the smaller of the two is an upper bound too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsql.trusted.extensions import bounds
from dpsql.trusted.extensions.ask_solvers import NO_SOLVERS, Solvers
from dpsql.trusted.extensions.certified import Certified
from dpsql.trusted.extensions.level_bounds import LevelBounds
from dpsql.trusted.extensions.merging import ReducedRows, reduced
from dpsql.trusted.extensions.owned import Owned, loads
from dpsql.trusted.extensions.solver_ladder import linear
from dpsql.trusted.extensions.words import total
from dpsql.trusted.plan.operators.owner_sets import UNIT, slack


class LipschitzExtension(LevelBounds):
    """F at each of several levels, between bounds that `refine` narrows until they meet: low[j] <= F(levels[j]) <= high[j]."""

    def __init__(self, rows: Owned, levels: Sequence[int], owners: int, solvers: Solvers = NO_SOLVERS) -> None:
        """`owners` is the public number of owner columns, which decides the slack."""
        self._rows, self.levels, self._owners, self._solvers = rows, tuple(levels), owners, solvers
        self._totals = loads(rows.owners, rows.weights, rows.entities)
        self._reduced: dict[int, ReducedRows] = {}
        ranked, groups = bounds.by_heaviest(rows.owners, rows.weights, self._totals)
        sizes = bounds.by_size(rows.owners, rows.weights)
        self.low, self.high = list[int](), list[int]()
        least = self._least(min(self.levels)) if rows.singles else None
        heaviest, whole = int(self._totals.max(initial=0)), UNIT * rows.total
        for level in self.levels:
            if level >= heaviest and not rows.singles:  # no limit is reached: V is the sum of all weights
                self.low, self.high = [*self.low, whole], [*self.high, whole]
                continue
            room = rows.capacities(level)
            self.low.append(bounds.lower(groups, np.minimum(1.0, level / np.maximum(ranked, 1))) if least is None else least)
            self.high.append(min(bounds.upper(sizes, total(np.minimum(self._totals, room))), bounds.covered(groups, level)))
            if self.high[-1] - self.low[-1] <= slack(level, owners):
                self.low[-1] = self.high[-1]
        self._ceiling = list(self.high)

    def _least(self, level: int) -> int:
        """A lower bound of UNIT V at this level, and therefore at higher ones, as feasible points remain feasible there."""
        rows = self._rows
        return bounds.lower(rows.weights, bounds.least_of(rows.owners, bounds.shares(rows.capacities(level), self._totals)))

    def left(self, j: int) -> ReducedRows:
        """The reduced problem of a level that has been refined."""
        return self._reduced[j]

    def refine(self, j: int) -> None:
        """Refine one level: first reduce it and compute its closed forms, then compute F."""
        small = self._reduced.get(j)
        if small is None:
            self._reduced[j] = small = self._begun(j)
            if not small.solved:
                return
        found = linear(self._rows, self.levels[j], small, slack(self.levels[j], self._owners), self._solvers)
        self.low[j] = self.high[j] = max(found.least, min(found.units, self._ceiling[j]))
        self._share(j, found)

    def _begun(self, j: int) -> ReducedRows:
        """The reduced problem of a level. Weights above the level are lowered to it: V is the same, as x_r is at most the load
        of its owners."""
        level, rows = self.levels[j], self._rows.capped(self.levels[j])
        totals = self._totals if rows is self._rows else loads(rows.owners, rows.weights, rows.entities)
        small = reduced(rows, totals, level)
        room, whole = total(np.minimum(small.loads, small.capacities)), UNIT * small.fixed
        self._ceiling[j] = min(self._ceiling[j], whole + bounds.upper(bounds.by_size(small.owners, small.weights), room))
        kept = bounds.least_of(small.owners, bounds.shares(small.capacities, small.loads))
        self.low[j] = max(self.low[j], whole + bounds.lower(small.weights, kept))
        self.high[j] = max(self.low[j], min(self.high[j], self._ceiling[j]))
        return small

    def _share(self, j: int, found: Certified) -> None:
        """Use the prices of level j to bound every level."""
        for i, level in enumerate(self.levels):
            most = found.at_most(level, self.levels[j]) + slack(level, self._owners)
            self.high[i] = max(self.low[i], min(self.high[i], most))
