"""The factor of one column in one aggregate: which of its values count in which groups, stored as compactly as possible."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import Unsupported
from dpsql.frozen import Frozen
from dpsql.questions.question import OverGroups
from dpsql.trusted.plan.cells import sort_key
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.workload.factors import Array, Dense, Factor, Identity, Ranges, Total, intervals

LARGEST = 2**24  # entries of a dense matrix
FEW = 4  # usual number of values in no group: below all declared ones, above them, between them, and NULL
Numbers = NDArray[np.int64]


class Keyed(Frozen):
    """The keys that are computed from one column.

    values   those of each key
    of       the value of each key for each value of the column
    each     the indices of the keys whose values an aggregate distinguishes
    running  the index of the key that orders the frame of an aggregate, if it has one; other keys are summed over
    over     the groups that an aggregate sums over; None: each group by itself
    """

    values: tuple[tuple[Value, ...], ...]
    of: tuple[Sequence[Value], ...]
    each: tuple[int, ...]
    running: int | None
    over: OverGroups | None

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of groups that an aggregate distinguishes by each key; 1 for a key that it sums over."""
        told = {*self.each, *([self.running] if self.running is not None else [])}
        return tuple(len(own) if i in told else 1 for i, own in enumerate(self.values))


def factor(keyed: Keyed, kept: NDArray[np.bool_]) -> tuple[Factor, Numbers]:
    """The queries of a column, and for each group (in `keyed.shape`, the last key changing fastest) the number of its query: -1
    if no value is in the group, and -2 if its frame contains no group.

    `kept` says of each value of the column whether it counts. If all do, the values in no group have queries of their own, after
    those of the groups: a row in one of them is in no other, so they cost nothing, and with them the queries add up to all
    rows. Raises Unsupported if the matrix is too large.
    """
    if not keyed.values and keyed.over is None and len(kept) > 1 and kept.any():  # no key: a single query
        return _row(kept), np.zeros(1, dtype=np.int64)
    codes = _codes(keyed, kept)
    groups = int(np.prod(keyed.shape, dtype=np.int64))
    if keyed.running is None and groups > 1 and kept.all() and (codes < 0).any():
        made, own = _told_apart(*_with_others(codes, groups))
        return made, own[:groups]
    if keyed.running is None:
        return _told_apart(codes, groups)
    low, high = _frames(keyed)
    made, own = _in_frames(keyed, codes, low, high)
    at = np.unravel_index(np.arange(groups), keyed.shape)[keyed.running]
    return made, np.where((low > high)[at], -2, own)


def _codes(keyed: Keyed, kept: NDArray[np.bool_]) -> Numbers:
    """For each value of the column, the number of its group among all that are distinguished; -1 if it is in none."""
    codes = np.zeros(len(kept), dtype=np.int64)
    counted = kept.copy()
    for own, found, size in zip(keyed.values, keyed.of, keyed.shape, strict=True):
        place = {sort_key((value,)): i for i, value in enumerate(own)}
        at = np.array([place.get(sort_key((value,)), -1) for value in found], dtype=np.int64)
        counted &= at >= 0
        codes = codes * size + (at if size > 1 else 0)
    return np.where(counted, codes, -1)


def _with_others(codes: Numbers, groups: int) -> tuple[Numbers, int]:
    """The same with a new group for each value in none, or for each run of them if they are many; and the number of groups."""
    outside = codes < 0
    begins = outside & ~np.append(False, outside[:-1]) if outside.sum() > FEW else outside
    return np.where(outside, groups + np.cumsum(begins) - 1, codes), groups + int(begins.sum())


def _told_apart(codes: Numbers, groups: int) -> tuple[Factor, Numbers]:
    """A query for each group that has values: the sum over these values."""
    n, own = len(codes), np.arange(groups)
    if groups == n and (codes == own).all():
        return Identity(n), own
    if groups == 1 and (codes >= 0).any():
        return _row(codes >= 0), own
    shown, places = np.unique(codes[codes >= 0], return_inverse=True)
    at = np.full(groups, -1, dtype=np.int64)
    at[shown] = np.arange(len(shown))
    low, high = np.full(len(shown), n), np.full(len(shown), -1)
    columns = np.flatnonzero(codes >= 0)
    np.minimum.at(low, places, columns)
    np.maximum.at(high, places, columns)
    if (np.bincount(places, minlength=len(shown)) == high - low + 1).all():
        order = np.argsort(low)
        low, high, at[shown[order]] = low[order], high[order], np.arange(len(shown))
        return intervals(n, low, high), at
    matrix = _zeros(len(shown), n)
    matrix[places, columns] = 1
    return Dense(matrix), at


def _row(kept: NDArray[np.bool_]) -> Factor:
    """A single query: the sum over some values."""
    columns = np.flatnonzero(kept)
    if len(columns) == len(kept):
        return Total(len(kept))
    if columns[-1] - columns[0] + 1 == len(columns):
        return Ranges(len(kept), (int(columns[0]),), (int(columns[-1]),))
    return Dense(kept.astype(np.int64)[None, :])


