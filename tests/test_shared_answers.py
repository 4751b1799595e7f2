"""Analysts of a budget who share answers: each pays once for all, is told the same, and the ledger says who was told."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from support import worlds
from support.seats import wait_until
from support.sessions import open_ledger, session_of
from support.vaults import remote, vault_of

import dpsql
from dpsql import cli
from dpsql.answers.display import charged
from dpsql.backends.duckdb import DuckReader
from dpsql.dbapi import Connection
from dpsql.engine.answering import answer, explain, session_for
from dpsql.engine.decide import decide
from dpsql.engine.session import Session
from dpsql.errors import BudgetExhausted, LedgerError, OperationalError, PolicyError, SqlError
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.server.front.statements.seat import ConnectionSeat
from dpsql.sql.text.parse import parse
from dpsql.trusted.accounting.cost import FREE, NOTHING, Account, Charge
from dpsql.trusted.kernel.marks import MEASURED

SHARED = worlds.POLICY.replace("[budgets.person]\n", "[budgets.person]\nshare_answers = true\n")
COUNT = "SELECT COUNT(*) FROM people WHERE age > 40"
AGAIN = "select count( * ) as many from people where age > 40"
GROUPS = "SELECT sex, active, COUNT(*) FROM people GROUP BY sex, active STANDARD ERROR 2"
TABLE = "CREATE SYNTHETIC TABLE made AS SELECT sex, active FROM people OPTIONS (epsilon = 1)"
ADA, BOB = Account(budget="person", analyst="ada"), Account(budget="person", analyst="bob")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    worlds.world().save(tmp_path / "people.duckdb")
    set_policy(tmp_path)
    ReportingLedger.create(tmp_path / "dpsql.ledger").close()
    return tmp_path


def set_policy(folder: Path, more: str = "share_answers = true") -> None:
    (folder / "dpsql.toml").write_text(worlds.POLICY.replace("[budgets.person]", f"[budgets.person]\n{more}"), encoding="utf-8")


def connect(folder: Path, analyst: str, **more: Any) -> dpsql.Connection:
    return dpsql.connect(folder / "people.duckdb", **{
        "budget": "person", "analyst": analyst, "epsilon": 1, "delta": 1e-6, "policy": folder / "dpsql.toml", **more})


def spent(folder: Path, analyst: str | None = None) -> Charge:
    with contextlib.closing(ReportingLedger(folder / "dpsql.ledger")) as ledger:
        return ledger.spent("person", analyst)


def entries(folder: Path) -> list[tuple[str, str, bool]]:
    """By analyst and statement, what was charged, and what was told for free."""
    with contextlib.closing(ReportingLedger(folder / "dpsql.ledger")) as ledger:
        return [(entry.account.analyst, entry.sql, entry.told is not None) for entry in ledger.entries("person")]


# -- the law


@pytest.mark.parametrize(("first", "second"), [(COUNT, AGAIN), ("SELECT sex, AVG(income) FROM people GROUP BY sex",) * 2,
                                               ("SELECT MEDIAN(age) FROM people",) * 2, (GROUPS,) * 2,
                                               ("SELECT nickname, COUNT(*) FROM people GROUP BY nickname",) * 2])
def test_what_one_was_told_is_free_and_equal_for_all(first: str, second: str, folder: Path) -> None:
    told = connect(folder, "ada").execute(first).fetchall()
    before = spent(folder)
    for name in ("bob", "eve", "ada"):
        cursor = connect(folder, name).execute(second)
        assert cursor.fetchall() == told and cursor.cost == "" and cursor.answer.stored and cursor.answer.shared == (name != "ada")
        assert charged(cursor.answer) == ("answered before, no cost" if name == "ada" else
                                          "free: answered before for another analyst of this budget")
        assert connect(folder, name).execute(second).answer.shared is False, "by now it is an answer of their own"
    assert spent(folder) == before == spent(folder, "ada") and spent(folder, "bob") == NOTHING
    assert entries(folder) == [("ada", first, False), ("bob", second, True), ("eve", second, True)]


def test_each_pays_where_answers_are_not_shared(folder: Path) -> None:
    set_policy(folder, "")
    connect(folder, "ada").execute(COUNT)
    assert connect(folder, "bob").execute(COUNT).cost and spent(folder, "bob") == spent(folder, "ada") != NOTHING


@pytest.mark.parametrize("other", [
    {"sql": "SELECT COUNT(*) FROM people WHERE age > 41"}, {"epsilon": 2}, {"confidence": 0.9}, {"budget": "pure", "delta": None},
    {"sql": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = 'gaussian') COUNT(*) FROM people WHERE age > 40"}])
def test_another_statement_option_or_budget_is_charged(other: dict[str, Any], folder: Path) -> None:
    connect(folder, "ada").execute(COUNT)
    before = len(entries(folder))
    sql = other.pop("sql", COUNT)
    assert connect(folder, "bob", **other).execute(sql).cost
    assert len(entries(folder)) == before + ("budget" not in other) and not any(told for *_, told in entries(folder))


def test_values_of_parameters_are_a_part_of_the_statement(folder: Path) -> None:
    text = "SELECT COUNT(*) FROM people WHERE age > ?"
    told = connect(folder, "ada").execute(text, [40]).fetchall()
    bob = connect(folder, "bob")
    assert bob.execute(text, [40]).fetchall() == told == bob.execute(COUNT).fetchall() and bob.cursor().execute(text, [41]).cost


def test_a_changed_policy_and_changed_data_share_nothing(folder: Path) -> None:
    connect(folder, "ada").execute(COUNT)
    connect(folder, "ada").execute(GROUPS)
    set_policy(folder, "share_answers = true\nincidents = 2")
    bob = connect(folder, "bob")
    assert bob.execute(COUNT).cost and bob.execute(GROUPS).cost and not any(told for *_, told in entries(folder))
    set_policy(folder)
    (folder / "people.duckdb").unlink()
    worlds.world(seed=2).save(folder / "people.duckdb")
    eve = connect(folder, "eve")
    assert eve.execute(COUNT).cost and eve.execute(GROUPS).cost


def test_what_was_told_before_the_switch_is_not_shared_and_what_was_shared_stays_known(folder: Path) -> None:
    set_policy(folder, "")
    connect(folder, "ada").execute(COUNT)
    set_policy(folder)
    bob = connect(folder, "bob")
    assert bob.execute(COUNT).cost
    eve = connect(folder, "eve")
    assert eve.execute(COUNT).answer.shared
    eve.execute("CREATE ONLINE MODEL model AS SELECT sex FROM people")
    bob.execute("CREATE ONLINE MODEL model AS SELECT sex FROM people")
    set_policy(folder, "")
    assert connect(folder, "bob").execute("SELECT sex, COUNT(*) FROM model GROUP BY sex").fetchall()


def test_a_switch_that_is_turned_off_and_on_again_shares_what_was_shared_before(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = connect(folder, "ada").execute(COUNT).fetchall()
    assert connect(folder, "bob").execute(COUNT).fetchall() == told
    set_policy(folder, "share_answers = false")
    assert connect(folder, "bob").execute(COUNT).cost and connect(folder, "eve").execute(COUNT).cost
    set_policy(folder)
    before = spent(folder)
    again = connect(folder, "eve").execute(COUNT)
    assert again.fetchall() == told and again.answer.shared and spent(folder) == before
    assert run(capsys, folder, "ledger", "verify")[0] == 0


def test_budgets_of_two_entities_share_nothing_with_each_other(folder: Path) -> None:
    (folder / "dpsql.toml").write_text(worlds.POLICY.replace("]\nentity = ", "]\nshare_answers = true\nentity = "), encoding="utf-8")
    connect(folder, "ada").execute(COUNT)
    connect(folder, "ada").execute(GROUPS)
    bob, eve = connect(folder, "bob", budget="household"), connect(folder, "eve", budget="household")
    for text in (COUNT, GROUPS):
        told = bob.execute(text)
        again = eve.execute(text)
        assert told.cost and again.answer.shared and again.fetchall() == told.fetchall()


def test_a_plan_does_not_depend_on_the_numbers_of_others(folder: Path) -> None:
    said = []
    for seed in (1, 5):
        (folder / "people.duckdb").unlink()
        worlds.world(seed=seed).save(folder / "people.duckdb")
        for name in ("ledger", "ledger.anchor"):
            (folder / f"dpsql.{name}").unlink(missing_ok=True)
        ReportingLedger.create(folder / "dpsql.ledger").close()
        ada, bob = connect(folder, "ada"), connect(folder, "bob")
        for text in (GROUPS, TABLE, "SELECT year, clinic, COUNT(*) FROM visits GROUP BY year, clinic"):
            ada.execute(text)
        before = entries(folder)
        said.append([str(bob.explain(text)) for text in (
            TABLE.replace("made", "mine"), "CREATE SYNTHETIC TABLE mine AS SELECT year, clinic FROM visits OPTIONS (epsilon = 1)",
            "SELECT sex, COUNT(*) FROM people GROUP BY sex STANDARD ERROR 4", "SELECT sex, COUNT(*) FROM people GROUP BY sex STANDARD ERROR 1")])
        assert entries(folder) == before
        with pytest.raises(dpsql.Error, match="which is not known"):  # the price would depend on what ada counted
            bob.explain("SELECT sex, AVG(income) FROM people GROUP BY sex STANDARD ERROR 4000")
    assert said[0] == said[1] and "at no cost" in said[0][0]


def test_explain_says_that_it_is_free_and_records_nothing(folder: Path) -> None:
    connect(folder, "ada").execute(COUNT)
    bob = connect(folder, "bob")
    before = entries(folder)
    assert "nothing, as it was answered before" in str(bob.explain(COUNT)) and entries(folder) == before


def test_many_sets_of_values_are_checked_without_telling(folder: Path) -> None:
    set_policy(folder, 'share_answers = true\nanalysts.bob = { epsilon = 1.5, delta = 1e-6 }')
    text = "SELECT COUNT(*) FROM people WHERE age > ?"
    connect(folder, "ada").execute(text, [40])
    bob = connect(folder, "bob")
    with pytest.raises(BudgetExhausted):
        bob.cursor().executemany(text, [[40], [41], [42], [43]])
    assert not any(told for *_, told in entries(folder))
    cursor = bob.cursor()
    cursor.executemany(text, [[40], [41]])
    assert [told for *_, told in entries(folder)] == [False, True, False]


def test_an_analyst_who_has_spent_all_is_still_told(folder: Path) -> None:
    set_policy(folder, 'share_answers = true\nanalysts.bob = { epsilon = 1e-3, delta = 1e-9 }')
    told = connect(folder, "ada").execute(COUNT).fetchall()
    bob = connect(folder, "bob")
    with pytest.raises(BudgetExhausted):
        bob.execute("SELECT COUNT(*) FROM people WHERE age > 41")
    assert bob.execute(COUNT).fetchall() == told


# -- measurements, tables and models


def test_measurements_of_others_are_reused_at_no_cost_and_recorded(folder: Path) -> None:
    connect(folder, "ada").execute("SELECT sex, active, COUNT(*) FROM people GROUP BY sex, active STANDARD ERROR 2")
    wanted = "SELECT sex, COUNT(*) FROM people GROUP BY sex STANDARD ERROR 4"
    bob = connect(folder, "bob")
    assert "at no cost" in str(bob.explain(wanted)) and len(entries(folder)) == 1
    before = spent(folder)
    assert bob.execute(wanted).cost == "" and spent(folder) == before
    assert entries(folder)[1:] == [("bob", wanted, True)]
    bob.execute("SELECT active, COUNT(*) FROM people GROUP BY active STANDARD ERROR 4")
    assert len(entries(folder)) == 2, "bob knows these measurements by now"


@pytest.mark.parametrize("known", ["SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) active, sex, COUNT(*) AS n FROM people GROUP BY 2, 1",
                                   "SELECT sex, active, COUNT(*) FROM people GROUP BY sex, active STANDARD ERROR 2"])
def test_counts_of_others_are_used_once_by_synthetic_tables(known: str, folder: Path) -> None:
    connect(folder, "ada").execute(known)
    connect(folder, "eve").execute(known.replace(" AS n", ""))  # told, in other words
    told = [str(connect(folder, name).explain(TABLE)).splitlines() for name in ("ada", "bob", "eve")]
    reused = [[line for line in lines if "reused at no cost" in line] for lines in told]
    assert len(reused[0]) == 1 and reused[0] == reused[1] == reused[2]
    connect(folder, "bob").execute(TABLE)
    assert ("bob", TABLE, True) in entries(folder) and ("bob", TABLE, False) in entries(folder)


def test_released_tables_are_shared_by_their_statement_only(folder: Path) -> None:
    ada, bob = connect(folder, "ada"), connect(folder, "bob")
    ada.execute(TABLE)
    with pytest.raises(SqlError):
        bob.execute("SELECT COUNT(*) FROM made")
    with pytest.raises(SqlError):
        bob.execute("DROP SYNTHETIC TABLE made")
    bob.execute(TABLE)
    before = spent(folder)
    text = "SELECT sex, COUNT(*) FROM made GROUP BY sex ORDER BY sex"
    assert bob.execute(text).fetchall() == ada.execute(text).fetchall() and spent(folder) == before
    bob.execute("DROP SYNTHETIC TABLE made")
    assert ada.execute(text).fetchall(), "a table is dropped for its own account"
    with pytest.raises(SqlError):
        connect(folder, "bob").execute(text)
    bob.execute(TABLE)
    assert bob.execute(text).fetchall() and spent(folder) == before


def test_tables_of_one_name_and_other_content_are_validated_apart(folder: Path) -> None:
    text = "VALIDATE SELECT sex, COUNT(*) FROM people GROUP BY sex AGAINST made WITHIN 5"
    ada, bob, eve = (connect(folder, name) for name in ("ada", "bob", "eve"))
    ada.execute(TABLE)
    bob.execute(TABLE)
    eve.execute(TABLE.replace("= 1", "= 3"))
    told = ada.execute(text).fetchall()
    assert bob.execute(text).fetchall() == told and eve.execute(text).cost
    assert [(who, told) for who, sql, told in entries(folder) if sql == text] == [("ada", False), ("bob", True), ("eve", False)]


def test_a_table_of_another_is_not_put_in_the_place_of_an_own_one(folder: Path) -> None:
    ada, bob = connect(folder, "ada"), connect(folder, "bob")
    ada.execute(TABLE)
    bob.execute(TABLE.replace("sex, active", "sex"))
    before = entries(folder)
    with pytest.raises(SqlError, match="already"):
        bob.execute(TABLE)
    assert entries(folder) == before


@pytest.mark.parametrize("reusing", ["SELECT sex, COUNT(*) FROM people GROUP BY sex STANDARD ERROR 40",
                                     TABLE.replace("made", "mine").replace("= 1", "= 2")])
def test_to_reuse_the_counts_of_a_table_gives_nobody_that_table(reusing: str, folder: Path) -> None:
    ada, bob, eve = connect(folder, "ada"), connect(folder, "bob"), connect(folder, "eve")
    text = "SELECT active, COUNT(*) FROM made GROUP BY active ORDER BY active"
    bob.execute(TABLE.replace("sex, active", "active"))
    own = bob.execute(text).fetchall()
    ada.execute(TABLE)
    for each in (bob, eve):
        each.execute(reusing)
    assert {(who, sql, told) for who, sql, told in entries(folder) if told} >= {(who, reusing, True) for who in ("bob", "eve")}
    assert bob.execute(text).fetchall() == own
    for each, asked in ((bob, "SELECT sex, COUNT(*) FROM made GROUP BY sex"), (eve, text)):
        with pytest.raises(SqlError):  # bob's own table has no column sex, and eve has no table
            each.execute(asked)
    before = spent(folder)
    eve.execute(TABLE)
    assert eve.execute(text).fetchall() == ada.execute(text).fetchall() and spent(folder) == before
    eve.execute("DROP SYNTHETIC TABLE made")
    with pytest.raises(SqlError):
        eve.execute(text)


def test_an_online_model_is_shared_with_its_updates(folder: Path) -> None:
    model, text = "CREATE ONLINE MODEL model AS SELECT sex FROM people", "SELECT sex, COUNT(*) FROM model GROUP BY sex ORDER BY sex"
    ada, bob = connect(folder, "ada"), connect(folder, "bob")
    ada.execute(model)
    told = ada.execute(text).fetchall()
    before = spent(folder)
    bob.execute(model)
    assert bob.execute(text).fetchall() == told and spent(folder) == before


# -- at the same time


def slowly(monkeypatch: pytest.MonkeyPatch, seconds: float, fails: Callable[[], bool] = lambda: False) -> threading.Event:
    """Rows are read slowly from now on; the event says that a statement reads some."""
    begun, columns = threading.Event(), DuckReader.columns

    def slow(*given: Any) -> Any:
        begun.set()
        time.sleep(seconds)
        if fails():
            raise ValueError("a secret")
        return columns(*given)

    monkeypatch.setattr(DuckReader, "columns", slow)
    return begun


def test_two_who_ask_at_the_same_time_pay_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connections = [connect(folder, name) for name in ("ada", "bob", "eve", "ada")]
    slowly(monkeypatch, 0.3)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda one=one: found.append(one.execute(COUNT).fetchall())) for one in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(rows == found[0] for rows in found)
    listed = entries(folder)
    assert sum(not told for *_, told in listed) == 1 and len(listed) == 3, "once charged, and told to the two others"


def test_who_waits_for_a_statement_that_fails_asks_it_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ada, bob = connect(folder, "ada"), connect(folder, "bob")
    times = iter([True, False])
    begun = slowly(monkeypatch, 0.3, lambda: next(times))
    failed: list[BaseException] = []

    def fail() -> None:
        with pytest.raises(dpsql.Incident) as caught:
            ada.execute(COUNT)
        failed.append(caught.value)

    thread = threading.Thread(target=fail)
    thread.start()
    assert begun.wait(10)
    assert bob.execute(COUNT).cost
    thread.join()
    assert failed and [(who, told) for who, _, told in entries(folder)] == [("ada", False), ("bob", False)]


def test_who_waits_is_not_refused_for_what_the_other_one_pays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "dpsql.toml").write_text(SHARED.replace("share_answers = true\nentity = \"person\"\nepsilon = 1000\ndelta = 0.01",
                                                      "share_answers = true\nentity = \"person\"\nepsilon = 1"), encoding="utf-8")
    ada, bob = (connect(folder, name, delta=0) for name in ("ada", "bob"))
    begun = slowly(monkeypatch, 0.3)
    thread = threading.Thread(target=lambda: ada.execute(COUNT))
    thread.start()
    assert begun.wait(10)
    assert bob.execute(COUNT).answer.shared
    thread.join()


def test_a_session_that_waits_for_another_one_of_its_account_has_an_answer_of_its_own(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connections = [connect(folder, "ada") for _ in range(3)]
    slowly(monkeypatch, 0.3)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda one=one: found.append(one.execute(COUNT).answer)) for one in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(each.stored for each in found) == 2 and not any(each.shared for each in found) and len(entries(folder)) == 1


def test_a_ledger_of_a_budget_that_shares_nothing_may_lead_the_turn(folder: Path) -> None:
    ada, bob, other = connect(folder, "ada"), connect(folder, "bob"), connect(folder, "eve", budget="pure", delta=None)
    with patched_turns([ada, bob], other):
        told = ada.execute(COUNT).fetchall()
        assert bob.execute(COUNT).fetchall() == told
        ada.execute(GROUPS)
        assert not bob.execute("SELECT sex, COUNT(*) FROM people GROUP BY sex STANDARD ERROR 4").cost
    assert [told for *_, told in entries(folder)] == [False, True, False, True]


@contextlib.contextmanager
def patched_turns(led: list[dpsql.Connection], leader: dpsql.Connection) -> Iterator[None]:
    """A context in which all turns of some connections are led by another one of the same process."""
    with contextlib.ExitStack() as stack:
        for one in led:
            stack.enter_context(patch.object(one._session.ledger, "_take", leader._session.ledger._take))
        yield


ASKING = """
import sys, time, pathlib, dpsql
folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
connection = dpsql.connect(folder / "people.duckdb", policy=folder / "dpsql.toml", budget="person", analyst=name, epsilon=1, delta=1e-6)
connection.explain("SELECT COUNT(*) FROM people")
(folder / name).touch()
while not (folder / "go").exists():
    time.sleep(0.002)
