"""A call that its client cancels, or whose client goes: the statement is interrupted, stays charged, and is no incident."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support import agent_sessions
from support.sessions import open_ledger, reader_of, session_of
from support.slow_readers import Slowly
from support.worlds import world

from dpsql.agents.agent_seats import LocalSeat
from dpsql.errors import Interrupted
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.accounting.cost import NOTHING, Account

anyio, mcp = pytest.importorskip("anyio", reason="the extra dpsql[mcp] is not installed"), pytest.importorskip("mcp")
ADA = Account(budget="person", analyst="ada")
ASKED = {"sql": "SELECT COUNT(*) FROM people", "purpose": "to see how a call is cancelled"}
STOPPED = "stopped", [], True
TESTS = Path(__file__).parents[1]
SERVER = """
import sys
from pathlib import Path
from support.sessions import reader_of, session_of
from support.slow_readers import Slowly
from support.worlds import world
from dpsql.agents.agent_desk import AgentDesk
from dpsql.agents.protocol_server import local_server
from dpsql.dbapi import Connection

folder = Path(sys.argv[1])
reader = Slowly(reader_of(world(3)))
reader.begun.set = (folder / "begun").touch
local_server(AgentDesk(Connection(session_of(folder, reader=reader)))).run("stdio")
"""


def outcome(path: Path, seconds: float = 20.0) -> tuple[str, list[int], bool]:
    """What became of the one statement, which numbers count as failed, and whether it is charged."""
    with closing(ReportingLedger(path)) as ledger:
        end = time.monotonic() + seconds
        while (entry := ledger.entries("person", "ada")[0]).running:
            assert time.monotonic() < end, "it still runs"
            time.sleep(0.05)
            ledger.refresh()
        return entry.outcome, ledger.failed(ADA), entry.charge != NOTHING


async def begun(there: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not there():
            await anyio.sleep(0.02)


def server_of(folder: Path) -> dict[str, Any]:
    """`dpsql mcp` over a slow reader."""
    return {"command": sys.executable, "args": ["-c", SERVER, str(folder)], "env": {
        "PYTHONPATH": f"{TESTS.parent}:{TESTS}", "PATH": os.environ["PATH"], "HOME": str(folder), "OPENBLAS_NUM_THREADS": "1"}}


def test_over_stdio(tmp_path: Path) -> None:
    """By the SDK's own client, which sends notifications/cancelled."""
    open_ledger(tmp_path).close()

    async def conversation(client: Any) -> None:
        async with anyio.create_task_group() as calls:
            calls.start_soon(client.call_tool, "ask", ASKED)
            await begun((tmp_path / "begun").exists)
            calls.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(outcome, tmp_path / "test.ledger") == STOPPED
        assert not (await client.call_tool("catalogue", {})).is_error, "the next call is answered"

    agent_sessions.talk(mcp.StdioServerParameters(**server_of(tmp_path)), conversation)
    assert outcome(tmp_path / "test.ledger") == STOPPED


