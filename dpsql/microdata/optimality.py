"""The problem that every method solves once or several times, and the check that a table is its solution.

Minimise half the sum of weight * (query(x) - goal)^2 over tables x, where cells, and the answers to some queries, lie between
bounds. Solvers may report success and be whole counts away from the optimum, so their status is not believed: the conditions of
Karush, Kuhn and Tucker are evaluated on what they return. As the problem is convex, these conditions suffice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import DataError
from dpsql.frozen import Frozen
from dpsql.microdata.noisy_answers import Sparse, of_one_cell, their_cells
from dpsql.trusted.cached import cached_property
from dpsql.workload.factors import Array

TOLERANCE, RELATIVE = 1e-6, 1e-10  # counts by which the conditions may fail, and the part of the largest goal that is added
SNAP = 1e-9  # of the size of the numbers: bounds that cross by less are equal


class BoundedFit(Frozen, eq=False):
    """The problem. `matrix` is (queries x cells); `goals`, `weights`, `low` and `high` are (queries,); `least` and `most` are
    (cells,). Bounds may be infinite; where low = high, the answer is given. Queries of weight zero are given answers.
    A search may begin with `start`, (cells,)."""

    matrix: Sparse
    goals: Array
    weights: Array
    low: Array
    high: Array
    least: Array
    most: Array
    start: Array | None = None

    @cached_property
    def single(self) -> NDArray[np.bool_]:
        """Which queries are about one cell: (queries,)."""
        return of_one_cell(self.matrix)

    @cached_property
    def bounded(self) -> NDArray[np.bool_]:
        """Which queries have bounds: (queries,)."""
        return np.isfinite(self.low) | np.isfinite(self.high)

    @cached_property
    def curvature(self) -> Array:
        """The diagonal of the Hessian, (cells,), with zeros replaced by its largest number, or by 1 if no query has a weight. In
        that case every table within the bounds is optimal, and forces, which should be zero, are as large as rounding errors make
        them."""
        found: Any = self.matrix.power(2).T @ self.weights
        return np.where(found > 0, found, float(found.max(initial=0.0)) or 1.0)

    @cached_property
    def tolerance(self) -> float:
        return TOLERANCE + RELATIVE * float(np.abs(self.goals).max(initial=0.0))


def bounded_fit(matrix: Sparse, goals: Array, weights: Array, *, low: Array | None = None, high: Array | None = None,
                least: float = 0.0, start: Array | None = None) -> BoundedFit:
    """The problem, with weights scaled so that the largest is 1; bounds of single-cell queries become bounds of the cells.

    Raises DataError if the bounds of a cell contradict each other.
    """
    count, size = matrix.shape
    lower = np.full(count, -np.inf) if low is None else low.astype(float)
    upper = np.full(count, np.inf) if high is None else high.astype(float)
    bottom, top = np.full(size, least), np.full(size, np.inf)
    single = of_one_cell(matrix) & (np.isfinite(lower) | np.isfinite(upper))
    if single.any():
        cells, factors = their_cells(matrix, single)
        ends = np.sort(np.stack([lower[single] / factors, upper[single] / factors]), axis=0)
        np.maximum.at(bottom, cells, ends[0])
        np.minimum.at(top, cells, ends[1])
        gap = SNAP * (1 + np.abs(np.where(np.isfinite(top), top, 0.0)))
        if (bottom > top + gap).any():
            raise infeasible("one cell")
        top = np.maximum(top, bottom)
        lower, upper = np.where(single, -np.inf, lower), np.where(single, np.inf, upper)
    scale = float(weights.max(initial=0.0))
    return BoundedFit(matrix=matrix, goals=goals, weights=weights / scale if scale > 0 else weights, low=lower, high=upper,
                      least=bottom, most=top, start=start)


def infeasible(what: str) -> DataError:
    """The error for exact answers that no table has."""
    return DataError(f"no table without negative cells has these exact answers: the answers of {what} contradict the others",
                     code="infeasible", try_="exact answers that come from one table")


class Proposal(Frozen, eq=False):
    """A table that a solver returns, (cells,), and the multipliers of the bounds on answers, (queries,).

    A multiplier is the increase of the objective for each unit by which a binding bound is moved up: positive at a lower bound,
    negative at an upper one, of either sign for a given answer, and zero if no bound binds.
    """

    cells: Array
    multipliers: Array


class KktResidual(Frozen):
    """By how many counts the conditions of optimality fail.

    slope       how far a cell moves by one step down its own slope, projected to its bounds
    bounds      by how much a cell or an answer is beyond its bounds
    slackness   how far a bounded answer moves by such a step of its multiplier
    allowed     what is taken for rounding of floating-point numbers
    """

    slope: float
    bounds: float
    slackness: float
    allowed: float

    @property
    def holds(self) -> bool:
        """Whether the table is optimal up to `allowed`; never for NaN."""
        return all(number <= self.allowed for number in (self.slope, self.bounds, self.slackness))

    def worse(self, other: KktResidual) -> KktResidual:
        """The larger residuals of two problems, each relative to what the first allows."""
        ratio = self.allowed / other.allowed
        return KktResidual(slope=max(self.slope, other.slope * ratio), bounds=max(self.bounds, other.bounds * ratio),
                           slackness=max(self.slackness, other.slackness * ratio), allowed=self.allowed)


def residual(problem: BoundedFit, found: Proposal) -> KktResidual:
    """The conditions of optimality, evaluated on a table: gradient - matrix' multipliers is complementary to the cells, and the
    multipliers are complementary to the bounded answers. Each is zero if and only if its projected step does not move."""
    answers = problem.matrix @ found.cells
    force = problem.weights * (answers - problem.goals) - found.multipliers
    moved = np.clip(found.cells - (problem.matrix.T @ force) / problem.curvature, problem.least, problem.most)
    inside, within = np.clip(found.cells, problem.least, problem.most), np.clip(answers, problem.low, problem.high)
    held = problem.bounded
    stepped = np.clip(answers - found.multipliers, problem.low, problem.high)[held] - answers[held]
    return KktResidual(slope=_largest(moved - found.cells),
                       bounds=max(_largest(inside - found.cells), _largest(within - answers)),
                       slackness=max(_largest(stepped), _largest(found.multipliers[~held])), allowed=problem.tolerance)


def _largest(numbers: Array) -> float:
    return float(np.abs(numbers).max(initial=0.0))
