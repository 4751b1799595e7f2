"""Rows that arrive: what was answered of tables that grow stays the answer, however often and from wherever the data are loaded."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.wire_servers import PASSWORD, served

import dpsql
from dpsql.catalog import growing
from dpsql.dbapi import Connection
from dpsql.errors import OperationalError
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.server.vault import passwords

POLICY = """
version = 1

[entities.person]
table = "people"
key = "person_id"

[tables.people]
key = "person_id"
source = "people.parquet"
[tables.people.columns]
person_id = {}
sex = { values = ["f", "m"], nullable = false }

[tables.homes]
source = "homes.parquet"
foreign_keys = [{ columns = "person_id", references = "people(person_id)" }]
rows_per_entity = 1
[tables.homes.columns]
person_id = {}
rooms = { range = [1, 3] }

[tables.plans]
public = true
source = "plans.csv"
[tables.plans.columns]
plan = { type = "BIGINT" }
kind = { type = "VARCHAR" }

[tables.visits]
source = "visits/*.parquet"
grows_by = "visited_on"
period = "month"
since = 2025-01-01
closes = "5 days"
rows_per_entity_and_period = 4
foreign_keys = [{ columns = "person_id", references = "people(person_id)" }]
[tables.visits.columns]
person_id = {}
visited_on = {}
plan = { range = [1, 3] }

[budgets.study]
entity = "person"
epsilon = 1000
delta = 1e-3
share_answers = true
per_period = { epsilon = 100, delta = 1e-4 }
"""
ALONE = "SELECT COUNT(*) FROM visits WHERE visited_on < DATE '2025-02-01'"
BESIDE = "SELECT sex, COUNT(*) AS n FROM visits JOIN people USING (person_id) WHERE visited_on < DATE '2025-02-01' GROUP BY sex"
PUBLIC = "SELECT COUNT(*) FROM visits JOIN plans USING (plan) WHERE kind = 'a' AND visited_on < DATE '2025-02-01'"
STATIC = "SELECT rooms, COUNT(*) AS n FROM homes GROUP BY rooms"
BY_MONTH = "SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n FROM visits"
ALL = {ALONE, BESIDE, PUBLIC, STATIC}


class Clinic:
    """A folder to which a file of visits is added each month."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.policy = folder, folder / "dpsql.toml"
        self.policy.write_text(POLICY, encoding="utf-8")
        (folder / "visits").mkdir()
        self.people("i")
        self.homes("1 + i % 3")
        self.plans("1,a\n2,b\n3,c\n")
        self.month(1)
        ReportingLedger.create(folder / "dpsql.ledger").close()

    def people(self, which: str) -> None:
        self._write("people", f"SELECT {which} AS person_id, CASE WHEN i % 2 = 0 THEN 'f' ELSE 'm' END AS sex FROM range(40) AS t(i)")

    def homes(self, rooms: str) -> None:
        self._write("homes", f"SELECT i AS person_id, {rooms} AS rooms FROM range(40) AS t(i)")

    def plans(self, rows: str) -> None:
        (self.folder / "plans.csv").write_text(f"plan,kind\n{rows}", encoding="utf-8")

    def month(self, number: int, *, people: int = 40) -> None:
        self._write(f"visits/{number}", f"SELECT i AS person_id, DATE '2025-{number:02}-09' AS visited_on, 1 + i % 3 AS plan FROM range({people}) AS t(i)")

    def _write(self, name: str, rows: str) -> None:
        path = self.folder / f"{name}.parquet"
        duckdb.sql(f"COPY ({rows}) TO '{path}.tmp' (FORMAT parquet)")
        os.replace(f"{path}.tmp", path)

    def connect(self, analyst: str = "ada", **terms: Any) -> Connection:
        return dpsql.connect(policy=self.policy, budget="study", analyst=analyst, **{"epsilon": 1, **terms})


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clinic:
    monkeypatch.setattr(growing, "today", lambda: dt.date(2025, 7, 6))
    return Clinic(tmp_path)


def answers(connection: Connection, statements: set[str] = ALL) -> dict[str, tuple[Any, bool]]:
    """The rows of statements, each with whether they were stored."""
    found = {}
    for text in sorted(statements):
        cursor = connection.execute(text)
        assert cursor.answer is not None
        found[text] = cursor.fetchall(), cursor.answer.stored
    return found


def paid_anew(clinic: Clinic) -> set[str]:
    """The statements that are not stored when they are asked now; those that are have the numbers that they had. Afterwards all
    are."""
    with clinic.connect() as connection:
        return {text for text, (_, stored) in answers(connection).items() if not stored}


def test_a_new_file_of_a_growing_table_costs_nothing_of_what_was_answered(clinic: Clinic) -> None:
    with clinic.connect() as connection:
        before = answers(connection)
        assert not any(stored for _, stored in before.values())
    for number in (2, 3):
        clinic.month(number)
        with clinic.connect() as connection:
            assert answers(connection) == {text: (rows, True) for text, (rows, _) in before.items()}
        with clinic.connect(epsilon=20) as connection:
            months = connection.execute(f"{BY_MONTH} WHERE visited_on < DATE '2025-{number + 1:02}-01' GROUP BY month").fetchall()
            assert len(months) == number and all(n > 20 for _, n in months)


