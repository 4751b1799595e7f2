"""A subquery means what DuckDB says: the printed plan of each of these has the rows of its text, on several worlds.

Clamps and limits of rows are left out of the comparison (they are what privacy adds). So are the documented differences:
guards give NULL where DuckDB raises or gives NaN and infinities, and numbers with a fraction are DOUBLE.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support import worlds
from support.binding import Bench, bench, printed, table, unclamped

SUBQUERIES = (Path(__file__).parent / "relations.sql").read_text().splitlines()[1:]

WORLDS = {"several": worlds.world(3), "other": worlds.world(8, people=20), "alone": worlds.world(5, people=1),
          "empty": worlds.World()}


@pytest.fixture(scope="module", params=WORLDS)
def a_bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with bench(WORLDS[request.param]) as made:
        yield made


def test_there_are_enough_of_them() -> None:
    assert len(SUBQUERIES) == len(set(SUBQUERIES)) >= 100


@pytest.mark.parametrize("text", SUBQUERIES)
def test_the_printed_plan_has_the_rows_of_the_text(a_bench: Bench, text: str) -> None:
    node, columns, _ = a_bench.relation(text)
    shown = ", ".join(f't."{column}"' for column in columns)
    ours = a_bench.plain.execute(f"SELECT {shown} FROM ({printed(unclamped(node))}) AS t").fetchall()
    assert table(ours) == table(a_bench.plain.execute(f"SELECT * FROM ({text}) AS t").fetchall())


@pytest.fixture(scope="module")
def homes() -> Iterator[Bench]:
    """A world in which everybody has a household: rows without an owner would be dropped."""
    drawn = worlds.world(4, people=15)
    people = [(row[0], row[1] if row[1] is not None else 0, *row[2:]) for row in drawn.rows["people"]]
    with bench(worlds.World({**drawn.rows, "people": people})) as made:
        yield made


@pytest.mark.parametrize("text", SUBQUERIES)
def test_the_same_holds_where_households_are_protected(homes: Bench, text: str) -> None:
    node, columns, _ = homes.relation(text, budget="household")
    shown = ", ".join(f't."{column}"' for column in columns)
    ours = homes.plain.execute(f"SELECT {shown} FROM ({printed(unclamped(node))}) AS t").fetchall()
    assert table(ours) == table(homes.plain.execute(f"SELECT * FROM ({text}) AS t").fetchall())


@pytest.mark.parametrize("a_bench", ["empty"], indirect=True)
@pytest.mark.parametrize("text", SUBQUERIES)
def test_columns_have_the_names_that_duckdb_gives(a_bench: Bench, text: str) -> None:
    _, _, names = a_bench.relation(text)
    expected = [column[0] for column in a_bench.plain.execute(f"SELECT * FROM ({text}) AS t LIMIT 0").description]
    assert [name.lower() for name in names if not name.startswith("col")] == [
        known.lower() for name, known in zip(names, expected, strict=True) if not name.startswith("col")]
