"""Assumptions about axes and summands in the proofs of measurements over listed values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from dpsql.trusted.plan.operators.summands import Count, GridSum


class OfColumn(Protocol):
    """An axis: a column of the view, with its listed values."""

    @property
    def column(self) -> str: ...


def are_axes(axes: Iterable[OfColumn]) -> bool:
    """Whether all axes are different columns."""
    columns = [axis.column for axis in axes]
    return len({*columns}) == len(columns)


def adds_one_number(summand: Count | GridSum) -> bool:
    """Whether every row adds one number to a summand, so that the certificate bounds a single total."""
    return summand.when is None
