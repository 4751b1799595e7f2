"""Blocks of integer queries over the cells of a view, with noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsql.kernel.looks.cells import WORDS, read
from dpsql.kernel.looks.context import Context
from dpsql.requests import Blocked, Blocks
from dpsql.workload.matrices import Exact


def look(request: Blocks, context: Context) -> Blocked:
    """The cells that have rows are read once; each block adds them up over its axes. Applied are the matrices that the cost is
    computed of: `Blocks.parts`."""
    parts = request.parts
    filled = read(request.cells, [axis.values for axis in request.axes], context)
    draw = context.noise.laplace if request.noise == "laplace" else context.noise.gaussian
    found = []
    for part in parts:
        line = request.line and part.axes  # all cells are one axis
        table = filled.marginal(range(len(request.axes))).reshape(-1) if line else filled.marginal(part.axes)
        exact = part.answers(table, filled.total).reshape(-1)
        found.append(added(exact, draw([0] * len(exact), part.scale)))
    return Blocked(answers=tuple(found))


def added(exact: Exact, noise: Sequence[int]) -> tuple[int, ...]:
    """Sums with their noise, of which 64 bits hold each, and perhaps not both together."""
    drawn = np.array(noise, dtype=np.int64)
    small = exact.dtype != object and max(int(drawn.max(initial=0)), -int(drawn.min(initial=0))) < WORDS
    return tuple((exact + drawn if small else exact.astype(object) + drawn.astype(object)).tolist())
