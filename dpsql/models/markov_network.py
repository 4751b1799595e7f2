"""A fitted graphical model of a table: its marginals over any columns, and its answers to queries that are products.

By the junction tree, p(x) is the marginal of the top clique times p(residual | separator) of every other clique. A marginal that
is within no clique is summed up along the smallest subtree that has its columns, from the leaves to the top, so that no array is
larger than a clique times the marginal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen
from dpsql.models.conditional_draws import NOTHING_MORE, Allowed, CliqueConditionals
from dpsql.models.junction_tree import JunctionTree
from dpsql.models.sampling import Places, UniformDraws, conditional
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.trusted.cached import cached_property
from dpsql.workload.domain import room
from dpsql.workload.factors import Array

Labelled: TypeAlias = tuple[Columns, Array]  # a table, after the columns that its axes are


class MarkovNetwork(Frozen, kw_only=False, eq=False):
    """A distribution of a table's rows. Made by `mirror_descent.fit`."""

    domain: TableDomain
    total: float  # number of rows, which need not be whole
    tree: JunctionTree
    probabilities: tuple[Array, ...]  # of each clique of the tree, in the order of its columns
    potentials: Mapping[Columns, Array]  # log potentials of the measured marginals, from which a later fit can start

    def marginal(self, columns: Columns) -> Array:
        """The expected counts of all combinations of values of these columns, with one axis per column in this order.

        Raises ValueError if a column stands twice, KeyError where it is not in the table, and Unsupported where there are too
        many combinations.
        """
        room("a marginal of the model", *self.domain.shape(columns))
        if len(set(columns)) != len(columns):
            raise ValueError("a marginal cannot contain a column twice")
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
        has in it. With weights 0 and 1 it counts the rows whose values are all among the chosen ones.

        Raises ValueError if there are more or fewer weights than values.
        """
        for column, weight in weights.items():
            if np.shape(weight) != self.domain.shape([column]):
                raise ValueError(f"{column} has {self.domain.cells([column])} values, each with a weight")
        return self.total * float(self._along_tree((), weights))

    def draw(self, rows: int, generator: UniformDraws) -> Places:
        """A table of this many rows, in random order: an array with one row for each, and one column for each of the domain.
        Its values are 0, ..., size - 1. Raises ValueError if the number of rows is negative.

        Columns are drawn one after the other, see `sampling`: cliques from the root of the junction tree down, and within a
        clique small columns first.
        """
        if rows < 0:
            raise ValueError("the number of rows is not negative")
        size = self.domain.cells
        drawn: dict[str, NDArray[Any]] = {}  # in few bytes each
        for clique in self.tree.cliques:
            given = clique.separator
            for column in sorted(clique.residual, key=lambda each: size([each])):
                group = np.zeros(rows, dtype=np.int64)
                for earlier in given:
                    group = group * size([earlier]) + drawn[earlier]
                chances = self.marginal((*given, column)).reshape(-1, size([column]))
                others = [values for earlier, values in drawn.items() if earlier not in given]
                drawn[column] = conditional(chances, group, generator, others).astype(np.min_scalar_type(size([column])))
                given = (*given, column)
        return np.stack([drawn[column] for column in self.domain.columns], axis=1, dtype=np.int64)

    def draw_given(self, rows: int, given: Mapping[str, Places], generator: UniformDraws,
                   allowed: Mapping[str, Allowed] = NOTHING_MORE) -> Places:
        """This many rows with given values in some columns, as from `draw`, in the order of the rows given.

        given    for each of these columns the value of each row
        allowed  for some of the others the values that each row may have

        Raises ValueError if what is given or allowed is not of the domain, or nothing is allowed.
        """
        conditionals = CliqueConditionals(domain=self.domain, tree=self.tree, tables=self.conditionals)
        return conditionals.draw(rows, given, generator, allowed)

    @cached_property
    def conditionals(self) -> tuple[Array, ...]:
        """For each clique p(residual | separator); zero if the separator's value has probability zero."""
        found = []
        for clique, table in zip(self.tree.cliques, self.probabilities, strict=True):
            sums = table.sum(axis=tuple(range(clique.shared, table.ndim)), keepdims=True)
            found.append(np.divide(table, sums, out=np.zeros_like(table), where=sums > 0))
        return tuple(found)

    def _along_tree(self, columns: Columns, weights: Mapping[str, Array]) -> Array:
        """The marginal probabilities of the columns, after rows are multiplied by their weights.

        A column belongs to the highest clique that has it: its weights are applied there, and it is summed there unless it is in
        the marginal. Each clique below the top sends its sums to its parent, over its separator and the marginal's columns.
        """
        wanted = {*columns, *weights}
        top = self._top(wanted)
        received: dict[int, list[Labelled]] = defaultdict(list)
        for place in self._between(top, wanted):
            clique = self.tree.cliques[place]
            tables = [(clique.columns, self.conditionals[place]), *received.pop(place, []), *_weights(clique.residual, weights)]
            present = dict.fromkeys(column for names, _ in tables for column in names)
            kept = tuple(column for column in present if column in columns or column in clique.separator)
            received[clique.parent].append((kept, _product(tables, kept)))
        inside = self.tree.cliques[top].columns
        return _product([(inside, self.probabilities[top]), *received[top], *_weights(inside, weights)], columns)

    def _top(self, wanted: set[str]) -> int:
        """The lowest clique that has all of these columns in it or below it."""
        top = 0
        while (lower := next((child for child in self.tree.children[top] if wanted <= self.tree.below[child]), None)) is not None:
            top = lower
        return top

    def _between(self, top: int, wanted: set[str]) -> list[int]:
        """The cliques on the ways from the top down to those that the columns belong to, without the top; children first."""
        found: set[int] = set()
        for column in wanted:
            place = self.tree.home[column]
            while place > top and place not in found:
                found.add(place)
                place = self.tree.cliques[place].parent
        return sorted(found, reverse=True)


def _weights(columns: Columns, weights: Mapping[str, Array]) -> list[Labelled]:
    return [((column,), np.asarray(weights[column], dtype=float)) for column in columns if column in weights]


def _product(tables: Sequence[Labelled], kept: Columns) -> Array:
    """The product of the tables, summed over all other columns."""
    number = {column: at for at, column in enumerate(dict.fromkeys(column for names, _ in tables for column in names))}
    given: list[Any] = [part for names, table in tables for part in (table, [number[column] for column in names])]
    return np.asarray(np.einsum(*given, [number[column] for column in kept], optimize=len(tables) > 1))
