"""Slips of an owner are told: the same data under a second ledger, under a renamed budget, under several budgets."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from support import worlds

import dpsql
from dpsql import cli
from dpsql.trusted.kernel.ledger import Ledger


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DPSQL_STATE", str(tmp_path / "state"))
    worlds.world().save(tmp_path / "people.duckdb")
    make(tmp_path, "dpsql")
    return tmp_path


def make(folder: Path, name: str, policy: str = worlds.POLICY) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.toml").write_text(policy, encoding="utf-8")
    if not (folder / f"{name}.ledger").exists():
        Ledger.create(folder / f"{name}.ledger").close()
    return folder / f"{name}.toml"


def served(policy: Path, database: Path, budget: str = "person", **more: Any) -> tuple[tuple[str, ...], list[str]]:
    """The notes of a connection, and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with dpsql.connect(database, policy=policy, budget=budget, analyst="ada", epsilon=1, delta=1e-6, **more) as connection:
            connection.execute("SELECT COUNT(*) FROM people")
            return connection.notes, [str(one.message) for one in caught if one.category is UserWarning]


def test_the_usual_use_is_told_nothing(folder: Path) -> None:
    for _ in range(3):
        for budget in ("person", "household"):
            assert served(folder / "dpsql.toml", folder / "people.duckdb", budget) == ((), [])


