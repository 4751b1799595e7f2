"""A database of public tables that a user uploads: files, pandas frames and copies of rows, read as given types."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from dpsql.backends.csv_drafts import put_as_drafted
from dpsql.backends.duckdb import DuckReader, check_version, connected, lock_down
from dpsql.backends.upload_folders import Uploads
from dpsql.catalog.file_names import is_of_rows, is_of_texts
from dpsql.errors import OperationalError
from dpsql.frozen import Frozen, field
from dpsql.trusted.plan.expr.printing import quote, text_literal

TYPED = "rows of an upload"
FRAME = "brought"  # the name under which a frame is read


class Upload(Frozen):
    """A table to be loaded: a path or a frame as `source`, or `rows`; `kinds` maps the wanted columns to their SQL types."""

    kinds: Mapping[str, str]
    source: Path | Any = None
    rows: Sequence[Sequence[Any]] = field(default=())


def open_uploads(tables: Mapping[str, Upload], uploads: Uploads) -> tuple[DuckReader, dict[str, list[str]]]:
    """Load uploaded tables. Returns a reader, and the wanted columns that each table has.

    Raises OperationalError if a source is no upload, cannot be read, or a column not as its type. It names the source and the
    column, and no value.
    """
    check_version()
    connection = connected()
    present = {name: _copy(connection, name, table) if table.source is None else _load(connection, name, table, uploads)
               for name, table in tables.items()}
    lock_down(connection)
    return DuckReader(connection, FRAME), present


def _copy(connection: duckdb.DuckDBPyConnection, name: str, table: Upload) -> list[str]:
    columns = ", ".join(f"{quote(column)} {kind}" for column, kind in table.kinds.items())
    connection.execute(f"CREATE TABLE {quote(name)} ({columns})")
    if table.rows:
        connection.executemany(f"INSERT INTO {quote(name)} VALUES ({', '.join('?' for _ in table.kinds)})", list(table.rows))
    return list(table.kinds)


def _load(connection: duckdb.DuckDBPyConnection, name: str, table: Upload, uploads: Uploads) -> list[str]:
    with _relation(connection, table.source, uploads) as relation:
        return _read(connection, name, table, relation)


def _read(connection: duckdb.DuckDBPyConnection, name: str, table: Upload, relation: str) -> list[str]:
    shown = table.source if isinstance(table.source, Path) else "the synthetic frame"
    theirs: dict[str, str] = {}
    with _told(f"{shown} cannot be read", name):
        theirs = {row[0].lower(): row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()}
    present = [column for column in table.kinds if column.lower() in theirs]
    casts = {column: f"CAST({quote(theirs[column.lower()])} AS {table.kinds[column]})" for column in present}
    for column, cast in casts.items():
        with _told(f"column {column} of {shown} cannot be read as {table.kinds[column]}", column):
            connection.execute(f"SELECT COUNT({cast}) FROM {relation}").fetchall()
    if casts:
        columns = ", ".join(f"{cast} AS {quote(column)}" for column, cast in casts.items())
        connection.execute(f"CREATE TABLE {quote(name)} AS SELECT {columns} FROM {relation}")
    return present


@contextlib.contextmanager
def _relation(connection: duckdb.DuckDBPyConnection, source: Any, uploads: Uploads) -> Iterator[str]:
    """What stands after FROM to read a file or a frame."""
    if isinstance(source, Path):
        if not is_of_rows(source.name):
            raise OperationalError(f"{source} is neither CSV nor Parquet", code="no-file", subject=str(source))
        with uploads.opened(source) as copy:
            if not is_of_texts(source.name):
                yield f"read_parquet({text_literal(copy)})"
                return
            with _told(f"{source} cannot be read", str(source)):
                put_as_drafted(connection, copy, TYPED)
            yield quote(TYPED)
            connection.execute(f"DROP TABLE {quote(TYPED)}")
        return
    with _told("a synthetic table must be a pandas frame, or the path of a CSV or Parquet file", ""):
        if not _is_frame(source):
            raise TypeError
        connection.register(FRAME, source)
    yield FRAME


def _is_frame(source: Any) -> bool:
    """Whether rows were handed over themselves: an engine would also take what reads files, such as a dataset of Arrow."""
    kinds = {("pandas", "DataFrame"), ("pyarrow", "Table"), ("pyarrow", "RecordBatch")}
    return any((kind.__module__.partition(".")[0], kind.__name__) in kinds for kind in type(source).__mro__)


@contextlib.contextmanager
def _told(reason: str, subject: str) -> Any:
    """The error for a fault of the engine on public data, in our words."""
    failed = False
    try:
        yield
    except Exception:
        failed = True
    if failed:
        raise OperationalError(reason, code="synthetic", subject=subject)
