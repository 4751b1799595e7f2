"""Rows on their way into a store: one pass over the data writes those of several buckets into files, a folder for each bucket.

A pass for each bucket would read all rows once for each of them: the more rows, the more often. The files are Parquet, which the
engine writes by the values of a column and reads fast; they hold the declared columns, and owners that are found along foreign
keys. Not every type comes back as it was from there, so others than `EXACT` go as texts, from which they are cast back. Values
are written one by one (there are no dictionaries, which take 0.0 and -0.0 for one).

The files are private. They are in the folder in which the store is made, which is closed to all others, and are removed as soon
as their bucket is there.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from dpsql.backends.duckdb import DuckReader
from dpsql.backends.owned_rows import OwnedRows
from dpsql.frozen import Frozen
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.plan.expr.printing import quote, settled, text_literal
from dpsql.trusted.plan.node import Printing
from dpsql.trusted.plan.stored import OWNER, StoredTable, bucket_name, place_in_bucket
from dpsql.types import Type

AT_ONCE = 16  # buckets of one pass: a file is open for each
FLUSHED = 131_072  # rows that each thread holds before it writes them
EXACT = re.compile(r"U?(TINYINT|SMALLINT|INTEGER|BIGINT)|FLOAT|DOUBLE|DECIMAL\(.*\)|VARCHAR|UUID|BOOLEAN|DATE|TIMESTAMP", re.I)
WRITTEN = "FORMAT PARQUET, PARQUET_VERSION V2, COMPRESSION uncompressed, DICTIONARY_SIZE_LIMIT 0"


class Bucketing(Frozen):
    """How entities are put into buckets: by ranges of `width` whole numbers from `low` on, or by a hash where `width` is 0. What
    is below the first range, or beyond the last one, is in that: new entities of a table that grows."""

    buckets: int
    low: int = 0
    width: int = 0

    def number(self, owner: str, kind: Type) -> str:
        """The SQL for the number of an owner's bucket."""
        if not self.width:
            return f"(hash({settled(owner, kind)}) % {self.buckets})"
        beyond = self.low + self.width * self.buckets
        return (f"(CASE WHEN {owner} < {self.low} THEN 0 WHEN {owner} >= {beyond} THEN {self.buckets - 1} "
                f"ELSE ({owner} - {self.low}) // {self.width} END)")


class PartedRows(Frozen):
    """The rows of some tables, by bucket, in files below a folder of their own."""

    folder: Path
    tables: Sequence[Table]
    cut: Bucketing

    def write(self, reader: DuckReader, first: int) -> None:
        """Write the rows of up to `AT_ONCE` buckets from the `first` on. Raises ReaderFault, OSError."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        reader.write(f"SET GLOBAL partitioned_write_flush_threshold = {FLUSHED}")
        for at, table in enumerate(self.tables):
            place = text_literal(self.folder / f"{first}-{at}")
            reader.write(f"COPY ({self._parted(OwnedRows.of(table), first)}) TO {place} ({WRITTEN}, PARTITION_BY (bucket))")

    def _parted(self, owned: OwnedRows, first: int) -> str:
        owner = f"t0.{quote(owned.owner)}"
        shown = [f"t0.{column}" if EXACT.fullmatch(kind) else f"CAST(t0.{column} AS VARCHAR) AS {column}"
                 for column, kind in _kinds(owned).items()]
        shown += [] if owned.owner_is_declared else [f"{owner} AS owner"]
        rows = f"SELECT {', '.join(shown)}, {self.cut.number(owner, owned.kind)} AS bucket FROM ({owned.rows(Printing())}) AS t0"
        if self.cut.buckets <= AT_ONCE:
            return rows
        return f"SELECT * FROM ({rows}) AS t1 WHERE t1.bucket >= {first} AND t1.bucket < {first + AT_ONCE}"

    @contextlib.contextmanager
    def shown(self, reader: DuckReader, number: int) -> Iterator[Printing]:
        """A context in which the rows of a bucket are read from the files they were written to, like rows of a store; yields the
        printing settings for this. The files are removed at the end. Raises ReaderFault."""
        at = self.cut.buckets + number  # a bucket of no store
        reader.write(f"ATTACH ':memory:' AS {bucket_name(at)}")
        try:
            for table, files in zip(self.tables, self._files(number), strict=True):
                reader.write(f"CREATE VIEW {place_in_bucket(table.name, at)} AS {_read(OwnedRows.of(table), files)}")
            yield Printing(stored={table.name: StoredTable(shape="") for table in self.tables}, bucket=at)
        finally:
            reader.write(f"DETACH {bucket_name(at)}")
        for file in (file for files in self._files(number) for file in files):
            file.unlink()

    def _files(self, number: int) -> list[list[Path]]:
        """The files of a bucket, of each table; none for one without rows there."""
        first = number - number % AT_ONCE
        return [sorted((self.folder / f"{first}-{at}" / f"bucket={number}").glob("*.parquet")) for at in range(len(self.tables))]


def _kinds(owned: OwnedRows) -> dict[str, str]:
    """The columns that are written, with their types in the database."""
    return {column: owned.scan.table.columns[name].sql_type for column, name in owned.raw.items()}


def _read(owned: OwnedRows, files: Sequence[Path]) -> str:
    """The statement of the rows in some files, as they were before they were written."""
    kinds = _kinds(owned) | ({} if owned.owner_is_declared else {"owner": owned.kind.value})
    names = owned.raw | {"owner": OWNER}
    shown = ", ".join(f"CAST(r.{column} AS {kind}) AS {quote(names[column])}" for column, kind in kinds.items())
    if not files:
        return f"SELECT {shown} FROM (SELECT {', '.join(f'NULL AS {column}' for column in kinds)}) AS r WHERE FALSE"
    listed = ", ".join(map(text_literal, files))
    return f"SELECT {shown} FROM read_parquet([{listed}], hive_partitioning = false, union_by_name = false) AS r"


def remove_parts(folder: Path) -> None:
    """Remove the files that were written below a folder, if it is a folder, without following links out of it."""
    if folder.is_symlink():
        return
    for place, _, files in os.walk(folder, topdown=False):
        for file in files:
            if file.endswith(".parquet"):
                os.unlink(Path(place, file))
        os.rmdir(place)
