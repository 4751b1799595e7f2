"""Rows that name the entities they belong to, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen, replace

Integers = NDArray[np.int64]
Codes = NDArray[np.int32]

NOBODY = -1
MOST_ROWS = 2**25  # ensured where rows are read (`several.sets`, `several.many_sets`); the proofs here allow twice as many


class Owned(Frozen, kw_only=False):
    """Sets of entities and their weights: `owners[r]` are the codes of row r in decreasing order, then NOBODY; `weights[r]` > 0.

    An entity occurs at most once in a row, each set is one row, every row has an owner, and rows are sorted by owners: equal
    contents give equal arrays, in whatever order the rows were read. The last `singles` codes are not entities but values, whose
    capacity is 1.
    """

    weights: Integers
    owners: Codes
    entities: int
    singles: int = 0

    @property
    def total(self) -> int:
        return int(self.weights.sum())

    def capped(self, most: int) -> Owned:
        """The rows with weights limited to `most`."""
        return replace(self, weights=np.minimum(self.weights, most)) if self.weights.max(initial=0) > most else self

    def capacities(self, level: int) -> Integers:
        """The capacity of every code: the level for entities, 1 for values."""
        room = np.full(self.entities, level, dtype=np.int64)
        room[self.entities - self.singles :] = 1
        return room


def owned(names: Sequence[NDArray[Any]], weights: NDArray[Any]) -> Owned:
    """Rows of non-negative integer weights; `names` are columns of the owners' names, all of one kind of entity.

    Missing names (NULL, masked) become NOBODY; rows without names, and rows of weight zero, are dropped.
    """
    positive, negative = signed(names, weights)
    if len(negative.weights):
        raise ValueError("a weight is below zero")
    return positive


def signed(names: Sequence[NDArray[Any]], weights: NDArray[Any], *, once: bool = False) -> tuple[Owned, Owned]:
    """The sets of positive weight, and those of negative weight with the sign reversed; both have the same codes.

    With `once`, the last column contains names of values, which sort after those of all entities.
    """
    rows = np.asarray(weights, dtype=np.int64)
    owners, entities = coded(names)
    singles = len(np.unique(owners[:, -1])) if once else 0
    owners, rows = merged(each_once(owners), rows, entities)
    known = owners[:, 0] != NOBODY

    def part(kept: NDArray[np.bool_], size: Integers) -> Owned:
        return Owned(size[kept], np.asfortranarray(owners[kept]), entities, singles)

    return part(known & (rows > 0), rows), part(known & (rows < 0), -rows)


def coded(names: Sequence[NDArray[Any]]) -> tuple[Codes, int]:
    """Names as codes 0 .. m-1 in the order of the names, NOBODY for missing ones; and m."""
    flat = np.concatenate([np.ma.getdata(column) for column in names])
    named = ~np.concatenate([np.ma.getmaskarray(column) for column in names])
    codes = np.full(len(flat), NOBODY, dtype=np.int32)
    codes[named], entities = _places(flat if named.all() else flat[named])
    return np.asfortranarray(codes.reshape(len(names), -1).T), entities


def _places(values: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """The index of each value among the distinct ones, NOBODY for None and NaN; and how many distinct ones there are."""
    if len(values) and np.issubdtype(values.dtype, np.integer):
        low, high = int(values.min()), int(values.max())
        if high - low < 4 * len(values) + 1000:  # dense keys need no sorting
            present = np.zeros(high - low + 1, dtype=bool)
            present[values - low] = True
            place = np.cumsum(present, dtype=np.int32) - 1
            return place[values - low], int(place[-1]) + 1
    import pandas as pd

    codes, found = pd.factorize(values, sort=True)
    return codes, len(found)


def each_once(owners: Codes) -> Codes:
    """The codes of each row in decreasing order, each once, padded with NOBODY."""
    columns = falling([owners[:, at] for at in range(owners.shape[1])])
    again = [earlier == later for earlier, later in pairwise(columns)]
    if any(repeated.any() for repeated in again):
        columns = falling([columns[0], *(np.where(repeated, np.int32(NOBODY), column)
                                         for repeated, column in zip(again, columns[1:], strict=True))])
    return np.stack(columns, axis=0).T


def falling(columns: list[Codes]) -> list[Codes]:
    """The same rows, each in decreasing order: a sorting network over columns, faster than sorting row by row."""
    columns = list(columns)
    for last in range(len(columns) - 1, 0, -1):
        for at in range(last):
            a, b = columns[at], columns[at + 1]
            columns[at], columns[at + 1] = np.maximum(a, b), np.minimum(a, b)
    return columns


def merged(owners: Codes, weights: Integers, entities: int) -> tuple[Codes, Integers]:
    """Each set once, with its weights added up, in the order of the sets. Each row must be in decreasing order."""
    if not len(weights):
        return owners, weights
    order, new = arranged(owners, entities)
    starts = np.flatnonzero(new)
    return owners[order[starts]], np.add.reduceat(weights[order], starts)


def arranged(owners: Codes, entities: int) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """The sorting order of the sets, and for each place in it whether a new set begins."""
    columns = [owners[:, at] for at in range(owners.shape[1])]
    if (entities + 1) ** len(columns) < 2**63:
        key = np.zeros(len(owners), dtype=np.int64)
        for column in columns:
            key = key * (entities + 1) + (column + 1)
        order = np.argsort(key, kind="stable")
        key = key[order]
        new = np.concatenate((np.ones(min(1, len(key)), dtype=bool), key[1:] != key[:-1]))
    else:
        order = np.lexsort(columns[::-1])
        ordered = owners[order]
        new = np.concatenate((np.ones(min(1, len(ordered)), dtype=bool), (ordered[1:] != ordered[:-1]).any(axis=1)))
    return order, new


def loads(owners: Codes, weights: Integers, entities: int) -> Integers:
    """The weight of all rows that name each entity."""
    total = np.zeros(entities, dtype=np.int64)
    exact = int(weights.max(initial=0)) * len(weights) < 2**53  # sums of floats are exact up to there, and faster
    for at in range(owners.shape[1]):
        column = owners[:, at]
        some = column != NOBODY
        named, size = (column, weights) if some.all() else (column[some], weights[some])
        if exact:
            total += np.bincount(named, weights=size, minlength=entities).astype(np.int64)
        else:
            np.add.at(total, named, size)
    return total
