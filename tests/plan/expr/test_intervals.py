"""Interval arithmetic: the range of a result holds the result of any point."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import pytest

from dpsql.trusted.plan.expr import intervals as iv
from dpsql.types import ANY_NUMBER, INT64, Interval, single

INF = math.inf


def random_interval(draw: random.Random, *, whole: bool = False) -> Interval:
    def end() -> float:
        if whole:
            return draw.choice([0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63), draw.randint(-20, 20),
                                draw.randint(-(2**60), 2**60)])
        return draw.choice([0.0, 1.0, -1.0, INF, -INF, 1e308, -1e308, 5e-324, draw.uniform(-10, 10), 10 ** draw.uniform(-5, 5)])
    low, high = sorted((end(), end()))
    return Interval(low, high)


def point(draw: random.Random, a: Interval, *, whole: bool = False) -> float:
    if whole:
        return draw.choice([a.low, a.high, draw.randint(int(a.low), int(a.high)), min(a.high, max(a.low, 0))])
    low, high = max(a.low, -1e300), min(a.high, 1e300)
    inside = draw.uniform(low / 2, high / 2) * 2 if math.isfinite(high - low) else low
    found = draw.choice([low, high, inside, min(a.high, max(a.low, 0.0))])
    return min(a.high, max(a.low, found))


def holds(result: Interval, value: float) -> bool:
    slack = 0 if isinstance(value, int) else 1e-12 * abs(value) if math.isfinite(value) else 0
    return math.isnan(value) or result.low - slack <= value <= result.high + slack


def towards_zero(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x >= 0) == (y >= 0) else -1)


INTEGERS: list[tuple[iv.Rule, Callable[..., int | None]]] = [
    (iv.add, lambda x, y: x + y), (iv.subtract, lambda x, y: x - y), (iv.multiply, lambda x, y: x * y),
    (iv.negate, lambda x, y: -x), (iv.absolute, lambda x, y: abs(x)),
    (iv.integer_divide, lambda x, y: towards_zero(x, y) if y else None),
    (iv.modulo, lambda x, y: x - y * towards_zero(x, y) if y else None),
    (iv.common_bits, lambda x, y: x & y), (iv.bits, lambda x, y: x | y), (iv.bits, lambda x, y: x ^ y)]


@pytest.mark.parametrize("rule, function", INTEGERS)
def test_ranges_of_integers_are_exact(rule: iv.Rule, function: Callable[..., int | None], effort: float) -> None:
    draw = random.Random(1)
    unary = rule in (iv.negate, iv.absolute)
    for _ in range(round(4000 * effort)):
        a, b = random_interval(draw, whole=True), random_interval(draw, whole=True)
        result = rule(a) if unary else rule(a, b)
        assert isinstance(result.low, int) and isinstance(result.high, int), "no end is rounded"
        for _ in range(4):
            found = function(point(draw, a, whole=True), point(draw, b, whole=True))
            assert found is None or result.low <= found <= result.high


def part_of(draw: random.Random, a: Interval, *, whole: bool = False) -> Interval:
    """A range inside another one, often a single point."""
    low, high = sorted((point(draw, a, whole=whole), point(draw, a, whole=whole)))
    return Interval(low, draw.choice([low, high]))


@pytest.mark.parametrize("whole", [True, False])
def test_narrower_arguments_have_narrower_ranges(whole: bool, effort: float) -> None:
    """Where they are finite: a value may then stand in the place of one that was awaited when something was proved."""
    draw = random.Random(f"narrow {whole}")
    rules = [rule for rule, _ in (INTEGERS if whole else REALS)]
    if not whole:
        rules += [iv.monotone(lambda x: math.log(x), 0), *(lambda a, _, p=p: iv.power(a, Interval(p, p)) for p in (0.5, 2.0, 3.0, -1.0))]
    for _ in range(round(8000 * effort)):
        rule = draw.choice(rules)
        wide = random_interval(draw, whole=whole), random_interval(draw, whole=whole)
        narrow = tuple(part_of(draw, a, whole=whole) for a in wide)
        try:
            inner, outer = rule(*narrow), rule(*wide)
        except TypeError:
            inner, outer = rule(narrow[0]), rule(wide[0])
        assert inner.inside(outer) or not outer.finite, (rule, wide, narrow, outer, inner)


def test_ranges_of_sums_and_products_are_reached() -> None:
    a, b = Interval(-3, 5), Interval(-2, 7)
    for rule, function in ((iv.add, lambda x, y: x + y), (iv.subtract, lambda x, y: x - y), (iv.multiply, lambda x, y: x * y)):
        every = [function(x, y) for x in range(-3, 6) for y in range(-2, 8)]
        assert rule(a, b) == Interval(min(every), max(every))


REALS: list[tuple[iv.Rule, Callable[..., float]]] = [
    (iv.add, lambda x, y: x + y), (iv.subtract, lambda x, y: x - y), (iv.multiply, lambda x, y: x * y),
    (iv.divide, lambda x, y: x / y if y else math.nan), (iv.negate, lambda x, y: -x), (iv.absolute, lambda x, y: abs(x)),
    (iv.modulo, lambda x, y: math.fmod(x, y) if y and math.isfinite(x) else math.nan),
    (iv.rounded(math.floor), lambda x, y: float(math.floor(x)) if math.isfinite(x) else x),
    (iv.monotone(math.sqrt, 0), lambda x, y: math.sqrt(x) if x >= 0 else math.nan),
    (iv.monotone(math.atan), lambda x, y: math.atan(x)),
    (iv.monotone(lambda x: math.exp(x) if x > -700 else 0.0, -INF, 700), lambda x, y: math.exp(x) if x <= 700 else math.nan)]
UNARY = {4, 5, 7, 8, 9, 10}


@pytest.mark.parametrize("at", range(len(REALS)))
def test_ranges_of_real_numbers_hold_every_point(at: int, effort: float) -> None:
    draw, (rule, function) = random.Random(at), REALS[at]
    for _ in range(round(3000 * effort)):
        a, b = random_interval(draw), random_interval(draw)
        result = rule(a) if at in UNARY else rule(a, b)
        for _ in range(4):
            assert holds(result, function(point(draw, a), point(draw, b)))


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, 4.0, 0.5, 1.5, -1.0, -2.0, -0.5])
def test_ranges_of_powers(p: float, effort: float) -> None:
    draw = random.Random(3)
    for _ in range(round(1000 * effort)):
        a = random_interval(draw)
        result = iv.power(a, Interval(p, p))
        for _ in range(4):
            x = point(draw, a)
            defined = x > 0 or p == 0 or (p > 0 and (x == 0 or p == int(p)))
            if defined and math.isfinite(x) and (x == 0 or abs(p * math.log10(abs(x))) < 300):
                assert holds(result, x**p)


def test_rounding_to_decimals_and_to_grids() -> None:
    draw = random.Random(4)
    for _ in range(500):
        low, high = sorted((draw.uniform(-5, 5), draw.uniform(-5, 5)))
        decimals = draw.randint(0, 4)
        step = Fraction(1, 10**decimals)
        wide, grid = iv.round_to(Interval(low, high), Interval(decimals, decimals)), iv.to_grid(step)(Interval(low, high))
        for x in (low, high, draw.uniform(low, high)):
            assert holds(wide, round(x, decimals))
            assert grid.low <= round(x, decimals) <= grid.high
        assert Fraction(str(round(grid.low, 9))) % step == 0 and grid.low >= low - float(step) and grid.high <= high + float(step)
    assert iv.to_grid(Fraction(1, 100))(Interval(0.5, 12.25)) == Interval(0.5, 12.25), "ends on the grid stay"
    assert iv.to_grid(Fraction(1))(Interval(0.5, 1.5)) == Interval(0, 2), "halves go either way"
    assert iv.to_grid(Fraction(1))(ANY_NUMBER) == ANY_NUMBER


def test_single_precision() -> None:
    assert single(0.5) == 0.5 and single(0.1) == 0.10000000149011612
    assert single(1e300) == INF and single(-1e300) == -INF and single(INF) == INF


def test_outward() -> None:
    assert iv.outward(Interval(-1.5, 2.2)) == Interval(-2, 3) and iv.outward(Interval(-INF, 7)) == Interval(-INF, 7)
    assert isinstance(iv.outward(Interval(-1.5, 2.2)).low, int)


@pytest.mark.parametrize("rule, pick", [(iv.least, min), (iv.greatest, max)])
def test_least_and_greatest_skip_what_is_missing(rule: Callable[..., Interval], pick: Callable[..., float],
                                                 effort: float) -> None:
    draw = random.Random(5)
    for _ in range(round(2000 * effort)):
        parts = tuple(random_interval(draw, whole=True) for _ in range(draw.randint(1, 3)))
        nullable = tuple(draw.random() < 0.5 for _ in parts)
        result = rule(parts, nullable)
        values = [None if missing and draw.random() < 0.5 else point(draw, part, whole=True)
                  for part, missing in zip(parts, nullable, strict=True)]
        found = [value for value in values if value is not None]
        if found:
            assert result.low <= pick(found) <= result.high


def test_what_is_known_of_least_without_missing_values() -> None:
    parts = (Interval(0, 10), Interval(-5, 3))
    assert iv.least(parts, (False, False)) == Interval(-5, 3) and iv.least(parts, (True, True)) == Interval(-5, 10)
    assert iv.greatest(parts, (False, False)) == Interval(0, 10) and iv.greatest(parts, (True, False)) == Interval(-5, 10)


def test_hulls_constants_and_firsts() -> None:
    assert iv.hull(Interval(0, 1), Interval(5, 7), Interval(-1, 0)) == Interval(-1, 7)
    assert iv.constant(-1, 1)(INT64, INT64) == Interval(-1, 1) and iv.first(Interval(2, 3), INT64) == Interval(2, 3)
    assert iv.anything(Interval(2, 3)) == ANY_NUMBER


def test_ranges_that_are_not_known_are_any_number() -> None:
    assert iv.monotone(math.sqrt, 0)(Interval(-5, -1)) == Interval(0, 0), "of no values, any range is true"
    assert iv.monotone(math.log, 0)(Interval(0, 5)) == ANY_NUMBER
    assert iv.divide(Interval(1, 2), Interval(-1, 1)) == ANY_NUMBER
    assert iv.add(Interval(-INF, INF), Interval(0, 1)) == ANY_NUMBER
    assert iv.multiply(Interval(0, 0), ANY_NUMBER) == Interval(0, 0)


def test_ends_beyond_every_float_are_infinite() -> None:
    wide = Interval(-(2**900), 2**900)
    assert iv.multiply(wide, wide) == ANY_NUMBER and iv.multiply(Interval(2**900, 2**900), Interval(2**900, 2**900)).high == INF
    assert iv.multiply(Interval(2**900, 2**900), Interval(2**900, 2**900)).low == iv.LARGE
    assert iv.multiply(Interval(2**900, 2**900), Interval(-(2**900), -(2**900))) == Interval(-INF, -iv.LARGE)


@pytest.mark.parametrize("low, high", [(1, 0), (math.nan, 1), (0, math.nan)])
def test_impossible_ranges_are_refused(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="interval"):
        Interval(low, high)
