"""Mechanisms that hold sums to levels: they spend what they are given, and tell what they are told."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import pytest
from support.extensions.given import Given

from dpsql.mechanisms.mechanism import Accepted, Linear, Rejected, Shared, TaskContext
from dpsql.mechanisms.truncation.balance import Balanced
from dpsql.mechanisms.truncation.declared_level import DeclaredLevel
from dpsql.mechanisms.truncation.race_to_the_top import RaceToTheTop
from dpsql.mechanisms.truncation.recursive import Recursive
from dpsql.mechanisms.truncation.removals import Removals
from dpsql.trusted.accounting.cost import Cost, concentrated, pure
from dpsql.trusted.measurements.several.balanced_levels import Balance
from dpsql.trusted.measurements.several.levels import ExtensionSums
from dpsql.trusted.measurements.several.race import Race
from dpsql.trusted.plan.certificate import Certificate, Sensitivity
from dpsql.trusted.plan.node import Stability
from dpsql.trusted.plan.operators.owner_sets import EXACT_FLOW, UNIT
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Count, GridSum

SIGNED = GridSum(column="v", grid=Quantizer(low=-9, high=9, step=Fraction(1), from_low=False))
PURSES = [pure(Fraction(8, 10)), pure(Fraction(1, 1000)), concentrated(Fraction(1, 100)), concentrated(Fraction(3))]
OWNERS = ("a", "b", "c")
ALONE = TaskContext(keys=(), cells=((),))


GROUPED = TaskContext(keys=("k",), cells=(("x",), ("y",), ("z",)))
ROWS = Given(columns=(*((owner, "BIGINT") for owner in OWNERS), ("k", "VARCHAR"), ("v", "BIGINT")), rows=(), owners=OWNERS)


def task(width: int, summand: Any, most: int = 2**20, *, bound: str = "balance", level: int | None = None) -> Shared:
    return Shared(at=3, input=ROWS, owners=OWNERS[:width], summand=summand, bound=bound, most=most, level=level)


def spent(request: Race | Balance, width: int) -> Cost:
    return request.cost(Certificate(below=Stability(rows=None, owners=OWNERS[:width]), summands=()))


@pytest.mark.parametrize("mechanism", [Balanced(), RaceToTheTop(), DeclaredLevel(), Removals(), Recursive()], ids=lambda mechanism: mechanism.name)
@pytest.mark.parametrize("most", [1, 1000, 2 * EXACT_FLOW])
def test_the_price_is_spent_and_not_more(mechanism: Any, most: int) -> None:
    for case in itertools.product((Count(), SIGNED), (1, 2, 3), PURSES, (ALONE, GROUPED)):
        spends_what_it_is_given(mechanism, most, *case)


def spends_what_it_is_given(mechanism: Any, most: int, summand: Any, width: int, allotted: Cost, context: TaskContext) -> None:
    given = task(width, summand, most, bound=mechanism.name, level=most)
    request = next(mechanism.run([(given, allotted)], context))
    assert request.cells == len(context.cells) and (request.plan.cell is None) is (context is ALONE)
    cost = spent(request, width)
    assert allotted.covers(cost)
    least = Fraction(1, 3) if most == 1 and isinstance(mechanism, Balanced) else Fraction(98, 100)  # one level: nothing to choose
    if allotted.epsilon is not None:
        assert cost.epsilon is not None and cost.epsilon >= least * allotted.epsilon
    else:
        assert cost.rho >= least * allotted.rho


@pytest.mark.parametrize("mechanism, levels", [(Balanced(), (4,)), (RaceToTheTop(), (2,)), (RaceToTheTop(), (None,)),
                                               (DeclaredLevel(), (0,)), (Removals(), (4,)), (Recursive(), (4,))])
def test_an_estimate_is_the_released_number_in_rows(mechanism: Any, levels: tuple[int | None, ...]) -> None:
    for context in (ALONE, GROUPED):
        running = mechanism.run([(task(2, Count(), bound=mechanism.name, level=8), pure(Fraction(1)))], context)
        next(running)
        cells = len(context.cells)
        with pytest.raises(StopIteration) as done:
            running.send(ExtensionSums(totals=tuple((1000 + i) * UNIT + 16 for i in range(cells)), levels=(levels,) * cells))
        ((estimate,),) = done.value.value
        assert estimate.values.tolist() == [1000.25 + i for i in range(cells)]
        assert estimate.approximate is isinstance(mechanism, RaceToTheTop)  # which is lowered by what is not its noise
        assert (estimate.deviations > 0).all()


def test_a_higher_level_is_told_with_a_larger_error() -> None:
    found = []
    for place in (2, 9):
        running = Balanced().run([(task(2, Count()), pure(Fraction(1)))], ALONE)
        next(running)
        with pytest.raises(StopIteration) as done:
            running.send(ExtensionSums(totals=(0,), levels=((place,),)))
        found.append(done.value.value[0][0].deviations[0])
    assert found[1] == pytest.approx(2**7 * found[0], rel=1e-3)


def test_levels_begin_a_little_below_one_row() -> None:
    wide = GridSum(column="v", grid=Quantizer(low=0, high=2**16, step=Fraction(1), from_low=False))
    running = Balanced().run([(task(2, wide), pure(Fraction(1)))], ALONE)
    request = next(running)
    assert request.levels[:2] == (2**8, 2**9) and request.levels[-1] == 2**20


def test_levels_end_where_the_guess_ends() -> None:
    requests = [next(mechanism.run([(task(2, Count(), most), pure(Fraction(1)))], ALONE))
                for mechanism in (Balanced(), RaceToTheTop()) for most in (1, 1000)]
    assert [request.levels[-1] for request in requests] == [1, 512, 5, 915]


@pytest.mark.parametrize("mechanism", [Balanced(), RaceToTheTop(), Removals(), Recursive()])
def test_with_a_tiny_price_the_ladder_ends_where_noise_would_be_too_wide(mechanism: Any) -> None:
    allotted = pure(Fraction(1, 10**9))
    request = next(mechanism.run([(task(2, Count(), 2**36), allotted)], ALONE))
    assert allotted.covers(spent(request, 2)) and 0 < request.levels[-1] < 2**30


@pytest.mark.parametrize("mechanism", [Balanced(), RaceToTheTop(), DeclaredLevel(), Removals(), Recursive()])
def test_they_answer_what_is_left_to_them(mechanism: Any) -> None:
    other = Linear(at=0, input=None, summand=Count(), sensitivity=Sensitivity(l1=1, l2=1))  # type: ignore[arg-type]
    assert isinstance(mechanism.judge(other, pure(Fraction(1)), 1), Rejected)
    elsewhere = mechanism.judge(task(2, Count(), bound="another"), pure(Fraction(1)), 1)
    assert isinstance(elsewhere, Rejected) and mechanism.name in elsewhere.because
    given = task(2, Count(), bound=mechanism.name, level=4)
    one, many = (mechanism.judge(given, pure(Fraction(1)), cells) for cells in (1, 4))
    assert isinstance(one, Accepted) and isinstance(many, Accepted) and many.error == pytest.approx(4 * one.error, rel=1e-3)


@pytest.mark.parametrize("mechanism", [Balanced(), RaceToTheTop(), DeclaredLevel(), Removals(), Recursive()])
def test_without_cells_nothing_is_asked(mechanism: Any) -> None:
    given = task(1, Count(), bound=mechanism.name, level=4)
    with pytest.raises(StopIteration) as done:
        next(mechanism.run([(given, pure(Fraction(1)))], TaskContext(keys=("k",), cells=())))
    assert done.value.value[0][0].values.shape == (0,)
