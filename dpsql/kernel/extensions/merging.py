"""Making the problem small: only entities above the level matter, and much of what they do is settled without a solver."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpsql.kernel.extensions.owned import NOBODY, Codes, Integers, Owned, each_once, loads, merged


@dataclass(frozen=True, slots=True)
class Reduced:
    """V(level) = `fixed` + the most weight of the rows here that keeps every entity's load within its capacity.

    Each row names at least two of the entities, and each entity's load is above its capacity. `spent` entities of the whole
    problem have no capacity left: where nothing else is open, that is how fast V grows with the level.
    """

    fixed: int
    spent: int
    weights: Integers
    owners: Codes
    loads: Integers
    capacities: Integers

    @property
    def solved(self) -> bool:
        return not len(self.weights)

    @property
    def widest(self) -> int:
        """The most entities of one row."""
        return int((self.owners != NOBODY).sum(axis=1).max(initial=0))


def reduced(rows: Owned, totals: Integers, level: int) -> Reduced:
    """The part of max { sum x_r : 0 <= x_r <= w_r, sum of x_r over rows r of e <= level for every e } that is not obvious.

    `totals` are the loads of all entities. Every step below keeps the maximum, for any capacities c_e in place of the level.

    (1) *Light entities.* Where the load of e is at most c_e its constraint follows from x <= w: strike e from all rows. Rows
    that then have the same owners are one variable (only the sum of their x counts, and any sum up to that of their weights can
    be had), and rows without an owner are taken whole.

    (2) *Rows of one entity come first.* Let row a name only e, with x_a < w_a, and let x_b > 0 for another row b of e. Moving
    min(w_a - x_a, x_b) from b to a keeps the sum and the load of e, and no load rises. So there is a best solution with
    x_a = w_a, or with only a served among the rows of e: x_a = min(w_a, c_e) is always right, and leaves e the capacity
    c_e - x_a for its other rows.

    (3) *Entities without capacity.* Where c_e = 0, every row of e has x = 0: the row goes, and its other owners' loads fall.

    Each step may make more entities light, so they are repeated until none is.
    """
    owners, weights, load = rows.owners, rows.weights, totals
    capacities = np.full(rows.entities, level, dtype=np.int64)
    fixed = spent = 0
    while True:
        heavy = load > capacities
        count = int(heavy.sum())
        owners, weights, whole = heavy_sets(owners, weights, heavy, count)
        fixed += whole
        capacities = capacities[heavy]
        sizes = (owners != NOBODY).sum(axis=1)
        alone = sizes == 1
        taken = np.zeros(count, dtype=np.int64)
        taken[owners[alone, 0]] = weights[alone]
        taken = np.minimum(taken, capacities)
        fixed += int(taken.sum())
        capacities = capacities - taken
        spent += int((capacities == 0).sum())
        open_ = np.append(capacities > 0, True)  # the last entry stands for NOBODY
        kept = sizes > 1
        for at in range(owners.shape[1]):
            kept &= open_[owners[:, at]]
        owners, weights = owners[kept], weights[kept]
        load = loads(owners, weights, count)
        if (load > capacities).all():
            return Reduced(fixed, spent, weights, owners, load, capacities)


def heavy_sets(owners: Codes, weights: Integers, heavy: np.ndarray[tuple[int], np.dtype[np.bool_]],
                count: int) -> tuple[Codes, Integers, int]:
    """Rows by their heavy owners, coded anew, and the weight of the rows that have none."""
    code = np.full(len(heavy) + 1, NOBODY, dtype=np.int32)  # the last entry stands for NOBODY
    code[:-1][heavy] = np.arange(count, dtype=np.int32)
    columns = [code[owners[:, at]] for at in range(owners.shape[1])]
    some = np.zeros(len(weights), dtype=bool)
    for column in columns:
        some |= column != NOBODY
    left = int(weights.sum()) - int(weights[some].sum())
    narrow = each_once(np.stack([column[some] for column in columns], axis=0).T)
    narrow, weights = merged(narrow, weights[some], count)
    return narrow, weights, left
