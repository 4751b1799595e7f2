"""Aggregates over groups, SUM(COUNT(*)) OVER (...): totals of parts of the table, running totals and moving sums.

Like the counts and sums that they add up, they are linear in the rows, and are measured as linear queries.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sqlglot import exp

from dpsql.errors import SqlError, Unsupported
from dpsql.questions.question import OverGroups
from dpsql.sql.binding.frames import FORM as ROWS
from dpsql.sql.binding.frames import read_frame
from dpsql.sql.text.places import span_of
from dpsql.sql.text.trees import not_here
from dpsql.trusted.plan.expr.nodes import Expr, Literal
from dpsql.types import Type

FORM = "SUM(COUNT(*)) OVER (PARTITION BY a ORDER BY b)"
MOST_ROWS = 2**31
KeyOf = Callable[[exp.Expr], tuple[str, Type]]  # the column and type of a key of GROUP BY; raises SqlError for anything else


def inner_of_over(node: exp.Expr) -> exp.Expr:
    """The aggregate that a window function adds up. Raises Unsupported for other window functions."""
    called = node.this
    if not isinstance(called, exp.Sum | exp.Avg) or not isinstance(called.this, exp.Count | exp.Sum | exp.Filter | exp.CountIf):
        if isinstance(called, exp.Filter):
            raise Unsupported("FILTER must follow the inner aggregate here", code="window-here", span=span_of(node),
                              try_="SUM(COUNT(*) FILTER (WHERE ...)) OVER (...)")
        raise not_here(node)
    return called.this


def read_over(node: exp.Expr, key_of: KeyOf, constant: Callable[[exp.Expr], Expr], others: int) -> OverGroups:
    """The contents of OVER. `others` is the number of keys in GROUP BY; `constant` binds a number. Raises SqlError or
    Unsupported."""
    if node.args.get("alias") is not None:
        raise Unsupported("WINDOW is answered only in a subquery of rows", code="window-here", span=span_of(node.args["alias"]),
                          try_=FORM)
    within = tuple(dict.fromkeys(key_of(part)[0] for part in node.args.get("partition_by") or ()))
    terms = node.args["order"].expressions if node.args.get("order") is not None else []
    mean, spec = isinstance(node.this, exp.Avg), node.args.get("spec")
    if len(terms) > 1:
        raise Unsupported("a running total needs one key as its order", code="window-order", span=span_of(terms[1]), try_=FORM)
    if not terms:
        if spec is not None:
            raise Unsupported("a frame needs an order", code="window-frame", span=span_of(spec), try_=FORM)
        return OverGroups(within=within, mean=mean)
    order, kind = key_of(terms[0].this)
    rows, start, end = read_frame(spec, partial(_distance, spec, kind, constant)) if spec is not None else (False, None, 0.0)
    if rows and len({*within, order}) < others:
        raise Unsupported("ROWS counts single groups, but in this order several groups are tied",
                          code="window-frame", span=span_of(spec), try_="PARTITION BY all other keys, or RANGE")
    return OverGroups(within=within, order=order, mean=mean, rows=rows, start=start, end=end,
                      descending=bool(terms[0].args.get("desc")), nulls_first=bool(terms[0].args.get("nulls_first")))


def _distance(spec: exp.Expr, kind: Type, constant: Callable[[exp.Expr], Expr], node: exp.Expr, rows: bool) -> float:
    """A number of rows, or a distance between keys of this type."""
    expr = constant(node)
    value = expr.value if isinstance(expr, Literal) and expr.type.numeric else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_ROWS:
        raise SqlError("the distance of a frame cannot be negative", code="window-number", span=span_of(node) or span_of(spec),
                       try_=ROWS)
    if value and not rows and not kind.numeric:
        raise Unsupported("RANGE with a distance needs a key of numbers", code="window-frame", span=span_of(spec), try_=ROWS)
    if rows and not float(value).is_integer():
        raise SqlError("ROWS takes a whole number of rows", code="window-number", span=span_of(spec), try_=ROWS)
    return float(value)
