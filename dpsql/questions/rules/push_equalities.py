"""Equalities in WHERE that link two tables become conditions of their join."""

from __future__ import annotations

from dpsql.frozen import replace
from dpsql.questions.rebuilding import rebuild
from dpsql.questions.rules.rule import rule_about
from dpsql.trusted.plan.expr.nodes import TRUE, Call, Expr, all_of, columns, conjuncts
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.lookup import Lookup


@rule_about(Join, Lookup)
def push_equalities(plan: Node) -> Node:
    """Rewrite FROM a, b WHERE a.x = b.x as FROM a JOIN b ON a.x = b.x, because only the latter shows that few rows match."""

    def change(node: Node) -> Node:
        if not isinstance(node, Filter) or not isinstance(node.input, Join | Lookup):
            return node
        below: Node = node.input
        kept = []
        for part in conjuncts(node.condition):
            pushed = _push(below, part)
            if pushed is None:
                kept.append(part)
            else:
                below = pushed
        if below is node.input:
            return node
        condition = all_of(kept)
        return below if condition is None else Filter(input=below, condition=condition)

    return rebuild(plan, change)


def _push(node: Node, part: Expr) -> Node | None:
    """The join tree with an equality added to the join of the two tables it links; None if there is no such join."""
    read = columns(part)
    if isinstance(node, Lookup):  # each row is tested by itself, so it may as well be dropped before
        pushed = _push(node.input, part) if read <= set(node.input.env) else None
        return None if pushed is None else replace(node, input=pushed)
    if not isinstance(node, Join) or node.keep_left or node.keep_right or not (isinstance(part, Call) and part.function == "="):
        return None
    for side in ("left", "right"):
        below = getattr(node, side)
        if read <= set(below.env):
            pushed = _push(below, part)
            if pushed is None:
                return None
            return replace(node, left=pushed) if side == "left" else replace(node, right=pushed)
    if not read <= set(node.left.env) | set(node.right.env):
        return None
    known = [old for old in conjuncts(node.condition) if old != TRUE]
    condition = all_of([*known, part])
    assert condition is not None
    return replace(node, condition=condition)
