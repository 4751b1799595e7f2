"""Slacks: of the tightest test plus noise, and of one test after the other until some have failed."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.kernel.looks.context import Context
from dpsql.kernel.looks.measure import dense
from dpsql.kernel.looks.race import drawn
from dpsql.plan.certificate import Certificate
from dpsql.requests import Failed, Failing, Slack, Slackened, Within


def look(request: Slack, certificates: Sequence[Certificate], context: Context) -> Slackened:
    """The slacks of the tests, or the least of them, each with noise."""
    exact = slacks(request.tests, certificates, context)
    told = [min(exact)] if request.together else exact
    return Slackened(slacks=tuple(slack + drawn(request.noise, context) for slack in told))


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
    """The exact slack of every test; a plan that several share is read once."""
    read: dict[int, list[list[int]]] = {}
    found = []
    for test, certificate in zip(tests, certificates, strict=True):
        plan = test.plan
        if plan.keys or id(plan) not in read:
            read[id(plan)] = dense(context.reader.rows(context.sql(plan)), len(plan.keys), len(plan.totals), test.cells)
        found.append(test.slack(read[id(plan)], certificate.below.rows or 1))
    return found
