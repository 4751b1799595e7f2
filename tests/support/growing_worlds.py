"""A project with a table that grows: visits of people by month, of which some are made when they are asked for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path

import duckdb

from dpsql.ledgers.ledger_reports import ReportingLedger

POLICY = """
version = 1
database = "data.duckdb"

[entities.person]
table = "people"
key = "person_id"

[tables.people]
key = "person_id"
[tables.people.columns]
person_id = {{}}
sex = {{ values = ["f", "m"], nullable = false }}

[tables.visits]
grows_by = "{column}"
period = "{period}"
since = 2025-01-01
closes = "5 days"
rows_per_entity_and_period = 4
foreign_keys = [{{ columns = "person_id", references = "people(person_id)" }}]
[tables.visits.columns]
person_id = {{}}
visited_on = {{}}
seen_at = {{}}
cost = {{ bounds = [0, 100], decimals = 0 }}

[budgets.study]
entity = "person"
epsilon = 1000
delta = 1e-3
per_period = {{ epsilon = 10, delta = 1e-4 }}
per_analyst_and_period = {{ epsilon = 5, delta = 1e-4 }}
"""


def project(folder: Path, *, period: str = "month", column: str = "visited_on", people: int = 40) -> Path:
    """The policy of a project with people and a ledger, without visits."""
    with duckdb.connect(folder / "data.duckdb") as connection:
        connection.execute("CREATE TABLE people (person_id INTEGER PRIMARY KEY, sex VARCHAR)")
        connection.execute(f"INSERT INTO people SELECT i, CASE WHEN i % 2 = 0 THEN 'f' ELSE 'm' END FROM range({people}) AS t(i)")
        connection.execute("CREATE TABLE visits (person_id INTEGER, visited_on DATE, seen_at TIMESTAMP, cost INTEGER)")
    policy = folder / "dpsql.toml"
    policy.write_text(POLICY.format(period=period, column=column))
    ReportingLedger.create(folder / "dpsql.ledger").close()
    return policy


def add_visits(policy: Path, visits: Iterable[tuple[int, dt.date | None]], cost: int = 10) -> None:
    """Add visits: of whom, and when."""
    with duckdb.connect(policy.parent / "data.duckdb") as connection:
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", [
            (person, day, None if day is None else dt.datetime.combine(day, dt.time(12)), cost) for person, day in visits])
