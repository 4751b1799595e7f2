"""Sessions over HTTP: who has which token. A token is random and is kept as a hash alone; it stands for one connection to the
vault, which has checked the password."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from dpsql.dbapi import Connection
from dpsql.server.front.statements.interruption import Interruption
from dpsql.server.front.wire.server_limits import ServerLimits

TOKEN = 32  # bytes: 256 bits, which nobody guesses


@dataclass(slots=True, kw_only=True, eq=False, weakref_slot=True)
class HttpSession:
    """One analyst's session: a connection, on which one statement runs at a time. Times are in seconds of a monotonic clock.

    `left` is called once, when the session has ended.
    """

    key: bytes
    name: str
    connection: Connection
    begun: float
    used: float
    left: Callable[[], None]
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0  # how many requests wait for their turn
    working: bool = False
    cancelled: bool = False  # whether the statement that runs was to stop
    interruption: Interruption = field(default_factory=Interruption)

    def is_over(self, now: float, limits: ServerLimits) -> bool:
        """Whether the session has expired, or was idle for too long; never while a statement runs."""
        return not self.working and not self.waiting and (
            now - self.used >= limits.session_idle_seconds or now - self.begun >= limits.session_seconds)


class HttpSessions:
    """The sessions of a server. For one thread."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._held: dict[bytes, HttpSession] = {}

    def __len__(self) -> int:
        return len(self._held)

    def begin(self, name: str, connection: Connection, now: float, left: Callable[[], None]) -> str:
        """Begin a session and return its token."""
        token = secrets.token_urlsafe(TOKEN)
        key = _key(token)
        self._held[key] = HttpSession(key=key, name=name, connection=connection, begun=now, used=now, left=left)
        return token

    def find(self, token: str, now: float) -> HttpSession | None:
        """The session with this token, unless it has expired."""
        found = self._held.get(_key(token))
        return None if found is None or found.is_over(now, self._limits) else found

    def take(self, session: HttpSession) -> bool:
        """End a session; returns whether it had not ended before."""
        return self._held.pop(session.key, None) is not None

    def over(self, now: float) -> list[HttpSession]:
        return [session for session in self._held.values() if session.is_over(now, self._limits)]

    def all(self) -> list[HttpSession]:
        return [*self._held.values()]


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
