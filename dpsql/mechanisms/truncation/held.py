"""Asking for a sum held to a level in every cell, and what its error is taken for."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

import numpy as np

from dpsql.estimates import Error, Estimate
from dpsql.mechanisms.base import Setting, Shared
from dpsql.mechanisms.truncation.cells import in_cell
from dpsql.plan.operators.shares import UNIT, Shares
from dpsql.requests import WIDEST, Balance, Held, Noise, Race, Request, spread_of


def held(task: Shared, setting: Setting, request: Callable[[Shares], Race | Balance],
         deviation: Callable[[Held], float]) -> Generator[Request, Any, Estimate]:
    """One request for each cell: rows of several entities have no cells in common that could share a price."""
    values, deviations = [], []
    for cell in setting.cells:
        there = in_cell(task, setting.keys, cell)
        released: Held = yield request(Shares(input=there.input, owners=task.owners, summand=task.summand))
        values.append(released.total / UNIT)
        deviations.append(deviation(released))
    return Estimate(values=np.array(values), linear=False,
                    slopes={(task.at, 0): (Error(kind="approximate", scale=1.0), np.array(deviations))})


def bearable(levels: Iterable[int], noise: Callable[[int], Noise]) -> tuple[int, ...]:
    """The levels whose noise may be asked for, at least one: with a tiny price the ladder ends early."""
    ladder = tuple(levels)
    return tuple(level for level in ladder if spread_of(noise(level)) <= WIDEST) or ladder[:1]


def parts(task: Shared) -> int:
    """Positive and negative values are held apart."""
    return 2 if Shares(input=task.input, owners=task.owners, summand=task.summand).signed else 1
