"""The door of a server: from a client's proof that it knows a password to a seat.

The front passes on what the client and the one who checks the password say to each other, and the vault checks it
(`doorkeeper`); so the front never holds what passwords are checked by.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from dpsql.dbapi import Connection
from dpsql.errors import Error
from dpsql.server.answers_on_wire import Seat
from dpsql.server.front import Control
from dpsql.server.logins import NotProven
from dpsql.server.remote_session import open_remote_session
from dpsql.server.seat import ConnectionSeat
from dpsql.server.sqlstates import told

WRONG, MALFORMED = "login", "login-message"  # codes of errors of the doorkeeper: a wrong proof, and what is none


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstProof:
    """The first message of a client that logs in by SCRAM, the mechanism that it chose, and whether its connection is encrypted
    with a certificate to which a proof can be bound."""

    mechanism: str
    message: bytes
    bound: bool

    def as_bytes(self) -> bytes:
        return json.dumps([self.mechanism, base64.b64encode(self.message).decode("ascii"), self.bound]).encode()

    @classmethod
    def of_bytes(cls, data: bytes) -> FirstProof:
        """Raises ValueError for anything but what `as_bytes` gave."""
        match json.loads(data):
            case [str(mechanism), str(message), bool(bound)]:
                return cls(mechanism=mechanism, message=base64.b64decode(message, validate=True), bound=bound)
        raise ValueError("this is no first message")


Say = Callable[[bytes], bytes]
"""Tells the client the challenge, and returns its answer; then the last message, to which there is none."""


class Door(Protocol):
    """Runs in threads."""

    def enter(self, name: str, database: str, startup: Mapping[str, str], first: FirstProof, say: Say) -> Seat:
        """The seat of a user who has proved to know the password. Raises NotProven, and RefusedOnWire where there is no seat for
        them."""


class VaultDoor:
    """The door of a front: each seat has a channel to the vault of its own."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def enter(self, name: str, database: str, startup: Mapping[str, str], first: FirstProof, say: Say) -> Seat:
        fault: Error | None = None
        try:
            connection = self.connect(name, database, first, say)
            try:
                return ConnectionSeat(connection, user=name, database=database, startup=startup)
            except BaseException:
                connection.close()
                raise
        except Error as caught:
            fault = caught
        raise told(fault, "")

    def connect(self, name: str, database: str, first: FirstProof, say: Say) -> Connection:
        """The connection of a user who has proved to know the password. Raises NotProven and errors.Error."""
        asked = iter((lambda message: first.as_bytes(), say, say))
        channel = self._control.channel()
        try:
            opening = channel.log_in(name, database, lambda message: next(asked)(message))
            return Connection(open_remote_session(channel, opening))
        except BaseException as fault:
            channel.close()
            if isinstance(fault, Error) and fault.code in (WRONG, MALFORMED):
                raise NotProven(malformed=fault.code == MALFORMED) from None
            raise
