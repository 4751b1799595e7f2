"""Tables drawn from models: much nearer to the model than independent rows, and no dependence that the model does not have."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from support.networks import MIXED, SHAPES, network

from dpsql.models.belief_propagation import Propagation
from dpsql.models.junction_tree import junction_tree
from dpsql.models.markov_network import MarkovNetwork
from dpsql.models.table_domain import Columns, TableDomain

ROWS = 4000


def shares(domain: TableDomain, rows: NDArray[np.int64], columns: Columns) -> NDArray[np.float64]:
    places = [domain.columns.index(column) for column in columns]
    found = np.zeros(domain.shape(columns))
    np.add.at(found, tuple(rows[:, places].T), 1 / len(rows))
    return found


def distance(made: MarkovNetwork, rows: NDArray[np.int64], columns: Columns) -> float:
    """The total variation distance of a marginal of the rows from the model's."""
    return float(np.abs(shares(made.domain, rows, columns) - made.marginal(columns) / made.total).sum()) / 2


def of_independent_rows(made: MarkovNetwork, columns: Columns, rows: int = ROWS) -> float:
    """The mean of that distance for independent rows, by the normal approximation of each cell."""
    chances = made.marginal(columns) / made.total
    return float(np.sqrt(2 * chances * (1 - chances) / (np.pi * rows)).sum()) / 2


@pytest.mark.parametrize("shape", SHAPES)
def test_marginals_are_those_of_the_model(shape: str) -> None:
    made = network(MIXED, SHAPES[shape], seed=6)
    tables = [made.draw(ROWS, np.random.default_rng(seed)) for seed in range(10)]
    for rows in tables:
        assert rows.shape == (ROWS, 6) and rows.dtype == np.int64 and (rows >= 0).all() and (rows < MIXED.sizes).all()
    for clique in made.tree.cliques:
        mean = np.mean([distance(made, rows, clique.columns) for rows in tables])
        assert mean <= 0.35 * of_independent_rows(made, clique.columns) + 1 / ROWS
    for count in (1, 2, 3):
        for columns in combinations(MIXED.columns, count):
            mean = np.mean([distance(made, rows, columns) for rows in tables])
            assert mean <= 1.25 * of_independent_rows(made, columns) + 1 / ROWS, columns


@pytest.mark.parametrize("seed", range(3))
def test_siblings_are_independent_given_their_parent(seed: int) -> None:
    """Both children are drawn in the order of their cells: only the random order of the rows keeps them from being sorted alike,
    which would be at a distance of about 0.6."""
    domain = TableDomain(("parent", "left", "right"), (3, 20, 20))
    made = network(domain, [("parent", "left"), ("parent", "right")], seed=seed)
    rows = made.draw(ROWS, np.random.default_rng(seed))
    assert distance(made, rows, ("left", "right")) <= 1.1 * of_independent_rows(made, ("left", "right"))
    assert distance(made, rows, domain.columns) <= 1.1 * of_independent_rows(made, domain.columns)


def test_many_groups_of_one_row_spread_like_one_group() -> None:
    """Nearly every row has its own parent, and all parents have the same children: their marginals must not be those of a point.

    The larger child is in the root of the tree, where it is drawn before the parent; the other one is drawn given the parent.
    """
    domain = TableDomain(("parent", "child", "other"), (5000, 10, 12))
    tree = junction_tree(domain, [("parent", "child"), ("parent", "other")])
    assert tree.cliques[1].separator == ("parent",) and tree.cliques[1].residual == ("child",)
    model = Propagation(domain=domain, tree=tree, factors=[("child",), ("other",)])
    chances = np.log(np.concatenate([np.arange(1.0, 11), np.arange(2.0, 14)]))
    made = MarkovNetwork(domain=domain, total=1, tree=tree, probabilities=tuple(model.marginals(chances)[1]), potentials={})
    for seed in range(5):
        rows = made.draw(5000, np.random.default_rng(seed))
        for column in ("child", "other"):
            assert distance(made, rows, (column,)) <= 0.3 * of_independent_rows(made, (column,), 5000)


@pytest.mark.parametrize("rows", [0, 1, 2, 7])
def test_few_rows_and_empty_groups(rows: int) -> None:
    """Most values of the separators occur in no row."""
    domain = TableDomain(("a", "b", "c"), (50, 40, 30))
    made = network(domain, [("a", "b"), ("b", "c")])
    drawn = made.draw(rows, np.random.default_rng(0))
    assert drawn.shape == (rows, 3) and (drawn >= 0).all() and (drawn < domain.sizes).all()
    with pytest.raises(ValueError, match="negative"):
        made.draw(-1, np.random.default_rng(0))


def test_every_cell_is_drawn_as_often_as_it_should_be() -> None:
    """Three rows of a table with rare values: the mean over many tables, within five standard errors."""
    domain = TableDomain(("a", "b"), (3, 4))
    made = network(domain, [("a", "b")], total=1)
    generator = np.random.default_rng(8)
    mean = np.mean([shares(domain, made.draw(3, generator), ("a", "b")) for _ in range(3000)], axis=0)
    truth = made.marginal(("a", "b"))
    assert (np.abs(mean - truth) <= 5 * np.sqrt(truth / 9000)).all()


def test_cells_of_probability_zero_are_never_drawn() -> None:
    """First, last and in the middle of a distribution, after many other groups too."""
    domain = TableDomain(("a", "b"), (3000, 5))
    zeros = {("a", "b"): np.tile([1, 0, 1, 0, 1], (3000, 1))}
    tree = junction_tree(domain, [("a", "b")])
    model = Propagation(domain=domain, tree=tree, factors=[("a",)], impossible=zeros)
    made = MarkovNetwork(domain=domain, total=1, tree=tree, probabilities=tuple(model.marginals(np.zeros(3000))[1]), potentials={})
    star = TableDomain(("a", "b", "c"), (3000, 5, 3))
    tree = junction_tree(star, [("a", "b"), ("a", "c")])
    model = Propagation(domain=star, tree=tree, factors=[("a",)], impossible=zeros | {("a", "c"): np.tile([0, 0, 1], (3000, 1))})
    both = MarkovNetwork(domain=star, total=1, tree=tree, probabilities=tuple(model.marginals(np.zeros(3000))[1]), potentials={})
    for seed in range(3):
        assert set(made.draw(30_000, np.random.default_rng(seed))[:, 1]) == {1, 3}
        drawn = both.draw(30_000, np.random.default_rng(seed))
        assert set(drawn[:, 1]) == {1, 3} and set(drawn[:, 2]) == {0, 1}


def test_the_same_seed_draws_the_same_table() -> None:
    made = network(MIXED, SHAPES["cycle"])
    first, second, other = (made.draw(100, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert (first == second).all() and (first != other).any()
