"""Small graphical models with known potentials, and everything about them by listing all combinations of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dpsql.models.belief_propagation import Propagation
from dpsql.models.junction_tree import junction_tree
from dpsql.models.markov_network import MarkovNetwork
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.workload.factors import Array

MIXED = TableDomain(("a", "b", "c", "d", "e", "f"), (2, 3, 4, 1, 3, 2))
SHAPES: Mapping[str, list[Columns]] = {
    "nothing": [],
    "single columns": [("a",), ("c",)],
    "chain": [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f")],
    "reversed axes": [("c", "b", "a"), ("f", "e"), ("c", "e")],
    "star": [("c", "a"), ("c", "b"), ("c", "e"), ("c", "f"), ("c",)],
    "cycle": [("a", "b"), ("b", "c"), ("c", "e"), ("e", "a")],
    "two parts": [("a", "b", "c"), ("b",), ("e", "f")],
    "nested": [("a", "b", "c"), ("a", "b"), ("a",), ("c", "b"), ("c", "e"), ("b",)],
    "everything": [("f", "e", "d", "c", "b", "a")],
}


def network(domain: TableDomain, factors: Sequence[Columns], seed: int = 0, total: float = 100.0) -> MarkovNetwork:
    """A model with normal log potentials."""
    generator = np.random.default_rng(seed)
    potentials = {factor: 1.5 * generator.standard_normal(domain.shape(factor)) for factor in factors}
    tree = junction_tree(domain, factors)
    model = Propagation(domain=domain, tree=tree, factors=factors)
    return MarkovNetwork(domain=domain, total=total, tree=tree, potentials=potentials,
                         probabilities=tuple(model.marginals(model.vector([*potentials.values()]))[1]))


def joint(domain: TableDomain, potentials: Mapping[Columns, Array]) -> Array:
    """The probabilities of all combinations."""
    logs = np.zeros(domain.sizes)
    for columns, table in potentials.items():
        logs = logs + expanded(domain, columns, table)
    return np.asarray(np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum())


def expanded(domain: TableDomain, columns: Columns, table: Array) -> Array:
    """The table with one axis for each column of the domain, of length 1 where it does not have the column."""
    order = [columns.index(column) for column in domain.ordered(columns)]
    return np.transpose(table, order).reshape([size if column in columns else 1
                                               for column, size in zip(domain.columns, domain.sizes, strict=True)])


def summed(domain: TableDomain, everything: Array, columns: Columns) -> Array:
    """A marginal of the array over all columns."""
    kept = domain.ordered(columns)
    found = everything.sum(axis=tuple(at for at, column in enumerate(domain.columns) if column not in columns))
    return np.transpose(found, [kept.index(column) for column in columns])
