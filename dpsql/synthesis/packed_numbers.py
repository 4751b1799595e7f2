"""Long lists of numbers as short texts, in what the ledger keeps."""

from __future__ import annotations

import base64
import zlib
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Kind: TypeAlias = Literal["<u4", "<i4", "<f8"]  # of numpy, with the least byte first


def packed_numbers(numbers: NDArray[Any], kind: Kind) -> str:
    """The numbers in C order, as text, without their shape."""
    return base64.b85encode(zlib.compress(np.ascontiguousarray(numbers, dtype=kind).tobytes())).decode()


def unpacked_numbers(text: str, kind: Kind) -> NDArray[Any]:
    """The numbers packed as this kind, as a flat array."""
    return np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype=kind)
