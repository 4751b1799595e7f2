"""Decides which statements need a confirmation, because they cost a large share of what is left."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

MOST_UNASKED = Decimal("0.2")  # of what is left


def takes_much(share: Fraction | None) -> bool:
    """Whether a share of the remaining budget is so large that the user must confirm. False for None."""
    return share is not None and share > Fraction(MOST_UNASKED)
