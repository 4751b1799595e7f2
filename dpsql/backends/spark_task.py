"""What runs in the tasks of Spark: one bucket of a store at a time, by DuckDB.

It is sent to the executors as it stands here (`pickled by value`), so these need Python, DuckDB and PyArrow, and not dpsql; it
imports nothing of ours. Spark sees bytes only:

* a *bucket* is a DuckDB file in rows of `CHUNKS`, in order: its number, that of the chunk, bytes, and the digest of all of them;
* a *result* is a table as Arrow writes it in a stream, in rows of `RESULTS`: the number of the bucket, that of the piece,
  whether it is the last one, how many rows it has, and bytes. There is one at least for each bucket, so that the driver sees
  whether one is missing, or is there twice;
* a *share* is what a piece has for one of some groups of keys, in rows of `SHARES`: the number of the group, those of the bucket
  and the piece, and bytes. Each piece has one for every group, so that who combines them sees whether one is missing.

An executor keeps the files of buckets, under their digests, where Spark keeps what is local and removes it with the executor.
So a part is run first where the files are kept (`part_where_kept`); which of them are not, has the number `ABSENT`, and is
rebuilt.

What fails here while DuckDB works may depend on rows, so nothing is told of it: its piece has the number `FAILED`. Other errors
(of disks, of the stream of chunks) hold nothing of rows; Spark tries such a task again, elsewhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

CHUNKS = "bucket INT, chunk INT, bytes BINARY, digest STRING, told STRING"
RESULTS = "bucket INT, piece INT, last BOOLEAN, rows INT, bytes BINARY"
SHARES = "group INT, bucket INT, piece INT, bytes BINARY"
CHUNK = 1 << 20  # bytes
PIECE = 200_000  # rows
FAILED, ABSENT = -1, -2  # in place of the number of a piece
KEPT = 4  # times its size have to be free on the disk of an executor, where a bucket is kept
BUCKET = '"bucket 0"'  # the name, as SQL, of the attached file that is made: that of `plan.stored` for the first one


@dataclass(frozen=True, kw_only=True)
class Engine:
    """The engine that a task may use: its version, how it is configured, and the settings that are locked."""

    version: str
    config: tuple[tuple[str, str], ...]
    settings: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PartOfQuery:
    """Statements, of which one is run in each bucket.

    digests    those of the buckets, in order: another file is not read
    databases  the names, as SQL, that the statements have for the buckets
    beside     the public tables that they name, as SQL, each as a stream of Arrow
    """

    engine: Engine
    digests: tuple[str, ...]
    databases: tuple[str, ...]
    parts: tuple[str, ...]
    beside: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, kw_only=True)
class Combining:
    """How rows of results are combined.

    keys    the columns, as SQL, by a hash of which rows go to one of so many `groups`
    sql     the statement that combines the rows of a group, which are in a table of this `name`, as SQL
    pieces  those of all results, by the numbers of bucket and piece
    """

    engine: Engine
    keys: tuple[str, ...]
    groups: int
    sql: str
    name: str
    pieces: frozenset[tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class BucketTable:
    """A table of a bucket that is made: its name as SQL, the columns of its rows with their types, the statement of what is
    stored over the table of that name, and the one that tells of these rows."""

    name: str
    columns: tuple[tuple[str, str], ...]
    sql: str
    told: str


def versions(batches: Any) -> Iterator[Any]:
    """The version of DuckDB that an executor runs."""
    import pyarrow as pa

    for _ in batches:
        pass
    found = "none"
    with contextlib.suppress(ImportError):
        import duckdb

        found = duckdb.__version__
    yield pa.RecordBatch.from_pydict({"version": [found]})


def part_of_query(task: PartOfQuery) -> Callable[[Any], Iterator[Any]]:
    """The function that Spark maps over batches of `CHUNKS`; it yields batches of `RESULTS`."""

    def run(batches: Any) -> Iterator[Any]:
        for bucket, digest, path in _files(batches):
            try:
                yield from _results(task, bucket, digest, _kept(path, digest))
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)

    return run


def part_where_kept(task: PartOfQuery) -> Callable[[Any], Iterator[Any]]:
    """The function that Spark maps over batches of bucket numbers; it yields batches of `RESULTS`."""

    def run(batches: Any) -> Iterator[Any]:
        for batch in batches:
            for bucket in batch.column("bucket").to_pylist():
                place = _place(task.digests[bucket])
                if place is not None and os.path.exists(place):
                    yield from _results(task, bucket, task.digests[bucket], place)
                else:
                    yield _batch(bucket, ABSENT)

    return run


def _files(batches: Any) -> Iterator[tuple[int, str, str]]:
    """The buckets of some chunks: the number, the digest of the file as it is, and its path."""
    bucket, path, digest = -1, "", hashlib.sha256()
    file: Any = None
    try:
        for batch in batches:
            for number, data in zip(batch.column("bucket").to_pylist(), batch.column("bytes"), strict=True):
                if number != bucket:
                    if file is not None:
                        file.close()
                        yield bucket, digest.hexdigest(), path
                    handle, path = tempfile.mkstemp(".duckdb", dir=_folder())  # which only its user can read
                    bucket, file, digest = number, os.fdopen(handle, "wb"), hashlib.sha256()
                piece = memoryview(data.as_buffer())
                digest.update(piece)
                file.write(piece)
        if file is not None:
            file.close()
            yield bucket, digest.hexdigest(), path
    finally:
        with contextlib.suppress(FileNotFoundError):
            if file is not None:
                file.close()
                os.unlink(path)


def _place(digest: str) -> str | None:
    """Where a file is kept; None if that is not known."""
    folder = _folder()
    return None if folder is None else os.path.join(folder, f"dpsql-{digest}.duckdb")


def _kept(path: str, digest: str) -> str:
    """The path of a file, which is kept if there is plenty of room."""
    place = _place(digest)
    if place is None or shutil.disk_usage(os.path.dirname(place)).free < KEPT * os.path.getsize(path):
        return path
    os.replace(path, place)
    return place


def _folder() -> str | None:
    """Where Spark keeps what is local, and removes what is left there; or else the usual folder."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None


