"""The common part of mechanisms that request Lipschitz extensions in every cell."""

from __future__ import annotations

import abc
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from dpsql.estimates import Estimate, NoiseTerm, Numbers
from dpsql.mechanisms.additive_noise import error_of
from dpsql.mechanisms.mechanism import Estimates, Rejected, Script, Shared, Task, TaskContext, Verdict
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.field_types import WIDEST
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.measurements.several.levels import ExtensionSums
from dpsql.trusted.noise.integer import Noise, spread_of
from dpsql.trusted.plan.expr.nodes import Case, Expr, Literal, Value, predicate, whole
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.owner_sets import UNIT, OwnerSets
from dpsql.trusted.plan.operators.project import Project
from dpsql.types import Type

CELL = "cell"


class SharedMechanism(abc.ABC):
    """A mechanism that answers sums over rows of several entities one after another, where the bound of its name asks for it."""

    name: str
    kind: ClassVar[type[Task]] = Shared

    def judge(self, task: Task, allotted: Cost, cells: int) -> Verdict:
        if not isinstance(task, Shared):
            return Rejected(because="it limits what an entity adds to sums")
        if task.bound != self.name:
            return Rejected(because=f"bound = '{self.name}' asks for it")
        return self._judged(task, allotted, cells)

    @abc.abstractmethod
    def _judged(self, task: Shared, allotted: Cost, cells: int) -> Verdict:
        """The verdict on a task with this bound."""

    def run(self, tasks: Sequence[tuple[Task, Cost]], context: TaskContext) -> Script:
        """Make the requests of all tasks; none if there are no cells."""
        found: list[Estimates] = []
        for task, allotted in tasks:
            assert isinstance(task, Shared)
            told = (yield from self._one(task, allotted, context)) if context.cells else estimate(
                task, ExtensionSums(totals=(), levels=()), ())
            found.append((told,))
        return found

    @abc.abstractmethod
    def _one(self, task: Shared, allotted: Cost, context: TaskContext) -> Generator[Request, Any, Estimate]:
        """One task, of which there are cells."""


def shares(task: Shared, context: TaskContext) -> OwnerSets:
    """The sets of entities of all cells, in one relation."""
    if not context.keys:
        return OwnerSets(input=task.input, owners=task.owners, summand=task.summand, once=task.once)
    return OwnerSets(input=numbered(task, context), owners=task.owners, summand=task.summand, once=task.once, cell=CELL)


def numbered(task: Shared, context: TaskContext) -> Node:
    """The rows with the index of their cell in the context; rows outside these cells have an index beyond the last."""
    once = () if task.once is None else (task.once,)
    kept = dict.fromkeys((*task.owners, *once, *task.summand.columns))
    columns = tuple((name, task.input.names[name], task.input.field(name).ref) for name in kept)
    return Project(input=task.input, columns=(*columns, (CELL, CELL, _place(task.input, context))))


def _place(below: Node, context: TaskContext) -> Expr:
    """The index of the first cell that a row's keys match, where NULL counts as a value; nested by key, one after another."""

    def decided(places: Sequence[int], depth: int) -> Expr:
        if depth == len(context.keys):
            return whole(places[0])
        key = below.field(context.keys[depth]).ref
        groups: dict[Value, list[int]] = {}
        for place in places:
            groups.setdefault(context.cells[place][depth], []).append(place)
        branches = tuple((predicate("is not distinct from", key, Literal(value=value, type=key.type)),
                          decided(group, depth + 1)) for value, group in groups.items())
        return Case(branches=branches, otherwise=whole(len(context.cells)), type=Type.BIGINT)

    return decided(range(len(context.cells)), 0)


def estimate(task: Shared, released: ExtensionSums, noises: Sequence[Noise]) -> Estimate:
    """The sums of the cells, released with these noises. Their errors do not include what is cut off; see `planning.cut_off`."""
    slopes: dict[tuple[int, ...], tuple[NoiseTerm, Numbers]] = {}
    for i, noise in enumerate(dict.fromkeys(noises)):
        error = error_of(noise)
        assert error is not None
        slopes[task.at, i] = error, np.array([other == noise for other in noises]) / UNIT
    return Estimate(values=np.array(released.totals) / UNIT, slopes=slopes)


def bearable(levels: Iterable[int], noise: Callable[[int], Noise]) -> tuple[int, ...]:
    """The levels whose noise can be drawn, at least one: at a tiny price the ladder ends early."""
    ladder = tuple(levels)
    return tuple(level for level in ladder if spread_of(noise(level)) <= WIDEST) or ladder[:1]


def parts(task: Shared) -> int:
    """The number of extensions per sum: positive and negative values are truncated separately."""
    return 2 if OwnerSets(input=task.input, owners=task.owners, summand=task.summand).signed else 1
