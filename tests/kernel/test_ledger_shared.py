"""Accounts that share answers, as the ledger decides it: who pays, who waits, who is told, and what may be told at all."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.ledgers import BOTH

from dpsql.errors import Error
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.ledgers.shared_answers import SharingLedger
from dpsql.trusted.accounting.cost import NOTHING, Account, Charge
from dpsql.trusted.kernel import chain as rules
from dpsql.trusted.kernel.ledger import Underway
from dpsql.trusted.kernel.marks import MEASURED
from dpsql.trusted.kernel.run import AnsweredBefore
from dpsql.trusted.stopping import stopped_by

ADA, BOB, EVE = (Account(budget="main", analyst=name) for name in ("ada", "bob", "eve"))
OTHER = Account(budget="other", analyst="bob")
PRICE = Charge(epsilon=1, rho=1, delta=0)
COUNT = "SELECT COUNT(*) FROM people"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.ledger"


def charge(ledger: ReportingLedger, account: Account = ADA, digest: str = "d", data: str = "v1", price: Charge = PRICE) -> int:
    return ledger.charge(account, price, digest=digest, data=data, sql=f"{COUNT} -- {account.analyst}", allows={})


def tellings(ledger: ReportingLedger) -> list[tuple[str, int]]:
    return [(entry.account.analyst, entry.told) for entry in ledger.entries("main") if entry.told is not None]


@BOTH
def test_an_answer_is_charged_once_and_told_to_all(path: Path) -> None:
    ledger = SharingLedger.create(path)
    paid = charge(ledger)
    ledger.answer(paid, "three")
    assert ledger.is_told("main", "d", "v1") and ledger.stored(BOB, "d", "v1") is None
    with pytest.raises(AnsweredBefore) as caught:
        charge(ledger, BOB)
    assert (caught.value.body, caught.value.data, caught.value.shared) == ("three", "v1", True)
    assert ledger.tell(EVE, "d", "v1", COUNT) == "three" == ledger.tell(EVE, "d", "v1", COUNT)
    assert tellings(ledger) == [("bob", paid), ("eve", paid)] and ledger.shared() == 2
    assert [ledger.stored(one, "d", "v1") for one in (ADA, BOB, EVE)] == ["three"] * 3
    assert [ledger.answered(one, "d", "v1") for one in (ADA, BOB, EVE)] == [(paid, None)] * 3
    assert ledger.spent("main") == ledger.spent("main", "ada") == PRICE and ledger.spent("main", "bob") == NOTHING
    assert [(entry.sql, entry.outcome) for entry in ledger.entries("main", "bob")] == [(f"{COUNT} -- bob", f"shared, as {paid}")]
    assert SharingLedger(path, whole=True).spent("main") == PRICE


@BOTH
@pytest.mark.parametrize("other", [{"account": OTHER}, {"digest": "e"}, {"data": "v2"}, {"price": NOTHING}])
def test_another_budget_statement_or_content_and_what_is_free_are_not_the_same(other: dict[str, Any], path: Path) -> None:
    ledger = SharingLedger.create(path)
    ledger.answer(charge(ledger, price=other.get("price", PRICE)), "three")
    ledger.answer(charge(ledger, **{"account": BOB, **other}), "four")
    assert ledger.tell(Account(budget="third", analyst="bob"), "d", "v1", COUNT) is None and ledger.shared() == 0


@BOTH
def test_nothing_is_shared_where_the_owner_does_not_want_it(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    paid = charge(ledger)
    ledger.answer(paid, f"{MEASURED} three")
    assert charge(ledger, BOB) == paid + 2
    assert ledger.tell(BOB, "d", "v1", COUNT) is None and not ledger.is_told("main", "d", "v1")
    ledger.tell_of(BOB, [paid], "v1", COUNT)
    assert ledger.of_others(BOB, "v1", MEASURED) == [] and ledger.of_another(BOB, "d", "v1") is None and tellings(ledger) == []


@BOTH
@pytest.mark.parametrize("fails", [False, True])
def test_who_asks_what_is_running_waits_until_it_is_over(fails: bool, path: Path) -> None:
    first, second = SharingLedger.create(path), SharingLedger(path)
    paid, found = charge(first), []

    def ask() -> None:
        try:
            found.append(charge(second, BOB))
        except AnsweredBefore as told:
            found.append(told.body)

    waiting = threading.Thread(target=ask)
    waiting.start()
    time.sleep(0.2)
    assert not found and len(first.entries("main")) == 1
    if fails:
        first.incident(paid)
    else:
        first.answer(paid, "three")
    waiting.join(20)
    assert found == [paid + 2 if fails else "three"] and tellings(first) == ([] if fails else [("bob", paid)])


def test_a_wait_can_be_interrupted_and_a_dead_statement_is_not_waited_for(path: Path) -> None:
    first, second = SharingLedger.create(path), SharingLedger(path)
    charge(first)
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    with stopped_by(stop), pytest.raises((Error, Underway)):
        charge(second, BOB)
    first.close()
    assert charge(second, BOB)


@BOTH
def test_many_threads_pay_once(path: Path) -> None:
    ledgers = [SharingLedger.create(path), *(SharingLedger(path) for _ in range(5))]
    start, outcomes = threading.Barrier(len(ledgers)), []

    def ask(number: int) -> None:
        start.wait()
        for digest in "abcd":
            try:
                ledgers[number].answer(charge(ledgers[number], Account(budget="main", analyst=f"n{number % 4}"), digest), digest)
                outcomes.append((digest, True))
            except AnsweredBefore as told:
                assert told.body == digest
                outcomes.append((digest, False))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(ledgers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 24 and sorted(digest for digest, paid in outcomes if paid) == [*"abcd"]
    assert ledgers[0].spent("main").rho == 4 and len(set(tellings(ledgers[0]))) == len(tellings(ledgers[0])) == 12


@BOTH
def test_only_answers_of_the_budget_that_were_paid_for_can_be_told(path: Path) -> None:
    ledger = SharingLedger.create(path)
    failed, free, other, old, paid = (charge(ledger, *given) for given in (
        (ADA, "a"), (ADA, "b", "v1", NOTHING), (OTHER, "a"), (ADA, "a", "v0"), (ADA, "c")))
    ledger.answer(paid, "told")
    ledger.answer(ledger.charge(ADA, NOTHING, digest="e", data="v1", sql=COUNT, allows={}), "free")
    for number in (failed, free, other, old, paid + 2, 0, 99):
        with pytest.raises(ValueError, match="can be shared"):
            ledger.tell_of(BOB, [paid, number], "v1", COUNT)
    with pytest.raises(ValueError, match="can be shared"):
        ledger.tell_of(BOB, [paid], "v0", COUNT)
    assert tellings(ledger) == [], "all of them, or none"
    ledger.tell_of(BOB, [paid, paid], "v1", COUNT)
    ledger.tell_of(BOB, [paid], "v1", COUNT)
    ledger.tell_of(ADA, [paid], "v1", COUNT)
    assert tellings(ledger) == [("bob", paid)]


@BOTH
def test_answers_are_found_by_their_marks_once(path: Path) -> None:
    ledger = SharingLedger.create(path)
    for digest in "ab":
        ledger.answer(charge(ledger, digest=digest), f"{digest} {MEASURED}")
    assert [each.body[0] for each in ledger.of_others(BOB, "v1", MEASURED)] == ["a", "b"]
    ledger.tell(BOB, "b", "v1", COUNT)
    assert [each.body[0] for each in ledger.of_others(BOB, "v1", MEASURED)] == ["a"]
    ledger.tell(BOB, "a", "v1", f"{COUNT} GROUP BY 1")
    assert ledger.of_others(BOB, "v1", MEASURED) == [] == ledger.of_others(ADA, "v1", MEASURED)
    assert [each.body[0] for each in ledger.holding(BOB, "v1", MEASURED)] == ["b", "a"], "in the order in which bob was told"
    assert [each.body[0] for each in ReportingLedger(path).holding(BOB, "v1", MEASURED)] == ["b", "a"], "also when no more are shared"
    assert [each.shared for book in (ADA, BOB) for each in ledger.holding(book, "v1", MEASURED)] == [False, False, True, True]
    assert ledger.texts(BOB, "group", 9) == [f"{COUNT} GROUP BY 1"]
    assert ledger.texts(EVE, "count", 9, of_others=True) == [f"{COUNT} -- ada", COUNT, f"{COUNT} GROUP BY 1"]


@BOTH
def test_checkpoints_keep_what_was_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "EVERY", 3)
    ledger = SharingLedger.create(path)
    for digest in "abcdefgh":
        ledger.answer(charge(ledger, digest=digest), digest)
        assert ledger.tell(BOB, digest, "v1", COUNT) == digest
    again = SharingLedger(path)
    assert again.shared() == 8 == len(again.entries("main", "bob")) and again.stored(BOB, "a", "v1") == "a"
    assert SharingLedger(path, whole=True).spent("main").rho == 8 and not again.failed(BOB)
