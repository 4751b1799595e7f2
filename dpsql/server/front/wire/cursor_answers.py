"""Answer DECLARE, FETCH, MOVE and CLOSE.

As in PostgreSQL, cursors and the portals of the protocol share their names: FETCH moves a portal that was bound, and Execute
fetches from a cursor that was declared.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from dpsql.server.front.statements.transaction_status import IDLE, first_word
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire, Described, Outcome, RefusedOnWire
from dpsql.server.front.wire.cursors import (
    ALL,
    CursorMove,
    CursorOnWire,
    DeclaredCursor,
    closed_cursor,
    cursor_move,
    declared_cursor,
    size_of,
)
from dpsql.server.front.wire.held_statements import HeldStatements, PortalOnWire
from dpsql.server.front.wire.statement_work import Parameters, StatementWork
from dpsql.server.front.wire.transactions import TransactionOfConnection

Describes = Callable[[str, Sequence[str | None]], Awaitable[Described | None]]


class CursorAnswers:
    """For the connection's own task. Its methods raise RefusedOnWire."""

    def __init__(self, held: HeldStatements, work: StatementWork, transaction: TransactionOfConnection) -> None:
        self._held, self._work, self._transaction = held, work, transaction

    async def moved(self, text: str) -> tuple[Outcome, tuple[int, ...]] | None:
        """The outcome of a FETCH or MOVE, and the formats of its values; None for other statements."""
        if first_word(text) not in ("FETCH", "MOVE"):
            return None
        move = cursor_move(text)
        cursor = await self._cursor(move.name)
        return cursor.moved(move), cursor.formats

    async def change(self, text: str, parameters: Parameters, *, alone: bool) -> str:
        """Execute a DECLARE or CLOSE, and return its tag. `alone` says that outside of BEGIN, the statement is a transaction
        of its own."""
        if first_word(text) == "DECLARE":
            await self._declare(declared_cursor(text), parameters, alone=alone)
            return "DECLARE CURSOR"
        name = closed_cursor(text)
        if name is None:
            self._held.drop_all_cursors()
            return "CLOSE CURSOR ALL"
        if not self._held.has_portal(name):
            self._held.cursor(name)
        self._held.drop_portal(name)
        self._held.drop_cursor(name)
        return "CLOSE CURSOR"

    async def described(self, text: str, given: Sequence[str | None], describe: Describes) -> Described:
        """The parameters and columns of a statement about a cursor; `describe` is called for the query of DECLARE."""
        match first_word(text):
            case "DECLARE":
                found = await describe(declared_cursor(text).query, given)
                if found is None or found.columns is None:
                    raise _no_rows()
                return Described(parameters=found.parameters, columns=None)
            case "FETCH":
                return Described(parameters=(), columns=self._columns(cursor_move(text).name))
            case "MOVE":
                cursor_move(text)
            case _:
                closed_cursor(text)
        return Described(parameters=(), columns=None)

    def _columns(self, name: str) -> tuple[ColumnOnWire, ...] | None:
        """The columns of a cursor; None for an unknown cursor, which is refused when it is moved."""
        if name and self._held.has_portal(name):
            return self._held.portal(name).columns
        return self._held.cursor(name).columns if self._held.has_cursor(name) else None

    async def _cursor(self, name: str) -> CursorOnWire:
        """The cursor of this name; a portal of this name becomes a cursor."""
        if not name or not self._held.has_portal(name):
            return self._held.cursor(name)
        portal = self._held.portal(name)
        if portal.columns is None:
            raise RefusedOnWire(f"portal \"{name}\" has no rows", sqlstate="55000")
        if portal.outcome is None:
            portal.outcome, rows = await self._work.whole_outcome(portal.statement.text, parameters_of(portal))
        else:
            rows = list(portal.outcome.rows)
        cursor = CursorOnWire(declared=of_portal(name), columns=portal.columns, formats=portal.formats, at=portal.taken,
                              rows=[*[None] * portal.taken, *rows])
        self._hold(cursor, portal)
        return cursor

    async def _declare(self, declared: DeclaredCursor, parameters: Parameters, *, alone: bool) -> None:
        """Answer the query of a cursor, and keep its rows."""
        if alone and self._transaction.status == IDLE and not declared.is_held:
            raise RefusedOnWire("DECLARE CURSOR can only be used in transaction blocks", sqlstate="25P01")
        self._held.check_cursor(declared.name)
        try:
            outcome, rows = await self._work.whole_outcome(declared.query, parameters)
        except RefusedOnWire as refusal:
            if refusal.position is not None:
                refusal.position += declared.start
            raise
        if outcome.columns is None:
            raise _no_rows()
        self._hold(CursorOnWire(declared=declared, columns=outcome.columns, rows=rows,
                                formats=(int(declared.is_binary),) * len(outcome.columns)))

    def _hold(self, cursor: CursorOnWire, portal: PortalOnWire | None = None) -> None:
        if portal is not None:
            portal.suspended.close()
        cursor.counted.enter_context(self._work.suspended(size_of(cursor.rows)))
        self._held.hold_cursor(cursor)


def parameters_of(portal: PortalOnWire) -> Parameters:
    return Parameters(values=portal.parameters, kinds=portal.statement.described.parameters)


def of_portal(name: str) -> DeclaredCursor:
    """The declaration of a portal as a cursor: it moves only forward, and ends with its transaction."""
    return DeclaredCursor(name=name, query="", start=0, is_held=False, is_forward=True, is_binary=False)


def further(most: int | None) -> CursorMove:
    """The move of an Execute by at most so many rows; None for all."""
    return CursorMove(word="SELECT", name="", number=ALL if most is None else most)


def _no_rows() -> RefusedOnWire:
    return RefusedOnWire("a cursor is declared for a query", sqlstate="42601", hint="try DECLARE name CURSOR FOR SELECT ...")
