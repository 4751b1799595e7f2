"""Conversions between rho and (epsilon, delta), against exact curves and an outside accountant."""

from __future__ import annotations

import math
import random
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm
from support.reports import report_of

from dpsql.budgets.convert import delta_of, rho_of
from dpsql.budgets.reports import epsilon_of
from dpsql.trusted.accounting.cost import Charge, concentrated, pure

pytest.importorskip("dp_accounting", reason="the oracle of these tests")

from dp_accounting import dp_event  # noqa: E402
from dp_accounting.pld import pld_privacy_accountant, privacy_loss_distribution  # noqa: E402
from dp_accounting.rdp import rdp_privacy_accountant  # noqa: E402

DELTAS = [0.05, 1e-2, 1e-3, 1e-6, 1e-9, 1e-15]


def random_pairs(seed: int, count: float) -> list[tuple[float, float]]:
    draw = random.Random(seed)
    return [(10 ** draw.uniform(-6, 2), draw.choice(DELTAS)) for _ in range(round(count))]


def gaussian_delta(rho: float, epsilon: float) -> float:
    """The exact delta of the Gaussian mechanism, which is rho-zCDP (Balle and Wang 2018)."""
    mu = math.sqrt(2 * rho)
    first, second = norm.logcdf(mu / 2 - epsilon / mu), epsilon + norm.logcdf(-mu / 2 - epsilon / mu)
    return math.exp(first) * -math.expm1(min(0.0, second - first))


def log_delta(rho: float, epsilon: float, a: float) -> float:
    """log of the bound at alpha = 1 + a (Canonne, Kamath and Steinke 2020, Proposition 12)."""
    return a * ((1 + a) * rho - epsilon) - math.log(a) + (1 + a) * (math.log(a) - math.log1p(a))


def best_alpha(rho: float, epsilon: float) -> float:
    found = minimize_scalar(lambda x: log_delta(rho, epsilon, math.exp(x)), bounds=(-20, 30), method="bounded",
                            options={"xatol": 1e-12, "maxiter": 1000})
    return math.exp(found.x)


def test_delta_is_the_least_over_all_orders(effort: float) -> None:
    for rho, _ in random_pairs(1, 200 * effort):
        for epsilon in (rho * 1.1 + 0.01, rho + 2 * math.sqrt(rho), rho + 9 * math.sqrt(rho)):
            least = log_delta(rho, epsilon, best_alpha(rho, epsilon))
            if least > -700:
                assert math.log(delta_of(rho, epsilon)) == pytest.approx(min(0.0, least), abs=1e-9)


def test_delta_is_a_bound_of_the_exact_one(effort: float) -> None:
    for rho, _ in random_pairs(2, 500 * effort):
        for epsilon in (0.0, rho, rho + math.sqrt(rho), rho + 5 * math.sqrt(rho)):
            assert delta_of(rho, epsilon) >= gaussian_delta(rho, epsilon) * (1 - 1e-9)


def test_delta_at_the_ends() -> None:
    assert delta_of(0.0, 1.0) == 0 and delta_of(-1.0, 1.0) == 0
    assert 0 < delta_of(100.0, 0.0) <= 1
    assert delta_of(1e-12, 1000.0) < 1e-300


def test_epsilon_is_above_the_exact_one_and_close_to_renyi(effort: float) -> None:
    orders = 1 + np.geomspace(1e-3, 1e7, 20_000)
    for rho, delta in random_pairs(3, 60 * effort):
        ours = epsilon_of(Fraction(rho), Fraction(delta))
        exact = brentq(lambda epsilon: gaussian_delta(rho, epsilon) - delta, 0, ours + 1) if (  # noqa: B023
            gaussian_delta(rho, 0) > delta) else 0.0
        accountant = rdp_privacy_accountant.RdpAccountant(orders)
        accountant.compose(dp_event.ZCDpEvent(rho))
        renyi = accountant.get_epsilon(delta)
        assert ours >= exact * (1 - 1e-9)
        assert renyi * 0.99 - 1e-9 <= ours <= renyi * 1.0001 + 1e-9


def test_epsilon_is_above_that_of_the_privacy_loss_distribution(effort: float) -> None:
    for rho, delta in random_pairs(4, 25 * effort):
        if rho < 20:
            gaussian = privacy_loss_distribution.from_gaussian_mechanism(
                1 / math.sqrt(2 * rho), value_discretization_interval=1e-3)
            assert epsilon_of(Fraction(rho), Fraction(delta)) >= gaussian.get_epsilon_for_delta(delta) - 2e-3


def test_the_default_accountant_agrees(effort: float) -> None:
    for rho, delta in random_pairs(5, 100 * effort):
        accountant = rdp_privacy_accountant.RdpAccountant()
        accountant.compose(dp_event.GaussianDpEvent(1 / math.sqrt(2 * rho)))
        assert epsilon_of(Fraction(rho), Fraction(delta)) <= accountant.get_epsilon(delta) * (1 + 1e-6) + 1e-12


def test_conversions_are_monotone_and_inverse(effort: float) -> None:
    for rho, delta in random_pairs(6, 80 * effort):
        epsilon = epsilon_of(Fraction(rho), Fraction(delta))
        assert epsilon_of(Fraction(rho) * 2, Fraction(delta)) > epsilon or epsilon == 0
        assert epsilon_of(Fraction(rho), Fraction(delta) / 2) > epsilon or epsilon == 0
        if epsilon > 1e-9:
            assert float(rho_of(Fraction(epsilon), Fraction(delta))) == pytest.approx(rho, rel=1e-6)
            assert rho_of(Fraction(epsilon) * 2, Fraction(delta)) > rho
            assert rho_of(Fraction(epsilon), Fraction(delta) / 2) < rho


