"""An empty engine for public values: domains of keys, and the analyst's expressions over released numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from dpsql.backends.duckdb import scratch
from dpsql.plan.expr.nodes import Expr
from dpsql.plan.expr.printing import quote, to_sql
from dpsql.types import Type


class DuckScratch:
    """Evaluates guarded expressions in a locked DuckDB in memory, which never holds a private row."""

    def __init__(self) -> None:
        self._connection: duckdb.DuckDBPyConnection = scratch()

    def evaluate(self, exprs: Sequence[Expr], columns: Mapping[str, tuple[Type, Sequence[Any]]]) -> list[tuple[Any, ...]]:
        """The values of expressions over rows given column by column, in the order of the rows."""
        names = {column: f"t0.{quote(column)}" for column in columns}
        lists = [f"unnest(CAST(${i + 2} AS {kind.value}[])) AS {quote(column)}"
                 for i, (column, (kind, _)) in enumerate(columns.items())]
        size = max((len(values) for _, values in columns.values()), default=1)
        source = ", ".join(["unnest(range(CAST($1 AS BIGINT))) AS \"#\"", *lists])
        text = f"SELECT {', '.join(to_sql(expr, names) for expr in exprs)} FROM (SELECT {source}) AS t0 ORDER BY t0.\"#\""
        given = [size, *(list(values) for _, values in columns.values())]
        rows: list[tuple[Any, ...]] = self._connection.execute(text, given).fetchall()
        return rows

    def compiles(self, pattern: str) -> bool:
        """Whether a regular expression is one, so that it cannot fail on a row."""
        try:
            self._connection.execute("SELECT regexp_matches('', CAST($1 AS VARCHAR))", [pattern]).fetchall()
        except duckdb.Error:
            return False
        return True

    def close(self) -> None:
        self._connection.close()
