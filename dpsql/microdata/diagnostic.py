"""What a method does to the answers: the uncertainty principle of tables without negative cells, as a diagnosis of one release.

No method without negative cells is unbiased, and none has small errors in single cells and in their sums at once for all tables.
How much it matters here is predicted from public numbers: the fitted table is taken for the truth, noise of the stated variances
is drawn around its answers again and again, and each time the method is applied. The draws are a simulation, never released.

Source: Abowd and others, An Uncertainty Principle Is a Price of Privacy-Preserving Microdata, NeurIPS 2021, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from dpsql.microdata import ols
from dpsql.microdata.all_fits import METHODS, fit
from dpsql.microdata.fitted import FittedTable
from dpsql.microdata.noisy_answers import NoisyAnswers, of_one_cell, their_cells
from dpsql.workload.factors import Array

ZERO = 1e-9  # counts up to which a cell is fitted at zero
ERRORS = 2.0  # standard errors by which a query has to be worse than least squares


class Uniform(Protocol):
    """A source of uniform numbers between 0 and 1, such as a Generator of numpy."""

    def random(self, size: int) -> Array: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Simulated:
    """Errors of a method around a table that is taken for the truth, all (queries,).

    error        mean squared error; `precision` is its standard error over the runs
    bias         mean of fitted minus true answer
    """

    error: Array
    precision: Array
    bias: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Diagnosis:
    """What a method did to these answers. Arrays are (queries,), in the order of the groups; exact answers have NaN for ratios.

    method         the name of the method
    zeroed         share of the cells fitted at zero
    clipping_bias  by how much clipping raises the sum that a query is: the mean of |noise| of a cell, once for each zeroed cell.
                   About half of the empty cells are clipped, by that much on average. Queries of their own correct part of it.
    simulated      errors and bias of the method, by simulation
    ratio          mean squared error over the variance of the noisy answer
    linear         variance of least squares over the variance of the noisy answer, exactly
    worse          the queries whose error exceeds that of least squares by more than twice its standard error
    """

    method: str
    zeroed: float
    clipping_bias: Array
    simulated: Simulated
    ratio: Array
    linear: Array
    worse: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The mean squared errors of several methods, averaged over the queries that were named; the best is the least.

    `within` are the methods whose error cannot be told from the best one's: the difference is below two standard errors of the
    difference, run by run.
    """

    errors: dict[str, float]
    best: str
    within: tuple[str, ...]


def diagnosed(noisy: NoisyAnswers, found: FittedTable, draw: Uniform, *, runs: int = 200) -> Diagnosis:
    """The diagnosis of a fitted table. `draw` is a seeded source of uniform numbers; `runs`, 2 or more, are simulated."""
    told, least = simulated(noisy, found, found.method, draw, runs=runs), ols.variances(noisy)
    spread = np.where(noisy.exact, np.nan, noisy.variances)
    zeroed = np.abs(found.cells) <= ZERO
    worse = np.flatnonzero(told.error > least + ERRORS * told.precision + ZERO)
    return Diagnosis(method=found.method, zeroed=float(zeroed.mean()), clipping_bias=noisy.matrix @ (zeroed * mean_noise(noisy)),
                     simulated=told, ratio=told.error / spread, linear=least / spread, worse=worse)


def compared(noisy: NoisyAnswers, table: FittedTable, queries: NDArray[np.int64] | NDArray[np.bool_] | slice, draw: Uniform, *,
             methods: tuple[str, ...] = tuple(METHODS), runs: int = 200) -> Comparison:
    """Which method is best for these queries if `table` is the truth. All methods meet the same noise."""
    losses = {method: list[float]() for method in methods}
    for _ in range(runs):
        again = with_noise(noisy, table.answers, draw)
        for method in methods:
            losses[method].append(float(np.mean((fit(again, method).answers - table.answers)[queries] ** 2)))
    errors = {method: float(np.mean(each)) for method, each in losses.items()}
    best = min(errors, key=errors.__getitem__)
    apart = {method: np.array(each) - np.array(losses[best]) for method, each in losses.items()}
    return Comparison(errors=errors, best=best, within=tuple(
        method for method, each in apart.items() if each.mean() <= ERRORS * each.std() / np.sqrt(len(each))))


def simulated(noisy: NoisyAnswers, table: FittedTable, method: str, draw: Uniform, *, runs: int = 200) -> Simulated:
    """Errors of a method whose truth is a table, over `runs` draws of noise."""
    if runs < 2:
        raise ValueError("a standard error needs two runs or more")
    off = np.zeros(len(noisy.answers))
    square, fourth = off.copy(), off.copy()
    for _ in range(runs):
        apart = fit(with_noise(noisy, table.answers, draw), method).answers - table.answers
        off, square, fourth = off + apart, square + apart**2, fourth + apart**4
    error = square / runs
    return Simulated(error=error, bias=off / runs, precision=np.sqrt(np.maximum(fourth / runs - error**2, 0.0) / (runs - 1)))


def with_noise(noisy: NoisyAnswers, truth: Array, draw: Uniform) -> NoisyAnswers:
    """The queries, answered from the truth with noise of the stated kinds and variances; exact answers stay as given."""
    parts = list[Array]()
    for group in noisy.groups:
        at: Any = draw.random(len(group.answers))
        at = np.clip(at, 1e-16, 1 - 1e-16)
        laplace = np.sign(0.5 - at) * np.log1p(-2 * np.abs(at - 0.5)) / np.sqrt(2)
        parts.append(group.deviations * (scipy.special.ndtri(at) if group.noise == "gaussian" else laplace))
    return noisy.with_answers(np.where(noisy.exact, noisy.answers, truth + np.concatenate(parts)))


def mean_noise(noisy: NoisyAnswers) -> Array:
    """The mean of |noise| of each cell, (cells,): of the normal distribution sqrt(2 / pi), of Laplace's sqrt(1 / 2) standard
    deviations. A cell without a query of its own has the standard deviation that least squares gives it, taken as normal."""
    weight, mean = np.zeros(noisy.cells), np.zeros(noisy.cells)
    for group in noisy.groups:
        single = of_one_cell(group.matrix) & (group.variances > 0)
        cells, factors = their_cells(group.matrix, single)
        own = np.bincount(cells, factors**2 / group.variances[single], noisy.cells)
        weight += own
        mean += own * (np.sqrt(2 / np.pi) if group.noise == "gaussian" else np.sqrt(0.5))
    known = np.divide(mean, weight**1.5, out=np.zeros(noisy.cells), where=weight > 0)
    if (weight > 0).all():
        return known
    return np.where(weight > 0, known, np.sqrt(2 / np.pi * ols.cell_variances(noisy)))
