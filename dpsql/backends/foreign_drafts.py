"""What the columns of another program's file seem to be, for the draft of a policy: by what the file says of them, and by all
rows.

The labels of a questionnaire's answers are part of the questionnaire. So where every answer has one, they are drafted as the
values of the column, and the codes as other spellings of them. A column of which only some values have labels, such as 98 for a
refusal, stays what it is, and a comment names these.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import duckdb

from dpsql.backends.arrow_files import categorical
from dpsql.backends.cell_readings import TEXT, columns_of
from dpsql.backends.column_names import distinct_names
from dpsql.backends.csv_drafts import is_number
from dpsql.backends.duckdb import connected
from dpsql.backends.foreign_files import copy_rows, rows_in
from dpsql.backends.foreign_rows import ForeignFile, check_there
from dpsql.backends.statistics_files import Codebook, codebook, kind_of_format
from dpsql.backends.workbooks import cells_of, sheet_of, sheets_in, text_of_cell
from dpsql.catalog.drafted_files import DraftedColumn, DraftedFile
from dpsql.catalog.file_names import is_of_statistics, is_workbook
from dpsql.catalog.reading import USUAL_CELL, USUAL_CSV, CellReading, CsvFormat
from dpsql.errors import OperationalError
from dpsql.frozen import replace
from dpsql.trusted.plan.expr.printing import quote, text_literal

LOOKED_AT = 2000  # rows of a sheet by which its header is found
MOST_LABELS = 1000  # that are drafted as values
NAMED = 8  # codes that a comment names
LONGEST_LABEL = 120  # characters of what a column is about
ENCODINGS = USUAL_CSV.encoding, "cp1252", "latin-1"  # that of the file, and those of old files that do not say theirs, or wrongly
PERIODS = {"w": "weeks since 1960; Stata counts 52 weeks a year", "C": "with leap seconds, which are not removed"}
LARGEST_WHOLE = 2**53
FROM_FILE = "the labels of the file"
CATEGORIES = "the file has categories, which programs derive from rows: list only those that are public"


def tables_in(file: ForeignFile) -> tuple[list[ForeignFile], dict[str, str]]:
    """The tables of a file, with their formats: one for each sheet of a workbook that has a table; and the reasons why other
    sheets have none. Raises OperationalError if there is no table at all."""
    check_there(file)
    if not is_workbook(file.path.name):
        return [file], {}
    visible, hidden = sheets_in(file)
    formats = {sheet: _format(replace(file, sheet=sheet), alone=len(visible) == 1) for sheet in visible}
    found = {sheet: how for sheet, how in formats.items() if how is not None}
    if not found:
        raise OperationalError(f"{file.path} has no table on any sheet", code="no-tables", subject=file.table,
                               try_="a sheet with a header and rows below")
    aside = dict.fromkeys(hidden, "it is hidden") | {sheet: "it has no table" for sheet in visible if sheet not in found}
    return [replace(file, sheet=sheet if len(visible) > 1 else None, how=how) for sheet, how in found.items()], aside


def drafted_copy(file: ForeignFile, copy: Path) -> DraftedFile:
    """Copy all rows of a file, and draft its columns. Raises OperationalError if it cannot be read."""
    try:
        rows = copy_rows(file, None, copy)
    except OperationalError as fault:
        tried = ENCODINGS.index(file.how.encoding)
        if fault.code != "encoding" or tried == len(ENCODINGS) - 1:
            raise
        return drafted_copy(replace(file, how=replace(file.how, encoding=ENCODINGS[tried + 1])), copy)
    unread: Mapping[str, str] = {}
    with contextlib.closing(connected()) as connection:
        connection.execute(f"CREATE TABLE texts AS SELECT * FROM read_parquet({text_literal(copy)})")
        if is_workbook(file.path.name):
            columns = _of_sheet(connection, file)
        elif is_of_statistics(file.path.name):
            columns = _of_codes(connection, file)
        else:
            known, found = categorical(file), rows_in(file)
            columns = {name: DraftedColumn(reading=USUAL_CELL, note=CATEGORIES if name in known else "") for name in found.types}
            unread = found.unread
    return DraftedFile(csv=file.how, columns=columns, rows=rows, unread=unread)


# -- sheets


def _format(file: ForeignFile, *, alone: bool) -> CsvFormat | None:
    """Where the header of a sheet is: the first row with half as many cells as the widest one. None where there is no table: at
    least two columns, but for the only sheet of a workbook."""
    rows = [*islice(cells_of(sheet_of(file)), LOOKED_AT)]
    cells = [sum(cell is not None for cell in row) for row in rows]
    widest = max(cells, default=0)
    if widest < (1 if alone else 2):
        return None
    at = next(at for at, number in enumerate(cells) if number >= max(min(2, widest), widest / 2))
    if not any(is_number(cell or "") for cell in rows[at]):
        return CsvFormat(skip=at)
    return CsvFormat(skip=at, header=False, names=tuple(distinct_names([""] * len(rows[at]))))


def _of_sheet(connection: duckdb.DuckDBPyConnection, file: ForeignFile) -> dict[str, DraftedColumn]:
    """The columns of a sheet, as of a CSV file with the same texts; but not those that have neither a name nor a value."""
    (rows,), = connection.execute("SELECT COUNT(*) FROM texts").fetchall()
    names = [name for name, *_ in connection.execute("DESCRIBE texts").fetchall()]
    found = columns_of(connection, "texts", names, rows, commas=False)
    header = next(islice(cells_of(sheet_of(file)), file.how.skip, None)) if file.how.header else []
    unnamed = {name for name, text in zip(found, header, strict=False) if text is None}
    empty = {name for name in unnamed if connection.execute(f"SELECT COUNT({quote(name)}) FROM texts").fetchall() == [(0,)]}
    return {name: column for name, column in found.items() if name not in empty}


# -- codes


def _of_codes(connection: duckdb.DuckDBPyConnection, file: ForeignFile) -> dict[str, DraftedColumn]:
    book = codebook(file)
    kinds = {name: kind for name, kind, *_ in connection.execute("DESCRIBE texts").fetchall()}
    return {name: _of_code(connection, file, book, name, kind) for name, kind in kinds.items()}


def _of_code(connection: duckdb.DuckDBPyConnection, file: ForeignFile, book: Codebook, name: str, kind: str) -> DraftedColumn:
    label, codes, cell = book.labels.get(name, ""), _valid(book, name), quote(name)
    listed = ", ".join(text_literal(code) if kind == "VARCHAR" else repr(float(code)) for code in codes)
    broken = f"{cell} <> trunc({cell}) OR abs({cell}) > {LARGEST_WHOLE}" if kind == "DOUBLE" else "false"
    other = f"{cell} NOT IN ({listed})" if listed else "true"
    (there, decimals, unlabelled), = connection.execute(
        f"SELECT COUNT({cell}), COUNT(*) FILTER ({broken}), COUNT(*) FILTER ({other}) FROM texts").fetchall()
    form = book.formats.get(name, "")
    notes = [label if len(label) <= LONGEST_LABEL else f"{label[:LONGEST_LABEL]}...", _missing(book, name)]
    if kind in ("DOUBLE", "VARCHAR") and codes and not unlabelled and len(codes) <= MOST_LABELS:
        aliases = {code: text for code, text in _texts(codes).items() if code != text}
        if aliases:
            values = tuple(dict.fromkeys(_texts(codes).values()))
            how = CellReading(type="VARCHAR", aliases=aliases)
            return DraftedColumn(reading=how, values=values, note=_noted(*notes, FROM_FILE))
    named = [f"{code} = {text}" for code, text in _texts(codes).items() if code != text]
    notes += [*named[:NAMED], "..." if len(named) > NAMED else ""]
    if not there:
        notes.append("no row has a value")
    if kind == "DOUBLE" and kind_of_format(file, form) == "seconds":
        notes.append("a time, in seconds")
    notes += [told for unit, told in PERIODS.items() if form.startswith(f"%t{unit}") and file.path.suffix.lower() == ".dta"]
    whole = kind == "DOUBLE" and there and not decimals
    reading = CellReading(type="BIGINT") if whole else TEXT if kind == "VARCHAR" else CellReading(type=kind)
    return DraftedColumn(reading=reading, note=_noted(*notes))


def _valid(book: Codebook, name: str) -> dict[float | str, str]:
    """The labels of values that do not count as missing. Of numbers, letters are kinds of missing values."""
    codes = {code: text for code, text in book.codes.get(name, {}).items() if book.is_text[name] or not isinstance(code, str)}
    return {code: text for code, text in codes.items() if not _is_missing(book, name, code)}


def _is_missing(book: Codebook, name: str, code: float | str) -> bool:
    for low, high in book.missing.get(name, ()):
        if isinstance(code, str) or isinstance(low, str) or isinstance(high, str):
            if code in (low, high):
                return True
        elif low <= code <= high:
            return True
    return False


def _texts(codes: Mapping[float | str, str]) -> dict[str, str]:
    """The labels by the texts of their codes; a code whose label shows nothing has itself for one."""
    written = {code if isinstance(code, str) else text_of_cell(float(code)) or "": text for code, text in codes.items()}
    return {code: "".join(char if char.isprintable() else " " for char in text).strip() or code for code, text in written.items()}


def _missing(book: Codebook, name: str) -> str:
    """What the file says to be missing."""
    kinds = [f".{code} ({text})" for code, text in book.codes.get(name, {}).items()
             if isinstance(code, str) and not book.is_text[name]]
    ranges = [_shown(low) if low == high else f"{_shown(low)} to {_shown(high)}" for low, high in book.missing.get(name, ())]
    return f"{', '.join([*ranges, *kinds])} counts as NULL" if ranges or kinds else ""


def _shown(code: float | str) -> str:
    if isinstance(code, str):
        return repr(code)
    return text_of_cell(float(code)) or "" if abs(code) < 1e300 else "the greatest" if code > 0 else "the least"


def _noted(*notes: str) -> str:
    return "; ".join(note for note in notes if note)

