"""A project with a table that grows: visits of people by month, of which some are made when they are asked for."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterable
from pathlib import Path

import duckdb
import pytest

from dpsql.catalog import growing
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


class Clock:
    """The day that it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, day: dt.date = dt.date(2025, 7, 6)) -> None:
        self.day = day  # June is closed, if no other is given
        monkeypatch.setattr(growing, "today", lambda: self.day)


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


def project_of_seven_months(folder: Path) -> Path:
    """The same project, in which every person has one visit in each month from January to July 2025."""
    policy = project(folder)
    add_visits(policy, itertools.product(range(40), [dt.date(2025, month, 9) for month in range(1, 8)]))
    return policy


def project_in_rho(folder: Path, *, per_period: float = 20) -> Path:
    """The same project with budgets in rho, of which an analyst has three quarters; in the k-th month of 2025 every person has
    min(k, 3) visits."""
    policy, text = project(folder), POLICY.format(period="month", column="visited_on")
    for old, new in (("epsilon = 1000\ndelta = 1e-3", "rho = 1000"), ("epsilon = 10, delta = 1e-4", f"rho = {per_period:g}"),
                     ("epsilon = 5, delta = 1e-4", f"rho = {0.75 * per_period:g}")):
        text = text.replace(old, new)
    policy.write_text(text, encoding="utf-8")
    add_visits(policy, [(person, dt.date(2025, month, 1 + i)) for person, month in itertools.product(range(40), range(1, 13))
                        for i in range(min(month, 3))])
    return policy


def add_visits(policy: Path, visits: Iterable[tuple[int, dt.date | None]], cost: int = 10) -> None:
    """Add visits: of whom, and when."""
    with duckdb.connect(policy.parent / "data.duckdb") as connection:
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", [
            (person, day, None if day is None else dt.datetime.combine(day, dt.time(12)), cost) for person, day in visits])
