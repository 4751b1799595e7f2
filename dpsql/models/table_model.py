"""What every model of a table can do, whatever it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from dpsql.models.conditional_draws import NOTHING_MORE, Allowed
from dpsql.models.sampling import Places, UniformDraws
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.workload.factors import Array


class TableModel(Protocol):
    """A distribution of a table's rows. It is public, as it is made of what was released."""

    @property
    def domain(self) -> TableDomain: ...

    @property
    def total(self) -> float:
        """The number of rows, which need not be whole."""
        ...

    def marginal(self, columns: Columns) -> Array:
        """The expected counts of all combinations of values of these columns, with one axis per column in this order.

        Raises Unsupported if there are too many combinations.
        """
        ...

    def draw(self, rows: int, generator: UniformDraws) -> Places:
        """A table of this many rows, in random order: an array with one row for each, and one column for each of the domain. Its
        values are 0, ..., size - 1. Raises ValueError if the number of rows is negative."""
        ...

    def draw_given(self, rows: int, given: Mapping[str, Places], generator: UniformDraws,
                   allowed: Mapping[str, Allowed] = NOTHING_MORE) -> Places:
        """This many rows with given values in some columns, as from `draw`, in the order of the rows given.

        given    for each of these columns the value of each row
        allowed  for some of the others the values that each row may have

        Raises ValueError if what is given or allowed is not of the domain, or nothing is allowed.
        """
        ...