def _results(task: PartOfQuery, bucket: int, digest: str, path: str) -> Iterator[Any]:
    """What its statement gives in one bucket. A file that is not kept has no name any more while it is read: it is gone even if
    the task is killed."""
    def ready(connection: Any) -> str:
        if digest != task.digests[bucket]:
            raise ValueError
        connection.execute(f"ATTACH '{_escaped(path)}' AS {task.databases[bucket]} (READ_ONLY)")
        if path != _place(digest):
            os.unlink(path)
        _lock(connection, task.engine)
        for name, stream in task.beside:
            put(connection, name, stream)
        return task.parts[bucket]

    yield from _result(bucket, task.engine, ready)


def _result(number: int, engine: Engine, ready: Callable[[Any], str]) -> Iterator[Any]:
    """What a statement gives on a new connection, which `ready` makes ready for it; it returns the statement."""
    spill = tempfile.mkdtemp(dir=_folder())
    connection, failed = None, False
    try:
        connection = _opened(engine, spill)
        yield from _pieces(number, connection.sql(ready(connection)).to_arrow_reader(PIECE))
    except Exception:  # whatever it is, it is told without a word; in no handler, so that nothing hangs on
        failed = True
    finally:
        if connection is not None:
            connection.close()
        shutil.rmtree(spill, ignore_errors=True)
    if failed:
        yield _batch(number, FAILED)


def _lock(connection: Any, engine: Engine) -> None:
    for setting in engine.settings:
        connection.execute(setting)


def put(connection: Any, table: str, stream: bytes, *, more: bool = False) -> int:
    """Load rows into a new temporary table, or add them to an existing one; `table` is its name in SQL. Returns the number of
    rows."""
    name, found = _nobodys_name(), _read(stream)
    connection.register(name, found)
    rows = f'SELECT * FROM "{name}"'
    connection.execute(f"INSERT INTO {table} {rows}" if more else f"CREATE TEMP TABLE {table} AS {rows}")
    connection.unregister(name)
    number: int = found.num_rows
    return number


