"""The values of one column that entities vouch for, counted from as few pairs of a value and an entity as settle the number.

V(level) is the size of a largest matching of values with entities, in which a value has one entity, and an entity at most
`level` values (`extensions.lipschitz_extension`). Usually there are far fewer values than entities, and a few entities of each
value suffice for all of them. So V is enclosed, and more pairs are read only where the two ends differ:

(1) *From below.* Any pairs that occur, merged by any function of the entity, have a V that is no larger. Proof. Give a value the
entity of its pair in a best solution of these pairs, and of several entities that were merged any one that has it: an entity
gets no more values than all that it was merged with, at most `level`.
(2) *From above.* Let the values be parted in two. V is no larger than the number of the ones and V of all pairs of the others.
Proof. A solution has at most 1 for each of the ones, and what it has for the others is a solution of their pairs.

In both, V is a whole number and computed exactly (`LipschitzExtension`, of two names in a row). So where the ends meet they are
V, and F = UNIT V is the same number as from all pairs, whatever pairs were chosen: it is a function of the rows and the level
alone. The choice affects only time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.trusted.extensions.ask_solvers import Solvers
from dpsql.trusted.extensions.lipschitz_extension import LipschitzExtension
from dpsql.trusted.extensions.owned import NOBODY, Owned, coded, merged
from dpsql.trusted.plan.operators.owner_sets import UNIT, OwnerSets


class Extension(Protocol):
    """F at each of several levels, between bounds."""

    low: list[int]
    high: list[int]

    def value(self, j: int) -> int: ...


Ends: TypeAlias = tuple[Extension, Extension, int]
"""F from below; and from above, without the values of the last number, which is in units."""


class VouchedValues:
    """Bounds of F at each of several levels, as in `LipschitzExtension`: low[j] <= F(levels[j]) <= high[j]."""

    def __init__(self, levels: Sequence[int], ends: Iterator[Ends]) -> None:
        """The `ends` are closer and closer, and the last ones are equal."""
        self.levels, self._ends = tuple(levels), ends
        self._read: list[Ends] = [next(ends)]
        self._used = [0] * len(levels)
        least, most, free = self._read[0]
        self.low, self.high = list(least.low), [high + free for high in most.high]
        self._rise()

    def exact(self, j: int) -> bool:
        return self.low[j] == self.high[j]

    def value(self, j: int) -> int:
        """F(levels[j])."""
        while not self.exact(j):
            self.refine(j)
        return self.low[j]

    def refine(self, j: int) -> None:
        """Narrow the bounds of one level by the next ends."""
        if self._used[j] == len(self._read):
            self._read.append(next(self._ends))
        least, most, free = self._read[self._used[j]]
        self._used[j] += 1
        self.high[j] = min(self.high[j], most.value(j) + free)
        if not self.exact(j):
            self.low[j] = max(self.low[j], least.value(j))
        self._rise()

    def _rise(self) -> None:
        """V does not fall as levels rise: what is feasible remains so."""
        self.low = np.maximum.accumulate(self.low).tolist()
        self.high = np.minimum.accumulate(self.high[::-1])[::-1].tolist()


def vouched_values(columns: Sequence[NDArray[Any]], plan: OwnerSets, levels: tuple[int, ...], cells: int, solvers: Solvers,
                   whole: Callable[[], Sequence[tuple[Extension, ...]]]) -> list[tuple[VouchedValues]]:
    """For each cell, F at the levels, from the columns of `OwnerSets.sampled`; `whole` reads all pairs, and is called only where
    they are needed.

    A value of which all rows are of one entity is one of the others in (2): its pair is known. The others have a few of their
    entities in (1), merged by the hashes of their names.
    """
    pairs = cache(whole)

    def ends(at: int, single: NDArray[np.bool_], names: NDArray[Any], *hashes: NDArray[Any]) -> Iterator[Ends]:
        many = ~single
        yield (LipschitzExtension(vouching(hashes[0][single], [column[many] for column in hashes]), levels, 2, solvers),
               LipschitzExtension(vouching(names[single], []), levels, 2), UNIT * int(many.sum()))
        part, = pairs()[at]
        yield part, part, 0

    here = [columns] if plan.cell is None else [[column[columns[0] == at] for column in columns[1:]] for at in range(cells)]
    return [(VouchedValues(levels, ends(at, *part)),) for at, part in enumerate(here)]


def vouching(alone: NDArray[Any], pairs: Sequence[NDArray[Any]]) -> Owned:
    """The sets of values, by the names of entities: `alone` are those of values that nobody else has, and each column of `pairs`
    has one of the entities of every other value.

    The values of an entity alone need no names: together they are a set of the entity, whose weight is their number
    (`extensions.merging`, first step, as the load of each is 1).
    """
    many, width = len(pairs[0]) if pairs else 0, len(pairs)
    codes, entities = coded([np.concatenate((alone, *pairs))])
    rows = np.full((len(codes), 2), NOBODY, dtype=np.int32)
    rows[: len(alone), 0] = codes[: len(alone), 0]
    rows[len(alone) :, 0] = np.tile(np.arange(entities, entities + many, dtype=np.int32), width)
    rows[len(alone) :, 1] = codes[len(alone) :, 0]
    owners, weights = merged(rows, np.ones(len(rows), dtype=np.int64), entities + many)
    return Owned(np.where(owners[:, 1] == NOBODY, weights, 1), np.asfortranarray(owners), entities + many, many)
