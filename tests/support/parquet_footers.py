"""Parquet files, and the same files with another footer: what a file says of its rows may be wrong.

A footer is in the compact protocol of Thrift. A value is what its type says: a struct is {number of the field: [type, value]}, a list
is [type of items, items].
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet


class Bytes:
    def __init__(self, text: bytes) -> None:
        self.text, self.at = text, 0

    def byte(self) -> int:
        self.at += 1
        return self.text[self.at - 1]

    def number(self) -> int:
        found = shift = 0
        while True:
            byte = self.byte()
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found

    def signed(self) -> int:
        number = self.number()
        return (number >> 1) ^ -(number & 1)

    def take(self, length: int) -> bytes:
        self.at += length
        return self.text[self.at - length:self.at]

    def value(self, kind: int) -> Any:
        if kind in (1, 2):
            return kind == 1
        if kind in (4, 5, 6):
            return self.signed()
        if kind in (3, 7):
            return self.take(1 if kind == 3 else 8)
        if kind == 8:
            return self.take(self.number())
        if kind == 9:
            head = self.byte()
            length = head >> 4 if head >> 4 < 15 else self.number()
            return [head & 15, [self.take(1) if head & 15 in (1, 2) else self.value(head & 15) for _ in range(length)]]
        fields: dict[int, list[Any]] = {}
        last = 0
        while head := self.byte():
            last = last + (head >> 4) if head >> 4 else self.signed()
            fields[last] = [head & 15, self.value(head & 15)]
        return fields


def number(value: int) -> bytes:
    found = b""
    while value > 127:
        found, value = found + bytes([value & 127 | 128]), value >> 7
    return found + bytes([value])


def signed(value: int) -> bytes:
    return number(2 * value if value >= 0 else -2 * value - 1)


def as_bytes(kind: int, value: Any) -> bytes:
    if kind in (1, 2):
        return b""
    if kind in (4, 5, 6):
        return signed(value)
    if kind in (3, 7):
        return bytes(value)
    if kind == 8:
        return number(len(value)) + value
    if kind == 9:
        of, items = value
        head = bytes([len(items) << 4 | of]) if len(items) < 15 else bytes([0xF0 | of]) + number(len(items))
        return head + b"".join(item if of in (1, 2) else as_bytes(of, item) for item in items)
    found, last = b"", 0
    for field, (of, item) in sorted(value.items()):
        told = (1 if item else 2) if of in (1, 2) else of
        found += (bytes([field - last << 4 | told]) if field - last < 16 else bytes([told]) + signed(field)) + as_bytes(of, item)
        last = field
    return found + b"\0"


def altered(source: Path, target: Path, alter: Callable[[dict[int, Any]], None]) -> None:
    """The same file with another footer."""
    text = source.read_bytes()
    start = len(text) - 8 - struct.unpack("<I", text[-8:-4])[0]
    footer = Bytes(text[start:-8]).value(12)
    assert as_bytes(12, footer) == text[start:-8]
    alter(footer)
    told = as_bytes(12, footer)
    target.write_bytes(text[:start] + told + struct.pack("<I", len(told)) + b"PAR1")


def blocks(footer: dict[int, Any], column: str) -> Iterator[dict[int, Any]]:
    """What is told of a column, for each block of rows."""
    for rows in footer[4][1][1]:
        for chunk in rows[1][1][1]:
            if chunk[3][1][3][1][1] == [column.encode()]:
                yield chunk[3][1]


FIELDS = {"max": 1, "min": 2, "max_value": 5, "min_value": 6}


def told(column: str, *, nulls: int | None = None, **ends: bytes) -> Callable[[dict[int, Any]], None]:
    """Statistics that tell these ends and this number of NULLs."""

    def alter(footer: dict[int, Any]) -> None:
        for block in blocks(footer, column):
            statistics = block[12][1]
            if ends:
                for field in (1, 2, 5, 6, 7, 8):
                    statistics.pop(field, None)
            statistics.update({FIELDS[name]: [8, end] for name, end in ends.items()})
            if nulls is not None:
                statistics[3] = [6, nulls]

    return alter


def write(target: Path, columns: Mapping[str, Any], **options: Any) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(dict(columns)), target, **options)
