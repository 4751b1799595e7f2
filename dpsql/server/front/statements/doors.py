"""The door of a server: from a client's proof that it knows a password to a seat.

The front passes on what the client and the one who checks the password say to each other, and the vault checks it
(`doorkeeper`); so the front never holds what passwords are checked by.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Protocol

from dpsql.dbapi import Connection
from dpsql.errors import Error
from dpsql.server.front.catalogue.shared_catalogues import SharedCatalogues
from dpsql.server.front.statements.remote_session import VaultChannel, open_remote_session
from dpsql.server.front.statements.seat import ConnectionSeat
from dpsql.server.front.statements.shown_answers import ShownToAccounts
from dpsql.server.front.terms.answers_on_wire import Seat
from dpsql.server.front.terms.sqlstates import refusal_on_wire
from dpsql.server.link.login_messages import MALFORMED, UNPROVEN, WRONG, FirstProof, NotProven
from dpsql.server.link.vault_calls import ToldAccount

Say = Callable[[bytes], bytes]
"""Tells the client the challenge, and returns its answer; then the last message, to which there is none."""


class Door(Protocol):
    """Runs in threads."""

    def enter(self, name: str, database: str, startup: Mapping[str, str], first: FirstProof, say: Say) -> Seat:
        """The seat of a user who has proven to know the password. Raises NotProven, and RefusedOnWire if no seat is available."""


class VaultDoor:
    """The door of a front: each seat has a channel to the vault of its own."""

    def __init__(self, new_channel: Callable[[], VaultChannel]) -> None:
        """`new_channel` gives a channel that waits for a login; see `control.Control`."""
        self._new_channel, self._shown, self._catalogues = new_channel, ShownToAccounts(), SharedCatalogues()

    def enter(self, name: str, database: str, startup: Mapping[str, str], first: FirstProof, say: Say) -> Seat:
        fault: Error | None = None
        try:
            connection = self.connect(name, database, first, say)
            try:
                return ConnectionSeat(connection, user=name, database=database, startup=startup, shown=self._shown,
                                      catalogues=self._catalogues)
            except BaseException:
                connection.close()
                raise
        except Error as caught:
            fault = caught
        raise refusal_on_wire(fault, "")

    def connect(self, name: str, database: str, first: FirstProof, say: Say) -> Connection:
        """The connection of a user who has proven to know the password. Raises NotProven and errors.Error."""
        asked = iter((lambda message: first.as_bytes(), say, say))
        return self._opened(lambda channel: channel.log_in(name, database, lambda message: next(asked)(message)))

    def begin_sign_on(self) -> tuple[str, str]:
        """The address at which a person signs on, and the state that comes back with them. Raises errors.Error."""
        with contextlib.closing(self._new_channel()) as channel:
            return channel.begin_sign_on()

    def sign_on(self, code: str, state: str) -> Connection:
        """The connection of a person who has signed on. Raises NotProven and errors.Error."""
        return self._opened(lambda channel: channel.sign_on(code, state))

    def _opened(self, bind: Callable[[VaultChannel], ToldAccount]) -> Connection:
        """The connection over a new channel, which `bind` binds to an account."""
        channel = self._new_channel()
        try:
            return Connection(open_remote_session(channel, bind(channel)))
        except BaseException as fault:
            channel.close()
            if isinstance(fault, Error) and fault.code in (WRONG, MALFORMED, UNPROVEN):
                raise NotProven(malformed=fault.code == MALFORMED) from None
            raise
