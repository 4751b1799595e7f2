"""Sheets of workbooks, as Excel and LibreOffice write them: cells as texts, so that the policy decides their types as it does for
CSV files.

A number is written in its shortest form, a whole one without decimals; dates in ISO; durations as hours, minutes and seconds;
booleans as true and false. Of a formula the value is read that was stored with it. An empty cell, an empty text and an error such
as #N/A are NULL, and so are all cells but the first of several that are merged. A row without any text is none.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import math
from collections.abc import Iterator, Sequence
from typing import Any

from dpsql.backends.column_names import distinct_names
from dpsql.backends.foreign_rows import ForeignFile, ForeignRows, library, not_a_file, rows_at_once
from dpsql.errors import OperationalError

KIND = "a workbook"
LONGEST_WHOLE = 1e15  # beyond, a double does not tell whole numbers apart


def sheets_in(file: ForeignFile) -> tuple[list[str], list[str]]:
    """The names of the worksheets, and of the hidden ones. Raises OperationalError if there are none."""
    reading = library("python_calamine", file, "pip install 'dpsql[excel]'")
    with contextlib.closing(_opened(file)) as book:
        cells = [sheet for sheet in book.sheets_metadata if sheet.typ == reading.SheetTypeEnum.WorkSheet]
    visible = [sheet.name for sheet in cells if sheet.visible == reading.SheetVisibleEnum.Visible]
    if not visible:
        raise not_a_file(file, KIND, "it has no sheet that is not hidden")
    return visible, [sheet.name for sheet in cells if sheet.name not in visible]


def sheet_rows(file: ForeignFile) -> ForeignRows:
    """Read the rows of a sheet. Raises OperationalError if there is no such sheet, or if it has no header."""
    pa = library("pyarrow", file, "pip install 'dpsql[excel]'")
    sheet, names = sheet_of(file), [*file.how.names]
    if not names:
        header = next((cells for at, cells in enumerate(cells_of(sheet)) if at == file.how.skip), [])
        names = distinct_names([text or "" for text in header])
    if not names:
        raise not_a_file(file, KIND, f"its sheet {file.sheet or 'in front'} has no table",
                         f'sheet = "..." in [tables.{file.table}], a sheet with a header')

    def batches(wanted: Sequence[str]) -> Iterator[Sequence[Any]]:
        places, some = [names.index(name) for name in wanted], list[Sequence[str | None]]()
        size = rows_at_once(len(wanted))

        def batch() -> Sequence[Any]:
            return [pa.array([row[place] if place < len(row) else None for row in some], pa.string()) for place in places]

        for at, row in enumerate(cells_of(sheet)):
            if at < file.how.skip + file.how.header or not any(text is not None for text in row):
                continue
            some.append(row)
            if len(some) == size:
                yield batch()
                some = []
        if some:
            yield batch()

    return ForeignRows(types=dict.fromkeys(names, pa.string()), batches=batches)


def sheet_of(file: ForeignFile) -> Any:
    """The sheet, which the library reads as a whole. Raises OperationalError if there is no sheet of that name."""
    name = sheets_in(file)[0][0] if file.sheet is None else file.sheet
    with contextlib.closing(_opened(file)) as book:
        if name not in book.sheet_names:
            raise OperationalError(f"{file.path} has no sheet {name}", code="no-sheet", subject=file.table,
                                   try_="one of " + ", ".join(book.sheet_names))
        return _tried(file, lambda: book.get_sheet_by_name(name))


def cells_of(sheet: Any) -> Iterator[list[str | None]]:
    """The rows of a sheet as texts, always from its first row and first column on, even if these are empty, so that one row never
    shifts the others."""
    left = [None] * (sheet.start[1] if sheet.start is not None else 0)  # columns that the library leaves out
    return ([*left, *(text_of_cell(cell) for cell in row)] for row in sheet.iter_rows())


def text_of_cell(cell: object) -> str | None:
    """The text of a cell; None if it has no value."""
    match cell:
        case bool():
            return "true" if cell else "false"
        case str():
            return cell or None
        case float() if not math.isfinite(cell):
            return None
        case float():
            return str(int(cell)) if cell == int(cell) and abs(cell) < LONGEST_WHOLE else repr(cell)
        case dt.datetime():
            return cell.isoformat(sep=" ")
        case dt.timedelta():
            seconds, sign = abs(cell), "-" if cell < dt.timedelta(0) else ""
            return f"{sign}{seconds // dt.timedelta(hours=1):02}:{seconds.seconds // 60 % 60:02}:{seconds.seconds % 60:02}"
        case dt.date() | dt.time():
            return cell.isoformat()
    return None if cell is None else str(cell)


def _opened(file: ForeignFile) -> Any:
    reading = library("python_calamine", file, "pip install 'dpsql[excel]'")
    return _tried(file, lambda: reading.load_workbook(str(file.path)))


def _tried(file: ForeignFile, read: Any) -> Any:
    """What the library reads. Raises OperationalError."""
    why, try_ = "it is damaged, or of another kind", ""
    try:
        return read()
    except Exception as fault:
        if type(fault).__name__ == "PasswordError":
            why, try_ = "it is protected by a password", "a copy without one"
    except BaseException as fault:
        if type(fault).__name__ != "PanicException":  # of the library, which is not written in Python
            raise
    raise not_a_file(file, KIND, why, try_)
