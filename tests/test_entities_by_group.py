"""Numbers of distinct entities by group: an entity is counted once in each group, however many rows it has."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from support import worlds
from support.golden.dense import dense
from support.sessions import session_of

from dpsql.audit.exact import Exact
from dpsql.dbapi import Connection

MANY_ROWS = worlds.POLICY.replace("person = 3, household = 12", "person = 50, household = 50")
TEXTS = {
    "SELECT year, COUNT(DISTINCT person_id) FROM visits GROUP BY year": 5,
    "SELECT clinic, COUNT(DISTINCT person_id) FROM visits WHERE cost > 10 GROUP BY clinic": 5,
    "SELECT points, COUNT(DISTINCT person_id) FROM scores GROUP BY points": 12,
    "SELECT year >= 2020 AS late, COUNT(DISTINCT person_id) FILTER (WHERE cost < 400) FROM visits GROUP BY late": 3,
}


@pytest.mark.parametrize("text", TEXTS)
def test_an_entity_moves_each_group_by_one(text: str, tmp_path: Path) -> None:
    with Connection(session_of(tmp_path, dense(), policy=MANY_ROWS, at={"epsilon": 1})) as connection:
        cursor = connection.execute(text)
        (error,) = {row[1] for row in cursor.errors}
        assert error == pytest.approx(2**0.5 * TEXTS[text], rel=0.01)


@pytest.mark.parametrize("text", TEXTS)
def test_no_row_is_left_out_by_that(text: str, tmp_path: Path) -> None:
    world = dense()
    plain = duckdb.connect()
    world.fill(plain)
    with Connection(session_of(tmp_path, world, policy=MANY_ROWS, noise=Exact())) as connection:
        answer = dict(connection.execute(text).fetchall())
    expected = dict(plain.execute(text).fetchall())
    assert {key: answer[key] for key in expected if key in answer} == {key: value for key, value in expected.items() if key in answer}
    assert all(value == 0 for key, value in answer.items() if key not in expected)


def test_one_entity_with_odd_rows_moves_each_group_by_one_at_most(tmp_path: Path) -> None:
    """Hundreds of equal rows, missing and undeclared values of every key: without this person, no group has more than one fewer."""
    base = dense()
    odd = [(10**6 + i, 1, year, clinic, 15.0, None, None) for i, (year, clinic) in enumerate(
        [(None, None), (1999, "a"), (2020, "elsewhere"), (2018, "a"), (2019, None), *[(2020, "b")] * 200])]
    world = worlds.World({**base.rows, "visits": [*base.rows["visits"], *odd]})
    for number, text in enumerate(TEXTS):
        found = []
        for which, rows in (("with", world), ("without", world.without("person", 1))):
            folder = tmp_path / f"{which}{number}"
            folder.mkdir()
            with Connection(session_of(folder, rows, policy=MANY_ROWS, noise=Exact())) as connection:
                found.append(dict(connection.execute(text).fetchall()))
        moved = [found[0][key] - found[1][key] for key in found[1]]
        assert found[0].keys() == found[1].keys() and set(moved) <= {0, 1} and sum(moved) >= 1, text
