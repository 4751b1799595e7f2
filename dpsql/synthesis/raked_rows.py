"""Rows of a drawn table chosen anew, so that some sums over them have given values.

Each row gets the weight exp(sum of lambda_i f_i(row)), with f_i what the row adds to sum i, and then occurs as often as its
weight says, rounded down or up. Of all weights that give these sums, these are nearest to equal weights in relative entropy:
the columns that the sums do not read change as little as they can (Deville and Sarndal, 1992, raking). Everything here is
public.
"""

from __future__ import annotations

import numpy as np

from dpsql.models.sampling import Places, UniformDraws
from dpsql.workload.factors import Array

MOST_NUMBERS = 20_000_000  # rows times sums: a larger table is drawn again without weights
STEPS, LEAST = 60, 1e-9  # of Newton's method: at most, and the size of a step that changes nothing
FARTHEST = 30.0  # of a logarithm of a weight from 0


def weights(added: Array, sums: Array, errors: Array) -> Array:
    """Weights of rows, with mean 1, such that the weighted sums of the columns of `added` are about `sums`, which may be off by
    `errors`. If no weights give these sums, they give others nearby."""
    rows = len(added)
    size = np.maximum(np.abs(added).max(axis=0, initial=0), 1e-300)
    f, goal, slack = added / size, sums / size / rows, (errors / size) ** 2 / rows
    at, value, found = np.zeros(f.shape[1]), *_dual(f, goal, slack, np.zeros(f.shape[1]))
    for _ in range(STEPS):
        mean = found @ f / rows
        slope = mean - goal + slack * at
        second = (f * found[:, None]).T @ f / rows - np.outer(mean, mean) + np.diag(slack + 1e-12)
        step, part = np.linalg.lstsq(second, -slope, rcond=None)[0], 1.0
        while part > LEAST:
            new_value, new = _dual(f, goal, slack, at + part * step)
            if new_value <= value + 1e-4 * part * float(slope @ step):
                break
            part /= 2
        else:
            return found
        at, value, found = at + part * step, new_value, new
        if float(np.abs(slope @ step)) < LEAST**2:
            break
    return found


def _dual(f: Array, goal: Array, slack: Array, at: Array) -> tuple[float, Array]:
    """The convex function whose minimum gives the weights, and the weights there."""
    logs = np.clip(f @ at, -FARTHEST, FARTHEST)
    top = float(logs.max())
    found = np.exp(logs - top)
    mean = float(found.mean())
    return top + float(np.log(mean)) - float(goal @ at) + float(slack @ at**2) / 2, found / mean


def chosen(weight: Array, added: Array, draws: UniformDraws) -> Places:
    """As many rows as there are, by their indices: each as often as its weight says, rounded down or up, in random order. Rows
    that add alike are next to each other in the list from which they are drawn, so that sums are close to the weighted ones."""
    order = np.lexsort(added.T) if added.shape[1] else np.arange(len(added))
    ends = np.cumsum(weight[order])
    points = (np.arange(len(order)) + draws.random(1)[0]) * (ends[-1] / len(order))
    taken = order[np.minimum(np.searchsorted(ends, points, side="right"), len(order) - 1)]
    return np.asarray(taken[np.argsort(draws.random(len(order)), kind="stable")], dtype=np.int64)
