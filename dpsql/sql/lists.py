"""IN (SELECT ...) and EXISTS (SELECT ...): tests of each row against a public list, or against its own entity's rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.errors import SqlError, Unsupported
from dpsql.plan.expr.facts import facts
from dpsql.plan.expr.nodes import Call, Case, Expr, Literal, Ref, columns, conjuncts
from dpsql.plan.node import Field, Node
from dpsql.plan.operators.filter import Filter
from dpsql.plan.operators.groupby import Fold, GroupBy
from dpsql.plan.operators.lookup import Lookup
from dpsql.plan.operators.project import Project
from dpsql.plan.rules.push_equalities import all_of
from dpsql.sql import typing
from dpsql.sql.owners import same_owner
from dpsql.sql.places import span_of
from dpsql.sql.scope import Origin
from dpsql.sql.trees import has_aggregate
from dpsql.sql.world import Relation, World
from dpsql.types import Span, Type

if TYPE_CHECKING:
    from dpsql.sql.body import Body

TRUE, FALSE = Literal(value=True, type=Type.BOOLEAN), Literal(value=False, type=Type.BOOLEAN)
UNKNOWN = Literal(value=None, type=Type.BOOLEAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class List:
    """What rows are compared with: a relation, and pairs of an expression over the rows and a column of it."""

    node: Node
    keys: tuple[tuple[Expr, str], ...]
    origins: Mapping[str, Origin]


# -- IN


def listed(body: Body, subject: Expr, query: exp.Expr, span: Span | None) -> Expr:
    """x IN (SELECT ...): three-valued, as in SQL."""
    world, relation = body.world, body.world.relation(query, body.names)
    if len(relation.columns) != 1:
        raise SqlError("a subquery after IN has one column", code="in-list", span=span_of(query), try_="IN (SELECT x FROM t)")
    column = relation.columns[0][1]
    if column.facts.type is not subject.type:
        subject, column, relation = _same_type(subject, column, relation, world, span)
    mark = _look_up(body, List(node=relation.node, keys=((subject, column.id),), origins=relation.origins), span)
    missing = Call(function="is null", args=(subject,), type=Type.BOOLEAN)
    if not world.stability(relation.node).public:
        # The list holds owners, which are never NULL. Whether it is empty, so that NULL IN (it) is false, must stay unknown.
        if facts(subject, body.env).nullable:
            raise Unsupported("IN compares a value that may be NULL with a list of private rows", code="private-list", span=span,
                              try_="EXISTS (SELECT 1 FROM t WHERE t.key = x)")
        return mark
    rows, present = _counts(world, relation.node, column.id)
    return Case(branches=((mark, TRUE), (missing, FALSE if rows == 0 else UNKNOWN)),
                otherwise=FALSE if rows == present else UNKNOWN, type=Type.BOOLEAN, span=span)


def _same_type(subject: Expr, column: Field, relation: Relation, world: World,
               span: Span | None) -> tuple[Expr, Field, Relation]:
    ours, theirs = typing.common([subject, column.ref], span)
    new = world.fresh.column()
    node = Project(input=relation.node, columns=((new, column.name, theirs),))
    return ours, node.fields[0], Relation(node=node, columns=((column.name, node.fields[0]),))


# -- EXISTS


def plain_select(query: exp.Expr, span: Span | None) -> exp.Select:
    """The SELECT of EXISTS. Raises Unsupported where it is more than rows of FROM that satisfy WHERE."""
    select = query
    while isinstance(select, exp.Subquery):
        select = select.this
    if not isinstance(select, exp.Select) or any(select.args.get(key) for key in ("group", "having", "limit", "offset")) or any(
            has_aggregate(item) for item in select.expressions):
        raise Unsupported("EXISTS takes a plain SELECT", code="exists", span=span_of(query) or span,
                          try_="EXISTS (SELECT 1 FROM t WHERE ...)")
    return select


def exists(body: Body, inner: Body, select: exp.Select, span: Span | None) -> Expr:
    """EXISTS (SELECT ...), alone or linked to the query around it by equalities in its WHERE.

    `inner` is the body of the subquery, whose names may also be those of `body`.
    """
    for item in select.expressions:
        if not (isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))):
            inner.binder.bind(item.this if isinstance(item, exp.Alias) else item)  # only to see that its names are known
    clause = select.args.get("where")
    own: list[Expr] = []
    links: list[tuple[Expr, Expr]] = []
    for part in conjuncts(inner.binder.condition(clause.this, "WHERE") if clause is not None else None):
        if columns(part) <= set(inner.node.env):
            own.append(part)
        else:
            links.append(_link(body, part, inner.node, span))
    condition = all_of(own)
    node = inner.node if condition is None else Filter(input=inner.node, condition=condition)
    if not links:
        if not body.world.stability(node).public:
            raise _private(body.world, span)
        rows, _ = _counts(body.world, node, None)
        return replace(TRUE if rows > 0 else FALSE, span=span)
    return _look_up(body, _keyed(body.world, node, links, inner.scope.origins), span)


def _keyed(world: World, node: Node, links: list[tuple[Expr, Expr]], origins: Mapping[str, Origin]) -> List:
    """The list of a linked subquery: the inner sides of its links, with the owner."""
    ids = [world.fresh.column() for _ in links]
    extra = tuple((world.fresh.column(), "owner", Ref(column=owner, type=node.env[owner].type)) for owner in world.owners(node))
    inner = Project(input=node, columns=(
        *((column, "key", theirs) for column, (_, theirs) in zip(ids, links, strict=True)), *extra))
    known = {column: origins[theirs.column] for column, (_, theirs) in zip(ids, links, strict=True)
             if isinstance(theirs, Ref) and theirs.column in origins}
    keys = tuple((ours, column) for column, (ours, _) in zip(ids, links, strict=True))
    return List(node=inner, keys=keys, origins=known)


def _link(body: Body, part: Expr, inner: Node, span: Span | None) -> tuple[Expr, Expr]:
    """An equality between an expression of the outer query and one of the inner."""
    if isinstance(part, Call) and part.function == "=":
        for ours, theirs in (part.args, part.args[::-1]):
            if columns(ours) <= set(body.node.env) and columns(theirs) <= set(inner.env):
                return ours, theirs
    raise Unsupported("a subquery of EXISTS is linked to the query around it by equalities only", code="exists",
                      span=part.span or span, try_="WHERE inner.key = outer.key AND ...")


# -- both


def _look_up(body: Body, found: List, span: Span | None) -> Expr:
    """Add a column that says of each row whether it is in the list."""
    world = body.world
    if not all(columns(expr) <= set(body.node.env) for expr, _ in found.keys):
        raise Unsupported("a subquery inside EXISTS is not linked to the outermost query", code="exists", span=span,
                          try_="it in the WHERE of the outermost query")
    keys = _with_owner(body, found)
    mark = world.fresh.column()
    node = Lookup(input=body.node, listed=found.node, keys=keys, mark=mark)
    if not world.stability(found.node).public and not world.stability(node).owners:
        raise _private(world, span)
    body.node = node
    return Ref(column=mark, type=Type.BOOLEAN, span=span)


def _with_owner(body: Body, found: List) -> tuple[tuple[Expr, str], ...]:
    """The keys, with the equality of the owners where they imply it."""
    owners = body.world.owners(body.node), body.world.owners(found.node)
    if len(owners[0]) != 1 or len(owners[1]) != 1:
        return found.keys
    (ours,), (theirs,) = owners
    pair = (Ref(column=ours, type=body.node.env[ours].type), theirs)
    if pair in found.keys or body.node.env[ours].type is not found.node.env[theirs].type:
        return found.keys
    origins = body.scope.origins
    pairs = [(origins[expr.column], found.origins[column]) for expr, column in found.keys
             if isinstance(expr, Ref) and expr.column in origins and column in found.origins]
    return (*found.keys, pair) if same_owner(pairs, body.world) else found.keys


def _private(world: World, span: Span | None) -> Unsupported:
    return Unsupported("a list that depends on private rows could change the answer for everybody", code="private-list",
                       span=span, try_="a public table, a list of constants, or a list of this entity's own rows, linked by "
                       f"its key {world.catalog.entity.key}")


def _counts(world: World, node: Node, column: str | None) -> tuple[int, int]:
    """Rows of a public relation, and rows where a column is not NULL."""
    folds = (Fold(id="n", name="n", function="count"), Fold(id="m", name="m", function="count", column=column))
    rows, present = world.public.public_rows(GroupBy(input=node, keys=(), folds=folds))[0]
    return int(rows or 0), int(present or 0)  # type: ignore[arg-type]