def _zeros(rows: int, n: int) -> Numbers:
    if rows * n > LARGEST:
        raise Unsupported(f"the values of these keys make a matrix of {rows} x {n} numbers, more than {LARGEST}",
                          code="too-large", try_="fewer values, or keys whose groups are ranges of the column's values")
    return np.zeros((rows, n), dtype=np.int64)


# -- frames: sums over a range of the values of one key, in their order


def ordered(values: Sequence[Value], over: OverGroups) -> list[int]:
    """The indices of a key's values in the order of a window."""
    here = sorted((i for i, value in enumerate(values) if value is not None), key=lambda i: sort_key((values[i],)),
                  reverse=over.descending)
    missing = [i for i, value in enumerate(values) if value is None]
    return [*missing, *here] if over.nulls_first else [*here, *missing]


def _frames(keyed: Keyed) -> tuple[Numbers, Numbers]:
    """The first and the last position, in the window's order, of the frame of each value of the running key; first > last if it
    is empty."""
    over, values = keyed.over, keyed.values[keyed.running or 0]
    assert over is not None
    order = ordered(values, over)
    size, rank = len(order), np.argsort(order)
    if over.rows or not (over.start or over.end):
        low = np.zeros(size) if over.start is None else np.arange(size) + over.start
        high = np.full(size, size - 1.0) if over.end is None else np.arange(size) + over.end
    else:
        numbers = [values[i] for i in order]
        sign = -1.0 if over.descending else 1.0
        told = np.array([i for i, value in enumerate(numbers) if value is not None], dtype=np.int64)
        line = np.array([sign * float(numbers[i]) for i in told])
        low, high = np.arange(size, dtype=float), np.arange(size, dtype=float)  # the only peer of NULL is NULL
        first = int(told[0]) if len(told) else 0
        if over.start is not None:
            low[told] = first + np.searchsorted(line, line + over.start, side="left")
        if over.end is not None:
            high[told] = first + np.searchsorted(line, line + over.end, side="right") - 1
        if over.start is None:
            low[:] = 0
        if over.end is None:
            high[:] = size - 1
    ends = np.stack([np.maximum(low, 0), np.minimum(high, size - 1)])[:, rank].astype(np.int64)
    return ends[0], ends[1]


def in_frames(numbers: Array, axis: int, values: Sequence[Value], over: OverGroups) -> Array:
    """The sums of numbers over the frame of each value of the running key, whose values are along an axis."""
    low, high = _frames(Keyed(values=(tuple(values),), of=((),), each=(), running=0, over=over))
    order = ordered(values, over)
    first = np.insert(np.cumsum(np.take(numbers, order, axis=axis), axis=axis), 0, 0, axis=axis)
    last, most = np.maximum(high, low) + 1, len(order)
    upto, before = (np.take(first, np.minimum(at, most), axis=axis) for at in (last, low))
    return np.where(_along(low <= high, axis, numbers.ndim), upto - before, 0)


def _along(flags: NDArray[np.bool_], axis: int, dimensions: int) -> NDArray[np.bool_]:
    return flags.reshape([len(flags) if at == axis else 1 for at in range(dimensions)])


def _in_frames(keyed: Keyed, codes: Numbers, low: Numbers, high: Numbers) -> tuple[Factor, Numbers]:
    """A query for each group whose frame has values."""
    at, n = keyed.running or 0, len(codes)
    over = keyed.over
    assert over is not None
    rank = np.argsort(ordered(keyed.values[at], over))
    shape, groups = keyed.shape, int(np.prod(keyed.shape))
    parts = np.array(np.unravel_index(np.maximum(codes, 0), shape))
    places, counted = rank[parts[at]], codes >= 0
    told = np.flatnonzero(counted)
    if groups == shape[at] and len(told) and told[-1] - told[0] + 1 == len(told):
        for line, low_, high_ in ((places[told], low, high), (-places[told], -high, -low)):
            if (np.diff(line) >= 0).all():
                first, last = np.searchsorted(line, low_, side="left"), np.searchsorted(line, high_, side="right") - 1
                return _without_empty(n, first + told[0], last + told[0])
    rest = np.delete(parts, at, axis=0)
    rows: list[NDArray[np.bool_]] = []
    shown = np.full(groups, -1, dtype=np.int64)
    _zeros(groups, n)
    for group, where in enumerate(product(*map(range, shape))):
        others = np.array([place for i, place in enumerate(where) if i != at], dtype=np.int64)
        inside = counted & (places >= low[where[at]]) & (places <= high[where[at]]) & (rest == others[:, None]).all(axis=0)
        if inside.any():
            shown[group] = len(rows)
            rows.append(inside)
    return Dense(np.array(rows, dtype=np.int64).reshape(len(rows), n)), shown


def _without_empty(n: int, first: Numbers, last: Numbers) -> tuple[Factor, Numbers]:
    full = last >= first
    at = np.where(full, np.cumsum(full) - 1, -1)
    return intervals(n, first[full], last[full]), at
