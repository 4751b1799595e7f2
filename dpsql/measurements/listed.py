"""What the proofs of requests over listed values rest on, checked where the cost is worked out.

Frozen values can be forged, and classes derived. So types are compared and not asked, and nothing that a forged value could
bring, a method or an operator of its own, is called.
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
        raise ValueError("axes are different columns of the view")


def check_summand(summand: object) -> None:
    """Raise ValueError for what is no count, and no sum of one number: the certificate bounds one total of each row."""
    if type(summand) not in (Count, GridSum) or summand.when is not None:  # type: ignore[attr-defined]
        raise ValueError("rows are counted, or one number of each is added up")
    if type(summand) is GridSum and type(summand.grid) is not Quantizer:
        raise ValueError("numbers are added up on a grid")


def check_values(values: object) -> None:
    """Raise ValueError for a list of values in which one is twice: by the equality of `cell_of` and of the engine, for which NaN
    is NaN and both zeros are one value."""
    if type(values) is not tuple or not all(type(value) in PLAIN for value in values):
        raise ValueError("an axis has a list of values")
    if len({cell_of((value,)) for value in values}) != len(values):
        raise ValueError("a value of an axis is listed once")


def check_rest(rest: object, size: int) -> None:
    """Raise ValueError where rows with other values than those that are listed are taken for a value that is not."""
    if rest is not None:
        whole(rest, 0, size - 1, "the place of a value")


def whole(number: object, least: int, most: int, what: str) -> int:
    """A whole number in a range. Raises ValueError for all else, truth values among it."""
    if type(number) is not int or not least <= number <= most:
        raise ValueError(f"{what} is a whole number of {least} to {most}")
    return number


def scale(number: object, most: float) -> float:
    """The scale of a noise. Raises ValueError where it is not a number above 0 and at most so much."""
    if type(number) not in (float, np.float64, int) or not 0 < number <= most:  # type: ignore[operator]
        raise ValueError("64 bits hold every noise, and there is some")
    return float(number)  # type: ignore[arg-type]
