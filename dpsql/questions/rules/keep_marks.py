"""A condition on the mark of a lookup (a row is in the list, or is not) becomes part of the lookup."""

from __future__ import annotations

from dpsql.frozen import replace
from dpsql.questions.rebuilding import rebuild
from dpsql.questions.rules.rule import rule_about
from dpsql.trusted.plan.expr.nodes import Call, Expr, Ref, all_of, conjuncts
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.lookup import Lookup


@rule_about(Lookup)
def keep_marks(plan: Node) -> Node:
    """Rewrite WHERE x IN (list) so that only rows with one mark are kept: a row of the list then changes half as many rows as
    with both marks.

    This applies to a stack of lookups right below a filter. Each tests one row at a time, so the order in which they drop rows
    makes no difference.
    """

    def change(node: Node) -> Node:
        if not isinstance(node, Filter) or not isinstance(node.input, Lookup):
            return node
        below: Node = node.input
        rest = []
        for part in conjuncts(node.condition):
            wanted = _mark(part)
            kept = _keep(below, *wanted) if wanted is not None else None
            below = kept if kept is not None else below
            rest += [part] if kept is None else []
        condition = all_of(rest)
        return below if condition is None else replace(node, input=below, condition=condition)

    return rebuild(plan, change)


def _mark(part: Expr) -> tuple[str, bool] | None:
    """The column that a condition consists of, and whether it must be true or, after NOT, false; None for other conditions."""
    if isinstance(part, Call) and part.function == "not":
        inner = _mark(part.args[0])
        return None if inner is None else (inner[0], not inner[1])
    return (part.column, True) if isinstance(part, Ref) else None


def _keep(node: Node, mark: str, keep: bool) -> Lookup | None:
    """The lookups, one of which keeps only rows with this mark; None if there is no such mark, or its rows are filtered
    already."""
    if not isinstance(node, Lookup):
        return None
    if node.mark == mark:
        return replace(node, keep=keep) if node.keep is None else None
    below = _keep(node.input, mark, keep)
    return None if below is None else replace(node, input=below)
