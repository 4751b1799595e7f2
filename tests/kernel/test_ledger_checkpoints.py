"""Checkpoints: a ledger that is opened from one is the ledger that was written, and no forged one is believed."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.budgets.convert import limit
from dpsql.catalog.price import price
from dpsql.errors import LedgerError
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.accounting.cost import ORDERS, Account, Charge, concentrated, pure
from dpsql.trusted.kernel import chain as rules
from dpsql.trusted.kernel import ledger as module
from dpsql.trusted.kernel import sqlite_store
from dpsql.trusted.kernel.anchor import TAIL
from dpsql.trusted.kernel.chain import Chain, Event, genesis
from dpsql.trusted.kernel.event_store import COLUMNS
from dpsql.trusted.kernel.ledger import Refused, anchor_beside
from dpsql.trusted.kernel.marks import MARKS, MEASURED, ONLINE, SYNTHETIC
from dpsql.trusted.kernel.reported import MOST_PRICES, Reported
from dpsql.trusted.kernel.sqlite_store import SqliteStore
from dpsql.trusted.kernel.sums import ChainSums, Late
from dpsql.trusted.kernel.waypoint import Waypoint

ADA, BOB = Account(budget="main", analyst="ada"), Account(budget="main", analyst="bob")
EVE = Account(budget="other", analyst="Eve")
PRICES = (pure(Fraction(1, 10)).rounded(), concentrated(Fraction(1, 8), Fraction(1, 10**9)).rounded(), pure(Fraction(1, 3)).rounded())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spent.ledger"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after every ten events or so."""
    monkeypatch.setattr(rules, "EVERY", 9)
    monkeypatch.setattr(ChainSums, "size", 0)


def charge(ledger: ReportingLedger, account: Account = ADA, cost: Charge = PRICES[0], digest: str = "d", body: str | None = None,
           allows: dict[str | None, module.Limit] | None = None) -> int:
    return ledger.charge(account, cost, digest=digest, data="v1", sql=f"SELECT {digest}", allows=allows or {}, body=body)


def filled(path: Path, statements: int = 40, close: bool = True, reopen: bool = True) -> ReportingLedger:
    """A ledger with everything in it that can be: answers, incidents, charges left alone, what is kept, what was forgiven."""
    ledger, draw = ReportingLedger.create(path), random.Random(4)
    for i in range(statements):
        account = draw.choice((ADA, BOB, EVE))
        seq = charge(ledger, account, draw.choice(PRICES), f"digest {i % 15}", body=f"kept {i}" if i % 4 == 0 else None)
        fate = draw.randrange(5)
        if fate == 0:
            ledger.incident(seq)
        elif fate > 1:
            ledger.answer(seq, f"body of {i}")
        if reopen and i == statements // 2:
            ledger.reopen(ADA)
    if close:
        ledger.close()
    return ledger


def state(ledger: ReportingLedger) -> object:
    """All that can be seen of a ledger."""
    accounts = (ADA, BOB, EVE)
    return ([(spent, spent.renyi) for whose in (None, "ada", "bob", "eve") for spent in (ledger.spent("main", whose), ledger.spent("other", whose))],
            [ledger.failed(account) for account in accounts], [ledger.failures(budget) for budget in ("main", "other")], ledger.budgets,
            [ledger.entries(budget) for budget in ("main", "other")], ledger.salt,
            [(ledger.stored(account, f"digest {i}", "v1"), ledger.answered(account, f"digest {i}", "v1")) for account in accounts for i in range(15)],
            [(ledger.newest(f"digest {i}"), ledger.answers(f"digest {i}")) for i in range(15)], ledger.holding(ADA, "v1", "of 1"),
            [ledger.prices(budget) for budget in ("main", "other")], [ledger.last(account) for account in accounts],
            [ledger.late(budget) for budget in ("main", "other")],
            [ledger.entries(account.budget, account.analyst) for account in accounts])


def opened(path: Path, whole: bool = False) -> object:
    ledger = ReportingLedger(path, whole=whole)
    try:
        return state(ledger)
    finally:
        ledger.close()


def refuses(path: Path, whole: bool = False) -> str:
    with pytest.raises(LedgerError) as caught:
        ReportingLedger(path, whole=whole)
    return str(caught.value.code)


def rows(path: Path) -> list[Event]:
    connection = sqlite3.connect(path)
    try:
        return [Event(*row) for row in connection.execute(f"SELECT {COLUMNS} FROM events ORDER BY seq")]
    finally:
        connection.close()


def linked(path: Path) -> list[str]:
    """The hashes up to each event."""
    connection = sqlite3.connect(path)
    try:
        return [link for link, in connection.execute("SELECT hash FROM events ORDER BY seq")]
    finally:
        connection.close()


def checkpoints(path: Path) -> list[Event]:
    return [event for event in rows(path) if event.kind == "checkpoint"]


