"""Products of ranges over many attributes: known optima, the formulas by dense algebra, and bounds that are bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.dense_algebra import by_definition, cost, products, variances

from dpsql.strategies.fixed_point import solve
from dpsql.strategies.marginal_products import MarginalProducts
from dpsql.strategies.oblique import plan
from dpsql.strategies.product_bound import product_bound
from dpsql.strategies.residual import Oblique, Residuals
from dpsql.strategies.strategy import Refusal
from dpsql.workload.domain import domain
from dpsql.workload.factors import AllRange, Dense, Factor, Identity, Prefix, Ranges, Total
from dpsql.workload.workload import Product, Workload, joined, product_of

RANDOM = np.random.default_rng(19)


def planned(made: Residuals | Refusal) -> Residuals:
    assert isinstance(made, Residuals) and made.certificate is not None
    return made


def rmse(made: Residuals, workload: Workload) -> float:
    assert made.certificate is not None
    return math.sqrt(made.certificate.value / workload.rows)


CASES = [([Prefix(16)] * 2, 2.87701, 2.87708), ([Prefix(8)] * 3, 3.07621, 3.08562), ([AllRange(8)] * 3, 3.26231, 3.26566),
         ([Identity(8)] * 3, 1.85926, 1.85926)]


@pytest.mark.parametrize(("factors", "optimum", "reached"), CASES, ids=["prefix 16^2", "prefix 8^3", "ranges 8^3", "values 8^3"])
def test_small_products_are_near_their_known_optimum(factors: list[Factor], optimum: float, reached: float) -> None:
    workload = products(factors, (1, 2))
    made = planned(plan(workload))
    assert optimum - 1e-5 <= rmse(made, workload) <= reached + 1e-5
    assert made.certificate is not None
    assert 0.998 * optimum < math.sqrt(made.certificate.bound / workload.rows) <= optimum + 1e-5


@pytest.mark.parametrize(("attributes", "size", "factor", "reached"), [(5, 10, Prefix, 5.2042), (10, 10, Prefix, 9.4208),
                                                                       (10, 10, AllRange, 11.1466), (10, 20, Prefix, 13.3789)])
def test_many_attributes(attributes: int, size: int, factor: type[Prefix | AllRange], reached: float) -> None:
    workload = products([factor(size)] * attributes, (1, 2))
    made = planned(plan(workload))
    assert reached - 1e-3 < rmse(made, workload) < reached + 1e-4
    assert made.certificate is not None and made.certificate.ratio < 1.1**2 + 0.01


ADULT = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
CPS = (50, 100, 7, 4, 2)


@pytest.mark.parametrize(("sizes", "ordered", "ways", "reached"), [(ADULT, 5, (1,), 4.9910), (ADULT, 5, (2,), 16.771), (ADULT, 5, (3,), 43.694),
                                                                   (CPS, 2, (1,), 3.0630), (CPS, 2, (2,), 5.8159), (CPS, 2, (3,), 7.2997)])
def test_published_domains(sizes: tuple[int, ...], ordered: int, ways: tuple[int, ...], reached: float) -> None:
    workload = products([Prefix(size) if i < ordered else Identity(size) for i, size in enumerate(sizes)], ways)
    made = planned(plan(workload))
    assert rmse(made, workload) < reached
    assert made.certificate is not None and made.certificate.ratio < 1.21


def several() -> Workload:
    """One attribute asked in three ways, one in two, one that is never asked."""
    shape = (6, 4, 3, 5)
    prefix, value, ends = Prefix(6), Identity(6), Ranges(6, (0, 2), (3, 5))
    other, total = Dense(np.array([[1, -1, 0, 2], [0, 3, 1, 1]])), [Total(size) for size in shape]
    return Workload(domain(*shape), (Product((prefix, Identity(4), total[2], total[3])), Product((value, other, total[2], total[3])),
                                     Product((ends, total[1], Identity(3), total[3])), Product((total[0], other, Identity(3), total[3])),
                                     Product((total[0], total[1], total[2], total[3]))))


@pytest.mark.parametrize("workload", [several(), products([Prefix(5), Identity(3), AllRange(4)], (0, 1, 3))], ids=["several", "products"])
def test_claims_hold_in_dense_algebra(workload: Workload) -> None:
    made = planned(plan(workload))
    assert cost(made) == pytest.approx(1) and made.sensitivity.exact and float(made.sensitivity.value) == pytest.approx(cost(made), rel=1e-9)
    explicit = variances(made, workload)
    assert np.allclose(made.variances(workload), explicit)
    assert made.certificate is not None and made.certificate.value == pytest.approx(explicit.sum())
    exact = solve(joined(workload), share=0.0, gap=1e-5)
    assert made.certificate.bound <= exact.upper * workload.rows <= made.certificate.value * (1 + 2e-5)
    assert made.certificate.value <= exact.lower * workload.rows * 1.13


def test_answers_are_those_of_least_squares() -> None:
    workload = several()
    made = planned(plan(workload))
    table = RANDOM.integers(0, 100, workload.domain.size)
    exact = [product_of(block, made.domain).apply(table.reshape(made.domain.shape)).reshape(-1) for block in made.blocks]
    assert np.allclose(made.reconstruct(exact, workload), workload.apply(table), atol=1e-6)
    noise = [RANDOM.normal(size=block.rows) * block.scale for block in made.blocks]
    ours, theirs = by_definition(made, workload, table, noise)
    assert np.allclose(ours, theirs, atol=1e-5)


def test_the_direction_is_what_the_rows_are_blind_to() -> None:
    split = Oblique(Dense(RANDOM.integers(-100, 100, (4, 5))))
    assert np.allclose(split.factor.floats @ split.pi, 0, atol=1e-9) and split.pi.sum() == pytest.approx(1)
    left = split.inverse @ split.factor.floats
    assert np.allclose(left, np.eye(5) - np.outer(split.pi, np.ones(5)))


@pytest.mark.parametrize("factors", [[Prefix(8)] * 3, [AllRange(4), Identity(5), Prefix(6)]], ids=["prefix", "mixed"])
def test_targets_are_evened_out(factors: list[Factor]) -> None:
    workload = products(factors, (1, 2))
    targets = np.concatenate([np.full(part.rows, len(part.axes)) for part in workload.parts]).astype(float)
    made = planned(plan(workload, targets))
    exact = solve(joined(workload), targets=targets, gap=1e-4)
    assert made.certificate is not None
    assert (variances(made, workload) / targets).max() == pytest.approx(made.certificate.value, rel=1e-6)
    assert made.certificate.bound <= exact.upper and made.certificate.value <= exact.lower * 1.08
    assert made.certificate.bound >= exact.lower * 0.96


def test_bounds_hold_for_any_probabilities() -> None:
    workload = products([Prefix(4), AllRange(3), Identity(3)], (1, 2))
    asked = MarginalProducts.of(workload)
    exact = solve(joined(workload), share=0.0, gap=1e-6).upper * workload.rows
    for _ in range(20):
        cells = {kind: RANDOM.dirichlet(np.ones(kind[0].n)) for kind in asked.different}
        assert product_bound(asked, asked.ones(), cells) <= exact


def test_the_bound_for_many_queries_is_exact_for_a_single_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.strategies.product_bound.FEW", 0)
    workload = products([Prefix(6), AllRange(5)], (2,))
    made = planned(plan(workload))
    assert made.certificate is not None and made.certificate.ratio < 1 + 1e-4
    both = planned(plan(products([Prefix(6), AllRange(5)], (1, 2))))
    assert both.certificate is not None and 1 < both.certificate.ratio < 1.06


def test_what_is_too_large_is_refused() -> None:
    assert isinstance(plan(products([Prefix(5000), Identity(3)], (1, 2))), Refusal)
    assert isinstance(plan(products([Prefix(100)] * 3, (3,)), np.ones(10**6)), Refusal)
    assert isinstance(plan(products([Identity(5000), Prefix(3)], (1, 2))), Residuals)
