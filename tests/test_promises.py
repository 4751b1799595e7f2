"""A policy that changes under a ledger: what is refused before any statement, what the owner is asked, and what is only told."""

from __future__ import annotations

import io
import json
import re
import sqlite3
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from support import worlds
from support.deletions import Source
from support.wire_servers import served

import dpsql
from dpsql import cli
from dpsql.catalog.policy import read_policy
from dpsql.catalog.promise import promise_of
from dpsql.errors import LedgerError, OperationalError, PolicyError
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.kernel.chain import genesis
from dpsql.trusted.kernel.ledger import anchor_beside

COUNT = "SELECT COUNT(*) FROM people"
HOUSEHOLD = ('[budgets.person]\nentity = "person"', '[budgets.person]\nentity = "household"')
NO_LINK = ('[tables.scores]\nforeign_keys = [{ columns = "person_id", references = "people(person_id)" }]', "[tables.scores]")
NO_KEY = ('[tables.visits]\nkey = "visit_id"', "[tables.visits]")
PUBLISHED = (NO_LINK[0], "[tables.scores]\npublic = true")
WITHDRAWN = ("[tables.clinics]\npublic = true", "[tables.clinics]")
GROWING = [("rows_per_entity = { person = 3, household = 12 }\n", 'grows_by = "seen"\nperiod = "month"\nsince = 2018-01-01\n'),
           ("epsilon = 1000\n", "epsilon = 1000\nper_period = { epsilon = 100 }\n"), ("rho = 1000\n", "rho = 1000\nper_period = { rho = 100 }\n")]
IN_LIST = ('clinic = { values_from = "clinics.clinic" }', 'clinic = { values = ["a", "b"] }')  # as it cannot be public any more


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DPSQL_STATE", str(tmp_path / "state"))
    worlds.world().save(tmp_path / "people.duckdb")
    written(tmp_path)
    ReportingLedger.create(tmp_path / "dpsql.ledger").close()
    return tmp_path


def written(folder: Path, *edits: tuple[str, str], first: str = 'database = "people.duckdb"\n') -> Path:
    """The policy with some edits, which are counted from the original."""
    text = worlds.POLICY.replace("version = 1\n", f"version = 1\n{first}")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    (folder / "dpsql.toml").write_text(text, encoding="utf-8")
    return folder / "dpsql.toml"


def connect(folder: Path, budget: str = "person", **more: Any) -> dpsql.Connection:
    return dpsql.connect(policy=folder / "dpsql.toml", budget=budget, analyst="ada", epsilon=0.5, **more)


def asked(folder: Path, budget: str = "person", sql: str = COUNT) -> tuple[str, ...]:
    """The notes of a connection by which a statement was asked."""
    with warnings.catch_warnings(), connect(folder, budget) as connection:
        warnings.simplefilter("ignore")
        connection.execute(sql)
        return connection.notes


def refused(folder: Path, budget: str = "person") -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        connect(folder, budget)
    assert caught.value.code == "promise-changed"
    return caught.value


def run(folder: Path, *words: str) -> int:
    return cli.main([*words, "--policy", str(folder / "dpsql.toml")])


def accept(folder: Path, budget: str | None = None) -> None:
    assert run(folder, "budget", "--accept-change", "--yes", *(["--budget", budget] if budget else [])) == 0


def events(folder: Path) -> int:
    ledger = ReportingLedger(folder / "dpsql.ledger")
    try:
        return ledger.events
    finally:
        ledger.close()


# -- what is refused