def rewritten(path: Path, change: Callable[[list[Event]], list[Event]], *, until: int | None = None) -> None:
    """Change the events and compute all hashes again, or those before an event: what somebody can do who has the file alone."""
    connection = sqlite3.connect(path)
    with connection:
        meta = dict(connection.execute("SELECT key, value FROM meta"))
        events, hashes = change(rows(path)), dict(connection.execute("SELECT seq, hash FROM events"))
        connection.execute("DELETE FROM events")
        link = genesis(meta)
        for event in events:
            link = event.link(link) if until is None or event.seq < until else hashes[event.seq]
            connection.execute(f"INSERT INTO events VALUES ({', '.join('?' * 14)})", (*event, link))
    connection.close()


def edited(seq: int, **fields: object) -> Callable[[list[Event]], list[Event]]:
    return lambda events: [event._replace(**fields) if event.seq == seq else event for event in events]


# -- what is written is what is opened


@pytest.mark.parametrize("statements", [3, 5, 11, 40, 120])
def test_a_ledger_opened_from_a_checkpoint_is_the_ledger_that_was_written(statements: int, path: Path) -> None:
    ledger = filled(path, statements, close=False)
    ledger._running.end_all()  # the last statement is over
    before = state(ledger)
    assert len(checkpoints(path)) >= (statements - 5) // 7
    assert opened(path) == before == opened(path, whole=True)
    ledger.close()
    assert opened(path) == before


def test_only_what_comes_after_the_checkpoint_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path)
    newest, accepted, accept = checkpoints(path)[-1].seq, list[int](), Chain.accept
    monkeypatch.setattr(Chain, "accept", lambda self, event, link: accepted.append(event.seq) or accept(self, event, link))
    ReportingLedger(path).close()
    assert accepted == list(range(newest + 1, len(rows(path)) + 1))
    accepted.clear()
    ReportingLedger(path, whole=True).close()
    assert accepted == list(range(1, len(rows(path)) + 1))


def test_limits_bind_across_a_checkpoint(path: Path) -> None:
    one: dict[str | None, module.Limit] = {None: limit(price(epsilon=2))}
    for _ in range(20):  # each from a ledger opened anew
        ledger = ReportingLedger(path) if path.exists() else ReportingLedger.create(path)
        ledger.answer(charge(ledger, allows=one), "body")
        ledger.close()
    assert len(checkpoints(path)) > 2
    with pytest.raises(Refused):
        charge(ReportingLedger(path), allows=one)


