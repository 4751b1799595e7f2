"""Queries on public relations, whose contents everyone knows: no charge and no noise.

Whether a relation is public is decided twice: by its operators' claims, and from its classes and tables alone. Only a relation
of a known form is printed (`shapes`): what stands in a plan as a text, such as the name of a function, could be SQL about other
tables.
"""

from __future__ import annotations

from typing import Any

from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.kernel.plan_size import check_size
from dpsql.trusted.kernel.shapes import RELATIONS, Columns, Malformed, check_statistics, columns_of, inputs
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.expr.printing import all_readable, quote, settled
from dpsql.trusted.plan.node import Node, Printing, fold
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.statistics import Statistics
from dpsql.trusted.reader import Reader, ReaderFault, unread


def reads_public_tables(node: Node) -> bool:
    """Whether a plan consists only of known operators (not of subclasses) and scans only public tables."""
    if type(node) not in RELATIONS | {Statistics} or (
            isinstance(node, Scan) and (type(node.table) is not Table or node.table.public is not True)):
        return False
    return all(reads_public_tables(below) for below in inputs(node))


def check_form(node: Node, found: dict[int, Columns] | None = None) -> Columns:
    """The columns of a relation; none for a summary. Raises Malformed if it, or a relation below, is not of a known form."""
    found = {} if found is None else found
    if id(node) not in found:
        below = [check_form(part, found) for part in inputs(node)]
        found[id(node)] = columns_of(node, below) if type(node) is not Statistics else check_statistics(node, *below)
    return found[id(node)]


class Publics:
    """The public relations of one database; each object serves only one database."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._fanouts: dict[str, int] = {}

    def public_rows(self, relation: Node) -> list[tuple[Any, ...]]:
        """The rows of a public relation, without those that contain a day outside the years 1 to 9999
        (`expr.printing.readable`).

        Raises ValueError if it is not public, OperationalError where it cannot be read.
        """
        query = self._sql(relation)
        unread = all_readable((f"t.{quote(field.id)}", field.facts.type) for field in relation.fields)
        return self._rows(f"SELECT * FROM ({query}) AS t{unread}" if unread else query)

    def fanout(self, relation: Node, columns: tuple[str, ...]) -> int:
        """See `plan.node.PublicFacts`."""
        source = f"({self._sql(relation)}) AS t0"
        if columns:
            agreed = ", ".join(settled(f"t0.{quote(column)}", relation.env[column].type) for column in columns)
            source = f"(SELECT COUNT(*) AS \"n\" FROM {source} GROUP BY {agreed}) AS t1"
            query = f"SELECT COALESCE(MAX(t1.\"n\"), 0) FROM {source}"
        else:
            query = f"SELECT COUNT(*) FROM {source}"
        if query not in self._fanouts:
            self._fanouts[query] = int(self._rows(query)[0][0])
        return self._fanouts[query]

    def content(self, table: Table) -> str:
        """Identifies the declared columns of a public table, and its rows in whatever order. Raises as `public_rows` does."""
        names = sorted(table.columns)
        scan = Scan(table=table, columns=tuple((f"c{i}", name) for i, name in enumerate(names)))
        row = f"row({', '.join(f't0.{quote(field.id)}' for field in scan.fields)})" if names else "0"
        hashed = f"CAST(md5_number_lower(CAST({row} AS VARCHAR)) AS HUGEINT)"
        (rows, total), = self._rows(f"SELECT COUNT(*), COALESCE(SUM({hashed}), 0) FROM ({self._sql(scan)}) AS t0")
        return f"{names} {rows} {total}"

    def forget(self) -> None:
        """Discard all counts, because a name now refers to other public rows."""
        self._fanouts.clear()

    def _sql(self, relation: Node) -> str:
        check_size(relation)
        if not reads_public_tables(relation) or not stability(relation, self).public:
            raise ValueError("the relation is not public")
        try:
            check_form(relation)
        except Malformed:
            raise ValueError("the relation is not of a known form") from None
        return fold(relation, lambda node, below: node.render(below, Printing()))  # no rows are chosen: no salt

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        try:
            return self._reader.rows(query)
        except ReaderFault as fault:
            raise unread(fault) from None
