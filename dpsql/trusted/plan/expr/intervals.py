"""Interval arithmetic for the declared and the physical ranges of numbers.

It serves two purposes. Ranges of *integers* prove that an operation cannot leave 64 bits, so that printed SQL never raises:
these are exact, in Python integers. Declared ranges of *values* suggest the clamp of a sum: a wrong range costs accuracy, but
never privacy, as the printed clamp and the charged sensitivity use the same two numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dpsql.types import ANY_NUMBER, Interval

Rule = Callable[..., Interval]


def _times(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b  # an end at infinity times zero is zero: the other factor is exactly zero


LARGE = 2**1000  # beyond this an end is infinite, so that it can always be converted to a float


def _span(*ends: float) -> Interval:
    if any(end != end for end in ends):
        return ANY_NUMBER
    low, high = min(ends), max(ends)
    return Interval(low if abs(low) < LARGE else -math.inf if low < 0 else LARGE,
                    high if abs(high) < LARGE else math.inf if high > 0 else -LARGE)


def add(a: Interval, b: Interval) -> Interval:
    return _span(a.low + b.low, a.high + b.high)


def subtract(a: Interval, b: Interval) -> Interval:
    return _span(a.low - b.high, a.high - b.low)


def multiply(a: Interval, b: Interval) -> Interval:
    return _span(*(_times(x, y) for x in (a.low, a.high) for y in (b.low, b.high)))


def negate(a: Interval) -> Interval:
    return Interval(-a.high, -a.low)


def absolute(a: Interval) -> Interval:
    return Interval(0, a.largest) if a.low <= 0 <= a.high else Interval(*sorted((abs(a.low), abs(a.high))))


def divide(a: Interval, b: Interval) -> Interval:
    if b.low <= 0 <= b.high or not b.finite:
        return ANY_NUMBER
    return _span(*(x / y for x in (a.low, a.high) for y in (b.low, b.high)))


def integer_divide(a: Interval, b: Interval) -> Interval:
    """The rule of division towards zero, by a divisor of at least one in absolute value."""
    if b.low == b.high and b.low != 0 and a.finite:
        return Interval(*sorted(int(abs(x) // abs(b.low)) * (1 if x * b.low >= 0 else -1) for x in (a.low, a.high)))
    return Interval(-a.largest, a.largest)


def modulo(a: Interval, b: Interval) -> Interval:
    """The rule of the remainder: it has the sign of the dividend, and is smaller than the divisor."""
    size = min(a.largest, b.largest)
    return Interval(-size if a.low < 0 else 0, size if a.high > 0 else 0)


def whole_modulo(a: Interval, b: Interval) -> Interval:
    """The same for whole numbers, where the remainder is smaller by at least one."""
    return modulo(a, Interval(0, max(b.largest - 1, 0)))


def bits(a: Interval, b: Interval) -> Interval:
    """The rule of bitwise operations on whole numbers: the result has no more bits than the longer number, and may be below 0 if
    one of them may be."""
    if not (a.finite and b.finite):
        return ANY_NUMBER
    beyond = 2 ** max(max(int(end), ~int(end)).bit_length() for end in (a.low, a.high, b.low, b.high))
    return _span(-beyond if min(a.low, b.low) < 0 else 0, beyond - 1)


def common_bits(a: Interval, b: Interval) -> Interval:
    """The rule of the bitwise AND of whole numbers: the result is at most each number that is not negative."""
    ends = [part.high for part in (a, b) if part.low >= 0]
    return Interval(0, min(ends)) if ends else bits(a, b)


def monotone(function: Callable[[float], float], low: float = -math.inf, high: float = math.inf) -> Rule:
    """The rule of a non-decreasing function that is printed with the guard low <= x <= high.

    Beyond the guard there is no value, so any range would do. The nearest one is taken, so that a narrower argument never
    gives a wider range.
    """

    def rule(a: Interval) -> Interval:
        try:
            return _span(*(function(min(max(end, low), high)) for end in (a.low, a.high)))
        except (OverflowError, ValueError):
            return ANY_NUMBER

    return rule


def rounded(function: Callable[[float], float]) -> Rule:
    """The rule of floor, ceil and similar functions; infinite ends are kept."""

    def end(x: float) -> float:
        return function(x) if abs(x) < LARGE else x

    return lambda a: Interval(end(a.low), end(a.high))


def outward(a: Interval) -> Interval:
    """The least range with whole ends around another one."""
    return Interval(rounded(math.floor)(a).low, rounded(math.ceil)(a).high)


def to_grid(step: Fraction) -> Rule:
    """The rule of rounding to multiples of a step, with halves rounded either way."""
    def end(x: float, rounding: Callable[[Fraction], int], half: Fraction) -> float:
        return float(rounding(Fraction(x) / step + half) * step) if abs(x) < LARGE else x

    return lambda a: Interval(end(a.low, math.ceil, Fraction(-1, 2)), end(a.high, math.floor, Fraction(1, 2)))


def round_to(a: Interval, decimals: Interval) -> Interval:
    step = 10.0 ** -decimals.low
    return Interval(a.low - step / 2, a.high + step / 2)


def power(a: Interval, exponent: Interval) -> Interval:
    """The rule of x to a constant power; negative x needs a whole exponent."""
    p = exponent.low
    try:
        if p >= 0 and (a.low >= 0 or (p == int(p) and int(p) % 2 == 1)):
            return _span(a.low**p, a.high**p)
        if p >= 0 and p == int(p):
            return _span(0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high)) ** p, a.largest**p)
        if p >= 0:
            return _span(0, max(a.high, 0) ** p)
        if p < 0 < a.low:
            return _span(a.high**p, a.low**p)
    except OverflowError:
        pass
    return ANY_NUMBER


def clamp_range(a: Interval, low: Interval, high: Interval) -> Interval:
    """The rule of clamping between two constants. If the range is empty, there is no value; some range between the constants is
    returned anyway, so that a proof for a range holds for every part of it."""
    ends = Interval(min(low.low, high.high), max(low.low, high.high))
    return a.within(ends) if a.low <= ends.high and ends.low <= a.high else ends


def least(parts: tuple[Interval, ...], nullable: tuple[bool, ...]) -> Interval:
    """LEAST skips NULL, so it is below an argument only where that argument cannot be NULL."""
    sure = [part.high for part, may_be_null in zip(parts, nullable, strict=True) if not may_be_null]
    return Interval(min(part.low for part in parts), min(sure) if sure else max(part.high for part in parts))


def greatest(parts: tuple[Interval, ...], nullable: tuple[bool, ...]) -> Interval:
    """GREATEST skips NULL, so it is above an argument only where that argument cannot be NULL."""
    sure = [part.low for part, may_be_null in zip(parts, nullable, strict=True) if not may_be_null]
    return Interval(max(sure) if sure else min(part.low for part in parts), max(part.high for part in parts))


def hull(*parts: Interval) -> Interval:
    result = parts[0]
    for part in parts[1:]:
        result = result.hull(part)
    return result


def first(a: Interval, *_: Interval) -> Interval:
    return a


def anything(*_: Interval) -> Interval:
    """The rule of a function about whose values nothing is known."""
    return ANY_NUMBER


def constant(low: float, high: float) -> Rule:
    """The rule of a function whose values are in a known range for all arguments."""
    return lambda *_: Interval(low, high)
