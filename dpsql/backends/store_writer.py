"""Making a prepared store: the rows of each table once more, by buckets of entities, sorted by owner, with owners and places.

A bucket is made by one statement for each table, over the very scan that a plan would print (`operators.scan`), so that rows
without an owner are left out and owners are named as there; places are those of the ranking that a truncation would print
(`operators.ranking`), in the order of this ledger's secret. Buckets are made one after the other, each from a pass over the
data: a pass takes a fraction of the time of sorting a bucket, and memory and disk hold no more than that.

Entities whose names are whole numbers without large gaps go into buckets by ranges of these, in which the engine groups them by
arrays; others by a hash of their names.
"""

from __future__ import annotations

import contextlib
import math
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpsql.backends.duckdb import DuckReader
from dpsql.backends.manifests import put_in_place
from dpsql.backends.reader import ReaderFault
from dpsql.backends.source_files import FileState
from dpsql.backends.store import RememberedFacts, Store, fact_of, manifest_of
from dpsql.catalog.model import Catalog, Table
from dpsql.errors import OperationalError
from dpsql.plan.expr.printing import quote, settled, text_literal
from dpsql.plan.node import Printing
from dpsql.plan.operators.ranking import Ranking, row_order
from dpsql.plan.operators.scan import Scan
from dpsql.plan.stored import OWNER, PLACE, StoredTable, bucket_name, place_in_bucket, shape_of
from dpsql.types import Type

ROWS_OF_BUCKET = 12_500_000  # of the largest table, about: sorted in some 500 MB
MOST_BUCKETS = 4096
MADE = re.compile("[0-9a-f]{16}")  # the folders that buckets are made in
DENSE = 4  # of so many whole numbers in a row, one at least is the name of an entity


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucketing:
    """How entities are put into buckets: by ranges of `width` whole numbers from `low` on, or by a hash where `width` is 0."""

    buckets: int
    low: int = 0
    width: int = 0

    def test(self, owner: str, kind: Type, bucket: int) -> str:
        """The condition that the owner of a row is in a bucket, as SQL."""
        if self.buckets == 1:
            return "TRUE"
        if not self.width:
            return f"((hash({settled(owner, kind)}) % {self.buckets}) = {bucket})"
        ends = [f"({owner} >= {self.low + bucket * self.width})"] * (bucket > 0)
        ends += [f"({owner} < {self.low + (bucket + 1) * self.width})"] * (bucket + 1 < self.buckets)
        return " AND ".join(ends)


def prepare(reader: DuckReader, catalog: Catalog, folder: Path, *, salt: int, facts: RememberedFacts,
            buckets: int | None, tell: Callable[[str], None]) -> Store:
    """Make the store of the entity of a catalog and put it in force, in place of the one before.

    `reader` is not sealed. Raises OperationalError where no table can be prepared, or files cannot be written; the store before
    then stays in force.
    """
    with fresh_buckets(reader, catalog, folder, salt=salt, buckets=buckets, tell=tell) as store:
        text = store.as_json()
        facts.keep(fact_of(text))
        put_in_place(manifest_of(folder, catalog.entity.name), text, [bucket.path for bucket in store.buckets])
    _tidy(folder)
    return store


@contextlib.contextmanager
def fresh_buckets(reader: DuckReader, catalog: Catalog, folder: Path, *, salt: int, buckets: int | None,
                  tell: Callable[[str], None]) -> Iterator[Store]:
    """A store that is made in a folder, and not in force. It is removed if what is done with it is broken off; see `prepare`."""
    tables = storable(catalog)
    made = folder / secrets.token_hex(8)
    try:
        made.mkdir(mode=0o700, parents=True)
        folder.chmod(0o700)
        yield _made(reader, catalog.entity.name, tables, made, salt=salt, buckets=buckets, tell=tell)
    except (ReaderFault, OSError):
        remove(made)
        raise OperationalError(f"the store could not be written to {folder}{_free(folder)}; the one before is still used, "
                               "if there is one", code="store", try_='folder = "..." in [store], on a larger disk') from None
    except BaseException:
        remove(made)
        raise


