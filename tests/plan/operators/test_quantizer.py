"""Grids of numbers, by hand: their ends, what stands at a position, and the grid of an expression."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from fractions import Fraction

import duckdb
import pytest

from dpsql.questions.chosen_grids import DEFAULT_STEPS, quantizer
from dpsql.trusted.kernel.shapes import ends_of
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.operators.quantizer import LEAST_STEP, MOST_SIZE, MOST_STEPS, Quantizer
from dpsql.types import ANY_NUMBER, Interval, Type

TENTH = Fraction(1, 10)


@pytest.mark.parametrize(("low", "high", "step", "from_low", "least", "most", "last"), [
    (-1.5, 2.6, Fraction(1), False, -2, 3, 3), (1.5, 4.0, Fraction(1, 2), True, 0, 5, 4), (1.5, 2.6, Fraction(1), True, 0, 1, Fraction(5, 2)),
    (-4.0, -1.5, Fraction(1), False, -4, -1, -1), (0.0, 9.0, Fraction(3), True, 0, 3, 9)])
def test_numbers_between_the_ends_stay_on_the_grid(low: float, high: float, step: Fraction, from_low: bool, least: int, most: int,
                                                   last: Fraction) -> None:
    grid = Quantizer(low=low, high=high, step=step, from_low=from_low)
    assert (grid.least, grid.most, grid.value(most)) == (least, most, last)
    assert grid.value(Fraction(1, 3)) == Fraction(grid.origin) + step / 3
    numbers = [low - 1, low, *(low + (high - low) * i / 40 for i in range(1, 40)), math.nextafter(high, low), high, high + 1]
    listed = ", ".join(f"(CAST({number!r} AS DOUBLE))" for number in numbers)
    found = [n for n, in duckdb.execute(f"SELECT {grid.to_sql('x', Type.DOUBLE)} FROM (VALUES {listed}) AS t(x)").fetchall()]
    assert found == sorted(found) and found[0] == found[1] == least and found[-2] == found[-1] == most
    assert all(abs(grid.value(n) - Fraction(number)) <= step / 2 for n, number in zip(found[2:-3], numbers[2:-3], strict=True))


@pytest.mark.parametrize("scale", range(10))
@pytest.mark.parametrize("from_low", [True, False])
def test_decimal_bounds_count_as_themselves(scale: int, from_low: bool) -> None:
    """As floats most of them lie beside a multiple of their step, on either side."""
    draw, unit = random.Random(scale), Fraction(1, 10**scale)
    for size in (1, 10, 12, 5000, 2**20, 2**39):
        for _ in range(15):
            first, second = sorted(draw.randint(-size, size) for _ in range(2))
            low, high = float(first * unit), float(second * unit)
            grid = Quantizer(low=low, high=high, step=unit, from_low=from_low)
            base = first if from_low else 0
            assert (grid.least, grid.most) == (first - base, second - base) == ends_of(grid)
            numbers = [first, second, first + 1 if second > first else first]
            listed = ", ".join(f"({Decimal(n).scaleb(-scale):f}::DECIMAL(18, {scale})::DOUBLE)" for n in numbers)
            found = duckdb.execute(f"SELECT {grid.to_sql('x', Type.DOUBLE)} FROM (VALUES {listed}) AS t(x)").fetchall()
            assert [n for n, in found] == [n - base for n in numbers]


NAN, INF = math.nan, math.inf
REALS = [-1e300, -7.0, -2.0, -1.5, -1.25, -0.5, 0.0, 0.25, 1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.6, 3.0, 4.0, 8.75, 9.0, 1e300, NAN, INF, -INF]
WHOLE = [-(2**63), -(2**50), -6, -5, -4, -2, -1, 0, 1, 2, 3, 5, 99, 100, 101, 2**50, 2**62 - 2**20, 2**62 - 2**20 + 1, 2**62 - 1, 2**62,
         2**63 - 2**20, 2**63 - 2**11]


def by_hand(grid: Quantizer, number: float) -> int | None:
    if math.isnan(number):
        return None
    if not grid.low < number < grid.high:
        return grid.least if number <= grid.low else grid.most
    place = (Fraction(number) - Fraction(grid.origin)) / grid.step
    return math.floor(abs(place) + Fraction(1, 2)) * (1 if place > 0 else -1)


@pytest.mark.parametrize(("kind", "low", "high", "step"), [
    *((Type.DOUBLE, low, high, step) for low, high, step in (
        (-1.5, 2.6, 1), (1.5, 4.0, 1), (1.25, 8.75, 1), (-1.25, -0.25, 2), (0.0, 9.0, 3), (1.5, 4.0, 0.5), (-2.0, 2.5, 1), (3.0, 3.0, 1))),
    *((Type.BIGINT, low, high, step) for low, high, step in (
        (-5.0, 5.0, 1), (-1.5, 2.6, 1), (100.0, 2.0**35, 1), (-5.0, 5.0, 2), (2.0**62 - 2**20, 2.0**62, 1), (2.0**63 - 2**20, 2.0**63, 1)))])
def test_integers_by_hand_in_and_beyond_any_reach(kind: Type, low: float, high: float, step: float) -> None:
    """Whatever is known of a column, and however far its numbers lie: nothing overflows, and NaN has no integer."""
    for from_low in (True, False) if high < 2**60 else (True,):
        grid = Quantizer(low=low, high=high, step=Fraction(step), from_low=from_low)
        for far in (0.5, 4.0, 1e10, INF):
            numbers = [x for x in (REALS if kind is Type.DOUBLE else WHOLE) if far == INF or low - far <= x <= high + far]
            text = grid.to_sql("x", kind, Interval(min(numbers), max(numbers)) if far < INF else ANY_NUMBER)
            listed = ", ".join([*(f"(CAST('{x!r}' AS {kind.value}))" for x in numbers), "(NULL)"])
            found = [n for n, in duckdb.execute(f"SELECT {text} FROM (VALUES {listed}) AS t(x)").fetchall()]
            assert found == [*(by_hand(grid, x) for x in numbers), None]


@pytest.mark.parametrize("from_low", [True, False])
def test_a_step_wider_than_the_range_leaves_two_values(from_low: bool) -> None:
    grid = quantizer(Facts(type=Type.DOUBLE, declared=Interval(0, 4), step=Fraction(10)), from_low=from_low)
    assert grid is not None and (grid.least, grid.most, grid.value(grid.most)) == (0, 1, 4)


def test_what_can_be_put_on_a_grid() -> None:
    last = float(dt.date.max.toordinal())
    for low, high, days in ((1.0, last, True), (0.0, 9.0, False), (1.0, last + 1, False), (1.5, 9.0, False), (1.0, 9.5, False), (3.0, 3.0, True)):
        grid = Quantizer(low=low, high=high, step=Fraction(1), from_low=True)
        assert grid.fits(Type.DATE) is days and grid.fits(Type.BIGINT) and grid.fits(Type.DOUBLE)
        assert not any(grid.fits(kind) for kind in (Type.VARCHAR, Type.BOOLEAN, Type.TIMESTAMP))


def test_a_grid_has_ends_a_step_and_few_enough_positions() -> None:
    for low, high, step in ((0.0, math.inf, 1), (-math.inf, 0.0, 1), (1.0, 0.0, 1), (0.0, 1.0, 0), (0.0, 1.0, -1), (math.nan, 1.0, 1),
                            (0.0, 2.0**41, 1), (-(2.0**41), 0.0, 1), (-(2.0**41), -(2.0**40), 1)):
        with pytest.raises(ValueError):
            Quantizer(low=low, high=high, step=Fraction(step), from_low=False)
    small = Fraction(LEAST_STEP)
    for low, high, step in ((0.0, 2**53 + 1, 2**20), (-(2**53) - 1, 0.0, 2**20), (0.0, 0.0, small / 2), (0.0, 0.0, Fraction(MOST_SIZE) * 2)):
        with pytest.raises(ValueError, match="must be floats"):
            Quantizer(low=low, high=high, step=Fraction(step), from_low=False)
    assert Quantizer(low=0.0, high=LEAST_STEP, step=small, from_low=True).most == 1
    assert Quantizer(low=-MOST_SIZE, high=0.0, step=Fraction(MOST_SIZE), from_low=False).least == -1


def test_the_grid_of_an_expression() -> None:
    def grid(kind: Type, low: float, high: float, *, from_low: bool = True, most: int = DEFAULT_STEPS, step: Fraction | None = None,
             whole: bool = False) -> Quantizer | None:
        return quantizer(Facts(type=kind, declared=Interval(low, high), step=step, whole=whole), from_low=from_low, most_steps=most)

    for low, high, from_low in ((0, 100, True), (-100, 100, False), (900, 1000, False), (1e-9, 2e-9, True)):
        found = grid(Type.DOUBLE, low, high, from_low=from_low)
        assert found is not None and found.step.numerator == 1 and found.from_low is from_low and (found.low, found.high) == (low, high)
        width = high - low if from_low else max(high - low, high)
        assert DEFAULT_STEPS / 2 <= width / found.step <= DEFAULT_STEPS, "as fine as it may be"
    for asked, step in ((grid(Type.DOUBLE, 0, 10, step=TENTH), TENTH), (grid(Type.DOUBLE, 0, 10, step=TENTH, most=10), 1),
                        (grid(Type.DOUBLE, 0, 10, step=TENTH, most=99), TENTH * 2), (grid(Type.BIGINT, 0, 10, whole=True), 1),
                        (grid(Type.BIGINT, 0, MOST_STEPS, whole=True), 2), (grid(Type.BIGINT, 0, MOST_STEPS - 1, whole=True), 1),
                        (grid(Type.DOUBLE, 0, 10.0625, step=TENTH, most=100), TENTH * 2), (grid(Type.BIGINT, 5, 5, whole=True), 1)):
        assert asked is not None and asked.step == step
    first, last = (float(day.toordinal()) for day in (dt.date(1999, 1, 1), dt.date(2020, 12, 31)))
    assert grid(Type.DATE, first, last, from_low=False) == Quantizer(low=first, high=last, step=Fraction(1), from_low=True)
    for ends in ((-math.inf, 0), (0, math.inf), (0, 1e101), (-1e101, 0), (0, 1e-95)):
        assert grid(Type.DOUBLE, *ends) is None
    assert quantizer(Facts(type=Type.DOUBLE), from_low=True) is None and ANY_NUMBER.finite is False
    known = Facts(type=Type.DOUBLE, declared=Interval(0, 10), step=TENTH)
    assert quantizer(known, bounds=Interval(2, 4), from_low=True) == Quantizer(low=2.0, high=4.0, step=TENTH, from_low=True)
