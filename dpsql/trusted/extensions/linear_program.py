"""The input and output of solvers; their output is not trusted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen
from dpsql.trusted.extensions.owned import Codes, Integers

Reals = NDArray[np.float64]
Truths = NDArray[np.bool_]


class LinearProgram(Frozen, kw_only=False):
    """max { sum x_r : 0 <= x_r <= w_r, for every entity e: sum of x_r over rows that name e <= c_e }."""

    owners: Codes
    weights: Integers
    capacities: Integers


class Point(Frozen, kw_only=False):
    """A solver's proposed optimum: x for each row, and y for each entity, the dual price of its capacity."""

    rows: Reals
    prices: Reals


class Network(Frozen, kw_only=False):
    """Arcs from left to right nodes; `given[p]` is the additional flow of left node p, `room[q]` the capacity of node q."""

    tails: Integers
    heads: Integers
    sizes: Integers
    given: Integers
    room: Integers


def numbers(given: object, count: int) -> Reals:
    """A solver's answer as `count` finite numbers >= 0: zeros where it has another length or is not numeric."""
    found = np.array(given)
    if found.shape != (count,) or found.dtype.kind not in "fiu":
        return np.zeros(count)
    return np.maximum(np.nan_to_num(found.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0), 0.0)
