"""Preparing by Spark: the rows of its tables in buckets of entities, each a file of DuckDB that a task makes.

The rows of all tables go to their buckets in one shuffle, by a hash of the key of their entity. Spark finds it along the
foreign keys as `operators.scan` prints them, with the same conditions. Keys are whole numbers, texts, days and moments, which
both engines compare alike. A row that lacks a declared key belongs to nobody; that keys are unique, on which a scan rests, is
found in the buckets before they are in force.

A bucket holds all rows of its entities, with the rows along the foreign keys to them, which are of the same entities; so the
statement of `store_writer` over the rows of a bucket alone names the owners and places that it would name over all rows. Each
row that was sent there has an owner, so that statement has to keep it: otherwise nothing is put in force.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpsql.backends.file_tables import shared_key
from dpsql.backends.owned_rows import OwnedRows
from dpsql.backends.spark import SparkBuckets, SparkStore, manifest_in_spark
from dpsql.backends.spark_cluster import SparkCluster, run_job
from dpsql.backends.spark_tables import SparkTable, backticked, origin_in_spark
from dpsql.backends.spark_task import CHUNKS, BucketTable, made_buckets
from dpsql.backends.spark_writer import put_in_force, write_chunks, written
from dpsql.backends.store import RememberedFacts
from dpsql.backends.store_writer import MOST_BUCKETS, ROWS_OF_BUCKET, prepared_as, storable, with_bucket
from dpsql.catalog.model import Catalog
from dpsql.frozen import Frozen, replace
from dpsql.trusted.declarations.tables import OwnerPath, Table
from dpsql.trusted.plan.expr.printing import quote
from dpsql.trusted.plan.node import Printing
from dpsql.trusted.plan.stored import StoredTable
from dpsql.trusted.reader import ReaderFault
from dpsql.types import Type

SPARK_KINDS = {Type.BOOLEAN: "BOOLEAN", Type.BIGINT: "BIGINT", Type.VARCHAR: "STRING", Type.DATE: "DATE",
               Type.TIMESTAMP: "TIMESTAMP_NTZ"}


class Sent(Frozen):
    """A table that is sent to buckets: as the catalog has it, and its rows in Spark."""

    table: Table
    frame: Any
    kinds: Mapping[str, str]


class WrittenBucket(Frozen):
    """A bucket that was written: its digest, and what its task told of the rows, as JSON."""

    digest: str
    told: str


def shuffle(cluster: SparkCluster, tables: Mapping[str, SparkTable], catalog: Catalog, folder: Path, address: str, *, salt: int,
            facts: RememberedFacts, buckets: int | None, tell: Callable[[str], None]) -> SparkStore:
    """Let Spark make the store of the entity of a catalog, and put it in force; see `store_writer.prepare`. Raises IntegrityError
    if rows share a declared key."""
    spark = cluster.session()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    with written(cluster, address, manifest_in_spark(folder, catalog.entity.name)) as place:
        sent = [_sent(spark, tables[table.name], table) for table in storable(catalog)]
        number = buckets or min(MOST_BUCKETS, max(1, *(-(-run_job(one.frame.count) // ROWS_OF_BUCKET) for one in sent)))
        tell(f"making {number} buckets at {address} ...")
        made = [_made(one, salt) for one in sent]
        rows = _rows(spark, sent, number).repartition(number, "bucket").sortWithinPartitions("bucket")
        run_job(lambda: write_chunks(rows.mapInArrow(made_buckets(cluster.engine, made), CHUNKS), place))
        there = _written(cluster, place, number)
        store = SparkStore(entity=catalog.entity.name, made_of=origin_in_spark(tables.values()), folder=place,
                           digests=tuple(bucket.digest for bucket in there), tables={})
        _check_keys(cluster, store, [tables[one.table.name] for one in sent], tell)
        store = replace(store, tables=_stored([one.table for one in sent], [bucket.told for bucket in there]))
        put_in_force(cluster, store, folder, facts)
    return store


def _sent(spark: Any, source: SparkTable, table: Table) -> Sent:
    """The rows of a table that have its key."""
    frame = source.frame(spark)
    kinds = source.kinds(frame)
    if source.key:
        frame = frame.where(" AND ".join(f"{backticked(column)} IS NOT NULL" for column in source.key))
    return Sent(table=table, frame=frame, kinds=kinds)


def _check_keys(cluster: SparkCluster, store: SparkStore, tables: Sequence[SparkTable], tell: Callable[[str], None]) -> None:
    """Raises IntegrityError if rows of a store that was written share a declared key. Those are looked at that statements will
    read, as a source may have been written to since it was."""
    buckets = SparkBuckets(cluster, store, Path(), public=(), private=())
    for table in tables:
        if table.key:
            tell(f"looking for rows of {table.name} that share a key ...")
            if buckets.has_repeated(table.name, table.key):
                raise shared_key(table.name, table.source, table.key)


def _rows(spark: Any, sent: Sequence[Sent], buckets: int) -> Any:
    """The rows of all tables, as `made_buckets` wants them."""
    for one in sent:
        one.frame.createOrReplaceTempView(_view(sent, one.table.name))
    found = spark.range(buckets).selectExpr("CAST(id AS INT) AS bucket", "-1 AS at")  # so that each bucket is there
    for number, one in enumerate(sent):
        columns = ", ".join(f"'c{at}', t0.{backticked(name)}" for at, name in enumerate(one.table.columns))
        source, tests, owner = _owned(sent, one.table)
        found = found.unionByName(spark.sql(
            f"SELECT CAST(pmod(xxhash64({owner}), {buckets}) AS INT) AS bucket, {number} AS at, "
            f"named_struct({columns}) AS t{number} FROM {source} WHERE {' AND '.join(tests)}"), allowMissingColumns=True)
    return found


def _view(sent: Sequence[Sent], table: str) -> str:
    return f"dpsql_{next(at for at, one in enumerate(sent) if one.table.name == table)}"


def _owned(sent: Sequence[Sent], table: Table) -> tuple[str, list[str], str]:
    """Where rows are read with those that name their owners, the tests that they have one, and the owner; as `Scan` prints
    them."""
    way: OwnerPath = table.owners[0]
    source = f"{_view(sent, table.name)} AS t0"
    for at, step in enumerate(way.steps):
        test = " AND ".join(f"CAST(t{at}.{backticked(child)} AS {SPARK_KINDS[kind]}) = "
                            f"CAST(t{at + 1}.{backticked(parent)} AS {SPARK_KINDS[kind]})"
                            for child, parent, kind in zip(step.columns, step.references, step.types, strict=True))
        source += f" JOIN {_view(sent, step.table)} AS t{at + 1} ON {test}"
    last = len(way.steps)
    named = f"t{last}.{backticked(way.column)}"
    tests = [f"t{last}.{backticked(column)} IS NOT NULL" for column in (way.column, *way.beside)]
    return source, tests, f"CAST({named} AS {SPARK_KINDS[way.type]})"


def _made(one: Sent, salt: int) -> BucketTable:
    """How a task makes a table of a bucket. What it tells begins with the number of rows that came."""
    name = quote(one.table.name)
    owned = OwnedRows.of(one.table)
    return BucketTable(name=name, columns=tuple((quote(column), one.kinds[column]) for column in one.table.columns),
                       sql=owned.sql(Printing(salt=salt)),
                       told=f"SELECT (SELECT COUNT(*) FROM {name}), t.* FROM ({owned.told_sql(0, salt)}) AS t")


def _written(cluster: SparkCluster, place: str, buckets: int) -> list[WrittenBucket]:
    """The buckets that were written, in order. Raises ReaderFault unless each is there once."""
    rows = run_job(lambda: cluster.spark.read.schema(CHUNKS).parquet(place).where("chunk = 0").select(
        "bucket", "digest", "told").collect())
    found = {bucket: WrittenBucket(digest=digest, told=told) for bucket, digest, told in rows}
    if len(rows) != buckets or sorted(found) != [*range(buckets)] or not all(one.digest for one in found.values()):
        raise ReaderFault
    return [found[number] for number in range(buckets)]


def _stored(tables: Sequence[Table], told: Sequence[str]) -> dict[str, StoredTable]:
    """The tables of a store, of which each bucket told something. Raises ReaderFault unless it holds all rows that were sent to
    it, in their places."""
    stored = {table.name: prepared_as(table, len(told)) for table in tables}
    for bucket in told:
        for table, (sent, *row) in zip(tables, json.loads(bucket), strict=True):
            found = OwnedRows.of(table).told(row)
            if found.rows != sent:
                raise ReaderFault
            stored[table.name] = with_bucket(stored[table.name], found)
    return stored
