"""When outcomes leave: what an analyst states of it, and what is told of it, over the wire and over HTTP alike."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from dpsql.dbapi import Cursor
from dpsql.engine.session import Session
from dpsql.errors import Error
from dpsql.server.front.statements.remote_session import RemoteKernel, RemoteLedger
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Show


def leave_after(session: Session, seconds: float) -> None:
    """Make outcomes of the session leave after this time (at most an hour) or later, so that outcomes ready by then are not late.
    0 means that no time is stated."""
    kernel: object = session.kernel
    if isinstance(kernel, RemoteKernel):
        kernel.pace = seconds


def stopped_for(session: Session, cause: str) -> None:
    """State the cause for which the statement of the session is interrupted from now on."""
    kernel: object = session.kernel
    if isinstance(kernel, RemoteKernel):
        kernel.cause = cause


def give_up_turn(session: Session) -> None:
    """Stop the statement of the session if it waits for its turn."""
    kernel: object = session.kernel
    if isinstance(kernel, RemoteKernel):
        kernel.give_up_turn()


def waits_of(session: Session) -> Iterator[str]:
    """A notice if the account's answers are delayed because many of them were late."""
    ledger: object = session.ledger
    with contextlib.suppress(Error):
        if isinstance(ledger, RemoteLedger) and (seconds := ledger.waits):
            yield (f"your answers leave after {seconds:g} s or later from now on, as too many were late; state a pace before a "
                   "slow statement (SET pace, or pace over HTTP), or ask the owner of the data to end this")


def waits_told(cursor: Cursor, text: str) -> Iterator[str]:
    """The same notice, if a statement was charged or shows what was spent."""
    made = cursor.made
    if parse(text) == Show(what="budget") if made is None else made.cost and not made.stored:
        yield from waits_of(cursor.connection.session)
