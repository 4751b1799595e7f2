"""The table that a model is made of, as coded columns, and the interface of the methods that measure it.

A method holds no data. `measure` is a generator that yields requests, receives releases and returns noisy marginals and their
model, as a mechanism does (`mechanisms.mechanism`): a mistake in it can spoil a table, but not leak a row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping, Sequence
from itertools import combinations, product
from typing import Any, ClassVar, Protocol

import numpy as np

from dpsql.frozen import Frozen, field
from dpsql.models.noisy_marginals import MarginalMeasurement
from dpsql.models.sampling import Places
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.models.table_model import TableModel
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.cached import cached_property
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.cells import Cells
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.summands import Count
from dpsql.workload.factors import Array


class Measured(Frozen, eq=False):
    """The noisy marginals, in the order in which they were measured, and the model fitted to them.

    A method fits the model itself, as what it chooses may depend on it: a fit that follows the choices step by step, each from
    where the one before ended, is nearer to the table than one fit to all marginals at once. `coarser` are the coarser versions
    of columns that are in marginals and model. `notes` say what a reader of the table should know of the fit.
    """

    marginals: tuple[MarginalMeasurement, ...]
    model: TableModel
    coarser: tuple[CodedColumn, ...] = ()
    notes: tuple[str, ...] = ()


Measuring = Generator[Request, Any, Measured]
WIDTH = 3  # columns of the marginals that a table should be good at, where none are named


class CodedColumn(Frozen):
    """A column of the view with the public list of its values, NULL among them if rows may have it.

    column  the identifier in the view
    name    the name in the synthetic table
    ordered  whether the values are numbers, dates or times, or numbers of bins of these
    of      for a coarser version, the name of the column or version whose values it merges
    merged  the index here of each value of that one
    """

    column: str
    name: str
    values: tuple[Value, ...]
    ordered: bool = False
    of: str = ""
    merged: tuple[int, ...] = ()


class CodedTable(Frozen):
    """The private rows, of which an entity has at most `rows`, as combinations of listed values of columns. Some columns may have
    coarser versions, each after the one that it merges; these are columns of `leveled`, the same rows. `excluded` has marginals
    that are 1 for combinations of values which no row can have, as is known in public, and 0 elsewhere."""

    view: Node
    columns: tuple[CodedColumn, ...]
    rows: int
    coarser: tuple[CodedColumn, ...] = ()
    leveled: Node | None = None
    excluded: Mapping[Columns, Array] = field(default_factory=dict, compare=False)

    @cached_property
    def levels(self) -> CodedTable:
        """The same rows with the coarser versions as further columns."""
        return self if self.leveled is None else CodedTable(
            view=self.view, columns=(*self.columns, *self.coarser), rows=self.rows, leveled=self.leveled)

    @cached_property
    def impossible(self) -> Mapping[Columns, Array]:
        """What is excluded, in the coarsest versions from which it follows; and for each coarser version and what it merges: 0
        where a value is merged into another one, otherwise 1."""
        found: dict[Columns, Array] = {}
        for columns, table in self.excluded.items():
            names = list(columns)
            for each in self.coarser:
                if each.of in names and (merged := _merged(table, names.index(each.of), each)) is not None:
                    names, table = [each.name if name == each.of else name for name in names], merged
            found[tuple(names)] = table
        for each in self.coarser:
            table = np.ones((len(each.merged), len(each.values)))
            table[np.arange(len(each.merged)), each.merged] = 0
            found[each.of, each.name] = table
        return found

    @cached_property
    def domain(self) -> TableDomain:
        """The names of the columns, and the number of values of each."""
        return domain_of(self.columns)

    @cached_property
    def place(self) -> Mapping[str, int]:
        """The place of each column."""
        return {column.name: place for place, column in enumerate(self.columns)}

    def plan(self, columns: Columns) -> GroupedSums:
        """The number of rows with each combination of values of these columns."""
        chosen = [self._named[name] for name in columns]
        view = self.view if self.leveled is None or not any(column.of for column in chosen) else self.leveled
        return GroupedSums(input=view, keys=tuple(column.column for column in chosen), summands=(Count(),))

    def cells(self, columns: Columns) -> Cells:
        """The combinations of values of these columns, with the last column changing fastest, as in a numpy array."""
        return tuple(product(*(self._named[name].values for name in columns)))

    @cached_property
    def _named(self) -> Mapping[str, CodedColumn]:
        return {each.name: each for each in self.columns}


def domain_of(columns: Sequence[CodedColumn]) -> TableDomain:
    """The names of columns, and the number of values of each."""
    return TableDomain(columns=tuple(each.name for each in columns), sizes=tuple(len(each.values) for each in columns))


def _merged(table: Array, axis: int, column: CodedColumn) -> Array | None:
    """The table with the values along an axis merged, if the same follows from it; otherwise None."""
    places = np.array(column.merged, dtype=np.int64)
    found = np.take(table, np.unique(places, return_index=True)[1], axis)
    return found if np.array_equal(np.take(found, places, axis), table) else None


def with_coarser(domain: TableDomain, places: Places, coarser: Iterable[CodedColumn]) -> Places:
    """Rows, as indices into the lists of values, with the coarser versions of columns as further columns."""
    found = dict(zip(domain.columns, places.T, strict=True))
    for each in coarser:
        found[each.name] = np.array(each.merged, dtype=np.int64)[found[each.of]]
    return np.stack([*found.values()], axis=1)


class SynthesisTask(Frozen):
    """What a method is given; all of it is public but the rows that `table.view` stands for.

    price     of all requests together, at most
    workload  the marginals that the synthetic table should be good at, each as much as the others
    known     marginals of the same rows that the same account was given before, which cost nothing
    given     columns that are given where rows are drawn: not measured by themselves, only together with others
    public    rows of a public table like the private one, as places in the lists of values; None if none is named
    single    whether a round of MWEM measures one count, and not a whole marginal
    """

    table: CodedTable
    price: Cost
    workload: tuple[Columns, ...]
    known: tuple[MarginalMeasurement, ...] = ()
    given: frozenset[str] = frozenset()
    public: Places | None = None
    single: bool = False

    @property
    def columns(self) -> Columns:
        """The columns that are not given."""
        return tuple(column for column in self.table.domain.columns if column not in self.given)


def marginals_of(domain: TableDomain, width: int = WIDTH) -> tuple[Columns, ...]:
    """All marginals of `width` columns; if there are fewer columns, the one of all columns."""
    return tuple(combinations(domain.columns, min(width, len(domain.columns))))


class Impossible(Frozen):
    """Why a method cannot do what is asked, and what to write in its place."""

    why: str
    try_: str


class Method(ABC):
    """One way to choose marginals and measure them."""

    name: ClassVar[str]

    def refusal(self, task: SynthesisTask) -> Impossible | None:
        """Why the method cannot do this task, judged from public facts only; None if it can."""
        return None

    def parts(self, task: SynthesisTask) -> int | None:
        """The approximate number of measurements among which the price is divided equally; None if it is not known, or very
        large."""
        return None

    @abstractmethod
    def measure(self, task: SynthesisTask) -> Measuring:
        """Measure marginals for at most the price of the task in total."""

    @abstractmethod
    def stages(self, task: SynthesisTask) -> tuple[str, ...]:
        """What will be measured, a line for each stage, from public facts only."""


class Version(Protocol):
    """A coarser version of a column: its name, and that of the column or version whose values it merges."""

    @property
    def name(self) -> str: ...

    @property
    def of(self) -> str: ...


def columns_of_versions(coarser: Iterable[Version]) -> Mapping[str, str]:
    """The column that each coarser version is of, by their names."""
    found: dict[str, str] = {}
    for each in coarser:
        found[each.name] = found.get(each.of, each.of)
    return found


def versions_of(columns: Iterable[str], coarser: Iterable[Version]) -> Mapping[str, Columns]:
    """The names of each column and of its coarser versions, from fine to coarse."""
    found: dict[str, Columns] = {name: (name,) for name in columns}
    for version, column in columns_of_versions(coarser).items():
        found[column] = (*found[column], version)
    return found
