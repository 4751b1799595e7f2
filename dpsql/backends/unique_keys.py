"""Whether rows of a table share their key. The answer is exact: a bound on what one entity adds may rest on it.

*Keys of whole numbers* that lie close together are checked by one scan, several times faster than by grouping. Let each column of
the key be between two ends in all rows. Then the key determines a number from 0 to n - 1, where n is the product of the widths,
and the number determines the key, as digits of mixed radices do. A string of n bits, in which the bits of all rows are set, has
as many bits set as there are different keys. So if it has as many as there are rows, no two rows share a key. Nothing is believed
of the ends: a row outside of them sets no bit, so there are fewer bits than rows. That only means that the rows are grouped.

*All other keys* are grouped by the engine, which goes to disk where memory is short, and by whose equality the keys of other
tables and of its own constraints go: NaN is equal to NaN, 0.0 to -0.0, and texts are compared byte by byte.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from math import prod

import duckdb

from dpsql.trusted.plan.expr.printing import quote

BITS_OF_ROW = 64  # at most so many bits for each row, half of what grouping takes


def share_key(connection: duckdb.DuckDBPyConnection, table: str, key: Sequence[str]) -> bool:
    """Whether two rows of a table, or a view, have the same key, which is complete in all rows. Raises duckdb.Error if it cannot
    be read."""
    names = [*map(quote, key)]
    with contextlib.suppress(duckdb.Error):  # of numbers that do not fit; what else is wrong shows below
        if _are_apart(connection, table, names):
            return False
    grouped = f"SELECT 1 FROM {quote(table)} GROUP BY {', '.join(names)} HAVING COUNT(*) > 1 LIMIT 1"
    return bool(connection.execute(grouped).fetchall())


def _are_apart(connection: duckdb.DuckDBPyConnection, table: str, names: Sequence[str]) -> bool:
    """Whether the bits of all rows are different ones; `names` are the columns of the key as SQL. False says nothing. The strings
    of all threads take at most an eighth of the engine's memory; the engine makes none of more than 10^9 bits."""
    first = connection.execute(f"SELECT {', '.join(names)} FROM {quote(table)} LIMIT 1").fetchall()
    if not all(type(value) is int for value in sum(first, ())):
        return False
    memory = "parse_formatted_bytes(current_setting('memory_limit')) // current_setting('threads')"
    asked = f"SELECT COUNT(*), {memory}, {', '.join(f'MIN({name}), MAX({name})' for name in names)} FROM {quote(table)}"
    (rows, bits_each, *found), = connection.execute(asked).fetchall()
    ends = [*zip(names, found[::2], found[1::2], strict=True)]
    bits = prod(high - low + 1 for _, low, high in ends) if rows else 0
    if not 0 < bits <= min(BITS_OF_ROW * rows, 10**9, bits_each):
        return False
    inside, number = " AND ".join(f"{name} BETWEEN {low} AND {high}" for name, low, high in ends), "0"
    for name, low, high in ends:
        number = f"({number}) * {high - low + 1} + (CAST({name} AS BIGINT) - {low})"
    apart = f"bit_count(bitstring_agg(CASE WHEN {inside} THEN {number} END, 0, {bits - 1})) = COUNT(*)"
    return (True,) in connection.execute(f"SELECT {apart} FROM {quote(table)}").fetchall()
