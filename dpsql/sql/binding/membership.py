"""IN (SELECT ...), EXISTS (SELECT ...), SEMI JOIN and ANTI JOIN: tests of each row against the rows of a list.

How far one entity can move the result follows from the operator; where there is no bound, the statement is refused when it is
planned as a whole (`planning/bounded_view`). Refused here are tests where one row of the list decides for all rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from dpsql.errors import SqlError, Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.sql.binding import typing
from dpsql.sql.binding.binding_context import AddedColumns, BindingContext, BoundRelation, Origin, SelectHost
from dpsql.sql.binding.owners import same_owner
from dpsql.sql.text.places import span_of
from dpsql.sql.text.trees import inner_of, is_star
from dpsql.trusted.plan.expr.facts import facts
from dpsql.trusted.plan.expr.nodes import Call, Case, Expr, Literal, Ref, all_of, columns, conjuncts
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import Fold, GroupBy
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.project import Project
from dpsql.types import Span, Type

TRUE, FALSE = Literal(value=True, type=Type.BOOLEAN), Literal(value=False, type=Type.BOOLEAN)
UNKNOWN = Literal(value=None, type=Type.BOOLEAN)
Origins = Mapping[str, Origin]


class ListedRows(Frozen):
    """The list that rows are compared with: a relation, pairs of an expression over the rows and a column of the list that
    must be equal, and a further condition on both."""

    node: Node
    keys: tuple[tuple[Expr, str], ...]
    origins: Origins
    condition: Expr | None = None


# -- IN


def listed(host: SelectHost, subjects: Sequence[Expr], query: exp.Expr, span: Span | None, *, kept: bool) -> AddedColumns:
    """x IN (SELECT ...): three-valued, as in SQL; or FALSE instead of NULL, if only rows for which it is true are `kept`."""
    context, relation = host.context, host.context.relation(query, host.names)
    if len(relation.columns) != len(subjects):
        columns = "one column" if len(subjects) == 1 else f"{len(subjects)} columns, as many as stand before IN"
        raise SqlError(f"a subquery after IN has {columns}", code="in-list", span=span_of(query),
                       try_=f"IN (SELECT {', '.join('xyzuvw'[: len(subjects)])} FROM t)")
    subjects, relation = _same_types(subjects, relation, context, span)
    if len(subjects) > 1:
        return _several_listed(host, subjects, relation, span, kept=kept)
    (subject,), column = subjects, relation.columns[0][1]
    public = context.stability(relation.node).public
    if not public and not kept and (column.facts.nullable or facts(subject, host.env).nullable):
        raise _everything(relation.columns[0][0], span)
    found = _look_up(host, ListedRows(node=relation.node, keys=((subject, column.id),), origins=relation.origins), span)
    if not public or kept:
        return found
    missing = Call(function="is null", args=(subject,), type=Type.BOOLEAN)
    rows, present = _counts(context, relation.node, column.id)
    told = Case(branches=((found.expr, TRUE), (missing, FALSE if rows == 0 else UNKNOWN)),
                otherwise=FALSE if rows == present else UNKNOWN, type=Type.BOOLEAN, span=span)
    return replace(found, expr=told)


def _everything(name: str, span: Span | None) -> Unsupported:
    """The outcome of NOT IN depends, for all rows, on whether the list holds a NULL or is empty."""
    return Unsupported("this test compares with NULLs of private rows: one NULL in the list would change the result for all rows",
                       code="null-list", span=span, subject=name,
                       try_=f"NOT EXISTS (SELECT 1 FROM t WHERE t.{name} = x), or WHERE {name} IS NOT NULL in the subquery and "
                       "x IS NOT NULL outside; with OPTIONS (bound = 'frequency', max_frequency = 10) if it has rows of others")


def _several_listed(host: SelectHost, subjects: Sequence[Expr], relation: BoundRelation, span: Span | None, *,
                    kept: bool) -> AddedColumns:
    """(x, y) IN (SELECT ...), if it cannot be NULL, or if NULL means the same as false here."""
    if not kept and any(part.nullable for part in (*(column.facts for _, column in relation.columns), *(
            facts(subject, host.env) for subject in subjects))):
        raise Unsupported("this test of several values may be NULL, so it is answered only in WHERE, under AND and OR",
                          code="null-list", span=span, try_="NOT EXISTS (SELECT 1 FROM t WHERE t.a = x AND t.b = y)")
    keys = tuple((subject, column.id) for subject, (_, column) in zip(subjects, relation.columns, strict=True))
    return _look_up(host, ListedRows(node=relation.node, keys=keys, origins=relation.origins), span)


def _same_types(subjects: Sequence[Expr], relation: BoundRelation, context: BindingContext,
                span: Span | None) -> tuple[Sequence[Expr], BoundRelation]:
    """The pairs that are compared, converted to one type on both sides."""
    if all(column.facts.type is subject.type for subject, (_, column) in zip(subjects, relation.columns, strict=True)):
        return subjects, relation
    pairs = [typing.common([subject, column.ref], span) for subject, (_, column) in zip(subjects, relation.columns, strict=True)]
    node = Project(input=relation.node, columns=tuple(
        (context.fresh.column(), name, theirs) for (name, _), (_, theirs) in zip(relation.columns, pairs, strict=True)))
    return [ours for ours, _ in pairs], BoundRelation(node=node, columns=tuple((field.name, field) for field in node.fields))


# -- EXISTS


def exists(host: SelectHost, inner: SelectHost, select: exp.Select, span: Span | None) -> AddedColumns:
    """EXISTS (SELECT ...), uncorrelated or correlated through its WHERE.

    `inner` is the host of the subquery, whose names may also be those of `host`.
    """
    for item in select.expressions:
        if not is_star(item):
            inner.bind(item.this if isinstance(item, exp.Alias) else item)  # only to check that its names are known
    links = [part for whole in inner.where(select.args.get("where")) for part in conjuncts(whole)]
    if not links and host.context.stability(inner.node).public:
        rows, _ = _counts(host.context, inner.node, None)
        return AddedColumns(expr=replace(TRUE if rows > 0 else FALSE, span=span), node=host.node)
    if not all(columns(part) <= {*host.node.env, *inner.node.env} for part in links):
        raise Unsupported("a subquery inside EXISTS cannot refer to the outermost query", code="exists", span=span,
                          try_="this test in the WHERE of the outermost query")
    return _look_up(host, _linked(host.context, inner.node, links or [TRUE], inner.scope.origins), span)


def compared_with_any(host: SelectHost, inner: SelectHost | None, select: exp.Expr, subject: Expr, name: str,
                      span: Span | None) -> AddedColumns:
    """subject > ANY (SELECT ...), or another operator: TRUE if it is for one row; else NULL if it is NULL for one.

    `inner` is the host of a plain SELECT, whose names may also be those of `host`; None for other queries.
    """
    links = list[Expr]()
    if inner is None:
        relation = host.context.relation(select, host.names)
        shown: list[Expr] = [column.ref for _, column in relation.columns]
        node, origins = relation.node, relation.origins
    else:
        shown = [] if any(map(is_star, select.expressions)) else [inner.bind(inner_of(item)) for item in select.expressions]
        links = [part for whole in inner.where(select.args.get("where")) for part in conjuncts(whole)]
        node, origins = inner.node, inner.scope.origins
    if len(shown) != 1:
        raise SqlError("a subquery after ANY or ALL has one column", code="in-list", span=span_of(select),
                       try_="(SELECT x FROM t)")
    env = {**host.env, **node.env}
    test = typing.call(name, [subject, shown[0]], env, span)

    def marked(rows: Node, condition: Expr) -> Lookup:
        """The rows, with a column that tells whether the condition is true for one row of the subquery."""
        list_ = _linked(host.context, node, [*links, condition], origins)
        return _lookup(rows, list_, host.scope.origins, host.context, keep=None, span=span)

    true = marked(host.node, test)
    found = Ref(column=true.mark, type=Type.BOOLEAN, span=span)
    if not facts(test, env).nullable:
        return AddedColumns(expr=found, node=true)
    unknown = marked(true, typing.call("is null", [test], env, span))
    branches = ((found, TRUE), (Ref(column=unknown.mark, type=Type.BOOLEAN), UNKNOWN))
    return AddedColumns(expr=Case(branches=branches, otherwise=FALSE, type=Type.BOOLEAN, span=span), node=unknown)


def _linked(context: BindingContext, node: Node, links: Sequence[Expr], origins: Origins) -> ListedRows:
    """The list, with the conditions that link it to the outer rows: equalities become keys, and owners are carried along."""
    keys, rest = list[tuple[Expr, Expr]](), list[Expr]()
    for part in links:
        sides = _sides(part, node)
        keys += [sides] if sides is not None else []
        rest += [part] if sides is None else []
    condition, ids = all_of(rest), [context.fresh.column() for _ in keys]
    carried = [(column, "key", theirs) for column, (_, theirs) in zip(ids, keys, strict=True)]
    carried += [(column, node.names[column], node.field(column).ref) for column in node.env
                if condition is not None and column in columns(condition)]
    carried += [(context.fresh.column(), "owner", node.field(owner).ref) for owner in context.owners(node)]
    known = {column: origins[theirs.column] for column, (_, theirs) in zip(ids, keys, strict=True)
             if isinstance(theirs, Ref) and theirs.column in origins}
    if not carried:
        carried.append((context.fresh.column(), "one", Literal(value=1, type=Type.BIGINT)))
    return ListedRows(node=Project(input=node, columns=tuple(carried)), origins=known, condition=condition,
                      keys=tuple((ours, column) for column, (ours, _) in zip(ids, keys, strict=True)))


def _sides(part: Expr, inner: Node) -> tuple[Expr, Expr] | None:
    """The two sides of an equality of an expression of the outer query and one of the inner."""
    if isinstance(part, Call) and part.function == "=":
        for ours, theirs in (part.args, part.args[::-1]):
            if not columns(ours) & set(inner.env) and columns(theirs) <= set(inner.env):
                return ours, theirs
    return None


# -- SEMI JOIN and ANTI JOIN


def half_join(left: Node, right: Node, condition: Expr, origins: Origins, context: BindingContext, *, keep: bool,
              span: Span | None) -> Node:
    """The left rows that match some right row, or those that match no right row."""
    links = []
    for part in conjuncts(condition):
        if columns(part) <= set(right.env):
            right = Filter(input=right, condition=part)
        elif keep and columns(part) <= set(left.env):
            left = Filter(input=left, condition=part)
        else:
            links.append(part)
    return _lookup(left, _linked(context, right, links or [TRUE], origins), origins, context, keep=keep, span=span)


# -- all of them


def _look_up(host: SelectHost, found: ListedRows, span: Span | None) -> AddedColumns:
    """The rows, with a column that tells whether each is in the list."""
    node = _lookup(host.node, found, host.scope.origins, host.context, keep=None, span=span)
    return AddedColumns(expr=Ref(column=node.mark, type=Type.BOOLEAN, span=span), node=node)


def _lookup(node: Node, found: ListedRows, origins: Origins, context: BindingContext, *, keep: bool | None,
            span: Span | None) -> Lookup:
    return Lookup(input=node, listed=found.node, keys=_with_owner(node, found, origins, context), mark=context.fresh.column(),
                  condition=found.condition, keep=keep, span=span)


def _with_owner(node: Node, found: ListedRows, origins: Origins, context: BindingContext) -> tuple[tuple[Expr, str], ...]:
    """The keys, with the equality of the owners added if the keys imply it."""
    owners = context.owners(node), context.owners(found.node)
    if len(owners[0]) != 1 or len(owners[1]) != 1:
        return found.keys
    (ours,), (theirs,) = owners
    pair = (Ref(column=ours, type=node.env[ours].type), theirs)
    if pair in found.keys or node.env[ours].type is not found.node.env[theirs].type:
        return found.keys
    pairs = [(origins[expr.column], found.origins[column]) for expr, column in found.keys
             if isinstance(expr, Ref) and expr.column in origins and column in found.origins]
    return (*found.keys, pair) if same_owner(pairs, context) else found.keys


def _counts(context: BindingContext, node: Node, column: str | None) -> tuple[int, int]:
    """Rows of a public relation, and rows where a column is not NULL."""
    folds = (Fold(id="n", name="n", function="count"), Fold(id="m", name="m", function="count", column=column))
    rows, present = context.public.public_rows(GroupBy(input=node, keys=(), folds=folds))[0]
    return int(rows or 0), int(present or 0)  # type: ignore[arg-type]
