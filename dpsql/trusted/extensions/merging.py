"""Reducing the linear program: only entities above the level matter, and much of it is solved in closed form."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen
from dpsql.trusted.extensions.owned import NOBODY, Codes, Integers, Owned, arranged, each_once, loads

FEW = 64  # times as many heavy entities as light ones, and another pass over the rows is not worth its time


class ReducedRows(Frozen, kw_only=False):
    """V(level) = `fixed` + the maximum of the same program over the remaining rows, with each entity's remaining capacity.

    Each row names at least two of the entities. Each entity's load is above its capacity, or, where rows have two owners, that of
    nearly each.

    How a solution here maps to one of the whole problem: entity e here is `people[e]`; other entities have price 1 if they are
    among `spent`, else 0. `groups[r]` is the group of row r of the whole problem: the first groups are the rows here; the others
    have the weights `settled`, of which `taken` is in the best solution.
    """

    fixed: int
    weights: Integers
    owners: Codes
    loads: Integers
    capacities: Integers
    people: Integers
    spent: Integers
    groups: Codes
    settled: Integers
    taken: Integers

    @property
    def solved(self) -> bool:
        return not len(self.weights)


def reduced(rows: Owned, totals: Integers, level: int) -> ReducedRows:
    """The part of max { sum x_r : 0 <= x_r <= w_r, sum of x_r over rows r of e <= c_e for every e } that needs a solver.

    `totals` are the loads of all entities, and c_e is the level, or 1 for a value. Every step below keeps the maximum, for any
    capacities c_e.

    (1) *Light entities.* Where the load of e is at most c_e its constraint follows from x <= w: remove e from all rows. Rows
    that then have the same owners become one variable (only the sum of their x matters, and it can be anything up to the sum of
    their weights), and rows without an owner are taken whole.

    (2) *Rows of one entity come first.* Let row a name only e, with x_a < w_a, and let x_b > 0 for another row b of e. Moving
    min(w_a - x_a, x_b) from b to a keeps the sum and the load of e, and no load rises. So there is a best solution with
    x_a = w_a, or with x = 0 on all other rows of e: x_a = min(w_a, c_e) is always optimal, and leaves the capacity c_e - x_a for
    the other rows of e.

    (3) *Entities without capacity.* Where c_e = 0, every row of e has x = 0: it is dropped, and its other owners' loads fall.

    Each step may make more entities light, so they are repeated until none is. Where rows have two owners, whose maximum is
    computed exactly, they end when few are: what is left has the same maximum with these or without.

    A bound for the remaining problem gives one for the whole: with prices y for the remaining entities, 1 for those of (3) and 0
    for the light ones, D of the whole is `fixed` + D of the remaining problem, as each step shows. (`certified` does not need
    it.)
    """
    owners, weights, load = rows.owners, rows.weights, totals
    capacities = rows.capacities(level)
    people, spent = np.arange(rows.entities), [np.zeros(0, dtype=np.int64)]
    trail = _Trail(len(weights))
    fixed = 0
    while True:
        heavy = load > capacities
        count = int(heavy.sum())
        owners, weights, whole = heavy_sets(owners, weights, heavy, count, trail)
        fixed += whole
        capacities, people = capacities[heavy], people[heavy]
        sizes = (owners != NOBODY).sum(axis=1)
        alone = sizes == 1
        taken = np.zeros(count, dtype=np.int64)
        taken[owners[alone, 0]] = weights[alone]
        taken = np.minimum(taken, capacities)
        fixed += int(taken.sum())
        capacities = capacities - taken
        spent.append(people[capacities == 0])
        open_ = np.append(capacities > 0, True)  # the last entry stands for NOBODY
        kept = sizes > 1
        for at in range(owners.shape[1]):
            kept &= open_[owners[:, at]]
        trail.settle(kept, weights, np.where(alone, np.append(taken, 0)[owners[:, 0]], 0))
        owners, weights = owners[kept], weights[kept]
        load = loads(owners, weights, count)
        light = int((load <= capacities).sum())
        if not light or (owners.shape[1] == 2 and FEW * light < count):
            return ReducedRows(fixed, weights, owners, load, capacities, people, np.concatenate(spent), *trail.ends(len(weights)))


class _Trail:
    """The current position of each row of the whole problem: a remaining row, or a settled one (numbered -1, -2, ...)."""

    def __init__(self, rows: int) -> None:
        self._at = np.arange(rows, dtype=np.int32)
        self._weights: list[Integers] = []
        self._taken: list[Integers] = []
        self._count = 0

    def merge(self, place: Codes) -> None:
        """Record that row r has become row place[r]."""
        left = self._at >= 0
        if left.all():
            self._at = place[self._at]
        else:
            self._at[left] = place[self._at[left]]

    def settle(self, kept: NDArray[np.bool_], weights: Integers, taken: Integers) -> None:
        """Keep only these rows; the others are settled, with `taken` of their weights in the solution."""
        if kept.all():
            return
        gone = ~kept
        place = np.where(kept, np.cumsum(kept, dtype=np.int32) - 1, -self._count - np.cumsum(gone, dtype=np.int32))
        self._weights.append(weights[gone])
        self._taken.append(taken[gone])
        self._count += len(self._taken[-1])
        self.merge(place)

    def ends(self, left: int) -> tuple[Codes, Integers, Integers]:
        none = np.zeros(0, dtype=np.int64)
        groups = np.where(self._at >= 0, self._at, left - 1 - self._at)
        return groups, np.concatenate((none, *self._weights)), np.concatenate((none, *self._taken))


def heavy_sets(owners: Codes, weights: Integers, heavy: NDArray[np.bool_], count: int,
               trail: _Trail) -> tuple[Codes, Integers, int]:
    """Rows merged by their heavy owners, with new codes, and the weight of the rows without heavy owners."""
    code = np.full(len(heavy) + 1, NOBODY, dtype=np.int32)  # the last entry stands for NOBODY
    code[:-1][heavy] = np.arange(count, dtype=np.int32)
    columns = [code[owners[:, at]] for at in range(owners.shape[1])]
    some = np.zeros(len(weights), dtype=bool)
    for column in columns:
        some |= column != NOBODY
    left = int(weights.sum()) - int(weights[some].sum())
    trail.settle(some, weights, weights)
    narrow, weights = each_once(np.stack([column[some] for column in columns], axis=0).T), weights[some]
    if not len(weights):
        return narrow, weights, left
    order, new = arranged(narrow, count)
    place, starts = np.empty(len(order), dtype=np.int32), np.flatnonzero(new)
    place[order] = np.cumsum(new, dtype=np.int32) - 1
    trail.merge(place)
    return narrow[order[starts]], np.add.reduceat(weights[order], starts), left
