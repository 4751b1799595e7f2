"""Tables fitted to noisy counts: figures in closed form, optimality against other solvers, exact answers, and degenerate inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
from bench.two_way_tables import two_way
from support.dense_algebra import line, products

from dpsql.errors import DataError, OperationalError, OptionError
from dpsql.frozen import replace
from dpsql.microdata import limits, max_fit, ols, reweight, search
from dpsql.microdata.all_fits import METHODS, fit
from dpsql.microdata.noisy_answers import NoisyAnswers, noisy_answers, query_group
from dpsql.microdata.optimality import Proposal, bounded_fit, residual
from dpsql.microdata.sparse_queries import of_workload, sums_and_entries
from dpsql.workload.domain import domain
from dpsql.workload.factors import Identity, Prefix, Total
from dpsql.workload.workload import Product, Workload

FOUR = dict.fromkeys(("sum", "rows", "columns", "cells"), 128.0)
RANDOM = np.random.default_rng(5)


def noisy_table(height: int, width: int, *, density: float = 0.2, groups: dict[str, float] = FOUR) -> tuple[NoisyAnswers, NoisyAnswers]:
    """A table with many empty cells: its exact answers, and the same with Laplace noise."""
    counts = RANDOM.integers(0, 60, (height, width)) * (RANDOM.random((height, width)) < density)
    truth = NoisyAnswers(tuple(replace(group, noise="laplace")
                               for group in two_way(counts, groups)))
    return truth, truth.with_answers(truth.answers + RANDOM.laplace(0, np.sqrt(truth.variances / 2)))


def line_of(answers: Any, variance: float = 8.0, *, total: float | None = None, spread: float = 8.0) -> NoisyAnswers:
    """Cells, and on request their total before them."""
    cells = query_group("cells", scipy.sparse.eye_array(len(answers)), answers, variance, "laplace", stage=1)
    return noisy_answers(cells) if total is None else noisy_answers(query_group("sum", np.ones((1, len(answers))), [total], spread, "laplace"), cells)


# -- closed forms


@pytest.mark.parametrize(("height", "width", "each", "total", "rows", "columns"),
                         [(10, 10, 105.785, 10578.512, 1057.851, 1057.851), (9, 24, 110.592, 23887.872, 995.328, 2654.208)])
def test_the_variances_of_least_squares_are_those_of_the_closed_form(height: int, width: int, each: float, total: float, rows: float,
                                                                     columns: float) -> None:
    _, noisy = noisy_table(height, width)
    found = ols.variances(noisy)
    parts = {name: found[at] for name, at in noisy.slices.items()}
    assert parts["sum"] == pytest.approx(each, abs=5e-4) and np.ptp(parts["cells"]) < 1e-6
    assert [parts[name].sum() for name in ("cells", "rows", "columns")] == pytest.approx([total, rows, columns], abs=5e-4)


def test_least_squares_is_the_normal_equations() -> None:
    truth, noisy = noisy_table(6, 7)
    dense = noisy.matrix.toarray()
    covariance = np.linalg.inv(dense.T @ (noisy.weights[:, None] * dense))
    assert np.allclose(fit(noisy, "ols").cells, covariance @ dense.T @ (noisy.weights * noisy.answers), atol=1e-8)
    assert np.allclose(ols.variances(noisy), np.diag(dense @ covariance @ dense.T))
    assert np.allclose(fit(truth, "ols").answers, truth.answers, atol=1e-8)


@pytest.mark.parametrize("exact", [(), ("sum",), ("sum", "rows")])
def test_variances_of_least_squares_with_exact_answers(exact: tuple[str, ...]) -> None:
    """Those of an exact answer are zero, and both ways of computing them agree."""
    _, noisy = noisy_table(4, 5, groups={**FOUR, **dict.fromkeys(exact, 0.0)})
    found = ols.variances(noisy)
    assert np.allclose(found, ols._by_inverse(noisy), atol=1e-8)
    assert all(np.allclose(found[noisy.slices[name]], 0, atol=1e-8) for name in exact)
    assert np.allclose(found[noisy.slices["cells"]], ols.cell_variances(noisy), atol=1e-8)


def test_the_sum_of_sequential_is_the_noisy_sum_or_zero() -> None:
    """So its squared error is that of the noise, 128, on every table, and no run fails."""
    for height, width, density in ((9, 24, 0.1), (10, 10, 1.0), (4, 6, 0.0)):
        for _ in range(15):
            _, noisy = noisy_table(height, width, density=density)
            found = fit(noisy, "sequential")
            assert found.answers[0] == pytest.approx(max(noisy.answers[0], 0.0), abs=1e-6) and found.certificate.holds


def test_later_groups_of_sequential_are_projections_on_simplices() -> None:
    """Rows that add up to the fitted sum: each is its noisy answer less a common number, or zero."""
    _, noisy = noisy_table(9, 24)
    found = fit(noisy, "sequential").answers[noisy.slices["rows"]]
    given = noisy.answers[noisy.slices["rows"]]
    steps = (given - found)[found > 1e-6]
    assert np.ptp(steps) < 1e-6 and (given[found <= 1e-6] <= steps[0] + 1e-6).all()
    assert found.sum() == pytest.approx(max(noisy.answers[0], 0.0), abs=1e-6)


@pytest.mark.slow
def test_the_uncertainty_principle() -> None:
    """One cell holds log d, all others nothing, epsilon is 1. Clipping errs by d^2 in the sum, sequential fitting by log^2 d in the cell,
    while its sum keeps the error of the noise. The figures are those of 1,500 runs and more."""
    told = {16: (282, 5.6, 5.5), 64: (4155, 14.4, 6.6), 256: (66249, 27.9, 7.5)}
    draw, runs = np.random.default_rng(3), 300
    found = {}
    for size in told:
        truth = np.zeros(size)
        truth[0] = np.log(size)
        errors = []
        for _ in range(runs):
            cells, total = truth + draw.laplace(0, 2, size), truth.sum() + draw.laplace(0, 2)
            clipped = fit(line_of(cells), "nnls").cells
            table = fit(line_of(cells, total=total), "sequential").cells
            errors.append([clipped.sum() - truth.sum(), table[0] - truth[0], table.sum() - truth.sum()])
        found[size] = np.mean(np.square(errors), axis=0)
        assert found[size] == pytest.approx(told[size], rel=0.35)
    sums, hot, kept = (np.array([found[size][i] for size in told]) for i in range(3))
    assert (sums[1:] / sums[:-1] > 12).all() and (sums[1:] / sums[:-1] < 20).all()  # d grows by 4
    assert (hot[1:] / hot[:-1] > 1.5).all() and (hot[1:] / hot[:-1] < 4).all() and (kept < 11).all()


# -- optimality


def by_another_solver(noisy: NoisyAnswers) -> np.ndarray:
    """Non-negative least squares by bounded-variable least squares of scipy."""
    roots = np.sqrt(noisy.weights)
    return scipy.optimize.lsq_linear(roots[:, None] * noisy.matrix.toarray(), roots * noisy.answers, bounds=(0, np.inf), method="bvls").x


@pytest.mark.parametrize(("height", "width"), [(3, 4), (9, 24), (1, 40)])
def test_the_nearest_table_is_that_of_another_solver(height: int, width: int) -> None:
    for _ in range(5):
        _, noisy = noisy_table(height, width)
        assert np.allclose(fit(noisy, "nnls").cells, by_another_solver(noisy), atol=1e-6)


@pytest.mark.parametrize("groups", [("cells",), ("sum", "rows"), ("rows", "columns"), ("sum", "rows", "columns", "cells")])
@pytest.mark.parametrize("exact", [False, True])
def test_solvers_agree_with_and_without_queries_about_cells(groups: tuple[str, ...], exact: bool) -> None:
    _, noisy = noisy_table(5, 8, groups=dict.fromkeys(groups, 128.0))
    given = np.zeros(len(noisy.answers), dtype=bool)
    given[0] = exact
    low, high = np.where(given, 17.0, -np.inf), np.where(given, 17.0, np.inf)
    problem = bounded_fit(noisy.matrix, noisy.answers, np.where(given, 0.0, noisy.weights), low=low, high=high)
    one, other = search.active_set(problem), search.dual_newton(problem)
    assert residual(problem, one).holds and residual(problem, other).holds
    assert np.allclose(noisy.matrix @ one.cells, noisy.matrix @ other.cells, atol=1e-5)


@pytest.mark.parametrize("slack", [0.5, 3.0])
def test_solvers_agree_on_answers_between_bounds(slack: float) -> None:
    _, noisy = noisy_table(5, 8)
    reach = (max_fit.least_distance(noisy) + slack) * np.sqrt(noisy.variances)
    problem = bounded_fit(noisy.matrix, noisy.answers, noisy.weights, low=noisy.answers - reach, high=noisy.answers + reach)
    one, other = search.active_set(problem), search.dual_newton(problem)
    assert residual(problem, one).holds and residual(problem, other).holds and np.allclose(one.cells, other.cells, atol=1e-5)


def test_the_certificate_fails_for_a_table_that_is_nearly_optimal() -> None:
    _, noisy = noisy_table(4, 5)
    problem = bounded_fit(noisy.matrix, noisy.answers, noisy.weights)
    best = search.dual_newton(problem)
    for change in (np.where(np.arange(20) == np.argmax(best.cells), 1e-4, 0.0), np.where(np.arange(20) == np.argmin(best.cells), 1e-4, 0.0),
                   np.full(20, -1e-4), np.full(20, np.nan)):
        assert not residual(problem, Proposal(cells=best.cells + change, multipliers=best.multipliers)).holds
    assert not residual(problem, Proposal(cells=best.cells, multipliers=best.multipliers + 1e-4)).holds


def test_the_next_solver_is_asked_and_then_an_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    _, noisy = noisy_table(4, 5)
    right = fit(noisy, "nnls")
    monkeypatch.setattr(search, "dual_newton", lambda problem: Proposal(cells=right.cells + 1, multipliers=np.zeros(len(noisy.answers))))
    second = fit(noisy, "nnls")
    assert right.solvers == ("dual Newton",) and second.solvers == ("active set",) and np.allclose(second.cells, right.cells, atol=1e-6)

    def gives_up(problem: Any) -> Proposal:
        raise RuntimeError("too many iterations")

    monkeypatch.setattr(search, "active_set", gives_up)
    with pytest.raises(OperationalError, match="no solver"):
        fit(noisy, "nnls")


# -- maximum fit


def test_no_table_is_nearer_in_the_largest_difference() -> None:
    """Against a program that knows nothing of the bound that negative answers give."""
    for density in (0.1, 1.0):
        for _ in range(5):
            _, noisy = noisy_table(5, 6, density=density)
            off = np.abs(fit(noisy, "max_fit").answers - noisy.answers) / np.sqrt(noisy.variances)
            assert off.max() == pytest.approx(max_fit.least_distance(noisy), abs=1e-5)
            assert max_fit.least_possible(noisy) <= max_fit.least_distance(noisy) + 1e-6


def test_maximum_fit_without_negative_answers_solves_the_program() -> None:
    """Cells 4 and 6 and a sum of 16: 2 more for each, 2 less for the sum; the bound of negative answers says nothing."""
    found = fit(line_of([4.0, 6.0], 8.0, total=16.0), "max_fit")
    assert np.allclose(found.cells, [6, 8], atol=1e-4) and found.answers[0] == pytest.approx(14, abs=1e-4)


# -- reweighting


def test_low_answers_and_their_weights() -> None:
    """Scale 1: among 5 answers, the first that noise is below with probability 0.99, as the largest of its place, is the fourth."""
    group = query_group("cells", np.eye(5), [0.5, -1.0, 9.0, 1.0, 8.0], 2.0, "laplace")
    low = reweight.low_answers(group)
    assert low.tolist() == [True, True, False, True, False]
    median = -np.log(2 * (1 - 0.5 ** (1 / 3)))
    assert median > 0.8 and reweight.downweight(group, low) == pytest.approx([1, 1, 1])  # the floor
    wide = query_group("cells", np.eye(5), [5.0, -10, 90, 10, 80], 200.0, "laplace")
    assert (reweight.low_answers(wide) == low).all() and reweight.downweight(wide, low) == pytest.approx(10 * median)
    normal = query_group("cells", np.eye(5), [5.0, -10, 90, 10, 80], 100.0)
    assert reweight.downweight(normal, low) == pytest.approx(10 * scipy.stats.norm.ppf(0.5 ** (1 / 3)))
    assert not reweight.low_answers(query_group("cells", np.eye(2), [90.0, 70], 2.0, "laplace")).any()
    assert reweight.low_answers(query_group("cells", np.eye(2), [0.1, 0.2], 2.0, "laplace")).all()


def test_reweighting_is_the_weighted_problem_with_the_sum_of_the_low_answers() -> None:
    """10 median for each low cell, weights 1 / (2 200 (10 median)^2), and their sum of weight 1 / (2 3 200)."""
    given = np.array([5.0, -10, 90, 10, 80])
    found = fit(noisy_answers(query_group("cells", np.eye(5), given, 200.0, "laplace")), "reweight")
    low, median = given <= 10, -np.log(2 * (1 - 0.5 ** (1 / 3)))
    weights = np.append(np.where(low, 1 / (400 * (10 * median) ** 2), 1 / 200), 1 / 1200)
    rows = np.vstack([np.eye(5), low])
    best = scipy.optimize.nnls(np.sqrt(weights)[:, None] * rows, np.sqrt(weights) * np.append(given, given[low].sum()))[0]
    assert np.allclose(found.cells, best, atol=1e-6)


# -- sizes, exact answers, degenerate inputs


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_hundred_thousand_cells(method: str) -> None:
    truth, noisy = noisy_table(200, 500, density=0.1)
    found = fit(noisy, method, whole=True)
    assert found.certificate.holds and found.kept == "answers" and (found.cells == np.rint(found.cells)).all()
    assert found.cells.sum() == pytest.approx(truth.answers[0], rel=0.05)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("whole", [False, True])
def test_exact_answers_are_kept(method: str, whole: bool) -> None:
    for exact in (("sum",), ("sum", "rows"), ("rows", "columns"), ("sum", "rows", "columns", "cells")):
        truth, noisy = noisy_table(6, 8, groups={**FOUR, **dict.fromkeys(exact, 0.0)})
        found = fit(noisy, method, whole=whole)
        off = np.abs(found.answers - truth.answers)[noisy.exact].max()
        assert off == 0 if whole else off < 1e-8
        assert method == "ols" or (found.cells >= -1e-9).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_table_is_found_where_all_answers_are_exact(method: str) -> None:
    """Nothing is weighed, so every table that has the answers is optimal, however rounding errors end."""
    draw = np.random.default_rng(1)
    for _ in range(40):
        matrix = draw.integers(0, 3, (int(draw.integers(1, 8)), int(draw.integers(2, 12))))
        matrix[:, 0] |= matrix.sum(axis=1) == 0
        counts = draw.integers(0, 10 ** int(draw.integers(1, 7)), matrix.shape[1]) * (draw.random(matrix.shape[1]) < 0.6)
        found = fit(noisy_answers(query_group("all", matrix, matrix @ counts, 0.0)), method)
        assert found.certificate.holds and np.allclose(found.answers, matrix @ counts, rtol=1e-8, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_exact_answers_that_no_table_has(method: str) -> None:
    cells = query_group("cells", np.eye(3), [1.0, 2, 3], 1.0)
    for total, part in ((5.0, 7.0), (-1.0, -2.0)):
        if method == "ols" and total < 0:
            continue  # cells may be negative
        rows = query_group("sum", [[1, 1, 1], [1, 1, 1]], [total, part], 0.0)
        with pytest.raises(DataError, match="exact answers"):
            fit(noisy_answers(rows, cells), method)
    if method != "ols":
        for rows in (query_group("sum", [[1, 1, 1], [1, 1, 0]], [5, 7.0], 0.0), query_group("one", [[1, 0, 0]], [-4.0], 0.0)):
            with pytest.raises(DataError, match="exact answers"):
                fit(noisy_answers(rows, cells), method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("whole", [False, True])
def test_degenerate_answers(method: str, whole: bool) -> None:
    negative = fit(line_of([-3.0, -5, -1], total=-8.0), method, whole=whole)
    zero = fit(line_of([0.0, 0, 0], total=0.0), method, whole=whole)
    assert np.allclose(zero.cells, 0, atol=1e-9) and (method == "ols" or np.allclose(negative.cells, 0, atol=1e-5))
    for answer in (4.0, -4.0):
        one = fit(line_of([answer], total=answer), method, whole=whole).cells
        assert one == pytest.approx(answer if method == "ols" else max(answer, 0.0), abs=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_noise_far_above_a_public_total(method: str) -> None:
    """As of a low price: residuals are those of floating-point numbers as large as the noise."""
    draw = np.random.default_rng(3)
    for size in (1e3, 1e4, 1e5) * 5:
        noisy = NoisyAnswers(two_way(draw.normal(0, size, (5, 6)), dict.fromkeys(("rows", "columns", "cells"), size**2)))
        noisy = noisy_answers(query_group("total", np.ones((1, 30)), [321.0], 0.0, stage=-1),
                              *(replace(group, answers=group.answers + draw.laplace(0, size, len(group.answers))) for group in noisy.groups))
        assert fit(noisy, method, whole=True).answers[0] == 321


@pytest.mark.parametrize("method", METHODS)
def test_large_and_small_numbers(method: str) -> None:
    """Counts of ten million beside empty cells, and variances that differ by a factor of 10^8."""
    big = line_of([1e7, -3.0, 0.5, 2e7], 1e-4, total=3e7, spread=1e4)
    found = fit(big, method)
    assert found.certificate.holds and found.cells[3] == pytest.approx(2e7, rel=1e-4)


def test_what_is_refused() -> None:
    for wrong in (np.nan, np.inf):
        with pytest.raises(ValueError, match="finite"):
            query_group("cells", np.eye(2), [1.0, wrong], 1.0)
        with pytest.raises(ValueError, match="finite"):
            query_group("cells", np.eye(2), [1.0, 2.0], [1.0, wrong])
        with pytest.raises(ValueError, match="finite"):
            query_group("cells", np.diag([1.0, wrong]), [1.0, 2.0], 1.0)
    with pytest.raises(ValueError, match="not negative"):
        query_group("cells", np.eye(2), [1.0, 2.0], -1.0)
    with pytest.raises(ValueError, match="one answer"):
        query_group("cells", np.eye(2), [1.0], 1.0)
    with pytest.raises(ValueError, match="same cells"):
        noisy_answers(query_group("a", np.eye(2), [1.0, 2], 1.0), query_group("b", np.eye(3), [1.0, 2, 3], 1.0))
    with pytest.raises(ValueError, match="its own name"):
        noisy_answers(query_group("a", np.eye(1), [1.0], 1.0), query_group("a", np.eye(1), [1.0], 1.0))
    with pytest.raises(ValueError, match="gaussian"):
        query_group("a", np.eye(1), [1.0], 1.0, "uniform")
    with pytest.raises(OptionError, match="no method best"):
        fit(line_of([1.0]), "best")


# -- workloads


@pytest.mark.parametrize("workload", [products([Identity(3), Identity(4), Identity(2)], (1, 2)), line(Prefix(6), Identity(6), Total(6))],
                         ids=["marginals", "prefix"])
def test_a_workload_becomes_the_same_queries(workload: Any) -> None:
    exact = workload.apply(np.arange(workload.domain.size, dtype=float))
    noisy = of_workload(workload, exact, np.arange(1.0, workload.rows + 1))
    assert np.allclose(noisy.matrix @ np.arange(workload.domain.size), noisy.answers)
    assert np.array_equal(noisy.answers, exact) and np.array_equal(noisy.variances, np.arange(1.0, workload.rows + 1))
    lengths = np.diff(noisy.matrix.indptr)
    assert sums_and_entries(workload) == ((lengths > 1).sum(), noisy.matrix.nnz)
    assert np.allclose(fit(noisy, "nnls").answers, exact, atol=1e-5)


def test_single_numbers_come_before_marginals_and_these_before_cells() -> None:
    """What is fitted in a stage does not depend on the order in which the parts of a workload are written."""
    parts = [Product((Identity(3), Identity(4))), Product((Total(3), Identity(4))), Product((Total(3), Total(4))), Product((Identity(3), Total(4)))]
    answers = RANDOM.normal(3, 6, 12 + 4 + 1 + 3)
    whole = Workload(domain(3, 4), tuple(parts))
    noisy = of_workload(whole, answers, np.full(20, 4.0))
    assert [group.stage for group in noisy.groups] == [2, 1, 0, 1] and [stage.sum() for stage in noisy.stages] == [1, 7, 12]
    found = fit(noisy, "sequential")
    assert found.answers[16] == pytest.approx(max(answers[16], 0.0), abs=1e-6)
    turned = of_workload(Workload(domain(3, 4), tuple(parts[i] for i in (2, 3, 1, 0))), np.concatenate([answers[16:17], answers[17:], answers[12:16], answers[:12]]),
                         np.full(20, 4.0))
    assert np.allclose(fit(turned, "sequential").cells, found.cells, atol=1e-5)


@pytest.mark.parametrize(("method", "sizes", "because"), [
    ("nnls", {"cells": 100_000, "sums": 500, "entries": 400_000}, None), ("nnls", {"cells": 1024, "sums": 5000, "entries": 10**6}, None),
    ("nnls", {"cells": 100_001, "sums": 0, "entries": 100_001}, "at most 100,000 cells, and here there are 100,001"),
    ("nnls", {"cells": 5000, "sums": 1501, "entries": 10**5}, "1,500 sums"), ("sequential", {"cells": 1024, "sums": 1501, "entries": 10**5}, "1,500 sums"),
    ("max_fit", {"cells": 60, "sums": 1830, "entries": 10**5}, "1,500 sums"), ("ols", {"cells": 2000, "sums": 1500, "entries": 2**22 + 1}, "may count at most 4,194,304")])
def test_sizes_that_take_more_than_seconds_are_named(method: str, sizes: dict[str, int], because: str | None) -> None:
    found = limits.refusal(method, **sizes)
    assert found is None if because is None else found is not None and because in found


SINGULAR = json.loads((Path(__file__).parent / "nearly_singular.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", SINGULAR, ids=lambda case: f"{case['table']}-{case['run']}")
def test_nearly_singular_stages_are_solved(case: dict[str, Any]) -> None:
    """Cells that are given by the stages before, all but a few: Newton's system of the last stage is nearly singular, and its steps
    are far too long unless a ridge grows. Of 15,000 runs on public census counts these are all that fail with one small ridge."""
    counts = np.zeros(case["shape"])
    for row, column, count in case["counts"]:
        counts[row, column] = count
    truth = NoisyAnswers(tuple(replace(group, noise="laplace") for group in two_way(counts, FOUR)))
    noisy = truth.with_answers(truth.answers + np.random.default_rng(1000 + case["run"]).laplace(0, np.sqrt(truth.variances / 2)))
    found = fit(noisy, "sequential")
    assert found.certificate.holds and found.answers[0] == pytest.approx(max(noisy.answers[0], 0.0), abs=1e-6)
