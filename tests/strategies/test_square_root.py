"""Long prefix sums: known errors, exact integers, and the formulas against matrices that are written out."""

from __future__ import annotations

import numpy as np
import pytest
from support.dense_algebra import cost, line, variances

from dpsql.strategies import ca, fitness
from dpsql.strategies.fixed_point import solve
from dpsql.strategies.least_squares import LeastSquares, one_block
from dpsql.strategies.square_root import SquareRoot, prefix_bound
from dpsql.trusted.matrices.matrices import convolved
from dpsql.workload.domain import domain
from dpsql.workload.factors import AllRange, Identity, Prefix, Ranges
from dpsql.workload.workload import Product, Workload

RANDOM = np.random.default_rng(23)


def strategy(size: int) -> LeastSquares:
    return LeastSquares(name="square root", domain=domain(size), measured=(one_block(SquareRoot(size)),))


@pytest.mark.parametrize(("size", "rmse", "largest"), [(64, 2.1277, 4.892), (256, 2.5573, 6.996), (1024, 2.9914, 9.491)])
def test_errors_are_the_known_ones(size: int, rmse: float, largest: float) -> None:
    found = strategy(size).variances(line(Prefix(size)))
    assert np.sqrt(found.mean()) == pytest.approx(rmse, abs=6e-5) and found.max() == pytest.approx(largest, abs=6e-4)


@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_the_matrix_and_all_that_is_done_with_it(size: int) -> None:
    factor = SquareRoot(size)
    matrix = factor.dense()
    root = matrix / factor.coefficients[0] / np.array(factor.scales)
    assert np.allclose(root @ root, np.tril(np.ones((size, size))), atol=1e-5)
    assert factor.column_powers(2) == tuple(int(x) for x in (matrix.astype(object) ** 2).sum(axis=0))
    assert factor.column_powers(1) == tuple(int(x) for x in matrix.astype(object).sum(axis=0))
    assert max(factor.column_powers(2)) < min(factor.column_powers(2)) * (1 + 1e-5)
    table = RANDOM.normal(size=(3, size))
    assert np.allclose(factor.apply(table, 1), table @ matrix.T) and np.allclose(factor.transposed(table, 1), table @ matrix)
    assert np.allclose(factor.solve(table @ matrix.T, 1), table)
    for query in (Prefix(size), Identity(size), AllRange(size)):
        assert np.allclose(strategy(size).variances(line(query)), variances(strategy(size), line(query)), rtol=1e-6)
    assert float(strategy(size).sensitivity.value) == pytest.approx(cost(strategy(size)))


def test_integers_are_measured_exactly() -> None:
    factor = SquareRoot(60)
    for table in (RANDOM.integers(0, 2**50, 60), np.array([(-1) ** i * 7**i for i in range(60)], dtype=object)):
        expected = [sum(int(a) * int(b) for a, b in zip(row, table, strict=True)) for row in factor.dense()]
        assert factor.apply(table).tolist() == expected
    wide = factor.apply(RANDOM.integers(0, 9, (2, 60, 3)), 1)
    assert wide.shape == (2, 60, 3) and all(isinstance(entry, int) for entry in wide.reshape(-1).tolist())


def test_convolutions_of_integers() -> None:
    for _ in range(50):
        a, b = RANDOM.integers(-(10**6), 10**6, int(RANDOM.integers(1, 9))), RANDOM.integers(-(10**9), 10**9, int(RANDOM.integers(1, 9)))
        assert convolved(a.tolist(), b.tolist()) == np.convolve(a.astype(object), b.astype(object)).tolist()
    assert convolved([0, 0], [1, 5, 2]) == [0, 0, 0, 0]


def test_answers_are_consistent_sums() -> None:
    size = 5000
    table = RANDOM.integers(0, 1000, size)
    workload = Workload(domain(size), (Product((Prefix(size),)), Product((Ranges(size, (10, 200), (4000, 4999)),))))
    exact = SquareRoot(size).apply(table).astype(float)
    assert np.allclose(strategy(size).reconstruct([exact], workload), workload.apply(table), rtol=1e-9, atol=1e-6)
    found = strategy(size).variances(workload)
    assert found.shape == (size + 2,) and found[-1] < found[:size].max() * 3


def test_the_bound_of_long_prefixes_holds_and_is_near() -> None:
    for size in (1, 2, 16, 100):
        assert prefix_bound(size) == pytest.approx(np.linalg.svd(np.tril(np.ones((size, size))), compute_uv=False).sum() ** 2 / size**2)
        assert prefix_bound(size) <= solve(line(Prefix(size)), share=0.0).lower * (1 + 1e-9)
    for plan, ratio in ((ca.plan, 1.05), (fitness.plan, 1.13)):
        made = plan(Workload(domain(3, 3000), (Product((Identity(3), Prefix(3000))),)))
        assert isinstance(made, LeastSquares) and made.certificate is not None and 1 < made.certificate.ratio < ratio
