"""What solvers are asked, and what they answer; nothing of that is believed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.extensions.owned import Codes, Integers

Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Program:
    """max { sum x_r : 0 <= x_r <= w_r, for every entity e: sum of x_r over rows that name e <= c_e }."""

    owners: Codes
    weights: Integers
    capacities: Integers


@dataclass(frozen=True, slots=True)
class Point:
    """What a solver believes to be optimal: x for each row, and y for each entity, the price of its capacity."""

    rows: Reals
    prices: Reals


Door: TypeAlias = Callable[[Program, float], Point]
"""A solver: a program, and the error of the maximum that is tolerated. It may raise anything."""


def numbers(given: object, count: int) -> Reals:
    """What a solver gave, as so many finite numbers >= 0: zeros where it is not of that length, or no number."""
    found = np.asarray(given, dtype=np.float64)
    if found.shape != (count,):
        return np.zeros(count)
    return np.maximum(np.nan_to_num(found, nan=0.0, posinf=0.0, neginf=0.0), 0.0)
