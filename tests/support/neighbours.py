"""Suites of VALIDATE on a database and on all its neighbours: how far slacks move, against what is charged for them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
from support.sessions import session_of
from support.worlds import insert

from dpsql.audit.exact import Exact
from dpsql.backends.duckdb import DuckReader, lock_down
from dpsql.engine.session import Session
from dpsql.engine.validating import validation
from dpsql.frozen import Frozen
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.measurements.flip_distance import NoisyFlipDistance, moved, read, slack_of
from dpsql.trusted.plan.certificate import Sensitivity
from dpsql.validation.calls import statement_of
from dpsql.validation.check_plan import CheckPlan

HEAD = """
version = 1
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
[tables.people.columns]
id = {}
group = { values = ["a", "b", "c"] }
age = { range = [0, 99] }
"""
BUDGET = """
[budgets.person]
entity = "person"
epsilon = 1000
delta = 0.01
"""
NAN, INF = math.nan, math.inf
YEARS = range(1, 11)

Rows = Mapping[str, list[tuple[Any, ...]]]


KEPT: dict[str, duckdb.DuckDBPyConnection] = {}
MOST = 64


class World(Frozen, kw_only=False):
    """Tables by their columns, their rows, a policy, and for each table the places of the columns that name an entity."""

    ddl: Mapping[str, str]
    policy: str
    rows: Rows
    named: Mapping[str, Sequence[int]]
    budget: str = "person"

    def reader(self, rows: Rows) -> DuckReader:
        """Databases are kept for a while, as many tests look at the same ones, and nothing writes to them."""
        name = repr((self.ddl, rows))
        if name not in KEPT:
            if len(KEPT) == MOST:
                KEPT.clear()
            KEPT[name] = self._filled(rows)
        return DuckReader(KEPT[name].cursor(), "v1")

    def _filled(self, rows: Rows) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(":memory:", config={"threads": 1})
        for table, columns in self.ddl.items():
            connection.execute(f"CREATE TABLE {table} ({columns})")
            insert(connection, table, rows[table])
        lock_down(connection)
        return connection

    def session(self, folder: Path) -> Session:
        return session_of(folder, reader=self.reader(self.rows), policy=self.policy, budget=self.budget, noise=Exact())

    def frames(self, *tables: str) -> dict[str | None, pd.DataFrame]:
        """The tables as they are, to stand for themselves."""
        reader = self.reader(self.rows)
        found: dict[str | None, pd.DataFrame] = {table: reader._connection.execute(f"SELECT * FROM {table}").df() for table in tables}
        reader.close()
        return found

    def neighbours(self, session: Session) -> Iterator[Kernel]:
        """The kernel of each database that lacks one entity; the secret of truncations stays."""
        entities = {row[at] for table, places in self.named.items() for row in self.rows[table] for at in places}
        for entity in sorted(entities):
            rows = {table: [row for row in own if entity not in [row[at] for at in self.named.get(table, ())]]
                    for table, own in self.rows.items()}
            kernel = Kernel(self.reader(rows), session.ledger, Exact())
            yield kernel
            kernel.close()


class Moved(Frozen, kw_only=False):
    """How many slacks are charged for, how far they move (l1, and the square of l2), and the plan."""

    charged: int
    l1: int
    l2: int
    plan: CheckPlan


def planned(queries: Sequence[str], world: World, session: Session, *tables: str, within: object = 100,
            parameters: Sequence[Any] = (), **options: Any) -> CheckPlan:
    statement, brought = statement_of(list(queries), world.frames(*tables), within, {"epsilon": 1, **options})
    return validation(statement, session, tuple(parameters), brought)


def slacks(request: NoisyFlipDistance, kernel: Kernel) -> list[int]:
    """The slacks of the tests by themselves, whatever is told of them."""
    certificates = kernel._certificates(request)
    return [slack_of(sides, moved(test, certificate)) for test, sides, certificate in zip(
        request.tests, read(request.tests, kernel._context()), certificates, strict=True)]


def charged(request: NoisyFlipDistance, kernel: Kernel) -> int:
    """Of how many numbers that move by 1 the price is charged."""
    once, whole = request.noise.cost(Sensitivity(l1=1, l2=1)), request.cost(*kernel._certificates(request))
    times = whole.rho / once.rho if once.epsilon is None else Fraction(whole.epsilon or 0) / once.epsilon
    assert times.denominator == 1
    return int(times)


def farthest(queries: Sequence[str], world: World, folder: Path, *tables: str, **options: Any) -> Moved:
    """The farthest that slacks move with any entity."""
    session = world.session(folder)
    plan = planned(queries, world, session, *tables, **options)
    request = next(plan.steps())
    assert isinstance(request, NoisyFlipDistance)
    assert plan.allotted.covers(request.cost(*session.kernel._certificates(request)))
    here = slacks(request, session.kernel)
    steps = [[abs(a - b) for a, b in zip(here, slacks(request, kernel), strict=True)] for kernel in world.neighbours(session)]
    found = Moved(charged=charged(request, session.kernel), l1=max(map(sum, steps)), plan=plan,
                  l2=max(sum(step * step for step in each) for each in steps))
    session.close()
    return found


def visits(key: str = ', PRIMARY KEY (person, year)', limit: int | None = None) -> World:
    """A table with a row for each person and year; by its key, or by a declared limit."""
    people = [(i, "abc"[i % 3], 7 * i % 100) for i in range(6)]
    rows = [(i, year, (i * year) % 4 if i else 100 + year, 1.5 * year, dt.date(2020, 1, year), None if year == 3 else f"d{i}")
            for i in range(6) for year in YEARS if i == 0 or (i + year) % 3]
    limited = f"rows_per_entity = {limit}\n" if limit else ""
    names = 'key = ["person", "year"]\n' if key else ""
    return World(
        ddl={"people": 'id INTEGER PRIMARY KEY, "group" VARCHAR, age INTEGER',
             "visits": f"person INTEGER, year INTEGER, diag INTEGER, cost DOUBLE, day DATE, note VARCHAR{key}"},
        policy=HEAD + f"""
