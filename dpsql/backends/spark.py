"""A store in a file system of Spark, whose buckets are read by the tasks of a cluster.

The driver, which is the process of dpsql, has an ordinary `DuckReader`: for the schema, for public tables, and for the text
that merges the parts. A part of a query is one job; each task rebuilds the file of a bucket from its chunks, compares its
digest with the one in the manifest, and runs the part in it (`backends.spark_task`).

Why the sums are those of the whole store. The manifest, which counts only if it is remembered beside the ledger, word by word
(`kernel.proven_facts`), has the digest of each bucket; so what a task reads under a number are the rows that were put there. Of
each number the driver wants all pieces of a result, each once, the last one marked. So a bucket that is missing, is there
twice, was exchanged or failed is a fault, and never a part of a sum, however often Spark ran a task, and wherever. Arrow
carries every type of the engine without loss (`arrow_lossless_conversion`), and tasks run the engine's very version under the
same locked settings.

Statements that are not split by entity are read in the database that the store was made of. Where the data are nowhere but in
Spark, the driver has its private tables without a row, and a database in memory for each bucket, under the name that
`plan.stored` gives it. Into these come the rows of the tables that such a statement names, for as long as it takes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import duckdb

from dpsql.backends import spark_task
from dpsql.backends.reader import PARTS, ReaderFault
from dpsql.backends.spark_cluster import SparkCluster, run_job
from dpsql.backends.spark_task import ABSENT, CHUNKS, FAILED, RESULTS, PartOfQuery
from dpsql.backends.store import RememberedFacts, manifest_of, remembered, tables_as_json, tables_of
from dpsql.errors import OperationalError
from dpsql.plan.expr.printing import quote
from dpsql.plan.stored import StoredTable, bucket_name, place_in_bucket

Piece: TypeAlias = tuple[int, int, bool, bytes]  # as in `RESULTS`
ARROW = f"rows from tasks {secrets.token_hex(8)}"  # what came back; a name that nobody else can give to a table


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkStore:
    """A store of one kind of entity: the folder of its buckets in a file system of Spark, their digests, in order, and its
    tables by name. `made_of` says what it was made of: as a `backends.store.Store` does, or which tables of Spark."""

    entity: str
    made_of: str
    folder: str
    digests: tuple[str, ...]
    tables: Mapping[str, StoredTable]

    def as_json(self) -> str:
        return json.dumps({"entity": self.entity, "made_of": self.made_of, "folder": self.folder,
                           "digests": self.digests, "tables": tables_as_json(self.tables)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> SparkStore:
        """Raises ValueError, KeyError or TypeError for anything but what `as_json` gave."""
        found = json.loads(text)
        return cls(entity=found["entity"], made_of=found["made_of"], folder=found["folder"],
                   digests=tuple(found["digests"]), tables=tables_of(found["tables"]))


def manifest_in_spark(folder: Path, entity: str) -> Path:
    """The manifest of the store of a kind of entity; its buckets are elsewhere."""
    return manifest_of(folder, entity, "spark")


def store_of(manifest: Path, facts: RememberedFacts) -> SparkStore | None:
    """The store that a manifest tells of, if that is what is remembered of it."""
    text = remembered(manifest, facts)
    return None if text is None else SparkStore.from_json(text)


def find_spark_store(folder: Path, entity: str, made_of: str, facts: RememberedFacts) -> SparkStore | None:
    """The store of a kind of entity that was made of these very tables by this version of the engine; None where there is
    none."""
    store = store_of(manifest_in_spark(folder, entity), facts)
    return store if store is not None and (store.entity, store.made_of) == (entity, made_of) else None


class SparkBuckets:
    """The buckets of a store, read by a cluster. `private` are the names of all private tables. Where the
    rows are in Spark `alone`, the connection of the reader has a database in memory for each bucket (`attach_empty`)."""

    def __init__(self, cluster: SparkCluster, store: SparkStore, manifest: Path, *, public: Collection[str],
                 private: Collection[str], alone: bool = False) -> None:
        self.store, self.tables = store, store.tables
        self._cluster, self._public, self._private = cluster, public, private
        self._alone, self._bringing = alone, threading.Lock()
        self.version = hashlib.sha256(store.as_json().encode()).hexdigest() if alone else ""
        self._manifest, self._text = manifest, store.as_json()
        try:
            self._chunks = run_job(lambda: cluster.spark.read.schema(CHUNKS).parquet(store.folder))
        except ReaderFault:
            raise OperationalError(f"Spark cannot read the prepared store in {store.folder}", code="spark",
                                   try_="dpsql prepare, which makes it anew") from None

    def check(self) -> None:
        if not self._manifest.is_file() or self._manifest.read_text(encoding="utf-8") != self._text:
            raise OperationalError("the data were prepared anew since they were opened", code="data-changed",
                                   try_="dpsql.connect(...) again; what was charged stays charged")
        self._cluster.check()

    def collect(self, cursor: duckdb.DuckDBPyConnection, parts: Sequence[str], held: Collection[str]) -> None:
        if len(parts) != len(self.store.digests):
            raise ReaderFault
        beside = sorted({*self._public, *held} - {*self._private})
        pieces = self._pieces(parts, [name for name in beside if quote(name) in parts[0]], cursor)
        _put(cursor, f"TEMP TABLE {PARTS}", [piece for bucket in pieces for piece in bucket])

    @contextlib.contextmanager
    def brought(self, cursor: duckdb.DuckDBPyConnection, sql: str) -> Iterator[None]:
        named = [name for name in self.tables if place_in_bucket(name, 0) in sql] if self._alone else []
        if not named:
            yield
            return
        numbers = range(len(self.store.digests))
        with self._bringing:  # of one statement at a time, so that memory holds its tables alone
            try:
                for name in named:
                    pieces = self._pieces([f"SELECT * FROM {place_in_bucket(name, number)}" for number in numbers], [], cursor)
                    for number in numbers:
                        _put(cursor, f"TABLE {place_in_bucket(name, number)}", pieces[number])
                yield
            finally:
                for name in named:
                    for number in numbers:
                        cursor.execute(f"DROP TABLE IF EXISTS {place_in_bucket(name, number)}")

    def close(self) -> None:
        self._cluster.close()

    def counts(self) -> list[int]:
        """How many rows each table has."""
        parts = ["SELECT " + ", ".join(f"(SELECT COUNT(*) FROM {place_in_bucket(name, number)}) AS n{at}"
                                       for at, name in enumerate(self.tables)) for number in range(len(self.store.digests))]
        summed = ", ".join(f"CAST(SUM(n{at}) AS BIGINT)" for at in range(len(self.tables)))
        with duckdb.connect() as driver:
            cursor = driver.cursor()
            self.collect(cursor, parts, ())
            return [*cursor.execute(f"SELECT {summed} FROM {PARTS}").fetchall()[0]]

    def _pieces(self, parts: Sequence[str], beside: Sequence[str], cursor: duckdb.DuckDBPyConnection) -> list[list[bytes]]:
        """The pieces of the results of each bucket."""
        task = PartOfQuery(
            engine=self._cluster.engine, digests=self.store.digests, parts=tuple(parts),
            databases=tuple(map(bucket_name, range(len(parts)))),
            beside=tuple((quote(name), _stream(cursor, f"SELECT * FROM {quote(name)}")) for name in beside))

        return whole(run_job(lambda: self._results(task)), len(self.store.digests))

    def _results(self, task: PartOfQuery) -> list[Piece]:
        """The pieces of all buckets: from the executors that keep their files, and where these do not, from the store."""
        numbers = self._chunks.where("chunk = 0").select("bucket")
        found = _ran(numbers, spark_task.part_where_kept(task))
        absent = {bucket for bucket, piece, *_ in found if piece == ABSENT}
        if not absent:
            return found
        rest = self._chunks.select("bucket", "bytes").where(f"bucket IN ({', '.join(map(str, sorted(absent)))})")
        return [piece for piece in found if piece[1] != ABSENT] + _ran(rest, spark_task.part_of_query(task))


def _ran(frame: Any, function: Callable[[Any], Iterator[Any]]) -> list[Piece]:
    return [*zip(*frame.mapInArrow(function, RESULTS).toArrow().to_pydict().values(), strict=True)]


def whole(found: Iterable[Piece], buckets: int) -> list[list[bytes]]:
    """The pieces of the result of each of so many buckets. Raises ReaderFault unless each is there once, and whole."""
    pieces: dict[int, dict[int, bytes]] = {bucket: {} for bucket in range(buckets)}
    ends: dict[int, int] = {}
    for bucket, piece, last, data in found:
        if piece in (FAILED, ABSENT) or piece in pieces.get(bucket, {piece: b""}) or (last and bucket in ends):
            raise ReaderFault
        pieces[bucket][piece] = data
        if last:
            ends[bucket] = piece
    if any(bucket not in ends or [*range(ends[bucket] + 1)] != sorted(known) for bucket, known in pieces.items()):
        raise ReaderFault
    return [[*pieces[bucket].values()] for bucket in range(buckets)]


def attach_empty(connection: duckdb.DuckDBPyConnection, buckets: int) -> None:
    """Attach databases in memory, into which rows are brought."""
    for number in range(buckets):
        connection.execute(f"ATTACH ':memory:' AS {bucket_name(number)} (READ_WRITE)")


def _put(cursor: duckdb.DuckDBPyConnection, table: str, pieces: Sequence[bytes]) -> None:
    """Make a table of pieces; `table` is how SQL calls it."""
    import pyarrow as pa

    cursor.register(ARROW, pa.concat_tables([pa.ipc.open_stream(piece).read_all() for piece in pieces]))
    cursor.execute(f"CREATE {table} AS SELECT * FROM {quote(ARROW)}")
    cursor.unregister(ARROW)


def _stream(cursor: duckdb.DuckDBPyConnection, sql: str) -> bytes:
    """The rows of a query as a stream of Arrow."""
    import pyarrow as pa

    rows = cursor.sql(sql).to_arrow_table()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data
