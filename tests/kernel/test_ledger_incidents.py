"""Accounts are closed after a few incidents: by races, by kills, by forks, in old ledgers; and opened by the owner alone."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest
from support.ledgers import BOTH

from dpsql.budgets.convert import limit
from dpsql.catalog.price import price
from dpsql.errors import LedgerError
from dpsql.ledgers.ledger_reports import KeptAnswer, ReportingLedger
from dpsql.trusted.accounting.cost import Account, pure
from dpsql.trusted.kernel import ledger as module
from dpsql.trusted.kernel import sqlite_store
from dpsql.trusted.kernel.event_store import StoreFault
from dpsql.trusted.kernel.ledger import Busy, Closed

ROOT = Path(module.__file__).parents[3]
ADA, BOB = Account(budget="main", analyst="ada"), Account(budget="main", analyst="bob")
SMALL = pure(Fraction(1, 1000)).rounded()
WIDE = {None: limit(price(epsilon=1000))}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spent.ledger"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.2)


def charge(ledger: ReportingLedger, account: Account = ADA, incidents: int | None = 3, sql: str = "SELECT 1") -> int:
    return ledger.charge(account, SMALL, digest="d", data="v", sql=sql, allows=WIDE, incidents=incidents)


def fail(ledger: ReportingLedger, times: int = 1, account: Account = ADA) -> None:
    for _ in range(times):
        ledger.incident(charge(ledger, account))


@pytest.mark.parametrize("incidents", [1, 2, 3, 7])
def test_an_account_is_closed_after_so_many_incidents(incidents: int, path: Path) -> None:
    ledger = ReportingLedger.create(path)
    for i in range(incidents):
        ledger.answer(charge(ledger, incidents=incidents), "an answer between does not help")
        assert len(ledger.failed(ADA)) == i
        ledger.incident(charge(ledger, incidents=incidents))
    spent = ledger.spent("main")
    for opened in (ledger, ReportingLedger(path)):
        with pytest.raises(Closed) as caught:
            charge(opened, incidents=incidents)
        assert len(caught.value.failed) == incidents and opened.spent("main") == spent
    charge(ledger, BOB, incidents)  # the account of another is another


@BOTH
def test_names_that_differ_in_form_are_one_account(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    for name in ("ada", "ADA", " Ada "):
        fail(ledger, account=Account(budget="main", analyst=name))
    for name in ("ada", "ＡＤＡ", "aDa"):
        with pytest.raises(Closed):
            charge(ledger, Account(budget="main", analyst=name))


@BOTH
def test_the_owner_reopens_and_old_incidents_stay_forgiven(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    fail(ledger, 3)
    assert ledger.reopen(ADA) == 3 and ledger.failed(ADA) == [] and ledger.reopen(ADA) == 0
    fail(ledger, 2)
    assert [(failure.seq, failure.forgiven) for failure in ReportingLedger(path).failures("main")] == [
        (1, True), (3, True), (5, True), (8, False), (10, False)]
    ledger.incident(charge(ledger))
    with pytest.raises(Closed):
        charge(ReportingLedger(path))
    assert ledger.reopen(BOB) == 0
    with pytest.raises(Closed):
        charge(ledger)


@BOTH
def test_what_runs_is_not_forgiven_by_the_way(path: Path) -> None:
    ledger, other = ReportingLedger.create(path), ReportingLedger(path)
    fail(ledger, 2)
    running = charge(ledger)
    assert other.reopen(ADA) == 2
    ledger.incident(running)
    other.refresh()
    assert other.failed(ADA) == [running]


@BOTH
@pytest.mark.usefixtures("impatient")
def test_what_runs_closes_nothing_and_leaves_no_room_for_more_incidents(path: Path) -> None:
    handles = [ReportingLedger.create(path), *(ReportingLedger(path) for _ in range(3))]
    seqs = [charge(handle) for handle in handles[:3]]
    with pytest.raises(Busy):
        charge(handles[3])
    assert handles[3].failed(ADA) == []
    handles[0].answer(seqs[0], "told")
    seqs[0] = charge(handles[3])
    handles[1].incident(seqs[1])
    with pytest.raises(Busy):
        charge(handles[0])
    handles[2].answer(seqs[2], "told")
    charge(handles[0])


@BOTH
def test_one_that_finds_no_room_waits_for_it(path: Path) -> None:
    script = "ledger = ReportingLedger(path); seq = charge(ledger, 1); say('ready'); time.sleep(0.5); ledger.answer(seq, 'body')"
    ReportingLedger.create(path).close()
    other = start(script, path)
    begun = time.monotonic()
    charge(ReportingLedger(path), incidents=1)
    assert time.monotonic() - begun > 0.3
    assert other.wait() == 0


@BOTH
def test_a_charge_that_is_left_without_an_answer_counts(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    charge(ledger)
    assert ledger.failed(ADA) == [], "it may still run"
    charge(ledger)
    assert ledger.failed(ADA) == [1], "a ledger serves one statement after another"
    ledger.close()
    again = ReportingLedger(path)
    assert again.failed(ADA) == [1, 2] and again.reopen(ADA) == 2 and again.failed(ADA) == []


@BOTH
def test_a_failure_that_cannot_be_noted_counts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ReportingLedger.create(path)
    for _ in range(3):
        seq = charge(ledger)
        with monkeypatch.context() as patch:
            patch.setattr(ReportingLedger, "_insert", lambda *args, **kwargs: (_ for _ in ()).throw(StoreFault()))
            with pytest.raises(LedgerError):
                ledger.incident(seq)
    with pytest.raises(Closed):
        charge(ledger)


@pytest.mark.parametrize(("fault", "code", "told"), [
    (StoreFault(), "ledger-damaged", "cannot be written"), (StoreFault(hindered=True), "ledger-access", "at present"),
    (StoreFault(lost=True), "ledger-access", "may have been")], ids=["it failed", "others write", "the connection is lost"])
def test_who_cannot_write_is_told_why(fault: StoreFault, code: str, told: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ReportingLedger.create(path)
    monkeypatch.setattr(ReportingLedger, "_insert", lambda *_: (_ for _ in ()).throw(fault))
    with pytest.raises(LedgerError) as caught:
        charge(ledger)
    assert caught.value.code == code and told in caught.value.reason and ledger.events == 0


def test_an_answer_that_is_kept_late_no_longer_counts(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    first = charge(ledger)
    charge(ledger)
    ledger.answer(first, "late")
    assert ledger.failed(ADA) == []


def test_nothing_is_charged_where_no_lock_can_be_held(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    Path(f"{path}.running").write_text("in the way")
    with pytest.raises(LedgerError) as caught:
        charge(ledger)
    assert caught.value.code == "ledger-access"
    assert ledger.spent("main").rho == 0 and ReportingLedger(path).entries("main") == []


def test_a_file_left_by_a_charge_that_was_not_committed_is_no_hindrance(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    Path(f"{path}.running").mkdir()
    Path(f"{path}.running/1").write_text("")
    ledger.answer(charge(ledger), "body")
    assert not list(Path(f"{path}.running").iterdir())


def test_a_folder_of_locks_that_is_removed_is_no_hindrance(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    seq = charge(ledger)
    shutil.rmtree(f"{path}.running")
    ledger.answer(seq, "body")
    assert ledger.stored(ADA, "d", "v") == "body"


# -- ledgers from before


OLD = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE events (
    seq INTEGER PRIMARY KEY, kind TEXT NOT NULL CHECK (kind IN ('charge', 'answer', 'incident')), at TEXT NOT NULL,
    budget TEXT NOT NULL, analyst TEXT NOT NULL, digest TEXT NOT NULL, data TEXT NOT NULL, sql TEXT NOT NULL,
    epsilon INTEGER CHECK (epsilon >= 0), rho INTEGER NOT NULL CHECK (rho >= 0), delta INTEGER NOT NULL CHECK (delta >= 0),
    answers INTEGER, body TEXT, hash TEXT NOT NULL) STRICT;
CREATE INDEX asked ON events (digest, budget, analyst, data) WHERE kind = 'answer';
"""
NAMES = ("Eve", "EVE", " eve", "ｅｖｅ", "bob")


