"""A store in a file system of Spark, whose buckets are read by the tasks of a cluster.

The driver, which is the process of dpsql, has an ordinary `DuckReader`: for the schema, for public tables, and for the text
that merges the parts. A part of a query is one job; each task rebuilds the file of a bucket from its chunks, compares its
digest with the one in the manifest, and runs the part in it (`backends.spark_task`).

Why the sums are those of the whole store. The manifest, which counts only if it is remembered beside the ledger, word by word
(`ledgers.proven_facts`), has the digest of each bucket; so what a task reads under a number are the rows that were put there. Of
each number the driver wants all pieces of a result, each once, the last one marked. So a bucket that is missing, is there
twice, was exchanged or failed is a fault, and never a part of a sum, however often Spark ran a task, and wherever. Arrow
carries every type of the engine without loss (`arrow_lossless_conversion`), and tasks run the engine's very version under the
same locked settings.

Where many rows come of the parts, they are combined first, in tasks too: each row goes to one of several groups by a hash of
its keys, a task wants for its group a share of every piece that the driver has seen, each once, and the driver wants the
results of all groups as it wants those of buckets. Whichever rows are combined, the driver's text gives the same for the
result (`reader.Parts`), so nothing rests on the hash.

Statements that are not split by entity are read in the database that the store was made of, and their parts that are, here.
Where the data are nowhere but in Spark, all that the driver has of private tables are rows of such parts
(`measurements.reading.content`), in a temporary table, which goes to the disk where it exceeds the memory of the engine.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import duckdb

from dpsql.backends import spark_task
from dpsql.backends.spark_cluster import SparkCluster, run_job
from dpsql.backends.spark_results import Piece, Results, check_whole, results
from dpsql.backends.spark_task import CHUNKS, RESULTS, SHARES, Combining, PartOfQuery, put
from dpsql.backends.store import RememberedFacts, manifest_of, remembered, tables_as_json, tables_of
from dpsql.errors import OperationalError
from dpsql.frozen import Frozen, replace
from dpsql.trusted.plan.expr.printing import quote
from dpsql.trusted.plan.stored import StoredTable, bucket_name, place_in_bucket
from dpsql.trusted.reader import PARTS, Parts, ReaderFault

MANY = 1_000_000  # rows of parts, beyond which they are combined before they come to the driver: below, that takes longer
GROUPS = 32  # by a hash of their keys, at most, which tasks combine


class SparkStore(Frozen):
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
        """Read a store from JSON. Raises ValueError, KeyError or TypeError for anything that `as_json` did not write."""
        found = json.loads(text)
        return cls(entity=found["entity"], made_of=found["made_of"], folder=found["folder"],
                   digests=tuple(found["digests"]), tables=tables_of(found["tables"]))


def manifest_in_spark(folder: Path, entity: str) -> Path:
    """The manifest of the store of a kind of entity. The buckets are not in this folder."""
    return manifest_of(folder, entity, "spark")


def store_of(manifest: Path, facts: RememberedFacts) -> SparkStore | None:
    """The store that a manifest describes; None unless exactly this manifest was remembered."""
    text = remembered(manifest, facts)
    return None if text is None else SparkStore.from_json(text)


def find_spark_store(folder: Path, entity: str, made_of: str, facts: RememberedFacts) -> SparkStore | None:
    """The store of a kind of entity that this version of the engine made from exactly these tables; None if there is none."""
    store = store_of(manifest_in_spark(folder, entity), facts)
    return store if store is not None and (store.entity, store.made_of) == (entity, made_of) else None


class SparkBuckets:
    """The buckets of a store, read by a cluster. `private` are the names of all private tables. `alone`: whether their rows are
    nowhere else."""

    def __init__(self, cluster: SparkCluster, store: SparkStore, manifest: Path, *, public: Collection[str],
                 private: Collection[str], alone: bool = False) -> None:
        self.store = store
        self.tables = {name: replace(table, at_once=False, alone=alone) for name, table in store.tables.items()}
        self._cluster, self._public, self._private = cluster, public, private
        self.version = hashlib.sha256(store.as_json().encode()).hexdigest() if alone else ""
        self._manifest, self._text = manifest, store.as_json()
        try:
            self._chunks = run_job(lambda: cluster.spark.read.schema(CHUNKS).parquet(store.folder))
        except ReaderFault:
            raise OperationalError(f"Spark cannot read the prepared store in {store.folder}", code="spark",
                                   try_="dpsql prepare, which makes a new one") from None

    def check(self) -> None:
        if not self._manifest.is_file() or self._manifest.read_text(encoding="utf-8") != self._text:
            raise OperationalError("the data were prepared again since they were opened", code="data-changed",
                                   try_="dpsql.connect(...) again; what was charged stays charged")
        self._cluster.check()

    def collect(self, cursor: duckdb.DuckDBPyConnection, parts: Parts, held: Collection[str]) -> None:
        if len(parts.statements) != len(self.store.digests):
            raise ReaderFault
        beside = sorted({*self._public, *held} - {*self._private})
        with contextlib.ExitStack() as kept:
            found = self._results(self._task(cursor, parts.statements, [
                name for name in beside if quote(name) in parts.statements[0]]), kept)
            pieces = [piece for one in found for piece in one.there]
            check_whole(pieces, len(self.store.digests))
            if parts.combined is not None and sum(piece.rows for piece in pieces) > MANY:
                found = [self._combined(parts, found, pieces, kept)]
            pieces_of_all = (data for one in found for data in one.data())
            there = sum(put(cursor, parts.name, data, more=number > 0) for number, data in enumerate(pieces_of_all))
            if there != sum(piece.rows for one in found for piece in one.there):
                raise ReaderFault

    def close(self) -> None:
        self._cluster.close()

    def counts(self) -> list[int]:
        """The number of rows of each table."""
        parts = ["SELECT " + ", ".join(f"(SELECT COUNT(*) FROM {place_in_bucket(name, number)}) AS n{at}"
                                       for at, name in enumerate(self.tables)) for number in range(len(self.store.digests))]
        summed = ", ".join(f"CAST(SUM(n{at}) AS BIGINT)" for at in range(len(self.tables)))
        with duckdb.connect() as driver:
            cursor = driver.cursor()
            self.collect(cursor, Parts(statements=tuple(parts)), ())
            return [*cursor.execute(f"SELECT {summed} FROM {PARTS}").fetchall()[0]]

    def has_repeated(self, table: str, columns: Sequence[str]) -> bool:
        """Whether two rows of a table have the same values in some columns, none of them NULL."""
        names = ", ".join(map(quote, columns))
        repeated = f"SELECT {names} FROM {PARTS} GROUP BY {names} HAVING COUNT(*) > 1"
        parts = Parts(statements=tuple(f"SELECT {names} FROM {place_in_bucket(table, number)}"
                                       for number in range(len(self.store.digests))),
                      combined=f"SELECT t.* FROM ({repeated}) AS t, (VALUES (1), (2)) AS twice", keys=tuple(map(quote, columns)))
        with duckdb.connect() as driver:
            cursor = driver.cursor()
            self.collect(cursor, parts, ())
            return bool(cursor.execute(f"{repeated} LIMIT 1").fetchall())

    def _task(self, cursor: duckdb.DuckDBPyConnection, parts: Sequence[str], beside: Sequence[str]) -> PartOfQuery:
        return PartOfQuery(
            engine=self._cluster.engine, digests=self.store.digests, parts=tuple(parts),
            databases=tuple(map(bucket_name, range(len(parts)))),
            beside=tuple((quote(name), _stream(cursor, f"SELECT * FROM {quote(name)}")) for name in beside))

    def _results(self, task: PartOfQuery, kept: contextlib.ExitStack) -> list[Results]:
        """The results of all buckets: from the executors that keep their files, and where these do not, from the store."""
        numbers = self._chunks.where("chunk = 0").select("bucket")
        found = [kept.enter_context(results(numbers.mapInArrow(spark_task.part_where_kept(task), RESULTS)))]
        if absent := found[0].absent:
            rest = self._chunks.select("bucket", "bytes").where(f"bucket IN ({', '.join(map(str, sorted(absent)))})")
            found.append(kept.enter_context(results(rest.mapInArrow(spark_task.part_of_query(task), RESULTS))))
        return found

    def _combined(self, parts: Parts, found: Sequence[Results], pieces: Sequence[Piece], kept: contextlib.ExitStack) -> Results:
        """The rows of some results, combined by Spark. Raises ReaderFault unless all of them are in it."""
        assert parts.combined is not None
        groups = min(GROUPS, len(self.store.digests))
        task = Combining(engine=self._cluster.engine, name=parts.name, keys=parts.keys, sql=parts.combined, groups=groups,
                         pieces=frozenset((piece.bucket, piece.piece) for piece in pieces))
        rows = functools.reduce(lambda one, other: one.union(other), [one.frame.where("piece >= 0") for one in found])
        shares = rows.mapInArrow(spark_task.shares(task), SHARES).repartition(groups, "group").sortWithinPartitions("group")
        combined = kept.enter_context(results(shares.mapInArrow(spark_task.combined(task), RESULTS)))
        check_whole(combined.pieces, groups)
        return combined


def _stream(cursor: duckdb.DuckDBPyConnection, sql: str) -> bytes:
    """The rows of a query as a stream of Arrow."""
    import pyarrow as pa

    rows = cursor.sql(sql).to_arrow_table()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data
