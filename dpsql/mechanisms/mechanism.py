"""What a mechanism is: it says whether it can do a task and how well, and asks the kernel for what it needs.

A mechanism holds no data. `run` is a generator of requests: it gets back releases and returns estimates. So a mistake in a
mechanism can spoil an answer, not leak a row; what is spent is derived by the kernel from the requests themselves.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

from dpsql.accounting.cost import Cost
from dpsql.estimates import Estimate
from dpsql.measurements import Request
from dpsql.plan.cells import Cells
from dpsql.plan.certificate import Sensitivity
from dpsql.plan.expr.nodes import Value
from dpsql.plan.node import Node
from dpsql.plan.operators.arcs import Arcs
from dpsql.plan.operators.summands import Count, GridSum, Summand
from dpsql.plan.parts import Quantiles

Estimates: TypeAlias = tuple[Estimate, ...]
Script: TypeAlias = Generator[Request, Any, list[Estimates]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """Sums over cells of a summand of `input`; one estimate for each component, in integers."""

    at: int
    input: Node
    summand: Summand
    sensitivity: Sensitivity


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """Quantiles of a column of `input`, of which an entity moves at most `rows` rows; one estimate for each fraction."""

    at: int
    input: Node
    part: Quantiles
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrences:
    """How many of the `values` of a column occur in each cell of `input`, whose rows belong to one entity each; one estimate.

    input   the `owner`, the keys of the cells, and the column: each combination once
    total   the same number as a sum, where the rows of an entity are limited; None where nothing limits them
    """

    at: int
    input: Node
    owner: str
    column: str
    values: tuple[Value, ...]
    total: Linear | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Sums over cells of a summand of `input`, whose rows belong to the entities named in `owners`; one estimate, in integers.

    bound   the name of the way in which what one entity adds is limited: the mechanism of that name answers
    most    a public guess of what one entity's rows add up to at most, in integers: the end of a ladder of levels
    level   the limit, in integers, where the statement gives one
    groups  the most cells that the rows of one entity are in, where that is known
    once    a column of which each value has room for one row, see `plan.operators.owner_sets`
    """

    at: int
    input: Node
    owners: tuple[str, ...]
    summand: Count | GridSum
    bound: str
    most: int
    level: int | None = None
    groups: int | None = None
    once: str | None = None

    @property
    def width(self) -> int:
        """The most names that a set of this task has."""
        return len(self.owners) + (self.once is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRanks:
    """Quantiles of a column of `input`, whose rows belong to the entities named in `owners`; one estimate for each fraction.

    level  the most rows that count of one entity, where it is declared
    most   a public guess of it: the end of a ladder of levels
    """

    at: int
    input: Node
    owners: tuple[str, ...]
    part: Quantiles
    most: int
    level: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DegreeSums:
    """Sums over cells of what entities add by their degrees, their numbers of arcs; one estimate.

    bound   the name of the way in which degrees are brought down to `most`
    table   for each degree 1 .. `most` the cell of its entities (None where they are in none), and what each of them adds there
    """

    at: int
    arcs: Arcs
    bound: str
    most: int
    table: tuple[tuple[tuple[Value, ...] | None, float], ...]


Task: TypeAlias = Linear | Ordered | Occurrences | Shared | SharedRanks | DegreeSums


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The cells that all tasks of a statement are answered for, and the confidence of the intervals that they are told with."""

    keys: tuple[str, ...]
    cells: Cells
    confidence: Fraction = Fraction(19, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Yes:
    """The task can be done, with errors of about this size (standard deviation; for quantiles, in ranks)."""

    error: float
    noise: str


@dataclass(frozen=True, slots=True, kw_only=True)
class No:
    """The task cannot be done, and why."""

    because: str


Verdict: TypeAlias = Yes | No


class Mechanism(Protocol):
    """One way to answer tasks of a kind."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> type[Task]:
        """The kind of tasks that it may answer; of any other its verdict is a `No`."""
        ...

    def judge(self, task: Task, allotted: Cost, cells: int) -> Verdict:
        """Whether it can do the task for this amount over so many cells, and how well; from public facts only."""
        ...

    def run(self, tasks: Sequence[tuple[Task, Cost]], setting: Setting) -> Script:
        """Ask for what is needed; returns the estimates of each task, in order."""
        ...
