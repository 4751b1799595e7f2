"""The tables of the system catalogue as a DuckDB database in memory, made of the rows in `catalog_facts`.

It holds nothing private, nothing of another analyst, and no way to a file. Making it takes much longer than a question, so
connections may share one: nobody changes it, and what differs between them, the settings, is not in it.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb

from dpsql.backends.duckdb import SMALL, connected, lock_down
from dpsql.catalog.model import Catalog
from dpsql.catalog.policy import quoted_if_needed
from dpsql.frozen import Frozen
from dpsql.server.front.catalogue.catalog_facts import Facts, facts_of, type_oids, type_words
from dpsql.server.front.catalogue.catalog_functions import MACROS
from dpsql.server.front.catalogue.catalog_relations import KINDS, relations
from dpsql.server.front.catalogue.catalog_words import SETTINGS, settings_rows
from dpsql.trusted.plan.expr.printing import quote

MEMORY = "256MB"
RELATIONS: Mapping[str, Mapping[str, str]] = relations()
_NOTHING: Mapping[str, Any] = {"i": 0, "b": False, "d": 0.0, "c": ""}


class CatalogContents(Frozen):
    """Everything that is in such a database and not the same in all of them: the rows of relations, and the columns of tables
    of the policy, which have no rows here."""

    facts: Facts
    declared: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, catalog: Catalog, user: str, database: str) -> CatalogContents:
        return cls(facts=facts_of(catalog, user, database), declared=tuple(
            (table.name, ", ".join(f"{quote(column.name)} {column.type.value}" for column in table.columns.values()))
            for table in catalog.tables.values()))

    @property
    def mark(self) -> str:
        """A text that two of them have in common only if they are the same, with the same types of values."""
        return hashlib.sha256(repr((self.facts, self.declared)).encode("utf-8", "surrogatepass")).hexdigest()


class CatalogTables:
    """The database of these contents. Safe with threads."""

    def __init__(self, contents: CatalogContents) -> None:
        self._contents, self._turn = contents, threading.Lock()
        self._made: duckdb.DuckDBPyConnection | None = None

    def cursor(self, settings: Mapping[str, str] | None = None) -> duckdb.DuckDBPyConnection:
        """A connection to the database, which is made when the first one asks for it. With `settings`, this connection alone has
        the relation that lists them."""
        with self._turn:  # as two threads may come first
            if self._made is None:
                self._made = _database(self._contents)
            cursor = self._made.cursor()
        if settings is not None:
            _make(cursor, SETTINGS, RELATIONS[SETTINGS], settings_rows(settings), temporary=True)
        return cursor

    def close(self) -> None:
        with self._turn:
            if self._made is not None:
                self._made.close()
                self._made = None


def _database(contents: CatalogContents) -> duckdb.DuckDBPyConnection:
    made = connected(config={**SMALL, "memory_limit": MEMORY, "max_temp_directory_size": "0B"})
    for name, columns in RELATIONS.items():
        if name != SETTINGS:
            _make(made, name, columns, contents.facts.get(name, []))
    _make(made, "type_words", {"oid": "i", "words": "", "name": ""}, [
        {"oid": oid, "words": words, "name": next(name for name, own in type_oids().items() if own == oid)}
        for oid, words in type_words().items()])
    _make(made, "key_words", {"oid": "i", "words": "", "index_words": ""}, list(_key_words(contents.facts)))
    for name, ways in MACROS.items():
        made.execute(f"CREATE MACRO {quote(name)}{', '.join(ways)}")
    for name, columns_in_words in contents.declared:
        made.execute(f"CREATE TABLE {quote(name)} ({columns_in_words})")
    lock_down(made)
    return made


def _make(connection: duckdb.DuckDBPyConnection, name: str, columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]], *,
          temporary: bool = False) -> None:
    """Create a table; only this cursor has a `temporary` one. A column that a row does not name is 0, false, empty or NULL, as
    its kind is."""
    kinds = {column: KINDS[kind.removesuffix("s")] + "[]" * kind.endswith("s") for column, kind in columns.items()}
    connection.execute(f"CREATE {'TEMPORARY ' if temporary else ''}TABLE {quote(name)} "
                       f"({', '.join(f'{quote(each)} {kind}' for each, kind in kinds.items())})")
    if rows:
        values = ", ".join(f"unnest(CAST(? AS {kind}[]))" for kind in kinds.values())
        connection.execute(f"INSERT INTO {quote(name)} SELECT {values}", [
            [row[each] if each in row else _NOTHING.get(kind) for row in rows] for each, kind in columns.items()])


def _key_words(facts: Facts) -> Iterator[dict[str, Any]]:
    """Keys as SQL declares them."""
    tables = {row["oid"]: row["relname"] for row in facts.get("pg_catalog.pg_class", [])}
    columns = {(row["attrelid"], row["attnum"]): row["attname"] for row in facts.get("pg_catalog.pg_attribute", [])}
    for row in facts.get("pg_catalog.pg_constraint", []):
        own = ", ".join(quoted_if_needed(columns[row["conrelid"], place]) for place in row["conkey"])
        if row["contype"] == "p":
            table = quoted_if_needed(tables[row["conrelid"]])
            yield {"oid": row["oid"], "words": f"PRIMARY KEY ({own})",
                   "index_words": f"CREATE UNIQUE INDEX {quoted_if_needed(row['conname'])} ON {table} USING btree ({own})"}
        else:
            theirs = ", ".join(quoted_if_needed(columns[row["confrelid"], place]) for place in row["confkey"])
            yield {"oid": row["oid"], "index_words": "", "words":
                   f"FOREIGN KEY ({own}) REFERENCES {quoted_if_needed(tables[row['confrelid']])}({theirs})"}
