"""What a mechanism is: it says whether it can do a task and how well, and asks the kernel for the measurements that it needs.

A mechanism holds no data. `run` is a generator of requests, which is sent their releases and returns estimates. So a mistake in
a mechanism can spoil an answer, but not leak a row; the kernel derives what is spent from the requests themselves.
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
    """Quantiles of a column of `input`, of which one entity changes at most `rows` rows; one estimate for each fraction."""

    at: int
    input: Node
    part: Quantiles
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrences:
    """How many of the `values` of a column occur in each cell of `input`, whose rows belong to one entity each; one estimate.

    input   the `owner`, the keys of the cells, and the column: each combination once
    total   the task of the same number as a sum, if the rows of an entity are limited; None if nothing limits them
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

    bound   the name of the bound on what one entity adds: the mechanism of that name answers
    most    a public guess of the largest sum over one entity's rows, in integers: the end of a ladder of levels
    level   the limit, in integers, if one is given
    groups  the most cells that the rows of one entity are in, if that is known
    """

    at: int
    input: Node
    owners: tuple[str, ...]
    summand: Count | GridSum
    bound: str
    most: int
    level: int | None = None
    groups: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRanks:
    """Quantiles of a column of `input`, whose rows belong to the entities named in `owners`; one estimate for each fraction.

    level  the most rows of one entity that count, if a limit is declared
    most   a public guess of this number: the end of a ladder of levels
    """

    at: int
    input: Node
    owners: tuple[str, ...]
    part: Quantiles
    most: int
    level: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DegreeSums:
    """Sums over cells of a number that depends on the degree of an entity, its number of arcs; one estimate.

    bound   the name of the bound that lowers degrees to `most`
    table   for each degree 1 .. `most` the cell of its entities (None if they are in none), and what each of them adds there
    """

    at: int
    arcs: Arcs
    bound: str
    most: int
    table: tuple[tuple[tuple[Value, ...] | None, float], ...]


Task: TypeAlias = Linear | Ordered | Occurrences | Shared | SharedRanks | DegreeSums


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The cells for which all tasks of a statement are answered, and the confidence of their intervals."""

    keys: tuple[str, ...]
    cells: Cells
    confidence: Fraction = Fraction(19, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Yes:
    """The task can be done, with an error of about this size (a standard deviation; for quantiles, in ranks)."""

    error: float
    noise: str


@dataclass(frozen=True, slots=True, kw_only=True)
class No:
    """The task cannot be done, and why."""

    because: str


Verdict: TypeAlias = Yes | No


class Mechanism(Protocol):
    """One way to answer tasks of one kind."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> type[Task]:
        """The kind of tasks that it may answer; for any other its verdict is a `No`."""
        ...

    def judge(self, task: Task, allotted: Cost, cells: int) -> Verdict:
        """Whether it can do the task for the cost `allotted` over so many cells, and how well; from public facts only."""
        ...

    def run(self, tasks: Sequence[tuple[Task, Cost]], setting: Setting) -> Script:
        """Ask for the measurements that are needed; returns the estimates of each task, in order."""
        ...
