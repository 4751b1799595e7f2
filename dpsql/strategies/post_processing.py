"""Post-processing of released numbers into consistent counts, whole and not negative. Done only on request (`consistency`).

These are pure functions of numbers that are released already, so they cost no privacy. But the stated errors are no longer valid.
Unbiased answers stay so under least squares, but not under x >= 0: if the truth is zero and the noise has
standard deviation s, the mean of the result is s / sqrt(2 pi) = 0.4 s, and sums over many empty cells accumulate this bias (each
single cell is nearer to the truth than before, as the truth is not negative either). Standard errors and intervals from
before are only a guide. Rounding adds at most 1/2 to each prefix sum of the cells, so at most 1 to each range.

Source: the projection is Hay, Rastogi, Miklau and Suciu's consistency, Boosting the Accuracy of Differentially Private
Histograms Through Consistency, PVLDB 2010, with the cone of tables that can occur in place of all tables; Lawson and Hanson,
Solving Least Squares Problems, 1974, for its solution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from dpsql.workload.domain import too_large
from dpsql.workload.factors import Array, Identity
from dpsql.workload.workload import Workload

SMALL = 1024  # cells: the search goes through active sets of them
ROUNDS = 30  # active sets that are tried, for each cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Consistent:
    """A table without negative cells, and its answers to the workload."""

    cells: Array
    answers: Array


def nonnegative(workload: Workload, answers: Array, variances: Array | None = None) -> Consistent:
    """The table x >= 0 whose answers W x are nearest to those given, each difference in units of its standard error.

    `answers` and `variances` have one number for each query. Raises RuntimeError if the search does not end.
    The answers are unique; the cells are if the queries determine them. The result is biased, see the head of the module.
    """
    given = np.asarray(answers, dtype=float).reshape(-1)
    if _of_cells(workload):
        cells = np.maximum(given, 0.0)
        return Consistent(cells=cells, answers=cells)
    size = workload.domain.size
    if size > SMALL:
        raise too_large("the nearest table without negative cells", size, SMALL)
    weights = np.ones(workload.rows) if variances is None else 1 / np.asarray(variances, dtype=float)
    weights = weights / weights.max()
    values, vectors = scipy.linalg.eigh(workload.gram(weights), driver="evd")
    kept = values > 1e-12 * values[-1]
    root = vectors[:, kept] * np.sqrt(values[kept])  # root root' is the Gram matrix, so |root' x - y| differs by a constant
    goal = (vectors[:, kept] / np.sqrt(values[kept])).T @ workload.transposed(weights * given)
    cells, _ = scipy.optimize.nnls(root.T, goal, maxiter=ROUNDS * size)
    return Consistent(cells=np.asarray(cells), answers=workload.apply(np.asarray(cells)))


def whole(workload: Workload, cells: Array) -> Consistent:
    """The nearest whole numbers whose prefix sums, in the order of the cells, are those of the cells, rounded.

    Proof that none is below zero: prefix sums of cells that are not negative ascend, so their rounded ones do. The total is the
    rounded total, and every range of cells in order differs by less than 1 from what it was.
    """
    sums = np.rint(np.cumsum(np.asarray(cells, dtype=float).reshape(-1)))
    rounded = np.diff(sums, prepend=0.0)
    return Consistent(cells=rounded, answers=workload.apply(rounded))


def consistent(workload: Workload, answers: Array, variances: Array | None = None) -> Consistent:
    """Consistent whole numbers that are not negative: `nonnegative`, then `whole`."""
    return whole(workload, nonnegative(workload, answers, variances).cells)


def _of_cells(workload: Workload) -> bool:
    """Whether the queries are exactly the cells."""
    return len(workload.parts) == 1 and all(isinstance(factor, Identity) for factor in workload.parts[0].factors)
