"""A monthly series, published as months close: old numbers stay, and each new month costs that month only.

    python examples/monthly_series.py

Days are simulated: the clock of this program is set to the sixth of each month, when the month before has just closed.
"""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from pathlib import Path
from typing import Any

import duckdb

import dpsql
from dpsql.catalog import growing
from dpsql.cli import main as shell

POLICY = """
version = 1
database = "clinic.duckdb"

[entities.patient]
table = "patients"
key = "patient"

[tables.patients]
key = "patient"
[tables.patients.columns]
patient = {}

[tables.visits]
grows_by = "day"
period = "month"
since = 2026-01-01
closes = "5 days"
rows_per_entity_and_period = 3
limits_hold = true                # the clinic pays for three visits a month
foreign_keys = [{ columns = "patient", references = "patients(patient)" }]
[tables.visits.columns]
patient = {}
day = {}
urgent = { nullable = false }

[budgets.public]
entity = "patient"
epsilon = 12                      # of a patient in all months
per_period = { epsilon = 1 }      # of a patient in one month
"""
SERIES = """CREATE STANDING QUERY visits AS
SELECT date_trunc('month', day) AS month, urgent, COUNT(*) AS n FROM visits GROUP BY month, urgent OPTIONS (epsilon = 0.25)"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        place = ["--policy", str(folder / "dpsql.toml"), "--budget", "public"]
        make_clinic(folder / "clinic.duckdb")
        (folder / "dpsql.toml").write_text(POLICY)
        shell(["budget", "--create", *place[:2]])
        with dpsql.connect(policy=folder / "dpsql.toml", budget="public", analyst="office") as con:
            con.execute(SERIES)

        told: dict[str, Any] = {}
        for month in (1, 2, 3):
            add_visits(folder / "clinic.duckdb", month)
            if month > 1:
                add_visits(folder / "clinic.duckdb", month - 1, late=True)  # told before, so they change no number
            set_clock(dt.date(2026, month + 1, 6))
            print(f"\non {growing.today()}")
            shell(["publish", "--out", str(folder / "published"), *place])  # what cron or a timer runs
            told = shown((folder / "published" / "visits.json").read_text(), told)
            with dpsql.connect(policy=folder / "dpsql.toml", budget="public", analyst="office") as con:
                left = ", ".join(f"{period}: {left}" for _, period, _, _, left, *_ in con.execute("SHOW PERIODS").fetchall())
                print(f"left in each month ({left}) and in all ({con.budget().accounts[0].left()})")


def shown(text: str, before: dict[str, Any]) -> dict[str, Any]:
    """Print the series; returns the rows of each month, which are those `before` as far as there were any."""
    told = {}
    for period in json.loads(text)["periods"]:
        told[period["period"]] = period["rows"]
        numbers = ", ".join(f"{n} {'urgent' if urgent else 'other'}" for _, urgent, n in period["rows"])
        stays = "as it was" if period["period"] in before else (
            f"new: {period['price in the period']} in the month, {period['price in all']} in all")
        print(f"  {period['period']}: {numbers}; standard error {period['errors'][0][2]:.0f}; {stays}")
    assert before.items() <= told.items()
    return told


def set_clock(day: dt.date) -> None:
    """Let dpsql take a day for today; a real owner has a real clock."""
    growing.today = lambda: day


def make_clinic(path: Path) -> None:
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE patients AS SELECT i AS patient FROM range(2000) AS t(i)")
        con.execute("CREATE TABLE visits (patient BIGINT, day DATE, urgent BOOLEAN)")


def add_visits(path: Path, month: int, *, late: bool = False) -> None:
    """About one visit of each patient, more in later months; or a few that were forgotten."""
    with duckdb.connect(str(path)) as con:
        con.execute(f"INSERT INTO visits SELECT i % 2000, DATE '2026-{month:02}-01' + CAST(i % 28 AS INTEGER), i % 5 = 0 "
                    f"FROM range({50 if late else 1800 + 200 * month}) AS t(i)")


if __name__ == "__main__":
    main()
