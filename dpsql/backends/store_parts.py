"""Preparing a store of tables that grow, without writing again what is there.

A growing table is stored in *parts*: the rows of some of its source files each, in files of their own, by the same buckets of
entities as all other tables. A part stays as long as it is what would be written now: its source files are there and unchanged
(`source_files.FileState`), and the table is declared, read and owned as before, by the same version of the engine (`origin_of`).
So the rows of files that are new, and of changed files, make one new part. What is in no file of its own, such as a table in a
database, is written as a whole when that file changes, because any of its rows may have.

*Why each row is there once.* The parts in force were read from disjoint sets of files, which together are the files of the table
as it was opened, and each file was read in the way that the whole table is; a row of a file does not depend on other files, as
its owner is found in the row or in tables that are a part of the origin. So the parts have exactly the rows of the whole table,
and keys that were found to be unique in it are unique in them.

*Facts* are learned from the rows of one part, when its files are finished, and stay with it. What a statement uses are those of
the parts that it reads (`plan.stored.StoredTable`).

*If it is broken off.* New files are in a new folder, and no file that a manifest names is changed. The manifest is remembered,
and then replaced at once, after all that it names is on the disk: before, the previous store is in force with all of its files,
and afterwards the new one. Files that no manifest names are removed afterwards, or by the next preparation.

Rows are sorted by day, so the engine finds those of a few periods in a large part. There are at most `MOST_PARTS` of a table, as
each is an open file for every bucket: if there are more, the smallest half becomes one, together with the new rows, which are
read from the source files again. Adding a day so writes a few times as many rows as the day has, on average over many days.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeAlias

from dpsql.backends.duckdb import DuckReader
from dpsql.backends.manifests import put_in_place
from dpsql.backends.owned_rows import OwnedRows
from dpsql.backends.parted_rows import Bucketing
from dpsql.backends.source_files import FileState
from dpsql.backends.store import PartFiles, RememberedFacts, Store, fact_of, is_whole, last_store, manifest_of, states_of
from dpsql.backends.store_writer import (
    ROWS_OF_BUCKET,
    chosen_cut,
    not_written,
    prepared_as,
    remove,
    storable,
    tidy,
    with_bucket,
    write_buckets,
)
from dpsql.catalog.model import Catalog
from dpsql.frozen import Frozen, asdict, replace
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.plan.expr.printing import text_literal
from dpsql.trusted.plan.stored import StoredPart, StoredTable, bucket_name, shape_of

MOST_PARTS = 32  # of a table
MOST_FILES = 512  # of all parts together, for a few buckets: processes may often open no more than 1024
LARGER = 2  # times the rows of a bucket, from which on more buckets are better
Narrowed: TypeAlias = Callable[[Mapping[str, frozenset[Path]]], AbstractContextManager[tuple[DuckReader, Catalog]]]


class Found(Frozen):
    """A part: its files, and the facts about its rows. Its number is not the one in the new store."""

    files: PartFiles
    facts: StoredPart


class PartOrigin(Frozen):
    """What the rows of a table rest on: its own source files, none where they are in no files of their own, and all the rest."""

    rest: str
    files: tuple[FileState, ...]


def prepare_by_parts(reader: DuckReader, catalog: Catalog, folder: Path, *, salt: int, facts: RememberedFacts,
                     buckets: int | None, tell: Callable[[str], None], narrowed: Narrowed) -> Store:
    """Make the store of an entity, some of whose tables grow, and put it in force; see `store_writer.prepare`. `narrowed` opens
    the same data with only some source files of some tables."""
    before = last_store(folder, catalog.entity.name, facts)
    with not_written(folder):
        making = Making(reader=reader, catalog=catalog, folder=folder, salt=salt, tell=tell, narrowed=narrowed,
                        before=before if before is not None and _may_stay(before, buckets) else None)
        store, made = making.store(buckets)
        try:
            text = store.as_json()
            facts.keep(fact_of(text))
            put_in_place(manifest_of(folder, catalog.entity.name), text, [file.path for file in store.files.values()
                                                                          if file.path.parent in made])
        except BaseException:
            for place in made:
                remove(place)
            raise
    tidy(folder)
    return store


def _may_stay(before: Store, buckets: int | None) -> bool:
    """Whether entities stay in the buckets that they are in: they cannot move from one to another without writing all rows."""
    if before.cut is None or buckets not in (None, before.cut["buckets"]):
        return False
    rows = max(table.rows for table in before.tables.values())
    return buckets is not None or rows <= LARGER * ROWS_OF_BUCKET * before.cut["buckets"]


class Making(Frozen):
    """A store that is made, of which some files are there `before`."""

    reader: DuckReader
    catalog: Catalog
    folder: Path
    salt: int
    tell: Callable[[str], None]
    narrowed: Narrowed
    before: Store | None

    def store(self, buckets: int | None) -> tuple[Store, list[Path]]:
        """The store, and the folders that were made for it. Raises ReaderFault, OSError, and removes these folders then."""
        tables = storable(self.catalog)
        cut = Bucketing(**self.before.cut) if self.before is not None and self.before.cut is not None else chosen_cut(
            self.reader, tables, buckets)
        made: list[Path] = []
        try:
            kept = {table.name: self._kept(table, cut, tables) for table in tables if table.growth is not None}
            parts = {name: self._parts(self.catalog.tables[name], cut, found, made) for name, found in kept.items()}
            whole = self._whole([table for table in tables if table.growth is None], cut, made)
        except BaseException:
            for place in made:
                remove(place)
            raise
        numbered = [part for found in parts.values() for part in found]
        stored = {name: _together(self.catalog.tables[name], cut, [
            replace(part.facts, number=numbered.index(part)) for part in found]) for name, found in parts.items()}
        stored |= {table.name: whole.tables[table.name] for table in tables if table.growth is None}
        return Store(entity=self.catalog.entity.name, made_of=self.reader.origin.read_as, buckets=whole.buckets,
                     tables={table.name: stored[table.name] for table in tables}, parts=tuple(part.files for part in numbered),
                     cut=asdict(cut), buckets_of=whole.buckets_of), made

    def _kept(self, table: Table, cut: Bucketing, tables: Sequence[Table]) -> list[Found]:
        """The parts of a table that stay, the largest first."""
        if self.before is None or table.name not in self.before.tables:
            return []
        origin = origin_of(self.reader, table, cut)
        found = [Found(files=self.before.parts[facts.number], facts=facts) for facts in self.before.tables[table.name].parts]
        found = [part for part in found if part.files.made_of == origin.rest and {*part.files.read} <= {*origin.files}
                 and all(map(is_whole, part.files.buckets))]
        if sum(len(part.files.read) for part in found) != len({file for part in found for file in part.files.read}):
            return []
        found.sort(key=lambda part: -part.facts.rows)
        growing = sum(one.growth is not None for one in tables)
        most = max(2, min(MOST_PARTS, MOST_FILES // (cut.buckets * growing)))
        return found if len(found) < most else found[:most // 2]

    def _parts(self, table: Table, cut: Bucketing, kept: list[Found], made: list[Path]) -> list[Found]:
        """The parts that stay, and one with the rows that are in none of them, if there are files with such rows."""
        origin = origin_of(self.reader, table, cut)
        there = {file for part in kept for file in part.files.read}
        left = tuple(file for file in origin.files if file not in there)
        if kept and not left:
            return kept
        if not kept:
            return [self._part(self.reader, table, cut, origin, origin.files, made)]
        with self.narrowed({table.name: frozenset(file.path for file in left)}) as (reader, catalog):
            alone = origin_of(reader, catalog.tables[table.name], cut)
            if (alone.rest, {*alone.files}) == (origin.rest, {*left}):
                return [*kept, self._part(reader, catalog.tables[table.name], cut, origin, left, made)]
        return [self._part(self.reader, table, cut, origin, origin.files, made)]  # by themselves, the new files have other types

    def _part(self, reader: DuckReader, table: Table, cut: Bucketing, origin: PartOrigin, read: tuple[FileState, ...],
              made: list[Path]) -> Found:
        """A new part, with all rows of a reader."""
        buckets, stored = write_buckets(reader, [table], self._place(made), cut, salt=self.salt, tell=self.tell)
        known, owned = stored[table.name], OwnedRows.of(table)
        in_period, first, last = 0, 1, 0
        for file in buckets:
            reader.write(f"ATTACH {text_literal(file.path)} AS {bucket_name(0)} (READ_ONLY)")
            (most, low, high), = reader.rows(owned.days_sql(0))
            reader.write(f"DETACH {bucket_name(0)}")
            if most:
                first, last = (low, high) if first > last else (min(first, low), max(last, high))
                in_period = max(in_period, most)
        return Found(files=PartFiles(table=table.name, made_of=origin.rest, read=read, buckets=buckets), facts=StoredPart(
            number=0, rows=known.rows, most=known.most, in_period=in_period, first=first, last=last, ends=known.ends))

    def _whole(self, tables: Sequence[Table], cut: Bucketing, made: list[Path]) -> Store:
        """The buckets with all tables that do not grow: those that are there, if they were made of the same files."""
        origins = [origin_of(self.reader, table, cut) for table in tables]
        made_of = json.dumps([[origin.rest, [file.as_plain() for file in origin.files]] for origin in origins])
        before = self.before
        if before is not None and before.buckets_of == made_of and all(map(is_whole, before.buckets)):
            return before
        if not tables:
            return Store(entity="", made_of="", buckets=(), tables={}, buckets_of=made_of)
        buckets, stored = write_buckets(self.reader, tables, self._place(made), cut, salt=self.salt, tell=self.tell)
        return Store(entity="", made_of="", buckets=buckets, tables=stored, buckets_of=made_of)

    def _place(self, made: list[Path]) -> Path:
        made.append(self.folder / secrets.token_hex(8))
        made[-1].mkdir(mode=0o700, parents=True)
        self.folder.chmod(0o700)
        return made[-1]


def origin_of(reader: DuckReader, table: Table, cut: Bucketing) -> PartOrigin:
    """What the rows of a table rest on, and how they are put into buckets."""
    told = json.loads(reader.origin.read_as)
    in_files: dict[str, Any] = {one["source"]["table"]: one for one in told["tables"]}
    ways = sorted({step.table for owner in table.owners for step in owner.steps} - {table.name})
    rest = {"engine": told["engine"], "ways": [in_files.get(name, name) for name in ways], "shape": shape_of(table),
            "grows_by": None if table.growth is None else [table.growth.column, table.growth.period], "cut": asdict(cut)}
    if not {table.name, *ways} <= in_files.keys():
        rest |= {"databases": told["databases"], "others": told["others"]}
    own = in_files.get(table.name)
    if own is None:
        return PartOrigin(rest=json.dumps(rest, sort_keys=True), files=())
    source = {name: part for name, part in own["source"].items() if name not in ("files", "told_by")}
    return PartOrigin(rest=json.dumps({**rest, "table": {**own, "source": source}}, sort_keys=True),
                  files=states_of(own["source"]["files"]))


def _together(table: Table, cut: Bucketing, parts: Sequence[StoredPart]) -> StoredTable:
    """The facts about a table in some parts. An entity has at most as many rows as in all parts together."""
    assert table.growth is not None
    stored = prepared_as(table, cut.buckets)
    for part in parts:
        stored = with_bucket(stored, StoredTable(shape="", rows=part.rows, ends=part.ends))
    grows_by = table.growth.column, table.growth.period
    return replace(stored, most=sum(part.most for part in parts), parts=tuple(parts), grows_by=grows_by)
