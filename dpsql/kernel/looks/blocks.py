"""Blocks of integer queries over the cells of a view, with noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsql.kernel.looks.cells import WORDS, Filled, read
from dpsql.kernel.looks.context import Context
from dpsql.requests import Blocked, Blocks
from dpsql.strategies.base import Block
from dpsql.workload.factors import Exact


def look(request: Blocks, context: Context) -> Blocked:
    """The cells that have rows are read once; each block adds them up over its axes."""
    filled = read(request.cells, [axis.values for axis in request.axes], context)
    draw = context.noise.laplace if request.noise == "laplace" else context.noise.gaussian
    found = []
    for block in request.blocks:
        axes = range(len(request.axes)) if request.line else block.axes
        table = filled.marginal(axes)
        exact = answers(block, table.reshape(-1) if request.line else table, filled).reshape(-1)
        found.append(added(exact, draw([0] * len(exact), block.scale)))
    return Blocked(answers=tuple(found))


def answers(block: Block, table: Exact, filled: Filled) -> Exact:
    """The exact answers, in 64 bits where these hold every sum on the way."""
    largest = math.prod(max(factor.column_powers(1), default=0) for factor in block.factors)
    return block.measure(table if largest * filled.total < WORDS else table.astype(object))


def added(exact: Exact, noise: Sequence[int]) -> tuple[int, ...]:
    """Sums with their noise, of which 64 bits hold each, and perhaps not both together."""
    drawn = np.array(noise, dtype=np.int64)
    small = exact.dtype != object and max(int(drawn.max(initial=0)), -int(drawn.min(initial=0))) < WORDS
    return tuple((exact + drawn if small else exact.astype(object) + drawn.astype(object)).tolist())
