"""R(level): how many entities must be removed until none has more than `level` in any cell; computed only as far as needed.

For rows r with weights w_r >= 0, each in a cell, that name sets of entities, where entities may be removed in part,

    R(level) = min { sum y_e : 0 <= y <= 1, for every entity e and cell c: sum of w_r z_r over the rows of e in c <= level },
               z_r = max(0, 1 - sum of y_p over the owners p of r).

It is one of the two sequences of Chen and Zhou's recursive mechanism (SIGMOD 2013). The other one, X(D) = min over y of
sum w_r z_r + D * sum y_e, is by linear programming duality the V(D) of `lipschitz_extension`.

Sensitivity. Let removing e delete exactly the rows that name it. *R does not rise*: a solution remains one for the other
entities, as the remaining rows have the same z. *R falls by at most one*: extend a solution without e by y_e = 1; the rows of e
have z = 0 and the others the same z as before. So R moves by at most 1, in one direction, at all levels together
and however many cells there are; and it does not rise with the level.

Comparisons use an integer Q with UNIT R <= Q <= UNIT R + NEAR, in units of 1 / UNIT of an entity. When an
entity leaves, Q rises by at most NEAR and falls by at most UNIT + NEAR, as `several.removal_levels` assumes. That holds for any
two numbers within these bounds, each for its own rows; as in `lipschitz_extension`, Q is computed from the sets and the
level alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen
from dpsql.trusted.extensions.ask_solvers import NO_SOLVERS, Solvers, heard, offered, stack_of
from dpsql.trusted.extensions.certified import BITS, WHOLE, fitted
from dpsql.trusted.extensions.level_bounds import LevelBounds
from dpsql.trusted.extensions.linear_program import numbers
from dpsql.trusted.extensions.lipschitz_extension import LipschitzExtension
from dpsql.trusted.extensions.owned import NOBODY, Integers, Owned, coded, each_once, loads, merged
from dpsql.trusted.extensions.packing import Packing
from dpsql.trusted.extensions.removal_program import RemovalProgram, RemovalSolution, Sets, removal_program
from dpsql.trusted.extensions.words import gathered, scaled, total
from dpsql.trusted.plan.operators.owner_sets import NEAR, UNIT


def sets_of(names: Sequence[NDArray[Any]], weights: NDArray[Any], cells: NDArray[Any]) -> Sets:
    """Rows of integer weights, taken in absolute value; `names` are columns of the owners' names, `cells` small numbers."""
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


class RemovalBound(Frozen, kw_only=False):
    """Q at a level, and a line that bounds R from below at every level: `at_zero` - `slope` * level, in entities."""

    units: int
    at_zero: Fraction
    slope: Fraction

    def at_least(self, level: int) -> int:
        """A lower bound of UNIT R(level), rounded down."""
        return math.floor(UNIT * (self.at_zero - self.slope * level))


