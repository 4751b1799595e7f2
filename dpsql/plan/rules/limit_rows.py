"""Enforce the limits of rows that the policy declares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dpsql.plan.expr.nodes import Ref
from dpsql.plan.node import Node, rebuild
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.scan import Scan
from dpsql.plan.operators.truncate import Truncate


def limit_rows(plan: Node, most: Callable[[Scan], int | None] = lambda scan: None) -> Node:
    """Put a truncation above every scan of a private table with a declared limit, or for which `most` gives one.

    A declared limit is never trusted: rows beyond it are dropped, before anything else is done with the table. (One row for
    each entity that the database itself guarantees needs no truncation. Where the
    kernel has counted that there are none, the truncation is not executed.)
    """

    def change(node: Node) -> Node:
        if not isinstance(node, Scan) or node.owner is None or node.one_row:
            return node
        limits = [limit for limit in (node.table.rows, most(node)) if limit is not None]
        return Truncate(input=node, rows=min(limits), owner=node.owner, order=row_order(node, node.owner)) if limits else node

    return rebuild(plan, change)


def keep_rows(view: Node, rows: int, owner: str) -> Node:
    """The view with at most so many rows of each entity.

    The rows are chosen below what only computes columns, where the key of the table still tells them apart.
    """
    if isinstance(view, Project):
        inner = next(expr for column, _, expr in view.columns if column == owner)
        if isinstance(inner, Ref):
            return replace(view, input=keep_rows(view.input, rows, inner.column))
    return Truncate(input=view, rows=rows, owner=owner, order=row_order(view, owner))


def row_order(node: Node, owner: str) -> tuple[str, ...]:
    """Columns that tell the rows of one owner apart: the smallest key the database guarantees, or all columns."""
    keys = sorted((sorted(key - {owner}) for key in node.unique), key=len)
    if keys and keys[0]:
        return tuple(keys[0])
    return tuple(field.id for field in node.fields if field.id != owner)
