"""The largest values of a column, which determine how few rows must be removed for a sum to fall by a given amount."""

from __future__ import annotations

from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.printing import quote
from dpsql.trusted.plan.node import Field, InvalidPlan, Printing, Summary
from dpsql.trusted.plan.operators.grouped_sums import check_summands
from dpsql.trusted.plan.operators.summands import GridSum
from dpsql.types import Type

SIZE = "size"


class Largest(Summary):
    """The `most` largest integers that rows add to a sum, as far as they are above 0; of the negated ones if `sign` is -1.

    Proof. It carries no stability as a relation; what is worked out from it is bounded in `flip_distance.Within`. It is merged:
    the largest of all are among the largest over each of disjoint sets of entities.
    """

    summand: GridSum
    sign: int
    most: int

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        check_summands(self.input, (self.summand,))
        if self.sign not in (1, -1) or self.most < 1:
            raise InvalidPlan("at least one largest value must be listed, of numbers or of negated numbers")
        return (Field(id=SIZE, name=SIZE, facts=Facts(type=Type.BIGINT, nullable=False)),)

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        names = {field.id: f"t0.{quote(field.id)}" for field in self.input.fields}
        cell, = self.summand.cells(names, dict(self.input.env))
        value = cell if self.sign == 1 else f"(- {cell})"
        return (f"SELECT t1.{quote(SIZE)} FROM (SELECT {value} AS {quote(SIZE)} FROM ({below[0]}) AS t0) AS t1 "
                f"WHERE t1.{quote(SIZE)} > 0 ORDER BY t1.{quote(SIZE)} DESC LIMIT {self.most}")

    def merge_sql(self, parts: str) -> str:
        return f"SELECT t0.{quote(SIZE)} FROM {parts} AS t0 ORDER BY t0.{quote(SIZE)} DESC LIMIT {self.most}"
