"""Tests of draws against a whole law: the probabilities, what is found, and what is not."""

from __future__ import annotations

import numpy as np
import pytest
from support.noise_laws import Kind, Law

KINDS: tuple[Kind, ...] = ("laplace", "gaussian", "student")
MOST = 7.5


def weights(kind: Kind, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers and their probabilities, as they are defined."""
    z = np.arange(-round(400 * scale), round(400 * scale) + 1)
    x = np.abs(z / scale)
    weight = {"laplace": np.exp(-x), "gaussian": np.exp(-x * x / 2), "student": 1 / (1 + x * x) ** 2}[kind]
    return z, weight / weight.sum()


def drawn(kind: Kind, scale: float, times: int = 60_000) -> np.ndarray:
    numbers, chances = weights(kind, scale)
    return np.random.default_rng(7).choice(numbers, times, p=chances)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.4, 1.0, 7.3, 59.0, 61.0, 500.0])
def test_cells_have_the_probabilities_of_their_numbers(kind: Kind, scale: float) -> None:
    law, (numbers, chances) = Law(kind, scale), weights(kind, scale)
    cells = np.bincount(law.cells(numbers), weights=chances, minlength=len(law.mass))
    assert law.mass.sum() == pytest.approx(1, abs=1e-12)
    assert law.mass == pytest.approx(cells, rel=1e-3, abs=1e-7)
    assert law.mass == pytest.approx(law.mass[::-1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1.0, 20.0, 100.0])
def test_draws_of_a_law_are_not_found_to_be_others(kind: Kind, scale: float) -> None:
    found = Law(kind, scale).departure(drawn(kind, scale))
    assert not found.beyond(5)
    assert abs(found.relative) < 0.03
    assert found.draws == 60_000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_a_scale_that_is_five_percent_off_is_found_and_told(kind: Kind, factor: float) -> None:
    found = Law(kind, 20.0).departure(drawn(kind, 20.0 * factor))
    assert abs(found.scale) > MOST
    assert found.relative == pytest.approx(factor - 1, abs=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_off_is_told_by_its_own_number(kind: Kind) -> None:
    law, draws = Law(kind, 20.0), drawn(kind, 20.0)
    assert abs(law.departure(draws + 2).centre) > MOST
    assert law.departure(2 * (draws // 2)).shape > MOST
    assert not law.departure(-draws).beyond(5)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_through_their_distribution_function_have_variance_one(kind: Kind) -> None:
    even = Law(kind, 20.0).uniform(drawn(kind, 20.0))
    assert even.mean() == pytest.approx(0, abs=0.02)
    assert even.var() == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_that_depend_on_each_other_are_found(kind: Kind) -> None:
    law, draws = Law(kind, 20.0), drawn(kind, 20.0)
    assert abs(law.correlation(draws[:-1], draws[1:])) < 5
    assert law.correlation(draws, draws) > MOST
    assert law.correlation(draws, -draws) < -MOST
    assert abs(law.correlation(draws, np.roll(draws, 1) + draws // 4)) > MOST
