"""The interface of a measurement: the plans that it reads, its cost, and its release in a given context."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen, field
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.extensions.ask_solvers import NO_SOLVERS, Solvers
from dpsql.trusted.measurements.reading.content import Content
from dpsql.trusted.noise.source import Source
from dpsql.trusted.plan.node import Node, Printing, PublicFacts, Summary
from dpsql.trusted.reader import Query, Reader

Release: TypeAlias = Any  # a frozen value of the measurement's own file


class Request(Protocol):
    """A requested measurement. `cost` takes a certificate for each plan; `release` takes the context and the certificates."""

    @property
    def plans(self) -> tuple[Summary, ...]: ...

    @property
    def cost(self) -> Callable[..., Cost]: ...

    @property
    def release(self) -> Callable[..., Release]: ...


class OfOnePlan:
    """A measurement that reads one plan."""

    __slots__ = ()
    plan: Summary

    @property
    def plans(self) -> tuple[Summary, ...]:
        return (self.plan,)


@dataclasses.dataclass(slots=True)
class Last:
    """The last thing read and its key, so that a statement's next request with the same key need not read it again."""

    asked: Any = None
    found: Any = None


class Context(Frozen):
    """What a release uses: the reader of private rows, the source of noise, printing settings, facts, solvers, and the parts of a
    plan that the kernel has found to be split by entity, so that they may be read in buckets (`Content.query`)."""

    reader: Reader
    noise: Source
    printing: Printing
    content: Content
    public: PublicFacts
    solvers: Solvers = NO_SOLVERS
    split_parts: Callable[[Node], Sequence[Node]] = lambda plan: ()
    last: Last = field(default_factory=Last)

    def query(self, plan: Node) -> Query:
        """A plan in the form that is executed: as far as it is split by entity, in the buckets of a store, if there is one and
        that pays."""
        return self.content.query(plan, self.printing, self.split_parts)

    def rows(self, plan: Summary) -> list[tuple[Any, ...]]:
        return self.reader.rows(*self.query(plan))

    def arrays(self, plan: Summary) -> Sequence[NDArray[Any]]:
        return self.reader.arrays(*self.query(plan))

    def columns(self, plan: Summary) -> Sequence[np.ma.MaskedArray[Any, Any]]:
        return self.reader.columns(*self.query(plan))
