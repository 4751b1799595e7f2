"""WHERE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from dpsql.plan.expr.nodes import Call, Expr, Ref, conjuncts
from dpsql.plan.expr.printing import show, to_sql
from dpsql.plan.node import Field, Node, Printing, PublicFacts, Stability, columns_of, known
from dpsql.plan.operators.scan import Scan
from dpsql.types import Type

TRUE_OF_VALUES = ("is not null", "=", "<>", "<", "<=", ">", ">=")


@dataclass(frozen=True, kw_only=True)
class Filter(Node):
    """The rows on which a condition is true. Columns of which it is never true while they are NULL are not NULL here.

    Proof. Whether a row stays depends on that row alone, so at most as many rows change as below, they keep their owner, and
    a bound on the norm of what an entity contributes still holds for fewer rows.
    """

    input: Node
    condition: Expr

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        known(self.condition, self.input, kind=Type.BOOLEAN)
        there = {arg.column for part in conjuncts(self.condition) if isinstance(part, Call) and part.function in TRUE_OF_VALUES
                 for arg in part.args if isinstance(arg, Ref)}
        return tuple(replace(field, facts=replace(field.facts, nullable=False)) if field.id in there else field
                     for field in self.input.fields)

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
