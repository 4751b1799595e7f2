"""The diagnosis of a release: predicted bias and errors against closed forms, and the best method for the queries named."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from dpsql.errors import OperationalError
from dpsql.microdata import diagnostic, ols
from dpsql.microdata.all_fits import fit
from dpsql.microdata.diagnosis_lines import after, before
from dpsql.microdata.diagnostic import (
    clipping_bias,
    diagnosed,
    independent_errors,
    least_error,
    mean_noise,
    shapes,
    simulated,
    zeroed,
)
from dpsql.microdata.fitted import FittedTable
from dpsql.microdata.noisy_answers import NoisyAnswers, noisy_answers, query_group

SIZE = 40


def cells_and_sum(noise: str = "gaussian") -> tuple[NoisyAnswers, NoisyAnswers]:
    """One cell of a hundred, others empty; noise of variance 9 on the cells and on the sum."""
    truth = np.zeros(SIZE)
    truth[0] = 100
    exact = noisy_answers(query_group("sum", np.ones((1, SIZE)), [100.0], 9.0, noise), query_group("cells", np.eye(SIZE), truth, 9.0, noise, stage=1))
    return exact, exact.with_answers(exact.answers + independent_errors(exact, np.random.default_rng(2))())


@pytest.mark.parametrize(("noise", "mean"), [("gaussian", np.sqrt(2 / np.pi)), ("laplace", np.sqrt(0.5))])
def test_noise_has_the_stated_variance_and_mean_size(noise: str, mean: float) -> None:
    exact, _ = cells_and_sum(noise)
    errors = independent_errors(exact, np.random.default_rng(4))
    drawn = np.concatenate([errors() for _ in range(600)])
    assert abs(drawn.mean()) < 0.1 and drawn.var() == pytest.approx(9, rel=0.05) and np.abs(drawn).mean() == pytest.approx(3 * mean, rel=0.03)
    assert mean_noise(exact) == pytest.approx(3 * mean)


def test_clipping_raises_the_sum_by_what_is_predicted() -> None:
    """Cells alone: of 39 empty cells about half are clipped, each by sqrt(2 / pi) standard deviations."""
    exact, _ = cells_and_sum()
    alone = noisy_answers(exact.groups[1], query_group("sum", np.ones((1, SIZE)), [100.0], 1e12))
    biases, predicted = [], []
    errors = independent_errors(alone, np.random.default_rng(6))
    for _ in range(60):
        noisy = alone.with_answers(alone.answers + errors())
        found = fit(noisy, "nnls")
        biases.append(found.answers[-1] - 100)
        predicted.append(clipping_bias(noisy, found)[-1])
    assert np.mean(predicted) == pytest.approx(39 * 3 / np.sqrt(2 * np.pi), rel=0.1) and np.mean(biases) == pytest.approx(np.mean(predicted), rel=0.2)


def test_the_diagnosis_of_non_negative_least_squares() -> None:
    """The sum is worse than under least squares, and so is the cell that has rows; all others, which are empty, are better."""
    exact, noisy = cells_and_sum()
    found = fit(noisy, "nnls")
    told = diagnosed(noisy, exact.answers, "nnls", independent_errors(noisy, np.random.default_rng(1)), runs=100)
    total, cells = told.groups
    assert told.method == "nnls" and zeroed(found) == (found.cells <= 1e-9).mean() > 0.5
    assert total.worse == 1 and total.bias > 2 and total.ratio > ols.variances(noisy)[0] / 9 and total.best[0] != "nnls"
    assert cells.ratio < 0.3 and cells.worse == 1 and 0 < cells.bias == pytest.approx(total.bias / SIZE) and "ols" not in cells.best
    again = diagnosed(noisy, exact.answers, "nnls", independent_errors(noisy, np.random.default_rng(1)), runs=100)
    assert again.groups == told.groups


def test_simulated_errors_of_least_squares_are_its_variances() -> None:
    exact, noisy = cells_and_sum()
    errors = independent_errors(noisy, np.random.default_rng(1))
    told = simulated(noisy, exact.answers, errors, methods=("ols",), runs=200)["ols"]
    assert told.error == pytest.approx(ols.variances(noisy), rel=0.6) and told.error.mean() == pytest.approx(ols.variances(noisy).mean(), rel=0.1)
    assert not told.worse(told).any() and np.abs(told.bias).max() < 1.2
    with pytest.raises(ValueError, match="two runs"):
        simulated(noisy, exact.answers, errors, runs=1)


def test_the_best_method_depends_on_the_queries() -> None:
    exact, _ = cells_and_sum()
    told = simulated(exact, exact.answers, independent_errors(exact, np.random.default_rng(7)), methods=("ols", "nnls", "sequential"), runs=60)
    sums = least_error({name: each.losses(slice(0, 1)) for name, each in told.items()})
    empty = least_error({name: each.losses(slice(2, SIZE + 1)) for name, each in told.items()})
    assert sums[0] in ("ols", "sequential") and "nnls" not in sums and told["sequential"].error[0] == pytest.approx(9, rel=0.5)
    assert empty[0] != "ols" and "ols" not in empty


def test_exact_answers_have_no_ratio_and_no_error() -> None:
    exact, _ = cells_and_sum()
    fixed = noisy_answers(query_group("sum", np.ones((1, SIZE)), [100.0], 0.0), exact.groups[1])
    told = diagnosed(fixed, exact.answers, "nnls", independent_errors(fixed, np.random.default_rng(1)), runs=3)
    assert np.isnan(told.groups[0].ratio) and told.groups[0].worse == 0 and abs(told.groups[0].bias) < 1e-6


def test_a_fit_that_fails_counts_as_the_noisy_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a statement, which then returns what was measured."""
    exact, _ = cells_and_sum()

    def failing(noisy: NoisyAnswers, method: str) -> FittedTable:
        raise OperationalError("no table", code="not-optimal")

    monkeypatch.setattr(diagnostic, "fit", failing)
    told = simulated(exact, exact.answers, independent_errors(exact, np.random.default_rng(1)), methods=("nnls",), runs=100)["nnls"]
    assert told.error.mean() == pytest.approx(9, rel=0.1)