def test_others_that_have_it_open_follow_over_checkpoints(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    watching = ReportingLedger(path)
    for i in range(40):
        ledger.answer(charge(ledger, digest=f"{i}"), f"body {i}")
    watching.refresh()
    assert watching.spent("main") == ledger.spent("main") and watching.stored(ADA, "3", "v1") == "body 3"
    watching.answer(charge(watching), "body")
    ledger.refresh()
    assert ledger.spent("main") == ReportingLedger(path).spent("main")


def test_orders_that_another_machine_rounds_otherwise_are_the_same_sums() -> None:
    sums, others = ChainSums(), ChainSums()
    told = (PRICES[0] + PRICES[0], Charge.summed(2 * 10**8, 10**7, 0, [each + 1 for each in (PRICES[0] + PRICES[0]).renyi]))
    sums.spent[("main", None)], others.spent[("main", None)] = told
    assert sums.agree(others, 1) and not sums.agree(others, 0) and len(told[1].renyi) == len(ORDERS)
    others.spent[("main", None)] = Charge.summed(2 * 10**8 - 1, 10**7, 0, told[0].renyi)
    assert not sums.agree(others, 10)


def test_sums_come_back_from_their_values(path: Path) -> None:
    sums = filled(path, close=False)._chain.sums
    again = ChainSums.from_values(json.loads(json.dumps(sums.as_values())))
    assert again.as_values() == sums.as_values() and again.agree(sums, 0)


def test_the_same_sums_are_the_same_text_whatever_came_first() -> None:
    def summed(*names: str) -> ChainSums:
        made = ChainSums()
        for name in names:
            account, number = Account(budget=name, analyst=name), len(name)
            made.spent[(name, name)], made.kept[name], made.promised[name] = PRICES[0], number, (number, number)
            made.reported.count(account, PRICES[0])
            made.reported.listed[account] += 1
            for step in sorted({1, number}, reverse=name == names[0]):
                made.late[account][Late(day="2030-01-01", crowded=False, step=step)] += 1
        return made

    one, other = summed("a", "bb", "c"), summed("c", "bb", "a")
    assert json.dumps(one.as_values()) == json.dumps(other.as_values()) and one.agree(other, 0)


# -- forged and damaged


FORGED = {"nothing spent": lambda told: told | {"spent": []}, "nothing failed": lambda told: told | {"failed": [], "pending": []},
          "all forgiven": lambda told: told | {"forgiven": list(range(1, 200))}, "another ledger": lambda told: told | {"ledger": "0" * 64},
          "a shorter past": lambda told: told | {"before": [0, told["ledger"]]}, "nothing kept": lambda told: told | {"kept": {}},
          "fewer prices": lambda told: told | {"prices": {}}, "a late outcome": lambda told: told | {"late": [["main", "ada", 1, 1]]},
          "another day": lambda told: told | {"late": [["main", "ada", 1, 1]], "days": [["main", "ada", "2030-01-01", False, 1, 1]]},
          "another last charge": lambda told: told | {"last": [["main", "ada", 1, 1, 0]]},
          "a list that hides events": lambda told: told | {"listed": []}, "no skips": lambda told: told | {"skips": []},
          "another number": lambda told: told | {"number": told["number"] + 1}, "other hashes": lambda told: told | {"between": "0" * 64},
          "another newest day": lambda told: told | {"day": "2020-01-01"}, "no newest day": lambda told: {**told, "day": ""},
          "a revision": lambda told: told | {"revised": [['["visits", "month", 24300, 24300, ""]', 1, "2026-01-01T00:00:00+00:00"]]},
          "no object": lambda told: [], "half": lambda told: {"ledger": told["ledger"]},
          "less of an order": lambda told: told | {"spent": [[*row[:-1], [0] * len(ORDERS)] for row in told["spent"]]}}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_checkpoint_is_refused(name: str, path: Path) -> None:
    filled(path)
    whole, last = path.read_bytes(), checkpoints(path)[-1]
    forged = edited(last.seq, body=json.dumps(FORGED[name](json.loads(last.body or ""))))
    rewritten(path, forged, until=1)
    assert refuses(path) == "ledger-damaged", "its hash is another"
    path.write_bytes(whole)
    rewritten(path, forged)
    assert refuses(path) in ("ledger-damaged", "ledger-rolled-back"), "the anchor has seen another head"
    assert refuses(path, whole=True) == "ledger-damaged"


@pytest.mark.parametrize("name", FORGED)
def test_a_checkpoint_that_the_anchor_has_not_seen_is_not_believed(name: str, path: Path) -> None:
    """Whoever has the file alone can add a checkpoint that is linked as it should be: it is compared with the sums."""
    filled(path)
    last = checkpoints(path)[-1]
    forged = json.dumps(FORGED[name](json.loads(last.body or "")))
    rewritten(path, lambda events: [*events, last._replace(seq=len(events) + 1, body=forged)])
    assert refuses(path) == "ledger-damaged"


def test_a_checkpoint_of_another_ledger_is_refused(path: Path) -> None:
    filled(path)
    other = path.with_name("other")
    ReportingLedger.create(other).close()
    own = ReportingLedger(other)
    for i in range(8):
        own.answer(charge(own, digest=f"{i}"), "body")
    own.close()
    last = checkpoints(path)[-1]
    for change in (edited(last.seq, body=checkpoints(other)[-1].body), lambda events: checkpoints(other)[:1] + events[checkpoints(other)[0].seq:]):
        whole = path.read_bytes()
        rewritten(path, change)
        refuses(path)
        path.write_bytes(whole)
    shutil.copy(other, path)
    assert refuses(path) == "ledger-rolled-back"


def test_another_salt_or_identity_is_refused(path: Path) -> None:
    filled(path)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE meta SET value = '0123456789abcdef' WHERE key = 'salt'")
    connection.close()
    assert refuses(path) == "ledger-damaged"


def test_older_copies_and_lost_rows_are_refused(path: Path) -> None:
    ledger = filled(path, 40, close=False)
    ledger.close()
    older = path.read_bytes()
    ledger = ReportingLedger(path)
    charge(ledger)
    ledger.close()
    newer = path.read_bytes()
    path.write_bytes(older)
    assert refuses(path) == "ledger-rolled-back"
    last = checkpoints(path)[-1].seq
    for sql in (f"DELETE FROM events WHERE seq > {last}", f"DELETE FROM events WHERE seq >= {last}",
                f"DELETE FROM events WHERE seq = {last - 1}", "DELETE FROM events"):
        path.write_bytes(newer)
        connection = sqlite3.connect(path)
        with connection:
            connection.execute(sql)
        connection.close()
        assert refuses(path) in ("ledger-rolled-back", "ledger-damaged")


def test_a_file_cut_short_shows_nothing_wrong(path: Path) -> None:
    filled(path, 120)
    whole, before = path.read_bytes(), opened(path)
    for length in range(0, len(whole), 4096):
        path.write_bytes(whole[:length + (length // 4096) % 2])
        for beside in ("-wal", "-shm"):
            path.with_name(path.name + beside).unlink(missing_ok=True)
        with pytest.raises(LedgerError):
            assert opened(path) != before


@pytest.mark.parametrize("column, value", [
    ("kind", "incident"), ("at", "2020"), ("budget", "else"), ("analyst", "eve"), ("digest", "other"), ("data", "v2"), ("sql", "SELECT 2"),
    ("epsilon", 1), ("rho", 0), ("delta", 1), ("answers", 1), ("body", "forged")])
@pytest.mark.parametrize("again", [False, True])
def test_an_edited_event_of_the_past_is_not_shown(column: str, value: object, again: bool, path: Path) -> None:
    """Also if all hashes were computed again, but for the last one before the next checkpoint: that checkpoint's hash is of it."""
    filled(path)
    whole, before, (start, end) = path.read_bytes(), rows(path), (mark.seq for mark in checkpoints(path)[1:3])
    newest = anchor_beside(path).read_text().rstrip().rsplit("\n", 1)[1]  # one record vouches for all events before it
    for seq in (1, *range(start, end)):
        path.write_bytes(whole)
        rewritten(path, edited(seq, **{column: value}), until=end - 1 if again else 1)
        if rows(path) == before:
            continue
        anchor_beside(path).write_text(newest)
        ledger = ReportingLedger(path)
        with pytest.raises(LedgerError) as caught:
            ledger._events("seq = $1", seq)  # and no other, which might be damage as well
        assert caught.value.code == "ledger-damaged"
        ledger.close()
        assert refuses(path, whole=True) == "ledger-damaged"


def test_an_edited_hash_of_the_past_is_damage(path: Path) -> None:
    filled(path)
    whole, before, hashes = path.read_bytes(), rows(path), linked(path)
    end = checkpoints(path)[1].seq
    for seq in range(1, end):
        path.write_bytes(whole)
        connection = sqlite3.connect(path)
        with connection:
            if seq % 2:
                connection.execute("UPDATE events SET hash = ? WHERE seq = ?", ("0" * 64, seq))
            else:  # all of them in one text are the same
                connection.execute("UPDATE events SET hash = ? WHERE seq = ?", (hashes[seq - 1] + hashes[seq][:1], seq))
                connection.execute("UPDATE events SET hash = ? WHERE seq = ?", (hashes[seq][1:], seq + 1))
        connection.close()
        anchor_beside(path).write_text(f"\n{len(before)} {hashes[-1]}\n")
        ledger = ReportingLedger(path)
        for each in (seq, seq + 1):
            with pytest.raises(LedgerError):
                ledger._events("seq = $1", each)
        ledger.close()
        del ledger


def test_a_forged_checkpoint_of_the_past_vouches_for_nothing(path: Path) -> None:
    """Although it states the hashes that the events before it have now."""
    filled(path, 20)
    marks = checkpoints(path)
    seq, end = marks[1].seq - 2, marks[1].seq
    anchor_beside(path).write_text(anchor_beside(path).read_text().rstrip().rsplit("\n", 1)[1])  # it vouches for all before it
    ledger = ReportingLedger(path)
    assert [ledger._events("seq = $1", mark.seq) for mark in marks] == [[mark] for mark in marks]
    ledger.close()
    del ledger
    rewritten(path, edited(seq, body="forged"), until=end)  # the last one before it, too
    between = "".join(f"{link}\n" for link in linked(path)[marks[0].seq:end - 1])
    told = json.loads(marks[1].body or "") | {"between": hashlib.sha256(between.encode()).hexdigest()}
    rewritten(path, edited(end, body=json.dumps(told)), until=1)
    with pytest.raises(LedgerError) as caught:
        ReportingLedger(path)._events("seq = $1", seq)
    assert caught.value.code == "ledger-damaged"


def test_an_index_that_leads_to_another_answer_is_damage(path: Path) -> None:
    """Opening does not look at the pages of the past; so an index is not relied on."""
    filled(path)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, '(digest, budget, analyst, data)', '(digest, budget, data, analyst)') "
                           "WHERE name = 'asked'")
    connection.close()
    ledger = ReportingLedger(path)
    for i in range(15):
        for account in (ADA, BOB, EVE):
            found = ledger.stored(account, f"digest {i}", "v1")
            assert found is None, "paid for again"
    assert refuses(path, whole=True) == "ledger-damaged"


def test_flipped_bits_never_change_what_is_shown_of_the_past(path: Path, effort: float) -> None:
    """An answer may not be found any more, and is paid for again. Sums, failures and what is kept stay what they were."""
    filled(path, 120)
    whole, draw = path.read_bytes(), random.Random(8)
    ledger = ReportingLedger(path)
    spent, failed = ledger.spent("main"), ledger.failed(BOB)
    known = [{ledger.stored(account, f"digest {i}", "v1"), *ledger.answers(f"digest {i}"), None} for account in (ADA,) for i in range(15)]
    kept = [ledger.newest(f"digest {i}")[0] for i in range(15)]
    ledger.close()
    for _ in range(round(400 * effort)):
        at, bit = draw.randrange(len(whole)), 1 << draw.randrange(8)
        path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1:])
        for beside in ("-wal", "-shm"):
            path.with_name(path.name + beside).unlink(missing_ok=True)
        try:
            ledger = ReportingLedger(path)
        except LedgerError:
            continue
        try:
            assert ledger.spent("main") == spent and ledger.failed(BOB) == failed
            for i in range(15):
                assert ledger.stored(ADA, f"digest {i}", "v1") in known[i]
                assert ledger.newest(f"digest {i}")[0] == kept[i]
        except LedgerError:
            pass
        finally:
            ledger.close()


