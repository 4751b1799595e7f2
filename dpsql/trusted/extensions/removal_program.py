"""The linear program of R: the rows that matter for removing entities until none exceeds a level, and its solution."""

from __future__ import annotations

import numpy as np

from dpsql.frozen import Frozen
from dpsql.trusted.extensions.linear_program import Reals
from dpsql.trusted.extensions.owned import NOBODY, Codes, Integers, arranged, each_once


class Sets(Frozen, kw_only=False):
    """Sets of entities in cells. `owners[r]` are the entities of row r; `shares[r]` holds, for each of them, the number of its
    share in the cell of r; `whose[s]` is the entity of share s. The order is canonical, as in `Owned`.
    """

    weights: Integers
    cells: Codes
    owners: Codes
    shares: Codes
    whose: Codes

    @property
    def entities(self) -> int:
        return int(self.whose.max(initial=-1)) + 1


class RemovalProgram(Frozen, kw_only=False):
    """The part of the rows that matters for R at a level. `heavy[r]` holds the shares of row r that are above the level, with
    NOBODY for owners whose share is not; each row has at least one. `whose[s]` is the entity of such a share, one of
    `entities`.

    Entity e here is `people[e]` of the whole, share s is `numbers[s]`, and row r of the whole is row `places[r]` or left out,
    NOBODY.
    """

    weights: Integers
    owners: Codes
    heavy: Codes
    whose: Codes
    entities: int
    level: int
    people: Integers
    numbers: Integers
    places: Integers

    @property
    def widest(self) -> int:
        return int((self.owners != NOBODY).sum(axis=1).max(initial=0))


def removal_program(rows: Sets, totals: Integers, level: int) -> RemovalProgram:
    """The part of the problem in which entities may have to be removed; `totals` are the loads of all shares.

    Rows without a heavy share (a load above the level) impose no constraint and are left out. Entities without a heavy share are
    kept only if

        sum over the rows r of e of w_r * (number of heavy shares of r) > level.

    Proof that the others have y_e = 0 in some best solution. Let y_e > 0; let s run over the heavy shares, h be the entity of s
    and w(e, s) the weight of the rows of e in s. Without y_e the load of s rises by at most n_s = y_e w(e, s), to level + n_s.
    Raise y_h by (1 - y_h) n_s / (level + n_s) <= n_s / level, for each s: as z_r <= 1 - y_h for the rows of h, each z_r falls
    to at most z_r (1 - n_s / (level + n_s)), and the load of s to the level. The total cost is at most
    sum_s y_e w(e, s) / level <= y_e. Shares that are not heavy never become so by removals. Entities that are left out are
    removed from their rows; rows of a cell that then name the same owners have the same z and are merged.
    """
    above = np.append(totals > level, False)  # the last entry stands for NOBODY, here and below
    many = above[rows.shares].sum(axis=1)
    bound = many > 0
    weights, owners, cells, many = rows.weights[bound], rows.owners[bound], rows.cells[bound], many[bound]
    kept = np.append(_weighed(owners, weights, many, rows.entities) > level * (1 - 2.0**-20), False)
    kept[rows.whose[above[:-1]]] = True
    count = int(kept.sum())
    code = np.where(kept, np.cumsum(kept) - 1, NOBODY).astype(np.int32)
    keys = np.unique(_keys(cells, code[np.where(above[rows.shares[bound]], owners, np.int32(NOBODY))], count))
    keys = keys[keys >= 0]
    named = np.column_stack((cells, each_once(code[owners])))
    order, new = arranged(named, max(count, int(cells.max(initial=0))))
    starts, places = np.flatnonzero(new), np.full(len(rows.weights), NOBODY)
    places[np.flatnonzero(bound)[order]] = np.cumsum(new) - 1
    sets, weights = named[order[starts]], np.add.reduceat(weights[order], starts) if len(weights) else weights
    here = _keys(sets[:, 0], sets[:, 1:], count)
    place = np.searchsorted(keys, here)
    heavy = np.where(np.append(keys, -2)[place] == here, place, NOBODY).astype(np.int32)
    people = np.flatnonzero(kept[:-1])
    whose = keys % max(count, 1)
    numbers = np.full((len(keys)), NOBODY)
    found = _keys(rows.cells, np.where(above[rows.shares], code[rows.owners], np.int32(NOBODY)), count)
    for at in range(found.shape[1]):
        some = found[:, at] >= 0
        numbers[np.searchsorted(keys, found[some, at])] = rows.shares[some, at]
    return RemovalProgram(weights, sets[:, 1:], heavy, whose.astype(np.int32), count, level, people, numbers, places)


def _weighed(owners: Codes, weights: Integers, many: Integers, entities: int) -> Reals:
    """The sums of weights times `many`. An approximation is enough, as keeping more entities than necessary does no harm."""
    found = np.zeros(entities)
    for at in range(owners.shape[1]):
        some = owners[:, at] != NOBODY
        found += np.bincount(owners[some, at], weights=weights[some] * many[some].astype(np.float64), minlength=entities)
    return found


def _keys(cells: Codes, owners: Codes, count: int) -> Integers:
    """A distinct number for each owner in each cell, -1 for NOBODY."""
    return np.where(owners == NOBODY, -1, cells[:, None].astype(np.int64) * max(count, 1) + owners)


class RemovalSolution(Frozen, kw_only=False):
    """A solver's proposed optimum: y for each entity, and the prices of rows and, times the level, of heavy shares."""

    entities: Reals
    rows: Reals
    shares: Reals
