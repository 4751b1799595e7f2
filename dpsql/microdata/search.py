"""Which solver is asked, and that its table is optimal: the next solver is asked where the conditions do not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import scipy

from dpsql.errors import OperationalError
from dpsql.frozen import Frozen
from dpsql.microdata.active_set import active_set, fits
from dpsql.microdata.dual_newton import dual_newton, measured_each
from dpsql.microdata.optimality import BoundedFit, KktResidual, Proposal, infeasible, residual
from dpsql.workload.factors import Array

SMALL = 2000  # cells up to which active sets are the first choice

Solver = Callable[[BoundedFit], Proposal]


class Solved(Frozen, eq=False):
    """An optimal table, (cells,), the residual of the conditions of optimality, and the solver that found it."""

    cells: Array
    residual: KktResidual
    solver: str


def solved(problem: BoundedFit) -> Solved:
    """The solution, from the first solver whose table satisfies the conditions of optimality.

    Raises DataError (code infeasible) if no table has the given answers, and OperationalError (code not-optimal) if every solver
    fails.
    """
    for name, solver in _solvers(problem):
        try:
            found = solver(problem)
        except (RuntimeError, np.linalg.LinAlgError, ValueError):  # given up, or numbers beyond floating point
            continue
        told = residual(problem, found)
        if told.holds:
            return Solved(cells=found.cells, residual=told, solver=name)
    if not _feasible(problem):
        raise infeasible("some queries")
    raise OperationalError("no solver found a table that satisfies the conditions of optimality", code="not-optimal",
                           try_="another method")


def _solvers(problem: BoundedFit) -> Iterator[tuple[str, Solver]]:
    """Newton's method, whose work grows with the sums of several cells, comes first for many cells, and where these sums are
    fewer than the cells and queries about single cells measure each cell."""
    few, cells = fits(problem), len(problem.least)
    if not few or cells > SMALL or (measured_each(problem) and int((~problem.single).sum()) <= cells):
        yield "dual Newton", dual_newton
        if few:
            yield "active set", active_set
    else:
        yield "active set", active_set
        yield "dual Newton", dual_newton


def _feasible(problem: BoundedFit) -> bool:
    """Whether a table keeps to all bounds, as a linear program says."""
    held = problem.bounded
    if not held.any():
        return True
    rows = problem.matrix[held]
    found = scipy.optimize.milp(np.zeros(rows.shape[1]), bounds=scipy.optimize.Bounds(problem.least, problem.most),
                                constraints=scipy.optimize.LinearConstraint(rows, problem.low[held], problem.high[held]))
    return found.status != 2
