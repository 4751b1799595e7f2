"""Where the tools of a call are done: on the one connection of a process, or on that of a session of a server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from dpsql.agents.agent_desk import AgentDesk

Made = TypeVar("Made")
PATIENCE = 0.02  # seconds between two interruptions


class AgentSeat(Protocol):
    """Does the work of calls in another thread, that of one call at a time."""

    async def do(self, work: Callable[[AgentDesk], Made], text: str = "") -> Made:
        """The result of work on the desk of whoever calls; `text` is the statement that it is about, if there is one. Raises
        errors.Error, where it was refused before it began."""
        ...


class LocalSeat:
    """The seat of a process that serves one agent.

    A call that its client cancels, or whose client has gone, is cancelled by the SDK. Its statement is then interrupted, as
    `Connection.interrupt` does it: before its charge it costs nothing, afterwards it stays charged and is no incident.
    """

    def __init__(self, desk: AgentDesk) -> None:
        from anyio import Lock

        self._desk, self._one_at_a_time = desk, Lock()

    async def do(self, work: Callable[[AgentDesk], Made], text: str = "") -> Made:
        from anyio import create_task_group, to_thread

        outcome = CallOutcome(work, self._desk)
        async with self._one_at_a_time, create_task_group() as group:
            group.start_soon(self._interrupt_if_cancelled, outcome)
            try:
                await to_thread.run_sync(outcome.run)  # until it has ended, also if the call is cancelled
            finally:
                outcome.over.set()
            group.cancel_scope.cancel()
        return outcome.told()

    async def _interrupt_if_cancelled(self, outcome: CallOutcome[Made]) -> None:
        from anyio import CancelScope, sleep_forever, to_thread

        try:
            await sleep_forever()
        finally:
            with CancelScope(shield=True):
                if not outcome.over.is_set():
                    await to_thread.run_sync(self._interrupt_until, outcome.over)

    def _interrupt_until(self, over: threading.Event) -> None:
        """Interrupt the connection until the call has ended: a tool may run several statements, one after the other."""
        while not over.is_set():
            self._desk.connection.interrupt()
            over.wait(PATIENCE)


class CallOutcome(Generic[Made]):
    """What becomes of work in another thread, which sets `over` when it has ended."""

    def __init__(self, work: Callable[[AgentDesk], Made], desk: AgentDesk) -> None:
        self._work, self._desk, self.over = work, desk, threading.Event()
        self._made: list[Made] = []
        self._fault: Exception | None = None

    def run(self) -> None:
        try:
            self._made.append(self._work(self._desk))
        except Exception as fault:  # raised by `told`, as the task group would put it into a group
            self._fault = fault
        finally:
            self.over.set()

    def told(self) -> Made:
        """What the work returned. Raises what it raised."""
        if self._fault is not None:
            raise self._fault
        return self._made[0]
