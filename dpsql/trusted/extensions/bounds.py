"""Closed-form upper and lower bounds of V."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsql.trusted.extensions.linear_program import Reals
from dpsql.trusted.extensions.owned import NOBODY, Codes, Integers
from dpsql.trusted.plan.operators.owner_sets import UNIT


def upper(by_size: Sequence[int], room: int) -> int:
    """An upper bound of max sum x_r, in units, rounded down: `by_size[s]` is the weight of the rows of s owners, `room` the sum
    of min(load, capacity) over entities.

    Proof. A row of s owners adds s x_r to their loads together, and all loads together are at most `room`. So V is at most
    max { sum x_r : 0 <= x_r <= w_r, sum of s_r x_r <= room }, which takes the rows of few owners first.
    """
    best = 0
    for size, there in enumerate(by_size):
        if size * there > room:
            return UNIT * best + UNIT * room // size
        best, room = best + there, room - size * there
    return UNIT * best


def covered(groups: Integers, level: int) -> int:
    """An upper bound of V(level), in units; `groups` are the weights of rows by heaviest owner, in increasing order of loads.

    Proof. For any h, the rows of the h heaviest entities contribute at most level * h; the rows without any of these are those
    whose heaviest owner is another.
    """
    most = min(len(groups), 2**62 // level)
    others = int(groups.sum()) - np.concatenate(([0], np.cumsum(groups[::-1][:most])))
    return UNIT * int((others + level * np.arange(most + 1)).min())


def lower(weights: Integers, shares: Reals) -> int:
    """A lower bound of max sum x_r, in units, if x_r = w_r times its share is feasible.

    Rows that are kept whole are added up as integers; the floating-point sum of the others is reduced by more than its
    rounding error.
    """
    whole = shares >= 1
    part = float((weights[~whole] * shares[~whole]).sum())
    return UNIT * int(weights[whole].sum()) + int(UNIT * part * (1 - margin(len(weights))))


def shares(capacities: Integers, loads: Integers) -> Reals:
    """For each entity min(1, capacity / load). Each row scaled by the least share of its owners is feasible: the load of e
    becomes at most load_e * min(1, capacity_e / load_e) <= capacity_e.
    """
    return np.minimum(1.0, capacities / np.maximum(loads, 1))


def least_of(owners: Codes, numbers: Reals) -> Reals:
    """For each row the least of its owners' numbers, or 1 if that is less."""
    with_nobody, least = np.append(numbers, 1.0), np.ones(len(owners))
    for at in range(owners.shape[1]):
        np.minimum(least, with_nobody[owners[:, at]], out=least)
    return least


def by_size(owners: Codes, weights: Integers) -> list[int]:
    """The weight of the rows of 0, 1, 2, ... owners."""
    sizes = (owners != NOBODY).sum(axis=1)
    return [int(weights[sizes == size].sum()) for size in range(owners.shape[1] + 1)]


def by_heaviest(owners: Codes, weights: Integers, loads: Integers) -> tuple[Integers, Integers]:
    """Rows grouped by their heaviest owner: the loads in increasing order, and the weight of each group."""
    ranked = np.argsort(loads, kind="stable")
    rank = np.zeros(len(loads) + 1, dtype=np.int32)
    rank[ranked] = np.arange(1, len(loads) + 1, dtype=np.int32)  # the last entry stands for NOBODY
    top = rank[owners[:, 0]]
    for at in range(1, owners.shape[1]):
        np.maximum(top, rank[owners[:, at]], out=top)
    groups = np.zeros(len(loads), dtype=np.int64)
    np.add.at(groups, top - 1, weights)
    return loads[ranked], groups


def margin(terms: int) -> float:
    """A bound on the relative rounding error of a sum of `terms` products of positive floats."""
    return (terms + 16) * 2.0**-51
