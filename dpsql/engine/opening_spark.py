"""Data that a cluster reads: from a policy to the tables that only Spark can see, and to a store in its file systems."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dpsql.backends.duckdb import DuckReader
from dpsql.backends.spark import SparkBuckets, SparkStore, find_spark_store, manifest_in_spark
from dpsql.backends.spark_cluster import SparkCluster
from dpsql.backends.spark_tables import SparkTable, origin_in_spark
from dpsql.backends.store import RememberedFacts
from dpsql.catalog.model import IN_SPARK, Catalog, Policy
from dpsql.errors import OperationalError
from dpsql.trusted.plan.stored import shape_of


def cluster_of(policy: Policy) -> SparkCluster:
    """The cluster of a policy. Raises OperationalError if it does not answer."""
    assert policy.spark is not None
    return SparkCluster(policy.spark.master, memory=policy.memory)


def tables_in_spark(policy: Policy) -> dict[str, SparkTable]:
    """The tables that only Spark can read."""
    return {name: SparkTable(name=name, source=str(table.source).removeprefix(IN_SPARK), public=table.public, key=table.key,
                             columns=tuple(table.columns)) for name, table in policy.tables.items() if table.in_spark}


def private_in_spark(policy: Policy) -> frozenset[str]:
    """The private tables that only Spark can read: all of them, or none."""
    return frozenset(name for name, table in policy.tables.items() if table.in_spark and not table.public)


def alone_in_spark(policy: Policy, folder: Path, entity: str, facts: RememberedFacts) -> SparkStore | None:
    """The store in force of an entity whose data are only in Spark; None for other data. Raises OperationalError if there is no
    such store."""
    if not private_in_spark(policy):
        return None
    store = find_spark_store(folder, entity, origin_in_spark(tables_in_spark(policy).values()), facts)
    if store is None:
        raise OperationalError(f"the data are only in Spark, and no store by {entity} has been prepared with this version of "
                               "DuckDB",
                               code="spark", try_="dpsql prepare")
    return store


def read_by_spark(policy: Policy, reader: DuckReader, folder: Path, entity: str, facts: RememberedFacts,
                  alone: SparkStore | None) -> None:
    """Let the cluster read the store of an entity: `alone`, which has the only copy of the data, or otherwise a store in force of
    the reader's data. Raises OperationalError if it cannot."""
    store = alone if alone is not None else find_spark_store(folder, entity, reader.content, facts)
    if store is not None:
        public = frozenset(name for name, table in policy.tables.items() if table.public)
        reader.far = SparkBuckets(cluster_of(policy), store, manifest_in_spark(folder, entity), public=public,
                                  private=policy.tables.keys() - public, alone=alone is not None)


def check_in_spark(policy: Policy, catalog: Catalog, stored: Mapping[str, object] | None = None) -> None:
    """Raises OperationalError if rows that only Spark can read belong to several entities each, or were prepared for another
    policy. `stored` are the tables of the store, if they are to be read."""
    for name in sorted(private_in_spark(policy) & catalog.tables.keys()):
        table = catalog.tables[name]
        if len(table.owners) != 1:
            raise OperationalError(f"a row of {name} may belong to several entities, and Spark keeps the rows of each together",
                                   code="spark", subject=name, try_="files or a database for all tables")
        if stored is not None and getattr(stored.get(name), "shape", None) != shape_of(table):
            raise OperationalError(f"the store does not contain {name} as the policy declares it", code="spark", subject=name,
                                   try_="dpsql prepare")
