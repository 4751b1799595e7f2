"""Subqueries of one value that name columns of the rows around them, bound as left joins.

    (SELECT COUNT(*) FROM visits v WHERE v.person_id = p.person_id)

is, for each row p, the row of `SELECT person_id, COUNT(*) FROM visits GROUP BY person_id` with the same person_id. Where there
is none, counts are 0 and everything else is NULL, so expressions over them are computed after the join. How far one entity can
move the result follows from the join and the groups; where there is no bound, the error points at the subquery.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.errors import Unsupported
from dpsql.frozen import replace
from dpsql.sql.binding.binding_context import AddedColumns, Names, SelectHost
from dpsql.sql.binding.grouping import Grouping
from dpsql.sql.binding.inner_groups import grouped
from dpsql.sql.binding.owners import say_owners
from dpsql.sql.text.places import span_of
from dpsql.sql.text.trees import inner_of
from dpsql.trusted.plan.expr.nodes import TRUE, Call, Case, Expr, Literal, Ref, all_of, columns, conjuncts, rewrite, whole
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.filter import without_null
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.project import Project
from dpsql.types import Span, Type

Link = tuple[Expr, Expr]  # an expression over the rows around, and one over the rows of the subquery, that are equal


def total(host: SelectHost, select: exp.Select, names: Names, span: Span | None) -> AddedColumns:
    """The value of a subquery of aggregates, for each outer row."""
    inner = host.inside(select, names)
    links = _links(host, inner, select, span)
    _check_limit(select)
    grouping = Grouping(inner, host.context.fresh, exact=True, around=host.node.env,
                        within=[theirs for _, theirs in links])
    (expr,) = grouping.read_items(select)
    having = grouping.read_having(select)
    for found in grouping.aggregates:
        if not all(columns(part) <= set(inner.node.env) for part in (*found.args, *([found.when] if found.when else []))):
            raise Unsupported("this aggregate reads columns of the outer row", code="linked", span=found.span,
                              try_="an aggregate of the subquery's own columns: COUNT(*) * p.x for SUM(p.x)")
    keys = [grouping.add_key(_named(theirs, inner), theirs).id for _, theirs in links]
    node = replace(grouped(grouping, inner), span=span)
    joined = _joined(host, inner, node, list(zip([ours for ours, _ in links], keys, strict=True)), links, span)
    counts = {found.id for found in grouping.aggregates if found.aggregate.counts}

    def change(part: Expr) -> Expr | None:
        if not isinstance(part, Ref) or part.column not in counts:
            return None
        return Call(function="coalesce", args=(part, whole(0)), type=Type.BIGINT)

    value = rewrite(expr, change)
    if having is not None:
        none = Literal(value=None, type=value.type)
        value = Case(branches=((rewrite(having, change), value),), otherwise=none, type=value.type)
    return AddedColumns(expr=value, node=joined, joined=frozenset(node.env))


def found(host: SelectHost, select: exp.Select, names: Names, span: Span | None) -> AddedColumns | None:
    """The value in the one matching row; None if the subquery is not correlated."""
    inner, context = host.inside(select, names), host.context
    links = _links(host, inner, select, span)
    value = inner.bind(inner_of(select.expressions[0]))
    if not links and columns(value) <= set(inner.node.env):
        return None
    _check_limit(select)
    if not columns(value) <= set(inner.node.env):
        raise Unsupported("this subquery returns a column of the outer row", code="linked", span=value.span or span,
                          try_="that column itself, outside of the subquery")
    keys = [context.fresh.column() for _ in links]
    shown = context.fresh.column()
    owners = [(context.fresh.column(), inner.node.names[owner], Ref(column=owner, type=inner.node.env[owner].type))
              for owner in context.owners(inner.node)]
    carried = [(key, _named(theirs, inner), theirs) for key, (_, theirs) in zip(keys, links, strict=True)]
    node = Project(input=inner.node, columns=(*carried, (shown, "value", value), *owners))
    if node.max_frequency(keys) != 1 and not (context.stability(node).public
                                              and context.public.fanout(without_null(node, keys), tuple(keys)) <= 1):
        raise Unsupported("this subquery may have several rows for one outer row", code="scalar-subquery", span=span,
                          try_="MAX(x) or another aggregate, or an equality with a key of its table")
    joined = _joined(host, inner, node, list(zip([ours for ours, _ in links], keys, strict=True)), links, span)
    return AddedColumns(expr=Ref(column=shown, type=value.type, span=span), node=joined, joined=frozenset(node.env))


# -- links


def _links(host: SelectHost, inner: SelectHost, select: exp.Select, span: Span | None) -> list[Link]:
    """Binds the WHERE of the subquery; returns the equalities in it that name columns of the row around."""
    return [_link(host, inner, part, span) for link in inner.where(select.args.get("where")) for part in conjuncts(link)]


def _link(host: SelectHost, inner: SelectHost, part: Expr, span: Span | None) -> Link:
    if isinstance(part, Call) and part.function == "=":
        for ours, theirs in (part.args, part.args[::-1]):
            if columns(ours) <= set(host.node.env) and columns(theirs) and columns(theirs) <= set(inner.node.env):
                return ours, theirs
    raise Unsupported("a subquery may refer to the outer row only in equalities with its own columns", code="linked",
                      span=part.span or span, try_="WHERE inner.key = outer.key, and other conditions outside of the subquery")


def _named(theirs: Expr, inner: SelectHost) -> str:
    """The name of a key: that of its column."""
    return inner.node.names[theirs.column] if isinstance(theirs, Ref) else "key"


def _check_limit(select: exp.Select) -> None:
    for key in ("limit", "offset"):
        if select.args.get(key) is not None:
            raise Unsupported(f"{key.upper()} in a subquery that refers to the outer row is not answered",
                              code="inner-limit", span=span_of(select.args[key]), try_="MIN(x) or MAX(x)")


def _joined(host: SelectHost, inner: SelectHost, node: Node, pairs: Sequence[tuple[Expr, str]], links: Sequence[Link],
            span: Span | None) -> Node:
    """The outer rows with the columns of the one matching row, NULL where there is none."""
    equal = [Call(function="=", args=(ours, node.field(key).ref), type=Type.BOOLEAN) for ours, key in pairs]
    known = inner.scope.origins
    origins = {key: known[theirs.column] for (_, key), (_, theirs) in zip(pairs, links, strict=True)
               if isinstance(theirs, Ref) and theirs.column in known}
    join = Join(left=host.node, right=node, condition=all_of(list(equal)) or TRUE, keep_left=True, span=span)
    return say_owners(join, {**host.scope.origins, **origins}, host.context)
