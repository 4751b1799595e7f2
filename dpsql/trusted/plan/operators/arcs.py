"""Rows as arcs between the two entities to which they belong; degrees are counted from these."""

from __future__ import annotations

from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.printing import quote, settled
from dpsql.trusted.plan.node import Field, InvalidPlan, Printing, Summary, columns_of
from dpsql.trusted.plan.operators.grouped_sums import saturated
from dpsql.trusted.plan.operators.owner_sets import LARGEST, NAMES
from dpsql.types import Type

ORDER, SIZE = "order", "size"
MOST_DEGREE = 10_000


class Arcs(Summary):
    """For each pair of entities that rows name as `tail` and `head`, the number of these rows, and a number by which pairs are
    ordered.

    A row counts for its tail; with `mutual`, it counts for its head too. The order is by a keyed hash of the two names, so
    the place of a pair does not depend on others.

    Proof. It carries no stability as a relation. The rows of a pair are the input's rows that name exactly its
    two entities, in these places. So where removing an entity deletes exactly the input's rows that name it, it deletes exactly
    the pairs it is in, and no other pair's number moves, nor its order. What is computed from all pairs is bounded by
    `extensions.bounded_degrees`.
    """

    tail: str
    head: str
    mutual: bool = False

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        named = [self.input.field(column) for column in (self.tail, self.head)]
        if self.tail == self.head or named[0].facts.type is not named[1].facts.type or any(end.facts.nullable for end in named):
            raise InvalidPlan("arcs need two columns that name entities of one type")
        kind = named[0].facts.type if named[0].facts.type in NAMES else Type.VARCHAR
        number = Facts(type=Type.BIGINT, nullable=False)
        return (*(Field(id=end.id, name=end.name, facts=Facts(type=kind, nullable=False)) for end in named),
                Field(id=ORDER, name=ORDER, facts=number), Field(id=SIZE, name=SIZE, facts=number))

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        names = columns_of("t0", self.input)
        ends = [(quote(end), self._name(names[end], self.input.env[end])) for end in (self.tail, self.head)]
        inner = ", ".join(f"{printed} AS {end}" for end, printed in ends)
        (tail, _), (head, _) = ends
        hashed = f"CAST((hash(xor(hash(t1.{tail}, t1.{head}), CAST({printing.salt % 2**63} AS UBIGINT))) >> 32) AS BIGINT)"
        return (f"SELECT t1.{tail} AS {tail}, t1.{head} AS {head}, {hashed} AS {quote(ORDER)}, {saturated('COUNT(*)', LARGEST)} "
                f"AS {quote(SIZE)} FROM (SELECT {inner} FROM ({below[0]}) AS t0) AS t1 GROUP BY t1.{tail}, t1.{head}")

    @staticmethod
    def _name(printed: str, known: Facts) -> str:
        stands = settled(printed, known.type)
        return stands if known.type in NAMES else f"CAST({stands} AS VARCHAR)"


def moves(most: int, *, mutual: bool) -> int:
    """By how much one entity moves the numbers of entities of degree 0 .. i, for i = 0 .. most, in the l1 norm, where no degree
    is above `most`; see `extensions.bounded_degrees`.
    """
    return most + 1 if mutual else 2 * most + 1