@pytest.mark.parametrize(("change", "anew"), [
    (lambda clinic: clinic.homes("1 + i % 2"), {STATIC}),
    (lambda clinic: clinic.homes("1 + i % 3"), {STATIC}),  # the same rows, written again: no row decides what is new
    (lambda clinic: clinic.people("i + 1"), set()),  # what was told of a closed month stays, whatever is now said of its people
    (lambda clinic: clinic.plans("1,a\n2,a\n3,c\n"), {PUBLIC}),
    (lambda clinic: clinic.plans("3,c\n1,a\n2,b\n"), set()),  # the rows of a public table are what they are
    (lambda clinic: clinic.month(1, people=30), set()),  # a closed period that has changed after all: what was told stays
])
def test_only_statements_that_read_a_static_table_are_paid_anew_when_it_is_written(clinic: Clinic, change: Any, anew: set[str]) -> None:
    assert paid_anew(clinic) == ALL
    assert paid_anew(clinic) == set()
    change(clinic)
    clinic.month(2)
    assert paid_anew(clinic) == anew
    assert paid_anew(clinic) == set()


def test_answers_that_are_shared_stay_too(clinic: Clinic) -> None:
    with clinic.connect() as connection:
        before = {text: (rows, True) for text, (rows, _) in answers(connection).items()}
    clinic.month(2)
    with clinic.connect("eve") as connection:
        assert answers(connection) == before


def test_without_growing_tables_the_version_of_all_data_stands_for_each_table(clinic: Clinic) -> None:
    """Ledgers of earlier versions hold answers under it."""
    text = POLICY[:POLICY.index("grows_by")] + "rows_per_entity = 4\n" + POLICY[POLICY.index("foreign_keys", POLICY.index("grows_by")):]
    clinic.policy.write_text("\n".join(line for line in text.splitlines() if not line.startswith("per_period")), encoding="utf-8")
    with clinic.connect() as connection:
        connection.execute(STATIC)
        session = connection.session
        event = session.ledger.entries("study")[-1]
        assert event.sql == STATIC and session.ledger._verified("seq = $1", event.seq)[0].data == session.kernel.version


@pytest.fixture
def port(clinic: Clinic) -> Iterator[int]:
    passwords.add_user(passwords.users_file(clinic.policy), passwords.User(
        name="eve", verifier=passwords.verifier(PASSWORD), budget="study", price={"epsilon": 1}))  # type: ignore[dict-item]
    with served(clinic.policy, budget="study", price={"epsilon": 1}) as found:  # type: ignore[dict-item]
        yield found.port


@pytest.mark.slow
def test_over_the_network_stored_answers_are_found_by_the_same_data(port: int, clinic: Clinic) -> None:
    psycopg = pytest.importorskip("psycopg")

    def asked(user: str) -> dict[str, Any]:
        with psycopg.connect(host="127.0.0.1", port=port, user=user, password=PASSWORD, dbname="study", autocommit=True) as client:
            return {text: client.execute(text).fetchall() for text in sorted(ALL)}

    assert asked("ada") == asked("ada") == asked("eve")
    with clinic.connect() as connection:
        ledger = connection.session.ledger
        ledger.refresh()
        assert len(ledger.entries("study", "ada")) == len(ALL)
        assert len(ledger.entries("study", "eve")) == len(ALL) and all(entry.told for entry in ledger.entries("study", "eve"))


def in_a_database(clinic: Clinic) -> Path:
    """The visits in a DuckDB file of their own."""
    path = clinic.folder / "visits.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute(f"CREATE TABLE visits AS SELECT * FROM '{clinic.folder}/visits/1.parquet'")
    clinic.policy.write_text(POLICY.replace("visits/*.parquet", "visits.duckdb"), encoding="utf-8")
    return path


def test_rows_that_are_added_to_a_database_cost_nothing_of_what_was_answered(clinic: Clinic) -> None:
    path = in_a_database(clinic)
    assert paid_anew(clinic) == ALL
    clinic.month(2)
    with duckdb.connect(path) as connection:
        connection.execute(f"INSERT INTO visits SELECT * FROM '{clinic.folder}/visits/2.parquet'")
    assert paid_anew(clinic) == set()
    with clinic.connect(epsilon=20) as connection:
        (_, first), (_, second) = connection.execute(f"{BY_MONTH} WHERE visited_on < DATE '2025-03-01' GROUP BY month").fetchall()
        assert first > 20 and second > 20


def test_a_database_that_another_program_writes_to_says_so_where_the_policy_names_it(clinic: Clinic) -> None:
    path = in_a_database(clinic)
    writer = subprocess.Popen([sys.executable, "-c", f"import duckdb; c = duckdb.connect({str(path)!r}); print('open', flush=True); input()"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None and writer.stdout.readline() == b"open\n"
        with pytest.raises(OperationalError, match="another program writes to it") as caught:
            clinic.connect()
        assert caught.value.span is not None
    finally:
        writer.communicate(b"\n")
    assert paid_anew(clinic) == ALL
