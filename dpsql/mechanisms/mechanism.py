"""The interface of mechanisms: each says whether it can answer a task and with what error, and sends requests to the kernel.

A mechanism holds no data. `run` is a generator that yields requests, receives releases and returns estimates. So a mistake in
a mechanism can spoil an answer, but not leak a row; the kernel derives what is spent from the requests themselves.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

from dpsql.estimates import Estimate
from dpsql.frozen import Frozen
from dpsql.questions.parts import Quantiles
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.cells import Cells
from dpsql.trusted.plan.certificate import Sensitivity
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.arcs import Arcs
from dpsql.trusted.plan.operators.summands import Count, GridSum, Summand

Estimates: TypeAlias = tuple[Estimate, ...]
Script: TypeAlias = Generator[Request, Any, list[Estimates]]


class Linear(Frozen):
    """Sums over cells of a summand of `input`; one estimate, in integers, for each component."""

    at: int
    input: Node
    summand: Summand
    sensitivity: Sensitivity


class Ordered(Frozen):
    """Quantiles of a column of `input`, where an entity changes at most `rows` rows; one estimate for each fraction."""

    at: int
    input: Node
    part: Quantiles
    rows: int


class Occurrences(Frozen):
    """The number of the `values` of a column that occur in each cell of `input`, where each row has one owner; one estimate.

    input   the `owner`, the keys of the cells and the column, without duplicates
    total   the same number as a sum, if the rows of an entity are limited; None otherwise
    """

    at: int
    input: Node
    owner: str
    column: str
    values: tuple[Value, ...]
    total: Linear | None


class Shared(Frozen):
    """Sums over cells of a summand of `input`, whose rows belong to the entities in the columns `owners`; one integer estimate.

    bound   the name of the bound on an entity's contribution: the mechanism of that name answers
    most    a public guess, in integers, of the largest total of one entity's rows: the end of a ladder of levels
    level   the limit, in integers, if the statement gives one
    groups  the largest number of cells that the rows of one entity are in, if it is known
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
        """The largest number of names in a set of this task."""
        return len(self.owners) + (self.once is not None)


class SharedRanks(Frozen):
    """Quantiles of a column of `input`, whose rows belong to the entities in the columns `owners`; one estimate per fraction.

    level  the limit on the rows of one entity, if it is declared
    most   a public guess of that limit: the end of a ladder of levels
    """

    at: int
    input: Node
    owners: tuple[str, ...]
    part: Quantiles
    most: int
    level: int | None = None


class DegreeSums(Frozen):
    """Sums over cells of a function of the degrees of entities, that is, of their numbers of arcs; one estimate.

    bound   the name of the bound that reduces degrees to `most`
    table   for each degree 1 .. `most` the cell of the entities of that degree (None for no cell), and what each adds to it
    """

    at: int
    arcs: Arcs
    bound: str
    most: int
    table: tuple[tuple[tuple[Value, ...] | None, float], ...]


Task: TypeAlias = Linear | Ordered | Occurrences | Shared | SharedRanks | DegreeSums


class TaskContext(Frozen):
    """The cells for which all tasks of a statement are answered, and the confidence level of their intervals."""

    keys: tuple[str, ...]
    cells: Cells
    confidence: Fraction = Fraction(19, 20)


class Accepted(Frozen):
    """The task can be answered, with about this error (a standard deviation; for quantiles, in ranks).

    weight  a factor of the error where mechanisms are compared: below 1 if intervals are narrower than those of others
    """

    error: float
    noise: str
    weight: float = 1.0


class Rejected(Frozen):
    """The task cannot be answered, and why."""

    because: str


Verdict: TypeAlias = Accepted | Rejected


class Mechanism(Protocol):
    """One way to answer tasks of one kind."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> type[Task]:
        """The kind of tasks that it may answer; its verdict on any other kind is `Rejected`."""
        ...

    def judge(self, task: Task, allotted: Cost, cells: int) -> Verdict:
        """Decide whether the mechanism can answer the task at this cost over this many cells, and with what error, from public
        facts only."""
        ...

    def run(self, tasks: Sequence[tuple[Task, Cost]], context: TaskContext) -> Script:
        """Yield the requests that the tasks need; returns the estimates of each task, in order."""
        ...
