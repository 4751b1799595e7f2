"""Bounds that are found hold what hides in the noise next to them, and nothing is claimed of what lies beyond."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from support import worlds
from support.sessions import reader_of, session_of

from dpsql.audit.prepared import PreparedStatement

PEOPLE = 3000


def session(folder: Path, weights: list[float]) -> object:
    people = [(i, None, "f", 30, None, weight, True, None, None, "s") for i, weight in enumerate(weights)]
    return session_of(folder, reader=reader_of(worlds.World({"people": people})))


def releases(text: str, folder: Path, weights: list[float], times: int = 20) -> tuple[np.ndarray, np.ndarray, list[tuple[float, float]]]:
    statement = PreparedStatement(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) {text} FROM people", session(folder, weights))  # type: ignore[arg-type]
    made = [statement.release() for _ in range(times)]
    return (np.array([one.rows[0][0] for one in made], dtype=float), np.array([one.errors[0][0] for one in made], dtype=float),
            [one.intervals[0][0] for one in made])  # type: ignore[misc]


TAILS = {"a hundred in the next power of two": [100.0] * (PEOPLE - 100) + [250.0] * 100,
         "fewer and fewer": [math.exp(4 + NormalDist().inv_cdf((i + 0.5) / PEOPLE)) for i in range(PEOPLE)]}


@pytest.mark.parametrize("weights", TAILS.values(), ids=TAILS)
def test_a_mean_is_not_far_off_for_the_bounds_that_were_found(weights: list[float], tmp_path: Path) -> None:
    values, errors, intervals = releases("AVG(weight)", tmp_path, weights)
    assert math.sqrt(((values - np.mean(weights)) ** 2).mean()) < 2 * math.sqrt((errors**2).mean())
    assert set(intervals) == {(-math.inf, math.inf)}


def test_a_quantile_is_open_where_it_ends_at_a_bound_that_was_found(tmp_path: Path) -> None:
    """Intervals hold the median 19 times of 20, so that fewer than two of five do once in 30,000 runs."""
    weights = TAILS["fewer and fewer"]
    _, _, middle = releases("MEDIAN(weight)", tmp_path, weights, 5)
    assert all(math.isfinite(low) and math.isfinite(high) for low, high in middle)
    assert sum(low <= np.median(weights) <= high for low, high in middle) >= 2
    _, _, most = releases("MAX(weight)", tmp_path, weights, 5)
    assert all(math.isfinite(low) and high == math.inf for low, high in most)


def test_counts_do_not_rest_on_bounds(tmp_path: Path) -> None:
    _, _, intervals = releases("COUNT(weight)", tmp_path, TAILS["fewer and fewer"], 2)
    assert all(math.isfinite(high) for _, high in intervals)
