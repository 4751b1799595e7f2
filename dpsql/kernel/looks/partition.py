"""The partition of an axis of the least noisy cost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsql.kernel.looks.cells import numbered, read
from dpsql.kernel.looks.context import Context
from dpsql.requests import Buckets, Partition
from dpsql.workload.factors import Exact


def look(request: Partition, context: Context) -> Buckets:
    """See `Partition`: a noisy cost for every block, then the least total from the finest blocks up."""
    sums = numbered(read(request.cells, [request.axis.values], context), [request.axis.numbers]).marginal((0,))
    costs = []
    for h, handicap in enumerate(request.handicaps):
        exact = deviations(sums, 2**h)
        noise = context.noise.laplace([0] * len(exact), request.scale)
        costs.append([number + more + handicap for number, more in zip(exact, noise, strict=True)])
    return Buckets(ends=cheapest(costs, len(sums)))


def deviations(sums: Exact, width: int) -> list[int]:
    """For each block of so many places the least sum of |x - t|, which is that of the larger half less that of the smaller."""
    full = len(sums) // width * width
    found = _from_median(np.sort(sums[:full].reshape(-1, width), axis=1)) if full else []
    return found + (_from_median(np.sort(sums[None, full:], axis=1)) if full < len(sums) else [])


def _from_median(rows: Exact) -> list[int]:
    half = rows.shape[1] // 2
    if not half:
        return [0] * len(rows)
    found: list[int] = (rows[:, -half:].sum(axis=1) - rows[:, :half].sum(axis=1)).tolist()
    return found


def cheapest(costs: Sequence[Sequence[int]], places: int) -> tuple[int, ...]:
    """Where the buckets of the cheapest partition end; a block is left whole where that is not dearer.

    >>> cheapest([[3, 3, 3], [5, 3], [7]], 3)
    (3,)
    """
    best = list(costs[0])
    whole = [[True] * len(best)]
    for here in costs[1:]:
        parts = [sum(best[i: i + 2]) for i in range(0, len(best), 2)]
        whole.append([mine <= theirs for mine, theirs in zip(here, parts, strict=True)])
        best = [min(mine, theirs) for mine, theirs in zip(here, parts, strict=True)]
    ends: list[int] = []
    while not ends or ends[-1] < places:
        start = ends[-1] if ends else 0
        h = max(h for h in range(len(costs)) if start % 2**h == 0 and whole[h][start >> h])
        ends.append(min(start + 2**h, places))
    return tuple(ends)
