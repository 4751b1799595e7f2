"""An engine without private data: for values of keys, and for the analyst's expressions over released numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpsql.backends.duckdb import make_table, scratch
from dpsql.trusted.plan.expr.nodes import Expr
from dpsql.trusted.plan.expr.printing import quote, to_sql
from dpsql.trusted.reader import ReaderFault
from dpsql.types import Type

BIGINT_MOST = 2**62  # that sums of two stay in 64 bits
VERSION = "version"  # the column that numbers the versions of a table


def _carrier(kind: Type, values: Sequence[Any]) -> str:
    """The type that holds released values: whole numbers may be too large for theirs, as sums are in DuckDB."""
    wide = kind is Type.BIGINT and any(value is not None and abs(value) > BIGINT_MOST for value in values)
    return "HUGEINT" if wide else kind.value


class DuckScratch:
    """Evaluates guarded expressions in a locked DuckDB in memory, which never holds a private row."""

    def __init__(self) -> None:
        self._connection: duckdb.DuckDBPyConnection = scratch()

    def evaluate(self, exprs: Sequence[Expr], columns: Mapping[str, tuple[Type, Sequence[Any]]]) -> list[tuple[Any, ...]]:
        """The values of expressions over rows given column by column, in the order of the rows."""
        rows: list[tuple[Any, ...]] = self._selected(exprs, columns).fetchall()
        return rows

    def truths(self, tests: Sequence[Expr], columns: Mapping[str, tuple[Type, Sequence[Any]]]) -> NDArray[np.bool_]:
        """Whether each condition is true, and neither false nor NULL, for each of these rows: an array (conditions, rows)."""
        found = self._selected(tests, columns).fetchnumpy()
        return np.stack([np.ma.filled(found[str(at)], False) for at in range(len(tests))])

    def _selected(self, exprs: Sequence[Expr], columns: Mapping[str, tuple[Type, Sequence[Any]]]) -> duckdb.DuckDBPyConnection:
        """A query of expressions over rows, in the order of the rows. Its columns are numbered from 0."""
        names = {column: f"t0.{quote(column)}" for column in columns}
        lists = [f"unnest(CAST(${i + 2} AS {_carrier(kind, values)}[])) AS {quote(column)}"
                 for i, (column, (kind, values)) in enumerate(columns.items())]
        size = max((len(values) for _, values in columns.values()), default=1)
        source = ", ".join(["unnest(range(CAST($1 AS BIGINT))) AS \"#\"", *lists])
        shown = ", ".join(f"{to_sql(expr, names)} AS {quote(str(at))}" for at, expr in enumerate(exprs))
        given = [size, *(list(values) for _, values in columns.values())]
        return self._connection.execute(f"SELECT {shown} FROM (SELECT {source}) AS t0 ORDER BY t0.\"#\"", given)

    def compiles(self, pattern: str) -> bool:
        """Whether a regular expression is valid, so that it cannot fail on a row."""
        try:
            self._connection.execute("SELECT regexp_matches('', CAST($1 AS VARCHAR))", [pattern]).fetchall()
        except duckdb.Error:
            return False
        return True

    def close(self) -> None:
        self._connection.close()


def stored(name: str) -> str:
    """The name of the table that contains all versions of a table."""
    return f"all {name}"


class ScratchTables:
    """Public tables and released rows in a locked DuckDB in memory, which never holds a private row.

    A table may have many versions; a query sees one of them.
    """

    def __init__(self) -> None:
        self._connection: duckdb.DuckDBPyConnection = scratch()
        self._versioned: dict[str, str] = {}

    def load(self, name: str, columns: Mapping[str, tuple[Type, Sequence[Any]]], versions: Sequence[int] | None = None) -> None:
        """Create a table from its columns; `versions` gives the version of each row, if there are several."""
        place = name if versions is None else stored(name)
        given = {VERSION: (Type.BIGINT, versions), **columns} if versions is not None else columns
        make_table(self._connection, quote(place), {column: (kind.value, values) for column, (kind, values) in given.items()})
        if versions is not None:
            shown = ", ".join(map(quote, columns))
            self._versioned[name] = f"SELECT {shown} FROM {quote(place)} WHERE {quote(VERSION)} = "

    def rows(self, sql: str, version: int = 0) -> list[tuple[Any, ...]]:
        """The rows of a printed query, evaluated on one version of the tables. Raises ReaderFault."""
        seen = [f"{quote(name)} AS ({text}{version:d})" for name, text in self._versioned.items()]
        whole = f"WITH {', '.join(seen)} SELECT * FROM ({sql}) AS t" if seen else sql
        failed = False
        try:
            found: list[tuple[Any, ...]] = self._connection.execute(whole).fetchall()
        except duckdb.Error:
            failed = True
        if failed:
            raise ReaderFault
        return found

    def versioned(self, name: str) -> bool:
        """Whether a table has several versions."""
        return name in self._versioned

    def close(self) -> None:
        self._connection.close()
