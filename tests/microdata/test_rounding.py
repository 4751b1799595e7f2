"""Whole numbers near fitted tables: what is kept, and when it cannot be."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy
from bench.two_way_tables import two_way

from dpsql.errors import DataError
from dpsql.microdata import rounding
from dpsql.microdata.all_fits import METHODS, fit
from dpsql.microdata.noisy_answers import NoisyAnswers, noisy_answers, query_group

RANDOM = np.random.default_rng(8)


@pytest.mark.parametrize("method", METHODS)
def test_marginals_of_a_two_way_table_change_by_less_than_one(method: str) -> None:
    for _ in range(5):
        counts = RANDOM.integers(0, 5, (5, 7))
        truth = NoisyAnswers(two_way(counts, dict.fromkeys(("sum", "rows", "columns", "cells"), 4.0)))
        noisy = truth.with_answers(truth.answers + RANDOM.normal(0, 2, len(truth.answers)))
        real, whole = fit(noisy, method), fit(noisy, method, whole=True)
        assert whole.kept == "answers" and real.kept == "" and (whole.cells == np.rint(whole.cells)).all()
        assert np.abs(whole.answers - real.answers).max() < 1 + 1e-6 and np.abs(whole.cells - real.cells).max() < 1 + 1e-6
        assert whole.answers[0] == np.rint(real.answers[0]) and (method == "ols" or whole.cells.min() >= 0)


def test_no_rounding_that_keeps_the_answers_is_nearer() -> None:
    cells = np.array([0.4, 1.7, 2.2, 0.6, 3.5, 0.6])
    noisy = NoisyAnswers(two_way(cells.reshape(2, 3), dict.fromkeys(("rows", "columns", "cells"), 1.0)))
    found = fit(noisy, "nnls", whole=True)
    all_ = [np.floor(cells) + np.array(up) for up in itertools.product((0, 1), repeat=6)]
    kept = [each for each in all_ if np.abs(noisy.matrix @ each - noisy.answers).max() < 1 and each.sum() == np.rint(cells.sum())]
    assert 0 < len(kept) < len(all_)
    assert np.abs(found.cells - cells).sum() == pytest.approx(min(np.abs(each - cells).sum() for each in kept), abs=1e-6)


def test_only_the_total_is_kept_where_no_table_keeps_the_answers() -> None:
    """Three cells of one half, each pair a query of answer 1: every pair needs exactly one of its cells, which three pairs cannot have."""
    pairs = query_group("pairs", [[1, 1, 0], [0, 1, 1], [1, 0, 1]], [1.0, 1, 1], 1.0)
    found = fit(noisy_answers(pairs), "nnls", whole=True)
    assert found.kept == "total" and sorted(found.cells) in ([0, 0, 1], [0, 1, 1]) and found.cells.sum() == 2
    with pytest.raises(DataError, match="no rounding"):
        fit(noisy_answers(query_group("pairs", [[1, 1, 0], [0, 1, 1], [1, 0, 1]], [1.0, 1, 1], 0.0)), "nnls", whole=True)
    with pytest.raises(DataError, match="not whole"):
        fit(noisy_answers(query_group("sum", np.ones((1, 2)), [2.5], 0.0), query_group("cells", np.eye(2), [1.0, 1], 1.0)), "nnls", whole=True)


def test_the_largest_fractions_are_raised_if_only_the_total_is_to_be_kept() -> None:
    shares = RANDOM.uniform(0.01, 0.99, 200)
    raised = rounding._largest_shares(scipy.sparse.csr_array(np.ones((1, 200))), np.array([90.0]), np.array([90.0]), shares)
    assert raised is not None and raised.sum() == 90 and shares[raised > 0].min() >= shares[raised == 0].max()
