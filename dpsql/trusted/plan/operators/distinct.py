"""SELECT DISTINCT."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.printing import quote, settled
from dpsql.trusted.plan.node import Field, Node, Printing, PublicFacts, Stability, least


class Distinct(Node):
    """Each distinct row once. NULLs count as equal, as do NaNs, and -0.0 and 0.0, which are shown as one value (`settled`).
    Rows are equal as in frequencies, so the frequencies of the input hold here, and at most one row agrees on all columns.

    Proof. A removed row takes at most its own value out of the result, and only where it was the last one: at most a rows
    change. Where all owners are among the columns, equal rows belong to the same entities and the owners stay; where one is the
    only column, an entity has one row. Otherwise a row of the result may stand for many entities and has no owner.
    """

    input: Node

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def max_frequencies(self) -> Mapping[frozenset[str], int]:
        return least(self.input.max_frequencies, {frozenset(self.env): 1})

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        if below[0].public:
            return Stability(rows=0, because="public")
        owners = below[0].owners if set(below[0].owners) <= set(self.env) else ()
        if owners and [field.id for field in self.fields] == list(owners[:1]):
            return Stability(rows=1, owners=owners, because="one row for each entity")
        why = "a value disappears only with the last row that has it"
        return Stability(rows=below[0].rows, owners=owners, because=why)

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        parts = ", ".join(f"{settled(f't0.{quote(field.id)}', field.facts.type)} AS {quote(field.id)}" for field in self.fields)
        names = ", ".join(f"t1.{quote(field.id)}" for field in self.fields)
        return f"SELECT {names} FROM (SELECT {parts} FROM ({below[0]}) AS t0) AS t1 GROUP BY {names}"
