"""CSV files, read as the policy says that they are written: nothing about them is guessed from their rows.

Each row is read on its own: no row decides how another row is read, or whether it is. DuckDB's reader grants this for regular
files only (`is_regular`). It drops a byte behind a closing quote, lets a stray quote hide the rows that follow, and cuts a cell
at the sign of a comment. So a file that is not regular, or has comments, is first rewritten by Python's reader. A file that ends
within quotes is refused, as is one whose rows share a key. DuckDB reads a file from one end to the other: threads that start in
the middle guess where a row begins, and may take the lines of a text for rows. Its strict mode is off, since that refuses the
whole file for one row with too many cells.

*No row is lost.* The engine reads all cells as texts, and puts them into a table of texts; only then are they read as values.
Its optimizer may move a cast to where a table is read, and a CSV reader that leaves out bad lines leaves out those with a cell
that is not of its type. Into a table nothing is moved, and the rows that come out are counted against those that went in. And the
reader leaves no line out: one that is too long to be read is an error. The cells that a line lacks are NULL, and those
beyond the last column are left out; `check --rows` counts both.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any

import duckdb

from dpsql.catalog.reading import USUAL_CSV, CsvFormat
from dpsql.frozen import replace
from dpsql.trusted.plan.expr.printing import quote, text_literal

TEXTS = "texts of a file"  # the table of the cells of a file before they are read as values
UTF8 = "utf-8"
BLANK = " "
BLOCK = 2**20  # bytes that are decoded at a time
LONGEST_HEADER = 2**24  # characters
LONGEST_LINE = 2**28  # bytes of a row
ENDED = "a line behind the last one"
NOT_READ = "\ufffd"  # what stands for bytes that are no text


def names_in(path: Path, how: CsvFormat) -> list[str]:
    """The names of all columns, in the order of the file. Raises csv.Error, OSError or ValueError if there are none."""
    if how.names:
        return list(how.names)
    with opened_text(path, how) as text:
        lines = iter(lambda: text.readline(LONGEST_HEADER), "")
        first = next((line for line in lines if not _is_comment(line, how)), "")
        if not first.strip("\r\n"):
            raise csv.Error("the first line is empty, and DuckDB would read it as the header")
        return next(records_of(chain([first], lines), how))


def records_of(lines: Iterable[str], how: CsvFormat, *, columns: int = 2) -> Iterator[list[str]]:
    """The cells of each row, as Python's csv module reads them, independently of the engine. A comment sign within quotes is part
    of a text. An empty line is not a row, except in a file of one column. Raises csv.Error."""
    begins = True

    def of_rows() -> Iterator[str]:
        nonlocal begins
        for line in lines:
            if not (begins and _is_comment(line, how)):
                begins = False
                yield line

    quoted: dict[str, Any] = {"quoting": csv.QUOTE_NONE}
    if how.quote:
        doubled = how.escape == how.quote
        quoted = {"quotechar": how.quote, "doublequote": doubled, "escapechar": None if doubled else how.escape or None}
    previous = csv.field_size_limit(2**31 - 1)
    try:
        for record in csv.reader(with_single_blanks(of_rows(), how), delimiter=how.delimiter, **quoted):
            begins = True
            if record or columns == 1:
                yield record or [""]
    finally:
        csv.field_size_limit(previous)


@contextlib.contextmanager
def opened_text(path: Path, how: CsvFormat) -> Iterator[io.TextIOWrapper]:
    """The text of a file, after the lines that are skipped. Bytes that cannot be decoded become `NOT_READ`."""
    with decompressed(path) as raw, io.TextIOWrapper(raw, encoding=decoding(how), errors="replace", newline="") as text:
        for _ in range(how.skip):
            text.readline()
        yield text


def _is_comment(line: str, how: CsvFormat) -> bool:
    return bool(how.comment) and line.startswith(how.comment)


def rows_of(path: Path, names: Sequence[str], how: CsvFormat) -> str:
    """The FROM item that reads the rows of a file in UTF-8 with all cells as texts; an empty cell is NULL."""
    read = ", ".join(f"{text_literal(name)}: 'VARCHAR'" for name in names)
    escape = how.escape if how.quote else ""  # without a quote there is nothing to escape, not even the end of a line
    return (f"read_csv({text_literal(path)}, auto_detect = false, header = {str(how.header).lower()}, skip = {how.skip}, "
            f"delim = {text_literal(how.delimiter)}, quote = {text_literal(how.quote)}, escape = {text_literal(escape)}, "
            f"comment = '', null_padding = true, strict_mode = false, max_line_size = {LONGEST_LINE}, "
            f"parallel = false, hive_partitioning = false, columns = {{{read}}})")


def put_texts(connection: duckdb.DuckDBPyConnection, path: Path, names: Sequence[str], how: CsvFormat,
              kept: Sequence[str]) -> int:
    """Load some columns of all rows of a file into the table `TEXTS`, and return the number of rows. Raises the errors of
    `in_utf8`, and errors of the engine."""
    with in_utf8(path, how) as (readable, written):
        connection.execute(f"CREATE OR REPLACE TABLE {quote(TEXTS)} AS SELECT {', '.join(map(quote, kept))} "
                           f"FROM {rows_of(readable, names, written)}")
    (rows,), = connection.execute(f"SELECT COUNT(*) FROM {quote(TEXTS)}").fetchall()
    return int(rows)


@contextlib.contextmanager
def in_utf8(path: Path, how: CsvFormat) -> Iterator[tuple[Path, CsvFormat]]:
    """A file with the same rows in a form that the engine reads, and its format: the file itself if it is regular and in UTF-8,
    otherwise a copy. Bytes that cannot be decoded become `NOT_READ`. Raises OSError, EOFError or another error of a codec if the
    file is cut off, and UnclosedQuote."""
    of_lines = bool(how.comment) or how.delimiter == BLANK or how.escape not in (how.quote, "")
    plain = path.suffix.lower() not in PACKED and codecs.lookup(decoding(how)).name == UTF8
    if not of_lines and plain and _is_utf8(path) and is_regular(path, how):
        yield path, how
        return
    with tempfile.NamedTemporaryFile("w", prefix="dpsql-csv-", suffix=".csv", encoding=UTF8, errors="replace",
                                     newline="") as copy:
        written = replace(how, encoding=UTF8)
        if not of_lines:
            copy.writelines(_blocks(path, how))
            copy.flush()
        if of_lines or not is_regular(Path(copy.name), written):
            copy.seek(0)
            copy.truncate()
            csv.writer(copy, lineterminator="\n").writerows(_regular(path, how))
            copy.flush()
            written = replace(USUAL_CSV, header=how.header, names=how.names)
        yield Path(copy.name), written


def _blocks(path: Path, how: CsvFormat) -> Iterator[str]:
    with opened_text(path, replace(how, skip=0)) as text:
        yield from iter(lambda: text.read(BLOCK), "")


class UnclosedQuote(ValueError):
    """A cell begins with a quote that nothing closes."""


def _regular(path: Path, how: CsvFormat) -> Iterator[list[str]]:
    """The rows of a file, of which the last one is no part of a text. Raises UnclosedQuote if it is."""
    columns = len(names_in(path, how))
    with opened_text(path, how) as text:
        last: list[str] | None = None
        for record in records_of(chain(_ended(text), [ENDED]), how, columns=columns):
            if last is not None:
                yield last
            last = record
        if last is None or how.delimiter.join(last) != ENDED:
            raise UnclosedQuote


def _ended(lines: Iterable[str]) -> Iterator[str]:
    """The lines, of which the last one ends as the others do."""
    held = ""
    for line in lines:
        if held:
            yield held
        held = line
    if held:
        yield held if held.endswith(("\n", "\r")) else f"{held}\n"


def is_regular(path: Path, how: CsvFormat) -> bool:
    """Whether all readers agree about the rows of a file in UTF-8: quotes enclose whole cells and are doubled within them, and
    all lines end alike. In other files the engine would cut off text after a closing quote, or read several rows as one, so
    Python's reader is used for them.

    Of the quotes in their order each second one closes what the one before opens (a doubled one closes and opens again). So the
    begin of a cell or a quote is in front of each that opens, the end of a cell or a quote is behind each that closes, and their
    number is even. A row that is regular is read alike by both readers, so it does not matter which other rows are not.
    """
    import numpy as np

    ends = [ord(sign) for sign in ("\n", "\r", how.delimiter)]
    quote = ord(how.quote) if how.quote else -1
    if max(*ends, quote) > 127:
        return False
    inside, before, alone, lines = 0, ends[0], False, False  # a file begins as a line does
    with path.open("rb") as raw:
        block = raw.read(BLOCK)
        while block:
            following = raw.read(BLOCK)
            found = np.frombuffer(bytes([before]) + block + (following[:1] or b"\n"), dtype=np.uint8)
            at = np.flatnonzero(found[1:-1] == quote) + 1
            opening, closing = (at[first::2] for first in (inside, 1 - inside))
            if not (np.isin(found[opening - 1], [*ends, quote]).all() and np.isin(found[closing + 1], [*ends, quote]).all()):
                return False
            returns = np.flatnonzero(found[1:-1] == ends[1]) + 1
            alone = alone or bool((found[returns + 1] != ends[0]).any())
            lines = lines or bool((found[1:-1] == ends[0]).any())
            inside, before, block = (inside + len(at)) % 2, block[-1], following
    return inside == 0 and not (alone and lines)


def with_single_blanks(lines: Iterable[str], how: CsvFormat) -> Iterator[str]:
    """The lines of a file whose delimiter is a blank, with one blank between two cells and none around a line; those of other
    files as they are. Programs align columns by runs of blanks, so a run is one delimiter, as R reads such files.

    What becomes of a line depends on that line alone, unless it is within a quoted cell.
    """
    if how.delimiter != BLANK:
        yield from lines
        return
    cell, held = _cells_between_blanks(how), list[str]()
    for line in lines:
        held.append(line)
        if len(held) > 1 and how.quote not in line:
            continue  # within a quoted cell
        whole = "".join(held)
        cells = [*cell.finditer(whole)]
        if not (cells and cells[-1].lastgroup == "open"):
            yield BLANK.join(found.group() for found in cells) + whole[len(whole.rstrip("\r\n")) :]
            held = []
    yield from held


def _cells_between_blanks(how: CsvFormat) -> re.Pattern[str]:
    """Matches a cell, in quotes or not; a quoted one that is not closed is `open`."""
    plain = r"[^ \t\r\n]+"
    if not how.quote:
        return re.compile(plain)
    sign, escape = re.escape(how.quote), re.escape(how.escape)
    inner = f"(?:[^{sign}{escape}]|{escape}.)*" if escape and escape != sign else f"(?:[^{sign}]|{sign}{sign})*"
    return re.compile(rf"{sign}{inner}{sign}[^ \t\r\n]*|(?P<open>{sign}{inner}\Z)|{plain}", re.DOTALL)


def decoding(how: CsvFormat) -> str:
    """The encoding to decode with, which ignores a byte order mark at the beginning."""
    return "utf-8-sig" if codecs.lookup(how.encoding).name == UTF8 else how.encoding


def _is_utf8(path: Path) -> bool:
    """Whether all of a file is UTF-8, without a mark in front."""
    decoder = codecs.getincrementaldecoder(UTF8)()
    with path.open("rb") as raw:
        first = raw.read(BLOCK)
        if first.startswith(codecs.BOM_UTF8):
            return False
        try:
            decoder.decode(first)
            while block := raw.read(BLOCK):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def _zst(path: Path) -> IO[bytes]:
    import pyarrow

    return pyarrow.input_stream(str(path), compression="zstd")  # type: ignore[no-any-return]


def _gz(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb")  # type: ignore[return-value]


PACKED = {".gz": _gz, ".zst": _zst}


def decompressed(path: Path) -> IO[bytes]:
    opener = PACKED.get(path.suffix.lower())
    return path.open("rb") if opener is None else opener(path)
