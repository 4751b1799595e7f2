"""A ledger in PostgreSQL: connections that are lost, databases that are restarted or put back, several servers, and what is refused.

What every ledger does is tested where a test of this folder is marked by `ledgers.BOTH`.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest
from support import ledgers, postgres
from support.cut_wires import CutWire

from dpsql.catalog.policy import parse_policy
from dpsql.cli import main
from dpsql.engine.opening import find_ledger
from dpsql.errors import LedgerError, PolicyError
from dpsql.ledgers import postgres_store
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.ledgers.postgres_store import PostgresStore
from dpsql.trusted.accounting.cost import Account, pure
from dpsql.trusted.kernel import chain as rules
from dpsql.trusted.kernel.ledger import Closed, anchor_beside
from dpsql.trusted.kernel.sums import ChainSums

ADA, BOB = Account(budget="main", analyst="ada"), Account(budget="main", analyst="bob")
SMALL = pure(Fraction(1, 1000)).rounded()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "first" / "spent.ledger"


@pytest.fixture
def uri(path: Path) -> str:
    return ledgers.uri_of(path, ledgers.database())


@pytest.fixture
def ledger(path: Path, uri: str) -> Iterator[ReportingLedger]:
    made = ReportingLedger.create(path, None, PostgresStore(uri))
    yield made
    made.close()


def charge(ledger: ReportingLedger, account: Account = ADA, digest: str = "d", incidents: int | None = 3) -> int:
    return ledger.charge(account, SMALL, digest=digest, data="v", sql="SELECT 1", allows={}, incidents=incidents)


def say(uri: str, *statements: str) -> list[tuple[object, ...]]:
    with psycopg.connect(uri, autocommit=True) as connection:
        for sql in statements:
            cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else []


def backend_of(ledger: ReportingLedger) -> int:
    assert isinstance(ledger._store, PostgresStore)
    return ledger._store.backend


def end_session_of(ledger: ReportingLedger, uri: str) -> None:
    assert say(uri, f"SELECT pg_terminate_backend({backend_of(ledger)}, 5000)") == [(True,)]


def another(path: Path, name: str, uri: str) -> ReportingLedger:
    """The ledger as another server has it, which was given a copy of the anchor."""
    other = path.parents[1] / name / path.name
    other.parent.mkdir()
    shutil.copy(anchor_beside(path), anchor_beside(other))
    return ReportingLedger(other, None, PostgresStore(uri))


# -- connections that are lost


@pytest.fixture
def wired(ledger: ReportingLedger, path: Path, uri: str) -> Iterator[tuple[CutWire, ReportingLedger]]:
    """The same ledger over a wire that can be cut."""
    del ledger
    port = postgres.cluster(postgres.DURABLE).port
    wire = CutWire(port)
    over = ReportingLedger(path, None, PostgresStore(uri.replace(f":{port}/", f":{wire.port}/") + "&sslmode=disable&gssencmode=disable"))
    yield wire, over
    over.close()
    wire.close()


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_charge_whose_commit_is_uncertain_is_read_again_before_anything_follows(
        cut: str, wired: tuple[CutWire, ReportingLedger], ledger: ReportingLedger, uri: str) -> None:
    wire, over = wired
    over.answer(charge(over), "body")
    wire.cut, session = cut, backend_of(over)  # type: ignore[assignment]
    with pytest.raises(LedgerError) as caught:
        charge(over, BOB)
    assert caught.value.code == "ledger-access" and "may have been" in caught.value.reason
    say(uri, f"SELECT pg_terminate_backend({session}, 30000)")  # until the server has noticed
    ledger.refresh()
    there = [3] if cut == "after" else []
    assert ledger.failed(BOB) == there and ledger.events == 2 + len(there), "it counts as failed if it is there"
    for each in (over, ledger):  # what they share is not spoilt
        assert each.spent("main").rho == SMALL.rho * (1 + len(there))
    assert charge(over, BOB) == 3 + len(there)
    assert over.failed(BOB) == there


@pytest.mark.parametrize("cut", ["before", "after"])
def test_an_answer_whose_commit_is_uncertain_is_not_shown(
        cut: str, wired: tuple[CutWire, ReportingLedger], ledger: ReportingLedger, uri: str) -> None:
    wire, over = wired
    seq = charge(over)
    wire.cut, session = cut, backend_of(over)  # type: ignore[assignment]
    with pytest.raises(LedgerError):
        over.answer(seq, "body")
    say(uri, f"SELECT pg_terminate_backend({session}, 30000)")  # until the server has noticed
    for follow in (lambda: over.answer(seq, "again"), lambda: over.incident(seq)):
        with pytest.raises(LedgerError):
            follow()
    assert over.stored(ADA, "d", "v") == ledger.stored(ADA, "d", "v") == ("body" if cut == "after" else None)
    assert ledger.failed(ADA) == ([] if cut == "after" else [seq])


def test_a_statement_that_lost_its_lock_has_failed_and_is_never_answered(ledger: ReportingLedger, path: Path, uri: str) -> None:
    """Also if the owner has forgiven it by then: else it might fail once more, and not be counted."""
    other = another(path, "second", uri)
    seq = charge(ledger)
    other.refresh()
    assert other.failed(ADA) == []
    end_session_of(ledger, uri)
    assert other.failed(ADA) == [seq] and other.reopen(ADA) == 1
    for _ in range(2):
        with pytest.raises(LedgerError):
            ledger.answer(seq, "late")
        with pytest.raises(LedgerError):
            ledger.incident(seq)
    assert other.stored(ADA, "d", "v") is None and other.failed(ADA) == ledger.failed(ADA) == []
    ledger.answer(charge(ledger), "body")
    assert other.stored(ADA, "d", "v") == "body"


def test_a_lock_that_is_lost_while_another_thread_leads_the_turn_is_noticed(ledger: ReportingLedger, path: Path, uri: str) -> None:
    leader = ReportingLedger(path, None, PostgresStore(uri))
    seq = charge(ledger)
    end_session_of(ledger, uri)
    with pytest.raises(LedgerError):
        leader._take(lambda _: (ledger._running.check(seq), seq)[1])
    leader.refresh()
    assert leader.failed(ADA) == [seq]


def test_what_is_charged_alone_is_committed_by_the_session_that_is_alone_or_not_at_all(
        ledger: ReportingLedger, path: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other, order, led, lead = ReportingLedger(path, None, PostgresStore(uri)), list[str](), list[tuple[ReportingLedger, int]](), ReportingLedger._lead
    monkeypatch.setattr(ReportingLedger, "_lead", lambda self, steps: (led.append((self, len(steps))), lead(self, steps)))

    def second() -> None:
        with other.alone("model"):
            order.append("second")

    with ledger.alone("model"):
        waiting = threading.Thread(target=second)
        waiting.start()
        turns, charging = ledger._shared.turns, ReportingLedger(path, None, PostgresStore(uri))
        with turns._turn:
            queued = threading.Thread(target=charge, args=(charging, BOB))
            queued.start()
            while not turns._waiting:
                time.sleep(0.001)
        seq = charge(ledger)
        queued.join(30)
        assert {(led_by, steps) for led_by, steps in led} == {(ledger, 1), (charging, 1)}
        order.append("first")
        ledger.answer(seq, "body")
        end_session_of(ledger, uri)
        waiting.join(30)
        for use in (lambda: charge(ledger), lambda: ledger.stored(ADA, "d", "v")):
            with pytest.raises(LedgerError):
                use()
    assert order == ["first", "second"] and ledger.events == 3
    assert ledger.stored(ADA, "d", "v") == "body"


def test_a_database_that_crashes_has_all_that_was_charged(ledger: ReportingLedger, path: Path, uri: str) -> None:
    ledger.answer(charge(ledger), "body")
    running = charge(ledger, BOB)
    postgres.cluster(postgres.DURABLE).crash()
    with pytest.raises(LedgerError):
        ledger.answer(running, "late")
    assert ledger.stored(ADA, "d", "v") == "body" and ledger.failed(BOB) == [running]
    whole = ReportingLedger(path, None, PostgresStore(uri), whole=True)
    assert whole.events == ledger.events == 3 and charge(whole, BOB) == 4


def test_a_database_that_is_away_is_said_to_be_and_comes_back(ledger: ReportingLedger) -> None:
    server = postgres.cluster(postgres.DURABLE)
    server.stop()
    try:
        for _ in range(2):
            with pytest.raises(LedgerError) as caught:
                charge(ledger)
            assert caught.value.code == "ledger-access"
    finally:
        assert server.start(server.port)
    assert charge(ledger) == 1


def test_where_nothing_is_open_nothing_is_rolled_back() -> None:
    store = PostgresStore("postgresql://host/database")
    store.rollback()
    assert not store.in_transaction and not store.is_lost


def test_commits_wait_for_the_disk_whatever_the_default_is(ledger: ReportingLedger, path: Path, uri: str) -> None:
    say(uri, "ALTER DATABASE " + uri.split("/")[-1].split("?")[0] + " SET synchronous_commit = off")
    try:
        late = ReportingLedger(path, None, PostgresStore(uri))
        assert late._store.rows("SHOW synchronous_commit") == [("off",)]
        with late._turn() as store:
            assert store.rows("SHOW synchronous_commit") == [("on",)]
    finally:
        say(uri, "ALTER DATABASE " + uri.split("/")[-1].split("?")[0] + " RESET synchronous_commit")


def test_a_session_waits_for_locks_and_takes_no_temporary_table_for_the_ledgers(ledger: ReportingLedger) -> None:
    assert isinstance(ledger._store, PostgresStore)
    assert ledger._store.rows("SELECT current_setting('search_path'), current_setting('lock_timeout')") == [
        (f'"{ledger._store.schema}", pg_temp', "1min")]


# -- what others do in the database


@pytest.mark.parametrize("table", ["meta", "events"])
def test_a_table_that_others_lock_is_waited_for_and_is_not_damaged(table: str, path: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a transaction that was prepared and forgotten does: its owner is not told to put back an older ledger."""
    monkeypatch.setitem(postgres_store.SESSION, "lock_timeout", "20ms")
    ledger = ReportingLedger.create(path, None, PostgresStore(uri))
    uses = [lambda: charge(ledger), lambda: ReportingLedger(path, None, PostgresStore(uri + "&application_name=other"))]
    with psycopg.connect(uri) as other:
        other.execute(f"LOCK TABLE {table}")
        for use in uses if table == "meta" else [*uses, ledger.refresh, lambda: ledger.stored(ADA, "d", "v")]:
            with pytest.raises(LedgerError) as caught:
                use()
            assert caught.value.code == "ledger-access" and "locks it" in caught.value.try_
    assert charge(ledger) == 1 and ledger.events == 1


