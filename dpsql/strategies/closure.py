"""Marginals and all their subsets, counted by kind: attributes of equal size need not be distinguished.

A kind of marginal is a sorted list of groups of attributes; equal groups in it mean different attributes of one group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import scipy
from numpy.typing import NDArray

from dpsql.frozen import Frozen
from dpsql.workload.domain import room, too_large
from dpsql.workload.factors import Array

PAIRS = 20_000_000  # of a marginal and a subset


class Pattern(Frozen):
    """The subsets that consist of these `places` of each of the `marginals` (all of one length): the number of each."""

    places: tuple[int, ...]
    marginals: NDArray[np.int64]
    subsets: NDArray[np.int64]


class Closure(Frozen):
    """The kinds of subsets of some kinds of marginals, and which marginal has which."""

    marginals: Sequence[tuple[int, ...]]
    kinds: list[tuple[int, ...]]
    patterns: list[Pattern]

    def within(self) -> scipy.sparse.csr_array:
        """How often each kind (row) is a subset of each marginal (column)."""
        rows = np.concatenate([pattern.subsets for pattern in self.patterns])
        columns = np.concatenate([pattern.marginals for pattern in self.patterns])
        shape = len(self.kinds), len(self.marginals)
        return scipy.sparse.csr_array(scipy.sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=shape))


def closure(marginals: Sequence[tuple[int, ...]]) -> Closure:
    """All subsets of the marginals. Marginals with equally many attributes are processed together, one pattern of places after
    the other."""
    pairs = sum(2 ** len(kind) for kind in marginals)
    if pairs > PAIRS:
        raise too_large("planning for marginals by subsets", pairs, PAIRS)
    room("a list of subsets of marginals", pairs, max(map(len, marginals), default=0))
    by_length: dict[int, list[int]] = {}
    for at, kind in enumerate(marginals):
        by_length.setdefault(len(kind), []).append(at)
    found, rows = [], []
    for length, members in by_length.items():
        table = np.array([marginals[at] for at in members], dtype=np.int64).reshape(len(members), length)
        for size in range(length + 1):
            for places in combinations(range(length), size):
                padded = np.full((len(members), max(by_length)), -1, dtype=np.int64)
                padded[:, :size] = table[:, places]
                rows.append(padded)
                found.append((places, np.array(members, dtype=np.int64)))
    subsets, numbers = _numbered(np.concatenate(rows))
    ends = np.cumsum([len(members) for _, members in found])[:-1]
    patterns = [Pattern(places=places, marginals=members, subsets=part)
                for (places, members), part in zip(found, np.split(numbers, ends), strict=True)]
    return Closure(marginals=marginals, kinds=[tuple(g for g in row if g >= 0) for row in subsets.tolist()], patterns=patterns)


def _numbered(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The different rows, and the number of each row among them. Column by column, as that is faster than sorting rows."""
    numbers = np.zeros(len(rows), dtype=np.int64)
    first = np.zeros(1, dtype=np.int64)
    for column in rows.T:
        _, first, numbers = np.unique(numbers * (rows.max(initial=0) + 2) + column + 1, return_index=True, return_inverse=True)
    return rows[first], numbers


def ways(groups: Sequence[int], sizes: Sequence[int]) -> tuple[list[tuple[int, ...]], list[int]]:
    """All kinds of marginals with `sizes` attributes, for groups of `groups` attributes each, and the number of marginals of each
    kind."""
    kinds: list[tuple[int, ...]] = []
    for size in sorted(set(sizes)):
        kinds += _kinds(tuple(groups), size)
    return kinds, [how_many(kind, groups) for kind in kinds]


def _kinds(groups: tuple[int, ...], size: int, least: int = 0) -> list[tuple[int, ...]]:
    if size == 0:
        return [()]
    found = []
    for group in range(least, len(groups)):
        for used in range(1, min(size, groups[group]) + 1):
            found += [(group,) * used + rest for rest in _kinds(groups, size - used, group + 1)]
    return found


def how_many(kind: tuple[int, ...], groups: Sequence[int]) -> int:
    """The number of marginals of this kind."""
    return math.prod(math.comb(groups[group], kind.count(group)) for group in set(kind))


def products(kinds: Sequence[tuple[int, ...]], values: Array) -> Array:
    """For each kind, the product of the values of its groups."""
    longest = max((len(kind) for kind in kinds), default=0)
    padded = np.array([kind + (-1,) * (longest - len(kind)) for kind in kinds], dtype=np.int64).reshape(len(kinds), longest)
    return np.asarray(np.prod(np.append(values, 1.0)[padded], axis=1))
