"""What the front tells the vault about a session's statements: when outcomes leave, and why a statement is interrupted. Notices
about delayed outcomes are the same over the wire and over HTTP."""

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
    if (kernel := _kernel_of(session)) is not None:
        kernel.pace = seconds


def stopped_for(session: Session, cause: str) -> None:
    """Set the cause that is reported if the session's statement is interrupted from now on."""
    if (kernel := _kernel_of(session)) is not None:
        kernel.cause = cause


def give_up_turn(session: Session) -> None:
    """Stop the statement of the session if it waits for its turn."""
    if (kernel := _kernel_of(session)) is not None:
        kernel.give_up_turn()


def _kernel_of(session: Session) -> RemoteKernel | None:
    """The calls to the vault's kernel; None for a session whose kernel is in this process."""
    kernel: object = session.kernel
    return kernel if isinstance(kernel, RemoteKernel) else None


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
