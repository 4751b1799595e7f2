"""Tables in CSV and Parquet files.

*Tables of DuckDB files* are attached for reading, and shown by views, too; what the engine believes of these it wrote itself.

*Parquet files are read where they are*, by views that name them. What the engine believes of a file without reading its rows must
not decide which rows it reads. The least and the largest value of a block of rows leave out NaN, by the format's own rules, so a
person's NaN was read or not depending on the values around it; old writers compared texts in another order, so that one person's
name hid the rows of others; and a file may be wrong about them. So every column is shown as CASE WHEN c IS NOT NULL THEN TRY(c)
END: of that the engine knows nothing, and it reads the block. (CASE alone passes on what is known of texts. `can_have_nan` does
the same for numbers.) A block that says that all its values are NULL is shown so, whatever it holds: rows of a file that lies
there are lost, the same ones in every query.

A view knows no key, and reading it may fail for a row, such as one whose text is not UTF-8. So before anything is served all
declared columns of all rows are read once, also of those that lack the key, as a condition may be tested before the key is; and
declared keys are checked (`unique_keys`). Other columns are not read. Both stay within the memory that the engine has, which
spills to disk. What was found is remembered (`ledgers.proven_facts`), for these very files and this very view. Foreign keys need
no check: a row whose parent is missing is dropped whenever it is read (`operators.scan`).

Files that have grown are checked as a whole. A file that is another one now may have other rows in any place, not only at its
end; and where a folder has one file more, its rows may share the keys of the others, which have to be read again for that.

A query reads the columns that it names, and of these all blocks of rows. To leave out blocks by a condition, the engine would
have to believe what the file says of them.

*CSV files are loaded*, into a database that spills to disk as well: reading one again and again takes far longer than that.

*Public tables are loaded* from files of every kind. People other than the owner may write these files at any time, and a charged
statement must not fail because of that. It ends with the rows that it began with, and the next one is refused.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from dpsql.backends.cleaning import cleaned, values_of_texts
from dpsql.backends.csv_files import TEXTS, UnclosedQuote, names_in, put_texts
from dpsql.backends.duckdb import (
    IN_MEMORY,
    DuckReader,
    allow_stores,
    attach_database,
    attach_memory,
    check_version,
    connected,
    group_densely,
    lock_down,
    with_memory,
)
from dpsql.backends.source_files import DataOrigin, SourceFiles, files_of_database, fingerprint, name_below
from dpsql.backends.store import NO_STORE, FindStore, NothingKnown, RememberedFacts, Store, is_whole, origin_text
from dpsql.backends.unique_keys import share_key
from dpsql.catalog.reading import USUAL_CELL, USUAL_CSV, CellReading, CsvFormat
from dpsql.catalog.reading_words import differences
from dpsql.errors import IntegrityError, InternalError, OperationalError
from dpsql.frozen import Frozen, field, field_names, replace
from dpsql.trusted.plan.expr.printing import quote, text_literal
from dpsql.trusted.plan.stored import place_in_bucket

MAGIC = b"PAR1"  # at both ends of a Parquet file
PLACE = "file of the row"  # the name that the engine gives to the column with the path of a row's file
BESIDE = "database beside files"
TEXT = "VARCHAR"
LOADED = "rows of a public table"  # the name of a table until it has its own
ATTACHED = "database of a source"  # with a number behind it
MOMENTS = "DATE", "TIMESTAMP"  # the types of a time column that can decide which files hold a period
NO_VALUE = "NullType()"  # what the engine calls the type of a column in Parquet files without any value
UNKNOWN_FOLDER = "__HIVE_DEFAULT_PARTITION__"  # what writers call the folder of rows whose value is NULL


class FileTable(Frozen):
    """A declared table in files.

    key      the columns that the policy says to be unique together
    row_key  a further column that names each row, if the policy asks for one: see `row_name`
    csv      how CSV files are written
    cells    how the cells of each declared column are read; of Parquet files, of columns that are written in the names of folders
    columns  the columns that may be read, all where it is None
    public   whether the policy says that everyone may know the rows
    grows_by the column of time by which rows belong to periods, if the table grows
    """

    source: SourceFiles
    key: tuple[str, ...] = ()
    row_key: str | None = None
    csv: CsvFormat = USUAL_CSV
    cells: Mapping[str, CellReading] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    public: bool = False
    grows_by: str | None = None

    @property
    def name(self) -> str:
        return self.source.table

    def as_plain(self) -> dict[str, Any]:
        """The form in a store's manifest: the settings for cells that differ from the defaults, under the names that policies
        use."""
        return {"source": self.source.as_plain(), "key": self.key, "row_key": self.row_key, "columns": self.columns,
                "public": self.public, "csv": differences(self.csv, USUAL_CSV, field_names(CsvFormat)),
                "cells": {column: differences(how, USUAL_CELL, field_names(CellReading)) for column, how in self.cells.items()}}


class FileView(Frozen):
    """The view of a table in Parquet files.

    rows  the query of all rows, also those that lack the key, with what the engine believes of the files kept from it
    key   the columns of the key, as the files spell them
    of    the same query of the rows of some files; None if the types of their columns are those of the others
    read  whether all declared columns of all files were read, now or before
    """

    rows: str
    key: tuple[str, ...]
    of: Callable[[Sequence[Path]], str] | None = None
    read: bool = False


def open_files(tables: Sequence[FileTable], *, database: Path | None = None, facts: RememberedFacts = NothingKnown(),
               memory: str | None = None, empty: bool = False, find_store: FindStore = NO_STORE, sealed: bool = True,
               tell: Callable[[str], None] = lambda line: None,
               others: Callable[[duckdb.DuckDBPyConnection], str] = lambda connection: "",
               later: tuple[Path, int] | None = None) -> DuckReader:
    """A reader of tables in files, each with its declared key as its key; all other tables are in a database file beside them.

    `facts` are what is remembered of the files; `memory` is what the engine may use, such as "2GB"; `find_store` finds the store
    that was made from some files; `tell` is told what takes long. With `empty` only the names and types of columns are wanted,
    and no row is read. What is not `sealed` can also write files: that is for the owner's preparations. `others` makes tables of
    another kind, and tells what identifies their rows. See `allow_stores` for `later`.

    Raises OperationalError if files cannot be read, or do not go together, and IntegrityError where rows share a declared key.
    Both happen when the owner opens the data, before any statement.
    """
    check_version()
    shown = [table for table in tables if table.source.is_parquet or table.source.relation is not None]
    connection = connected(config=with_memory(memory))
    for table in tables:
        if table not in shown:
            load_csv(connection, table, empty=empty)
    views = {table.name: show_parquet(connection, table) for table in shown if table.source.is_parquet}
    views |= show_attached(connection, [table for table in shown if table.source.relation is not None])
    for table in shown if not empty else ():
        if table.source.is_parquet and table.grows_by is not None:
            views[table.name] = show_growing(connection, table, views[table.name], facts, tell)
        verify(connection, table, views[table.name], facts, tell)
    rest = others(connection)
    if database is not None:
        attach_database(connection, database, BESIDE)
        _check_names(connection)
    attach_memory(connection)
    rows = max((_rows_in(connection, table) for table in shown if table.source.is_parquet), default=0)
    group_densely(connection, rows)
    files = [file for table in shown if not table.public for file in table.source.files]
    whole = [] if database is None else [files_of_database(database)]
    sources = [*whole, *(table.source for table in tables)]
    origin = DataOrigin(files=tuple(file for source in sources for file in source.files), rows=rows,
                        paths={table.name: table.source.paths for table in tables},
                        read_as=origin_text(whole, [table.as_plain() for table in tables], rest))
    store = find_store(origin)
    if store is not None:
        attach_store(connection, store)
    keys = {name: view.key for name, view in views.items()}
    told = [table.source.told_by for table in shown if table.source.told_by is not None]
    told += [file for table in shown if table.public for file in table.source.files]
    told += [] if store is None else store.files.values()
    reader = DuckReader(connection, f"{fingerprint(sources)}{rest}", files=files, told_by=told, keys=keys,
                        versions={table.name.lower(): fingerprint([table.source]) for table in tables},
                        beside=None if database is None else BESIDE, store=store, origin=origin)
    if sealed:
        named = [path for table in shown if table.source.is_parquet for path in table.source.paths]
        connection.execute(f"SET GLOBAL allowed_paths = {_listed(named)}")
        allow_stores(connection, later if store is None else None, rows)
        lock_down(connection)
    reader.check()
    return reader


def attach_store(connection: duckdb.DuckDBPyConnection, store: Store) -> None:
    """Attach the buckets of a store, unless another connection to the same engine has done so. Raises OperationalError if a
    bucket differs from the manifest, or has a log of changes beside it, which the engine would apply, or if buckets of another
    store are attached."""
    try:
        for name, file in store.files.items():
            connection.execute(f"ATTACH IF NOT EXISTS {text_literal(file.path)} AS {name} (READ_ONLY)")
        attached = connection.execute("SELECT '\"' || database_name || '\"', path FROM duckdb_databases()").fetchall()
        whole = all((name, str(file.path)) in attached for name, file in store.files.items())
        for name, table in store.tables.items():
            for part in table.parts or [None]:
                buckets = store.buckets if part is None else store.parts[part.number].buckets
                rows = table.rows if part is None else part.rows
                counts = " + ".join(f"(SELECT COUNT(*) FROM {place_in_bucket(name, number, part)})"
                                    for number in range(len(buckets)))
                whole = whole and len(buckets) == table.buckets
                whole = whole and connection.execute(f"SELECT {counts}").fetchall() == [(rows,)]
    except duckdb.Error:
        whole = False
    if not whole or not all(map(is_whole, store.files.values())):
        raise OperationalError("the prepared store is damaged, or was just replaced", code="store",
                               try_="dpsql prepare, which makes a new one")


def _check_names(connection: duckdb.DuckDBPyConnection) -> None:
    """Raises OperationalError if the database beside the files has a table of the same name: its views would read one or the
    other, depending on which tables a query names, and bounds rest on views that show the same rows whenever they are read."""
    twice = connection.execute(
        "SELECT DISTINCT m.table_name FROM duckdb_columns() AS m JOIN duckdb_columns() AS b "
        "ON lower(m.table_name) = lower(b.table_name) WHERE m.database_name = ? AND b.database_name = ? AND NOT m.internal "
        "ORDER BY 1", [IN_MEMORY, BESIDE]).fetchall()
    if twice:
        (name,) = twice[0]
        raise OperationalError(f"table {name} has files as its source, and the database has a table {name} too",
                               code="no-database", subject=name, try_="another name for the one in files")


def load_csv(connection: duckdb.DuckDBPyConnection, table: FileTable, *, empty: bool) -> None:
    """Create a table and load the rows of CSV files into it. Raises OperationalError if a file cannot be read, IntegrityError if
    rows share a key; both name the table or one of its columns."""
    first, *_ = table.source.paths
    for path in table.source.paths:
        names = _names(table, path)
        folders = _in_folders(table, names)
        if (misplaced := _misplaced(table, folders)) is not None:
            raise misplaced
        spelled = {name.lower(): name for name in names}
        held = {spelled[name.lower()]: how for name, how in table.cells.items() if name.lower() in spelled}
        untyped = next((name for name, how in held.items() if how.type is None), None)
        if untyped is not None:
            raise OperationalError(f"column {untyped} of {path} has no type, and the type must not depend on the rows",
                                   code="no-type", subject=f"{table.name}.{untyped}",
                                   try_='type = "VARCHAR", or another; dpsql init drafts the types')
        if path == first:
            types = {**held, **{name: table.cells[name] for name in folders}}
            columns = [f"{quote(name)} {how.type or TEXT}" for name, how in types.items()]
            columns += [f"{quote(name)} {TEXT}" for name in _row_keys(table)]
            ends = [f"PRIMARY KEY ({', '.join(map(quote, table.key))})"] if table.key else []
            connection.execute(f"CREATE TABLE {quote(table.name)} ({', '.join([*columns, *ends])})")
        if not empty:
            _put(connection, table, path, names, held, folders)


def _names(table: FileTable, path: Path) -> list[str]:
    """The names of the columns of a file. Raises OperationalError if it has no header, or one that names columns badly."""
    names: list[str] | None = None
    with contextlib.suppress(csv.Error, OSError, ValueError, EOFError, zlib.error):
        names = names_in(path, table.csv)
    if names is None:
        raise no_csv(table, path)
    lower = [name.lower() for name in names]
    for place, name in enumerate(lower):
        first = lower.index(name)
        if not name or first < place:
            wrong = f"has the name of column {first + 1}, {name}" if name else "has no name"
            raise OperationalError(f"column {place + 1} of {path} {wrong}", code="no-database", subject=table.name,
                                   try_=f"[tables.{table.name}.csv]  names = [...], a name for each column in its place")
    return names


def _put(connection: duckdb.DuckDBPyConnection, table: FileTable, path: Path, names: Sequence[str],
         held: Mapping[str, CellReading], folders: Sequence[str]) -> None:
    """Put the rows of one file into the table of texts, and from there into their own. Raises as `load_csv` does."""
    fault: Exception | None = None
    more = [f"{_folder(table, name, text_literal(path))} AS {quote(name)}" for name in folders]
    more += [f"{row_name(name_below(table.source.root, path), list(held))} AS {quote(name)}" for name in _row_keys(table)]
    shown = values_of_texts(TEXTS, held, *more)
    kept = ", ".join(map(quote, (*held, *folders, *_row_keys(table))))
    try:
        rows = put_texts(connection, path, names, table.csv, [*held])
        into = f"INSERT INTO {quote(table.name)} ({kept}) FROM ({shown}) AS s WHERE {has_key(table.key)}"
        (put,), = connection.execute(into).fetchall()
        lacking = f"SELECT COUNT(*) FROM ({shown}) AS s WHERE NOT ({has_key(table.key)})"
        without = connection.execute(lacking).fetchall()[0][0] if table.key else 0
        if put + without != rows:
            fault = InternalError(f"{rows - put - without} rows of {path} were lost during reading", code="rows-lost")
        connection.execute(f"DROP TABLE {quote(TEXTS)}")
    except duckdb.ConstraintException:
        fault = shared_key(table.name, _where(table), table.key)
    except duckdb.OutOfMemoryException:
        fault = too_little_memory(table)
    except UnclosedQuote:
        fault = OperationalError(f"{path} ends inside a quoted text, so all rows after the last opening quote would be lost",
                                 code="no-database", subject=table.name, try_=f"[tables.{table.name}.csv]  quote = \"\", if "
                                 "quotes are ordinary characters")
    except (duckdb.Error, OSError, EOFError, UnicodeError, csv.Error, zlib.error):
        fault = no_csv(table, path)
    if fault is not None:
        raise fault


def _row_keys(table: FileTable) -> list[str]:
    return [] if table.row_key is None else [table.row_key]


def row_name(file: str, columns: Sequence[str]) -> str:
    """The SQL for the name of a row: a digest of the texts of its cells and of the name of its file, followed by the row's
    number among those with the same digest. No row of another file of the table gets that name.

    Removing a row leaves the names of all other rows as they are; of equal rows it makes no difference which one is removed. The
    number keeps names different even if two digests were equal.
    """
    cells = ", ".join(f"coalesce(length({quote(name)}) || ':' || {quote(name)}, '-')" for name in columns)
    digest = f"sha256(concat({text_literal(file)}, '/', {cells}))"
    return f"{digest} || '-' || row_number() OVER (PARTITION BY {digest})"


def no_csv(table: FileTable, path: Path) -> OperationalError:
    return OperationalError(f"{path} cannot be read in the format that the policy declares", code="no-database",
                            subject=table.name,
                            try_=f"[tables.{table.name}.csv], which dpsql init drafts from the file")


def show_parquet(connection: duckdb.DuckDBPyConnection, table: FileTable) -> FileView:
    """Make the view of a table in Parquet files.

    Raises OperationalError if files cannot be read, differ in their columns, or lack one of the key.
    """
    fault: OperationalError | None = None
    columns: dict[str, str] = {}
    of: Callable[[Sequence[Path]], str] | None = None
    rows = ""
    try:
        model, alike = _model(connection, table)
        described = connection.execute(f"DESCRIBE SELECT * FROM {_rows(table, model)}").fetchall()
        held = {column: kind for column, kind, *_ in described}
        folders = _in_folders(table, [*held])
        how = {name.lower(): reading for name, reading in table.cells.items()}
        fault = _misplaced(table, folders)
        if fault is None:
            shown = [f"CASE WHEN {read} IS NOT NULL THEN TRY({cleaned(read, kind, how.get(column.lower(), USUAL_CELL))}) END "
                     f"AS {quote(column)}" for column, kind in held.items() for read in (f"r.{quote(column)}",)]
            shown += [f"{_folder(table, name, f'r.{quote(PLACE)}')} AS {quote(name)}" for name in folders]
            place = f", filename = {text_literal(PLACE)}" if folders else ""
            listed = ", ".join(shown)
            if alike:
                of = lambda paths: f"SELECT {listed} FROM {_rows_of(paths, place)} AS r"
            rows = f"SELECT {listed} FROM {_rows(table, model, place)} AS r"
            connection.execute(f"CREATE VIEW {quote(table.name)} AS SELECT * FROM ({rows}) AS s WHERE {has_key(table.key)}")
            columns = {name.lower(): name for name, *_ in connection.execute(f"DESCRIBE {quote(table.name)}").fetchall()}
    except (duckdb.Error, UnicodeDecodeError):
        fault = unreadable(table)
    if fault is not None:
        raise fault
    return FileView(rows=rows, key=tuple(columns[name.lower()] for name in table.key), of=of)


def show_growing(connection: duckdb.DuckDBPyConnection, table: FileTable, view: FileView, facts: RememberedFacts,
                 tell: Callable[[str], None]) -> FileView:
    """Replace the view of a table that grows by one whose files are read only for periods that they have rows of, after all
    declared columns of new files were read (`growing_files`). Raises OperationalError if a file cannot be read."""
    from dpsql.backends.growing_files import GrowingFiles  # loaded only where tables grow

    fault: OperationalError | None = None
    described = connection.execute(f"DESCRIBE {quote(table.name)}").fetchall()
    kinds = {name.lower(): (name, kind) for name, kind, *_ in described}
    time, kind = kinds.get((table.grows_by or "").lower(), ("", ""))
    if view.of is None or kind not in MOMENTS:  # the policy is found not to fit the table later
        return view
    read = {name.lower() for name in (*(table.columns if table.columns is not None else kinds), *view.key)}
    growing = GrowingFiles(table=table.name, files=table.source.files, rows=view.of, time=time, kind=kind,
                           read=tuple(name for lower, (name, _) in kinds.items() if lower in read))
    try:
        rows = growing.view(growing.spans(connection, facts, tell))
        connection.execute(f"CREATE OR REPLACE VIEW {quote(table.name)} AS SELECT * FROM ({rows}) AS s "
                           f"WHERE {has_key(table.key)}")
        return replace(view, rows=rows, read=True)
    except duckdb.OutOfMemoryException:
        fault = too_little_memory(table)
    except duckdb.Error:
        fault = unreadable(table)
    raise fault


def show_attached(connection: duckdb.DuckDBPyConnection, tables: Sequence[FileTable]) -> dict[str, FileView]:
    """Create the views of tables in DuckDB files. Each file is attached once, read-only.

    A key is the one of the policy, as it is of other files. Columns that are worked out whenever they are read are left out.
    Raises OperationalError if a file cannot be opened, has no such table or a view in its place, or where the table lacks a
    column of the key.
    """
    attached: dict[Path, str] = {}
    views: dict[str, FileView] = {}
    for table in tables:
        path, relation = table.source.paths[0], table.source.relation
        if path not in attached:
            attached[path] = f"{ATTACHED} {len(attached)}"
            attach_database(connection, path, attached[path], table.name)
        held = connection.execute(
            "SELECT schema_name, table_name, column_name, is_generated, data_type FROM duckdb_columns() JOIN duckdb_tables() "
            "USING (database_name, schema_name, table_name) WHERE database_name = ? AND lower(schema_name) = ? "
            "AND lower(table_name) = ? ORDER BY column_index", [attached[path], *(relation or ())]).fetchall()
        shown = {column: kind for _, _, column, made, kind in held if not made}
        if not shown:
            raise OperationalError(f"{path} has no table {'.'.join(relation or ())}, or a view of that name", code="no-table",
                                   subject=table.name, try_='relation = "visits" or "schema.visits", a table that is stored')
        place = ".".join(map(quote, (attached[path], *held[0][:2])))
        how = {name.lower(): reading for name, reading in table.cells.items()}
        read = [_read_as(column, kind, how.get(column.lower(), USUAL_CELL)) for column, kind in shown.items()]
        rows = f"SELECT {', '.join(read)} FROM {place} AS r"
        spelled = {column.lower(): column for column in shown}
        if not {name.lower() for name in table.key} <= spelled.keys():
            raise unreadable(table)
        connection.execute(f"CREATE VIEW {quote(table.name)} AS SELECT * FROM ({rows}) AS s WHERE {has_key(table.key)}")
        views[table.name] = FileView(rows=rows, key=tuple(spelled[name.lower()] for name in table.key))
    return views


def _read_as(column: str, kind: str, how: CellReading) -> str:
    own = f"r.{quote(column)}"
    made = cleaned(own, kind, how)
    return own if made == own else f"CASE WHEN {own} IS NOT NULL THEN TRY({made}) END AS {quote(column)}"


def has_key(key: Sequence[str]) -> str:
    """The condition that a row `s` has a complete key. A row without one belongs to no entity, and does not prevent the others
    from being served."""
    return " AND ".join(f"s.{quote(column)} IS NOT NULL" for column in key) or "TRUE"


def _listed(paths: Iterable[Path]) -> str:
    """A list of paths as SQL."""
    return f"[{', '.join(map(text_literal, paths))}]"


def _rows_in(connection: duckdb.DuckDBPyConnection, table: FileTable) -> int:
    """How many rows the files say to have; only for what is a question of speed."""
    with contextlib.suppress(duckdb.Error):
        found = connection.execute(f"SELECT SUM(num_rows) FROM parquet_file_metadata({_listed(table.source.paths)})").fetchall()
        return int(found[0][0] or 0)
    return 0


def _rows(table: FileTable, model: Path, more: str = "") -> str:
    """The FROM item that reads the files, with the types of the one that is the model, and takes no name of a folder for a
    column."""
    return _rows_of(sorted(table.source.paths, key=lambda path: path != model), more)  # the engine takes the types of the first


def _rows_of(paths: Iterable[Path], more: str) -> str:
    options = f"hive_partitioning = false, union_by_name = false, can_have_nan = true{more}"
    return f"read_parquet({_listed(paths)}, {options})"


def _in_folders(table: FileTable, held: Sequence[str]) -> list[str]:
    """The columns with a type that the files do not have."""
    lower = {column.lower() for column in held}
    return [name for name, how in table.cells.items() if how.type is not None and name.lower() not in lower]


def _folder(table: FileTable, name: str, place: str) -> str:
    """A column that is written in the names of folders, such as `year=2019`: NULL if the value is not of its type. `place` is
    the path of a row's file as SQL."""
    below = len(str(table.source.root)) + 1
    found = f"regexp_extract(substr({place}, {below}), {text_literal(f'/{re.escape(name)}=([^/]*)/')}, 1)"
    return f"TRY_CAST(url_decode(NULLIF({found}, {text_literal(UNKNOWN_FOLDER)})) AS {table.cells[name].type})"