def storable(catalog: Catalog) -> list[Table]:
    """The tables whose rows belong to one entity each. Raises OperationalError where there are none, or one has a column of a
    name that a store needs."""
    tables = [table for table in catalog.tables.values() if table.owner is not None and not table.content]
    if not tables:
        raise OperationalError(f"no table has rows that belong to one {catalog.entity.name} each", code="store",
                               try_="statements as they are: without a store, the data are read where they are")
    for table in tables:
        if {OWNER, PLACE} & {name.lower() for name in table.columns}:
            raise OperationalError(f"a column of {table.name} has the name of one that a store adds: {OWNER}, or {PLACE}",
                                   code="store", subject=table.name, try_="another name for it, or statements without a store")
    return tables


def _made(reader: DuckReader, entity: str, tables: Sequence[Table], folder: Path, *, salt: int, buckets: int | None,
          tell: Callable[[str], None]) -> Store:
    cut = _cut(reader, tables, buckets)
    stored = {table.name: prepared_as(table, cut.buckets) for table in tables}
    files = []
    for number in range(cut.buckets):
        tell(f"preparing bucket {number + 1} of {cut.buckets} ...")
        path = folder / f"{number:04}.duckdb"
        reader.write(f"ATTACH {text_literal(path)} AS {bucket_name(number)}")
        for table in tables:
            place = place_in_bucket(table.name, number)
            reader.write(f"CREATE TABLE {place} AS {OwnedRows.of(table).sql(cut, number, salt)}")
            stored[table.name] = with_bucket(stored[table.name], told_of(table, reader.rows(told_sql(table, place))[0]))
        reader.write(f"DETACH {bucket_name(number)}")
        path.chmod(0o600)
        files.append(FileState.of(path))
    return Store(entity=entity, made_of=reader.origin.read_as, buckets=tuple(files), tables=stored)


def prepared_as(table: Table, buckets: int) -> StoredTable:
    """What is known of a table before its rows are."""
    return StoredTable(shape=shape_of(table), order=OwnedRows.of(table).order, buckets=buckets)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedRows:
    """The rows of a table that have an owner: the scan of its declared columns, and the name under which it carries the owner."""

    scan: Scan
    owner: str

    @classmethod
    def of(cls, table: Table) -> OwnedRows:
        way, ids = table.owners[0], {name: f"c{number}" for number, name in enumerate(table.columns)}
        owner = ids[way.column] if way.in_row and way.column in ids else "owner"
        columns = tuple((column, name) for name, column in ids.items())
        return cls(scan=Scan(table=table, columns=columns, owners=(owner,)), owner=owner)

    @property
    def kind(self) -> Type:
        return self.scan.table.owners[0].type

    @property
    def order(self) -> tuple[str, ...]:
        """The columns of the key by which rows have places; none without a key, and where an owner has one row."""
        names = dict(self.scan.columns)
        return tuple(names[column] for column in self._ranking.order) if self._ranking.distinct and not self.scan.one_row else ()

    @property
    def _ranking(self) -> Ranking:
        return Ranking(input=self.scan, by=(self.owner,), rows=1, order=row_order(self.scan, self.owner))

    def sql(self, cut: Bucketing, bucket: int, salt: int) -> str:
        """The statement of a bucket's rows."""
        raw = {f"r{number}": name for number, (_, name) in enumerate(self.scan.columns)}
        rows = self.scan.rows_where(None, Printing(), beside={column: f"t0.{quote(name)}" for column, name in raw.items()})
        owner = f"t0.{quote(self.owner)}"
        shown = [*(f"t0.{quote(column)} AS {quote(name)}" for column, name in raw.items()), f"{owner} AS {quote(OWNER)}"]
        order = [owner]
        if self.order:
            shown.append(f"{self._ranking.place(Printing(salt=salt), self._ranking.groups)} AS {quote(PLACE)}")
            order.append(quote(PLACE))
        where = cut.test(owner, self.kind, bucket)
        return f"SELECT {', '.join(shown)} FROM ({rows}) AS t0 WHERE {where} ORDER BY {', '.join(order)}"


