"""Long lists of numbers as short texts, in what the ledger keeps."""

from __future__ import annotations

import base64
import zlib
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Kind: TypeAlias = Literal["<u4", "<i4", "<f8"]  # of numpy, with the least byte first
QUICK = 1  # level of compression: codes of rows in random order have no longer patterns that would be worth a search


def packed_numbers(numbers: NDArray[Any], kind: Kind) -> str:
    """The numbers in C order, as text, without their shape."""
    return base64.b85encode(zlib.compress(np.ascontiguousarray(numbers, dtype=kind).tobytes())).decode()


def unpacked_numbers(text: str, kind: Kind) -> NDArray[Any]:
    """The numbers packed as this kind, as a flat array."""
    return np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype=kind)


def packed_rows(numbers: NDArray[Any]) -> dict[str, str]:
    """A long array, with its type, as JSON values."""
    made = zlib.compressobj(QUICK, strategy=zlib.Z_HUFFMAN_ONLY)
    bare = np.ascontiguousarray(numbers, dtype=numbers.dtype.newbyteorder("<"))
    packed = made.compress(bare.data) + made.flush()
    return {"kind": bare.dtype.str, "rows": base64.b64encode(packed).decode("ascii")}


def unpacked_rows(packed: dict[str, str]) -> NDArray[Any]:
    """The array in such JSON values."""
    return np.frombuffer(zlib.decompress(base64.b64decode(packed["rows"])), dtype=np.dtype(packed["kind"]))
