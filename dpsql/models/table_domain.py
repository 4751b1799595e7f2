"""The columns of a table, each with a finite number of values: what a graphical model is over.

A `workload.domain.CellDomain` is one histogram, with one cell for each combination of all values. Here there are far too many
combinations for that (Adult has 10^16), so only marginals are arrays: over some of the columns, named in the order of the axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeAlias

from dpsql.frozen import Frozen
from dpsql.trusted.cached import cached_property
from dpsql.workload import domain as arrays

Columns: TypeAlias = tuple[str, ...]


class TableDomain(Frozen, kw_only=False):
    """Names of columns, and how many values each of them has: the values are 0, ..., size - 1."""

    columns: Columns
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.columns or len(set(self.columns)) != len(self.columns):
            raise ValueError("a table has at least one column, and no name occurs twice")
        if len(self.sizes) != len(self.columns) or min(self.sizes) < 1:
            raise ValueError("every column has a size, which is at least 1")

    @cached_property
    def _size_of(self) -> dict[str, int]:
        return dict(zip(self.columns, self.sizes, strict=True))

    def shape(self, columns: Iterable[str]) -> tuple[int, ...]:
        """The shape of a marginal over these columns. Raises KeyError if one is not in the table."""
        return tuple(map(self._size_of.__getitem__, columns))

    def cells(self, columns: Iterable[str]) -> int:
        """The number of cells of that marginal, as a Python integer."""
        return math.prod(map(self._size_of.__getitem__, columns))

    def ordered(self, columns: Iterable[str]) -> Columns:
        """The same columns in the order of the table."""
        chosen = set(columns)
        return tuple(column for column in self.columns if column in chosen)

    def project(self, columns: Columns) -> TableDomain:
        """The domain of these columns alone, in this order."""
        return TableDomain(columns, self.shape(columns))


def most_numbers() -> int:
    """The largest number of entries that one array, such as the counts of a marginal, may have. Larger ones are refused before a
    charge."""
    return arrays.ROOM // arrays.WORD
