"""How a CSV file seems to be written, and of which types its columns are: for the draft of a policy, from all of its rows.

What is found is written into the policy, where the owner reads and corrects it. From then on only the policy says how the file is
read, and by the same SQL as here (`backends.cleaning`); so what was drafted is what is read.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path

import duckdb

from dpsql.backends.cell_readings import columns_of
from dpsql.backends.cleaning import values_of_texts
from dpsql.backends.column_names import distinct_names
from dpsql.backends.csv_files import (
    BLANK,
    TEXTS,
    UnclosedQuote,
    decoding,
    decompressed,
    put_texts,
    with_single_blanks,
)
from dpsql.backends.duckdb import connected
from dpsql.catalog.drafted_files import DraftedFile
from dpsql.catalog.reading import CsvFormat
from dpsql.errors import OperationalError
from dpsql.frozen import replace
from dpsql.trusted.plan.expr.printing import quote

MOST_COLUMNS = 4096
SAMPLE = 2**20  # characters by which the delimiter is found
RECORDS = 2000
NEAR = 5  # records after a title in which the header is
DELIMITERS = ",", ";", "\t", "|", BLANK
QUOTES = '"', "'"
MARKS = (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")
NOT_IN_LATIN1 = re.compile(rb"[\x80-\x9f]")
QUOTED = r"(?:^|[,;\t| ])\s*{sign}[^{sign}\n]*{sign}\s*(?=[,;\t| \r\n]|$)"  # a cell in quotes


def drafted(path: Path, table: str) -> DraftedFile:
    """Draft the format and the columns of a CSV file. Raises OperationalError if the file cannot be read, or has no columns."""
    found: DraftedFile | None = None
    with contextlib.suppress(OSError, EOFError, UnicodeError, csv.Error, duckdb.Error, ValueError):
        found = _drafted(path)
    if found is None:
        raise OperationalError(f"{path} cannot be read as a table", code="no-database", subject=table,
                               try_="a file with a line for each row, such as CSV")
    return found


def put_as_drafted(connection: duckdb.DuckDBPyConnection, path: Path, table: str) -> None:
    """Create a table with the rows of a public file. Each column gets the type that fits all of its cells. Raises
    OperationalError as `drafted` does, and errors of the engine."""
    found = drafted(path, table)
    put_texts(connection, path, [*found.columns], found.csv, [*found.columns])
    connection.execute(f"CREATE TABLE {quote(table)} AS {values_of_texts(TEXTS, found.readings)}")
    connection.execute(f"DROP TABLE {quote(TEXTS)}")


def _drafted(path: Path) -> DraftedFile | None:
    how = CsvFormat(encoding=_encoding(path))
    with decompressed(path) as raw, io.TextIOWrapper(raw, encoding=decoding(how), errors="replace", newline="") as text:
        beginning = text.read(SAMPLE)
    if "\0" in beginning:
        return None  # no text
    how, names = _format(beginning, how)
    if not names:
        return None
    if len(names) > MOST_COLUMNS:
        raise OperationalError(f"{path} has {len(names):,} columns, and a draft has at most {MOST_COLUMNS:,}", code="too-large",
                               try_="a policy that lists the columns to query; the others are not read")
    with contextlib.suppress(UnclosedQuote):
        return _of_all_rows(path, how, names)
    return _of_all_rows(path, replace(how, quote="", escape=""), names)  # the mark is a part of texts


def _of_all_rows(path: Path, how: CsvFormat, names: Sequence[str]) -> DraftedFile:
    with contextlib.closing(connected()) as connection:
        rows = put_texts(connection, path, names, how, names)
        columns = columns_of(connection, TEXTS, names, rows, commas=how.delimiter == ";")
    return DraftedFile(csv=how, columns=columns, rows=rows)


def _encoding(path: Path) -> str:
    with decompressed(path) as raw:
        first = raw.read(4)
        marked = next((name for mark, name in MARKS if first.startswith(mark)), None)
        if marked is not None:
            return marked
        decoder, is_utf8, latin = codecs.getincrementaldecoder("utf-8")(), True, True
        block = first
        while block:
            latin = latin and NOT_IN_LATIN1.search(block) is None
            if is_utf8:
                try:
                    decoder.decode(block)
                except UnicodeDecodeError:
                    is_utf8 = False
            block = raw.read(SAMPLE)
    return "utf-8" if is_utf8 else "latin-1" if latin else "cp1252"


# -- how it is written


def _format(text: str, how: CsvFormat) -> tuple[CsvFormat, list[str]]:
    """The format and the names of the columns, from the beginning of the file."""
    lines = list(io.StringIO(text, newline=""))  # the lines that a reader of files counts
    skip = next((at for at, line in enumerate(lines) if line.strip()), 0)
    comment = "#" if lines and lines[skip].startswith("#") and sum(line.startswith("#") for line in lines[:50]) < 50 else ""
    body = "".join(line for line in lines[skip:] if not (comment and line.startswith(comment)))
    quote_ = max(QUOTES, key=lambda sign: len(re.findall(QUOTED.format(sign=sign), body[:100_000])))
    delimiter = max(DELIMITERS, key=lambda sign: _evenness(body, sign, quote_))
    records = [*islice((record for record in _records(body, delimiter, quote_) if record), RECORDS)]
    if not records:
        return how, []
    width = Counter(map(len, records[1:] or records)).most_common(1)[0][0]
    ahead = next((at for at in range(len(records))
                  if not _is_ahead(records[at : at + NEAR], width) or _is_short_header(records[at : at + 2], width)), 0)
    if ahead and width > 1:  # lines in front of the header
        return _format("".join(lines[skip + ahead:]), replace(how, skip=how.skip + skip + ahead))
    plain = next(iter(_records(body.lstrip("\r\n"), delimiter, quote_, blanks=True)))  # with the blanks that the reader keeps
    first = [cell.strip() for cell in records[0]]
    header = _is_header(first, records[1] if len(records) > 1 else [])
    if header:
        names = ["row_name", *first] if len(first) == width - 1 else [*first, *[""] * (width - len(first))]
    else:
        names = [""] * max(width, len(first))
    found = replace(how, delimiter=delimiter, quote=quote_, escape=quote_, header=header, skip=how.skip + skip, comment=comment)
    named = distinct_names(names)
    return (found if header and named == plain else replace(found, names=tuple(named))), named


def _is_ahead(records: Sequence[Sequence[str]], width: int) -> bool:
    """Whether the first of some records is a title or a note above the table: at most half of its cells are there, as one with
    more is a row that lacks some; and if it has all delimiters, a header without a gap follows it."""
    first, *others = records
    if 2 * sum(bool(cell.strip()) for cell in first) > width:
        return False
    whole = next((record for record in others if len(record) == width and all(cell.strip() for cell in record)), [])
    return len(first) < width or (width > 2 and bool(whole) and not any(map(is_number, whole)))


def _is_header(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether a record names columns: no cell of it is a number, or those that are count years, and those below do not."""
    numbers = [at for at, cell in enumerate(first) if is_number(cell)]
    return not numbers or (len(first) > len(numbers) > 1 and _counts_years([first[at] for at in numbers])
                           and not _counts_years([cell for at, cell in enumerate(second) if at in numbers]))


