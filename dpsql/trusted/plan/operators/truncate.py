"""Limiting the rows of each entity."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dpsql.frozen import replace
from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.printing import quote, settled
from dpsql.trusted.plan.node import Field, Node, Printing, PublicFacts, Stability, columns_of, least
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.ranking import Ranking
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.stored import PLACE
from dpsql.types import Type

NAME = 't1."@"'  # of an entity, where entities are counted
MOST = 2**30  # rows that are kept of one entity at most, so that places times this number stay in 64 bits

class Truncate(Node):
    """Keep at most `rows` rows of each entity, chosen by a keyed hash.

    `order` are the columns that tell rows apart; rows that agree on all of them are equal, so it does not matter which stays.

    Proof. The rows of one entity that stay are a function of its own rows, its name and a fixed secret, so they do not depend on
    any other entity: removing an entity removes the at most `rows` rows it kept, and no other row changes. (Ranking across
    entities, or by arrival, would have no such bound.) Entities of at most `rows` rows keep them all. Of others

    (1) *where no two rows are equal*, those stay that are first by a keyed hash of the row;
    (2) *otherwise*, a systematic sample: let the n rows stand in order at places 1, ..., n, and let k be `rows`. Those at places
        p with (pk + u) mod n < k stay, for a start u that a keyed hash of the name gives. They are k: pk + u grows by kn from
        p = 0 to n, in steps of k < n, and just after each of the k multiples of n that it passes its remainder is below k.
        Each place stays for k of the n starts: all rows are equally likely to stay.

    Source: Wilson et al., Differentially Private SQL with Bounded User Contribution, PoPETs 2020, with a fixed keyed order or a
    systematic sample (Madow and Madow 1944) in place of a reservoir. The sample needs one sort, whereas ranking would require
    numbering equal rows first, or of equal rows all would stay or none.
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
    def max_frequencies(self) -> Mapping[frozenset[str], int]:
        return least(self.input.max_frequencies, {frozenset([self.owner]): self.rows})

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        if below[0].public:
            return below[0]
        if below[0].owner != self.owner:
            return Stability(rows=None, because="the rows do not belong to one entity each")
        if not self.ranking.total:
            return Stability(rows=None, because="the order does not distinguish all rows")
        rows = self.rows if below[0].rows is None else min(self.rows, below[0].rows)
        return replace(below[0], rows=rows, because=f"at most {self.rows} rows of each entity are kept")

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        if len(self.fields) == 1:
            return self._copies(below[0])
        if not cheap(self.input, printing.idle):
            size = f"COUNT(*) OVER (PARTITION BY {', '.join(self.ranking.groups)})"
            return self._chosen(below[0], None, size, self._start(f"t0.{quote(self.owner)}", printing), printing)
        many = self._chosen(self._of(below[0], ">", printing), self._numbers, 't0."#n"', 't0."#u"', printing)
        return f"{self._of(below[0], '<=', printing)} UNION ALL {many}"

    def by_places(self, printing: Printing) -> str | None:
        """The statement for rows in a bucket that stores their places in the keyed order of (1): the first rows are kept, as many
        as the smallest of several stacked limits allows. None for other rows. (If only the owner is read, rows are alike, and it
        makes no difference which ones are kept.)"""
        scan: Node = self.input
        rows = self.rows
        while isinstance(scan, Truncate) and (scan.owner, scan.order) == (self.owner, self.order):
            rows, scan = min(rows, scan.rows), scan.input
        stored = printing.stored.get(scan.table.name) if isinstance(scan, Scan) and scan.owners == (self.owner,) else None
        if not isinstance(scan, Scan) or stored is None or not stored.order or scan.periods is not None:
            return None  # places in the store are among the rows of all periods
        names = dict(scan.columns)
        if len(self.fields) > 1 and stored.order != tuple(names.get(column) for column in self.order):
            return None
        return scan.rows_where(None, printing, tested=[f"t0.{quote(PLACE)} <= {rows}"])

    def _copies(self, below: str) -> str:
        """The SQL if the owner is the only column. An entity's rows are then equal, so it gets as many copies as it may keep."""
        owner = quote(self.owner)
        kept = f"(CASE WHEN t1.\"#n\" <= {self.rows} THEN t1.\"#n\" ELSE {self.rows} END)"
        counted = f"SELECT t0.{owner} AS {owner}, COUNT(*) AS \"#n\" FROM ({below}) AS t0 GROUP BY t0.{owner}"
        return f"SELECT t2.{owner} FROM (SELECT t1.{owner}, unnest(range({kept})) AS \"#n\" FROM ({counted}) AS t1) AS t2"

    def _of(self, below: str, test: str, printing: Printing) -> str:
        """The rows of entities whose number of rows passes the test. Entities with few rows keep them all and need no places,
        the slowest part.

        Entities with many rows are numbered, where their names are texts: numbers are sorted faster.
        """
        beside = self._beside(printing) if test == ">" else {}
        counted = rows_of_each(self.input, below, self.owner, printing)
        known = ", ".join([NAME, *(f"{printed} AS {quote(name)}" for name, printed in beside.items())])
        owners = f"SELECT {known} FROM ({counted}) AS t1 WHERE (t1.\"#n\" {test} {self.rows})"
        names = ", ".join([*columns_of("t2", self).values(), *(f"t3.{quote(name)}" for name in beside)])
        return f"SELECT {names} FROM ({below}) AS t2 JOIN ({owners}) AS t3 ON (t2.{quote(self.owner)} = t3.\"@\")"

    def _beside(self, printing: Printing) -> dict[str, str]:
        """Columns that are computed once for each entity with many rows."""
        number = {"#i": "ROW_NUMBER() OVER ()"} if self._numbers is not None else {}
        if self.ranking.distinct:
            return number
        return number | {"#n": 't1."#n"', "#u": self._start(NAME, printing)}

    @property
    def _numbers(self) -> list[str] | None:
        return ['t0."#i"'] if self.input.env[self.owner].type is Type.VARCHAR else None

    def _start(self, owner: str, printing: Printing) -> str:
        """A number determined by the name of an entity and the secret."""
        kind = self.input.env[self.owner].type
        name, word = (owner, "BIGINT") if kind is Type.BIGINT else (f"hash({settled(owner, kind)})", "UBIGINT")
        return f"CAST((hash(xor({name}, CAST({printing.salt % 2**63} AS {word}))) >> 2) AS BIGINT)"

    def _chosen(self, below: str, groups: list[str] | None, size: str, start: str, printing: Printing) -> str:
        """The rows of each group that stay, given its number of rows and its start. It takes long to choose them, and later
        statements may read the same ones."""
        if self.ranking.distinct:
            return printing.keep(self.ranking.sql(below, printing, groups=groups))
        return printing.keep(self._spread(below, groups, size, start))

    def _spread(self, below: str, groups: list[str] | None, size: str, start: str) -> str:
        """The systematic sample of each group, given its number of rows and its start."""
        placed = self.ranking.placed(below, groups or self.ranking.groups, {"#n": size, "#u": start})
        kept = min(self.rows, MOST)
        return (f"SELECT {self.ranking.widened} FROM ({placed}) AS t1 "
                f"WHERE ((((t1.\"#p\" * {kept}) + (t1.\"#u\" % t1.\"#n\")) % t1.\"#n\") < {kept})")


