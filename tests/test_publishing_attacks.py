"""Attacks on what is published: what breaks a standing query, or makes it tell something false, or tells it to whom it is not told.

Each test is an attempt that succeeded once, or that nothing else tries.
"""

from __future__ import annotations

import csv
import datetime as dt
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.growing_worlds import add_visits, project

import dpsql
from dpsql import cli
from dpsql.catalog import growing
from dpsql.dbapi import Connection
from dpsql.errors import Unsupported

PER_MONTH = "SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n FROM visits GROUP BY month"
COSTLY = PER_MONTH.replace("GROUP", "WHERE cost > 50 GROUP")
BY_SEX = "SELECT date_trunc('month', visited_on) AS month, sex, COUNT(*) AS n FROM visits JOIN people USING (person_id) GROUP BY month, sex"
SHARES = f"SELECT a.month, b.n / a.n AS share FROM ({PER_MONTH}) AS a JOIN ({COSTLY}) AS b ON a.month = b.month"
KINDS = {
    "each": BY_SEX,
    "lags": f"SELECT month, n - LAG(n) OVER (ORDER BY month) AS more FROM ({PER_MONTH})",
    "shares": SHARES,
    "totals": ("SELECT date_trunc('month', visited_on) AS month, SUM(COUNT(*)) OVER (ORDER BY date_trunc('month', visited_on)) AS so_far "
               "FROM visits GROUP BY month"),
    "sets": BY_SEX.replace("GROUP BY month, sex", "GROUP BY ROLLUP (month, sex)"),
    "centred": f"SELECT month, AVG(n) OVER (ORDER BY month ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS smooth FROM ({PER_MONTH})",
}


class Desk:
    """A project in which every person has one visit a month, and its publisher. The budget is a rho."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.day = dt.date(2025, 4, 6)  # March is closed
        monkeypatch.setattr(growing, "today", lambda: self.day)
        self.policy, self.out, self._capsys = project(folder), folder / "out", capsys
        self.edit("epsilon = 1000\ndelta = 1e-3", "rho = 1000")
        self.edit("epsilon = 10, delta = 1e-4", "rho = 20")
        self.edit("epsilon = 5, delta = 1e-4", "rho = 15")
        add_visits(self.policy, itertools.product(range(40), [dt.date(2025, month, 9) for month in range(1, 13)]))

    def edit(self, old: str, new: str) -> None:
        text = self.policy.read_text(encoding="utf-8")
        assert old in text
        self.policy.write_text(text.replace(old, new), encoding="utf-8")

    def connected(self, analyst: str = "ada", **terms: Any) -> Connection:
        return dpsql.connect(policy=self.policy, budget="study", analyst=analyst, **terms)

    def asked(self, sql: str, analyst: str = "ada", **terms: Any) -> list[tuple[Any, ...]]:
        with self.connected(analyst, **terms) as connection:
            return [*connection.execute(sql).fetchall()]

    def create(self, name: str, query: str, options: str = " OPTIONS (rho = 0.5)", analyst: str = "ada", **terms: Any) -> None:
        self.asked(f"CREATE STANDING QUERY {name} AS {query}{options}", analyst, **terms)

    def publish(self, *words: str) -> tuple[int, str]:
        """The exit code, and everything that is said."""
        code = cli.main(["publish", "--policy", str(self.policy), "--budget", "study", "--out", str(self.out), *words])
        told = self._capsys.readouterr()
        return code, " ".join((told.out + told.err).split())

    def rows(self, name: str) -> list[dict[str, str]]:
        return list(csv.DictReader((self.out / f"{name}.csv").read_text(encoding="utf-8").splitlines()))

    def told(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.out / f"{name}.json").read_text(encoding="utf-8"))
        return found

    def numbers(self, name: str, column: str) -> Sequence[str]:
        return [row[column] for row in self.rows(name)]

    def spent(self, analyst: str | None = None) -> float:
        with self.connected() as connection:
            return connection.session.ledger.spent("study", analyst).rho / 10**9


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    return Desk(tmp_path, monkeypatch, capsys)


# -- a policy edited in between


@pytest.mark.parametrize("kind", KINDS)
def test_periods_that_are_no_longer_closed_stay_as_they_were_told(desk: Desk, kind: str) -> None:
    """The owner lets periods close later than they did when some were published."""
    desk.day = dt.date(2025, 7, 6)
    desk.create("x", KINDS[kind])
    assert desk.publish()[0] == 0
    before, table = desk.rows("x"), "SELECT * FROM standing.x ORDER BY ALL"
    shown = desk.asked(table)
    desk.edit('closes = "5 days"', 'closes = "95 days"')  # March is the last one
    code, said = desk.publish()
    assert (code, said) == (0, "x: periods 6, 2025-01 to 2025-06; none new")
    values = [key for key in before[0] if not key.endswith((" low", " high", " error"))]  # what changes is computed anew
    assert [[row[key] for key in values] for row in desk.rows("x")] == [[row[key] for key in values] for row in before]
    assert len(desk.asked(table)) == len(shown)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_never_shows_what_its_rows_are_computed_of(desk: Desk, kind: str) -> None:
    """Where the query has no plan any more, as before the first period closes, its rows are those that were told, or none."""
    desk.create("x", KINDS[kind])
    assert desk.publish()[0] == 0
    table = "SELECT * FROM standing.x ORDER BY ALL"
    shown = desk.asked(table)
    desk.edit('closes = "5 days"', 'closes = "400 days"')
    assert desk.asked(table) == ([] if kind in ("sets", "centred") else shown)
    desk.edit('sex = { values = ["f", "m"], nullable = false }', "")
    desk.edit("[tables.visits.columns]\nperson_id = {}\nvisited_on = {}\nseen_at = {}\ncost = { bounds = [0, 100], decimals = 0 }",
              "[tables.visits.columns]\nperson_id = {}\nvisited_on = {}\nseen_at = {}")
    if kind in ("each", "shares"):  # no plan on any day
        assert desk.asked(table) == shown


@pytest.mark.parametrize("kind", ["lags", "shares", "totals", "sets", "centred"])
@pytest.mark.parametrize("since", ["2024-12-01", "2025-02-01"])
def test_another_first_period_is_refused_before_a_charge(desk: Desk, kind: str, since: str) -> None:
    """Rows that follow from several periods would follow from others than before, or be charged and never shown."""
    desk.create("x", KINDS[kind])
    assert desk.publish()[0] == 0
    before, spent = desk.rows("x"), desk.spent()
    desk.edit("since = 2025-01-01", f"since = {since}")
    desk.day = dt.date(2025, 6, 6)
    code, said = desk.publish()
    assert code == 2 and "the policy has changed" in said and "another standing query, with another name" in said
    assert desk.spent() == spent and [row for row in desk.rows("x") if row["stored"] == "true"] == before


# -- one name, again


def test_the_texts_of_parts_are_those_of_no_statement(desk: Desk) -> None:
    """An analyst who knows them could have a query measured under the text of a part of another one, and publish false numbers."""
    text = f"CREATE STANDING QUERY x AS {SHARES} OPTIONS (rho = 0.5)"
    desk.create("x", SHARES)
    assert desk.publish()[0] == 0
    with desk.connected() as connection:
        parts = {entry.sql for entry in connection.session.ledger.entries("study", "ada")} - {text}
        assert len(parts) == 1
        for part in parts:
            with pytest.raises(dpsql.errors.SqlError):
                connection.execute(part)
