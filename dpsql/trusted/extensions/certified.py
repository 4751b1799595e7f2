"""Bounds of V from a solver's answer, computed in integers on the original rows."""

from __future__ import annotations

import numpy as np

from dpsql.frozen import Frozen
from dpsql.trusted.extensions.bounds import least_of
from dpsql.trusted.extensions.linear_program import Point, numbers
from dpsql.trusted.extensions.merging import ReducedRows
from dpsql.trusted.extensions.owned import Codes, Integers, Owned, loads
from dpsql.trusted.extensions.words import dot, total
from dpsql.trusted.plan.operators.owner_sets import UNIT

BITS = 40  # prices are multiples of 2^-BITS
WHOLE = 2**BITS
MARGIN = 2.0**-44  # more than the relative error of a quotient and two products of floats


class Certified(Frozen, kw_only=False):
    """floor(UNIT V) <= `units` = floor(UNIT D), and `least` <= UNIT V; and bounds of V at other levels.

    V(t) <= `slope` * t + `below` at levels t up to that of the certificate, and V(t) <= `slope` * t + `above` at levels beyond;
    all in units of 1 / 2^BITS.
    """

    units: int
    least: int
    slope: int
    below: int
    above: int

    def at_most(self, level: int, here: int) -> int:
        """An upper bound of UNIT V(level), rounded down, from the prices of the level `here`."""
        return UNIT * (self.slope * level + (self.below if level <= here else self.above)) >> BITS


def certified(rows: Owned, level: int, small: ReducedRows, point: Point) -> Certified:
    """Bounds of V derived from any point of the reduced program.

    Proof of `units`. With w'_r = min(w_r, level), V is also the maximum over 0 <= x_r <= w'_r: in a feasible point x_r is at most
    the load of each owner of r. For any prices y >= 0, D = sum c_e y_e + sum w'_r max(0, 1 - sum of y_e over the owners of r),
    where the room c_e is the level, and 1 for values, is at least V (weak duality: sum x_r <= sum x_r (sum y_e) + sum x_r max(0,
    1 - sum y_e) for feasible x). At other levels the prices of values add the same to D. The prices here are
    multiples of 2^-BITS, and D is computed in integers, on all rows. As prices are rounded up, covered rows stay covered: where
    the y_e of a row add up to 1 or more, so do the rounded ones. At levels t <= level, min(w_r, t) <= w'_r, and at any level
    min(w_r, t) <= w_r: hence `below` and `above`.

    Proof of `least`. `point_of` makes a point with 0 <= x_r <= w'_r, in multiples of 2^-bits, and checks in integers that no load
    exceeds the room. So P = sum x_r <= V. Where rows have at most two owners, V is a multiple of 1/2, so that P may be
    rounded up to one: take every entity twice, left and right, with the same room on either side, and for each row {v, w}
    the arcs v_left -> w_right and w_left -> v_right of capacity w'_r (for a row of v alone, w has unlimited room). A feasible x
    is a flow of 2 sum x_r, along both arcs of r; and a flow f gives the feasible x_r = half of its flow along both. So V is half
    the maximum flow, which is an integer as all capacities are.

    Neither proof depends on how the numbers were found. How well prices and points of the reduced program fit all rows (see
    `merging`) determines only how close the bounds are.
    """
    held, prices = rows.capped(level), np.append(prices_of(rows, small, point), 0)  # the last entry stands for NOBODY
    short = np.full(len(held.weights), WHOLE, dtype=np.int64)
    for at in range(rows.owners.shape[1]):
        short -= prices[rows.owners[:, at]]
    short = np.maximum(short, 0)
    fixed = total(prices[rows.entities - rows.singles : rows.entities])
    slope, below = total(prices) - fixed, dot(held.weights, short) + fixed
    above = below if held is rows else dot(rows.weights, short) + fixed
    bits = max(0, 61 - held.total.bit_length())
    reached = total(point_of(held, level, small, numbers(point.rows, len(small.weights)), bits))
    least = UNIT * reached >> bits
    if rows.owners.shape[1] <= 2:
        least = max(least, UNIT * -(-2 * reached >> bits) // 2)
    return Certified((UNIT * (level * slope + below)) >> BITS, least, slope, below, above)


def prices_of(rows: Owned, small: ReducedRows, point: Point) -> Integers:
    """The price of every entity in units of 1 / WHOLE, rounded up."""
    prices = np.zeros(rows.entities, dtype=np.int64)
    prices[small.people] = np.ceil(np.minimum(numbers(point.prices, len(small.people)), 1.0) * WHOLE).astype(np.int64)
    prices[small.spent] = WHOLE
    return prices


def point_of(held: Owned, level: int, small: ReducedRows, rows: np.ndarray[tuple[int], np.dtype[np.float64]],
             bits: int) -> Integers:
    """A feasible point, in units of 2^-bits, near the given point of the reduced program. Its sum is below 2^62."""
    sizes = np.concatenate((small.weights, small.settled)) << bits
    there = np.minimum(np.floor(np.minimum(rows, small.weights) * 2.0**bits).astype(np.int64), sizes[: len(rows)])
    taken = np.concatenate((there, small.taken << bits))
    weights = held.weights << bits
    found = np.where((taken >= sizes)[small.groups], weights, 0)
    parted = np.flatnonzero(((taken > 0) & (taken < sizes))[small.groups])
    if len(parted):  # the rows of a group are filled one after another
        parted = parted[np.argsort(small.groups[parted], kind="stable")]
        group, size = small.groups[parted], weights[parted]
        before, first = np.cumsum(size) - size, np.concatenate(([True], group[1:] != group[:-1]))
        before -= before[first][np.cumsum(first) - 1]
        found[parted] = np.minimum(np.maximum(taken[group] - before, 0), size)
    return fitted(held.owners, found, np.minimum(held.capacities(level), held.total) << bits)


def fitted(owners: Codes, sizes: Integers, capacities: Integers) -> Integers:
    """Sizes >= 0, at most the given ones, such that those of each entity's rows add up to at most its capacity.

    The sizes add up to less than 2^62, so that loads are exact. Where a load exceeds the capacity, its rows are scaled down in
    floats and rounded down; the rows of loads that still exceed it (none do if floats follow their standard) are set to zero.
    """
    entities = len(capacities)
    load = loads(owners, sizes, entities)
    if not (load > capacities).any():
        return sizes
    scale = np.where(load > capacities, capacities / np.maximum(load, 1) * (1 - MARGIN), 1.0)
    least = least_of(owners, scale)
    sizes = np.where(least < 1, np.minimum(sizes, np.floor(sizes * least).astype(np.int64)), sizes)
    over = loads(owners, sizes, entities) > capacities
    return np.where(least_of(owners, np.where(over, 0.0, 1.0)) > 0, sizes, 0) if over.any() else sizes