def _cut(reader: DuckReader, tables: Sequence[Table], buckets: int | None) -> Bucketing:
    """How entities are put into buckets."""
    rows = most = 0
    spans: list[tuple[int, int]] = []
    for table in tables:
        owned = OwnedRows.of(table)
        owner = f"t0.{quote(owned.owner)}"
        ends = f"MIN({owner}), MAX({owner})" if owned.kind is Type.BIGINT else "NULL, NULL"
        (count, low, high), = reader.rows(f"SELECT COUNT(*), {ends} FROM ({owned.scan.render((), Printing())}) AS t0")
        rows, most = max(rows, count), most if low is None else max(most, count)
        spans += [] if low is None else [(low, high)]
    number = min(MOST_BUCKETS, max(1, -(-rows // ROWS_OF_BUCKET))) if buckets is None else buckets
    if not spans or len({OwnedRows.of(table).kind for table in tables}) > 1:
        return Bucketing(buckets=number)
    low, high = min(low for low, _ in spans), max(high for _, high in spans)
    return Bucketing(buckets=number, low=low, width=-(-(high - low + 1) // number) if high - low < DENSE * most else 0)


def told_sql(table: Table, place: str) -> str:
    """The statement of one row that tells of the rows of a bucket, which are in the table `place`."""
    counted = f"SELECT COUNT(*) AS \"n\" FROM {place} AS t0 GROUP BY t0.{quote(OWNER)}"
    ends = ", ".join(f"(SELECT CAST({end}(t0.{quote(name)}) AS {kind}) FROM {place} AS t0)"
                     for name, kind in _numeric(table).items() for end in ("MIN", "MAX"))
    return (f"SELECT CAST(COALESCE(SUM(t1.\"n\"), 0) AS BIGINT), COALESCE(MAX(t1.\"n\"), 0){', ' * bool(ends)}{ends} "
            f"FROM ({counted}) AS t1")


def told_of(table: Table, row: Sequence[Any]) -> StoredTable:
    """What the row of `told_sql` tells."""
    rows, most, *found = row
    pairs = dict(zip(_numeric(table), zip(found[::2], found[1::2], strict=True), strict=True))
    return StoredTable(shape="", rows=rows, most=most, ends={
        name: (low, high) if math.isfinite(low) and math.isfinite(high) else None
        for name, (low, high) in pairs.items() if low is not None})


def _numeric(table: Table) -> dict[str, str]:
    return {name: column.type.value for name, column in table.columns.items() if column.type.numeric}


def with_bucket(known: StoredTable, bucket: StoredTable) -> StoredTable:
    """What is known of some buckets, and of one more."""
    ends = dict(known.ends)
    for column, found in bucket.ends.items():
        before = ends.get(column, found)
        ends[column] = None if found is None or before is None else (min(before[0], found[0]), max(before[1], found[1]))
    return replace(known, rows=known.rows + bucket.rows, most=max(known.most, bucket.most), ends=ends)


def _free(folder: Path) -> str:
    with contextlib.suppress(OSError):
        return f", where {shutil.disk_usage(folder).free >> 20} MB are free"
    return ""


def _tidy(folder: Path) -> None:
    """Remove the buckets that no manifest names: of stores before, and of preparations that were broken off."""
    named = "".join(manifest.read_text(encoding="utf-8") for manifest in folder.glob("manifest-*.json"))
    for made in folder.iterdir():
        if MADE.fullmatch(made.name) and made.name not in named:
            remove(made)


def remove(made: Path) -> None:
    """Remove a folder of buckets, and nothing that somebody else put there."""
    with contextlib.suppress(OSError):
        for file in made.glob("*.duckdb*"):
            file.unlink()
        made.rmdir()
