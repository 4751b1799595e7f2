"""Attacks on tables that grow by what arrives: rows, files, declarations and days."""

from __future__ import annotations

import csv
import datetime as dt
import os
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.snapshots import in_sqlite

import dpsql
from dpsql import cli
from dpsql.catalog import growing
from dpsql.dbapi import Connection
from dpsql.engine.revising import revise
from dpsql.errors import OperationalError, Unsupported
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.kernel import chain

POLICY = """
version = 1
[entities.person]
table = "people"
key = "person_id"
[tables.people]
key = "person_id"
source = "people.parquet"
columns = { person_id = {} }
[tables.visits]
source = "visits"
grows_by = "visited_on"
period = "month"
since = 2025-01-01
rows_per_entity_and_period = 2
foreign_keys = [{ columns = "person_id", references = "people(person_id)" }]
columns = { person_id = {}, visited_on = {}, loaded_on = {} }
[budgets.study]
entity = "person"
epsilon = 1000
delta = 1e-3
per_period = { epsilon = 500, delta = 1e-3 }
"""
SECOND = """
[tables.again]
source = "visits"
foreign_keys = [{ columns = "person_id", references = "people(person_id)" }]
columns = { person_id = {}, visited_on = {}, loaded_on = {} }
"""
STATIC, OTHERWISE, ALIKE = "rows_per_entity = 9", 'grows_by = "loaded_on"', 'grows_by = "visited_on"'
JULY = dt.date(2025, 7, 6)


class Clinic:
    """A folder with visits of forty people in each month."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.policy = folder, folder / "dpsql.toml"
        (folder / "visits").mkdir()
        self.policy.write_text(POLICY, encoding="utf-8")
        self.write("people", "SELECT i AS person_id FROM range(40) AS t(i)")
        for month in range(1, 7):
            self.write(f"visits/{month}", f"SELECT i AS person_id, DATE '2025-{month:02}-09' AS visited_on, "
                                          f"DATE '2025-{month:02}-09' + INTERVAL 40 DAY AS loaded_on FROM range(40) AS t(i)")
        ReportingLedger.create(folder / "dpsql.ledger").close()

    def write(self, name: str, rows: str) -> None:
        path = self.folder / f"{name}.parquet"
        duckdb.sql(f"COPY ({rows}) TO '{path}.tmp' (FORMAT parquet)")
        os.replace(f"{path}.tmp", path)

    def declare(self, second: str, source: str = "visits") -> None:
        """Declare a second table with rows of the first one, or of another source."""
        period = '\nperiod = "month"\nsince = 2025-01-01\nrows_per_entity_and_period = 2\n'
        lines = SECOND.replace('source = "visits"', f'source = "{source}"\n{second}{"" if second == STATIC else period}')
        self.policy.write_text(POLICY.replace("[budgets.study]", f"{lines}[budgets.study]"), encoding="utf-8")

    def connect(self, epsilon: float = 1) -> Connection:
        return dpsql.connect(policy=self.policy, budget="study", analyst="ada", epsilon=epsilon)


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clinic:
    monkeypatch.setattr(growing, "today", lambda: JULY)
    return Clinic(tmp_path)


# -- the same rows in two tables


@pytest.mark.parametrize("charged", [False, True])
@pytest.mark.parametrize("second", [STATIC, OTHERWISE])
def test_rows_of_a_period_are_in_no_other_period_of_another_table(second: str, charged: bool, clinic: Clinic) -> None:
    """Statements about the second table would be charged to other periods, or to none."""
    if charged:
        with clinic.connect() as connection:
            connection.execute("SELECT COUNT(*) FROM visits")
    for source in ("visits", "visits/3.parquet", "visits/*.parquet"):
        clinic.declare(second, source)
        with pytest.raises(OperationalError, match="visits grows by month of visited_on, and has rows of again, which") as caught:
            clinic.connect()
        assert caught.value.span is not None


def test_a_file_with_another_name_has_the_same_rows(clinic: Clinic) -> None:
    os.link(clinic.folder / "visits" / "3.parquet", clinic.folder / "other.parquet")
    clinic.declare(STATIC, "other.parquet")
    with pytest.raises(OperationalError, match="has rows of again, which does not grow"):
        clinic.connect()


def test_two_tables_with_the_same_rows_may_grow_alike(clinic: Clinic) -> None:
    clinic.declare(ALIKE)
    with clinic.connect() as connection:
        connection.execute("SELECT COUNT(*) FROM visits WHERE visited_on < DATE '2025-02-01'")
        connection.execute("SELECT COUNT(*) FROM again WHERE visited_on < DATE '2025-02-01'")
        (january,) = [row for row in connection.execute("SHOW PERIODS").fetchall() if row[1] == "2025-01"]
        assert january[0] == "visits, again" and january[4].startswith("99")


def test_other_rows_may_grow_otherwise(clinic: Clinic) -> None:
    clinic.write("other", "FROM 'visits/*.parquet'".replace("visits", str(clinic.folder / "visits")))
    clinic.declare(STATIC, "other.parquet")
    with clinic.connect() as connection:
        connection.execute("SELECT COUNT(*) FROM again")


def test_rows_of_another_database_are_in_no_other_period_either(clinic: Clinic) -> None:
    days = [(1, "2025-01-09", "2025-03-01")]
    uri = in_sqlite(clinic.folder / "clinic.sqlite", {"visits": ("person_id INTEGER, visited_on DATE, loaded_on DATE", days)})
    clinic.declare(STATIC, uri)
    text = clinic.policy.read_text(encoding="utf-8").replace('source = "visits"', f'source = "{uri}"')
    clinic.policy.write_text(text.replace(STATIC, f'{STATIC}\nrelation = "visits"'), encoding="utf-8")
    dpsql.refresh(policy=clinic.policy)
    with pytest.raises(OperationalError, match="has rows of again, which does not grow"):
        clinic.connect()


# -- rows that arrive while a connection is open


def test_a_connection_reads_no_period_that_closed_after_it_was_opened(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not see files that have arrived since, so it would say that the period is empty, and the answer would stay."""
    july = "SELECT COUNT(*) FROM visits WHERE visited_on >= DATE '2025-07-01' AND visited_on < DATE '2025-08-01'"
    with clinic.connect() as connection:
        clinic.write("visits/7", "SELECT i AS person_id, DATE '2025-07-09' AS visited_on, TIMESTAMP '2025-07-10' AS loaded_on FROM range(40) AS t(i)")
        monkeypatch.setattr(growing, "today", lambda: dt.date(2025, 8, 9))
        with pytest.raises(Unsupported, match="2025-07 is not closed yet: .* from 2025-08-01 on, by connections that are opened then"):
            connection.execute(july)
        assert connection.execute("SHOW PERIODS").fetchall()[0][1] == "2025-06"
        assert len(connection.execute("SELECT date_trunc('month', visited_on) AS m, COUNT(*) FROM visits GROUP BY m").fetchall()) == 6
    with clinic.connect() as connection:
        (number,), = connection.execute(july).fetchall()
        assert number > 20 and connection.execute("SHOW PERIODS").fetchall()[0][1] == "2025-07"


