"""Synthetic rows have the combinations of values that public tables have."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import pytest

import dpsql
from dpsql.answers.simulation import Simulation
from dpsql.questions.question import Combinations
from dpsql.synthesis.method import CodedColumn
from dpsql.synthesis.valid_combinations import valid_rows
from dpsql.trusted.kernel.ledger import Ledger

PLACES = [("c1", "s1", "r1"), ("c2", "s1", "r1"), ("c3", "s2", "r1"), ("c4", "s3", "r2"), ("c5", "s3", "r2"), ("c6", "s3", "r2")]
PAIRS = [(1, "full", "a"), (2, "full", "b"), (3, "half", "b"), (4, "half", "c"), (5, "none", "a")]
POLICY = """
version = 1
database = "star.duckdb"
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
columns = { id = {}, county = {}, tariff = {} }
[tables.counties]
public = true
key = "county"
columns = { county = {}, state = {}, region = {} }
[tables.tariffs]
public = true
key = "tariff"
columns = { tariff = {}, cover = {}, name = {} }
[budgets.main]
entity = "person"
epsilon = 1000
"""


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> dpsql.Connection:
    made: Path = tmp_path_factory.mktemp("star")
    with duckdb.connect(str(made / "star.duckdb")) as data:
        data.execute("CREATE TABLE counties (county VARCHAR PRIMARY KEY, state VARCHAR, region VARCHAR)")
        data.executemany("INSERT INTO counties VALUES (?, ?, ?)", PLACES)
        data.execute("CREATE TABLE tariffs (tariff BIGINT PRIMARY KEY, cover VARCHAR, name VARCHAR)")
        data.executemany("INSERT INTO tariffs VALUES (?, ?, ?)", PAIRS)
        data.execute("CREATE TABLE people AS SELECT i AS id, 'c' || (1 + i % 6) AS county, 1 + i // 7 % 5 AS tariff FROM range(600) AS t(i)")
    (made / "dpsql.toml").write_text(POLICY)
    Ledger.create(made / "dpsql.ledger").close()
    return dpsql.connect(policy=made / "dpsql.toml")


def test_rows_have_the_combinations_of_public_tables(connection: dpsql.Connection) -> None:
    connection.execute("CREATE SYNTHETIC TABLE drawn AS SELECT c.region, c.county, t.name, c.state, t.cover FROM people p JOIN counties c "
                       "USING (county) JOIN tariffs t USING (tariff) OPTIONS (epsilon = 0.15)")
    rows = connection.execute("SELECT county, state, region, cover, name FROM drawn").fetchall()
    assert {row[:3] for row in rows} <= {*PLACES} and {row[3:] for row in rows} <= {pair[1:] for pair in PAIRS}
    assert len({row[:3] for row in rows}) > 2 and len({row[3:] for row in rows}) > 2


def test_what_follows_is_as_near_as_what_it_follows_from(connection: dpsql.Connection) -> None:
    connection.execute("CREATE SYNTHETIC TABLE near AS SELECT c.state, c.county FROM people p JOIN counties c USING (county) "
                       "OPTIONS (epsilon = 50)")
    found = Counter(connection.execute("SELECT county, state FROM near").fetchall())
    assert {key: round(count, -1) for key, count in found.items()} == {place[:2]: 100 for place in PLACES}


def test_rows_are_moved_to_what_is_valid_and_frequent() -> None:
    columns = [CodedColumn(column="a", name="a", values=("x", "y")), CodedColumn(column="b", name="b", values=("p", "q", "r", None))]
    there = (("p", "x"), ("q", "x"), ("q", "y"), ("r", "y"))
    known = Combinations(keys=("b", "a"), rows=there, unconditioned=there, enforced=False)
    places = np.array([[0, 0]] * 50 + [[1, 1]] * 90 + [[0, 1]] * 10 + [[1, 0]] * 7 + [[0, 2]] * 5 + [[0, 3]] * 4)
    found = Counter(map(tuple, valid_rows(places, columns, [known], Simulation(3)).tolist()))
    assert found.keys() <= {(0, 0), (0, 1), (1, 1), (1, 2)} and found.total() == len(places)
    assert found[0, 0] >= 57 and found[1, 2] >= 5, "of the same value of the column with the most values"
    assert np.array_equal(valid_rows(places[:150], columns, [known], Simulation(3)), places[:150]), "valid rows stay"
