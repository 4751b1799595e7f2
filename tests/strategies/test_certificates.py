"""What a bound covers: strategies with the same noise, and all unbiased mechanisms with the same guarantee."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.dense_algebra import line

from dpsql.strategies import ca
from dpsql.strategies.fixed_point import solve
from dpsql.strategies.optimality_gap import OptimalityBound, certificates
from dpsql.strategies.plain import plan_cells, plan_queries
from dpsql.strategies.strategy import Refusal
from dpsql.workload.factors import AllRange, Dense, Identity, Prefix

RANDOM = np.random.default_rng(29)


@pytest.mark.parametrize("rho", [0.01, 0.1, 0.5])
def test_gaussian_optima_are_near_all_unbiased_mechanisms(rho: float) -> None:
    strategy = ca.plan(line(Prefix(16)))
    assert not isinstance(strategy, Refusal) and strategy.certificate is not None
    value = float(strategy.variances(line(Prefix(16)), rho).sum())
    own, any_ = certificates("total variance", value, strategy.certificate.bound, "gaussian", rho)
    assert own.ratio == pytest.approx(strategy.certificate.ratio) and own.covers == "Gaussian strategies"
    assert any_.ratio / own.ratio == pytest.approx(math.expm1(2 * rho) / (2 * rho)) and any_.covers == "all unbiased mechanisms"


def test_known_floor_of_pure_epsilon() -> None:
    """All ranges of 256 values at epsilon = 1: no unbiased mechanism has an RMSE below 2.784, no Laplace strategy below 4.10."""
    bound = solve(line(AllRange(256)), share=0.0).lower
    laplace, any_ = certificates("mean variance", 8.055**2, bound, "laplace", 1.0)
    assert math.sqrt(any_.bound) == pytest.approx(2.784, abs=1e-3) and math.sqrt(laplace.bound) == pytest.approx(4.103, abs=1e-3)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_chi_square_of_pure_epsilon_is_that_of_its_extremal_pair(epsilon: float) -> None:
    """Two outcomes whose likelihood ratios are e^epsilon and e^-epsilon; and no pair of distributions within those has more."""
    ratios = np.array([math.exp(epsilon), math.exp(-epsilon)])
    chance = (1 - ratios[1]) / (ratios[0] - ratios[1])
    extremal = chance * ratios[0] ** 2 + (1 - chance) * ratios[1] ** 2 - 1
    bound = certificates("", 1.0, 1.0, "laplace", epsilon)[1].bound
    assert 1 / bound == pytest.approx(extremal)
    for _ in range(100):
        p = RANDOM.dirichlet(np.ones(4))
        q = np.clip(p * np.exp(RANDOM.uniform(-epsilon, epsilon, 4)), None, None)
        q /= q.sum()
        if np.abs(np.log(p / q)).max() <= epsilon:
            assert ((p - q) ** 2 / q).sum() <= extremal * (1 + 1e-9)


def test_no_strategy_is_below_the_bounds() -> None:
    for _ in range(20):
        workload = line(Dense(RANDOM.integers(-3, 4, (6, 4))), Identity(4))
        bound = solve(workload, share=0.0).lower * workload.rows
        for plan in (plan_cells, plan_queries):
            for noise, price in (("gaussian", 0.2), ("laplace", 0.7)):
                made = plan(workload, noise=noise)
                assert not isinstance(made, Refusal)
                for certificate in certificates("total variance", float(made.variances(workload, price).sum()), bound, noise, price):
                    assert certificate.ratio >= 1 - 1e-9


def test_ratios_and_words() -> None:
    certificate = OptimalityBound(objective="total variance", value=3.0, bound=2.0, covers="Laplace strategies")
    assert certificate.ratio == 1.5 and str(certificate) == "total variance at most 1.5 times the least of Laplace strategies"
    assert OptimalityBound(objective="", value=3.0, bound=0.0, covers="Laplace strategies").ratio == math.inf
