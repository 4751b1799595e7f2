"""What auditors and owners can see of all analysts over HTTP, and what owners can change, in the shapes of `oversight_bodies`.

Nothing here checks the role of the user: the vault does, at each call. Answers of analysts are never included.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from dpsql import __version__
from dpsql.answers.listings import price_in_words, price_of_entry
from dpsql.answers.spending import ALL, BudgetLine
from dpsql.dbapi import Connection
from dpsql.errors import OperationalError
from dpsql.server.front.statements.oversight import price_in_numbers
from dpsql.server.front.statements.remote_session import RemoteLedger
from dpsql.server.link.told_to_overseers import MOST_LISTED, ListedStatements, UserState
from dpsql.server.link.vault_calls import AccountState

if TYPE_CHECKING:
    from dpsql.ledgers.ledger_reports import Entry

Terms = tuple[str, str, str, str, str]
"""The search for statements: the analyst, a part of the text, the outcome, and times since and until; "" matches all."""
TITLES = ("number", "at", "analyst", "outcome", "cost", "epsilon", "rho", "delta", "statement")
MOST_FAILURES = 1000  # in a list; older ones are left out
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # spreadsheets take text that begins with one of these for a formula


def statements_of(connection: Connection, terms: Terms, before: int, most: int) -> dict[str, Any]:
    found = _ledger(connection).listed(*terms, before, most)
    return {"statements": [_statement(entry) for entry in found.entries], "found": found.found, "before": found.before or None}


def _statement(entry: Entry) -> dict[str, Any]:
    return {"number": entry.seq, "at": entry.at, "analyst": entry.account.analyst, "sql": entry.sql,
            "cost": price_of_entry(entry), "outcome": "shared" if entry.told is not None else entry.outcome}


def statements_csv(connection: Connection, terms: Terms, most: int) -> bytes:
    """All statements that match, newest first, as comma-separated values. Raises OperationalError if they have more than `most`
    bytes."""
    made = io.StringIO()
    rows = csv.writer(made)
    rows.writerow(TITLES)
    for page in _pages(connection, terms):
        for entry in page.entries:
            rows.writerow([entry.seq, entry.at, _text(entry.account.analyst), _statement(entry)["outcome"], price_of_entry(entry),
                           *price_in_numbers(entry.charge), _text(entry.sql)])
        if made.tell() > most:
            raise OperationalError(f"a list can have at most {most} bytes", code="answer-size",
                                   try_="an analyst, or a shorter time")
    return made.getvalue().encode()


def _pages(connection: Connection, terms: Terms) -> Iterator[ListedStatements]:
    before = 0
    while True:
        found = _ledger(connection).listed(*terms, before, MOST_LISTED)
        yield found
        before = found.before
        if not before:
            return


def _text(value: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{value}" if value.startswith(FORMULA) else value


def accounts(connection: Connection) -> dict[str, Any]:
    """The accounts of the budget: first the total, then one for each user and for each analyst who was charged."""
    ledger = _ledger(connection)
    states, users = ledger.accounts(), {user.name: user for user in ledger.users()}
    late = Counter[str]()
    for each in ledger.late_outcomes():
        late[each.analyst] += each.number
    whole, *own = (_account(state, users.get(state.analyst or ""), late) for state in states)
    return {"budget": connection.session.budget.name, "total": whole, "accounts": own}


def _account(state: AccountState, user: UserState | None, late: Mapping[str, int]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "whose": state.analyst or ALL, "role": user and user.role, "closed": user and user.closed,
        "signs_on": user is not None and user.signs_on, "limit": None, "left": None,
        "share": None, "spent": price_in_words(state.spent), "statements": state.statements, "failed": state.failed,
        "may_fail": state.incidents, "late": late.get(state.analyst or "", 0), "waits_seconds": state.waits}
    if state.total is not None:
        line = BudgetLine(whose=state.analyst, total=state.total, spent=state.spent)
        told |= {"limit": str(state.total), "left": line.left_exactly(), "share": float(1 - line.share_left)}
    return told


def incidents(connection: Connection) -> dict[str, Any]:
    """The statements that failed after their charge, newest first; how many were stopped, and why; and how many outcomes left
    late."""
    ledger = _ledger(connection)
    return {"failures": [{"number": each.seq, "at": each.at, "analyst": each.account.analyst, "sql": each.sql,
                          "forgiven": each.forgiven} for each in reversed(ledger.failures()[-MOST_FAILURES:])],
            "stopped": [{"analyst": each.analyst, "cause": each.cause, "number": each.number}
                        for each in ledger.stopped_statements()],
            "late": [{"analyst": each.analyst, "step": each.step, "number": each.number} for each in ledger.late_outcomes()]}


def checks(connection: Connection) -> dict[str, Any]:
    """The outcomes of checks; the whole ledger is read, which may take long."""
    return {"checks": [{"name": each.name, "fine": each.fine, "words": each.words} for each in _ledger(connection).checks()]}


def health(connection: Connection, *, most: int, under_way: int, waiting: int) -> dict[str, Any]:
    """The state of the server: of the vault and the ledger, as the vault reports it, and of the requests in this process."""
    state = _ledger(connection).vault_state()
    return {"version": __version__, "started": dt.datetime.fromtimestamp(state.started, dt.UTC).isoformat(timespec="seconds"),
            "uptime_seconds": max(0.0, time.time() - state.started), "connections": state.channels,
            "most_connections": min(most, state.most_channels), "under_way": under_way, "waiting": waiting,
            "events": state.events, "ledger_bytes": state.ledger_bytes, "checkpoint": state.checkpoint or None,
            "checkpoint_at": state.checkpoint_at or None}


def added(connection: Connection, name: str) -> dict[str, Any]:
    made = _ledger(connection).add_user(name)
    return {"name": made.name, "password": made.password}


def closed(connection: Connection, name: str, *, closed: bool) -> dict[str, Any]:
    _ledger(connection).set_closed(name, closed=closed)
    return {}


def _ledger(connection: Connection) -> RemoteLedger:
    return cast(RemoteLedger, connection.session.ledger)
