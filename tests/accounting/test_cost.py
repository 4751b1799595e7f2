"""Costs: how they add up, what pays for what, and rounding up to the ledger's grain."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.trusted.accounting.cost import ATTO, FREE, NANO, NOTHING, ORDERS, Charge, Cost, concentrated, pure, root

amounts = st.fractions(Fraction(0), Fraction(1000))
deltas = st.fractions(Fraction(0), Fraction(1, 10))
costs = st.builds(lambda epsilon, rho, delta: Cost(epsilon=epsilon, rho=rho, delta=delta), st.none() | amounts, amounts, deltas)


@given(costs, costs, costs)
def test_costs_add_up_in_each_account(a: Cost, b: Cost, c: Cost) -> None:
    assert a + b == b + a and (a + b) + c == a + (b + c) and a + FREE == a
    total = a + b
    assert (total.rho, total.delta) == (a.rho + b.rho, a.delta + b.delta)
    assert (total.epsilon is None) == (a.epsilon is None or b.epsilon is None)


def test_deltas_add_up_too() -> None:
    assert pure(Fraction(1), Fraction(1, 9)) + concentrated(Fraction(2), Fraction(1, 9)) == concentrated(Fraction(5, 2), Fraction(2, 9))


def test_the_orders_are_what_they_were() -> None:
    """Charges of existing ledgers were allowed at these."""
    assert ORDERS == (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)


def test_a_pure_release_is_half_its_square_in_rho() -> None:
    assert pure(Fraction(1, 2), Fraction(1, 8)) == Cost(epsilon=Fraction(1, 2), rho=Fraction(1, 8), delta=Fraction(1, 8))
    assert concentrated(Fraction(3)) == Cost(epsilon=None, rho=Fraction(3))


@given(costs, costs)
def test_what_is_covered_costs_no_more_in_any_account_that_was_charged(charged: Cost, spent: Cost) -> None:
    if charged.covers(spent):
        assert spent.delta <= charged.delta
        if charged.epsilon is not None:
            assert spent.epsilon is not None and spent.epsilon <= charged.epsilon
        # what the release is known to be in rho: its own rho, or half the square of its epsilon
        known = spent.rho if spent.epsilon is None else min(spent.rho, (charged.epsilon or spent.epsilon) ** 2 / 2)
        assert known <= charged.rho


@given(costs)
def test_a_cost_covers_itself_and_its_parts(cost: Cost) -> None:
    assert cost.covers(cost) and cost.covers(FREE)
    half = cost.part(Fraction(1, 2), delta=cost.delta / 2)
    if cost.epsilon is None:
        assert cost.covers(half + half)
    elif cost.rho >= cost.epsilon**2 / 2:
        assert cost.covers(half + half) and cost.covers(pure(cost.epsilon))


@pytest.mark.parametrize("charged, spent, fits", [
    (pure(Fraction(1)), pure(Fraction(1, 2)) + pure(Fraction(1, 2)), True),
    (pure(Fraction(1)), pure(Fraction(1, 2)) + pure(Fraction(51, 100)), False),
    (pure(Fraction(1)), concentrated(Fraction(1, 2)), False),  # a pure charge claims a pure epsilon
    (concentrated(Fraction(1, 2)), pure(Fraction(1)), True),
    (concentrated(Fraction(1, 2)), pure(Fraction(1)) + concentrated(Fraction(1, 10**9)), False),
    (pure(Fraction(1)), pure(Fraction(1), Fraction(1, 10**18)), False),
    (pure(Fraction(1), Fraction(1, 10**6)), pure(Fraction(1, 2), Fraction(1, 10**6)), True),
    # a rho charged below that of the epsilon must hold the rho spent
    (Cost(epsilon=Fraction(2), rho=Fraction(1, 2)), Cost(epsilon=Fraction(2), rho=Fraction(1, 2)), True),
    (Cost(epsilon=Fraction(2), rho=Fraction(1, 2)), pure(Fraction(2)), False),
    (Cost(epsilon=Fraction(4), rho=Fraction(5)), pure(Fraction(4)), False),
    (Cost(epsilon=Fraction(1, 2), rho=Fraction(1, 10)), pure(Fraction(1, 2)), False),
    (pure(Fraction(1)), Cost(epsilon=Fraction(1), rho=Fraction(3, 4)), True),  # an epsilon of 1 is a rho of 1/2
])
def test_covering(charged: Cost, spent: Cost, fits: bool) -> None:
    assert charged.covers(spent) is fits


@given(costs)
def test_charges_are_rounded_up_by_less_than_a_grain(cost: Cost) -> None:
    charge = cost.rounded()
    assert 0 <= Fraction(charge.rho, NANO) - cost.rho < Fraction(1, NANO)
    assert 0 <= Fraction(charge.delta, ATTO) - cost.delta < Fraction(1, ATTO)
    if cost.epsilon is None:
        assert charge.epsilon is None
    else:
        assert charge.epsilon is not None and 0 <= Fraction(charge.epsilon, NANO) - cost.epsilon < Fraction(1, NANO)


@given(costs, costs)
def test_the_charge_of_a_sum_is_no_more_than_the_sum_of_charges(a: Cost, b: Cost) -> None:
    together, apart = (a + b).rounded(), a.rounded() + b.rounded()
    assert together.rho <= apart.rho and together.delta <= apart.delta
    assert (together.epsilon is None and apart.epsilon is None) or together.epsilon <= apart.epsilon  # type: ignore[operator]
    assert a.rounded() + NOTHING == a.rounded()


def test_an_unknown_epsilon_stays_unknown() -> None:
    assert Charge(epsilon=None, rho=1, delta=0) + Charge(epsilon=5, rho=2, delta=3) == Charge(epsilon=None, rho=3, delta=3)


@pytest.mark.parametrize("values", [{"epsilon": Fraction(-1), "rho": Fraction(1)}, {"epsilon": None, "rho": Fraction(-1)},
                                    {"epsilon": Fraction(1), "rho": Fraction(1), "delta": Fraction(-1, 10**18)}])
def test_no_cost_gives_privacy_back(values: dict[str, Fraction]) -> None:
    with pytest.raises(ValueError, match="cannot be negative"):
        Cost(**values)  # type: ignore[arg-type]


@given(st.fractions(Fraction(0), Fraction(10**12)))
def test_roots_are_rounded_down(number: Fraction) -> None:
    found = root(number)
    assert found**2 <= number < (found + Fraction(1, 2**64)) ** 2


@given(st.fractions(Fraction(1, 10**9), Fraction(1000)))
def test_the_epsilon_that_a_rho_pays_for_is_paid_for(rho: Fraction) -> None:
    epsilon = concentrated(rho).as_epsilon
    assert concentrated(rho).covers(pure(epsilon)) and math.isclose(epsilon, math.sqrt(2 * rho))
    assert pure(rho).as_epsilon == rho
