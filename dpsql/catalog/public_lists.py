"""Lists that everybody can read from a public table: the values of its columns, and the combinations that occur."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import TypeAlias

from dpsql.frozen import Frozen, replace
from dpsql.trusted.declarations.tables import Column, Domain, Scalar, ValidCombinations
from dpsql.types import Type

MOST_LISTED = 10_000  # values or combinations that are listed; more are found where they are asked for
MOST_COMBINED = 1000  # values of a column whose combinations with others are listed where the table has more rows
LISTED = (Type.VARCHAR, Type.BIGINT, Type.DATE, Type.BOOLEAN)

Row: TypeAlias = tuple[Scalar | None, ...]
Values: TypeAlias = Callable[[str, Sequence[str], int], Sequence[Row]]
"""Lists different rows of some columns of a public table, so many at most."""
Read: TypeAlias = Callable[[Column, Sequence[Scalar | None]], Sequence[Scalar | None]]
"""Values of a column as they are carried. Raises an error for those that cannot be."""


class _ListedTable(Frozen):
    """One public table that is read, and how its values are."""

    table: str
    values: Values
    read: Read

    def rows(self, columns: Sequence[Column]) -> list[Row] | None:
        """The different rows of some columns; None where they are too many, or a value cannot be carried."""
        try:
            found = self.values(self.table, [column.name for column in columns], MOST_LISTED + 1)
            if len(found) > MOST_LISTED:
                return None
            return list(dict.fromkeys(zip(*(self.read(column, [row[i] for row in found]) for i, column in enumerate(columns)),
                                          strict=True)))
        except Exception:  # of a type that the client of the engine, or the policy, does not know: found where it is asked for
            return None


def listed(table: str, columns: Mapping[str, Column], values: Values,
           read: Read) -> tuple[dict[str, Column], ValidCombinations | None]:
    """The columns, with their values from the table where the policy lists none; and the combinations that exist."""
    asked = _ListedTable(table=table, values=values, read=read)
    candidates = [column for column in columns.values() if column.type in LISTED]
    rows = asked.rows(candidates) if candidates else None
    if rows is None:
        alone = {column.name: asked.rows([column]) for column in candidates}
        candidates = [column for column in candidates if 0 < len(alone[column.name] or ()) <= MOST_COMBINED]
        rows = asked.rows(candidates) if len(candidates) > 1 else None
        lists = {name: [value for value, in found] for name, found in alone.items() if found}
    else:
        lists = {column.name: [row[i] for row in rows] for i, column in enumerate(candidates)}
    known = {name: _with_values(column, lists[name]) if name in lists else column for name, column in columns.items()}
    if not rows:
        return known, None
    return known, ValidCombinations(columns=tuple(column.name for column in candidates), rows=tuple(rows))


def determined(table: str, columns: Sequence[Column], values: Values, read: Read) -> ValidCombinations | None:
    """The combinations that some columns of a private table may have, read from the columns with the same names in a public
    table; None if there are too many. Any of the columns may also be NULL."""
    rows = _ListedTable(table=table, values=values, read=read).rows(columns)
    if rows is None:
        return None
    whole = [[(value, None) if column.nullable else (value,) for value, column in zip(row, columns, strict=True)] for row in rows]
    return ValidCombinations(columns=tuple(column.name for column in columns),
                             rows=tuple(dict.fromkeys(each for row in whole for each in product(*row))))


def _with_values(column: Column, values: Sequence[Scalar | None]) -> Column:
    there = sorted({value for value in values if value is not None})
    if column.domain is not None or not there or column.type is Type.BOOLEAN:
        return column
    return replace(column, domain=Domain(tuple(there)))
