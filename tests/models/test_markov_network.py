"""Marginals of graphical models, within cliques and across, beside the sum over all combinations of values."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from support.networks import MIXED, SHAPES, expanded, joint, network, summed

from dpsql.models.belief_propagation import Propagation
from dpsql.models.junction_tree import junction_tree
from dpsql.models.markov_network import MarkovNetwork
from dpsql.models.table_domain import TableDomain


@pytest.mark.parametrize("shape", SHAPES)
def test_every_marginal_is_that_of_the_joint_distribution(shape: str) -> None:
    made = network(MIXED, SHAPES[shape])
    everything = 100 * joint(MIXED, made.potentials)
    for count in range(len(MIXED.columns) + 1):
        for columns in combinations(MIXED.columns, count):
            np.testing.assert_allclose(made.marginal(columns), summed(MIXED, everything, columns), rtol=1e-9, atol=1e-12)
    for columns in permutations(("a", "c", "e", "f"), 3):
        np.testing.assert_allclose(made.marginal(columns), summed(MIXED, everything, columns), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_factors_have_the_probabilities_of_the_joint_distribution(shape: str) -> None:
    made = network(MIXED, SHAPES[shape], seed=3)
    model = Propagation(domain=MIXED, tree=made.tree, factors=SHAPES[shape])
    vector = model.vector([*made.potentials.values()])
    for table, given in zip(model.tables(vector), made.potentials.values(), strict=True):
        np.testing.assert_array_equal(table, given)
    for columns, table in zip(SHAPES[shape], model.tables(model.marginals(vector)[0]), strict=True):
        np.testing.assert_allclose(table, summed(MIXED, joint(MIXED, made.potentials), columns), rtol=1e-9)
    with pytest.raises(ValueError, match="no clique"):
        _ = Propagation(domain=MIXED, tree=junction_tree(MIXED, [("a", "b")]), factors=[("a", "f")]).hosts


@pytest.mark.parametrize("shape", SHAPES)
def test_products_of_weights(shape: str) -> None:
    made, generator = network(MIXED, SHAPES[shape], seed=1), np.random.default_rng(2)
    everything = 100 * joint(MIXED, made.potentials)
    for count in range(4):
        for columns in combinations(MIXED.columns, count):
            weights = {column: generator.standard_normal(MIXED.cells([column])) for column in columns}
            product = everything
            for column, weight in weights.items():
                product = product * expanded(MIXED, (column,), weight)
            assert made.answer(weights) == pytest.approx(product.sum(), rel=1e-9, abs=1e-9)
    with pytest.raises(ValueError, match="3 values"):
        made.answer({"b": np.ones(2)})
    with pytest.raises(ValueError, match="twice"):
        made.marginal(("a", "a"))


def test_potentials_that_differ_by_thousands() -> None:
    """The exponential of a difference is 0 then, and 0 / 0 must not spoil what lies beyond it."""
    domain = TableDomain(("a", "b", "c"), (3, 3, 3))
    factors = [("a", "b"), ("b", "c")]
    model = Propagation(domain=domain, tree=junction_tree(domain, factors), factors=factors)
    tables = [np.array([[0, -4000.0, 9000], [0, -8000, 9000], [0, -9000, 9001]]),
              np.array([[1, 2, 3], [7000, 7001, 7000], [-20000, -20000, -20001.0]])]
    found, cliques = model.marginals(model.vector(tables))
    everything = joint(domain, dict(zip(factors, tables, strict=True)))
    for columns, table in zip(factors, model.tables(found), strict=True):
        np.testing.assert_allclose(table, summed(domain, everything, columns), atol=1e-15)
    made = MarkovNetwork(domain=domain, total=1, tree=model.tree, probabilities=tuple(cliques), potentials={})
    np.testing.assert_allclose(made.marginal(("a", "c")), summed(domain, everything, ("a", "c")), atol=1e-15)
    assert np.isfinite(made.marginal(("a", "b", "c"))).all()


def test_impossible_combinations_have_probability_zero() -> None:
    factors, generator = SHAPES["chain"], np.random.default_rng(5)
    zeros = {("b", "a"): np.array([[0, 1], [1, 1], [0, 0]]), ("b",): np.array([0, 0, 1]), ("c", "b", "e"): generator.random((4, 3, 3)) < 0.4}
    model = Propagation(domain=MIXED, tree=junction_tree(MIXED, [*factors, *zeros]), factors=factors, impossible=zeros)
    potentials = {factor: generator.standard_normal(MIXED.shape(factor)) for factor in factors}
    with np.errstate(divide="ignore"):
        everything = joint(MIXED, potentials | {columns: np.log(1.0 - table) for columns, table in zeros.items()})
    made = MarkovNetwork(domain=MIXED, total=1, tree=model.tree, potentials=potentials,
                         probabilities=tuple(model.marginals(model.vector([*potentials.values()]))[1]))
    for count in range(1, 4):
        for columns in combinations(MIXED.columns, count):
            np.testing.assert_allclose(made.marginal(columns), summed(MIXED, everything, columns), atol=1e-14)
    assert (made.marginal(("b", "a"))[zeros["b", "a"] == 1] == 0).all() and (made.marginal(("b",)) == [1, 0, 0]).all()


def test_a_chain_of_many_columns() -> None:
    """More columns than numpy has letters, and ends far apart: the product of the transitions."""
    names = tuple(f"x{i}" for i in range(120))
    domain = TableDomain(names, (2,) * 120)
    made = network(domain, [*zip(names, names[1:], strict=False)], total=1)
    start = made.marginal((names[0],))
    steps = [made.marginal(pair) / made.marginal(pair[:1])[:, None] for pair in zip(names, names[1:], strict=False)]
    np.testing.assert_allclose(made.marginal((names[0], names[-1])), start[:, None] * np.linalg.multi_dot(steps), rtol=1e-9)
    three = made.marginal((names[100], names[0], names[50]))
    np.testing.assert_allclose(three.sum(axis=0), made.marginal((names[0], names[50])), rtol=1e-9)
