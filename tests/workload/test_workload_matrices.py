"""Implicit matrices do what the same matrices do when they are written out."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.errors import Unsupported
from dpsql.trusted.matrices.matrices import exact_column_powers
from dpsql.workload.domain import domain
from dpsql.workload.factors import AllRange, Dense, Factor, Identity, Prefix, Ranges, Total
from dpsql.workload.workload import JoinedFactor, Product, Workload, joined, reduced

RANDOM = np.random.default_rng(3)
FACTORS = [Identity(5), Total(5), Prefix(5), AllRange(5), Ranges(5, (0, 2, 1), (3, 2, 4)),
           Dense(np.array([[1, -2, 0, 3, 0], [0, 1, 1, 0, 0]])), Dense(RANDOM.normal(size=(4, 5)))]


FACTORS.insert(0, JoinedFactor(Product((Prefix(1), Ranges(5, (0, 2), (3, 2))))))


def named(factor: Factor) -> str:
    return f"{type(factor).__name__}{factor.rows}"


def written(factor: Factor) -> np.ndarray:
    """The matrix by the definition of its kind, not by its own `dense`."""
    n = factor.n
    match factor:
        case Identity():
            rows = [[i] for i in range(n)]
        case Total():
            rows = [range(n)]
        case Prefix():
            rows = [range(i + 1) for i in range(n)]
        case AllRange():
            rows = [range(i, j + 1) for i in range(n) for j in range(i, n)]
        case Ranges():
            rows = [range(low, high + 1) for low, high in zip(factor.lows, factor.highs, strict=True)]
        case JoinedFactor():
            return written(factor.product.factors[1])
        case Dense():
            return np.array(factor.matrix, dtype=float)
    return np.array([[float(j in row) for j in range(n)] for row in rows])


@pytest.mark.parametrize("factor", FACTORS, ids=named)
def test_a_factor_acts_as_its_matrix(factor: Factor) -> None:
    matrix = written(factor)
    assert factor.shape == matrix.shape
    assert np.array_equal(factor.dense(), matrix)
    for axis in (0, 1, 2):
        shape = [2, 3, 4]
        shape[axis] = factor.n
        table = RANDOM.normal(size=shape)
        assert np.allclose(factor.apply(table, axis), np.moveaxis(np.tensordot(matrix, table, (1, axis)), 0, axis))
        shape[axis] = factor.rows
        answers = RANDOM.normal(size=shape)
        assert np.allclose(factor.transposed(answers, axis), np.moveaxis(np.tensordot(matrix.T, answers, (1, axis)), 0, axis))
    assert np.allclose(factor.row_norms2(), (matrix**2).sum(axis=1))
    assert np.allclose(factor.gram(), matrix.T @ matrix)


@pytest.mark.parametrize("factor", FACTORS, ids=named)
def test_batches_of_weights_and_kernels(factor: Factor) -> None:
    matrix = written(factor)
    weights = RANDOM.random((3, 2, factor.rows))
    grams = factor.gram(weights)
    kernels = RANDOM.normal(size=(3, 2, factor.n, factor.n))
    kernels = kernels + np.swapaxes(kernels, -1, -2)
    forms = factor.quadratic(kernels)
    for i in range(3):
        for j in range(2):
            assert np.allclose(grams[i, j], matrix.T @ np.diag(weights[i, j]) @ matrix)
            assert np.allclose(forms[i, j], np.diag(matrix @ kernels[i, j] @ matrix.T))


@pytest.mark.parametrize("factor", FACTORS[:-1], ids=named)
def test_integers_stay_exact(factor: Factor) -> None:
    huge = np.array([3**70, -(5**40), 7, 0, 11**30], dtype=object)
    expected = [sum(int(a) * b for a, b in zip(row, huge.tolist(), strict=True)) for row in written(factor)]
    assert factor.apply(huge).tolist() == expected
    for power in (1, 2):
        assert factor.column_powers(power) == tuple(int(x) for x in (np.abs(written(factor)) ** power).sum(axis=0))


def test_column_powers_do_not_overflow() -> None:
    matrix = np.full((9, 1), 2**40)
    assert exact_column_powers(matrix, 2) == (9 * 2**80,)
    with pytest.raises(ValueError, match="integer"):
        exact_column_powers(np.ones((2, 2)), 2)


def stacked() -> Workload:
    return Workload(domain(3, 2, 5), (Product((Identity(3), Total(2), Prefix(5))), Product((Total(3), Identity(2), AllRange(5))),
                                      Product((Dense(np.array([[1, -1, 0]])), Dense(np.array([[2, 3]])), Total(5)))))


def test_a_workload_acts_as_its_matrix() -> None:
    workload = stacked()
    matrix = np.concatenate([np.kron(np.kron(*map(written, part.factors[:2])), written(part.factors[2])) for part in workload.parts])
    assert workload.rows == len(matrix) == 15 + 30 + 1
    assert np.array_equal(workload.dense(), matrix)
    table, answers, weights = RANDOM.normal(size=30), RANDOM.normal(size=46), RANDOM.random(46)
    assert np.allclose(workload.apply(table), matrix @ table)
    assert np.allclose(workload.transposed(answers), matrix.T @ answers)
    assert np.allclose(workload.gram(), matrix.T @ matrix)
    assert np.allclose(workload.gram(weights), matrix.T @ np.diag(weights) @ matrix)
    kernel = RANDOM.normal(size=(30, 30))
    kernel = kernel @ kernel.T
    assert np.allclose(workload.quadratic(kernel), np.diag(matrix @ kernel @ matrix.T))
    assert np.allclose(workload.row_norms2(), (matrix**2).sum(axis=1))
    assert [part.axes for part in workload.parts] == [(0, 2), (1, 2), (0, 1)]


def test_cells_in_one_line_are_asked_the_same() -> None:
    workload = stacked()
    flat, matrix = joined(workload), workload.dense()
    table, answers, weights = RANDOM.normal(size=30), RANDOM.normal(size=46), RANDOM.random(46)
    assert flat.domain.shape == (30,) and np.array_equal(flat.dense(), matrix)
    assert np.allclose(flat.apply(table), matrix @ table) and np.allclose(flat.transposed(answers), matrix.T @ answers)
    assert np.allclose(flat.gram(weights), matrix.T @ np.diag(weights) @ matrix)
    kernel = RANDOM.normal(size=(30, 30))
    assert np.allclose(flat.quadratic(kernel + kernel.T), np.diag(matrix @ (kernel + kernel.T) @ matrix.T))


def test_fingerprints_tell_workloads_apart() -> None:
    assert stacked().fingerprint == stacked().fingerprint
    first, second, third = stacked().parts
    assert Workload(domain(3, 2, 5), (second, first, third)).fingerprint != stacked().fingerprint
    other = Product((third.factors[0], Dense(np.array([[2, 4]])), Total(5)))
    assert Workload(domain(3, 2, 5), (first, second, other)).fingerprint != stacked().fingerprint


def test_what_no_query_tells_apart_is_merged() -> None:
    first = Product((Ranges(8, (1, 3), (4, 4)), Dense(np.array([[1, 1, 0, 2]]))))
    second = Product((Total(8), Dense(np.array([[0, 0, 0, 1]]))))
    workload = Workload(domain(8, 4), (first, second))
    small = reduced(workload)
    assert small.classes[0].tolist() == [0, 1, 1, 2, 2, 0, 0, 0]
    assert small.classes[1].tolist() == [0, 0, -1, 1]
    assert small.workload.domain.shape == (3, 2)
    table = RANDOM.integers(0, 9, size=(8, 4))
    assert np.array_equal(small.workload.apply(small.table(table)), workload.apply(table))
    columns = {tuple(column) for column in small.workload.dense().T.tolist()}
    assert columns == {tuple(column) for column in workload.dense().T.tolist()}


def test_nothing_is_merged_that_can_be_told_apart() -> None:
    workload = stacked()
    assert reduced(workload).workload.fingerprint == workload.fingerprint


def test_dense_matrices_of_large_domains_are_refused() -> None:
    workload = Workload(domain(*[10] * 20), (Product((Prefix(10), *(Total(10) for _ in range(19)))),))
    assert workload.domain.size == 10**20 and workload.rows == 10
    with pytest.raises(Unsupported, match=r"1e\+20"):
        workload.gram()
    with pytest.raises(Unsupported, match="4096"):
        workload.dense()
