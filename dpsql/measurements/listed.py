"""Checks, when a cost is computed, of what the proofs of measurements over listed values assume.

Frozen values can be forged, and subclasses written. So types are compared directly, and no method or operator is called that a
forged value could supply.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from dpsql.plan.cells import cell_of
from dpsql.plan.operators.quantizer import Quantizer
from dpsql.plan.operators.summands import Count, GridSum

PLAIN = frozenset({type(None), bool, int, float, str, bytes, Decimal, dt.date, dt.datetime, dt.time, dt.timedelta})
"""The classes of values of a column."""


def check_columns(columns: Sequence[str]) -> None:
    """Raise ValueError where axes are not different columns."""
    if any(type(column) is not str for column in columns) or len(set(columns)) != len(columns):
        raise ValueError("axes must be different columns of the view")


def check_summand(summand: object) -> None:
    """Raise ValueError for anything but a count or a sum of one number per row: the certificate bounds a single total."""
    if type(summand) not in (Count, GridSum) or summand.when is not None:  # type: ignore[attr-defined]
        raise ValueError("the summand must be a count or a sum of one number per row")
    if type(summand) is GridSum and type(summand.grid) is not Quantizer:
        raise ValueError("the numbers of a sum must be rounded to a grid")


def check_values(values: object) -> None:
    """Raise ValueError if a value is listed twice. Equality is that of `cell_of` and of the engine: NaN equals NaN, and 0 equals
    -0."""
    if type(values) is not tuple or not all(type(value) in PLAIN for value in values):
        raise ValueError("the values of an axis must be a tuple of plain values")
    if len({cell_of((value,)) for value in values}) != len(values):
        raise ValueError("each value of an axis must be listed once")


def check_rest(rest: object, size: int) -> None:
    """Raise ValueError where rows with unlisted values would be counted under a value that is not listed either."""
    if rest is not None:
        whole(rest, 0, size - 1, "the place of a value")


def whole(number: object, least: int, most: int, what: str) -> int:
    """A whole number in a range. Raises ValueError for anything else, including booleans."""
    if type(number) is not int or not least <= number <= most:
        raise ValueError(f"{what} must be a whole number from {least} to {most}")
    return number


def scale(number: object, most: float) -> float:
    """The scale of a noise. Raises ValueError unless it is a number above 0 and at most `most`."""
    if type(number) not in (float, np.float64, int) or not 0 < number <= most:  # type: ignore[operator]
        raise ValueError("the scale of noise must be above 0 and fit into 64 bits")
    return float(number)  # type: ignore[arg-type]
