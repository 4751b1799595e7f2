"""ORDER BY, LIMIT and OFFSET over the rows of an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from dpsql.errors import SqlError
from dpsql.questions.question import Ordering
from dpsql.sql.text.border import parameter_of
from dpsql.sql.text.places import span_of
from dpsql.sql.text.trees import position_of
from dpsql.trusted.plan.expr.nodes import Expr, Literal

ReadTerm = Callable[[exp.Expr], Expr]


def ordering_of(select: exp.Expr, outputs: Sequence[Expr], read: ReadTerm) -> tuple[Ordering, ...]:
    """The terms of ORDER BY: positions in the SELECT list, ALL, or expressions, which `read` binds."""
    clause = select.args.get("order")
    found: list[Ordering] = []
    for term in clause.expressions if clause is not None else ():
        inner = term.this
        if isinstance(inner, exp.Literal) and not inner.args.get("is_string"):
            chosen = [outputs[position_of(inner, select.expressions)]]
        elif isinstance(inner, exp.Var) and str(inner.this).upper() == "ALL":
            chosen = [*outputs]
        else:
            chosen = [read(inner)]
        found += [Ordering(expr=expr, descending=bool(term.args.get("desc")), nulls_first=bool(term.args.get("nulls_first")))
                  for expr in chosen]
    return tuple(found)


def row_count(select: exp.Expr, key: str, read: ReadTerm) -> int | None:
    """The number after LIMIT or OFFSET, None for ALL. Raises SqlError for anything else."""
    clause = select.args.get(key)
    if clause is None:
        return None
    node = clause.expression
    if isinstance(node, exp.Var) and str(node.this).upper() == "ALL":
        return None
    value: object = None
    if parameter_of(node) is not None or isinstance(node, exp.Literal):
        bound = read(node)
        value = bound.value if isinstance(bound, Literal) else None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SqlError(f"{key.upper()} takes a number of rows", code="limit", span=span_of(node), try_=f"{key.upper()} 10")
    return value
