"""R(level): how many entities have to leave until none has more than `level` in any cell; worked out only as far as needed.

For rows r with weights w_r >= 0, each in a cell, that name sets of entities, and entities that may leave in part,

    R(level) = min { sum y_e : 0 <= y <= 1, for every entity e and cell c: sum of w_r z_r over the rows of e in c <= level },
               z_r = max(0, 1 - sum of y_p over the owners p of r).

It is one of the two sequences of Chen and Zhou's recursive mechanism (SIGMOD 2013). The other one, X(D) = min over y of
sum w_r z_r + D * sum y_e, is by linear programming duality the V(D) of `value`.

Sensitivity. Let removing e delete exactly the rows that name it. *R does not rise*: a solution stays one for the other
entities, as their rows have the same z and some rows are gone. *R falls by at most one*: to a solution without e add y_e = 1;
the rows of e have z = 0 and the others are as they were. So R moves by at most 1, in one direction, at all levels together
and however many cells there are; and it does not rise with the level.

What is compared and released is a whole number Q with UNIT R <= Q <= UNIT R + NEAR, in units of 1 / UNIT of an entity. When
an entity leaves, Q rises by at most NEAR and falls by at most UNIT + NEAR: what `requests.removals` counts with. Q depends
on the sets and the level alone, as the values of `value` do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.extensions.bounds import least_of, margin
from dpsql.kernel.extensions.linear import BITS, Unsolved
from dpsql.kernel.extensions.owned import MOST_ROWS, NOBODY, Codes, Integers, Owned, coded, each_once, loads, merged
from dpsql.kernel.extensions.value import Extension
from dpsql.plan.operators.shares import NEAR, UNIT

Reals = NDArray[np.float64]

WHOLE = 2**BITS
MOST_SETS = 300_000  # a larger program is not begun: it takes minutes


@dataclass(frozen=True, slots=True)
class Sets:
    """Sets of entities in cells. `owners[r]` are the entities of row r, `shares[r]` the number of each one's share in the cell
    of r, `whose[s]` the entity of a share. In canonical order, as in `Owned`.
    """

    weights: Integers
    cells: Codes
    owners: Codes
    shares: Codes
    whose: Codes

    @property
    def entities(self) -> int:
        return int(self.whose.max(initial=-1)) + 1


def sets_of(names: Sequence[NDArray[Any]], weights: NDArray[Any], cells: NDArray[Any]) -> Sets:
    """Rows of integer weights, of which the sizes count; `names` are columns of the owners' names, `cells` small numbers."""
    if len(weights) > MOST_ROWS:
        raise MemoryError("there are too many sets of entities")
    owners, entities = coded(names)
    rows = np.column_stack((np.asarray(cells, dtype=np.int32), each_once(owners)))
    rows, sizes = merged(rows, np.asarray(weights, dtype=np.int64), max(entities, int(rows[:, 0].max(initial=0))))
    known = (rows[:, 1] != NOBODY) & (sizes != 0)
    cell, owners, sizes = rows[known, 0], rows[known, 1:], np.abs(sizes[known])
    key = np.where(owners == NOBODY, -1, cell[:, None].astype(np.int64) * max(entities, 1) + owners)
    found, place = np.unique(key, return_inverse=True)
    nobody = int(len(found) > 0 and found[0] < 0)
    shares = (place.reshape(owners.shape) - nobody).astype(np.int32)
    return Sets(sizes, cell, owners, shares, (found[nobody:] % max(entities, 1)).astype(np.int32))


@dataclass(frozen=True, slots=True)
class Crowd:
    """What of the rows matters for R at a level. `heavy[r]` are the shares of row r that are above it, NOBODY beside owners whose
    share is not; each row has one. `whose[s]` is the entity of such a share, of so many `entities`.
    """

    weights: Integers
    owners: Codes
    heavy: Codes
    whose: Codes
    entities: int
    level: int

    @property
    def widest(self) -> int:
        return int((self.owners != NOBODY).sum(axis=1).max(initial=0))