for number in range(8):
    print(number, connection.execute(f"SELECT COUNT(*) FROM people WHERE age > {number}").fetchall())
"""


@pytest.mark.slow
def test_several_processes_pay_once(folder: Path) -> None:
    names = "ada", "bob", "eve"
    asking = [subprocess.Popen([sys.executable, "-c", ASKING, str(folder), name], stdout=subprocess.PIPE, text=True,
                               cwd=Path(dpsql.__file__).parents[1]) for name in names]
    wait_until(lambda: all((folder / name).exists() for name in names), 120)
    (folder / "go").touch()
    found = {process.communicate(timeout=120)[0] for process in asking}
    assert len(found) == 1 and found.pop().count("\n") == 8
    listed = entries(folder)
    assert sum(not told for *_, told in listed) == 8 and len(listed) == 24


DYING = """
import sys, time, pathlib, dpsql
from dpsql.backends.duckdb import DuckReader
folder = pathlib.Path(sys.argv[1])
connection = dpsql.connect(folder / "people.duckdb", policy=folder / "dpsql.toml", budget="person", analyst="ada", epsilon=1, delta=1e-6)
def slow(*given):
    (folder / "begun").touch()
    time.sleep(60)
DuckReader.columns = slow
connection.execute(sys.argv[2])
"""


@pytest.mark.slow
def test_who_waits_for_a_process_that_is_killed_asks_anew(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bob, found = connect(folder, "bob"), list[Any]()
    dying = subprocess.Popen([sys.executable, "-c", DYING, str(folder), COUNT], cwd=Path(dpsql.__file__).parents[1])
    wait_until(lambda: (folder / "begun").exists(), 120)
    thread = threading.Thread(target=lambda: found.append(bob.execute(COUNT)))
    thread.start()
    time.sleep(0.5)
    assert not found
    dying.kill()
    dying.wait()
    thread.join(60)
    assert found[0].cost and connect(folder, "ada").execute(COUNT).fetchall() == found[0].fetchall()
    assert [(who, told) for who, _, told in entries(folder)] == [("ada", False), ("bob", False), ("ada", True)]
    assert run(capsys, folder, "ledger", "verify")[0] == 0


# -- the ledger


def run(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> tuple[int, str]:
    code = cli.main([*words, "--policy", str(folder / "dpsql.toml")])
    caught = capsys.readouterr()
    return code, caught.out + caught.err


def test_the_ledger_says_who_was_told_and_is_verified(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    connect(folder, "ada").execute(COUNT)
    connect(folder, "bob").execute(COUNT)
    code, told = run(capsys, folder, "ledger", "verify", "--json")
    assert code == 0 and json.loads(told)["shared"] == 1
    code, told = run(capsys, folder, "ledger", "verify")
    assert code == 0 and "1 times an answer was shared" in told
    rows = connect(folder, "bob").execute("SHOW RELEASES").fetchall()
    assert [(row[2:5]) for row in rows] == [("bob", "free", f"shared, as {rows[0][4].split()[-1]}")] and "ada" not in str(rows)
    code, told = run(capsys, folder, "budget", "--budget", "person", "--html", str(folder / "owner.html"))
    page = (folder / "owner.html").read_text(encoding="utf-8")
    assert code == 0 and "Every statement that was charged (1) and every answer that was shared (1)" in page


@pytest.mark.parametrize("change", ["answers = 999", "analyst = 'eve'", "digest = 'other'"])
def test_a_forged_telling_is_found(change: str, folder: Path) -> None:
    import sqlite3

    connect(folder, "ada").execute(COUNT)
    connect(folder, "bob").execute(COUNT)
    with contextlib.closing(sqlite3.connect(folder / "dpsql.ledger")) as connection:
        connection.execute(f"UPDATE events SET {change} WHERE kind = 'answer' AND body IS NULL")
        connection.commit()
    with pytest.raises(LedgerError):
        ReportingLedger(folder / "dpsql.ledger", whole=True)


# -- the policy


@pytest.mark.parametrize("wrong", ['"yes"', "1", "[true]"])
def test_the_switch_is_true_or_false(wrong: str) -> None:
    from dpsql.catalog.policy import parse_policy

    with pytest.raises(PolicyError, match=r"budgets.person.share_answers: must be true or false") as caught:
        parse_policy(SHARED.replace("share_answers = true", f"share_answers = {wrong}"))
    assert caught.value.span is not None and caught.value.try_ == "share_answers = true"
    assert parse_policy(SHARED).budgets["person"].share_answers and not parse_policy(worlds.POLICY).budgets["person"].share_answers


# -- the server


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Callable[[str], Session]]:
    """A session of a user behind one vault."""
    vault = vault_of(lambda user: session_of(tmp_path, policy=SHARED, analyst=user, digest="p"))
    open_ledger(tmp_path).close()
    yield lambda user: remote(vault, user)
    vault.close()


def test_a_server_shares_answers_and_measurements(two: Callable[[str], Session], tmp_path: Path) -> None:
    ada, bob = two("ada"), two("bob")
    told: Any = answer(COUNT, ada)
    again: Any = answer(AGAIN, bob)
    assert again.rows == told.rows and again.shared and answer(COUNT, bob).shared is False  # type: ignore[union-attr]
    answer(GROUPS, ada)
    free: Any = answer("SELECT sex, COUNT(*) FROM people GROUP BY sex STANDARD ERROR 4", bob)
    assert not free.cost
    answer(TABLE, ada)
    answer(TABLE, bob)
    assert answer("SELECT COUNT(*) FROM made", bob).rows == answer("SELECT COUNT(*) FROM made", ada).rows  # type: ignore[union-attr]
    with contextlib.closing(open_ledger(tmp_path)) as ledger:
        assert ledger.spent("person", "bob") == NOTHING and [entry.told is None for entry in ledger.entries("person", "bob")] == [
            False, False, False, True] and ledger.shared() == 3, "the last one notes that bob has this table"


def test_an_auditor_is_told_no_answer(two: Callable[[str], Session]) -> None:
    answer(COUNT, two("ada"))
    auditor = two("auditor")
    assert "nothing, as it was answered before" in str(explain(parse(COUNT), auditor))  # type: ignore[arg-type]
    with pytest.raises(OperationalError, match="role"):
        answer(COUNT, auditor)
    ledger = auditor.ledger
    for asked in (lambda: ledger.tell(ADA, "x", "", COUNT), lambda: ledger.tell_of(ADA, [1], "", COUNT)):
        with pytest.raises(OperationalError, match="role"):
            asked()
    assert ledger.of_others(ADA, "", MEASURED) == [] and ledger.of_another(ADA, "x", "") is None


def test_a_front_that_pretends_that_answers_are_shared_is_told_nothing(tmp_path: Path) -> None:
    vault = vault_of(lambda user: session_of(tmp_path, analyst=user, ledger=open_ledger(tmp_path), digest="p"))
    open_ledger(tmp_path).close()
    ada, eve = remote(vault, "ada"), remote(vault, "eve")
    answer(COUNT, ada)
    answer(GROUPS, ada)
    answer("SELECT sex, COUNT(*) FROM people GROUP BY sex", ada)
    with contextlib.closing(open_ledger(tmp_path)) as ledger:
        charges = {entry.seq for entry in ledger.entries("person")}
        digests = [event.digest for event in ledger._events("kind = 'charge' ORDER BY seq")]
        for digest in digests:
            assert eve.ledger.tell(ADA, digest, "", COUNT) is None and eve.ledger.of_another(ADA, digest, "") is None
            assert not eve.ledger.is_told("person", digest, "")
        eve.ledger.tell_of(ADA, sorted(charges), "", COUNT)
        assert eve.ledger.of_others(ADA, "", MEASURED) == [] and eve.ledger.texts(ADA, "GROUP", 100, of_others=True) == []
        assert not ledger.entries("person", "eve")
    vault.close()


def test_a_front_can_say_too_much_of_itself_only(two: Callable[[str], Session], tmp_path: Path) -> None:
    answer(COUNT, two("ada"))
    eve = two("eve")
    with contextlib.closing(open_ledger(tmp_path)) as ledger:
        charge, = (entry.seq for entry in ledger.entries("person"))
        for wrong in ((), (0,), (-1,), (True,), ("1",), (2**70,), (charge + 1,), (10**6,)):
            with contextlib.suppress(Exception):
                eve.ledger.tell_of(BOB, wrong, "", COUNT)  # type: ignore[arg-type]
        assert len(ledger.entries("person")) == 1
        eve.ledger.tell_of(BOB, [charge], "", COUNT)
        assert [(entry.account.analyst, entry.told) for entry in ledger.entries("person")] == [("ada", None), ("eve", charge)]


def test_a_front_cannot_have_others_told_what_nobody_paid_for(two: Callable[[str], Session], tmp_path: Path) -> None:
    """An answer that the front writes itself costs nothing. It is of its own account, and keeps nobody else from a true one."""
    def made_up() -> Generator[Any, Any, str]:
        yield from ()
        return f'{{"{MEASURED}": "made up"}}'

    for text in (COUNT, GROUPS):
        identity = of_statement(text, two("eve")).identity
        two("eve").kernel.run(made_up(), cost=FREE, account=ADA, limits={}, digest=identity, sql=text, encode=str)
        assert not two("bob").ledger.is_told("person", identity, "")
        told: Any = answer(text, two("bob"))
        again: Any = answer(text, two("ada"))
        assert told.cost and again.rows == told.rows
    assert two("ada").ledger.of_others(ADA, "", MEASURED) == []


def of_statement(text: str, session: Session) -> Any:
    query = parse(text)
    return decide(query, session_for(session, query), ())


def test_two_connections_of_a_server_pay_once(two: Callable[[str], Session], tmp_path: Path,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = [two(name) for name in ("ada", "bob")]
    slowly(monkeypatch, 0.3)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda one=one: found.append(answer(COUNT, one))) for one in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with contextlib.closing(open_ledger(tmp_path)) as ledger:
        assert found[0].rows == found[1].rows and [entry.told is None for entry in ledger.entries("person")] == [True, False]


def test_clients_of_a_server_are_told_why_it_is_free(two: Callable[[str], Session]) -> None:
    answer(COUNT, two("ada"))
    seat = ConnectionSeat(Connection(two("bob")), user="bob", database="d", startup={})
    told = [[notice.text for notice in seat.execute(COUNT, ()).notices] for _ in range(2)]
    assert told[0][0] == "cost: nothing, as this was answered before for another analyst of this budget"
    assert told[1][0] == "cost: nothing, as this was answered before" and "ada" not in str(told)
