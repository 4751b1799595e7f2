"""Conditions on one side of a join are tested on that side, before any rows are left out there."""

from __future__ import annotations

from dpsql.frozen import replace
from dpsql.questions.rebuilding import rebuild
from dpsql.questions.rules.rule import rule_about
from dpsql.questions.rules.substitute import has_placeholders
from dpsql.trusted.plan.expr.nodes import Expr, Ref, all_of, columns, conjuncts, rewrite
from dpsql.trusted.plan.node import Node, bottom_up
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan


@rule_about(Filter)
def push_filters(plan: Node) -> Node:
    """The same rows, with every condition moved down as far as joins, lookups and projections allow.

    This matters where limits on keys leave rows out further up: no row that a condition drops anyway then uses up the limit. A
    condition moves to a side of an outer join only if the join never pads that side's columns with NULL. A condition that needs a
    value still to be released stays above public rows, as the number of these that match is looked up before that.
    """

    def change(node: Node) -> Node:
        if not isinstance(node, Filter):
            return node
        below, kept = node.input, []
        for part in conjuncts(node.condition):
            pushed = _pushed(below, part)
            below = pushed if pushed is not None else below
            kept += [part] if pushed is None else []
        condition = all_of(kept)
        return below if condition is None else replace(node, input=below, condition=condition)

    return rebuild(plan, change)


def _pushed(node: Node, part: Expr) -> Node | None:
    """The node with the condition somewhere below it; None if the condition can only stand right above the node."""
    read = columns(part)
    match node:
        case Join() if read and read <= set(node.left.env) and not node.keep_right and not _awaited(part, node.left):
            return replace(node, left=_above(node.left, part))
        case Join() if read and read <= set(node.right.env) and not node.keep_left and not _awaited(part, node.right):
            return replace(node, right=_above(node.right, part))
        case Lookup() if read <= set(node.input.env):
            return replace(node, input=_above(node.input, part))
        case Filter():
            below = _pushed(node.input, part)
            return None if below is None else replace(node, input=below)
        case Project():
            exprs = {column: expr for column, _, expr in node.columns}
            below = _pushed(node.input, rewrite(part, lambda found: exprs[found.column] if isinstance(found, Ref) else None))
            return None if below is None else replace(node, input=below)
    return None


def _awaited(part: Expr, side: Node) -> bool:
    """Whether the side is public, and the condition needs a value that is still to be released."""
    return bool(has_placeholders(part)) and all(node.table.public for node in bottom_up(side) if isinstance(node, Scan))


def _above(node: Node, part: Expr) -> Node:
    pushed = _pushed(node, part)
    if pushed is not None:
        return pushed
    if isinstance(node, Filter):
        condition = all_of([node.condition, part])
        assert condition is not None
        return replace(node, condition=condition)
    return Filter(input=node, condition=part)
