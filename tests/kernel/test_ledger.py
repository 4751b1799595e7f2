"""The ledger: exact sums, limits, stored answers, and its refusal to open when it is not the ledger it was."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from support.ledgers import BOTH

from dpsql.budgets.convert import limit
from dpsql.catalog.price import price
from dpsql.errors import LedgerError
from dpsql.frozen import replace
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.accounting.cost import NOTHING, Account, Charge, Cost, concentrated, pure
from dpsql.trusted.accounting.privacy_filter import Limit
from dpsql.trusted.kernel.anchor import Anchor
from dpsql.trusted.kernel.ledger import Refused, anchor_beside

ADA, BOB = Account(budget="main", analyst="ada"), Account(budget="main", analyst="bob")
TENTH = pure(Fraction(1, 10)).rounded()
WIDE: dict[str | None, Limit] = {None: limit(price(epsilon=1000))}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spent.ledger"


def charge(ledger: ReportingLedger, account: Account = ADA, cost: Charge = TENTH, *, digest: str = "d", data: str = "v1",
           sql: str = "SELECT 1", allows: dict[str | None, Limit] | None = None) -> int:
    return ledger.charge(account, cost, digest=digest, data=data, sql=sql, allows=WIDE if allows is None else allows)


def filled(path: Path, statements: int = 6) -> None:
    """A closed ledger with charges of two analysts, answers and an incident."""
    ledger = ReportingLedger.create(path)
    for i in range(statements):
        seq = charge(ledger, ADA if i % 2 else BOB, pure(Fraction(1, i + 3)).rounded(), digest=f"digest {i}",
                     sql=f"SELECT COUNT(*) FROM statement{i}")
        ledger.incident(seq) if i == 2 else ledger.answer(seq, f"body of {i} " * 20)
    ledger.close()


def state(ledger: ReportingLedger) -> object:
    """All that can be seen of a ledger, but for what runs, which is seen while its process does."""
    return (ledger.salt, [replace(entry, running=False) for entry in ledger.entries("main")], ledger.spent("main"), ledger.spent("main", "ada"), ledger.spent("main", "bob"),
            [ledger.stored(account, f"digest {i}", "v1") for account in (ADA, BOB) for i in range(20)])


def state_of(path: Path) -> object:
    ledger = ReportingLedger(path)
    try:
        return state(ledger)
    finally:
        ledger.close()


def refuses(path: Path) -> LedgerError:
    with pytest.raises(LedgerError) as caught:
        ReportingLedger(path)
    return caught.value


def edit(path: Path, sql: str, *values: object) -> None:
    connection = sqlite3.connect(path)
    with connection:
        assert connection.execute(sql, values).rowcount > 0
    connection.close()


# -- creating and opening


@BOTH
def test_a_new_ledger_is_empty_and_opens_again(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    salt = ledger.salt
    assert ledger.spent("main") == NOTHING and ledger.entries("main") == []
    assert salt == int(ledger._store.meta()["salt"], 16), "in every version, as it decides which rows are used"
    ledger.close()
    assert ReportingLedger(path).salt == salt
    assert ReportingLedger.create(path.with_name("other")).salt != salt


def test_only_the_owner_can_read_it(path: Path) -> None:
    ReportingLedger.create(path)
    for file in (path, anchor_beside(path)):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_folders_are_made_and_the_anchor_may_live_elsewhere(tmp_path: Path) -> None:
    path, anchor = tmp_path / "a" / "b" / "ledger", tmp_path / "far" / "away" / "anchor"
    charge(ReportingLedger.create(path, anchor))
    assert not anchor_beside(path).exists()
    assert len(ReportingLedger(path, anchor).entries("main")) == 1
    assert refuses(path).code == "ledger-anchor"


@pytest.mark.parametrize("odd", ["with space", "a?b=c", "hash#tag", "per%20cent", "ünïcode"])
def test_any_file_name_will_do(tmp_path: Path, odd: str) -> None:
    charge(ReportingLedger.create(tmp_path / odd))
    assert ReportingLedger(tmp_path / odd).spent("main") == TENTH


@BOTH
def test_a_ledger_is_never_overwritten(path: Path) -> None:
    filled(path)
    before = state_of(path)
    with pytest.raises(LedgerError) as caught:
        ReportingLedger.create(path)
    assert caught.value.code == "ledger-exists" and state_of(path) == before


def test_a_ledger_is_not_made_beside_the_anchor_of_another(path: Path) -> None:
    filled(path)
    path.unlink()
    with pytest.raises(LedgerError) as caught:
        ReportingLedger.create(path)
    assert caught.value.code == "ledger-exists" and not path.exists()


@BOTH
def test_a_missing_ledger_is_not_made_by_opening_it(path: Path) -> None:
    assert refuses(path).code == "ledger-missing"
    assert not path.exists() and not anchor_beside(path).exists()


@BOTH
def test_a_closed_ledger_serves_nothing(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    seq = charge(ledger)
    ledger.close()
    for use in (lambda: charge(ledger), lambda: ledger.answer(seq, "x"), lambda: ledger.stored(ADA, "d", "v1"),
                ledger.refresh, lambda: ledger.entries("main"), ledger.alone("model").__enter__):
        with pytest.raises(LedgerError) as caught:
            use()
        assert caught.value.code == "ledger-closed"


# -- sums, limits, answers


def test_sums_are_exact_over_many_small_charges(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    tiny = Charge(epsilon=1, rho=3, delta=7)
    for i in range(300):
        charge(ledger, ADA if i % 3 else BOB, tiny, allows={})
    assert ledger.spent("main") == Charge(epsilon=300, rho=900, delta=2100)
    assert ledger.spent("main", "bob") == Charge(epsilon=100, rho=300, delta=700)
    assert ledger.spent("other") == ledger.spent("main", "eve") == NOTHING


@BOTH
def test_ten_tenths_fit_and_an_eleventh_does_not(path: Path) -> None:
    ledger, one = ReportingLedger.create(path), {None: limit(price(epsilon=1))}
    for _ in range(10):
        charge(ledger, allows=one)
    with pytest.raises(Refused) as caught:
        charge(ledger, allows=one)
    assert caught.value.analyst is None and caught.value.spent == Charge(epsilon=10**9, rho=5 * 10**7, delta=0)
    assert len(ledger.entries("main")) == 10


@BOTH
def test_a_refused_charge_leaves_no_trace(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    charge(ledger)
    before, anchored = state(ledger), anchor_beside(path).read_bytes()
    for _ in range(3):
        with pytest.raises(Refused):
            charge(ledger, cost=pure(Fraction(2)).rounded(), allows={None: limit(price(epsilon=1))})
    assert state(ledger) == before and anchor_beside(path).read_bytes() == anchored
    ledger.close()
    assert state_of(path) == before


@BOTH
def test_each_limit_binds_its_own_analyst(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    total, each = limit(price(epsilon=Fraction(3, 10))), limit(price(epsilon=Fraction(2, 10)))
    charge(ledger, ADA, allows={None: total, "ada": each})
    charge(ledger, ADA, allows={None: total, "ada": each})
    with pytest.raises(Refused) as caught:
        charge(ledger, ADA, allows={None: total, "ada": each})
    assert caught.value.analyst == "ada" and caught.value.spent == TENTH + TENTH
    charge(ledger, BOB, allows={None: total, "bob": each})
    with pytest.raises(Refused) as caught:
        charge(ledger, BOB, allows={None: total, "bob": each})
    assert caught.value.analyst is None


@BOTH
def test_budgets_do_not_share(path: Path) -> None:
    ledger, one = ReportingLedger.create(path), {None: limit(price(epsilon=Fraction(1, 10)))}
    charge(ledger, Account(budget="first", analyst="ada"), allows=one)
    charge(ledger, Account(budget="second", analyst="ada"), allows=one)
    with pytest.raises(Refused):
        charge(ledger, Account(budget="first", analyst="bob"), allows=one)


@BOTH
def test_a_charge_without_pure_epsilon_ends_the_pure_account(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    charge(ledger)
    charge(ledger, cost=concentrated(Fraction(1, 8), Fraction(1, 10**6)).rounded(), allows={})
    assert ledger.spent("main") == Charge(epsilon=None, rho=5 * 10**6 + 125 * 10**6, delta=10**12)
    with pytest.raises(Refused):
        charge(ledger, allows={None: limit(price(epsilon=1000))})


@BOTH
def test_a_negative_charge_cannot_be_recorded(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    for bad in (Charge(epsilon=-1, rho=0, delta=0), Charge(epsilon=0, rho=-1, delta=0), Charge(epsilon=0, rho=0, delta=-1)):
        with pytest.raises(LedgerError):
            charge(ledger, cost=bad)
    assert ledger.spent("main") == NOTHING
    charge(ledger)
    assert ledger.spent("main") == TENTH


@BOTH
def test_an_answer_is_found_only_by_the_same_question_of_the_same_account_on_the_same_data(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    ledger.answer(charge(ledger, ADA, digest="q", data="v1"), '{"n": 1}')
    assert ledger.stored(ADA, "q", "v1") == '{"n": 1}'
    assert ledger.stored(BOB, "q", "v1") is None
    assert ledger.stored(Account(budget="other", analyst="ada"), "q", "v1") is None
    assert ledger.stored(ADA, "p", "v1") is None and ledger.stored(ADA, "q", "v2") is None
    ledger.answer(charge(ledger, ADA, digest="q", data="v1"), "newer")
    assert ledger.stored(ADA, "q", "v1") == "newer"


def test_what_failed_has_no_answer_but_keeps_its_charge(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    ledger.incident(charge(ledger, ADA, digest="q"))
    unanswered = charge(ledger, BOB, digest="q")
    assert ledger.stored(ADA, "q", "v1") is None
    assert [(entry.account, entry.body, entry.charge) for entry in ledger.entries("main")] == [
        (ADA, None, TENTH), (BOB, None, TENTH)]
    assert [entry.outcome for entry in ledger.entries("main")] == ["failed", "running"]
    ledger.answer(unanswered, "late")
    assert [entry.outcome for entry in ledger.entries("main")] == ["failed", "answered"]
    assert [entry.body for entry in ledger.entries("main", "bob")] == ["late"]
    assert ledger.spent("main") == TENTH + TENTH


@pytest.mark.parametrize("text", [
    "", "'; DROP TABLE events; --", "ünïcödé 🦆", "line\nbreak\ttab\x00nul", "\"quotes\"", "x" * 100_000])
def test_any_text_comes_back_as_it_was(path: Path, text: str) -> None:
    ledger = ReportingLedger.create(path)
    ledger.answer(charge(ledger, sql=text, digest=text or "d"), text)
    ledger.close()
    again = ReportingLedger(path)
    assert again.entries("main")[0].sql == again.entries("main")[0].body == again.stored(ADA, text or "d", "v1") == text


@BOTH
def test_two_open_ledgers_see_each_other(path: Path) -> None:
    first = ReportingLedger.create(path)
    second, two = ReportingLedger(path), {None: limit(price(epsilon=Fraction(2, 10)))}
    charge(first, allows=two)
    second.answer(charge(second, digest="q", allows=two), "here")
    with pytest.raises(Refused):
        charge(first, allows=two)
    assert first.stored(ADA, "q", "v1") == "here" and first.spent("main") == TENTH + TENTH


def test_ledgers_that_are_opened_together_share_what_was_verified(path: Path) -> None:
    first = ReportingLedger.create(path)
    second = ReportingLedger(path)
    charge(first)
    third = ReportingLedger(path)
    assert first._shared is second._shared is third._shared


@BOTH
def test_others_wait_to_be_alone_or_give_up(path: Path) -> None:
    first, second = ReportingLedger.create(path), ReportingLedger(path)
    with first.alone("model"):
        with pytest.raises(TimeoutError):
            second.alone("model", 0).__enter__()
        with second.alone("another model", 0):
            assert (first._held, first._alone) == (1, 1), "its connection is not replaced, and no other commits for it"
    with second.alone("model", 0):
        assert (first._held, first._alone) == (0, 0)


# -- damage


def test_no_flipped_bit_passes_unseen(path: Path, effort: float) -> None:
    filled(path)
    whole, before, draw = path.read_bytes(), state_of(path), random.Random(3)
    words = (b"ada", b"bob", b"digest 3", b"statement4", b"body of 1", b"charge", b"CREATE TABLE")
    telling = [whole.index(word) for word in words]
    flips = [(at + draw.randrange(3), 1 << draw.randrange(8)) for at in telling for _ in range(4)]
    flips += [(draw.randrange(len(whole)), 1 << draw.randrange(8)) for _ in range(round(500 * effort))]
    flips += [(at, 1 << draw.randrange(8)) for at in range(110)]  # the head of the file and of its first page
    refused = 0
    for at, bit in flips:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1:])
        for beside in ("-wal", "-shm"):
            path.with_name(path.name + beside).unlink(missing_ok=True)
        try:
            assert state_of(path) == before, f"byte {at}, bit {bit}"
        except LedgerError:
            refused += 1
    assert refused > len(telling)


@pytest.mark.parametrize("column, value", [
    ("kind", "incident"), ("at", "2020-01-01T00:00:00+00:00"), ("budget", "other"), ("analyst", "eve"), ("digest", "other"),
    ("data", "v2"), ("sql", "SELECT 2"), ("epsilon", 1), ("epsilon", None), ("rho", 0), ("delta", 1), ("answers", 1),
    ("body", "forged"), ("hash", "0" * 64)])
def test_no_edited_row_passes_unseen(path: Path, column: str, value: object) -> None:
    filled(path, 3)
    whole, before, refused = path.read_bytes(), rows_of(path), 0
    for seq in range(1, 7):
        path.write_bytes(whole)
        edit(path, f"UPDATE events SET {column} = ? WHERE seq = ?", value, seq)
        if rows_of(path) != before:
            assert refuses(path).code == "ledger-damaged"
            refused += 1
    assert refused >= 2


def rows_of(path: Path) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT * FROM events ORDER BY seq").fetchall()
    finally:
        connection.close()


@pytest.mark.parametrize("key", ["identity", "salt", "version"])
def test_the_identity_the_salt_and_the_version_are_part_of_the_chain(path: Path, key: str) -> None:
    filled(path, 2)
    edit(path, "UPDATE meta SET value = '0123456789abcdef' WHERE key = ?", key)
    assert refuses(path).code in ("ledger-damaged", "ledger-rolled-back")


def test_the_chain_of_an_empty_ledger_is_checked_too(path: Path) -> None:
    ReportingLedger.create(path).close()
    edit(path, "UPDATE meta SET value = '0123456789abcdef' WHERE key = 'salt'")
    assert refuses(path).code == "ledger-rolled-back"


@pytest.mark.parametrize("sql", [
    "DELETE FROM events WHERE seq = 1", "DELETE FROM events WHERE seq = 5", "DELETE FROM events", "DELETE FROM meta",
    "DELETE FROM events WHERE seq = (SELECT MAX(seq) FROM events)", "UPDATE events SET seq = seq + 100 WHERE seq > 4",
    "INSERT INTO events SELECT seq + 100, kind, at, budget, analyst, digest, data, sql, epsilon, rho, delta, answers, body, hash "
    "FROM events WHERE seq = 1"])
def test_no_deleted_or_added_row_passes_unseen(path: Path, sql: str) -> None:
    filled(path)
    edit(path, sql)
    assert refuses(path).code in ("ledger-damaged", "ledger-rolled-back")


def test_a_dropped_table_is_damage(path: Path) -> None:
    filled(path)
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE events")
    connection.close()
    assert refuses(path).code == "ledger-damaged"


def test_a_ledger_cut_short_is_refused(path: Path) -> None:
    filled(path)
    whole = path.read_bytes()
    for length in (0, 1, 99, 100, 4095, 4096, 8192, len(whole) // 2, len(whole) - 4096):
        path.write_bytes(whole[:length])
        refuses(path)


def test_another_kind_of_file_is_refused(path: Path) -> None:
    filled(path)
    path.write_bytes(b"not a database at all, but long enough to look like one. " * 200)
    assert refuses(path).code == "ledger-damaged"


# -- rolling back


def copies(path: Path) -> dict[Path, bytes]:
    """The ledger's file and its log, without the anchor."""
    files = [path, path.with_name(path.name + "-wal")]
    return {file: file.read_bytes() for file in files if file.exists()}


