"""The graph of foreign keys: from each table to those that its rows hang on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dpsql.catalog.model import ForeignKey

if TYPE_CHECKING:
    import networkx as nx


def graph_of(keys: Mapping[str, Iterable[ForeignKey]]) -> nx.DiGraph[str]:
    """An edge from each table to each that one of its foreign keys references."""
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(keys)
    graph.add_edges_from((name, key.table) for name, found in keys.items() for key in found)
    return graph


def circle_of(graph: nx.DiGraph[str]) -> list[str] | None:
    """Tables whose foreign keys run in a circle, the first one again at the end; None where none do."""
    import networkx as nx

    try:
        edges = nx.find_cycle(graph)
    except nx.NetworkXNoCycle:
        return None
    return [*(edge[0] for edge in edges), edges[0][0]]


def parents_first(graph: nx.DiGraph[str]) -> list[str]:
    """The tables of a graph without circles, each after all that its rows hang on."""
    import networkx as nx

    return [*reversed([*nx.topological_sort(graph)])]


def above(graph: nx.DiGraph[str], name: str) -> set[str]:
    """A table and all that its rows hang on, at any distance."""
    import networkx as nx

    return {name, *nx.descendants(graph, name)}