CHANGES = {
    "person to household": ([HOUSEHOLD], "entities.*|budgets.person.entity", "each household (households.household_id)"),
    "another table": ([('[entities.person]\ntable = "people"\nkey = "person_id"', '[entities.person]\ntable = "visits"\nkey = "visit_id"')],
                      "entities.person", "each person (visits.visit_id)"),
    "a foreign key dropped": ([NO_LINK], "tables.scores.foreign_keys", "scores(person_id) to people(person_id)"),
    "a second foreign key": ([('person_id = {}\npoints', 'person_id = {}\nseen_by = {}\npoints'), (NO_LINK[0], NO_LINK[0].replace(
        "}]", '}, { columns = "seen_by", references = "people(person_id)" }]'))], "tables.scores.foreign_keys", "scores(seen_by) to people"),
    "a key taken away": ([NO_KEY], "tables.visits.key", "visits had the key (visit_id)"),
    "a table that grows from now on": (GROWING, "tables.visits.grows_by", "visits did not grow, and now grows by month of seen"),
    "rows published": ([PUBLISHED], "tables.scores.public", "now it is public"),
    "rows withdrawn": ([WITHDRAWN, IN_LIST], "tables.clinics.public", "now is private"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_refused_until_the_owner_accepts_it(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edits, place, words = CHANGES[name]
    asked(folder)
    asked(folder, sql="SELECT COUNT(*) FROM visits")
    before, path = events(folder), written(folder, *edits)
    fault = refused(folder)
    assert words in fault.reason and "when 2 statements were charged" in fault.reason
    assert fault.subject == place.split("|")[-1] and fault.span is not None and fault.source == str(path)
    assert "dpsql budget --budget person --accept-change" in fault.try_
    for words_ in (["query", COUNT, "--epsilon", "1"], ["explain", COUNT], ["budget"], ["releases"], ["check"]):
        assert run(folder, *words_, "--budget", "person") == 2
        assert "--accept-change" in capsys.readouterr().err
    assert run(folder, "serve", "--listen", "127.0.0.1:0") == 2
    assert "--accept-change" in capsys.readouterr().err
    assert run(folder, "ledger", "verify") == 0
    assert events(folder) == before, "what is refused is not recorded"
    written(folder)
    assert asked(folder) == (), "the policy as it was serves"
    written(folder, *edits)
    accept(folder, "person")
    assert words in capsys.readouterr().out
    accept(folder, "person")
    assert "nothing to accept" in capsys.readouterr().out
    written(folder)
    nothing_lost = "a foreign key dropped", "a key taken away", "rows withdrawn"  # which nobody could query in between
    asked(folder) if name in nothing_lost else refused(folder)


def test_after_it_was_accepted_everything_goes_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked(folder)
    written(folder, HOUSEHOLD)
    accept(folder)
    capsys.readouterr()
    assert asked(folder) == ()
    with connect(folder) as connection:
        assert connection.budget().statements == 2, "what was charged stays charged"
    assert run(folder, "budget", "--budget", "person") == 0
    told = capsys.readouterr().out
    assert "protects each person (people.person_id)" in told
    assert "after 1 statement was charged: it protected each person (people.person_id), and now protects each household" in told
    assert run(folder, "check") == 0
    assert "budget person, " in (told := capsys.readouterr().err) and "now protects each household" in told
    assert run(folder, "budget", "--budget", "person", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["promised"]) == 2
    assert run(folder, "budget", "--budget", "person", "--html", str(folder / "page.html")) == 0
    assert "now protects each household" in (folder / "page.html").read_text()
    assert run(folder, "budget", "--budget", "pure") == 0
    assert "protects each" not in capsys.readouterr().out, "where nothing changed, nothing is said"


def test_while_nothing_was_charged_a_draft_may_change(folder: Path) -> None:
    for edits in ([], [HOUSEHOLD], [NO_LINK], [PUBLISHED], []):
        written(folder, *edits)
        if not edits and events(folder):
            assert "read its rows exactly" in refused(folder).reason, "but for what was public: that is free"
            accept(folder)
        with connect(folder) as connection:
            connection.execute("SELECT COUNT(*) FROM clinics")


def test_an_open_connection_keeps_its_promise_until_the_owner_accepts_another(folder: Path) -> None:
    with connect(folder) as first:
        first.execute(COUNT)
        written(folder, HOUSEHOLD)
        refused(folder)
        first.execute("SELECT COUNT(*) FROM visits")
        spent = first.budget().statements
        accept(folder)
        with pytest.raises(OperationalError) as caught:
            first.execute("SELECT COUNT(*) FROM scores")
        assert caught.value.code == "promise-outdated" and first.budget().statements == spent == 2
        with pytest.raises(OperationalError):
            first.execute("SELECT AVG(age) FROM people")
        first.execute(COUNT)  # paid for before
        first.execute("SELECT COUNT(*) FROM clinics")
    asked(folder, sql="SELECT AVG(age) FROM people")


def test_a_connection_of_a_promise_that_nothing_was_charged_to_is_told_too(folder: Path) -> None:
    with connect(folder) as first:
        written(folder, HOUSEHOLD)
        asked(folder)
        with pytest.raises(OperationalError) as caught:
            first.execute(COUNT)
        assert caught.value.code == "promise-outdated"


def test_a_limit_in_any_so_many_periods_that_becomes_less_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def limited(periods: int) -> None:
        more = f"in_any = {{ periods = {periods}, epsilon = 100 }}\n" if periods else ""
        written(folder, *[(old, new.replace("per_period = { epsilon", f"{more}per_period = {{ epsilon")) for old, new in GROWING])

    limited(12)
    asked(folder)
    limited(24)
    assert run(folder, "budget", "--budget", "person") == 0
    for periods, words in ((6, "in any 24 consecutive periods was limited, and now only in any 6"), (0, "in any 24 consecutive periods was limited, and now is not")):
        limited(periods)
        fault = refused(folder)
        assert words in fault.reason and fault.subject == "budgets.person.in_any"
    accept(folder, "person")
    assert run(folder, "budget", "--budget", "person") == 0
    assert "in all, in any 12 consecutive periods and in each period" in capsys.readouterr().out


def test_a_table_that_grows_no_more_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(folder, *GROWING)
    asked(folder)
    assert run(folder, "budget", "--budget", "person") == 0
    written(folder)
    fault = refused(folder)
    assert "visits grew by month of seen, and now does not grow; charges for its rows are no longer limited by period" in fault.reason
    assert "what is spent on one person in one period was limited, and now is not" in fault.reason and fault.subject == "budgets.person.per_period"
    accept(folder, "person")
    assert run(folder, "budget", "--budget", "person") == 0
    assert "protects each person (people.person_id), in all and in each period" in capsys.readouterr().out
    written(folder, *GROWING[1:], (GROWING[0][0], GROWING[0][1].replace("month", "week")))
    assert "visits did not grow, and now grows by week of seen" in refused(folder).reason


# -- what is only told, and what is not


SILENT = [("income = { bounds = [0, 100000] }", "income = { bounds = [0, 50000] }"), ("rows_per_entity = { person = 3, household = 12 }", ""),
          ('values = ["f", "m"]', 'values = ["f"]'), ("nickname = {}\n", ""), ("epsilon = 1000\ndelta = 0.01", "epsilon = 900\ndelta = 0.001"),
          ("version = 1", "version = 1\n# the same"), ("[entities.person]", "[entities.person]\nminimum_frequency = 2"),
          ("[budgets.pure]", "[budgets.person.analysts]\nada = { epsilon = 9 }\n\n[budgets.pure]")]


@pytest.mark.parametrize("edit", SILENT, ids=[new[:30] for _, new in SILENT])
def test_an_edit_that_takes_nothing_is_served(edit: tuple[str, str], folder: Path) -> None:
    asked(folder)
    before = events(folder)
    written(folder, edit)
    assert asked(folder) == () and events(folder) == before + 2


def test_what_is_added_is_told_once_and_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(folder, NO_LINK)
    asked(folder)
    written(folder)
    notes = asked(folder)
    assert notes == ("table scores could not be queried, and now it is protected",) and asked(folder) == ()
    assert run(folder, "check", "--budget", "person") == 0
    assert "scores could not be queried" in capsys.readouterr().err
    (folder / "people.duckdb").rename(folder / "newer.duckdb")
    written(folder, first='database = "newer.duckdb"\n')
    assert any("rows of people come from another place" in note for note in asked(folder))
    refused_ = written(folder, NO_LINK, first='database = "newer.duckdb"\n')
    assert refused_ and "scores" in refused(folder).reason


def test_two_policies_that_take_turns_add_nothing(folder: Path) -> None:
    """Each adds what the other lacks; then nothing is left to add, and the ledger does not grow."""
    for edits in ([NO_LINK], [], [("epsilon = 1000\ndelta = 0.01", "epsilon = 1000")]):
        written(folder, *edits)
        connect(folder).close()
    before = events(folder)
    for edits in ([], [("epsilon = 1000\ndelta = 0.01", "epsilon = 1000")]) * 3:
        written(folder, *edits)
        connect(folder).close()
    assert events(folder) == before


# -- several budgets, and budgets that are gone


def test_what_is_public_is_compared_with_all_budgets(folder: Path) -> None:
    asked(folder, "household")
    written(folder, PUBLISHED)
    fault = refused(folder)
    assert "budget household promised" in fault.reason
    accept(folder, "person")
    asked(folder)
    asked(folder, "household")
    written(folder, WITHDRAWN, IN_LIST, ("[tables.scores]", "[tables.scores]"))
    assert "clinics was public" in refused(folder).reason


def test_a_renamed_budget_does_not_forget_what_was_private(folder: Path) -> None:
    asked(folder)
    renamed = ("[budgets.person]", "[budgets.persons]")
    written(folder, renamed, PUBLISHED)
    assert "budget person promised" in refused(folder, "persons").reason
    accept(folder, "persons")
    assert any("holds charges to person" in note for note in asked(folder, "persons"))
    written(folder, renamed)
    assert "scores was public" in refused(folder, "persons").reason


def test_one_budget_does_not_wait_for_another(folder: Path) -> None:
    asked(folder, "pure")
    written(folder, ('[budgets.pure]\nentity = "person"', '[budgets.pure]\nentity = "household"'))
    assert asked(folder) == ()
    refused(folder, "pure")


def test_all_budgets_are_accepted_unless_one_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for budget in ("person", "household", "pure"):
        asked(folder, budget)
    written(folder, NO_LINK)
    for budget in ("person", "household", "pure"):
        refused(folder, budget)
    accept(folder)
    told = capsys.readouterr().out
    assert all(f"budget {budget} promised" in told for budget in ("person", "household", "pure"))
    for budget in ("person", "household", "pure"):
        asked(folder, budget)


# -- the question


@pytest.mark.parametrize(("answer", "is_agreed"), [("y", True), ("YES ", True), ("", False), ("n", False), ("yes, but", False), (None, False)])
def test_the_owner_is_asked(answer: str | None, is_agreed: bool, folder: Path, monkeypatch: pytest.MonkeyPatch,
                            capsys: pytest.CaptureFixture[str]) -> None:
    asked(folder)
    written(folder, HOUSEHOLD)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)

    def said(prompt: str) -> str:
        assert "[y/N]" in prompt
        if answer is None:
            raise EOFError
        return answer

    monkeypatch.setattr("builtins.input", said)
    assert run(folder, "budget", "--accept-change") == 0
    assert ("the change is accepted" if is_agreed else "nothing is changed") in capsys.readouterr().out
    asked(folder) if is_agreed else refused(folder)


def test_nobody_agrees_by_accident(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked(folder)
    written(folder, HOUSEHOLD)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert run(folder, "budget", "--accept-change") == 2 and "--yes" in capsys.readouterr().err
    assert run(folder, "budget", "--yes") == 2 and "--accept-change" in capsys.readouterr().err
    assert run(folder, "budget", "--accept-change", "--yes", "--budget", "nobody") == 2
    refused(folder)


def test_only_what_was_shown_is_accepted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(folder)
    written(folder, NO_KEY)
    policy = read_policy(folder / "dpsql.toml")
    ledger = ReportingLedger(folder / "dpsql.ledger")
    from dpsql.engine.promises import accept as accepted
    from dpsql.engine.promises import not_accepted

    shown = not_accepted(policy, policy.budgets["person"], ledger)
    assert len(shown) == 1
    with pytest.raises(PolicyError):
        accepted(read_policy(written(folder, NO_KEY, NO_LINK)), policy.budgets["person"], ledger, shown)
    accepted(policy, policy.budgets["person"], ledger, shown)
    ledger.close()


# -- ledgers from before, and from later


def without_promises(folder: Path) -> None:
    """Make the ledger what an earlier version would have written: there, nothing was promised."""
    path = folder / "dpsql.ledger"
    with sqlite3.connect(path) as connection:
        meta = dict(connection.execute("SELECT key, value FROM meta"))
        rows = connection.execute("SELECT * FROM events WHERE kind <> 'promise' ORDER BY seq").fetchall()
        made, = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'events'").fetchone()
        connection.execute("DROP TABLE events")
        connection.execute(made.replace(", 'promise', 'part', 'stopped', 'crowded'", ""))
        from dpsql.trusted.kernel.chain import Event

        number = {row[0]: i for i, row in enumerate(rows, 1)}
        link = genesis(meta)
        for row in rows:
            event = Event(*row[:-1])
            event = event._replace(seq=number[event.seq], answers=event.answers and number[event.answers])
            link = event.link(link)
            connection.execute(f"INSERT INTO events VALUES ({', '.join('?' * 14)})", (*event, link))
    connection.close()
    anchor_beside(path).write_text(f"\n{len(rows)} {link}\n")


def test_a_ledger_from_before_takes_the_policy_for_what_it_promised_and_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked(folder)
    asked(folder, sql="SELECT COUNT(*) FROM visits")
    without_promises(folder)
    assert run(folder, "check") == 0, "which is served to nobody, and records nothing"
    assert events(folder) == 4
    notes = asked(folder)
    assert len(notes) == 1 and "2 statements were charged to the budget person before" in notes[0]
    assert "each person (people.person_id)" in notes[0]
    assert asked(folder) == ()
    capsys.readouterr()
    written(folder, NO_LINK)
    assert "when 2 statements were charged" in refused(folder).reason
    accept(folder)
    assert run(folder, "budget", "--budget", "person") == 0
    assert "recorded after 2 statements were charged" in capsys.readouterr().out


def test_a_form_that_is_not_known_is_refused(folder: Path) -> None:
    asked(folder)
    ledger = ReportingLedger(folder / "dpsql.ledger")
    for text in ('{"charged": 1, "promise": {"entity": "person"}}', "{}", "[]", "3", "none", '{"charged": 1, "promise": null}'):
        ledger.rely_on("person", lambda found, text=text: {"person": (text, False)})
        with pytest.raises(LedgerError) as caught:
            connect(folder)
        assert caught.value.code == "ledger-version"
    ledger.close()


def test_another_notion_of_neighbours_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(folder)
    from dpsql.catalog.promise import Promise

    made = promise_of
    monkeypatch.setattr("dpsql.engine.promises.promise_of",
                        lambda *given: Promise.from_values(made(*given).as_values() | {"neighbours": "one entity is replaced"}))
    assert "in which one entity is replaced" in refused(folder).reason
    accept(folder)
    asked(folder)


# -- several processes, and a server


RACE = """
import sys, time
from pathlib import Path
import dpsql, dpsql.engine.answering, dpsql.engine.opening
folder, own = Path(sys.argv[1]), Path(sys.argv[2])
(own / "ready").touch()
while not (folder / "go").exists():
    time.sleep(0.002)
try:
    with dpsql.connect(policy=own / "dpsql.toml", budget="person", analyst="ada", epsilon=0.5) as connection:
        connection.execute("SELECT COUNT(*) FROM people")
    print("charged")
except dpsql.Error as fault:
    print(fault.code)
"""


def test_of_two_processes_with_different_policies_one_charges(folder: Path) -> None:
    owns = {}
    for name, edits in (("person", []), ("household", [HOUSEHOLD])):
        (own := folder / name).mkdir()
        written(own, *edits, first='database = "../people.duckdb"\nledger = "../dpsql.ledger"\n')
        owns[name] = subprocess.Popen([sys.executable, "-c", RACE, folder, own], stdout=subprocess.PIPE, text=True)
    while not all((folder / name / "ready").exists() for name in owns):
        time.sleep(0.02)
    (folder / "go").touch()
    found = {name: process.communicate(timeout=120)[0].strip() for name, process in owns.items()}
    assert sorted(found.values()) in (["charged", "promise-changed"], ["charged", "promise-outdated"])
    ledger = ReportingLedger(folder / "dpsql.ledger")
    winner = next(name for name, what in found.items() if what == "charged")
    assert f'"entity": "{winner}"' in ledger.promised()["person"].text and len(ledger.entries("person")) == 1
    ledger.close()


def test_a_server_refuses_logins_while_the_policy_is_another(folder: Path) -> None:
    with served(folder / "dpsql.toml", budget="person", terms=()) as server:
        count = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(*) FROM {}"
        with psycopg.connect(server.dsn, autocommit=True) as first:
            first.execute(count.format("people"))
            written(folder, HOUSEHOLD)
            with pytest.raises(psycopg.OperationalError, match="the log of the server says why"):
                psycopg.connect(server.dsn)
            end = time.monotonic() + 20
            while not any("it protected each person" in line for line in server.log) and time.monotonic() < end:
                time.sleep(0.05)
            assert any("it protected each person" in line for line in server.log), "and tells the owner what"
            first.execute(count.format("visits"))
            accept(folder)
            with pytest.raises(psycopg.Error, match="owner changed what the budget person protects"):
                first.execute(count.format("scores"))
        with psycopg.connect(server.dsn, autocommit=True) as second:
            second.execute(count.format("scores"))
    ledger = ReportingLedger(folder / "dpsql.ledger")
    assert len(ledger.entries("person")) == 3
    ledger.close()


@pytest.mark.parametrize("shown", ["SELECT * FROM scores", "SELECT * FROM inner_view"])
def test_a_public_view_over_what_was_protected_is_refused(shown: str, folder: Path) -> None:
    """Although the policy no longer mentions the table that it reads."""
    asked(folder)
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.execute("CREATE VIEW inner_view AS SELECT * FROM SCORES")
        connection.execute(f"CREATE VIEW shown AS {shown}")
    text = re.sub(r"(?s)\[tables\.scores.*?(?=\n\[(?!tables\.scores))", "[tables.shown]\npublic = true\ncolumns = { person_id = {} }\n",
                  (folder / "dpsql.toml").read_text(), count=1)
    (folder / "dpsql.toml").write_text(text)
    with pytest.raises(PolicyError, match=r"tables.shown is a view that reads scores, which the budget person protected when 1 statement"):
        connect(folder)


PEOPLE = """
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
columns = { id = {} }
[budgets.person]
entity = "person"
epsilon = 100
"""
SCORES = """
[tables.scores]
foreign_keys = [{ columns = "person_id", references = "people(id)" }]
columns = { person_id = {}, score = {} }
"""
SHOWN = '[tables.shown]\npublic = true\ncolumns = { score = { type = "BIGINT" } }\n'


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("of", ["scores", "inner_view"])
def test_a_public_view_of_another_database_over_what_was_protected_is_refused(of: str, kind: str, tmp_path: Path) -> None:
    made = Source(kind, tmp_path, "CREATE TABLE people (id INTEGER PRIMARY KEY)", "INSERT INTO people VALUES (1), (2)",
                  "CREATE TABLE scores (person_id INTEGER, score INTEGER)", "INSERT INTO scores VALUES (1, 77)",
                  "CREATE TABLE plans (score INTEGER)", "CREATE VIEW inner_view AS SELECT score FROM scores",
                  f"CREATE VIEW shown AS SELECT score FROM {of}")
    made.declare(PEOPLE + SCORES)
    made.refresh()
    ReportingLedger.create(tmp_path / "dpsql.ledger").close()
    asked(tmp_path)
    made.declare(PEOPLE + SHOWN)
    made.refresh()
    assert "tables.shown is a view that reads scores, which the budget person protected when 1 statement" in str(refused(tmp_path))
    made.run("DROP VIEW shown", "CREATE VIEW shown AS SELECT score FROM plans")
    made.refresh()
    asked(tmp_path, sql="SELECT COUNT(*) FROM shown")
