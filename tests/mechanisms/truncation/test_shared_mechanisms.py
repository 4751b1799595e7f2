"""Mechanisms for rows of several entities: they spend what they are given, and tell what they are told."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from dpsql.accounting.cost import Cost, concentrated, pure
from dpsql.mechanisms.base import Linear, No, Setting, Shared, Yes
from dpsql.mechanisms.truncation.balance import Balanced
from dpsql.mechanisms.truncation.race_to_the_top import RaceToTheTop
from dpsql.plan.certificate import Certificate, Sensitivity
from dpsql.plan.node import Stability
from dpsql.plan.operators.quantizer import Quantizer
from dpsql.plan.operators.shares import EXACT_FLOW, UNIT
from dpsql.plan.operators.summands import Count, GridSum
from dpsql.requests import Balance, Held, Race

SIGNED = GridSum(column="v", grid=Quantizer(low=-9, high=9, step=Fraction(1), from_low=False))
PURSES = [pure(Fraction(8, 10)), pure(Fraction(1, 1000)), concentrated(Fraction(1, 100)), concentrated(Fraction(3))]
OWNERS = ("a", "b", "c")
ALONE = Setting(keys=(), cells=((),))


def task(width: int, summand: Any, most: int = 2**20) -> Shared:
    return Shared(at=3, input=None, owners=OWNERS[:width], summand=summand, most=most)  # type: ignore[arg-type]


def spent(request: Race | Balance, width: int) -> Cost:
    return request.cost(Certificate(below=Stability(rows=None, owners=OWNERS[:width]), summands=()))


@pytest.mark.parametrize("purse", PURSES)
@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("summand", [Count(), SIGNED])
@pytest.mark.parametrize("mechanism", [Balanced(), RaceToTheTop()])
@pytest.mark.parametrize("most", [1, 1000, 2 * EXACT_FLOW])
def test_the_price_is_spent_and_not_more(mechanism: Any, summand: Any, width: int, purse: Cost, most: int) -> None:
    running = mechanism.run([(task(width, summand, most), purse)], ALONE)
    cost = spent(next(running), width)
    assert purse.covers(cost)
    least = Fraction(1, 3) if most == 1 and isinstance(mechanism, Balanced) else Fraction(98, 100)  # one level: nothing to choose
    if purse.epsilon is not None:
        assert cost.epsilon is not None and cost.epsilon >= least * purse.epsilon
    else:
        assert cost.rho >= least * purse.rho


@pytest.mark.parametrize("mechanism, levels", [(Balanced(), (4,)), (RaceToTheTop(), (2,)), (RaceToTheTop(), (None,))])
def test_an_estimate_is_the_released_number_in_rows(mechanism: Any, levels: tuple[int | None, ...]) -> None:
    running = mechanism.run([(task(2, Count()), pure(Fraction(1)))], ALONE)
    next(running)
    with pytest.raises(StopIteration) as done:
        running.send(Held(total=1000 * UNIT + 16, levels=levels))
    ((estimate,),) = done.value.value
    assert estimate.values.tolist() == [1000.25] and estimate.approximate and estimate.deviations[0] > 0


def test_a_higher_level_is_told_with_a_larger_error() -> None:
    found = []
    for place in (2, 9):
        running = Balanced().run([(task(2, Count()), pure(Fraction(1)))], ALONE)
        next(running)
        with pytest.raises(StopIteration) as done:
            running.send(Held(total=0, levels=(place,)))
        found.append(done.value.value[0][0].deviations[0])
    assert found[1] == pytest.approx(2**7 * found[0], rel=1e-3)


def test_levels_end_where_the_guess_ends() -> None:
    requests = [next(mechanism.run([(task(2, Count(), most), pure(Fraction(1)))], ALONE))
                for mechanism in (Balanced(), RaceToTheTop()) for most in (1, 1000)]
    assert [request.levels[-1] for request in requests] == [1, 512, 5, 915]


@pytest.mark.parametrize("mechanism", [Balanced(), RaceToTheTop()])
def test_with_a_tiny_price_the_ladder_ends_where_noise_would_be_too_wide(mechanism: Any) -> None:
    purse = pure(Fraction(1, 10**9))
    request = next(mechanism.run([(task(2, Count(), 2**36), purse)], ALONE))
    assert purse.covers(spent(request, 2)) and 1 <= len(request.levels) < 30


@pytest.mark.parametrize("mechanism", [Balanced(), RaceToTheTop()])
def test_they_answer_shared_rows_only(mechanism: Any) -> None:
    other = Linear(at=0, input=None, summand=Count(), sensitivity=Sensitivity(l1=1, l2=1))  # type: ignore[arg-type]
    assert isinstance(mechanism.judge(other, pure(Fraction(1)), 1), No)
    one, many = (mechanism.judge(task(2, Count()), pure(Fraction(1)), cells) for cells in (1, 4))
    assert isinstance(one, Yes) and isinstance(many, Yes) and many.error == pytest.approx(4 * one.error, rel=1e-3)
