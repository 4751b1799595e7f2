"""What the rows of all entities come to: the last operator of a private plan."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.plan.node import Node, PublicFacts, Stability


@dataclass(frozen=True, kw_only=True)
class Summary(Node):
    """A function of all rows of its input, which is read with noise only.

    Proof. Over a public relation nothing moves: 0. Over anything else it claims no stability as a relation, so nothing that is
    built upon it is certified; what one entity can move of it is bounded by the request that reads it.
    """

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        return Stability(rows=0 if below[0].public else None, because="it is made of the rows of all entities")
