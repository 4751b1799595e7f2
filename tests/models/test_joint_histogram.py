"""Histograms of all combinations of values, and the tables that are drawn from them."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.models.joint_histogram import JointHistogram
from dpsql.models.table_domain import TableDomain

DOMAIN = TableDomain(("a", "b", "c"), (2, 3, 4))
COUNTS = np.random.default_rng(3).gamma(0.5, 40, DOMAIN.sizes)


def test_marginals_have_the_order_that_is_asked_for() -> None:
    made = JointHistogram(domain=DOMAIN, counts=COUNTS)
    assert np.allclose(made.marginal(("c", "a")), COUNTS.sum(axis=1).T)
    assert np.allclose(made.marginal(()), COUNTS.sum()) and made.total == pytest.approx(COUNTS.sum())
    with pytest.raises(ValueError, match="twice"):
        made.marginal(("a", "a"))


def test_every_cell_has_its_expected_number_of_rows() -> None:
    made = JointHistogram(domain=DOMAIN, counts=COUNTS)
    rows = round(made.total)
    drawn = made.draw(rows, np.random.default_rng(1))
    counts = np.zeros(DOMAIN.sizes)
    np.add.at(counts, tuple(drawn.T), 1)
    assert drawn.shape == (rows, 3) and np.abs(counts - COUNTS * rows / made.total).max() < 1
    assert (drawn[1:] != drawn[:-1]).any(axis=1).mean() > 0.5, "rows come in random order"
    assert made.draw(0, np.random.default_rng(1)).shape == (0, 3)
    with pytest.raises(ValueError, match="negative"):
        made.draw(-1, np.random.default_rng(1))
