"""Choose the grid on which the values of an expression are summed."""

from __future__ import annotations

import math
from fractions import Fraction

from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.operators.quantizer import LEAST_STEP, MOST_SIZE, MOST_STEPS, Quantizer
from dpsql.types import Interval, Type

DEFAULT_STEPS = 2**30  # the default grid of a DOUBLE: its rounding is far below any noise


def quantizer(known: Facts, *, bounds: Interval | None = None, from_low: bool,
              most_steps: int = DEFAULT_STEPS) -> Quantizer | None:
    """The grid of an expression: with the declared step if there is one, made coarser until `most_steps` suffice.

    None if the range is not finite, or so wide or so narrow that squares of floats would not hold it.
    """
    ends = bounds if bounds is not None else known.declared
    if not ends.finite or ends.largest > MOST_SIZE:
        return None
    low, high = float(ends.low), float(ends.high)
    if known.type is Type.DATE:
        return Quantizer(low=low, high=high, step=Fraction(1), from_low=True)
    width = max(Fraction(high) - Fraction(low), Fraction(ends.largest) if not from_low else Fraction(0))
    step = known.step or (Fraction(1) if known.whole else None)
    if step is None:
        if 0 < width < most_steps * Fraction(LEAST_STEP):
            return None
        exponent = math.frexp(float(width) / most_steps)[1] if width else 0
        return Quantizer(low=low, high=high, step=Fraction(2) ** exponent, from_low=from_low)
    step = min(step, width) if width else step  # a declared step that is wider than the range would make all values alike
    steps = math.ceil(width / step)
    limit = most_steps if most_steps < DEFAULT_STEPS else MOST_STEPS - 1
    return Quantizer(low=low, high=high, step=step * max(1, -(-steps // limit)), from_low=from_low)
