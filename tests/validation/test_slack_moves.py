"""A slack moves by 1 with a row, whatever the interval; and what its proof requires is required of the request."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from support.requests import cost_of

from dpsql.frozen import replace
from dpsql.trusted.accounting.cost import FREE
from dpsql.trusted.kernel.taken import copied_request
from dpsql.trusted.measurements.above_threshold import AboveThresholdOfCounts, AboveThresholdOfSums, AboveThresholdOfTests, Rising
from dpsql.trusted.measurements.flip_distance import (
    FARTHEST_END,
    DistinctWithin,
    ExtensionWithin,
    Form,
    NoisyFlipDistance,
    Within,
    slack_of,
)
from dpsql.trusted.measurements.select import Target
from dpsql.trusted.measurements.smooth_quantile import Smooth
from dpsql.trusted.measurements.vote import Vote
from dpsql.trusted.noise.integer import DiscreteGaussian, DiscreteLaplace
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.node import Field, Stability
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.multiplicities import Multiplicities
from dpsql.trusted.plan.operators.owner_sets import OwnerSets, lipschitz_constant
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.ranks import Ranks
from dpsql.trusted.plan.operators.summands import Count, GridSum, Moments
from dpsql.types import Type

NOWHERE = Constants(columns=(Field(id="g", name="g", facts=Facts(type=Type.BIGINT)),), rows=((0,),))
OWNED = Certificate(below=Stability(rows=1, owners=("p",)), summands=())
GRIDS = [(-3, 4), (0, 5), (2, 6), (-6, -2), (0, 1), (-1, 0), (5, 5), (-4, 1)]


def ends(least: int, most: int, first: int, last: int) -> Within:
    """Whether a sum of whole numbers lies between two."""
    grid = Quantizer(low=float(least), high=float(most), step=Fraction(1), from_low=False)
    return Within(plan=GroupedSums(input=NOWHERE, keys=(), summands=(GridSum(column="x", grid=grid),)), cells=((),), exact=True,
                  forms=(Form(at=0, sign=1, constants=(1 - first,)), Form(at=0, sign=-1, constants=(last + 1,))))


def slack(test: Within, rows: list[int], k: int = 1) -> int:
    return slack_of(test.sides([[sum(rows)]], lambda listed: sorted(
        (value * listed.sign for value in rows if value * listed.sign > 0), reverse=True)[: listed.most]), k)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_an_exact_slack_moves_by_one_with_each_row(grid: tuple[int, int]) -> None:
    """For thousands of intervals: wide, of one number, of none, and without an end; of k rows, as many as an entity has."""
    draw = random.Random(str(grid))
    least, most = grid
    for _ in range(1500):
        first = draw.choice([draw.randint(-30, 30), -FARTHEST_END // 2, FARTHEST_END // 4])
        last = draw.choice([first - 1, first, first + draw.randint(0, 40), FARTHEST_END // 2])
        test, k = ends(least, most, first, last), draw.randint(1, 3)
        assert copied_request(test) == test
        rows = [draw.randint(least, most) for _ in range(draw.randint(0, 9))]
        here = slack(test, rows, k)
        assert (here >= 1) == (first <= sum(rows) <= last)
        for _ in range(3):
            other = list(rows)
            for _ in range(draw.randint(0, k)):
                if other and draw.random() < 0.6:
                    other.pop(draw.randrange(len(other)))
                else:
                    other.append(draw.randint(least, most))
            assert abs(slack(test, other, k) - here) <= 1, (first, last, rows, other, k)


def test_an_interval_that_is_missed_on_both_sides_is_refused() -> None:
    """One row more would move the slack by as much as the list is long."""
    for first, last in ((2, 0), (10, -10), (FARTHEST_END, -FARTHEST_END), (5, 3)):
        with pytest.raises(ValueError):
            copied_request(ends(0, 5, first, last))


def test_scarcest_values_move_a_slack_by_one() -> None:
    draw = random.Random(5)
    for _ in range(3000):
        first = draw.randint(-3, 8)
        last = draw.choice([first - 1, first, first + draw.randint(0, 8), 2**60])
        test = DistinctWithin(plan=Multiplicities(input=NOWHERE, keys=(), column="x"), cells=((),), first=(first,), last=(last,))
        assert copied_request(test) == test
        rows = [draw.randint(0, 6) for _ in range(draw.randint(0, 12))]
        other = [*rows, draw.randint(0, 7)]
        found = []
        for values in (rows, other):
            times = [values.count(value) for value in set(values)]
            found.append(slack_of(test.sides([{n: times.count(n) for n in times}]), 1))
            assert (found[-1] >= 1) == (first <= len(set(values)) <= last)
        assert abs(found[0] - found[1]) <= 1, (first, last, rows, other)


def test_the_slack_of_an_extension_moves_by_one_with_each_entity() -> None:
    draw = random.Random(6)
    for _ in range(1000):
        level, width = draw.randint(1, 5), draw.randint(1, 3)
        farthest = lipschitz_constant(level, width)
        first = draw.randint(-3 * farthest, 3 * farthest)
        last = draw.choice([first - 1, first, first + draw.randint(0, 4 * farthest)])
        test = replace(HELD, plan=OwnerSets(input=NOWHERE, owners=tuple("pqr"[:width]), summand=Count()), level=level, first=first, last=last)
        assert copied_request(test) == test
        held = draw.choice([draw.randint(-4 * farthest, 8 * farthest), first - 1, first, last, last + 1])
        other = held + draw.randint(-farthest, farthest)
        here, there = (slack_of(test.sides(units), 1) for units in (held, other))
        assert (here >= 1) == (first <= held <= last)
        assert abs(there - here) <= 1, (first, last, held, other, farthest)


KEYED = GroupedSums(input=NOWHERE, keys=("g",), summands=(Count(),))
COUNT = Within(plan=GroupedSums(input=NOWHERE, keys=(), summands=(Count(),)), cells=((),), forms=(
    Form(at=0, sign=1, constants=(0,)), Form(at=0, sign=-1, constants=(9,))))
SUM = ends(0, 5, 3, 9)
RANKS = Ranks(input=NOWHERE, keys=(), column="g", grid=Quantizer(low=0, high=9, step=Fraction(1), from_low=True))
DISTINCT = DistinctWithin(plan=Multiplicities(input=NOWHERE, keys=(), column="x"), cells=((),), first=(1,), last=(5,))
HELD = ExtensionWithin(plan=OwnerSets(input=NOWHERE, owners=("p",), summand=Count()), level=4, first=0, last=900)


def formed(test: Within, at: int = 0, **changes: Any) -> Within:
    return replace(test, forms=tuple(replace(form, **changes) if i == at else form
                                                 for i, form in enumerate(test.forms)))


class Sly(Within):
    pass


class Small(Count):
    pass


WRONG: dict[str, tuple[Any, Certificate]] = {
    "no form": (replace(COUNT, forms=()), OWNED),
    "a sign of 2": (formed(COUNT, sign=2), OWNED),
    "a sign of 0": (formed(COUNT, sign=0), OWNED),
    "a summand before the first": (replace(
        COUNT, forms=(Form(at=-1, sign=1, constants=(0,)),)), OWNED),
    "a summand after the last": (replace(COUNT, forms=(Form(at=1, sign=1, constants=(0,)),)), OWNED),
    "too few constants": (formed(COUNT, constants=()), OWNED),
    "too many constants": (formed(COUNT, constants=(1, 2)), OWNED),
    "a constant that is no whole number": (formed(COUNT, constants=(0.5,)), OWNED),
    "a constant that is no number": (formed(COUNT, constants=(math.nan,)), OWNED),
    "a constant that is true": (formed(COUNT, constants=(True,)), OWNED),
    "no cell": (replace(COUNT, cells=(), forms=(Form(at=0, sign=1, constants=()),)), OWNED),
    "a cell with a key too many": (replace(COUNT, cells=((1,),)), OWNED),
    "a cell twice": (Within(plan=KEYED, cells=((1,), (1.0,)), forms=(Form(at=0, sign=1, constants=(0, 0)),)), OWNED),
    "zeros twice": (Within(plan=KEYED, cells=((0.0,), (-0.0,)), forms=(Form(at=0, sign=1, constants=(0, 0)),)), OWNED),
    "NaN twice": (Within(plan=KEYED, cells=((math.nan,), (float("nan"),)), forms=(Form(at=0, sign=1, constants=(0, 0)),)), OWNED),
    "rows without a limit": (COUNT, Certificate(below=Stability(rows=None, owners=("p",)), summands=())),
    "moments": (replace(COUNT, plan=GroupedSums(input=NOWHERE, keys=(), summands=(Moments(
        column="x", grid=Quantizer(low=0.0, high=2.0, step=Fraction(1), from_low=True), degree=1),))), OWNED),
    "a count of its own kind": (replace(COUNT, plan=GroupedSums(input=NOWHERE, keys=(), summands=(Small(),))), OWNED),
    "an exact count": (replace(COUNT, exact=True), OWNED),
    "an exact sum of one end": (replace(SUM, forms=SUM.forms[:1]), OWNED),
    "an exact sum of three ends": (replace(SUM, forms=(*SUM.forms, SUM.forms[0])), OWNED),
    "an exact sum of the same end twice": (replace(SUM, forms=(SUM.forms[0], SUM.forms[0])), OWNED),
    "exact ends of two sums": (replace(SUM, plan=GroupedSums(input=NOWHERE, keys=(), summands=SUM.plan.summands * 2),
                                                   forms=(SUM.forms[0], replace(SUM.forms[1], at=1))), OWNED),
    "an exact sum by groups": (replace(SUM, plan=replace(SUM.plan, keys=("g",)), cells=((1,),)), OWNED),
    "an end that is too far out": (ends(0, 5, -(2**62), 5), OWNED),
    "values: no interval": (replace(DISTINCT, first=()), OWNED),
    "values: missed on both sides": (replace(DISTINCT, first=(7,)), OWNED),
    "values: no whole number": (replace(DISTINCT, last=(math.inf,)), OWNED),
    "values: rows without a limit": (DISTINCT, Certificate(below=Stability(rows=None, owners=("p",)), summands=())),
    "held: missed on both sides": (replace(HELD, first=902), OWNED),
    "held to nothing": (replace(HELD, level=0), OWNED),
    "held below nothing": (replace(HELD, level=-4), OWNED),
    "held to half": (replace(HELD, level=0.5), OWNED),
    "held for others": (HELD, Certificate(below=Stability(rows=None, owners=("q",)), summands=())),
    "held for nobody": (HELD, Certificate(below=Stability(rows=None), summands=())),
    "a test of its own kind": (Sly(plan=COUNT.plan, cells=COUNT.cells, forms=COUNT.forms), OWNED),
}
NOISE = DiscreteLaplace(scale=2.0)


@pytest.mark.parametrize(("test", "certificate"), WRONG.values(), ids=WRONG.keys())
def test_what_the_proof_requires_is_required(test: Any, certificate: Certificate) -> None:
    with pytest.raises((ValueError, TypeError)):
        cost_of(NoisyFlipDistance(tests=(COUNT, test), noise=NOISE), OWNED, certificate)
    with pytest.raises((ValueError, TypeError)):
        cost_of(AboveThresholdOfTests(tests=(COUNT, test), most=1, limits=(0,), scale_limit=2.0, scale_query=2.0), OWNED, certificate)


SCALES: list[Any] = [0, 0.0, -1.0, math.nan, math.inf, -math.inf, True, "1", None, 2.0**60]


def votes(**changes: Any) -> Vote:
    return replace(Vote(plan=COUNT.plan, low=Fraction(1), high=Fraction(9), most=Fraction(4), scale=2.0), **changes)


ABOVE = AboveThresholdOfSums(plan=COUNT.plan, steps=(Rising(at=0, threshold=Fraction(3)),), scale_limit=2.0, scale_query=2.0)
SPARSE = AboveThresholdOfTests(tests=(COUNT,), most=1, limits=(0, -2), scale_limit=2.0, scale_query=2.0)


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_noise_that_has_no_price_is_refused(scale: Any) -> None:
    ladder = AboveThresholdOfCounts(plan=KEYED, limits=(1, 2), scale_limit=2.0, scale_query=2.0)
    asked: list[Any] = [NoisyFlipDistance(tests=(COUNT,), noise=DiscreteLaplace(scale=scale)), NoisyFlipDistance(tests=(COUNT,), noise=DiscreteGaussian(sigma=scale)),
                        votes(scale=scale)]
    for name in ("scale_limit", "scale_query"):
        asked += [replace(request, **{name: scale}) for request in (SPARSE, ABOVE, ladder)]
    for request in asked:
        with pytest.raises((ValueError, TypeError, KeyError, ArithmeticError)):
            cost_of(request, OWNED)


REFUSED: dict[str, Callable[[], Any]] = {
    "no tests": lambda: cost_of(NoisyFlipDistance(tests=(), noise=NOISE)),
    "no tests, together": lambda: cost_of(NoisyFlipDistance(tests=(), noise=NOISE, together=True)),
    "no tests of failures": lambda: cost_of(replace(SPARSE, tests=())),
    "fewer certificates": lambda: cost_of(NoisyFlipDistance(tests=(COUNT, COUNT), noise=NOISE), OWNED),
    "no limits": lambda: cost_of(replace(SPARSE, limits=()), OWNED),
    "too many limits": lambda: cost_of(replace(SPARSE, limits=(0,) * 21), OWNED),
    "limits that are no numbers": lambda: cost_of(replace(SPARSE, limits=(math.nan,)), OWNED),
    "no failures": lambda: cost_of(replace(SPARSE, most=0), OWNED),
    "failures below nothing": lambda: cost_of(replace(SPARSE, most=-3), OWNED),
    "half a failure": lambda: cost_of(replace(SPARSE, most=0.5), OWNED),
    "exact failures": lambda: cost_of(replace(SPARSE, tests=(SUM,)), OWNED),
    "no steps": lambda: cost_of(replace(ABOVE, steps=()), OWNED),
    "a step before the first": lambda: cost_of(replace(ABOVE, steps=(Rising(at=-1, threshold=Fraction(1)),)), OWNED),
    "a vote of groups": lambda: cost_of(votes(plan=KEYED), OWNED),
    "a vote of nothing": lambda: cost_of(votes(most=Fraction(-1)), OWNED),
    "a vote that no float holds": lambda: cost_of(votes(most=Fraction(2**60)), OWNED),
    "a vote of floats": lambda: cost_of(votes(low=math.nan), OWNED),
    "a quantile at no price": lambda: cost_of(Smooth(plan=RANKS, cells=((),), target=Target(fraction=Fraction(1, 2)), epsilon=Fraction(-5),
                                                     delta=Fraction(1, 9), epsilon_size=Fraction(6)), OWNED),
    "a quantile of rows without a limit": lambda: Smooth(
        plan=RANKS, cells=((),), target=Target(fraction=Fraction(1, 2)), epsilon=Fraction(1), delta=Fraction(1, 9),
        epsilon_size=Fraction(1)).cost(Certificate(below=Stability(rows=None), summands=())),
}


@pytest.mark.parametrize("ask", REFUSED.values(), ids=REFUSED.keys())
def test_what_has_no_price_is_refused(ask: Callable[[], Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        ask()


def test_there_may_be_as_many_limits_as_widths() -> None:
    assert cost_of(replace(SPARSE, limits=(0,) * 20), OWNED).epsilon == cost_of(SPARSE, OWNED).epsilon


def test_tests_that_one_row_may_move_are_paid_for_one_by_one() -> None:
    both = NoisyFlipDistance(tests=(COUNT, COUNT), noise=NOISE)
    assert cost_of(both, OWNED, OWNED).epsilon == 2 / Fraction(2)
    assert cost_of(replace(both, together=True), OWNED, OWNED).epsilon == 1 / Fraction(2)


@pytest.mark.parametrize("split, steps", [(False, 2), (True, 1)])
def test_failures_are_paid_for_by_how_far_the_noise_of_one_moves(split: bool, steps: int) -> None:
    request = replace(SPARSE, most=3, scale_limit=4.0, scale_query=8.0, split=split)
    assert cost_of(request, OWNED).epsilon == Fraction(1, 4) + Fraction(3 * steps, 8)


def test_public_rows_are_free() -> None:
    public = Certificate(below=Stability(rows=0), summands=())
    assert NoisyFlipDistance(tests=(COUNT, DISTINCT), noise=DiscreteGaussian(sigma=3.0)).cost(public, public) == FREE
    assert NoisyFlipDistance(tests=(COUNT, DISTINCT), noise=NOISE).cost(public, OWNED) == NoisyFlipDistance(tests=(DISTINCT,), noise=NOISE).cost(OWNED)
