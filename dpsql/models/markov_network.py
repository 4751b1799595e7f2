"""A fitted graphical model of a table: its marginals over any columns, and its answers to queries that are products.

By the junction tree, p(x) is the marginal of the top clique times p(residual | separator) of every other clique. A marginal that
is within no clique is summed up along the smallest subtree that has its columns, from the leaves to the top, so that no array is
larger than a clique times the marginal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpsql.models.junction_tree import JunctionTree
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.workload.factors import Array


@dataclass(frozen=True, eq=False)
class MarkovNetwork:
    """A distribution of a table's rows. Made by `mirror_descent.fit`."""

    domain: TableDomain
    total: float  # number of rows, which need not be whole
    tree: JunctionTree
    probabilities: tuple[Array, ...]  # of each clique of the tree, in the order of its columns
    potentials: Mapping[Columns, Array]  # log potentials of the measured marginals, from which a later fit can start

    def marginal(self, columns: Columns) -> Array:
        """The expected counts of all combinations of values of these columns: one axis for each, in this order."""
        if len(set(columns)) != len(columns):
            raise ValueError("no column stands twice in a marginal")
        holding = self.tree.holding(columns)
        if not holding:
            return self.total * self._along_tree(columns, {})
        place = min(holding, key=lambda place: self.probabilities[place].size)
        inside = self.tree.cliques[place].columns
        table = self.probabilities[place].sum(axis=tuple(axis for axis, column in enumerate(inside) if column not in columns))
        kept = [column for column in inside if column in columns]
        return self.total * np.transpose(table, [kept.index(column) for column in columns])

    def answer(self, weights: Mapping[str, Array]) -> float:
        """The expected sum over rows of a product of weights: for each column named here, the weight of the value that the row
        has in it. With weights 0 and 1 it counts the rows whose values are all among the chosen ones."""
        for column, weight in weights.items():
            if np.shape(weight) != self.domain.shape([column]):
                raise ValueError(f"{column} has {self.domain.cells([column])} values, each with a weight")
        return self.total * float(self._along_tree((), weights))

    @cached_property
    def conditionals(self) -> tuple[Array, ...]:
        """For each clique p(residual | separator): zero where the separator's value has probability zero."""
        found = []
        for clique, table in zip(self.tree.cliques, self.probabilities, strict=True):
            sums = table.sum(axis=tuple(range(clique.shared, table.ndim)), keepdims=True)
            found.append(np.divide(table, sums, out=np.zeros_like(table), where=sums > 0))
        return tuple(found)

    def _along_tree(self, columns: Columns, weights: Mapping[str, Array]) -> Array:
        """The marginal probabilities of the columns, after rows are multiplied by their weights."""
        wanted = {*columns, *weights}
        return self._summed(self._top(wanted), columns, weights, is_top=True)[1]

    def _top(self, wanted: set[str]) -> int:
        """The lowest clique that has all of these columns in it or below it."""
        top = 0
        while (lower := next((child for child in self.tree.children[top] if wanted <= self.tree.below[child]), None)) is not None:
            top = lower
        return top

    def _summed(self, place: int, columns: Columns, weights: Mapping[str, Array], *,
                is_top: bool = False) -> tuple[Columns, Array]:
        """The sum over all columns at or below a clique, but those of the marginal and of the separator; and what its axes are.

        A column belongs to the highest clique that has it: weights are applied there, and it is summed there unless it is kept.
        """
        clique = self.tree.cliques[place]
        own = set(clique.columns if is_top else clique.residual)
        operands = [(clique.columns, self.probabilities[place] if is_top else self.conditionals[place])]
        operands += [((column,), np.asarray(weight, dtype=float)) for column, weight in weights.items() if column in own]
        for child in self.tree.children[place]:
            if not {*columns, *weights}.isdisjoint(self.tree.below[child].difference(self.tree.cliques[child].separator)):
                operands.append(self._summed(child, columns, weights))
        number = {column: at for at, column in enumerate(dict.fromkeys(column for names, _ in operands for column in names))}
        kept = columns if is_top else tuple(column for column in number if column in columns or column in clique.separator)
        given: list[Any] = [part for names, table in operands for part in (table, [number[column] for column in names])]
        return kept, np.asarray(np.einsum(*given, [number[column] for column in kept], optimize=len(operands) > 1))
