"""The size of each entity's contribution, as one number."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.printing import quote
from dpsql.trusted.plan.node import Field, InvalidPlan, Node, Printing, PublicFacts, Stability
from dpsql.trusted.plan.operators.contributions import MOST, added_squares
from dpsql.types import Interval, Type

SIZE = "size"


class Norms(Node):
    """One row for each entity: the `order`-norm (1 or 2) of its values in `columns` over all its rows, within 2^50.

    Proof. A row is made of the rows of one entity, so with the entity one row leaves and no other changes.
    """

    input: Node
    owner: str
    columns: tuple[str, ...]
    order: int

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        if self.order not in (1, 2) or not self.columns or self.owner in self.columns:
            raise InvalidPlan("a norm is of order 1 or 2, and not of the name of an entity")
        limits = Interval(-MOST, MOST)
        for column in self.columns:
            known = self.input.field(column).facts
            if known.type is not Type.BIGINT or not known.physical.inside(limits) or known.nullable:
                raise InvalidPlan("norms are of integers within 2^50")
        kept = Interval(0, MOST)
        return (self.input.field(self.owner), Field(id=SIZE, name=SIZE, facts=Facts(
            type=Type.BIGINT, nullable=False, physical=kept, declared=kept, whole=True)))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def max_frequencies(self) -> Mapping[frozenset[str], int]:
        return {frozenset([self.owner]): 1}

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        if below[0].public:
            return below[0]
        if below[0].owner != self.owner:
            return Stability(rows=None, because="the rows do not belong to one entity each")
        return Stability(rows=1, owners=(self.owner,), because="one number for each entity")

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        owner = f"t0.{quote(self.owner)}"
        names = [f"t0.{quote(column)}" for column in self.columns]
        if len(names) == 1 and any(key <= {self.owner} for key in self.input.unique):
            return f"SELECT {owner} AS {quote(self.owner)}, abs({names[0]}) AS {quote(SIZE)} FROM ({below[0]}) AS t0"
        wide = [f"CAST({name} AS HUGEINT)" for name in names]
        size = " + ".join(f"abs({name})" if self.order == 1 else f"({name} * {name})" for name in wide)
        total = f"SUM({size})" if self.order == 1 else added_squares(f"({size})")
        size = f"CAST({total} AS DOUBLE)" if self.order == 1 else f"sqrt(CAST({total} AS DOUBLE))"
        held = f"CAST((CASE WHEN {size} < CAST({MOST} AS DOUBLE) THEN ceil({size}) ELSE CAST({MOST} AS DOUBLE) END) AS BIGINT)"
        return f"SELECT {owner} AS {quote(self.owner)}, {held} AS {quote(SIZE)} FROM ({below[0]}) AS t0 GROUP BY {owner}"
