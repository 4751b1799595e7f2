"""Columns whose declared range is far wider than their values are, as far as the text of a statement tells.

The range of a difference of two columns is that of all pairs of their values. Where both are declared for a long time or a wide
scale, and each row has values near each other (the days of admission and discharge, two readings of one meter), hardly any
difference is near an end. Then totals that are scaled down to a learned limit err less by the ratio of these, though nobody knows
what the limit cuts off.
"""

from __future__ import annotations

from dpsql.plan.expr.nodes import Call, Cast, Expr, Ref, columns
from dpsql.plan.node import Node
from dpsql.plan.operators.filter import Filter
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.truncate import Truncate

DIFFERENCES = ("-", "days_between")


def is_difference(view: Node, column: str) -> bool:
    """Whether a column of a view is a difference of two others, or a multiple of one."""
    node = view
    while isinstance(node, Project | Filter | Truncate):
        if isinstance(node, Project):
            expr = next(expr for name, _, expr in node.columns if name == column)
            if not isinstance(expr, Ref):
                return _subtracts(expr)
            column = expr.column
        node = node.input
    return False


def _subtracts(expr: Expr) -> bool:
    if isinstance(expr, Cast):
        return _subtracts(expr.input)
    if not isinstance(expr, Call):
        return False
    moving = [arg for arg in expr.args if columns(arg)]
    if len(moving) == 1:
        return expr.function in ("+", "-", "*", "/", "negate") and _subtracts(moving[0])
    differs = expr.function in DIFFERENCES or expr.function.startswith(("date_diff_", "date_sub_"))
    return differs and len(moving) == 2 and not columns(moving[0]) & columns(moving[1])
