"""Reading a declared table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dpsql.catalog.model import Table
from dpsql.plan.expr.facts import Facts
from dpsql.plan.expr.printing import quote
from dpsql.plan.node import Field, InvalidPlan, Node, Printing, PublicFacts, Stability
from dpsql.types import Type


@dataclass(frozen=True, kw_only=True)
class Scan(Node):
    """The rows of a table, with every column widened to one of the types of expressions.

    `columns` pairs identifiers with declared columns. For a private table `owner` is the identifier under which the row's
    entity is carried: a declared column, or one that is found by joining along the foreign keys.

    Proof. A public table does not depend on private rows: 0. In a private table, by the meaning of a protected entity, the
    rows that leave with an entity are those whose owner is its key. The owner is a function of the row: it is read in the row,
    or in the one parent that each foreign key step names (parents are unique, by a guarantee of the database, and leave
    together with the row). Rows whose owner is NULL, or whose parent is missing, belong to nobody and are dropped. Where the
    owner alone is a key, an entity has one row; otherwise their number is not bounded here: `Truncate` does that.
    """

    table: Table
    columns: tuple[tuple[str, str], ...]
    owner: str | None = None

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        found = []
        for column, name in self.columns:
            declared = self.table.columns.get(name)
            if declared is None:
                raise InvalidPlan(f"table {self.table.name} declares no column {name}")
            found.append(Field(id=column, name=name, facts=Facts(
                type=declared.type, nullable=declared.nullable and column != self.owner, physical=declared.physical,
                declared=declared.declared, domain=declared.domain, step=declared.step, whole=declared.type.value == "BIGINT",
                search=declared.search)))
        if self.owner is not None and self.owner not in dict(self.columns):
            found.append(Field(id=self.owner, name="(owner)", facts=Facts(type=self._owner_type, nullable=False)))
        return tuple(found)

    @property
    def _owner_type(self) -> Type:
        if self.table.owner is None:
            raise InvalidPlan(f"table {self.table.name} has no owner")
        return self.table.owner.type

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @property
    def unique(self) -> tuple[frozenset[str], ...]:
        ids = {name: column for column, name in self.columns}
        return tuple(frozenset(ids[name] for name in key) for key in self.table.unique if all(name in ids for name in key))

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        if self.table.public:
            return Stability(rows=0, because="public table")
        if self.owner is None or self.table.owner is None:
            raise InvalidPlan(f"private table {self.table.name} is read without its owner")
        owner = self.table.owner
        inside = dict(self.columns).get(self.owner)
        if inside is not None and (owner.steps or inside != owner.column):
            raise InvalidPlan(f"{inside} does not name the owner of {self.table.name}")
        way = " -> ".join((self.table.name, *(step.table for step in owner.steps)))
        if self.one_row:
            return Stability(rows=1, owners=(self.owner,), because=f"owned by {way}.{owner.column}, a key of the table")
        because = f"owned by {way}.{owner.column}; rows per entity not yet limited"
        return Stability(rows=None, owners=(self.owner,), because=because)

    @property
    def one_row(self) -> bool:
        """Whether the database guarantees that an entity has one row at most."""
        return any(key == {self.owner} for key in self.unique)

    @property
    def owner_in_row(self) -> bool:
        """Whether the owner is read in the row itself."""
        return self.table.owner is not None and not self.table.owner.steps

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        parts = [f"{self._carried(name)} AS {quote(column)}" for column, name in self.columns]
        source = f"{quote(self.table.name)} AS t0"
        where = ""
        if self.owner is not None and self.table.owner is not None:
            way = self.table.owner
            for i, step in enumerate(way.steps):
                test = " AND ".join(
                    f"({_widened(f't{i}.{quote(child)}', kind)} = {_widened(f't{i + 1}.{quote(parent)}', kind)})"
                    for child, parent, kind in zip(step.columns, step.references, step.types, strict=True))
                source += f" JOIN {quote(step.table)} AS t{i + 1} ON {test}"
            owner = f"t{len(way.steps)}.{quote(way.column)}"
            if self.owner not in dict(self.columns):
                parts.append(f"{_widened(owner, way.type)} AS {quote(self.owner)}")
            if not way.not_null:
                where = f" WHERE {owner} IS NOT NULL"
        return f"SELECT {', '.join(parts)} FROM {source}{where}"

    def _carried(self, name: str) -> str:
        declared = self.table.columns[name]
        printed = f"t0.{quote(name)}"
        wide = declared.sql_type.upper() == declared.type.value and declared.type is not Type.VARCHAR
        return printed if wide else _widened(printed, declared.type)

    def label(self) -> str:
        return f"Scan {self.table.name}" + (" (public)" if self.table.public else "")


def _widened(printed: str, kind: Type) -> str:
    """A column as the type that carries it; text by its letters, as a collation would make names of two entities equal."""
    wide = f"CAST({printed} AS {kind.value})"
    return f"({wide} COLLATE \"C\")" if kind is Type.VARCHAR else wide
