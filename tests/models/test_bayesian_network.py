"""Bayesian networks of noisy counts: their marginals beside the product of all conditional shares, listed cell by cell."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from dpsql.models.bayesian_network import conditional_of, of_conditionals
from dpsql.models.table_domain import TableDomain

DOMAIN = TableDomain(("a", "b", "c", "d"), (2, 3, 2, 4))
NODES = [("b", ()), ("d", ("b",)), ("a", ("d", "b")), ("c", ("a", "d"))]


def counts() -> list[np.ndarray]:
    draws = np.random.default_rng(4)
    return [np.round(draws.normal(3, 4, DOMAIN.shape((*parents, column)))) for column, parents in NODES]


def joint(tables: list[np.ndarray]) -> np.ndarray:
    found = np.ones((1, 1, 1, 1))
    for (column, parents), table in zip(NODES, tables, strict=True):
        names = [*parents, column]
        order = [names.index(name) for name in DOMAIN.ordered(names)]
        shape = [size if name in names else 1 for name, size in zip(DOMAIN.columns, DOMAIN.sizes, strict=True)]
        found = found * np.transpose(conditional_of(table), order).reshape(shape)
    return found


def test_marginals_are_those_of_the_product_of_all_conditionals() -> None:
    tables = counts()
    model, expected = of_conditionals(DOMAIN, 1000.0, NODES, tables), joint(tables)
    assert expected.sum() == pytest.approx(1) and model.total == 1000
    for size in (1, 2, 3):
        for columns in combinations(DOMAIN.columns, size):
            others = tuple(at for at, name in enumerate(DOMAIN.columns) if name not in columns)
            np.testing.assert_allclose(model.marginal(columns), 1000 * expected.sum(axis=others), atol=1e-9)


def test_rows_are_drawn_by_the_conditionals_and_none_that_they_exclude() -> None:
    tables = counts()
    expected, places = joint(tables), of_conditionals(DOMAIN, 9.0, NODES, tables).draw(20_000, np.random.default_rng(1))
    drawn = np.bincount(np.ravel_multi_index(tuple(places.T), DOMAIN.sizes), minlength=expected.size).reshape(DOMAIN.sizes) / 20_000
    assert np.abs(drawn - expected).max() < 0.01 and drawn[expected == 0].sum() == 0


def test_counts_below_nought_are_nought_and_where_none_are_left_the_column_is_alone() -> None:
    found = conditional_of(np.array([[3.0, -1.0], [-2.0, -5.0], [1.0, 4.0]]))
    np.testing.assert_allclose(found, [[1, 0], [0.5, 0.5], [0.2, 0.8]])
    np.testing.assert_allclose(conditional_of(np.array([[-1.0, -1.0]])), [[0.5, 0.5]])
    np.testing.assert_allclose(conditional_of(np.array([2.0, -1.0, 2.0])), [0.5, 0, 0.5])


@pytest.mark.parametrize("nodes", [
    [NODES[1], NODES[0], *NODES[2:]], [*NODES[:3], ("b", ("a", "d"))], NODES[:3], [*NODES[:3], ("c", ("a", "a"))]])
def test_what_is_no_network_is_refused(nodes: list) -> None:
    with pytest.raises(ValueError, match="parents|network"):
        of_conditionals(DOMAIN, 9.0, nodes, [np.ones(DOMAIN.shape((*parents, column))) for column, parents in nodes])
    with pytest.raises(ValueError, match="axis"):
        of_conditionals(DOMAIN, 9.0, NODES, [np.ones(3)] * 4)
