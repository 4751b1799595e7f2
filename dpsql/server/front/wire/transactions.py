"""The transaction of one connection: its status, its savepoints, and what a rollback undoes.

Answers are final: a rollback undoes none of them. As in PostgreSQL, it restores the settings that were changed and closes the
cursors that were declared; both belong to the connection alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from dpsql.frozen import Frozen
from dpsql.server.front.statements.transaction_status import FAILED, IDLE, OPEN, TransactionStatement, step
from dpsql.server.front.terms.answers_on_wire import Notice, RefusedOnWire
from dpsql.server.front.wire.held_statements import HeldStatements

MOST_SAVEPOINTS = 1_000


class ChangeableSettings(Protocol):
    """The part of a seat that keeps settings: what a client set, and how it is restored."""

    @property
    def settings_kept(self) -> Mapping[str, str]: ...

    def put_back(self, kept: Mapping[str, str]) -> None: ...

    def end_of_local_settings(self) -> None: ...


class Savepoint(Frozen):
    """A savepoint: the settings at that time, and the cursors that were open."""

    name: str
    settings: Mapping[str, str]
    cursors: frozenset[str]


class TransactionOfConnection:
    """For the connection's own task."""

    def __init__(self, held: HeldStatements, settings: ChangeableSettings) -> None:
        self._held, self._settings = held, settings
        self.status = IDLE
        self._savepoints: list[Savepoint] = []
        self._first = settings.settings_kept

    def begins_implicitly(self) -> None:
        """Called when a query or a batch of messages begins: outside of BEGIN, it is a transaction itself."""
        if self.status == IDLE:
            self._first = self._settings.settings_kept

    def failed(self) -> None:
        """Called when a statement was refused: the settings are restored, and outside of BEGIN, new cursors are closed."""
        if self.status == IDLE:
            self._settings.put_back(self._first)
            self._held.undo_transaction()
        else:
            self.status = FAILED
            self._settings.put_back(self._savepoints[-1].settings if self._savepoints else self._first)

    def take(self, said: TransactionStatement) -> tuple[str, tuple[Notice, ...]]:
        """Execute a statement, and return its tag and warnings. Raises RefusedOnWire; then nothing is done."""
        done = step(said, self.status)
        match said.word:
            case "BEGIN" if self.status == IDLE:
                self._begin()
            case "SAVEPOINT":
                self._mark(said.name or "")
            case "RELEASE":
                del self._savepoints[self._place(said.name or ""):]
            case "ROLLBACK TO":
                self._return_to(self._place(said.name or ""))
            case "COMMIT" | "ROLLBACK":
                self._end(undone=done.tag == "ROLLBACK")
                if said.chain:
                    self._begin()
        self.status = done.status
        return done.tag, done.notices

    def _begin(self) -> None:
        self._first = self._settings.settings_kept

    def _end(self, *, undone: bool) -> None:
        if undone:
            self._held.undo_transaction()
            if self.status != IDLE:
                self._settings.put_back(self._first)
        self._held.end_of_transaction()
        self._settings.end_of_local_settings()
        self._savepoints.clear()

    def end_of_batch(self) -> None:
        """The end of a query or of a batch of messages."""
        if self.status == IDLE:
            self._held.end_of_transaction()
            self._settings.end_of_local_settings()

    def _mark(self, name: str) -> None:
        if len(self._savepoints) >= MOST_SAVEPOINTS:
            raise RefusedOnWire("the transaction has too many savepoints", sqlstate="54000", hint="RELEASE those no longer used")
        self._savepoints.append(Savepoint(name=name, settings=self._settings.settings_kept, cursors=self._held.open_names()))

    def _place(self, name: str) -> int:
        place = next((at for at in reversed(range(len(self._savepoints))) if self._savepoints[at].name == name), None)
        if place is None:
            self.status = FAILED if self.status == OPEN else self.status
            raise RefusedOnWire(f"savepoint \"{name}\" does not exist", sqlstate="3B001")
        return place

    def _return_to(self, place: int) -> None:
        there = self._savepoints[place]
        del self._savepoints[place + 1:]
        self._settings.put_back(there.settings)
        self._held.drop_opened_after(there.cursors)
