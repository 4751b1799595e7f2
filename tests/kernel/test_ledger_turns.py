"""Threads that share a turn: each charge is checked after those before it, and a fault is its own thread's; power that is lost."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest
from support.ledgers import BOTH

from dpsql.budgets.convert import limit
from dpsql.catalog.price import price
from dpsql.errors import LedgerError
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.accounting.cost import NOTHING, Account, Charge, pure
from dpsql.trusted.accounting.privacy_filter import Limit
from dpsql.trusted.kernel.anchor import Anchor
from dpsql.trusted.kernel.event_store import StoreFault
from dpsql.trusted.kernel.ledger import Refused, anchor_beside
from dpsql.trusted.kernel.turns import Turns, Waiting

TENTH = pure(Fraction(1, 10)).rounded()
ONE: dict[str | None, Limit] = {None: limit(price(epsilon=1))}
WIDE: dict[str | None, Limit] = {None: limit(price(epsilon=1000))}


@pytest.fixture
def path(tmp_path: Path, store: str) -> Path:
    made = tmp_path / "spent.ledger"
    ReportingLedger.create(made).close()
    return made


def who(number: int) -> Account:
    return Account(budget="main", analyst=f"analyst {number}")


def charge(ledger: ReportingLedger, number: int, cost: Charge = TENTH, allows: dict[str | None, Limit] = WIDE, sql: str = "s") -> int:
    return ledger.charge(who(number), cost, digest="d", data="v", sql=sql, allows=allows, incidents=3)


def together(first: ReportingLedger, steps: Sequence[Callable[[], int]]) -> list[Future[int]]:
    """Run steps in threads so that all of them are in one turn, in their order."""
    turns, pool, found = first._shared.turns, ThreadPoolExecutor(len(steps)), []
    with turns._turn:
        for number, step in enumerate(steps):
            found.append(pool.submit(step))
            deadline = time.monotonic() + 30
            while len(turns._waiting) <= number and time.monotonic() < deadline:
                time.sleep(0.001)
    pool.shutdown()
    return found


def commits(ledgers: Sequence[ReportingLedger]) -> list[str]:
    found = list[str]()
    for ledger in ledgers:
        assert ledger._store.connection is not None
        ledger._store.connection.set_trace_callback(lambda text: found.append(text) if text == "COMMIT" else None)
    return found


def test_one_commit_serves_all_who_wait(path: Path) -> None:
    ledgers = [ReportingLedger(path) for _ in range(8)]
    found = commits(ledgers)
    seqs = [step.result() for step in together(ledgers[0], [lambda n=n: charge(ledgers[n], n) for n in range(8)])]
    assert seqs == list(range(1, 9)) and len(found) == 1
    assert len(anchor_beside(path).read_text().split()) == 4, "and one record: of the beginning, and of all"
    answers = [lambda n=n: ledgers[n].answer(seqs[n], f"body {n}") or n for n in range(8)]
    assert [step.result() for step in together(ledgers[0], answers)] == list(range(8)) and len(found) == 2
    assert [entry.body for entry in ReportingLedger(path).entries("main")] == [f"body {n}" for n in range(8)]


@BOTH
def test_each_is_checked_after_those_before_it_and_fails_alone(path: Path, store: str) -> None:
    ledgers = [ReportingLedger(path) for _ in range(14)]
    steps = [lambda n=n: charge(ledgers[n], n, allows=ONE) for n in range(12)]
    steps.insert(3, lambda: charge(ledgers[12], 12, Charge(epsilon=-1, rho=0, delta=0)))
    steps.insert(5, lambda: charge(ledgers[13], 13, sql="\ud800"))
    found = together(ledgers[0], steps)
    faults = [type(step.exception()) for step in found]
    assert faults == [type(None)] * 3 + [LedgerError] + [type(None)] + [UnicodeEncodeError] + [type(None)] * 6 + [Refused] * 2
    ledger = ReportingLedger(path)
    assert ledger.spent("main") == Charge(epsilon=10**9, rho=5 * 10**7, delta=0)
    assert [entry.seq for entry in ledger.entries("main")] == list(range(1, 11))
    for each in ledgers:
        each.close()
    assert store == "postgres" or not list(Path(f"{path}.running").iterdir()), "no lock is left behind"


@BOTH
def test_statements_of_one_account_share_its_incidents(path: Path) -> None:
    ledgers = [ReportingLedger(path) for _ in range(5)]

    def fail(ledger: ReportingLedger) -> int:
        seq = charge(ledger, 0)
        ledger.incident(seq)
        return seq

    found = together(ledgers[0], [lambda each=each: fail(each) for each in ledgers])
    assert [step.exception() is None for step in found].count(True) == 3
    assert len(ReportingLedger(path).failed(who(0))) == 3


@BOTH
def test_a_commit_that_fails_charges_nobody(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledgers = [ReportingLedger(path) for _ in range(4)]
    charge(ledgers[0], 0)

    def full(self: ReportingLedger) -> None:
        raise StoreFault

    with monkeypatch.context() as patch:
        patch.setattr(ReportingLedger, "_write_checkpoint", full)  # the last thing that is written
        found = together(ledgers[0], [lambda n=n: charge(ledgers[n], n) for n in range(4)])
        assert [type(step.exception()) for step in found] == [LedgerError] * 4
    for ledger in (*ledgers, ReportingLedger(path)):
        ledger.refresh()
        assert ledger.spent("main") == TENTH
    assert [step.result() for step in together(ledgers[0], [lambda n=n: charge(ledgers[n], n) for n in range(4)])] == [2, 3, 4, 5]


@BOTH
def test_a_thread_that_is_interrupted_in_its_turn_leaves_nothing_half_done(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledgers, insert, calls = [ReportingLedger(path) for _ in range(3)], ReportingLedger._insert, list[int]()

    def interrupted(self: ReportingLedger, event: object) -> None:
        insert(self, event)  # type: ignore[arg-type]
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(ReportingLedger, "_insert", interrupted)
    found = together(ledgers[0], [lambda n=n: charge(ledgers[n], n) for n in range(3)])
    assert [type(step.exception()) for step in found].count(KeyboardInterrupt) == 1
    assert [type(step.exception()) for step in found].count(LedgerError) == 2
    assert ReportingLedger(path).entries("main") == []
    assert charge(ledgers[1], 1) == 1


def test_who_is_interrupted_while_waiting_leaves_no_step_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(contextlib.nullcontext[None]):
        def __enter__(self) -> None:
            raise KeyboardInterrupt

    turns, (mine, other) = Turns(), (Waiting(lambda store: 1) for _ in range(2))
    with monkeypatch.context() as patch:
        patch.setattr(turns, "_turn", Interrupted())
        with pytest.raises(KeyboardInterrupt), turns.turn(mine):
            raise AssertionError("it has no turn")
    with turns.turn(other) as waiting:
        assert waiting == [other]


@BOTH
def test_what_cannot_be_anchored_stays_charged_for_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledgers = [ReportingLedger(path) for _ in range(3)]
    with monkeypatch.context() as patch:
        patch.setattr(Anchor, "record", lambda *_: (_ for _ in ()).throw(OSError("full")))
        found = together(ledgers[0], [lambda n=n: charge(ledgers[n], n) for n in range(3)])
    assert [getattr(step.exception(), "code", None) for step in found] == ["ledger-anchor"] * 3
    assert len(ReportingLedger(path).entries("main")) == 3


def test_an_anchor_whose_disk_failed_once_is_not_believed_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux tells once that what was written is lost; the next sync says that all is well."""
    ledger, monkeypatched = ReportingLedger(path), pytest.MonkeyPatch()
    monkeypatch.setattr(Anchor, "settle_soon", lambda *_: None)
    seq = charge(ledger, 0)
    with monkeypatched.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(5, "input/output error")))
        with pytest.raises(LedgerError):
            ledger.answer(seq, "body")
    for step in (lambda: charge(ledger, 0), lambda: ledger.stored(who(0), "d", "v")):
        with pytest.raises(LedgerError) as caught:
            step()
        assert caught.value.code == "ledger-anchor"
    records = anchor_beside(path).read_text().split("\n")
    assert ReportingLedger(path).stored(who(0), "d", "v") == "body", "opening has the anchor vouch for all that was found"
    assert anchor_beside(path).read_text().split("\n")[-2] == records[-2] and len(anchor_beside(path).read_text().split("\n")) > len(records)


