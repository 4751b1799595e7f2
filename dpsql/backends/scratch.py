"""An engine without private data: for values of keys, and for the analyst's expressions over released numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpsql.backends.duckdb import scratch
from dpsql.backends.held_columns import make_table
from dpsql.frozen import replace
from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.nodes import Call, Expr, Literal, Ref, rewrite
from dpsql.trusted.plan.expr.printing import quote, to_sql
from dpsql.trusted.reader import ColumnArrays, ReaderFault
from dpsql.types import Type

BIGINT_MOST = 2**62  # that sums of two stay in 64 bits
VERSION = "version"  # the column that numbers the versions of a table
COMPARED = frozenset(("=", "<>", "<", "<=", ">", ">="))
MOST_ALIKE = 2**17  # truth values of conditions of one shape that one expression finds
Columns = Mapping[str, tuple[Type, Sequence[Any]]]
Answered = TypeVar("Answered")


def _carrier(kind: Type, values: Sequence[Any]) -> str:
    """The type that holds released values: whole numbers may be too large for theirs, as sums are in DuckDB."""
    wide = kind is Type.BIGINT and any(value is not None and abs(value) > BIGINT_MOST for value in values)
    return "HUGEINT" if wide else kind.value


class DuckScratch:
    """Evaluates guarded expressions in a locked DuckDB in memory, which never holds a private row."""

    @cached_property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        """Made at the first use. It takes a fifth of the time to open a session, and the sessions of a vault never use it."""
        return scratch()

    def evaluate(self, exprs: Sequence[Expr], columns: Columns) -> list[tuple[Any, ...]]:
        """The values of expressions over rows given column by column, in the order of the rows."""
        rows: list[tuple[Any, ...]] = self._selected(exprs, columns).fetchall()
        return rows

    def truths(self, tests: Sequence[Expr], columns: Columns) -> NDArray[np.bool_]:
        """Whether each condition is true, and neither false nor NULL, for each of these rows: an array (conditions, rows).

        An engine takes longer to plan an expression than to evaluate it for hundreds of rows, so conditions that only compare
        with other constants are one expression, evaluated for each row with the constants of each condition.
        """
        size, others = _length(columns), list[int]()
        found = np.empty((len(tests), size), dtype=np.bool_)
        for shape, alike in _by_shape(tests).items():
            if 1 < len(alike) <= MOST_ALIKE // max(1, size):
                (whole,) = self._truths([shape], _columns(list(alike.values())), columns)
                found[[*alike]] = whole.reshape(len(alike), size)
            else:
                others += alike
        if others:
            found[others] = self._truths([tests[at] for at in others], columns)
        return found

    def _truths(self, tests: Sequence[Expr], *tables: Columns) -> list[NDArray[np.bool_]]:
        found = self._selected(tests, *tables).fetchnumpy()
        return [np.ma.filled(found[str(at)], False) for at in range(len(tests))]

    def _selected(self, exprs: Sequence[Expr], *tables: Columns) -> duckdb.DuckDBPyConnection:
        """A query of expressions over the combinations of the rows of some tables, in order, those of the last table changing
        fastest. Its columns are numbered from 0."""
        names, sources, given = dict[str, str](), list[str](), list[Any]()
        for number, columns in enumerate(tables):
            given.append(_length(columns))
            lists = [f'unnest(range(CAST(${len(given)} AS BIGINT))) AS "#"']
            for column, (kind, values) in columns.items():
                given.append(list(values))
                names[column] = f"t{number}.{quote(column)}"
                lists.append(f"unnest(CAST(${len(given)} AS {_carrier(kind, values)}[])) AS {quote(column)}")
            sources.append(f"(SELECT {', '.join(lists)}) AS t{number}")
        shown = ", ".join(f"{to_sql(expr, names)} AS {quote(str(at))}" for at, expr in enumerate(exprs))
        order = ", ".join(f't{number}."#"' for number in range(len(tables)))
        return self._connection.execute(f"SELECT {shown} FROM {', '.join(sources)} ORDER BY {order}", given)

    def compiles(self, pattern: str) -> bool:
        """Whether a regular expression is valid, so that it cannot fail on a row."""
        try:
            self._connection.execute("SELECT regexp_matches('', CAST($1 AS VARCHAR))", [pattern]).fetchall()
        except duckdb.Error:
            return False
        return True

    def close(self) -> None:
        if "_connection" in vars(self):
            self._connection.close()


def _length(columns: Columns) -> int:
    """The number of rows that are given column by column."""
    return max((len(values) for _, values in columns.values()), default=1)


def _by_shape(tests: Sequence[Expr]) -> dict[Expr, dict[int, tuple[Literal, ...]]]:
    """Groups of conditions that differ only in constants: by their common form, with a column for each constant, the place of
    each condition and its constants."""
    found = dict[Expr, dict[int, tuple[Literal, ...]]]()
    for at, test in enumerate(tests):
        constants = list[Literal]()
        shape = rewrite(test, partial(_over_columns, constants=constants))
        found.setdefault(shape, {})[at] = tuple(constants)
    return found


def _over_columns(part: Expr, constants: list[Literal]) -> Expr | None:
    """The same comparison, but with a column for each constant; the constants are appended to the list. None if it is no
    comparison."""
    if not isinstance(part, Call) or part.function not in COMPARED:
        return None
    args = list(part.args)
    for at, arg in enumerate(args):
        if isinstance(arg, Literal):
            args[at] = Ref(column=f"#{len(constants)}", type=arg.type)
            constants.append(arg)
    return replace(part, args=tuple(args))


def _columns(rows: Sequence[tuple[Literal, ...]]) -> Columns:
    """The columns for the constants of several conditions of one shape."""
    return {f"#{at}": (own[0].type, [literal.value for literal in own]) for at, own in enumerate(zip(*rows, strict=True))}


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

    def load(self, name: str, columns: Mapping[str, tuple[Type, Sequence[Any] | ColumnArrays]],
             versions: ColumnArrays | None = None) -> None:
        """Create a table from its columns; `versions` gives the version of each row, if there are several."""
        place = name if versions is None else stored(name)
        given = {**({} if versions is None else {VERSION: (Type.BIGINT, versions)}), **columns}
        make_table(self._connection, quote(place), {
            column: (kind.value if isinstance(values, ColumnArrays) else _carrier(kind, values), values)
            for column, (kind, values) in given.items()})
        if versions is not None:
            shown = ", ".join(map(quote, columns))
            self._versioned[name] = f"SELECT {shown} FROM {quote(place)} WHERE {quote(VERSION)} = "

    def rows(self, sql: str, version: int = 0) -> list[tuple[Any, ...]]:
        """The rows of a printed query, evaluated on one version of the tables. Raises ReaderFault."""
        return self._asked(sql, version, lambda found: found.fetchall())

    def arrays(self, sql: str, version: int = 0) -> dict[str, NDArray[Any]]:
        """The same rows as an array for each column, masked where it is NULL. Raises ReaderFault."""
        return self._asked(sql, version, lambda found: found.fetchnumpy())

    def _asked(self, sql: str, version: int, fetched: Callable[[duckdb.DuckDBPyConnection], Answered]) -> Answered:
        seen = [f"{quote(name)} AS ({text}{version:d})" for name, text in self._versioned.items()]
        whole = f"WITH {', '.join(seen)} SELECT * FROM ({sql}) AS t" if seen else sql
        with contextlib.suppress(duckdb.Error):
            return fetched(self._connection.execute(whole))
        raise ReaderFault

    def versioned(self, name: str) -> bool:
        """Whether a table has several versions."""
        return name in self._versioned

    def close(self) -> None:
        self._connection.close()
