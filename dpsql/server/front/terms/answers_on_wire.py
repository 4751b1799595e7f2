"""What a client's socket and an analyst's seat say to each other: descriptions, outcomes, notices, refusals.

A seat never sees the words of transactions (BEGIN, COMMIT, SAVEPOINT ...): the wire answers them, as they do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from dpsql.frozen import Frozen


class ColumnOnWire(Frozen):
    """A column of an answer. Kinds: BIGINT, HUGEINT, DOUBLE, BOOLEAN, VARCHAR, DATE, TIMESTAMP, and in queries
    without a private table, DECIMAL."""

    name: str
    kind: str


class Described(Frozen):
    """The kinds of a statement's parameters, which may be NUMERIC too, and its columns; None if it returns no rows."""

    parameters: tuple[str, ...]
    columns: tuple[ColumnOnWire, ...] | None


class Notice(Frozen):
    """What a client shows beside an answer."""

    text: str
    detail: str = ""
    hint: str = ""
    severity: str = "NOTICE"
    sqlstate: str = ""
    """Empty for the usual one of the severity."""


class OutcomeOnWire(Frozen):
    """What a statement gave: its tag, such as ``SELECT 5``, and rows of Python values, where it has columns. Of COPY, which has
    none, `copied` are the messages that carry its rows, each whole."""

    tag: str
    columns: tuple[ColumnOnWire, ...] | None
    rows: Iterator[tuple[object, ...]]
    notices: tuple[Notice, ...]
    copied: Iterator[bytes] | None = None
    local: bool = False
    """The statement has an effect only inside a transaction, as SET LOCAL has."""


Outcome = OutcomeOnWire  # the short name, which a class of VALIDATE has elsewhere


class RefusedOnWire(Exception):
    """A refusal in the terms of PostgreSQL: `position` is that of a character of the statement, counted from one, or None."""

    def __init__(self, message: str, *, sqlstate: str, severity: str = "ERROR", detail: str = "", hint: str = "",
                 position: int | None = None) -> None:
        super().__init__(message)
        self.message, self.sqlstate, self.severity = message, sqlstate, severity
        self.detail, self.hint, self.position = detail, hint, position


class Seat(Protocol):
    """One analyst's connection. Its methods run in threads, one at a time, and coroutines on the thread of the event loop, when
    none runs; `cancel` and `give_up_turn` alone come from another thread meanwhile, and return at once.

    All of them raise RefusedOnWire.
    """

    @property
    def parameter_status(self) -> Mapping[str, str]:
        """The settings that are reported to clients at login and whenever one changes: server_version, TimeZone ..."""

    def take_process(self, process: int) -> None:
        """Take the process number that the client is told."""

    @property
    def settings_kept(self) -> Mapping[str, str]:
        """What SET has changed so far, which `put_back` restores."""

    def put_back(self, kept: Mapping[str, str]) -> None:
        """Restore the settings to what they were."""

    def end_of_local_settings(self) -> None:
        """Restore what SET LOCAL changed, at the end of a transaction."""

    def split(self, text: str) -> list[str]:
        """The statements of a simple query."""

    async def described_lately(self, text: str, given: Sequence[str | None]) -> Described | None:
        """The description that `describe` would give, if it was given recently."""

    def describe(self, text: str, given: Sequence[str | None]) -> Described:
        """A statement's parameters and columns, without any charge; `given` are the types of parameters that the client states,
        None where it does not."""

    async def shown_lately(self, text: str, parameters: Sequence[object]) -> OutcomeOnWire | None:
        """The outcome that `execute` would give, if it was shown recently and costs nothing; None if the statement must be
        executed."""

    def execute(self, text: str, parameters: Sequence[object], kinds: Sequence[str] = ()) -> OutcomeOnWire:
        """Answer one statement; the parameters are Python values of the described kinds, or None."""

    def cancel(self, cause: str) -> None:
        """Interrupt the running statement, if there is one. The owner can see the cause."""

    def give_up_turn(self) -> None:
        """Interrupt the running statement if it waits for its turn, as its client has left."""

    def close(self) -> None:
        """Release the resources of the connection."""
