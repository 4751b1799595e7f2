"""What the kernel knows of the rows, and uses to ask for the same in a faster way.

A limit on the rows of each entity is always enforced, and so is every clamp. Where the kernel knows, from having looked once,
that no entity of a table has more rows than the limit, `Truncate` right above the scan is the identity on this content of
the database, and is not executed; and a value is clamped by a shorter text where the least and the greatest of its column are
known. The answer is the same function of the data either way; only the time differs, which is outside the promise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from dpsql.backends.reader import Reader
from dpsql.catalog.model import OwnerPath, Table
from dpsql.plan.expr.facts import facts
from dpsql.plan.expr.printing import quote
from dpsql.plan.node import Node, Printing, fold
from dpsql.plan.operators.contributions import Contributions
from dpsql.plan.operators.filter import Filter
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.scan import Scan
from dpsql.plan.operators.tally import Tally
from dpsql.plan.operators.truncate import Truncate
from dpsql.plan.operators.two_parts import clipped, in_two_parts
from dpsql.plan.operators.two_steps import in_two_steps
from dpsql.types import ANY_NUMBER, Interval


class Content:
    """What was seen of tables, each when it was first needed, and kept as long as the reader is open."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._most: dict[tuple[str, OwnerPath | None], int] = {}
        self._ends: dict[tuple[str, str], Interval] = {}

    def most_rows(self, scan: Scan) -> int:
        """The most rows of one entity."""
        table, owner = scan.table, scan.table.owner
        if owner is not None and not owner.steps and any(key == {owner.column} for key in table.unique):
            return 1
        if (table.name, owner) not in self._most:  # the same table may be asked about for several kinds of entity
            owned = Scan(table=table, columns=(), owners=("owner",)).render((), Printing())
            counted = f'SELECT COUNT(*) AS "n" FROM ({owned}) AS t1 GROUP BY t1."owner"'
            self._most[table.name, owner] = self._reader.rows(f'SELECT COALESCE(MAX(t2."n"), 0) FROM ({counted}) AS t2')[0][0]
        return self._most[table.name, owner]

    def ends(self, table: Table, column: str) -> Interval:
        """The range of a column of numbers; any number where it holds NaN, or no number at all."""
        if (table.name, column) not in self._ends:
            kind, name = table.columns[column].type.value, quote(column)
            (low, high), = self._reader.rows(f"SELECT CAST(MIN(t0.{name}) AS {kind}), CAST(MAX(t0.{name}) AS {kind}) "
                                             f"FROM {quote(table.name)} AS t0")
            known = low is not None and math.isfinite(low) and math.isfinite(high)
            self._ends[table.name, column] = Interval(low, high) if known else ANY_NUMBER
        return self._ends[table.name, column]

    def sql(self, plan: Node, printing: Printing) -> str:
        """The statement of a plan without the truncations that change nothing.

        They are left out of the text, not of the plan: which rows a truncation above keeps rests on what the plan knows of its
        input, and would be another choice, for everybody, without the limit. For the same reason what is known of columns
        goes to those operators that print a clamp, and not into the plan. Many sums are printed in two steps, clipped ones in two
        parts.
        """
        def printed(node: Node, below: tuple[str, ...]) -> str:
            if isinstance(node, Truncate) and self._idle(node):
                return below[0]
            if isinstance(node, Filter) and isinstance(node.input, Truncate) and self._idle(node.input):
                return replace(node, input=node.input.input).render(below, printing)  # where the table is read
            return node.render(below, seen(node.input) if isinstance(node, Tally | Contributions) else printing)

        def seen(below: Node) -> Printing:
            return replace(printing, reach=self._reach(below))

        if isinstance(plan, Tally) and isinstance(plan.input, Project):
            rows = fold(plan.input.input, printed)
            return in_two_steps(plan, rows) or plan.render((plan.input.render((rows,), printing),), seen(plan.input))
        if isinstance(plan, Tally) and (given := clipped(plan)) is not None:
            return in_two_parts(plan, fold(given.input, printed), seen(given.input))
        return fold(plan, printed)

    def _idle(self, node: Truncate) -> bool:
        """Whether a truncation keeps every row: it is right above a private table, by that table's owner, and wide enough."""
        scan = node.input
        return (isinstance(scan, Scan) and scan.table.owner is not None and node.owner == scan.owner
                and self.most_rows(scan) <= node.rows)

    def _reach(self, node: Node) -> Mapping[str, Interval]:
        """Ranges in which columns lie on the rows that there are, where they come from one table."""
        match node:
            case Scan() if not node.table.public:
                return {column: self.ends(node.table, name) for column, name in node.columns
                        if node.table.columns[name].type.numeric}
            case Filter() | Truncate():
                return self._reach(node.input)
            case Project():
                below = Printing(reach=self._reach(node.input)).seen(node.input)
                return {column: facts(expr, below).physical for column, _, expr in node.columns}
        return {}
