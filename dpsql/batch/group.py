"""What is measured together: all sums of one kind over one source."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Literal, Protocol, TypeAlias

from dpsql.batch.attributes import AttributeColumn
from dpsql.errors import OptionError
from dpsql.frozen import Frozen
from dpsql.strategies.all_strategies import Verdict
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.cached import cached_property
from dpsql.trusted.measurements.block_sums import Axis
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.summands import Count, GridSum
from dpsql.workload.factors import Array
from dpsql.workload.workload import ReducedWorkload, Workload, reduced

Kind: TypeAlias = Literal["normal", "laplaces", "approximate"]


def many(number: int, thing: str) -> str:
    """A number and a noun, with a plural s where needed."""
    return f"{number} {thing}{'s' if number != 1 else ''}"


class Group(Frozen):
    """All sums of one kind over one source: the workload, its view, and the most that one entity adds.

    moved   the most by which one entity changes the cells, in l1 and in the integers of the summand
    unit    the value of an integer of 1, in the unit of the aggregate
    pure    whether the noise is paid with a pure epsilon, or else with rho
    even    whether the largest error is to be small, and not the sum of squared errors: so the groups of several grouping sets,
            and their total, are each about as good as they would be alone, where all have the same noise. (For a pure epsilon no
            strategy does that: it would make all of them as bad as the worst.)
    """

    view: Node
    columns: tuple[AttributeColumn, ...]
    summand: Count | GridSum
    workload: Workload
    moved: int
    unit: float
    pure: bool
    even: bool = False

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The columns of the view that define the cells."""
        return tuple(Axis(column=f"a{i}", values=column.values, rest=column.rest) for i, column in enumerate(self.columns))

    @cached_property
    def smaller(self) -> ReducedWorkload:
        return reduced(self.workload)

    @property
    def size(self) -> str:
        """The size of the workload, as text for people."""
        return f"{many(self.workload.rows, 'number')} over {many(self.workload.domain.size, 'cell')}"


class Told(Frozen):
    """A plan's answers to every query of its group, in the unit of the aggregate: one number each, part after part.

    kind   the distribution of the errors, see `estimates.NoiseTerm`; 'approximate' if the variances are only a guide
    mixed  computes the weights, (answers, terms), of independent noise terms of variance 1 in each error; None if unknown
    shown  the fitted numbers that the answer shows, if a table was fitted to the values; its errors remain those of the values
    off    how far the truth may be below and above the values beside the noise, where these depend on assumptions about the rows
    notes  what a reader should know about the measurement
    """

    values: Array
    variances: Array
    kind: Kind = "normal"
    mixed: Callable[[], Array] | None = None
    shown: Array | None = None
    off: tuple[Array, Array] | None = None
    notes: tuple[str, ...] = ()


def too_small() -> OptionError:
    """The error for a price too small for any noise that can be drawn."""
    return OptionError("the price is too small for this workload", code="price", try_="a larger epsilon or rho")


class GroupPlan(Protocol):
    """How a group is answered: the requests to the kernel, step by step, and how their results are used.

    Data-dependent plans have the same interface as strategies that are fixed beforehand: their requests are charged in the
    same way, and `variances` is None if errors depend on the data.
    """

    @property
    def name(self) -> str: ...

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The strategies tried, and why others were not chosen."""
        ...

    @property
    def note(self) -> str:
        """How the group is measured, as text for people."""
        ...

    def noise(self, price: Cost) -> str:
        """Which noise is added to what, as text for people."""
        ...

    def variances(self, price: Cost) -> Array | None:
        """The variance of every answer at a price, in the squared unit of the aggregate; None if it depends on the data."""
        ...

    def steps(self, price: Cost) -> Generator[Request, Any, Told]:
        """Make the requests, which cost this price in total, and return the answers."""
        ...

    def check(self, price: Cost) -> None:
        """Raise OptionError if the price is too small for any noise that can be drawn."""
        ...
