"""Draws some columns of rows of a Markov network, where the others are given: exact conditioning, many rows at once.

Rows with the same given values are one group. Upwards in the junction tree, each clique whose subtree has given values sends its
parent, for each group, how probable they make each value of the separator (belief propagation with evidence). Downwards, each
clique's missing columns are drawn together, in proportion to the clique's conditional probability times what its children sent;
by then its separator is known for each row. That is a draw from p(missing | given): the tree is a Bayesian network of cliques
(`markov_network`), and a message is the likelihood of all that is given below.

Values that the model thinks impossible may be given all the same, as they come from another model. A part of what is given that
has no probability tells nothing then, and is ignored.

Source: Koller and Friedman, Probabilistic Graphical Models, 2009, chapters 10.2 and 12.1 (forward sampling after calibration).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen
from dpsql.models.junction_tree import Clique, JunctionTree
from dpsql.models.sampling import Places, UniformDraws, conditional
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.workload.factors import Array

MOST_AT_ONCE = 2**22  # probabilities that are held for a part of the groups


class Allowed(Frozen, eq=False):
    """Which values of a column a row may have: one of several patterns.

    patterns  one row for each, with a truth value for each value of the column; some value is allowed in each
    at        the pattern of each row
    """

    patterns: NDArray[np.bool_]
    at: Places


NOTHING_MORE: Mapping[str, Allowed] = {}


def grouped(domain: TableDomain, rows: int, given: Mapping[str, Places], allowed: Mapping[str, Allowed]) -> tuple[Places, Places]:
    """A representative of each group of rows with the same values and patterns, and the group of each row.

    Raises ValueError if a column is unknown, has another number of rows or values that are not of the domain, or where all
    values of a row are forbidden.
    """
    for column, places in given.items():
        if len(places) != rows or (rows and not 0 <= places.min() <= places.max() < domain.cells([column])):
            raise ValueError(f"{column} needs a value of its domain for each row")
    for column, each in allowed.items():
        if column in given or len(each.at) != rows or each.patterns.shape[1:] != domain.shape([column]) or (
                not each.patterns.any(axis=1).all()):
            raise ValueError(f"{column} must be either given, or restricted to some values, for each row")
    keys = np.zeros(rows, dtype=np.int64)
    for places in (*given.values(), *(each.at for each in allowed.values())):
        _, keys = np.unique(keys * (int(places.max(initial=0)) + 1) + places, return_inverse=True)
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return first, group


class CliqueConditionals(Frozen, eq=False):
    """A Markov network as p(residual | separator) for each clique of its tree, with an axis for each column of the clique."""

    domain: TableDomain
    tree: JunctionTree
    tables: Sequence[Array]

    def draw(self, rows: int, given: Mapping[str, Places], generator: UniformDraws, allowed: Mapping[str, Allowed]) -> Places:
        """Rows with the given values; see `table_model.TableModel.draw_given`."""
        first, group = grouped(self.domain, rows, given, allowed)
        places = np.zeros((rows, len(self.domain.columns)), dtype=np.int64)
        for column, values in given.items():
            places[:, self.domain.columns.index(column)] = values
        order = np.argsort(group, kind="stable")
        ends = np.searchsorted(group[order], np.arange(len(first) + 1))
        for low, high in self._parts(len(first), given):
            here = order[ends[low]:ends[high]]
            part = GivenRows(
                model=self, generator=generator, group=group[here] - low,
                given={column: values[first[low:high]] for column, values in given.items()},
                allowed={column: each.patterns[each.at[first[low:high]]] for column, each in allowed.items()})
            for column, values in part.drawn().items():
                places[here, self.domain.columns.index(column)] = values
        return places

    def _parts(self, groups: int, given: Mapping[str, Places]) -> Iterator[tuple[int, int]]:
        """Parts of the groups for which the probabilities of every clique fit into memory."""
        most = max(self.domain.cells(column for column in clique.columns if column not in given) for clique in self.tree.cliques)
        step = max(1, MOST_AT_ONCE // most)
        return ((low, min(low + step, groups)) for low in range(0, groups, step))


class GivenRows(Frozen, eq=False):
    """Rows in groups, what is given of each group, and what is allowed in it.

    Tables have an axis for the groups, of length 1 where all groups have the same, and one for each column that is missing.
    """

    model: CliqueConditionals
    generator: UniformDraws
    group: Places
    given: Mapping[str, Places]
    allowed: Mapping[str, NDArray[np.bool_]]

    def drawn(self) -> dict[str, Places]:
        """The missing columns, row by row."""
        messages, found = self._messages(), {column: places[self.group] for column, places in self.given.items()}
        for place, clique in enumerate(self.model.tree.cliques):
            missing = self._missing(clique.residual)
            if missing:
                shape = self.model.domain.shape(missing)
                cells = self._cells(place, clique, messages, found)
                found |= dict(zip(missing, map(np.asarray, np.unravel_index(cells, shape)), strict=True))
        return {column: found[column] for column in self.model.domain.columns if column not in self.given}

    def _missing(self, columns: Columns) -> Columns:
        return tuple(column for column in columns if column not in self.given)

    def _messages(self) -> dict[int, Array]:
        """What cliques send to their parents: over the groups and the missing columns of their separators. Nothing is sent where
        nothing is given below, as the sum over all values is 1 then."""
        found: dict[int, Array] = {}
        cliques = self.model.tree.cliques
        for place in range(len(cliques) - 1, 0, -1):
            clique = cliques[place]
            if any(child in found for child in self.model.tree.children[place]) or any(
                    column in self.given or column in self.allowed for column in clique.residual):
                table = self._likely(place, clique, found)
                kept = len(self._missing(clique.separator))
                sums = table.sum(axis=tuple(range(1 + kept, table.ndim)))
                largest = sums.max(axis=tuple(range(1, sums.ndim)), keepdims=True)
                found[place] = np.divide(sums, largest, out=np.ones_like(sums), where=largest > 0)
        return found

    def _likely(self, place: int, clique: Clique, messages: Mapping[int, Array]) -> Array:
        """The conditional probabilities of a clique, times what its children sent, over its missing columns."""
        table = self.model.tables[place]
        fixed = [axis for axis, column in enumerate(clique.columns) if column in self.given]
        free = [axis for axis, column in enumerate(clique.columns) if column not in self.given]
        moved = np.transpose(table, [*fixed, *free])
        missing = self._missing(clique.columns)
        found = moved[tuple(self.given[clique.columns[axis]] for axis in fixed)] if fixed else moved[None]
        for child in self.model.tree.children[place]:
            if child in messages:
                sent = self._missing(self.model.tree.cliques[child].separator)
                found = found * _aligned(messages[child], sent, missing)
        for column in clique.residual:
            if column in self.allowed:
                found = found * _aligned(self.allowed[column], (column,), missing)
        return found

    def _cells(self, place: int, clique: Clique, messages: Mapping[int, Array], found: Mapping[str, Places]) -> Places:
        """For each row the combination of values of the clique's missing columns, given its separator."""
        likely = self._likely(place, clique, messages)
        above, missing = self._missing(clique.separator), self._missing(clique.residual)
        possible = np.ones((1, *self.model.domain.shape(missing)), dtype=bool)
        for column in missing:
            if column in self.allowed:
                possible = possible & _aligned(self.allowed[column], (column,), missing)
        size = self.model.domain.cells(missing)
        wide = len(likely) > 1 or len(possible) > 1
        key = self.group.copy() if wide else np.zeros(len(self.group), dtype=np.int64)
        for column in above:
            key = key * self.model.domain.cells([column]) + found[column]
        _, first, rows = np.unique(key, return_index=True, return_inverse=True)
        of, within = self.group[first], tuple(found[column][first] for column in above)
        chances = likely[(of if len(likely) > 1 else np.zeros(len(of), dtype=np.int64), *within)].reshape(len(of), size)
        never = chances.sum(axis=1) <= 0
        if never.any():
            sets = possible.reshape(len(possible), size)
            chances[never] = sets[of[never] if len(sets) > 1 else np.zeros(int(never.sum()), dtype=np.int64)]
        return conditional(chances, rows, self.generator)


def _aligned(table: Array | NDArray[np.bool_], columns: Columns, wanted: Columns) -> Array:
    """The table with an axis of length 1 for each wanted column that it lacks, in their order."""
    kept = [column for column in wanted if column in columns]
    moved = np.transpose(table, [0, *(1 + columns.index(column) for column in kept)])
    sizes = dict(zip(kept, moved.shape[1:], strict=True))
    return np.asarray(moved.reshape(len(moved), *(sizes.get(column, 1) for column in wanted)))
