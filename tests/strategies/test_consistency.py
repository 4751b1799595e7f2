"""Answers that look like counts: the nearest table by the conditions of optimality, and whole numbers near it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from support.dense_algebra import line, products

from dpsql.errors import Unsupported
from dpsql.strategies import post_processing
from dpsql.workload.factors import AllRange, Dense, Identity, Prefix, Total
from dpsql.workload.workload import Workload

RANDOM = np.random.default_rng(41)
WORKLOADS = {
    "cells": line(Identity(7)),
    "prefix": line(Prefix(40)),
    "ranges and total": line(AllRange(9), Total(9)),
    "marginals": products([Identity(3), Identity(4), Identity(2)], (1, 2)),
    "products": products([Prefix(5), Identity(3)], (0, 1, 2)),
    "signs": line(Dense(np.array([[1, -1, 0], [2, 1, 1]]))),
}


def noisy(workload: Workload) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = RANDOM.integers(0, 3, workload.domain.size) * RANDOM.integers(0, 2, workload.domain.size)
    variances = RANDOM.uniform(0.5, 4, workload.rows)
    exact = workload.apply(table).astype(float)
    return exact, exact + RANDOM.normal(size=workload.rows) * np.sqrt(variances), variances


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_nearest_table_satisfies_the_conditions_of_optimality(name: str) -> None:
    """For min |W x - y|^2 over x >= 0: the slope is not negative, and zero where a cell is above zero. That is enough, as the
    problem is convex."""
    workload = WORKLOADS[name]
    for _ in range(5):
        exact, given, variances = noisy(workload)
        for weights in (variances, None):
            found = post_processing.nonnegative(workload, given, weights)
            slope = workload.transposed((found.answers - given) / (1 if weights is None else weights))
            assert (found.cells >= 0).all() and np.allclose(found.answers, workload.apply(found.cells))
            assert slope.min() > -1e-6 and np.abs(slope * found.cells).max() < 1e-6
        apart = ((found.answers - exact) ** 2).sum()
        assert apart <= ((given - exact) ** 2).sum() * (1 + 1e-9)  # a projection on a convex set that holds the truth


@pytest.mark.parametrize("name", WORKLOADS)
def test_answers_that_are_consistent_stay_as_they_are(name: str) -> None:
    workload = WORKLOADS[name]
    exact, _, variances = noisy(workload)
    assert np.allclose(post_processing.nonnegative(workload, exact, variances).answers, exact, atol=1e-6)
    if name not in ("marginals", "signs"):  # several tables have these answers, and the one found need not be whole
        assert np.allclose(post_processing.consistent(workload, exact, variances).answers, exact, atol=1e-6)


def test_whole_numbers_are_near_and_keep_the_rounded_total() -> None:
    for size in (1, 2, 50, 300):
        cells = RANDOM.exponential(0.7, size) * RANDOM.integers(0, 2, size)
        found = post_processing.whole(line(AllRange(size)), cells)
        assert (found.cells >= 0).all() and (found.cells == np.rint(found.cells)).all()
        assert found.cells.sum() == np.rint(cells.sum())
        assert np.abs(found.answers - line(AllRange(size)).apply(cells)).max() <= 1 + 1e-9


def test_an_empty_cell_is_told_too_high_by_as_much_as_is_stated() -> None:
    quantiles = norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    told = post_processing.nonnegative(line(Identity(200_000)), 3 * quantiles).answers
    assert told.mean() == pytest.approx(3 / np.sqrt(2 * np.pi), rel=1e-3)
    assert (told**2).mean() == pytest.approx(9 / 2, rel=1e-3)  # and yet nearer, on the average over its square


def test_many_cells_are_refused_unless_they_are_asked_for_by_themselves() -> None:
    with pytest.raises(Unsupported, match="2000"):
        post_processing.nonnegative(line(Prefix(2000)), np.zeros(2000))
    assert (post_processing.nonnegative(line(Identity(2000)), np.full(2000, -1.0)).cells == 0).all()


def test_zero_data_and_hopeless_noise_give_zeros() -> None:
    assert (post_processing.consistent(line(Prefix(30)), np.full(30, -5.0)).answers == 0).all()
