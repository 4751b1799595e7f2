"""The graph of foreign keys: from each table to the tables that its rows depend on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dpsql.catalog.model import ForeignKey

if TYPE_CHECKING:
    import networkx as nx


def graph_of(keys: Mapping[str, Iterable[ForeignKey]]) -> nx.DiGraph[str]:
    """An edge from each table to every table that its foreign keys reference."""
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(keys)
    graph.add_edges_from((name, key.table) for name, found in keys.items() for key in found)
    return graph


def circle_of(graph: nx.DiGraph[str]) -> list[str] | None:
    """Tables whose foreign keys form a cycle, with the first one repeated at the end; None where there is no cycle."""
    import networkx as nx

    try:
        edges = nx.find_cycle(graph)
    except nx.NetworkXNoCycle:
        return None
    return [*(edge[0] for edge in edges), edges[0][0]]


def parents_first(graph: nx.DiGraph[str]) -> list[str]:
    """The tables of an acyclic graph, each after all the tables that its rows depend on."""
    import networkx as nx

    return [*reversed([*nx.topological_sort(graph)])]


def above(graph: nx.DiGraph[str], name: str) -> set[str]:
    """A table and all tables that its rows depend on, directly or indirectly."""
    import networkx as nx

    return {name, *nx.descendants(graph, name)}
