"""What a method does to the answers: the uncertainty principle of tables without negative cells, as a diagnosis.

No method without negative cells is unbiased, and none has small errors in single cells and in their sums at once for all tables.
How much it matters here is predicted from public numbers: a table is taken for the truth, noise is drawn around its answers again
and again, and each time all methods are applied. Before a release these are tables of public shapes, after it the fitted one.
The draws are a simulation, never released.

Source: Abowd and others, An Uncertainty Principle Is a Price of Privacy-Preserving Microdata, NeurIPS 2021, section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray

from dpsql.errors import Error
from dpsql.frozen import Frozen
from dpsql.microdata import ols
from dpsql.microdata.all_fits import METHODS, fit
from dpsql.microdata.fitted import FittedTable
from dpsql.microdata.noisy_answers import NoisyAnswers, of_one_cell, their_cells
from dpsql.workload.factors import Array

ZERO = 1e-9  # counts up to which a cell is fitted at zero
SURE = 2.0  # standard errors by which errors have to differ to be told apart
MOST_CELLS, MOST_SUMS, MOST_ENTRIES = 1000, 100, 4000  # of tables that are simulated: a fit takes some milliseconds
MOST_RUNS, LEAST_RUNS, WORK = 60, 10, 20_000  # runs, and cells that are fitted by a method in all of them

Errors: TypeAlias = Callable[[], Array]  # draws the errors of all answers at once, (queries,): dependent as they are


class Uniform(Protocol):
    """A source of uniform numbers between 0 and 1, such as a Generator of numpy."""

    def random(self, size: int) -> Array: ...


class Simulated(Frozen, eq=False):
    """What a method made of noisy answers around a table that is taken for the truth: `off` is fitted minus true answer,
    (runs, queries)."""

    off: Array

    @property
    def error(self) -> Array:
        """Mean squared errors, (queries,)."""
        return np.asarray((self.off**2).mean(axis=0))

    @property
    def bias(self) -> Array:
        """Means of fitted minus true answer, (queries,)."""
        return np.asarray(self.off.mean(axis=0))

    def losses(self, at: slice) -> Array:
        """The mean squared error over some queries in each run, (runs,)."""
        return np.asarray((self.off[:, at] ** 2).mean(axis=1))

    def worse(self, other: Simulated) -> NDArray[np.bool_]:
        """Which queries have a larger error than with another method in the same runs, by more than twice the standard error of
        the difference."""
        apart = self.off**2 - other.off**2
        return np.asarray(apart.mean(axis=0) > SURE * apart.std(axis=0) / np.sqrt(len(apart)) + ZERO)


class GroupDiagnosis(Frozen):
    """What a method does to the answers of one group.

    ratio     their mean squared error over that of the noisy answers; NaN for exact answers
    bias      the mean of fitted minus true answer
    worse     how many of them have a larger error than under least squares
    best      the method with the least error, and those whose error cannot be told from its error, run by run
    """

    name: str
    ratio: float
    bias: float
    worse: int
    best: tuple[str, ...]


class Diagnosis(Frozen, eq=False):
    """What a method does to answers around a table. The best method of all is that with the least sum of the groups' ratios."""

    method: str
    groups: tuple[GroupDiagnosis, ...]
    best: tuple[str, ...]


def diagnosed(noisy: NoisyAnswers, truth: Array, method: str, errors: Errors, *, runs: int | None = None) -> Diagnosis:
    """The diagnosis of a method if the answers are noisy versions of `truth`, (queries,). `runs` runs are simulated, at least 2,
    by default as many as are quick."""
    told = simulated(noisy, truth, errors, runs=runs or runs_for(noisy))
    worse = told[method].worse(told["ols"])
    groups, scaled = list[GroupDiagnosis](), list[dict[str, Array]]()
    for group in noisy.groups:
        at, spread = noisy.slices[group.name], float(group.variances.mean())
        losses = {name: each.losses(at) for name, each in told.items()}
        ratio = float(losses[method].mean()) / spread if spread > 0 else float("nan")
        groups.append(GroupDiagnosis(name=group.name, ratio=ratio, bias=float(told[method].bias[at].mean()),
                                     worse=int(worse[at].sum()), best=least_error(losses)))
        scaled.append({name: each / (spread or 1.0) for name, each in losses.items()})
    return Diagnosis(method=method, groups=tuple(groups), best=least_error({
        name: np.sum([each[name] for each in scaled], axis=0) for name in told}))


