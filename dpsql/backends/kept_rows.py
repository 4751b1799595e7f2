"""Tables of rows that several queries read, such as the totals of each entity, or the rows that a limit leaves: made once, and
kept while memory allows. For a store there is one for each bucket, and as many are kept as there is room for.

They are in a database of the engine's memory, which moves them to disk where memory is short, and shared by all connections of
this process to that engine. Nobody but the kernel reads them. They are compressed when they fill their share of the memory.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import duckdb

from dpsql.trusted.plan.expr.printing import quote
from dpsql.trusted.reader import Parts

KEPT = '"rows kept"'  # the name of the attached database
SHARE = 1 / 8  # of the engine's memory
COMPRESSED = 4  # times as small as a table was, about
MOST_KNOWN = 10_000  # tables whose sizes are remembered after they were dropped
NUMBERS = "BIGINT", "DOUBLE", "INTEGER"
NUMBER, OTHER = 8, 32  # bytes of a number, and of a text or another value, about


class KeptRows:
    """The tables that are there, the one that was used last at the end, with their sizes in bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sizes: dict[str, int] = {}
        self._packed: set[str] = set()
        self._made: dict[str, int] = {}  # the sizes of the tables that were made last, also of those that were dropped
        self._users = Counter[str]()
        self._turn = threading.Lock()
        self._making: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    @contextlib.contextmanager
    def there(self, cursor: duckdb.DuckDBPyConnection, wanted: Sequence[Parts], all_of_query: Sequence[Parts]) -> Iterator[None]:
        """A context in which the wanted tables are there under their names, for one cursor. They are made in order, where they
        are not yet there; afterwards others are dropped, as memory demands: the oldest first, and those of the same query last.
        Of these the last ones are dropped first, as the next query will read the others before."""
        names = [table.name for table in wanted]
        with self._turn:
            self._users.update(names)
        try:
            for at, table in enumerate(wanted):
                if self._hopeless(table.name, [other.name for other in all_of_query[at :: len(wanted)]]):
                    cursor.execute(f"CREATE OR REPLACE TEMP VIEW {table.name} AS {table.statements[0]}")
                else:
                    self._make(cursor, table)
            yield
        finally:
            with self._turn:
                self._users.subtract(names)
                self._drop(cursor, [table.name for table in all_of_query], keep={*names, *+self._users})

    def _hopeless(self, name: str, alike: Sequence[str]) -> bool:
        """Whether a table is not there and would soon be dropped again: the tables `alike`, the same of all buckets, are so
        large, as far as is known, that few would stay even if they were compressed. Then it is faster to read it as a view."""
        largest = max((self._made.get(other, 0) for other in alike), default=0)
        return len(alike) > 1 and name in alike and name not in self._sizes and largest * len(alike) > COMPRESSED * self._most

    def forget(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Drop all tables that nobody reads: what they were made of may be other rows now."""
        with self._turn:
            for name in self._sizes.keys() - (+self._users).keys():
                self._remove(cursor, name)

    def _make(self, cursor: duckdb.DuckDBPyConnection, table: Parts) -> None:
        """Make a table, unless another connection has done so."""
        text, = table.statements
        with self._turn:
            making = self._making[table.name]
        with making:
            size = self._sizes.get(table.name)
            if size is None:
                (rows,), = cursor.execute(f"CREATE OR REPLACE TABLE {_place(table.name)} AS {text}").fetchall()
                columns = cursor.execute(f"SELECT * FROM {_place(table.name)} LIMIT 0").description or []
                size = int(rows) * sum(NUMBER if str(column[1]) in NUMBERS else OTHER for column in columns)
            with self._turn:
                self._sizes.pop(table.name, None)
                self._sizes[table.name] = self._made[table.name] = size
                self._making.pop(table.name, None)  # whoever waits for it uses the table, which is therefore not dropped
                while len(self._made) > MOST_KNOWN:
                    del self._made[next(iter(self._made))]
        cursor.execute(f"CREATE OR REPLACE TEMP VIEW {table.name} AS SELECT * FROM {_place(table.name)}")

    def _drop(self, cursor: duckdb.DuckDBPyConnection, own: Sequence[str], keep: set[str]) -> None:
        others = [name for name in self._sizes if name not in own]
        if sum(self._sizes.values()) > self._most:
            self._pack(cursor)
        for name in (*others, *reversed(own)):
            if sum(self._sizes.values()) <= self._most:
                break
            if name in self._sizes and name not in keep:
                self._remove(cursor, name)

    def _pack(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Let the engine compress the tables that are not compressed yet, unless one is so large that it will be dropped. It does
        not while another connection makes a table."""
        fresh = self._sizes.keys() - self._packed
        if fresh and max(self._sizes[name] for name in fresh) <= self._most // 2:
            try:
                cursor.execute(f"CHECKPOINT {KEPT}")
                self._sizes |= {name: _packed_size(cursor, name) for name in self._sizes if name in fresh}
                self._packed |= fresh
            except duckdb.InterruptException:  # the query has to end
                raise
            except duckdb.Error:
                return

    def _remove(self, cursor: duckdb.DuckDBPyConnection, name: str) -> None:
        self._sizes.pop(name)
        self._packed.discard(name)
        with contextlib.suppress(duckdb.Error):
            cursor.execute(f"DROP TABLE IF EXISTS {_place(name)}")


def read_by(text: str, tables: Sequence[Parts]) -> list[Parts]:
    """The tables that a text reads, itself or through others of them. A table may read those before it."""
    found: list[Parts] = []
    for table in reversed(tables):
        if any(table.name in each for each in (text, *(other.statements[0] for other in found))):
            found.insert(0, table)
    return found


_ENGINES: dict[str, KeptRows] = {}  # by names of engines; nothing tells when one has ended, and what stays then is small
_LOOKING = threading.Lock()


def kept_rows(connection: duckdb.DuckDBPyConnection) -> KeptRows:
    """The tables that the engine of a connection keeps, which has a database of this name attached."""
    with _LOOKING:
        connection.execute(f"CREATE TABLE IF NOT EXISTS {KEPT}.main.engine AS SELECT uuid() AS name")
        (name,), = connection.execute(f"SELECT CAST(t.name AS VARCHAR) FROM {KEPT}.main.engine AS t").fetchall()
        return _ENGINES.setdefault(name, KeptRows(int(memory_limit(connection) * SHARE)))


def memory_limit(connection: duckdb.DuckDBPyConnection) -> int:
    """The memory of the engine of a connection, in bytes."""
    (memory,), = connection.execute("SELECT parse_formatted_bytes(current_setting('memory_limit'))").fetchall()
    return int(memory)


def _packed_size(cursor: duckdb.DuckDBPyConnection, name: str) -> int:
    """The size of a compressed table, or more: the engine stores whole numbers as differences from the least one, in as many bits
    as the largest difference takes."""
    columns = cursor.execute(f"SELECT * FROM {_place(name)} LIMIT 0").description or []
    whole = [column for column, kind, *_ in columns if str(kind) in ("BIGINT", "INTEGER")]
    spans = "".join(f", CAST(MAX({quote(column)}) AS HUGEINT) - MIN({quote(column)})" for column in whole)
    (rows, *found), = cursor.execute(f"SELECT COUNT(*){spans} FROM {_place(name)}").fetchall()
    others = sum(NUMBER if str(kind) in NUMBERS else OTHER for column, kind, *_ in columns if column not in whole)
    return int(rows) * (others + sum(1 + int(span or 0).bit_length() // 8 for span in found))


def _place(name: str) -> str:
    return f"{KEPT}.main.{name}"