def removal_bound(rows: Sets, totals: Integers, level: int, solvers: Solvers = NO_SOLVERS) -> RemovalBound:
    """Q of a level. It always returns, for all rows and whatever solvers do.

    Proof. `enough` turns any answer of a solver into a solution, and `line` into a lower bound, both in integers and on all
    rows; Q is accepted where it is within NEAR of that bound. The last answer is always accepted: it is exact but for
    the rounding of its numbers to floats. With n < 2^29 entities and shares and m <= 2^26 rows, y is rounded up to 2^-40, so
    no load rises; prices of shares, rounded up, cost 2^-40 each; prices of rows, rounded down to 2^-35 at least, and scaled by
    MARGIN, lose m 2^-35 + n 2^-40. In units all of that is less than one; and rounding Q up is less than the other one.
    """
    crowd = removal_program(rows, totals, level)
    for found in answers(crowd, solvers):
        units = -(-UNIT * enough(rows, totals, crowd, found) // WHOLE)
        fewer = RemovalBound(units, *line(rows, crowd, found))
        if units - UNIT * (fewer.at_zero - fewer.slope * level) <= NEAR:
            return fewer
    raise ArithmeticError("an exact solution does not close the gap between its bounds")


def answers(crowd: RemovalProgram, solvers: Solvers = NO_SOLVERS) -> Iterator[RemovalSolution]:
    """The answers of solvers, from the fastest to the exact one. The order depends on the program alone, and no clock stops
    any."""
    rows = len(crowd.weights)
    if crowd.widest <= 1:
        yield alone(crowd)
    for door in offered(solvers.crowds, crowd):
        found = heard(lambda given: _leaving(crowd, given), door, crowd)
        if found is not None:
            yield found
    for x, y in stack_of(packed(crowd), solvers):
        yield RemovalSolution(entities=y[rows:], rows=x[:rows], shares=x[rows:])


def _leaving(crowd: RemovalProgram, given: RemovalSolution) -> RemovalSolution:
    return RemovalSolution(entities=numbers(given.entities, crowd.entities), rows=numbers(given.rows, len(crowd.weights)),
                           shares=numbers(given.shares, len(crowd.whose)))


def alone(crowd: RemovalProgram) -> RemovalSolution:
    """The solution if every row has one owner: for each entity, all but the level is removed from its largest share."""
    load = loads(crowd.heavy, crowd.weights, len(crowd.whose))
    last = np.zeros(crowd.entities, dtype=np.int64)
    order = np.argsort(load, kind="stable")
    last[crowd.whose[order]] = order  # the largest comes last
    largest = np.zeros(len(load))
    largest[last] = 1 / load[last]
    return RemovalSolution(entities=1 - crowd.level / load[last], rows=crowd.weights * largest[crowd.heavy[:, 0]],
                           shares=crowd.level * largest)


def packed(crowd: RemovalProgram) -> Packing:
    """The dual program; its variables are the prices a of rows and `level` times the prices v of shares; see `line`."""
    rows, entities, shares = len(crowd.weights), crowd.entities, len(crowd.whose)
    named, at = np.nonzero(crowd.owners != NOBODY)
    bound, place = np.nonzero(crowd.heavy != NOBODY)
    return Packing(costs=[1] * rows + [-1] * shares, limits=[0] * rows + [1] * entities, most=None,
                   lines=np.concatenate((np.arange(rows), bound, rows + crowd.owners[named, at])),
                   columns=np.concatenate((np.arange(rows), rows + crowd.heavy[bound, place], named)),
                   entries=[crowd.level] * rows + (-crowd.weights[bound]).tolist() + [1] * len(named))


def enough(rows: Sets, totals: Integers, crowd: RemovalProgram, found: RemovalSolution) -> int:
    """The exact sum of a solution near the given one, in units of 1 / WHOLE. Entities outside the program have y = 0.

    Proof. Let l be the load of a heavy share of e for the given y, and where l > level raise y_e by (1 - y_e)(l - level) / l, for
    the share that requires most. As z_r <= 1 - y_e for the rows of e, the load falls to at most the level, as in
    `removal_program`; raising others lowers it further. All numbers are multiples of 1 / WHOLE, and what is raised is rounded up;
    y_e stays at most 1, as 1 is a multiple too. Shares that are not heavy impose no constraint.
    """
    leaving = np.zeros(rows.entities + 1, dtype=np.int64)  # the last entry stands for NOBODY
    leaving[crowd.people] = np.ceil(np.minimum(numbers(found.entities, crowd.entities), 1.0) * WHOLE).astype(np.int64)
    above = np.flatnonzero(totals > crowd.level)
    code = np.full(len(totals) + 1, NOBODY, dtype=np.int32)
    code[above] = np.arange(len(above), dtype=np.int32)
    heavy = code[rows.shares]
    stays = np.full(len(rows.weights), WHOLE, dtype=np.int64)
    for at in range(rows.owners.shape[1]):
        stays -= leaving[rows.owners[:, at]]
    limit, whose = crowd.level * WHOLE, rows.whose[above].tolist()
    more: dict[int, int] = {}
    for entity, there in zip(whose, gathered(heavy, rows.weights, np.maximum(stays, 0), len(above)), strict=True):
        if there > limit:
            more[entity] = max(more.get(entity, 0), -((int(leaving[entity]) - WHOLE) * (there - limit) // there))
    return total(leaving) + sum(more.values())


def line(rows: Sets, crowd: RemovalProgram, found: RemovalSolution) -> tuple[Fraction, Fraction]:
    """A line that bounds R from below, at_zero - slope * level, from prices a of rows and v of shares.

    Proof. Let 0 <= a_r <= w_r * (sum of v_s over the shares s of r), and let the a_r of each entity's rows add up to at
    most 1. For any solution y, z at a level

        sum y_p >= sum over p of y_p * (sum of a_r over the rows of p) = sum over r of a_r * (sum of y_p over the owners of r)
                >= sum a_r (1 - z_r) >= sum a_r - sum over s of v_s * load_s >= sum a_r - level * sum v_s.

    The prices of shares are multiples of 2^-(BITS + bits), level < 2^bits, those of rows multiples of 2^-BITS or, where their sum
    requires it, of a somewhat larger power of two; both conditions are ensured in integers (`scaled`, `fitted`).
    """
    bits, size = crowd.level.bit_length(), np.maximum(crowd.weights, 1)
    prices = np.zeros(len(rows.whose) + 1, dtype=np.int64)  # the last entry stands for NOBODY
    asked = np.ceil(np.minimum(numbers(found.shares, len(crowd.whose)), 1.0) / crowd.level * 2.0 ** (BITS + bits))
    prices[crowd.numbers] = np.minimum(asked.astype(np.int64), 2 ** (BITS + bits) // crowd.level)
    priced = np.zeros(len(rows.weights), dtype=np.int64)
    for at in range(rows.shares.shape[1]):
        priced += prices[rows.shares[:, at]]
    each = np.append(np.minimum(numbers(found.rows, len(crowd.weights)), 1.0) * WHOLE / size, 0.0)  # for a weight of one
    given = np.floor(np.minimum(each[crowd.places] * rows.weights, WHOLE)).astype(np.int64)
    given = np.minimum(given, scaled(rows.weights, np.minimum(priced, 2**44), bits, WHOLE))
    shift = max(0, total(given).bit_length() - 61)
    served = fitted(rows.owners, given >> shift, np.full(rows.entities, WHOLE >> shift, dtype=np.int64))
    return Fraction(total(served) << shift, WHOLE), Fraction(total(prices), 2 ** (BITS + bits))


class RemovalDistances(LevelBounds):
    """Q at each of several increasing levels, between bounds that `refine` narrows until they meet: low[j] <= Q_j <= high[j]."""

    def __init__(self, rows: Sets, levels: Sequence[int], solvers: Solvers = NO_SOLVERS) -> None:
        self._rows, self.levels, self._solvers = rows, tuple(levels), solvers
        self._totals = loads(rows.shares, rows.weights, len(rows.whose))
        # R(s) >= (V(t) - V(s)) / t in each cell, t >= s: removed entities take at most t each from V(t); the rest is within V(s).
        held = LipschitzExtension(Owned(rows.weights, rows.shares, len(rows.whose)), self.levels, 1)
        cells = len(np.unique(rows.cells)) or 1
        self.low = [max(0, *((held.low[j] - held.high[i]) // (cells * level) for j, level in enumerate(self.levels) if j >= i))
                    for i in range(len(self.levels))]
        self.high = [self._enough(level) for level in self.levels]

    def _enough(self, level: int) -> int:
        """An upper bound of Q: 1 - level / load for every heavy share is a solution, as z_r <= level / load for its rows."""
        heavy = self._totals[self._totals > level]
        most = np.floor((1 - level / heavy) * WHOLE).astype(np.int64) + 2  # each quotient is off by less than 2^-50
        return -(-UNIT * total(most) // WHOLE) + NEAR if len(heavy) else 0

    def refine(self, j: int) -> None:
        """Compute Q of one level, and raise the bounds of the others by its line."""
        found = removal_bound(self._rows, self._totals, self.levels[j], self._solvers)
        self.low[j] = self.high[j] = found.units
        for i, level in enumerate(self.levels):
            self.low[i] = min(self.high[i], max(self.low[i], found.at_least(level)))

    def refine_towards(self, j: int) -> None:
        """Compute the highest open level from j upwards: it is the easiest one, and its line may settle the others."""
        self.refine(next(i for i in reversed(range(j, len(self.levels))) if not self.exact(i)))

    def at_least(self, j: int) -> int:
        """A lower bound of Q(levels[j])."""
        return self.low[j]

    def at_most(self, j: int, limit: int) -> bool:
        """Whether Q(levels[j]) <= limit."""
        if self.low[j] <= limit < self.high[j]:
            self.refine(j)
        return self.high[j] <= limit
