"""Binds queries over released rows, as `relations` binds those over rows of entities, but without its safeguards.

Sums are not clamped, and LIMIT is allowed in every query, since nothing here reads private rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from dpsql.backends.row_orders import tie_breaks
from dpsql.errors import SqlError
from dpsql.frozen import Frozen, replace
from dpsql.questions.released_rows import GroupsOfReleased, WindowOverReleased, released_over
from dpsql.sql.binding import typing
from dpsql.sql.binding.aggregates import Aggregated
from dpsql.sql.binding.binding_context import BindingContext, BoundRelation, Names, Scope
from dpsql.sql.binding.grouping import Grouping
from dpsql.sql.binding.ordered_rows import row_count
from dpsql.sql.binding.relations import QueryBinder, bind_set_operation, distinct, project, rows_of
from dpsql.sql.binding.select_binder import SelectBinder
from dpsql.sql.binding.sources import bind_from, one_row
from dpsql.sql.binding.windows import Windows, read_qualify
from dpsql.sql.text.places import span_of
from dpsql.sql.text.trees import aliases_of, has_aggregate, item_name, position_of, refuse_windows
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import Case, Expr, Literal, all_of
from dpsql.trusted.plan.node import Field, Node
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.ordering import Term
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.statistics import ExactAggregate
from dpsql.trusted.plan.operators.window import Window, WindowFunction
from dpsql.types import Type

MANY = 2**31


class AroundRows(Frozen):
    """SQL around released parts: a relation over released and public tables, the columns that are shown, and their order."""

    node: Node
    shown: tuple[tuple[str, Field], ...]
    ordering: tuple[Term, ...]
    limit: int | None
    offset: int


class AroundBinder(QueryBinder):
    """Binds queries over released rows, which allow LIMIT, aggregates and ORDER BY as in plain SQL."""

    def _select(self, tree: exp.Select, context: BindingContext, names: Names) -> BoundRelation:
        return _limited(tree, context, names)

    def _set_operation(self, tree: exp.SetOperation, context: BindingContext, names: Names) -> BoundRelation:
        return _limited(tree, context, names)


class Bare(Frozen):
    """A query without its ORDER BY: its rows, and the columns by which they are to be sorted."""

    relation: BoundRelation
    terms: tuple[Term, ...] = ()


def ordered(tree: exp.Expr, context: BindingContext, names: Names) -> AroundRows:
    """The outermost query."""
    names = names.with_(tree.args.get("with_"))
    while isinstance(tree, exp.Subquery):
        tree = tree.this
        names = names.with_(tree.args.get("with_"))
    with context.fresh.query(span_of(tree)):
        if not isinstance(tree, exp.Select | exp.SetOperation):
            found = Bare(relation=context.relation(tree, names))
            return AroundRows(node=found.relation.node, shown=found.relation.columns, ordering=(), limit=None, offset=0)
        found = _bare(tree, context, names)
        limit, offset = _counts(tree, context)
    return AroundRows(node=found.relation.node, shown=found.relation.columns, ordering=found.terms, limit=limit, offset=offset)


def _limited(tree: exp.Expr, context: BindingContext, names: Names) -> BoundRelation:
    """A query inside the outermost one: the rows that its LIMIT keeps when they are sorted by its ORDER BY."""
    found, (limit, offset) = _bare(tree, context, names), _counts(tree, context)
    if limit is None and not offset:
        return found.relation
    node, new = found.relation.node, context.fresh.column()
    numbered = WindowOverReleased(
        input=node, partition=(), order=found.terms, ties=tie_breaks(node, {term.column for term in found.terms}),
        functions=(WindowFunction(id=new, name="row", function="row_number"),))
    tests = [(">", offset), *([("<=", offset + limit)] if limit is not None else [])]
    condition = all_of([typing.call(sign, [numbered.field(new).ref, Literal(value=min(number, MANY), type=Type.BIGINT)],
                                    numbered.env, None) for sign, number in tests])
    assert condition is not None
    kept = Project(input=Filter(input=numbered, condition=condition), columns=tuple(
        (column.id, name, column.ref) for name, column in found.relation.columns))
    return replace(found.relation, node=kept)


def _counts(tree: exp.Expr, context: BindingContext) -> tuple[int | None, int]:
    host = SelectBinder(context, Scope(node=one_row(context), sources=()), Names())
    return row_count(tree, "limit", host.bind), row_count(tree, "offset", host.bind) or 0


def _bare(tree: exp.Expr, context: BindingContext, names: Names) -> Bare:
    order = tree.args.get("order")
    terms = list(order.expressions) if order is not None else []
    if isinstance(tree, exp.Select):
        return _bare_select(tree, terms, context, names)
    unlimited = tree.copy()
    for key in ("order", "limit", "offset", "with_"):
        unlimited.set(key, None)
    assert isinstance(unlimited, exp.SetOperation)
    relation = bind_set_operation(unlimited, context, names)
    return Bare(relation=relation, terms=tuple(term for part in terms for term in _of_columns(part, relation)))


def _of_columns(term: exp.Expr, relation: BoundRelation) -> list[Term]:
    """A term of ORDER BY after a set operation: columns of its result, by position or by name."""
    inner, columns = term.this, relation.columns
    if isinstance(inner, exp.Literal) and not inner.args.get("is_string"):
        chosen = [columns[position_of(inner, [inner] * len(columns))][1]]
    elif isinstance(inner, exp.Var) and str(inner.this).upper() == "ALL":
        chosen = [column for _, column in columns]
    else:
        named = isinstance(inner, exp.Column) and inner.args.get("table") is None
        chosen = [column for name, column in columns if named and name.lower() == str(inner.name).lower()][:1]
    if not chosen:
        raise SqlError("ORDER BY after a set operation takes names or positions of its columns", code="position",
                       span=span_of(term), try_="ORDER BY 1")
    return [_as_term(term, column.id) for column in chosen]


def _as_term(term: exp.Expr, column: str) -> Term:
    return Term(column=column, descending=bool(term.args.get("desc")), nulls_first=bool(term.args.get("nulls_first")))


def _bare_select(select: exp.Select, terms: Sequence[exp.Expr], context: BindingContext, names: Names) -> Bare:
    host = SelectBinder(context, bind_from(select, context, names), names, aliases_of(select))
    host.where(select.args.get("where"))
    unique = select.args.get("distinct") is not None
    grouped = select.args.get("group") is not None or select.args.get("having") is not None or any(
        has_aggregate(item) for item in select.expressions)
    bound = _groups(select, terms, host) if grouped else _rows(select, terms, host)
    hidden = [expr for _, expr in bound.hidden]
    made = project([*bound.items, *(("", expr) for expr in hidden)], bound.node, host.scope.origins, context)
    shown = replace(made, columns=made.columns[: len(bound.items)])
    places = {expr: made.columns[i][1].id for i, expr in enumerate([*(expr for _, expr in bound.items), *hidden])}
    found = [_as_term(term, places[expr]) for term, expr in bound.terms]
    if not unique:
        return Bare(relation=shown, terms=tuple(found))
    if hidden:
        raise SqlError("terms of ORDER BY must be in the list of SELECT DISTINCT", code="position",
                       span=span_of(bound.hidden[0][0]), try_="a column of the list")
    once = distinct(shown, context)
    ids = {old.id: new.id for (_, old), (_, new) in zip(shown.columns, once.columns, strict=True)}
    return Bare(relation=once, terms=tuple(replace(term, column=ids[term.column]) for term in found))


class BoundSelect(Frozen):
    """The rows of a SELECT, its list, and what each term of its ORDER BY means; `hidden` terms are not in the list."""

    node: Node
    items: list[tuple[str, Expr]]
    terms: list[tuple[exp.Expr, Expr]]

    @property
    def hidden(self) -> list[tuple[exp.Expr, Expr]]:
        shown = [expr for _, expr in self.items]
        return [(term, expr) for i, (term, expr) in enumerate(self.terms)
                if expr not in shown and expr not in [other for _, other in self.terms[:i]]]


def _terms(terms: Sequence[exp.Expr], items: Sequence[tuple[str, Expr]], aliases: Mapping[str, exp.Expr],
           read: Any) -> list[tuple[exp.Expr, Expr]]:
    """The terms of ORDER BY: positions and names of the list, ALL of it, or expressions."""
    found: list[tuple[exp.Expr, Expr]] = []
    for term in terms:
        inner = term.this
        if isinstance(inner, exp.Literal) and not inner.args.get("is_string"):
            found.append((term, items[position_of(inner, [inner] * len(items))][1]))
        elif isinstance(inner, exp.Var) and str(inner.this).upper() == "ALL":
            found += [(term, expr) for _, expr in items]
        else:
            name = str(inner.name).lower() if isinstance(inner, exp.Column) and inner.args.get("table") is None else None
            listed = next((expr for own, expr in items if name in aliases and own.lower() == name), None)
            found.append((term, listed if listed is not None else read(inner)))
    return [(term, replace(expr, span=None)) for term, expr in found]


def _rows(select: exp.Select, terms: Sequence[exp.Expr], host: SelectBinder) -> BoundSelect:
    """A SELECT of rows."""
    windows = WindowsOverReleased(host, select)
    host.answer_windows(windows)
    items, condition = rows_of(select, host), read_qualify(select, host)
    items = [(name, replace(expr, span=None)) for name, expr in items]
    ordered = _terms(terms, items, aliases_of(select), host.bind)
    return BoundSelect(node=windows.rows(condition), items=items, terms=ordered)


def _groups(select: exp.Select, terms: Sequence[exp.Expr], host: SelectBinder) -> BoundSelect:
    """A SELECT of groups."""
    refuse_windows(select)
    context, grouping = host.context, Grouping(host, host.context.fresh, exact=True)
    grouping.read_keys(select)
    items = [(item_name(item), replace(expr, span=None))
             for item, expr in zip(select.expressions, grouping.read_items(select), strict=True)]
    having = grouping.read_having(select)
    ordered = _terms(terms, items, aliases_of(select), grouping.read_term)
    carried: dict[Expr, str] = {}
    columns = [(key.id, key.name or "key", key.expr) for key in grouping.keys]
    for found in grouping.aggregates:
        for expr in (*found.args, *([found.when] if found.when is not None else [])):
            if expr not in carried:
                carried[expr] = context.fresh.column()
                columns.append((carried[expr], "argument", expr))
    calls = tuple(_call(found, carried) for found in grouping.aggregates)
    if not columns:
        columns.append((context.fresh.column(), "one", Literal(value=1, type=Type.BIGINT)))
    if not grouping.keys and not calls:
        calls = (ExactAggregate(id=context.fresh.column(), name="count", function="count", type=Type.BIGINT),)
    node: Node = GroupsOfReleased(input=Project(input=host.node, columns=tuple(columns)),
                                  keys=tuple(key.id for key in grouping.keys), calls=calls)
    if having is not None:
        node = Filter(input=node, condition=having)
    return BoundSelect(node=node, items=items, terms=ordered)


def _call(found: Aggregated, carried: Mapping[Expr, str]) -> ExactAggregate:
    columns = tuple(carried[expr] for expr in found.args[:2])  # the product of two columns is not needed
    return ExactAggregate(id=found.id, name=found.function, function=found.function, columns=columns,
                          when=carried[found.when] if found.when is not None else None, fraction=found.fraction,
                          discrete=found.discrete, type=found.type)


class WindowsOverReleased(Windows):
    """The window functions of one SELECT over released rows."""

    _operator: type[Window] = WindowOverReleased

    def _added_up(self, found: Aggregated) -> tuple[Expr | None, Quantizer | None]:
        if found.function not in ("sum", "avg"):
            return super()._added_up(found)
        argument = found.args[0]
        if found.when is not None:
            argument = Case(branches=((found.when, argument),), otherwise=Literal(value=None, type=argument.type),
                            type=argument.type)
        return argument, None

    def _facts(self, part: WindowFunction, env: Mapping[str, Facts], most: int | None) -> Facts:
        return released_over(part, env, most)
