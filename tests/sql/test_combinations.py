"""Groups are those that rows of public tables allow: none that has rows is left out, and none is shown that cannot have any."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from support.policies import policy_of

import dpsql
from dpsql.trusted.kernel.ledger import Ledger

PLACES = [("c1", "s1", "r1"), ("c2", "s1", "r1"), ("c3", "s2", "r1"), ("c4", "s3", "r2"), ("c5", "s3", "r2"), ("c6", None, "r2")]
POLICY = policy_of("people", """
county = { values_from = "counties.county", determines = ["state"], by = "counties" }
state = { values_from = "counties.state" }
""", """
[tables.counties]
public = true
key = "county"
columns = { county = {}, state = {}, region = {} }
""", budget="main", database="star.duckdb")
ASKED = {  # with the groups that there are, apart from those of no row
    "SELECT c.state, c.region, COUNT(*) FROM people p JOIN counties c USING (county) GROUP BY c.state, c.region": 4,
    "SELECT county, region, COUNT(*) FROM people JOIN counties USING (county) GROUP BY county, region": 6,
    "SELECT p.county, c.state, c.region, COUNT(*) FROM people p JOIN counties c ON p.county = c.county GROUP BY 1, 2, 3": 6,
    "SELECT c.region, c.state, COUNT(*) FROM people p LEFT JOIN counties c ON p.county = c.county GROUP BY 1, 2": 5,
    "SELECT region, state, COUNT(*) FROM (SELECT c.region, c.state FROM people p JOIN counties c USING (county)) AS t GROUP BY 1, 2": 4,
    "SELECT c.region, c.state, COUNT(*) FROM people p JOIN counties c USING (county) GROUP BY ROLLUP (c.region, c.state)": 7,
    "SELECT c.region, c.state, COUNT(*) FROM people p JOIN counties c USING (county) GROUP BY CUBE (c.region, c.state)": 11,
    "SELECT DISTINCT c.region, c.state FROM people p JOIN counties c USING (county)": 4,
    "SELECT c.region, COUNT(*) FROM people p JOIN counties c USING (county) GROUP BY c.region": 2,
    "SELECT p.county, p.state, COUNT(*) FROM people p GROUP BY p.county, p.state": None,
    "SELECT d.state, c.region, COUNT(*) FROM people p JOIN counties c USING (county) JOIN counties d ON p.state = d.state GROUP BY 1, 2": None,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made, drawn = tmp_path_factory.mktemp("star"), random.Random(5)
    with duckdb.connect(str(made / "star.duckdb")) as connection:
        connection.execute("CREATE TABLE counties (county VARCHAR PRIMARY KEY, state VARCHAR, region VARCHAR)")
        connection.executemany("INSERT INTO counties VALUES (?, ?, ?)", PLACES)
        connection.execute("CREATE TABLE people (id BIGINT PRIMARY KEY, county VARCHAR, state VARCHAR)")
        homes = [drawn.choice([*PLACES, ("elsewhere", "s1", ""), (None, None, "")]) for _ in range(300)]
        connection.executemany("INSERT INTO people VALUES (?, ?, ?)", [(i, home[0], home[1]) for i, home in enumerate(homes)])
    shutil.copy(made / "star.duckdb", made / "plain.duckdb")
    (made / "dpsql.toml").write_text(POLICY)
    Ledger.create(made / "dpsql.ledger").close()
    return made


@pytest.fixture(scope="module")
def connection(folder: Path) -> Iterator[dpsql.Connection]:
    with dpsql.connect(policy=folder / "dpsql.toml", epsilon=60) as opened:
        yield opened


@pytest.mark.parametrize("text", ASKED)
def test_every_group_with_rows_is_there_and_no_impossible_one(text: str, folder: Path, connection: dpsql.Connection) -> None:
    found = connection.execute(text).fetchall()
    keys = [tuple(row[:-1]) if "COUNT" in text else tuple(row) for row in found]
    with duckdb.connect(str(folder / "plain.duckdb"), read_only=True) as plain:
        there = [tuple(row[:-1]) if "COUNT" in text else tuple(row) for row in plain.execute(text).fetchall()]
    known = {place[0] for place in PLACES}
    assert {key for key in there if "elsewhere" not in key or key[0] in known} <= {*keys}, "a group with rows is missing"
    if ASKED[text] is not None:
        assert len(keys) == ASKED[text]


@pytest.mark.parametrize("text", [text for text in ASKED if "COUNT" in text and "d.state" not in text])
def test_the_counts_are_those_of_the_rows(text: str, folder: Path, connection: dpsql.Connection) -> None:
    """Also where several columns are measured as one. (A state that is NULL and the sum over all states have the same keys.)"""
    off: Counter[tuple[str | None, ...]] = Counter()
    with duckdb.connect(str(folder / "plain.duckdb"), read_only=True) as plain:
        for *keys, count in plain.execute(text).fetchall():
            off[tuple(keys)] -= count
    for *keys, count in connection.execute(text).fetchall():
        off[tuple(keys)] += count
    assert all(abs(count) < 3 for keys, count in off.items() if keys[0] != "elsewhere")


def test_a_total_has_the_noise_of_the_groups_that_exist(connection: dpsql.Connection) -> None:
    """Of five groups, about 6, and not of the twelve combinations of regions and states, about 9."""
    joined = "FROM people p LEFT JOIN counties c ON p.county = c.county GROUP BY ROLLUP (c.region, c.state)"
    (low, high), *_ = (row[-1] for row in connection.execute(
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, strategy = 'identity') c.region, c.state, COUNT(*) {joined}").intervals
        if row[-1] is not None)
    assert (high - low) / 2 < 7.5


def test_other_groups_are_not_counted_in_means(folder: Path, connection: dpsql.Connection) -> None:
    text = ("SELECT c.region, c.state, AVG(COUNT(*)) OVER (PARTITION BY c.region) FROM people p JOIN counties c USING (county) "
            "GROUP BY 1, 2")
    with duckdb.connect(str(folder / "plain.duckdb"), read_only=True) as plain:
        there = {tuple(row[:-1]): row[-1] for row in plain.execute(text).fetchall()}
    assert {tuple(keys): round(mean) for *keys, mean in connection.execute(text).fetchall()} == {
        keys: round(mean) for keys, mean in there.items()}


def test_counts_add_up_to_those_of_all_rows(connection: dpsql.Connection) -> None:
    whole, = connection.execute("SELECT COUNT(*) FROM people p JOIN counties c USING (county)").fetchone() or (0,)
    parts = connection.execute("SELECT c.region, c.state, COUNT(*) FROM people p JOIN counties c USING (county) GROUP BY 1, 2").fetchall()
    assert abs(sum(count for *_, count in parts) - whole) < 2


def test_rows_whose_values_do_not_go_together_are_told_to_be_left_out(connection: dpsql.Connection) -> None:
    cursor = connection.execute("SELECT county, state, COUNT(*) FROM people GROUP BY county, state")
    assert any("undeclared combinations of county and state" in note for note in cursor.notes)


def test_a_condition_with_a_released_value_leaves_all_groups(connection: dpsql.Connection) -> None:
    text = "SELECT c.state, COUNT(*) FROM people p JOIN counties c USING (county) WHERE length(c.state) > (SELECT COUNT(*) FROM people) GROUP BY 1"
    assert len(connection.execute(text).fetchall()) == 4
