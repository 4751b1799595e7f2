"""At most so many rows of each entity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from dpsql.plan.expr.printing import quote
from dpsql.plan.node import Field, InvalidPlan, Node, Printing, PublicFacts, Stability
from dpsql.types import Type


@dataclass(frozen=True, kw_only=True)
class Truncate(Node):
    """Keep at most `rows` rows of each entity, chosen by a keyed hash of the row.

    `order` are the columns that tell rows apart; rows that agree on all of them are equal, so it does not matter which stays.

    Proof. Rows are ranked inside their own entity, by a function of the row and a fixed secret, so the rows of one entity
    that stay do not depend on any other entity: removing an entity removes the at most `rows` rows it kept, and no other row
    changes. (Ranking across entities, or by arrival, would have no such bound.)

    Source: Wilson et al., Differentially Private SQL with Bounded User Contribution, PoPETs 2020, with a fixed keyed order in
    place of a reservoir.
    """

    input: Node
    rows: int
    owner: str
    order: tuple[str, ...]

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        if self.rows < 1 or isinstance(self.rows, bool):
            raise InvalidPlan("a limit of rows is a positive number")
        if self.owner not in self.input.env or not set(self.order) <= set(self.input.env):
            raise InvalidPlan("truncation needs the owner and the columns that order rows")
        return self.input.fields

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def unique(self) -> tuple[frozenset[str], ...]:
        return (*self.input.unique, *((frozenset([self.owner]),) if self.rows == 1 else ()))

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        if below[0].public:
            return below[0]
        if below[0].owner != self.owner:
            return Stability(rows=None, because="the rows do not belong to one entity each")
        if not self._orders_rows:
            return Stability(rows=None, because="the order does not tell rows apart")
        rows = self.rows if below[0].rows is None else min(self.rows, below[0].rows)
        return replace(below[0], rows=rows, because=f"at most {self.rows} rows of each entity are kept")

    @property
    def _orders_rows(self) -> bool:
        """Rows that tie must be equal in every column, or the choice between them would be the engine's."""
        chosen = set(self.order) | {self.owner}
        return chosen >= set(self.input.env) or any(key <= chosen for key in self.input.unique)

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        names = [f"t0.{quote(field.id)}" for field in self.fields]
        order = [f"t0.{quote(column)}" for column in self.order] or [f"t0.{quote(self.owner)}"]
        if len(self.order) == 1 and self.env[self.order[0]].type is Type.BIGINT:
            hashed = f"hash(xor({order[0]}, CAST({printing.salt % 2**63} AS BIGINT)))"
        else:
            # Values are joined with their lengths, so that different rows never give the same text.
            texts = [f"COALESCE(CAST({name} AS VARCHAR), 'N')" for name in order]
            parts = ", ".join(part for text in texts for part in (f"CAST(length({text}) AS VARCHAR)", "':'", text))
            hashed = f"hash(concat('{printing.salt:x}', {parts}))"
        # Two sort keys: the hash makes the choice unbiased, the row itself makes it unique (and the plan faster).
        rank = f"ROW_NUMBER() OVER (PARTITION BY t0.{quote(self.owner)} ORDER BY {hashed}, {', '.join(order)})"
        inner = f"SELECT {', '.join(names)}, {rank} AS \"#\" FROM ({below[0]}) AS t0"
        outer = ", ".join(f"t1.{quote(field.id)}" for field in self.fields)
        return f"SELECT {outer} FROM ({inner}) AS t1 WHERE (t1.\"#\" <= {self.rows})"

    def label(self) -> str:
        return f"Keep at most {self.rows} row{'s' if self.rows > 1 else ''} of each {self.input.names[self.owner]}"