def _misplaced(table: FileTable, folders: Sequence[str]) -> OperationalError | None:
    """Why columns that no file has are in the name of no folder either."""
    root = table.source.root
    for name in folders:
        for path in table.source.paths:
            parts = path.relative_to(root).parts[:-1] if root is not None and path.is_relative_to(root) else ()
            if not any(part.startswith(f"{name}=") for part in parts):
                beside = "those in Parquet files need no type" if table.source.is_parquet else (
                    'or how the file is written, such as csv = { delimiter = ";" }')
                return OperationalError(
                    f"column {name} has a type, but is neither in {path} nor in the name of a folder, as in {name}=.../",
                    code="no-database", subject=table.name, try_=f"the name of a column; {beside}")
    return None


def _model(connection: duckdb.DuckDBPyConnection, table: FileTable) -> tuple[Path, bool]:
    """The file that all others of a table agree with, and whether all have its columns of its types: they may be of the type that
    writers give a column without any value. Raises OperationalError if there is none."""
    paths = table.source.paths
    if len(paths) == 1:
        return paths[0], True
    shapes = connection.execute(
        "SELECT MIN(file_name), COUNT(*) AS files, shape FROM (SELECT file_name, list([name, type, converted_type, logical_type, "
        "num_children::VARCHAR, scale::VARCHAR, precision::VARCHAR] ORDER BY name, type) AS shape "
        f"FROM parquet_schema({_listed(paths)}) WHERE type IS NOT NULL GROUP BY file_name) "
        "GROUP BY shape ORDER BY files DESC, 1").fetchall()
    model, _, shape = next((one for one in shapes if not any(map(_is_empty, one[2]))), shapes[0])
    for path, _, other in reversed(shapes):
        if len(other) != len(shape) or any(
                own != its and not (own[0] == its[0] and _is_empty(own)) for own, its in zip(other, shape, strict=True)):
            raise other_columns(table, Path(path))
    return Path(model), len(shapes) == 1


