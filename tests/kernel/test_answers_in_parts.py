"""Answers in parts: stored whole or not at all, found by their accounts only, and verified like everything else in the ledger."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest
from support import ledgers
from support.ledgers import BOTH, IN_POSTGRES

from dpsql.errors import LedgerError
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.ledgers.shared_answers import SharingLedger
from dpsql.trusted.accounting.cost import Account, pure
from dpsql.trusted.kernel import chain as rules
from dpsql.trusted.kernel import sqlite_store
from dpsql.trusted.kernel.chain import Event, InParts, genesis, part_digest
from dpsql.trusted.kernel.event_store import COLUMNS, StoreFault
from dpsql.trusted.kernel.ledger import anchor_beside
from dpsql.trusted.kernel.marks import SYNTHETIC
from dpsql.trusted.kernel.sqlite_store import SqliteStore

ADA, BOB = Account(budget="main", analyst="ada"), Account(budget="main", analyst="bob")
COST = pure(Fraction(1, 10)).rounded()
PARTS = tuple(f'{{"codes": "part {i}"}}' for i in range(4))
TABLE = InParts(text=f'{SYNTHETIC}": "made"}}', parts=PARTS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spent.ledger"


def charge(ledger: ReportingLedger, account: Account = ADA, digest: str = "d") -> int:
    return ledger.charge(account, COST, digest=digest, data="v1", sql=f"SELECT {digest}", allows={}, incidents=3)


def stored(path: Path) -> ReportingLedger:
    ledger = ReportingLedger.create(path)
    ledger.answer(charge(ledger), "before")
    ledger.answer(charge(ledger, digest="table"), TABLE)
    ledger.answer(charge(ledger, digest="after"), "after")
    return ledger


def read(ledger: ReportingLedger, account: Account = ADA) -> list[str]:
    return [ledger.part(account, part_digest(part)) for part in PARTS]


@BOTH
@pytest.mark.parametrize("every", [1000, 1])
@pytest.mark.parametrize("length", [2**26, 10])
def test_parts_are_read_by_their_digests_and_are_no_answers(every: int, length: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "EVERY", every)
    monkeypatch.setattr(rules, "LONG", length)
    first = stored(path)
    assert read(first) == [*PARTS]
    first.close()
    for whole in (False, True):
        ledger = ReportingLedger(path, whole=whole)
        assert read(ledger) == [*PARTS] and ledger.stored(ADA, "table", "v1") == TABLE.text
        assert [entry.body for entry in ledger.entries("main")] == ["before", TABLE.text, "after"]
        assert [each.body for each in ledger.holding(ADA, "v1", SYNTHETIC)] == [TABLE.text]
        assert ledger.answers("table") == [TABLE.text] and ledger.answered(ADA, "table", "v1") is not None
        assert ledger.spent("main").epsilon == 3 * (COST.epsilon or 0) and ledger.failures("main") == [] and ledger.shared() == 0
        ledger.close()


@BOTH
def test_parts_are_of_their_account_and_of_those_that_were_told(path: Path) -> None:
    stored(path).close()
    ledger, sharing = ReportingLedger(path), SharingLedger(path)
    for stranger in (BOB, Account(budget="other", analyst="ada")):
        with pytest.raises(LedgerError):
            ledger.part(stranger, part_digest(PARTS[0]))
    assert sharing.tell(BOB, "table", "v1", "SELECT table") == TABLE.text
    assert read(ReportingLedger(path), BOB) == [*PARTS] == read(sharing, BOB)
    assert [each.body for each in sharing.holding(BOB, "v1", SYNTHETIC)] == [TABLE.text] and sharing.shared() == 1


@BOTH
def test_the_same_part_of_several_answers_is_found_by_each(path: Path) -> None:
    ledger = stored(path)
    ledger.answer(charge(ledger, BOB, "table"), TABLE)
    assert read(ledger, BOB) == [*PARTS] == read(ledger)


def test_a_long_answer_is_followed_by_a_checkpoint(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So who opens the ledger later need not verify it."""
    monkeypatch.setattr(rules, "LONG", sum(map(len, PARTS)))
    stored(path).close()
    connection = sqlite3.connect(path)
    kinds = [kind for kind, in connection.execute("SELECT kind FROM events ORDER BY seq")]
    connection.close()
    assert kinds == ["charge", "answer", "charge", *["part"] * 4, "answer", "checkpoint", "charge", "answer"]


def changed(path: Path, change: str, *, linked: bool = False) -> None:
    """Change the events as somebody does who has the file alone; `linked`: and compute the hashes again."""
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(change)
        if linked:
            link = genesis(dict(connection.execute("SELECT key, value FROM meta")))
            for row in connection.execute(f"SELECT {COLUMNS} FROM events ORDER BY seq").fetchall():
                link = Event(*row).link(link)
                connection.execute("UPDATE events SET hash = ? WHERE seq = ?", (link, row[0]))
    connection.close()


CHANGES = {"changed": "UPDATE events SET body = 'other' WHERE seq = 5", "removed": "DELETE FROM events WHERE seq = 5",
           "made an answer": "UPDATE events SET kind = 'answer' WHERE seq = 5",
           "of another": "UPDATE events SET digest = (SELECT digest FROM events WHERE seq = 6) WHERE seq = 5",
           "reordered": "UPDATE events SET body = CASE seq WHEN 5 THEN (SELECT body FROM events WHERE seq = 6) ELSE "
                        "(SELECT body FROM events WHERE seq = 5) END WHERE seq IN (5, 6)"}


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_part_that_is_changed_removed_or_moved_is_found(change: str, linked: bool, path: Path) -> None:
    stored(path).close()
    changed(path, CHANGES[change], linked=linked)
    with pytest.raises(LedgerError):
        ReportingLedger(path)


