"""Accounts through the public faces: closed by incidents, opened by the owner, one for each person however the name is written."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from support import worlds

import dpsql
from dpsql import cli
from dpsql.backends.duckdb import DuckReader
from dpsql.catalog.model import Budget
from dpsql.catalog.price import Price
from dpsql.engine.opening import analyst_of
from dpsql.errors import SourceChanged
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.accounting.cost import Account, Charge
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.reader import ReaderFault

COUNT = "SELECT COUNT(*) FROM people WHERE age > "


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    worlds.world().save(tmp_path / "people.duckdb")
    set_policy(tmp_path)
    ReportingLedger.create(tmp_path / "dpsql.ledger").close()
    return tmp_path


def set_policy(folder: Path, more: str = "") -> None:
    (folder / "dpsql.toml").write_text(worlds.POLICY.replace("[budgets.pure]", f"{more}\n[budgets.pure]"), encoding="utf-8")


def connect(folder: Path, analyst: Any = "ada", **more: Any) -> dpsql.Connection:
    return dpsql.connect(folder / "people.duckdb", budget="person", analyst=analyst, epsilon=1, delta=1e-6, **more)


def fail(connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """A statement that fails after its charge."""
    with monkeypatch.context() as patch:
        patch.setattr(DuckReader, "columns", lambda *args: (_ for _ in ()).throw(ValueError("secret")))
        patch.setattr(DuckReader, "columns", lambda *args: (_ for _ in ()).throw(ValueError("secret")))
        with pytest.raises(dpsql.Incident):
            connection.execute(f"{COUNT}{number}")


def run(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> tuple[int, str]:
    code = cli.main([*words, "--policy", str(folder / "dpsql.toml"), "--database", str(folder / "people.duckdb"),
                     "--budget", "person"])
    caught = capsys.readouterr()
    return code, caught.out + caught.err


@pytest.mark.parametrize(("declared", "incidents"), [("", 3), ("incidents = 1", 1)])
def test_an_account_is_closed_by_incidents_and_opened_by_the_owner(declared: str, incidents: int, folder: Path,
                                                                   monkeypatch: pytest.MonkeyPatch,
                                                                   capsys: pytest.CaptureFixture[str]) -> None:
    set_policy(folder, declared)
    connection = connect(folder)
    first = connection.execute(f"{COUNT}50").fetchall()
    for number in range(incidents):
        assert connection.budget().incidents_left == incidents - number
        fail(connection, monkeypatch, number)
    for other in (connection, connect(folder, " ADA ")):
        spent = other.budget().as_dict()["accounts"]
        with pytest.raises(dpsql.BudgetExhausted) as caught:
            other.execute(f"{COUNT}99")
        assert caught.value.code == "account-closed" and "dpsql budget --budget person --reopen ada;" in caught.value.try_ and caught.value.__suppress_context__
        with pytest.raises(dpsql.BudgetExhausted):
            other.workload([f"{COUNT}98"])
        with pytest.raises(dpsql.BudgetExhausted):
            other.execute(f"{COUNT}97 ERROR WITHIN 50 CONFIDENCE 0.95")
        assert other.budget().as_dict()["accounts"] == spent and other.budget().incidents_left == 0
        assert other.execute(f"{COUNT}50").fetchall() == first, "stored answers stay free"
        assert other.explain(f"{COUNT}99") and other.execute("SELECT city, COUNT(*) FROM clinics GROUP BY city").rowcount
        assert other.execute("SHOW BUDGET").fetchall()[-1] == (
            "ada", f"{incidents} incidents", str(incidents), "0", "")
    connect(folder, "eve").execute(f"{COUNT}99")
    code, told = run(capsys, folder, "query", f"{COUNT}99", "--analyst", "ada", "--epsilon", "1")
    assert code == 3 and "account is closed" in told
    code, told = run(capsys, folder, "budget", "--json")
    listed = json.loads(told)["failed"]
    assert code == 0 and [(row["analyst"], row["statement"], row["counts"]) for row in listed] == [
        ("ada", f"{COUNT}{number}", "yes") for number in range(incidents)]
    assert [(failure.account.analyst, failure.forgiven) for failure in dpsql.incidents(
        policy=folder / "dpsql.toml", budget="person")] == [("ada", False)] * incidents
    code, told = run(capsys, folder, "budget", "--reopen", "Ada")
    assert code == 0 and f"{incidents} of its incidents and late outcomes are forgiven" in told
    code, told = run(capsys, folder, "budget", "--reopen", "nobody")
    assert code == 0 and "no incident of nobody was counted under this budget" in told
    assert connection.budget().incidents_left == incidents
    connection.execute(f"{COUNT}99")
    assert dpsql.reopen("ada", policy=folder / "dpsql.toml", budget="person") == 0


@pytest.mark.parametrize(("late", "first"), [("", 0), ("late = 1", 2), ("late = 0", 3)])
def test_the_owner_is_shown_what_left_a_server_late(late: str, first: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    set_policy(folder, late)
    connect(folder).close()
    book = ReportingLedger(folder / "dpsql.ledger")
    for step in (0, 2, 2, 5):
        seq = book.charge(Account(budget="person", analyst="ada"), Charge(epsilon=1, rho=0, delta=0), digest=f"{step}", data="v", sql="SELECT",
                          allows={})
        book.answer(seq, "{}", step)
    book.close()
    code, told = run(capsys, folder, "budget", "--json")
    assert code == 0 and json.loads(told)["late"] == [{"analyst": "ada", "step": 2, "outcomes": 2}, {"analyst": "ada", "step": 5, "outcomes": 1}]
    code, told = run(capsys, folder, "budget")
    assert code == 0 and "left the server late" in told
    assert (f"all that ada asks leaves after {2**first} times the pace" in told) == (first > 0)
    code, told = run(capsys, folder, "budget", "--reopen", "ada")
    assert code == 0 and "3 of its incidents and late outcomes are forgiven" in told
    code, told = run(capsys, folder, "budget")
    assert code == 0 and "late" not in told


def test_an_interruption_is_no_incident(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    connection = connect(folder)
    with monkeypatch.context() as patch:
        patch.setattr(DuckReader, "columns", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        patch.setattr(DuckReader, "columns", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            connection.execute(f"{COUNT}1")
    assert connection.budget().incidents_left == 3
    entry, = connection.session.ledger.entries("person")
    assert entry.outcome == "stopped" and entry.charge.epsilon
    connection.close()
    code, told = run(capsys, folder, "budget", "--json")
    assert code == 0 and json.loads(told)["stopped"] == [{"analyst": "ada", "cause": "request", "statements": 1}]
    code, told = run(capsys, folder, "budget")
    assert code == 0 and "stopped after their charge, which do not count as failed" in told and "failed after their" not in told


def test_the_owner_is_told_why_statements_failed(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    connection = connect(folder)
    for number, cause in enumerate(("memory", "disk")):
        with monkeypatch.context() as patch:
            patch.setattr(DuckReader, "columns", lambda *args, cause=cause: (_ for _ in ()).throw(ReaderFault(cause)))
            with pytest.raises(dpsql.Incident) as caught:
                connection.execute(f"{COUNT}{number}")
        assert cause not in str(caught.value), "its analyst is not"
    connection.close()
    code, told = run(capsys, folder, "budget", "--json")
    assert code == 0 and [row["cause"] for row in json.loads(told)["failed"]] == ["memory", "disk"]


@pytest.mark.parametrize("fails", [False, True])
def test_a_statement_whose_files_change_meanwhile_has_no_answer_and_is_no_incident(
        fails: bool, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    connection, looks, changed = connect(folder), Kernel._look, list[int]()

    def look(kernel: Kernel, *given: Any) -> Any:
        found = looks(kernel, *given)
        changed.append(1)
        if fails:
            raise ValueError
        return found

    monkeypatch.setattr(Kernel, "_look", look)
    monkeypatch.setattr(DuckReader, "_stand", lambda reader: not changed)
    with pytest.raises(SourceChanged) as caught:
        connection.execute(f"{COUNT}1")
    assert caught.value.code == "data-changed" and connection.session.ledger.failed(connection.session.account) == []
    connection.close()
    monkeypatch.undo()
    code, told = run(capsys, folder, "budget", "--json")
    assert code == 0 and json.loads(told)["stopped"] == [{"analyst": "ada", "cause": "data changed", "statements": 1}]


def test_the_owner_cannot_reopen_what_is_no_analyst(folder: Path) -> None:
    for name in ("", "x y", None, 3):
        with pytest.raises(dpsql.OptionError):
            dpsql.reopen(name, policy=folder / "dpsql.toml", budget="person")  # type: ignore[arg-type]


# -- names

ANYBODY = Budget(name="main", entity="person", total=Price(epsilon=Fraction(1)))

EVE = ["eve", "Eve", "EVE", "eve ", " eve", "\teve\n", "\u00a0eve\u3000", "ｅｖｅ", "ＥＶＥ", "\U0001d41e\U0001d42f\U0001d41e", "ⓔⓥⓔ",
       "ᵉᵛᵉ", "eVe", "\u2003Eve\u2003"]
JOSE = ["josé", "jose\u0301", "JOSÉ", "JOSE\u0301", " José "]
SAME = [*(("eve", name) for name in EVE), *(("josé", name) for name in JOSE), ("weiss", "Weiß"), ("weiss", "WEIẞ"),
        ("file", "ﬁle"), ("ωσ", "ΩΣ"), ("ada.l@example-1.org", "Ada.L@Example-1.ORG"), ("k", "\u212a"), ("å", "\u212b")]
REFUSED = {
    "nothing": "", "blank": "   ", "control": "e\x00ve", "newline": "e\nve", "space": "e ve", "zero-width": "eve\u200b",
    "joiner": "e\u200dve", "soft-hyphen": "e\u00adve", "right-to-left": "\u202eeve", "mark": "e\ufeffve", "filler": "eve\u3164",
    "half-filler": "eve\uffa0", "selector": "eve\ufe0f", "tag": "eve\U000e0065", "cyrillic": "\u0435ve", "greek": "\u03b5ve",
    "combining": "ev\u0332e", "slash": "e/ve", "quote": "e've", "semicolon": "eve;", "emoji": "eve😀", "lone": "eve\ud800",
    "script-v": "e\u028be", "small-capital": "\u1d07ve", "dotless-alpha": "\u0251da", "arabic-digit": "eve\u0661", "long": "e" * 101,
    "very-long": "e" * 10**6, "signs": "._@-", "modifier": "eve\u02bc", "turkish-capital-i": "\u0130da",
}


@pytest.mark.parametrize(("name", "written"), SAME)
def test_forms_of_a_name_are_one_name(name: str, written: str) -> None:
    assert analyst_of(written, ANYBODY) == name == analyst_of(name, ANYBODY)


@pytest.mark.parametrize(("name", "written"), [("eve", "EVE"), ("eve", " ｅｖｅ"), ("josé", "JOSE\u0301")])
def test_forms_of_a_name_are_one_account(name: str, written: str, folder: Path) -> None:
    set_policy(folder, "per_analyst = { epsilon = 1.5, delta = 1e-5 }")
    connect(folder, written).execute(f"{COUNT}50")
    state = connect(folder, name).budget()
    assert state.accounts[1].whose == name and state.accounts[1].spent.rho > 0
    with pytest.raises(dpsql.BudgetExhausted):
        connect(folder, name).execute(f"{COUNT}51")
    assert {row[2] for row in connect(folder, written).execute("SHOW RELEASES").fetchall()} == {name}


@pytest.mark.parametrize("name", REFUSED.values(), ids=REFUSED)
def test_what_could_pass_for_another_name_is_refused(name: str) -> None:
    with pytest.raises(dpsql.OptionError) as caught:
        analyst_of(name, ANYBODY)
    assert caught.value.code == "analyst" and caught.value.try_


def test_every_door_refuses_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("", "e ve", "\u0435ve", "eve\u200b"):
        with pytest.raises(dpsql.OptionError):
            connect(folder, name)
        assert run(capsys, folder, "query", f"{COUNT}1", "--analyst", name)[0] == 2


@pytest.mark.parametrize("name", [3, b"eve", ["eve"], True, 1.5], ids=str)
def test_a_name_is_a_text(name: object) -> None:
    with pytest.raises(dpsql.OptionError):
        analyst_of(name, ANYBODY)


@pytest.mark.parametrize("written", EVE[:4])
def test_a_policy_that_lists_analysts_serves_them_alone(written: str, folder: Path) -> None:
    set_policy(folder, 'analysts = ["Ada", "Eve"]')
    assert connect(folder, written).budget().analyst == "eve"
    for other in ("bob", "eve2", "evе", "é"):
        with pytest.raises(dpsql.OptionError) as caught:
            connect(folder, other)
        assert caught.value.code == "analyst"


@pytest.mark.parametrize("written", ["Auditor", " AUDITOR", "ａuditor"])
def test_a_limit_of_ones_own_is_found_in_any_form(written: str, folder: Path) -> None:
    set_policy(folder, "per_analyst = { epsilon = 0.5, delta = 1e-5 }\n[budgets.person.analysts]\nauditor = { epsilon = 2, delta = 1e-5 }")
    connect(folder, written).execute(f"{COUNT}50")


@pytest.mark.parametrize(("declared", "told"), [
    ('analysts = []', "must be a list of names"), ('analysts = ["ada", 3]', "must be a list of names"),
    ('analysts = "ada"', "must be a list"), ('analysts = ["eve", "EVE"]', "occurs twice"), ('analysts = ["e ve"]', "the name of this"),
    ('analysts = [""]', "is empty"), ('analysts = ["ev\u200be"]', "U+200B"),
    ("analysts.eve = { epsilon = 1, delta = 1e-5 }\nanalysts.EVE = { epsilon = 1, delta = 1e-5 }", "occurs twice"),
    ("incidents = 0", "must be a whole number"), ("incidents = -3", "must be a whole number"), ("incidents = 1001", "must be a whole"),
    ("incidents = true", "must be a whole number"), ("incidents = 3.5", "must be a whole number"), ('incidents = "3"', "must be"),
    ("incidents = 99999999999999999999", "must be a whole number"), ("incidents = nan", "must be a whole number")])
def test_a_wrong_declaration_of_accounts_is_told_at_its_line(declared: str, told: str, folder: Path) -> None:
    set_policy(folder, declared)
    with pytest.raises(dpsql.PolicyError) as caught:
        connect(folder)
    assert told in caught.value.reason and caught.value.span is not None and caught.value.try_


def test_no_statement_is_looked_at_to_tell_what_is_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger may hold a million: what is told of a budget, and a refusal, follows from its sums."""
    with connect(folder) as connection:
        connection.execute(COUNT + "1")
        entries = connection.session.ledger.entries("person")
        monkeypatch.delattr(ReportingLedger, "entries")
        state = connection.budget()
        assert state.statements == len(entries) and state.accounts[0].last == entries[-1].charge
        assert connection.execute("SHOW BUDGET").fetchall() and connection.execute(f"EXPLAIN PRIVACY {COUNT}2").fetchall()
        with pytest.raises(dpsql.Error, match="has left"):
            connection.execute(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1000) {COUNT[7:]}3")