def _is_empty(column: Sequence[str | None]) -> bool:
    """Whether a column, as `_model` describes it, has the type of columns without any value."""
    return column[3] == NO_VALUE


def verify(connection: duckdb.DuckDBPyConnection, table: FileTable, view: FileView, facts: RememberedFacts,
           tell: Callable[[str], None]) -> None:
    """Read all declared columns of files once, or load those of a public table, and check that no rows share a key. What these
    files have passed before is not checked again.

    Raises OperationalError if a value cannot be read, IntegrityError where rows share the key.
    """
    known = facts.known(fact := fact_of(table, view)) if table.key or not view.read else True
    if known and not table.public:
        return
    fault: Exception | None = None
    try:
        declared = None if table.columns is None else {column.lower() for column in (*table.columns, *view.key)}
        read = [quote(column) for column, *_ in connection.execute(f"DESCRIBE {quote(table.name)}").fetchall()
                if declared is None or column.lower() in declared]
        tell(f"reading {table.name} once ...")
        if table.public:
            own, loaded = quote(table.name), quote(LOADED)
            connection.execute(f"CREATE TABLE {loaded} AS SELECT {', '.join(read)} FROM {own}; DROP VIEW {own}; "
                               f"ALTER TABLE {loaded} RENAME TO {own}")
        elif read and not view.read:  # the engine has to read them to count what is not NULL, see above
            connection.execute(f"SELECT {', '.join(f'COUNT({column})' for column in read)} FROM ({view.rows}) AS s").fetchall()
        if table.key and not known:
            tell(f"looking for rows of {table.name} that share a key ...")
            if share_key(connection, table.name, view.key):
                fault = shared_key(table.name, _where(table), table.key)
    except duckdb.OutOfMemoryException:
        fault = too_little_memory(table)
    except duckdb.Error:
        fault = unreadable(table)
    if fault is not None:
        raise fault
    if not known and all(file.stands() for file in table.source.files):
        facts.keep(fact)


