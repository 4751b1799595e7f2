"""Slacks plus noise."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.kernel.looks.context import Context
from dpsql.kernel.looks.measure import dense
from dpsql.kernel.looks.race import drawn
from dpsql.plan.certificate import Certificate
from dpsql.requests import Slack, Slackened


def look(request: Slack, certificates: Sequence[Certificate], context: Context) -> Slackened:
    """The least slack of the tests, with noise."""
    slacks = []
    for test, certificate in zip(request.tests, certificates, strict=True):
        plan = test.plan
        totals = dense(context.reader.rows(context.sql(plan)), len(plan.keys), len(plan.totals), test.cells)
        slacks.append(test.slack(totals, certificate.below.rows or 1))
    return Slackened(slack=min(slacks) + drawn(request.noise, context))
