"""Connections that have not sent a request of a session. At a limit, the oldest of them is closed.

So nobody without a password can lock others out: somebody who opens many connections loses the oldest of them whenever another
client connects. A connection stays open while the server answers a complete request on it; the limits on logins also limit the
number of such requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from dpsql.server.front.terms.answers_on_wire import RefusedOnWire
from dpsql.server.front.wire.server_limits import ServerLimits


class ShedConnection(Protocol):
    """A connection that can be closed at once, unless a request on it `is_answered` now."""

    @property
    def is_answered(self) -> bool: ...
    def shed(self) -> None: ...


@dataclass(slots=True, eq=False)
class HttpStranger:
    """A client of a network. `beginning` is the task that sets up its `connection`; it is `silent` until it has sent the head of
    a request."""

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
    """All such connections of a server, the oldest first. For one thread."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._held: dict[HttpStranger, None] = {}

    def admit(self, new: HttpStranger, connections: int) -> None:
        """Add a connection, and close another one if there are too many. `connections` is the number of all that are open, with
        or without a session. Raises RefusedOnWire if there are too many and none can be closed."""
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
        """Remove a connection that has a session now, or has ended; has no effect the second time."""
        self._held.pop(one, None)

    def forgetting(self, one: HttpStranger) -> Callable[[], None]:
        return lambda: self.forget(one)

    def _shed(self, among: Iterable[HttpStranger], why: str) -> None:
        oldest = next((one for one in among if not one.is_answered), None)
        if oldest is None:
            raise RefusedOnWire(why, sqlstate="53300")
        self.forget(oldest)
        oldest.end()
