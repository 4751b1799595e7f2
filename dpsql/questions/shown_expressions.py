"""Print expressions for people. The text of an expression for the engine is `plan.expr.printing.to_sql`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from dpsql.trusted.plan.expr.functions import HELD, MEMBERSHIP
from dpsql.trusted.plan.expr.nodes import Call, Case, Cast, Expr, Literal, Placeholder, Ref

_INFIX = {"and": "AND", "or": "OR", "like": "LIKE", "ilike": "ILIKE", "||": "||"} | {
    symbol: symbol.upper() for symbol in (
        "=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "//", "%", "is distinct from", "is not distinct from")}
_POSTFIX = {"is null": "IS NULL", "is not null": "IS NOT NULL"}


def show(expr: Expr, names: Mapping[str, str]) -> str:
    """An expression as text for people: plain operators, without guards and outermost parentheses."""
    text = _show(expr, names)
    return text[1:-1] if text.startswith("(") and _closes_at_end(text) else text


def _closes_at_end(text: str) -> bool:
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return i == len(text) - 1
    return False


def _show(expr: Expr, names: Mapping[str, str]) -> str:
    match expr:
        case Ref(column=column):
            return names.get(column, column)
        case Literal(value=value):
            return "NULL" if value is None else str(value).upper() if isinstance(value, bool) else (
                f"'{value}'" if isinstance(value, str | dt.date) else f"{value}")
        case Placeholder(text=text):
            return text
        case Call(function=name, args=args):
            parts = [_show(arg, names) for arg in args]
            if name in _INFIX:
                return f"({f' {_INFIX[name]} '.join(parts)})"
            if name in _POSTFIX:
                return f"({parts[0]} {_POSTFIX[name]})"
            if name == MEMBERSHIP:
                return f"({parts[0]} IN ({', '.join(parts[1:6])}{', ...' if len(parts) > 6 else ''}))"
            if name == HELD:
                return parts[0]
            if name == "not":
                return f"(NOT {parts[0]})"
            return f"-{parts[0]}" if name == "negate" else f"{name}({', '.join(parts)})"
        case Case(branches=branches, otherwise=otherwise):
            arms = " ".join(f"WHEN {show(when, names)} THEN {show(then, names)}" for when, then in branches)
            return f"CASE {arms} ELSE {show(otherwise, names)} END"
        case Cast(input=below, target=target):
            return f"CAST({show(below, names)} AS {target})"
        case other:
            raise TypeError(f"unknown expression {type(other).__name__}")
