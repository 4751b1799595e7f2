"""Released rows as tables of DuckDB: from arrays, and for queries only the columns that they name.

A column of released rows is a table of its own, with codes and numbers as they are in the arrays: ten million codes of one byte
take 10 MB, and as texts 160 MB. It is made when a query first names the column, and a view puts columns side by side. (DuckDB
keeps the rows of a table in the order in which they were inserted.)
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpsql.trusted.plan.expr.printing import quote, text_literal
from dpsql.trusted.reader import ColumnArrays

ARRAYS = "column arrays"  # the name under which a query reads arrays
SINCE_1970 = {"DATE": "DATE '1970-01-01' + CAST({} AS INTEGER)", "TIMESTAMP": "make_timestamp(CAST({} AS BIGINT))"}
MOST_PRINTED = 1000  # values of a list in the text of a view


class HeldColumns:
    """The columns of released rows. `identity` is the same for the same rows only."""

    def __init__(self, database: str, identity: str, columns: Mapping[str, tuple[str, Sequence[Any]]]) -> None:
        self.identity, self._database, self._columns = identity, database, dict(columns)
        self._made: dict[str, str] = {}  # by column that has a table: its values, as SQL over this table

    def make_listed(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Make the tables of columns that come as lists of values, which take more memory than tables do; arrays do not."""
        for column, (_, values) in self._columns.items():
            if not hasattr(type(values), "arrays"):
                self._add(connection, column)

    def rows(self, connection: duckdb.DuckDBPyConnection, texts: Sequence[str]) -> str:
        """A query for the rows, with the columns whose names are in some texts, and perhaps others."""
        whole = "\n".join(texts).lower()
        named = [column for column in self._columns if quote(column).lower() in whole] or [*self._columns][:1]
        for column in named:
            if column not in self._made:
                self._add(connection, column)
        shown = ", ".join(f"{self._made[column]} AS {quote(column)}" for column in named)
        return f"SELECT {shown} FROM {' POSITIONAL JOIN '.join(f'{self._place(name)} AS {self._alias(name)}' for name in named)}"

    def _place(self, column: str) -> str:
        return f"{self._database}.main.{quote(f'{self.identity} {column}')}"

    def _alias(self, column: str) -> str:
        return f"t{[*self._columns].index(column)}"

    def _add(self, connection: duckdb.DuckDBPyConnection, column: str) -> None:
        self._made[column] = self._make(connection, column)
        self._columns[column] = "", ()  # the table has them

    def _make(self, connection: duckdb.DuckDBPyConnection, column: str) -> str:
        """Make the table of a column, unless another connection of the account has. Returns the column's values as SQL."""
        kind, values = self._columns[column]
        arrays, first = _arrays(values), f"CREATE TABLE IF NOT EXISTS {self._place(column)} AS "
        if arrays.listed is not None and len(arrays.listed) > MOST_PRINTED:
            run_over(connection, {"value": (kind, arrays)}, first, "")
            return f"{self._alias(column)}.value"
        _run(connection, {"value": arrays.numbers, **({} if arrays.missing is None else {"missing": arrays.missing})}, first, "*")
        listed = "" if arrays.listed is None else f"CAST([{', '.join(map(_printed, arrays.listed))}] AS {kind}[])"
        return _typed(kind, arrays, f"{self._alias(column)}.value", f"{self._alias(column)}.missing", listed)


def make_table(connection: duckdb.DuckDBPyConnection, place: str,
               columns: Mapping[str, tuple[str, Sequence[Any] | ColumnArrays]], *, unless_exists: bool = False) -> None:
    """Create a table from the SQL types and the values of its columns. `place` is its name in SQL."""
    run_over(connection, columns, f"CREATE TABLE {'IF NOT EXISTS ' * unless_exists}{place} AS ", "")


def run_over(connection: duckdb.DuckDBPyConnection, columns: Mapping[str, tuple[str, Sequence[Any] | ColumnArrays]], before: str,
             after: str) -> None:
    """Execute a query for the values of columns, with text before and after it. Values in arrays are read where they are."""
    found, items, lists = dict[str, NDArray[Any]](), [], []
    for i, (column, (kind, values)) in enumerate(columns.items()):
        arrays = _arrays(values)
        found[f"c{i}"] = arrays.numbers
        if arrays.missing is not None:
            found[f"m{i}"] = arrays.missing
        if arrays.listed is not None:
            lists.append(list(arrays.listed))
        items.append(f"{_typed(kind, arrays, f'c{i}', f'm{i}', f'CAST(${len(lists)} AS {kind}[])')} AS {quote(column)}")
    _run(connection, found, before, ", ".join(items), after, lists)


def _run(connection: duckdb.DuckDBPyConnection, arrays: Mapping[str, NDArray[Any]], before: str, items: str, after: str = "",
         lists: Sequence[list[Any]] = ()) -> None:
    connection.register(ARRAYS, dict(arrays))
    try:
        connection.execute(f"{before}SELECT {items} FROM {quote(ARRAYS)}{after}", list(lists))
    finally:
        connection.unregister(ARRAYS)


def _arrays(values: Sequence[Any] | ColumnArrays) -> ColumnArrays:
    if isinstance(values, ColumnArrays):
        return values
    found = getattr(values, "arrays", None)  # asked once, as the values may have to be read
    return found if isinstance(found, ColumnArrays) else ColumnArrays(numbers=np.arange(len(values)), listed=values)


def _typed(kind: str, arrays: ColumnArrays, number: str, missing: str, listed: str) -> str:
    """The values of a column as SQL, given that of its numbers, of which rows have NULL, and of the list."""
    form = SINCE_1970.get(kind.split("_")[0], "{}" if arrays.parts == 1 else f"(CAST({{}} AS DOUBLE) / {arrays.parts})")
    value = form.format(number) if arrays.listed is None else f"{listed}[CAST({number} AS BIGINT) + 1]"
    if arrays.missing is not None:
        value = f"CASE WHEN {missing} THEN NULL ELSE {value} END"
    return f"CAST({value} AS {kind})"


def _printed(value: Any) -> str:
    """A value as a text of SQL, which is cast to the column's type."""
    if value is None:
        return "NULL"
    return text_literal(value.isoformat(sep=" ") if isinstance(value, dt.datetime) else value)
