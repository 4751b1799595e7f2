"""Which mechanism is chosen, and how a price is shared: from public facts only."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.mechanisms.all_mechanisms import MECHANISMS, NAMES
from dpsql.mechanisms.mechanism import Accepted, Linear, Ordered, Rejected, Task
from dpsql.planning.choose import choose, split_budget, weight_of
from dpsql.questions.parts import Quantiles
from dpsql.trusted.accounting.cost import Cost, concentrated, pure
from dpsql.trusted.plan.certificate import Sensitivity
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.node import Field
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Count
from dpsql.types import Type

ROWS = Constants(columns=(Field(id="x", name="x", facts=Facts(type=Type.BIGINT, nullable=False)),), rows=((1,),))
COUNTED = Linear(at=0, input=ROWS, summand=Count(), sensitivity=Sensitivity(l1=3, l2=3))
ONLY_L2 = Linear(at=0, input=ROWS, summand=Count(), sensitivity=Sensitivity(l1=None, l2=3))
EPSILON, RHO = pure(Fraction(1)), concentrated(Fraction(1, 2))


def ranked(*fractions: Fraction, most: int = 100, rows: int = 1) -> Ordered:
    grid = Quantizer(low=0.0, high=float(most), step=Fraction(1), from_low=True)
    return Ordered(at=0, input=ROWS, part=Quantiles(column="x", when=None, grid=grid, fractions=fractions), rows=rows)


HALF = Fraction(1, 2)
WITH_DELTA = pure(Fraction(1), Fraction(1, 10**6))


@pytest.mark.parametrize(("task", "allotted", "named", "expected"), [
    (COUNTED, EPSILON, (), "laplace"), (COUNTED, RHO, (), "gaussian"), (COUNTED, RHO, ("laplace",), "laplace"),
    (ONLY_L2, RHO, (), "gaussian"), (ONLY_L2, RHO, ("laplace",), "gaussian"), (COUNTED, EPSILON, ("gaussian",), "laplace"),
    (ranked(HALF, most=10**6), EPSILON, (), "exponential"), (ranked(HALF, most=10**6), RHO, (), "exponential"),
    (ranked(HALF, most=10**6), EPSILON, ("permute_and_flip",), "permute_and_flip"),
    (ranked(HALF), WITH_DELTA, (), "permute_and_flip"), (ranked(HALF), WITH_DELTA, ("smooth_sensitivity",), "smooth_sensitivity"),
    (ranked(HALF), EPSILON, ("smooth_sensitivity",), "permute_and_flip"), (ranked(HALF, Fraction(3, 4)), EPSILON, (), "exponential"),
    (ranked(HALF), EPSILON, ("laplace", "exponential"), "exponential")])
def test_the_best_that_can_do_it_is_taken_and_a_named_one_goes_before(task: Task, allotted: Cost, named: tuple[str, ...],
                                                                     expected: str) -> None:
    choice = choose(task, allotted, 1, named)
    assert choice is not None and choice.mechanism.name == expected
    assert set(choice.verdicts) == set(NAMES), "every mechanism says something, for EXPLAIN"
    assert choice.yes is choice.verdicts[expected]


def test_nothing_is_chosen_where_nothing_can_do_it() -> None:
    assert choose(ONLY_L2, EPSILON, 1, ()) is None


def test_refusals_give_a_reason_and_promises_a_size() -> None:
    for task in (COUNTED, ONLY_L2, ranked(HALF), ranked(Fraction(0)), ranked(HALF, rows=3)):
        for allotted in (EPSILON, RHO, WITH_DELTA):
            for mechanism in MECHANISMS:
                verdict = mechanism.judge(task, allotted, 2)
                match verdict:
                    case Rejected(because=because):
                        assert because and because[0].islower()
                    case Accepted(error=error, noise=noise):
                        assert error > 0 and noise


def test_a_larger_price_never_promises_more_error() -> None:
    for task in (COUNTED, ranked(HALF), ranked(HALF, Fraction(3, 4))):
        for make in (pure, concentrated):
            errors = [choice.yes.error for price in (1, 2, 5) if (choice := choose(task, make(Fraction(price)), 1, ())) is not None]
            assert len(errors) == 3 and errors == sorted(errors, reverse=True)


@given(st.lists(st.floats(0.01, 1000), min_size=1, max_size=12), st.booleans())
def test_shares_add_up_to_one_at_most_and_waste_next_to_nothing(weights: list[float], is_pure: bool) -> None:
    found = split_budget(weights, pure=is_pure)
    assert len(found) == len(weights) and all(share > 0 for share in found)
    assert 1 - Fraction(len(weights), 2**30) <= sum(found) <= 1


@given(st.lists(st.floats(0.1, 50), min_size=2, max_size=5), st.booleans(), st.integers(0, 10**6))
def test_no_other_shares_have_less_variance(weights: list[float], is_pure: bool, seed: int) -> None:
    import random

    draw = random.Random(seed)

    def variance(parts: list[float]) -> float:
        return sum(weight / part ** (2 if is_pure else 1) for weight, part in zip(weights, parts, strict=True))

    best = [float(share) for share in split_budget(weights, pure=is_pure)]
    other = [draw.uniform(0.01, 1) for _ in weights]
    assert variance(best) <= variance([part / sum(other) for part in other]) * (1 + 1e-9)
    assert math.isclose(sum(best), 1, rel_tol=1e-6)


def test_a_task_weighs_as_much_as_rests_on_it() -> None:
    assert weight_of(COUNTED, 3) == 3 and weight_of(ranked(HALF, Fraction(3, 4), Fraction(1)), 1) == 3
