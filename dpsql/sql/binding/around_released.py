"""SQL over the rows that other questions of the statement release: windows, unions, joins, aggregates of noisy numbers.

Its released parts become tables (`released_parts`), whose columns have names and types before they have rows. So all that is wrong
with the SQL around them is told before anything is released; and all of its expressions are total, as everywhere, so nothing of it
fails afterwards. What is asked of the rows while names are bound (the value of a subquery) is asked again when they are there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from dpsql.catalog.model import Catalog, Column, Domain, Table
from dpsql.errors import Error, SqlError
from dpsql.plan.certificate import stability
from dpsql.plan.expr.facts import Facts, facts
from dpsql.plan.expr.functions import SAFE_INTEGERS
from dpsql.plan.expr.nodes import Case, Expr, Literal, Placeholder, Ref, Value, all_of
from dpsql.plan.node import Field, Node, bottom_up
from dpsql.plan.operators.filter import Filter
from dpsql.plan.operators.groupby import GroupBy
from dpsql.plan.operators.ordering import Term, tie_breaks
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.quantizer import Quantizer
from dpsql.plan.operators.scan import Scan
from dpsql.plan.operators.statistics import Statistics
from dpsql.plan.operators.window import Window, WindowFunction
from dpsql.plan.over_released import GroupsOfReleased, WindowOverReleased, released_over
from dpsql.plan.question import AggregateCall, Question, Scalar
from dpsql.sql.binding import typing
from dpsql.sql.binding.aggregates import Aggregated
from dpsql.sql.binding.binding_context import BindingContext, BoundRelation, Names, PublicTables
from dpsql.sql.binding.domains import Scratch
from dpsql.sql.binding.grouping import Grouping
from dpsql.sql.binding.ordered_rows import row_count
from dpsql.sql.binding.outermost import Outermost
from dpsql.sql.binding.relations import QueryBinder, bind_set_operation, distinct, project, rows_of
from dpsql.sql.binding.released_parts import NotAround, ReleasedPart, cut
from dpsql.sql.binding.scope import Scope, distinct_names
from dpsql.sql.binding.select_binder import SelectBinder
from dpsql.sql.binding.sources import bind_from, one_row
from dpsql.sql.binding.windows import Windows, read_qualify
from dpsql.sql.text import border
from dpsql.sql.text.places import placed, span_of
from dpsql.sql.text.statement import Query
from dpsql.sql.text.trees import aliases_of, has_aggregate, inner_of, is_star, item_name, position_of, refuse_windows
from dpsql.types import ANY_NUMBER, Type

MANY = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedTable:
    """The rows of a released part as a table: its question, and the names of its columns."""

    table: Table
    question: Question
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AroundRows:
    """What the SQL around asks: a relation over released and public tables, the columns that are shown, and their order."""

    node: Node
    shown: tuple[tuple[str, Field], ...]
    ordering: tuple[Term, ...]
    limit: int | None
    offset: int


@dataclass(frozen=True, kw_only=True)
class AroundReleased:
    """A statement over released rows.

    scalars   its released parts, and the subqueries that these wait for, in the order in which they are released
    tables    the parts, by the identifier of their scalar
    rows      what is asked of them, as far as it is known before they are released
    awaits    whether more of it is known then
    """

    scalars: tuple[Scalar, ...]
    tables: Mapping[str, ReleasedTable]
    rows: AroundRows
    awaits: bool
    _binding: Binding

    def over(self, tables: PublicTables) -> AroundRows:
        """What is asked of rows that are there."""
        return self._binding.bound(tables) if self.awaits else self.rows

    @property
    def identity(self) -> tuple[object, ...]:
        """What tells it from other SQL over the same parts."""
        text = repr(self._binding.tree) if self.awaits else ""
        shown = tuple(column.id for _, column in self.rows.shown)
        return (self.rows.node, shown, self.rows.ordering, self.rows.limit, self.rows.offset, text,
                tuple(sorted(self._binding.parameters.items())) if self.awaits else ())


@dataclass(frozen=True, kw_only=True)
class Binding:
    """The SQL around released parts, and what is needed to bind it."""

    tree: exp.Expr
    catalog: Catalog
    scratch: Scratch
    parameters: Mapping[str, Value]
    text: str

    def bound(self, public: PublicTables) -> AroundRows:
        context = BindingContext(catalog=self.catalog, public=public, scratch=self.scratch, parameters=self.parameters,
                                 queries=AroundBinder(), text=self.text)
        found = _ordered(self.tree.copy(), context, Names())
        if context.scalars.found or not stability(found.node, public).public:
            raise NotAround
        return found


def bind_around(query: Query, catalog: Catalog, public: PublicTables, scratch: Scratch,
                parameters: Mapping[str, Value]) -> AroundReleased | None:
    """A statement as SQL over released parts; None where it is none. Raises SqlError or Unsupported, located."""
    try:
        border.check(query.tree, query.text)
        context = BindingContext(catalog=catalog, public=public, scratch=scratch, parameters=parameters, queries=QueryBinder(),
                                 text=query.text)
        tree, parts = cut(query.tree, context)
        return _with_parts(tree, parts, context, public)
    except NotAround:
        return None
    except Error as fault:
        if fault.span is None:
            fault.span = span_of(query.tree)
        fault.located(query.text)
        raise
    except RecursionError:
        return None


def _with_parts(tree: exp.Expr, parts: Sequence[ReleasedPart], context: BindingContext, public: PublicTables) -> AroundReleased:
    tables: dict[str, ReleasedTable] = {}
    first: dict[str, Scalar] = {}
    own: list[Scalar] = []
    for part in parts:
        refuse_windows(part.select)
        below = Outermost(part.select, context, part.names, bind_from(part.select, context, part.names))
        question, _ = below.bind()
        tables[part.table] = _table(part.table, question, below.known)
        first |= {scalar.awaited.id: scalar for scalar in context.scalars.needed(question)}
        span = span_of(part.select)
        own.append(Scalar(awaited=Placeholder(id=part.table, type=Type.BIGINT, physical=SAFE_INTEGERS, declared=ANY_NUMBER,
                                              text=context.written(span), span=span),
                          question=question, span=span))
    catalog = replace(context.catalog, tables={**context.catalog.tables, **{name: made.table for name, made in tables.items()}})
    binding = Binding(tree=_named(tree, context), catalog=catalog, scratch=context.scratch, parameters=context.parameters,
                      text=context.text)
    unreleased = Unreleased(public, {name: not made.question.keys for name, made in tables.items()})
    rows = binding.bound(unreleased)
    return AroundReleased(scalars=(*first.values(), *own), tables=tables, rows=rows, awaits=bool(unreleased.asked),
                          _binding=binding)


def _table(name: str, question: Question, known: Mapping[str, Facts]) -> ReleasedTable:
    labels = distinct_names([output.name for output in question.outputs])
    columns = {label: _column(label, output.expr, known) for label, output in zip(labels, question.outputs, strict=True)}
    shown = {output.expr.column: label for label, output in zip(labels, question.outputs, strict=True)
             if isinstance(output.expr, Ref)}
    keys = [key.column for key in question.keys]
    unique = (frozenset(shown[key] for key in keys),) if question.sets is None and all(key in shown for key in keys) else ()
    return ReleasedTable(table=Table(name=name, public=True, columns=columns, unique=unique), question=question,
                         labels=tuple(labels))


def _column(label: str, expr: Expr, env: Mapping[str, Facts]) -> Column:
    known = facts(expr, env)
    physical = known.physical if known.physical.inside(SAFE_INTEGERS) or known.type is not Type.BIGINT else SAFE_INTEGERS
    none = isinstance(expr, Literal) and expr.value is None
    return Column(name=label, type=known.type, sql_type=known.type.value, physical=physical, domain=Domain(()) if none else None)


def _named(tree: exp.Expr, context: BindingContext) -> exp.Expr:
    """The statement with a name for each unnamed item of its list: its text."""
    select = tree
    while isinstance(select, exp.Subquery | exp.SetOperation):
        select = select.this
    if isinstance(select, exp.Select):
        items = []
        for item in select.expressions:
            span = span_of(item)
            name = "" if is_star(inner_of(item)) or item_name(item) else context.written(span)[:63] or "column"
            items.append(placed(exp.Alias(this=item, alias=exp.to_identifier(name, quoted=True)), span) if name else item)
        select.set("expressions", items)
    return tree


class Unreleased:
    """Public tables, and released ones of which no row is known yet. What was asked of these is noted."""

    def __init__(self, public: PublicTables, single: Mapping[str, bool]) -> None:
        """`single` tells for each released table whether it has one row."""
        self._public, self._single = public, single
        self.asked = 0

    def _waits(self, relation: Node) -> list[str]:
        return [node.table.name for node in bottom_up(relation) if isinstance(node, Scan) and node.table.name in self._single]

    def fanout(self, relation: Node, columns: tuple[str, ...]) -> int:
        names = self._waits(relation)
        if not names:
            return self._public.fanout(relation, columns)
        self.asked += 1
        return 1 if all(self._single[name] for name in names) else MANY

    def public_rows(self, relation: Node) -> list[tuple[Any, ...]]:
        if not self._waits(relation):
            return self._public.public_rows(relation)
        self.asked += 1
        if not isinstance(relation, GroupBy | Statistics):
            return []
        return [tuple(0 if part.facts.type is Type.BIGINT else None for part in relation.fields)]


# -- the SQL around


class AroundBinder(QueryBinder):
    """Binds queries over released rows, which may be limited, aggregated and put in order as in plain SQL."""

    def _select(self, tree: exp.Select, context: BindingContext, names: Names) -> BoundRelation:
        return _limited(tree, context, names)

    def _set_operation(self, tree: exp.SetOperation, context: BindingContext, names: Names) -> BoundRelation:
        return _limited(tree, context, names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bare:
    """A query without its ORDER BY: its rows, and the terms of that as columns of them."""

    relation: BoundRelation
    terms: tuple[Term, ...] = ()


def _ordered(tree: exp.Expr, context: BindingContext, names: Names) -> AroundRows:
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
    """A query inside the outermost one: the rows that its LIMIT keeps, in the order of its ORDER BY."""
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
    relation = bind_set_operation(unlimited, context, names)
    return Bare(relation=relation, terms=tuple(term for part in terms for term in _of_columns(part, relation)))


def _of_columns(term: exp.Expr, relation: BoundRelation) -> list[Term]:
    """A term of ORDER BY after a set operation: columns of it, by position or by name."""
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
        raise SqlError("what SELECT DISTINCT is ordered by must be in its list", code="position",
                       span=span_of(bound.hidden[0][0]), try_="a column of the list")
    once = distinct(shown, context)
    ids = {old.id: new.id for (_, old), (_, new) in zip(shown.columns, once.columns, strict=True)}
    return Bare(relation=once, terms=tuple(replace(term, column=ids[term.column]) for term in found))


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundSelect:
    """The rows of a SELECT, its list, what each term of its ORDER BY is, and those of them that are not in the list."""

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
        calls = (AggregateCall(id=context.fresh.column(), function="count", type=Type.BIGINT),)
    node: Node = GroupsOfReleased(input=Project(input=host.node, columns=tuple(columns)),
                                  keys=tuple(key.id for key in grouping.keys), calls=calls)
    if having is not None:
        node = Filter(input=node, condition=having)
    return BoundSelect(node=node, items=items, terms=ordered)


def _call(found: Aggregated, carried: Mapping[Expr, str]) -> AggregateCall:
    return AggregateCall(id=found.id, function=found.function, columns=tuple(carried[expr] for expr in found.args),
                         when=carried[found.when] if found.when is not None else None, fraction=found.fraction,
                         discrete=found.discrete, type=found.type, span=found.span)


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
