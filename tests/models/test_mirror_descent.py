"""Fits to noisy marginals: beside least squares over all combinations of values, which scipy solves exactly on small domains."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy.optimize import nnls
from support.networks import MIXED, SHAPES, joint, network, summed

from dpsql.errors import Unsupported
from dpsql.frozen import replace
from dpsql.models.markov_network import MarkovNetwork
from dpsql.models.mirror_descent import fit
from dpsql.models.noisy_marginals import LEAST_TOTAL, MarginalMeasurement, combined, estimated_total
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.workload.factors import Array

SMALL = TableDomain(("a", "b", "c", "d"), (3, 4, 2, 2))
PAIRS: list[Columns] = [("a", "b"), ("c", "b"), ("a",), ("b",), ("d", "c")]
CYCLE: list[Columns] = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]


def noisy(domain: TableDomain, groups: Sequence[Columns], deviation: float, seed: int = 0, rows: float = 1000) -> list[MarginalMeasurement]:
    """Marginals of a random table with a quarter of its cells empty, with noise that is smaller for some."""
    generator = np.random.default_rng(seed)
    truth = generator.gamma(0.3, size=domain.sizes) * (generator.random(domain.sizes) < 0.75)
    truth *= rows / truth.sum()
    deviations = [deviation * (1 + at % 3) for at in range(len(groups))]
    return [MarginalMeasurement(columns=columns, variance=sd**2,
                                values=summed(domain, truth, columns) + sd * generator.standard_normal(domain.shape(columns)))
            for columns, sd in zip(groups, deviations, strict=True)]


def loss(measurements: Sequence[MarginalMeasurement], told: MarkovNetwork) -> float:
    return sum(float(((told.marginal(each.columns) - each.values) ** 2).sum()) / each.variance for each in measurements) / 2


def least(domain: TableDomain, measurements: Sequence[MarginalMeasurement], total: float) -> tuple[float, Array]:
    """The least loss of all non-negative tables with this total, and the table."""
    cells = domain.cells(domain.columns)
    units = np.eye(cells).reshape(-1, *domain.sizes)
    matrix = [np.stack([summed(domain, unit, each.columns).ravel() for unit in units], axis=1) / np.sqrt(each.variance)
              for each in measurements]
    counts = [each.values.ravel() / np.sqrt(each.variance) for each in measurements]
    weight = 1e5
    found, _ = nnls(np.concatenate([*matrix, np.full((1, cells), weight)]), np.concatenate([*counts, [weight * total]]), maxiter=10_000)
    found *= total / found.sum()
    return float(((np.concatenate(matrix) @ found - np.concatenate(counts)) ** 2).sum()) / 2, found.reshape(domain.sizes)


@pytest.mark.parametrize("deviation", [0.5, 30])
@pytest.mark.parametrize("groups", [PAIRS, CYCLE, [("c", "a", "d"), ("b",)]], ids=["nested", "cycle", "parts"])
def test_the_optimum_is_that_of_least_squares(groups: list[Columns], deviation: float) -> None:
    measured = noisy(SMALL, groups, deviation)
    total = estimated_total(measured)
    best, table = least(SMALL, measured, total)
    found = fit(SMALL, measured, to_optimum=True, iterations=20_000)
    assert found.total == total and (deviation < 1 or min(each.values.min() for each in measured) < 0)
    assert best * (1 - 1e-6) - 1e-6 <= loss(measured, found) <= best * (1 + 1e-4) + 1e-4
    for each in measured:
        np.testing.assert_allclose(found.marginal(each.columns), summed(SMALL, table, each.columns), atol=0.02 * deviation)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "nothing"])
def test_the_measured_model_is_found_again(shape: str) -> None:
    """Without noise, the distribution with these marginals and the largest entropy is the model itself."""
    truth = network(MIXED, SHAPES[shape], seed=4, total=500)
    exact = [MarginalMeasurement(columns=columns, values=truth.marginal(columns), variance=1) for columns in SHAPES[shape]]
    found = fit(MIXED, exact, to_optimum=True, iterations=2000)
    assert found.total == pytest.approx(500)
    np.testing.assert_allclose(found.marginal(MIXED.columns), 500 * joint(MIXED, truth.potentials), atol=0.02)


def test_a_warm_start_leads_to_the_same_optimum() -> None:
    measured = noisy(SMALL, CYCLE, 5)
    cold = fit(SMALL, measured, to_optimum=True, iterations=20_000)
    earlier = fit(SMALL, noisy(SMALL, [("a", "b"), ("b", "c"), ("b", "d")], 5, seed=9), to_optimum=True)
    for start in (earlier, cold):
        warm = fit(SMALL, measured, start=start, to_optimum=True, iterations=20_000)
        assert loss(measured, warm) == pytest.approx(loss(measured, cold), rel=1e-5)
        np.testing.assert_allclose(warm.marginal(("a", "d")), cold.marginal(("a", "d")), atol=0.2)
    assert loss(measured, fit(SMALL, measured, start=cold, iterations=0)) == pytest.approx(loss(measured, cold), rel=1e-12)


@pytest.mark.parametrize("ratio", [1e3, 1e6])
def test_precisions_that_differ_much(ratio: float) -> None:
    """What is measured with little precision is fitted too, and in hundreds of steps."""
    first, *others = noisy(SMALL, CYCLE, 5)
    measured = [replace(first, variance=first.variance / ratio), *others]
    best, _ = least(SMALL, measured, estimated_total(measured))
    assert loss(measured, fit(SMALL, measured, to_optimum=True, iterations=300)) <= best + 0.1
    for each in measured:
        assert ((fit(SMALL, measured).marginal(each.columns) - each.values) ** 2).mean() <= 5 * each.variance


def test_the_descent_stops_where_noise_explains_the_residuals() -> None:
    measured = noisy(SMALL, PAIRS, 10)
    early, late = fit(SMALL, measured), fit(SMALL, measured, to_optimum=True, iterations=20_000)
    assert loss(measured, late) < loss(measured, early)
    for each in measured:
        squares, cells = ((early.marginal(each.columns) - each.values) ** 2).sum() / each.variance, each.values.size
        assert squares <= cells + 2 * np.sqrt(2 * cells) + 4


def test_the_descent_stops_where_what_is_unexplained_stays() -> None:
    """Two marginals that contradict each other by far more than their noise."""
    one = MarginalMeasurement(columns=("c",), values=np.array([400.0, 600]), variance=1)
    other = MarginalMeasurement(columns=("c", "d"), values=np.array([[300.0, 300], [200, 200]]), variance=1)
    found = fit(SMALL, [one, other], iterations=10**6)
    np.testing.assert_allclose(found.marginal(("c",)), [500 - 100 / 3, 500 + 100 / 3], atol=1)


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_never_rises(seed: int) -> None:
    measured = noisy(SMALL, CYCLE, 3, seed=seed)
    losses = [loss(measured, fit(SMALL, measured, to_optimum=True, iterations=many)) for many in range(0, 40, 3)]
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0] / 2


def test_columns_that_are_in_no_measurement() -> None:
    measured = noisy(MIXED, [("c",), ("a", "b")], 1)
    found = fit(MIXED, measured)
    np.testing.assert_allclose(found.marginal(("e", "f")), np.full((3, 2), found.total / 6))
    product = found.marginal(("a", "b"))[:, :, None] * found.marginal(("c",)) / found.total
    np.testing.assert_allclose(found.marginal(("a", "b", "c")), product, rtol=1e-9)
    empty = fit(MIXED, [], total=72)
    np.testing.assert_allclose(empty.marginal(MIXED.columns), np.full(MIXED.sizes, 0.5))
    with pytest.raises(ValueError, match="number of rows"):
        fit(MIXED, [])
    with pytest.raises(ValueError, match="positive"):
        fit(MIXED, measured, total=0)


def test_one_column_and_columns_of_one_value() -> None:
    domain = TableDomain(("x",), (4,))
    measured = MarginalMeasurement(columns=("x",), values=np.array([30.0, -5, 12, 3]), variance=4)
    found = fit(domain, [measured], total=40, to_optimum=True).marginal(("x",))
    np.testing.assert_allclose(found, [28 + 1 / 3, 0, 10 + 1 / 3, 1 + 1 / 3], atol=1e-2)
    single = TableDomain(("one", "two"), (1, 1))
    found = fit(single, [MarginalMeasurement(columns=("two", "one"), values=np.array([[17.5]]), variance=1)]).marginal(("one", "two"))
    np.testing.assert_allclose(found, [[17.5]])


def test_more_cliques_than_are_measured() -> None:
    measured = noisy(SMALL, [("a", "b"), ("c",)], 4)
    wide = fit(SMALL, measured, cliques=[("a", "c", "d")])
    assert wide.tree.holding(("a", "c", "d")) and not fit(SMALL, measured).tree.holding(("a", "c"))
    np.testing.assert_allclose(wide.marginal(SMALL.columns), fit(SMALL, measured).marginal(SMALL.columns), atol=1e-9)


def test_impossible_combinations() -> None:
    zeros = {("b", "a"): np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 0, 0]]), ("c", "d"): np.array([[0, 1], [0, 0]]),
             ("d", "c"): np.array([[0, 1], [1, 0]])}
    measured = noisy(SMALL, PAIRS, 10)
    for start in (None, fit(SMALL, measured)):
        found = fit(SMALL, measured, impossible=zeros, start=start, to_optimum=True)
        for columns, table in zeros.items():
            assert (found.marginal(columns)[table == 1] == 0).all()
        assert (found.marginal(("b", "a"))[zeros["b", "a"] == 0] > 0).all()
        assert found.marginal(()) == pytest.approx(found.total)
    with pytest.raises(ValueError, match="no combination"):
        fit(SMALL, measured, impossible={("c",): np.ones(2)})
    with pytest.raises(ValueError, match="shape"):
        fit(SMALL, measured, impossible={("c", "a"): np.ones((3, 2))})


def test_what_is_too_large_is_not_made() -> None:
    domain = TableDomain(tuple("abcdefgh"), (30,) * 8)
    with pytest.raises(Unsupported, match="a clique of the model has 30 x 30"):
        fit(domain, [], total=1, cliques=[domain.columns])
    with pytest.raises(Unsupported, match="a marginal of the model"):
        fit(domain, [], total=1).marginal(domain.columns)


# -- the measurements themselves


def test_measurements_of_one_marginal_are_averaged_by_their_precision() -> None:
    first = MarginalMeasurement(columns=("c", "a"), values=np.arange(6.0).reshape(2, 3), variance=1)
    second = MarginalMeasurement(columns=("a", "c"), values=np.full((3, 2), 10.0), variance=4)
    both, other = combined(SMALL, [first, MarginalMeasurement(columns=("b",), values=np.ones(4), variance=2), second])
    assert (both.columns, both.variance, other.columns) == (("a", "c"), 0.8, ("b",))
    np.testing.assert_allclose(both.values, 0.8 * first.values.T + 2)


def test_the_total_is_the_mean_weighted_by_inverse_variances() -> None:
    one = MarginalMeasurement(columns=("c",), values=np.array([40.0, 60]), variance=1)  # of variance 2
    other = MarginalMeasurement(columns=("a", "b"), values=np.full((3, 4), 10.0), variance=0.5)  # of variance 6
    assert estimated_total([one, other]) == pytest.approx((100 / 2 + 120 / 6) / (1 / 2 + 1 / 6))
    below = MarginalMeasurement(columns=("c",), values=np.array([-40.0, 6]), variance=100)
    assert estimated_total([below]) == LEAST_TOTAL
    assert fit(SMALL, [below]).marginal(("c", "a")).sum() == pytest.approx(LEAST_TOTAL)


@pytest.mark.parametrize(("columns", "values", "variance"), [
    ((), 1.0, 1), (("a", "a"), np.ones((3, 3)), 1), (("c",), np.ones(2), 0), (("c",), np.ones(2), np.inf), (("c",), [1, np.nan], 1)])
def test_what_is_no_measurement(columns: Columns, values: Array, variance: float) -> None:
    with pytest.raises(ValueError):
        MarginalMeasurement(columns=columns, values=np.asarray(values), variance=variance)


def test_an_array_of_another_shape() -> None:
    with pytest.raises(ValueError, match="the marginal of a, c has the shape"):
        fit(SMALL, [MarginalMeasurement(columns=("a", "c"), values=np.ones((2, 3)), variance=1)])
