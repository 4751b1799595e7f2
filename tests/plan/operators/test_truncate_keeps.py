"""Truncation keeps the right number of rows of each entity, the same ones however it is printed and whoever else is there."""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import pytest
from support.small_tables import notes, ref, visits
from support.worlds import insert

from dpsql.frozen import replace
from dpsql.trusted.declarations.tables import Column, OwnerPath, Table
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.node import Field, Node, Printing, fold
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.trusted.plan.stored import StoredTable
from dpsql.types import Interval, Type

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
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("CREATE TABLE visits (visit INTEGER PRIMARY KEY, person INTEGER, town VARCHAR, cost DECIMAL(9,2))")
    connection.execute("CREATE TABLE notes (visit INTEGER, word VARCHAR)")
    insert(connection, "visits", rows)
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
    alone = {entity: made([row for row in rows if row[1] == entity]) for entity in (0, 1, 2)}
    for limit in (1, 2, 5, 1000, 2**62):
        plan = Truncate(input=below, rows=limit, owner=owner, order=order)
        kept = Counter(rows_of(plan, everyone, seed + 2**62))
        assert kept <= full
        sizes, before = Counter(row[at] for row in kept.elements()), Counter(row[at] for row in full.elements())
        assert sizes == {entity: min(limit, size) for entity, size in before.items()}
        for entity, own in alone.items():
            mine = Counter({row: n for row, n in kept.items() if row[at] == entity})
            assert Counter(rows_of(plan, own, seed + 2**62)) == mine


def test_places_that_a_bucket_has_are_read_where_they_are_those_of_the_truncation() -> None:
    def text(plan: Truncate, *order: str, table: str = "visits") -> str | None:
        return plan.by_places(Printing(stored={table: StoredTable(shape="", order=order)}, bucket=0))

    two, three = (Truncate(input=ALL, rows=rows, owner="v_person", order=("v_visit",)) for rows in (2, 3))
    for plan in (two, replace(three, input=two), replace(two, input=three)):
        assert (text(plan, "visit") or "").endswith(' FROM "bucket 0".main."visits" AS t0 WHERE t0."place of the row" <= 2')
    by_town = replace(three, order=("v_town", "v_visit"))
    assert text(by_town, "town", "visit") and text(by_town, "visit") is None, "places in another order"
    assert text(replace(two, input=by_town), "visit") is text(replace(by_town, input=two), "visit") is None, "of rows that are left"
    assert text(two) is text(two, "visit", table="people") is None, "without places, and not stored"
    assert text(replace(two, owner="v_visit"), "visit") is None, "places among the rows of others"
    assert text(replace(two, input=TEXTS, owner="c1", order=("c2",)), "visit") is None, "not read in the table"
    alone = Truncate(input=visits("v", "person"), rows=2, owner="v_person", order=())
    assert text(alone, "visit") and text(alone) is None, "rows that are alike may be any of them"


def test_only_whole_numbers_of_32_bits_are_narrowed() -> None:
    connection = duckdb.connect(":memory:")
    for low, high, narrow in ((-(2**31), 2**31 - 1, True), (-(2**31) - 1, 5, False), (5, 2**31, False)):
        facts = Facts(type=Type.BIGINT, nullable=False, physical=Interval(low, high))
        given = Constants(columns=(Field(id="o", name="o", facts=facts), Field(id="x", name="x", facts=Facts(type=Type.VARCHAR))),
                          rows=((low, "a"), (high, "b"), (high, "a")))
        plan = Truncate(input=given, rows=1, owner="o", order=("x",))
        assert ("AS INTEGER" in plan.render(("<0>",), Printing())) is narrow
        assert {row[0] for row in rows_of(plan, connection, 3)} == {low, high}


def test_as_many_rows_stay_as_fit_into_64_bits() -> None:
    for rows, kept in ((1000, 1000), (2**30, 2**30), (2**40, 2**30)):
        plan = Truncate(input=TEXTS, rows=rows, owner="c1", order=("c2", "c3"))
        assert f'(t1."#p" * {kept})' in plan.render(("<0>",), Printing())