def _opened(engine: Engine, spill: str = "") -> Any:
    """A connection of the expected version. Raises ValueError if it is another one."""
    import duckdb

    if duckdb.__version__ != engine.version:
        raise ValueError
    return duckdb.connect(config={**dict(engine.config), "temp_directory": spill})


def _pieces(bucket: int, reader: Any) -> Iterator[Any]:
    """The rows of a result; the last piece is empty, and tells their columns where there are no others."""
    number = -1
    for number, rows in enumerate(reader):
        yield _batch(bucket, number, last=False, rows=rows.num_rows, data=_stream(reader.schema, [rows]))
    yield _batch(bucket, number + 1, data=_stream(reader.schema, []))


def _batch(bucket: int, piece: int, *, last: bool = True, rows: int = 0, data: bytes = b"") -> Any:
    import pyarrow as pa

    whole = pa.int32()
    return pa.RecordBatch.from_arrays(
        [pa.array([bucket], whole), pa.array([piece], whole), pa.array([last]), pa.array([rows], whole),
         pa.array([data], pa.binary())], names=["bucket", "piece", "last", "rows", "bytes"])


def _stream(schema: Any, batches: Sequence[Any]) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _read(stream: bytes) -> Any:
    import pyarrow as pa

    return pa.ipc.open_stream(stream).read_all()


def _nobodys_name() -> str:
    """A name for rows that nobody else can give to a table."""
    return f"rows {secrets.token_hex(8)}"


def _escaped(path: str) -> str:
    return path.replace("'", "''")


# -- combining results


def shares(task: Combining) -> Callable[[Any], Iterator[Any]]:
    """The function that Spark maps over batches of `RESULTS`; it yields batches of `SHARES`. A piece that fails yields no
    share."""

    def run(batches: Any) -> Iterator[Any]:
        with contextlib.closing(_opened(task.engine)) as connection:
            _lock(connection, task.engine)
            for batch in batches:
                for row in batch.to_pylist():
                    with contextlib.suppress(Exception):
                        yield from _shares(task, connection, row["bucket"], row["piece"], _read(row["bytes"]))

    return run


def _shares(task: Combining, connection: Any, bucket: int, piece: int, rows: Any) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    name, whole = _nobodys_name(), pa.int32()
    connection.register(name, rows)
    places = connection.sql(
        f'SELECT CAST(hash({", ".join(task.keys)}) % {task.groups} AS INTEGER) AS g FROM "{name}"').to_arrow_table().column("g")
    connection.unregister(name)
    found = [rows.filter(pc.equal(places, group)) for group in range(task.groups)]
    if sum(share.num_rows for share in found) != rows.num_rows:
        raise ValueError
    for group, share in enumerate(found):
        yield pa.RecordBatch.from_arrays(
            [pa.array([group], whole), pa.array([bucket], whole), pa.array([piece], whole),
             pa.array([_stream(share.schema, share.to_batches())], pa.binary())], names=["group", "bucket", "piece", "bytes"])


def combined(task: Combining) -> Callable[[Any], Iterator[Any]]:
    """The function that Spark maps over batches of `SHARES`, sorted by group; it yields batches of `RESULTS`, which give
    the number of the group where others give that of the bucket."""

    def run(batches: Any) -> Iterator[Any]:
        rows = (row for batch in batches for row in batch.to_pylist())
        for group, found in itertools.groupby(rows, lambda row: row["group"]):
            yield from _combined(task, group, found)

    return run


def _combined(task: Combining, group: int, found: Iterator[Any]) -> Iterator[Any]:
    """What the shares of all pieces for one group give."""
    def ready(connection: Any) -> str:
        seen: set[tuple[int, int]] = set()
        _lock(connection, task.engine)
        for row in found:
            here = row["bucket"], row["piece"]
            if here in seen:
                raise ValueError
            put(connection, task.name, row["bytes"], more=bool(seen))
            seen.add(here)
        if seen != task.pieces:
            raise ValueError
        return task.sql

    yield from _result(group, task.engine, ready)


