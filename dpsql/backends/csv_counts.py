"""What is left out or not read of files that are read as the policy says: exact counts and a few cells, for the owner alone.

Lines are counted by a reader of their own, that of Python, so that a fault of the engine's shows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import duckdb

from dpsql.backends.cell_readings import MISSING
from dpsql.backends.cleaning import cleaned, is_retyped, text_kept, text_of, value_of
from dpsql.backends.csv_files import NOT_READ, TEXTS, names_in, opened_text, put_texts, records_of
from dpsql.backends.duckdb import connected
from dpsql.catalog.reading import CellReading, CsvFormat
from dpsql.frozen import Frozen
from dpsql.trusted.plan.expr.printing import quote, text_literal

EXAMPLES = 3
AT_ONCE = 100  # columns that are counted in one query


class CellsNotRead(Frozen):
    """The cells of a column that are not of its type, and count as NULL: how many, how many of them have a usual word for a
    missing value, and a few different ones."""

    column: str
    type: str
    cells: int
    missing: int
    examples: tuple[str, ...]


class FileOnRows(Frozen):
    """A file: its lines (a row that is broken over several is one), those with too few and with too many cells, the rows that are
    read, and the cells that are not."""

    name: str
    lines: int
    rows: int
    short: int
    long: int
    cells: tuple[CellsNotRead, ...]


def file_on_rows(path: Path, how: CsvFormat, cells: Mapping[str, CellReading]) -> FileOnRows:
    """Count the rows of a CSV file and the cells that cannot be read. Raises the errors of `csv_files`, and errors of the
    engine."""
    names = names_in(path, how)
    lower = {name.lower(): name for name in names}
    held = {lower[name.lower()]: reading for name, reading in cells.items() if name.lower() in lower}
    with opened_text(path, how) as text:
        widths = [len(record) for record in records_of(text, how, columns=len(names))][int(how.header) :]
    with contextlib.closing(connected()) as connection:
        rows = put_texts(connection, path, names, how, [*held])
        found = list(_not_read(connection, held, {name: _is_bad(quote(name), how) for name, how in held.items()}))
    return FileOnRows(name=path.name, lines=len(widths), rows=rows, short=sum(width < len(names) for width in widths),
                      long=sum(width > len(names) for width in widths), cells=tuple(found))


def copy_on_rows(path: Path, copy: Path, cells: Mapping[str, CellReading]) -> FileOnRows:
    """The same for a file of another program, from a copy of its rows in Parquet. Raises errors of the engine."""
    with contextlib.closing(connected()) as connection:
        connection.execute(f"CREATE VIEW {quote(TEXTS)} AS SELECT * FROM read_parquet({text_literal(copy)})")
        (rows,), = connection.execute(f"SELECT COUNT(*) FROM {quote(TEXTS)}").fetchall()
        kinds = {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE {quote(TEXTS)}").fetchall()}
        bad = {name: _is_unread(quote(name), kinds[name], how) for name, how in cells.items()
               if name in kinds and is_retyped(kinds[name], how)}
        found = list(_not_read(connection, cells, bad))
    return FileOnRows(name=path.name, lines=rows, rows=rows, short=0, long=0, cells=tuple(found))


def _not_read(connection: duckdb.DuckDBPyConnection, cells: Mapping[str, CellReading],
              bad: Mapping[str, str]) -> Iterator[CellsNotRead]:
    """The columns with cells that are not read, by the condition that a cell is not. Many columns are counted at once, as a query
    of its own for each takes longer."""
    names, words = list(bad), ", ".join(map(text_literal, MISSING))
    for start in range(0, len(names), AT_ONCE):
        batch = names[start : start + AT_ONCE]
        counts = ", ".join(f"[COUNT(*) FILTER ({bad[name]}), COUNT(*) FILTER ({bad[name]} AND {_text(name)} IN ({words}))]"
                           for name in batch)
        numbers, = connection.execute(f"SELECT {counts} FROM {quote(TEXTS)}").fetchall()
        for name, number, missing in ((name, *both) for name, both in zip(batch, numbers, strict=True) if both[0]):
            most = (f"SELECT CAST({quote(name)} AS VARCHAR) AS x FROM {quote(TEXTS)} WHERE {bad[name]} GROUP BY x "
                    f"ORDER BY COUNT(*) DESC, x LIMIT {EXAMPLES}")
            examples = tuple(x for x, in connection.execute(most).fetchall())
            yield CellsNotRead(column=name, type=cells[name].type or "VARCHAR", cells=number, missing=missing, examples=examples)


def _text(name: str) -> str:
    return f"lower(trim(CAST({quote(name)} AS VARCHAR)))"


def _is_bad(cell: str, how: CellReading) -> str:
    """A cell of texts is not read where a text is left of it and no value, or where its bytes are no text."""
    text = f"({text_of(cell, how)})"
    return f"({text} IS NOT NULL AND ({value_of(text, how)} IS NULL OR contains({text}, {text_literal(NOT_READ)})))"


def _is_unread(cell: str, kind: str, how: CellReading) -> str:
    """A cell of another type is not read where a text is left of it and no value."""
    return f"(({text_kept(cell, kind, how)}) IS NOT NULL AND ({cleaned(cell, kind, how)}) IS NULL)"
