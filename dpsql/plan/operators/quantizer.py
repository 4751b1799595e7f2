"""Numbers as integers on a grid, so that sums are exact and no order of addition matters."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from fractions import Fraction

from dpsql.plan.expr.facts import Facts
from dpsql.types import Interval, Type

MOST_STEPS = 2**40
DEFAULT_STEPS = 2**30  # the default grid of a DOUBLE: its rounding is far below any noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantizer:
    """Clamp a number to [low, high] and round it to the nearest of the points origin + n * step; NULL and NaN give NULL.

    n lies between `least` and `most` for every input. Proof: an input at or beyond an end is replaced by that end's integer.
    In between, (x - origin) * inverse is a product of floats rounded to nearest, and rounding is monotone, so the result lies
    between the images of the ends; these differ from the integers at the ends by less than one half as long as there are at
    most 2^40 steps (a relative error of a few 2^-53), so rounding to an integer cannot pass them.
    """

    low: float
    high: float
    step: Fraction
    from_low: bool

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high and self.step > 0):
            raise ValueError("a quantizer needs finite bounds and a positive step")
        if max(abs(self.least), abs(self.most)) > MOST_STEPS:
            raise ValueError("a quantizer has too many steps")

    @property
    def origin(self) -> float:
        return self.low if self.from_low else 0

    @property
    def least(self) -> int:
        return 0 if self.from_low else math.floor(Fraction(self.low) / self.step)

    @property
    def most(self) -> int:
        return math.ceil((Fraction(self.high) - Fraction(self.origin)) / self.step)

    @property
    def largest(self) -> int:
        return max(abs(self.least), abs(self.most))

    def value(self, n: Fraction | int) -> Fraction:
        """The number that stands at integer position n."""
        return Fraction(self.origin) + n * self.step

    def fits(self, kind: Type) -> bool:
        """Whether values of a type can be put on the grid: numbers, and dates between whole days."""
        return kind.numeric or (kind is Type.DATE and self.low.is_integer() and self.high.is_integer()
                                and 1 <= self.low <= self.high <= dt.date.max.toordinal())

    def to_sql(self, printed: str, kind: Type) -> str:
        if kind is Type.DATE:
            days = f"({printed} - DATE '0001-01-01')"  # day 1 is 0001-01-01, as in datetime.date.toordinal
            days = f"({days} - CAST({int(self.origin) - 1} AS BIGINT))"
            if self.step != 1:
                days = f"CAST(round(CAST({days} AS DOUBLE) * CAST({float(1 / self.step)!r} AS DOUBLE)) AS BIGINT)"
            low, high = (f"(DATE '0001-01-01' + CAST({int(end) - 1} AS INTEGER))" for end in (self.low, self.high))
            return (f"(CASE WHEN {printed} >= {high} THEN CAST({self.most} AS BIGINT) WHEN {printed} <= {low} "
                    f"THEN CAST({self.least} AS BIGINT) ELSE {days} END)")
        if kind is Type.BIGINT and self.step == 1 and float(self.origin).is_integer():
            shifted = f"({printed} - CAST(({int(self.origin)}) AS BIGINT))" if self.origin else printed
            first, last = math.floor(self.low), math.ceil(self.high)
            return (f"(CASE WHEN {printed} >= CAST(({last}) AS BIGINT) THEN CAST(({self.most}) AS BIGINT) "
                    f"WHEN {printed} <= CAST(({first}) AS BIGINT) THEN CAST(({self.least}) AS BIGINT) ELSE {shifted} END)")
        x = printed if kind is Type.DOUBLE else f"CAST({printed} AS DOUBLE)"
        low, high, inverse = (f"CAST(({float(number)!r}) AS DOUBLE)" for number in (self.low, self.high, 1 / self.step))
        shifted = f"({x} - CAST(({float(self.origin)!r}) AS DOUBLE))" if self.origin else x
        most = f"CAST(({self.most}) AS BIGINT)"
        if kind is Type.DOUBLE:
            most = f"(CASE WHEN isnan({x}) THEN CAST(NULL AS BIGINT) ELSE {most} END)"  # NaN is above all numbers
        return (f"(CASE WHEN {x} >= {high} THEN {most} WHEN {x} <= {low} THEN CAST(({self.least}) AS BIGINT) "
                f"ELSE CAST(round({shifted} * {inverse}) AS BIGINT) END)")


def quantizer(known: Facts, *, bounds: Interval | None = None, from_low: bool,
              most_steps: int = DEFAULT_STEPS) -> Quantizer | None:
    """The grid of an expression: the declared step if there is one, made coarser until `most_steps` suffice.

    None where the range is not finite.
    """
    ends = bounds if bounds is not None else known.declared
    if not ends.finite:
        return None
    low, high = float(ends.low), float(ends.high)
    if known.type is Type.DATE:
        return Quantizer(low=low, high=high, step=Fraction(1), from_low=True)
    width = max(Fraction(high) - Fraction(low), Fraction(ends.largest) if not from_low else Fraction(0))
    step = known.step or (Fraction(1) if known.whole else None)
    if step is None:
        exponent = math.frexp(float(width) / most_steps)[1] if width else 0
        return Quantizer(low=low, high=high, step=Fraction(2) ** exponent, from_low=from_low)
    steps = math.ceil(width / step)
    limit = most_steps if most_steps < DEFAULT_STEPS else MOST_STEPS - 1
    return Quantizer(low=low, high=high, step=step * max(1, -(-steps // limit)), from_low=from_low)
