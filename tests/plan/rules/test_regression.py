"""Statistics of two columns, with noise: their intervals cover the truth about as often as they say, whatever the noise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpsql.estimates import Estimate, NoiseTerm, constant, released
from dpsql.questions.rules import correlation
from dpsql.questions.rules.regression import PAIRS, ColumnSums, statistic
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Moments
from dpsql.types import Interval

STEPS, TIMES = 1000, 400
Y, X = Interval(-200, 800), Interval(0, 100)
PRODUCTS = 2**20  # steps of the grid of products, to either side


class Sums:
    """The sums of some rows, each with the noise of a third of a price, in many releases."""

    def __init__(self, y: np.ndarray, x: np.ndarray, noise: str | None, price: float = 1.0) -> None:
        """The rows as parts of their ranges. No noise: one release."""
        self.n, self.noise, self.price = {"y": np.round(y * STEPS), "x": np.round(x * STEPS)}, noise, price
        self.values = {"y": -200 + self.n["y"], "x": self.n["x"] / 10}
        self.random, self.pieces = np.random.default_rng(7), 0

    def noisy(self, value: float, sensitivity: float, unit: float = 1.0) -> Estimate:
        self.pieces += 1
        if self.noise is None:
            return constant(np.array([value * unit]))
        scale = sensitivity * (3 / self.price if self.noise == "laplace" else math.sqrt(3 / 2 / self.price))
        error = NoiseTerm(kind=self.noise, scale=scale)  # type: ignore[arg-type]
        drawn = getattr(self.random, "laplace" if self.noise == "laplace" else "normal")(0, scale, TIMES)
        return released((self.pieces,), value + drawn, error, unit=unit)

    def column(self, name: str, degree: int) -> ColumnSums:
        n, ends = self.n[name], Y if name == "y" else X
        parts = [n, STEPS - n] if degree == 1 else [n**2, 2 * n * (STEPS - n), (STEPS - n) ** 2]
        grid = Quantizer(low=ends.low, high=ends.high, step=Fraction(1) if name == "y" else Fraction(1, 10), from_low=True)
        return ColumnSums.of(Moments(column=name, grid=grid, degree=degree), ends,
                             [self.noisy(float(part.sum()), STEPS**degree) for part in parts])

    def statistic(self, function: str) -> Estimate:
        y, x = (self.column(name, degree) for name, degree in zip("yx", PAIRS[function].powers, strict=True))
        unit = 1000 * 100 / 4 / PRODUCTS
        products = float(((self.values["y"] - 300) * (self.values["x"] - 50)).sum()) / unit
        return statistic(function, y, x, self.noisy(products, PRODUCTS, unit))


def rows(many: int, alike: float, spread: float) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(many)
    a, b = random.normal(size=(2, many))
    return np.clip(0.4 + spread * (alike * a + math.sqrt(1 - alike**2) * b), 0, 1), np.clip(0.6 + spread * a, 0, 1)


@pytest.mark.parametrize("function", PAIRS)
def test_without_noise_it_is_the_statistic(function: str) -> None:
    sums = Sums(*rows(40, 0.6, 0.2), noise=None)
    y, x = sums.values["y"], sums.values["x"]
    slope, shift = np.polyfit(x, y, 1)
    wanted = {"covar_pop": np.cov(y, x, ddof=0)[0, 1], "covar_samp": np.cov(y, x)[0, 1], "regr_slope": slope, "regr_intercept": shift,
              "corr": np.corrcoef(y, x)[0, 1], "regr_r2": np.corrcoef(y, x)[0, 1] ** 2}
    made = sums.statistic(function)
    assert made.values[0] == pytest.approx(wanted[function], rel=1e-6) and made.deviations[0] == 0
    low, high = made.ends(0.95)
    assert low[0] == pytest.approx(wanted[function], rel=1e-4) == high[0]


@pytest.mark.parametrize(("many", "alike", "spread"), [(6, 0.5, 0.2), (60, -0.9, 0.2), (150, 0.995, 0.1), (3000, 0.0, 0.2)])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("function", PAIRS)
def test_intervals_cover_in_small_groups_and_in_large_ones(function: str, noise: str, many: int, alike: float, spread: float) -> None:
    y, x = rows(many, alike, spread)
    truth = Sums(y, x, None).statistic(function).values[0]
    made = Sums(y, x, noise).statistic(function)
    low, high = made.ends(0.95)
    told = ~np.isnan(made.values)
    covered = ((low <= truth) & (truth <= high))[told]
    # 5 standard deviations of a share of that many releases below 0.945: delta methods may be off by that little
    assert covered.mean() > 0.945 - 5 * math.sqrt(0.05 / max(told.sum(), 1))
    assert (low[told] <= made.values[told]).all() and (made.values[told] <= high[told]).all()
    if many == 3000 and function != "regr_r2":
        assert covered.mean() < 0.99
    if function in ("corr", "regr_r2"):
        assert (low >= (-1 if function == "corr" else 0)).all() and (high <= 1).all()
        assert (made.deviations[told] <= (2 if function == "corr" else 1) + 1e-9).all()


def test_where_there_may_be_nothing_the_interval_is_everything_there_can_be() -> None:
    empty = np.array([])
    for function, ends in {"corr": (-1, 1), "regr_r2": (0, 1), "covar_pop": (-25000, 25000), "covar_samp": (-50000, 50000),
                           "regr_slope": (-math.inf, math.inf)}.items():
        made = Sums(empty, empty, "laplace").statistic(function)
        low, high = made.ends(0.95)
        whole = (low == ends[0]) & (high == ends[1])
        assert whole.mean() > 0.9 and np.isnan(made.values).mean() > 0.4


def test_what_does_not_vary_is_told_as_null_or_as_unknown() -> None:
    same = np.full(500, 0.3)
    for function in ("corr", "regr_slope", "regr_r2"):
        assert np.isnan(Sums(same, same, None).statistic(function).values).all()
        made = Sums(same, same, "gaussian").statistic(function)
        low, high = made.ends(0.95)
        narrow = np.isfinite(high - low) & (high - low < (0.9 if function == "regr_r2" else 1.8)) & ~np.isnan(made.values)
        assert np.isnan(made.values).mean() > 0.3 and narrow.mean() < 0.1


def test_cells_are_worked_out_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = Sums(*rows(150, 0.5, 0.2), noise="gaussian")
    made = sums.statistic("corr")
    whole = made.ends(0.95)
    monkeypatch.setattr(correlation, "CHUNK", 7)
    parts = made.ends(0.95)
    assert np.allclose(whole[0], parts[0]) and np.allclose(whole[1], parts[1])
