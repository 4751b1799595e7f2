"""Modes by noisy counts: which value is told, and how far it may be from the most frequent one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpsql.estimates import NoiseTerm, constant, released
from dpsql.questions.question import AggregateCall
from dpsql.questions.rules.modes import MOST_VALUES, candidates, most_frequent, shortfall
from dpsql.trusted.declarations.tables import Domain


def test_the_largest_count_of_each_cell_is_told() -> None:
    counts = released((0, 0), np.array([3.0, 9.0, 4.0, 8.0, 8.0, -1.0]), NoiseTerm(kind="laplace", scale=1.0))
    made = most_frequent(counts, 3)
    assert made.values.tolist() == [1, 0]
    assert made.slopes and made.deviations.tolist() == [0, 0] and made.approximate
    assert most_frequent(constant(np.array([1.0, 2.0])), 2).values.tolist() == [1]


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize(("values", "lead"), [(2, 0), (5, 3), (40, 0), (40, 60)])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_no_value_has_so_many_more_rows_as_often_as_it_says(kind: str, values: int, lead: int, confidence: float) -> None:
    """Also where all values are alike but one, so that the choice is hard; and the margin is no wild exaggeration."""
    random, times, scale = np.random.default_rng(values), 4000, 10.0
    rows = np.full((times, values), 50.0)
    rows[:, 0] += lead
    noise = random.laplace(0, scale, rows.shape) if kind == "laplace" else random.normal(0, scale, rows.shape)
    counts = released((0, 0), np.round(rows + noise).reshape(-1), NoiseTerm(kind=kind, scale=scale))  # type: ignore[arg-type]
    chosen = most_frequent(counts, values).values.astype(int)
    short = rows.max(axis=1) - rows[np.arange(times), chosen]
    most = shortfall(counts, values, confidence)
    assert (short <= most).mean() > confidence - 5 * math.sqrt(confidence * (1 - confidence) / times)
    assert most < 2 * scale * math.log(2 * values / (1 - confidence)) + 2


def test_a_lone_value_is_sure() -> None:
    assert shortfall(released((0, 0), np.array([3.0]), NoiseTerm(kind="laplace", scale=5.0)), 1, 0.95) == 0


def test_candidates_are_the_declared_values() -> None:
    assert candidates(AggregateCall(id="a", function="mode", values=Domain(("a", "b")))) == ("a", "b")
    assert candidates(AggregateCall(id="a", function="mode")) == ()
    assert candidates(AggregateCall(id="a", function="mode", values=Domain(tuple(range(MOST_VALUES + 1))))) == ()
