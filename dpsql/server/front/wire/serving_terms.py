"""What a server is to one of its clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from dpsql.server.front.statements.doors import Door
from dpsql.server.front.wire.login_delays import FailedLogins
from dpsql.server.front.wire.server_limits import AccountUse, ServerLimits

Made = TypeVar("Made")


class Serving(Protocol):
    """What a server is to one of its clients."""

    limits: ServerLimits
    use: AccountUse
    failed: FailedLogins
    door: Door
    certificate: str | None
    """In PEM, where clients can bind their proof to it."""
    needs_tls: bool

    async def run(self, work: Callable[[], Made]) -> Made:
        """The result of work that another thread does."""

    async def run_login(self, work: Callable[[], Made]) -> Made:
        """The same for a login, which waits for its client."""
