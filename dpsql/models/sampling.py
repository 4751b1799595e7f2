"""Draws a column of a table, given the columns that are drawn already, with far less error than independent rows would have.

Rows with the same values of the given columns are one group. In each group the new column is drawn by systematic sampling: n
points at distance 1/n, from a random first one, are looked up in the cumulative distribution of the column given these values, so
that each value occurs its expected number of times, rounded down or up.

Systematic sampling sorts a group by the new column. So the points are dealt to the rows of the group in another order, or
siblings in the tree would be sorted alike, and columns that are independent given the separator would depend on each other as
strongly as they can. Where other columns are drawn already, rows that are alike in them get points that are far apart: the rows
of a group are listed by these columns, and the points are dealt along the list as multiples of the golden ratio, modulo 1, follow
each other in size. Every stretch of the list then has points that are spread evenly (the three-distance theorem), and the new
column has nearly the same distribution in each. The list is by the other columns in random order, their values in random order
too, and the dealing begins at a random point: every row has a point that is uniform, and no two columns are dealt along the same
list. On Adult that lowers the error that the draw adds to marginals of three columns from 0.007 to 0.005.

The first points of groups with equally many rows are spread evenly over their range, again in random order, as there may be many
groups of one row.

Sources: Cochran, Sampling Techniques, 1977, chapter 8 (systematic sampling from lists in order); Sos, On the distribution mod 1
of the sequence n alpha, 1958.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.trusted.stopping import go_on
from dpsql.workload.factors import Array

Places = NDArray[np.int64]
GOLDEN = (5**0.5 - 1) / 2


class UniformDraws(Protocol):
    """A source of randomness, such as numpy's generators. What it draws is public: no noise for private rows comes from it."""

    def random(self, size: int, /) -> Array:
        """This many independent numbers, uniform in [0, 1)."""


def conditional(chances: Array, groups: Places, generator: UniformDraws, others: Sequence[Places] = ()) -> Places:
    """A value for each row, drawn with the chances of its group, which need not add up to 1. Within a group, it is independent of
    the `others`, columns that were drawn before."""
    go_on()
    present, group, counts = np.unique(groups, return_inverse=True, return_counts=True)
    sums = chances[present].cumsum(axis=1)
    many, size = sums.shape
    sums[sums[:, -1] <= 0] = np.arange(1, size + 1)  # chances too small for floating-point numbers: all the same
    sums /= sums[:, -1:]
    place = _dealt(group, counts, generator, others)
    stratum, strata = _random_places(counts, generator)
    first = (stratum + generator.random(many)) / strata
    points = np.minimum(group + (place + first[group]) / counts[group], np.nextafter(group + 1, group))
    ends = (sums + np.arange(many)[:, None]).ravel()  # one increasing list: group g has the numbers from g to g + 1
    return np.asarray(ends.searchsorted(points, side="right") - size * group, dtype=np.int64)


def _dealt(group: Places, counts: Places, generator: UniformDraws, others: Sequence[Places]) -> Places:
    """For each row a place in its group, from 0 on. `group` has the number of its group, `counts` the rows of each."""
    shuffled = [np.argsort(generator.random(int(column.max(initial=0)) + 1))[column] for column in others]
    keys = [shuffled[at] for at in np.argsort(generator.random(len(others)))]
    listed = _numbered(group, counts, [generator.random(len(group)), *keys])
    dealt = _numbered(group, counts, [(listed * GOLDEN + generator.random(len(counts))[group]) % 1])
    turn = np.floor(generator.random(len(counts)) * counts).astype(np.int64)
    return np.asarray((dealt + turn[group]) % counts[group], dtype=np.int64)


def _random_places(labels: Places, generator: UniformDraws) -> tuple[Places, Places]:
    """For each item a place among those of the same label, from 0 on and in random order; and how many of these there are."""
    _, at, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return _numbered(at, counts, [generator.random(len(labels))]), counts[at]


def _numbered(label: Places, counts: Places, keys: Sequence[Array | Places]) -> Places:
    """For each item its place among those of the same label, from 0 on, in the order of the keys: the last one counts most."""
    places = np.empty(len(label), dtype=np.int64)
    places[np.lexsort((*keys, label))] = np.arange(len(label)) - np.repeat(counts.cumsum() - counts, counts)
    return places
