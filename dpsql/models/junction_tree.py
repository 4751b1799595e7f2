"""Junction trees: the cliques of a decomposable model, linked so that the cliques with a given column form a subtree.

The model has to hold some groups of columns, each within one clique. Columns are eliminated one by one, next the one that has the
smallest marginal together with its neighbours, which are then all linked to each other (minimum-weight elimination). The maximal
sets that arise are the cliques, and a spanning tree with the largest separators links them. Cliques that share no column are
linked by an empty separator, so that there is one tree always.

Source: Koller and Friedman, Probabilistic Graphical Models, 2009, chapters 9.4 and 10.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from dpsql.frozen import Frozen
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.trusted.cached import cached_property


class Clique(Frozen, kw_only=False):
    """Columns in the order of the axes of the clique's arrays: first the separator, in the order in which the parent has it."""

    columns: Columns
    parent: int  # its place in the tree; -1 for the root
    shared: int  # columns of the separator

    @property
    def separator(self) -> Columns:
        return self.columns[:self.shared]

    @property
    def residual(self) -> Columns:
        return self.columns[self.shared:]


class JunctionTree(Frozen, kw_only=False):
    """The cliques, each after its parent; the root is the first."""

    cliques: tuple[Clique, ...]

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The indices of the children of each clique."""
        found: list[list[int]] = [[] for _ in self.cliques]
        for place, clique in enumerate(self.cliques[1:], start=1):
            found[clique.parent].append(place)
        return tuple(map(tuple, found))

    @cached_property
    def below(self) -> tuple[frozenset[str], ...]:
        """For each clique, the columns of the clique and of all its descendants."""
        found = [set(clique.columns) for clique in self.cliques]
        for place in range(len(self.cliques) - 1, 0, -1):
            found[self.cliques[place].parent] |= found[place]
        return tuple(map(frozenset, found))

    @cached_property
    def home(self) -> dict[str, int]:
        """For each column, the highest clique that has it; all others with it are below."""
        return {column: place for place, clique in enumerate(self.cliques) for column in clique.residual}

    def holding(self, columns: Iterable[str]) -> list[int]:
        """The indices of the cliques that contain all of these columns."""
        wanted = set(columns)
        return [place for place, clique in enumerate(self.cliques) if wanted.issubset(clique.columns)]


def maximal_cliques(domain: TableDomain, groups: Iterable[Columns]) -> list[frozenset[str]]:
    """The cliques of a model in which each group of columns is within one clique. Every column of the table is in some clique."""
    around = {column: {column} for column in domain.columns}
    for group in groups:
        for column in group:
            around[column].update(group)
    weights = {column: domain.cells(near) for column, near in around.items()}
    found: list[frozenset[str]] = []
    while around:
        chosen = min(weights, key=weights.__getitem__)
        del weights[chosen]
        clique = frozenset(around.pop(chosen))
        if not any(clique <= other for other in found):
            found.append(clique)
        for column in clique - {chosen}:
            around[column] |= clique
            around[column].remove(chosen)
            weights[column] = domain.cells(around[column])
    return found


def model_cells(domain: TableDomain, groups: Iterable[Columns]) -> int:
    """The total number of cells in the model's cliques, which determines the memory and time of a fit and is known before it."""
    return sum(map(domain.cells, maximal_cliques(domain, groups)))


def junction_tree(domain: TableDomain, groups: Iterable[Columns]) -> JunctionTree:
    """The tree of the cliques of `maximal_cliques`. Its root is the clique with the most cells."""
    cliques = sorted(map(domain.ordered, maximal_cliques(domain, groups)), key=domain.cells, reverse=True)
    made = [Clique(columns=cliques[0], parent=-1, shared=0)]
    places = {0: 0}
    for above, below in _links(cliques):
        parent = made[places[above]]
        separator = tuple(column for column in parent.columns if column in cliques[below])
        rest = tuple(column for column in cliques[below] if column not in separator)
        made.append(Clique(columns=separator + rest, parent=places[above], shared=len(separator)))
        places[below] = len(places)
    return JunctionTree(tuple(made))


def _links(cliques: Sequence[Columns]) -> list[tuple[int, int]]:
    """Pairs of parent and child along a spanning tree with the largest separators, from the first clique outwards."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(range(len(cliques)))
    sets = list(map(set, cliques))
    graph.add_weighted_edges_from((one, other, len(shared)) for one, other in combinations(range(len(cliques)), 2)
                                  if (shared := sets[one] & sets[other]))
    tree = nx.maximum_spanning_tree(graph)
    first, *others = (min(part) for part in nx.connected_components(tree))
    tree.add_edges_from((first, other) for other in others)
    return list(nx.bfs_edges(tree, 0))
