"""What a measurement has at hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dpsql.backends.reader import Reader
from dpsql.extensions.ask_solvers import NO_SOLVERS, Solvers
from dpsql.measurements.reading.content import Content
from dpsql.noise.source import Source
from dpsql.plan.node import Node, Printing, PublicFacts


@dataclass(slots=True)
class Last:
    """What was read last and for what, so that the next request of a statement for the same need not read it again."""

    asked: Any = None
    found: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The reader of private rows, the source of noise, the secret of truncation, what is known of the rows, and solvers."""

    reader: Reader
    noise: Source
    printing: Printing
    content: Content
    public: PublicFacts
    solvers: Solvers = NO_SOLVERS
    last: Last = field(default_factory=Last)

    def sql(self, plan: Node) -> str:
        """The plan as it is executed."""
        return self.content.sql(plan, self.printing)
