"""The values of one column that entities vouch for, counted from as few pairs of a value and an entity as settle the number.

V(level) is the size of a largest matching of values with entities, in which a value has one entity, and an entity at most
`level` values (`extensions.lipschitz_extension`). Usually there are far fewer values than entities, and a few entities of each
value suffice for all of them. So V is enclosed, and more pairs are read only where the two ends differ:

(1) *From below.* Any pairs that occur, merged by any function of the entity, have a V that is no larger. Proof. Give a value the
entity of its pair in a best solution of these pairs, and of several entities that were merged any one that has it: an entity
gets no more values than all that it was merged with, at most `level`.
(2) *From above.* Let the values be parted in two. V is no larger than the number of the ones and V of all pairs of the others.
Proof. A solution has at most 1 for each of the ones, and what it has for the others is a solution of their pairs.

Both bounds are whole numbers and computed exactly (`LipschitzExtension`, of two names in a row). Where they are equal, they are
V. So F = UNIT V is the number that all pairs would give. It depends only on the rows and the level; the choice of pairs affects
only the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.trusted.extensions.ask_solvers import Solvers
from dpsql.trusted.extensions.level_bounds import LevelBounds
from dpsql.trusted.extensions.lipschitz_extension import LipschitzExtension
from dpsql.trusted.extensions.owned import NOBODY, Integers, Owned, coded, merged
from dpsql.trusted.measurements.several.many_sets import Streamed
from dpsql.trusted.plan.operators.owner_sets import UNIT

SAMPLES = 8, 64  # rows of a value that are looked at before all of them


Extension: TypeAlias = LipschitzExtension | Streamed
Ends: TypeAlias = tuple[Extension, Extension, int]
"""F from below; and from above, without the ones in (2), whose number is the last, in units."""


class VouchedValues(LevelBounds):
    """Bounds of F at each of several levels, as in `LipschitzExtension`: low[j] <= F(levels[j]) <= high[j]."""

    def __init__(self, levels: Sequence[int], ends: Iterator[Ends]) -> None:
        """The last ones of the `ends` are equal."""
        self.levels, self._ends = tuple(levels), ends
        self._found, self._used = [next(ends)], [0] * len(self.levels)
        least, most, free = self._found[0]
        self.low, self.high = list(least.low), [high + free for high in most.high]
        self._narrow(least, most, free)

    def refine(self, j: int) -> None:
        """Narrow the bounds of a level by the next ends."""
        if self._used[j] == len(self._found):
            self._found.append(next(self._ends))
        least, most, free = self._found[self._used[j]]
        self._used[j] += 1
        if least.value(j) < self.high[j]:
            _ = most.value(j)
        self._narrow(least, most, free)
        if not self.exact(j):  # they differ at lower levels as well, or nearly always
            self._used[:j] = np.maximum(self._used[:j], self._used[j]).tolist()

    def _narrow(self, least: Extension, most: Extension, free: int) -> None:
        """Take the bounds of these ends. V does not fall as levels rise, as what is feasible remains so."""
        self.low = np.maximum.accumulate(np.maximum(self.low, least.low)).tolist()
        self.high = np.minimum.accumulate(np.minimum(self.high, np.add(most.high, free))[::-1])[::-1].tolist()


def vouched_values(sample: Sequence[NDArray[Any]], gathered: Callable[[], Sequence[NDArray[Any]] | None],
                   whole: Callable[[], Sequence[tuple[Extension, ...]]], levels: tuple[int, ...], cells: int,
                   solvers: Solvers) -> list[tuple[VouchedValues]]:
    """For each cell, F at the levels. `sample` has the columns of `OwnerSets.sampled`; `gathered` reads those of
    `OwnerSets.gathered`, unless they are too many, and `whole` all sets: only if they are needed, once for all cells.

    First, the ones in (2) are all values that several entities have, and the pairs in (1) those of the sample, where entities are
    merged by hashes of their names. Then, the ones are values of many rows, of which (1) has some, more and more.
    """
    gathered, whole = cache(gathered), cache(whole)

    def extension(values: Integers, entities: NDArray[Any], alone: NDArray[Any], many: int) -> LipschitzExtension:
        return LipschitzExtension(vouching(values, entities, alone, many), levels, 2, solvers)

    def ends(at: int) -> Iterator[Ends]:
        counts, single, names, *hashes = (column[sample[0] == at] for column in sample[1:])
        several, alone = ~single, names[single]
        many, each = int(several.sum()), len(hashes) if SAMPLES[0] * several.sum() <= counts[several].sum() else 0
        nearest = np.concatenate([hashes[0][:0], *(column[several] for column in hashes[:each])])
        yield (extension(np.tile(np.arange(many), each), nearest, hashes[0][single], many),
               extension(np.arange(0), names[:0], alone, 0), UNIT * many)
        if (found := gathered()) is not None:
            values, entities = _by_value(*(column[found[0] == at] for column in found[1:]))
            for places, free in _samples(values):
                least, sure = extension(values[places], entities[places], alone, many), places[~free[values[places]]]
                most = least if len(sure) == len(values) else extension(values[sure], entities[sure], alone, many)
                yield least, most, UNIT * int(free.sum())
        part, = whole()[at]
        yield part, part, 0

    return [(VouchedValues(levels, ends(at)),) for at in range(cells)]


def _by_value(values: Integers, entities: NDArray[Any]) -> tuple[Integers, NDArray[Any]]:
    """Rows in the order of their values, which become 0, 1, 2, ..."""
    if (values[1:] < values[:-1]).any():
        order = np.argsort(values, kind="stable")
        values, entities = values[order], entities[order]
    return np.cumsum(np.concatenate((np.zeros(min(1, len(values)), dtype=bool), values[1:] != values[:-1]))), entities


def _samples(values: Integers) -> Iterator[tuple[Integers, NDArray[np.bool_]]]:
    """The places of some rows of each value, and the values that have others; more and more, finally all."""
    sizes = np.bincount(values)
    starts, shift = np.cumsum(sizes) - sizes, np.arange(len(sizes)) * 0.618 % 1
    for most in SAMPLES:
        kept = np.minimum(sizes, most)
        if 2 * kept.sum() <= len(values):  # they are spread, as rows may be in the order of entities
            of = np.repeat(np.arange(len(sizes)), kept)
            place = np.arange(len(of)) - (np.cumsum(kept) - kept)[of] + shift[of]
            yield starts[of] + np.minimum((place * (sizes / kept)[of]).astype(np.int64), sizes[of] - 1), sizes > most
    yield np.arange(len(values)), np.zeros(len(sizes), dtype=bool)


def vouching(values: Integers, entities: NDArray[Any], alone: NDArray[Any], many: int) -> Owned:
    """The sets of pairs of values 0 .. `many` - 1 and entities, and of other values that are each of one entity in `alone`.

    These have no codes: those of an entity are a set of its own, whose weight is their number (`extensions.merging`, first step,
    as the load of each is 1).
    """
    codes, count = coded([np.concatenate((entities, alone))])
    rows = np.concatenate((codes, np.full((len(codes), 1), NOBODY, dtype=np.int32)), axis=1)
    rows[: len(values)] = np.stack((count + values, codes[: len(values), 0]), axis=1)
    owners, weights = merged(rows, np.ones(len(rows), dtype=np.int64), count + many)
    return Owned(np.where(owners[:, 1] == NOBODY, weights, 1), np.asfortranarray(owners), count + many, many)
