"""A subquery as a value: (SELECT AVG(income) FROM people).

A subquery that reads private rows is a separate question, released before the question around it; until then a `Placeholder`
stands for its value. One that reads only public tables is a constant. One that names columns of the query around it has a value
for each of that query's rows; see `correlated`.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.errors import SqlError, Unsupported
from dpsql.frozen import replace
from dpsql.questions.question import Question, Scalar
from dpsql.questions.rules.prune_columns import prune_columns
from dpsql.questions.rules.substitute import has_placeholders
from dpsql.sql.binding import correlated
from dpsql.sql.binding.binding_context import AddedColumns, BindingContext, LooksOutside, Names, SelectHost
from dpsql.sql.text.places import span_of
from dpsql.sql.text.trees import has_aggregate, inner_of, is_star
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.intervals import outward
from dpsql.trusted.plan.expr.nodes import Literal, Placeholder, Value
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.statistics import Statistics
from dpsql.types import Span, Type


def scalar(host: SelectHost, query: exp.Expr, span: Span | None) -> AddedColumns:
    """The value of a subquery, and the outer rows extended by the columns that it needs."""
    select, names = query, host.names.with_(query.args.get("with_"))
    while isinstance(select, exp.Subquery):
        select = select.this
        names = names.with_(select.args.get("with_"))
    if not isinstance(select, exp.Select):
        return _only_row(query, host, span)
    if len(select.expressions) != 1:
        raise _columns(len(select.expressions), span)
    grouped, added_up = select.args.get("group") is not None, select.args.get("having") is not None or has_aggregate(
        select.expressions[0])
    with host.context.fresh.query(span_of(select)):
        if added_up and not grouped:
            return _total(host, select, names, span)
        if grouped or is_star(inner_of(select.expressions[0])):
            _check_public(select, host.context, names, span)
            return _only_row(query, host, span)
        found = correlated.found(host, select, names, span)
    return found if found is not None else _only_row(query, host, span)


# -- aggregates without GROUP BY


def _total(host: SelectHost, select: exp.Select, names: Names, span: Span | None) -> AddedColumns:
    context = host.context
    known = context.scalars.find(select, names)
    if known is not None:
        return AddedColumns(expr=known.awaited, node=host.node)
    scope = replace(context.sources(select, names), outer=replace(host.scope, node=host.node))
    try:
        question, shown = context.question(select, names, scope)
    except LooksOutside:
        return correlated.total(host, select, names, span)
    if context.stability(question.view).public and not has_placeholders(question):
        value = Literal(value=_evaluated(question, context), type=shown.type, span=span)
        return AddedColumns(expr=value, node=host.node)
    scalar = Scalar(awaited=_awaited(shown, context, span), question=question, span=span)
    context.scalars.add(select, names, scalar)
    return AddedColumns(expr=scalar.awaited, node=host.node)


def _awaited(shown: Facts, context: BindingContext, span: Span | None) -> Placeholder:
    """The placeholder of the value. The released value is clamped to its declared range, so proofs may use that range."""
    whole = shown.type is Type.BIGINT and shown.declared.finite
    return Placeholder(id=context.fresh.column(), type=shown.type, physical=outward(shown.declared) if whole else shown.physical,
                       declared=shown.declared, text=context.written(span), span=span)


def _evaluated(question: Question, context: BindingContext) -> Value:
    """The value of a question about public tables."""
    calls = tuple(call.exact for call in question.aggregates)
    (row,) = context.public.public_rows(Statistics(input=prune_columns(question.view), keys=(), calls=calls))
    columns = {call.id: (call.type, [value]) for call, value in zip(calls, row, strict=False)}
    shown = [question.outputs[0].expr, *([question.having] if question.having is not None else [])]
    ((value, *kept),) = context.scratch.evaluate(shown, columns)
    chosen = question.limit != 0 and question.offset == 0 and kept in ([], [True])
    return value if chosen else None


# -- rows


def _only_row(query: exp.Expr, host: SelectHost, span: Span | None) -> AddedColumns:
    """The single row of a subquery over public tables."""
    context, relation = host.context, host.context.relation(query, host.names)
    if len(relation.columns) != 1:
        raise _columns(len(relation.columns), span)
    if not context.stability(relation.node).public:
        raise _rows(span)
    if context.public.fanout(relation.node, ()) > 1:
        raise SqlError("this subquery returns several rows, but a value needs one", code="scalar-subquery", span=span,
                       try_="MAX(x) or another aggregate, or IN (SELECT ...)")
    name, column = relation.columns[0]
    rows = context.public.public_rows(Project(input=relation.node, columns=((context.fresh.column(), name, column.ref),)))
    value = Literal(value=rows[0][0] if rows else None, type=column.facts.type, span=span)
    return AddedColumns(expr=value, node=host.node)


def _check_public(select: exp.Select, context: BindingContext, names: Names, span: Span | None) -> None:
    if not context.stability(context.sources(select, names).node).public:
        raise _rows(span)


def _rows(span: Span | None) -> Unsupported:
    return Unsupported("a subquery used as a value must return exactly one row", code="scalar-subquery", span=span,
                       try_="an aggregate without GROUP BY: (SELECT AVG(x) FROM t)")


def _columns(count: int, span: Span | None) -> SqlError:
    return SqlError(f"a subquery used as a value needs one column, and this one has {count}", code="scalar-subquery", span=span,
                    try_="a subquery for each of them")
