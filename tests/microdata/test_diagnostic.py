"""The diagnosis of a release: predicted bias and errors against closed forms, and the best method for the queries named."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.microdata import ols
from dpsql.microdata.all_fits import fit
from dpsql.microdata.diagnostic import compared, diagnosed, mean_noise, simulated, with_noise
from dpsql.microdata.noisy_answers import noisy_answers, query_group

SIZE = 40


def cells_and_sum(noise: str = "gaussian"):
    """One cell of a hundred, others empty; noise of variance 9 on the cells and on the sum."""
    truth = np.zeros(SIZE)
    truth[0] = 100
    exact = noisy_answers(query_group("sum", np.ones((1, SIZE)), [100.0], 9.0, noise), query_group("cells", np.eye(SIZE), truth, 9.0, noise))
    return exact, with_noise(exact, exact.answers, np.random.default_rng(2))


@pytest.mark.parametrize(("noise", "mean"), [("gaussian", np.sqrt(2 / np.pi)), ("laplace", np.sqrt(0.5))])
def test_noise_has_the_stated_variance_and_mean_size(noise: str, mean: float) -> None:
    exact, _ = cells_and_sum(noise)
    draw = np.random.default_rng(4)
    drawn = np.concatenate([with_noise(exact, exact.answers, draw).answers - exact.answers for _ in range(600)])
    assert abs(drawn.mean()) < 0.1 and drawn.var() == pytest.approx(9, rel=0.05) and np.abs(drawn).mean() == pytest.approx(3 * mean, rel=0.03)
    assert mean_noise(exact) == pytest.approx(3 * mean)


def test_clipping_raises_the_sum_by_what_is_predicted() -> None:
    """Cells alone: of 39 empty cells about half are clipped, each by sqrt(2 / pi) standard deviations."""
    exact, _ = cells_and_sum()
    alone = noisy_answers(exact.groups[1], query_group("sum", np.ones((1, SIZE)), [100.0], 1e12))
    biases, predicted = [], []
    draw = np.random.default_rng(6)
    for _ in range(60):
        noisy = with_noise(alone, alone.answers, draw)
        found = fit(noisy, "nnls")
        biases.append(found.answers[-1] - 100)
        predicted.append(diagnosed(noisy, found, draw, runs=2).clipping_bias[-1])
    assert np.mean(predicted) == pytest.approx(39 * 3 / np.sqrt(2 * np.pi), rel=0.1) and np.mean(biases) == pytest.approx(np.mean(predicted), rel=0.2)


def test_the_diagnosis_of_non_negative_least_squares() -> None:
    """The sum is worse than under least squares, empty cells are better, and the ratios of least squares are exact."""
    exact, noisy = cells_and_sum()
    found = fit(noisy, "nnls")
    told = diagnosed(noisy, found, np.random.default_rng(1), runs=60)
    assert told.method == "nnls" and told.zeroed == (found.cells <= 1e-9).mean() > 0.5
    assert 0 in told.worse and told.simulated.bias[0] > 2 and told.simulated.error[0] > ols.variances(noisy)[0]
    assert told.ratio[2:].mean() < 0.3 and told.linear == pytest.approx(ols.variances(noisy) / 9)
    again = diagnosed(noisy, found, np.random.default_rng(1), runs=60)
    assert np.array_equal(told.ratio, again.ratio)


def test_least_squares_is_not_worse_than_itself() -> None:
    exact, noisy = cells_and_sum()
    told = simulated(noisy, fit(exact, "ols"), "ols", np.random.default_rng(1), runs=200)
    assert told.error == pytest.approx(ols.variances(noisy), rel=0.6) and told.error.mean() == pytest.approx(ols.variances(noisy).mean(), rel=0.1)
    with pytest.raises(ValueError, match="two runs"):
        simulated(noisy, fit(exact, "ols"), "ols", np.random.default_rng(1), runs=1)


def test_the_best_method_depends_on_the_queries() -> None:
    exact, _ = cells_and_sum()
    table, methods = fit(exact, "ols"), ("ols", "nnls", "sequential")
    sums = compared(exact, table, slice(0, 1), np.random.default_rng(7), methods=methods, runs=60)
    empty = compared(exact, table, np.arange(2, SIZE + 1), np.random.default_rng(7), methods=methods, runs=60)
    assert sums.best in ("ols", "sequential") and "nnls" not in sums.within and sums.errors["sequential"] == pytest.approx(9, rel=0.5)
    assert empty.best != "ols" and "ols" not in empty.within and empty.best in empty.within


def test_exact_answers_have_no_ratio() -> None:
    exact, _ = cells_and_sum()
    fixed = noisy_answers(query_group("sum", np.ones((1, SIZE)), [100.0], 0.0), exact.groups[1])
    told = diagnosed(fixed, fit(fixed, "nnls"), np.random.default_rng(1), runs=3)
    assert np.isnan(told.ratio[0]) and told.simulated.error[0] < 1e-12 and 0 not in told.worse
