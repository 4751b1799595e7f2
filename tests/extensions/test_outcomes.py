"""Whether a sum over rows of several entities is answered is not decided by the rows: statements whose totals, entities or ties
were too much for solvers, or for the roundings of certificates, through the public face.
"""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pytest
from support.policies import policy_of

import dpsql
from dpsql.trusted.kernel.ledger import Ledger

POLICY = policy_of("people", "", """
[tables.friends]
foreign_keys = [{ columns = "a", references = "people(person)" }, { columns = "b", references = "people(person)" }]
[tables.friends.columns]
a = {}
b = {}
[tables.trips]
foreign_keys = [{ columns = "x", references = "people(person)" }, { columns = "y", references = "people(person)" },
                { columns = "z", references = "people(person)" }]
[tables.trips.columns]
x = {}
y = {}
z = {}
cost = { range = [0, 100000] }
""", key="person", budget="main")
TRIANGLES = ("COUNT(*) FROM friends f JOIN friends g ON f.b = g.a JOIN friends h ON h.a = f.a AND h.b = g.b "
             "WHERE f.a < f.b AND g.a < g.b AND h.a < h.b")


def world(tmp_path: Path, people: int, friends: list[tuple[int, int]], trips: list[tuple[int, int, int, int]]) -> dpsql.dbapi.Connection:
    with duckdb.connect(str(tmp_path / "world.duckdb")) as made:
        made.execute(f"CREATE TABLE people AS SELECT CAST(i AS BIGINT) AS person FROM range({people}) AS t(i)")
        made.execute("CREATE TABLE friends (a BIGINT NOT NULL, b BIGINT NOT NULL)")
        made.execute("CREATE TABLE trips (x BIGINT NOT NULL, y BIGINT NOT NULL, z BIGINT NOT NULL, cost BIGINT NOT NULL)")
        for table, rows in (("friends", friends), ("trips", trips)):
            if rows:
                made.execute(f"INSERT INTO {table} VALUES " + ", ".join(map(str, rows)))
    (tmp_path / "policy.toml").write_text(POLICY, encoding="utf-8")
    Ledger.create(tmp_path / "policy.ledger").close()
    return dpsql.connect(tmp_path / "world.duckdb", policy=tmp_path / "policy.toml", ledger=tmp_path / "policy.ledger")


def answered(con: dpsql.dbapi.Connection, text: str, options: str) -> bool:
    rows = con.cursor().execute(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {text}").fetchall()
    return len(rows) == 1 and rows[0][0] is not None


@pytest.mark.slow
@pytest.mark.parametrize("options", ["epsilon = 1, bound = 'extension', clip = 1", "epsilon = 1, bound = 'extension', clip = 7",
                                     "epsilon = 0.01", "epsilon = 0.01, bound = 'r2t'", "epsilon = 1, bound = 'removals'",
                                     "epsilon = 0.1, bound = 'recursive'"])
@pytest.mark.parametrize("members", [3, 47, 48, 60])
def test_mutual_friends_are_counted_however_many_they_are(members: int, options: str, tmp_path: Path) -> None:
    with world(tmp_path, members, [(a, b) for b in range(members) for a in range(b)], []) as con:
        assert answered(con, TRIANGLES, options)


@pytest.mark.parametrize("epsilon", [0.01, 1])
@pytest.mark.parametrize("bound", ["", "r2t", "balance", "removals", "recursive", "extension"])
def test_trips_of_three_are_added_up_in_cents(bound: str, epsilon: float, tmp_path: Path) -> None:
    draw = random.Random(1)
    trips = [(*draw.sample(range(60), 3), draw.randint(500, 20_000)) for _ in range(800)]
    options = f"epsilon = {epsilon}" + (f", bound = '{bound}'" if bound else "") + (", clip = 3" if bound == "extension" else "")
    with world(tmp_path, 60, [], trips) as con:
        for _ in range(2):
            assert answered(con, "SUM(cost) FROM trips", options)


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], [(0, 39_999, 39_999)]])
def test_many_heavy_entities_with_rows_of_their_own_and_one_that_shares(more: list[tuple[int, int, int]], tmp_path: Path) -> None:
    trips = [(at, at, at, 17) for at in range(40_000)] + [(*owners, 17) for owners in more]
    with world(tmp_path, 40_000, [], trips) as con:
        for clip in ("removals", "recursive"):
            assert answered(con, "SUM(cost) FROM trips", f"epsilon = 1, bound = '{clip}'")
