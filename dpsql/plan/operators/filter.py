"""WHERE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from dpsql.plan.expr.nodes import Expr
from dpsql.plan.expr.printing import show, to_sql
from dpsql.plan.node import Field, Node, Printing, PublicFacts, Stability, columns_of, known
from dpsql.plan.operators.scan import Scan
from dpsql.types import Type


@dataclass(frozen=True, kw_only=True)
class Filter(Node):
    """The rows on which a condition is true.

    Proof. Whether a row stays depends on that row alone, so at most as many rows change as below, they keep their owner, and
    a bound on the norm of what an entity contributes still holds for fewer rows.
    """

    input: Node
    condition: Expr

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        known(self.condition, self.input, kind=Type.BOOLEAN)
        return self.input.fields

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def caps(self) -> Mapping[frozenset[str], int]:
        return self.input.caps

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        return replace(below[0], because="a filter looks at one row at a time")

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        if isinstance(self.input, Scan):  # an engine compares columns faster where it sees that they are columns
            return self.input.rows_where(self.condition)
        return f"SELECT * FROM ({below[0]}) AS t0 WHERE {to_sql(self.condition, columns_of('t0', self.input))}"

    def label(self) -> str:
        return f"Filter {show(self.condition, self.input.names)}"