def restore(path: Path, saved: dict[Path, bytes]) -> None:
    for beside in ("", "-wal", "-shm"):
        path.with_name(path.name + beside).unlink(missing_ok=True)
    for file, content in saved.items():
        file.write_bytes(content)


def test_an_older_copy_is_refused(path: Path) -> None:
    filled(path)
    older = copies(path)
    ledger = ReportingLedger(path)
    charge(ledger)
    ledger.close()
    restore(path, older)
    assert refuses(path).code == "ledger-rolled-back"


def test_an_older_copy_with_its_log_is_refused(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    charge(ledger)
    older = copies(path)
    assert len(older) == 2, "the events are in the log"
    charge(ledger)
    ledger.close()
    restore(path, older)
    assert refuses(path).code == "ledger-rolled-back"


def test_a_copy_without_its_log_is_refused(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    charge(ledger)
    part = {path: copies(path)[path]}
    ledger.close()
    restore(path, part)
    assert refuses(path).code == "ledger-rolled-back"


def test_an_older_file_under_a_newer_log_is_refused_or_whole(path: Path) -> None:
    filled(path)
    older = path.read_bytes()
    ledger = ReportingLedger(path)
    for i in range(5):
        charge(ledger, digest=f"late {i}")
    whole, newer = state(ledger), copies(path)
    ledger.close()
    restore(path, newer | {path: older})
    with contextlib.suppress(LedgerError):
        assert state_of(path) == whole


def test_an_older_file_put_under_an_open_ledger_loses_no_charge(path: Path) -> None:
    filled(path)
    older = path.read_bytes()
    ledger = ReportingLedger(path)
    charge(ledger)
    with path.open("r+b") as file:  # the same file, so that the swap cannot be seen by its identity
        file.write(older)
        file.truncate(len(older))
    before = len(ledger.entries("main")) if can(ledger.refresh) else 0
    if before:
        assert before == 7
        charge(ledger)
        ledger.close()
        if can(lambda: ReportingLedger(path)):
            assert len(ReportingLedger(path).entries("main")) == 8


def can(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except LedgerError:
        return False
    return True


def test_a_ledger_replaced_while_open_serves_nothing(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    charge(ledger)
    fresh = path.with_name("fresh")
    ReportingLedger.create(fresh).close()
    os.replace(fresh, path)
    for use in (lambda: charge(ledger), ledger.refresh, lambda: ledger.stored(ADA, "d", "v1"), lambda: ledger.entries("main")):
        with pytest.raises(LedgerError) as caught:
            use()
        assert caught.value.code == "ledger-missing"


def test_a_ledger_removed_while_open_serves_nothing(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    path.unlink()
    with pytest.raises(LedgerError):
        charge(ledger)
    assert not path.exists()


def test_rows_deleted_while_open_are_noticed(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    for _ in range(3):
        charge(ledger)
    edit(path, "DELETE FROM events WHERE seq = 3")
    with pytest.raises(LedgerError) as caught:
        charge(ledger)
    assert caught.value.code == "ledger-rolled-back"


def test_a_head_changed_while_open_is_noticed(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    charge(ledger)
    edit(path, "UPDATE events SET hash = ? WHERE seq = 1", "0" * 64)
    with pytest.raises(LedgerError):
        charge(ledger)


FORGED = "INSERT INTO events SELECT 2, 'answer', at, budget, analyst, digest, data, sql, 0, 0, 0, 1, 'forged', hash FROM events"


def test_a_forged_event_is_noticed_by_those_who_have_it_open(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    charge(ledger)
    edit(path, FORGED)
    with pytest.raises(LedgerError):
        ledger.stored(ADA, "d", "v1")
    refuses(path)


def test_an_event_that_is_forged_while_another_is_looked_for_is_noticed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ReportingLedger.create(path)
    charge(ledger)
    rows = ledger._store.rows
    monkeypatch.setattr(ledger._store, "rows", lambda *asked: (edit(path, FORGED), rows(*asked))[1])
    with pytest.raises(LedgerError):
        ledger.stored(ADA, "d", "v1")


def test_what_is_kept_with_a_charge_that_was_deleted_is_missed(path: Path) -> None:
    """While the ledger is open: who opens it anew is refused."""
    ledger = ReportingLedger.create(path)
    ledger.charge(ADA, TENTH, digest="kept", data="v1", sql="SELECT 1", allows=WIDE, body="what is kept")
    charge(ledger)
    assert ledger.newest("kept") == ("what is kept", None)
    edit(path, "DELETE FROM events WHERE seq = 1")
    with pytest.raises(LedgerError) as caught:
        ledger.newest("kept")
    assert caught.value.code == "ledger-damaged"


# -- the anchor


def test_without_its_anchor_a_ledger_is_refused(path: Path) -> None:
    filled(path)
    anchor_beside(path).unlink()
    assert refuses(path).code == "ledger-anchor"


@pytest.mark.parametrize("content", [b"", b"\n", b"\n\n12 \n", b"\x00" * 200])
def test_an_empty_anchor_is_refused(path: Path, content: bytes) -> None:
    filled(path)
    anchor_beside(path).write_bytes(content)
    assert refuses(path).code == "ledger-anchor"


def test_no_flipped_bit_of_the_anchor_passes_unseen(path: Path) -> None:
    filled(path, 2)
    whole, draw = anchor_beside(path).read_bytes(), random.Random(5)
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1 << draw.randrange(8)
        anchor_beside(path).write_bytes(bytes(changed))
        if whole[at:at + 1] != b"\n":  # a break may turn into a space or a digit beside another break
            refuses(path)


def test_the_anchor_of_another_ledger_is_refused(path: Path) -> None:
    filled(path)
    other = path.with_name("other")
    filled(other)
    shutil.copy(anchor_beside(other), anchor_beside(path))
    assert refuses(path).code == "ledger-rolled-back"


def test_swapped_ledgers_are_refused(path: Path) -> None:
    filled(path, 8)
    other = path.with_name("other")
    filled(other, 2)
    shutil.copy(other, path)
    assert refuses(path).code == "ledger-rolled-back"


def test_a_record_that_a_crash_cut_off_is_passed_over(path: Path) -> None:
    filled(path)
    before, whole = state_of(path), anchor_beside(path).read_bytes()
    record = whole.rstrip(b"\n").rsplit(b"\n", 1)[1]
    for length in range(len(record)):
        anchor_beside(path).write_bytes(whole + b"\n" + record[:length])
        assert state_of(path) == before
    ledger = ReportingLedger(path)
    charge(ledger)  # the next record starts on a line of its own
    ledger.close()
    ReportingLedger(path).close()


def test_an_anchor_that_lags_behind_is_accepted(path: Path) -> None:
    """A crash between the commit of a charge and its record in the anchor loses nothing."""
    ledger = ReportingLedger.create(path)
    charge(ledger)
    lagging = anchor_beside(path).read_bytes()
    charge(ledger)
    ledger.close()
    anchor_beside(path).write_bytes(lagging)
    assert ReportingLedger(path).spent("main") == TENTH + TENTH


@pytest.mark.parametrize("there", ["nothing", "a folder"])
def test_nothing_is_charged_or_forgiven_where_the_anchor_cannot_be_written(there: str, path: Path) -> None:
    ledger = ReportingLedger.create(path)
    ledger.incident(charge(ledger))
    anchor_beside(path).unlink()
    if there == "a folder":  # which can be opened, to read it
        anchor_beside(path).mkdir()
    for act in (lambda: charge(ledger), lambda: ledger.reopen(ADA)):
        with pytest.raises(LedgerError) as caught:
            act()
        assert caught.value.code == "ledger-anchor" and caught.value.try_
    assert ledger.spent("main") == TENTH and ledger.failed(ADA) == [1]


def test_a_charge_stays_where_the_anchor_cannot_be_written_any_more(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ReportingLedger.create(path)
    charge(ledger)
    monkeypatch.setattr(Anchor, "_append", full_disk)
    with pytest.raises(LedgerError) as caught:
        charge(ledger)
    assert caught.value.code == "ledger-anchor" and "stays charged" in caught.value.reason
    assert ledger.spent("main") == TENTH + TENTH


def full_disk(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


@BOTH
def test_half_a_ledger_does_not_stand_in_the_way_of_another_attempt(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Anchor, "_append", full_disk)
        with pytest.raises(LedgerError) as caught:
            ReportingLedger.create(path)
    assert caught.value.code == "ledger-access" and list(path.parent.iterdir()) == []
    charge(ReportingLedger.create(path))


def test_what_may_not_be_opened_is_not_said_to_be_damaged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path)
    whole = path.rename(path.with_name("whole"))
    path.mkdir()
    assert refuses(path).code == "ledger-access"
    path.rmdir()
    whole.rename(path)
    for name, code in (("SQLITE_READONLY_DIRECTORY", "ledger-access"), ("SQLITE_CORRUPT", "ledger-damaged")):
        monkeypatch.setattr(sqlite3, "connect", lambda *args, name=name, **kwargs: faulty(name))
        fault = refuses(path)
        assert fault.code == code and fault.try_


def faulty(name: str) -> None:
    fault = sqlite3.OperationalError("no")
    fault.sqlite_errorname = name
    raise fault


def test_a_new_anchor_is_on_disk_before_it_counts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written, fsync = list[bytes](), os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (fsync(handle), written.append(anchor_beside(path).read_bytes())))
    ReportingLedger.create(path).close()
    assert written[0] == anchor_beside(path).read_bytes() and written[0].startswith(b"\n0 ")


def test_every_charge_and_answer_is_on_disk_before_it_counts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that loses its power keeps them: SQLite waits for the disk at each commit, and before anything is shown of a
    statement, the anchor has its charge on disk."""
    ledger, written, fsync = ReportingLedger.create(path), list[int](), os.fsync

    def watched(handle: int) -> None:
        fsync(handle)
        written.append(os.fstat(handle).st_ino)

    for opened in (ledger, ReportingLedger(path)):
        assert opened._store.connection is not None
        assert opened._store.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert opened._store.connection.execute("PRAGMA synchronous").fetchone() == (2,), "FULL: WAL alone would lose the last commits"
    monkeypatch.setattr(os, "fsync", watched)
    monkeypatch.setattr(Anchor, "settle_soon", lambda *_: None)  # which only begins earlier with what is waited for later
    for shown in (lambda seq: ledger.answer(seq, "body"), ledger.incident):
        written.clear()
        seq = charge(ledger)
        assert anchor_beside(path).read_text().split("\n")[-2].startswith(f"{seq} "), "written, whatever becomes of the process"
        assert written == []
        shown(seq)
        assert written == [anchor_beside(path).stat().st_ino]
        shown(seq)
        assert len(written) == 1, "a record on disk vouches for all events before it"
    written.clear()
    ledger._shared.anchor._settled = 0  # as if another process had recorded it
    assert ledger.stored(ADA, "d", "v1") == "body" and len(written) == 1


# -- against a model


class Bookkeeping(RuleBasedStateMachine):
    """Random use through two handles, compared with exact fractions in memory."""

    charged = Bundle("charged")
    TOTALS = {"pure": price(epsilon=Fraction(3, 2)), "both": price(epsilon=2, delta=Fraction(1, 10**5)),
              "rho": price(rho=Fraction(1, 4), delta=Fraction(1, 10**5))}
    EACH = {"ada": price(epsilon=1), "bob": price(rho=Fraction(1, 10), delta=Fraction(1, 10**6))}

    @initialize()
    def create(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "ledger"
        self.handles = [ReportingLedger.create(self.path), ReportingLedger(self.path)]
        self.costs: list[tuple[str, str, Cost]] = []
        self.bodies: dict[tuple[str, str, str], str] = {}
        self.seq = 0

    def teardown(self) -> None:
        for handle in getattr(self, "handles", []):
            handle.close()
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    def sum(self, budget: str, analyst: str | None, more: tuple[Cost, ...] = ()) -> tuple[int | None, int, int]:
        """The sum of what was charged, each cost rounded up to the ledger's grain by hand."""
        mine = [cost for where, who, cost in self.costs if where == budget and analyst in (None, who)] + list(more)
        epsilon = None if any(cost.epsilon is None for cost in mine) else sum(up(cost.epsilon, 9) for cost in mine)
        return epsilon, sum(up(cost.rho, 9) for cost in mine), sum(up(cost.delta, 18) for cost in mine)

    def renyi(self, budget: str, analyst: str | None, more: Cost) -> tuple[int, ...]:
        """The sums of what was charged at each Renyi order."""
        mine = [cost for where, who, cost in self.costs if where == budget and analyst in (None, who)]
        return tuple(map(sum, zip(*(cost.rounded().renyi for cost in (*mine, more)), strict=True)))

    @rule(target=charged, handle=st.integers(0, 1), budget=st.sampled_from(sorted(TOTALS)), analyst=st.sampled_from(sorted(EACH)),
          size=st.fractions(Fraction(1, 10**4), Fraction(1, 2)), gaussian=st.booleans(),
          delta=st.sampled_from([Fraction(0), Fraction(1, 10**7), Fraction(1, 3 * 10**6)]), digest=st.sampled_from("xyz"))
    def charge(self, handle: int, budget: str, analyst: str, size: Fraction, gaussian: bool, delta: Fraction,
               digest: str) -> object:
        cost = concentrated(size / 10, delta) if gaussian else pure(size, delta)
        limits = {None: limit(self.TOTALS[budget]), analyst: limit(self.EACH[analyst])}
        fits = {who: inside(bound, self.sum(budget, who, (cost,)), self.renyi(budget, who, cost)) for who, bound in limits.items()}
        try:
            seq = self.handles[handle].charge(Account(budget=budget, analyst=analyst), cost.rounded(), digest=digest, data="v",
                                              sql=f"{budget} {digest}", allows=limits)
        except Refused as refused:
            assert not all(fits.values()) and not fits[refused.analyst]
            return None
        assert all(fits.values())
        assert seq == self.seq + 1
        self.seq = self.handles[handle].events
        assert seq <= self.seq <= seq + 1, "a checkpoint comes after it, if any"
        self.costs.append((budget, analyst, cost))
        return seq, budget, analyst, digest

    @rule(handle=st.integers(0, 1), what=charged, fails=st.booleans(),
          body=st.text(st.characters(exclude_categories=["Cs"]), max_size=8))
    def follow_up(self, handle: int, what: object, fails: bool, body: str) -> None:
        if not isinstance(what, tuple):
            return
        seq, budget, analyst, digest = what
        if fails:
            self.handles[handle].incident(seq)
        else:
            self.handles[handle].answer(seq, body)
            self.bodies[budget, analyst, digest] = body
        before, self.seq = self.seq, self.handles[handle].events
        assert before < self.seq <= before + 2

    @rule(handle=st.integers(0, 1))
    def reopen(self, handle: int) -> None:
        self.handles[handle].close()
        self.handles[handle] = ReportingLedger(self.path)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "handles"):
            return
        for handle in self.handles:
            handle.refresh()
            for budget in self.TOTALS:
                for analyst in (None, "ada", "bob"):
                    spent = handle.spent(budget, analyst)
                    assert (spent.epsilon, spent.rho, spent.delta) == self.sum(budget, analyst)
                    for digest in "xyz":
                        if analyst is not None:
                            assert handle.stored(Account(budget=budget, analyst=analyst), digest, "v") == self.bodies.get(
                                (budget, analyst, digest))


def up(number: Fraction | None, digits: int) -> int:
    assert number is not None
    return -(-number.numerator * 10**digits // number.denominator)


def inside(bound: Limit, spent: tuple[int | None, int, int], renyi: tuple[int, ...]) -> bool:
    epsilon, rho, delta = spent
    pure_fits = bound.epsilon is not None and epsilon is not None and epsilon <= bound.epsilon
    some_order_fits = any(of <= most for of, most in zip(renyi, bound.renyi, strict=False))
    return delta <= bound.delta and (pure_fits or (bound.rho is not None and rho <= bound.rho) or some_order_fits)


@pytest.mark.slow
@pytest.mark.parametrize("often", [False, True])
def test_against_a_model(often: bool, effort: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if there is a checkpoint after every few events, so that most of them are of the past when it is opened again."""
    if often:
        monkeypatch.setattr("dpsql.trusted.kernel.chain.EVERY", 4)
        monkeypatch.setattr("dpsql.trusted.kernel.sums.ChainSums.size", 0)
    run_state_machine_as_test(Bookkeeping, settings=settings(
        max_examples=round(40 * effort), stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)))
