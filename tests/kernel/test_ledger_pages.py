"""Pages of a long list of statements: they hold what the whole list holds, whatever terms it must fit."""

from __future__ import annotations

import datetime as dt
import itertools
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sessions import open_ledger

from dpsql.errors import LedgerError
from dpsql.frozen import replace
from dpsql.ledgers.ledger_reports import Entry, ListTerms, ReportingLedger
from dpsql.trusted.accounting.cost import Account, Charge

COST = Charge(epsilon=1, rho=1, delta=0)
NOW = dt.datetime.now(dt.UTC)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[ReportingLedger]:
    """Statements of three analysts that were answered, failed, forgiven, shared, or still run; and of another budget."""
    made = open_ledger(tmp_path, share=True)
    for number in range(24):
        account = Account(budget="other" if number % 8 == 7 else "study", analyst=("ada", "Bea", "eve")[number % 3])
        seq = made.charge(account, COST, digest=f"d{number}", data="v", sql=f"SELECT COUNT(*) FROM people WHERE age > {number} -- 100 %_",
                          allows={}, incidents=1000, body=None)
        if number % 5 < 3:
            made.answer(seq, '{"secret": 1}')
        elif number % 5 == 3:
            made.incident(seq)
        if number == 12:
            made.reopen(Account(budget="study", analyst="ada"))
        if number in (10, 11) and number % 5 < 3:
            made.tell_of(Account(budget=account.budget, analyst="zoe"), [seq], "v", "SELECT 'told to zoe'")
    running = ReportingLedger(made.path)
    running.charge(Account(budget="study", analyst="eve"), COST, digest="running", data="v", sql="SELECT 'still running'", allows={}, incidents=1000, body=None)
    yield made
    running.close()
    made.close()


def fits(entry: Entry, terms: ListTerms) -> bool:
    at = dt.datetime.fromisoformat(entry.at)
    outcome = "shared" if entry.told is not None else entry.outcome
    return ((not terms.analyst or entry.account.analyst == terms.analyst.lower()) and terms.text.upper() in entry.sql.upper()
            and terms.outcome in ("", outcome) and (terms.since is None or at >= terms.since) and (terms.until is None or at < terms.until))


def test_pages_are_the_list_by_every_term(ledger: ReportingLedger) -> None:
    everything = ledger.entries("study")
    assert {entry.outcome.partition(",")[0] for entry in everything} == {"answered", "failed", "running", "shared"}
    later, zone = NOW + dt.timedelta(days=1), dt.timezone(dt.timedelta(hours=5, minutes=30))
    moments = (None, dt.datetime(2020, 1, 1, tzinfo=dt.UTC), later.astimezone(zone))
    found = 0
    for analyst, text, outcome, since, until in itertools.product(
            ("", "ada", "BEA", "zoe", "nobody"), ("", "AGE > 1", "%_", "told", "'"), ("", "answered", "failed", "running", "shared"), moments, moments):
        terms = ListTerms(analyst=analyst, text=text, outcome=outcome, since=since, until=until)
        expected = [entry for entry in reversed(everything) if fits(entry, terms)]
        pages, before = list[Entry](), 0
        while True:
            page, number = ledger.page("study", 7, terms, before)
            assert number == len(expected)
            pages += page
            if len(page) < 7:
                break
            before = page[-1].seq
        assert [(one.seq, one.sql, one.outcome, one.account, one.charge) for one in pages] == [
            (one.seq, one.sql, one.outcome, one.account, one.charge) for one in expected], terms
        assert "secret" not in repr(pages)
        found += len(pages)
    assert found > 500


def test_the_newest_statements_of_an_account_are_the_end_of_its_list(ledger: ReportingLedger) -> None:
    for analyst, number in {"ada": 7, "Bea": 7, "eve": 8, "zoe": 2, "nobody": 0}.items():
        everything = ledger.entries("study", analyst)
        assert len(everything) == number
        for most in (1, 2, 3, 5, 100):
            found = ledger.told_entries(Account(budget="study", analyst=analyst), most)
            assert [replace(entry, body="", paid_sql="") if entry.told else entry for entry in found] == everything[-most:]
            assert all((entry.body == '{"secret": 1}', bool(entry.paid_sql)) == (True, True) for entry in found if entry.told)


def test_seconds_are_whole_as_the_ledger_writes_them(ledger: ReportingLedger) -> None:
    entry = ledger.entries("study")[-1]
    at, less, more = dt.datetime.fromisoformat(entry.at), dt.timedelta(milliseconds=-1), dt.timedelta(milliseconds=1)
    for since, until, there in ((at, None, True), (at + more, None, False), (at + less, None, True), (None, at, False), (None, at + more, True)):
        page, _ = ledger.page("study", 100, ListTerms(since=since, until=until))
        assert (entry.seq in {one.seq for one in page}) is there


def test_a_page_notices_what_is_missing_or_changed(ledger: ReportingLedger) -> None:
    entries = ledger.entries("study")
    path = ledger.path
    ledger.close()
    for act in (f"DELETE FROM events WHERE seq = {entries[0].seq}", f"UPDATE events SET sql = 'x' WHERE seq = {entries[-1].seq}"):
        kept = path.read_bytes()
        with sqlite3.connect(path) as connection:
            connection.execute(act)
        connection.close()
        with pytest.raises(LedgerError):
            ReportingLedger(path).page("study", 100, ListTerms())
        path.write_bytes(kept)


def test_statements_are_counted_by_analyst(ledger: ReportingLedger) -> None:
    counted = ledger.charged("study")
    assert counted == {name: sum(one.account.analyst == name and one.told is None for one in ledger.entries("study")) for name in ("ada", "bea", "eve")}
