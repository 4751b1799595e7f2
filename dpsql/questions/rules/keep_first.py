"""Keep only the first rows of each partition where a row number is compared with a constant."""

from __future__ import annotations

from dpsql.frozen import replace
from dpsql.questions.rebuilding import rebuild
from dpsql.questions.rules.rule import rule_about
from dpsql.trusted.plan.expr.nodes import Ref, all_of, conjuncts
from dpsql.trusted.plan.expr.upper_limits import limit_of
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.window import Window


@rule_about(Window)
def keep_first(plan: Node) -> Node:
    """Rewrite WHERE n <= 3, or QUALIFY, where n is ROW_NUMBER() OVER (PARTITION BY k ORDER BY x), as the first 3 rows of each
    k.

    One row can change the row numbers of all others, but only two of the rows that are kept, which is the stability of a
    truncation. Ties are broken by a keyed hash; public rows are left as they are, since the choice among them would reveal
    something about the key of the hash. The row number, if it is still needed, is computed over the rows that are kept.
    """

    def change(node: Node) -> Node:
        if not isinstance(node, Filter):
            return node
        below, rest = node.input, []
        for part in conjuncts(node.condition):
            limit = limit_of(part)
            kept = _keep(below, limit.column, limit.high) if limit is not None and limit.high is not None else None
            below = below if kept is None else kept
            if kept is None or limit is None or (limit.low or 1) > 1:
                rest.append(part)
        if below is node.input:
            return node
        return below if (condition := all_of(rest)) is None else Filter(input=below, condition=condition)

    return rebuild(plan, change)


def _keep(node: Node, column: str, rows: int) -> Node | None:
    """The relation with only the first rows of each partition, if the column is their row number; None if it is not."""
    match node:
        case Window(functions=(only,)) if only.id == column and only.function == "row_number" and rows >= 1 and _private(node):
            order = dict.fromkeys((*(term.column for term in node.order), *node.ties))
            return replace(node, input=TruncateKeys(input=node.input, rows=rows, keys=node.partition, first=node.order,
                                                    order=tuple(order)))
        case Project():
            inner = next(expr for known, _, expr in node.columns if known == column)
            below = _keep(node.input, inner.column, rows) if isinstance(inner, Ref) else None
        case Filter() | Lookup() if column in node.input.env:
            below = _keep(node.input, column, rows)
        case _:
            return None
    return None if below is None else replace(node, input=below)


def _private(node: Node) -> bool:
    return not node.table.public if isinstance(node, Scan) else any(map(_private, node.inputs))
