"""Rows written down in a test, as a relation of a plan."""

from __future__ import annotations

from typing import Any

from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.node import Field, Node, Printing, PublicFacts, Stability
from dpsql.types import Type

KINDS = {"BIGINT": Type.BIGINT, "VARCHAR": Type.VARCHAR, "DATE": Type.DATE, "DOUBLE": Type.DOUBLE, "BOOLEAN": Type.BOOLEAN}


class Given(Node):
    """Rows written down in a test. Proof: none."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Any, ...], ...] = ()
    nullable: bool = True
    owners: tuple[str, ...] = ()

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field(id=name, name=name, facts=Facts(type=KINDS[kind], nullable=self.nullable))
                     for name, kind in self.columns)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        return Stability(rows=None, owners=self.owners)

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        lines = [", ".join(f"CAST({'NULL' if value is None else repr(value)} AS {kind}) AS {name}"
                           for value, (name, kind) in zip(row, self.columns, strict=True)) for row in self.rows]
        return " UNION ALL ".join(f"SELECT {line}" for line in lines)
