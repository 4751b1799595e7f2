"""Columns whose declared range is probably far wider than their values, as the text of a statement suggests.

The range of a difference of two columns is that of all pairs of their values. If both have a wide declared range, but are close
to each other in each row (the days of admission and discharge, two readings of one meter), hardly any difference is near an end
of its range. Then scaling totals down to a learned limit reduces the error by the ratio of the two widths, although nobody knows
what the limit cuts off. The same holds for the length of a text, on which a policy sets no limit.
"""

from __future__ import annotations

from dpsql.trusted.plan.expr.nodes import Call, Cast, Expr, Ref, columns
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.truncate import Truncate

DIFFERENCES = ("-", "days_between")


def is_slack(view: Node, column: str) -> bool:
    """Whether a column of a view is a difference of two others or the length of a text, or a multiple of one."""
    node = view
    while isinstance(node, Project | Filter | Truncate):
        if isinstance(node, Project):
            expr = next(expr for name, _, expr in node.columns if name == column)
            if not isinstance(expr, Ref):
                return _is_wide(expr)
            column = expr.column
        node = node.input
    return False


def _is_wide(expr: Expr) -> bool:
    if isinstance(expr, Cast):
        return _is_wide(expr.input)
    if not isinstance(expr, Call):
        return False
    if expr.function == "length":
        return bool(columns(expr))
    moving = [arg for arg in expr.args if columns(arg)]
    if len(moving) == 1:
        return expr.function in ("+", "-", "*", "/", "negate") and _is_wide(moving[0])
    differs = expr.function in DIFFERENCES or expr.function.startswith(("date_diff_", "date_sub_"))
    return differs and len(moving) == 2 and not columns(moving[0]) & columns(moving[1])
