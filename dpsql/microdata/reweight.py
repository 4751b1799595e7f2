"""Reweighted least squares: answers that look like those of empty cells count little one by one, and much as their sum.

In each group, the answers are sorted in units of their standard deviations; the low ones are those before the first that noise
alone would hardly reach. The weight of a low answer is divided by twice the square of the median of the largest noise among them,
and their sum becomes a query of its own. So empty cells are fitted near zero while their sum is hardly biased. Details follow the
source's own program: the median counts as at least one count, and as many answers are low as come before the first high one.

Source: Abowd and others, An Uncertainty Principle Is a Price of Privacy-Preserving Microdata, NeurIPS 2021, Algorithm 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dpsql.microdata.fitted import FittedTable, fitted_table
from dpsql.microdata.noisy_answers import NoisyAnswers, QueryGroup
from dpsql.microdata.ols import equalities
from dpsql.microdata.optimality import bounded_fit
from dpsql.microdata.search import solved
from dpsql.workload.factors import Array

SURE = 0.99  # probability that noise alone stays below an answer that is not low


def fit(noisy: NoisyAnswers) -> FittedTable:
    """The nearest table without negative cells under the new weights. Raises DataError if no such table matches the exact
    answers."""
    weights, rows, goals, own = noisy.weights.copy(), list[Any](), list[float](), list[float]()
    for group in noisy.groups:
        at, low = np.arange(noisy.slices[group.name].start, noisy.slices[group.name].stop), low_answers(group)
        if low.any():
            weights[at[low]] /= 2 * downweight(group, low) ** 2
            rows.append(scipy.sparse.csr_array(group.matrix[low].sum(axis=0).reshape(1, -1)))
            goals.append(float(group.answers[low].sum()))
            own.append(1 / (2 * float(group.variances[low].sum())))
    least, most = equalities(noisy)
    count = len(rows)
    matrix: Any = scipy.sparse.vstack([noisy.matrix, *rows], format="csr") if rows else noisy.matrix
    none = np.full(count, np.inf)
    problem = bounded_fit(matrix, np.concatenate([noisy.answers, goals]), np.concatenate([weights, own]),
                          low=np.concatenate([least, -none]), high=np.concatenate([most, none]))
    return fitted_table("reweight", noisy, solved(problem))


def low_answers(group: QueryGroup) -> NDArray[np.bool_]:
    """Which answers of a group are low, (queries,); exact ones never are.

    The j-th smallest is the first high one if the largest of j draws of noise is below it with probability 0.99.
    """
    noisy = group.variances > 0
    scaled = np.sort(group.answers[noisy] / group.deviations[noisy])
    sure = np.arange(1, len(scaled) + 1) * _log_below(group.noise, scaled) >= np.log(SURE)
    first = int(np.argmax(sure)) if sure.any() else len(scaled)
    if first == 0:
        return np.zeros(len(noisy), dtype=bool)
    found = noisy.copy()
    found[noisy] = group.answers[noisy] / group.deviations[noisy] <= scaled[first - 1]
    return found


def downweight(group: QueryGroup, low: NDArray[np.bool_]) -> Array:
    """For each low answer, in counts and at least 1: the median of the largest of m draws of noise, where m is the number of low
    answers."""
    at = 0.5 ** (1 / int(low.sum()))
    if group.noise == "gaussian":
        unit = float(scipy.special.ndtri(at))
    else:
        unit = float(-np.log(2 * (1 - at)) if at > 0.5 else np.log(2 * at)) / np.sqrt(2.0)
    return np.asarray(np.maximum(1.0, group.deviations[low] * unit))


def _log_below(noise: str, scaled: Array) -> Array:
    """The logarithm of the probability that noise of variance 1 is at most a number."""
    if noise == "gaussian":
        return np.asarray(scipy.special.log_ndtr(scaled))
    rate = np.sqrt(2.0) * scaled
    return np.asarray(np.where(rate > 0, np.log1p(-np.exp(-np.abs(rate)) / 2), rate - np.log(2.0)))