def test_a_client_that_is_gone_over_stdio(tmp_path: Path) -> None:
    """It only ends the connection, as a program does that is killed."""
    open_ledger(tmp_path).close()
    serve = server_of(tmp_path)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    with subprocess.Popen([serve["command"], *serve["args"]], env=serve["env"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        for number, (method, params) in enumerate((("initialize", hello), ("tools/call", {"name": "ask", "arguments": ASKED})), 1):
            process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n")
            if number == 1:
                process.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
            process.stdin.flush()
        anyio.run(begun, (tmp_path / "begun").exists)
        process.stdin.close()
        assert process.wait(30) == 0
    assert outcome(tmp_path / "test.ledger") == STOPPED


class Waiting:
    """A desk whose work ends when its connection is interrupted."""

    def __init__(self) -> None:
        self.interrupted, self.begun, self.times = threading.Event(), threading.Event(), 0
        self.connection: Any = self

    def interrupt(self) -> None:
        self.times += 1
        if self.times == 3:  # the first ones come between two statements of a tool
            self.interrupted.set()

    def work(self) -> None:
        self.begun.set()
        assert self.interrupted.wait(30)
        raise Interrupted


def test_a_seat_interrupts_what_is_cancelled_and_nothing_else() -> None:
    desk: Any = Waiting()

    async def ask() -> None:
        seat = LocalSeat(desk)
        async with anyio.create_task_group() as calls:
            calls.start_soon(seat.do, Waiting.work)
            await anyio.to_thread.run_sync(desk.begun.wait, 30)
            with anyio.move_on_after(0.05):  # this one waits for its turn, and has begun nothing
                await seat.do(Waiting.work)
            assert desk.times == 0
            calls.cancel_scope.cancel()
        assert desk.interrupted.is_set() and desk.times >= 3
        times = desk.times
        assert await seat.do(lambda desk: 5) == 5
        with pytest.raises(Interrupted):
            await seat.do(Waiting.work)
        assert desk.times == times

    anyio.run(ask)


# -- over HTTP


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Any, Slowly, Path]]:
    pytest.importorskip("httpx2")
    pytest.importorskip("fastapi", reason="the extra dpsql[server] is not installed")
    from support.http_servers import http_running

    open_ledger(tmp_path).close()
    slow = Slowly(reader_of(world(3)))
    with http_running(tmp_path, agents=True, description=False,
                      opened=lambda user: session_of(tmp_path, reader=slow, analyst=user)) as server:
        yield server, slow, tmp_path / "test.ledger"


def talk(server: Any, mode: str, conversation: Callable[[Any], Awaitable[None]]) -> None:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async def held() -> None:
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {server.logged_in().token}"}, timeout=60) as http:
            await agent_sessions.converse(streamable_http_client(f"http://127.0.0.1:{server.port}/mcp", http_client=http), conversation, mode=mode)

    anyio.run(held)


@pytest.mark.parametrize(("mode", "cause"), [("auto", "client left"), ("legacy", "request")])
def test_over_http(mode: str, cause: str, served: tuple[Any, Slowly, Path]) -> None:
    """A client of 2026 ends the connection of the call; an earlier one sends notifications/cancelled."""
    server, slow, path = served

    async def conversation(client: Any) -> None:
        async with anyio.create_task_group() as calls:
            calls.start_soon(client.call_tool, "ask", ASKED)
            await begun(slow.begun.is_set)
            calls.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(outcome, path) == STOPPED
        assert not (await client.call_tool("catalogue", {})).is_error

    talk(server, mode, conversation)
    with closing(ReportingLedger(path)) as ledger:
        assert ledger._store.rows("SELECT body FROM events WHERE kind = 'stopped'") == [(cause,)]


def test_a_cancel_over_http_reaches_no_other_call(served: tuple[Any, Slowly, Path]) -> None:
    """Of another id, of another session, or of an id that two calls have."""
    from dpsql.server.front.http.http_agents import AgentCall, AgentRoute

    server, _, _ = served
    client, other = server.logged_in(), server.logged_in()
    answers: list[Any] = []

    def ask() -> None:
        answers.append(client.post("/mcp", {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "ask", "arguments": ASKED}},
                                   Accept="application/json, text/event-stream"))

    def cancel(whose: Any, identity: object) -> None:
        whose.post("/mcp", {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": identity}},
                   Accept="application/json, text/event-stream")

    thread = threading.Thread(target=ask)
    thread.start()
    assert served[1].begun.wait(60)
    for whose, identity in ((client, 8), (client, "7"), (client, None), (client, True), (other, 7)):
        cancel(whose, identity)
    time.sleep(0.3)
    assert thread.is_alive()
    cancel(client, 7)
    thread.join(20)
    assert not thread.is_alive() and answers[0].body["result"]["isError"] and outcome(served[2]) == STOPPED

    async def ambiguous() -> None:
        route: Any = AgentRoute.__new__(AgentRoute)
        session: Any = Waiting()
        calls = [AgentCall({"type": "http.request", "body": b'{"id": 1}'}) for _ in range(2)]
        route._calls = {session: calls}
        route._cancel(session, calls[0].identity)
        assert not any(call._stopped.is_set() for call in calls)

    anyio.run(ambiguous)
