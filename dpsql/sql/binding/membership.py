"""IN (SELECT ...), EXISTS (SELECT ...), SEMI JOIN and ANTI JOIN: tests of each row against the rows of a list.

How far one entity can move the result follows from the operator; where that has no bound, it is refused when the whole statement
is known (`bounding`). What is refused here are tests that are true or false of all rows at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.errors import SqlError, Unsupported
from dpsql.plan.expr.facts import facts
from dpsql.plan.expr.nodes import Call, Case, Expr, Literal, Ref, all_of, columns, conjuncts
from dpsql.plan.node import Field, Node
from dpsql.plan.operators.filter import Filter
from dpsql.plan.operators.groupby import Fold, GroupBy
from dpsql.plan.operators.lookup import Lookup
from dpsql.plan.operators.project import Project
from dpsql.sql.binding import typing
from dpsql.sql.binding.binding_context import Relation, World
from dpsql.sql.binding.owners import same_owner
from dpsql.sql.binding.scope import Origin
from dpsql.sql.text.places import span_of
from dpsql.sql.text.trees import has_aggregate, is_star, operands
from dpsql.types import Span, Type

if TYPE_CHECKING:
    from dpsql.sql.binding.select_binder import Body

TRUE, FALSE = Literal(value=True, type=Type.BOOLEAN), Literal(value=False, type=Type.BOOLEAN)
UNKNOWN = Literal(value=None, type=Type.BOOLEAN)
Origins = Mapping[str, Origin]


@dataclass(frozen=True, slots=True, kw_only=True)
class List:
    """What rows are compared with: a relation, pairs of an expression over the rows and a column of it, a condition on both."""

    node: Node
    keys: tuple[tuple[Expr, str], ...]
    origins: Origins
    condition: Expr | None = None


# -- IN


def listed(body: Body, subject: Expr, query: exp.Expr, span: Span | None, *, kept: bool) -> Expr:
    """x IN (SELECT ...): three-valued, as in SQL; or FALSE in place of NULL, where only rows of which it is true are `kept`."""
    world, relation = body.world, body.world.relation(query, body.names)
    if len(relation.columns) != 1:
        raise SqlError("a subquery after IN has one column", code="in-list", span=span_of(query), try_="IN (SELECT x FROM t)")
    column = relation.columns[0][1]
    if column.facts.type is not subject.type:
        subject, column, relation = _same_type(subject, column, relation, world, span)
    public = world.stability(relation.node).public
    if not public and not kept and (column.facts.nullable or facts(subject, body.env).nullable):
        raise _everything(relation.columns[0][0], span)
    mark = _look_up(body, List(node=relation.node, keys=((subject, column.id),), origins=relation.origins), span)
    if not public or kept:
        return mark
    missing = Call(function="is null", args=(subject,), type=Type.BOOLEAN)
    rows, present = _counts(world, relation.node, column.id)
    return Case(branches=((mark, TRUE), (missing, FALSE if rows == 0 else UNKNOWN)),
                otherwise=FALSE if rows == present else UNKNOWN, type=Type.BOOLEAN, span=span)


def kept_lists(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The tests IN (SELECT ...) that keep rows only where they are true: those that AND and OR alone make a condition of."""
    for part in operands(condition, exp.And):
        choices = operands(part, exp.Or)
        if len(choices) > 1:
            for choice in choices:
                yield from kept_lists(choice)
        elif isinstance(inner := _in_brackets(part), exp.In) and inner.args.get("query") is not None:
            yield inner.args["query"]


