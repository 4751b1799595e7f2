"""Where the tools of a call are done: on the one connection of a process, or on that of a session of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from dpsql.agents.agent_desk import AgentDesk

Made = TypeVar("Made")


class AgentSeat(Protocol):
    """Does the work of calls in another thread, that of one call at a time."""

    async def do(self, work: Callable[[AgentDesk], Made], text: str = "") -> Made:
        """The result of work on the desk of whoever calls; `text` is the statement that it is about, if there is one. Raises
        errors.Error, where it was refused before it began."""
        ...


class LocalSeat:
    """The seat of a process that serves one agent."""

    def __init__(self, desk: AgentDesk) -> None:
        from anyio import CapacityLimiter

        self._desk, self._one_at_a_time = desk, CapacityLimiter(1)

    async def do(self, work: Callable[[AgentDesk], Made], text: str = "") -> Made:
        from anyio import to_thread

        return await to_thread.run_sync(work, self._desk, limiter=self._one_at_a_time)