def test_the_secret_decides_which_rows_stay() -> None:
    connection = made([(i, 1, "a", 0.0) for i in range(40)])
    for below, owner, order in (PLANS["a table, by its key"], PLANS["owners of parents"]):
        plan = Truncate(input=below, rows=5, owner=owner, order=order)
        chosen = {frozenset(map(str, rows_of(plan, connection, salt))) for salt in range(80)}
        assert len(chosen) > 10
        assert len({row for choice in chosen for row in choice}) > 30


def test_every_row_is_as_likely_to_stay() -> None:
    connection = made([(i, 1, None, None) for i in range(20)])
    plan = Truncate(input=ALL, rows=5, owner="v_person", order=("v_visit",))
    salts = [random.Random(i).getrandbits(64) for i in range(400)]
    stays = Counter(row[0] for salt in salts for row in rows_of(plan, connection, salt))
    assert len(stays) == 20 and max(abs(n - 100) for n in stays.values()) < 6 * (400 * 0.25 * 0.75) ** 0.5


def chosen(plan: Node, connection: duckdb.DuckDBPyConnection, salts: int) -> list[Counter[tuple[object, ...]]]:
    return [Counter(rows_of(plan, connection, random.Random(i).getrandbits(64))) for i in range(salts)]


def test_rows_that_stay_are_spread_over_all() -> None:
    """Where no key tells them apart, in order of their values, so that sums over them vary less than those of any rows."""
    connection = made([(i, 1, "ab"[i % 2], float(i // 2 % 10)) for i in range(200)])
    plan = Truncate(input=TEXTS, rows=20, owner="c1", order=("c2", "c3"))
    for kept in chosen(plan, connection, 10):
        assert kept == {(1, town, float(cost)): 1 for town in "ab" for cost in range(10)}


@pytest.mark.slow
def test_rare_values_are_no_more_likely_than_others() -> None:
    """Nine equal rows and one other: each of the ten is kept as often, though only values tell them apart."""
    connection = made([(i, 1, "rare" if i == 0 else "usual", None) for i in range(10)])
    below = Project(input=ALL, columns=(("c1", "person", ref(ALL, "v_person")), ("c2", "town", ref(ALL, "v_town"))))
    plan = Truncate(input=below, rows=1, owner="c1", order=("c2",))
    rare = sum(kept[1, "rare"] for kept in chosen(plan, connection, 600))
    assert abs(rare - 60) < 6 * (600 * 0.1 * 0.9) ** 0.5


@pytest.mark.parametrize("below", [TEXTS, WORDS], ids=["values", "values of parents"])
def test_entities_choose_apart(below: Node) -> None:
    """Were the choice one of values alone, all entities would keep the same ones."""
    connection = made([(10 * i + j, i, "ab"[j % 2], None) for i in range(60) for j in range(10)])
    owner, order = ("c1", ("c2", "c3")) if below is TEXTS else ("n_owner", ("n_visit", "n_word"))
    at = [field.id for field in below.fields].index("c2" if below is TEXTS else "n_word")
    plan = Truncate(input=below, rows=1, owner=owner, order=order)
    for kept in chosen(plan, connection, 8):
        assert kept.total() == 60 and len({row[at] for row in kept}) > 1
        assert max(Counter(row[at] for row in kept.elements()).values()) < 50


def test_a_key_that_starts_with_the_entity_is_not_the_same_choice_for_all() -> None:
    """Of tables with one row a person and year, each person keeps years of their own."""
    table = Table(name="years", public=False, key=("person", "year"), unique=(frozenset(["person", "year"]),),
                  owners=(OwnerPath(steps=(), column="person", type=Type.BIGINT, not_null=True),),
                  columns={name: Column(name=name, type=Type.BIGINT, sql_type="BIGINT", nullable=False) for name in ("person", "year")})
    connection = duckdb.connect(":memory:")
    connection.execute("CREATE TABLE years AS SELECT i AS person, j AS year FROM range(100) p(i), range(5) y(j)")
    plan = Truncate(input=Scan(table=table, columns=(("p", "person"), ("y", "year")), owners=("p",)), rows=2, owner="p", order=("y",))
    for kept in chosen(plan, connection, 5):
        years = Counter(year for _, year in kept)
        assert len(years) == 5 and max(years.values()) < 80
