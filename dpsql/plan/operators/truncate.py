"""At most so many rows of each entity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from dpsql.plan.expr.printing import quote
from dpsql.plan.node import Field, InvalidPlan, Node, Printing, PublicFacts, Stability
from dpsql.plan.operators.filter import Filter
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.scan import Scan
from dpsql.types import Interval, Type

INTEGER = Interval(-(2**31), 2**31 - 1)


@dataclass(frozen=True, kw_only=True)
class Truncate(Node):
    """Keep at most `rows` rows of each entity, chosen by a keyed hash of the row.

    `order` are the columns that tell rows apart; rows that agree on all of them are equal, so it does not matter which stays.

    Proof. Rows are ranked inside their own entity, by a function of the row, of its number among the entity's rows equal to
    it, and of a fixed secret, so the rows of one entity that stay do not depend on any other entity: removing an entity
    removes the at most `rows` rows it kept, and no other row changes. (Ranking across entities, or by arrival, would have no
    such bound.) Entities of at most `rows` rows keep them all, ranked or not.

    Why the entity and the number are hashed too: by its other values alone every entity would keep the same ones, of equal
    rows all or none, and averages over what is kept would be off.

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
        if len(self.fields) == 1:
            return self._copies(below[0])
        if _quick(self.input):
            return f"{self._of(below[0], '<=')} UNION ALL {self._ranked(self._of(below[0], '>'), printing)}"
        return self._ranked(below[0], printing)

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

    def _ranked(self, below: str, printing: Printing) -> str:
        owner, *order = (_narrow(self.field(column)) for column in (self.owner, *self._sorted))
        if self.env[self.owner].type is Type.VARCHAR:
            owner = f"hash({owner}), {owner}"  # numbers tell most names apart faster than their letters
        # In numbers 0.0 equals -0.0, and a choice between them would be the engine's.
        order += [f"signbit(t0.{quote(column)})" for column in self._sorted if self.env[column].type is Type.DOUBLE]
        hashed = [f"t0.{quote(column)}" for column in self._told_apart]
        if not self._distinct:
            # Equal rows are numbered, or all rows of one value would go before all of another. Which has which number is open,
            # and makes no difference.
            copies = f"ROW_NUMBER() OVER (PARTITION BY {', '.join([owner, *order])})"
            below = f"SELECT t0.*, {copies} AS \"@\" FROM ({below}) AS t0"
            order, hashed = [*order, 't0."@"'], [*hashed, 't0."@"']
        # Two sort keys: the hash makes the choice unbiased, the row itself makes it unique (and the plan faster).
        rank = f"ROW_NUMBER() OVER (PARTITION BY {owner} ORDER BY {self._mixed(hashed, printing)}, {', '.join(order)})"
        inner = ", ".join(f"{_narrow(field)} AS {quote(field.id)}" for field in self.fields)
        outer = ", ".join(f"CAST(t1.{quote(field.id)} AS {field.facts.type.value}) AS {quote(field.id)}" if _is_narrow(field)
                          else f"t1.{quote(field.id)}" for field in self.fields)
        return f"SELECT {outer} FROM (SELECT {inner}, {rank} AS \"#\" FROM ({below}) AS t0) AS t1 WHERE (t1.\"#\" <= {self.rows})"

    def _mixed(self, names: list[str], printing: Printing) -> str:
        """A number made of values and the secret; half a word is enough to be fair, and sorts faster."""
        whole = len(names) == 1 and self.env[self._told_apart[0]].type is Type.BIGINT
        row, word = (names[0], "BIGINT") if whole else (f"hash({', '.join(names)})", "UBIGINT")
        return f"CAST((hash(xor({row}, CAST({printing.salt % 2**63} AS {word}))) >> 32) AS UINTEGER)"

    @property
    def _sorted(self) -> tuple[str, ...]:
        return self.order or (self.owner,)

    @property
    def _distinct(self) -> bool:
        """Whether no two rows of an entity are equal in the columns that order them."""
        return any(key <= {self.owner, *self._sorted} for key in self.input.unique)

    @property
    def _told_apart(self) -> tuple[str, ...]:
        """Columns in which no two rows are equal: with the owner, or what one entity keeps would be what all others keep."""
        alone = any(key <= set(self._sorted) for key in self.input.unique)
        return self._sorted if alone else (self.owner, *self._sorted)

    def label(self) -> str:
        return f"Keep at most {self.rows} row{'s' if self.rows > 1 else ''} of each {self.input.names[self.owner]}"


def _quick(node: Node) -> bool:
    """Whether rows can be read several times at little cost: those of a table that names the owner in the row."""
    return node.owner_in_row if isinstance(node, Scan) else isinstance(node, Filter | Project) and _quick(node.input)


def _is_narrow(field: Field) -> bool:
    """Whether a whole number fits into half a word in every database."""
    return field.facts.type is Type.BIGINT and field.facts.physical.inside(INTEGER)


def _narrow(field: Field) -> str:
    """A column as it is sorted: rows move faster when they are narrow."""
    name = f"t0.{quote(field.id)}"
    return f"CAST({name} AS INTEGER)" if _is_narrow(field) else name
