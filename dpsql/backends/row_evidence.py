"""What the rows of tables say to a draft of a policy (`catalog.guesses.Evidence`): which columns tell rows apart, which refer to
others, and which values they have. It is for the owner alone."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.backends.duckdb import DuckReader
from dpsql.catalog.column_guesses import MOST_LISTED, ColumnValues
from dpsql.trusted.plan.expr.printing import quote


class RowEvidence:
    """Asks the engine, once for each question. Raises what it raises."""

    def __init__(self, reader: DuckReader) -> None:
        self._reader = reader
        self._known: dict[str, int] = {}

    def rows(self, table: str) -> int:
        return self._number(f"SELECT COUNT(*) FROM {quote(table)}")

    def values(self, table: str, column: str) -> int:
        return self._number(f"SELECT COUNT(DISTINCT {quote(column)}) FROM {quote(table)}")

    def is_key(self, table: str, column: str) -> bool:
        return self.values(table, column) == self.rows(table)

    def is_within(self, table: str, column: str, other: str, key: str) -> bool:
        own, keys = quote(column), f"SELECT {quote(key)} FROM {quote(other)} WHERE {quote(key)} IS NOT NULL"
        return self._number(f"SELECT COUNT({own}) - COUNT(*) FILTER ({own} IN ({keys})) FROM {quote(table)}") == 0

    def values_of(self, table: str, columns: Sequence[str]) -> list[ColumnValues]:
        """The values of some columns. NaN does not count as a value."""
        kinds = dict(self._reader.schema()[table].columns)
        read = [f"CASE WHEN isfinite({quote(name)}) THEN {quote(name)} END" if kinds[name] in ("DOUBLE", "FLOAT") else quote(name)
                for name in columns]
        asked = [f"COUNT({name}), COUNT(DISTINCT {name}), MIN({name}), MAX({name})" for name in read]
        if not asked:
            return []
        (rows, *found), = self._reader.rows(f"SELECT COUNT(*), {', '.join(asked)} FROM {quote(table)}")
        made = []
        for at, name in enumerate(read):
            there, different, low, high = found[4 * at : 4 * at + 4]
            few = 0 < different <= MOST_LISTED
            listed = f"SELECT DISTINCT {name} AS v FROM {quote(table)}"
            values = tuple(value for value, in self._reader.rows(listed) if value is not None) if few else ()
            made.append(ColumnValues(rows=rows, nulls=rows - there, different=different, low=low, high=high, values=values))
        return made

    def _number(self, question: str) -> int:
        if question not in self._known:
            (found,), = self._reader.rows(question)
            self._known[question] = int(found)
        return self._known[question]
