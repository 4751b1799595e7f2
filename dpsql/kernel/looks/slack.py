"""Slacks: of the tightest test plus noise, and of one test after the other until some have failed."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.kernel.looks.context import Context
from dpsql.kernel.looks.measure import dense
from dpsql.kernel.looks.race import drawn
from dpsql.plan.certificate import Certificate
from dpsql.requests import Failed, Failing, Slack, Slackened, Within


def look(request: Slack, certificates: Sequence[Certificate], context: Context) -> Slackened:
    """The least slack of the tests, with noise."""
    return Slackened(slack=min(slacks(request.tests, certificates, context)) + drawn(request.noise, context))


def failing(request: Failing, certificates: Sequence[Certificate], context: Context) -> Failed:
    """Which tests fail, up to the most that may be told."""
    limit = request.limit + context.noise.laplace([0], request.scale_limit)[0]
    found: list[bool] = []
    for slack in slacks(request.tests, certificates, context):
        if sum(found) == request.most:
            break
        found.append(slack + context.noise.laplace([0], request.scale_query)[0] <= limit)
    return Failed(failed=tuple(found))


def slacks(tests: Sequence[Within], certificates: Sequence[Certificate], context: Context) -> list[int]:
    """The exact slack of every test."""
    found = []
    for test, certificate in zip(tests, certificates, strict=True):
        plan = test.plan
        totals = dense(context.reader.rows(context.sql(plan)), len(plan.keys), len(plan.totals), test.cells)
        found.append(test.slack(totals, certificate.below.rows or 1))
    return found