def least_error(losses: dict[str, Array]) -> tuple[str, ...]:
    """The method with the least mean loss, then those whose loss is not significantly larger: the mean difference is below two of
    its standard errors. Losses are (runs,), with the same noise in each run for all methods."""
    best = min(losses, key=lambda name: float(losses[name].mean()))
    apart = {name: each - losses[best] for name, each in losses.items() if name != best}
    return (best, *(name for name, each in apart.items() if each.mean() <= SURE * each.std() / np.sqrt(len(each))))


def simulated(noisy: NoisyAnswers, truth: Array, errors: Errors, *, methods: tuple[str, ...] = tuple(METHODS),
              runs: int = 200) -> dict[str, Simulated]:
    """Errors of methods for exact answers `truth`, (queries,), over `runs` draws of noise, the same for all methods. If a fit
    fails, the noisy answers are kept, as in a statement."""
    if runs < 2:
        raise ValueError("a standard error needs two runs or more")
    off = {method: np.empty((runs, len(truth))) for method in methods}
    for run in range(runs):
        again = noisy.with_answers(np.where(noisy.exact, noisy.answers, truth + errors()))
        for method in methods:
            try:
                off[method][run] = fit(again, method).answers - truth
            except Error:
                off[method][run] = again.answers - truth
    return {method: Simulated(off=each) for method, each in off.items()}


def can_be_simulated(noisy: NoisyAnswers) -> bool:
    """Whether the table is small enough to be fitted hundreds of times."""
    sums = int((~of_one_cell(noisy.matrix)).sum())
    return noisy.cells <= MOST_CELLS and sums <= MOST_SUMS and noisy.matrix.nnz <= MOST_ENTRIES


def runs_for(noisy: NoisyAnswers) -> int:
    """The number of simulations for a table of this size."""
    return min(MOST_RUNS, max(LEAST_RUNS, WORK // noisy.cells))


def shapes(noisy: NoisyAnswers, total: float | None) -> Iterator[tuple[str, Array]]:
    """Tables for which errors are predicted before anything is known of the rows, each with its name, (cells,): those for which
    methods differ most. If the number of rows is not public, each cell of the even table has about one standard error of rows."""
    last = max(noisy.groups, key=lambda group: group.stage)
    each = max(1.0, float(np.rint(np.sqrt(np.median(last.variances)))))
    rows = each * noisy.cells if total is None else total
    if total is None:
        yield "no rows", np.zeros(noisy.cells)
    yield f"{rows:,.0f} rows, spread evenly", np.full(noisy.cells, rows / noisy.cells)
    if noisy.cells > 1:
        yield f"{rows:,.0f} rows, all in one cell", np.where(np.arange(noisy.cells) == 0, rows, 0.0)


def zeroed(found: FittedTable) -> float:
    """The fraction of cells that are fitted at zero."""
    return float((np.abs(found.cells) <= ZERO).mean())


def clipping_bias(noisy: NoisyAnswers, found: FittedTable) -> Array:
    """How much clipping raises each answer, (queries,): the mean of |noise| of a cell, added for each cell that is fitted at
    zero. About half of the empty cells are clipped, by that much on average. Measured queries correct part of this for their own
    answers."""
    return np.asarray(noisy.matrix @ ((np.abs(found.cells) <= ZERO) * mean_noise(noisy)))


def independent_errors(noisy: NoisyAnswers, draw: Uniform) -> Errors:
    """Independent noise of the given kinds and variances, from a seeded source of uniform numbers; none for exact answers."""
    def errors() -> Array:
        parts = list[Array]()
        for group in noisy.groups:
            at: Any = draw.random(len(group.answers))
            at = np.clip(at, 1e-16, 1 - 1e-16)
            laplace = np.sign(0.5 - at) * np.log1p(-2 * np.abs(at - 0.5)) / np.sqrt(2)
            parts.append(group.deviations * (scipy.special.ndtri(at) if group.noise == "gaussian" else laplace))
        return np.concatenate(parts)
    return errors


def mean_noise(noisy: NoisyAnswers) -> Array:
    """The mean of |noise| of each cell, (cells,), in standard deviations sqrt(2 / pi) for the normal distribution and sqrt(1 / 2)
    for Laplace's. A cell without a query of its own has the standard deviation of its least squares estimate, treated as
    normal."""
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
