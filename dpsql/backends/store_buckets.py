"""Where a query is run bucket by bucket: in files that are attached, or in the tasks of a cluster (`backends.spark`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

import duckdb

from dpsql.backends.reader import PARTS
from dpsql.backends.store import Store, bucket_name
from dpsql.plan.expr.printing import quote
from dpsql.plan.stored import StoredTable


class StoreBuckets(Protocol):
    """The buckets of a store. Methods are given a cursor of the reader's connection, and raise duckdb.Error or
    `reader.ReaderFault` where anything fails."""

    @property
    def tables(self) -> Mapping[str, StoredTable]:
        """The tables in the buckets."""
        ...

    @property
    def version(self) -> str:
        """Identifies the rows, where they are nowhere but in the buckets."""
        ...

    def check(self) -> None:
        """Raises OperationalError where buckets cannot be read at present."""
        ...

    def collect(self, cursor: duckdb.DuckDBPyConnection, part: str, held: Collection[str]) -> None:
        """Run a statement in each bucket, and put the rows together in the table `PARTS`. It may also name public tables, and
        those of released rows that are `held`, all of which the cursor sees."""
        ...

    def bring(self, cursor: duckdb.DuckDBPyConnection, sql: str) -> None:
        """Let the cursor see the rows of all tables that a query over the whole database names."""
        ...

    def close(self) -> None: ...


class AttachedBuckets:
    """The buckets of a store beside the database they were made from, attached under the names of `bucket_name`."""

    version = ""

    def __init__(self, store: Store) -> None:
        self.store, self.tables = store, store.tables

    def check(self) -> None:
        pass

    def collect(self, cursor: duckdb.DuckDBPyConnection, part: str, held: Collection[str]) -> None:
        """One bucket after the other, so that memory holds the groups of one. The engine uses all processors for one bucket:
        several buckets at a time took as long."""
        tables = [quote(name) for name in self.tables if quote(name) in part]
        for bucket in range(len(self.store.buckets)):
            for name in tables:
                cursor.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM {bucket_name(bucket)}.main.{name}")
            cursor.execute(f"INSERT INTO {PARTS} {part}" if bucket else f"CREATE TEMP TABLE {PARTS} AS {part}")
        for name in tables:
            cursor.execute(f"DROP VIEW {name}")

    def bring(self, cursor: duckdb.DuckDBPyConnection, sql: str) -> None:
        pass

    def close(self) -> None:
        pass
