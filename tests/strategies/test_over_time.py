"""Strategies over time against the matrices that they are, and what they cost and err by against the known optima."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.strategies.over_time import OverTime, square_root
from dpsql.strategies.square_root import prefix_bound

EACH = OverTime(stretches=((1, 1), (47, 0)))
STRATEGIES = {"square root": square_root(64), "each period": EACH, "by hand": OverTime(stretches=((2, 5), (3, 2), (59, 1)))}


def matrix_of(strategy: OverTime, periods: int) -> NDArray[np.float64]:
    """The weights of the periods in each measurement."""
    found = np.zeros((periods, periods))
    for place in range(periods):
        weights = [weight for many, weight in strategy.at(place) for _ in range(many)]
        assert len(weights) == place + 1
        found[place, :place + 1] = weights
    return found


@pytest.mark.parametrize("name", STRATEGIES)
def test_totals_and_errors_are_those_of_the_matrix(name: str) -> None:
    strategy, periods = STRATEGIES[name], 48
    weights, numbers = matrix_of(strategy, periods), np.random.default_rng(1).normal(size=(periods, 3))
    totals = strategy.totals([*(weights @ numbers)])
    assert np.allclose(totals, np.cumsum(numbers, axis=0))
    answered = np.tril(np.ones((periods, periods))) @ np.linalg.inv(weights)
    assert np.allclose(strategy.errors(periods), np.sqrt((answered**2).sum(axis=1)))


def test_earlier_totals_stay_as_they_were() -> None:
    strategy, measured = square_root(64), [*np.random.default_rng(2).normal(size=(40, 2))]
    before, after = strategy.totals(measured[:25]), strategy.totals(measured)
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=False))


def test_no_period_pays_more_than_the_length_over_its_horizon() -> None:
    strategy = square_root(64)
    paid = (matrix_of(strategy, 64) ** 2).sum(axis=0)
    assert np.isclose(paid[0], strategy.length**2) and (paid <= strategy.length**2 + 1e-6).all()


@pytest.mark.parametrize(("periods", "optimum"), [(64, 2.11), (1024, 2.96)])
def test_errors_are_close_to_the_optimum(periods: int, optimum: float) -> None:
    """The optima are those of prefix sums that are measured all at once; adding up is 8 and 32 times one release."""
    strategy = square_root(periods)
    error = strategy.length * float(np.sqrt((strategy.errors(periods) ** 2).mean()))
    assert prefix_bound(periods) ** 0.5 < optimum < error < 1.07 * optimum
    assert OverTime(stretches=((1, 1), (periods - 1, 0))).errors(periods)[-1] == pytest.approx(periods**0.5)
    assert len(strategy.stretches) <= 20
