"""Riders, each of whom has at most four trips, and meetings of two riders each, at most six of one: enough rows for averages."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb
from support import worlds
from support.sessions import cursor_of, session_of

from dpsql.backends.duckdb import DuckReader, lock_down
from dpsql.dbapi import Connection

POLICY = """
version = 1
[entities.rider]
table = "riders"
key = "rider"
[tables.riders]
key = "rider"
[tables.riders.columns]
rider = {}
town = { values = ["north", "south"], nullable = false }
age = { range = [0, 100], nullable = false }
pay = { bounds = [0, 1000], decimals = 2 }
[tables.trips]
foreign_keys = [{ columns = "rider", references = "riders(rider)" }]
rows_per_entity = 4
limits_hold = true
[tables.trips.columns]
rider = {}
kind = { values = ["bike", "bus", "car"], nullable = false }
fare = { bounds = [0, 100], nullable = false }
stop = { range = [0, 2000], nullable = false }
[tables.meetings]
foreign_keys = [{ columns = "a", references = "riders(rider)" }, { columns = "b", references = "riders(rider)" }]
rows_per_entity = 6
limits_hold = true
[tables.meetings.columns]
a = {}
b = {}
place = { values = ["pub", "park"], nullable = false }
minutes = { bounds = [0, 100], nullable = false }
[tables.calls]
foreign_keys = [{ columns = "rider", references = "riders(rider)" }]
[tables.calls.columns]
rider = {}
length = { bounds = [0, 10], nullable = false }
[budgets.pure]
entity = "rider"
epsilon = 1000
[budgets.rho]
entity = "rider"
rho = 1000
[budgets.mixed]
entity = "rider"
epsilon = 1000
delta = 1e-6
"""
RIDERS = 1500


@lru_cache(maxsize=1)
def reader() -> DuckReader:
    """A locked database of 1,500 riders, with 3,750 trips and 2,250 meetings."""
    draw, connection = random.Random(4), _tables()
    riders = [(i, draw.choice(["north", "south"]), draw.randint(18, 80), None if i % 10 == 0 else round(draw.uniform(0, 800), 2))
              for i in range(RIDERS)]
    trips = [(i, draw.choice(["bike", "bus", "car"]), draw.uniform(5, 60), draw.randint(0, 2000))
             for i in range(RIDERS) for _ in range(1 + i % 4)]
    meetings = [(i, (i + step) % RIDERS, draw.choice(["pub", "park"]), draw.uniform(10, 70))
                for step in (1, 7) for i in range(0, RIDERS, 1 if step == 1 else 2)]
    for table, rows in (("riders", riders), ("trips", trips), ("meetings", meetings), ("calls", [(i, 5.0) for i in range(RIDERS)])):
        worlds.insert(connection, table, rows)
    lock_down(connection)
    return DuckReader(connection, "v1")


def riders_of(ages: Sequence[int]) -> DuckReader:
    """A locked database of riders of these ages, without trips."""
    connection = _tables()
    worlds.insert(connection, "riders", [(i, "north", age, None) for i, age in enumerate(ages)])
    lock_down(connection)
    return DuckReader(connection, "v1")


def _tables() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("CREATE TABLE riders (rider INTEGER PRIMARY KEY, town VARCHAR NOT NULL, age INTEGER NOT NULL, pay DOUBLE)")
    connection.execute("CREATE TABLE trips (rider INTEGER, kind VARCHAR NOT NULL, fare DOUBLE NOT NULL, stop INTEGER NOT NULL)")
    connection.execute("CREATE TABLE meetings (a INTEGER, b INTEGER, place VARCHAR NOT NULL, minutes DOUBLE NOT NULL)")
    connection.execute("CREATE TABLE calls (rider INTEGER, length DOUBLE NOT NULL)")
    return connection


def connected(folder: Path, budget: str = "rho", **given: Any) -> Connection:
    """A connection with a new ledger."""
    return Connection(session_of(folder, reader=cursor_of(given.pop("reader", None) or reader()), policy=given.pop("policy", POLICY), budget=budget, at={}, **given))
