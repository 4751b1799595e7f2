"""Tables of rows that several queries read, such as the totals of each entity, or the rows that a limit leaves: made once, and
kept while memory allows.

They are temporary tables of one cursor, which nobody else sees, and the engine moves them to disk where memory is short.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import duckdb

from dpsql.trusted.reader import Parts

SHARE = 1 / 8  # of the engine's memory
NUMBERS = "BIGINT", "DOUBLE", "INTEGER"
NUMBER, OTHER = 8, 32  # bytes of a number, and of a text or another value, about


class KeptRows:
    """The tables that are there, the one that was used last at the end, with their sizes in bytes."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._tables: dict[str, int] = {}
        self.cursor = connection.cursor()
        memory, = connection.execute("SELECT parse_formatted_bytes(current_setting('memory_limit'))").fetchall()[0]
        self._most = int(memory * SHARE)

    def collect(self, wanted: Sequence[Parts]) -> None:
        """Make those of the wanted tables that are not there, in order; then drop others, the oldest first, as memory demands."""
        for table in wanted:
            size = self._tables.pop(table.name, None)
            self._tables[table.name] = self._made(table) if size is None else size
        asked = {table.name for table in wanted}
        for name in [name for name in self._tables if name not in asked]:
            if sum(self._tables.values()) <= self._most:
                break
            del self._tables[name]
            self.cursor.execute(f"DROP TABLE {name}")

    def _made(self, table: Parts) -> int:
        """Make a table; about how many bytes it has."""
        text, = table.statements
        (rows,), = self.cursor.execute(f"CREATE TEMP TABLE {table.name} AS {text}").fetchall()
        columns = self.cursor.execute(f"SELECT * FROM {table.name} LIMIT 0").description or []
        return int(rows) * sum(NUMBER if str(column[1]) in NUMBERS else OTHER for column in columns)

    def forget(self) -> None:
        """Drop all: what they were made of may be other rows now, or a query has failed."""
        self._tables.clear()
        with contextlib.suppress(duckdb.Error):
            self.cursor.close()
        self.cursor = self._connection.cursor()
