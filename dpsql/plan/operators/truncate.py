"""At most so many rows of each entity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from dpsql.plan.expr.printing import quote
from dpsql.plan.node import Field, Node, Printing, PublicFacts, Stability, least
from dpsql.plan.operators.filter import Filter
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.ranking import Ranking
from dpsql.plan.operators.scan import Scan


@dataclass(frozen=True, kw_only=True)
class Truncate(Node):
    """Keep at most `rows` rows of each entity, chosen by a keyed hash of the row.

    `order` are the columns that tell rows apart; rows that agree on all of them are equal, so it does not matter which stays.

    Proof. Rows are ranked inside their own entity, by a function of the row, of its number among the entity's rows equal to
    it, and of a fixed secret, so the rows of one entity that stay do not depend on any other entity: removing an entity
    removes the at most `rows` rows it kept, and no other row changes. (Ranking across entities, or by arrival, would have no
    such bound.) Entities of at most `rows` rows keep them all, ranked or not.

    Source: Wilson et al., Differentially Private SQL with Bounded User Contribution, PoPETs 2020, with a fixed keyed order in
    place of a reservoir.
    """

    input: Node
    rows: int
    owner: str
    order: tuple[str, ...]

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        self.ranking.check()
        return self.input.fields

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def ranking(self) -> Ranking:
        return Ranking(input=self.input, by=(self.owner,), rows=self.rows, order=self.order)

    @cached_property
    def caps(self) -> Mapping[frozenset[str], int]:
        return least(self.input.caps, {frozenset([self.owner]): self.rows})

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        if below[0].public:
            return below[0]
        if below[0].owner != self.owner:
            return Stability(rows=None, because="the rows do not belong to one entity each")
        if not self.ranking.total:
            return Stability(rows=None, because="the order does not tell rows apart")
        rows = self.rows if below[0].rows is None else min(self.rows, below[0].rows)
        return replace(below[0], rows=rows, because=f"at most {self.rows} rows of each entity are kept")

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        if len(self.fields) == 1:
            return self._copies(below[0])
        if cheap(self.input):
            return f"{self._of(below[0], '<=')} UNION ALL {self.ranking.sql(self._of(below[0], '>'), printing)}"
        return self.ranking.sql(below[0], printing)

    def _copies(self, below: str) -> str:
        """The only column is the owner, so an entity's rows are equal: as many of them as it may keep."""
        owner = quote(self.owner)
        kept = f"(CASE WHEN t1.\"#\" <= {self.rows} THEN t1.\"#\" ELSE {self.rows} END)"
        counted = f"SELECT t0.{owner} AS {owner}, COUNT(*) AS \"#\" FROM ({below}) AS t0 GROUP BY t0.{owner}"
        return f"SELECT t2.{owner} FROM (SELECT t1.{owner}, unnest(range({kept})) AS \"#\" FROM ({counted}) AS t1) AS t2"

    def _of(self, below: str, test: str) -> str:
        """The rows of entities that have so many. Those with few rows keep them all and need no ranks, which take longest."""
        owner, names = quote(self.owner), ", ".join(f"t2.{quote(field.id)}" for field in self.fields)
        counted = f"SELECT t0.{owner} AS \"@\", COUNT(*) AS \"#\" FROM ({below}) AS t0 GROUP BY t0.{owner}"
        owners = f"SELECT t1.\"@\" FROM ({counted}) AS t1 WHERE (t1.\"#\" {test} {self.rows})"
        return f"SELECT {names} FROM ({below}) AS t2 JOIN ({owners}) AS t3 ON (t2.{owner} = t3.\"@\")"

    def label(self) -> str:
        return f"Keep at most {self.rows} row{'s' if self.rows > 1 else ''} of each {self.input.names[self.owner]}"


def cheap(node: Node) -> bool:
    """Whether rows can be read several times at little cost: those of a table that names the owner in the row."""
    return node.owner_in_row if isinstance(node, Scan) else isinstance(node, Filter | Project) and cheap(node.input)