@pytest.mark.parametrize("change", CHANGES)
def test_it_is_found_when_it_is_read_before_a_checkpoint(change: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "LONG", 10)
    stored(path).close()
    changed(path, CHANGES[change])
    ledger = ReportingLedger(path)
    with pytest.raises(LedgerError):
        read(ledger)
    ledger.close()
    with pytest.raises(LedgerError):
        ReportingLedger(path, whole=True)


def test_a_part_is_found_that_is_changed_while_the_ledger_is_open(path: Path) -> None:
    ledger = stored(path)
    changed(path, "UPDATE events SET body = 'other' WHERE seq = 5")
    with pytest.raises(LedgerError, match="damaged"):
        read(ledger)


@BOTH
@pytest.mark.parametrize("at", range(len(PARTS) + 1))
def test_parts_that_cannot_be_written_leave_one_failed_charge(at: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ReportingLedger.create(path)
    seq, written, insert = charge(ledger, digest="table"), 0, type(ledger._store).insert

    def failing(self: object, event: Event, link: str) -> None:
        nonlocal written
        if written == at:
            raise StoreFault(hindered=True)
        written += 1
        insert(self, event, link)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(type(ledger._store), "insert", failing)
        with pytest.raises(LedgerError):
            ledger.answer(seq, TABLE)
    ledger.close()
    later = ReportingLedger(path, whole=True)
    assert later.stored(ADA, "table", "v1") is None and later.failed(ADA) == [seq] and later.holding(ADA, "v1", SYNTHETIC) == []
    assert len(later.entries("main")) == 1


KILLED = """
import os, sys
from support.ledgers import in_programs
in_programs()
sys.path[:0] = [%r]
import test_answers_in_parts as ours
from pathlib import Path
ledger = ours.ReportingLedger(Path(%r))
insert, written = type(ledger._store).insert, 0
def dying(self, event, link):
    global written
    insert(self, event, link)
    written += event.kind == "part"
    if written == 3:
        os.kill(os.getpid(), 9)
seq = ours.charge(ledger, digest="table")
type(ledger._store).insert = dying
ledger.answer(seq, ours.TABLE)
"""


@BOTH
def test_a_process_that_dies_between_parts_leaves_none(path: Path) -> None:
    ReportingLedger.create(path).close()
    here = Path(__file__).parent
    died = subprocess.run([sys.executable, "-c", KILLED % (str(here), str(path))], cwd=here.parent, check=False)
    assert died.returncode == -9
    ledger = ReportingLedger(path, whole=True)
    assert ledger.events == 1 and ledger.stored(ADA, "table", "v1") is None
    ledger.answer(charge(ledger, digest="table"), TABLE)
    assert read(ledger) == [*PARTS]
    assert [entry.outcome for entry in ledger.entries("main")][1:] == ["answered"]


WITHOUT_PARTS = sqlite_store.SCHEMA.replace(", 'part'", "")


def test_a_ledger_from_before_is_given_room_for_parts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_store, "SCHEMA", WITHOUT_PARTS)
        patch.setattr(sqlite_store, "INDEXES", {name: of for name, of in sqlite_store.INDEXES.items() if name != "parts"})
        patch.setattr(SqliteStore, "make_room", lambda self: None)
        ledger = ReportingLedger.create(path)
        ledger.answer(charge(ledger), "before")
        ledger.close()
    anchor = anchor_beside(path).read_bytes()
    ledger = ReportingLedger(path)
    assert ledger.stored(ADA, "d", "v1") == "before" and anchor_beside(path).read_bytes() == anchor
    ledger.answer(charge(ledger, digest="table"), TABLE)
    assert read(ledger) == [*PARTS] == read(ReportingLedger(path, whole=True)) and ledger.stored(ADA, "d", "v1") == "before"


INDEX = "SELECT COUNT(*) FROM pg_indexes WHERE indexname = 'parts' AND schemaname = current_schema()"


@IN_POSTGRES
@pytest.mark.parametrize("opened_again", [False, True])
def test_tables_of_postgres_from_before_are_given_room_for_parts(opened_again: bool, path: Path) -> None:
    ledger = ReportingLedger.create(path)
    with psycopg.connect(ledgers.uri_of(path, ledgers.database()), autocommit=True) as connection:
        connection.execute("ALTER TABLE events DROP CONSTRAINT events_kind_check, ADD CONSTRAINT events_kind_check CHECK "
                           "(kind IN ('charge', 'answer', 'incident', 'reopened', 'checkpoint', 'late', 'promise'))")
        connection.execute("DROP INDEX parts")
        ledger.answer(charge(ledger), "before")
        if opened_again:  # by the owner of the tables, after which others can write parts, too
            ReportingLedger(path).close()
            assert connection.execute(INDEX).fetchone() == (1,)
        ledger.answer(charge(ledger, digest="table"), TABLE)
        assert read(ledger) == [*PARTS] == read(ReportingLedger(path, whole=True)) and connection.execute(INDEX).fetchone() == (1,)
