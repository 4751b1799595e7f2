"""Decides which statements need a confirmation, because they cost a large share of what is left."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

MOST_UNASKED = Decimal("0.2")  # of what is left


def takes_much(share: Fraction | None) -> bool:
    """Whether a share of what is left is large enough to ask first. None is none."""
    return share is not None and share > Fraction(MOST_UNASKED)
