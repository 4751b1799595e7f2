"""Making a prepared store: the rows of each table once more, by buckets of entities, sorted by owner, with owners and places.

Rows are read by the very scan that a plan would print (`operators.scan`), so that those without an owner are left out and owners
are named as there; places are those of the ranking that a truncation would print (`operators.ranking`), in the order of this
ledger's secret. A pass over the data parts the rows of several buckets (`parted_rows`), and each of these is then sorted by one
statement for each table (`owned_rows`). That all rows arrive is counted.

Entities whose names are whole numbers without large gaps go into buckets by ranges of these, in which the engine groups them by
arrays; others by a hash of their names.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dpsql.backends.duckdb import DuckReader
from dpsql.backends.manifests import put_in_place
from dpsql.backends.owned_rows import OwnedRows
from dpsql.backends.parted_rows import AT_ONCE, Bucketing, PartedRows, remove_parts
from dpsql.backends.source_files import FileState
from dpsql.backends.store import RememberedFacts, Store, fact_of, manifest_of
from dpsql.catalog.model import Catalog
from dpsql.errors import OperationalError
from dpsql.frozen import Frozen, replace
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.plan.expr.printing import quote, text_literal
from dpsql.trusted.plan.node import Printing
from dpsql.trusted.plan.stored import OWNER, PLACE, StoredTable, bucket_name, place_in_bucket, shape_of
from dpsql.trusted.reader import ReaderFault
from dpsql.types import Type

ROWS_OF_BUCKET = 12_500_000  # of the largest table, about
BYTES_OF_BUCKET = 600 << 20  # in which so many rows are sorted, about
MOST_BUCKETS = 4096
PARTS = "parts"  # the folder, below that of buckets that are made, in which rows are on their way
MADE = re.compile("[0-9a-f]{16}")  # the folders that buckets are made in
DENSE = 4  # of so many whole numbers in a row, one at least is the name of an entity


def prepare(reader: DuckReader, catalog: Catalog, folder: Path, *, salt: int, facts: RememberedFacts,
            buckets: int | None, tell: Callable[[str], None]) -> Store:
    """Make the store of the entity of a catalog and put it in force, replacing the previous one.

    `reader` is not sealed. Raises OperationalError if no table can be prepared, or files cannot be written; the store before
    then stays in force.
    """
    with fresh_buckets(reader, catalog, folder, salt=salt, buckets=buckets, tell=tell) as store:
        text = store.as_json()
        facts.keep(fact_of(text))
        put_in_place(manifest_of(folder, catalog.entity.name), text, [bucket.path for bucket in store.buckets])
    tidy(folder)
    return store


@contextlib.contextmanager
def fresh_buckets(reader: DuckReader, catalog: Catalog, folder: Path, *, salt: int, buckets: int | None,
                  tell: Callable[[str], None]) -> Iterator[Store]:
    """A context with a new store in a folder, which is not in force yet. It is removed if the block fails; see `prepare`."""
    tables = storable(catalog)
    made = folder / secrets.token_hex(8)
    with not_written(folder):
        try:
            made.mkdir(mode=0o700, parents=True)
            folder.chmod(0o700)
            files, stored = write_buckets(reader, tables, made, chosen_cut(reader, tables, buckets), salt=salt, tell=tell)
            yield Store(entity=catalog.entity.name, made_of=reader.origin.read_as, tables=stored, buckets=files)
        except BaseException:
            remove(made)
            raise


@contextlib.contextmanager
def not_written(folder: Path) -> Iterator[None]:
    """A context for writing a store to a folder: failures of reading or writing become errors that name the folder."""
    try:
        yield
    except (ReaderFault, OSError):
        raise OperationalError(f"the store could not be written to {folder}{_free(folder)}; the previous store, if any, "
                               "is still used", code="store", try_='folder = "..." in [store], on a larger disk') from None


def storable(catalog: Catalog) -> list[Table]:
    """The tables whose rows each belong to one entity. Raises OperationalError if there are none, or if one has a column with a
    name that a store reserves."""
    tables = [table for table in catalog.tables.values() if table.owner is not None and not table.content]
    if not tables:
        raise OperationalError(f"there is no table whose rows belong to one {catalog.entity.name} each", code="store",
                               try_="statements without a store, which read the data directly")
    for table in tables:
        if {OWNER, PLACE} & {name.lower() for name in table.columns}:
            raise OperationalError(f"a column of {table.name} has a name that the store uses: {OWNER}, or {PLACE}",
                                   code="store", subject=table.name, try_="another name for it, or statements without a store")
    return tables


def write_buckets(reader: DuckReader, tables: Sequence[Table], folder: Path, cut: Bucketing, *, salt: int,
                  tell: Callable[[str], None]) -> tuple[tuple[FileState, ...], dict[str, StoredTable]]:
    """Write all rows of some tables into a file for each bucket, and return the files, and the facts about the tables. Raises
    ReaderFault, OSError."""
    counted = {table.name: _counted(reader, OwnedRows.of(table))[0] for table in tables}
    stored = {table.name: prepared_as(table, cut.buckets) for table in tables}
    parts = PartedRows(folder=folder / PARTS, tables=tables, cut=cut)
    making = BucketsToMake(reader=reader, tables=tables, folder=folder, salt=salt, parts=parts if cut.buckets > 1 else None)
    for first in range(0, cut.buckets, AT_ONCE):
        tell(f"preparing bucket {first + 1} of {cut.buckets} ...")
        if making.parts is not None:
            parts.write(reader, first)
        with _pool(reader) as pool:
            for number, found in enumerate(pool.map(making.make, range(first, min(first + AT_ONCE, cut.buckets))), start=first):
                tell(f"preparing bucket {number + 1} of {cut.buckets} ...")
                stored = {name: with_bucket(known, found[name]) for name, known in stored.items()}
    if {name: known.rows for name, known in stored.items()} != counted:  # some were lost on the way
        raise ReaderFault
    if making.parts is not None:
        remove_parts(parts.folder)
    return tuple(FileState.of(making.path(number)) for number in range(cut.buckets)), stored


@contextlib.contextmanager
def _pool(reader: DuckReader) -> Iterator[ThreadPoolExecutor]:
    """Threads that make a bucket each: rows are numbered and written by one processor. So many are sorted at a time as there are
    processors, and as memory has room for. When one fails, or is broken off, none begins any more."""
    (memory, threads), = reader.rows("SELECT parse_formatted_bytes(current_setting('memory_limit')), current_setting('threads')")
    pool = ThreadPoolExecutor(max(1, min(threads, memory // BYTES_OF_BUCKET)))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


class BucketsToMake(Frozen):
    """Buckets that are made in a folder, of rows that were parted; or of all rows, where there is one bucket."""

    reader: DuckReader
    tables: Sequence[Table]
    folder: Path
    salt: int
    parts: PartedRows | None

    def path(self, number: int) -> Path:
        return self.folder / f"{number:04}.duckdb"

    def make(self, number: int) -> dict[str, StoredTable]:
        """Make a bucket, and return the facts about its tables. Raises ReaderFault, OSError."""
        self.reader.write(f"ATTACH {text_literal(self.path(number))} AS {bucket_name(number)}")
        with contextlib.nullcontext(Printing()) if self.parts is None else self.parts.shown(self.reader, number) as printing:
            salted = replace(printing, salt=self.salt)
            found = {table.name: self._table(OwnedRows.of(table), number, salted) for table in self.tables}
        self.reader.write(f"DETACH {bucket_name(number)}")
        self.path(number).chmod(0o600)
        return found

    def _table(self, owned: OwnedRows, number: int, printing: Printing) -> StoredTable:
        self.reader.write(f"CREATE TABLE {place_in_bucket(owned.scan.table.name, number)} AS {owned.sql(printing)}")
        return owned.told(self.reader.rows(owned.told_sql(number, self.salt))[0])


def prepared_as(table: Table, buckets: int) -> StoredTable:
    """The facts about a table that are known before its rows are read."""
    return StoredTable(shape=shape_of(table), order=OwnedRows.of(table).order, buckets=buckets)


def chosen_cut(reader: DuckReader, tables: Sequence[Table], buckets: int | None) -> Bucketing:
    """How entities are put into buckets."""
    found = [_counted(reader, OwnedRows.of(table)) for table in tables]
    spans = [(low, high) for _, low, high in found if low is not None and high is not None]
    most = max((count for count, low, _ in found if low is not None), default=0)
    number = min(MOST_BUCKETS, max(1, -(-max(count for count, *_ in found) // ROWS_OF_BUCKET))) if buckets is None else buckets
    if not spans or len({OwnedRows.of(table).kind for table in tables}) > 1:
        return Bucketing(buckets=number)
    low, high = min(low for low, _ in spans), max(high for _, high in spans)
    width = -(-(high - low + 1) // number) if high - low < DENSE * most else 0
    return Bucketing(buckets=number, low=low, width=width)


def _counted(reader: DuckReader, owned: OwnedRows) -> tuple[int, int | None, int | None]:
    """The number of rows with an owner, and the least and the greatest owner, if they are whole numbers."""
    owner = f"t0.{quote(owned.owner)}"
    ends = f"MIN({owner}), MAX({owner})" if owned.kind is Type.BIGINT else "NULL, NULL"
    (count, low, high), = reader.rows(f"SELECT COUNT(*), {ends} FROM ({owned.scan.render((), Printing())}) AS t0")
    return count, low, high


def with_bucket(known: StoredTable, bucket: StoredTable) -> StoredTable:
    """The facts about some buckets, updated by one more bucket."""
    ends = dict(known.ends)
    for column, found in bucket.ends.items():
        before = ends.get(column, found)
        ends[column] = None if found is None or before is None else (min(before[0], found[0]), max(before[1], found[1]))
    return replace(known, rows=known.rows + bucket.rows, most=max(known.most, bucket.most), ends=ends)


def _free(folder: Path) -> str:
    with contextlib.suppress(OSError):
        return f", where {shutil.disk_usage(folder).free >> 20} MB are free"
    return ""


def tidy(folder: Path) -> None:
    """Remove the buckets that no manifest names: of stores before, and of preparations that were broken off. No other process may
    prepare a store meanwhile."""
    named = "".join(manifest.read_text(encoding="utf-8") for manifest in folder.glob("manifest-*.json"))
    for made in folder.iterdir():
        if MADE.fullmatch(made.name) and made.name not in named:
            remove(made)


def remove(made: Path) -> None:
    """Remove a folder of buckets, but no other files in it."""
    with contextlib.suppress(OSError):
        for file in made.glob("*.duckdb*"):
            file.unlink()
        remove_parts(made / PARTS)
        made.rmdir()
