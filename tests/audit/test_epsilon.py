"""The audit itself: what it says of samples whose epsilon is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpsql.audit.epsilon import lower_bound


@pytest.fixture
def draw() -> np.random.Generator:
    """The same for each test, whichever ran before it."""
    return np.random.default_rng(20)


def randomized_response(draw: np.random.Generator, truth: int, epsilon: float, times: int) -> np.ndarray:
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    return np.where(draw.random(times) < keep, truth, 1 - truth)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_randomized_response_is_found_nearly_exactly(epsilon: float, draw: np.random.Generator) -> None:
    found = lower_bound(randomized_response(draw, 0, epsilon, 60_000), randomized_response(draw, 1, epsilon, 60_000)).epsilon
    assert 0.85 * epsilon < found <= epsilon


def test_laplace_noise_is_found_from_either_side(draw: np.random.Generator) -> None:
    a, b = draw.laplace(0, 1, 20_000), draw.laplace(1, 1, 20_000)
    assert 0.8 < lower_bound(a, b).epsilon <= 1
    assert 0.8 < lower_bound(b, a).epsilon <= 1
    assert lower_bound(a, draw.laplace(2, 1, 20_000)).epsilon > 1


def test_coordinates_are_judged_together(draw: np.random.Generator) -> None:
    """Each of two numbers alone shows half of the loss."""
    a, b = draw.laplace(0, 2, (60_000, 2)), draw.laplace(1, 2, (60_000, 2))
    assert max(lower_bound(a[:, i], b[:, i]).epsilon for i in range(2)) <= 0.5
    assert 0.6 < lower_bound(a, b).epsilon <= 1


def test_an_outcome_that_only_one_database_has_needs_a_delta(draw: np.random.Generator) -> None:
    a, b = (draw.random(20_000) < 0.05).astype(float), np.zeros(20_000)
    assert lower_bound(a, b).epsilon > 3
    assert lower_bound(a, b, delta=0.06).epsilon == 0


def test_a_value_that_is_missing_is_an_outcome(draw: np.random.Generator) -> None:
    a = np.where(draw.random(4000) < 0.5, np.nan, 7.0)
    assert lower_bound(a, np.full(4000, 7.0)).epsilon > 3


def test_the_bound_is_missed_as_seldom_as_it_says(draw: np.random.Generator) -> None:
    """At a confidence of 80 % at most one in five bounds is above the truth; no event is chosen on the half that judges it."""
    wrong = sum(lower_bound(draw.laplace(0, 1, 400), draw.laplace(1, 1, 400), confidence=0.8).epsilon > 1 for _ in range(200))
    assert wrong < 60
    none = sum(lower_bound(draw.normal(size=400), draw.normal(size=400), confidence=0.8).epsilon > 0 for _ in range(200))
    assert none < 60


def test_samples_must_be_of_one_kind() -> None:
    for a, b in (([1.0] * 9, [[1.0, 2.0]] * 9), ([1.0] * 3, [1.0] * 9), ([[]] * 9, [[]] * 9)):
        with pytest.raises(ValueError, match="two samples"):
            lower_bound(a, b)
