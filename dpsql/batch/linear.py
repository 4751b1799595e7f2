"""What a statement asks of a view, as linear queries over its rows: keys and sums under conditions, one column at a time.

A cell of the view's data vector is a combination of values of a few columns. A query is linear in it where all that decides
which rows count looks at one column each: keys that are a column or computed from one, and conditions that are conjunctions of
such tests. COUNT and SUM are answered; everything else is refused, with its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpsql.errors import Unsupported
from dpsql.plan.expr.nodes import Expr, Literal, Ref, columns, conjuncts, walk
from dpsql.plan.node import Node
from dpsql.plan.operators.quantizer import quantizer
from dpsql.plan.operators.summands import Count, GridSum
from dpsql.plan.question import AggregateCall, Question
from dpsql.plan.rules.flatten import lowered
from dpsql.types import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """An aggregate: the sum of `expr` (rows, for None) over the rows that fulfil every test. `summand` bounds what one adds."""

    call: AggregateCall
    summand: Count | GridSum
    expr: Expr | None
    tests: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """A statement as sums over the rows of `source`, for each value of its keys."""

    question: Question
    source: Node
    keys: tuple[Expr, ...]
    sums: tuple[Sum, ...]


def linear(question: Question, view: Node) -> Linear:
    """The statement's question over `view`, its rows with all limits enforced. Raises Unsupported, located."""
    if question.scalars:
        raise _not_linear("a subquery that is released first", question.scalars[0].span)
    hidden = next((key for key in question.keys if key.domain is None), None)
    if hidden is not None:
        raise Unsupported(f"the values of {hidden.name} are not declared, and a workload is over declared values",
                          code="workload", span=hidden.span, subject=hidden.name,
                          try_=f"values = [...] for {hidden.name} in the policy")
    calls = question.aggregates
    asked = [key.column for key in question.keys] + [name for call in calls for name in (*call.columns, call.when) if name]
    below = lowered(view, [view.field(name).ref for name in asked])
    exprs = dict(zip(asked, below.exprs, strict=True))
    keys = tuple(_known(exprs[key.column]) for key in question.keys)
    for key, expr in zip(question.keys, keys, strict=True):
        _one_column(expr, f"key {key.name}", key.span)
    return Linear(question=question, source=below.source, keys=keys,
                  sums=tuple(_sum(call, view, exprs, below.common) for call in calls))


def _known(expr: Expr | None) -> Expr:
    assert expr is not None
    return expr


def _sum(call: AggregateCall, view: Node, exprs: dict[str, Expr | None], common: Sequence[Expr]) -> Sum:
    tests = [*common, *(conjuncts(_known(exprs[call.when])) if call.when is not None else ())]
    tests = [test for test in tests if not (isinstance(test, Literal) and test.value is True)]
    for test in tests:
        _one_column(test, "condition", test.span or call.span)
    if call.function == "count" and not call.columns:
        return Sum(call=call, summand=Count(), expr=None, tests=tuple(tests))
    if call.function == "count":
        return Sum(call=call, summand=Count(column="value"), expr=_known(exprs[call.columns[0]]), tests=tuple(tests))
    if call.function != "sum":
        raise _not_linear(call.text or call.function.upper(), call.span)
    field = view.field(call.columns[0])
    grid = quantizer(field.facts, from_low=False) if field.facts.type.numeric else None
    if grid is None or not grid.largest:
        raise Unsupported(f"{field.name} has no declared bounds, so one row could change the answer without limit",
                          code="no-bounds", subject=field.name, span=call.span,
                          try_="bounds = [low, high] for the column in the policy, or LEAST(GREATEST(x, 0), 1000)")
    return Sum(call=call, summand=GridSum(column="value", grid=grid), expr=_known(exprs[call.columns[0]]), tests=tuple(tests))


def _one_column(expr: Expr, what: str, span: Span | None) -> None:
    read = columns(expr)
    if not read and what == "condition":
        raise Unsupported("this condition is the same for all rows", code="workload", span=expr.span or span,
                          try_="conditions of columns")
    if len(read) > 1:
        raise Unsupported(f"this {what} compares several columns with each other, so it is not a sum over cells", code="workload",
                          span=expr.span or span, try_="tests of one column each, joined by AND; or the statement by itself")


def _not_linear(what: str, span: Span | None) -> Unsupported:
    return Unsupported(f"{what} is not linear", code="workload", span=span, subject=what,
                       try_="COUNT and SUM, also with FILTER; other aggregates in a statement of their own")


def column_of(expr: Expr) -> Ref | None:
    """The one column that an expression reads; None for a constant."""
    return next((part for part in walk(expr) if isinstance(part, Ref)), None)