def rows_of_each(input: Node, below: str, owner: str, printing: Printing) -> str:
    """The statement for the number of rows "#n" of each entity "@" of a relation, which is printed `below`.

    Those of all rows of a table are printed in the same way whatever else is read of it, so that they may be kept for other
    statements.
    """
    if (printing.native or printing.bucket is not None) and (whole := _all_rows(input, owner, printing.idle)) is not None:
        owner = "owner"
        below = Scan(table=whole.table, columns=(), owners=(owner,), periods=whole.periods).render((), printing)
    name = f"t0.{quote(owner)}"
    return printing.keep(f"SELECT {name} AS \"@\", COUNT(*) AS \"#n\" FROM ({below}) AS t0 GROUP BY {name}")


def _all_rows(node: Node, owner: str, idle: Callable[[Node], bool]) -> Scan | None:
    """The scan of a table, if a relation has one row for each of its rows, with the same owner."""
    while isinstance(node, Project) or (isinstance(node, Truncate) and idle(node)):
        if isinstance(node, Project):
            owner = next((below for below, column in node.passed.items() if column == owner), "")
        node = node.input
    return node if isinstance(node, Scan) and node.owners == (owner,) else None


def cheap(node: Node, idle: Callable[[Node], bool] = lambda node: isinstance(node, Truncate)) -> bool:
    """Whether rows can be read several times at little cost: the table names the owner in the row, and no truncation leaves rows
    out."""
    if isinstance(node, Scan):
        return node.owner_in_row
    passed = isinstance(node, Filter | Project) or (isinstance(node, Truncate) and idle(node))
    return passed and cheap(node.inputs[0], idle)

