"""Snapshots of tables that grow: each closed period is read once, and its file stays."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from support.postgres import fresh
from support.snapshots import in_sqlite

import dpsql
from dpsql import cli
from dpsql.audit.exact import Exact
from dpsql.backends import snapshots
from dpsql.backends.duckdb import DuckReader
from dpsql.catalog import growing
from dpsql.catalog.policy import read_policy
from dpsql.engine.opening import open_reader
from dpsql.errors import OperationalError
from dpsql.trusted.kernel.ledger import Ledger
from dpsql.trusted.kernel.revisions import TimeState

POLICY = """
version = 1
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
source = "{uri}"
columns = {{ id = {{}} }}
[tables.visits]
source = "{uri}"
grows_by = "{column}"
period = "month"
since = 2025-01-01
closes = "5 days"
foreign_keys = [{{ columns = "id", references = "people(id)" }}]
rows_per_entity_and_period = 4
columns = {{ id = {{}}, day = {{}}, moment = {{}}, zoned = {{}} }}
[budgets.main]
entity = "person"
epsilon = 100
per_period = {{ epsilon = 50 }}
"""
ENDS = [dt.datetime(2024, 12, 31, 23, 59, 59, 999999), *(moment for month in range(1, 7) for moment in (
    dt.datetime(2025, month, 1), dt.datetime(2025, month + 1, 1) - dt.timedelta(microseconds=1)))]


class Clinic:
    """Visits at the first and the last moment of each month, in PostgreSQL, and one at no time, at the end and at the beginning of all time."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, column: str = "day") -> None:
        self.folder, self.policy, self.database = folder, folder / "dpsql.toml", fresh()
        self.database.run("CREATE TABLE people (id INTEGER PRIMARY KEY)", "INSERT INTO people SELECT generate_series(1, 50)",
                          "CREATE TABLE visits (id INTEGER, day DATE, moment TIMESTAMP, zoned TIMESTAMPTZ)", "SET TimeZone = 'Asia/Tokyo'")
        self.add(*ENDS)
        self.database.run("INSERT INTO visits VALUES (1, NULL, NULL, NULL), (1, 'infinity', 'infinity', 'infinity'), (1, '-infinity', '-infinity', '-infinity')")
        self.policy.write_text(POLICY.format(uri=self.database.uri, column=column), encoding="utf-8")
        Ledger.create(folder / "dpsql.ledger").close()
        self.monkeypatch = monkeypatch

    def add(self, *moments: dt.datetime) -> None:
        for moment in moments:
            self.database.run(f"INSERT INTO visits VALUES (1, '{moment.date()}', '{moment}', '{moment}+00')")

    def refresh(self, day: dt.date, **terms: Any) -> list[str]:
        self.monkeypatch.setattr(growing, "today", lambda: day)
        return dpsql.refresh(policy=self.policy, **terms)

    def moments(self, column: str = "moment") -> list[Any]:
        reader = open_reader(read_policy(self.policy), None)
        assert isinstance(reader, DuckReader)
        with contextlib.closing(reader):
            return [value for value, in reader.rows(f"SELECT {column} FROM visits ORDER BY 1")]

    @property
    def manifest(self) -> dict[str, Any]:
        return json.loads(next((self.folder / "dpsql.ledger.snapshots").glob("*/manifest.json")).read_text())

    @property
    def files(self) -> set[str]:
        return {str(path.relative_to(path.parents[1])) for path in (self.folder / "dpsql.ledger.snapshots").glob("*/*/*.parquet")}


