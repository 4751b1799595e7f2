"""What charges promise, as the ledger keeps it: recorded once, never changed in silence, and no charge relies on what was changed."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest
from support import ledgers
from support.ledgers import BOTH, IN_POSTGRES

from dpsql.errors import LedgerError, OperationalError
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.ledgers.postgres_store import PostgresStore
from dpsql.trusted.accounting.cost import Account, pure
from dpsql.trusted.kernel.chain import Event, genesis
from dpsql.trusted.kernel.event_store import COLUMNS
from dpsql.trusted.kernel.ledger import Promised, anchor_beside

ADA = Account(budget="main", analyst="ada")
SMALL = pure(Fraction(1, 1000)).rounded()
PEOPLE, HOUSES = {"main": ("people", True)}, {"main": ("houses", True)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spent.ledger"


def charge(ledger: ReportingLedger, account: Account = ADA, digest: str = "d", body: str | None = None) -> int:
    return ledger.charge(account, SMALL, digest=digest, data="v", sql="SELECT 1", allows={}, incidents=3, body=body)


def answered(ledger: ReportingLedger, account: Account = ADA) -> None:
    ledger.answer(charge(ledger, account), "body")


def told(ledger: ReportingLedger) -> dict[str, str]:
    return {name: kept.text for name, kept in ledger.promised().items()}


@BOTH
def test_a_promise_is_recorded_and_costs_nothing(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    assert told(ledger) == {}
    ledger.rely_on("main", lambda found: PEOPLE)
    assert told(ledger) == {"main": "people"} and ledger.events == 1 and ledger.budgets == [] and ledger.entries("main") == []
    ledger.rely_on("main", lambda found: {})
    answered(ledger)
    assert ledger.events == 3 and ledger.failed(Account(budget="main", analyst="")) == []
    ledger.rely_on("other", lambda found: {"other": ("clinics", True)})
    ledger.rely_on("main", lambda found: {"main": ("people, visits", False)})
    for again in (ReportingLedger(path), ReportingLedger(path, whole=True)):
        assert told(again) == {"main": "people, visits", "other": "clinics"}
        newest = again.promised()["main"]
        before = again.promised_before(newest)
        assert before is not None and (before.text, before.changed, newest.changed) == ("people", True, False)
        assert again.promised_before(before) is None and ledger.spent("main") == SMALL


@BOTH
def test_whoever_relies_on_an_earlier_promise_cannot_charge(path: Path) -> None:
    first, second = ReportingLedger.create(path), ReportingLedger(path)
    first.rely_on("main", lambda found: PEOPLE)
    second.rely_on("main", lambda found: {})
    second.rely_on("main", lambda found: {"main": ("people, visits", False)})
    answered(first)  # what is only extended is still promised
    second.rely_on("main", lambda found: HOUSES)
    before = first.spent("main")
    with pytest.raises(OperationalError) as caught:
        charge(first)
    assert caught.value.code == "promise-outdated" and "connect" in caught.value.try_
    first.refresh()
    assert first.spent("main") == before and first.failed(ADA) == [], "nothing is recorded"
    answered(second)
    first.rely_on("main", lambda found: {})
    answered(first)
    answered(first, Account(budget="other", analyst="ada"))  # of which nothing is promised


@BOTH
def test_a_running_statement_ends_under_the_promise_that_it_was_charged_under(path: Path) -> None:
    first, second = ReportingLedger.create(path), ReportingLedger(path)
    first.rely_on("main", lambda found: PEOPLE)
    seq = charge(first)
    second.rely_on("main", lambda found: HOUSES)
    first.answer(seq, "body")
    assert first.stored(ADA, "d", "v") == "body"


@BOTH
def test_a_refusal_records_nothing(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    ledger.rely_on("main", lambda found: PEOPLE)

    def refused(found: Mapping[str, Promised]) -> Mapping[str, tuple[str, bool]]:
        assert found["main"].text == "people"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ReportingLedger(path).rely_on("main", refused)
    assert ledger.events == 1
    answered(ledger)


@BOTH
def test_what_is_decided_is_decided_on_the_newest_promise(path: Path) -> None:
    """Many at once: each sees what the one before it has recorded, so all are there, in one line."""
    ReportingLedger.create(path).close()

    def rely() -> None:
        ledger = ReportingLedger(path)
        ledger.rely_on("main", lambda found: {"main": (f"{found['main'].text if found else ''}+", not found)})
        answered(ledger)
        ledger.close()

    threads = [threading.Thread(target=rely) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ledger = ReportingLedger(path)
    assert told(ledger) == {"main": "+" * 8} and len(ledger.entries("main")) == 8
    assert ledger._chain.promised["main"][0] < ledger._chain.promised["main"][1], "the first one changed it, no other"


@BOTH
def test_a_change_between_reading_and_relying_is_noticed(path: Path) -> None:
    first, second = ReportingLedger.create(path), ReportingLedger(path)
    first.rely_on("main", lambda found: PEOPLE)
    met = []

    def decide(found: Mapping[str, Promised]) -> Mapping[str, tuple[str, bool]]:
        if not met:
            met.append(found)
            first.rely_on("main", lambda found: HOUSES)
        return {}

    second.rely_on("main", decide)
    with pytest.raises(OperationalError) as caught:
        charge(second)
    assert caught.value.code == "promise-outdated"


def test_no_charge_is_taken_for_a_promise(path: Path) -> None:
    """A hostile front chooses the names of statements, and the kernel may keep a text with their charges."""
    ledger = ReportingLedger.create(path)
    ledger.rely_on("main", lambda found: PEOPLE)
    for name in ("changed", "extended", "promise", "main", "promise main"):
        ledger.answer(charge(ledger, digest=name, body="houses"), "houses")
    assert told(ledger) == {"main": "people"} and told(ReportingLedger(path, whole=True)) == {"main": "people"}


# -- by whoever can write the file


def filled(path: Path) -> None:
    """People were promised (event 1), houses accepted (event 4), and a statement was charged under each."""
    ledger = ReportingLedger.create(path)
    ledger.rely_on("main", lambda found: PEOPLE)
    answered(ledger)
    ledger.rely_on("main", lambda found: HOUSES)
    answered(ledger)
    ledger.close()


def events_of(connection: sqlite3.Connection) -> list[Event]:
    return [Event(*row) for row in connection.execute(f"SELECT {COLUMNS} FROM events ORDER BY seq")]


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("attack", ["edited", "removed", "replayed", "moved to another budget", "made an extension", "its time",
                                    "the last one undone"])
def test_a_promise_that_was_tampered_with_is_refused(attack: str, chained: bool, path: Path) -> None:
    """Also where all hashes were computed again: the anchor has seen others."""
    filled(path)
    with sqlite3.connect(path) as connection:
        meta = dict(connection.execute("SELECT key, value FROM meta"))
        events = events_of(connection)
        assert [event.kind for event in events] == ["promise", "charge", "answer", "promise", "charge", "answer"]
        match attack:
            case "edited":
                events[0] = events[0]._replace(body="houses")
            case "removed":
                del events[3]
            case "replayed":
                events.append(events[0]._replace(seq=7))
            case "moved to another budget":
                events[3] = events[3]._replace(budget="other")
            case "made an extension":
                events[3] = events[3]._replace(digest="extended")
            case "its time":
                events[3] = events[3]._replace(at="2020-01-01T00:00:00+00:00")
            case "the last one undone":
                events = events[:3]
        hashes = dict(connection.execute("SELECT seq, hash FROM events"))
        connection.execute("DELETE FROM events")
        link = genesis(meta)
        for number, event in enumerate(events, 1):
            event = event._replace(seq=number) if chained else event
            link = event.link(link) if chained else hashes.get(event.seq, hashes[1])
            connection.execute(f"INSERT INTO events VALUES ({', '.join('?' * 14)})", (*event, link))
    connection.close()
    if chained and attack == "replayed":  # whoever has the file can add events as well as dpsql can: to the end alone
        assert told(ReportingLedger(path)) == {"main": "people"}
        return
    with pytest.raises(LedgerError) as caught:
        ReportingLedger(path)
    assert caught.value.code in ("ledger-damaged", "ledger-rolled-back")


def test_an_older_copy_without_the_accepted_change_is_refused(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    ledger.rely_on("main", lambda found: PEOPLE)
    ledger.close()
    older = path.read_bytes()
    ledger = ReportingLedger(path)
    ledger.rely_on("main", lambda found: HOUSES)
    ledger.close()
    path.write_bytes(older)
    with pytest.raises(LedgerError) as caught:
        ReportingLedger(path)
    assert caught.value.code == "ledger-rolled-back"


def test_nothing_is_recorded_where_the_anchor_cannot_be(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    anchor_beside(path).unlink()
    with pytest.raises(LedgerError) as caught:
        ledger.rely_on("main", lambda found: PEOPLE)
    assert caught.value.code == "ledger-anchor" and ledger.events == 0


# -- ledgers in PostgreSQL from before


WITHOUT = "ALTER TABLE events DROP CONSTRAINT events_kind_check, ADD CONSTRAINT events_kind_check " \
          "CHECK (kind IN ('charge', 'answer', 'incident', 'reopened', 'checkpoint', 'late'))"


def say(uri: str, *statements: str) -> None:
    with psycopg.connect(uri, autocommit=True) as connection:
        for sql in statements:
            connection.execute(sql)


@IN_POSTGRES
def test_tables_from_before_are_given_room(path: Path) -> None:
    uri = ledgers.uri_of(path, ledgers.database())
    ledger = ReportingLedger.create(path)
    answered(ledger)
    say(uri, WITHOUT)
    ledger.rely_on("main", lambda found: PEOPLE)
    answered(ledger)
    assert told(ReportingLedger(path, whole=True)) == {"main": "people"}


@IN_POSTGRES
def test_who_may_not_give_room_is_told_who_has_to(path: Path) -> None:
    """A server needs no right to change tables. It goes on charging until the owner has opened the ledger once."""
    uri, schema = ledgers.uri_of(path, ledgers.database()), ledgers.uri_of(path, "").split("%3D")[1]
    owner = ReportingLedger.create(path)
    say(uri, WITHOUT, "DROP ROLE IF EXISTS serving", "CREATE ROLE serving LOGIN", f"GRANT USAGE ON SCHEMA {schema} TO serving",
        "GRANT SELECT ON meta, events TO serving", "GRANT INSERT ON events TO serving")
    try:
        served = ReportingLedger(path, None, PostgresStore(uri + "%20-crole%3Dserving"))
        with pytest.raises(LedgerError) as caught:
            served.rely_on("main", lambda found: PEOPLE)
        assert caught.value.code == "ledger-version" and "owner" in caught.value.try_
        answered(served)
        owner.rely_on("main", lambda found: PEOPLE)
        served.rely_on("main", lambda found: {"main": ("people, visits", False)})
        answered(served)
        served.close()
    finally:
        say(uri, "DROP OWNED BY serving", "DROP ROLE serving")
    assert told(owner) == {"main": "people, visits"}
