"""`made_up` of CREATE SYNTHETIC TABLE: columns whose values are made up, and not learned.

It is a text of parts, separated by semicolons. A part names a column of the query: whole numbers are numbered anew from 1 on, and
UUIDs are new random ones. For texts a pattern follows: `code LIKE [A-Z]{2}-[0-9]{4}`. The column is not measured, so it costs
nothing. What is made up follows from the number of the row, the pattern and the identity of the statement alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from dpsql.errors import OptionError
from dpsql.frozen import Frozen
from dpsql.sql.binding.listed_columns import RowColumn
from dpsql.sql.text.statement import Option
from dpsql.synthesis.packed_values import NumberValues, PackedValues, PatternValues
from dpsql.synthesis.released_table import SyntheticColumn
from dpsql.synthesis.text_patterns import UUID, WrongPattern, pattern_of
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
    OptionError, located at the option."""
    if option is None:
        return ()
    if not isinstance(option.value, str) or not option.value.strip():
        _fail(option, "made_up must be a text that names columns", "made_up", FORM)
    known, found = {column.name.lower(): at for at, column in enumerate(columns)}, dict[int, MadeUpColumn]()
    for part in (part for part in str(option.value).split(";") if part.strip()):
        match = PART.fullmatch(part)
        if match is None:
            _fail(option, f"{part.strip()} names no column", part.strip(), FORM)
        name, pattern = match[1].replace('""', '"') if match[1] else match[2], match[3]
        at = known.get(name.lower())
        if at is None:
            _fail(option, f"the query has no column {name}", name, "one of " + ", ".join(column.name for column in columns))
        if at in found:
            _fail(option, f"{name} is made up twice", name, "only one of them")
        found[at] = _column(at, columns[at], pattern, rows, option)
    if len(found) == len(columns):
        _fail(option, "all columns are made up, so there is nothing to measure", "made_up", "other columns in the query")
    return tuple(found[at] for at in sorted(found))


def _column(at: int, column: RowColumn, pattern: str | None, rows: int | None, option: Option) -> MadeUpColumn:
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
        _fail(option, f"the pattern of {name} is wrong: {wrong}", name,
              f"characters, sets such as [A-Z0-9], \\d, and {{n}}, as in {example}")
    if rows is not None and rows > size:
        _fail(option, f"{name} can have {size:,} different texts, and {rows:,} rows are to be drawn", name,
              f"a longer pattern, or rows = {size}")
    return MadeUpColumn(at=at, name=name, type=kind, pattern=pattern or UUID, sql_type="UUID" if uuid else "")


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


def _fail(option: Option, why: str, subject: str, try_: str) -> NoReturn:
    raise OptionError(why, span=option.span, subject=subject, try_=try_)
