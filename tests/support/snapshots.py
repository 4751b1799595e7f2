"""Tables of tests in databases of other kinds, and snapshots of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.postgres import Postgres, fresh
from support.worlds import POLICY, SCHEMA, World

from dpsql.backends.duckdb import DuckReader
from dpsql.catalog.policy import read_policy
from dpsql.engine.opening import open_reader
from dpsql.engine.refreshing import refresh

KEYED = POLICY.replace("[tables.clinics]", '[tables.clinics]\nkey = "clinic"')


def in_sqlite(path: Path, tables: Mapping[str, tuple[str, Sequence[Sequence[Any]]]]) -> str:
    """Tables in a new SQLite file, by name with their columns and rows. Returns its URI."""
    with sqlite3.connect(path) as connection:
        for table, (columns, rows) in tables.items():
            connection.execute(f"CREATE TABLE {table} ({columns})")
            if rows:
                plain = [[value if isinstance(value, bytes | int | float | None) else str(value) for value in row] for row in rows]
                connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' for _ in rows[0])})", plain)
    connection.close()
    return f"sqlite:///{path}"


def in_postgres(tables: Mapping[str, tuple[str, Sequence[Sequence[Any]]]]) -> Postgres:
    """Tables in a new database of the server."""
    database = fresh()
    for table, (columns, rows) in tables.items():
        database.run(f"CREATE TABLE {table} ({columns.replace('DOUBLE', 'DOUBLE PRECISION')})")
        if rows:
            database.fill(table, rows)
    return database


def tables_of(world: World) -> dict[str, tuple[str, Sequence[Sequence[Any]]]]:
    return {table: (columns, world.rows.get(table, [])) for table, columns in SCHEMA.items()}


def snapshot_of(uri: str, folder: Path, policy: str = KEYED) -> DuckReader:
    """A reader of a snapshot of the tables of a policy, all in one database."""
    folder.mkdir(exist_ok=True)
    (folder / "dpsql.toml").write_text(policy.replace("version = 1", f'version = 1\ndatabase = "{uri}"', 1), encoding="utf-8")
    refresh(policy=folder / "dpsql.toml")
    reader = open_reader(read_policy(folder / "dpsql.toml"), None)
    assert isinstance(reader, DuckReader)
    return reader