def test_charges_go_on_whenever_others_lock_a_table(path: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements that psycopg prepares by itself, after a few of them, were taken for prepared ever after where a pipeline failed:
    one of ten such histories ended in a connection on which nothing could be charged."""
    monkeypatch.setitem(postgres_store.SESSION, "lock_timeout", "20ms")
    ReportingLedger.create(path, None, PostgresStore(uri)).close()
    ledger = ReportingLedger(path, None, PostgresStore(uri))

    def fails() -> None:
        with psycopg.connect(uri) as other, pytest.raises(LedgerError):
            other.execute("LOCK TABLE meta")
            charge(ledger, incidents=None)

    ledger.stored(ADA, "d", "v")
    ledger.answer(charge(ledger, incidents=None), "body")
    ledger.entries("main")
    fails()
    ledger.answer(charge(ledger, incidents=None), "body")
    charge(ledger, incidents=None)
    ledger.answer(charge(ledger, incidents=None), "body")
    fails()
    assert charge(ledger, incidents=None) == 8


def test_a_standby_that_is_away_is_not_waited_for_without_end(path: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that is on this disk alone is none: what it charged stays charged, and is not answered."""
    monkeypatch.setattr(postgres_store, "COMMITTED", 0.3)
    ledger = ReportingLedger.create(path, None, PostgresStore(uri))
    set_everywhere(uri, "synchronous_standby_names", "away")
    try:
        with pytest.raises(LedgerError) as caught:
            charge(ledger)
        assert caught.value.code == "ledger-access"
    finally:
        set_everywhere(uri, "synchronous_standby_names", "")
    assert charge(ledger) == 2 and ledger.failed(ADA) == [1] and ledger.spent("main").rho == 2 * SMALL.rho


# -- databases that are put back, and damage


def test_who_has_seen_an_event_refuses_a_database_without_it(ledger: ReportingLedger, path: Path, uri: str) -> None:
    """And who has not seen it cannot miss it: as the guide says, servers that had seen less go on."""
    ledger.answer(charge(ledger), "body")
    second = another(path, "second", uri)
    third = another(path, "third", uri)
    second.answer(charge(second, BOB), "of bob")
    second.close()
    ledger.refresh()  # this one has read of it, and nothing more
    say(uri, "DELETE FROM events WHERE seq > 2")
    for _ in range(2):
        with pytest.raises(LedgerError) as caught:
            ledger.refresh()
        assert caught.value.code == "ledger-rolled-back"
    assert charge(third, BOB) == 3, "it knew of two events"
    for use in (lambda: charge(ledger), lambda: ReportingLedger(path.parents[1] / "second" / path.name, None, PostgresStore(uri))):
        with pytest.raises(LedgerError):
            use()


def test_a_connection_that_is_made_again_leads_to_all_that_was_seen_or_nowhere(ledger: ReportingLedger, path: Path, uri: str) -> None:
    """A failover to an older state: to what this process has accepted, and to what its anchor has seen by another one."""
    ledger.answer(charge(ledger), "body")
    ReportingLedger(path, None, PostgresStore(uri), whole=True).close()
    neighbour = ReportingLedger(path, None, PostgresStore(uri.replace("?", "?application_name=other&")))  # another process of this server
    neighbour.answer(charge(neighbour, BOB), "of bob")
    say(uri, "DELETE FROM events WHERE seq > 2")
    end_session_of(ledger, uri)
    for _ in range(2):
        with pytest.raises(LedgerError) as caught:
            charge(ledger)
        assert caught.value.code == "ledger-rolled-back"


@pytest.mark.parametrize("damage", [
    "UPDATE events SET rho = 0 WHERE seq = 1", "UPDATE events SET body = 'forged' WHERE seq = 2", "DELETE FROM events WHERE seq = 1",
    "UPDATE meta SET value = '00' WHERE key = 'salt'", "DELETE FROM meta", "DROP TABLE events", "UPDATE events SET hash = 'x'",
    "UPDATE events SET seq = seq + 10 WHERE seq > 2"])
def test_no_damage_passes_unseen(damage: str, ledger: ReportingLedger, path: Path, uri: str) -> None:
    for _ in range(2):
        ledger.answer(charge(ledger), "body")
    ledger.close()
    say(uri, damage)
    for whole in (False, True):
        with pytest.raises(LedgerError) as caught:
            ReportingLedger(path, None, PostgresStore(uri), whole=whole)
        assert caught.value.code in ("ledger-damaged", "ledger-rolled-back", "ledger-missing")


def test_a_ledger_that_was_replaced_while_it_was_open_is_not_written(ledger: ReportingLedger, path: Path, uri: str) -> None:
    say(uri, "DROP TABLE events, meta")
    ReportingLedger.create(path.with_name("new"), None, PostgresStore(uri)).close()
    with pytest.raises(LedgerError):
        charge(ledger)
    assert say(uri, "SELECT COUNT(*) FROM events") == [(0,)]


def test_a_ledger_opened_from_a_checkpoint_is_the_ledger_that_was_written(
        ledger: ReportingLedger, path: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "EVERY", 9)
    monkeypatch.setattr(ChainSums, "size", 0)
    monkeypatch.setattr(postgres_store, "BATCH", 7)
    for i in range(30):
        seq = charge(ledger, ADA if i % 2 else BOB, f"d{i}", incidents=None)
        ledger.answer(seq, f"body {i}") if i % 5 else ledger.incident(seq)
    states = [(each.spent("main"), each.failed(BOB), each.entries("main"), each.entries("main", "Ada"), each.stored(ADA, "d1", "v"),
               each.holding(ADA, "v", "body 1"), each.texts(BOB, "select", 3), each._chain.head, each._chain.hashes.get(1))
              for each in (ledger, ReportingLedger(path, None, PostgresStore(uri + "&application_name=other")), ReportingLedger(path, None, PostgresStore(uri), whole=True))]
    assert states[0][:-1] == states[1][:-1] == states[2][:-1] and states[1][-1] is None and states[2][-1] is not None


# -- several servers


def test_a_server_without_an_anchor_is_not_served_and_one_with_a_copy_is(ledger: ReportingLedger, path: Path, uri: str) -> None:
    charge(ledger)
    with pytest.raises(LedgerError) as caught:
        ReportingLedger(path.parents[1] / "new.ledger", None, PostgresStore(uri))
    assert caught.value.code == "ledger-anchor"
    second = another(path, "second", uri)
    assert second.salt == ledger.salt and second.identity == ledger.identity and second.events == 1
    assert "owner" not in second.place


def test_accounts_are_closed_on_all_servers(ledger: ReportingLedger, path: Path, uri: str) -> None:
    second = another(path, "second", uri)
    for each in (ledger, second, ledger):
        each.incident(charge(each))
    for each in (ledger, second):
        with pytest.raises(Closed):
            charge(each)


# -- what is refused


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_database_that_does_not_wait_for_the_disk_is_refused(setting: str, ledger: ReportingLedger, path: Path, uri: str) -> None:
    """By whoever creates a ledger, opens one, or has it open."""
    set_everywhere(uri, setting, "off")
    new = path.with_name("new")
    try:
        for use in (lambda: ReportingLedger.create(new, None, PostgresStore(ledgers.uri_of(new, ledgers.database()))), lambda: ReportingLedger(path, None, PostgresStore(uri)),
                    lambda: charge(ledger)):
            with pytest.raises(LedgerError) as caught:
                use()
            assert caught.value.code == "ledger-access" and "fsync" in caught.value.try_ and not anchor_beside(new).exists()
    finally:
        set_everywhere(uri, setting, "on")
    assert charge(ledger) == 1


def set_everywhere(uri: str, setting: str, value: str) -> None:
    say(uri, f"ALTER SYSTEM SET {setting} = '{value}'", "SELECT pg_reload_conf()")
    deadline = time.monotonic() + 30
    while say(uri, f"SHOW {setting}") != [(value,)]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.2)  # until other sessions have heard of it


