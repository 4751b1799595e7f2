"""Non-negative least squares: the table x >= 0 nearest to the answers, each difference in units of its standard error.

Its answers are unique, and its squared error over all queries, weighted, is never more than that of the noisy answers, as it is a
projection on a convex set that holds the truth. But clipped cells push sums up: over many empty cells, sums are worse than under
least squares.

Source: Abowd and others, An Uncertainty Principle Is a Price of Privacy-Preserving Microdata, NeurIPS 2021.
"""

from __future__ import annotations

from dpsql.microdata.fitted import FittedTable, fitted_table
from dpsql.microdata.noisy_answers import NoisyAnswers
from dpsql.microdata.ols import equalities
from dpsql.microdata.optimality import bounded_fit
from dpsql.microdata.search import solved


def fit(noisy: NoisyAnswers) -> FittedTable:
    """The nearest table without negative cells. Raises DataError if no such table matches the exact answers."""
    low, high = equalities(noisy)
    return fitted_table("nnls", noisy, solved(bounded_fit(noisy.matrix, noisy.answers, noisy.weights, low=low, high=high)))
