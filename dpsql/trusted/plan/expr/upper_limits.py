"""Conditions that limit a whole number by a constant."""

from __future__ import annotations

from dpsql.frozen import Frozen
from dpsql.trusted.plan.expr.nodes import Call, Expr, Literal, Ref
from dpsql.types import Type

MIRRORED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<", "=": "="}


class WholeRange(Frozen):
    """The range that a condition implies for a column of whole numbers: not NULL, and between two numbers (None for no limit)."""

    column: str
    low: int | None = None
    high: int | None = None


def limit_of(part: Expr) -> WholeRange | None:
    """The limit, if that is all that a condition says; None for other conditions."""
    if not isinstance(part, Call) or part.function not in MIRRORED:
        return None
    (a, b), function = part.args, part.function
    if isinstance(a, Literal):
        a, b, function = b, a, MIRRORED[function]
    if not isinstance(a, Ref) or not isinstance(b, Literal) or a.type is not Type.BIGINT or type(b.value) is not int:
        return None
    match function:
        case "<=":
            return WholeRange(column=a.column, high=b.value)
        case "<":
            return WholeRange(column=a.column, high=b.value - 1)
        case ">=":
            return WholeRange(column=a.column, low=b.value)
        case ">":
            return WholeRange(column=a.column, low=b.value + 1)
        case _:
            return WholeRange(column=a.column, low=b.value, high=b.value)