# -- making a bucket


def made_buckets(engine: Engine, tables: Sequence[BucketTable]) -> Callable[[Any], Iterator[Any]]:
    """The function that Spark maps over rows sorted by `bucket`; it yields batches of `CHUNKS`.

    The rows of table number n have their columns in the structure `tn`, and n in `at`; a row of each bucket has no table.
    """

    def run(batches: Any) -> Iterator[Any]:
        bucket, maker = -1, None
        try:
            for batch in batches:
                for number, rows in _by_bucket(batch):
                    if number != bucket:
                        if maker is not None:
                            yield from maker.finished()
                        bucket, maker = number, BucketMaker(engine, tables, number)
                    assert maker is not None
                    maker.add(rows)
            if maker is not None:
                yield from maker.finished()
        finally:
            if maker is not None:
                maker.close()

    return run


def _by_bucket(batch: Any) -> Iterator[tuple[int, Any]]:
    """The rows of a batch that is in order of buckets, by bucket."""
    import pyarrow as pa

    numbers = batch.column("bucket").to_numpy()
    starts = [0, *(at for at in range(1, len(numbers)) if numbers[at] != numbers[at - 1]), len(numbers)]
    for start, end in itertools.pairwise(starts):
        if end > start:
            yield int(numbers[start]), pa.Table.from_batches([batch.slice(start, end - start)])


class BucketMaker:
    """Makes the file of one bucket. What fails is told by an empty digest."""

    def __init__(self, engine: Engine, tables: Sequence[BucketTable], bucket: int) -> None:
        self._tables, self._bucket, self._failed = tables, bucket, False
        self._folder = tempfile.mkdtemp(dir=_folder())
        self._path = os.path.join(self._folder, "bucket.duckdb")
        try:
            self._connection = _opened(engine, self._folder)
            for table in tables:
                columns = ", ".join(f"{column} {kind}" for column, kind in table.columns)
                self._connection.execute(f"CREATE TABLE {table.name} ({columns})")
        except Exception:
            self._failed = True

    def add(self, rows: Any) -> None:
        """Add rows of any table."""
        if self._failed:
            return
        try:
            name = _nobodys_name()
            self._connection.register(name, rows)
            for number, table in enumerate(self._tables):
                shown = ", ".join(f"s.c{at}" for at in range(len(table.columns)))
                self._connection.execute(f'INSERT INTO {table.name} SELECT {shown} FROM '
                                         f'(SELECT r."t{number}" AS s FROM "{name}" AS r WHERE r."at" = {number}) AS q')
            self._connection.unregister(name)
        except Exception:
            self._failed = True

    def finished(self) -> Iterator[Any]:
        """The chunks of the file."""
        told: list[Any] = []
        if not self._failed:
            try:
                self._connection.execute(f"ATTACH '{_escaped(self._path)}' AS {BUCKET}")
                for table in self._tables:
                    self._connection.execute(f"CREATE TABLE {BUCKET}.main.{table.name} AS {table.sql}")
                    told += [list(self._connection.execute(table.told).fetchall()[0])]
                self._connection.execute(f"DETACH {BUCKET}")
                self._connection.close()
            except Exception:
                self._failed = True
        if self._failed:
            yield chunk(self._bucket, 0, b"", "", "")
        else:
            yield from chunks(self._bucket, self._path, json.dumps(told))
        self.close()

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def chunks(bucket: int, path: str, told: str) -> Iterator[Any]:
    """The file of a bucket in batches of `CHUNKS`."""
    digest = digest_of(path)
    with open(path, "rb") as file:
        number = 0
        while data := file.read(CHUNK):
            yield chunk(bucket, number, data, digest, told)
            number += 1


def digest_of(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def chunk(bucket: int, number: int, data: bytes, digest: str, told: str) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [pa.array([bucket], pa.int32()), pa.array([number], pa.int32()), pa.array([data], pa.binary()), pa.array([digest]),
         pa.array([told])], names=["bucket", "chunk", "bytes", "digest", "told"])
