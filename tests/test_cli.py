"""The shell as a person uses it, with the mistakes that people make."""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import sqlite3
from pathlib import Path

import pytest

from dpsql import cli
from dpsql.cli.entry import parsed
from dpsql.cli.inputs import parameters_of
from dpsql.cli.show import print_listing
from dpsql.demo import folder


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The demo project, as the current folder."""
    folder.export(tmp_path / "study")
    monkeypatch.chdir(tmp_path / "study")
    return tmp_path / "study"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.main(arguments)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_the_demo_answers_every_statement_and_says_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "demo")
    assert (code, err) == (0, "")
    assert out.count("± is the 95 % interval") == 4 and "public, no cost" in out and "80.9 %" in out


def test_a_table_is_drawn_with_its_errors_and_cost(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "query", "--budget", "study", "SELECT health, COUNT(*) FROM people GROUP BY health")
    assert code == 0 and out.count("±") == 5
    assert [word for word in ("excellent", "fair", "good", "poor") if word in out] == ["excellent", "fair", "good", "poor"]
    assert "cost ε = 0.5\n" in out


def test_json_and_csv_are_read_by_programs(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT health, COUNT(*) AS n FROM people GROUP BY health"
    _, out, _ = run(capsys, "query", "--budget", "study", "--json", sql)
    answer = json.loads(out)
    assert [row[0] for row in answer["rows"]] == ["excellent", "good", "fair", "poor"]
    assert all(low < row[1] < high for row, (_, (low, high)) in zip(answer["rows"], answer["intervals"], strict=True))
    _, out, _ = run(capsys, "query", "--budget", "study", "--csv", sql)
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [int(row["n"]) for row in rows] == [row[1] for row in answer["rows"]], "the second time the stored answer is given"
    assert set(rows[0]) == {"health", "n", "n error", "n low", "n high"}


def test_statements_come_from_files_and_from_the_input(study: Path, capsys: pytest.CaptureFixture[str],
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    (study / "two.sql").write_text("SELECT COUNT(*) FROM people; -- and ; another\nSELECT COUNT(*) FROM plans;\n")
    code, out, _ = run(capsys, "query", "--budget", "study", "--json", "--file", "two.sql")
    assert code == 0 and len(out.splitlines()) == 2
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT COUNT(*) AS n FROM plans WHERE coinsurance >= :least"))
    code, out, _ = run(capsys, "query", "--budget", "study", "--json", "--param", "least=95")
    assert code == 0 and json.loads(out)["rows"][0][0] > 0


def test_explain_spends_nothing(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "explain", "--budget", "study", "SELECT site, MEDIAN(income), COUNT(*) FROM people GROUP BY site")
    assert code == 0 and "1 row, owned by one person each" in out and "expected standard errors" in out
    _, out, _ = run(capsys, "explain", "--budget", "study", "--json", "SELECT COUNT(*) FROM people")
    assert json.loads(out)["expected"][0]["error"] == pytest.approx(2 ** 0.5 / 0.5, rel=0.05)
    _, out, _ = run(capsys, "budget", "--budget", "study", "--json")
    assert json.loads(out)["statements"] == 0


MISTAKES = [
    (["query", "SELECT COUNT(*) FROM people"], 2, "the policy has several budgets"),
    (["query", "--budget", "studdy", "SELECT COUNT(*) FROM people"], 2, "there is no budget studdy"),
    (["query", "--budget", "study", "SELECT COUNT(*) FROM peopel"], 2, "try people"),
    (["query", "--budget", "study", "SELECT AVG(incme) FROM people"], 2, "try income"),
    (["query", "--budget", "study", "SELECT COUNT(* FROM people"], 2, "line 1"),
    (["query", "--budget", "study", ""], 2, "there is no statement"),
    (["explain", "--budget", "study", ""], 2, "there is no statement"),
    (["explain", "--budget", "study", "--", "-- nothing"], 2, "there is no statement"),
    (["check", "--budget", "studdy"], 2, "there is no budget studdy"),
    (["query", "--budget", "study", "--param", "x=1", "SELECT COUNT(*) FROM people WHERE site = ?"], 2, "a list of values"),
    (["query", "--budget", "study", "SELECT COUNT(*) FROM plans; SELECT COUNT(*) FROM people; SELECT AVG(incme) FROM people"], 2, "column 69"),
    (["query", "--budget", "study", "SELECT COUNT(*) FROM people; SELECT COUNT(*) FROM people WHERE site = ?"], 2, "no value is given"),
    (["query", "--budget", "study", "DELETE FROM people"], 2, "only queries are answered"),
    (["query", "--budget", "study", "SELECT person_id FROM people"], 2, "rows are never shown"),
    (["query", "--budget", "study", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilom = 1) COUNT(*) FROM people"], 2, "try epsilon"),
    (["query", "--budget", "study", "--epsilon", "0", "SELECT COUNT(*) FROM people"], 2, "epsilon must be between"),
    (["query", "--budget", "study", "--epsilon", "NaN", "SELECT COUNT(*) FROM people"], 2, "epsilon must be"),
    (["query", "--budget", "study", "--confidence", "95", "SELECT COUNT(*) FROM people"], 2, "confidence must be between"),
    (["query", "--budget", "study", "--rho", "0.1", "--epsilon", "1", "SELECT COUNT(*) FROM people"], 2, "either epsilon or rho"),
    (["query", "--budget", "pure", "--rho", "0.1", "SELECT COUNT(*) FROM people"], 2, "pure epsilon"),
    (["query", "--budget", "study", "SELECT COUNT(*) FROM people WHERE site = ?"], 2, "no value is given"),
    (["query", "--budget", "study", "--param", "1", "SELECT COUNT(*) FROM people"], 2, "1 value for 0 parameters"),
    (["query", "--budget", "study", "--file", "nowhere.sql"], 2, "nowhere.sql cannot be read"),
    (["query", "--budget", "study", "--policy", "nowhere.toml", "SELECT 1"], 2, "there is no policy file"),
    (["query", "--budget", "study", "--ledger", "nowhere", "SELECT COUNT(*) FROM people"], 4, "dpsql budget --create"),
    (["query", "--budget", "study", "--epsilon", "7", "SELECT COUNT(*) FROM people"], 3, "has left: 100 %"),
    (["query", "--budget", "study", "--database", "nowhere.duckdb", "SELECT COUNT(*) FROM people"], 2, "nowhere.duckdb"),
    (["budget", "--create", "--budget", "study"], 4, "a ledger is never overwritten"),
    (["init", "nowhere.duckdb", "--to", "-"], 2, "there is no database"),
    (["init", "people.parquet"], 2, "dpsql.toml exists"),
    (["init", "people.parquet"], 2, "try another name: --to FILE"),
    (["query", "--budget", "study", "--file", "nowhere.sql"], 2, "there is no such file"),
    (["query", "--budget", "study", "--policy", "people.parquet", "SELECT 1"], 2, "try the path of a policy, a text such as"),
    (["query", "--budget", "study", "--policy", ".", "SELECT 1"], 2, "try the path of a policy"),
    (["query", "--budget", "study", "DESCRIBE asc"], 2, "there is no table asc"),
    (["query", "--budget", "study", "DESCRIBE"], 2, "try SHOW TABLES"),
    (["validate", "--budget", "study", "--within", "9", "--synthetic", "a.csv", "--sql", "VALIDATE SELECT COUNT(*) FROM people"], 2,
     "try SELECT ..., or (SELECT ...) WITHIN"),
    (["demo", "--to", "."], 2, "is not an empty folder"),
    (["demo", "--to", "people.parquet/demo"], 2, "cannot be written"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), MISTAKES, ids=[" ".join(case[0])[:60] for case in MISTAKES])
def test_a_mistake_is_told_and_costs_nothing(study: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int,
                                             message: str) -> None:
    found, out, err = run(capsys, *arguments)
    assert (found, out) == (code, "")
    assert message in err
    _, out, _ = run(capsys, "budget", "--budget", "study", "--json")
    assert json.loads(out)["statements"] == 0


@pytest.mark.parametrize(("arguments", "message"), [
    (["query", "--epsilom", "1", "SELECT COUNT(*) FROM people"], "there is no option --epsilom; try --epsilon"),
    (["validate", "--synthetic", "a.csv", "--witin=5"], "there is no option --witin; try --within"),
    (["budget", "--qqqq"], "there is no option --qqqq"),
    (["query", "SELECT", "female", "FROM", "people"], "female is one argument too many; put the whole statement in quotes"),
    (["user", "add", "ada", "bob"], "bob is one argument too many\n"),
    (["quary", "SELECT 1"], "there is no command quary; try query"),
    (["--budget", "study", "query", "SELECT 1"], "the command comes first: dpsql COMMAND --budget"),
])
def test_an_unknown_option_is_told_with_the_one_that_is_meant(capsys: pytest.CaptureFixture[str], arguments: list[str],
                                                              message: str) -> None:
    with pytest.raises(SystemExit) as left:
        run(capsys, *arguments)
    assert left.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.parametrize("words", [
    ["user", "add", "--budget", "study", "ada"], ["user", "--budget", "study", "add", "ada"], ["user", "add", "ada", "--budget=study"],
    ["query", "--budget", "study", "SELECT 1"], ["query", "SELECT 1", "--budget", "study"], ["help", "sql"],
    ["init", "a.csv", "--to", "x.toml", "b.csv"], ["query", "--json", "--", "--one"],
])
def test_options_stand_anywhere_after_the_command(words: list[str]) -> None:
    options = vars(parsed(words))
    named = [options.get(name) for name in ("action", "name", "sql", "topic", "database", "budget", "to")]
    for word in (word for word in words[1:] if not word.startswith("--") or word == "--one"):
        assert any(word == value or (isinstance(value, list) and word in value) for value in named), word


def test_an_error_is_data_too(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "query", "--budget", "study", "--json", "SELECT AVG(incme) FROM people")
    told = json.loads(out)
    assert (code, told["code"], told["try"], told["line"], told["column"]) == (2, "unknown-column", "income", 1, 12)


def test_faults_of_a_script_are_told_at_their_place_in_the_file(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (study / "three.sql").write_text("SELECT COUNT(*) FROM people; -- fine\n\nSELECT COUNT(*) FROM people;\nSELECT COUNT(*),\n"
                                     "  AVG(incme)\nFROM people;\n")
    for command in ("query", "explain"):
        code, _, err = run(capsys, command, "--budget", "study", "--file", "three.sql")
        assert code == 2 and "line 5, column 7 of three.sql: there is no column incme\n      AVG(incme)\n          ^^^^^\n" in err
    code, out, _ = run(capsys, "query", "--budget", "study", "--json", "--file", "three.sql")
    told = json.loads(out)
    assert (code, told["line"], told["column"], told["source"]) == (2, 5, 7, "three.sql")
    assert json.loads(run(capsys, "budget", "--budget", "study", "--json")[1])["statements"] == 0, "nothing was charged before"


@pytest.mark.parametrize(("given", "value"), [
    ("7", 7), ("-7", -7), ("0", 0), ("0.5", 0.5), (".5", 0.5), ("1e3", 1000.0), ("007", "007"), ("'7'", "7"), ("'it''s'", "it's"),
    ("+7", "+7"), ("1_000", "1_000"), (" 7", " 7"), ("nan", "nan"), ("inf", "inf"), ("TRUE", True), ("null", None), ("'null'", "null"),
    ("", ""), ("'", "'"), ("2020-01-01", "2020-01-01"), ("٣", "٣")])
def test_parameters_are_read_as_they_are_written(given: str, value: object) -> None:
    ((found,), named) = parameters_of([given]), parameters_of([f"x={given}"])
    assert found == value and type(found) is type(value) and named == {"x": value}


def test_cells_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    from dpsql.answers.listings import Listing
    from dpsql.types import Type

    rows = ((":smile: [bold]x[/bold]",), ("a\x1b[31mb\x07",), ("日本",))
    print_listing(Listing(columns=(("x", Type.VARCHAR),), rows=rows), argparse.Namespace())
    out = capsys.readouterr().out
    assert ":smile: [bold]x[/bold]" in out and "a\\x1b[31mb\\x07" in out and "日本" in out and "\x1b" not in out


def test_check_is_data_too(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check", "--json")
    told = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [one["budget"] for one in told] == ["study", "pure", "concentrated"]
    assert {table["table"] for table in told[0]["tables"]} == {"plans", "people", "person_years", "yearly_claims"} and told[0]["unusable"] == {}


def test_long_notes_are_shown_in_full_when_asked_for(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = ["query", "--budget", "study", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (consistency = 'nnls') site, COUNT(*) FROM people GROUP BY CUBE (site)"]
    for option, hinted in (((), True), (("--notes",), False)):
        code, out, _ = run(capsys, *told, *option)
        assert code == 0 and ("(--notes shows shortened notes in full)" in out) == hinted == ("intervals are those of the measured numbers" not in " ".join(out.split()))


def test_a_budget_runs_out_and_stays_spent(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i in range(10):
        code, _, _ = run(capsys, "query", "--budget", "study", "--analyst", "ada", f"SELECT COUNT(*) FROM people WHERE income > {i}")
        assert code == 0
    code, _, err = run(capsys, "query", "--budget", "study", "--analyst", "ada", "SELECT COUNT(*) FROM people WHERE income > 10")
    assert code == 3 and "the budget of ada has left: 0 %" in err
    code, _, _ = run(capsys, "query", "--budget", "study", "--analyst", "ada", "SELECT COUNT(*) FROM people WHERE income > 3")
    assert code == 0, "what was answered before is still answered"
    code, _, _ = run(capsys, "query", "--budget", "study", "--analyst", "bob", "SELECT COUNT(*) FROM people WHERE income > 10")
    assert code == 0
    _, out, _ = run(capsys, "releases", "--budget", "study", "--analyst", "ada")
    assert out.count("answered") == 10


def test_the_whole_ledger_is_verified_on_request(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for n in range(3):
        run(capsys, "query", "--budget", "study", f"SELECT COUNT(*) FROM people WHERE income > {n}")
    code, out, _ = run(capsys, "ledger", "verify")
    assert code == 0 and "is intact: 7 events" in " ".join(out.split())
    code, out, _ = run(capsys, "ledger", "verify", "--json")
    assert code == 0 and json.loads(out)["events"] == 7, "what is promised, and three statements"
    ledger, = study.glob("*.ledger")
    connection = sqlite3.connect(ledger)
    with connection:
        connection.execute("UPDATE events SET sql = 'SELECT 1' WHERE seq = 2")
    connection.close()
    code, _, err = run(capsys, "ledger", "verify")
    assert code == 4 and "damaged at event 2" in " ".join(err.split())
    with pytest.raises(SystemExit):
        run(capsys, "ledger", "mend")


def test_a_draft_is_a_policy_that_can_be_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    from support import worlds

    worlds.world().save(tmp_path / "w.duckdb")
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "init", "w.duckdb")[0] == 0
    assert "dpsql.toml exists" in run(capsys, "init", "w.duckdb")[2]
    assert "people" in (tmp_path / "dpsql.toml").read_text()


def test_files_of_any_name_are_drafted(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more").mkdir()
    names = ["2020.csv", "Leute aus Köln.csv", "it's.csv", "more/2020.csv"]
    for name in names:
        (tmp_path / name).write_text("person_id,x\n1,2\n", encoding="utf-8")
    code, out, _ = run(capsys, "init", *names[:3], "--to", "-")
    assert code == 0 and {line for line in out.splitlines() if line.endswith("]") and line.startswith("[tables.") and "columns" not in line} == {
        "[tables.table_2020]", "[tables.Leute_aus_K_ln]", "[tables.it_s]"}
    assert 'source = "Leute aus Köln.csv"' in out
    code, _, err = run(capsys, "init", names[0], names[3], "--to", "-")
    assert code == 2 and "2020.csv and more/2020.csv would both be table table_2020" in err


def test_tables_are_listed_once_for_each_entity(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check")
    assert code == 0 and out.count("person_years") == 1
    assert [line.split(":")[0] for line in out.splitlines() if line.startswith("budget ")] == ["budget study", "budget pure", "budget concentrated"]


def test_check_lists_what_may_be_asked(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check", "--budget", "study")
    assert code == 0 and "protects each person" in out and "person_years" in out and "public" in out


def test_a_narrow_terminal_breaks_no_number(study: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Headings are folded; numbers and words of keys stay in one piece. With more noise, rows may become blocks here."""
    text = "SELECT health, female, COUNT(*), AVG(income), MEDIAN(income) FROM people GROUP BY health, female"
    _, wide, _ = run(capsys, "query", "--budget", "study", "--epsilon", "4", text)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    _, narrow, _ = run(capsys, "query", "--budget", "study", "--epsilon", "4", text)
    head, narrow = re.split("─+", re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", narrow), maxsplit=1)
    rows, told = (body.split("± is")[0] for body in (narrow, re.split("─+", wide)[1]))
    assert sorted(rows.split()) == sorted(told.split())
    assert "…" not in head and "COUNT(*)" in head, "headings are not cut off"
