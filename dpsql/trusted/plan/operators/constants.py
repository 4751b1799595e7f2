"""A relation of constants: VALUES in FROM."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.facts import Facts, facts
from dpsql.trusted.plan.expr.nodes import Literal, Value
from dpsql.trusted.plan.expr.printing import literal, quote
from dpsql.trusted.plan.node import Field, InvalidPlan, Node, Printing, PublicFacts, Stability


class Constants(Node):
    """The rows written in the statement itself.

    Proof. They do not depend on any database: 0 rows change.
    """

    columns: tuple[Field, ...]
    rows: tuple[tuple[Value, ...], ...]

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        if not self.rows or any(len(row) != len(self.columns) for row in self.rows):
            raise InvalidPlan("rows of constants differ in length")
        for field, *values in zip(self.columns, *self.rows, strict=True):
            if not all(_keeps(value, field.facts) for value in values):
                raise InvalidPlan("a constant does not fit its column")
        return self.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @cached_property
    def max_frequencies(self) -> Mapping[frozenset[str], int]:
        return {frozenset(): len(self.rows)}

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        return Stability(rows=0, because="constants")

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        rows = ", ".join("(" + ", ".join(literal(value, field.facts.type) for value, field in zip(row, self.fields, strict=True))
                         + ")" for row in self.rows)
        names = ", ".join(quote(field.id) for field in self.fields)
        return f"SELECT {names} FROM (VALUES {rows}) AS t0({names})"


def _keeps(value: Value, known: Facts) -> bool:
    """Whether a constant is one of the values that the facts allow; `kernel.shapes` checks its type."""
    own = facts(Literal(value=value, type=known.type), {})
    return known.nullable if value is None else isinstance(value, bool | str) or (
        own.physical.inside(known.physical) and own.physical.inside(known.kept))
