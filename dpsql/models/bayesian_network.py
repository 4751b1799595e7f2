"""A Bayesian network as a graphical model: each column's distribution given its parents, made of noisy counts.

Negative counts are 0, and what is left is divided by its sum for each combination of values of the parents; where nothing is
left, the column is as if it had no parents there. The product of these conditional distributions is a graphical model whose
potentials are their logs, so it is drawn from and asked like any other, along the junction tree of the network: exactly the
distribution of rows whose columns are drawn one after the other, parents first.

Source: Zhang, Cormode, Procopiuc, Srivastava and Xiao, PrivBayes, TODS 2017, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsql.models.belief_propagation import Propagation
from dpsql.models.junction_tree import junction_tree
from dpsql.models.markov_network import MarkovNetwork
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.workload.domain import room
from dpsql.workload.factors import Array

LEAST_CHANCE = 1e-30  # in place of 0, whose log is not finite: no table has so many rows that it is ever drawn


def of_conditionals(domain: TableDomain, total: float, nodes: Sequence[tuple[str, Columns]],
                    counts: Sequence[Array]) -> MarkovNetwork:
    """The model with these nodes, each a column and its parents, in an order in which parents come first.

    `counts` has for each node an axis for each parent, and the last one for the column. Raises ValueError if a parent does not
    come before its child, where a column stands twice or not at all, or where an array does not have its shape; and Unsupported
    where a clique would be too large.
    """
    before: list[str] = []
    for (column, parents), table in zip(nodes, counts, strict=True):
        if not {*parents} <= {*before} or len({*parents}) != len(parents) or column in before:
            raise ValueError("the parents of a column must come before it, and each column must occur once")
        if np.shape(table) != domain.shape((*parents, column)):
            raise ValueError(f"the counts of {column} do not have an axis for each parent and one for itself")
        before.append(column)
    if {*before} != {*domain.columns}:
        raise ValueError("every column of the table is in the network")
    factors = [(*parents, column) for column, parents in nodes]
    tree = junction_tree(domain, factors)
    for clique in tree.cliques:
        room("a clique of the model", *domain.shape(clique.columns))
    model = Propagation(domain=domain, tree=tree, factors=factors)
    potentials = [np.log(np.maximum(conditional_of(table), LEAST_CHANCE)) for table in counts]
    return MarkovNetwork(domain=domain, total=total, tree=tree, potentials=dict(zip(factors, potentials, strict=True)),
                         probabilities=tuple(model.marginals(model.vector(potentials))[1]))


def conditional_of(counts: Array) -> Array:
    """The shares, along the last axis, of the counts after clipping them at zero; if none are left in a row, the shares over all
    rows."""
    kept = np.maximum(counts, 0)
    whole = kept.reshape(-1, kept.shape[-1]).sum(axis=0)
    alone = whole / whole.sum() if whole.sum() > 0 else np.full(len(whole), 1 / len(whole))
    sums = kept.sum(axis=-1, keepdims=True)
    return np.where(sums > 0, np.divide(kept, sums, out=np.zeros_like(kept), where=sums > 0), alone)
