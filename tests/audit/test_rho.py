"""The lower bound of rho, of samples whose divergence is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpsql.audit.rho import least_rho


@pytest.fixture
def draw() -> np.random.Generator:
    return np.random.default_rng(21)


@pytest.mark.parametrize("apart", [0.5, 1.0, 2.0])
def test_most_of_the_divergence_of_two_gaussians_is_found(apart: float, draw: np.random.Generator) -> None:
    found = least_rho(draw.normal(0, 1, 200_000), draw.normal(apart, 1, 200_000)).rho
    assert 0.6 * apart**2 / 2 < found <= apart**2 / 2


def test_noise_that_is_too_narrow_refutes_a_price(draw: np.random.Generator) -> None:
    assert least_rho(draw.normal(0, 0.8, 100_000), draw.normal(1, 0.8, 100_000)).rho > 0.5


@pytest.mark.parametrize("turned", [False, True])
def test_the_larger_of_both_divergences_is_found(turned: bool, draw: np.random.Generator) -> None:
    a, b = (draw.random(100_000) < 0.5).astype(float), (draw.random(100_000) < 0.1).astype(float)
    most = 0.5 * math.log(5) + 0.5 * math.log(0.5 / 0.9)
    assert 0.8 * most < (least_rho(b, a) if turned else least_rho(a, b)).rho <= most


def test_coordinates_are_judged_together(draw: np.random.Generator) -> None:
    a, b = draw.normal(0, 1, (200_000, 2)), draw.normal(1, 1, (200_000, 2))
    assert max(least_rho(a[:, i], b[:, i]).rho for i in range(2)) <= 0.5
    assert 0.6 < least_rho(a, b).rho <= 1


def test_the_bound_is_missed_as_seldom_as_it_says(draw: np.random.Generator) -> None:
    """At a confidence of 80 % at most one in five bounds is above the truth."""
    assert sum(least_rho(draw.normal(0, 1, 800), draw.normal(1, 1, 800), confidence=0.8).rho > 0.5 for _ in range(100)) < 35
    assert sum(least_rho(draw.normal(size=800), draw.normal(size=800), confidence=0.8).rho > 0 for _ in range(100)) < 35
