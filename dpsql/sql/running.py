"""Aggregates over groups, SUM(COUNT(*)) OVER (...): totals of parts of the table, running totals and moving sums.

They are linear in the rows, as the counts and sums are that they add up, so they are measured as such.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpsql.errors import SqlError, Unsupported
from dpsql.plan.expr.nodes import Expr, Literal
from dpsql.plan.question import Over
from dpsql.sql.places import span_of
from dpsql.sql.trees import not_here
from dpsql.types import Span, Type

FORM = "SUM(COUNT(*)) OVER (PARTITION BY a ORDER BY b)"
MOST_ROWS = 2**31
KeyOf = Callable[[exp.Expr], tuple[str, Type]]  # the column and type of a key of GROUP BY; raises SqlError for anything else


def inner_of_over(node: exp.Expr) -> exp.Expr:
    """The aggregate that a window function adds up. Raises Unsupported for other window functions."""
    called = node.this
    if not isinstance(called, exp.Sum | exp.Avg) or not isinstance(called.this, exp.Count | exp.Sum | exp.Filter | exp.CountIf):
        if isinstance(called, exp.Filter):
            raise Unsupported("FILTER stands after the inner aggregate here", code="window-here", span=span_of(node),
                              try_="SUM(COUNT(*) FILTER (WHERE ...)) OVER (...)")
        raise not_here(node)
    return called.this


def read_over(node: exp.Expr, key_of: KeyOf, constant: Callable[[exp.Expr], Expr], others: int) -> Over:
    """What OVER says. `others` is how many keys GROUP BY has; `constant` binds a number. Raises SqlError or Unsupported."""
    if node.args.get("alias") is not None:
        raise Unsupported("WINDOW is answered in a subquery of rows only", code="window-here", span=span_of(node.args["alias"]),
                          try_=FORM)
    within = tuple(dict.fromkeys(key_of(part)[0] for part in node.args.get("partition_by") or ()))
    terms = node.args["order"].expressions if node.args.get("order") is not None else []
    mean, spec = isinstance(node.this, exp.Avg), node.args.get("spec")
    if len(terms) > 1:
        raise Unsupported("running totals are in the order of one key", code="window-order", span=span_of(terms[1]), try_=FORM)
    if not terms:
        if spec is not None:
            raise Unsupported("a frame needs an order", code="window-frame", span=span_of(spec), try_=FORM)
        return Over(within=within, mean=mean)
    order, kind = key_of(terms[0].this)
    rows, start, end = _frame(spec, kind, constant)
    if rows and len({*within, order}) < others:
        raise Unsupported("ROWS counts groups one by one, and several groups have the same place in this order",
                          code="window-frame", span=span_of(spec), try_="PARTITION BY all other keys, or RANGE")
    return Over(within=within, order=order, mean=mean, rows=rows, start=start, end=end,
                descending=bool(terms[0].args.get("desc")), nulls_first=bool(terms[0].args.get("nulls_first")))


def _frame(spec: exp.Expr | None, kind: Type, constant: Callable[[exp.Expr], Expr]) -> tuple[bool, float | None, float | None]:
    if spec is None:
        return False, None, 0
    word = str(spec.args.get("kind") or "").upper()
    if word not in ("ROWS", "RANGE"):
        raise Unsupported(f"frames in {word} are not answered", code="window-frame", span=span_of(spec),
                          try_="ROWS BETWEEN 2 PRECEDING AND CURRENT ROW")
    rows = word == "ROWS"
    start = _end(spec.args.get("start"), str(spec.args.get("start_side") or "PRECEDING"), spec, constant, first=True)
    end = 0.0 if spec.args.get("end") is None else _end(spec.args["end"], str(spec.args.get("end_side") or "FOLLOWING"), spec,
                                                         constant, first=False)
    if not rows and not kind.numeric and (start or end):
        raise Unsupported("RANGE with a distance needs a key of numbers", code="window-frame", span=span_of(spec),
                          try_="ROWS BETWEEN 2 PRECEDING AND CURRENT ROW")
    if rows and any(limit is not None and not limit.is_integer() for limit in (start, end)):
        raise SqlError("ROWS takes a whole number of rows", code="window-number", span=span_of(spec),
                       try_="ROWS BETWEEN 2 PRECEDING AND CURRENT ROW")
    if start is not None and end is not None and start > end:
        raise SqlError("this frame ends before it begins", code="window-ends", span=span_of(spec),
                       try_="ROWS BETWEEN 2 PRECEDING AND CURRENT ROW")
    return rows, start, end


def _end(value: object, side: str, spec: exp.Expr, constant: Callable[[exp.Expr], Expr], *, first: bool) -> float | None:
    """One end of a frame, as a distance after the row itself; None for no end."""
    forward, span = side.upper() == "FOLLOWING", span_of(spec)
    if not isinstance(value, exp.Expr):
        word = str(value or "").upper()
        if word == "CURRENT ROW":
            return 0.0
        if word != "UNBOUNDED" or forward is first:
            raise SqlError(f"a frame cannot {'begin' if first else 'end'} at UNBOUNDED {side.upper()}", code="window-frame",
                           span=span, try_="ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW")
        return None
    distance = _number(constant(value), span_of(value) or span)
    return distance if forward else -distance


def _number(expr: Expr, span: Span | None) -> float:
    value = expr.value if isinstance(expr, Literal) and expr.type.numeric else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_ROWS:
        raise SqlError("a frame takes a number that is not negative", code="window-number", span=span,
                       try_="ROWS BETWEEN 2 PRECEDING AND CURRENT ROW")
    return float(value)
