"""Bounds of V for programs with too many rows for a solver, from sums over the rows, which are read repeatedly.

    V = max { sum x_r : 0 <= x_r <= w_r, for every entity e: sum of x_r over the rows that name e <= c_e }.

Some sets of entities are *listed*; the others enter through *cuts*. The cut of prices y consists of the weight of the rows that
y does not cover (those whose owners' prices add up to less than 1), and their load on each entity. Cuts give both bounds.

*Upper bound.* D(y) = sum y_e c_e + sum over uncovered r of w_r (1 - sum of y_e over the owners of r)
     = sum y_e (c_e - load_e) + weight, at least V for any y >= 0 (weak duality).

*Lower bound.* For any l_k >= 0 that add up to at most 1, let x_r be some share of w_r for listed sets, and w_r times the sum of
l_k over the cuts k that contain r for other rows. Then 0 <= x_r <= w_r. Where the load of e exceeds c_e, lower x on rows of e
until it does not: this loses no more than the excess, and raises no load. So

    P = sum x_r - sum over e of max(0, load_e(x) - c_e) <= V,

and P is computed from the cuts and the listed sets, in integers. (Cuts contain only rows that are not listed: sets listed later
are subtracted. Part of the weight of a set may be listed and the rest not, as if they were two sets: V is the same.)

The search. A linear program over the listed sets and the cuts proposes shares and prices; the cut of these prices is added, and
sets that they just cover or just fail to cover are listed. It terminates: when no cut or set is new, the program's estimate of D
at its prices is exact, so that the bounds agree up to the rounding of floats, which more accurate solutions, finally an exact
one, remove; and there are finitely many sets and cuts. Memory holds MOST_LISTED sets and a number for each entity and cut,
however many rows there are.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from dpsql.trusted.extensions.ask_solvers import NO_SOLVERS, Solvers, each_heard, stack_of
from dpsql.trusted.extensions.certified import WHOLE
from dpsql.trusted.extensions.linear_program import Reals, numbers
from dpsql.trusted.extensions.owned import NOBODY, Integers, Owned, arranged, loads
from dpsql.trusted.extensions.packing import Packing
from dpsql.trusted.extensions.words import total
from dpsql.trusted.plan.operators.owner_sets import UNIT

MOST_LISTED = 2**19
FEWEST, MOST = 2**12, 2**15  # fewest and most sets listed at a time
SHARE = 60  # shares of cuts are multiples of 2^-SHARE


class RowSource(Protocol):
    """Rows that need not fit into memory. Prices are in units of 1 / WHOLE, one for each entity."""

    def cut(self, prices: Integers) -> tuple[int, list[int]]:
        """The weight of the rows that the prices do not cover, and their load on each entity."""
        ...

    def near(self, prices: Integers, many: int) -> Owned:
        """About `many` sets near the border: those that the prices just cover, or just fail to cover."""
        ...

    def sample(self, many: int) -> Owned:
        """About `many` arbitrary sets."""
        ...


class CuttingPlanes:
    """Converging bounds of V; see the module.

    `least` is a lower bound in units of 2^-SHARE, `most` an upper one in units of 1 / WHOLE; where V is known to be a multiple of
    1/2 (`halves`), `below` and `units` are rounded to multiples of 1/2. `point` gives the lower bound (the weights x of listed
    sets, and the shares of cuts), `best` are the prices of the upper one.
    """

    def __init__(self, source: RowSource, capacities: list[int], *, halves: bool, solvers: Solvers = NO_SOLVERS) -> None:
        self._source, self._capacities, self._halves, self._solvers = source, capacities, halves, solvers
        self.listed = Owned(np.zeros(0, dtype=np.int64), np.zeros((0, 1), dtype=np.int32), len(capacities))
        self.prices: list[Integers] = []
        self._weights: list[int] = []
        self._loads: list[list[int]] = []
        self.least, self.most = 0, -1
        self.best = np.zeros(len(capacities), dtype=np.int64)
        self.point = (np.zeros(0), np.zeros(0))

    @property
    def gap(self) -> int:
        """The gap between the bounds: UNIT D - UNIT P, each rounded down."""
        return self.units - self.below

    @property
    def units(self) -> int:
        """floor(UNIT D)."""
        return int(UNIT // 2 * (2 * self.most // WHOLE) if self._halves else UNIT * self.most // WHOLE)

    @property
    def below(self) -> int:
        """floor(UNIT P)."""
        return UNIT // 2 * -(-2 * self.least >> SHARE) if self._halves else UNIT * self.least >> SHARE

    def narrowed(self, allowed: int, rounds: float = math.inf) -> None:
        """Add cuts until the bounds are within `allowed` units, at most `rounds` times."""
        step = min(MOST, max(FEWEST, 32 * len(self._capacities)))
        self._look(np.zeros(len(self._capacities), dtype=np.int64))
        self._reach(np.zeros(0), np.ones(1))
        if self.gap > allowed:
            self._learn(self._rough(step), step)
        while self.gap > allowed and (rounds := rounds - 1) > 0:
            for rows, shares, prices in self._proposed():
                self._reach(rows, shares)
                if self.gap <= allowed or self._learn(prices, step) or self.gap <= allowed:
                    break
            else:
                raise ArithmeticError("an exact solution does not close the gap between its bounds")

    def _learn(self, prices: Integers, step: int) -> bool:
        """Add the cut of these prices, and list the sets near it. False if neither adds anything new."""
        taken_for = self._modelled(prices)
        new = self._look(prices) > taken_for
        room = MOST_LISTED - len(self.listed.weights)
        return (self._list(self._source.near(prices, min(room, step) + len(self.listed.weights)), room) if room else False) or new

    def _look(self, prices: Integers) -> int:
        """D for these prices in units of 1 / WHOLE; keeps their cut."""
        weight, load = self._source.cut(prices)
        bound: int = WHOLE * weight + sum(price * (capacity - there) for price, capacity, there in zip(
            prices.tolist(), self._capacities, load, strict=True) if price)
        if self.most < 0 or bound < self.most:
            self.most, self.best = bound, prices
        self.prices.append(prices)
        self._weights.append(weight)
        self._loads.append(load)
        self._listed_off(self.listed, len(self.prices) - 1)
        return bound

    def _listed_off(self, sets: Owned, at: int) -> None:
        """Subtract listed sets from a cut."""
        there = short(sets, self.prices[at]) > 0
        weights = sets.weights[there]
        self._weights[at] -= total(weights)
        off = loads(sets.owners[there], weights, sets.entities).tolist()
        self._loads[at] = [load - less for load, less in zip(self._loads[at], off, strict=True)]

    def _list(self, found: Owned, room: int) -> bool:
        """List up to `room` of the sets that are new. False if none is new."""
        before, width = len(self.listed.weights), found.owners.shape[1]
        owners = np.concatenate((self.listed.owners if before else np.zeros((0, width), dtype=np.int32), found.owners))
        order, first = arranged(owners, self.listed.entities)
        fresh = order[first]
        fresh = fresh[fresh >= before][:room] - before
        sets = Owned(found.weights[fresh], np.asfortranarray(found.owners[fresh]), self.listed.entities)
        for at in range(len(self.prices)):
            self._listed_off(sets, at)
        self.listed = Owned(np.concatenate((self.listed.weights, sets.weights)),
                            np.asfortranarray(np.concatenate((owners[:before], sets.owners))), self.listed.entities)
        return len(fresh) > 0

    def _modelled(self, prices: Integers) -> int:
        """An estimate of D at these prices, in units of 1 / WHOLE, from the listed sets and the strongest cut."""
        whole = prices.tolist()
        rest = max(WHOLE * weight - sum(price * load for price, load in zip(whole, there, strict=True) if price)
                   for weight, there in zip(self._weights, self._loads, strict=True))
        open_ = np.maximum(short(self.listed, prices), 0)
        cost = sum(price * capacity for price, capacity in zip(whole, self._capacities, strict=True))
        return int(cost + max(0, rest) + sum(map(operator.mul, self.listed.weights.tolist(), open_.tolist())))

    def _reach(self, rows: Reals, shares: Reals) -> None:
        """Raise the lower bound to P for these shares of the listed sets' weights and of the cuts."""
        bits = max(0, min(SHARE, 61 - self.listed.total.bit_length()))
        asked = self.listed.weights * np.minimum(numbers(rows, len(self.listed.weights)), 1.0)
        taken = np.minimum(np.floor(asked * 2.0**bits).astype(np.int64), self.listed.weights << bits)
        of_cuts = [int(min(1.0, share) * 2**SHARE) for share in numbers(shares, len(self._weights)).tolist()]
        if sum(of_cuts) > 2**SHARE:
            of_cuts = [(share << SHARE) // sum(of_cuts) for share in of_cuts]
        used = [at for at, share in enumerate(of_cuts) if share]
        load = [there << SHARE - bits for there in loads(self.listed.owners, taken, self.listed.entities).tolist()]
        for at in used:
            load = [so_far + of_cuts[at] * there for so_far, there in zip(load, self._loads[at], strict=True)]
        reached = (total(taken) << SHARE - bits) + sum(of_cuts[at] * self._weights[at] for at in used)
        reached -= sum(max(0, there - (capacity << SHARE)) for there, capacity in zip(load, self._capacities, strict=True))
        if reached > self.least:
            self.least, self.point = reached, (taken / 2.0**bits, np.array(of_cuts) / 2.0**SHARE)

    # -- the linear program of listed sets and cuts

    def _proposed(self) -> Iterator[tuple[Reals, Reals, Integers]]:
        """Better and better shares of listed sets and of cuts, and prices."""
        for x, y in stack_of(self._packing(), self._solvers):
            yield self._parted(x, y, len(self.listed.weights), len(self._capacities))

    def _parted(self, x: Reals, y: Reals, count: int, entities: int) -> tuple[Reals, Reals, Integers]:
        cuts = len(self._weights)
        return (numbers(x[:count], count) / np.maximum(self.listed.weights, 1), numbers(x[count: count + cuts], cuts),
                rounded(numbers(y[:entities], entities)))

    def _packing(self) -> Packing:
        """The maximum of P over all shares. Excess over a capacity is subtracted with weight 1, so that no price exceeds 1: only
        for such prices does a cut give D.
        """
        count, cuts, entities = len(self.listed.weights), len(self._weights), len(self._capacities)
        sets, at = np.nonzero(self.listed.owners != NOBODY)
        cut, whose = np.nonzero(np.array(self._loads, dtype=object) > 0)
        of_listed = loads(self.listed.owners, self.listed.weights, entities).tolist()
        above = [1 + so_far + max(there) for so_far, there in zip(of_listed, zip(*self._loads, strict=True), strict=True)]
        return Packing(
            costs=[1] * count + self._weights + [-1] * entities, limits=[*self._capacities, 1],
            most=[*self.listed.weights.tolist(), *[1] * cuts, *above],
            lines=np.concatenate((self.listed.owners[sets, at].astype(np.int64), whose, np.full(cuts, entities),
                                  np.arange(entities))),
            columns=np.concatenate((sets, count + cut, count + np.arange(cuts), count + cuts + np.arange(entities))),
            entries=[1] * len(sets) + [self._loads[i][j] for i, j in zip(cut.tolist(), whose.tolist(), strict=True)]
            + [1] * cuts + [-1] * entities)

    def _rough(self, many: int) -> Integers:
        """Optimal prices of a sample of sets, with capacities scaled down in proportion."""
        sample, (weight, *_) = self._source.sample(many), self._weights
        part = sample.total / max(1, weight)
        if not len(sample.weights):
            return np.zeros(len(self._capacities), dtype=np.int64)
        rows, at = np.nonzero(sample.owners != NOBODY)
        asked = Packing(costs=[1] * len(sample.weights), limits=[max(1, int(part * one)) for one in self._capacities],
                        most=sample.weights.tolist(), lines=sample.owners[rows, at].astype(np.int64), columns=rows,
                        entries=[1] * len(rows))
        answers = each_heard(lambda answer: numbers(answer[1], len(self._capacities)), self._solvers.packings, asked)
        return rounded(next(answers, np.zeros(len(self._capacities))))  # only a starting point


def short(sets: Owned, prices: Integers) -> Integers:
    """WHOLE minus the sum of the prices of each set's owners; negative where they exceed it."""
    with_nobody, found = np.append(prices, 0), np.full(len(sets.weights), WHOLE, dtype=np.int64)
    for at in range(sets.owners.shape[1]):
        found -= with_nobody[sets.owners[:, at]]
    return found


def rounded(prices: Reals) -> Integers:
    """Prices in units of 1 / WHOLE, rounded up, so that covered rows stay covered."""
    found: Integers = np.ceil(np.minimum(prices, 1.0) * WHOLE).astype(np.int64)
    return found