def test_a_standby_is_refused(ledger: ReportingLedger, path: Path, uri: str) -> None:
    charge(ledger)
    with postgres.cluster(postgres.DURABLE).standing_by():
        assert say(uri, "SELECT pg_is_in_recovery(), COUNT(*) FROM events") == [(True, 1)]
        for use in (lambda: charge(ledger), lambda: ReportingLedger(path, None, PostgresStore(uri))):
            with pytest.raises(LedgerError) as caught:
                use()
            assert caught.value.code == "ledger-access"
    assert charge(ledger) == 2


def test_a_pooler_is_refused(ledger: ReportingLedger, path: Path, uri: str) -> None:
    del ledger
    port = postgres.cluster(postgres.DURABLE).port
    wire = CutWire(port, pooled=True)
    with pytest.raises(LedgerError) as caught:
        ReportingLedger(path, None, PostgresStore(uri.replace(f":{port}/", f":{wire.port}/") + "&sslmode=disable&gssencmode=disable"))
    assert "pooler" in caught.value.reason
    wire.close()


@pytest.mark.parametrize("table", ["meta", "events"])
def test_a_ledger_that_all_may_read_is_refused(table: str, ledger: ReportingLedger, path: Path, uri: str) -> None:
    say(uri, f"GRANT SELECT ON {table} TO PUBLIC")
    with pytest.raises(LedgerError) as caught:
        ReportingLedger(path, None, PostgresStore(uri))
    assert caught.value.code == "ledger-access" and "REVOKE" in caught.value.try_
    del ledger


