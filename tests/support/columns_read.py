"""Rows as a reader gives them by columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def as_columns(rows: Sequence[Sequence[Any]]) -> list[np.ma.MaskedArray[Any, Any]]:
    """NULL masked; whole numbers in 64 bits, other values as objects."""
    return [_column(list(values)) for values in zip(*rows, strict=True)]


def _column(values: list[Any]) -> np.ma.MaskedArray[Any, Any]:
    missing, kinds = [value is None for value in values], {type(value) for value in values if value is not None}
    kind = np.int64 if kinds == {int} else np.float64 if kinds and kinds <= {int, float} else object
    return np.ma.array([0 if value is None else value for value in values], dtype=kind, mask=missing)