def fact_of(table: FileTable, view: FileView) -> str:
    """The text that is remembered of verified files: the engine, the view, the files, the columns and the key."""
    return json.dumps([duckdb.__version__, view.rows, [file.as_plain() for file in table.source.files], table.columns, view.key])


def shared_key(table: str, place: str, key: Sequence[str]) -> IntegrityError:
    return IntegrityError(f"table {table} in {place} has rows that share the declared key ({', '.join(key)})", subject=table,
                          try_="a key that is unique, or no key in the policy")


def too_little_memory(table: FileTable) -> OperationalError:
    return OperationalError(f"there is not enough memory to read {table.name}", code="memory", subject=table.name,
                            try_='memory = "4GB" in [store], or more')


def unreadable(table: FileTable) -> OperationalError:
    broken = next((path for path in table.source.paths if Path(path).suffix == ".parquet" and not _is_whole(Path(path))), None)
    if broken is not None:
        return OperationalError(f"{broken} is not a complete Parquet file", code="no-database", subject=table.name,
                                try_='removing it until it is complete; a file whose name begins with "." is not read')
    return OperationalError(f"{_where(table)} cannot be read, or lacks a column of the declared key", code="no-database",
                            subject=table.name)


def other_columns(table: FileTable, path: Path) -> OperationalError:
    return OperationalError(f"{path} has other columns, or columns of other types, than other files of {table.name}",
                            code="no-database", subject=table.name, try_="files with the same columns; others as another table")


def _is_whole(path: Path) -> bool:
    """Whether a file begins and ends as Parquet files do; one that is being written, or was cut off, does not."""
    try:
        with path.open("rb") as file:
            begins = file.read(len(MAGIC)) == MAGIC
            file.seek(-len(MAGIC), os.SEEK_END)
            return begins and file.read() == MAGIC
    except OSError:
        return False


def _where(table: FileTable) -> str:
    paths = table.source.paths
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} or one of {len(paths) - 1} other files"
