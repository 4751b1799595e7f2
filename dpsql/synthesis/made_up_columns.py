"""`made_up` of CREATE SYNTHETIC TABLE: columns whose values are made up, and not learned.

It is a text of parts, separated by semicolons. A part names a column of the query: whole numbers are numbered anew from 1 on, and
UUIDs are new random ones. For texts a pattern follows: `code LIKE [A-Z]{2}-[0-9]{4}`, if the policy has none (`like`). Texts
without listed values, for which it has one, are made up without being named. The column is not measured, so it costs nothing.
What is made up follows from the number of the row, the pattern and the identity of the statement alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NoReturn

import numpy as np

from dpsql.errors import OptionError
from dpsql.frozen import Frozen
from dpsql.sql.binding.listed_columns import RowColumn
from dpsql.sql.text.statement import Option
from dpsql.synthesis.packed_values import NumberValues, PackedValues, PatternValues
from dpsql.synthesis.released_table import SyntheticColumn
from dpsql.synthesis.text_patterns import UUID, WRITTEN, WrongPattern, pattern_of
from dpsql.types import Type

PART = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^"]+?))\s*(?:\slike\s+(.*?))?\s*', re.IGNORECASE | re.DOTALL)
FORM = "made_up = 'id', or made_up = 'code LIKE [A-Z]{2}-[0-9]{4}' for texts"


class MadeUpColumn(Frozen):
    """A column that is made up: its place among all columns, its type, and the pattern of its texts, if it has texts."""

    at: int
    name: str
    type: Type
    pattern: str = ""
    sql_type: str = ""

    @property
    def note(self) -> str:
        """What a reader of the table should know."""
        texts = "random UUIDs" if self.sql_type else f"texts like {self.pattern}"
        what = texts if self.pattern else "whole numbers from 1 on"
        return f"{self.name} is made up ({what}): it is unrelated to the private values"

    def made(self, rows: int, seed: int) -> SyntheticColumn:
        """The column with values for so many rows."""
        numbers = np.arange(1, rows + 1, dtype=np.min_scalar_type(rows))
        values: PackedValues = NumberValues(self.type, numbers) if not self.pattern else PatternValues(self.pattern, seed, rows)
        return SyntheticColumn(name=self.name, type=self.type, sql_type=self.sql_type, values=values)


def made_up_columns(option: Option | None, columns: Sequence[RowColumn], rows: int | None) -> tuple[MadeUpColumn, ...]:
    """The columns of a query that are made up, in order. `rows` is the number of rows, if the statement says it. Raises
    OptionError, located at the option, if there is one."""
    found = _with_those_of_policy({} if option is None else _named(option, columns, rows), columns, (), rows, option)
    if len(found) == len(columns):
        _fail(option, "all columns are made up, so there is nothing to measure", "made_up", "other columns in the query")
    return found


def made_up_in_tables(option: Option | None, tables: Mapping[str, Sequence[RowColumn]], keys: Mapping[str, Collection[str]],
                      rows: Mapping[str, int | None]) -> Mapping[str, tuple[MadeUpColumn, ...]]:
    """The columns of several tables that are made up, by the names of the tables: a part of the option names a column, or a table
    and its column. `keys` are numbered anew in any case, and `rows` are their numbers of rows, if the statement says them."""
    found: dict[str, dict[int, MadeUpColumn]] = {table: {} for table in tables}
    for name, pattern in _parts(option):
        places = [(table, at) for table, columns in tables.items() for at, column in enumerate(columns)
                  if name.lower() in (column.name.lower(), f"{table}.{column.name}".lower())]
        if not places:
            _fail(option, f"none of the tables has a column {name}", name, "one of " + ", ".join(
                column.name for columns in tables.values() for column in columns))
        table, at = places[0]
        if len(places) > 1:
            _fail(option, f"{name} is a column of {' and of '.join(table for table, _ in places)}", name, f"{table}.{name}")
        column = tables[table][at]
        if column.name in keys[table]:
            _fail(option, f"{name} is a key, and keys are new numbers", name, f"made_up without {name}")
        if at in found[table]:
            _fail(option, f"{name} is made up twice", name, "only one of them")
        found[table][at] = _column(at, column, pattern or column.like or None, rows[table], option)
    return {table: _with_those_of_policy(found[table], columns, keys[table], rows[table], option)
            for table, columns in tables.items()}


def _with_those_of_policy(named: Mapping[int, MadeUpColumn], columns: Sequence[RowColumn], keys: Collection[str],
                          rows: int | None, option: Option | None) -> tuple[MadeUpColumn, ...]:
    """The columns of a table that are made up, in order: those that the option names, and those that the policy says so of."""
    found = {**named, **{at: _column(at, column, column.like, rows, option) for at, column in enumerate(columns)
                         if at not in named and column.name not in keys and _is_by_policy(column)}}
    return tuple(found[at] for at in sorted(found))


def _is_by_policy(column: RowColumn) -> bool:
    """Whether the policy says how new texts look, and not which there are."""
    return bool(column.like) and column.facts.type is Type.VARCHAR and column.facts.domain is None


def _named(option: Option, columns: Sequence[RowColumn], rows: int | None) -> dict[int, MadeUpColumn]:
    """The columns that the option names."""
    known, found = {column.name.lower(): at for at, column in enumerate(columns)}, dict[int, MadeUpColumn]()
    for name, pattern in _parts(option):
        at = known.get(name.lower())
        if at is None:
            _fail(option, f"the query has no column {name}", name, "one of " + ", ".join(column.name for column in columns))
        if at in found:
            _fail(option, f"{name} is made up twice", name, "only one of them")
        found[at] = _column(at, columns[at], pattern or columns[at].like or None, rows, option)
    return found


def _parts(option: Option | None) -> Iterator[tuple[str, str | None]]:
    """The names of columns in an option, each with its pattern, if it has one."""
    if option is None:
        return
    if not isinstance(option.value, str) or not option.value.strip():
        _fail(option, "made_up must be a text that names columns", "made_up", FORM)
    for part in (part for part in option.value.split(";") if part.strip()):
        match = PART.fullmatch(part)
        if match is None:
            _fail(option, f"{part.strip()} names no column", part.strip(), FORM)
        yield match[1].replace('""', '"') if match[1] else match[2], match[3]


def _column(at: int, column: RowColumn, pattern: str | None, rows: int | None, option: Option | None) -> MadeUpColumn:
    name, kind, example = column.name, column.facts.type, f"made_up = '{column.name} LIKE P[0-9]{{6}}'"
    if kind is Type.BIGINT and pattern is None:
        return MadeUpColumn(at=at, name=name, type=kind)
    if kind is Type.BIGINT:
        _fail(option, f"{name} is BIGINT, and only texts have a pattern", name, f"made_up = '{name}'")
    if kind is not Type.VARCHAR:
        _fail(option, f"{name} is {kind.value}, and only whole numbers, UUIDs and texts can be made up", name,
              f"made_up without {name}, so that it is measured")
    uuid = column.sql_type.upper() == "UUID" and pattern is None
    if pattern is None and not uuid:
        _fail(option, f"{name} is a text, and has no pattern", name, example)
    try:
        size = pattern_of(pattern or UUID).size
    except WrongPattern as wrong:
        _fail(option, f"the pattern of {name} is wrong: {wrong}", name, f"{WRITTEN}{example}")
    if rows is not None and rows > size:
        _fail(option, f"{name} can have {size:,} different texts, and {rows:,} rows are to be drawn", name,
              f"a longer pattern, or rows = {size}")
    return MadeUpColumn(at=at, name=name, type=kind, pattern=pattern or UUID, sql_type="UUID" if uuid else "")


def seed_of(identity: str, name: str) -> int:
    """What the values of a column that is made up follow from, by the identity of the statement and the name of the column."""
    return int.from_bytes(hashlib.sha256(f"{identity} {name}".encode()).digest()[:8])


def unknown_because(type: Type, kind: str | None) -> str:
    """Why the values of a column are not known; `kind` is its type in the database."""
    if kind is not None and kind.upper() == "UUID":
        return "it is a UUID"
    return "it is a text without declared values" if type is Type.VARCHAR else "it has neither declared values nor bounds"


def instead_of(name: str, type: Type, kind: str | None) -> str:
    """What to write instead of a column whose values are not known; `kind` is None where no column can be made up."""
    if kind is not None and kind.upper() == "UUID":
        return f"OPTIONS (made_up = '{name}') for new UUIDs, or the other columns alone"
    declared = ("values = [...]" if type is Type.VARCHAR else "bounds = [0, 100]" if type.numeric else
                "bounds = [2020-01-01, 2029-12-31]")
    coarser = f"CASE WHEN {name} LIKE 'A%' THEN 'A' ELSE 'other' END" if type is Type.VARCHAR else "an expression such as CASE"
    made_up = {Type.VARCHAR: f", OPTIONS (made_up = '{name} LIKE P[0-9]{{6}}') for new texts",
               Type.BIGINT: f", OPTIONS (made_up = '{name}') if it numbers the rows"}.get(type, "") if kind is not None else ""
    return f"{declared} for {name} in the policy, {coarser}{made_up}, or the other columns alone"


def _fail(option: Option | None, why: str, subject: str, try_: str) -> NoReturn:
    raise OptionError(why, span=None if option is None else option.span, subject=subject, try_=try_)
