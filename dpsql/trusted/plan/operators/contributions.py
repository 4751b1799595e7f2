"""The contribution of each entity to each cell, before it is clipped."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.printing import quote
from dpsql.trusted.plan.node import Field, Node, Printing, PublicFacts, Stability
from dpsql.trusted.plan.operators.grouped_sums import check_summands, grouped_sums, saturated
from dpsql.trusted.plan.operators.summands import Count, Summand
from dpsql.trusted.plan.operators.truncate import rows_of_each
from dpsql.types import Interval, Type

MOST = 2**50  # so that squares of contributions can be summed in 128 bits
TOO_LARGE = 2**125  # where a sum of squares is cut off


def added_squares(squares: str) -> str:
    """The sum of sums of up to 2^14 squares of contributions, cut off at `TOO_LARGE` or a little above.

    Over many rows it may be beyond 128 bits, so it is added up in two parts, neither of which is: what is above 2^50 in a row is
    at most 2^64, and there are at most 2^50 rows.
    """
    high = f"LEAST(SUM({squares} >> 50), CAST({TOO_LARGE >> 50} AS HUGEINT))"
    return f"(({high} * CAST({2**50} AS HUGEINT)) + SUM({squares} % CAST({2**50} AS HUGEINT)))"


class Contributions(Node):
    """One row for each entity and cell: the entity's own integer sums there, clamped to ±2^50.

    Proof. The groups are made of rows of one entity, so removing an entity removes its groups and changes no other. An entity
    has at most as many groups as rows below, and one where there are no other keys.
    """

    input: Node
    owner: str
    keys: tuple[str, ...]
    summands: tuple[Summand, ...]

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        check_summands(self.input, self.summands)
        limits = Interval(-MOST, MOST)
        sums = tuple(Field(id=name, name=name, facts=Facts(type=Type.BIGINT, nullable=False, physical=limits, declared=limits,
                                                           whole=True)) for name in self.totals)
        return (*(self.input.field(key) for key in (self.owner, *self.keys)), *sums)

    @property
    def totals(self) -> tuple[str, ...]:
        return tuple(f"e{i}_{j}" for i, summand in enumerate(self.summands) for j in range(summand.components))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def max_frequencies(self) -> Mapping[frozenset[str], int]:
        return {frozenset((self.owner, *self.keys)): 1}

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        if below[0].owner != self.owner:
            return Stability(rows=None, because="the rows do not belong to one entity each")
        rows = below[0].rows if self.keys else 1
        return Stability(rows=rows, owners=(self.owner,), because="sums over each entity's own rows")

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        if self.keys or self.summands != (Count(),):
            return printing.keep(self._grouped(below[0], printing))
        counted = rows_of_each(self.input, below[0], self.owner, printing)
        size = saturated('t1."#n"', MOST)
        return f'SELECT t1."@" AS {quote(self.owner)}, {size} AS "e0_0" FROM ({counted}) AS t1'

    def _grouped(self, below: str, printing: Printing) -> str:
        return grouped_sums(self.input, below, (self.owner, *self.keys), self.summands, self.totals, printing,
                            hold=lambda total, printing: saturated(total, MOST))
