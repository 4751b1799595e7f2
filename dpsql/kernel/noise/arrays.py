"""Numbers as OpenDP takes them at once: of a list it would check every number in Python, which takes longer than the noise."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.int64]


def words(values: Sequence[int]) -> Words:
    """Integers of 64 bits. Raises TypeError or OverflowError for anything else."""
    return np.asarray(array("q", values), dtype=np.int64)


def reals(values: Sequence[float]) -> NDArray[np.float64]:
    return np.asarray(array("d", values), dtype=np.float64)
