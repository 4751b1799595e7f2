"""Numbers as integers on a grid, so that sums are exact and independent of the order of addition."""

from __future__ import annotations

import datetime as dt
import math
from fractions import Fraction

from dpsql.frozen import Frozen
from dpsql.trusted.cached import cached_property
from dpsql.types import ANY_NUMBER, Interval, Type

MOST_STEPS, MOST_SIZE, LEAST_STEP = 2**40, 1e100, 1e-100  # squares of numbers and of steps are floats still
REACH = Fraction(1, 2) - Fraction(1, 2**10)  # of a step: how far an end may lie beyond the integer that it counts as
SMALL = 2**50  # whole numbers of which a few can be added up exactly, in floats too


class Quantizer(Frozen):
    """Clamp a number to [low, high] and round it to the nearest of the points origin + n * step; NULL and NaN give NULL.

    n lies between `least` and `most` for every input. Proof: an input at or beyond an end is replaced by that end's integer.
    In between, (x - origin) * inverse is a product of floats rounded to nearest, and rounding is monotone, so the result lies
    between the images of the ends. An image differs from the exact quotient by less than 2^-10, as there are at most 2^40
    steps (a relative error of a few 2^-53). The exact quotient of `high` is at most `most` + REACH, so its image is less than
    `most` + 1/2, and rounding to an integer cannot pass `most`; likewise for `low` and `least`.

    An end counts as the integer nearest to it, so a bound that is a multiple of the step counts as itself, though as a float it
    may lie a little beyond (0.1 is 10.0000000000000006 steps of 1/100). Within 2^-10 of halfway between two integers, it counts
    as the outer one.
    """

    low: float
    high: float
    step: Fraction
    from_low: bool

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high and self.step > 0):
            raise ValueError("a quantizer needs finite bounds and a positive step")
        if (float(self.low), float(self.high)) != (self.low, self.high) or not LEAST_STEP <= self.step <= MOST_SIZE:
            raise ValueError("the ends of a quantizer must be floats, and its step neither too small nor too large for one")
        if max(abs(self.least), abs(self.most)) > MOST_STEPS:
            raise ValueError("a quantizer has too many steps")

    @property
    def origin(self) -> float:
        return self.low if self.from_low else 0

    @cached_property
    def least(self) -> int:
        return 0 if self.from_low else math.floor(Fraction(self.low) / self.step + REACH)

    @cached_property
    def most(self) -> int:
        return math.ceil((Fraction(self.high) - Fraction(self.origin)) / self.step - REACH)

    @property
    def largest(self) -> int:
        return max(abs(self.least), abs(self.most))

    def value(self, n: Fraction | int) -> Fraction:
        """The number at integer position n."""
        return Fraction(self.origin) + n * self.step

    def fits(self, kind: Type) -> bool:
        """Whether values of a type can be put on the grid: numbers, and dates between whole days."""
        return kind.numeric or (kind is Type.DATE and self.low.is_integer() and self.high.is_integer()
                                and 1 <= self.low <= self.high <= dt.date.max.toordinal())

    def to_sql(self, printed: str, kind: Type, reach: Interval = ANY_NUMBER) -> str:
        """The SQL for the integer of a value that is `printed` and is within `reach` on every row that is read.

        The integer does not depend on `reach`, so it may be learned from the rows; only the text does. Values in bounds need no
        clamp. Where all integers are small, x is clamped to [a, b] as (|x - a| - |x - b| + a + b) / 2: faster than by
        comparisons, of which an engine works out every branch apart, and exact, in whole numbers as in floats below 2^53.

        Nothing here raises: `reach` holds of every row that is stored, whichever of them an engine looks at and when; whole
        numbers and dates of which it says too little are held between the ends before anything is subtracted from them, and
        numbers that are not are cast with TRY_CAST, which costs next to nothing.
        """
        if kind is Type.DATE:
            return self._days(printed)
        words = max(abs(self.low), abs(self.high)) <= 2**62
        if kind is Type.BIGINT and self.step == 1 and float(self.origin).is_integer() and words:
            return self._whole(printed, reach)
        x = printed if kind is Type.DOUBLE else f"CAST({printed} AS DOUBLE)"
        low, high, inverse = (f"CAST(({float(number)!r}) AS DOUBLE)" for number in (self.low, self.high, 1 / self.step))
        shifted = f"({x} - CAST(({float(self.origin)!r}) AS DOUBLE))" if self.origin else x
        rounded = f"round({shifted} * {inverse})"
        first, last = (float(end) for end in (reach.low, reach.high))
        if self.low < first <= last < self.high or (self._ends_on_grid and self.low <= first <= last <= self.high):
            return f"TRY_CAST({rounded} AS BIGINT)"
        if self._ends_on_grid and (max(abs(first), abs(last)) + abs(self.origin)) / self.step < SMALL:
            return f"TRY_CAST({_clamped(rounded, self.least, self.most, 'DOUBLE')} * CAST(0.5 AS DOUBLE) AS BIGINT)"
        most = f"CAST(({self.most}) AS BIGINT)"
        if kind is Type.DOUBLE:
            most = f"(CASE WHEN isnan({x}) THEN CAST(NULL AS BIGINT) ELSE {most} END)"  # NaN is above all numbers
        return (f"(CASE WHEN {x} >= {high} THEN {most} WHEN {x} <= {low} THEN CAST(({self.least}) AS BIGINT) "
                f"ELSE TRY_CAST({rounded} AS BIGINT) END)")

    @property
    def _ends_on_grid(self) -> bool:
        """Whether the ends are rounded to their integers like any other number; then values beyond them can be clamped after
        rounding."""
        inverse, ends = float(1 / self.step), ((self.low, self.least), (self.high, self.most))
        return all(abs((end - float(self.origin)) * inverse - n) < 0.5 for end, n in ends)

    def _whole(self, printed: str, reach: Interval) -> str:
        first, last = int(self.origin) + self.least, int(self.origin) + self.most
        if reach.inside(Interval(first, last)):
            return self._shifted(printed)
        if max(reach.largest, abs(first), abs(last)) < SMALL:
            return f"({_clamped(printed, first, last, 'BIGINT', origin=int(self.origin))} >> 1)"
        low, high = (f"CAST(({end}) AS BIGINT)" for end in (first, last))
        return self._shifted(f"(CASE WHEN {printed} >= {high} THEN {high} WHEN {printed} <= {low} THEN {low} ELSE {printed} END)")

    def _shifted(self, printed: str) -> str:
        """A number between the ends, relative to the origin: less than 2^41 from it, so that nothing exceeds 64 bits."""
        return f"({printed} - CAST(({int(self.origin)}) AS BIGINT))" if self.origin else printed

    def _days(self, printed: str) -> str:
        """The SQL for a date relative to the origin. It is clamped before anything is computed, as differences to infinite dates
        do not exist."""
        low, high = (f"DATE '{dt.date.fromordinal(int(end)).isoformat()}'" for end in (self.low, self.high))
        held = f"(CASE WHEN {printed} >= {high} THEN {high} WHEN {printed} <= {low} THEN {low} ELSE {printed} END)"
        days = f"({held} - {low})" if self.from_low else f"({held} - DATE '0001-01-01' + CAST(1 AS BIGINT))"
        if self.step == 1:
            return days
        steps = f"TRY_CAST(round(CAST({days} AS DOUBLE) * CAST({float(1 / self.step)!r} AS DOUBLE)) AS BIGINT)"
        return (f"(CASE WHEN {printed} >= {high} THEN CAST({self.most} AS BIGINT) WHEN {printed} <= {low} "
                f"THEN CAST({self.least} AS BIGINT) ELSE {steps} END)")


def _clamped(printed: str, low: int, high: int, kind: str, *, origin: int = 0) -> str:
    """The SQL for twice the clamped value of a small whole number, relative to the origin."""
    a, b, both = (f"CAST(({number}) AS {kind})" for number in (low, high, low + high - 2 * origin))
    return f"((abs({printed} - {a}) - abs({printed} - {b})) + {both})"
