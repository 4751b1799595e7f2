"""Tools of one agent take turns, as they read one ledger, of which two threads could wait for each other for ever."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from dpsql.agents.agent_seats import LocalSeat

anyio = pytest.importorskip("anyio", reason="the extra dpsql[mcp] is not installed")


class Desk:
    """Counts how many threads are at work at once."""

    def __init__(self) -> None:
        self.lock, self.now, self.most = threading.Lock(), 0, 0

    def work(self) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.01)
        with self.lock:
            self.now -= 1


def test_calls_of_an_agent_take_turns() -> None:
    desk: Any = Desk()

    async def ask() -> None:
        seat = LocalSeat(desk)
        async with anyio.create_task_group() as calls:
            for _ in range(10):
                calls.start_soon(seat.do, Desk.work)

    anyio.run(ask)
    assert (desk.most, desk.now) == (1, 0)
