"""Tiny databases for joins of several relations: people with a few likes and friends, public tags; and a graph of edges."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from typing import Any

import duckdb

from dpsql.backends.duckdb import DuckReader
from dpsql.backends.scratch import DuckScratch
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.schema import fit
from dpsql.frozen import Frozen, field
from dpsql.questions.rules.limit_rows import limit_rows
from dpsql.questions.rules.prune_columns import prune_columns
from dpsql.sql.binding.bind import bind
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query
from dpsql.trusted.kernel.publics import Publics
from dpsql.trusted.measurements.reading.content import Content
from dpsql.trusted.measurements.reading.request import Context
from dpsql.trusted.plan.node import Node, Printing

POLICY = """
version = 1
[entities.person]
table = "people"
key = "person"
[entities.edge]
table = "edges"
key = "edge"
[tables.people]
key = "person"
[tables.people.columns]
person = {}
town = { range = [0, 3] }
size = { range = [-2, 4] }
[tables.likes]
rows_per_entity.person = 2
foreign_keys = [{ columns = "person", references = "people(person)" }]
[tables.likes.columns]
person = {}
thing = {}
how = {}
[tables.friends]
foreign_keys = [{ columns = "a", references = "people(person)" }, { columns = "b", references = "people(person)" }]
[tables.friends.columns]
a = {}
b = {}
[tables.calls]
foreign_keys = [{ columns = "person", references = "people(person)" }]
[tables.calls.columns]
person = {}
town = {}
[tables.tags]
public = true
[tables.tags.columns]
thing = {}
tag = { range = [0, 2] }
[tables.edges]
key = "edge"
[tables.edges.columns]
edge = {}
u = {}
v = {}
[budgets.person]
entity = "person"
epsilon = 1000
delta = 0.1
[budgets.edge]
entity = "edge"
epsilon = 1000
delta = 0.1
"""
SCHEMA = {
    "people": "person INTEGER PRIMARY KEY, town INTEGER, size INTEGER",
    "likes": "person INTEGER, thing INTEGER, how INTEGER",
    "friends": "a INTEGER, b INTEGER",
    "calls": "person INTEGER, town INTEGER",
    "tags": "thing INTEGER, tag INTEGER",
    "edges": "edge INTEGER PRIMARY KEY, u INTEGER, v INTEGER",
}
UNIQUE_EDGES = "edge INTEGER PRIMARY KEY, u INTEGER NOT NULL, v INTEGER NOT NULL, UNIQUE (u, v)"
Row = tuple[Any, ...]
Rows = Mapping[str, list[Row]]


class Small(Frozen, kw_only=False):
    """Rows by table; what hangs on an entity comes and leaves with it."""

    rows: Rows = field(default_factory=dict)
    unique: bool = False

    def of(self, table: str) -> list[Row]:
        return self.rows.get(table, [])

    def without(self, entity: str, key: int) -> Small:
        if entity == "edge":
            return Small({**self.rows, "edges": [row for row in self.of("edges") if row[0] != key]}, self.unique)
        return Small({**self.rows, **{table: [row for row in self.of(table) if row[0] != key] for table in ("people", "likes")}},
                     self.unique)

    def plus(self, more: Rows) -> Small:
        return Small({**self.rows, **{table: [*self.of(table), *rows] for table, rows in more.items()}}, self.unique)

    def connection(self) -> duckdb.DuckDBPyConnection:
        made = duckdb.connect(":memory:", config={"threads": 1})
        for table, columns in SCHEMA.items():
            made.execute(f"CREATE TABLE {table} ({UNIQUE_EDGES if table == 'edges' and self.unique else columns})")
        self.fill(made)
        return made

    def fill(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Put these rows in place of what is there."""
        texts = [f"DELETE FROM {table}" for table in SCHEMA]
        texts += [f"INSERT INTO {table} VALUES " + ", ".join(
            "(" + ", ".join("NULL" if value is None else str(value) for value in row) + ")" for row in rows)
            for table, rows in self.rows.items() if rows]
        connection.execute("; ".join(texts))

    def reader(self) -> DuckReader:
        return DuckReader(self.connection(), "v")


def people(draw: random.Random, count: int) -> Small:
    """So many people, each with up to three likes (one more than are kept), among few values, some of them NULL."""
    some = [0, 0, 1, None]
    rows: dict[str, list[Row]] = {"people": [], "likes": [], "tags": [(t, g) for t in range(2) for g in range(draw.randint(0, 2))]}
    for i in range(count):
        rows["people"].append((i, draw.choice(some), draw.randint(-3, 5)))
        rows["likes"] += [(i, draw.choice(some), draw.choice(some)) for _ in range(draw.randint(0, 3))]
    return Small(rows)


def edges(draw: random.Random, count: int, nodes: int, *, unique: bool = False) -> Small:
    pairs = [(u, v) for u in range(nodes) for v in range(nodes) if u != v]
    chosen = draw.sample(pairs, count) if unique else [draw.choice(pairs) for _ in range(count)]
    return Small({"edges": [(i, *pair) for i, pair in enumerate(chosen)]}, unique)


def arrivals(entity: str, world: Small, nodes: int) -> Iterator[Small]:
    """The databases with one more entity, of every kind that there is up to the names of values that nobody has."""
    key = 1 + max((row[0] for row in world.of("edges" if entity == "edge" else "people")), default=0)
    if entity == "edge":
        there = {row[1:] for row in world.of("edges")} if world.unique else set()
        for pair in itertools.product(range(nodes + 1), repeat=2):
            if pair not in there:
                yield world.plus({"edges": [(key, *pair)]})
        return
    things = list(itertools.product((0, 1), repeat=2))
    for town in (0, 1):
        for likes in itertools.chain([()], itertools.combinations_with_replacement(things, 2)):
            yield world.plus({"people": [(key, town, 4)], "likes": [(key, *like) for like in likes]})


def neighbours(entity: str, world: Small, nodes: int) -> Iterator[Small]:
    table = "edges" if entity == "edge" else "people"
    for row in world.of(table):
        yield world.without(entity, row[0])
    yield from arrivals(entity, world, nodes)


SCRATCH = DuckScratch()


def planned(text: str, reader: DuckReader, entity: str, policy: str = POLICY) -> Node:
    """The rows that a statement asks about, with declared limits enforced."""
    catalog = fit(parse_policy(policy), entity, reader.schema(), lambda *_: [])
    query = parse(text)
    assert isinstance(query, Query)
    question = bind(query, catalog, Publics(reader), SCRATCH, {})
    return limit_rows(prune_columns(question.view))


def context_of(reader: DuckReader, noise: Any = None) -> Context:
    return Context(reader=reader, noise=noise, printing=Printing(salt=7), content=Content(reader), public=Publics(reader))
