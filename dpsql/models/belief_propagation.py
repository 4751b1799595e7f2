"""Exact marginals of a graphical model from its log potentials, by two passes of messages over the junction tree.

The model is p(x) proportional to exp(sum_f potential_f(x_f)), where the factors f are marginals, each within a clique. Upwards,
every clique adds up the potentials and the messages of its children, and sends the log of their sum over the columns that its
parent lacks. Downwards, p(residual | separator), which is known by then, is multiplied by the parent's marginal of the separator.
So there is one exponential for each cell, and no division by small numbers: before it is taken, the largest log potential for
each value of the separator is subtracted, so that the sum divided by is at least 1.

Source: Koller and Friedman, Probabilistic Graphical Models, 2009, chapter 10.

All indices are computed once, as fits call this a thousand times. Within a clique, small tables are added to a larger one that
has all of their columns before that is added to the clique, and are summed up from it on the way back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dpsql.frozen import Frozen
from dpsql.models.junction_tree import Clique, JunctionTree
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.trusted.cached import cached_property
from dpsql.workload.factors import Array

LOWEST, LEAST = -1e300, 1e-300  # in place of the log of 0, and of a sum of 0, where a value of a separator is impossible


class CliqueTable(Frozen, kw_only=False):
    """A table over some columns of a clique: a factor, or the message of a child. Its array has an axis of length 1 for each
    other column."""

    shape: tuple[int, ...]
    within: int  # the place, among the parts of the clique, of a larger table with all of its columns; -1 is the clique itself
    summed: tuple[int, ...]  # the axes to sum that table over
    at: slice | int  # where a factor is in the vector of all factors, or which child sends the message


class Steps(Frozen, kw_only=False):
    """What one clique does in both passes."""

    clique: Clique
    shape: tuple[int, ...]
    flat: tuple[int, int]  # values of the separator, and of the other columns
    parts: tuple[CliqueTable, ...]  # larger ones first
    start: Array | None  # log potentials that stay: 0, and minus infinity where a cell is impossible


class Propagation(Frozen, kw_only=False):
    """A junction tree with factors in it. Values of all factors are one vector, each factor's in the order of `columns`."""

    domain: TableDomain
    tree: JunctionTree
    factors: Sequence[Columns]
    impossible: Mapping[Columns, Array] | None = None  # marginals with 1 where a combination cannot occur, and 0 elsewhere

    @cached_property
    def hosts(self) -> list[int]:
        """For each factor, the smallest clique that contains it. Raises ValueError if there is none."""
        return [self._host(factor) for factor in self.factors]

    def _host(self, columns: Columns) -> int:
        holding = self.tree.holding(columns)
        if not holding:
            raise ValueError(f"no clique of the model holds {', '.join(columns)}")
        return min(holding, key=lambda place: self.domain.cells(self.tree.cliques[place].columns))

    @cached_property
    def columns(self) -> list[Columns]:
        """The columns of each factor, in the order of its clique."""
        return [tuple(column for column in self.tree.cliques[host].columns if column in factor)
                for factor, host in zip(self.factors, self.hosts, strict=True)]

    @cached_property
    def slices(self) -> list[slice]:
        """The position of each factor in the vector of all."""
        ends = np.cumsum([self.domain.cells(factor) for factor in self.factors]).tolist()
        return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]

    def vector(self, tables: Sequence[Array]) -> Array:
        """The vector of all factors from one table per factor, whose axes are as in `factors`."""
        parts = [np.transpose(table, [factor.index(column) for column in columns]).ravel()
                 for table, factor, columns in zip(tables, self.factors, self.columns, strict=True)]
        return np.concatenate([np.zeros(0), *parts])

    def tables(self, vector: Array) -> list[Array]:
        """The table of each factor, with its axes as in `factors`, from the vector of all factors."""
        return [vector[at].reshape(self.domain.shape(columns)).transpose([columns.index(column) for column in factor])
                for at, factor, columns in zip(self.slices, self.factors, self.columns, strict=True)]

    def marginals(self, potentials: Array) -> tuple[Array, list[Array]]:
        """The probabilities of all factors as a vector, and those of each clique as an array.

        Raises ValueError if everything is impossible.
        """
        values = potentials.copy()
        messages: list[Array] = [np.ones(1)] * len(self._steps)
        beliefs, sums = list(messages), list(messages)
        with np.errstate(divide="ignore"):
            for place in range(len(self._steps) - 1, -1, -1):
                beliefs[place], sums[place], messages[place] = _upwards(self._steps[place], values, messages)
        if np.isneginf(messages[0]).any():
            raise ValueError("no combination of values is possible")
        messages[0] = np.ones(1)
        for place, step in enumerate(self._steps):
            _downwards(step, beliefs[place], sums[place], messages[place], values, messages)
        return values, beliefs

    @cached_property
    def _steps(self) -> list[Steps]:
        return [self._steps_of(place, clique) for place, clique in enumerate(self.tree.cliques)]

    def _steps_of(self, place: int, clique: Clique) -> Steps:
        inside: list[tuple[Columns, slice | int]] = [
            (columns, at) for columns, at, host in zip(self.columns, self.slices, self.hosts, strict=True) if host == place]
        inside += [(self.tree.cliques[child].separator, child) for child in self.tree.children[place]]
        inside.sort(key=lambda each: self.domain.cells(each[0]), reverse=True)
        parts = []
        for number, (columns, at) in enumerate(inside):
            within = next((other for other in range(number - 1, -1, -1) if set(columns) <= set(inside[other][0])), -1)
            outer = clique.columns if within < 0 else inside[within][0]
            summed = tuple(axis for axis, column in enumerate(clique.columns) if column in outer and column not in columns)
            parts.append(CliqueTable(shape=self._expanded(clique, columns), within=within, summed=summed, at=at))
        return Steps(clique=clique, shape=self.domain.shape(clique.columns), parts=tuple(parts), start=self._start(place, clique),
                     flat=(self.domain.cells(clique.separator), self.domain.cells(clique.residual)))

    def _expanded(self, clique: Clique, columns: Columns) -> tuple[int, ...]:
        """The shape of a table over some of a clique's columns, with an axis of length 1 for each other one."""
        return tuple(self.domain.cells([column]) if column in columns else 1 for column in clique.columns)

    def _start(self, place: int, clique: Clique) -> Array | None:
        """Minus infinity where one of the marginals that are given to this clique says that a cell is impossible."""
        found = None
        for columns, table in (self.impossible or {}).items():
            if self._host(columns) == place:
                found = np.zeros(self.domain.shape(clique.columns)) if found is None else found
                order = [columns.index(column) for column in clique.columns if column in columns]
                expanded = np.transpose(table, order).reshape(self._expanded(clique, columns))
                found[np.broadcast_to(expanded != 0, found.shape)] = -np.inf
        return found


