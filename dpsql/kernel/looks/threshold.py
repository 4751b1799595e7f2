"""The sparse vector technique on a ladder of counts."""

from __future__ import annotations

from dpsql.kernel.looks.context import Context
from dpsql.requests import Rung, Threshold


def look(request: Threshold, context: Context) -> Rung:
    """Climb until the noisy number of rows above a rung falls to the noisy limit; see `Threshold`."""
    rungs = len(request.limits)
    counts = [0] * (rungs + 1)
    for key, count in context.reader.rows(context.sql(request.plan)):
        if key is not None and 0 <= key <= rungs:
            counts[key] += count
    shared = context.noise.laplace([0], request.scale_limit)[0]
    above = sum(counts)
    for rung, limit in enumerate(request.limits):
        above -= counts[rung]
        if context.noise.laplace([above], request.scale_query)[0] <= limit + shared:
            return Rung(rung=rung)
    return Rung(rung=rungs)
