"""For plans without public tables: nothing to look up."""

from __future__ import annotations

from dpsql.trusted.plan.expr.nodes import Value
from dpsql.trusted.plan.node import Node


class NoPublicFacts:
    """The facts of no public relation."""

    def fanout(self, relation: Node, columns: tuple[str, ...]) -> int:
        raise LookupError("no public relation is available")


class NoPublicTables(NoPublicFacts):
    """Facts and rows of no public relation."""

    def public_rows(self, relation: Node) -> list[tuple[Value, ...]]:
        raise LookupError("no public relation is available")
