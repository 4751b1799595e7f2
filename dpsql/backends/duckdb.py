"""DuckDB, embedded: the default backend.

Connections are locked down after they are made: no external access, no extensions, no replacement scans, locked settings.
That is the second wall; the first is that no text of an analyst ever reaches the engine.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpsql.backends.fixed_views import fixed_views
from dpsql.backends.held_columns import HeldColumns
from dpsql.backends.kept_rows import KEPT, KeptRows, kept_rows, memory_limit, read_by
from dpsql.backends.source_files import NOWHERE, DataOrigin, FileState, files_of_database, fingerprint
from dpsql.backends.store import Store, origin_text
from dpsql.backends.store_buckets import FarBuckets
from dpsql.errors import OperationalError
from dpsql.trusted.cached import cached_property
from dpsql.trusted.declarations.tables import GENERATED, ForeignKey, TableSchema
from dpsql.trusted.plan.expr.printing import quote, text_literal
from dpsql.trusted.plan.stored import StoredTable
from dpsql.trusted.reader import DISK, FAULT, MEMORY, Parts, ReaderFault, ReaderInterrupted

TESTED = ((2, 0),)  # (major, minor) of the versions whose guarded expressions the tests have run on
IN_MEMORY = "memory"  # the engine's name of the database in memory
RELEASED = '"released rows"'  # the name of the attached database that holds them
MANY_ROWS = 100_000  # of the largest table, from which it pays to keep what several queries read
ROW_BYTES = 40  # of a row with few columns in memory, about
GROUP_BYTES = 128  # of one group with the sums of several aggregates, about

SETTINGS = {
    "autoload_known_extensions": "false", "autoinstall_known_extensions": "false", "allow_community_extensions": "false",
    "allow_persistent_secrets": "false", "python_enable_replacements": "false", "python_scan_all_frames": "false",
    "error_on_division_by_zero": "false", "ieee_floating_point_ops": "true", "arrow_lossless_conversion": "true",
    "enable_external_access": "false",
}
SMALL = {"threads": 1, "async_threads": 0}  # for engines that read no files: DuckDB starts eight threads for each otherwise
UTC = "SET GLOBAL TimeZone = 'UTC'"  # in which moments with a time zone are shown


class DuckReader:
    """Reads printed plans from one DuckDB database.

    `files` are read where they are whenever a query needs them, so none may change while the reader is open. `told_by` are
    others, which said that these are the ones, or are held open: when one changes, statements that are under way end with what
    they began with. `keys` has the tables that are views of files, each with the columns that were found to be unique together,
    and never NULL; or none. `versions` are those of tables in files of their own. Where other tables are in a database file, it
    is attached as `beside`, and those of files are in the database in memory. The buckets of a `store` are attached under the
    names of `plan.stored`; `far` are those that are elsewhere, and are read instead. `origin` is where all tables come from.
    `spent` are the seconds that queries have taken.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, version: str, *, files: Sequence[FileState] = (),
                 told_by: Sequence[FileState] = (), keys: Mapping[str, Sequence[str]] = MappingProxyType({}),
                 versions: Mapping[str, str] = MappingProxyType({}), beside: str | None = None, store: Store | None = None,
                 origin: DataOrigin = NOWHERE) -> None:
        self._store, self.origin, self.spent = store, origin, 0.0
        self.far: FarBuckets | None = None
        self._connection, self._version, self._files, self._keys, self._beside = connection, version, files, keys, beside
        self._told_by, self.versions = told_by, versions
        self._held: dict[str, str | HeldColumns] = {}  # tables beside the files, and released rows
        self._running: set[duckdb.DuckDBPyConnection] = set()
        if beside is not None:
            self._held = {name: f"{IN_MEMORY}.main.{quote(name)}" for name in self._tables_in(text_literal(IN_MEMORY), keys)}

    @property
    def version(self) -> str:
        return self._version if self.far is None else f"{self._version}{self.far.version}"

    @cached_property
    def keeps(self) -> bool:
        """Not if the rows of the largest table would fill half of the engine's memory: some of what is kept has as many rows."""
        return self.far is None and self._keeps(self.largest(), 1)

    @property
    def keeps_of(self) -> str:
        """The identity of the store if, for some table, the rows of one bucket fit into half of the memory; otherwise empty."""
        if self._store is None or self.far is not None:
            return ""
        pays = any(self._keeps(table.rows, table.buckets) for table in self._store.tables.values())
        return self._store.identity if pays else ""

    def _keeps(self, rows: int, buckets: int) -> bool:
        return rows >= MANY_ROWS and 2 * (rows // buckets) * ROW_BYTES <= self._memory

    @cached_property
    def _memory(self) -> int:
        return memory_limit(self._connection)

    @property
    def stored(self) -> Mapping[str, StoredTable]:
        if self.far is not None:
            return self.far.tables
        return {} if self._store is None else self._store.tables

    def rows(self, sql: str, parts: Sequence[Parts] = ()) -> list[tuple[Any, ...]]:
        with self._cursor(sql, parts) as cursor:
            rows: list[tuple[Any, ...]] = cursor.execute(sql).fetchall()
            return rows

    def arrays(self, sql: str, parts: Sequence[Parts] = ()) -> Sequence[NDArray[Any]]:
        with self._cursor(sql, parts) as cursor:
            columns = cursor.execute(sql).fetchnumpy()
            return [np.ma.getdata(column) for column in columns.values()]

    def columns(self, sql: str, parts: Sequence[Parts] = ()) -> Sequence[np.ma.MaskedArray[Any, Any]]:
        with self._cursor(sql, parts) as cursor:
            found = cursor.execute(sql).fetchnumpy()
            days = [str(kind) == "DATE" for _, kind, *_ in cursor.description or ()]
            return [np.ma.asarray(column.astype("datetime64[D]") if day else column)
                    for column, day in zip(found.values(), days, strict=True)]

    @property
    def content(self) -> str:
        return self.origin.read_as if self.far is None else f"{self.origin.read_as}{self.far.version}"

    def schema(self) -> Mapping[str, TableSchema]:
        if self._beside is None:
            return self._tables_in("current_database()", self._keys)
        return {**self._tables_in(text_literal(self._beside), {}), **self._tables_in(text_literal(IN_MEMORY), self._keys)}

    def _tables_in(self, database: str, keys: Mapping[str, Sequence[str]]) -> dict[str, TableSchema]:
        """The tables of a database, whose name is given as SQL; `keys` has those that are views of files."""
        of = f"database_name = {database}"
        with self._cursor() as cursor:
            columns: dict[str, list[tuple[str, str]]] = {}
            required: dict[str, set[str]] = {}
            for table, column, kind, made, nullable in cursor.execute(
                    "SELECT table_name, column_name, data_type, is_generated, is_nullable FROM duckdb_columns() "
                    f"WHERE {of} AND schema_name = 'main' AND NOT internal ORDER BY table_name, column_index").fetchall():
                columns.setdefault(table, []).append((column, f"{GENERATED} {kind}" if made else kind))
                if not nullable:
                    required.setdefault(table, set()).add(column)
            unique: dict[str, list[frozenset[str]]] = {}
            foreign: dict[str, list[ForeignKey]] = {}
            for table, names, kind, parent, references in cursor.execute(
                    "SELECT table_name, constraint_column_names, constraint_type, referenced_table, referenced_column_names "
                    f"FROM duckdb_constraints() WHERE {of} AND schema_name = 'main' ORDER BY table_name, constraint_index"
                    ).fetchall():
                if kind in ("PRIMARY KEY", "UNIQUE"):
                    unique.setdefault(table, []).append(frozenset(names))
                if kind == "PRIMARY KEY":
                    required.setdefault(table, set()).update(names)
                if kind == "FOREIGN KEY":
                    foreign.setdefault(table, []).append(
                        ForeignKey(columns=tuple(names), table=parent, references=tuple(references)))
            for table, names in keys.items():
                unique.setdefault(table, []).extend([frozenset(names)] if names else [])
                required.setdefault(table, set()).update(names)
            texts = dict(cursor.execute(
                f"SELECT view_name, sql FROM duckdb_views() WHERE {of} AND schema_name = 'main' AND NOT internal").fetchall())
            texts = {name: text for name, text in texts.items() if name not in keys}
            views = {name: _read_by(name, cursor) for name in texts}
        fixed = fixed_views({name.lower(): text for name, text in texts.items()},
                            frozenset(name.lower() for name in columns if name not in views))
        return {table: TableSchema(
            columns=tuple(pairs), unique=tuple(unique.get(table, ())), not_null=frozenset(required.get(table, ())),
            foreign_keys=tuple(foreign.get(table, ())), view=views.get(table), fixed=table not in views or table.lower() in fixed)
            for table, pairs in columns.items()}

    def hold(self, name: str, identity: str, columns: Mapping[str, tuple[str, Sequence[Any]]]) -> None:
        before = self._held.get(name)
        if isinstance(before, HeldColumns) and before.identity == identity:
            return
        if name.lower() in {table.lower() for table in self.schema()}:
            raise ValueError("there is a table of this name")
        made = HeldColumns(RELEASED, identity, columns)
        with self._cursor() as cursor:
            made.make_listed(cursor)
        self._held = {other: held for other, held in self._held.items() if other.lower() != name.lower()} | {name: made}

    def check(self) -> None:
        if not self._stand() or not all(file.stands() for file in self._told_by):  # which is not said: its name may be private
            raise OperationalError("files of the database were changed since they were opened", code="data-changed",
                                   try_="dpsql.connect(...) again; what was charged stays charged")
        if self.far is not None:
            self.far.check()

    def adopt(self, store: Store, attach: Callable[[duckdb.DuckDBPyConnection, Store], None]) -> None:
        """Between two queries: read a store that was made of the files that are open; see `allow_stores`. Queries give the same
        rows before and after, and what was found to hold of these files still does (`measurements.reading.content`). Raises as
        `attach` does; the reader is as it was then."""
        attach(self._connection, store)
        self._store, self._told_by = store, [*self._told_by, *store.files.values()]

    def _stand(self) -> bool:
        """Whether all files are the ones that were opened."""
        return all(file.stands() for file in self._files)

    def interrupt(self) -> None:
        for cursor in tuple(self._running):
            with contextlib.suppress(duckdb.Error):  # it is over
                cursor.interrupt()

    def close(self) -> None:
        if self.far is not None:
            self.far.close()
        self._connection.close()

    def largest(self) -> int:
        """The approximate number of rows of the largest table; only used to tune speed."""
        with self._cursor() as cursor:
            return max(self.origin.rows, _largest(cursor))

    def write(self, sql: str) -> None:
        """Run a statement that modifies a database of the owner, such as a bucket of a store under preparation."""
        with self._cursor(sql) as cursor:
            cursor.execute(sql)

    @cached_property
    def _kept(self) -> KeptRows:
        return kept_rows(self._connection)

    def _there(self, cursor: duckdb.DuckDBPyConnection, text: str, kept: Sequence[Parts]) -> AbstractContextManager[None]:
        """A context in which the kept tables that a text reads exist."""
        wanted = read_by(text, kept) if kept else []
        return self._kept.there(cursor, wanted, kept) if wanted else contextlib.nullcontext()

    def _collect(self, cursor: duckdb.DuckDBPyConnection, parts: Sequence[Parts], kept: Sequence[Parts]) -> None:
        """Run the statements of the buckets, one after the other, so that memory holds the groups of one; and put the rows
        together.

        The engine uses all processors for one bucket: several buckets at a time took as long.
        """
        for table in parts:
            if self.far is not None:
                self.far.collect(cursor, table, self._held)
                continue
            first = f"CREATE TEMP {'VIEW' if table.kept and _in_buckets(parts) else 'TABLE'} {table.name} AS "
            for number, part in enumerate(table.statements):
                with self._there(cursor, part, kept):
                    cursor.execute((f"INSERT INTO {table.name} " if number else first) + part)

    @contextlib.contextmanager
    def _cursor(self, sql: str = "", parts: Sequence[Parts] = ()) -> Iterator[duckdb.DuckDBPyConnection]:
        """One cursor for one query, guarded until all rows are fetched: some faults show only then. Of tables of released rows it
        sees those that the query names. What was read of files that are others now is not used."""
        failed, begun, cursor, kept = False, time.perf_counter(), self._connection.cursor(), self._shared(parts)
        cause, is_interrupted, before = FAULT, False, sys.exception()
        self._running.add(cursor)
        try:
            if self._beside is not None:
                cursor.execute(f"USE {quote(self._beside)}")
            texts = sql, *(table.statements[0] for table in parts)
            for name, held in self._held.items():
                if any(quote(name) in text for text in texts):
                    rows = held.rows(cursor, texts) if isinstance(held, HeldColumns) else f"SELECT * FROM {held}"
                    cursor.execute(f"CREATE OR REPLACE TEMP VIEW {quote(name)} AS {rows}")
            with self._there(cursor, sql, kept):
                self._collect(cursor, [table for table in parts if table not in kept], kept)
                yield cursor
        except duckdb.Error as fault:
            failed, cause, is_interrupted = True, _cause_of(fault), _is_interruption(fault, before)
        finally:
            self._running.discard(cursor)
            self.spent += time.perf_counter() - begun
            failed = failed or not self._stand()
            if failed and kept:
                self._kept.forget(cursor)
            cursor.close()
        if is_interrupted:
            raise ReaderInterrupted
        if failed:
            raise ReaderFault(cause)

    def _shared(self, parts: Sequence[Parts]) -> list[Parts]:
        """The tables that are kept for other queries too: not those of released rows, which have the same name for other rows
        elsewhere, or of others that are not kept. With buckets it is all of them or none: others are read as views, since they
        may be larger than memory."""
        apart, found = [quote(name) for name, held in self._held.items() if isinstance(held, HeldColumns)], []
        for table in parts:
            if table.kept and not any(name in text for name in apart for text in table.statements):
                found.append(table)
            else:
                apart.append(table.name)
        return [] if _in_buckets(parts) and any(table.kept and table not in found for table in parts) else found


def _is_interruption(fault: BaseException | None, before: BaseException | None) -> bool:
    """Whether a query was interrupted and had not failed by itself: what it keeps for others is given back after a fault, and an
    interruption of that hides the fault, which is its context then. `before` was being handled when the query began.

    The engine raises this error only after `interrupt` was called on the connection, so no row can cause it. With several threads
    it raises the error of the first one that failed."""
    while fault is not None and fault is not before:
        if not isinstance(fault, duckdb.InterruptException):
            return False
        fault = fault.__context__
    return True


def _cause_of(fault: duckdb.Error) -> str:
    """For the owner: whether memory or the disk was full."""
    if isinstance(fault, duckdb.OutOfMemoryException):
        return DISK if "max_temp_directory_size" in str(fault) else MEMORY
    return DISK if isinstance(fault, duckdb.IOException) and "No space left" in str(fault) else FAULT


def _in_buckets(parts: Sequence[Parts]) -> bool:
    return not all(table.kept for table in parts)


def _read_by(view: str, cursor: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """The tables that a view reads, also through other views and macros; none for a view that cannot be read."""
    with contextlib.suppress(duckdb.Error):
        return frozenset(name.lower() for name in cursor.get_table_names(f"SELECT * FROM {quote(view)}"))
    return frozenset()


def open_database(path: str | Path, later: tuple[Path, int] | None = None) -> DuckReader:
    """Open a DuckDB file, read-only; see `allow_stores` for `later`. Raises OperationalError if that is impossible, or if the
    file redefines functions of the engine."""
    check_version()
    path = Path(path)
    if not path.is_file():
        raise missing_database(path)
    try:
        connection = connected(str(path), read_only=True, config=with_memory(None))
        own = _own_functions(connection)
        if not own:
            attach_memory(connection)
            _lock_down_once(connection, later)
    except duckdb.Error:
        raise unreadable_database(path) from None
    if own:
        connection.close()
        raise redefining(path, own)
    files = files_of_database(path)
    return DuckReader(connection, fingerprint([files]), origin=DataOrigin(
        files=files.files, read_as=origin_text([files], [])))  # as `file_tables.open_files` reads it without files


def attach_database(connection: duckdb.DuckDBPyConnection, path: Path, name: str, subject: str = "") -> None:
    """Attach a database file, read-only. Raises OperationalError as `open_database` does, about the table `subject`."""
    if not path.is_file():
        raise missing_database(path)
    try:
        connection.execute(f"ATTACH {text_literal(path)} AS {quote(name)} (TYPE duckdb, READ_ONLY)")
        own = _own_functions(connection)
    except duckdb.Error:
        raise unreadable_database(path, subject) from None
    if own:
        raise redefining(path, own, subject)


def missing_database(path: Path) -> OperationalError:
    return OperationalError(f"there is no database {path}", code="no-database", try_="the path of a DuckDB, CSV or Parquet file")


def unreadable_database(path: Path, subject: str = "") -> OperationalError:
    return OperationalError(f"{path} cannot be opened as a DuckDB database; if another program writes to it, or this one has "
                            "opened it directly, close it there first", code="no-database", subject=subject,
                            try_="a DuckDB file that you may read")


def redefining(path: Path, own: Sequence[str], subject: str = "") -> OperationalError:
    return OperationalError(f"{path} defines {', '.join(own)} itself, but dpsql only knows DuckDB's own definitions",
                            code="own-functions", subject=subject, try_="other names for its macros")


def _own_functions(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Macros of the file with the name of one of the engine's functions or operators: the engine would call those instead, even
    for `a + b` and COUNT(*). None is called here.
    """
    listed = "SELECT f.function_name FROM system.main.duckdb_functions() AS f WHERE f.schema_name = 'main' AND f.internal = "
    own = {name.lower() for name, in connection.execute(f"{listed} FALSE").fetchall()}
    return sorted(own & {name.lower() for name, in connection.execute(f"{listed} TRUE").fetchall()}) if own else []


def attach_memory(connection: duckdb.DuckDBPyConnection) -> None:
    """Attach databases in memory for tables of released rows, whose names are unique to each account, and for rows that are kept;
    unless another connection of this process to the same file has done so: a locked engine cannot attach databases."""
    for name in (RELEASED, KEPT):
        with contextlib.suppress(duckdb.Error):
            connection.execute(f"ATTACH ':memory:' AS {name} (READ_WRITE)")


def connected(path: str = ":memory:", *, read_only: bool = False,
              config: Mapping[str, str | int] | None = None) -> duckdb.DuckDBPyConnection:
    """A connection without DuckDB's progress bar, which would overwrite the output of interactive sessions and notebooks. It
    always shows moments with a time zone in UTC."""
    connection = duckdb.connect(path, read_only=read_only, config=dict(config or {}))
    with contextlib.suppress(duckdb.InvalidInputException):  # locked by another connection to the file; its cursors draw none
        connection.execute("SET enable_progress_bar = false")
        connection.execute(UTC)
    return connection


def scratch() -> duckdb.DuckDBPyConnection:
    """An empty, locked database in memory, for public values and released numbers. No private row is ever in it."""
    connection = connected(config=SMALL)
    lock_down(connection)
    return connection


def group_densely(connection: duckdb.DuckDBPyConnection, rows_in_files: int = 0) -> None:
    """Let DuckDB group by whole numbers in a small range with arrays instead of hash tables, which is three times as fast.

    Keys of entities are often such numbers. An array takes space for its whole range even where few rows are read, and cannot
    be moved to disk; so a range may be at most a quarter of the rows of the largest table, and the arrays of all threads
    together an eighth of memory.
    """
    memory, threads = connection.execute(
        "SELECT parse_formatted_bytes(current_setting('memory_limit')), current_setting('threads')").fetchall()[0]
    most = min(max(_largest(connection), rows_in_files) // 4, memory // (8 * threads * GROUP_BYTES))
    connection.execute(f"SET GLOBAL perfect_ht_threshold = {max(12, most.bit_length() - 1)}")


def _largest(connection: duckdb.DuckDBPyConnection) -> int:
    """How many rows the largest table of all attached databases has, about."""
    return int(connection.execute("SELECT MAX(estimated_size) FROM duckdb_tables() WHERE NOT internal").fetchall()[0][0] or 0)


def lock_down(connection: duckdb.DuckDBPyConnection) -> None:
    """Set and lock the settings of the connection and of all its cursors, which a SET without GLOBAL would not reach."""
    for name, value in SETTINGS.items():
        connection.execute(f"SET GLOBAL {name} = {value}")
    connection.execute("SET lock_configuration = true")


def allow_stores(connection: duckdb.DuckDBPyConnection, later: tuple[Path, int] | None, rows_in_files: int = 0) -> None:
    """Before the engine is locked: let stores be attached later, if the largest table has so many rows. `later` are the folder of
    the stores, where only dpsql writes, and the number of rows."""
    if later is not None and max(_largest(connection), rows_in_files) >= later[1]:
        connection.execute(f"SET GLOBAL allowed_directories = [{text_literal(f'{later[0]}/')}]")


def _lock_down_once(connection: duckdb.DuckDBPyConnection, later: tuple[Path, int] | None) -> None:
    """Lock a database file down, unless another connection of this process to it, which shares its engine, has done so.

    Raises InvalidInputException if the engine is locked otherwise.
    """
    try:
        group_densely(connection)
        allow_stores(connection, later)
        lock_down(connection)
    except duckdb.InvalidInputException:
        asked = {**SETTINGS, "lock_configuration": "true"}  # one by one: not every version lists them all
        held = connection.execute("SELECT " + ", ".join(f"current_setting('{name}')" for name in asked)).fetchall()[0]
        if any(str(found).lower() != value for found, value in zip(held, asked.values(), strict=True)):
            raise


def check_version() -> None:
    """Refuse versions of the engine with which the guarded expressions were not tested, as their functions might raise errors."""
    version = tuple(int(part) for part in duckdb.__version__.split(".")[:2])
    if version not in TESTED:
        raise OperationalError(f"DuckDB {duckdb.__version__} is not one of the tested versions", code="engine-version",
                               try_="pip install 'duckdb>=2.0,<2.1'")


def with_memory(memory: str | None) -> dict[str, str | int]:
    """The configuration of an engine that may use this much memory, such as "4GB" (None: its default), and spills the rest to a
    folder on disk."""
    return {"temp_directory": _spill_folder(), **({} if memory is None else {"memory_limit": memory})}


@functools.cache
def _spill_folder() -> str:
    """A folder of this process, which nobody else may enter: rows are in it for as long as statements run. It is locked for as
    long as the process lives; those of processes that were killed are removed."""
    for other in Path(tempfile.gettempdir()).glob("dpsql-spill-*"):
        with contextlib.suppress(OSError), _locked(other):
            shutil.rmtree(other, ignore_errors=True)
    folder, held = tempfile.mkdtemp(prefix="dpsql-spill-"), contextlib.ExitStack()
    try:
        held.enter_context(_locked(Path(folder)))
        os.stat(folder)
    except OSError:  # another process has just taken it for one that was left behind
        return _spill_folder()
    made_by = os.getpid()

    def remove() -> None:
        if os.getpid() == made_by:  # a forked process shares it
            shutil.rmtree(folder, ignore_errors=True)
            held.close()

    atexit.register(remove)
    return folder


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """A context that nobody else is in. Raises OSError if somebody is."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)
