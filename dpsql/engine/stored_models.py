"""The online models of an account, which the ledger keeps as the answers to the statements that opened them."""

from __future__ import annotations

from dpsql.engine.session import Session
from dpsql.synthesis.online_model import OnlineModel, model_of_json
from dpsql.trusted.kernel.marks import ONLINE


def models(session: Session) -> dict[str, OnlineModel]:
    """The online models of the session's account, by name, oldest first."""
    found = session.ledger.holding(session.account, session.kernel.version, ONLINE)
    return {made.name: made for made in (model_of_json(each.body) for each in found if each.body.startswith(ONLINE))}
