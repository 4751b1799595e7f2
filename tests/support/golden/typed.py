"""A table with a column of every type that a database may hold: also numbers that are NaN, and a public table without rows."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import duckdb
from support.worlds import insert

from dpsql.backends.duckdb import DuckReader, lock_down

POLICY = """
version = 1

[entities.person]
table = "people"
key = "id"

[tables.people]
key = "id"
[tables.people.columns]
id = {}
x = { bounds = [-10, 10] }
given = { bounds = [0, 10] }
certain = { bounds = [0, 10], nullable = false }
f = { values = [0.1, 0.5, 33.3] }
d = { bounds = [-5, 5], decimals = 3 }
large = { bounds = [0, 1e12], decimals = 2 }
huge = { bounds = [0, 1e15] }
b = { bounds = [0, 1000] }
decade = { range = [0, 99] }
w = {}
t = {}
day = { range = [2000-01-01, 2000-03-31] }
seen = { bounds = [2000-01-01T00:00:00, 2001-01-01T00:00:00] }
k = { values = ["a", "B", "\\u00e7"] }
n = { values = [1, 2, 3] }
flag = {}
half = { values = [0.5, 1.0, 2.25] }
cents = { values = [0.10, 0.20, 1.00] }

[tables.pub]
public = true
[tables.pub.columns]
k = {}
v = {}
day = {}

[tables.nothing]
public = true
[tables.nothing.columns]
k = {}
v = {}

[budgets.person]
entity = "person"
epsilon = 1000
delta = 0.1
"""

SCHEMA = {
    "people": "id BIGINT PRIMARY KEY, x DOUBLE, given DOUBLE NOT NULL, certain DOUBLE, f FLOAT, d DECIMAL(18,3), large DECIMAL(38,2), "
              "huge HUGEINT, b BIGINT, decade BIGINT, w UBIGINT, t VARCHAR, day DATE, seen TIMESTAMP, k VARCHAR, n TINYINT, "
              "flag BOOLEAN, half DOUBLE, cents DECIMAL(5,2)",
    "pub": "k VARCHAR, v DOUBLE, day DATE",
    "nothing": "k VARCHAR, v DOUBLE",
}
PUBLIC = [("a", 1.5, dt.date(2000, 1, 1)), ("B", -0.0, None), ("B", 2.0, dt.date(2000, 2, 1)), (None, None, None)]
TEXTS = ["a", "A", "\u00e1", "\u00df", "SS", "", " a", "a "]


def typed(people: int = 200) -> DuckReader:
    """A locked database in memory. All values lie within their bounds."""
    draw = random.Random(3)

    def sometimes(value: Any) -> Any:
        return None if draw.random() < 0.15 else value

    rows = []
    for i in range(people):
        x = draw.choice([float("nan"), 1.0, 2.5, -3.25, 0.0, -0.0])
        rows.append((i, sometimes(x), draw.choice([float("nan"), 1.5, 9.0]), draw.choice([1.5, 9.0]),
                     sometimes(draw.choice([0.1, 0.5, 33.3])), sometimes(Decimal(draw.randint(-5000, 5000)) / 1000),
                     sometimes(Decimal(draw.randint(0, 10**14)) / 100), sometimes(draw.randint(0, 10**15)),
                     sometimes(draw.randint(0, 1000)), sometimes(draw.randint(0, 99)), sometimes(draw.randint(2**63, 2**64 - 1)),
                     sometimes(draw.choice(TEXTS)), sometimes(dt.date(2000, 1, 1) + dt.timedelta(days=draw.randint(0, 90))),
                     sometimes(dt.datetime(2000, 1, 1) + dt.timedelta(seconds=draw.randint(0, 360 * 86_400))),
                     sometimes(draw.choice(["a", "B", "\u00e7"])), sometimes(draw.randint(1, 3)), sometimes(draw.random() < 0.5),
                     sometimes(draw.choice([0.5, 1.0, 2.25])), sometimes(Decimal(draw.choice([10, 20, 100])) / 100)))
    connection = duckdb.connect(":memory:", config={"threads": 1})
    for table, columns in SCHEMA.items():
        connection.execute(f"CREATE TABLE {table} ({columns})")
    insert(connection, "people", rows)
    insert(connection, "pub", PUBLIC)
    lock_down(connection)
    return DuckReader(connection, "v1")
