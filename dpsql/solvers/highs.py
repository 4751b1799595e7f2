"""The HiGHS solvers: dual simplex, and a first-order method for large programs. Tested with highspy 1.15 and 1.16.

Not trusted: `extensions.certified` and `extensions.removal_distance` evaluate their points and prices in integers.
"""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np

from dpsql.trusted.extensions.linear_program import LinearProgram, Point
from dpsql.trusted.extensions.owned import NOBODY
from dpsql.trusted.extensions.removal_program import RemovalProgram, RemovalSolution

SMALL_CROWD = 3_000
MOST_WORK = 2e10  # of a first-order method: its steps times the entries of the program; about a minute


def simplex(program: LinearProgram, gap: float) -> Point:
    """Dual simplex, starting from the point that takes all rows whole.

    Presolve is off: after `merging` it costs more than the solution.
    """
    solver = _loaded(program)
    solver.setOptionValue("solver", "simplex")
    return _run(program, solver)


def first_order(program: LinearProgram, gap: float) -> Point:
    """HiPDLP: many cheap steps, until the gap is small enough."""
    solver = _loaded(program)
    most = float(min(program.weights.sum(), program.capacities.sum()))
    _few_steps(solver, min(1e-3, max(1e-9, gap / most)))
    return _run(program, solver)


def finer(program: LinearProgram, gap: float) -> Point:
    """The same with a smaller tolerance, for the case that the tolerance was met but the gap was not."""
    return first_order(program, gap / 10)


def _few_steps(solver: Any, tolerance: float) -> None:
    """Run first-order steps, limited in number, not in time: the result does not depend on a clock."""
    solver.setOptionValue("solver", "hipdlp")
    solver.setOptionValue("pdlp_optimality_tolerance", tolerance)
    solver.setOptionValue("pdlp_iteration_limit", int(max(1_000, MOST_WORK // max(1, solver.getNumNz()))))


def _size(program: LinearProgram) -> float:
    """Numbers are given to the solver in units of the largest capacity, as its tolerances are absolute."""
    return float(program.capacities.max())


def _loaded(program: LinearProgram) -> Any:
    count, entities, size = len(program.weights), len(program.capacities), _size(program)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = count, entities
    lp.col_cost_ = np.full(count, -1.0)  # it minimises
    lp.col_lower_, lp.col_upper_ = np.zeros(count), program.weights / size
    lp.row_lower_, lp.row_upper_ = np.full(entities, -highspy.kHighsInf), program.capacities / size
    there = program.owners != NOBODY
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.concatenate(([0], np.cumsum(there.sum(axis=1)))).astype(np.int32)
    lp.a_matrix_.index_ = program.owners[there]
    lp.a_matrix_.value_ = np.ones(int(there.sum()))
    return _passed(lp, presolve="off")


def _run(program: LinearProgram, solver: Any) -> Point:
    solver.run()
    found = solver.getSolution()
    return Point(rows=np.array(found.col_value) * _size(program), prices=-np.array(found.row_dual))


class _Quiet(highspy.Highs):
    """A solver without output from the beginning: highspy 1.16 prints its name while a solver is made."""

    def enableCallbacks(self) -> None:
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()  # type: ignore[no-untyped-call]


def _passed(lp: Any, *, presolve: str) -> Any:
    solver: Any = _Quiet()  # type: ignore[no-untyped-call]
    for option, value in {"presolve": presolve, "threads": 1, "random_seed": 0}.items():
        solver.setOptionValue(option, value)
    solver.passModel(lp)
    return solver


# -- who has to leave


def leaving(crowd: RemovalProgram, error: float) -> RemovalSolution:
    """Solve by HiPDLP, with about this relative error of the optimum; small problems by the simplex method."""
    if len(crowd.weights) <= SMALL_CROWD:
        return leaving_by_simplex(crowd, error)
    solver = _crowd(crowd)
    _few_steps(solver, error)
    return _left(crowd, solver)


def leaving_by_simplex(crowd: RemovalProgram, error: float) -> RemovalSolution:
    solver = _crowd(crowd)
    solver.setOptionValue("solver", "simplex")
    return _left(crowd, solver)


def _crowd(crowd: RemovalProgram) -> Any:
    """min sum y: z_r + sum y_p >= 1 for each row, sum w_r z_r / level <= 1 for each heavy share."""
    from scipy.sparse import coo_array, csc_array

    count, rows, shares = crowd.entities, len(crowd.weights), len(crowd.whose)
    named, bound = crowd.owners != NOBODY, crowd.heavy != NOBODY
    named_at, bound_at = np.repeat(np.arange(rows), named.sum(axis=1)), np.repeat(np.arange(rows), bound.sum(axis=1))
    entries = np.concatenate((np.ones(len(named_at)), np.ones(rows), crowd.weights[bound_at] / crowd.level))
    lines = np.concatenate((named_at, np.arange(rows), rows + crowd.heavy[bound]))
    columns = np.concatenate((crowd.owners[named], count + np.arange(rows), count + bound_at))
    matrix = csc_array(coo_array((entries, (lines, columns)), shape=(rows + shares, count + rows)))
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = count + rows, rows + shares
    lp.col_cost_ = np.concatenate((np.ones(count), np.zeros(rows)))
    lp.col_lower_, lp.col_upper_ = np.zeros(count + rows), np.full(count + rows, highspy.kHighsInf)
    lp.row_lower_ = np.concatenate((np.ones(rows), np.full(shares, -highspy.kHighsInf)))
    lp.row_upper_ = np.concatenate((np.full(rows, highspy.kHighsInf), np.ones(shares)))
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
    return _passed(lp, presolve="choose")


def _left(crowd: RemovalProgram, solver: Any) -> RemovalSolution:
    solver.run()
    found, rows = solver.getSolution(), len(crowd.weights)
    prices = np.array(found.row_dual)
    return RemovalSolution(entities=np.array(found.col_value)[: crowd.entities], rows=prices[:rows], shares=-prices[rows:])
