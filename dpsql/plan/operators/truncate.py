"""At most so many rows of each entity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from dpsql.plan.expr.printing import quote
from dpsql.plan.node import Field, Node, Printing, PublicFacts, Stability, columns_of, least
from dpsql.plan.operators.filter import Filter
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.ranking import Ranking
from dpsql.plan.operators.scan import Scan
from dpsql.types import Type

NAME = 't1."@"'  # of an entity, where entities are counted
MOST = 2**30  # rows that are kept of one entity at most, so that places times this number stay in 64 bits

@dataclass(frozen=True, kw_only=True)
class Truncate(Node):
    """Keep at most `rows` rows of each entity: a sample at equal distances, from a start that a keyed hash of the entity gives.

    `order` are the columns that tell rows apart; rows that agree on all of them are equal, so it does not matter which stays.

    Proof. Let an entity have n rows, k = `rows`, and stand its rows in order at the places 1, ..., n. Those at places p with
    (pk + u) mod n < k are kept, with a start u that depends on the entity's name and a fixed secret alone. For n <= k these are
    all. For n > k they are k: pk + u grows by kn from p = 0 to n, in steps of k < n, and passes a multiple of n, which is when
    its remainder is below k, just k times. So the rows of one entity that stay are at most k, and are a function of its own
    rows and its name: removing an entity removes the rows that it kept, and no other row changes. (Ranking across entities, or
    by arrival, would have no such bound.) Each place is kept for k of n starts: no row is more likely to stay than another.

    Source: Wilson et al., Differentially Private SQL with Bounded User Contribution, PoPETs 2020, with a systematic sample
    (Madow and Madow 1944) in place of a reservoir: rows that are alike are thinned out alike, and one sort is enough.
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
            return f"{self._few(below[0])} UNION ALL {self._spread(self._many(below[0], printing))}"
        return self._spread(self._counted(below[0], printing))

    def _copies(self, below: str) -> str:
        """The only column is the owner, so an entity's rows are equal: as many of them as it may keep."""
        owner = quote(self.owner)
        kept = f"(CASE WHEN t1.\"#n\" <= {self.rows} THEN t1.\"#n\" ELSE {self.rows} END)"
        counted = f"SELECT t0.{owner} AS {owner}, COUNT(*) AS \"#n\" FROM ({below}) AS t0 GROUP BY t0.{owner}"
        return f"SELECT t2.{owner} FROM (SELECT t1.{owner}, unnest(range({kept})) AS \"#n\" FROM ({counted}) AS t1) AS t2"

    def _few(self, below: str) -> str:
        """The rows of entities that have no more than they may keep. They need no places, which take longest to find."""
        names = ", ".join(columns_of("t2", self).values())
        owners = f"SELECT t1.\"@\" FROM ({self._sizes(below)}) AS t1 WHERE (t1.\"#n\" <= {self.rows})"
        return f"SELECT {names} FROM ({below}) AS t2 JOIN ({owners}) AS t3 ON (t2.{quote(self.owner)} = t3.\"@\")"

    def _many(self, below: str, printing: Printing) -> str:
        """The rows of the other entities, with their places: entities are numbered, as numbers are sorted faster than texts."""
        entity = f"t1.\"@\", t1.\"#n\", ROW_NUMBER() OVER () AS \"#i\", {self._start(NAME, printing)} AS \"#u\""
        owners = f"SELECT {entity} FROM ({self._sizes(below)}) AS t1 WHERE (t1.\"#n\" > {self.rows})"
        joined = (f"SELECT t2.*, t3.\"#n\", t3.\"#i\", t3.\"#u\" FROM ({below}) AS t2 JOIN ({owners}) AS t3 "
                  f"ON (t2.{quote(self.owner)} = t3.\"@\")")
        return self.ranking.placed(joined, ('t0."#i"',), {"#n": 't0."#n"', "#u": 't0."#u"'})

    def _counted(self, below: str, printing: Printing) -> str:
        """All rows with their places, in one pass."""
        size = f"COUNT(*) OVER (PARTITION BY {', '.join(self.ranking.groups)})"
        start = self._start(f"t0.{quote(self.owner)}", printing)
        return self.ranking.placed(below, self.ranking.groups, {"#n": size, "#u": start})

    def _start(self, owner: str, printing: Printing) -> str:
        """A number that the name of an entity and the secret decide."""
        whole = self.input.env[self.owner].type is Type.BIGINT
        name, word = (owner, "BIGINT") if whole else (f"hash({owner})", "UBIGINT")
        return f"CAST((hash(xor({name}, CAST({printing.salt % 2**63} AS {word}))) >> 2) AS BIGINT)"

    def _sizes(self, below: str) -> str:
        owner = f"t0.{quote(self.owner)}"
        return f"SELECT {owner} AS \"@\", COUNT(*) AS \"#n\" FROM ({below}) AS t0 GROUP BY {owner}"

    def _spread(self, placed: str) -> str:
        kept = min(self.rows, MOST)
        return (f"SELECT {self.ranking.widened} FROM ({placed}) AS t1 "
                f"WHERE ((((t1.\"#p\" * {kept}) + (t1.\"#u\" % t1.\"#n\")) % t1.\"#n\") < {kept})")

    def label(self) -> str:
        return f"Keep at most {self.rows} row{'s' if self.rows > 1 else ''} of each {self.input.names[self.owner]}"


def cheap(node: Node) -> bool:
    """Whether rows can be read several times at little cost: those of a table that names the owner in the row."""
    return node.owner_in_row if isinstance(node, Scan) else isinstance(node, Filter | Project) and cheap(node.input)

