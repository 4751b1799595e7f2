"""A statement that is interrupted: before its charge it costs nothing, afterwards it is stopped, which is no incident."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.sessions import reader_of, session_of
from support.slow_readers import SLOW, Slowly
from support.vaults import PASSWORD, vault_of
from support.worlds import world

from dpsql.dbapi import Connection
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import Error, Incident, Interrupted, OperationalError
from dpsql.server.front.statements import remote_session
from dpsql.server.front.statements.remote_session import VaultChannel, open_remote_session
from dpsql.server.vault.vault import ServedAccount, Vault
from dpsql.trusted.accounting.cost import pure
from dpsql.trusted.reader import PARTS, Parts, ReaderFault, ReaderInterrupted


@pytest.fixture
def slow() -> Slowly:
    return Slowly(reader_of(world(3)))


@pytest.fixture
def vault(tmp_path: Path, slow: Slowly) -> Iterator[Vault]:
    made = vault_of(lambda user: session_of(tmp_path, reader=slow, analyst=user))
    yield made
    made.close()


def connected(vault: Vault) -> tuple[int, Session]:
    number, socket = vault.channel() or pytest.fail("no channel")
    channel = VaultChannel(socket)
    return number, open_remote_session(channel, channel.log_in("ada", "", lambda message: PASSWORD))


def test_a_reader_ends_the_query_that_it_runs() -> None:
    reader = reader_of(world(3))
    reader.interrupt()  # none runs
    threading.Timer(0.3, reader.interrupt).start()
    begun = time.monotonic()
    with pytest.raises(ReaderFault):
        reader.rows(SLOW)
    assert time.monotonic() - begun < 20
    assert reader.rows("SELECT 1") == [(1,)]
    reader.close()


BAD = "SELECT SUM(CAST(CASE WHEN i = {} THEN 'x' ELSE '1' END AS INTEGER)) FROM range(100000000000) AS a(i)"  # fails at a row


@pytest.mark.parametrize("read", ["rows", "arrays", "columns"])
def test_a_reader_tells_an_interruption_from_a_row_that_cannot_be_read(read: str) -> None:
    reader = reader_of(world(3))
    with pytest.raises(ReaderFault) as caught:
        getattr(reader, read)(BAD.format(100_000))
    assert not isinstance(caught.value, ReaderInterrupted)
    for sql, parts in ((SLOW, ()), (f"SELECT * FROM {PARTS}", (Parts(statements=("SELECT i FROM range(100000000000) AS a(i) WHERE hash(i) % 7 = 3",)),))):
        threading.Timer(0.3, reader.interrupt).start()
        with pytest.raises(ReaderInterrupted) as caught:
            getattr(reader, read)(sql, parts)
        assert caught.value.__cause__ is None
    reader.close()


def test_an_interruption_does_not_hide_a_fault_that_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a query keeps for others is given back after it has failed, which may be interrupted; one that has not failed is."""
    reader = reader_of(world(3))

    @contextlib.contextmanager
    def there(*given: Any) -> Iterator[None]:
        try:
            yield
        finally:
            raise duckdb.InterruptException("while it was given back")

    monkeypatch.setattr(reader, "_there", there)
    with pytest.raises(ReaderFault) as caught:
        reader.rows(BAD.format(10))
    assert type(caught.value) is ReaderFault
    try:
        raise ValueError("which has nothing to do with it")
    except ValueError:
        with pytest.raises(ReaderInterrupted):
            reader.rows("SELECT 1")
    reader.close()


class FailsAtARow(Slowly):
    """Fails at a row by itself, at the moment at which it is interrupted and before that has an effect."""

    stop: Any = None

    def columns(self, sql: str, parts: Any = ()) -> Any:
        self.begun.set()
        assert self.stop.wait(30)
        return self._reader.rows(BAD.format(10))

    def interrupt(self) -> None:
        pass


def test_a_row_that_fails_while_it_is_interrupted_counts(tmp_path: Path) -> None:
    """Before it was told by the time alone, and was stopped: now the engine says what it was. Its analyst cannot tell the two."""
    reader = FailsAtARow(reader_of(world(3)))
    vault = vault_of(lambda user: session_of(tmp_path, reader=reader, analyst=user))
    number, session = connected(vault)
    reader.stop = vault._channels[number]._account._stopping  # type: ignore[union-attr]

    def cancel() -> None:
        reader.begun.wait(60)
        vault.interrupt(number, 1)

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(Interrupted):
        answer("SELECT COUNT(*) FROM people", session)
    thread.join(20)
    entry, = session.ledger.entries("person", "ada")
    assert entry.outcome == "failed" and session.ledger.failed(session.account) == [entry.seq]
    session.close()
    vault.close()


def test_after_the_charge_it_is_stopped(vault: Vault, slow: Slowly) -> None:
    number, session = connected(vault)

    def cancel() -> None:
        slow.begun.wait(60)
        vault.interrupt(number, 1)

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(Interrupted, match="interrupted on request") as caught:
        answer("SELECT COUNT(*) FROM people", session)
    thread.join(20)
    assert not thread.is_alive() and isinstance(caught.value, Incident), "as before for programs"
    entry, = session.ledger.entries("person", "ada")
    assert entry.body is None and entry.outcome == "stopped" and session.ledger.failed(session.account) == []
    vault.interrupt(number, 1)  # when nothing runs, it does nothing
    assert answer("SELECT city, SUM(beds) FROM clinics GROUP BY city", session).rows  # type: ignore[union-attr]
    session.close()


