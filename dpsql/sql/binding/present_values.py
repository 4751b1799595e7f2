"""Expressions over values that are not missing, clamped to their declared ranges."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.sql.binding import typing
from dpsql.trusted.plan.expr.facts import facts
from dpsql.trusted.plan.expr.nodes import Expr, Literal
from dpsql.types import Span, Type


def present(expr: Expr, env: typing.Env, span: Span | None) -> Expr | None:
    """The test that an expression has a value, neither NULL nor NaN; None if it always has one."""
    if not facts(expr, env).nullable:
        return None
    if expr.type is Type.DOUBLE:
        return typing.call("not", [typing.call("isnan", [expr], env, span)], env, span)
    return typing.call("is not null", [expr], env, span)


def where(tests: Sequence[Expr | None], expr: Expr) -> Expr:
    """An expression that is NULL unless all tests are true, under the expression's own name."""
    for test in dict.fromkeys(tests):
        if test is not None:
            expr = typing.case([(test, expr)], None, expr.span)
    return expr


def in_range(expr: Expr, env: typing.Env, span: Span | None) -> Expr:
    """A number clamped to its declared range, as in sums of one column; NULL becomes an end of the range."""
    ends, number = facts(expr, env).declared, typing.to(expr, Type.DOUBLE, span)
    if not ends.finite:
        return number
    low, high = (Literal(value=float(end), type=Type.DOUBLE) for end in (ends.low, ends.high))
    return typing.call("least", [typing.call("greatest", [number, low], env, span), high], env, span)
