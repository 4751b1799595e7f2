"""Projections on noisy counts: of histograms and of weighted rows, by the conditions of the optimum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpsql.models import entropy_projection
from dpsql.models.conditional_draws import Allowed
from dpsql.models.entropy_projection import CellMeasurement, projected
from dpsql.models.joint_histogram import JointHistogram
from dpsql.models.noisy_marginals import MarginalMeasurement
from dpsql.models.table_domain import TableDomain
from dpsql.models.weighted_rows import WeightedRows, counted_rows

DOMAIN = TableDomain(("a", "b", "c"), (3, 4, 2))
TRUE = np.random.default_rng(5).gamma(0.8, 50, DOMAIN.sizes)
ROWS = np.stack(np.unravel_index(np.arange(24), DOMAIN.sizes), axis=1)
TOTAL = float(TRUE.sum())
MODELS: dict[str, Any] = {
    "histogram": JointHistogram(domain=DOMAIN, counts=np.ones(DOMAIN.sizes)),
    "rows": WeightedRows(domain=DOMAIN, places=ROWS, weights=np.ones(24)),
}


def truth(columns: tuple[str, ...]) -> Any:
    return JointHistogram(domain=DOMAIN, counts=TRUE).marginal(columns)


def measured(columns: tuple[str, ...], variance: float, noise: np.random.Generator | None = None) -> MarginalMeasurement:
    values = truth(columns)
    return MarginalMeasurement(columns=columns, values=values + (0 if noise is None else noise.normal(0, math.sqrt(variance), values.shape)),
                               variance=variance)


@pytest.mark.parametrize("name", MODELS)
def test_without_noise_all_counts_are_met_exactly_and_products_are_kept(name: str) -> None:
    """Two marginals that share a column: the projection of a uniform start is the product of the two over that column."""
    made = projected(MODELS[name], [measured(("a", "b"), 1e-6), measured(("c", "b"), 1e-6)], worth=1.0, total=TOTAL)
    assert np.allclose(made.marginal(("a", "b")), truth(("a", "b")), atol=0.01) and made.total == pytest.approx(TOTAL)
    product = np.einsum("ab,cb->abc", truth(("a", "b")), truth(("c", "b"))) / truth(("b",))[None, :, None]
    assert np.allclose(made.marginal(("a", "b", "c")), product, atol=0.02)


def test_weighted_rows_and_histograms_agree_where_all_rows_are_there() -> None:
    noise = np.random.default_rng(1)
    found = [measured(("a",), 9.0, noise), measured(("b", "c"), 400.0, noise), CellMeasurement(columns=("a", "c"), cell=(1, 0), value=90.0, variance=16.0)]
    one, other = (projected(model, found, worth=30.0, total=TOTAL).marginal(("a", "b", "c")) for model in MODELS.values())
    assert np.allclose(one, other)


def test_the_optimum_balances_noise_and_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The derivative of the loss vanishes: log(w / start) worth / N is the sum of residuals over variances, but for a constant."""
    monkeypatch.setattr(entropy_projection, "MOST_RAISED", 0)
    monkeypatch.setattr(entropy_projection, "FIRST_SWEEPS", 2000)
    monkeypatch.setattr(entropy_projection, "CLOSE", 1e-9)
    noise = np.random.default_rng(2)
    found = [measured(("a", "b"), 900.0, noise), measured(("b", "c"), 100.0, noise)]
    made = projected(MODELS["histogram"], found, worth=200.0, total=TOTAL)
    slope = np.log(made.counts) * 200 / TOTAL
    slope -= ((found[0].values - made.marginal(("a", "b"))) / 900)[:, :, None] + ((found[1].values - made.marginal(("b", "c"))) / 100)[None]
    assert np.ptp(slope) < 1e-6 and made.total == pytest.approx(TOTAL)


def test_one_count_is_met_and_the_others_keep_their_proportions() -> None:
    start = JointHistogram(domain=DOMAIN, counts=TRUE + 1)
    made = projected(start, [CellMeasurement(columns=("b", "a"), cell=(2, 1), value=300.0, variance=1e-6)], worth=1.0, total=TOTAL)
    assert made.marginal(("a", "b"))[1, 2] == pytest.approx(300, abs=0.01)
    ratio = made.counts / start.counts
    ratio[1, 2] = ratio[0, 0, 0]
    assert np.ptp(ratio) < 1e-9


