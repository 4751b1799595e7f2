"""Truncation keeps the right number of rows of each entity, the same ones however it is printed and whoever else is there."""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import pytest
from plan.operators.small_tables import notes, ref, visits

from dpsql.plan.node import Node, Printing, fold
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.truncate import Truncate

ALL = visits("v")
OWNERS = Project(input=ALL, columns=(("c1", "person", ref(ALL, "v_person")),))
TEXTS = Project(input=ALL, columns=(("c1", "person", ref(ALL, "v_person")), ("c2", "town", ref(ALL, "v_town")),
                                    ("c3", "cost", ref(ALL, "v_cost"))))
WORDS = notes("n")

PLANS: dict[str, tuple[Node, str, tuple[str, ...]]] = {
    "a table, by its key": (ALL, "v_person", ("v_visit",)),
    "a table, by all columns": (ALL, "v_person", ("v_visit", "v_town", "v_cost")),
    "a projection": (TEXTS, "c1", ("c2", "c3")),
    "owners only": (OWNERS, "c1", ()),
    "owners of parents": (WORDS, "n_owner", ("n_visit", "n_word")),
}


def made(rows: list[tuple[int, int | None, str | None, float | None]]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:")
    connection.execute("CREATE TABLE visits (visit INTEGER PRIMARY KEY, person INTEGER, town VARCHAR, cost DECIMAL(9,2))")
    connection.execute("CREATE TABLE notes (visit INTEGER, word VARCHAR)")
    connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", rows)
    connection.execute("INSERT INTO notes SELECT visit, 'w' || (visit * k % 5) FROM visits, range(3) t(k)")
    return connection


def drawn(seed: int) -> list[tuple[int, int | None, str | None, float | None]]:
    draw = random.Random(seed)
    return [(i, draw.choice([None, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 7]), draw.choice([None, "a", "b"]), draw.choice([None, 0, 1.5]))
            for i in range(draw.randint(1, 80))]


def rows_of(plan: Node, connection: duckdb.DuckDBPyConnection, salt: int) -> list[tuple[object, ...]]:
    printing = Printing(salt=salt)
    return connection.execute(fold(plan, lambda node, below: node.render(below, printing))).fetchall()


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("seed", range(4))
def test_each_entity_keeps_its_own_choice_of_rows(name: str, seed: int) -> None:
    below, owner, order = PLANS[name]
    rows = drawn(seed)
    everyone = made(rows)
    at = [field.id for field in below.fields].index(owner)
    full = Counter(rows_of(below, everyone, 0))
    for limit in (1, 2, 5, 1000):
        plan = Truncate(input=below, rows=limit, owner=owner, order=order)
        kept = Counter(rows_of(plan, everyone, seed + 2**62))
        assert kept <= full
        sizes, before = Counter(row[at] for row in kept.elements()), Counter(row[at] for row in full.elements())
        assert sizes == {entity: min(limit, size) for entity, size in before.items()}
        for entity in (0, 1, 2):
            alone = made([row for row in rows if row[1] == entity])
            mine = Counter({row: n for row, n in kept.items() if row[at] == entity})
            assert Counter(rows_of(plan, alone, seed + 2**62)) == mine


def test_the_secret_decides_which_rows_stay() -> None:
    connection = made([(i, 1, "a", 0.0) for i in range(40)])
    for below, owner, order in (PLANS["a table, by its key"], PLANS["owners of parents"]):
        plan = Truncate(input=below, rows=5, owner=owner, order=order)
        chosen = {frozenset(map(str, rows_of(plan, connection, salt))) for salt in range(20)}
        assert len(chosen) > 10
        assert len({row for choice in chosen for row in choice}) > 30


def test_every_row_is_as_likely_to_stay() -> None:
    connection = made([(i, 1, None, None) for i in range(20)])
    plan = Truncate(input=ALL, rows=5, owner="v_person", order=("v_visit",))
    salts = [random.Random(i).getrandbits(64) for i in range(400)]
    stays = Counter(row[0] for salt in salts for row in rows_of(plan, connection, salt))
    assert len(stays) == 20 and max(abs(n - 100) for n in stays.values()) < 6 * (400 * 0.25 * 0.75) ** 0.5
