"""Post-processing of released numbers into consistent counts, whole and not negative. Done only on request (`consistency`).

These are functions of numbers that are already released, so they cost no privacy. But the stated errors are no longer valid.
Unbiased answers remain unbiased under least squares, but not under x >= 0: if the true count is zero and Gaussian noise has
standard deviation s, the mean of the result is s / sqrt(2 pi) = 0.4 s, and sums over many empty cells accumulate this bias (each
single cell is nearer to the true count than before, as that is not negative either). The earlier standard errors and intervals
are then only a guide. Rounding changes each prefix sum of the cells by at most 1/2, and so each range by at most 1.

Source: the projection is Hay, Rastogi, Miklau and Suciu's consistency, Boosting the Accuracy of Differentially Private
Histograms Through Consistency, PVLDB 2010, but onto the cone of non-negative tables, not all tables; Lawson and Hanson,
Solving Least Squares Problems, 1974, for the algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from dpsql.workload.domain import too_large
from dpsql.workload.factors import Array, Identity
from dpsql.workload.workload import Workload

SMALL = 1024  # most cells: the search goes through active sets of cells
ROUNDS = 30  # most active sets tried, for each cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Consistent:
    """A table without negative cells, and its answers to the workload."""

    cells: Array
    answers: Array


def nonnegative(workload: Workload, answers: Array, variances: Array | None = None) -> Consistent:
    """The table x >= 0 whose answers W x are nearest to those given, each difference in units of its standard error.

    `answers` and `variances` have one number for each query. Raises RuntimeError if the search does not end.
    The answers are unique, and so are the cells if the queries determine them. The result is biased; see the module.
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
    """Whole numbers whose prefix sums, in the order of the cells, are the rounded prefix sums of the given cells.

    Proof that none is below zero: prefix sums of non-negative cells do not decrease, nor do the rounded ones. The total is the
    rounded total, and the sum of every range of consecutive cells changes by at most 1.
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
