"""Bounded least squares over many cells, by a semismooth Newton method on the dual problem.

Queries about single cells make the objective separable: given the forces lambda that all other queries exert, each cell is its
own goal plus (matrix' lambda) / curvature, clipped to its bounds. What remains is a concave maximisation over lambda, whose
dimension is the number of these other queries, not of cells; its gradient is piecewise linear, so Newton steps end at the exact
solution. Cells that no single query is about get a proximal term around the last solution, which is repeated.

No library solves this problem: active-set solvers stop at about a thousand cells, and interior-point and splitting solvers
end counts away from the solution.

Source: Li, Sun and Toh, A Highly Efficient Semismooth Newton Augmented Lagrangian Method, SIAM J. Optim. 2018, for the method;
Hager and Zhang, A New Conjugate Gradient Method with Guaranteed Descent and an Efficient Line Search, SIAM J. Optim. 2005, for
the length of steps; Rockafellar, Monotone Operators and the Proximal Point Algorithm, SIAM J. Control Optim. 1976, for the
repetition.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from dpsql.frozen import Frozen
from dpsql.microdata.noisy_answers import their_cells
from dpsql.microdata.optimality import BoundedFit, Proposal, residual
from dpsql.trusted.cached import cached_property
from dpsql.workload.factors import Array

STEPS = 200  # Newton steps, at most
HALVINGS = 40
DECREASE = 1e-4  # share of the decrease that the slope foretells, at least
ROUNDED = 1e-13  # of a value: its rounding errors
REPEATS = 60  # proximal steps, at most
PROXIMAL = 1e-2  # weight of the proximal term, where the largest weight is 1
MEASURED = 1e-9  # weight above which a cell needs none
EXACT, NEAR = 1e-14, 1e-10  # of the largest number: residual at which the steps end, and below which they end after
IDLE = 2  # steps that do not halve it
DENSE = 3000  # queries up to which Newton's linear system is factorised; above, conjugate gradients
SMALL = 2**17  # numbers of a matrix up to which it is dense
RIDGES = (1e-12, 1e-8, 1e-5, 1e-3)  # of the diagonal of the system, which is singular if given answers repeat each other


class _Dual(Frozen, eq=False):
    """Minimise 1/2 sum d (x - centre)^2 + 1/2 sum v (r - goals)^2 with r = C x, both between bounds. C is (queries x cells)."""

    matrix: Any
    goals: Array
    weights: Array
    low: Array
    high: Array
    centre: Array
    d: Array
    least: Array
    most: Array

    @cached_property
    def softness(self) -> Array:
        """1 / v, and 0 for given answers."""
        return np.divide(1.0, self.weights, out=np.zeros(len(self.weights)), where=self.weights > 0)

    @cached_property
    def scale(self) -> float:
        return 1.0 + max(float(np.abs(part).max(initial=0.0)) for part in (self.goals, self.centre))

    @cached_property
    def columns(self) -> Any:
        """The matrix, stored by cells."""
        return self.matrix if isinstance(self.matrix, np.ndarray) else self.matrix.tocsc()

    @cached_property
    def transposed(self) -> Any:
        return self.matrix.T

    def primal(self, force: Array) -> tuple[Array, Array]:
        """The cells and the answers that minimise the Lagrangian."""
        cells = np.clip(self.centre + (self.transposed @ force) / self.d, self.least, self.most)
        return cells, np.clip(self.goals - self.softness * force, self.low, self.high)

    def value(self, force: Array, cells: Array, answers: Array) -> float:
        """Minus the dual objective."""
        away, off = cells - self.centre, answers - self.goals
        return float(force @ (self.matrix @ cells - answers) - (self.d * away**2).sum() / 2 - (self.weights * off**2).sum() / 2)

    def step(self, cells: Array, answers: Array, gradient: Array, ridge: float) -> Array:
        """The Newton step. A query none of whose cells is free gets the curvature that it would have if all were."""
        free = np.flatnonzero((cells > self.least) & (cells < self.most))
        loose = self.softness * ((answers > self.low) & (answers < self.high))
        root, spread = self.columns[:, free], 1 / self.d[free]
        product = (root * spread if isinstance(root, np.ndarray) else root @ scipy.sparse.diags_array(spread)) @ root.T
        curved = product.diagonal() + loose
        stuck = curved <= 0
        scale = np.sqrt(np.where(stuck, (self.columns**2) @ (1 / self.d) + 1e-300, curved) if stuck.any() else curved)
        right, rest = -gradient / scale, loose / scale**2 + stuck + ridge
        if len(right) > DENSE:
            operator = scipy.sparse.linalg.LinearOperator(
                (len(right), len(right)), matvec=lambda v: (product @ (v.reshape(-1) / scale)) / scale + rest * v.reshape(-1))
            found, _ = scipy.sparse.linalg.cg(operator, right, rtol=1e-11, maxiter=2000)
        else:
            dense = product if isinstance(product, np.ndarray) else product.toarray()
            found = _factorised(dense / scale / scale[:, None], rest, right)
        return np.asarray(found / scale)

    def moved(self, force: Array, cells: Array, answers: Array, gradient: Array,
              value: float) -> tuple[Array, tuple[Array, Array]] | None:
        """New forces with their cells and answers, with a lower value or half the gradient; None if there are none. Where values
        are equal but for rounding, the slope along the step decides (the approximate conditions of Hager and Zhang).

        A nearly singular system gives steps that are far too long, so it is raised until a step of it helps.
        """
        off = _largest(gradient)
        for ridge in RIDGES:
            step, share = self.step(cells, answers, gradient, ridge), 1.0
            slope = float(gradient @ step)
            for _ in range(HALVINGS):
                tried = force + share * step
                there = self.primal(tried)
                after, found = self.matrix @ there[0] - there[1], self.value(tried, *there)
                level = found <= value + ROUNDED * abs(value) and float(after @ step) <= -(1 - 2 * DECREASE) * slope
                if found <= value + DECREASE * share * slope or _largest(after) < off / 2 or level:
                    return tried, there
                share /= 2
        return None

    def solve(self, force: Array) -> Array:
        """The forces at which the cells have the answers, from a first guess; the last ones if the steps end before."""
        cells, answers = self.primal(force)
        gradient, value = self.matrix @ cells - answers, self.value(force, cells, answers)
        best, idle = np.inf, 0
        for _ in range(STEPS):
            off = _largest(gradient)
            idle = 0 if off < best / 2 or off > NEAR * self.scale else idle + 1
            best = min(best, off)
            if off <= EXACT * self.scale or idle > IDLE:
                break
            moved = self.moved(force, cells, answers, gradient, value)
            if moved is None:  # the value is exact to its rounding errors only
                break
            force, (cells, answers) = moved
            gradient, value = self.matrix @ cells - answers, self.value(force, cells, answers)
        return force


def _factorised(system: Array, rest: Array, right: Array) -> Array:
    """The solution of (system + diag(rest)) x = right with as small a ridge as Cholesky's factorisation needs."""
    at = np.diag_indices(len(right))
    for ridge in (0.0, 1e-9, 1e-6):
        raised = system.copy()
        raised[at] += rest + ridge
        try:
            return np.asarray(scipy.linalg.cho_solve(scipy.linalg.cho_factor(raised, lower=True, overwrite_a=True), right))
        except np.linalg.LinAlgError:
            continue
    return right


