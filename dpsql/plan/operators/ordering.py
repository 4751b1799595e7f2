"""Orders that rows stand in: terms as they are written, and columns that break ties."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dpsql.plan.expr.printing import settled
from dpsql.plan.node import Node
from dpsql.types import Type


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A column that rows are ordered by."""

    column: str
    descending: bool = False
    nulls_first: bool = False

    def sql(self, node: Node, names: Mapping[str, str]) -> str:
        """The term over a relation whose columns are printed as `names`; numbers that are equal stand together."""
        printed = same(names[self.column], node.env[self.column].type)
        return f"{printed} {'DESC' if self.descending else 'ASC'} NULLS {'FIRST' if self.nulls_first else 'LAST'}"

    def label(self, names: Mapping[str, str]) -> str:
        return names[self.column] + (" desc" if self.descending else "")


def same(printed: str, kind: Type) -> str:
    """A value by which rows are told to be equal: as `=` has it, and NULL equal to NULL."""
    return settled(printed, kind) if kind is Type.DOUBLE else printed


def tie_breaks(node: Node, told: Collection[str]) -> tuple[str, ...]:
    """Columns that, after those that are `told` already, order all rows: what is left of the smallest key, or all columns.

    Rows that still tie are equal in every column.
    """
    keys = sorted((sorted(key - set(told)) for key in node.unique), key=len)
    if keys:
        return tuple(keys[0])
    return tuple(field.id for field in node.fields if field.id not in told or field.facts.type is Type.DOUBLE)


def tied(node: Node, column: str, names: Mapping[str, str]) -> list[str]:
    """A column that breaks ties, printed. Numbers that are equal but not the same are told apart by their sign."""
    signs = [f"signbit({names[column]}) ASC"] if node.env[column].type is Type.DOUBLE else []
    return [f"{names[column]} ASC NULLS LAST", *signs]