def _upwards(step: Steps, values: Array, messages: Sequence[Array]) -> tuple[Array, Array, Array]:
    """The numbers exp(log potential - largest for the same separator), their sums, and the message to the parent."""
    tables = [(values[part.at] if isinstance(part.at, slice) else messages[part.at]).reshape(part.shape) for part in step.parts]
    belief = np.zeros(step.shape) if step.start is None else step.start.copy()
    for part, table in zip(reversed(step.parts), reversed(tables), strict=True):
        larger = belief if part.within < 0 else tables[part.within]
        larger += table
    flat = belief.reshape(step.flat)
    largest = np.maximum(flat.max(axis=1, keepdims=True), LOWEST)
    flat -= largest
    np.exp(flat, out=flat)
    sums = flat.sum(axis=1, keepdims=True)
    return belief, sums, largest + np.log(sums)


def _downwards(step: Steps, belief: Array, sums: Array, separator: Array, values: Array, messages: Sequence[Array]) -> None:
    """Makes the numbers probabilities, and writes those of the factors and of the children's separators where they belong."""
    flat = belief.reshape(step.flat)
    flat *= separator.reshape(-1, 1) / np.maximum(sums, LEAST)
    tables: list[Array] = []
    for part in step.parts:
        table = (values[part.at] if isinstance(part.at, slice) else messages[part.at]).reshape(part.shape)
        larger = belief if part.within < 0 else tables[part.within]
        np.add.reduce(larger, axis=part.summed, keepdims=True, out=table)
        tables.append(table)
