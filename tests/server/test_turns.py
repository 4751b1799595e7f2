"""Statements that are charged take turns: pools, dashboards and everybody else wait in order, and what is free does not wait."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pygwire", reason="the extra dpsql[server] is not installed")
pytest.importorskip("scramp", reason="the extra dpsql[server] is not installed")

from support.seats import wait_until
from support.sessions import open_ledger, reader_of, session_of
from support.vaults import remote, vault_of
from support.wire_servers import PASSWORD, Served, served
from support.worlds import POLICY, world

from dpsql.dbapi import Connection
from dpsql.demo import folder
from dpsql.engine.answering import answer
from dpsql.errors import Error, OperationalError
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.server.front.statements.oversight import columns_of, rows_of
from dpsql.server.front.statements.remote_session import open_remote_session
from dpsql.server.vault.account_turns import AccountTurns, TurnLimits
from dpsql.server.vault.vault import Vault
from dpsql.trusted.accounting.cost import Account, pure
from dpsql.trusted.kernel.ledger import Busy

ADA, BOB = Account(budget="main", analyst="ada"), Account(budget="main", analyst="bob")


class Statements:
    """Statements of accounts in threads of their own, which wait for a turn and keep it until they are told to end."""

    def __init__(self, turns: AccountTurns) -> None:
        self.turns, self.began, self.failed = turns, list[int](), list[int]()
        self._ends, self._woken, self._threads = list[threading.Event](), list[threading.Event](), list[threading.Thread]()
        self.left = 3

    def begin(self, account: Account = ADA, size: int = 1) -> int:
        """Returns when the statement has its turn, waits, or was refused."""
        number, end, woken = len(self._ends), threading.Event(), threading.Event()
        waiting, known = self.turns.waiting(account), len(self.began) + len(self.failed)

        def run() -> None:
            try:
                with self.turns.turn(account, size, woken, lambda: self.left, lambda: None):
                    if woken.is_set() and number in self.stopped:
                        return
                    self.began.append(number)
                    end.wait(20)
            except Busy:
                self.failed.append(number)

        self._ends.append(end)
        self._woken.append(woken)
        self._threads.append(threading.Thread(target=run))
        self._threads[-1].start()
        wait_until(lambda: self.turns.waiting(account) > waiting or len(self.began) + len(self.failed) > known)
        return number

    stopped: frozenset[int] = frozenset()

    def stop(self, number: int) -> None:
        self.stopped |= {number}
        self._woken[number].set()
        self._threads[number].join(20)

    def end(self, number: int) -> None:
        self._ends[number].set()
        self._threads[number].join(20)

    def end_all(self) -> None:
        for end in self._ends:
            end.set()
        for thread in self._threads:
            thread.join(20)


@pytest.fixture
def statements() -> Iterator[Statements]:
    made = Statements(AccountTurns(TurnLimits(seconds=20)))
    yield made
    made.end_all()
    assert made.turns._queues == {}, "nothing is left of them"


def test_turns_are_given_in_the_order_of_arrival(statements: Statements) -> None:
    for _ in range(8):
        statements.begin()
    assert statements.began == [0, 1, 2] and statements.turns.waiting(ADA) == 5
    for ended, begun in ((1, 3), (0, 4), (3, 5), (2, 6)):
        statements.end(ended)
        wait_until(lambda begun=begun: statements.began[-1] == begun)
    assert statements.began == [0, 1, 2, 3, 4, 5, 6]


def test_accounts_do_not_wait_for_each_other(statements: Statements) -> None:
    for _ in range(6):
        statements.begin()
    assert statements.begin(BOB) == statements.began[-1] == 6


def test_who_is_stopped_leaves_the_queue_and_those_behind_keep_their_places(statements: Statements) -> None:
    for _ in range(6):
        statements.begin()
    statements.stop(3)
    assert statements.turns.waiting(ADA) == 2
    statements.end(0)
    wait_until(lambda: statements.began == [0, 1, 2, 4])


def test_failures_make_turns_fewer_and_the_owner_gives_them_back(statements: Statements) -> None:
    for _ in range(6):
        statements.begin()
    statements.left = 1
    for number in (0, 1):
        statements.end(number)
    assert statements.began == [0, 1, 2]
    statements.end(2)
    wait_until(lambda: statements.began == [0, 1, 2, 3])
    statements.left = 3
    statements.end(3)
    wait_until(lambda: sorted(statements.began) == [0, 1, 2, 3, 4, 5])  # the last two begin at once


def test_a_closed_account_has_one_turn_so_that_the_ledger_can_say_so(statements: Statements) -> None:
    statements.left = 0
    assert statements.begin() == 0 and statements.began == [0]


def test_who_waits_too_long_or_is_one_too_many_is_refused() -> None:
    statements = Statements(AccountTurns(TurnLimits(at_once=1, waiting=2, size=10, seconds=0.6)))
    begun = time.monotonic()
    statements.begin()
    first = statements.begin(size=4)
    large, second = statements.begin(size=7), statements.begin(size=6)
    third = statements.begin(size=0)
    assert statements.failed == [large, third] and time.monotonic() - begun < 0.6
    statements._threads[second].join(20)
    assert statements.failed == [large, third, first, second] and 0.6 <= time.monotonic() - begun < 10
    assert statements.began == [0] and statements.turns.waiting(ADA) == 0
    statements.end_all()


def test_a_stored_answer_is_not_waited_for(statements: Statements) -> None:
    for _ in range(4):
        statements.begin()

    def look() -> None:
        raise LookupError

    for _ in range(2):
        with pytest.raises(LookupError), statements.turns.turn(ADA, 1, threading.Event(), lambda: 3, look):
            pytest.fail("it has no turn")
    assert statements.turns.waiting(ADA) == 1


@given(st.lists(st.tuples(st.sampled_from(["begin", "end", "stop"]), st.integers(0, 30)), max_size=25), st.integers(1, 4))
def test_no_more_than_may_run_and_none_is_forgotten(steps: list[tuple[str, int]], most: int) -> None:
    statements = Statements(AccountTurns(TurnLimits(at_once=most, seconds=20)))
    running, waiting = list[int](), list[int]()
    for what, which in steps:
        if what == "begin":
            number = statements.begin()
            (running if len(running) < most else waiting).append(number)
        elif what == "end" and running:
            statements.end(running.pop(which % len(running)))
            if waiting:
                running.append(waiting.pop(0))
        elif what == "stop" and waiting:
            statements.stop(waiting.pop(which % len(waiting)))
        wait_until(lambda: set(running) <= set(statements.began))
        assert statements.turns.waiting(ADA) == len(waiting) and not set(waiting) & set(statements.began)
    statements.end_all()
    assert statements.turns._queues == {}


# -- through a vault


class Gate:
    """Where queries wait until they may go on, and how many came there."""

    def __init__(self) -> None:
        self.opened, self.reading = threading.Event(), 0


class Gated:
    """A reader whose queries wait at a gate."""

    def __init__(self, gate: Gate) -> None:
        self._reader, self._gate = reader_of(world(3)), gate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def columns(self, sql: str, parts: Any = ()) -> Any:
        self._gate.reading += 1
        self._gate.opened.wait(30)
        return self._reader.columns(sql, parts)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def vault(tmp_path: Path, gate: Gate) -> Iterator[Vault]:
    open_ledger(tmp_path).close()
    made = vault_of(lambda user: session_of(tmp_path, reader=Gated(gate), ledger=ReportingLedger(tmp_path / "test.ledger"), analyst=user))
    yield made
    gate.opened.set()
    made.close()


def text(number: int) -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.01) COUNT(*) FROM people WHERE income > {number}"


def asked(vault: Vault, sql: str, found: list[Any], user: str = "ada") -> threading.Thread:
    def ask() -> None:
        session = remote(vault, user)
        try:
            found.append(answer(sql, session).rows)  # type: ignore[union-attr]
        except Error as fault:
            found.append(fault.code)
        session.close()

    thread = threading.Thread(target=ask)
    thread.start()
    return thread


def test_the_fifth_statement_waits_and_what_is_free_does_not(vault: Vault, gate: Gate) -> None:
    found: list[Any] = []
    gate.opened.set()
    free = remote(vault)
    assert answer(text(-1), free).rows  # type: ignore[union-attr]
    gate.opened.clear()
    threads = [asked(vault, text(number), found) for number in range(6)]
    wait_until(lambda: vault._common.turns.waiting(free.account) == 3 and gate.reading == 4)
    assert answer(text(-1), free).stored, "stored"  # type: ignore[union-attr]
    assert answer(f"EXPLAIN PRIVACY {text(9)}", free) and answer("SHOW BUDGET", free) and answer("DESCRIBE people", free)
    others: list[Any] = []
    bob = asked(vault, text(7), others, "bob")
    wait_until(lambda: gate.reading == 5)
    gate.opened.set()
    for thread in (*threads, bob):
        thread.join(30)
    assert len(found) == 6 and all(isinstance(rows, tuple | list) for rows in (*found, *others))
    assert free.ledger.failed(free.account) == []
    free.close()


def test_who_waits_can_be_interrupted_and_nothing_is_charged(vault: Vault, gate: Gate) -> None:
    found: list[Any] = []
    threads = [asked(vault, text(number), found) for number in range(3)]
    wait_until(lambda: gate.reading == 3)
    number, sock = vault.channel() or pytest.fail("no channel")
    from dpsql.server.front.statements.remote_session import VaultChannel

    channel = VaultChannel(sock)
    session = open_remote_session(channel, channel.log_in("ada", "", lambda message: PASSWORD.encode()))
    told: list[Any] = []

    def ask() -> None:
        try:
            answer(text(3), session)
        except OperationalError as fault:
            told.append(str(fault))

    for if_free in (False, True):
        thread = threading.Thread(target=ask)
        thread.start()
        wait_until(lambda: vault._common.turns.waiting(session.account) == 1)
        vault.interrupt(number, channel._number, "client left", if_free=if_free)
        thread.join(20)
        assert len(told) == 1 + if_free and "before it was charged" in told[-1]
    assert len(session.ledger.entries("person", "ada")) == 3
    for which in range(1, 4):
        vault.interrupt(which, 1, "client left", if_free=True)
    assert len(found) == 0, "what is charged does not wait any more"
    gate.opened.set()
    for each in threads:
        each.join(30)
    assert all(isinstance(rows, tuple | list) for rows in found)
    session.close()


def test_equal_statements_at_once_are_charged_as_often_as_turns_were_free(vault: Vault, gate: Gate) -> None:
    """Those that wait find the answer stored when their turn comes."""
    found: list[Any] = []
    threads = [asked(vault, text(0), found) for _ in range(12)]
    wait_until(lambda: gate.reading == 3)
    gate.opened.set()
    for thread in threads:
        thread.join(30)
    session = remote(vault)
    assert len(found) == 12 and len(session.ledger.entries("person", "ada")) == 3
    session.close()


def test_a_front_that_sends_statements_without_end_is_refused(vault: Vault, gate: Gate) -> None:
    vault._common.turns._limits = TurnLimits(waiting=5)  # type: ignore[misc]
    found: list[Any] = []
    threads = [asked(vault, text(number), found) for number in range(12)]
    wait_until(lambda: len(found) == 4)
    assert found == ["account-busy"] * 4
    gate.opened.set()
    for thread in threads:
        thread.join(30)
    assert sum(isinstance(rows, tuple | list) for rows in found) == 8


def test_statements_beside_each_other_are_crowded_and_one_alone_is_not(tmp_path: Path, gate: Gate) -> None:
    open_ledger(tmp_path).close()
    path = tmp_path / "test.ledger"
    vault = vault_of(lambda user: session_of(tmp_path, reader=Gated(gate), ledger=ReportingLedger(path), analyst=user), 1.0)
    found: list[Any] = []
    threads = [asked(vault, text(number), found, user) for number, user in enumerate(("ada", "bob"))]
    wait_until(lambda: gate.reading == 2)
    time.sleep(1.2)
    gate.opened.set()
    for thread in threads:
        thread.join(30)
    ledger, ada = ReportingLedger(path), Account(budget="person", analyst="ada")
    assert sorted(event.kind for event in ledger._events("kind IN ('late', 'crowded')")) == ["crowded", "crowded"]
    assert (ledger.first_step(ada, 0), ledger.first_step(ada, 0, crowded=True)) == (0, 1)
    gate.opened.clear()
    alone = asked(vault, text(9), found)
    wait_until(lambda: gate.reading == 3)
    time.sleep(1.2)
    gate.opened.set()
    alone.join(30)
    ledger.refresh()
    assert (ledger.first_step(ada, 0), ledger.first_step(ada, 0, crowded=True)) == (1, 1)
    assert len(found) == 3
    ledger.close()
    vault.close()


# -- pools and dashboards


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    demo = folder.export(tmp_path_factory.mktemp("turns") / "demo")
    with served(demo, budget="study", terms=["--http", "127.0.0.1:0"]) as made:
        yield made


def chart(number: int) -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.001) COUNT(*) AS n FROM people WHERE income < {number}"


def test_a_pool_of_asyncpg(server: Served) -> None:
    asyncpg = pytest.importorskip("asyncpg")

    async def all_of_them() -> list[Any]:
        async with asyncpg.create_pool(host="127.0.0.1", port=server.port, user="ada", password=PASSWORD, database="study",
                                       min_size=20, max_size=20) as pool:
            free = asyncio.gather(*(pool.fetchval("SHOW server_version") for _ in range(40)))
            found = await asyncio.gather(*(pool.fetchval(chart(number)) for number in range(60)))
            return [*found, *await free]

    found = asyncio.run(all_of_them())
    assert len(found) == 100 and all(type(number) is int for number in found[:60])


def test_a_pool_of_psycopg(server: Served) -> None:
    pools = pytest.importorskip("psycopg_pool")

    def ask(number: int) -> Any:
        with pool.connection() as connection:
            return connection.execute(chart(number)).fetchone()[0]

    with pools.ConnectionPool(server.dsn, min_size=20, max_size=20, reset=lambda connection: connection.execute("RESET ALL"),
                              open=True) as pool, ThreadPoolExecutor(30) as threads:
        pool.wait()
        assert all(type(number) is int for number in threads.map(ask, range(100, 150)))


@pytest.mark.parametrize("sessions", [1, 12])
def test_a_dashboard_of_twelve_charts(sessions: int, server: Served) -> None:
    def ask(path: str, body: Any, token: str = "") -> Any:
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        with urlopen(Request(f"http://127.0.0.1:{server.http_port}/api/{path}", json.dumps(body).encode(), headers), timeout=60) as told:
            return json.load(told)

    tokens = [ask("login", {"name": "ada", "password": PASSWORD})["token"] for _ in range(sessions)]
    with ThreadPoolExecutor(12) as threads:
        found = list(threads.map(lambda number: ask("query", {"sql": chart(1000 * sessions + number)}, tokens[number % sessions]), range(12)))
    assert all(told["rows"] for told in found)
    for token in tokens:
        ask("logout", {}, token)


def test_a_pool_that_is_cancelled_at_every_moment_closes_no_account(server: Served) -> None:
    """The client cancels each statement a little later than the one before: before it waits, while it waits and while it runs."""
    psycopg = pytest.importorskip("psycopg")

    def ask(number: int) -> str:
        with psycopg.connect(server.dsn) as connection:
            timer = threading.Timer(number / 200, connection.cancel)
            timer.start()
            try:
                connection.execute(chart(5000 + number))
                return "answered"
            except psycopg.errors.QueryCanceled:
                return "cancelled"
            finally:
                timer.cancel()

    with ThreadPoolExecutor(12) as threads:
        found = list(threads.map(ask, range(80)))
    assert "cancelled" in found and "answered" in found
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        assert connection.execute(chart(9999)).fetchone(), "more were stopped than may fail"
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("SET statement_timeout = '30ms'; " + chart(9998))


def test_overseers_see_how_long_an_account_waits_while_others_ask(tmp_path: Path) -> None:
    """Answers that were late while others asked delay only answers while others ask; they are most of those on a busy server."""
    path = tmp_path / "test.ledger"
    open_ledger(tmp_path).close()
    ledger, policy = ReportingLedger(path), POLICY.replace("[budgets.person]\n", "[budgets.person]\nlate = 1\n")
    vault = vault_of(lambda user: session_of(tmp_path, ledger=ReportingLedger(path), analyst=user, policy=policy), 0.25)
    auditor = remote(vault, "auditor")

    def seen() -> Any:
        columns = [column.name for column in columns_of("ANALYSTS")]
        told = {row[0]: row for row in rows_of("ANALYSTS", Connection(auditor))}
        return told["ada"][columns.index("waits_seconds")] if "ada" in told else 0.0

    for step, crowded, waits in ((2, True, 0.0), (3, True, 0.5), (3, True, 1.0), (1, False, 2.0)):
        charged = ledger.charge(Account(budget="person", analyst="ada"), pure(Fraction(1, 100)).rounded(), digest="d", data="v", sql="", allows={})
        ledger.answer(charged, "body", step, crowded=crowded)
        assert seen() == waits
    auditor.close()
    vault.close()
    ledger.close()
