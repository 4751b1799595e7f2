"""Long steps ask whether the statement is to stop: nothing is charged before the charge, and it is an incident after it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from support.sessions import open_ledger, reader_of, session_of
from support.vaults import twins
from support.worlds import world

from dpsql.backends.duckdb import DuckReader
from dpsql.dbapi import Connection
from dpsql.errors import Interrupted, OperationalError
from dpsql.models import mirror_descent, sampling
from dpsql.strategies import clock
from dpsql.trusted.accounting.cost import NOTHING, Account
from dpsql.trusted.extensions.ask_solvers import heard
from dpsql.trusted.extensions.packing import Packing, exact
from dpsql.trusted.kernel import ledger
from dpsql.trusted.reader import ReaderInterrupted
from dpsql.trusted.stopping import each, go_on, stopped_by


class Stopping:
    """A reader that lets the statement go on until it has been read `reads` times."""

    def __init__(self, reader: DuckReader, reads: int) -> None:
        self._reader, self.left, self.stop = reader, reads, lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def columns(self, *given: Any) -> Any:
        found, self.left = self._reader.columns(*given), self.left - 1
        if self.left == 0:
            self.stop()
        return found


@pytest.fixture
def connected(tmp_path: Path) -> Iterator[Callable[[int], Connection]]:
    made: list[Connection] = []

    def connect(reads: int) -> Connection:
        reader = Stopping(reader_of(world(40)), reads)
        made.append(Connection(session_of(tmp_path, reader=reader, ledger=open_ledger(tmp_path))))
        reader.stop = made[-1].session.interrupted.set
        return made[-1]

    yield connect
    for each_ in made:
        each_.close()


def test_it_goes_on_unless_it_is_to_stop() -> None:
    event = Event()
    go_on()
    with stopped_by(event):
        items = each(iter("abc"))
        assert next(items) == "a"
        event.set()
        with pytest.raises(OperationalError, match="interrupted before"):
            next(items)
        with stopped_by(Event()):
            go_on()
        with pytest.raises(OperationalError):
            go_on()
    go_on()


@pytest.mark.parametrize("text", [
    "SELECT sex, MEDIAN(age) FROM people GROUP BY sex", "SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING COUNT(*) > 3",
    "CREATE SYNTHETIC TABLE made AS SELECT sex, active, age FROM people"])
def test_after_its_charge_it_is_stopped_and_no_incident(text: str, connected: Callable[[int], Connection]) -> None:
    connection = connected(1)
    before = len(connection.session.ledger.entries("person"))
    with pytest.raises(Interrupted) as told:
        connection.execute(text)
    assert told.value.__cause__ is None and told.value.__context__ is None
    entry = connection.session.ledger.entries("person")[before]
    assert entry.body is None and entry.outcome == "stopped" and connection.session.ledger.failed(connection.session.account) == []
    assert connection.execute("SELECT city, COUNT(*) FROM clinics GROUP BY city").fetchall(), "the next one is not meant"


def test_before_its_charge_it_costs_nothing(connected: Callable[[int], Connection], monkeypatch: pytest.MonkeyPatch) -> None:
    connection, over = connected(0), clock.over

    def stopped() -> bool:
        connection.session.interrupted.set()
        return over()

    monkeypatch.setattr(clock, "over", stopped)
    with pytest.raises(OperationalError, match="before anything was charged") as told:
        connection.execute("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (strategy = 'p-identity', epsilon = 1) age, SUM(COUNT(*)) OVER (ORDER BY age) "
                           "FROM people GROUP BY age")
    assert told.value.code == "interrupted" and connection.session.ledger.entries("person") == []


class Interrupting(Stopping):
    """A reader whose query of rows number `left` is interrupted."""

    def columns(self, *given: Any) -> Any:
        return self._reader.columns(*given)

    def hold(self, *given: Any) -> Any:
        self.rows("SELECT 1")
        return self._reader.hold(*given)

    def rows(self, *given: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            self.stop()
            raise ReaderInterrupted
        return self._reader.rows(*given)


@pytest.mark.parametrize("text", [
    "SELECT AVG(beds), COUNT(*) FROM clinics", "SELECT COUNT(*) FROM people WHERE regexp_matches(nickname, 'a+b')",
    "SELECT COUNT(*) FROM people AS p JOIN clinics AS c ON p.nickname = c.city"])
def test_queries_of_public_tables_are_stopped_and_the_next_statement_is_answered(text: str, tmp_path: Path) -> None:
    """How many public rows agree, and whether a text is a pattern, is kept: not from a query that was interrupted."""
    reader = Interrupting(reader_of(world(40)), 0)
    session = session_of(tmp_path, reader=reader)
    reader.stop, reader.left = session.interrupted.set, 1
    with Connection(session) as connection:
        with pytest.raises(OperationalError, match="before anything was charged"):
            connection.execute(text)
        session.interrupted.clear()
        assert connection.execute(text).fetchall() and session.ledger.failed(session.account) == []


def test_putting_released_rows_in_their_place_is_stopped(tmp_path: Path) -> None:
    with Connection(session_of(tmp_path)) as before:
        before.execute("CREATE SYNTHETIC TABLE made AS SELECT sex FROM people OPTIONS (method = 'independent')")
    reader = Interrupting(reader_of(world(40)), 0)
    session = session_of(tmp_path, reader=reader)
    reader.stop, reader.left = session.interrupted.set, 1
    with Connection(session) as connection:
        with pytest.raises(OperationalError, match="interrupted before anything was charged") as told:
            connection.execute("SELECT sex, COUNT(*) FROM made GROUP BY sex")
        assert told.value.code == "interrupted" and told.value.__context__ is None
        session.interrupted.clear()
        assert connection.execute("SELECT sex, COUNT(*) FROM made GROUP BY sex").fetchall()


@pytest.mark.parametrize("there", [False, True], ids=["in one process", "in a front"])
def test_before_the_first_request_of_a_script_too(there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AIM first fits a model to what was released before."""
    both = twins(tmp_path, readers=lambda: reader_of(world(40)))
    session = both.there if there else both.here
    text = "CREATE SYNTHETIC TABLE {0} AS SELECT sex, active FROM people OPTIONS (method = '{1}')"

    def stopped() -> None:
        session.interrupted.set()
        go_on()

    with Connection(session) as connection:
        connection.execute(text.format("made", "independent"))
        monkeypatch.setattr(mirror_descent, "go_on", stopped)
        with pytest.raises(OperationalError, match="before anything was charged"):
            connection.execute(text.format("other", "aim"))
        assert len(session.ledger.entries("person")) == 1
        assert connection.execute("SELECT COUNT(*) FROM people").fetchall(), "the next one is not meant"


