"""A histogram over all combinations of values of a few columns, moved as little as possible to agree with noisy counts.

Each count of some of the cells is a linear condition. The histogram that meets it and is nearest in relative entropy is had by
one factor for these cells and one for all others (its I-projection; Csiszar 1975). For several conditions the projections
are repeated in turn, which approaches the nearest histogram that meets all of them. Multiplicative weights take half a step
towards the newest count instead, and forget the others; on Adult with 60 counts of cells that errs three times as much.

Source: Hardt and Rothblum, FOCS 2010, and Hardt, Ligett and McSherry, NIPS 2012, for the use of such updates under privacy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen, replace
from dpsql.models.conditional_draws import NOTHING_MORE, Allowed, CliqueConditionals
from dpsql.models.junction_tree import Clique, JunctionTree
from dpsql.models.sampling import Places, UniformDraws, conditional
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.workload.factors import Array

MOST_ROUNDS = 30  # through all counts
MOST_STEPS = 2 * 10**9  # cells that are looked at for a fit, in all
CLOSE = 0.05  # of a row: no count changes by more in a round that is the last
LEAST = 0.5  # rows that a group has, and that are outside it, at least: a factor is never 0


class GroupCount(Frozen, eq=False):
    """The noisy count of the rows in some cells of a marginal: `inside` has its shape."""

    columns: Columns
    inside: NDArray[np.bool_]
    count: float


class JointHistogram(Frozen, eq=False):
    """Expected counts of all cells, one axis for each column. None is negative."""

    domain: TableDomain
    counts: Array

    @property
    def total(self) -> float:
        """The number of rows."""
        return float(self.counts.sum())

    def marginal(self, columns: Columns) -> Array:
        """The expected counts of all combinations of values of these columns, with one axis per column in this order.

        Raises ValueError if a column stands twice.
        """
        if len(set(columns)) != len(columns):
            raise ValueError("a marginal cannot contain a column twice")
        others = tuple(i for i, column in enumerate(self.domain.columns) if column not in columns)
        kept = self.domain.ordered(columns)
        return np.transpose(self.counts.sum(axis=others), [kept.index(column) for column in columns])

    def draw(self, rows: int, generator: UniformDraws) -> Places:
        """A table of this many rows, in random order: an array with one row for each, and one column for each of the domain. Each
        cell has its expected number of rows, rounded down or up. Raises ValueError if the number of rows is negative."""
        if rows < 0:
            raise ValueError("the number of rows is not negative")
        cells = conditional(self.counts.reshape(1, -1), np.zeros(rows, dtype=np.int64), generator)
        return np.stack(np.unravel_index(cells, self.domain.sizes), axis=1).astype(np.int64)

    def draw_given(self, rows: int, given: Mapping[str, Places], generator: UniformDraws,
                   allowed: Mapping[str, Allowed] = NOTHING_MORE) -> Places:
        """This many rows, with given values in some columns; see `markov_network.MarkovNetwork.draw_given`."""
        alone = JunctionTree((Clique(columns=self.domain.columns, parent=-1, shared=0),))
        return CliqueConditionals(domain=self.domain, tree=alone, tables=(self.counts,)).draw(rows, given, generator, allowed)

    def tilted(self, columns: Columns, factors: Array) -> JointHistogram:
        """The histogram with each cell multiplied by the factor of the marginal's cell that contains it."""
        ordered = self.domain.ordered(columns)
        moved = np.transpose(factors, [columns.index(column) for column in ordered])
        shape = [size if column in ordered else 1 for column, size in zip(self.domain.columns, self.domain.sizes, strict=True)]
        return replace(self, counts=self.counts * moved.reshape(shape))

    def agreeing(self, found: Sequence[GroupCount]) -> JointHistogram:
        """The histogram nearest to this one that has these counts; approximately, if noise makes them contradict each other."""
        rounds = max(1, min(MOST_ROUNDS, MOST_STEPS // max(1, 2 * len(found) * self.counts.size)))
        made = self
        for _ in range(rounds if found else 0):
            before = [_count(made, each) for each in found]
            made = reduce(_projected, found, made)
            if max(abs(_count(made, each) - count) for each, count in zip(found, before, strict=True)) <= CLOSE:
                break
        return made


def of_columns(domain: TableDomain, total: float, singles: Sequence[Array]) -> JointHistogram:
    """Independent columns with these counts of their values, each at least a fraction of a row."""
    counts = np.full((1,) * len(domain.columns), max(total, 1.0))
    for axis, single in enumerate(singles):
        shares = np.maximum(single, LEAST)
        counts = counts * np.expand_dims(shares / shares.sum(), tuple(i for i in range(len(singles)) if i != axis))
    return JointHistogram(domain=domain, counts=counts)


def _count(histogram: JointHistogram, found: GroupCount) -> float:
    return float(histogram.marginal(found.columns)[found.inside].sum())


def _projected(histogram: JointHistogram, found: GroupCount) -> JointHistogram:
    """The I-projection on one condition. A group of all cells, or of none, says nothing but the total, which stays."""
    total, inside = histogram.total, _count(histogram, found)
    if not 0 < inside < total or total <= 2 * LEAST:
        return histogram
    goal = min(max(found.count, LEAST), total - LEAST)
    factors = np.where(found.inside, goal / inside, (total - goal) / (total - inside))
    return histogram.tilted(found.columns, factors)