def crowded(rows: Sets, totals: Integers, level: int) -> Crowd:
    """The part of the problem in which somebody may have to leave; `totals` are the loads of all shares.

    Rows without a heavy share bind nobody and are left out. Of the entities without a heavy share only those are kept of which

        sum over the rows r of e of w_r * (number of heavy shares of r) > level.

    Proof that the others have y_e = 0 in some best solution. Let y_e > 0, and s run over the heavy shares, h being whose they are
    and w(e, s) the weight of the rows of e in s. Without y_e the load of s rises by at most n_s = y_e w(e, s), to level + n_s.
    Raise y_h by (1 - y_h) n_s / (level + n_s) <= n_s / level, for each s: as z_r <= 1 - y_h for the rows of h, each z_r falls
    to at most z_r (1 - n_s / (level + n_s)), and the load of s to the level. All of that costs at most
    sum_s y_e w(e, s) / level <= y_e. Shares that are not heavy stay so whoever leaves. Entities that are left out are struck
    from their rows; rows of a cell that then name the same owners have the same z and are one.
    """
    above = np.append(totals > level, False)  # the last entry stands for NOBODY, here and below
    many = above[rows.shares].sum(axis=1)
    bound = many > 0
    weights, owners, cells, many = rows.weights[bound], rows.owners[bound], rows.cells[bound], many[bound]
    kept = np.append(loads(owners, weights * many, rows.entities) > level, False)
    kept[rows.whose[above[:-1]]] = True
    count = int(kept.sum())
    code = np.where(kept, np.cumsum(kept) - 1, NOBODY).astype(np.int32)
    keys = np.unique(_keys(cells, code[np.where(above[rows.shares[bound]], owners, np.int32(NOBODY))], count))
    keys = keys[keys >= 0]
    sets, weights = merged(np.column_stack((cells, each_once(code[owners]))), weights, max(count, int(cells.max(initial=0))))
    here = _keys(sets[:, 0], sets[:, 1:], count)
    place = np.searchsorted(keys, here)
    heavy = np.where(np.append(keys, -2)[place] == here, place, NOBODY).astype(np.int32)
    return Crowd(weights, sets[:, 1:], heavy, (keys % max(count, 1)).astype(np.int32), count, level)


def _keys(cells: Codes, owners: Codes, count: int) -> Integers:
    """A number for each owner in each cell, -1 for NOBODY."""
    return np.where(owners == NOBODY, -1, cells[:, None].astype(np.int64) * max(count, 1) + owners)


@dataclass(frozen=True, slots=True)
class Leaving:
    """What a solver believes to be optimal: y for each entity, and the prices of rows and, times the level, of heavy shares."""

    entities: Reals
    rows: Reals
    shares: Reals


Door: TypeAlias = Callable[[Crowd, float], Leaving]
"""A solver: a crowd, and the relative error that is tolerated."""


@dataclass(frozen=True, slots=True)
class Fewest:
    """Q at a level, and a line that R is not below at any: `at_zero` - `slope` * level, in entities."""

    units: int
    at_zero: float
    slope: float


