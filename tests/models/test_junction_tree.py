"""Junction trees: what makes a tree of cliques one, on random graphs; and the sizes of known models."""

from __future__ import annotations

import random
from itertools import combinations

import networkx as nx
import pytest
from support.networks import MIXED, SHAPES

from dpsql.models.junction_tree import JunctionTree, junction_tree, maximal_cliques, model_cells
from dpsql.models.table_domain import Columns, TableDomain

WIDE = TableDomain(tuple(f"x{i:02}" for i in range(30)), tuple(2 + i % 5 for i in range(30)))


def check(domain: TableDomain, groups: list[Columns], tree: JunctionTree) -> None:
    held = [set(clique.columns) for clique in tree.cliques]
    assert set().union(*held) == set(domain.columns)
    assert all(any(set(group) <= each for each in held) for group in groups)
    assert not any(one <= other or other <= one for one, other in combinations(held, 2)), "a clique is within another"
    for place, clique in enumerate(tree.cliques):
        assert (clique.parent, clique.shared) == (-1, 0) if place == 0 else clique.parent < place
        if place:
            parent = tree.cliques[clique.parent].columns
            assert clique.separator == tuple(column for column in parent if column in clique.columns)
            assert place in tree.children[clique.parent] and tree.below[place] <= tree.below[clique.parent]
    links = nx.Graph((clique.parent, place) for place, clique in enumerate(tree.cliques) if place)
    links.add_nodes_from(range(len(held)))
    for column in domain.columns:
        assert tree.home[column] == min(tree.holding([column]))
        assert nx.is_connected(links.subgraph(tree.holding([column]))), "the cliques with one column are no subtree"


@pytest.mark.parametrize("shape", SHAPES)
def test_known_shapes(shape: str) -> None:
    check(MIXED, SHAPES[shape], junction_tree(MIXED, SHAPES[shape]))


@pytest.mark.parametrize("seed", range(12))
def test_random_groups(seed: int) -> None:
    draw = random.Random(seed)
    groups = [tuple(draw.sample(WIDE.columns, draw.randint(1, 3))) for _ in range(3 * seed)]
    tree = junction_tree(WIDE, groups)
    check(WIDE, groups, tree)
    assert model_cells(WIDE, groups) == sum(WIDE.cells(clique.columns) for clique in tree.cliques)
    graph = nx.Graph(pair for clique in maximal_cliques(WIDE, groups) for pair in combinations(clique, 2))
    assert nx.is_chordal(graph)


def test_cells_are_few_where_the_order_is_right() -> None:
    assert model_cells(MIXED, [("a", "b"), ("b", "c")]) == 6 + 12 + 1 + 3 + 2
    ring = TableDomain(("big", "x", "y", "z"), (100, 2, 3, 2))
    assert model_cells(ring, [("big", "x"), ("x", "y"), ("y", "z"), ("z", "big")]) == 2 * 3 * 2 + 2 * 2 * 100, "x and z are linked"


def test_one_column_and_many_that_nothing_links() -> None:
    check(TableDomain(("only",), (7,)), [], junction_tree(TableDomain(("only",), (7,)), []))
    tree = junction_tree(WIDE, [])
    check(WIDE, [], tree)
    assert len(tree.cliques) == 30 and all(clique.separator == () for clique in tree.cliques)


def test_a_domain_is_well_formed() -> None:
    assert MIXED.project(("e", "a")) == TableDomain(("e", "a"), (3, 2)) and MIXED.ordered({"e", "a"}) == ("a", "e")
    assert MIXED.cells(()) == 1 and MIXED.shape(("c", "b")) == (4, 3)
    for columns, sizes in [((), ()), (("a", "a"), (2, 2)), (("a",), (2, 3)), (("a", "b"), (2, 0))]:
        with pytest.raises(ValueError):
            TableDomain(columns, sizes)
    with pytest.raises(KeyError):
        junction_tree(MIXED, [("a", "unknown")])
