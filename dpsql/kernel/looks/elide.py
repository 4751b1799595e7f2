"""Leaving out a truncation that changes nothing.

A limit on the rows of each entity is always enforced. Where the kernel knows, from having counted once, that no entity of a
table has more rows than the limit, `Truncate` right above the scan is the identity on this content of the database, and is
not executed. The answer is the same function of the data either way; only the time differs, which is outside the promise.
"""

from __future__ import annotations

from dpsql.backends.reader import Reader
from dpsql.plan.node import Node, Printing, rebuild
from dpsql.plan.operators.scan import Scan
from dpsql.plan.operators.truncate import Truncate


class MostRows:
    """The most rows of one entity in each table, counted when first needed and kept as long as the reader is open."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[str, int] = {}

    def of(self, scan: Scan) -> int:
        table, owner = scan.table, scan.table.owner
        if owner is not None and not owner.steps and any(key == {owner.column} for key in table.unique):
            return 1
        if table.name not in self._known:
            owned = Scan(table=table, columns=(), owner="owner").render((), Printing())
            counted = f'SELECT COUNT(*) AS "n" FROM ({owned}) AS t1 GROUP BY t1."owner"'
            self._known[table.name] = self._reader.rows(f'SELECT COALESCE(MAX(t2."n"), 0) FROM ({counted}) AS t2')[0][0]
        return self._known[table.name]

    def elide(self, plan: Node) -> Node:
        def change(node: Node) -> Node:
            if isinstance(node, Truncate) and isinstance(node.input, Scan) and self.of(node.input) <= node.rows:
                return node.input
            return node

        return rebuild(plan, change)
