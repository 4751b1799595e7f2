"""One sum over all rows of a join. It is the last operator of a private plan in which an entity's change has no limit."""

from __future__ import annotations

from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.node import Field, InvalidPlan, Printing, Summary
from dpsql.trusted.plan.operators.grouped_sums import check_summands, grouped_sums
from dpsql.trusted.plan.operators.summands import Count, GridSum
from dpsql.types import Type

TOTAL = "total"


class JoinSum(Summary):
    """The sum of an integer over all rows, clamped to ±2^62; 0 if there are no rows.

    Proof. It carries no stability as a relation. If an entity moves the input by k rows, as a multiset, it moves
    the sum by k times the summand's l1 at most, as holding the sum is 1-Lipschitz. `plan.distance` computes k for the present
    database and for those near it.
    """

    summand: Count | GridSum

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        check_summands(self.input, (self.summand,))
        if self.summand.components != 1:
            raise InvalidPlan("one number for each row is summed")
        return (Field(id=TOTAL, name=TOTAL, facts=Facts(type=Type.BIGINT, nullable=False)),)

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        return grouped_sums(self.input, below[0], (), (self.summand,), (TOTAL,), printing)