@pytest.mark.parametrize("value", [-1e6, -50.0, 0.0, 1e6])
def test_no_noise_makes_a_count_negative_or_the_model_infinite(value: float) -> None:
    found = [MarginalMeasurement(columns=("a",), values=np.array([value, 400.0, 800.0]), variance=25.0), measured(("b",), 1.0)]
    made = projected(MODELS["rows"], found, worth=10.0, total=1000.0)
    assert np.isfinite(made.weights).all() and made.weights.min() >= 0 and made.total == pytest.approx(1000)


def test_a_start_that_noise_explains_hardly_moves_and_one_that_it_does_not_gives_way() -> None:
    start = JointHistogram(domain=DOMAIN, counts=TRUE)
    noise = np.random.default_rng(3)
    kept = projected(start, [measured(("a", "b"), 400.0, noise)], worth=TOTAL, total=TOTAL)
    assert np.abs(kept.counts - TRUE).max() < 12
    wrong = JointHistogram(domain=DOMAIN, counts=TRUE * np.array([0.1, 1, 2])[:, None, None])
    moved = projected(wrong, [measured(("a",), 25.0)], worth=TOTAL, total=TOTAL)
    assert np.abs(moved.marginal(("a",)) - truth(("a",))).max() < 12


def test_combinations_that_no_row_has_stay_out() -> None:
    start = WeightedRows(domain=DOMAIN, places=ROWS[:8], weights=np.ones(8))
    made = projected(start, [measured(("a", "b"), 4.0)], worth=1.0, total=TOTAL)
    assert made.marginal(("a",))[1:].sum() == 0 and made.total == pytest.approx(TOTAL)


@pytest.mark.parametrize("given", [{"worth": 0.0, "total": 1.0}, {"worth": 1.0, "total": 0.0}, {"worth": math.nan, "total": 1.0}])
def test_what_is_no_number_of_rows_is_refused(given: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="rows"):
        projected(MODELS["rows"], [], **given)


# -- weighted rows


def test_rows_are_counted_and_have_their_marginals() -> None:
    places = np.array([[0, 1, 0], [2, 3, 1], [0, 1, 0]])
    made = counted_rows(DOMAIN, places)
    assert sorted(made.weights.tolist()) == [1, 2] and made.total == 3
    assert made.marginal(("c", "a")).tolist() == [[2, 0, 0], [0, 0, 1]] and made.marginal(()).tolist() == 3
    for wrong in (lambda: counted_rows(DOMAIN, places[:0]), lambda: made.marginal(("a", "a")),
                  lambda: WeightedRows(domain=DOMAIN, places=places, weights=np.array([1.0, -1.0, 2.0])),
                  lambda: WeightedRows(domain=DOMAIN, places=places, weights=np.zeros(3)),
                  lambda: WeightedRows(domain=DOMAIN, places=places[:, :2], weights=np.ones(3))):
        with pytest.raises(ValueError):
            wrong()


def test_every_row_is_drawn_its_expected_number_of_times() -> None:
    made = WeightedRows(domain=DOMAIN, places=ROWS, weights=TRUE.ravel())
    drawn = made.draw(1000, np.random.default_rng(1))
    counts = np.bincount(np.ravel_multi_index(tuple(drawn.T), DOMAIN.sizes), minlength=24)
    assert np.abs(counts - TRUE.ravel() * 1000 / TOTAL).max() < 1 and made.draw(0, np.random.default_rng(1)).shape == (0, 3)
    with pytest.raises(ValueError, match="negative"):
        made.draw(-1, np.random.default_rng(1))


def test_rows_with_given_values() -> None:
    made = WeightedRows(domain=DOMAIN, places=ROWS[:16], weights=TRUE.ravel()[:16])
    given = {"a": np.array([0, 1, 2] * 400)}
    patterns = Allowed(patterns=np.array([[True, True, False, False]]), at=np.zeros(1200, dtype=np.int64))
    drawn = made.draw_given(1200, given, np.random.default_rng(1), {"b": patterns})
    assert (drawn[:, 0] == given["a"]).all() and drawn[:, 1].max() == 1, "no row of the model has a = 2, and yet it is given"
    share = TRUE[1, :2].sum(axis=1) / TRUE[1, :2].sum()
    assert np.bincount(drawn[drawn[:, 0] == 1, 1], minlength=2) == pytest.approx(400 * share, abs=1)
    assert made.draw_given(0, {"a": np.zeros(0, dtype=np.int64)}, np.random.default_rng(1)).shape == (0, 3)
