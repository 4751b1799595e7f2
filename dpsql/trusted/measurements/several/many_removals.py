"""The number of entities to remove if there are more sets of entities than fit into memory; see `many_sets` for the reason,
and `extensions.removal_distance` for R.

With y_p the removed fraction of entity p, R requires for every share s (an entity in a cell) that

    g_s(y) = sum over the sets r of s of w_r max(0, 1 - sum of y_p over the owners p of r) <= level.

g_s is a maximum of linear functions, one for each choice of the sets that are counted; at y the maximum is attained by the sets U
that y does not cover (sum of y_p < 1). So for every y' (a *cut*)

    g_s(y') >= A - sum over p of C_p y'_p,     A the weight of the sets of s in U, C_p that of those among them that name p.

*Lower bound.* For any v >= 0, one for each cut, every y' with 0 <= y' <= 1 that satisfies these conditions has

    sum y' >= sum y' + sum of v (A - sum C_p y'_p - level) >= sum of v (A - level) + sum over p of min(0, 1 - sum of v C_p).

*Upper bound.* From the g_s of any y a solution is made as in `extensions.removal_distance.enough`.

Both bounds are computed in integers from sums over the sets. The y and v come from a linear program over the cuts known so far,
to which the cuts of the shares most above the level are added. The search ends: where no cut is new, all shares are within the
level but for the rounding of floats, which ever better solutions, up to an exact one, remove; and there are finitely many cuts.

Entities whose sets weigh no more than level / width in all cells together need not be removed, and have no share above the level
(`extensions.removal_program.removal_program`: a set has at most `width` heavy shares). Only the others get numbers here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dpsql.frozen import Frozen
from dpsql.trusted.extensions.ask_solvers import stack_of
from dpsql.trusted.extensions.certified import WHOLE
from dpsql.trusted.extensions.cuts import rounded
from dpsql.trusted.extensions.linear_program import Reals, numbers
from dpsql.trusted.extensions.packing import Packing
from dpsql.trusted.extensions.removal_distance import RemovalDistances
from dpsql.trusted.measurements.several.many_sets import WEIGHT, Listed
from dpsql.trusted.plan.operators.owner_sets import NEAR, UNIT

MOST_NUMBERS = 2**20  # entries of the cuts that are added at once
PRICE = 2**100  # prices of cuts are integers divided by it
Share = tuple[int, int]
"""A cell and the number of an entity."""


class Cut(Frozen, kw_only=False):
    """A and C of one share, as weights."""

    share: Share
    whole: int
    parts: dict[int, int]

    def at(self, leaving: Sequence[int]) -> int:
        """A lower bound of g for the share, in units of 1 / WHOLE."""
        return int(WHOLE * self.whole - sum(part * leaving[entity] for entity, part in self.parts.items()))


class ManyRemovals(RemovalDistances):
    """Bounds of Q at each of several increasing levels, as in `RemovalDistances`: low[j] <= Q_j <= high[j]."""

    def __init__(self, cells: Sequence[Listed], levels: Sequence[int]) -> None:
        self._cells, self.levels = cells, tuple(levels)
        self._width = cells[0].plan.width
        self._weighed: dict[Any, int] = {}
        for cell in cells:
            for name, load in cell.loads.items():
                self._weighed[name] = self._weighed.get(name, 0) + load
        self.low = [0] * len(levels)
        self.high = [self._at_most(level) for level in self.levels]

    def _at_most(self, level: int) -> int:
        """The same bound as `RemovalDistances._enough`."""
        above = [load for cell in self._cells for load in cell.loads.values() if load > level]
        gone = sum(-(-WHOLE * (load - level) // load) for load in above)
        return int(-(-UNIT * gone // WHOLE) + NEAR) if above else 0

    def refine(self, j: int) -> None:
        """Compute Q of one level. At lower levels R is not smaller, so Q is smaller by at most NEAR."""
        found = Leavers(self._cells, sorted(name for name, load in self._weighed.items() if self._width * load > self.levels[j]),
                        self.levels[j]).fewest()
        self.low[j] = self.high[j] = min(found, self.high[j])
        for i in range(j):
            self.low[i] = min(self.high[i], max(self.low[i], found - NEAR))


class Leavers:
    """The search for Q of one level; see the module."""

    def __init__(self, cells: Sequence[Listed], people: Sequence[Any], level: int) -> None:
        self._cells, self._people, self._level, self._solvers = cells, people, level, cells[0].context.solvers
        self._cuts: list[Cut] = []

    def fewest(self) -> int:
        """Q: UNIT R <= Q <= UNIT R + NEAR."""
        most, least = self._learn([0] * len(self._people))[0], 0
        while True:
            for prices, leaving in self._proposed():
                least = max(least, self._below(prices))
                if PRICE * most - UNIT * least <= NEAR * PRICE:
                    return most
                enough, new = self._learn(leaving)
                most = min(most, enough)
                if PRICE * most - UNIT * least <= NEAR * PRICE:
                    return most
                if new:
                    break
            else:
                raise ArithmeticError("an exact solution does not satisfy its own constraints")

    def _learn(self, leaving: list[int]) -> tuple[int, bool]:
        """The size, in units, of a solution made from these removed parts (in 1 / WHOLE), and whether they led to a new cut."""
        limit, more, over = self._level * WHOLE, dict[int, int](), list[tuple[int, Share]]()
        for at, cell in enumerate(self._cells):
            for entity, there in self._loads(cell, leaving).items():
                if there > limit:
                    raised = -((leaving[entity] - WHOLE) * (there - limit) // there)
                    more[entity] = max(more.get(entity, 0), raised)
                    over.append((there, (at, entity)))
        units = -(-UNIT * (sum(leaving) + sum(more.values())) // WHOLE)
        known: dict[Share, int] = {}
        for cut in self._cuts:
            known[cut.share] = max(known.get(cut.share, 0), cut.at(leaving))
        over = [(there, share) for there, share in over if known.get(share, 0) < there]
        chosen = sorted(over, key=lambda one: (-one[0], one[1]))[: max(1, MOST_NUMBERS // max(1, len(self._people)))]
        for at, cell in enumerate(self._cells):
            asked = sorted(entity for _, (place, entity) in chosen if place == at)
            if asked:
                self._cuts.extend(self._cut(cell, at, asked, leaving))
        return units, bool(chosen)

    def _coded(self, cell: Listed, leaving: list[int]) -> str:
        return cell.coded({name: code for code, name in enumerate(self._people)},
                          {name: part for name, part in zip(self._people, leaving, strict=True) if part}, most=2**62)

    def _loads(self, cell: Listed, leaving: list[int]) -> dict[int, int]:
        """g of every entity in a cell, in units of 1 / WHOLE."""
        codes = [f't."#c{i}"' for i in cell.places]
        stays = f"CAST(({WHOLE} - t.\"#p\") AS HUGEINT)"
        found: dict[int, int] = {}
        sets = ", ".join(f"({code})" for code in codes)
        for *named, load in cell.rows(
                f"SELECT {', '.join(codes)}, SUM({WEIGHT} * {stays}) FROM ({self._coded(cell, leaving)}) AS t "
                f"WHERE {cell.named} AND (t.\"#p\" < {WHOLE}) GROUP BY GROUPING SETS ({sets})"):
            for code in named:
                if code is not None:
                    found[code] = found.get(code, 0) + int(load)
        return found

    def _cut(self, cell: Listed, at: int, asked: Sequence[int], leaving: list[int]) -> Iterator[Cut]:
        """The cuts of these entities' shares in a cell: sums for each pair of such an entity and any entity."""
        listed = ", ".join(map(str, asked))
        marked = ", ".join(f"(CASE WHEN t.\"#c{i}\" IN ({listed}) THEN t.\"#c{i}\" END) AS \"#m{i}\", t.\"#c{i}\""
                           for i in cell.places)
        some = " OR ".join(f"(t.\"#c{i}\" IN ({listed}))" for i in cell.places)
        groups = [f"(t.\"#m{i}\", t.\"#c{j}\")" for i in cell.places for j in cell.places]
        columns = ", ".join([f't."#m{i}"' for i in cell.places] + [f't."#c{i}"' for i in cell.places])
        parts: dict[int, dict[int, int]] = {entity: {} for entity in asked}
        for *named, weight in cell.rows(
                f"SELECT {columns}, CAST(SUM({WEIGHT}) AS HUGEINT) FROM (SELECT {marked}, {WEIGHT} "
                f"FROM ({self._coded(cell, leaving)}) AS t WHERE (t.\"#p\" < {WHOLE}) AND ({some})) AS t "
                f"GROUP BY GROUPING SETS ({', '.join(groups)})"):
            one = next((code for code in named[: len(cell.places)] if code is not None), None)
            other = next((code for code in named[len(cell.places):] if code is not None), None)
            if one is not None and other is not None:
                parts[one][other] = parts[one].get(other, 0) + int(weight)
        for entity in asked:
            yield Cut((at, entity), parts[entity].get(entity, 0), parts[entity])

    # -- the linear program of the cuts

    def _below(self, prices: Sequence[int]) -> int:
        """A lower bound of R in units of 1 / PRICE, from prices v of the cuts in the same unit."""
        gain, asked = 0, [0] * len(self._people)
        for price, cut in zip(prices, self._cuts, strict=True):
            if price:
                gain += price * (cut.whole - self._level)
                for entity, part in cut.parts.items():
                    asked[entity] += price * part
        return gain + sum(min(0, PRICE - there) for there in asked)

    def _proposed(self) -> Iterator[tuple[list[int], list[int]]]:
        """Better and better prices of cuts, in units of 1 / PRICE, and removed parts of entities, in units of 1 / WHOLE."""
        cuts, entities = len(self._cuts), len(self._people)
        packing = Packing(
            costs=[cut.whole - self._level for cut in self._cuts] + [-1] * entities, limits=[1] * entities, most=None,
            lines=np.array([entity for cut in self._cuts for entity in cut.parts] + list(range(entities)), dtype=np.int64),
            columns=np.array([at for at, cut in enumerate(self._cuts) for _ in cut.parts]
                             + list(range(cuts, cuts + entities)), dtype=np.int64),
            entries=[part for cut in self._cuts for part in cut.parts.values()] + [-1] * entities)
        for x, y in stack_of(packing, self._solvers):
            yield self._parted(x, y)

    def _parted(self, x: Reals, y: Reals) -> tuple[list[int], list[int]]:
        return ([int(price * PRICE) for price in numbers(x[: len(self._cuts)], len(self._cuts)).tolist()],
                rounded(numbers(y, len(self._people))).tolist())