def _in_brackets(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _everything(name: str, span: Span | None) -> Unsupported:
    """What NOT IN says with a NULL on either side rests on whether the whole list has one, or is empty."""
    return Unsupported("this test compares with NULLs of private rows: one of them in the list would decide on all rows",
                       code="null-list", span=span, subject=name,
                       try_=f"NOT EXISTS (SELECT 1 FROM t WHERE t.{name} = x), or WHERE {name} IS NOT NULL in the subquery and "
                       "x IS NOT NULL outside")


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
    """EXISTS (SELECT ...), alone or linked to the query around it by its WHERE.

    `inner` is the body of the subquery, whose names may also be those of `body`.
    """
    for item in select.expressions:
        if not is_star(item):
            inner.binder.bind(item.this if isinstance(item, exp.Alias) else item)  # only to see that its names are known
    links = [part for whole in inner.where(select.args.get("where")) for part in conjuncts(whole)]
    if not links and body.world.stability(inner.node).public:
        rows, _ = _counts(body.world, inner.node, None)
        return replace(TRUE if rows > 0 else FALSE, span=span)
    if not all(columns(part) <= {*body.node.env, *inner.node.env} for part in links):
        raise Unsupported("a subquery inside EXISTS is not linked to the outermost query", code="exists", span=span,
                          try_="it in the WHERE of the outermost query")
    return _look_up(body, _linked(body.world, inner.node, links or [TRUE], inner.scope.origins), span)


def _linked(world: World, node: Node, links: Sequence[Expr], origins: Origins) -> List:
    """The list of rows that conditions link to others: equalities are keys, with the owner carried along."""
    keys, rest = list[tuple[Expr, Expr]](), list[Expr]()
    for part in links:
        sides = _sides(part, node)
        keys += [sides] if sides is not None else []
        rest += [part] if sides is None else []
    condition, ids = all_of(rest), [world.fresh.column() for _ in keys]
    carried = [(column, "key", theirs) for column, (_, theirs) in zip(ids, keys, strict=True)]
    carried += [(column, node.names[column], node.field(column).ref) for column in node.env
                if condition is not None and column in columns(condition)]
    carried += [(world.fresh.column(), "owner", node.field(owner).ref) for owner in world.owners(node)]
    known = {column: origins[theirs.column] for column, (_, theirs) in zip(ids, keys, strict=True)
             if isinstance(theirs, Ref) and theirs.column in origins}
    if not carried:
        carried.append((world.fresh.column(), "one", Literal(value=1, type=Type.BIGINT)))
    return List(node=Project(input=node, columns=tuple(carried)), origins=known, condition=condition,
                keys=tuple((ours, column) for column, (ours, _) in zip(ids, keys, strict=True)))


def _sides(part: Expr, inner: Node) -> tuple[Expr, Expr] | None:
    """The two sides of an equality of an expression of the outer query and one of the inner."""
    if isinstance(part, Call) and part.function == "=":
        for ours, theirs in (part.args, part.args[::-1]):
            if not columns(ours) & set(inner.env) and columns(theirs) <= set(inner.env):
                return ours, theirs
    return None


# -- SEMI JOIN and ANTI JOIN


def half_join(left: Node, right: Node, condition: Expr, origins: Origins, world: World, *, keep: bool, span: Span | None) -> Node:
    """The left rows that meet some right row on a condition, or those that meet none."""
    links = []
    for part in conjuncts(condition):
        if columns(part) <= set(right.env):
            right = Filter(input=right, condition=part)
        elif keep and columns(part) <= set(left.env):
            left = Filter(input=left, condition=part)
        else:
            links.append(part)
    return _lookup(left, _linked(world, right, links or [TRUE], origins), origins, world, keep=keep, span=span)


# -- all of them


def _look_up(body: Body, found: List, span: Span | None) -> Expr:
    """Add a column that says of each row whether it is in the list."""
    node = _lookup(body.node, found, body.scope.origins, body.world, keep=None, span=span)
    body.node = node
    return Ref(column=node.mark, type=Type.BOOLEAN, span=span)


def _lookup(node: Node, found: List, origins: Origins, world: World, *, keep: bool | None, span: Span | None) -> Lookup:
    return Lookup(input=node, listed=found.node, keys=_with_owner(node, found, origins, world), mark=world.fresh.column(),
                  condition=found.condition, keep=keep, span=span)


def _with_owner(node: Node, found: List, origins: Origins, world: World) -> tuple[tuple[Expr, str], ...]:
    """The keys, with the equality of the owners where they imply it."""
    owners = world.owners(node), world.owners(found.node)
    if len(owners[0]) != 1 or len(owners[1]) != 1:
        return found.keys
    (ours,), (theirs,) = owners
    pair = (Ref(column=ours, type=node.env[ours].type), theirs)
    if pair in found.keys or node.env[ours].type is not found.node.env[theirs].type:
        return found.keys
    pairs = [(origins[expr.column], found.origins[column]) for expr, column in found.keys
             if isinstance(expr, Ref) and expr.column in origins and column in found.origins]
    return (*found.keys, pair) if same_owner(pairs, world) else found.keys


def _counts(world: World, node: Node, column: str | None) -> tuple[int, int]:
    """Rows of a public relation, and rows where a column is not NULL."""
    folds = (Fold(id="n", name="n", function="count"), Fold(id="m", name="m", function="count", column=column))
    rows, present = world.public.public_rows(GroupBy(input=node, keys=(), folds=folds))[0]
    return int(rows or 0), int(present or 0)  # type: ignore[arg-type]
