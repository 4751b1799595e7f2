"""Rows as COPY sends them: as text, as CSV, or in binary, each byte as PostgreSQL writes it.

CSV here is what psql's users expect of it: a value is written as it is, also one that a spreadsheet would take for a formula, as
programs read it back.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence

from pygwire.messages import CopyData, CopyDone, CopyOutResponse

from dpsql.frozen import Frozen
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire
from dpsql.server.front.terms.lists_on_wire import after_length
from dpsql.server.front.terms.types_on_wire import BINARY, TEXT, written

SIGNATURE = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)  # then flags, and the length of what else would follow
_ESCAPED = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\"}

Row = tuple[object, ...]


class CopyForm(Frozen):
    """How rows are written. `kind` is text, csv or binary; `quoted` are the names of columns that are always in quotes, in lower
    case, and None for all of them."""

    kind: str = "text"
    header: bool = False
    delimiter: str = "\t"
    null: str = "\\N"
    quote: str = '"'
    escape: str = '"'
    quoted: frozenset[str] | None = frozenset()


def copied(columns: Sequence[ColumnOnWire], rows: Sequence[Row], form: CopyForm) -> Iterator[bytes]:
    """The messages that carry the rows, from the announcement to the end message. Raises ValueError or TypeError for a value that
    does not fit its column's type."""
    code = BINARY if form.kind == "binary" else TEXT
    yield CopyOutResponse(overall_format=code, col_formats=[code] * len(columns)).to_wire()
    for part in _in_binary(columns, rows) if code == BINARY else _in_lines(columns, rows, form):
        yield CopyData(data=part).to_wire()
    yield CopyDone().to_wire()


def _in_binary(columns: Sequence[ColumnOnWire], rows: Sequence[Row]) -> Iterator[bytes]:
    """The signature stands before the first row, in one message with it."""
    ahead, number = SIGNATURE, struct.pack("!h", len(columns))
    for row in rows:
        cells = (written(value, column.kind, BINARY) for value, column in zip(row, columns, strict=True))
        yield ahead + number + b"".join(map(after_length, cells))
        ahead = b""
    yield ahead + struct.pack("!h", -1)


def _in_lines(columns: Sequence[ColumnOnWire], rows: Sequence[Row], form: CopyForm) -> Iterator[bytes]:
    plain = _csv_cell(form, alone=len(columns) == 1) if form.kind == "csv" else _text_cell(form)
    always = [form.kind == "csv" and (form.quoted is None or column.name.lower() in form.quoted) for column in columns]
    if form.header:
        yield _line([plain(column.name, False) for column in columns], form)
    for row in rows:
        cells = (written(value, column.kind, TEXT) for value, column in zip(row, columns, strict=True))
        yield _line([form.null if cell is None else plain(cell.decode(), own)
                     for cell, own in zip(cells, always, strict=True)], form)


def _line(cells: Sequence[str], form: CopyForm) -> bytes:
    return (form.delimiter.join(cells) + "\n").encode("utf-8", "replace")


def _text_cell(form: CopyForm) -> Callable[[str, bool], str]:
    table = str.maketrans({form.delimiter: "\\" + form.delimiter, **_ESCAPED})
    return lambda text, always: text.translate(table)


def _csv_cell(form: CopyForm, *, alone: bool) -> Callable[[str, bool], str]:
    r"""A cell is in quotes where it would be read otherwise: as NULL, as two cells, or, `alone` in its line, as its end: \."""
    reserved = (form.delimiter, form.quote, "\n", "\r")
    table = str.maketrans({letter: form.escape + letter for letter in (form.quote, form.escape)})

    def cell(text: str, always: bool) -> str:
        if always or text == form.null or (alone and text == "\\.") or any(letter in text for letter in reserved):
            return form.quote + text.translate(table) + form.quote
        return text

    return cell
