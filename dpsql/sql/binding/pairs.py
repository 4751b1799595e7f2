"""Aggregates of two columns: CORR, COVAR and REGR, over the rows where neither is NULL or NaN."""

from __future__ import annotations

from dpsql.frozen import replace
from dpsql.questions.rules.regression import middle
from dpsql.sql.binding import typing
from dpsql.sql.binding.present_values import in_range, present, where
from dpsql.trusted.plan.expr.facts import facts
from dpsql.trusted.plan.expr.nodes import Expr, Literal
from dpsql.types import Span, Type


def paired(y: Expr, x: Expr, env: typing.Env, span: Span | None) -> tuple[Expr, Expr, Expr]:
    """Both numbers, NULL if the other is missing; and the product of their distances from the middles of their ranges.

    Measured from the middles, the product is as small as possible: between -vw / 4 and vw / 4 for ranges of widths v and w.
    Values are clamped to their ranges before they are multiplied, as in sums of one column.
    """
    tests = {part: present(part, env, span) for part in (y, x)}
    both = y.span.join(x.span) if y.span is not None else span
    product = typing.call("*", [_centred(part, env, span) for part in (y, x)], env, span)
    product = where(tuple(tests.values()), replace(product, span=both))
    return where([tests[x]], y), where([tests[y]], x), product


def _centred(expr: Expr, env: typing.Env, span: Span | None) -> Expr:
    """A number clamped to its declared range, minus the middle of that range; the number itself where it has no range."""
    ends, held = facts(expr, env).declared, in_range(expr, env, span)
    return typing.call("-", [held, Literal(value=middle(ends), type=Type.DOUBLE)], env, span) if ends.finite else held
