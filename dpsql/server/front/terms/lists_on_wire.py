"""Lists as PostgreSQL writes its arrays: the catalogue has them, as the columns of a key. The kind of a list is
that of its values with [], or INT2VECTOR, an array of small numbers that counts from 0 and is written differently.

Clients send lists as well, as the parameter of = ANY($1). `array_texts.in_text` and `in_binary` take such a list apart; each
element is then read as a value of its own type."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

from dpsql.sql.text.array_texts import MOST_ELEMENTS, LongList

LIST_OIDS: Mapping[str, int] = {"VARCHAR[]": 1009, "BIGINT[]": 1016, "INT2VECTOR": 22, "DOUBLE[]": 1022, "DECIMAL[]": 1231,
                                "BOOLEAN[]": 1000, "OID[]": 1028, "DATE[]": 1182, "TIMESTAMP[]": 1115}
_OF_ELEMENTS: Mapping[str, int] = {"VARCHAR[]": 25, "BIGINT[]": 20, "INT2VECTOR": 21, "DOUBLE[]": 701, "DECIMAL[]": 1700,
                                   "BOOLEAN[]": 16, "OID[]": 26, "DATE[]": 1082, "TIMESTAMP[]": 1114}
ELEMENTS: Mapping[str, str] = {kind: kind.removesuffix("[]").replace("INT2VECTOR", "BIGINT") for kind in LIST_OIDS}
"""The kinds of the elements, by those of lists."""
_NULL = -1  # the length of an element that is NULL


def list_text(kind: str, element: Callable[[object], str]) -> Callable[[Sequence[object]], str]:
    """The function that writes a list as text: {a,"b c",NULL}, or for an INT2VECTOR: 1 2; `element` writes a value."""
    def written(values: Sequence[object]) -> str:
        return "{" + ",".join("NULL" if value is None else _element(element(value)) for value in values) + "}"

    return written if kind != "INT2VECTOR" else lambda values: " ".join(map(str, values))


def _element(text: str) -> str:
    plain = bool(text) and text.upper() != "NULL" and not any(letter in '{},"\\' or letter.isspace() for letter in text)
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def list_binary(kind: str, element: Callable[[object], bytes]) -> Callable[[Sequence[object]], bytes]:
    """The function that writes a list in binary: one dimension, whether there are NULLs, the type of elements, their number, and
    the index of the first; then the elements, each after its length in bytes, as `element` writes it. An empty list has no
    dimension."""
    def written(values: Sequence[object]) -> bytes:
        nulls = int(any(value is None for value in values))
        if not values:
            return struct.pack("!iiI", 0, nulls, _OF_ELEMENTS[kind])
        elements = b"".join(after_length(None if value is None else _bytes(value, kind, element)) for value in values)
        return struct.pack("!iiIii", 1, nulls, _OF_ELEMENTS[kind], len(values), kind != "INT2VECTOR") + elements
    return written


def after_length(value: bytes | None) -> bytes:
    """A value in binary after its length; None is NULL."""
    return struct.pack("!i", _NULL) if value is None else struct.pack("!i", len(value)) + value


def _bytes(value: object, kind: str, element: Callable[[object], bytes]) -> bytes:
    return struct.pack("!h", value) if kind == "INT2VECTOR" else element(value)


def in_binary(value: bytes) -> tuple[int, list[bytes | None]]:
    """The type and the elements of a list of one dimension. Raises ValueError or struct.error for any other bytes."""
    dimensions, _, kind = struct.unpack_from("!iiI", value)
    if dimensions == 0 and len(value) == 12:
        return kind, []
    if dimensions != 1:
        raise ValueError("not one dimension")
    count, = struct.unpack_from("!i", value, 12)
    if count > MOST_ELEMENTS:
        raise LongList
    found: list[bytes | None] = []
    at = 20
    while at < len(value) and len(found) < count:
        length, = struct.unpack_from("!i", value, at)
        at += 4
        if length < _NULL or at + max(length, 0) > len(value):
            raise ValueError("a truncated element")
        found.append(None if length == _NULL else value[at : at + length])
        at += max(length, 0)
    if len(found) != count or at != len(value):
        raise ValueError("a wrong number of elements")
    return kind, found
