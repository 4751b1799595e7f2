"""The first of several sums that reaches its threshold."""

from __future__ import annotations

from dpsql.kernel.looks.context import Context
from dpsql.kernel.looks.measure import dense
from dpsql.plan.certificate import Certificate
from dpsql.requests import SUM_GRAIN, Above, Stopped


def look(request: Above, certificate: Certificate, context: Context) -> Stopped:
    """See `Above`; one scan reads all the sums."""
    plan = request.plan
    totals = dense(context.reader.rows(context.sql(plan)), 0, len(plan.totals), ((),))
    limit = context.noise.laplace([0], request.scale_limit)[0]
    for i, step in enumerate(request.steps):
        unit = max(1, plan.summands[step.at].l1) * certificate.rows
        reached = SUM_GRAIN * totals[step.at][0] // unit
        wanted = int(SUM_GRAIN * step.threshold // unit)
        if reached + context.noise.laplace([0], request.scale_query)[0] >= wanted + limit:
            return Stopped(step=i)
    return Stopped(step=None)