[tables.visits]
{names}{limited}foreign_keys = [{{ columns = "person", references = "people(id)" }}]
[tables.visits.columns]
person = {{}}
year = {{ range = [1, 10] }}
diag = {{ bounds = [0, 200] }}
cost = {{ bounds = [0, 20], decimals = 1 }}
day = {{ range = [2020-01-01, 2020-12-31] }}
note = {{}}
""" + BUDGET, rows={"people": people, "visits": rows}, named={"people": [0], "visits": [0]})


def pairs(limit: int = 1) -> World:
    """A table without a key, of whose rows each person keeps some: which, depends on the columns that are read."""
    people = [(i, "abc"[i % 3], 7 * i % 100) for i in range(8)]
    people = people[:6]
    values = [(1, 2, -0.0, True), (2, 1, 0.0, False), (1, 10, NAN, None), (2, 20, INF, True), (3, 1, 1.5, False)]
    rows = [(i, a + 2 * (i > 0), b + i if b >= 10 else b, c + 0 if c == 0 and i % 2 else c, d, dt.datetime(2020, 1, a, a))
            for i in range(6) for a, b, c, d in values]
    return World(
        ddl={"people": 'id INTEGER PRIMARY KEY, "group" VARCHAR, age INTEGER',
             "pairs": "person INTEGER, a INTEGER, b INTEGER, c DOUBLE, d BOOLEAN, seen TIMESTAMP"},
        policy=HEAD + f"""
[tables.pairs]
rows_per_entity = {limit}
foreign_keys = [{{ columns = "person", references = "people(id)" }}]
[tables.pairs.columns]
person = {{}}
a = {{ range = [0, 9] }}
b = {{ range = [0, 30] }}
c = {{ bounds = [0, 9] }}
d = {{}}
seen = {{}}
""" + BUDGET, rows={"people": people, "pairs": rows}, named={"people": [0], "pairs": [0]})


def friends() -> World:
    """Rows of two entities each, and entities of two kinds."""
    people = [(i, "abc"[i % 3], 7 * i % 100) for i in range(5)]
    rows = [(i, j, 2 * i + j, (i + j) % 3) for i in range(5) for j in range(i)]
    return World(
        ddl={"people": 'id INTEGER PRIMARY KEY, "group" VARCHAR, age INTEGER', "met": "a INTEGER, b INTEGER, times INTEGER, place INTEGER"},
        policy=HEAD + """
[tables.met]
foreign_keys = [{ columns = "a", references = "people(id)" }, { columns = "b", references = "people(id)" }]
[tables.met.columns]
a = {}
b = {}
times = { bounds = [0, 20] }
place = { range = [0, 2] }
""" + BUDGET, rows={"people": people, "met": rows}, named={"people": [0], "met": [0, 1]})
