"""Draws a column of a table, given the columns that are drawn already, with far less error than independent rows would have.

Rows with the same values of the given columns are one group. In each group the new column is drawn by systematic sampling: n
points at distance 1/n, from a random first one, are looked up in the cumulative distribution of the column given these values, so
that each value occurs its expected number of times, rounded down or up.

Systematic sampling sorts a group by the new column. Unless the rows of the group are in random order, siblings in the tree would
be sorted alike, and columns that are independent given the separator would depend on each other as strongly as they can. The
first points of groups with equally many rows are spread evenly over their range, again in random order, as there may be many
groups of one row.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.workload.factors import Array

Places = NDArray[np.int64]


class UniformDraws(Protocol):
    """A source of randomness, such as numpy's generators. What it draws is public: no noise for private rows comes from it."""

    def random(self, size: int, /) -> Array:
        """So many independent numbers, uniform in [0, 1)."""


def conditional(chances: Array, groups: Places, generator: UniformDraws) -> Places:
    """A value for each row, by the chances of its group, which need not add up to 1."""
    present, group = np.unique(groups, return_inverse=True)
    sums = chances[present].cumsum(axis=1)
    many, size = sums.shape
    sums[sums[:, -1] <= 0] = np.arange(1, size + 1)  # chances too small for floating-point numbers: all the same
    sums /= sums[:, -1:]
    place, rows = _random_places(group, generator)
    stratum, strata = _random_places(np.bincount(group, minlength=many), generator)
    first = (stratum + generator.random(many)) / strata
    points = np.minimum(group + (place + first[group]) / rows, np.nextafter(group + 1, group))
    ends = (sums + np.arange(many)[:, None]).ravel()  # one increasing list: group g has the numbers from g to g + 1
    return np.asarray(ends.searchsorted(points, side="right") - size * group, dtype=np.int64)


def _random_places(labels: Places, generator: UniformDraws) -> tuple[Places, Places]:
    """For each item a place among those of the same label, from 0 on and in random order; and how many of these there are."""
    _, at, counts = np.unique(labels, return_inverse=True, return_counts=True)
    places = np.empty(len(labels), dtype=np.int64)
    places[np.lexsort((generator.random(len(labels)), at))] = np.arange(len(labels)) - np.repeat(counts.cumsum() - counts, counts)
    return places, counts[at]
