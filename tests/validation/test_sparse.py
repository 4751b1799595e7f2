"""Sparse suites: what they tell is as likely as it should be, and moves by no more than is paid for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from support.chances import p_value
from support.requests import cost_of

from dpsql.audit.prepared import Batched
from dpsql.frozen import replace
from dpsql.trusted.accounting.cost import FREE, pure
from dpsql.trusted.measurements.above_threshold import AboveThresholdOfTests
from dpsql.trusted.measurements.flip_distance import Form, Within
from dpsql.trusted.noise.sparse_vector import small
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.node import Stability
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Count, GridSum, Summand
from dpsql.validation.suites import Sparse

Ways = Mapping[int, int]
FAR = 60  # noise beyond is rarer than 10^-12


def asked(most: int, limits: tuple[int, ...] = (0, -2), *, split: bool, scales: tuple[float, float] = (1.5, 2.0)) -> AboveThresholdOfTests:
    return AboveThresholdOfTests(tests=(), most=most, limits=limits, scale_limit=scales[0], scale_query=scales[1], split=split)


def at_least(t: int, scale: float) -> float:
    return 1.0 if t <= 0 else math.exp(-t / scale)


def told(request: AboveThresholdOfTests, slacks: Sequence[Ways], noise: Any) -> list[bool]:
    return small(slacks, request.limits, request.scale_limit, request.scale_query, request.most, noise)


def outcomes(request: AboveThresholdOfTests, slacks: Sequence[Ways]) -> Counter[tuple[bool, ...]]:
    """The chance of every outcome, by enumeration of the noise of the limits."""
    found: Counter[tuple[bool, ...]] = Counter()
    mass = [-math.expm1(-1 / request.scale_limit) * math.exp(-z / request.scale_limit) for z in range(FAR)]
    ways = sorted({way for test in slacks for way in test})
    finest = 2 ** (len(request.limits) - 1)

    def paths(i: int, left: int, z: Mapping[int, int]) -> Iterator[tuple[tuple[bool, ...], float]]:
        if i == len(slacks) or left < finest:
            yield (), 1.0
            return
        passing = 1.0
        for way, slack in slacks[i].items():
            for j in reversed(range(len(request.limits))):
                fails = at_least(slack + z[way] - request.limits[j], request.scale_query * 2**j)
                for rest, chance in paths(i + 1, left - (finest >> j), z):
                    yield (True, *rest), passing * fails * chance
                passing *= 1 - fails
        for rest, chance in paths(i + 1, left, z):
            yield (False, *rest), passing * chance

    for drawn in product(range(FAR), repeat=len(ways)):
        for outcome, chance in paths(0, request.most * finest, dict(zip(ways, drawn, strict=True))):
            found[outcome] += chance * math.prod(mass[z] for z in drawn)
    return found


def loss(request: AboveThresholdOfTests, first: Sequence[Ways], second: Sequence[Ways]) -> float:
    """The greatest log-odds of an outcome between two databases."""
    p, q = outcomes(request, first), outcomes(request, second)
    assert abs(sum(p.values()) - 1) < 1e-9
    return max(abs(math.log(p[outcome] / q[outcome])) for outcome in p if p[outcome] > 1e-12)


def epsilon(request: AboveThresholdOfTests) -> float:
    return 1 / request.scale_limit + (1 if request.split else 2) * request.most / request.scale_query


BASE = (2, -1, 0)


@pytest.mark.parametrize("most", [1, 2])
def test_any_change_by_one_is_paid_for(most: int) -> None:
    request = asked(most, split=False)
    here = [{0: slack} for slack in BASE]
    found = [loss(request, here, [{0: slack + step} for slack, step in zip(BASE, steps, strict=True)])
             for steps in product((-1, 0, 1), repeat=3)]
    assert 0.6 * epsilon(request) < max(found) <= epsilon(request) + 1e-6


def test_what_only_rises_and_what_only_falls_are_paid_for_by_half() -> None:
    request = asked(1, split=True)
    here: list[Ways] = [{1: 1, -1: 2}, {1: 0, -1: 3}]

    def moved(steps: Sequence[int]) -> list[Ways]:
        return [{1: test[1] + steps[2 * i], -1: test[-1] + steps[2 * i + 1]} for i, test in enumerate(here)]

    coming = [loss(request, here, moved([up, -down, up_, -down_])) for up, down, up_, down_ in product((0, 1), repeat=4)]
    assert 0.5 * epsilon(request) < max(coming) <= epsilon(request) + 1e-6
    single = asked(1, (0,), split=True, scales=(2.0, 0.5))
    here, there = [{1: 1}] * 6 + [{1: 1}], [{1: 0}] * 6 + [{1: 2}]
    assert loss(single, here, there) > 1.5 * epsilon(single)  # where rows may raise some and lower others it is not paid for


@pytest.mark.parametrize("split", [False, True])
def test_outcomes_are_as_likely_as_they_should_be(split: bool, effort: float) -> None:
    request = asked(1, (-1, -4), split=split)
    slacks: list[Ways] = [{1: 2, -1: 4}, {1: -3, -1: 9}, {1: 1, -1: 1}] if split else [{0: 2}, {0: -3}, {0: 1}]
    expected = outcomes(request, slacks)
    places = {outcome: i for i, outcome in enumerate(sorted(expected))}
    noise = Batched()
    draws = [places[tuple(told(request, slacks, noise))] for _ in range(int(20_000 * effort))]  # type: ignore[arg-type]
    assert p_value(draws, {place: expected[outcome] for outcome, place in places.items()}) > 1e-8


def within(summand: Summand) -> Within:
    plan = GroupedSums(input=Constants(columns=(), rows=()), keys=(), summands=(summand,))
    return Within(plan=plan, cells=((),), forms=(Form(at=0, sign=1, constants=(0,)), Form(at=0, sign=-1, constants=(9,))))


def test_the_cost_is_that_of_the_noise() -> None:

    owned = Certificate(below=Stability(rows=1, owners=("p",)), summands=())
    grid = Quantizer(low=-1.0, high=5.0, step=Fraction(1), from_low=False)
    either = replace(asked(3, split=False), tests=(within(GridSum(column="x", grid=grid)),))
    assert either.cost(owned) == pure(1 / Fraction(1.5) + 6 / Fraction(2))
    halves = replace(asked(3, split=True), tests=(within(Count()),))
    assert halves.cost(owned) == pure(1 / Fraction(1.5) + 3 / Fraction(2))
    assert halves.cost(Certificate(below=Stability(rows=0), summands=())) == FREE
    for wrong in (replace(halves, tests=either.tests), replace(halves, limits=()),
                  replace(halves, most=0)):
        with pytest.raises(ValueError):
            cost_of(wrong, owned)
    with pytest.raises(ValueError):
        halves.cost(Certificate(below=Stability(rows=2), summands=()))  # rows that come may take others away
    with pytest.raises(ValueError):
        halves.cost(Certificate(below=Stability(rows=None, owners=("p",)), summands=()))


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("failures", [1, 5, 20])
def test_the_whole_price_is_spent_and_decisions_are_reliable_from_where_they_say(failures: int, split: bool) -> None:
    terms = Sparse.of(pure(Fraction(1)), failures, split=split, rare=0.001)
    assert 0.999 < 1 / terms.scale_limit + failures * (1 if split else 2) / terms.scale_query <= 1
    request = AboveThresholdOfTests(tests=(), most=failures, limits=terms.limits, scale_limit=terms.scale_limit, scale_query=terms.scale_query)

    def fails(slack: int) -> float:
        z, n = terms.scale_limit, terms.scale_query
        return sum(-math.expm1(-1 / z) * math.exp(-k / z) * at_least(slack + k - request.limits[0], n) for k in range(int(60 * z)))

    assert fails(terms.certain) <= 0.001 and 1 - fails(1 - terms.certain) <= 0.001
    assert fails(terms.certain - 4) > 0.0005 or 1 - fails(5 - terms.certain) > 0.0005


def test_sixty_checks_of_which_two_fail(effort: float) -> None:
    """At a slack of 50 and a price of 1, fewer than one decision in a hundred is wrong; each by itself would have one in five."""
    runs, noise = int(40 * effort), Batched()
    for split, bar in ((True, 0.002), (False, 0.01)):
        terms = Sparse.of(pure(Fraction(1)), 5, split=split, rare=0.05 / 480)
        request = AboveThresholdOfTests(tests=(), most=5, limits=terms.limits, scale_limit=terms.scale_limit, scale_query=terms.scale_query,
                                        split=split)
        slacks: list[Ways] = [{1: s, -1: 10_000} if split else {0: s} for s in [50] * 20 + [-49] + [50] * 20 + [-49] + [50] * 18]
        wrong = 0
        for _ in range(runs):
            found = told(request, slacks, noise)  # type: ignore[arg-type]
            wrong += sum(failed != (min(test.values()) < 1) for failed, test in zip(found, slacks, strict=False)) + 60 - len(found)
        assert wrong <= max(12, 3 * bar * 60 * runs), (split, wrong)
