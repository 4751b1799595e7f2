"""For plans without public tables: nothing to look up."""

from __future__ import annotations

from dpsql.trusted.plan.node import Node


class NoPublicFacts:
    """The facts of no public relation."""

    def fanout(self, relation: Node, columns: tuple[str, ...]) -> int:
        raise LookupError("no public relation is available")
