"""Connections that have not shown a session. At a limit, the oldest one that keeps nobody's answer waiting is shed.

So nobody without a password keeps others out: who holds many connections open loses the oldest of them whenever somebody else
comes. A connection is spared while a whole request of it is being answered, which the limits of logins bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from dpsql.server.front.terms.answers_on_wire import RefusedOnWire
from dpsql.server.front.wire.server_limits import ServerLimits


class ShedConnection(Protocol):
    """Whether a connection `is_answered` now, and what ends it at once."""

    @property
    def is_answered(self) -> bool: ...
    def shed(self) -> None: ...


@dataclass(slots=True, eq=False)
class HttpStranger:
    """A connection of a network. `beginning` is the task that makes it, until there is a `connection`; it is `silent` until
    it has sent the head of a request."""

    network: str
    beginning: asyncio.Task[None]
    connection: ShedConnection | None = None
    silent: bool = True

    @property
    def is_answered(self) -> bool:
        return self.connection is not None and self.connection.is_answered

    def end(self) -> None:
        if self.connection is None:
            self.beginning.cancel()
        else:
            self.connection.shed()

    def has_asked(self) -> None:
        self.silent = False


class HttpStrangers:
    """All of a server, the oldest first. For one thread."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._held: dict[HttpStranger, None] = {}

    def admit(self, new: HttpStranger, connections: int) -> None:
        """Hold a connection that comes now, when there are so many `connections`, known ones too. Raises RefusedOnWire if none
        can be shed for it."""
        own = [one for one in self._held if one.network == new.network]
        silent = [one for one in own if one.silent]
        if len(silent) >= self._limits.unproven_of_address:
            self._shed(silent, "too many connections of this address have asked nothing")
        elif len(own) >= self._limits.strangers_of_address:
            self._shed(own, "too many connections of this address have no session")
        elif connections >= self._limits.connections:
            self._shed(self._held, "too many connections")
        self._held[new] = None

    def forget(self, one: HttpStranger) -> None:
        """Called when a connection has shown a session, or has ended; has no effect the second time."""
        self._held.pop(one, None)

    def forgetting(self, one: HttpStranger) -> Callable[[], None]:
        return lambda: self.forget(one)

    def _shed(self, among: Iterable[HttpStranger], why: str) -> None:
        oldest = next((one for one in among if not one.is_answered), None)
        if oldest is None:
            raise RefusedOnWire(why, sqlstate="53300")
        self.forget(oldest)
        oldest.end()
