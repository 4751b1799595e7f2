"""Bounded least squares over few cells, by the active-set method of Lawson and Hanson in scipy.

Given answers become queries of a large weight, whose goals are moved by what the solution misses them until it does not (the
method of multipliers). An answer between bounds gets slacks above zero that fill the distance to its
bounds; the force that holds such a query is its multiplier, so the conditions of optimality hold up to the tiny violation.
Without bounds on cells the problem is linear and solved at once.

Source: Hestenes, Multiplier and Gradient Methods, J. Optim. Theory Appl. 1969, for given answers; Lawson
and Hanson, Solving Least Squares Problems, 1974, chapters 22 and 23.
"""

from __future__ import annotations

import numpy as np
import scipy

from dpsql.microdata.optimality import BoundedFit, Proposal
from dpsql.workload.factors import Array

HEAVY = 1e5  # root of the weight of what has to hold, where the largest weight is 1
CORRECTIONS = 4  # solutions, at most, each with given answers moved by as much as the one before misses them
ENTRIES = 2**23  # of the dense matrix
ROUNDS = 30  # active sets tried, for each variable


def fits(problem: BoundedFit) -> bool:
    """Whether the dense matrix of the problem, with its slacks, is small enough."""
    held = int(problem.bounded.sum()) + int(np.isfinite(problem.most).sum())
    rows, columns = problem.matrix.shape
    return int((rows + 2 * held) * (columns + 2 * held)) <= ENTRIES


def active_set(problem: BoundedFit) -> Proposal:
    """The solution of the problem. Raises RuntimeError if the search does not end, or if it does not support the bounds."""
    if np.isneginf(problem.least).all() and np.isposinf(problem.most).all():
        return _linear(problem)
    if not np.isfinite(problem.least).all():
        raise RuntimeError("all cells have a least value, or none has one")
    matrix = problem.matrix.toarray()
    moved = matrix @ problem.least
    roots = np.sqrt(problem.weights)
    held, given = problem.bounded, problem.low == problem.high
    between, capped = held & ~given, np.isfinite(problem.most)
    size, slacks = matrix.shape[1], int(between.sum())
    weighted = roots > 0
    parts = [np.hstack([roots[weighted, None] * matrix[weighted], np.zeros((int(weighted.sum()), 2 * slacks))])]
    goals = [roots[weighted] * (problem.goals - moved)[weighted]]
    parts.append(np.hstack([HEAVY * matrix[given], np.zeros((int(given.sum()), 2 * slacks))]))
    goals.append(HEAVY * (problem.low - moved)[given])
    unit = HEAVY * np.eye(slacks)
    parts.append(np.hstack([HEAVY * matrix[between], -unit, np.zeros_like(unit)]))
    goals.append(HEAVY * (problem.low - moved)[between])
    parts.append(np.hstack([np.zeros((slacks, size)), unit, unit]))
    goals.append(HEAVY * (problem.high - problem.low)[between])
    above = np.zeros((int(capped.sum()), size))
    above[np.arange(len(above)), np.flatnonzero(capped)] = HEAVY
    stacked = np.vstack([*parts, np.hstack([above, np.zeros((len(above), 2 * slacks))])])
    caps = HEAVY * np.eye(len(above))
    stacked = np.hstack([stacked, np.vstack([np.zeros((len(stacked) - len(above), len(above))), caps])])
    goal = np.concatenate([*goals, HEAVY * (problem.most - problem.least)[capped]])
    first, shift = int(weighted.sum()), np.zeros(int(given.sum()))
    for _ in range(CORRECTIONS):
        found = _nearest(stacked, goal)
        cells = found[:size] + problem.least
        answers = matrix @ cells
        off = (problem.low - answers)[given]
        shift += off
        if np.abs(off).max(initial=0.0) <= problem.tolerance / 10:
            break
        goal[first:first + len(off)] += HEAVY * off
    multipliers = np.zeros(len(problem.goals))
    multipliers[given] = HEAVY**2 * shift
    under, over = found[size:size + slacks], found[size + slacks:size + 2 * slacks]
    force = HEAVY**2 * (problem.low[between] + under - answers[between])
    multipliers[between] = np.where((under > 0) & (over > 0), 0.0, force)  # inside its bounds nothing holds an answer
    cells = np.minimum(cells, problem.most)
    return Proposal(cells=cells, multipliers=_refined(problem, matrix, cells, multipliers))


def _refined(problem: BoundedFit, matrix: Array, cells: Array, multipliers: Array) -> Array:
    """The multipliers, which are differences of nearly equal numbers, moved the least so that the slope of free cells is zero."""
    free, acting = (cells > problem.least) & (cells < problem.most), multipliers != 0
    if not acting.any() or not free.any():
        return multipliers
    slope = matrix.T @ (problem.weights * (matrix @ cells - problem.goals) - multipliers)
    moved = multipliers.copy()
    moved[acting] += scipy.linalg.lstsq(matrix[np.ix_(acting, free)].T, slope[free])[0]
    return moved


def _nearest(matrix: Array, goal: Array) -> Array:
    matrix, goal = _shorter(matrix, goal)
    found, _ = scipy.optimize.nnls(matrix, goal, maxiter=ROUNDS * matrix.shape[1])
    return np.asarray(found)


def _shorter(matrix: Array, goal: Array) -> tuple[Array, Array]:
    """A problem of the same solutions, with no more rows than columns and one."""
    if len(matrix) <= 2 * matrix.shape[1]:
        return matrix, goal
    triangle = np.asarray(scipy.linalg.qr(np.column_stack([matrix, goal]), mode="r")[0], dtype=float)[:matrix.shape[1] + 1]
    return triangle[:, :-1], triangle[:, -1]


def _linear(problem: BoundedFit) -> Proposal:
    """Least squares with given answers alone: one linear system for the cells and the multipliers, of minimal norm."""
    matrix, given = problem.matrix.toarray(), problem.low == problem.high
    if (problem.bounded & ~given).any():
        raise RuntimeError("answers between bounds need cells that are not negative")
    held = matrix[given]
    size, count = matrix.shape[1], len(held)
    system = np.block([[matrix.T @ (problem.weights[:, None] * matrix), -held.T], [held, np.zeros((count, count))]])
    right = np.concatenate([matrix.T @ (problem.weights * problem.goals), problem.low[given]])
    found = scipy.linalg.lstsq(system, right)[0]
    multipliers = np.zeros(len(problem.goals))
    multipliers[given] = found[size:]
    return Proposal(cells=found[:size], multipliers=multipliers)
