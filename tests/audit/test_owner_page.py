"""The owner's page: every charge, every analyst and every failure is on it, with sums that are those of the ledger."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from pathlib import Path

import pytest
from support.html_pages import rows_of, texts_of

from dpsql.answers.listings import slowed_in_words
from dpsql.audit.owner_page import book_of, owner_page
from dpsql.budgets.convert import limit
from dpsql.catalog.model import Budget
from dpsql.catalog.price import Price
from dpsql.frozen import replace
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.accounting.cost import Account, pure

HOSTILE = "SELECT '</td><script>alert(1)</script>'"
BUDGET = Budget(name="main", entity="person", total=Price(epsilon=Fraction(10)), per_analyst=Price(epsilon=Fraction(2)),
                analysts={"cy": Price(epsilon=Fraction(1, 4))}, listed=("ada", "bea", "cy", "dan"), incidents=2)


@pytest.fixture
def ledger(tmp_path: Path) -> ReportingLedger:
    """ada was answered and failed once, bea failed twice, cy spent all; dan has not asked; eve is not listed any more."""
    made = ReportingLedger.create(tmp_path / "ledger")
    for analyst, epsilon, answered in (("ada", 1, True), ("ada", 1, False), ("bea", 1, False), ("bea", 1, False),
                                       ("cy", Fraction(1, 4), True), ("eve", 2, True)):
        account = Account(budget="main", analyst=analyst)
        charged = made.charge(account, pure(epsilon).rounded(), digest=f"{analyst}{epsilon}", data="d", allows={
            None: limit(BUDGET.total)}, sql=f"{HOSTILE} -- {analyst}")
        if answered:
            made.answer(charged, "{}")
        else:
            made.incident(charged)
    return made


def page_of(ledger: ReportingLedger, budget: Budget = BUDGET) -> str:
    return owner_page([book_of(budget, ledger)], policy="dpsql.toml", events=ledger.events, at=dt.datetime.now(dt.UTC))


def test_every_account_is_told_with_its_state(ledger: ReportingLedger) -> None:
    rows = {row[0]: row[1:6] for row in rows_of(page_of(ledger)) if len(row) == 7}
    assert rows == {
        "analyst": ["state", "statements", "failed", "spent of the whole", "left of their own"],
        "ada": ["has spent all", "2", "1", "20 %", "0 %"], "bea": ["closed after 2 incidents", "2", "2", "20 %", "0 %"],
        "cy": ["has spent all", "1", "0", "2.5 %", "0 %"], "dan": ["has not asked yet", "0", "0", "0 %", "100 %"],
        "eve": ["not listed any more", "1", "0", "20 %", "0 %"]}


def test_who_is_slowed_down_is_told_in_the_words_of_the_shell(ledger: ReportingLedger) -> None:
    account = Account(budget="main", analyst="dan")
    for number in range(3):
        charged = ledger.charge(account, pure(Fraction(1, 100)).rounded(), digest=f"dan{number}", data="d", sql="SELECT 1",
                                allows={None: limit(BUDGET.total)})
        ledger.answer(charged, "{}", 4)
    for late, state in ((1, f"slowed down: all {slowed_in_words(2, 1)}"), (3, "open")):
        rows = {row[0]: row[1] for row in rows_of(page_of(ledger, replace(BUDGET, late=late))) if len(row) == 7}
        assert rows["dan"] == state
    assert slowed_in_words(2, 1) == "leaves after 4 times the pace or later, as more than 1 were late in 7 days"


def test_every_statement_and_failure_is_on_it_and_does_nothing(ledger: ReportingLedger) -> None:
    page = page_of(ledger)
    told = texts_of(page)
    assert told.count(HOSTILE) == 6 + 3 and "<script" not in page
    assert "62.5 % spent, 37.5 % left" in told and "Every statement that was charged (6)" in told
    assert "Confidential, for the owner of the data alone" in told and "exact counts" not in told
    assert "% of the whole budget by time (UTC) and spent by" in told and page.count("<svg") == 2


def test_a_failure_that_was_forgiven_does_not_close(ledger: ReportingLedger) -> None:
    ledger.reopen(Account(budget="main", analyst="bea"))
    rows = {row[0]: row[1] for row in rows_of(page_of(ledger)) if len(row) == 7}
    assert rows["bea"] == "has spent all"
    assert [row[3:] for row in rows_of(page_of(ledger)) if len(row) == 5 and row[0] == "bea"] == [["not recorded", "no"]] * 2


def test_an_empty_ledger_and_many_analysts_have_a_page(tmp_path: Path) -> None:
    made = ReportingLedger.create(tmp_path / "ledger")
    assert "Nothing was charged so far." in texts_of(page_of(made)) and "No statement failed" in texts_of(page_of(made))
    for i in range(12):
        charged = made.charge(Account(budget="main", analyst=f"analyst{i}"), pure(Fraction(1, 100)).rounded(), digest=str(i),
                              data="d", sql="SELECT 1", allows={None: limit(BUDGET.total)})
        made.answer(charged, "{}")
    page = page_of(made)
    assert "The 8 who spent most, and the sum of all" in texts_of(page)
    assert len([row for row in rows_of(page) if len(row) == 7]) == 12 + 4 + 1
