"""Maximum fit: the largest difference of fitted and noisy answers, in standard errors, is the least possible; then least squares.

The first stage is a linear program; the second is non-negative least squares within the distance found, widened by a millionth of
a standard error so that rounding leaves a table. A query that counts cells positively and whose answer is negative bounds the
distance from below; if a table attains this bound it is the optimum, and no program is solved.

Source: Abowd and others, An Uncertainty Principle Is a Price of Privacy-Preserving Microdata, NeurIPS 2021, section 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from dpsql.errors import DataError, OperationalError
from dpsql.microdata.fitted import FittedTable, fitted_table
from dpsql.microdata.noisy_answers import NoisyAnswers
from dpsql.microdata.ols import equalities
from dpsql.microdata.optimality import bounded_fit, infeasible
from dpsql.microdata.search import Solved, solved

SLACK = 1e-6  # standard errors by which the least distance is exceeded
SECONDS = 30.0  # of the linear program
GAP = 1e-6  # standard errors between the distance and the bound that the dual proves


def fit(noisy: NoisyAnswers) -> FittedTable:
    """The table of least squares among those with the least distance. Raises DataError if no table has the exact answers."""
    bound = least_possible(noisy)
    if _may_attain(noisy, bound):
        try:
            return fitted_table("max_fit", noisy, _within(noisy, bound))
        except (DataError, OperationalError):  # no table attains the bound
            pass
    return fitted_table("max_fit", noisy, _within(noisy, least_distance(noisy)))


def least_possible(noisy: NoisyAnswers) -> float:
    """A lower bound on the distance, in standard errors: sums of cells are not negative, but some answers are."""
    lowest = np.full(noisy.matrix.shape[0], np.inf)
    np.minimum.at(lowest, np.repeat(np.arange(len(lowest)), np.diff(noisy.matrix.indptr)), noisy.matrix.data)
    sums = (lowest >= 0) & ~noisy.exact
    return float((-noisy.answers[sums] / np.sqrt(noisy.variances[sums])).max(initial=0.0))


def least_distance(noisy: NoisyAnswers) -> float:
    """The least possible largest difference, in standard errors, by a linear program whose dual proves it.

    Raises DataError if no table has the exact answers, and OperationalError if the dual does not prove the distance.
    """
    given, matrix = noisy.exact, noisy.matrix
    soft = matrix[~given]
    units = np.sqrt(noisy.variances[~given])
    if len(units) == 0:
        return 0.0
    scaled: Any = scipy.sparse.diags_array(1 / units) @ soft
    ones = scipy.sparse.csr_array(np.ones((len(units), 1)))
    above: Any = scipy.sparse.vstack([scipy.sparse.hstack([scaled, -ones]), scipy.sparse.hstack([-scaled, -ones])], format="csr")
    goals = noisy.answers[~given] / units
    exact: Any = None
    if given.any():
        exact = scipy.sparse.hstack([matrix[given], scipy.sparse.csr_array((int(given.sum()), 1))], format="csr")
    price = np.zeros(noisy.cells + 1)
    price[-1] = 1.0
    right = np.concatenate([goals, -goals])
    found: Any = scipy.optimize.linprog(price, A_ub=above, b_ub=right, A_eq=exact,
                                        b_eq=noisy.answers[given] if given.any() else None, method="highs",
                                        options={"time_limit": SECONDS})
    if found.status == 2:
        raise infeasible("some queries")
    if found.status == 0:
        dual = price - above.T @ np.minimum(found.ineqlin.marginals, 0.0)
        proved = float(right @ np.minimum(found.ineqlin.marginals, 0.0))
        if given.any():
            dual -= exact.T @ found.eqlin.marginals
            proved += float(noisy.answers[given] @ found.eqlin.marginals)
        if dual.min() >= -GAP and abs(proved - found.x[-1]) <= GAP * (1 + abs(found.x[-1])):
            return float(found.x[-1])
    raise OperationalError("the linear program of the least distance was not solved", code="not-optimal", try_="another method")


def _within(noisy: NoisyAnswers, distance: float) -> Solved:
    """Least squares over the tables within this distance."""
    low, high = equalities(noisy)
    reach = (distance * (1 + SLACK) + SLACK) * np.sqrt(noisy.variances)
    return solved(bounded_fit(noisy.matrix, noisy.answers, noisy.weights, low=np.where(noisy.exact, low, noisy.answers - reach),
                              high=np.where(noisy.exact, high, noisy.answers + reach)))


def _may_attain(noisy: NoisyAnswers, distance: float) -> bool:
    """Whether a table may be within this distance: no query by itself contradicts what single queries say of the cells."""
    if distance <= 0:
        return False
    reach = distance * np.sqrt(noisy.variances)
    problem = bounded_fit(noisy.matrix, noisy.answers, noisy.weights, low=noisy.answers - reach, high=noisy.answers + reach)
    up, down = noisy.matrix.maximum(0), noisy.matrix.minimum(0)
    most = np.where(np.isfinite(problem.most), problem.most, 1e300)
    return bool((up @ most + down @ problem.least >= noisy.answers - reach - GAP).all()
                and (up @ problem.least + down @ most <= noisy.answers + reach + GAP).all())
