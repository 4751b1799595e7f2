"""Buckets of a store that are not on this machine; see `backends.spark`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

import duckdb

from dpsql.trusted.plan.stored import StoredTable
from dpsql.trusted.reader import Parts


class FarBuckets(Protocol):
    """The buckets of a store, each of which somebody else reads."""

    @property
    def tables(self) -> Mapping[str, StoredTable]:
        """The tables in the buckets."""
        ...

    @property
    def version(self) -> str:
        """A version that identifies the rows, if they are only in the buckets."""
        ...

    def check(self) -> None:
        """Raises OperationalError if the buckets cannot be read at present."""
        ...

    def collect(self, cursor: duckdb.DuckDBPyConnection, parts: Parts, held: Collection[str]) -> None:
        """Run the statement of each bucket, and collect the rows in a temporary table. The statements may also read public tables
        and the tables of released rows in `held`, all visible to the cursor. If there are many rows, they may be combined. Raises
        duckdb.Error or `reader.ReaderFault` if anything fails."""
        ...

    def close(self) -> None: ...