@BOTH
def test_exactly_as_many_threads_are_granted_as_fit(path: Path) -> None:
    def work(number: int) -> int:
        ledger, granted = ReportingLedger(path), 0
        try:
            while True:
                ledger.answer(charge(ledger, number, pure(Fraction(1, 100)).rounded(), allows=ONE), "body")
                granted += 1
        except Refused:
            return granted

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(8))) == 100
    assert len(ReportingLedger(path).entries("main")) == 100


def test_threads_wait_for_the_disk_together(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledgers, syncs, fsync, done = [ReportingLedger(path) for _ in range(8)], list[int](), os.fsync, threading.Barrier(8)
    monkeypatch.setattr(os, "fsync", lambda handle: (time.sleep(0.02), syncs.append(1), fsync(handle)))

    def work(number: int) -> None:
        done.wait()
        for _ in range(5):
            ledgers[number].answer(charge(ledgers[number], number), "body")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert 5 <= len(syncs) < 40 and len(ReportingLedger(path).entries("main")) == 40


@BOTH
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks")
def test_a_child_has_no_part_in_the_turns_of_its_parents_threads(path: Path) -> None:
    ledger = ReportingLedger(path)
    with ledger._shared.turns._turn, ledger._shared.anchor._settling:  # as if another thread were in the middle of something
        child = os.fork()
        if child == 0:
            ok = False
            try:
                ledger.answer(charge(ledger, 1), "body")
                ok = True
            finally:
                os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert ReportingLedger(path).stored(who(1), "d", "v") == "body"


@BOTH
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks")
def test_a_child_has_no_part_in_what_its_parents_threads_have_verified(path: Path) -> None:
    ledger, inside, go = ReportingLedger(path), threading.Event(), threading.Event()

    def verifying() -> None:
        with ledger._shared.lock:
            inside.set()
            go.wait(30)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(verifying)
        assert inside.wait(30)
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # nobody releases the lock here
            ok = False
            try:
                ok = ledger.spent("main") == NOTHING
            finally:
                os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0
        go.set()


@BOTH
def test_the_anchor_never_sees_what_is_not_committed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one thread is in the middle of a turn, which fails, another one settles."""
    monkeypatch.setattr(Anchor, "settle_soon", lambda *_: None)
    ledger, other, inside, go = ReportingLedger(path), ReportingLedger(path), threading.Event(), threading.Event()
    ledger.answer(charge(ledger, 1), "body")
    ledger._shared.anchor._settled = ledger._shared.anchor._written = 0  # as if another process had written it

    def waiting(self: ReportingLedger) -> None:
        inside.set()
        assert go.wait(30)
        raise StoreFault

    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr(ReportingLedger, "_write_checkpoint", waiting)
        charged = pool.submit(charge, ledger, 2)
        assert inside.wait(30)
        found = pool.submit(other.stored, who(1), "d", "v")
        time.sleep(0.05)
        go.set()
        assert type(charged.exception()) is LedgerError and found.result() == "body"
    assert max(Anchor(anchor_beside(path)).heads())[0] == 2
    assert ReportingLedger(path, whole=True).events == 2


# -- loss of power


class Disk:
    """What is on the disk of the anchor: what it held at the last sync. The ledger is copied as it is after each commit."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.anchor = path, anchor_beside(path).read_bytes()
        fsync = os.fsync

        def watched(handle: int) -> None:
            fsync(handle)
            if os.fstat(handle).st_ino == anchor_beside(path).stat().st_ino:  # not that of a copy
                self.anchor = anchor_beside(path).read_bytes()

        monkeypatch.setattr(os, "fsync", watched)

    def ledger(self) -> dict[Path, bytes]:
        return {file: file.read_bytes() for file in (self.path, self.path.with_name(self.path.name + "-wal")) if file.exists()}

    def power_is_lost(self, ledger: dict[Path, bytes], *, to: Path) -> Path:
        """A folder with what was on disk, or with an older copy of the ledger."""
        to.mkdir()
        for file, content in ledger.items():
            (to / file.name).write_bytes(content)
        (to / anchor_beside(self.path).name).write_bytes(self.anchor)
        return to / self.path.name


@pytest.mark.parametrize("early", [False, True])
def test_whatever_was_shown_is_vouched_for_when_power_is_lost(early: bool, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each answer: the ledger as it is opens with everything. Any copy from before the charge is refused, although the anchor
    lost all that it was not told to keep; and one from between charge and answer is refused too or, where the anchor was settled
    while rows were read, has lost the answer alone."""
    monkeypatch.setattr(Anchor, "settle_soon", Anchor.settle if early else lambda *_: None)
    disk, ledger = Disk(path, monkeypatch), ReportingLedger(path)
    copies = [disk.ledger()]
    for number in range(6):
        seq = charge(ledger, number)
        between = disk.ledger()
        ledger.incident(seq) if number == 3 else ledger.answer(seq, f"body {number}")
        now = ReportingLedger(disk.power_is_lost(disk.ledger(), to=tmp_path / f"now {number}"))
        assert len(now.entries("main")) == number + 1 and now.failed(who(number)) == ([seq] if number == 3 else [])
        for at, copy in enumerate(copies):
            with pytest.raises(LedgerError) as caught:
                ReportingLedger(disk.power_is_lost(copy, to=tmp_path / f"{number} back to {at}"))
            assert caught.value.code == "ledger-rolled-back"
        between_now = disk.power_is_lost(between, to=tmp_path / f"between {number}")
        if not early:
            with pytest.raises(LedgerError):
                ReportingLedger(between_now)
        else:
            lost = ReportingLedger(between_now)
            assert lost.spent("main") == now.spent("main") and lost.failed(who(number)) == [seq]
        copies.append(between)  # from before all charges to come


def test_a_crash_at_any_moment_is_not_taken_for_a_rollback(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Power is lost after any write or sync of a statement, with as little of the anchor on disk as can be."""
    monkeypatch.setattr(Anchor, "settle_soon", lambda *_: None)
    disk, ledger, moments = Disk(path, monkeypatch), ReportingLedger(path), list[tuple[dict[Path, bytes], bytes]]()
    for name in ("record", "settle", "_append"):
        act = getattr(Anchor, name)

        def watched(self: Anchor, *args: object, act: Callable[..., None] = act) -> None:
            moments.append((disk.ledger(), disk.anchor))
            act(self, *args)
            moments.append((disk.ledger(), disk.anchor))

        monkeypatch.setattr(Anchor, name, watched)
    for number in range(3):
        ledger.answer(charge(ledger, number), f"body {number}")
    monkeypatch.undo()
    for number, (copy, anchor) in enumerate(moments):
        disk.anchor = anchor
        ReportingLedger(disk.power_is_lost(copy, to=tmp_path / f"{number}")).close()
    assert len(moments) > 20
