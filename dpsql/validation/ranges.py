"""The interval around a synthetic answer in which the private one should lie."""

from __future__ import annotations

import math
from fractions import Fraction

from dpsql.errors import OptionError
from dpsql.frozen import Frozen
from dpsql.sql.text.statement import Width


class Range(Frozen):
    """The open interval from `low` to `high`; never empty."""

    low: Fraction
    high: Fraction

    @property
    def first(self) -> int:
        """The least whole number inside, if there is one."""
        return math.floor(self.low) + 1

    @property
    def last(self) -> int:
        """The greatest whole number inside, if there is one."""
        return math.ceil(self.high) - 1

    def holds(self, value: Fraction) -> bool:
        return self.low < value < self.high


def tolerance(value: Fraction, width: Width) -> Fraction:
    """The largest allowed distance of the private answer from `value`: the larger of the absolute tolerance and the percentage
    of |value|.

    Raises OptionError, located at the width, if that is 0: no answer is nearer than 0.
    """
    found = max(width.absolute or Fraction(0), (width.percent or Fraction(0)) / 100 * abs(value))
    if found <= 0:
        raise OptionError("a percentage of 0 gives no tolerance: the synthetic answer is 0 here", code="tolerance",
                          span=width.span, subject="within", try_=f"WITHIN {float(width.percent or 5):g} PERCENT OR 10")
    return found


def around(value: Fraction, width: Width) -> Range:
    """The interval around an answer."""
    far = tolerance(value, width)
    return Range(low=value - far, high=value + far)