# -- what is quick however long a ledger is


def test_checkpoints_are_found_in_few_steps(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path, 1500)
    read, from_values = list[int](), Waypoint.from_values
    marks = {event.seq for event in checkpoints(path)}
    assert len(marks) > 200
    for seq in (1, 2, 40, 700, 1500, 2300):
        ledger = ReportingLedger(path)
        with monkeypatch.context() as patch:
            patch.setattr(Waypoint, "from_values", lambda told: read.append(told["number"]) or from_values(told))
            assert [event.seq for event in ledger._events("seq = $1", seq)] == [seq]
        ledger.close()
        del ledger  # what it knows is shared with those that are opened while it is there
        assert 0 < len(read) <= 2 * len(marks).bit_length(), read
        read.clear()


def test_skips_lead_to_the_multiples_of_powers_of_two(path: Path) -> None:
    filled(path, 300)
    found = [Waypoint.from_values(json.loads(event.body or "")) for event in checkpoints(path)]
    heads = [(event.seq, link) for event, link in zip(rows(path), linked(path), strict=True) if event.kind == "checkpoint"]
    for number, each in enumerate(found, 1):
        assert each.number == number and (number == 1 or each.before == heads[number - 2])
        powers = [2**power for power in range(1, 20) if 2**power < number]
        assert list(each.skips) == [heads[(number - 1) // power * power - 1] for power in powers]


def test_nothing_that_is_asked_often_reads_all_events(path: Path) -> None:
    ledger = filled(path, 60, close=False)
    asked = list[str]()
    ledger._store.connection.set_trace_callback(asked.append)
    ledger.answer(charge(ledger, body="kept"), f"{ONLINE}1{MEASURED}{SYNTHETIC}")
    uses = (ledger.entries("main"), ledger.entries("main", "Ada"), ledger.stored(ADA, "d", "v1"), ledger.answered(ADA, "d", "v1"),
            ledger.newest("d"), ledger.answers("d"), ledger.texts(ADA, "select", 5), *(ledger.holding(ADA, "v1", mark) for mark in MARKS.values()))
    assert all(uses) and len(asked) > 10
    ledger._store.connection.set_trace_callback(None)
    for text in {text for text in asked if text.startswith(("SELECT", "WITH"))}:
        plan = [row[3] for row in ledger._store.connection.execute(f"EXPLAIN QUERY PLAN {text}")]
        assert not any(step.startswith("SCAN events") and "INDEX" not in step for step in plan), (text, plan)


def test_a_list_that_an_index_cuts_short_is_damage(path: Path) -> None:
    filled(path)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, '(budget, analyst)', '(analyst, budget)') WHERE name = 'listed'")
    connection.close()
    ledger = ReportingLedger(path)
    with pytest.raises(LedgerError):
        ledger.entries("main", "ada")


def test_many_prices_are_told_as_few_that_are_no_lower() -> None:
    draw, reported, exact = random.Random(6), Reported(), list[int]()
    for _ in range(3000):
        exact.append(draw.choice((draw.randrange(1, 10**9), draw.randrange(1, 50), 2**draw.randrange(60))))
        reported.count(ADA, Charge(epsilon=exact[-1], rho=0, delta=0))
        paid = reported.prices["main"]
        assert len(paid) <= MOST_PRICES and sum(paid.values()) == len(exact)
        assert Reported.from_values(json.loads(json.dumps(reported.as_values()))).as_values() == reported.as_values()
    told = [price for price, times in sorted(paid.items()) for _ in range(times)]
    assert all(price <= shown <= 2 * price for price, shown in zip(sorted(exact), told, strict=True))


def test_prices_are_rounded_up_no_more_than_needed() -> None:
    """All to one number of digits, so that half as many are told apart as there may be; at most to powers of two."""
    near = [1, *(2**20 + i for i in range(MOST_PRICES))]
    powers = [times * 2**power for power in range(MOST_PRICES // 2 + 1) for times in (2, 3)][:MOST_PRICES + 1]
    for prices, told in ((near, {1: 1, 2**20: 1, **{2**20 + 4 * i: 4 for i in range(1, 16)}, 2**20 + 64: 3}),
                         (powers, {2: 1, **{2**power: 2 for power in range(2, 34)}})):
        reported = Reported()
        for epsilon in prices:
            reported.count(ADA, Charge(epsilon=epsilon, rho=0, delta=0))
        assert reported.prices["main"] == told


def test_the_newest_different_texts_with_a_word(path: Path) -> None:
    ledger = filled(path, close=False)
    texts = [entry.sql for entry in ledger.entries("main", "ada") if "DIGEST 1" in entry.sql.upper()]
    newest = sorted(set(texts), key=lambda text: -texts[::-1].index(text))
    assert len(newest) > 2 and ledger.texts(ADA, "Digest 1", 99) == newest and ledger.texts(ADA, "DIGEST 1", 2) == newest[-2:]
    charge(ledger, digest=newest[0].removeprefix("SELECT "))
    assert ledger.texts(ADA, "digest 1", 99) == [*newest[1:], newest[0]], "where a text was charged again, the last time counts"


def test_few_prices_are_told_as_they_are(path: Path) -> None:
    ledger = filled(path, close=False)
    assert dict(ledger.prices("main")) == Counter(entry.charge.epsilon for entry in ledger.entries("main"))
    assert ledger.last(ADA) == next(entry.charge for entry in reversed(ledger.entries("main", "ada")))


# -- ledgers from before, and long anchors


def without(patch: pytest.MonkeyPatch, *sums: str) -> None:
    """Writes checkpoints as before these sums were known, and the revisions, which came later."""
    summed = ChainSums.as_values
    patch.setattr(ChainSums, "as_values", lambda self: {
        name: told for name, told in summed(self).items() if name not in (*sums, "revised", "day")})


def without_late(patch: pytest.MonkeyPatch) -> None:
    without(patch, "late", "days", "promised", "period_runs")


def earlier(patch: pytest.MonkeyPatch) -> None:
    """Writes checkpoints as an earlier version did, and no indexes."""
    patch.setattr(Waypoint, "as_values", lambda self: {"before": list(self.before)})
    patch.setattr(Reported, "as_values", lambda self: {})
    patch.setattr(Reported, "from_values", lambda told: Reported())
    without_late(patch)
    patch.setattr(sqlite_store, "INDEXES", {})


def test_a_ledger_with_checkpoints_from_before_goes_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        earlier(patch)
        filled(path, 120)
    older, many = rows(path), len(checkpoints(path))
    assert many > 10 and set(json.loads(checkpoints(path)[-1].body or "")) == {"ledger", "before", "spent", "pending", "failed",
                                                                             "forgiven", "kept"}
    before = opened(path)
    assert before == opened(path, whole=True) and rows(path) == older
    ledger = ReportingLedger(path)
    charge(ledger, digest="new")
    ledger.close()
    assert rows(path)[:len(older)] == older and json.loads(checkpoints(path)[-1].body or "")["number"] == many + 1
    assert {name for name, in sqlite3.connect(path).execute("SELECT name FROM sqlite_master WHERE type = 'index'")} >= set(sqlite_store.INDEXES)
    ledger = ReportingLedger(path)
    assert ledger._chain.checkpoint[0] > len(older) and state(ledger) == opened(path, whole=True)


def test_others_of_an_earlier_version_may_write_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = filled(path, 60, close=False)
    made.answer(charge(made, ADA, digest="late"), "body", 3)
    late = made.late("main")
    made.close()
    number = json.loads(checkpoints(path)[-1].body or "")["number"]
    with monkeypatch.context() as patch:
        earlier(patch)
        ledger = ReportingLedger(path, whole=True)
        for i in range(20):
            ledger.answer(charge(ledger, BOB, digest=f"digest {i}"), "body")
        ledger.close()
    assert any("between" not in json.loads(event.body or "") for event in checkpoints(path))
    before = opened(path)
    ledger = ReportingLedger(path)
    for i in range(20):
        ledger.answer(charge(ledger, EVE, digest=f"other {i}"), "body")
    ledger.close()
    assert json.loads(checkpoints(path)[-1].body or "")["number"] == len(checkpoints(path)) > number + 2
    assert opened(path) == opened(path, whole=True) != before
    assert ("ada", 3, 1) in late and ReportingLedger(path).late("main") == late == ReportingLedger(path, whole=True).late("main")


def test_an_edited_event_before_checkpoints_of_an_earlier_version_is_not_shown(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        earlier(patch)
        filled(path)
    ledger = ReportingLedger(path)
    charge(ledger, digest="new")
    ledger.close()
    del ledger
    whole, (end, later) = path.read_bytes(), (mark.seq for mark in checkpoints(path)[:2])
    anchor_beside(path).write_text(anchor_beside(path).read_text().rstrip().rsplit("\n", 1)[1])  # it vouches for all before it
    ledger = ReportingLedger(path)
    assert ledger._events("seq <= $1 ORDER BY seq", later) == rows(path)[:later], "without a change they are right"
    ledger.close()
    del ledger
    for again in (False, True):
        for event in rows(path)[:end - 1]:
            path.write_bytes(whole)
            rewritten(path, edited(event.seq, at="2020"), until=end - 1 if again else 1)
            ledger = ReportingLedger(path)
            with pytest.raises(LedgerError):
                ledger._events("seq = $1", event.seq)
            ledger.close()
            del ledger


OLD = sqlite_store.SCHEMA.replace(", 'checkpoint', 'late', 'promise', 'part', 'stopped', 'crowded'", "")
WITHOUT_LATE = sqlite_store.SCHEMA.replace(", 'late', 'promise', 'part', 'stopped', 'crowded'", "")
WITHOUT_PROMISES = sqlite_store.SCHEMA.replace(", 'promise', 'part', 'stopped', 'crowded'", "")
WITHOUT_STOPPED = sqlite_store.SCHEMA.replace(", 'stopped', 'crowded'", "")


def test_a_ledger_from_before_is_given_room_for_stopped_and_crowded_statements(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "EVERY", 9)
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_store, "SCHEMA", WITHOUT_STOPPED)
        patch.setattr(sqlite_store, "INDEXES", {name: what for name, what in sqlite_store.INDEXES.items() if name != "stopped"})
        without(patch, "days", "period_runs")
        filled(path)
        ledger = ReportingLedger(path)
        for i in range(30):
            ledger.answer(charge(ledger, digest=f"late {i}"), "body", i % 3)
        ledger.close()
    late = [("ada", 1, 10), ("ada", 2, 10)]
    older, before = rows(path), opened(path)
    assert "days" not in json.loads(checkpoints(path)[-1].body or "") and before == opened(path, whole=True)
    ledger = ReportingLedger(path)
    assert ledger.late("main") == late and ledger.first_step(ADA, 19) == 1, "on the days that they state"
    ledger.stopped(charge(ledger, digest="new"), "request", 2, crowded=True)
    assert ledger.late("main") == [late[0], ("ada", 2, 11)] and [stop.cause for stop in ledger.stops("main")] == ["request"]
    for again in (ledger, ReportingLedger(path), ReportingLedger(path, whole=True)):
        assert (again.first_step(ADA, 19), again.first_step(ADA, 19, crowded=True)) == (1, 2)
        assert again.entries("main")[-1].outcome == "stopped" and again.failed(ADA) == ledger.failed(ADA)
        again.close()
    assert rows(path)[:len(older)] == older and opened(path) == opened(path, whole=True)
    assert "days" in json.loads(checkpoints(path)[-1].body or ""), "it is written at once, and others begin there"


@pytest.mark.parametrize("schema", [OLD, WITHOUT_LATE])
def test_a_ledger_from_before_is_given_room_for_late_outcomes(schema: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "EVERY", 10**6 if schema == OLD else 9)
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_store, "SCHEMA", schema)
        patch.setattr(SqliteStore, "make_room", lambda self: None)
        without_late(patch)
        filled(path, reopen=False)
    before, older = opened(path), rows(path)
    ledger = ReportingLedger(path)
    assert ledger.late("main") == []
    ledger.answer(charge(ledger, digest="new"), "body", 3)
    assert ledger.late("main") == [("ada", 3, 1)] and rows(path)[:len(older)] == older and opened(path) != before
    assert opened(path) == opened(path, whole=True)


def test_a_ledger_from_before_is_given_room_for_promises(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "EVERY", 9)
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_store, "SCHEMA", WITHOUT_PROMISES)
        patch.setattr(SqliteStore, "make_room", lambda self: None)
        without(patch, "promised", "period_runs")
        filled(path, reopen=False)
    older = rows(path)
    ledger = ReportingLedger(path)
    assert ledger.promised() == {} and opened(path) == opened(path, whole=True)
    ledger.rely_on("main", lambda found: {"main": ("people", True)})
    assert rows(path)[:len(older)] == older and opened(path) == opened(path, whole=True)
    for again in (ReportingLedger(path), ReportingLedger(path, whole=True)):
        assert {name: kept.text for name, kept in again.promised().items()} == {"main": "people"}
        again.close()


def test_promises_are_found_whichever_checkpoint_a_ledger_is_opened_at(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    for i in range(30):
        due = {f"{i % 3}": (f"{i}", i % 2 == 0)}
        ledger.rely_on(f"{i % 3}", lambda found, due=due: due)
        ledger.answer(charge(ledger, digest=f"{i}"), "body")
        for again in (ReportingLedger(path), ReportingLedger(path, whole=True)):
            told = again.promised()
            assert {name: kept.text for name, kept in told.items()} == {f"{j % 3}": f"{j}" for j in range(max(0, i - 2), i + 1)}
            texts, kept = [], told[f"{i % 3}"]
            while kept is not None:
                assert kept.changed == (int(kept.text) % 2 == 0)
                texts.append(kept.text)
                kept = again.promised_before(kept)
            assert texts == [f"{j}" for j in range(i, -1, -3)], "each leads to the one before it"
            assert again._chain.promised == ledger._chain.promised
            again.close()
    assert len(checkpoints(path)) > 3


def test_late_outcomes_are_counted_whichever_checkpoint_a_ledger_is_opened_at(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    for i in range(30):
        account = (ADA, BOB, EVE)[i % 3]
        seq = charge(ledger, account, digest=f"{i}")
        ledger.incident(seq, i % 4) if i % 5 == 0 else ledger.answer(seq, "body", i % 4)
    found = ledger.late("main")
    expected = Counter((("ada", "bob")[i % 3], i % 4) for i in range(30) if i % 3 < 2 and i % 4)
    assert found == sorted((*which, number) for which, number in expected.items()) and len(ledger.late("other")) == 3
    assert len(ledger.entries("main")) == 20 and len(checkpoints(path)) > 3
    ledger.close()
    for whole in (False, True):
        again = ReportingLedger(path, whole=whole)
        assert again.late("main") == found
        again.close()


def test_a_late_outcome_is_told_before_it(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    seq = charge(ledger)
    ledger.answer(seq, "body", 2)
    assert [(event.kind, event.answers, event.body) for event in rows(path)[1:]] == [("late", seq, "2"), ("answer", seq, "body")]
    assert ledger.stored(ADA, "d", "v1") == "body" and ledger.failed(ADA) == []


def test_a_ledger_from_before_is_given_room_for_checkpoints(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_store, "SCHEMA", OLD)
        patch.setattr(rules, "EVERY", 10**6)
        filled(path, reopen=False)
    before, older = opened(path), rows(path)
    assert not checkpoints(path)
    watching, ledger = ReportingLedger(path), ReportingLedger(path)
    ledger.answer(charge(ledger, EVE, digest="new"), "body")
    assert len(checkpoints(path)) == 1 and rows(path)[:len(older)] == older
    watching.refresh()
    assert watching.stored(EVE, "new", "v1") == "body"
    assert opened(path) != before and opened(path) == opened(path, whole=True)


def test_a_conversion_that_fails_leaves_everything_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_store, "SCHEMA", OLD)
        patch.setattr(rules, "EVERY", 10**6)
        filled(path, reopen=False)
    before, older = opened(path), rows(path)
    ledger = ReportingLedger(path)
    for step in range(1, len(sqlite_store.MAKE_ROOM) + 1):
        with monkeypatch.context() as patch:
            patch.setattr(sqlite_store, "MAKE_ROOM", (*sqlite_store.MAKE_ROOM[:step], "no SQL"))
            with pytest.raises(LedgerError):
                charge(ledger)
        assert rows(path) == older and opened(path) == before
    ledger.answer(charge(ledger), "body")
    assert len(checkpoints(path)) == 1


def test_the_end_of_a_long_anchor_is_enough(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    for i in range(30):
        ledger.answer(charge(ledger, digest=f"{i}"), f"body {i}")
    anchor = anchor_beside(path)
    early = anchor.read_bytes().split(b"\n")[1]
    anchor.write_bytes((b"\n" + early + b"\n") * (TAIL // 20) + anchor.read_bytes())
    assert anchor.stat().st_size > 2 * TAIL
    ledger.close()
    older = path.read_bytes()
    ledger = ReportingLedger(path)
    charge(ledger)
    ledger.close()
    assert ReportingLedger(path).stored(ADA, "3", "v1") == "body 3"
    path.write_bytes(older)
    assert refuses(path) == "ledger-rolled-back"


def test_what_lies_far_back_in_an_anchor_is_verified_on_request(path: Path) -> None:
    filled(path)
    anchor = anchor_beside(path)
    anchor.write_bytes(b"\n1 " + b"0" * 64 + b"\n" + anchor.read_bytes() * (2 * TAIL // anchor.stat().st_size + 1))
    ReportingLedger(path).close()
    assert refuses(path, whole=True) == "ledger-rolled-back"


def test_opening_brings_the_anchor_up_to_date(path: Path) -> None:
    """After a crash the anchor may be behind: whoever opens the ledger then has it vouch for all that was found."""
    ledger = ReportingLedger.create(path)
    ledger.answer(charge(ledger, digest="q"), "body")
    behind = anchor_beside(path).read_bytes()
    ledger.answer(charge(ledger, digest="r"), "body")
    ledger.close()
    anchor_beside(path).write_bytes(behind)
    older = path.read_bytes()
    ReportingLedger(path).close()
    assert anchor_beside(path).read_text().split("\n")[-2].startswith("4 ")
    assert path.read_bytes() == older