def test_a_server_needs_no_right_to_change_or_delete(ledger: ReportingLedger, path: Path, uri: str) -> None:
    schema = uri.split("%3D")[1]
    say(uri, "DROP ROLE IF EXISTS serving", "CREATE ROLE serving LOGIN", f"GRANT USAGE ON SCHEMA {schema} TO serving",
        "GRANT SELECT ON meta, events TO serving", "GRANT INSERT ON events TO serving")
    try:
        served = ReportingLedger(path, None, PostgresStore(uri + "%20-crole%3Dserving"))
        assert served._store.rows("SELECT current_user::text") == [("serving",)]
        served.answer(charge(served), "body")
        served.close()
        for act in ("UPDATE events SET rho = 0", "DELETE FROM events", "UPDATE meta SET value = ''"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                say(uri, "SET ROLE serving", act)
    finally:
        say(uri, "DROP OWNED BY serving", "DROP ROLE serving")
    assert ledger.stored(ADA, "d", "v") == "body"


@pytest.mark.parametrize("number", [0, 2**62, -2**62, 2**63 - 1, -2**63])
def test_locks_are_found_whatever_their_numbers_are(number: int, ledger: ReportingLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PostgresStore, "number", lambda self, name: number)
    seq = charge(ledger)
    assert ledger.failed(ADA) == [] and ledger._running.is_running(seq) and not ledger._running.is_running(seq + 1)
    ledger.answer(seq, "body")
    assert not ledger._running.is_running(seq)


def test_a_number_that_was_left_is_waited_for(ledger: ReportingLedger, path: Path, uri: str) -> None:
    """A lock of a charge that was not committed, of a session that ends a little later."""
    other = ReportingLedger(path, None, PostgresStore(uri))
    other._running.begin(1)
    threading.Timer(0.3, lambda: other._running.abandon(1)).start()
    begun = time.monotonic()
    assert charge(ledger) == 1 and time.monotonic() - begun > 0.2


@pytest.mark.parametrize("uri", ["postgresql://ada:secret@host/db", "postgresql://host/db?password=secret", "sqlite:///x", "mysql://h/d"])
def test_a_policy_names_no_password_and_no_other_kind(uri: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(f'version = 1\nledger = "{uri}"\n' + POLICY)
    assert "secret" not in str(caught.value)


def test_the_extra_is_named_where_the_library_is_missing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "dpsql.ledgers.postgres_store")
    with pytest.raises(LedgerError) as caught:
        find_ledger(parse_policy("version = 1\n" + POLICY, path=str(path.with_name("dpsql.toml"))), "postgresql://host/db")
    assert caught.value.code == "extra" and "dpsql[ledger]" in caught.value.try_


POLICY = """
[entities.person]
table = "people"
key = "id"
[tables.people]
source = "people.csv"
[tables.people.columns]
id = { type = "BIGINT" }
age = { type = "BIGINT", range = [0, 120] }
[budgets.main]
entity = "person"
epsilon = 1
per_statement = { epsilon = 0.5 }
"""


def test_the_commands_work_on_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uri = ledgers.uri_of(tmp_path, ledgers.database())
    (tmp_path / "people.csv").write_text("id,age\n" + "".join(f"{i},{i % 90}\n" for i in range(500)))
    policy = tmp_path / "p.toml"
    policy.write_text(f'version = 1\nledger = "{uri}"\n' + POLICY)
    place = ["--policy", str(policy)]
    assert main(["query", *place, "SELECT COUNT(*) FROM people"]) == 4, "a ledger is never made silently"
    assert main(["budget", "--create", *place]) in (0, None)
    assert "in schema" in capsys.readouterr().out and (tmp_path / "p.ledger.anchor").exists()
    assert main(["query", *place, "SELECT COUNT(*) FROM people"]) in (0, None)
    assert main(["ledger", "verify", *place]) in (0, None)
    assert "3 events" in capsys.readouterr().out
    assert main(["budget", "--create", *place]) == 4
