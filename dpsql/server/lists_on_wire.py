"""Lists as PostgreSQL writes its arrays: the catalogue has them, as the columns of a key. Kinds are VARCHAR[] and BIGINT[], and
INT2VECTOR, an array of small numbers that counts from 0 and is another text."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

LIST_OIDS: Mapping[str, int] = {"VARCHAR[]": 1009, "BIGINT[]": 1016, "INT2VECTOR": 22}
_OF_ELEMENTS: Mapping[str, int] = {"VARCHAR[]": 25, "BIGINT[]": 20, "INT2VECTOR": 21}
_NULL = -1  # the length of an element that is NULL


def list_text(kind: str) -> Callable[[Sequence[object]], str]:
    """{a,"b c",NULL}; as an INT2VECTOR, 1 2."""
    return _array_text if kind != "INT2VECTOR" else lambda values: " ".join(map(str, values))


def _array_text(values: Sequence[object]) -> str:
    return "{" + ",".join("NULL" if value is None else _element(str(value)) for value in values) + "}"


def _element(text: str) -> str:
    plain = bool(text) and text.upper() != "NULL" and not any(letter in '{},"\\' or letter.isspace() for letter in text)
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def list_binary(kind: str) -> Callable[[Sequence[object]], bytes]:
    """One dimension, whether there are NULLs, the type of elements, their number, the number of the first; then the elements,
    each after its length in bytes. An empty list has no dimension."""
    def written(values: Sequence[object]) -> bytes:
        nulls = int(any(value is None for value in values))
        if not values:
            return struct.pack("!iiI", 0, nulls, _OF_ELEMENTS[kind])
        elements = b"".join(struct.pack("!i", _NULL) if value is None else struct.pack("!i", len(found)) + found
                            for value in values for found in [_bytes(value, kind)])
        return struct.pack("!iiIii", 1, nulls, _OF_ELEMENTS[kind], len(values), kind != "INT2VECTOR") + elements
    return written


def _bytes(value: object, kind: str) -> bytes:
    if value is None:
        return b""
    form = {"BIGINT[]": "!q", "INT2VECTOR": "!h"}.get(kind)
    return struct.pack(form, value) if form is not None else str(value).encode("utf-8", "replace")