def test_who_waits_for_others_of_the_account_is_not_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    event, account = Event(), Account(budget="person", analyst="ada")
    monkeypatch.setattr(ledger.time, "sleep", lambda seconds: event.set())  # type: ignore[attr-defined]
    with contextlib.closing(open_ledger(tmp_path)) as mine, contextlib.closing(open_ledger(tmp_path)) as other, stopped_by(event):
        other.charge(account, NOTHING, digest="d", data="v", sql="", allows={}, incidents=1)
        with pytest.raises(OperationalError, match="before anything was charged"):
            mine.charge(account, NOTHING, digest="d", data="v", sql="", allows={}, incidents=1)
        other.answer(1, "{}")
        with pytest.raises(OperationalError, match="before anything was charged"):
            mine.charge(account, NOTHING, digest="d", data="v", sql="", allows={}, incidents=1)
        assert len(mine.entries("person")) == 1


def test_solvers_and_models_are_not_asked_any_more() -> None:
    event, asked = Event(), list[str]()
    event.set()
    steps: list[Callable[[], object]] = [
        lambda: heard(str, asked.append, "solver"),
        lambda: exact(Packing(costs=[1], limits=[1], most=None, lines=np.array([0]), columns=np.array([0]), entries=[1])),
        lambda: sampling.conditional(np.ones((1, 2)), np.zeros(3, dtype=np.int64), np.random.default_rng(1))]
    with stopped_by(event):
        for step in steps:
            with pytest.raises(OperationalError, match="interrupted"):
                step()
    assert asked == []
    for step in steps:
        step()
    assert asked == ["solver"]
