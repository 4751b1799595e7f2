"""Leaving out a truncation that changes nothing.

A limit on the rows of each entity is always enforced. Where the kernel knows, from having counted once, that no entity of a
table has more rows than the limit, `Truncate` right above the scan is the identity on this content of the database, and is
not executed. The answer is the same function of the data either way; only the time differs, which is outside the promise.
"""

from __future__ import annotations

from dataclasses import replace

from dpsql.backends.reader import Reader
from dpsql.catalog.model import OwnerPath
from dpsql.plan.node import Node, Printing, fold
from dpsql.plan.operators.filter import Filter
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.scan import Scan
from dpsql.plan.operators.tally import Tally
from dpsql.plan.operators.truncate import Truncate
from dpsql.plan.operators.two_steps import in_two_steps


class MostRows:
    """The most rows of one entity in each table, counted when first needed and kept as long as the reader is open."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[tuple[str, OwnerPath | None], int] = {}

    def of(self, scan: Scan) -> int:
        table, owner = scan.table, scan.table.owner
        if owner is not None and not owner.steps and any(key == {owner.column} for key in table.unique):
            return 1
        if (table.name, owner) not in self._known:  # the same table may be asked about for several kinds of entity
            owned = Scan(table=table, columns=(), owners=("owner",)).render((), Printing())
            counted = f'SELECT COUNT(*) AS "n" FROM ({owned}) AS t1 GROUP BY t1."owner"'
            self._known[table.name, owner] = self._reader.rows(f'SELECT COALESCE(MAX(t2."n"), 0) FROM ({counted}) AS t2')[0][0]
        return self._known[table.name, owner]

    def sql(self, plan: Node, printing: Printing) -> str:
        """The statement of a plan without the truncations that change nothing.

        They are left out of the text, not of the plan: which rows a truncation above keeps rests on what the plan knows of its
        input, and would be another choice, for everybody, without the limit. Many sums are printed in two steps.
        """
        def printed(node: Node, below: tuple[str, ...]) -> str:
            if isinstance(node, Truncate) and self._idle(node):
                return below[0]
            if isinstance(node, Filter) and isinstance(node.input, Truncate) and self._idle(node.input):
                return replace(node, input=node.input.input).render(below, printing)  # where the table is read
            return node.render(below, printing)

        if isinstance(plan, Tally) and isinstance(plan.input, Project):
            rows = fold(plan.input.input, printed)
            return in_two_steps(plan, rows) or plan.render((plan.input.render((rows,), printing),), printing)
        return fold(plan, printed)

    def _idle(self, node: Truncate) -> bool:
        """Whether a truncation keeps every row: it is right above a private table, by that table's owner, and wide enough."""
        scan = node.input
        return (isinstance(scan, Scan) and scan.table.owner is not None and node.owner == scan.owner
                and self.of(scan) <= node.rows)
