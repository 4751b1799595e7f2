"""Queries with a condition that leaves one period of a growing table, for statements that are bound from their text."""

from __future__ import annotations

from sqlglot import exp

from dpsql.frozen import replace
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query
from dpsql.trusted.declarations.growth import PeriodRange
from dpsql.trusted.plan.expr.printing import quote
from dpsql.trusted.plan.node import Node, bottom_up
from dpsql.trusted.plan.operators.scan import Scan


def growing_scan(tree: exp.Expr, view: Node) -> Scan | None:
    """The scan of the growing table that a SELECT, whose rows are those of `view`, reads itself in several periods; None for
    others. In subqueries and windows, or beside rows without a partner, a condition on the period could change what a row is."""
    inside = [*tree.walk()][1:]
    if not isinstance(tree, exp.Select) or any(isinstance(node, exp.Query | exp.Window | exp.With) for node in inside) or any(
            isinstance(node, exp.Join) and (node.side or node.kind not in ("", "INNER")) for node in inside):
        return None
    scans = {id(node): node for node in bottom_up(view) if isinstance(node, Scan) and node.periods is not None}
    scan = next(iter(scans.values()), None)
    if scan is None or scan.periods is None or len(scans) > 1 or scan.in_one_period:
        return None
    return scan if len(_tables(tree, scan)) == 1 else None


def each_period(scan: Scan) -> list[PeriodRange]:
    """The periods that are read, one by one."""
    assert scan.table.growth is not None and scan.periods is not None
    return scan.table.growth.each(scan.periods)


def only_in(query: Query, scan: Scan, period: PeriodRange) -> Query:
    """The query with a condition that leaves the rows of one period."""
    growth, tree = scan.table.growth, query.tree.copy()
    assert growth is not None
    (table,) = _tables(tree, scan)
    column = f"{quote(str(table.alias_or_name))}.{quote(growth.column)}"
    condition = parsed(f"WHERE {column} >= DATE '{period.start}' AND {column} < DATE '{period.end}'").args["where"].this
    if (own := tree.args.get("where")) is not None:
        condition = exp.And(this=condition, expression=exp.Paren(this=own.this.copy()))
    tree.set("where", exp.Where(this=condition))
    return replace(query, tree=tree)


def parsed(clause: str, item: str = "1") -> exp.Select:
    """A SELECT of one item."""
    found = parse(f"SELECT {item} FROM t {clause}")
    assert isinstance(found, Query) and isinstance(found.tree, exp.Select)
    return found.tree


def _tables(tree: exp.Expr, scan: Scan) -> list[exp.Table]:
    return [table for table in tree.find_all(exp.Table) if str(table.name).lower() == scan.table.name.lower()]
