"""LATERAL subqueries with one row for each row on their left: expressions of its columns, or aggregates of linked rows.

Such a join adds columns and neither repeats nor drops rows, so it is a projection: `FROM p, LATERAL (SELECT p.a + 1 AS b)` is
`FROM (SELECT *, p.a + 1 AS b FROM p)`, and an aggregate is bound like a scalar subquery in that list. As in DuckDB, subqueries
without FROM see the tables on their left without the word LATERAL, too.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.errors import Unsupported
from dpsql.sql.binding.binding_context import BindingContext, BoundRelation, Names, Scope
from dpsql.sql.binding.select_binder import SelectBinder
from dpsql.sql.text.border import parameter_of
from dpsql.sql.text.places import placed, span_of
from dpsql.sql.text.refusals import LATERAL
from dpsql.sql.text.trees import aliases_of, has_aggregate, inner_of, is_star, item_name
from dpsql.trusted.plan.expr.nodes import Expr, Ref
from dpsql.trusted.plan.operators.project import Project

_OF_LINKED_ROWS = {"expressions", "from_", "joins", "where"}


def is_lateral(tree: exp.Expr) -> bool:
    """Whether a source is computed from the sources before it."""
    inner = tree.this if isinstance(tree, exp.Subquery) else None
    return isinstance(tree, exp.Lateral) or (isinstance(inner, exp.Select) and inner.args.get("from_") is None and any(
        parameter_of(column) is None and column.find_ancestor(exp.Select) is inner for column in inner.find_all(exp.Column)))


def added_columns(left: Scope, join: exp.Expr, context: BindingContext, names: Names) -> BoundRelation:
    """The rows on the left, extended by the columns of a lateral subquery.

    Raises Unsupported, located, if it may have more or fewer rows than one.
    """
    select = _one_row(join.this)
    if not _joins_all(join) or select is None:
        reason, try_ = LATERAL
        raise Unsupported(reason, code="lateral", span=span_of(join.this), try_=try_)
    host = SelectBinder(context, left, names, aliases_of(select))
    with context.fresh.query(span_of(join.this)):
        shown = [(context.fresh.column(), item_name(item) or f"col{i}", _value(item, select, host))
                 for i, item in enumerate(select.expressions)]
    kept = ((part.id, part.name, part.ref) for part in host.node.fields)
    node = Project(input=host.node, columns=(*kept, *shown))
    origins = left.origins
    return BoundRelation(node=node, columns=tuple((name, node.field(column)) for column, name, _ in shown), origins={
        column: origins[expr.column] for column, _, expr in shown if isinstance(expr, Ref) and expr.column in origins})


def _one_row(tree: exp.Expr) -> exp.Select | None:
    """The query of a source if it has exactly one row for every row on its left."""
    select = tree.this
    while isinstance(select, exp.Subquery) and not any(select.args.get(key) for key in ("alias", "joins", "with_")):
        select = select.this
    if not isinstance(select, exp.Select) or any(is_star(inner_of(item)) for item in select.expressions):
        return None
    clauses = {key for key, value in select.args.items() if value}
    linked = clauses <= _OF_LINKED_ROWS and "from_" in clauses and all(map(has_aggregate, select.expressions))
    return select if clauses == {"expressions"} or linked else None


def _joins_all(join: exp.Expr) -> bool:
    """Whether every row on the left is joined with the one row of the subquery."""
    side, kind, method = (str(join.args.get(name) or "").upper() for name in ("side", "kind", "method"))
    on = join.args.get("on")
    always = isinstance(on, exp.Boolean) and bool(on.this)
    return (always if on is not None else side == "") and side in ("", "LEFT") and kind in ("", "INNER", "OUTER", "CROSS") and (
        not method and not join.args.get("using"))


def _value(item: exp.Expr, select: exp.Select, host: SelectBinder) -> Expr:
    """An item of the subquery as an expression over the rows on the left."""
    if select.args.get("from_") is None:
        return host.bind(inner_of(item))
    alone = select.copy()
    alone.set("expressions", [inner_of(item).copy()])
    return host.scalar(placed(exp.Subquery(this=alone), span_of(item)), span_of(item))