def _counts_years(cells: Sequence[str]) -> bool:
    years = [int(cell) for cell in cells if re.fullmatch(r"(1[5-9]|20|21)[0-9]{2}", cell.strip())]
    return len(years) == len(cells) and len({later - year for year, later in pairwise(years)}) == 1


def _is_short_header(records: Sequence[Sequence[str]], width: int) -> bool:
    """Whether the first of two records has names for all columns but that of the rows' names, as R writes them."""
    return len(records) == 2 and len(records[0]) == width - 1 and len(records[1]) == width and (
        width > 2 or any(map(is_number, records[1])))


def _records(text: str, delimiter: str, quote_: str, *, blanks: bool = False) -> Iterator[list[str]]:
    how = CsvFormat(delimiter=delimiter, quote=quote_, escape=quote_)
    with contextlib.suppress(csv.Error):
        lines = with_single_blanks(io.StringIO(text, newline=""), how)
        yield from csv.reader(lines, delimiter=delimiter, quotechar=quote_, skipinitialspace=not blanks and delimiter != BLANK)


def _evenness(text: str, delimiter: str, quote_: str) -> tuple[float, int]:
    """How many records have the most frequent number of cells, of at least two; and that number."""
    records = [*islice((record for record in _records(text, delimiter, quote_) if record), RECORDS)][: RECORDS - 1]
    widths = Counter(len(record) for record in records)
    width, many = max(widths.items(), key=lambda item: (item[0] > 1, item[1]), default=(1, 0))
    return (round(many / len(records), 2), width) if width > 1 else (0.0, 1)


def is_number(cell: str) -> bool:
    return re.fullmatch(r"[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][+-]?[0-9]+)?", cell) is not None


