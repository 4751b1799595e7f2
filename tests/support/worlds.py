"""Small databases with everything in them: several rows an entity, NULLs, keys, a public table, dates, a second kind of entity."""

from __future__ import annotations

import datetime as dt
import pickle
import random
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb

from dpsql.frozen import Frozen, field
from dpsql.ledgers.ledger_reports import ReportingLedger

POLICY = """
version = 1

[entities.person]
table = "people"
key = "person_id"

[entities.household]
table = "households"
key = "household_id"

[tables.households]
key = "household_id"
[tables.households.columns]
household_id = {}
region = { values = ["east", "north", "south", "west"] }

[tables.people]
key = "person_id"
foreign_keys = [{ columns = "household_id", references = "households(household_id)" }]
rows_per_entity = { household = 4 }
[tables.people.columns]
person_id = {}
household_id = {}
sex = { values = ["f", "m"] }
age = { range = [0, 100], nullable = false, bins = 10 }
income = { bounds = [0, 100000] }
weight = { bounds = "search" }
active = {}
born = { range = [1920-01-01, 2020-12-31] }
nickname = {}

[tables.visits]
key = "visit_id"
foreign_keys = [{ columns = "person_id", references = "people(person_id)" }]
rows_per_entity = { person = 3, household = 12 }
[tables.visits.columns]
visit_id = {}
person_id = {}
year = { range = [2018, 2021] }
clinic = { values_from = "clinics.clinic" }
cost = { bounds = [0, 500], decimals = 2 }
note = {}
seen = { bounds = [2018-01-01T00:00:00, 2021-12-31T23:59:59] }

[tables.scores]
foreign_keys = [{ columns = "person_id", references = "people(person_id)" }]
[tables.scores.columns]
person_id = {}
points = { range = [-5, 5] }

[tables.clinics]
public = true
[tables.clinics.columns]
clinic = {}
city = {}
beds = {}

[budgets.person]
entity = "person"
epsilon = 1000
delta = 0.01

[budgets.pure]
entity = "person"
epsilon = 1000

[budgets.concentrated]
entity = "person"
rho = 1000
delta = 0.01

[budgets.household]
entity = "household"
epsilon = 1000
delta = 0.01
"""

SCHEMA = {
    "households": "household_id INTEGER PRIMARY KEY, region VARCHAR",
    "people": "person_id INTEGER PRIMARY KEY, household_id INTEGER, sex VARCHAR, age INTEGER, income DOUBLE, weight DOUBLE, "
              "active BOOLEAN, born DATE, nickname VARCHAR, secret VARCHAR",
    "visits": "visit_id INTEGER PRIMARY KEY, person_id INTEGER, year INTEGER, clinic VARCHAR, cost DECIMAL(10,2), note VARCHAR, "
              "seen TIMESTAMP",
    "scores": "person_id INTEGER, points INTEGER",
    "clinics": "clinic VARCHAR PRIMARY KEY, city VARCHAR, beds INTEGER",
    "unlisted": "x INTEGER",
}
CLINICS = [("a", "Oslo", 10), ("b", "Oslo", 20), ("c", "Rome", 5), ("d", None, None)]


class World(Frozen, kw_only=False):
    """Rows by table. `without` removes an entity and every row that hangs on it."""

    rows: Mapping[str, list[tuple[Any, ...]]] = field(default_factory=dict)

    def without(self, entity: str, key: Any) -> World:
        rows = {table: list(found) for table, found in self.rows.items()}
        if entity == "household":
            people = {row[0] for row in rows["people"] if row[1] == key}
            rows["households"] = [row for row in rows["households"] if row[0] != key]
        else:
            people = {key}
        rows["people"] = [row for row in rows["people"] if row[0] not in people]
        rows["visits"] = [row for row in rows["visits"] if row[1] not in people]
        rows["scores"] = [row for row in rows["scores"] if row[0] not in people]
        return World(rows)

    def keys(self, entity: str) -> list[Any]:
        return [row[0] for row in self.rows["households" if entity == "household" else "people"]]

    def fill(self, connection: duckdb.DuckDBPyConnection) -> None:
        for table, columns in SCHEMA.items():
            connection.execute(f"CREATE TABLE {table} ({columns})")
            insert(connection, table, self.rows.get(table, []))

    def save(self, path: Path) -> Path:
        """Write a DuckDB file."""
        path.write_bytes(_file_of(pickle.dumps(self)))
        return path


