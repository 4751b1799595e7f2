"""Hierarchies and wavelets: closed forms against dense algebra, and errors against published figures."""

from __future__ import annotations

import numpy as np
import pytest
from support.dense_algebra import cost, line, own_variances, variances

from dpsql.strategies import haar, hierarchy
from dpsql.strategies.haar import Differences
from dpsql.strategies.hierarchy import Energies, powers
from dpsql.strategies.nested import Nested, energy, projected
from dpsql.strategies.optimality_gap import Noise
from dpsql.strategies.strategy import Refusal, Strategy
from dpsql.workload.factors import AllRange, Dense, Factor, Identity, Prefix, Ranges, Total
from dpsql.workload.workload import Workload

RANDOM = np.random.default_rng(23)
QUERIES: list[Factor] = [Prefix(23), AllRange(23), Identity(23), Total(23), Ranges(23, (0, 3, 22), (9, 4, 22)),
                         Dense(RANDOM.integers(-2, 3, (4, 23)))]


def rmse(made: Strategy | Refusal, workload: Workload) -> float:
    assert isinstance(made, Strategy) and made.certificate is not None
    return float(np.sqrt(made.certificate.value / workload.rows))


@pytest.mark.parametrize("query", QUERIES, ids=lambda factor: str(factor.key[0]))
def test_projections_are_those_of_the_matrix(query: Factor) -> None:
    """|P w|^2 with P the means of blocks, on a domain made longer."""
    dense = np.pad(query.dense().astype(float), ((0, 0), (0, 9)))
    for width in (1, 2, 4, 8, 16, 32):
        means = np.kron(np.eye(32 // width), np.full((width, width), 1 / width))
        expected = ((dense @ means) ** 2).sum(axis=1)
        assert np.allclose(projected(query, width), expected)
        assert energy(query, width) == pytest.approx(expected.sum())


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("size", [4, 16, 23, 33, 60])
def test_variances_are_those_of_the_answers(size: int, noise: Noise) -> None:
    """For sizes that fit the widths they are those of least squares; for others, of the longer domain's, and not below."""
    workload = line(Prefix(size), Identity(size), Dense(RANDOM.integers(-2, 3, (3, size))))
    for plan in (hierarchy.plan, hierarchy.plan_uniform, haar.plan):
        made = plan(workload, noise=noise)
        assert isinstance(made, Nested)
        claimed = made.variances(workload)
        assert np.allclose(claimed, own_variances(made, workload))
        least = variances(made, workload) * (2 * cost(made) if noise == "laplace" else 1)
        if size in (4, 16):
            assert np.allclose(claimed, least)
        assert (claimed >= least * (1 - 1e-9)).all()


@pytest.mark.parametrize(("factor", "weighted", "uniform", "wavelet"), [
    (AllRange(256), 8.885, 11.636, 14.871), (Prefix(256), 8.413, 9.790, 13.089), (AllRange(1024), 12.430, 16.709, 20.256)])
def test_errors_are_the_published_ones_or_below(factor: Factor, weighted: float, uniform: float, wavelet: float) -> None:
    """At epsilon = 1. The published wavelet has one weight for all scales."""
    workload = line(factor)
    assert rmse(hierarchy.plan(workload), workload) == pytest.approx(weighted, abs=1e-3)
    assert rmse(hierarchy.plan_uniform(workload), workload) <= uniform + 1e-3
    even = haar.made(workload, np.ones(len(powers(factor.n, 2))), "laplace")
    assert rmse(even, workload) == pytest.approx(wavelet, abs=1e-3)
    assert rmse(haar.plan(workload), workload) < wavelet - 0.3


def test_gaussian_trees_of_two_have_the_published_error() -> None:
    workload = line(AllRange(256))
    assert rmse(hierarchy.plan_uniform(workload, noise="gaussian"), workload) == pytest.approx(3.835, abs=1e-3)
    optimum = 2.901435
    assert optimum < rmse(hierarchy.plan(workload, noise="gaussian"), workload) < 3.44
    assert rmse(haar.plan(workload, noise="gaussian"), workload) == pytest.approx(  # both measure the same spaces
        rmse(hierarchy.plan(workload, noise="gaussian"), workload), rel=1e-4)


@pytest.mark.slow
def test_long_prefixes_need_no_matrix() -> None:
    workload = line(Prefix(65536))
    made = hierarchy.plan(workload)
    assert rmse(made, workload) == pytest.approx(20.515, abs=1e-2) and isinstance(made, Nested)
    table = RANDOM.integers(0, 9, 65536)
    exact = [block.measure(table) for block in made.blocks]
    assert np.allclose(made.reconstruct(exact, workload), np.cumsum(table), atol=1e-4)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_no_other_weights_are_better(noise: Noise) -> None:
    workload = line(Prefix(64))
    of, widths = Energies(workload), (64, 16, 4, 1)
    found = hierarchy.weighted(of, widths, noise)
    if found.widths == widths:
        scaled = np.array(found.weights)
        for _ in range(50):
            other = scaled * np.exp(RANDOM.normal(size=4) * 0.1)
            assert hierarchy._error(other, widths, of.parts(widths), noise) >= found.error * (1 - 1e-6)
    best, even = haar.plan(workload, noise=noise), powers(64, 2)
    for _ in range(50):
        assert rmse(haar.made(workload, RANDOM.uniform(0.2, 1, len(even)), noise), workload) >= rmse(best, workload) * (1 - 1e-9)


def test_levels_that_do_not_help_are_left_out() -> None:
    made = hierarchy.plan(line(Identity(64)))
    assert isinstance(made, Nested) and made.widths == (1,)
    assert rmse(made, line(Identity(64))) == pytest.approx(np.sqrt(2))


@pytest.mark.parametrize("size", [8, 13])
def test_differences_are_a_matrix(size: int) -> None:
    for width in (2, 4, 8, 16):
        factor = Differences(size, width)
        dense = factor.dense()
        assert dense.shape == factor.shape and factor.column_powers(1) == tuple(np.abs(dense).sum(axis=0)) == (1,) * size
        table, answers = RANDOM.integers(-9, 9, (3, size)), RANDOM.normal(size=(factor.rows, 2))
        assert (factor.apply(table, 1) == table @ dense.T).all()
        assert np.allclose(factor.transposed(answers), dense.T @ answers)
        assert np.allclose(factor.gram(), dense.T @ dense)


def test_what_it_is_not_for_is_refused() -> None:
    for plan in (hierarchy.plan, hierarchy.plan_uniform, haar.plan):
        assert isinstance(plan(line(Prefix(8)), np.ones(8)), Refusal)
        assert isinstance(plan(line(Prefix(3))), Refusal)
        assert isinstance(plan(line(AllRange(5000))), Refusal)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_gradient_is_that_of_small_steps(noise: Noise) -> None:
    widths, logs = (32, 8, 4, 1), np.array([0.3, -1.0, 0.0, 0.7])
    parts = Energies(line(Prefix(23), Identity(23))).parts(widths)
    _, slope = hierarchy.loss(logs, widths, parts, noise)
    for i, step in enumerate(1e-6 * np.eye(4)):
        higher, lower = (hierarchy.loss(logs + sign * step, widths, parts, noise)[0] for sign in (1, -1))
        assert slope[i] == pytest.approx((higher - lower) / 2e-6, rel=1e-6, abs=1e-8)
