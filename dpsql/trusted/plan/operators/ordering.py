"""Orders of rows: terms as written, and columns that break ties (chosen by `row_orders`)."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.frozen import Frozen
from dpsql.trusted.plan.expr.printing import settled
from dpsql.trusted.plan.node import Node
from dpsql.types import Type


class Term(Frozen):
    """A column that rows are ordered by."""

    column: str
    descending: bool = False
    nulls_first: bool = False

    def sql(self, node: Node, names: Mapping[str, str]) -> str:
        """The term over a relation whose columns are printed as `names`; equal numbers are adjacent."""
        printed = same(names[self.column], node.env[self.column].type)
        return f"{printed} {'DESC' if self.descending else 'ASC'} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


def same(printed: str, kind: Type) -> str:
    """A value in the form in which rows are compared by `=`, with NULL equal to NULL."""
    return settled(printed, kind) if kind is Type.DOUBLE else printed


def tied(node: Node, column: str, names: Mapping[str, str]) -> list[str]:
    """The SQL of a column that breaks ties. Numbers that are equal but not identical are distinguished by their sign."""
    signs = [f"signbit({names[column]}) ASC"] if node.env[column].type is Type.DOUBLE else []
    return [f"{names[column]} ASC NULLS LAST", *signs]
