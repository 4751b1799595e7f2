"""A coin whose bias tells whether a count lies within an interval."""

from __future__ import annotations

from dpsql.kernel.looks.context import Context
from dpsql.kernel.looks.measure import dense
from dpsql.plan.certificate import Certificate
from dpsql.requests import VOTE_GRAIN, Vote, Voted


def look(request: Vote, certificate: Certificate, context: Context) -> Voted:
    """Yes with the log-odds that `Vote` says."""
    count = dense(context.reader.rows(context.sql(request.plan)), 0, 1, ((),))[0][0]
    score = request.score(count, certificate.rows) / 2
    return Voted(yes=context.noise.exponential([score, -score], request.scale * VOTE_GRAIN) == 0)
