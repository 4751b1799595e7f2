"""Stored answers of periods that are found without planning the statement of each period.

The statements of the periods of one question have one form, so what identifies them follows from the plan of one of them. Each
file that asks compares what follows with what a second plan says, and else plans them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpsql.engine.session import Session
from dpsql.trusted.kernel.period_reads import PeriodReads
from dpsql.trusted.kernel.revisions import newest_of
from dpsql.trusted.plan.node import Node


def data_of_closed(reads: PeriodReads, views: Sequence[Node], session: Session) -> str:
    """What identifies the data of a statement whose answer stays once its periods are closed; see `Charged.data`."""
    from dpsql.planning.claimed_periods import revisions_of  # loaded only where tables grow

    newest = newest_of(revisions_of(views, session.revised)) if session.revised else 0
    return f"{reads} closed revised {newest}" if newest else f"{reads} closed"


def found_stored(session: Session, text: str, names: Mapping[int, tuple[str, str]]) -> dict[int, str]:
    """The stored answers that the account was told, by the places of their periods; `names` are the identities of the statements
    and of their data. Most were told to the same text, and are read at once; each of the others is looked up."""
    if not names:
        return {}
    told = {(answer.identity, answer.data): answer.body for answer in session.ledger.answers_to(session.account, text)}
    made = {}
    for at, (identity, data) in names.items():
        body = told.get((identity, data))
        if body is None:
            body = session.ledger.stored(session.account, identity, data)
        if body is not None:
            made[at] = body
    return made
