"""Rows and their description as messages, encoded in parts."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence

from pygwire.messages import CommandComplete, DataRow, FieldDescription, RowDescription

from dpsql.frozen import Frozen
from dpsql.server.front.statements.shown_answers import CELL
from dpsql.server.front.terms import types_on_wire
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire, Outcome
from dpsql.server.front.wire.packets import ENCODED, clean

BATCH_ROWS, _BATCH_BYTES = 1000, 65_536  # of rows that are encoded before they are sent


class EncodedRows(Frozen):
    """Some rows of an outcome as messages, their number, and whether these were the last."""

    encoded: bytes
    number: int
    last: bool

    def waiting(self, outcome: Outcome) -> int:
        """Bytes, about, that an outcome holds of which these are the first rows: its rows stay until the last one is taken."""
        number = self.number + operator.length_hint(outcome.rows)
        return number * (CELL * len(outcome.columns or ()) + len(self.encoded) // max(self.number, 1))


def encoded_rows(outcome: Outcome, formats: Sequence[int], most: int) -> EncodedRows:
    """The next rows of an outcome: `most` of them, fewer where they are long."""
    if outcome.columns is None:
        return _copied(outcome.copied or iter(()))
    kinds, made, number = [column.kind for column in outcome.columns], bytearray(), 0
    while number < most and len(made) < _BATCH_BYTES:
        row = next(outcome.rows, None)
        if row is None:
            return EncodedRows(encoded=bytes(made), number=number, last=True)
        made += DataRow(columns=[types_on_wire.written(value, kind, form) for value, kind, form in zip(
            row, kinds, formats, strict=True)]).to_wire()
        number += 1
    return EncodedRows(encoded=bytes(made), number=number, last=False)


def _copied(messages: Iterator[bytes]) -> EncodedRows:
    """The next messages of COPY. They count as no rows, as none of them waits for another Execute."""
    made = bytearray()
    for message in messages:
        made += message
        if len(made) >= _BATCH_BYTES:
            return EncodedRows(encoded=bytes(made), number=0, last=False)
    return EncodedRows(encoded=bytes(made), number=0, last=True)


def least(most: int | None) -> int:
    """The number of rows that are encoded at once, of which `most` are wanted; None for all."""
    return BATCH_ROWS if most is None else min(most, BATCH_ROWS)


@functools.lru_cache(maxsize=ENCODED)
def encoded_description(columns: tuple[ColumnOnWire, ...], formats: tuple[int, ...]) -> bytes:
    """The description of rows with these columns, in these formats."""
    encoded: bytes = _described_row(columns, formats).to_wire()
    return encoded


@functools.lru_cache(maxsize=ENCODED)
def encoded_tag(tag: str) -> bytes:
    """The message that ends a statement."""
    encoded: bytes = CommandComplete(tag=clean(tag)).to_wire()
    return encoded


def _described_row(columns: Sequence[ColumnOnWire], formats: Sequence[int]) -> RowDescription:
    return RowDescription(fields=[
        FieldDescription(name=clean(column.name), type_oid=types_on_wire.OIDS[column.kind], format_code=form,
                         type_size=types_on_wire.SIZES.get(column.kind, -1), type_modifier=-1)
        for column, form in zip(columns, formats, strict=True)])
