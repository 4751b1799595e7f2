"""Connections that are awaited: the loop goes on, and a cancellation loses no charge and no answer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from support import worlds

import dpsql
from dpsql import aio, dbapi
from dpsql.engine import charging
from dpsql.trusted.kernel.ledger import Ledger
from dpsql.trusted.stopping import go_on

COUNT = "SELECT COUNT(*) FROM people WHERE age > {}"


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    worlds.world(people=200).save(folder / "people.duckdb")
    (folder / "dpsql.toml").write_text('database = "people.duckdb"\n' + worlds.POLICY, encoding="utf-8")
    Ledger.create(folder / "dpsql.ledger").close()
    return folder / "dpsql.toml"


def run(policy: Path, analyst: str, asks: Callable[[aio.AsyncConnection], Awaitable[None]]) -> None:
    async def main() -> None:
        async with await aio.connect(policy=policy, budget="person", analyst=analyst, epsilon=1, delta=1e-6) as connection:
            await asks(connection)

    asyncio.run(main())


class Gate:
    """Holds statements back, in their thread, until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.opened, self.asked = threading.Event(), threading.Event(), list[str]()
        execute = dbapi.Cursor.execute

        def held(cursor: dbapi.Cursor, sql: str, parameters: tuple[object, ...] = ()) -> dbapi.Cursor:
            self.asked.append(sql)
            self.reached.set()
            assert self.opened.wait(30)
            return execute(cursor, sql, parameters)

        monkeypatch.setattr(dbapi.Cursor, "execute", held)


def test_everything_of_a_connection_can_be_awaited(policy: Path) -> None:
    async def asks(connection: aio.AsyncConnection) -> None:
        cursor = await connection.execute("SELECT sex, COUNT(*) FROM people WHERE age > ? GROUP BY sex", [3])
        assert len(cursor.fetchall()) == 3 and cursor.cost
        assert (await connection.explain(COUNT.format(4))).cost and connection.notes is not None
        assert len(await connection.workload(["SELECT sex, COUNT(*) FROM people GROUP BY sex"], epsilon=0.1)) == 1
        made = await connection.synthesize("SELECT sex, age FROM people", name="people_syn", method="independent", epsilon=1)
        assert (await connection.synthetic_table("people_syn")).name == made.name  # type: ignore[union-attr]
        assert await connection.validate("SELECT COUNT(*) FROM people", synthetic="people_syn", within="50 PERCENT", epsilon=1)
        assert (await connection.budget()).statements >= 4
        with pytest.raises(dpsql.SqlError):
            await connection.execute("SELECT nothing FROM people")

    run(policy, "ada", asks)


def test_the_loop_goes_on_and_statements_take_turns(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)

    async def asks(connection: aio.AsyncConnection) -> None:
        before = threading.active_count()
        waiting = [asyncio.create_task(connection.execute(COUNT.format(age))) for age in range(8)]
        while not gate.reached.is_set():
            await asyncio.sleep(0.001)  # it is this loop that goes on
        assert len(gate.asked) == 1 and threading.active_count() <= before + 1
        gate.opened.set()
        assert [len(cursor.fetchall()) for cursor in await asyncio.gather(*waiting)] == [1] * 8

    run(policy, "bea", asks)


def test_a_cancelled_statement_is_charged_if_it_has_begun_and_otherwise_not_run(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)

    async def asks(connection: aio.AsyncConnection) -> None:
        first, second = (asyncio.create_task(connection.execute(COUNT.format(age))) for age in (21, 22))
        while not gate.reached.is_set():
            await asyncio.sleep(0.001)
        first.cancel()
        second.cancel()
        for task in (first, second):
            with pytest.raises(asyncio.CancelledError):
                await task
        gate.opened.set()
        listed = await connection.execute("SHOW RELEASES")
        assert [row[-1] for row in listed.fetchall()] == [COUNT.format(21)], "it was charged and answered; the other was not run"
        assert (await connection.execute(COUNT.format(21))).cost == "", "what was paid for is free"
        assert (await connection.budget()).failed == 0

    run(policy, "cyd", asks)


def test_an_interruption_reaches_the_statement_that_runs(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = threading.Event()

    async def asks(connection: aio.AsyncConnection) -> None:
        assert await connection.describe(COUNT.format(41)) == [("COUNT(*)", "BIGINT")]
        await connection.set_terms(epsilon=0.5)
        interrupted = connection._connection.session.interrupted

        def later() -> None:
            planned.set()
            interrupted.wait(20)
            go_on()

        monkeypatch.setattr(charging, "go_on", later)
        running, waiting = (asyncio.create_task(connection.execute(COUNT.format(age))) for age in (42, 43))
        while not planned.is_set():
            await asyncio.sleep(0.001)
        monkeypatch.setattr(charging, "go_on", go_on)
        await connection.interrupt()
        with pytest.raises(dpsql.OperationalError, match="before anything was charged"):
            await running
        assert "0.5" in (await waiting).cost, "what waits for its turn is not interrupted"

    run(policy, "fay", asks)


def test_a_closed_connection_refuses(policy: Path) -> None:
    async def asks(connection: aio.AsyncConnection) -> None:
        running = asyncio.create_task(connection.execute(COUNT.format(31)))
        await asyncio.sleep(0)
        await connection.close()
        assert (await running).fetchall(), "what was asked before is answered"
        await connection.close()
        for again in (connection.execute("SHOW BUDGET"), connection.budget()):
            with pytest.raises(dpsql.InterfaceError):
                await again

    run(policy, "dan", asks)


def test_a_connection_that_nobody_waits_for_is_closed(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, begun, go = [], threading.Event(), threading.Event()
    connect = dbapi.connect

    def slow(**terms: object) -> dbapi.Connection:
        begun.set()
        assert go.wait(30)
        opened.append(connect(**terms))  # type: ignore[arg-type]
        return opened[-1]

    monkeypatch.setattr(dbapi, "connect", slow)

    async def main() -> None:
        task = asyncio.create_task(aio.connect(policy=policy, budget="person", analyst="eve", epsilon=1))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()

    asyncio.run(main())
    for _ in range(1000):
        if opened and opened[0]._session is None:
            break
        time.sleep(0.01)
    assert opened[0]._session is None
    monkeypatch.setattr(dbapi, "connect", connect)
    with pytest.raises(dpsql.OptionError):
        asyncio.run(aio.connect(policy=policy, budget="nobody's"))