def test_a_vault_ends_when_its_statements_have(vault: Vault, slow: Slowly) -> None:
    _, session = connected(vault)
    failed: list[str] = []

    def ask() -> None:
        try:
            answer("SELECT COUNT(*) FROM people", session)
        except Error as fault:
            failed.append(str(fault.code))

    thread = threading.Thread(target=ask)
    thread.start()
    assert slow.begun.wait(60)
    vault.close()
    assert not vault._channels
    thread.join(20)
    assert failed == ["closed"]


def test_before_the_charge_nothing_is_charged(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    number, session = connected(vault)
    account = vault._channels[number]._account
    assert isinstance(account, ServedAccount)
    script = account._script

    def stopped(step: Any) -> Any:
        account._stopping.set()
        return script(step)

    monkeypatch.setattr(account, "_script", stopped)
    with pytest.raises(OperationalError, match="before it was charged"):
        session.kernel._channel.call("run", pure(Fraction(1)), "d", "s", (), ("made", "{}"))  # type: ignore[attr-defined]
    assert session.ledger.entries("person", "ada") == []
    session.close()


@pytest.mark.parametrize("interrupts", [False, True])
def test_a_front_that_says_it_stopped_has_failed_unless_it_interrupts(interrupts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                                      ) -> None:
    monkeypatch.setattr("dpsql.server.vault.vault.STOPPING", 20.0 if interrupts else 0.1)
    vault = vault_of(lambda user: session_of(tmp_path, analyst=user))
    number, session = connected(vault)
    step = remote_session._stepped

    def stopped(*given: Any, begun: bool = False) -> Any:
        if not begun:
            return step(*given)
        if interrupts:
            threading.Timer(0.3, vault.interrupt, (number, 1)).start()
        return ("stopped",), None

    monkeypatch.setattr(remote_session, "_stepped", stopped)
    with pytest.raises(Incident) as caught:
        answer("SELECT COUNT(*) FROM people", session)
    assert isinstance(caught.value, Interrupted) == interrupts
    assert session.ledger.failed(session.account) == ([] if interrupts else [1])
    session.close()
    vault.close()


@pytest.mark.parametrize("cause", ["", "a secret", "request\n", "x" * 150])
def test_a_front_gives_no_cause_but_those_there_are(vault: Vault, cause: str) -> None:
    number, session = connected(vault)
    vault.interrupt(number, 0, cause)
    assert not vault._channels[number]._account._stopping.is_set()  # type: ignore[union-attr]
    session.close()


def test_one_that_comes_late_does_not_meet_the_next_statement(vault: Vault, slow: Slowly) -> None:
    number, session = connected(vault)
    account = vault._channels[number]._account
    assert isinstance(account, ServedAccount)
    with pytest.raises(Interrupted):
        interrupting(vault, number, 1, slow, session, "SELECT COUNT(*) FROM people")
    assert session.kernel._channel._number == account.number == 1  # type: ignore[attr-defined]

    def meanwhile() -> None:
        slow.begun.wait(60)
        vault.interrupt(number, 1)
        vault.interrupt(number, 3)
        assert not account._stopping.is_set() and account._departure._cause is None
        vault.interrupt(number, 2)

    thread = threading.Thread(target=meanwhile)
    thread.start()
    with pytest.raises(Interrupted):
        answer("SELECT sex, COUNT(*) FROM people GROUP BY sex", session)
    thread.join(20)
    assert not thread.is_alive() and account.number == 2
    session.close()


def interrupting(vault: Vault, number: int, statement: int, slow: Slowly, session: Session, text: str) -> None:
    """Ask a statement, and interrupt it while it reads."""
    def cancel() -> None:
        slow.begun.wait(60)
        vault.interrupt(number, statement)

    slow.begun.clear()
    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        answer(text, session)
    finally:
        thread.join(20)
        slow.begun.clear()


def test_what_interrupts_a_statement_of_a_connection_meets_no_later_one(tmp_path: Path) -> None:
    connection = Connection(session_of(tmp_path))
    late = connection.interrupting()
    met = []
    explain = connection.session.kernel.interrupt

    def interrupt() -> None:
        met.append(1)
        explain()

    connection.session.kernel.interrupt = interrupt  # type: ignore[method-assign]
    with connection._used():
        late()  # of the statement before: there was none
        assert met == [] and not connection.session.interrupted.is_set()
        own = threading.Thread(target=connection.interrupting())
        own.start()
        connection.session.interrupted.wait(20)
    own.join(20)
    assert not own.is_alive() and met
    connection.close()


def test_other_channels_are_not_interrupted(vault: Vault) -> None:
    vault.interrupt(999, 1)
    number, session = connected(vault)
    vault.interrupt(number + 1, 1)
    assert session.ledger.failed(session.account) == []
    session.close()
