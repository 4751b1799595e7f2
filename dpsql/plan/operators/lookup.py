"""IN, EXISTS and NOT EXISTS: a mark on each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from dpsql.plan.expr.facts import Facts
from dpsql.plan.expr.nodes import Expr, Ref
from dpsql.plan.expr.printing import quote, show, to_sql
from dpsql.plan.node import Field, InvalidPlan, Node, Printing, PublicFacts, Stability, columns_of, known
from dpsql.types import Type

LISTED = "(listed)"


@dataclass(frozen=True, kw_only=True)
class Lookup(Node):
    """Every input row, with a column `mark` that says whether some row of `listed` agrees with it.

    `keys` pairs an expression over the input with a column of `listed`; a row agrees where all pairs are equal and not NULL.

    Proof. The list is reduced to distinct keys before it is joined, so that each row stays exactly once, with its owner and
    norm. (1) *The list is public.* The mark depends on the row alone: as many rows change as below. (2) *The keys pair every
    owner of the listed row with an owner of the row.* The mark depends on the row and on listed rows of its own entities. With
    an entity its rows and its listed rows leave, and no other mark changes: as many rows change as below. (3) Any other list
    of private rows could flip the marks of every entity at once, and is not bounded here.
    """

    input: Node
    listed: Node
    keys: tuple[tuple[Expr, str], ...]
    mark: str

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        for expr, column in self.keys:
            if known(expr, self.input).type is not self.listed.field(column).facts.type:
                raise InvalidPlan("a key of a lookup is compared with another type")
        if not self.keys or self.mark.lower() in {column.lower() for column in (*self.input.env, *self.listed.env)}:
            raise InvalidPlan("a lookup needs keys and a new mark")
        return (*self.input.fields, Field(id=self.mark, name=LISTED, facts=Facts(type=Type.BOOLEAN, nullable=False)))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input, self.listed)

    @cached_property
    def caps(self) -> Mapping[frozenset[str], int]:
        return self.input.caps

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        if below[1].public:
            return replace(below[0], because="each row is looked up in a public list")
        told = {column for expr, column in self.keys if isinstance(expr, Ref) and expr.column in below[0].owners}
        if below[1].owners and set(below[1].owners) <= told:
            return replace(below[0], because="each row is looked up among the rows of its own entity")
        return Stability(rows=None, because="the list depends on private rows")

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        names = columns_of("t0", self.input)
        keep = ", ".join(f"{names[field.id]} AS {quote(field.id)}" for field in self.input.fields)
        columns = list(dict.fromkeys(column for _, column in self.keys))
        listed = ", ".join(f"t2.{quote(column)} AS {quote(column)}" for column in columns)
        grouped = ", ".join(f"t2.{quote(column)}" for column in columns)
        test = " AND ".join(f"({to_sql(expr, names)} = t1.{quote(column)})" for expr, column in self.keys)
        return (f"SELECT {keep}, (t1.{quote(self.mark)} IS NOT NULL) AS {quote(self.mark)} FROM ({below[0]}) AS t0 LEFT JOIN "
                f"(SELECT {listed}, 1 AS {quote(self.mark)} FROM ({below[1]}) AS t2 GROUP BY {grouped}) AS t1 ON {test}")

    def label(self) -> str:
        return "Look up " + ", ".join(f"{show(expr, self.input.names)} in {self.listed.names[column]}"
                                      for expr, column in self.keys)
