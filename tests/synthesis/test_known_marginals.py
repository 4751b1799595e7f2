"""What an account was told before goes into a synthetic table for nothing: if it is about the same rows, and only then."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support import worlds
from support.sessions import open_ledger, reader_of, session_of

from dpsql.audit.exact import Exact
from dpsql.dbapi import Connection
from dpsql.engine.synthesizing import synthesis
from dpsql.models.noisy_marginals import MarginalMeasurement
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Synthesize

MADE = "CREATE SYNTHETIC TABLE made AS SELECT sex, active, age FROM people OPTIONS (epsilon = 1)"
EARLIER = {
    "a GROUP BY": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) active, sex, COUNT(*) AS n FROM people GROUP BY 2, 1",
    "other words": "WITH p AS (SELECT sex AS s, active AS a, income FROM people) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) "
                   "COUNT(*), s, a FROM p GROUP BY s, a ORDER BY COUNT(*)",
    "an accuracy": "SELECT sex, active, COUNT(*) FROM people GROUP BY sex, active STANDARD ERROR 2",
    "a synthetic table": "CREATE SYNTHETIC TABLE other AS SELECT active AS a, sex AS b FROM people OPTIONS (epsilon = 300, "
                         "method = 'mst', workload = 'all 2-way')",
}


def connected(folder: Path, **more: object) -> Connection:
    return Connection(session_of(folder, **{"world": listed(), "noise": Exact(), "at": {"epsilon": 1}, **more}))  # type: ignore[arg-type]


def listed() -> worlds.World:
    """The small world with declared values only."""
    rows = dict(worlds.world().rows)
    rows["people"] = [row for row in rows["people"] if row[2] in ("f", "m", None) and 0 <= row[3] <= 100]
    return worlds.World(rows)


def known(connection: Connection, text: str = MADE) -> dict[tuple[str, ...], MarginalMeasurement]:
    statement = parse(text)
    assert isinstance(statement, Synthesize)
    return {each.columns: each for each in synthesis(statement, connection.session).plan.task.known}


@pytest.mark.parametrize("text", EARLIER)
def test_counts_of_the_same_rows_are_known(text: str, tmp_path: Path) -> None:
    connection = connected(tmp_path)
    assert not known(connection)
    connection.execute(EARLIER[text])
    found = known(connection)[("sex", "active")]
    counts = Counter((row[2], row[6]) for row in listed().rows["people"])
    assert found.values.shape == (3, 3)
    for i, sex in enumerate(("f", "m", None)):
        for j, active in enumerate((False, True, None)):
            assert found.values[i, j] == pytest.approx(counts[sex, active])
    assert 0 < found.variance < 50
    told = str(connection.explain(MADE))
    assert f"reused at no cost: sex, active (± {math.sqrt(found.variance):.4g})" in told or text == "a synthetic table"


def test_sums_of_what_a_workload_measured_are_known(tmp_path: Path) -> None:
    """A strategy with other queries than cells: the marginals follow by least squares, with the variances of a dense solution."""
    connection = connected(tmp_path)
    connection.workload(["SELECT sex, active, COUNT(*) FROM people GROUP BY CUBE (sex, active)",
                         "SELECT COUNT(*) FROM people WHERE sex = 'f' AND NOT active"], rho=0.5)
    found = known(connection)
    assert set(found) == {("sex", "active")}
    counts = Counter((row[2], row[6]) for row in listed().rows["people"])
    assert found["sex", "active"].values[0] == pytest.approx([counts["f", other] for other in (False, True, None)])


@pytest.mark.parametrize("text", [
    "SELECT sex, active, COUNT(*) FROM people WHERE income > 10 GROUP BY sex, active",
    "SELECT sex, active, COUNT(*) FILTER (WHERE age > 3) FROM people GROUP BY sex, active",
    "SELECT sex, active, COUNT(income) FROM people GROUP BY sex, active",
    "SELECT sex, active, SUM(income) FROM people GROUP BY sex, active",
    "SELECT sex, active, COUNT(*) FROM people GROUP BY sex, active HAVING COUNT(*) > 1000",
    "SELECT sex, active, COUNT(*) FROM people GROUP BY sex, active LIMIT 2",
    "SELECT CASE WHEN sex = 'f' THEN 'f' ELSE 'o' END AS sex, active = FALSE AS active, COUNT(*) FROM people GROUP BY ALL",
    "SELECT sex, active, 2 * COUNT(*) FROM people GROUP BY sex, active",
    "CREATE SYNTHETIC TABLE other AS SELECT sex, active FROM people WHERE age < 200 AND income < 3e4",
    "CREATE SYNTHETIC TABLE other AS SELECT p.sex, p.active FROM people p JOIN visits v USING (person_id) OPTIONS (max_rows = 1)",
])
def test_counts_of_other_rows_or_values_are_not(text: str, tmp_path: Path) -> None:
    connection = connected(tmp_path)
    connection.execute(text)
    assert not known(connection)


def test_conditions_and_limits_on_rows_are_part_of_what_is_known(tmp_path: Path) -> None:
    connection = connected(tmp_path)
    of_some = "CREATE SYNTHETIC TABLE {} AS SELECT clinic, year FROM visits WHERE cost > 10 AND year > 2018 OPTIONS (max_rows = {})"
    connection.execute(of_some.format("one", 2))
    again = of_some.replace("clinic, year FROM visits", "v.year + 0 AS later, year, clinic FROM visits AS v")
    assert ("year",) in known(connection, again.format("two", 2))
    assert not known(connection, again.format("two", 1)) and not known(connection, again.replace("10", "11").format("two", 2))
    connection.execute("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows = 2) clinic, COUNT(*) FROM visits WHERE cost > 10 AND year > 2018 "
                       "GROUP BY clinic")
    assert len(known(connection, again.format("two", 2))[("clinic",)].values) == 4 + 1
    connection.execute("SELECT sex, COUNT(*) FROM people WHERE income > 10 AND active GROUP BY sex")
    assert ("sex",) in known(connection, "CREATE SYNTHETIC TABLE made AS SELECT age, sex FROM people WHERE active AND income > 10")


def test_only_what_the_account_was_told_about_these_data(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    ada = connected(tmp_path, ledger=ledger, reader=reader_of(listed(), "v1"))
    ada.execute(EARLIER["a GROUP BY"])
    ada.execute(EARLIER["a synthetic table"])
    assert known(ada)
    for other in ({"analyst": "bea"}, {"budget": "pure"}, {"reader": reader_of(listed(), "v2")}, {"digest": "another policy"}):
        found = known(connected(tmp_path, **{"ledger": ledger, "reader": reader_of(listed(), "v1"), **other}))
        assert not found or other == {"digest": "another policy"}  # the same rows, whatever else the policy says


def test_it_is_used_and_not_measured_again(tmp_path: Path) -> None:
    connection = connected(tmp_path, noise=None)
    for column in ("sex", "active"):
        connection.execute(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 50) {column}, COUNT(*) FROM people GROUP BY {column}")
    table = connection.execute(MADE).synthetic
    assert table is not None and table.known == 2
    new, before = table.marginals[:-2], table.marginals[-2:]
    assert {each.columns for each in before} == {("sex",), ("active",)} and not {("sex",), ("active",)} & {each.columns for each in new}
    assert "measured by earlier statements" in str(table) and "reused at no cost" in table.notes[-1]
    for each in before:
        assert each.error < 0.1 and each.off < 1
    left = connection.budget().accounts[0].left_exactly()
    again = connection.execute(MADE).synthetic  # what is known by now is no part of what identifies the statement
    assert again == table and connection.budget().accounts[0].left_exactly() == left


def test_an_accuracy_is_met_by_what_a_table_measured(tmp_path: Path) -> None:
    connection = connected(tmp_path)
    connection.execute("CREATE SYNTHETIC TABLE made AS SELECT sex FROM people OPTIONS (epsilon = 1)")
    cursor = connection.execute("SELECT COUNT(*) FROM people WHERE sex = 'f' STANDARD ERROR 3")
    assert cursor.cost == "" and cursor.fetchall() == [(sum(row[2] == "f" for row in listed().rows["people"]),)]


def test_what_does_not_fit_into_one_model_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = connected(tmp_path)
    connection.execute(EARLIER["a GROUP BY"])
    connection.execute("SELECT sex, COUNT(*) FROM people GROUP BY sex")
    assert {("sex",), ("sex", "active")} <= set(known(connection))
    monkeypatch.setattr("dpsql.synthesis.methods.aim.MOST_CELLS", 3 + 3 + 10)
    assert set(known(connection)) == {("sex",)}


def test_two_columns_that_a_third_explains_stay_independent_given_it(tmp_path: Path) -> None:
    """From the text to the rows that are drawn: marginals of columns that were not measured together are those of the model, within
    what drawing rows at random would change."""
    draws = np.random.default_rng(4)
    region, names = draws.integers(0, 4, 6000), ("east", "north", "south", "west")
    sex, active = (np.where(draws.random(6000) < 0.8, region % 2 == 0, draws.random(6000) < 0.5) for _ in range(2))
    world = worlds.World({**{table: [] for table in worlds.SCHEMA}, "people": [
        (i, i, "fm"[one], at, 1.0, 1.0, other, None, None, None)
        for i, (at, one, other) in enumerate(zip(region.tolist(), sex.tolist(), active.tolist(), strict=True))]})
    connection = connected(tmp_path, world=world, noise=None)
    query = ("SELECT CASE WHEN age < 1 THEN 'east' WHEN age < 2 THEN 'north' WHEN age < 3 THEN 'south' ELSE 'west' END AS region, "
             "sex, active FROM people WHERE sex IS NOT NULL AND active IS NOT NULL")
    workload = [f"SELECT region, {column}, COUNT(*) FROM made GROUP BY region, {column}" for column in ("sex", "active")]
    table = connection.synthesize(query, name="made", workload=workload, epsilon=20, method="mst", rows=6000)
    assert {each.columns for each in table.marginals if len(each.columns) == 2} == {("region", "sex"), ("region", "active")}
    counts = table.df().groupby(["region", "sex", "active"]).size().unstack(fill_value=0)
    by_model = np.zeros((2, 2))
    for name in names:
        own = counts.loc[name].to_numpy()
        expected = np.outer(own.sum(axis=1), own.sum(axis=0)) / own.sum()
        assert (np.abs(own - expected) <= 3 * np.sqrt(expected) + 1).all()
        by_model += expected
    together = connection.execute("SELECT sex, active, COUNT(*) FROM made WHERE active IS NOT NULL GROUP BY sex, active").fetchall()
    drawn = np.array([count for _, active, count in together if active is not None]).reshape(2, 2)
    assert (np.abs(drawn - by_model) <= 3 * np.sqrt(by_model) + 1).all()
    apart = np.outer(drawn.sum(axis=1), drawn.sum(axis=0)) / drawn.sum()
    assert np.abs(drawn - apart).max() > 6 * np.sqrt(apart.max())  # the two depend on each other all the same
