"""The table that a model is made of, as coded columns, and the interface of the methods that measure it.

A method holds no data. `measure` is a generator that yields requests, receives releases and returns noisy marginals and their
model, as a mechanism does (`mechanisms.mechanism`): a mistake in it can spoil a table, but not leak a row.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Protocol

from dpsql.accounting.cost import Cost
from dpsql.measurements import Request
from dpsql.models.markov_network import MarkovNetwork
from dpsql.models.noisy_marginals import MarginalMeasurement
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.plan.cells import Cells
from dpsql.plan.expr.nodes import Value
from dpsql.plan.node import Node
from dpsql.plan.operators.grouped_sums import GroupedSums
from dpsql.plan.operators.summands import Count


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measured:
    """The noisy marginals, in the order in which they were measured, and the model fitted to them.

    A method fits the model itself, as what it chooses may depend on it: a fit that follows the choices step by step, each from
    where the one before ended, is nearer to the table than one fit to all marginals at once.
    """

    marginals: tuple[MarginalMeasurement, ...]
    network: MarkovNetwork


Measuring = Generator[Request, Any, Measured]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedColumn:
    """A column of the view with the public list of its values, NULL among them if rows may have it.

    column  the identifier in the view
    name    the name in the synthetic table
    """

    column: str
    name: str
    values: tuple[Value, ...]


@dataclass(frozen=True, kw_only=True)
class CodedTable:
    """The private rows, of which an entity has at most `rows`, as combinations of listed values of columns."""

    view: Node
    columns: tuple[CodedColumn, ...]
    rows: int

    @cached_property
    def domain(self) -> TableDomain:
        """The names of the columns, and how many values each has."""
        return TableDomain(columns=tuple(each.name for each in self.columns),
                           sizes=tuple(len(each.values) for each in self.columns))

    def plan(self, columns: Columns) -> GroupedSums:
        """The number of rows with each combination of values of these columns."""
        by_name = {each.name: each for each in self.columns}
        return GroupedSums(input=self.view, keys=tuple(by_name[name].column for name in columns), summands=(Count(),))

    def cells(self, columns: Columns) -> Cells:
        """The combinations of values of these columns, the last column's changing first: the order of a numpy array."""
        by_name = {each.name: each for each in self.columns}
        return tuple(product(*(by_name[name].values for name in columns)))


class Method(Protocol):
    """One way to choose marginals and measure them."""

    @property
    def name(self) -> str: ...

    def measure(self, table: CodedTable, price: Cost) -> Measuring:
        """Measures marginals for this price in all, at most."""
        ...

    def told(self, table: CodedTable, price: Cost) -> tuple[str, ...]:
        """What will be measured, a line for each stage: from public facts only."""
        ...
