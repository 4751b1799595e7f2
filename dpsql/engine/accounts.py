"""What was spent, what is left, and on which statements."""

from __future__ import annotations

from dpsql.accounting.cost import NOTHING
from dpsql.answers.spending import Spending, spending
from dpsql.engine.session import Session
from dpsql.kernel.ledger import Entry


def budget_of(session: Session) -> Spending:
    """The state of the session's budget, with the ledger read anew."""
    session.ledger.refresh()
    names = (None, session.analyst)
    entries = [entry for entry in session.ledger.entries(session.budget.name) if entry.charge != NOTHING]  # not of online models
    last = next((entry.charge for entry in reversed(entries) if entry.account == session.account.named), None)
    return spending(session.budget, session.analyst, {name: session.ledger.spent(session.budget.name, name) for name in names},
                    [entry.charge for entry in entries], len(session.ledger.failed(session.account)), last=last)


def left_in_budget(session: Session) -> list[str]:
    """What is left of the total and of this analyst's share, as text."""
    return [f"{account.left()} ({account.whose or 'all'})" for account in budget_of(session).accounts]


def releases_of(session: Session) -> list[Entry]:
    """The statements this analyst was charged for, with their answers."""
    return session.ledger.entries(session.budget.name, session.analyst)