def test_tables_of_public_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is looked at but the variances, and the number of rows where it is public."""
    monkeypatch.setattr(diagnostic, "MOST_RUNS", 10)
    exact, noisy = cells_and_sum()
    told = dict(shapes(noisy, None))
    assert list(told) == ["no rows", "120 rows, spread evenly", "120 rows, all in one cell"]
    assert [cells.sum() for cells in told.values()] == [0, 120, 120] and np.ptp(told["120 rows, spread evenly"]) == 0
    assert list(dict(shapes(noisy, 4000.0))) == ["4,000 rows, spread evenly", "4,000 rows, all in one cell"]
    lines = before(noisy, "nnls", independent_errors(noisy, np.random.default_rng(3)), {"sum": "the total"}, None)
    assert lines == before(exact, "nnls", independent_errors(noisy, np.random.default_rng(3)), {"sum": "the total"}, None)
    assert len(lines) == 3 and lines[0].startswith("nnls if there are no rows: squared errors of the total ") and "worse than by least squares" in lines[0]


def test_large_tables_are_told_without_a_simulation() -> None:
    size = 2000
    cells = noisy_answers(query_group("cells", scipy.sparse.eye_array(size), np.random.default_rng(1).normal(0, 4, size), 16.0),
                          query_group("sum", np.ones((1, size)), [0.0], 16.0))
    errors = independent_errors(cells, np.random.default_rng(1))
    assert before(cells, "nnls", errors, {}, None) == ()
    line, = after(cells, fit(cells, "nnls"), errors, {})
    assert "of 2,000 cells are fitted at 0. Clipping as many raises their sum by about" in line