def fewest(crowd: Crowd, doors: Sequence[tuple[Door, float]]) -> Fewest:
    """Q of a crowd. Raises Unsolved where no door, with the error named beside it, comes near enough.

    Proof. `repaired` makes a solution of whatever a solver gives, so UNIT R <= Q; `line` makes a lower bound of its prices, with
    the roundings of floats taken off, so Q is accepted where it is within NEAR of that.
    """
    if crowd.widest <= 1:  # each entity has rows of its own: of the largest of its shares all but the level has to leave
        most = np.zeros(crowd.entities, dtype=np.int64)
        np.maximum.at(most, crowd.whose, loads(crowd.heavy, crowd.weights, len(crowd.whose)))
        units = -(-UNIT * repaired(crowd, np.zeros(crowd.entities, dtype=np.int64)) // WHOLE)
        return Fewest(units, float(crowd.entities), float((1 / most).sum()) * (1 + margin(crowd.entities)))
    if len(crowd.weights) > MOST_SETS:
        raise Unsolved
    for door, error in doors:
        try:
            found = door(crowd, error)
        except Unsolved:
            continue
        leaving = np.rint(np.clip(np.nan_to_num(found.entities), 0, 1) * WHOLE).astype(np.int64)
        units = -(-UNIT * repaired(crowd, leaving) // WHOLE)
        at_zero, slope = line(crowd, found)
        if units - UNIT * (at_zero - slope * crowd.level) <= NEAR:
            return Fewest(units, at_zero, slope)
    raise Unsolved


def repaired(crowd: Crowd, leaving: Integers) -> int:
    """The sum of a solution near the given one, in 1 / WHOLE, exactly.

    Proof. Let l be the load of a heavy share of e for the given y, and where l > level raise y_e by (1 - y_e)(l - level) / l, for
    the share that asks for most. As z_r <= 1 - y_e for the rows of e, the load falls to at most the level, as in `crowded`;
    raising others lowers it further. All numbers are multiples of 1 / WHOLE, and what is raised is rounded up; y_e stays below
    1, as 1 is a multiple too.
    """
    given = np.append(leaving, 0)  # the last entry stands for NOBODY
    stays = np.full(len(crowd.weights), WHOLE, dtype=np.int64)
    for at in range(crowd.owners.shape[1]):
        stays -= given[crowd.owners[:, at]]
    load = exact_loads(crowd, np.maximum(stays, 0))
    limit = crowd.level * WHOLE
    more: dict[int, int] = {}
    for share in np.flatnonzero(load > limit).tolist():
        entity, there = int(crowd.whose[share]), int(load[share])
        more[entity] = max(more.get(entity, 0), -((int(leaving[entity]) - WHOLE) * (there - limit) // there))
    return int(leaving.sum()) + sum(more.values())


def exact_loads(crowd: Crowd, stays: Integers) -> NDArray[np.object_]:
    """The sum of w_r z_r of each heavy share, in 1 / WHOLE, as integers of any size."""
    small = int(crowd.weights.max(initial=0)) * WHOLE * max(1, len(stays)) < 2**63
    load: NDArray[Any] = np.zeros(len(crowd.whose), dtype=np.int64 if small else object)
    size = crowd.weights * stays if small else crowd.weights.astype(object) * stays
    for at in range(crowd.heavy.shape[1]):
        some = crowd.heavy[:, at] != NOBODY
        np.add.at(load, crowd.heavy[some, at], size[some])
    return load.astype(object)


def line(crowd: Crowd, found: Leaving) -> tuple[float, float]:
    """A line that R is not below, at_zero - slope * level, from prices a of rows and v of heavy shares.

    Proof. Let 0 <= a_r <= w_r * (sum of v_s over the heavy shares s of r), and let the a_r of each entity's rows add up to at
    most 1. For any solution y, z at a level

        sum y_p >= sum over p of y_p * (sum of a_r over the rows of p) = sum over r of a_r * (sum of y_p over the owners of r)
                >= sum a_r (1 - z_r) >= sum a_r - sum over s of v_s * load_s >= sum a_r - level * sum v_s.

    At another level other shares may be heavy, but those of v are bound there too. Prices are cut down until they are so, and
    roundings are taken off.
    """
    price = np.clip(np.nan_to_num(found.shares), 0, None) / crowd.level
    priced, room = np.append(price, 0.0), np.zeros(len(crowd.weights))
    for at in range(crowd.heavy.shape[1]):
        room += priced[crowd.heavy[:, at]]
    rows = np.minimum(np.clip(np.nan_to_num(found.rows), 0, None), crowd.weights * room * (1 - margin(8)))
    served = np.zeros(crowd.entities)
    for at in range(crowd.owners.shape[1]):
        some = crowd.owners[:, at] != NOBODY
        served += np.bincount(crowd.owners[some, at], weights=rows[some], minlength=crowd.entities)
    rows = rows * least_of(crowd.owners, np.minimum(1.0, 1 / np.maximum(served, 1e-300)))
    lost = margin(len(rows) + len(price))
    return float(rows.sum()) * (1 - 4 * lost), float(price.sum()) * (1 + lost)


class Removals:
    """Q at each of several rising levels, between bounds that `refine` narrows until they meet: low[j] <= Q_j <= high[j]."""

    def __init__(self, rows: Sets, levels: Sequence[int], doors: Sequence[tuple[Door, float]] = ()) -> None:
        """`doors` replaces the choice of solvers."""
        self._rows, self.levels, self._doors = rows, tuple(levels), doors
        self._totals = loads(rows.shares, rows.weights, len(rows.whose))
        # R(s) >= (V(t) - V(s)) / t in each cell, t >= s: who leaves takes at most t from V(t), and what stays is within V(s).
        held = Extension(Owned(rows.weights, rows.shares, len(rows.whose)), self.levels, 1)
        cells = len(np.unique(rows.cells)) or 1
        self.low = [max(0, *((held.low[j] - held.high[i]) // (cells * level) for j, level in enumerate(self.levels) if j >= i))
                    for i in range(len(self.levels))]
        self.high = [self._enough(level) for level in self.levels]

    def _enough(self, level: int) -> int:
        """An upper bound of Q: 1 - level / load for every heavy share is a solution, as z_r <= level / load for its rows."""
        heavy = self._totals[self._totals > level]
        return math.ceil(UNIT * float((1 - level / heavy).sum()) * (1 + margin(len(heavy)))) + NEAR if len(heavy) else 0

    def exact(self, j: int) -> bool:
        return self.low[j] == self.high[j]

    def value(self, j: int) -> int:
        """Q(levels[j])."""
        if not self.exact(j):
            self.refine(j)
        return self.low[j]

    def refine(self, j: int) -> None:
        """Work Q of one level out, and raise the bounds of the others by its line."""
        found = fewest(crowded(self._rows, self._totals, self.levels[j]), self._doors or usual_doors())
        self.low[j] = self.high[j] = found.units
        for i, level in enumerate(self.levels):
            least = math.floor(UNIT * (found.at_zero - found.slope * level))
            self.low[i] = min(self.high[i], max(self.low[i], least))

    def refine_towards(self, j: int) -> None:
        """Work out the highest level that is open from j upwards: it is the easiest, and its line may settle the rest."""
        self.refine(next(i for i in reversed(range(j, len(self.levels))) if not self.exact(i)))

    def at_least(self, j: int) -> int:
        """A lower bound of Q(levels[j])."""
        return self.low[j]

    def at_most(self, j: int, limit: int) -> bool:
        """Whether Q(levels[j]) <= limit."""
        if self.low[j] <= limit < self.high[j]:
            self.refine(j)
        return self.high[j] <= limit


def usual_doors() -> tuple[tuple[Door, float], ...]:
    """The solvers to try, in order."""
    try:
        from dpsql.kernel.extensions import highs
    except ImportError:
        from dpsql.kernel.extensions import portable
        return ((portable.leaving, 0.0),)
    return (highs.leaving, 1e-4), (highs.leaving, 1e-6), (highs.leaving_by_simplex, 0.0)
