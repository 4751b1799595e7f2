"""The sparse vector technique on a ladder of counts."""

from __future__ import annotations

from dpsql.kernel.looks.context import Context
from dpsql.requests import Rung, Threshold


def look(request: Threshold, context: Context) -> Rung:
    """Climb until the noisy number of entities above a rung falls to the noisy limit; see `Threshold`."""
    counts = [0] * (request.rungs + 1)
    for key, count in context.reader.rows(context.sql(request.plan)):
        if key is not None and 0 <= key <= request.rungs:
            counts[key] += count
    limit = context.noise.laplace([request.limit], request.scale_limit)[0]
    above = sum(counts)
    for rung in range(request.rungs):
        above -= counts[rung]
        if context.noise.laplace([above], request.scale_query)[0] <= limit + rung * request.rise:
            return Rung(rung=rung)
    return Rung(rung=request.rungs)