def test_rho_keeps_its_promise_to_many_digits(effort: float) -> None:
    """The bound at the order that is best, worked out with fifty digits."""
    draw = random.Random(7)
    for _ in range(round(150 * effort)):
        epsilon, delta = Fraction(10 ** draw.uniform(-6, 3)), Fraction(draw.choice(DELTAS)) / 2
        rho = rho_of(epsilon, delta)
        a = best_alpha(float(rho), float(epsilon))
        with localcontext() as context:
            context.prec = 50

            def decimal(number: Fraction) -> Decimal:
                return Decimal(number.numerator) / Decimal(number.denominator)

            def bound(rho: Fraction) -> Decimal:
                x, at = Decimal(a), 1 + Decimal(a)  # noqa: B023
                exponent = x * (at * decimal(rho) - decimal(epsilon))  # noqa: B023
                return (exponent - x.ln() + at * (x.ln() - at.ln())).exp()

            assert bound(rho) <= decimal(delta)
            assert bound(rho * Fraction(1_000_001, 1_000_000)) > decimal(delta) or epsilon < Fraction(1, 1000)


def test_the_largest_budgets_convert() -> None:
    for epsilon in (Fraction(1, 10**9), Fraction(1000)):
        for delta in (Fraction(1, 10**18), Fraction(1, 10)):
            rho = rho_of(epsilon, delta)
            assert 0 < rho < epsilon + 1 and delta_of(float(rho), float(epsilon)) <= delta


def test_nothing_spent_is_nothing() -> None:
    assert epsilon_of(Fraction(0), Fraction(1, 10**6)) == 0


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(-1)])
def test_there_is_no_rho_for_a_pure_epsilon(delta: Fraction) -> None:
    with pytest.raises(ValueError, match="pure"):
        rho_of(Fraction(1000), delta)


# -- the report


def pld_of(epsilons: list[float], delta: float) -> float:
    """Randomized responses of these epsilons, composed by hand: the loss is a sum of signs."""
    losses = {0.0: 1.0}
    for epsilon in epsilons:
        high = math.exp(epsilon) / (1 + math.exp(epsilon))
        following: dict[float, float] = {}
        for loss, chance in losses.items():
            for sign, share in ((1, high), (-1, 1 - high)):
                key = round(loss + sign * epsilon, 9)
                following[key] = following.get(key, 0) + chance * share
        losses = following
    low, up = 0.0, sum(epsilons)
    for _ in range(60):
        middle = (low + up) / 2
        if sum(chance * -math.expm1(middle - loss) for loss, chance in losses.items() if loss > middle) > delta:
            low = middle
        else:
            up = middle
    return up


def test_a_report_of_pure_charges_is_the_tight_composition() -> None:
    epsilons = [0.5, 0.1, 0.1, 0.3, 0.25]
    charges = [pure(Fraction(str(epsilon))).rounded() for epsilon in epsilons]
    for delta in (1e-2, 1e-6):
        found = report_of(charges, delta)
        assert found is not None and found <= sum(epsilons)
        assert found == pytest.approx(pld_of(epsilons, delta), abs=5e-3)


def test_a_report_of_many_charges_is_far_below_their_sum() -> None:
    found = report_of([pure(Fraction(1, 100)).rounded()] * 1000, 1e-6)
    assert found is not None and found < 2.5
    rho = sum(Fraction(charge.rho, 10**9) for charge in [pure(Fraction(1, 100)).rounded()] * 1000)
    assert found <= epsilon_of(rho, Fraction(1, 10**6)) * 1.001


def test_a_report_with_gaussian_noise_is_that_of_rho() -> None:
    charges = [concentrated(Fraction(1, 20)).rounded(), pure(Fraction(1, 10)).rounded()]
    found = report_of(charges, 1e-6)
    assert found == pytest.approx(epsilon_of(Fraction(11, 200), Fraction(1, 10**6)), rel=0.02)
    assert report_of([], 1e-6) == 0
    assert report_of([Charge(epsilon=0, rho=0, delta=0)], 1e-6) == pytest.approx(0, abs=1e-9)


def test_a_report_of_a_pure_charge_and_a_little_rho_is_that_of_the_orders() -> None:
    """By rho alone it would be above 30."""
    found = report_of([pure(Fraction(5)).rounded(), concentrated(Fraction(1, 1000)).rounded()], 1e-6)
    assert found is not None and 5 < found < 6


def test_a_report_of_a_large_epsilon_is_that_epsilon() -> None:
    """No loss distribution is computed for it, and other bounds are a little above it."""
    assert report_of([pure(Fraction(50)).rounded()], 1e-6) == 50


def test_the_report_is_above_what_gaussian_noise_leaks() -> None:
    accountant = pld_privacy_accountant.PLDAccountant()
    for _ in range(10):
        accountant.compose(dp_event.GaussianDpEvent(5.0))
    found = report_of([concentrated(Fraction(1, 50)).rounded()] * 10, 1e-6)
    assert found is not None and found >= accountant.get_epsilon(1e-6)
