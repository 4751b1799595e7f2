"""Three and more entities in a row: a linear program, solved approximately and certified by integers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.extensions.bounds import least_of, margin
from dpsql.kernel.extensions.owned import NOBODY, Codes, Integers
from dpsql.plan.operators.shares import UNIT

Reals = NDArray[np.float64]

BITS = 20  # prices are integers over 2^20
MOST_SECONDS = 60.0  # for each attempt
SIMPLEX_ROWS = 5_000  # more variables than this are given to a first-order method


class Unsolved(Exception):
    """No solver found a value that can be certified. It says nothing, and the kernel turns it into its one incident.

    What is covered: within the time limit the value is a function of the sets and the level alone, as the rows are in canonical
    order, solvers run on one thread and without random choices, and nothing of the noise enters. What is not: *whether* a
    solver ends in time depends on the rows (and on the machine), and the incident shows it, as running times show something
    anyway. The limit is so far beyond common times that it guards the service, not the answer; so does the limit of rows.
    """


@dataclass(frozen=True, slots=True)
class Program:
    """max { sum x_r : 0 <= x_r <= w_r, for every entity e: sum of x_r over rows that name e <= c_e }."""

    owners: Codes
    weights: Integers
    capacities: Integers


@dataclass(frozen=True, slots=True)
class Point:
    """What a solver believes to be optimal: x for each row, and y for each entity, the price of its capacity."""

    rows: Reals
    prices: Reals


Door: TypeAlias = Callable[[Program, float, float | None], Point]
"""A solver: a program, the error of the maximum that is tolerated, and a floor: it may stop once the maximum is below that."""


@dataclass(frozen=True, slots=True)
class Certified:
    """An upper bound of the maximum in units, rounded down, and the sum of the prices in 1 / 2^BITS: its slope in the level.

    `reached` is False where solving stopped early as the bound is below what was asked for.
    """

    units: int
    slope: int
    reached: bool = True


def linear(program: Program, allowed: int, doors: Sequence[Door], floor: int | None = None) -> Certified:
    """A bound B with V <= B <= V + allowed / UNIT; or, if that is below `floor` (in units) anyway, any upper bound below it.

    Proof. For any prices y >= 0, D = sum c_e y_e + sum w_r max(0, 1 - sum of y_e over the owners of r) is at least V (weak
    duality: sum x_r <= sum x_r (sum y_e) + sum x_r max(0, 1 - sum y_e) for feasible x). D is worked out here in integers, from
    prices rounded to multiples of 2^-BITS; no rounding of a solver enters it. A point that is scaled down until it is
    feasible gives P <= V; roundings of its floats are taken off. Where D - P <= allowed / UNIT, D is accepted.

    Raises Unsolved where no door gives that.
    """
    for door in doors:
        try:
            point = door(program, allowed / UNIT, None if floor is None else (floor - allowed - 1) / UNIT)
        except Unsolved:
            continue
        prices = np.rint(np.clip(np.nan_to_num(point.prices), 0, 1) * 2**BITS).astype(np.int64)
        bound = dual_bound(program, prices)
        found = Certified((UNIT * bound) >> BITS, int(prices.sum()))
        if floor is not None and found.units + 1 + allowed < floor:
            return Certified(found.units, found.slope, reached=False)
        if UNIT * (bound / 2**BITS - primal_bound(program, point.rows)) <= allowed:
            return found
        if floor is not None:  # it may have stopped for the floor and missed it by a rounding
            return linear(program, allowed, doors)
    raise Unsolved


def dual_bound(program: Program, prices: Integers) -> int:
    """2^BITS * D for prices in 1 / 2^BITS, exactly."""
    priced = np.append(prices, 0)  # the last entry stands for NOBODY
    covered = np.zeros(len(program.weights), dtype=np.int64)
    for at in range(program.owners.shape[1]):
        covered += priced[program.owners[:, at]]
    return exact_dot(program.capacities, prices) + exact_dot(program.weights, np.maximum(0, 2**BITS - covered))


def exact_dot(left: Integers, right: Integers) -> int:
    """The sum of products of integers >= 0, however large."""
    if int(left.max(initial=0)) * int(right.max(initial=0)) * len(left) < 2**63:
        return int(left @ right)
    return sum(map(operator.mul, left.tolist(), right.tolist()))


def primal_bound(program: Program, rows: Reals) -> float:
    """A number that V is not below: the sum of a feasible point near the given one."""
    taken = np.clip(np.nan_to_num(rows), 0, program.weights)
    load = np.zeros(len(program.capacities))
    for at in range(program.owners.shape[1]):
        column = program.owners[:, at]
        some = column != NOBODY
        load += np.bincount(column[some], weights=taken[some], minlength=len(load))
    scale = np.minimum(1.0, program.capacities / np.maximum(load, 1e-300))
    return float((taken * least_of(program.owners, scale)).sum()) * (1 - 4 * margin(len(taken)))


def doors_for(rows: int) -> tuple[Door, ...]:
    """The solvers to try, in order, for so many variables. The choice depends on their number alone."""
    try:
        from dpsql.kernel.extensions import highs
    except ImportError:
        from dpsql.kernel.extensions import portable
        return (portable.solve,)
    return (highs.simplex, highs.first_order) if rows <= SIMPLEX_ROWS else (highs.first_order, highs.finer, highs.simplex)
