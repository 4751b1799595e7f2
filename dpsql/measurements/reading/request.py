"""The interface of a measurement: the plans that it reads, its cost, and its release in a given context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from dpsql.accounting.cost import Cost
from dpsql.backends.reader import Reader
from dpsql.extensions.ask_solvers import NO_SOLVERS, Solvers
from dpsql.measurements.reading.content import Content
from dpsql.noise.source import Source
from dpsql.plan.node import Node, Printing, PublicFacts, Summary

Release: TypeAlias = Any  # a frozen value of the measurement's own file


class Request(Protocol):
    """A measurement that is requested. `cost` takes a certificate for each plan; `release` takes the context and the
    certificates."""

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


@dataclass(slots=True)
class Last:
    """The last thing read and its key, so that a statement's next request for the same key need not read it again."""

    asked: Any = None
    found: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a release uses: the reader of private rows, the source of noise, how plans are printed, facts, and solvers."""

    reader: Reader
    noise: Source
    printing: Printing
    content: Content
    public: PublicFacts
    solvers: Solvers = NO_SOLVERS
    last: Last = field(default_factory=Last)

    def sql(self, plan: Node) -> str:
        """The SQL text of a plan, as it is executed."""
        return self.content.sql(plan, self.printing)
