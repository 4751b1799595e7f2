"""What a file of SQLite says of keys and views: which columns it compares otherwise than by the bytes of their texts, and which
tables a view reads.

Neither is in a catalog. So SQLite itself is asked: an empty database in memory is given the definitions of all tables and views.
An index on a column shows the collation of that column there, and a view that is compiled names all that it reads to an
authorizer, through views and subqueries. What cannot be made there, such as what needs an extension, is not known.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterator, Mapping

from dpsql.backends.catalog_rows import Rows
from dpsql.trusted.plan.expr.printing import quote, text_literal

PROBE = "dpsql probe"
LETTER_BY_LETTER = "BINARY"  # the collation that compares bytes
READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)  # what a query does beside reading tables


def unlike(rows: Rows, name: tuple[str, ...]) -> Mapping[str, str]:
    """The columns of a table whose values are not compared by the bytes of their texts, each with the reason."""
    table = name[-1]
    found: dict[str, str] = {}
    with _made(rows) as (connection, _):
        for column, in rows(f"SELECT p.name FROM pragma_table_xinfo({text_literal(table)}) AS p WHERE p.hidden <> 1"):
            collation = _collation(connection, table, column)
            if collation is None:
                found[column] = "its definition cannot be read here, and so not its collation"
            elif collation.upper() != LETTER_BY_LETTER:
                found[column] = f"its collation {collation} treats different texts as equal"
    indexed = rows(f"SELECT x.name, x.coll, m.sql FROM pragma_index_list({text_literal(table)}) AS l, pragma_index_xinfo(l.name) "
                   "AS x LEFT JOIN sqlite_master AS m ON m.type = 'index' AND m.name = l.name WHERE l.\"unique\" AND x.\"key\"")
    for column, collation, sql in indexed:
        if column is None:  # an expression
            found = dict.fromkeys(_named_in(sql or "", rows, table), "a unique index compares an expression of it") | found
        elif collation.upper() != LETTER_BY_LETTER:
            found.setdefault(column, f"a unique index compares it by the collation {collation}")
    return found


def reads(rows: Rows, name: tuple[str, ...]) -> frozenset[str] | None:
    """The tables that a query of this table or view reads, by their names in lower case. None if some of them are not known: the
    rows of virtual tables and of SQLite's own tables may come from any table."""
    with _made(rows) as (connection, kinds):
        if kinds.get(_folded(name[-1])) == "table":
            return frozenset([_folded(name[-1])])
        told: list[tuple[int, str]] = []

        def authorize(what: int, first: str | None, *_: str | None) -> int:
            told.append((what, _folded(first or "")))
            return sqlite3.SQLITE_OK

        connection.set_authorizer(authorize)
        with contextlib.suppress(sqlite3.Error):
            connection.execute(f"EXPLAIN SELECT * FROM {quote(name[-1])}").close()
            named = {first for what, first in told if what == sqlite3.SQLITE_READ}
            other = {what for what, _ in told} - {sqlite3.SQLITE_READ, *READING}
            if named <= kinds.keys() and not other:
                return frozenset(each for each in named if kinds[each] == "table")
    return None


@contextlib.contextmanager
def _made(rows: Rows) -> Iterator[tuple[sqlite3.Connection, Mapping[str, str]]]:
    """An empty database with the definitions of the file, and its tables and views by their names in lower case, as far as they
    hold rows of their own or are made of such."""
    listed = [(str(kind), str(name), str(sql or "")) for kind, name, sql in rows(
        "SELECT m.type, m.name, m.sql FROM sqlite_master AS m WHERE m.type IN ('table', 'view') ORDER BY m.rowid")]
    virtual = [_folded(name) for _, name, sql in listed if sql.upper().startswith("CREATE VIRTUAL")]
    connection = sqlite3.connect(":memory:")
    kinds: dict[str, str] = {}
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        for kind, name, sql in listed:
            theirs = _folded(name).startswith(("sqlite_", *(f"{other}_" for other in virtual))) or _folded(name) in virtual
            if not theirs and sql.upper().startswith(f"CREATE {kind.upper()} "):
                with contextlib.suppress(sqlite3.Error, sqlite3.Warning):
                    connection.execute(sql)
                    kinds[_folded(name)] = kind
        yield connection, kinds
    finally:
        connection.close()


def _folded(name: str) -> str:
    """A name in the lower case of ASCII alone, by which SQLite tells names apart."""
    return name.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def _collation(connection: sqlite3.Connection, table: str, column: str) -> str | None:
    """The collation of a column; None if it cannot be told."""
    with contextlib.suppress(sqlite3.Error):
        connection.execute(f"CREATE INDEX {quote(PROBE)} ON {quote(table)} ({quote(column)})")
        (name, collation), *_ = connection.execute(
            f"SELECT x.name, x.coll FROM pragma_index_xinfo({text_literal(PROBE)}) AS x ORDER BY x.seqno").fetchall()
        connection.execute(f"DROP INDEX {quote(PROBE)}")
        return str(collation) if name == column else None
    return None


def _named_in(sql: str, rows: Rows, table: str) -> list[str]:
    """The columns of a table whose names occur in a text."""
    words = {word.lower() for word in re.findall(r"\w+", sql)}
    columns = [str(column) for column, in rows(f"SELECT p.name FROM pragma_table_xinfo({text_literal(table)}) AS p")]
    return [column for column in columns if {word.lower() for word in re.findall(r"\w+", column)} <= words]
