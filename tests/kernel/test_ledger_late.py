"""Outcomes that leave late are few: whoever races, after restarts, in both stores; and what they slow down the owner undoes."""

from __future__ import annotations

import datetime as dt
import itertools
import random
import threading
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest
from support.ledgers import BOTH

from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.accounting.cost import Account, pure
from dpsql.trusted.declarations.account_limits import FADES
from dpsql.trusted.kernel import chain as rules
from dpsql.trusted.kernel.chain import Chain, Event
from dpsql.trusted.kernel.ledger import Busy

ADA, BOB = Account(budget="main", analyst="ada"), Account(budget="main", analyst="bob")
SMALL = pure(Fraction(1, 1000)).rounded()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spent.ledger"


def charge(ledger: ReportingLedger, account: Account = ADA, incidents: int | None = 3) -> int:
    return ledger.charge(account, SMALL, digest="d", data="v", sql="SELECT 1", allows={}, incidents=incidents)


def leave(ledger: ReportingLedger, *steps: int, account: Account = ADA) -> None:
    for step in steps:
        ledger.answer(charge(ledger, account), "body", step)


@BOTH
def test_after_so_many_each_late_outcome_doubles_the_time_of_all_later_ones(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    firsts = []
    for step in (5, 1, 1, 0, 2, 1, 3, 1):
        leave(ledger, step)
        firsts.append(ledger.first_step(ADA, 3))
    assert firsts == [0, 0, 0, 0, 1, 2, 3, 4]
    assert ledger.first_step(Account(budget="main", analyst=" ADA"), 3) == 4, "one account, however its name is written"
    assert ledger.first_step(BOB, 0) == 0 == ledger.first_step(Account(budget="other", analyst="ada"), 0)
    assert [ledger.first_step(ADA, late) for late in (0, 2, 6, 7, 100)] == [5, 5, 1, 0, 0], "never beyond the largest"
    ledger.incident(charge(ledger), 7)
    assert ledger.first_step(ADA, 3) == 5, "failures count, too"
    other = ReportingLedger(path)
    assert other.first_step(ADA, 3) == 5


@BOTH
def test_the_owner_forgives_them(path: Path) -> None:
    ledger, other = ReportingLedger.create(path), ReportingLedger(path)
    leave(ledger, 2, 3, 3)
    leave(ledger, 1, account=BOB)
    ledger.incident(charge(ledger))
    assert other.reopen(ADA) == 4 and other.reopen(ADA) == 0
    ledger.refresh()
    assert ledger.first_step(ADA, 0) == 0 and ledger.late("main") == [("bob", 1, 1)] and ledger.failed(ADA) == []
    leave(ledger, 4)
    assert ledger.late("main") == [("ada", 4, 1), ("bob", 1, 1)] and ledger.first_step(ADA, 0) == 1
    assert other.reopen(ADA) == 1, "without an incident, too"
    assert ReportingLedger(path, whole=True).late("main") == [("bob", 1, 1)]


def test_what_is_forgiven_is_so_from_every_checkpoint(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "EVERY", 4)
    monkeypatch.setattr(rules.ChainSums, "size", 0)
    ledger, draw = ReportingLedger.create(path), random.Random(4)
    for i in range(60):
        account = draw.choice((ADA, BOB))
        leave(ledger, draw.randrange(4), account=account)
        if i % 11 == 10:
            ledger.reopen(account)
    told = ledger.late("main"), [ledger.first_step(account, late) for account in (ADA, BOB) for late in range(12)]
    ledger.close()
    for whole in (False, True):
        again = ReportingLedger(path, whole=whole)
        assert (again.late("main"), [again.first_step(account, late) for account in (ADA, BOB) for late in range(12)]) == told
        again.close()


# -- the claim


class Adversary:
    """Has an account of a chain without a file run up to so many statements at once, and chooses how long each takes."""

    def __init__(self, late: int, incidents: int, longest: int) -> None:
        self.running = dict[int, tuple[Event, tuple[int, int]]]()  # each with its first steps, alone and crowded
        self.chain = Chain("0" * 64, self.running.__contains__)
        self.late, self.incidents, self.longest, self.count = late, incidents, longest, 0

    def charge(self) -> bool:
        """Whether another statement may run."""
        if len(self.running) >= self.incidents:
            with pytest.raises(rules.Busy):
                self._charged()
            return False
        event = self._charged()
        self.running[event.seq] = event, (0, 0)
        self._accept(event)
        self.running[event.seq] = event, (self.chain.first_step(ADA, self.late),
                                          self.chain.first_step(ADA, self.late, crowded=True))
        return True

    def leaves(self, seq: int, step: int, crowded: bool = False) -> None:
        """A statement leaves at this step, or at its first one if that is later."""
        event, firsts = self.running[seq]
        if step > firsts[crowded]:
            self._accept(self.chain.following(event, "crowded" if crowded else "late", str(step)))
            self.count += 1
        self._accept(self.chain.following(event, "answer", "body"))
        del self.running[seq]

    def _charged(self) -> Event:
        return self.chain.charge(ADA, SMALL, digest="d", data="v", sql="s", allows={}, incidents=self.incidents, body=None)

    def _accept(self, event: Event) -> None:
        self.chain.accept(event, event.link(self.chain.head[1]))

    @property
    def bound(self) -> int:
        return self.late + self.incidents * (self.longest + 1)


@pytest.mark.parametrize(("late", "incidents", "longest"), [*itertools.product((0, 1, 5), (1, 2, 3), (1, 4, 9))])
def test_whatever_an_analyst_does_few_are_late(late: int, incidents: int, longest: int) -> None:
    for seed in range(6):
        adversary, draw = Adversary(late, incidents, longest), random.Random(seed)
        for _ in range(12 * adversary.bound):
            if draw.random() < 0.6:
                adversary.charge()
            elif adversary.running:
                seq = draw.choice([*adversary.running])
                first = adversary.running[seq][1][0]
                adversary.leaves(seq, draw.choice((first + 1, longest, draw.randint(0, longest))) if first < longest else 0)
        assert adversary.count < adversary.bound


@pytest.mark.parametrize(("late", "incidents", "longest"), [*itertools.product((0, 1, 5), (1, 2, 3), (1, 4, 9))])
def test_who_runs_as_many_as_possible_and_is_late_by_one_step_comes_near_the_bound(late: int, incidents: int, longest: int) -> None:
    adversary = Adversary(late, incidents, longest)
    for _ in range(2 * adversary.bound):
        while adversary.charge():
            pass
        for seq in [*adversary.running]:
            adversary.leaves(seq, min(adversary.running[seq][1][0] + 1, longest))
    assert late + longest <= adversary.count < adversary.bound
    assert adversary.chain.first_step(ADA, late) == longest, "and has to wait for the longest time from then on"


class Days:
    """A calendar in place of that of the system."""

    UTC, timedelta = dt.UTC, dt.timedelta

    def __init__(self) -> None:
        self.at = dt.datetime(2030, 1, 31, 23, 59, tzinfo=dt.UTC)
        self.datetime = self

    def now(self, zone: dt.tzinfo) -> dt.datetime:
        return self.at.astimezone(zone)

    def passed(self, days: float) -> None:
        self.at += dt.timedelta(days=days)


@pytest.fixture
def days(monkeypatch: pytest.MonkeyPatch) -> Days:
    made = Days()
    monkeypatch.setattr(rules, "dt", made)
    return made


@BOTH
def test_late_outcomes_fade(path: Path, days: Days) -> None:
    ledger = ReportingLedger.create(path)
    leave(ledger, 1, 2)
    days.passed(1)
    leave(ledger, 4)
    firsts = []
    for _ in range(FADES + 1):
        firsts.append(ledger.first_step(ADA, 0))
        days.passed(1)
    assert firsts == [*[3] * (FADES - 1), 1, 0]
    assert ledger.late("main") == [("ada", 1, 1), ("ada", 2, 1), ("ada", 4, 1)], "the owner sees them all"
    days.passed(-30)
    assert ledger.first_step(ADA, 0) == 3, "a clock that was put back forgives nothing"


@BOTH
def test_crowded_ones_delay_crowded_ones_alone(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    for step, crowded in ((2, True), (3, True), (1, False)):
        ledger.answer(charge(ledger), "body", step, crowded=crowded)
    for again in (ledger, ReportingLedger(path), ReportingLedger(path, whole=True)):
        assert (again.first_step(ADA, 0), again.first_step(ADA, 1)) == (1, 0)
        assert [again.first_step(ADA, late, crowded=True) for late in range(4)] == [3, 2, 1, 0]
    assert ledger.reopen(ADA) == 3 and ledger.first_step(ADA, 0, crowded=True) == 0


@pytest.mark.parametrize(("late", "incidents", "longest"), [*itertools.product((0, 1, 5), (1, 3), (1, 4, 9))])
def test_few_are_late_of_either_kind_in_so_many_days(late: int, incidents: int, longest: int, days: Days) -> None:
    """An analyst who chooses which statements are crowded, how long each takes, and when; statements go on over midnight."""
    for seed in range(3):
        adversary, draw = Adversary(late, incidents, longest), random.Random(seed)
        counts: Counter[tuple[dt.date, bool]] = Counter()
        for _ in range(14 * adversary.bound):
            if draw.random() < 0.02:
                days.passed(draw.choice((0.01, 0.5, 1, 3)))
            if draw.random() < 0.6:
                adversary.charge()
            elif adversary.running:
                seq = draw.choice([*adversary.running])
                event, firsts = adversary.running[seq]
                crowded = draw.random() < 0.5
                first = firsts[crowded]
                step = draw.choice((first + 1, first + 1, longest)) if first < longest else 0
                adversary.leaves(seq, step, crowded)
                counts[days.at.date(), crowded] += step > first
        for crowded in (False, True):
            for day, _ in [*counts]:
                span = [day + dt.timedelta(days=more) for more in range(FADES)]
                assert sum(counts[each, crowded] for each in span) < adversary.bound
        assert adversary.count >= late + longest


@BOTH
def test_connections_that_race_are_late_no_more_often(path: Path) -> None:
    late, incidents, longest = 2, 3, 3
    ReportingLedger.create(path).close()
    counts = []

    def race(seed: int) -> None:
        ledger, draw, count = ReportingLedger(path), random.Random(seed), 0
        for _ in range(12):
            try:
                seq = charge(ledger, incidents=incidents)
            except Busy:
                continue
            first = ledger.first_step(ADA, late)
            time.sleep(draw.random() / 200)
            step = draw.randint(first + 1, longest) if first < longest else 0
            count += step > 0
            ledger.answer(seq, "body", step)
        ledger.close()
        counts.append(count)

    racing = [threading.Thread(target=race, args=(seed,)) for seed in range(8)]
    for thread in racing:
        thread.start()
    for thread in racing:
        thread.join()
    ledger = ReportingLedger(path)
    told = ledger.late("main")
    assert sum(counts) == sum(number for _, _, number in told) and len(counts) == 8
    assert late + longest <= sum(counts) < late + incidents * (longest + 1)
    assert ledger.first_step(ADA, late) == longest
