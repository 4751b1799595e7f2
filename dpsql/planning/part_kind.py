"""The interface of the kinds of parts that a question is decomposed into, and what several of them share.

To add a kind: its class in `questions.parts`, a file here, and a line of `all_part_kinds`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from dpsql.frozen import Frozen
from dpsql.mechanisms.mechanism import Estimates, Linear, Task, TaskContext
from dpsql.planning.contribution_bound import BoundedQuestion
from dpsql.planning.declared_rows import declared_rows
from dpsql.questions.parts import Decomposition, Part
from dpsql.trusted.plan.certificate import certify
from dpsql.trusted.plan.node import Node, PublicFacts
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.summands import Summand

P = TypeVar("P", bound=Part)
USUAL_MOST_ROWS = 2**20  # of one entity, if nothing limits them: the end of a ladder of levels


class LimitedRows(Frozen):
    """The rows that a part is measured over, where each belongs to one entity.

    order  the norm for the noise: 1 (l1) for a pure epsilon, 2 (l2) for rho
    total  the limit on what an entity adds to a sum, in integers, if it was learned
    together  the summands of which entities' contributions are read at once, if they are (`planning.entity_totals`)
    """

    view: Node
    public: PublicFacts
    order: int
    total: int | None = None
    together: tuple[Summand, ...] = ()


class Reach(Frozen):
    """The most rows that one entity has, for the mechanism of a bound; whether they are declared; and in how many groups they
    are, if it is known."""

    rows: int = 1
    declared: bool = False
    groups: int | None = None


def reach_of(asked: BoundedQuestion, view: Node, *, derived: bool) -> Reach:
    """The reach of an entity. With `derived`, it may also follow from the joins. A public guess is used if nothing is
    declared."""
    rows = asked.known.rows or (declared_rows(view) if derived else None)
    groups = [number for number in (asked.known.rows, asked.options.max_groups) if number is not None]
    return Reach(rows=rows or USUAL_MOST_ROWS, declared=rows is not None, groups=min(groups, default=None))


class PartKind(ABC, Generic[P]):
    """How parts of one kind are measured, which limits they need, and how they are described.

    ranked   whether they are places in the order of a column
    matched  whether they are sizes of matchings, which may be less than what was asked for
    """

    ranked, matched = False, False

    def measured_as(self, part: P, asked: BoundedQuestion) -> Part:
        """The part that is measured instead of this one under the bound of the question."""
        return part

    @abstractmethod
    def task(self, at: int, part: P, asked: BoundedQuestion, rows: LimitedRows) -> Task:
        """The task of a part over limited rows, each of one entity."""

    @abstractmethod
    def shared_task(self, at: int, part: P, asked: BoundedQuestion, view: Node, reach: Reach | None = None) -> Task:
        """The task of a part for the mechanism of a bound; by default, the reach is derived from the question."""

    @abstractmethod
    def sample(self, at: int, part: P, asked: BoundedQuestion) -> Task:
        """A task of the kind that `task` returns, to find the mechanisms that could answer it."""

    @abstractmethod
    def words(self, part: P, asked: BoundedQuestion) -> str:
        """What is measured, for EXPLAIN."""

    def counted(self, part: P, asked: BoundedQuestion) -> str:
        """The thing counted by an aggregate that is computed from this part, for EXPLAIN; empty if the aggregate's name already
        says it."""
        return ""

    def counts_once(self, part: P, asked: BoundedQuestion) -> bool:
        """Whether no limit on rows is needed."""
        return False

    def counts_entities(self, part: P) -> bool:
        """Whether this part is a number of entities."""
        return False

    def told_by_keys(self, part: P, *, rows: bool, entities: bool) -> bool:
        """Whether this part follows from the counts that select undeclared groups, which count `rows`, or `entities`."""
        return False

    def notes(self, asked: BoundedQuestion, parts: Decomposition, view: Node, estimates: Mapping[int, Estimates], *,
              kept: bool) -> Iterable[str]:
        """Notes on the answer, once for all parts of this kind; `kept` says that rows were left out."""
        return ()

    def context(self, part: P, context: TaskContext) -> TaskContext:
        """The cells over which this part is measured, derived from those of the answer."""
        return context


def linear_task(at: int, rows: Node, keys: tuple[str, ...], summand: Summand, public: PublicFacts) -> Linear:
    """The task of a sum over limited rows."""
    certificate = certify(GroupedSums(input=rows, keys=keys, summands=(summand,)), public)
    return Linear(at=at, input=rows, summand=summand, sensitivity=certificate.summands[0])