@pytest.mark.parametrize("slip", ["ledger", "policy", "folder", "moved", "linked"])
def test_the_same_data_under_another_ledger_are_told(slip: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    served(folder / "dpsql.toml", folder / "people.duckdb")
    database, policy, more = folder / "people.duckdb", folder / "dpsql.toml", {}
    if slip == "ledger":
        Ledger.create(folder / "other.ledger").close()
        more = {"ledger": folder / "other.ledger"}
    else:
        policy = make(folder if slip == "policy" else folder / "copy", "other")
    if slip == "moved":
        database = database.rename(folder / "copy" / "people.duckdb")
    elif slip == "linked":
        os.symlink(database, folder / "copy" / "link.duckdb")
        database = folder / "copy" / "link.duckdb"
    notes, warned = served(policy, database, **more)
    assert len(notes) == 1 and "served before under ledger" in notes[0] and warned == list(notes)
    assert str(folder / "dpsql.ledger") in notes[0] and "budget person" in notes[0]
    assert served(policy, database, **more) == (notes, []), "it stays noted, and is warned of once"
    given = ["--ledger", str(more["ledger"])] if more else []
    assert cli.main(["check", "--policy", str(policy), "--database", str(database), *given]) == 0
    assert notes[0] in capsys.readouterr().err


@pytest.mark.parametrize(("edits", "words"), [
    ([], "bounded by the sum of both budgets"),
    ([('[budgets.person]\nentity = "person"', '[budgets.person]\nentity = "household"')],
     "it protected each person (people.person_id), which gives no bound for each household (households.household_id)"),
    ([('[tables.scores]\nforeign_keys = [{ columns = "person_id", references = "people(person_id)" }]',
       "[tables.scores]\npublic = true")], "rows of scores were protected, and now it is public")])
def test_what_another_ledger_protects_is_compared(edits: list[tuple[str, str]], words: str, folder: Path) -> None:
    served(folder / "dpsql.toml", folder / "people.duckdb")
    text = worlds.POLICY
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    notes, warned = served(make(folder, "other", text), folder / "people.duckdb")
    assert len(notes) == 1 and words in notes[0] and warned == list(notes)
    assert all("places" not in note and '"kinds"' not in note for note in notes)


def test_a_renamed_budget_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    served(folder / "dpsql.toml", folder / "people.duckdb")
    make(folder, "dpsql", worlds.POLICY.replace("[budgets.person]", "[budgets.persons]"))
    notes, warned = served(folder / "dpsql.toml", folder / "people.duckdb", "persons")
    assert len(notes) == 1 and "holds charges to person" in notes[0] and warned == list(notes)
    assert cli.main(["query", "SELECT COUNT(*) FROM people", "--policy", str(folder / "dpsql.toml"), "--database",
                     str(folder / "people.duckdb"), "--budget", "persons", "--analyst", "ada", "--epsilon", "1"]) == 0
    assert "note: the ledger" in capsys.readouterr().err


def test_budgets_of_one_entity_are_added_up(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--policy", str(folder / "dpsql.toml"), "--database", str(folder / "people.duckdb")]) == 0
    told = capsys.readouterr().err
    assert "each person is protected by 3 budgets (person, pure, concentrated), which together allow ε = 2000 and ρ = 1000, δ = 0.02" in told
    assert "household" not in told


@pytest.mark.parametrize("state", ["nowhere", "a file", "garbage", "a folder in its place", "off"])
def test_a_registry_that_is_of_no_use_blocks_nothing(state: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = folder / "state"
    match state:
        case "nowhere":
            monkeypatch.setenv("DPSQL_STATE", "/proc/nowhere")
        case "a file":
            place.write_text("in the way")
        case "garbage":
            place.mkdir()
            (place / "served.jsonl").write_bytes(b"\xff\xfe\x00\n{}\n[]\n3\n{\"data\": 3}\n{\"data\": [1], \"x\": 2}\n" + json.dumps(
                {"data": [{}], "entity": 1, "budget": [], "ledger": None, "place": 0, "policy": 0}).encode())
        case "a folder in its place":
            (place / "served.jsonl").mkdir(parents=True)
        case "off":
            monkeypatch.setenv("DPSQL_STATE", "")
    assert served(folder / "dpsql.toml", folder / "people.duckdb") == ((), [])


# -- many at once

TEXT = "SELECT COUNT(*) FROM people WHERE age > ?"


def test_many_that_do_not_fit_together_are_not_begun(folder: Path) -> None:
    with dpsql.connect(folder / "people.duckdb", budget="person", analyst="ada", epsilon=300) as connection:
        spent = connection.budget().as_dict()
        with pytest.raises(dpsql.BudgetExhausted) as caught:
            connection.cursor().executemany(TEXT, [[age] for age in (1, 2, 3, 4, 5)])
        assert "5 statements cost more together" in caught.value.reason and connection.budget().as_dict() == spent
        assert connection.cursor().executemany(TEXT, [[1], [2], [1], [1], [2]]).rowcount == 5, "the same one is charged once"
        assert connection.budget().statements == 2
        connection.cursor().executemany(TEXT, [[1], [2], [2], [1]])


@pytest.mark.parametrize("wrong", ["x", [1, 2], object()])
def test_many_of_which_one_is_wrong_are_not_begun(wrong: Any, folder: Path) -> None:
    with dpsql.connect(folder / "people.duckdb", budget="person", analyst="ada", epsilon=1) as connection:
        with pytest.raises(dpsql.Error):
            connection.cursor().executemany(TEXT, [[1], [2], wrong if isinstance(wrong, list) else [wrong]])
        assert connection.budget().statements == 0


def test_what_was_answered_before_a_failure_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpsql.trusted.kernel.run import Kernel

    serve, served_ = Kernel._serve, []

    def third(self: Kernel, script: Any, cost: Any) -> Any:
        served_.append(1)
        if len(served_) == 3:
            raise MemoryError
        return serve(self, script, cost)

    with dpsql.connect(folder / "people.duckdb", budget="person", analyst="ada", epsilon=1) as connection:
        monkeypatch.setattr(Kernel, "_serve", third)
        cursor = connection.cursor()
        with pytest.raises(dpsql.Incident):
            cursor.executemany(TEXT, ([age] for age in (1, 2, 3, 4)))
        assert cursor.rowcount == 2 and len(cursor.fetchall()) == 2 and len(cursor.errors) == 2 and cursor.description
        assert connection.budget().statements == 3


def test_many_statements_without_a_price_are_run(folder: Path) -> None:
    with dpsql.connect(folder / "people.duckdb", budget="person", analyst="ada", epsilon=1) as connection:
        assert connection.cursor().executemany("SELECT COUNT(*) FROM clinics WHERE beds > ?", [[1], [7]]).rowcount == 2
        assert connection.cursor().executemany(TEXT + " ERROR WITHIN 20", [[1], [7]]).rowcount == 2
        assert connection.cursor().executemany(TEXT, []).rowcount == 0