@pytest.mark.parametrize("column", ["day", "moment", "zoned"])
def test_closed_periods_are_read_and_each_once(column: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic = Clinic(tmp_path, monkeypatch, column)
    asked: list[str] = []
    found = snapshots._query
    monkeypatch.setattr(snapshots, "_query", lambda *given: asked.append(found(*given)) or asked[-1])
    assert clinic.refresh(dt.date(2025, 4, 5)) == ["people", "visits"]  # March is not closed yet
    assert clinic.moments() == ENDS[1:5]
    clinic.add(dt.datetime(2025, 2, 9))  # late: not read
    asked.clear()
    clinic.refresh(dt.date(2025, 5, 6))
    assert clinic.moments() == ENDS[1:9] and [text for text in asked if "2025-03-01" in text and "2025-05-01" in text]
    assert not [text for text in asked if "2025-01-01" in text]
    clinic.refresh(dt.date(2025, 5, 7))  # nothing has closed
    assert clinic.moments() == ENDS[1:9] and len(clinic.manifest["tables"]["visits"]["runs"]) == 2
    clinic.refresh(dt.date(2025, 5, 7), again=True)
    assert clinic.moments() == sorted([*ENDS[1:9], dt.datetime(2025, 2, 9)]) and len(clinic.manifest["tables"]["visits"]["runs"]) == 1
    assert cli.main(["refresh", "--policy", str(clinic.policy), "--all"]) == 0


@pytest.mark.parametrize("column", ["moment", "zoned"])
def test_the_last_hours_of_a_period_in_a_time_zone_are_read_with_it(column: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic = Clinic(tmp_path, monkeypatch, column)
    text = clinic.policy.read_text(encoding="utf-8")
    clinic.policy.write_text(text.replace(f"{column} = {{}}", f'{column} = {{ zone = "America/New_York" }}'), encoding="utf-8")
    clinic.add(dt.datetime(2025, 2, 1, 3))
    clinic.refresh(dt.date(2025, 2, 6))
    assert dt.datetime(2025, 1, 31, 22) in clinic.moments(column)


def test_no_period_is_closed_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic = Clinic(tmp_path, monkeypatch)
    clinic.refresh(dt.date(2025, 1, 20))
    assert clinic.moments() == []
    clinic.refresh(dt.date(2025, 2, 6))
    assert clinic.moments() == ENDS[1:3]


def test_files_stay_as_long_as_they_are_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of snapshots before, the files of periods alone, and nothing of a refresh that failed."""
    clinic = Clinic(tmp_path, monkeypatch)
    for month in range(2, 7):
        clinic.refresh(dt.date(2025, month, 6))
    runs = [run[2] for run in clinic.manifest["tables"]["visits"]["runs"]]
    assert len(runs) == 5 and set(runs) <= clinic.files
    assert clinic.moments() == ENDS[1:11]

    def broken(*given: Any, **terms: Any) -> None:
        raise OperationalError("stopped", code="no-database", subject="visits")

    with monkeypatch.context() as patched:
        patched.setattr("dpsql.engine.refreshing.open_files", broken)
        with pytest.raises(OperationalError):
            clinic.refresh(dt.date(2025, 7, 6))
    assert [run[2] for run in clinic.manifest["tables"]["visits"]["runs"]] == runs and clinic.moments() == ENDS[1:11]
    clinic.refresh(dt.date(2025, 7, 6))
    clinic.refresh(dt.date(2025, 7, 7))
    clinic.refresh(dt.date(2025, 7, 8))
    now = {run[2] for run in clinic.manifest["tables"]["visits"]["runs"]}
    people = {file for file in clinic.files if file.endswith("/0.parquet")}
    assert clinic.files - people == now and len(people) == 2  # of the snapshot in force and the one before
    assert clinic.moments() == ENDS[1:]


def test_a_file_that_is_lost_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic = Clinic(tmp_path, monkeypatch)
    clinic.refresh(dt.date(2025, 3, 6))
    clinic.refresh(dt.date(2025, 4, 6))
    next((clinic.folder / "dpsql.ledger.snapshots").glob(f"*/{clinic.manifest['tables']['visits']['runs'][0][2]}")).unlink()
    with pytest.raises(OperationalError) as caught:
        clinic.moments()
    assert caught.value.code == "no-snapshot"
    clinic.refresh(dt.date(2025, 4, 6))
    assert clinic.moments() == ENDS[1:7]


def test_periods_that_a_clock_ahead_read_are_read_again_when_it_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their rows were not there yet: without that, these periods would be empty for ever."""
    clinic = Clinic(tmp_path, monkeypatch)
    clinic.refresh(dt.date(2025, 3, 6))
    clinic.database.run("DELETE FROM visits WHERE day >= '2025-03-01'")
    clinic.refresh(dt.date(2026, 3, 6))  # a year ahead
    clinic.refresh(dt.date(2025, 3, 7))
    assert clinic.moments() == ENDS[1:5]
    clinic.add(*ENDS[5:])
    clinic.refresh(dt.date(2025, 4, 6))
    assert clinic.moments() == ENDS[1:7] and len(clinic.manifest["tables"]["visits"]["runs"]) == 2
    clinic.refresh(dt.date(2025, 8, 6))
    assert clinic.moments() == ENDS[1:]


def test_a_clock_that_is_set_back_takes_no_period_out_of_a_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements read the periods that were closed on the day of the ledger's newest event, which is later then."""
    clinic = Clinic(tmp_path, monkeypatch)
    clinic.refresh(dt.date(2025, 7, 6))
    monkeypatch.setattr(Ledger, "time_state", lambda self: TimeState(days_behind=181))
    clinic.refresh(dt.date(2025, 1, 6))
    assert clinic.moments() == ENDS[1:]


def test_an_open_connection_goes_on_with_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic = Clinic(tmp_path, monkeypatch)
    clinic.refresh(dt.date(2025, 4, 6))
    with contextlib.closing(open_reader(read_policy(clinic.policy), None)) as reader:
        clinic.refresh(dt.date(2025, 5, 6))
        assert len(reader.rows("SELECT moment FROM visits")) == 6
        with pytest.raises(OperationalError, match="changed since they were opened"):
            reader.check()


def test_sqlite_is_read_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cells may hold days in any form, which it compares as texts."""
    monkeypatch.setattr(growing, "today", lambda: dt.date(2025, 4, 6))
    uri = in_sqlite(tmp_path / "clinic.sqlite", {"people": ("id INTEGER PRIMARY KEY", [(1,)]), "visits": (
        "id INTEGER, day DATE, moment DATE, zoned DATE", [(1, "2025-01-09", None, None), (1, "2025-9-9", None, None), (1, None, None, None)])})
    (tmp_path / "dpsql.toml").write_text(POLICY.format(uri=uri, column="day"), encoding="utf-8")
    Ledger.create(tmp_path / "dpsql.ledger").close()
    dpsql.refresh(policy=tmp_path / "dpsql.toml")
    with contextlib.closing(open_reader(read_policy(tmp_path / "dpsql.toml"), None)) as reader:
        assert reader.rows("SELECT COUNT(*), COUNT(day) FROM visits")[0][0] == 3


def test_periods_of_a_calendar_are_read_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of them are closed is known with the first days alone, which may be read by the same refresh."""
    clinic = Clinic(tmp_path, monkeypatch)
    clinic.database.run("CREATE TABLE terms (first_day DATE)", "INSERT INTO terms VALUES ('2025-01-01'), ('2025-02-03'), ('2025-07-14')")
    policy = clinic.policy.read_text(encoding="utf-8")
    policy = policy.replace('period = "month"', 'period = { table = "terms", starts = "first_day" }').replace("period = 4", "period = 40")
    policy += f'[tables.terms]\nsource = "{clinic.database.uri}"\npublic = true\ncolumns = {{ first_day = {{}} }}\n'
    clinic.policy.write_text(policy, encoding="utf-8")
    clinic.refresh(dt.date(2025, 2, 20))
    clinic.add(dt.datetime(2025, 2, 9))
    clinic.refresh(dt.date(2025, 7, 20))
    asked = "SELECT COUNT(*) AS n FROM visits WHERE day >= DATE '2025-02-03' AND day < DATE '2025-07-14'"
    with dpsql.connect(policy=clinic.policy, budget="main", analyst="ada", epsilon=20) as connection:
        connection.session.kernel._noise = Exact()
        assert connection.execute(asked).fetchall() == [(10,)]
