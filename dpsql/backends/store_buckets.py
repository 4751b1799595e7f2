"""Buckets of a store that are not on this machine; see `backends.spark`."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import duckdb

from dpsql.plan.stored import StoredTable


class FarBuckets(Protocol):
    """The buckets of a store, each of which somebody else reads."""

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

    def collect(self, cursor: duckdb.DuckDBPyConnection, parts: Sequence[str], held: Collection[str]) -> None:
        """Run one statement for each bucket, in order, and put the rows together in the table `PARTS`. They may also name public
        tables, and those of released rows that are `held`, all of which the cursor sees. Raises duckdb.Error or
        `reader.ReaderFault` where anything fails."""
        ...

    def brought(self, cursor: duckdb.DuckDBPyConnection, sql: str) -> contextlib.AbstractContextManager[None]:
        """A context in which the cursor can read the rows that a statement over all buckets names, where these are elsewhere."""
        ...

    def close(self) -> None: ...
