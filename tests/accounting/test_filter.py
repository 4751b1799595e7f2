"""The rule of a budget: what it lets pass, against exact sums and against the composed privacy loss of what passed."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.budgets.convert import FOR_FAILURES, delta_of, limit, rho_of
from dpsql.catalog.price import Price, price
from dpsql.planning.choose import allotted_budget
from dpsql.trusted.accounting.cost import ATTO, NANO, NOTHING, Charge, Cost, concentrated, pure
from dpsql.trusted.accounting.privacy_filter import Limit

MILLIONTH = Fraction(1, 10**6)


def total(**written: object) -> Price:
    found = price(**written)
    assert found is not None
    return found


# -- limits


def test_a_pure_budget_is_a_sum_of_epsilons() -> None:
    assert limit(total(epsilon=0.5)) == Limit(epsilon=5 * 10**8, rho=None, delta=0)


def test_a_budget_of_epsilon_and_delta_divides_delta() -> None:
    found = limit(total(epsilon=1, delta=1e-6))
    assert found.epsilon == NANO and found.delta == 4375 * 10**8
    assert found.rho is not None
    assert delta_of(found.rho / NANO, 1.0) <= 5e-7 < delta_of((found.rho + 10) / NANO, 1.0)


def test_a_budget_in_rho() -> None:
    assert limit(total(rho=0.25, delta=1e-6)) == Limit(epsilon=None, rho=25 * 10**7, delta=10**12)
    assert limit(total(rho=0.25)) == Limit(epsilon=None, rho=25 * 10**7, delta=0)


exact = st.fractions(Fraction(1, 10**9), Fraction(1000))
deltas = st.just(Fraction(0)) | st.fractions(Fraction(1, 10**18), Fraction(1, 10)) | st.just(Fraction(3, 10**18))


@given(exact, deltas)
def test_limits_are_rounded_down(amount: Fraction, delta: Fraction) -> None:
    for found in (limit(Price(epsilon=amount, delta=delta)), limit(Price(rho=amount, delta=delta))):
        assert found.epsilon is None or Fraction(found.epsilon, NANO) <= amount < Fraction(found.epsilon + 1, NANO)
        assert Fraction(found.delta, ATTO) <= delta
        if found.rho is not None:
            assert Fraction(found.rho, NANO) <= (amount if found.epsilon is None else rho_of(amount, delta / 2))


@given(exact, deltas, st.booleans(), st.booleans())
def test_one_statement_at_the_price_of_a_budget_uses_it_up(amount: Fraction, delta: Fraction, in_rho: bool,
                                                           held_in_rho: bool) -> None:
    whole = Price(rho=amount, delta=delta) if in_rho else Price(epsilon=amount, delta=delta)
    if held_in_rho and not in_rho and not delta:
        with pytest.raises(ValueError, match="pure"):
            allotted_budget(whole, concentrated=True)
        return
    charge, most = allotted_budget(whole, concentrated=held_in_rho).rounded(), limit(whole)
    assert most.allows(charge)
    grain = Charge(epsilon=1, rho=1, delta=0)
    assert not most.allows(charge + grain) or most.rho is None or not (held_in_rho or in_rho)
    assert not most.allows(charge + Charge(epsilon=1, rho=1 + (most.rho or 0), delta=0))
    assert not most.allows(charge + Charge(epsilon=0, rho=0, delta=1))


@pytest.mark.parametrize("count, each, whole", [(10, 0.1, 1), (3, 0.1, 0.3), (7, 0.7, 4.9), (1000, 0.001, 1), (100, 1e-9, 1e-7)])
def test_equal_parts_fit_exactly(count: int, each: float, whole: float) -> None:
    for name in ("epsilon", "rho"):
        most, spent = limit(total(**{name: whole})), NOTHING
        charge = allotted_budget(total(**{name: each}), concentrated=False).rounded()
        for _ in range(count):
            spent = spent + charge
            assert most.allows(spent)
        assert not most.allows(spent + charge)


def test_many_small_statements_fit_an_epsilon_and_delta_budget_by_rho() -> None:
    """The sum of epsilons is long passed, and rho still allows more."""
    most, spent, count = limit(total(epsilon=1, delta=1e-6)), NOTHING, 0
    charge = allotted_budget(total(epsilon=0.01), concentrated=False).rounded()
    while most.allows(spent + charge):
        spent, count = spent + charge, count + 1
    assert count == most.rho // charge.rho > 100  # type: ignore[operator]
    assert count == math.floor(rho_of(Fraction(1), MILLIONTH / 2) / (Fraction(1, 100) ** 2 / 2))


def test_a_few_large_statements_fit_it_by_epsilon() -> None:
    most = limit(total(epsilon=1, delta=1e-6))
    half = pure(Fraction(1, 2)).rounded()
    assert most.rho is not None and half.rho + half.rho > most.rho
    assert most.allows(half + half) and not most.allows(half + half + pure(Fraction(1, 10**9)).rounded())


def test_a_gaussian_statement_leaves_room_for_pure_ones() -> None:
    most = limit(total(epsilon=1, delta=1e-6))
    spent = pure(Fraction(1, 2)).rounded() + concentrated(Fraction(1, 10**9)).rounded()
    assert most.rho is not None and spent.rho > most.rho and spent.epsilon is None
    assert most.allows(spent), "the sums of rho and of epsilons have no room, and Renyi orders have"
    assert most.allows(concentrated(Fraction(most.rho, NANO)).rounded())


def test_a_pure_budget_takes_nothing_else() -> None:
    most = limit(total(epsilon=1000))
    assert not most.allows(concentrated(Fraction(1, 10**9)).rounded())
    assert not most.allows(pure(Fraction(1), Fraction(1, 10**18)).rounded())


def test_failures_have_a_part_of_their_own() -> None:
    most = limit(total(epsilon=1, delta=1e-6))
    part = MILLIONTH * FOR_FAILURES
    assert most.allows(pure(Fraction(1), part).rounded())
    assert not most.allows(pure(Fraction(1, 100), part + Fraction(1, ATTO)).rounded())


# -- what passed, composed


def composed(costs: list[Cost], delta: float) -> float:
    """The epsilon of releases that are as bad as their costs say: normal noise for rho, randomized response for epsilon."""
    from dp_accounting.pld import common, privacy_loss_distribution
    together = None
    for cost in costs:
        if cost.epsilon is None:
            one = privacy_loss_distribution.from_gaussian_mechanism(
                float(1 / math.sqrt(2 * cost.rho)), value_discretization_interval=1e-3)
        else:
            one = privacy_loss_distribution.from_privacy_parameters(
                common.DifferentialPrivacyParameters(float(cost.epsilon), 0), value_discretization_interval=1e-3)
        together = one if together is None else together.compose(one)
    return float(together.get_epsilon_for_delta(delta)) if together is not None else 0.0


def test_what_a_budget_lets_pass_is_within_it(effort: float) -> None:
    """Greedy and stubborn customers in random order: whatever passed composes to no more than what was promised."""
    pytest.importorskip("dp_accounting", reason="the oracle of this test")
    draw = random.Random(8)
    for _ in range(round(12 * effort)):
        epsilon, delta = Fraction(draw.randint(1, 40), 10), Fraction(1, 10 ** draw.randint(3, 8))
        most, spent, passed, failures = limit(Price(epsilon=epsilon, delta=delta)), NOTHING, [], Fraction(0)
        for _ in range(60):
            size = Fraction(draw.randint(1, 1000), 1000) * epsilon / draw.choice([1, 4, 20])
            cost = draw.choice([pure(size), pure(size), pure(size, delta / 7), concentrated(size**2 / 8)])
            if most.allows(spent + cost.rounded()):
                spent, failures = spent + cost.rounded(), failures + cost.delta
                passed.append(cost)
        assert passed and failures <= delta * FOR_FAILURES
        assert composed(passed, float(delta - failures)) <= float(epsilon) + 0.001 * len(passed)


def decision_tree(most: Limit, offers: list[tuple[Cost, Cost]], spent: Charge = NOTHING) -> float:
    """The largest privacy loss, beyond epsilon, of adaptive choice: after each coin the customer picks the better offer.

    Each offer is a randomized response; the loss distribution is followed exactly. Returns sup over policies of
    sum P(path) (1 - e^(epsilon - loss))+ at the budget's epsilon.
    """
    def best(i: int, spent: Charge, loss: float) -> float:
        assert most.epsilon is not None
        stop = max(0.0, -math.expm1(most.epsilon / NANO - loss))
        if i == len(offers):
            return stop
        found = [best(i + 1, spent, loss)]
        for cost in offers[i]:
            if most.allows(spent + cost.rounded()):
                assert cost.epsilon is not None
                high = 1 / (1 + math.exp(-float(cost.epsilon)))
                found.append(high * best(i + 1, spent + cost.rounded(), loss + float(cost.epsilon))
                             + (1 - high) * best(i + 1, spent + cost.rounded(), loss - float(cost.epsilon)))
        return max(found)

    return best(0, spent, 0.0)


def test_no_adaptive_customer_gets_more_than_delta(effort: float) -> None:
    draw = random.Random(9)
    for _ in range(round(10 * effort)):
        epsilon, delta = Fraction(draw.randint(2, 10), 10), Fraction(draw.choice([1, 10, 40]), 1000)
        offers = [(pure(epsilon / draw.randint(1, 4)), pure(epsilon / draw.randint(3, 9))) for _ in range(7)]
        assert decision_tree(limit(Price(epsilon=epsilon, delta=delta)), offers) <= float(delta / 2)


def test_stopping_when_a_tight_curve_is_crossed_would_give_more() -> None:
    """Why the gate is the sum: the same customers, let on for as long as their own loss is small, pass delta."""
    step, epsilon, delta = 0.5, 1.0, 0.01

    def best(left: int, loss: float) -> float:
        stop = max(0.0, -math.expm1(epsilon - loss))
        if left == 0 or loss > epsilon:
            return stop
        high = 1 / (1 + math.exp(-step))
        return max(stop, high * best(left - 1, loss + step) + (1 - high) * best(left - 1, loss - step))

    assert best(12, 0.0) > delta
