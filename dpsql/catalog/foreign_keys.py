"""Foreign keys: the graph from each table to the tables that its rows depend on, and the columns that tie rows to entities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dpsql.catalog.model import ForeignKey, Policy

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


def tying_columns(policy: Policy) -> dict[str, dict[str, frozenset[tuple[str, str]]]]:
    """By private table, the columns by which its rows belong to entities, each with the columns, as (table, column), that foreign
    keys compare it with: the keys of entities, and both ends of foreign keys between private tables."""
    found: dict[str, dict[str, set[tuple[str, str]]]] = {name: {} for name, table in policy.tables.items() if not table.public}
    for entity in policy.entities.values():
        found[entity.table].setdefault(entity.key, set())
    for name in found:
        for key in policy.tables[name].foreign_keys:
            for child, parent in zip(key.columns, key.references, strict=True) if key.table in found else ():
                found[name].setdefault(child, set()).add((key.table, parent))
                found[key.table].setdefault(parent, set()).add((name, child))
    return {name: {column: frozenset(others) for column, others in columns.items()} for name, columns in found.items()}
