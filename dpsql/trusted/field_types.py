"""What a field may hold beyond its type: ranges of numbers, and what a proof assumes of several fields together.

The fields of a request are described once, where they are declared: by their annotation, which may carry a `NumberRange`, and by
a method `assumptions` of the class for what relates several fields. `kernel.taken` checks all of it before anything is charged.

>>> 0.5 in NumberRange(above=0, most=2), 0 in NumberRange(above=0), math.nan in NumberRange()
(True, False, False)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, TypeAlias

from dpsql.frozen import Frozen


class NumberRange(Frozen):
    """The numbers from `least` to `most`, both included, that are greater than `above` and less than `below`. NaN and the
    infinities are not in any range."""

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    below: float = math.inf

    def __contains__(self, number: float | Fraction) -> bool:
        return self.least <= number <= self.most and self.above < number < self.below

    def __str__(self) -> str:
        ends = {"above": self.above, "at least": self.least, "at most": self.most, "below": self.below}
        return " and ".join(f"{word} {end}" for word, end in ends.items() if math.isfinite(end)) or "finite"


Word: TypeAlias = Annotated[int, NumberRange(least=-(2**62), most=2**62)]
"""A whole number that fits into 64 bits; so does the sum of two."""
Natural: TypeAlias = Annotated[int, NumberRange(least=0, most=2**62)]
Positive: TypeAlias = Annotated[int, NumberRange(least=1, most=2**62)]

WIDEST = 2.0**55  # the largest scale of noise drawn by itself: at this scale it overflows 64 bits with probability below 1e-100
Scale: TypeAlias = Annotated[float, NumberRange(above=0, most=WIDEST)]
Epsilon: TypeAlias = Annotated[Fraction, NumberRange(least=2.0**-54, most=2.0**54)]
"""So that the scale of noise that follows from it, 1 / epsilon, is none that is too wide."""
Delta: TypeAlias = Annotated[Fraction, NumberRange(least=1e-300, below=1)]

Assumptions: TypeAlias = Iterator[tuple[object, str]]
"""What a class assumes of its fields, once each is in its range: whether it holds, and the same in words. They are asked for one
at a time, so each may rely on those before it."""