@lru_cache(maxsize=32)
def _file_of(pickled: bytes) -> bytes:
    """The DuckDB file of a world: making one takes a hundred times as long as copying it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "world.duckdb"
        with duckdb.connect(str(path)) as connection:
            made: World = pickle.loads(pickled)
            made.fill(connection)
        return path.read_bytes()


def in_postgresql(columns: str) -> str:
    """The declaration of a table's columns in the types of PostgreSQL that have the same ranges."""
    return columns.replace("INTEGER", "BIGINT").replace("DOUBLE", "DOUBLE PRECISION")


def insert(connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Put rows into a table by one statement: one for each of them takes tens of times as long."""
    if rows:
        kinds = [kind for _, kind, *_ in connection.execute(f"DESCRIBE {table}").fetchall()]
        lists = ", ".join(f"unnest(CAST(${i} AS {kind}[]))" for i, kind in enumerate(kinds, 1))
        connection.execute(f"INSERT INTO {table} SELECT {lists}", [list(column) for column in zip(*rows, strict=True)])


def world(seed: int = 1, people: int = 12, most_visits: int = 5) -> World:
    """A random world. Some values lie out of their declared bounds, some people have more visits than the limit."""
    draw = random.Random(seed)

    def sometimes(value: Any, share: float = 0.15) -> Any:
        return None if draw.random() < share else value

    households = [(i, sometimes(draw.choice(["east", "north", "south", "west", "nowhere"]))) for i in range(max(2, people // 3))]
    persons, visits, scores = [], [], []
    for i in range(people):
        persons.append((i, sometimes(draw.choice(households)[0]), sometimes(draw.choice(["f", "m"])), draw.randint(0, 100),
                        sometimes(draw.choice([draw.uniform(0, 100_000), 10.0**9, -7.0, float("nan")])),
                        sometimes(draw.lognormvariate(4, 1)), sometimes(draw.random() < 0.5),
                        sometimes(dt.date(1930, 1, 1) + dt.timedelta(days=draw.randint(0, 30_000))),
                        sometimes(draw.choice(["al", "bo", "cy", "di", "x'y", ""])), "s" * 3))
        for _ in range(draw.randint(0, most_visits)):
            visits.append((len(visits), i, sometimes(draw.randint(2017, 2022)), sometimes(draw.choice("abcdz")),
                           sometimes(round(draw.uniform(-10, 700), 2)), sometimes(draw.choice(["ill", "well"])),
                           sometimes(dt.datetime(2018, 1, 1) + dt.timedelta(minutes=draw.randint(0, 2_000_000)))))
        for _ in range(draw.randint(0, 3)):
            scores.append((i, sometimes(draw.randint(-7, 7))))
    return World({"households": households, "people": persons, "visits": visits, "scores": scores, "clinics": list(CLINICS),
                  "unlisted": [(1,)]})


def project(folder: Path, people: int) -> Path:
    """The folder, with a world of so many people, its policy and a new ledger."""
    world(people=people).save(folder / "people.duckdb")
    (folder / "dpsql.toml").write_text(POLICY, encoding="utf-8")
    ReportingLedger.create(folder / "dpsql.ledger").close()
    return folder


def removals(full: World, entity: str) -> Iterable[tuple[Any, World]]:
    """Every neighbour that lacks one entity."""
    for key in full.keys(entity):
        yield key, full.without(entity, key)