@pytest.fixture
def old(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger as earlier versions made it: names in any form, no room for other events."""
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_store, "SCHEMA", OLD)
        patch.setattr(module, "normal", lambda name: name)
        ledger = ReportingLedger.create(path)
        for i, name in enumerate(NAMES):
            seq = charge(ledger, Account(budget="main", analyst=name), incidents=None, sql=f"SELECT {i}")
            ledger.incident(seq) if i < 3 else ledger.answer(seq, f"body {i}")
        ledger.close()
    return path


def test_an_old_ledger_counts_the_forms_of_a_name_together(old: Path) -> None:
    ledger, eve = ReportingLedger(old), Account(budget="main", analyst="eve")
    assert ledger.spent("main", "eve").rho == 4 * SMALL.rho == ledger.spent("main", "EVE").rho
    assert ledger.spent("main").rho == 5 * SMALL.rho
    assert ledger.stored(eve, "d", "v") == "body 3" and ledger.holding(eve, "v", "body") == [KeptAnswer(body="body 3", shared=False)]
    assert [entry.account.analyst for entry in ledger.entries("main", "Eve")] == ["eve"] * 4
    with pytest.raises(Closed):
        charge(ledger, eve)


def test_an_old_ledger_is_given_room_and_keeps_its_chain(old: Path) -> None:
    watching, ledger, eve = ReportingLedger(old), ReportingLedger(old), Account(budget="main", analyst="eve")
    before = rows_of(old)
    assert ledger.reopen(eve) == 3
    assert rows_of(old)[:-1] == before
    for opened in (watching, ledger, ReportingLedger(old)):
        opened.refresh()
        assert opened.failed(eve) == [] and len(opened.entries("main")) == 5
    ledger.answer(charge(ledger, eve), "body")
    assert ReportingLedger(old).stored(eve, "d", "v") == "body"


def test_room_is_made_wholly_or_not_at_all(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows_of(old)
    for step in range(1, len(sqlite_store.MAKE_ROOM) + 1):
        with monkeypatch.context() as patch:
            patch.setattr(sqlite_store, "MAKE_ROOM", (*sqlite_store.MAKE_ROOM[:step], "no SQL"))
            with pytest.raises(LedgerError):
                ReportingLedger(old).reopen(Account(budget="main", analyst="eve"))
        assert rows_of(old) == before
        assert ReportingLedger(old).spent("main", "eve").rho == 4 * SMALL.rho


def rows_of(path: Path) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT * FROM events ORDER BY seq").fetchall()
    connection.close()
    return found


# -- many processes


COMMON = """
import os, sys, time
from support import ledgers
from fractions import Fraction
from dpsql.trusted.accounting.cost import pure
from dpsql.budgets.convert import limit
from dpsql.catalog.price import price
from dpsql.trusted.kernel import ledger as module
from dpsql.trusted.accounting.cost import Account
from dpsql.trusted.kernel.ledger import Busy, Closed
from dpsql.ledgers.ledger_reports import ReportingLedger

ledgers.in_programs()
path, ADA = sys.argv[1], Account(budget="main", analyst="ada")

def charge(ledger, incidents=3):
    return ledger.charge(ADA, pure(Fraction(1, 1000)).rounded(), digest="d", data="v", sql="s",
                         allows={None: limit(price(epsilon=1000))}, incidents=incidents)

def say(*words):
    os.write(1, (" ".join(map(str, words)) + chr(10)).encode())
"""


def start(script: str, path: Path) -> subprocess.Popen[str]:
    """A process that has begun: its first line is read."""
    process = subprocess.Popen([sys.executable, "-c", COMMON + script, str(path)], stdout=subprocess.PIPE, text=True,
                               env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"})
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


FAILING = """
ledger, failed = ReportingLedger(path), 0
say("ready")
while not os.path.exists(path + ".go"):
    time.sleep(0.002)
while True:
    try:
        seq = charge(ledger, %d)
    except Closed:
        break
    time.sleep(0.01)
    ledger.incident(seq)
    failed += 1
say(failed)
"""


@pytest.mark.parametrize(("incidents", "store"), [(1, "sqlite"), (3, "sqlite"), (5, "sqlite"), (3, "postgres")], indirect=["store"])
def test_racing_processes_fail_exactly_so_often(incidents: int, path: Path) -> None:
    ReportingLedger.create(path).close()
    racers = [start(FAILING % incidents, path) for _ in range(8)]
    Path(f"{path}.go").touch()
    assert sum(int(racer.communicate(timeout=300)[0]) for racer in racers) == incidents
    assert len(ReportingLedger(path).entries("main")) == incidents


DYING = """
say("ready")
ledger = ReportingLedger(path)
try:
    charge(ledger)
except Closed:
    os._exit(0)
os.kill(os.getpid(), 9)
"""


@BOTH
def test_a_kill_is_counted(path: Path) -> None:
    ReportingLedger.create(path).close()
    told = [start(DYING, path) for _ in range(6)]
    assert sorted(process.wait(timeout=300) for process in told) == [-9] * 3 + [0] * 3, "killed, or refused as closed"
    ledger = ReportingLedger(path)
    assert ledger.failed(ADA) == [1, 2, 3]
    assert [failure.seq for failure in ledger.failures("main")] == [1, 2, 3]
    assert ledger.reopen(ADA) == 3
    charge(ledger)


HOLDING = """
ledger = ReportingLedger(path)
charge(ledger)
say("ready")
time.sleep(600)
"""


@BOTH
def test_a_statement_counts_from_the_kill_on(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    holders = [start(HOLDING, path) for _ in range(2)]
    ledger.refresh()
    assert ledger.failed(ADA) == []
    for number, holder in enumerate(holders, start=1):
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        while len(ledger.failed(ADA)) < number:  # a server notices a moment later that its client is gone
            time.sleep(0.05)
        assert ledger.failed(ADA) == list(range(1, number + 1))


CHILD = """
ledger = ReportingLedger(path)
seq = charge(ledger)
if os.fork() == 0:
    time.sleep(%s)
    os._exit(0)
say("ready")
%s
"""


@BOTH
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks")
def test_a_child_that_is_left_behind_keeps_a_statement_running_not_answered(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ReportingLedger.create(path)
    process = start(CHILD % (1.5, "os.kill(os.getpid(), 9)"), path)
    process.wait()
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    with pytest.raises(Busy):
        charge(ledger, incidents=1)
    time.sleep(2)
    with pytest.raises(Closed):
        charge(ledger, incidents=1)
    process.communicate()


@BOTH
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks")
def test_a_child_that_uses_the_ledger_does_not_end_what_its_parent_runs(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    seq = charge(ledger)
    child = os.fork()
    if child == 0:
        ok = False
        try:
            mine = ledger.charge(BOB, SMALL, digest="d", data="v", sql="s", allows=WIDE, incidents=3)
            ledger.answer(mine, "body")
            ok = ledger.failed(ADA) == []
            ledger.close()
        finally:
            os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert ReportingLedger(path).failed(ADA) == []
    ledger.answer(seq, "body")
