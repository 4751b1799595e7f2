"""The certified fixed point: published optima, bounds below values always, and mechanisms that are what they claim."""

from __future__ import annotations

import numpy as np
import pytest
from support.dense_algebra import line, products

from dpsql.strategies.fixed_point import solve
from dpsql.strategies.spectrum import eigh, exact_spectrum, spectrum
from dpsql.workload.domain import domain
from dpsql.workload.factors import AllRange, Dense, Identity, Prefix, Ranges, Total
from dpsql.workload.workload import Product, Workload, joined

RANDOM = np.random.default_rng(11)


def explicit(workload: Workload, matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Variances and squared column lengths of a measured matrix, by the definition."""
    queries = workload.dense().astype(float)
    inverse = np.linalg.pinv(matrix)
    assert np.allclose(queries @ inverse @ matrix, queries, atol=1e-7 * np.abs(queries).max())
    return ((queries @ inverse) ** 2).sum(axis=1), (matrix**2).sum(axis=0)


@pytest.mark.parametrize(("size", "cost"), [(2, 4 / 3), (3, 1.570503), (4, 1.758601), (5, 1.916098), (8, 2.281561), (10, 2.471268),
                                            (16, 2.905253), (32, 3.630723), (64, 4.457869), (100, 5.043965), (128, 5.386087)])
def test_prefixes_meet_targets_at_the_known_cost(size: int, cost: float) -> None:
    found = solve(line(Prefix(size)), gap=2e-6)
    assert found.lower <= cost * (1 + 1e-6) and found.upper >= cost * (1 - 1e-6) and found.gap <= 2e-6
    variances, norms = explicit(line(Prefix(size)), found.matrix)
    assert norms.max() == pytest.approx(1) and variances.max() == pytest.approx(found.upper, rel=1e-6)


@pytest.mark.parametrize(("size", "cost"), [(4, 1.911978), (8, 2.677192), (16, 3.643621), (64, 6.19328)])
def test_all_ranges_meet_targets_at_the_known_cost(size: int, cost: float) -> None:
    found = solve(line(AllRange(size)), gap=1e-5)
    assert found.lower == pytest.approx(cost, rel=1e-5) and found.gap <= 1e-5


@pytest.mark.parametrize(("factor", "rmse"), [(Prefix(8), 1.494414), (Prefix(32), 1.892086), (Prefix(128), 2.311001), (AllRange(8), 1.495031),
                                              (AllRange(32), 2.014877), (AllRange(128), 2.598991)])
def test_the_least_total_variance_is_the_known_one(factor: Prefix | AllRange, rmse: float) -> None:
    found = solve(line(factor), share=0.0, gap=1e-6)
    assert np.sqrt(found.lower) == pytest.approx(rmse, abs=1e-6) and found.gap <= 1e-6
    variances, norms = explicit(line(factor), found.matrix)
    assert variances.mean() * norms.max() == pytest.approx(found.upper, rel=1e-6)


def random_workload() -> Workload:
    kind = RANDOM.integers(4)
    if kind == 0:
        size = int(RANDOM.integers(2, 20))
        ends = np.sort(RANDOM.integers(0, size, (int(RANDOM.integers(1, 40)), 2)), axis=1)
        return line(Ranges(size, tuple(ends[:, 0].tolist()), tuple(ends[:, 1].tolist())), Total(size))
    if kind == 1:
        return line(Dense(RANDOM.integers(-3, 4, (int(RANDOM.integers(2, 25)), int(RANDOM.integers(2, 15))))))
    if kind == 2:
        return line(Dense(RANDOM.normal(size=(int(RANDOM.integers(2, 8)), 15))))
    return joined(products([Prefix(3), Identity(4), AllRange(2)], (1, 2)))


def test_bounds_are_below_values_whatever_is_asked(effort: float) -> None:
    for _ in range(int(60 * effort)):
        workload = random_workload()
        targets = RANDOM.uniform(0.2, 5, workload.rows)
        share = float(RANDOM.choice([0.0, 0.4, 1.0]))
        base = RANDOM.uniform(0.1, 1, workload.rows)
        base *= (1 - share) / base.sum()
        for evaluations in (1, 4, 400):
            found = solve(workload, targets=targets, base=base, share=share, gap=1e-4, evaluations=evaluations)
            variances, norms = explicit(workload, found.matrix)
            ratios = variances / targets
            assert found.lower <= (base @ ratios + share * ratios.max()) * norms.max() * (1 + 1e-9)
        assert found.gap < 2e-4


def test_any_two_probability_vectors_give_a_bound_of_any_mechanism() -> None:
    for _ in range(30):
        queries = RANDOM.normal(size=(6, 5))
        p, q = RANDOM.dirichlet(np.ones(6)), RANDOM.dirichlet(np.ones(5))
        bound = np.linalg.svd(np.sqrt(p)[:, None] * queries * np.sqrt(q), compute_uv=False).sum() ** 2
        variances, norms = explicit(line(Dense(queries)), RANDOM.normal(size=(7, 5)))
        assert bound <= variances.max() * norms.max() and bound <= (p @ variances) * norms.max()
        assert solve(line(Dense(queries)), gap=1e-6).upper >= bound * (1 - 1e-9)


def test_fewer_queries_than_cells_are_solved_from_their_own_side() -> None:
    queries = RANDOM.normal(size=(5, 40))
    short = solve(line(Dense(queries)), gap=1e-6)
    stacked = solve(line(Dense(queries), Dense(queries[:1])), gap=1e-6)  # two factors: solved from the side of the cells
    assert short.lower == pytest.approx(stacked.lower, rel=3e-6)
    variances, norms = explicit(line(Dense(queries)), short.matrix)
    assert variances.max() * norms.max() <= short.lower * (1 + 2e-6)


def test_queries_and_cells_that_hardly_count_are_still_measured() -> None:
    """Cell 3 is told from the others by one query only, which is far within its target: neither has any weight in the dual."""
    queries = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1]])
    targets = np.array([1.0, 1.0, 1.0, 1e3])
    found = solve(line(Dense(queries)), targets=targets, gap=1e-5)
    variances, norms = explicit(line(Dense(queries)), found.matrix)
    assert (variances / targets).max() * norms.max() <= found.lower * (1 + 1e-4)
    assert found.lower == pytest.approx(1.570503, rel=1e-4)


def test_of_two_queries_that_are_nearly_the_same_one_loses_all_weight() -> None:
    queries = np.array([[0, -2], [-3, -2], [3, 2]])
    targets = np.array([2.05370394, 3.36676526, 3.37344113])
    found = solve(line(Dense(queries)), targets=targets, gap=1e-5)
    alone = solve(line(Dense(queries[:2])), targets=targets[:2], gap=1e-5)
    assert found.gap <= 1e-5 and found.lower == pytest.approx(alone.lower, rel=2e-5) and found.evaluations < 200


def test_limits_of_cells_count() -> None:
    limits = np.array([1.0, 1.0, 0.25, 0.25])
    found = solve(line(Identity(4)), limits=limits, gap=1e-6)
    variances, norms = explicit(line(Identity(4)), found.matrix)
    assert found.lower == pytest.approx(4, rel=1e-5)
    assert (norms / limits).max() == pytest.approx(1) and variances.max() <= 4 * (1 + 1e-4)


def test_a_share_of_both_aims_lies_between_them() -> None:
    workload = Workload(domain(20), (Product((Prefix(20),)), Product((Identity(20),))))
    largest, mean = solve(workload, gap=1e-6), solve(workload, share=0.0, gap=1e-6)
    both = solve(workload, share=0.5, gap=1e-6)
    variances, norms = explicit(workload, both.matrix)
    assert (0.5 * variances.max() + 0.5 * variances.mean()) * norms.max() == pytest.approx(both.lower, rel=1e-5)
    assert variances.max() * norms.max() > largest.lower and variances.mean() * norms.max() > mean.lower
    at_largest = explicit(workload, largest.matrix)
    assert 0.5 * (at_largest[0].max() + at_largest[0].mean()) > both.lower


@pytest.mark.parametrize("size", [64, 65, 90])
def test_halves_of_a_mirrored_matrix_have_its_eigenvectors(size: int) -> None:
    matrix = RANDOM.normal(size=(size, size))
    matrix = matrix @ matrix.T
    matrix = matrix + matrix[::-1, ::-1]
    values, vectors = eigh(matrix)
    assert np.allclose(values, np.linalg.eigvalsh(matrix))
    assert np.allclose(vectors.T @ vectors, np.eye(size)) and np.allclose(matrix @ vectors, vectors * values)


def test_spectra_of_gram_and_matrix_agree() -> None:
    matrix, weights = RANDOM.normal(size=(9, 6)), RANDOM.uniform(0.1, 2, 6)
    fast, slow = spectrum(matrix.T @ matrix, weights), exact_spectrum(matrix, weights)
    singular = np.linalg.svd(matrix * np.sqrt(weights), compute_uv=False)
    assert np.allclose(np.sort(fast.s), np.sort(singular)) and np.allclose(np.sort(slow.s), np.sort(singular))
    assert np.allclose(fast.form(1.0), slow.form(1.0)) and np.allclose(fast.norms, slow.norms)
    assert 0 < fast.lost < 1e-12 * singular.sum()
