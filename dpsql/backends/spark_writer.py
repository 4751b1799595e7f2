"""Putting a store into a file system of Spark: one that was made on this machine, or (`backends.spark_shuffle`) by Spark itself.

The files of the buckets go up in slices, into a folder aside, from which Spark writes each bucket as one file of chunks; all of
it is read once, as statements will read it, before it is put in force. The files can be read by their owner alone, where a file
system has such a thing.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dpsql.backends import spark_task
from dpsql.backends.duckdb import DuckReader
from dpsql.backends.manifests import put_in_place
from dpsql.backends.spark import SparkBuckets, SparkStore, manifest_in_spark, store_of
from dpsql.backends.spark_cluster import SparkCluster, run_job
from dpsql.backends.spark_task import CHUNKS
from dpsql.backends.store import RememberedFacts, fact_of
from dpsql.backends.store_writer import fresh_buckets, remove
from dpsql.catalog.model import Catalog
from dpsql.errors import OperationalError
from dpsql.frozen import replace
from dpsql.trusted.reader import ReaderFault

SLICE = 64  # chunks that go up at a time


def upload(cluster: SparkCluster, reader: DuckReader, catalog: Catalog, folder: Path, address: str, *, salt: int,
           facts: RememberedFacts, buckets: int | None, tell: Callable[[str], None]) -> SparkStore:
    """Make the store of the entity of a catalog on this machine, and put it in force at an address of Spark; see
    `store_writer.prepare`. The local copy is removed."""
    with fresh_buckets(reader, catalog, folder, salt=salt, buckets=buckets, tell=tell) as store:
        paths = [bucket.path for bucket in store.buckets]
        with written(cluster, address, manifest_in_spark(folder, store.entity)) as place:
            tell(f"writing {len(paths)} buckets to {address} ...")
            _send(cluster, paths, place)
            digests = tuple(spark_task.digest_of(str(path)) for path in paths)
            made = SparkStore(entity=store.entity, made_of=store.made_of, folder=place, digests=digests, tables={
                name: replace(table, at_once=False) for name, table in store.tables.items()})
            put_in_force(cluster, made, folder, facts)
        remove(paths[0].parent)
    return made


@contextlib.contextmanager
def written(cluster: SparkCluster, address: str, manifest: Path) -> Iterator[str]:
    """A context with a new folder at an address. The folder is emptied if the block fails before the manifest names the folder.
    Raises OperationalError if Spark cannot write there."""
    place = f"{address.rstrip('/')}/{secrets.token_hex(8)}"
    failed = False
    try:
        yield place
    except ReaderFault:
        failed = True
        _empty(cluster, place)
    except BaseException:
        if not _is_in_force(manifest, place):  # it may come after the last step
            _empty(cluster, place)
        raise
    if failed:
        raise OperationalError(f"the store could not be written to {address} by Spark; the previous store is still used",
                               code="store", try_='store = "hdfs://..." in [spark], a folder where every executor may write')


def put_in_force(cluster: SparkCluster, store: SparkStore, folder: Path, facts: RememberedFacts) -> None:
    """Let statements read a store instead of the previous one, whose files are removed. Raises ReaderFault unless the new store
    can be read and has all of its rows."""
    counted = SparkBuckets(cluster, store, Path(), public=(), private=()).counts()
    if counted != [table.rows for table in store.tables.values()]:
        raise ReaderFault
    manifest, text = manifest_in_spark(folder, store.entity), store.as_json()
    before = store_of(manifest, facts)
    facts.keep(fact_of(text))
    put_in_place(manifest, text)
    if before is not None:
        _empty(cluster, before.folder)


def write_chunks(chunks: Any, place: str) -> None:
    """Write a frame of chunks: the chunks of each bucket into one file, in order."""
    (chunks.sortWithinPartitions("bucket", "chunk").write.partitionBy("bucket").option("compression", "none")
     .option("parquet.enable.dictionary", "false").parquet(place))


def _send(cluster: SparkCluster, paths: Sequence[Path], place: str) -> None:
    aside = f"{place}-aside"
    try:
        for rows in _slices(paths):
            run_job(lambda rows=rows: cluster.spark.createDataFrame(rows).write.mode("append").parquet(aside))  # type: ignore[misc]
        run_job(lambda: write_chunks(
            cluster.spark.read.schema(CHUNKS).parquet(aside).repartition(len(paths), "bucket"), place))
    finally:
        _empty(cluster, aside)


def _slices(paths: Sequence[Path]) -> Iterator[Any]:
    """The chunks of some files, as tables of Arrow."""
    import pyarrow as pa

    for bucket, path in enumerate(paths):
        batches: list[Any] = []
        for batch in spark_task.chunks(bucket, str(path), ""):
            batches.append(batch)
            if len(batches) == SLICE:
                yield pa.Table.from_batches(batches)
                batches = []
        if batches:
            yield pa.Table.from_batches(batches)


def _is_in_force(manifest: Path, place: str) -> bool:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return SparkStore.from_json(manifest.read_text(encoding="utf-8")).folder == place
    return False


def _empty(cluster: SparkCluster, place: str) -> None:
    """Remove the files of a folder, as Spark can: by writing none in their place."""
    with contextlib.suppress(ReaderFault):
        run_job(lambda: cluster.spark.range(0).write.mode("overwrite").parquet(place))
