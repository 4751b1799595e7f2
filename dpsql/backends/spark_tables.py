"""Tables that only Spark can see: Parquet files in its file systems, and tables of its catalogs (Delta and Iceberg among them).

The database of the driver has each of them under its name and with its types: a public one with its rows, a private one without.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import duckdb

from dpsql.backends.file_tables import has_key, shared_key
from dpsql.backends.spark_cluster import SparkCluster, run_job
from dpsql.backends.store import origin_text
from dpsql.errors import OperationalError
from dpsql.frozen import Frozen
from dpsql.trusted.plan.expr.printing import quote
from dpsql.trusted.reader import ReaderFault

KINDS = {
    "boolean": "BOOLEAN", "tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER", "bigint": "BIGINT", "float": "FLOAT",
    "double": "DOUBLE", "string": "VARCHAR", "date": "DATE", "timestamp_ntz": "TIMESTAMP",
}
"""The types of Spark whose values are those of a type of DuckDB; so are decimals. Other columns cannot be declared."""
STORED = ("MANAGED", "EXTERNAL")  # the kinds of tables, as catalogs of Spark call them, that hold their rows; not so views


class SparkTable(Frozen):
    """A declared table in Spark. `source` is the address of Parquet files (`s3a://...`) or the name of a table; `columns` are the
    declared ones, and `key` those that the policy says to be unique together."""

    name: str
    source: str
    public: bool
    key: tuple[str, ...]
    columns: tuple[str, ...]

    def frame(self, spark: Any) -> Any:
        """The table's declared columns, in a session. Raises OperationalError if Spark has no such table, or if it is a view: its
        rows might come from a private table, or be repeated."""
        try:
            is_view = not self.in_files and run_job(lambda: spark.catalog.getTable(self.source).tableType) not in STORED
            frame = run_job(lambda: _declared(self, spark.read.parquet(self.source) if self.in_files
                                              else spark.table(self.source)))
        except ReaderFault:
            raise OperationalError(f"Spark cannot read {self.source} as table {self.name}", code="no-database", subject=self.name,
                                   try_='source = "spark:s3a://bucket/folder" of Parquet files, or "spark:catalog.schema.table"'
                                   ) from None
        if is_view:
            raise OperationalError(f"{self.source} is a view, and it is unknown whose rows it shows", code="policy-schema",
                                   subject=self.name, try_="the table that it reads, or a table made from it")
        return frame

    def as_plain(self) -> dict[str, Any]:
        """The form in a store's manifest."""
        return {"name": self.name, "source": self.source, "public": self.public, "key": self.key, "columns": self.columns}

    @property
    def in_files(self) -> bool:
        """Whether the source is the address of files."""
        return "://" in self.source

    def kinds(self, frame: Any) -> dict[str, str]:
        """The types of its columns, as DuckDB types. Spark types without a counterpart keep their names, and are refused
        later."""
        return {field.name: _kind(field.dataType.simpleString()) for field in frame.schema.fields}


def origin_in_spark(tables: Iterable[SparkTable]) -> str:
    """The text that identifies the origin of a store made by Spark: the source of each private table, how it is read, and the
    version of the engine."""
    private = sorted((table for table in tables if not table.public), key=lambda table: table.name)
    return origin_text([], [table.as_plain() for table in private])


def _declared(table: SparkTable, frame: Any) -> Any:
    there = {name.lower(): name for name in frame.columns}
    return frame.select(*(frame[backticked(there[name.lower()])].alias(name) for name in table.columns if name.lower() in there))


def _kind(simple: str) -> str:
    return f"{simple.upper()}" if simple.startswith("decimal") else KINDS.get(simple, "BLOB")


def backticked(name: str) -> str:
    """A name as quoted in Spark."""
    return "`" + name.replace("`", "``") + "`"


def make_tables(connection: duckdb.DuckDBPyConnection, cluster: SparkCluster, tables: Sequence[SparkTable]) -> str:
    """Create the driver's tables; returns a text that identifies the rows of public ones. Raises OperationalError if Spark cannot
    read a table, IntegrityError if rows of a public table share a key."""
    told, spark = [], cluster.session()
    for table in tables:
        frame = table.frame(spark)
        columns = [f"{quote(name)} {kind}" for name, kind in table.kinds(frame).items()]
        key = [f"PRIMARY KEY ({', '.join(map(quote, table.key))})"] if table.key else []
        try:
            connection.execute(f"CREATE TABLE {quote(table.name)} ({', '.join([*columns, *key])})")
        except duckdb.Error:
            raise OperationalError(f"{table.source} lacks a column of the declared key", code="no-database",
                                   subject=table.name) from None
        if table.public:
            told.append(_filled(connection, table, run_job(frame.toArrow)))
    return hashlib.sha256(repr(told).encode()).hexdigest() if told else ""


def _filled(connection: duckdb.DuckDBPyConnection, table: SparkTable, rows: Any) -> object:
    """Fill a public table; returned is what identifies its rows."""
    name = f"public rows {secrets.token_hex(8)}"
    try:
        connection.register(name, rows)
        connection.execute(f"INSERT INTO {quote(table.name)} SELECT s.* FROM {quote(name)} AS s WHERE {has_key(table.key)}")
        connection.unregister(name)
        return connection.execute(f"SELECT COUNT(*), bit_xor(hash(t)) FROM {quote(table.name)} AS t").fetchall()
    except duckdb.ConstraintException:
        raise shared_key(table.name, table.source, table.key) from None
    except duckdb.Error:
        raise OperationalError(f"the rows of {table.source} cannot be read", code="no-database", subject=table.name) from None