def test_a_snapshot_has_no_period_that_closed_after_it_was_read(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    days = [(i, f"2025-{month:02}-09", None) for i in range(40) for month in range(1, 8)]
    uri = in_sqlite(clinic.folder / "clinic.sqlite", {"visits": ("person_id INTEGER, visited_on DATE, loaded_on DATE", days)})
    clinic.policy.write_text(POLICY.replace('source = "visits"', f'source = "{uri}"'), encoding="utf-8")
    dpsql.refresh(policy=clinic.policy)
    monkeypatch.setattr(growing, "today", lambda: dt.date(2025, 8, 9))
    for newest in ("2025-06", "2025-07"):
        with clinic.connect() as connection:
            assert connection.execute("SHOW PERIODS").fetchall()[0][1] == newest
        dpsql.refresh(policy=clinic.policy)


# -- answers from before a revision


@pytest.mark.parametrize("name", ["monthly", "monthly_2"])
@pytest.mark.parametrize("text", [
    "SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n FROM visits GROUP BY month",
    "SELECT date_trunc('month', visited_on) AS month, SUM(COUNT(*)) OVER (ORDER BY date_trunc('month', visited_on)) AS n FROM visits GROUP BY month"
    " OPTIONS (rho = 5)",
    "SELECT month, AVG(n) OVER (ORDER BY month ROWS 1 PRECEDING) AS n FROM (SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n FROM visits"
    " GROUP BY month)",
])
def test_a_standing_query_that_is_made_after_a_revision_shows_no_answer_from_before(text: str, name: str, clinic: Clinic) -> None:
    """Which is how numbers are corrected: what an older query told stays."""
    def numbers(query: str) -> list[float]:
        assert cli.main(["publish", "--policy", str(clinic.policy), "--budget", "study", "--out", str(clinic.folder / query), query]) == 0
        with open(clinic.folder / query / f"{query}.csv", encoding="utf-8") as file:
            return [float(row["n"]) for row in csv.DictReader(file)]

    with clinic.connect(20) as connection:
        connection.execute(f"CREATE STANDING QUERY monthly AS {text}")
    before = numbers("monthly")
    clinic.write("visits/2", "SELECT i AS person_id, DATE '2025-02-09' AS visited_on, TIMESTAMP '2025-02-10' AS loaded_on FROM range(4) AS t(i)")
    revise("visits", period="2025-02", reason="audit", policy=clinic.policy)
    assert numbers("monthly") == before
    with clinic.connect(20) as connection:
        connection.execute("DROP STANDING QUERY monthly")
        connection.execute(f"CREATE STANDING QUERY {name} AS {text}")
    shutil.rmtree(clinic.folder / "monthly")
    after = numbers(name)
    assert after[0] == before[0] and before[1] - after[1] > 10
    assert numbers(name) == after, "and stays"
    with clinic.connect(20) as connection:
        assert [row[0] for row in connection.execute(f"SELECT n FROM standing.{name} ORDER BY month").fetchall()] == after


# -- a clock that is set back


def test_standing_queries_follow_the_day_of_the_ledger(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of a clock that was set back, by which closed periods would be foreseen as if they were yet to close."""
    with clinic.connect() as connection:
        connection.execute("CREATE STANDING QUERY monthly AS SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n "
                           "FROM visits GROUP BY month")
        (before,) = connection.execute("SHOW STANDING QUERIES").fetchall()

    class Back(dt.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> dt.datetime:  # type: ignore[override]
            return dt.datetime.now(tz) - dt.timedelta(days=300)

    class Dates:
        date, timedelta, UTC, datetime = dt.date, dt.timedelta, dt.UTC, Back

    monkeypatch.setattr(chain, "dt", Dates)
    monkeypatch.setattr(growing, "today", lambda: JULY - dt.timedelta(days=300))
    with clinic.connect() as connection:
        assert connection.execute("SHOW STANDING QUERIES").fetchall() == [before]
