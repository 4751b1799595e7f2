"""A sufficiently tight bound of V, from one solver after another; the last one is exact and always terminates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpsql.trusted.extensions.ask_solvers import NO_SOLVERS, Solvers, heard, offered, stack_of
from dpsql.trusted.extensions.certified import Certified, certified
from dpsql.trusted.extensions.linear_program import LinearProgram, Point, numbers
from dpsql.trusted.extensions.merging import ReducedRows
from dpsql.trusted.extensions.owned import NOBODY, Owned
from dpsql.trusted.extensions.packing import Packing
from dpsql.trusted.plan.operators.owner_sets import UNIT


def linear(rows: Owned, level: int, small: ReducedRows, allowed: int, solvers: Solvers = NO_SOLVERS) -> Certified:
    """Bounds with floor(UNIT V) <= `units` <= UNIT V + allowed. It returns for all rows, whatever solvers do.

    Proof. `certified` holds for any point, so what is accepted here is correct. Some point is accepted, as the last one is exact
    up to the rounding of its numbers to floats. With n entities and m rows, prices rounded up to 2^-40 leave every covered row
    covered and cost n level 2^-40 (each sum of prices is within 8 * 2^-53 of an exact one, and an integer over 2^40); rows
    lose less than 2 m / 2^bits for 2^bits >= 2^60 / (m level) and MARGIN of V <= n level. As n < 2^29 and m <= 2^26 all of
    that is below level / UNIT, and whole units below V and D are then within one unit more than that: within `allowed` >= 1.
    Where `allowed` is 0, rows have one owner or two. With one, merging solves the program, prices are 0 or 1, and points are
    integers. With two, vertices of the program and of its dual have coordinates in multiples of 1/2, which rounding leaves as
    they are.
    """
    for point in points(small, allowed, solvers):
        found = certified(rows, level, small, point)
        if found.units - found.least <= allowed:
            return found
    raise ArithmeticError("an exact solution does not close the gap between its bounds")


def points(small: ReducedRows, allowed: int, solvers: Solvers = NO_SOLVERS) -> Iterator[Point]:
    """The answers of solvers, from the fastest to the exact one. The order depends on the program alone, and no clock stops
    any."""
    if small.solved:
        yield Point(np.zeros(0), np.zeros(len(small.people)))
        return
    program = LinearProgram(small.owners, small.weights, small.capacities)
    for door in offered(solvers.programs, program):
        point = heard(lambda given: _point(program, given), door, program, allowed / UNIT)
        if point is not None:
            yield point
    for x, y in stack_of(packed(program), solvers):
        yield Point(x, y)


def _point(program: LinearProgram, given: Point) -> Point:
    return Point(numbers(given.rows, len(program.weights)), numbers(given.prices, len(program.capacities)))


def packed(program: LinearProgram) -> Packing:
    rows, at = np.nonzero(program.owners != NOBODY)
    return Packing(costs=[1] * len(program.weights), limits=program.capacities.tolist(), most=program.weights.tolist(),
                   lines=program.owners[rows, at].astype(np.int64), columns=rows, entries=[1] * len(rows))
