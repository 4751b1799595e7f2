"""Which statements a person is asked about before they are charged, as they cost much of what is left."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

MOST_UNASKED = Decimal("0.2")  # of what is left


def takes_much(share: Fraction | None) -> bool:
    """Whether this part of what is left is so much. None is none."""
    return share is not None and share > Fraction(MOST_UNASKED)