def dual_newton(problem: BoundedFit) -> Proposal:
    """The solution of the problem, or the last iterate when the steps ran out; the caller checks it."""
    size = len(problem.least)
    others = ~problem.single
    own, pulled = of_cells(problem)
    near = np.where(own > MEASURED, 0.0, PROXIMAL)
    here = np.clip(np.zeros(size) if problem.start is None else problem.start, problem.least, problem.most)
    force, matrix, before = np.zeros(int(others.sum())), problem.matrix[others], np.inf
    if len(force) * size <= SMALL:
        matrix = matrix.toarray()
    for _ in range(REPEATS):
        dual = _Dual(matrix=matrix, goals=np.where(problem.low == problem.high, problem.low, problem.goals)[others],
                     weights=problem.weights[others], low=problem.low[others], high=problem.high[others],
                     centre=(pulled + near * here) / (own + near), d=own + near, least=problem.least, most=problem.most)
        force = dual.solve(force)
        here, answers = dual.primal(force)
        multipliers = np.zeros(len(problem.goals))
        multipliers[others] = np.where(problem.bounded[others], force + dual.weights * (answers - dual.goals), 0.0)
        found = Proposal(cells=here, multipliers=multipliers)
        if not near.any():
            break
        told = residual(problem, found)
        off = max(told.slope, told.bounds, told.slackness)
        if off <= 0.01 * told.allowed or (told.holds and off > before / 2):
            break
        before = off
    return found


def _largest(numbers: Array) -> float:
    return float(np.abs(numbers).max(initial=0.0))


def of_cells(problem: BoundedFit) -> tuple[Array, Array]:
    """What the queries about single cells contribute to each cell: the sum of their weights, and of weight times goal, both
    (cells,)."""
    alone, size = problem.single & (problem.weights > 0), len(problem.least)
    cells, factors = their_cells(problem.matrix, alone)
    weights = problem.weights[alone] * factors
    return (np.bincount(cells, weights * factors, size).astype(float),
            np.bincount(cells, weights * problem.goals[alone], size).astype(float))


def measured_each(problem: BoundedFit) -> bool:
    """Whether queries about single cells measure every cell, so that no proximal term is needed."""
    return bool((of_cells(problem)[0] > MEASURED).all())
