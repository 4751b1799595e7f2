"""Ordinary least squares: the table nearest to the answers, in units of their standard errors. Cells may be negative.

It is unbiased, and no linear unbiased estimate of any query has a smaller variance (Gauss and Markov). Its variances are known
exactly, which makes it the baseline for all methods without negative cells. If the queries do not determine the cells, the table
is one of several with the same answers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from dpsql.microdata.fitted import FittedTable, fitted_table
from dpsql.microdata.noisy_answers import NoisyAnswers, of_one_cell
from dpsql.microdata.optimality import bounded_fit
from dpsql.microdata.search import solved
from dpsql.workload.domain import DENSE, too_large
from dpsql.workload.factors import Array

CHUNK = 2**22  # numbers of one array, at a time


def fit(noisy: NoisyAnswers) -> FittedTable:
    """The least squares table. Raises DataError if exact answers contradict each other."""
    low, high = equalities(noisy)
    problem = bounded_fit(noisy.matrix, noisy.answers, noisy.weights, low=low, high=high, least=-np.inf)
    return fitted_table("ols", noisy, solved(problem))


def equalities(noisy: NoisyAnswers) -> tuple[Array, Array]:
    """The least and the largest allowed value of every answer, (queries,): equal for exact answers, infinite for others."""
    return np.where(noisy.exact, noisy.answers, -np.inf), np.where(noisy.exact, noisy.answers, np.inf)


def variances(noisy: NoisyAnswers) -> Array:
    """The exact variances of the least squares answers: (queries,).

    With D the weights of queries about single cells, C all others and E their variances, the covariance of the cells is
    D^-1 - D^-1 C' (E + C D^-1 C')^-1 C D^-1 (Woodbury); exact answers are those with E = 0. If some cell has no query of its own,
    the normal matrix is inverted instead. Raises Unsupported if that has more than 4096 rows.
    """
    matrix: Any = noisy.matrix
    single = of_one_cell(matrix) & ~noisy.exact
    squares: Any = matrix[single].power(2)
    own = squares.T @ noisy.weights[single]
    if (own <= 0).any():
        return _by_inverse(noisy)
    others = matrix[~single]
    if others.shape[0] == 0:
        return np.asarray(matrix.power(2) @ (1 / own))
    if others.shape[0] > DENSE:
        raise too_large("the variances of least squares with marginals", others.shape[0], DENSE)
    spread = scipy.sparse.diags_array(1 / own)
    inner = (others @ spread @ others.T).toarray() + np.diag(noisy.variances[~single])
    inverse = scipy.linalg.pinvh(inner)
    found, step = np.empty(matrix.shape[0]), max(1, CHUNK // others.shape[0])
    for begin in range(0, len(found), step):
        rows = matrix[begin:begin + step]
        cross = (rows @ spread @ others.T).toarray()
        found[begin:begin + step] = rows.power(2) @ (1 / own) - ((cross @ inverse) * cross).sum(axis=1)
    return np.maximum(found, 0.0)


def cell_variances(noisy: NoisyAnswers) -> Array:
    """The variances of the least squares cells, (cells,); infinite for cells that the queries do not determine.

    Raises Unsupported for more than 4096 cells.
    """
    free, inverse, inner = _normal(noisy)
    determined = np.abs(free - free @ inverse @ inner).max(axis=1, initial=0.0) < 1e-6
    return np.where(determined, ((free @ inverse) * free).sum(axis=1), np.inf)


def _by_inverse(noisy: NoisyAnswers) -> Array:
    """diag(Q N (N' Q' W Q N)^+ N' Q'); see `_normal`."""
    free, inverse, _ = _normal(noisy)
    spread = noisy.matrix @ free
    return np.asarray(((spread @ inverse) * spread).sum(axis=1))


def _normal(noisy: NoisyAnswers) -> tuple[Array, Array, Array]:
    """A basis N of the changes of the table that no exact answer notices, (cells x free); the pseudo-inverse of the normal matrix
    N' Q' W Q N, and this matrix, both (free x free)."""
    if noisy.cells > DENSE:
        raise too_large("the variances of least squares without queries about single cells", noisy.cells, DENSE)
    matrix = noisy.matrix.toarray()
    free = scipy.linalg.null_space(matrix[noisy.exact]) if noisy.exact.any() else np.eye(noisy.cells)
    inner = (matrix @ free).T @ (noisy.weights[:, None] * (matrix @ free))
    inverse: Array = np.asarray(scipy.linalg.pinvh(inner), dtype=float)
    return free, inverse, inner
