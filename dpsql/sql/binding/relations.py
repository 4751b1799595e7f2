"""Binds queries inside a query: from sqlglot's tree to relations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from sqlglot import exp

from dpsql.errors import SqlError, Unsupported
from dpsql.questions.question import Question
from dpsql.sql.binding import typing
from dpsql.sql.binding.binding_context import BindingContext, BoundRelation, Names, Origin, Scope
from dpsql.sql.binding.inner_groups import bind_groups
from dpsql.sql.binding.outermost import Outermost
from dpsql.sql.binding.select_binder import SelectBinder
from dpsql.sql.binding.sources import bind_from, one_row
from dpsql.sql.binding.windows import Windows, read_qualify
from dpsql.sql.text.places import span_of
from dpsql.sql.text.spelling import closest, one_of
from dpsql.sql.text.statement import LISTED
from dpsql.sql.text.trees import aliases_of, has_aggregate, inner_of, item_name, refuse_windows
from dpsql.trusted.declarations.tables import Domain
from dpsql.trusted.plan.expr.facts import Facts, facts
from dpsql.trusted.plan.expr.nodes import Expr, Literal, Ref
from dpsql.trusted.plan.node import Field, Node
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.set_operation import SetOperation
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.types import ANY_NUMBER, Interval, Span, Type


class QueryBinder:
    """See `binding_context.Queries`."""

    def relation(self, tree: exp.Expr, context: BindingContext, names: Names) -> BoundRelation:
        inner = names.with_(tree.args.get("with_"))
        with context.fresh.query(span_of(tree)):
            match tree:
                case exp.Subquery():
                    return self.relation(tree.this, context, inner)
                case exp.SetOperation():
                    return self._set_operation(tree, context, inner)
                case exp.Select():
                    return self._select(tree, context, inner)
                case exp.Values():
                    return _bind_values(tree, context)
        raise Unsupported(f"{type(tree).__name__} is not answered", code="not-accepted", span=span_of(tree))

    def _select(self, tree: exp.Select, context: BindingContext, names: Names) -> BoundRelation:
        return _bind_select(tree, context, names)

    def _set_operation(self, tree: exp.SetOperation, context: BindingContext, names: Names) -> BoundRelation:
        return bind_set_operation(tree, context, names)

    def question(self, select: exp.Select, context: BindingContext, names: Names, scope: Scope) -> tuple[Question, Facts]:
        return Outermost(select, context, names, scope).bind()

    def sources(self, select: exp.Expr, context: BindingContext, names: Names) -> Scope:
        refuse_windows(select)
        return bind_from(select, context, names)


# -- SELECT


def _bind_select(select: exp.Expr, context: BindingContext, names: Names) -> BoundRelation:
    _no_limit(select)
    host = SelectBinder(context, bind_from(select, context, names), names, aliases_of(select))
    host.where(select.args.get("where"))
    grouped = select.args.get("group") is not None or select.args.get("having") is not None or any(
        has_aggregate(item) for item in select.expressions)
    if grouped:
        refuse_windows(select)
        relation = project(*bind_groups(select, host), context)
    else:
        windows = Windows(host, select)
        host.answer_windows(windows)
        items, condition = rows_of(select, host), read_qualify(select, host)
        relation = project(items, windows.rows(condition), host.scope.origins, context)
    return distinct(relation, context) if select.args.get("distinct") is not None else relation


def _no_limit(tree: exp.Expr) -> None:
    for key in ("limit", "offset"):
        if tree.args.get(key) is not None:
            raise Unsupported(f"{key.upper()} inside a subquery depends on the rows of all entities", code="inner-limit",
                              span=span_of(tree.args[key]),
                              try_=f"{key.upper()} in the outermost query, where it acts on noisy rows")


def rows_of(select: exp.Expr, host: SelectBinder) -> list[tuple[str, Expr]]:
    """The SELECT list of a query without aggregates."""
    items: list[tuple[str, Expr]] = []
    for item in select.expressions:
        starred = _star(inner_of(item), host)
        items += starred if starred is not None else [(item_name(item), host.bind(inner_of(item)))]
    return items


def _star(node: exp.Expr, host: SelectBinder) -> list[tuple[str, Expr]] | None:
    """The columns that * or t.* stands for, after its EXCLUDE, REPLACE and RENAME; None for anything else."""
    shown = _all_columns(node, host)
    star = node if isinstance(node, exp.Star) else node.this
    if shown is None or not isinstance(star, exp.Star):
        return None
    names = {name.lower() for name, _ in shown}
    left_out = [_known(str(part.name), names, span_of(part)) for part in star.args.get("except_") or ()]
    replacing, renaming = star.args.get("replace") or (), star.args.get("rename") or ()
    replaced = {_known(item_name(part), names, span_of(part)): host.bind(inner_of(part)) for part in replacing}
    renamed = {_known(str(part.this.name), names, span_of(part)): item_name(part) for part in renaming}
    named = [*left_out, *(item_name(part).lower() for part in replacing), *(str(part.this.name).lower() for part in renaming)]
    twice = sorted(name for name, times in Counter(named).items() if times > 1)
    if twice:
        raise SqlError(f"{twice[0]} is named twice after *", code="star", span=span_of(node), subject=twice[0],
                       try_="each column in one of EXCLUDE, REPLACE and RENAME")
    kept = [(renamed.get(name.lower(), name), replaced.get(name.lower(), expr)) for name, expr in shown
            if name.lower() not in left_out]
    if not kept:
        raise SqlError("no column is left", code="star", span=span_of(node), try_="a column that is not excluded")
    return kept


def _known(name: str, names: Collection[str], span: Span | None) -> str:
    """The name of a column of *, in lower case."""
    if name.lower() not in names:
        raise SqlError(f"* has no column {name}", code="unknown-column", span=span, subject=name,
                       try_=closest(name, sorted(names)) or one_of(sorted(names)))
    return name.lower()


def _all_columns(node: exp.Expr, host: SelectBinder) -> list[tuple[str, Expr]] | None:
    if isinstance(node, exp.Star):
        if not host.scope.sources:
            raise SqlError("* needs a FROM", code="star", span=span_of(node), try_="SELECT * FROM t")
        return [(name, found.ref) for _, name, found in host.scope.columns()]
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        table = str(node.args["table"].this)
        if not host.scope.is_source(table):
            host.scope.resolve("*", table, span_of(node))  # raises: there is no such table
        return [(name, found.ref) for source in host.scope.sources if source.alias.lower() == table.lower()
                for name, found in source.columns]
    return None


def project(items: Sequence[tuple[str, Expr]], node: Node, origins: Mapping[str, Origin],
            context: BindingContext) -> BoundRelation:
    """The relation of named expressions, with the owners carried along in hidden columns."""
    shown = [(context.fresh.column(), name or f"col{i}", expr) for i, (name, expr) in enumerate(items)]
    seen = {expr.column for _, _, expr in shown if isinstance(expr, Ref)}
    hidden = [(context.fresh.column(), node.names[owner], Ref(column=owner, type=node.env[owner].type))
              for owner in context.owners(node) if owner not in seen]
    result = Project(input=node, columns=(*shown, *hidden))
    kept = {column: origins[expr.column] for column, _, expr in shown if isinstance(expr, Ref) and expr.column in origins}
    return BoundRelation(node=result, columns=tuple((name, result.field(column)) for column, name, _ in shown), origins=kept)


def distinct(relation: BoundRelation, context: BindingContext) -> BoundRelation:
    """Distinct rows. The hidden owner is left out, or rows of different entities would never be equal."""
    kept = Project(input=relation.node, columns=tuple(
        (context.fresh.column(), name, found.ref) for name, found in relation.columns))
    node = Distinct(input=kept)
    origins = {new.id: relation.origins[old.id] for new, (_, old) in zip(node.fields, relation.columns, strict=True)
               if old.id in relation.origins}
    return BoundRelation(node=node, columns=tuple((field.name, field) for field in node.fields), origins=origins)


# -- UNION, INTERSECT and EXCEPT


def bind_set_operation(tree: exp.SetOperation, context: BindingContext, names: Names) -> BoundRelation:
    _no_limit(tree)
    left, right = (context.relation(part, names) for part in (tree.this, tree.expression))
    if tree.args.get("by_name"):
        left, right = _by_name(left, right, context, span_of(tree))
    sides, shown = _by_position(left, right, type(tree).__name__.upper(), context, span_of(tree))
    if isinstance(tree, exp.Union):
        distinct = bool(tree.args.get("distinct"))
        owned = 0 if distinct else _carry_owners(left, right, sides, context)
        hidden = [(context.fresh.column(), "(owner)") for _ in range(owned)]
        union = UnionAll(parts=_projected(left, right, sides), columns=(*hidden, *shown))
        visible = union.fields[owned:]
        return BoundRelation(node=Distinct(input=union) if distinct else union,
                        columns=tuple((field.name, field) for field in visible))
    parts = _projected(left, right, sides)
    node = SetOperation(kind="except" if isinstance(tree, exp.Except) else "intersect", all=not tree.args.get("distinct"),
                        left=parts[0], right=parts[1], columns=tuple(shown))
    origins = {field.id: left.origins[expr.column] for field, (_, _, expr) in zip(node.fields, sides[0], strict=True)
               if isinstance(expr, Ref) and expr.column in left.origins}
    return BoundRelation(node=node, columns=tuple((field.name, field) for field in node.fields), origins=origins)


def _by_name(left: BoundRelation, right: BoundRelation, context: BindingContext,
             span: Span | None) -> tuple[BoundRelation, BoundRelation]:
    """Both sides, each with the columns of both in the order of the left one; NULL if a side lacks a column."""
    found = [{name.lower(): column for name, column in relation.columns} for relation in (left, right)]
    for relation, known in zip((left, right), found, strict=True):
        if len(known) < len(relation.columns):
            raise SqlError("two columns of one side have one name", code="union", span=span, try_="SELECT x AS a, x AS b")
    names = {name.lower(): name for name, _ in (*reversed(right.columns), *reversed(left.columns))}
    order = [*found[0], *(name for name in found[1] if name not in found[0])]

    def completed(relation: BoundRelation, known: Mapping[str, Field]) -> BoundRelation:
        kept = tuple((part.id, part.name, part.ref) for part in relation.node.fields)
        missing = {name: context.fresh.column() for name in order if name not in known}
        node = Project(input=relation.node, columns=(*kept, *(
            (new, names[name], Literal(value=None, type=(found[0].get(name) or found[1][name]).facts.type))
            for name, new in missing.items())))
        shown = tuple((names[name], node.field(missing[name] if name in missing else known[name].id)) for name in order)
        return BoundRelation(node=node, columns=shown, origins=relation.origins)

    return completed(left, found[0]), completed(right, found[1])


def _by_position(left: BoundRelation, right: BoundRelation, word: str, context: BindingContext,
                 span: Span | None) -> tuple[list[list[tuple[str, str, Expr]]], list[tuple[str, str]]]:
    """The columns of both sides, converted to common types, and those of the result."""
    if len(left.columns) != len(right.columns):
        raise SqlError(f"the parts of this {word} have {len(left.columns)} and {len(right.columns)} columns", code="union",
                       span=span, try_="as many columns in each of them")
    sides: list[list[tuple[str, str, Expr]]] = [[], []]
    shown = []
    for (name, a), (_, b) in zip(left.columns, right.columns, strict=True):
        shown.append((context.fresh.column(), name))
        for side, expr in zip(sides, typing.common([_null_or(a, left.node), _null_or(b, right.node)], span), strict=True):
            side.append((context.fresh.column(), name, expr))
    return sides, shown


def _null_or(column: Field, node: Node) -> Expr:
    """A column, or a NULL without a type if all its values are NULL."""
    made = next((expr for new, _, expr in node.columns if new == column.id), None) if isinstance(node, Project) else None
    domain = column.facts.domain
    null = (isinstance(made, Literal) and made.value is None) or (domain is not None and not len(domain))
    return Literal(value=None, type=column.facts.type) if null and column.facts.nullable else column.ref


def _projected(left: BoundRelation, right: BoundRelation, sides: Sequence[list[tuple[str, str, Expr]]]) -> tuple[Node, ...]:
    return tuple(Project(input=relation.node, columns=tuple(side))
                 for relation, side in zip((left, right), sides, strict=True))


def _carry_owners(left: BoundRelation, right: BoundRelation, sides: Sequence[list[tuple[str, str, Expr]]],
                  context: BindingContext) -> int:
    """Add the owners of both parts as first columns, where their numbers and types are the same; returns how many.

    They come first, as the place of an owner that a part also shows is that of its first column, and all parts must have theirs
    in the same place: `SELECT a ... UNION ALL SELECT b ...` shows different owners of a row in one column.
    """
    found = [[Ref(column=owner, type=relation.node.env[owner].type) for owner in context.owners(relation.node)]
             for relation in (left, right)]
    if [ref.type for ref in found[0]] != [ref.type for ref in found[1]]:
        return 0
    for side, refs in zip(sides, found, strict=True):
        side[:0] = [(context.fresh.column(), "(owner)", ref) for ref in refs]
    return len(found[0])


# -- VALUES


def _bind_values(tree: exp.Expr, context: BindingContext) -> BoundRelation:
    span = span_of(tree)
    host = SelectBinder(context, Scope(node=one_row(context), sources=()), Names())
    if tree.meta.get(LISTED):
        rows = [[value] for value in host.listed_in(tree.expressions[0].expressions[0])]
        if not rows:
            raise SqlError("this list has no values", code="values", span=span, try_="a list with at least one value")
    else:
        rows = [[host.bind(part) for part in (row.expressions if isinstance(row, exp.Tuple) else [row])]
                for row in tree.expressions]
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise SqlError("the rows of VALUES differ in length", code="values", span=span, try_="VALUES (1, 'a'), (2, 'b')")
    for row in rows:
        for part in row:
            if not isinstance(part, Literal):
                raise Unsupported("VALUES takes constants, and so does UNNEST", code="values", span=part.span or span,
                                  try_="the constants themselves, or SELECT 1 + 1 AS x UNION ALL SELECT 3")
    columns = [[part for part in typing.common([row[i] for row in rows], span) if isinstance(part, Literal)]
               for i in range(len(rows[0]))]
    if any(len(column) != len(rows) for column in columns):
        raise Unsupported("VALUES takes constants of one type", code="values", span=span)
    fields = tuple(Field(id=context.fresh.column(), name=f"col{i}", facts=_constants(column)) for i, column in enumerate(columns))
    node = Constants(columns=fields, rows=tuple(tuple(part.value for part in row) for row in zip(*columns, strict=True)))
    return BoundRelation(node=node, columns=tuple((field.name, field) for field in fields))


def _constants(column: Sequence[Literal]) -> Facts:
    """The facts of a column of constants, which are known completely."""
    known = [facts(part, {}) for part in column if part.value is not None]
    kind = known[0].type if known else column[0].type
    ends = ANY_NUMBER
    if known and all(part.declared.finite for part in known):
        ends = Interval(min(part.declared.low for part in known), max(part.declared.high for part in known))
    values = {part.value for part in column if part.value is not None and part.value == part.value}
    return Facts(type=kind, nullable=len(known) < len(column), physical=ends if kind is Type.BIGINT else ANY_NUMBER,
                 declared=ends, domain=Domain(tuple(sorted(values))), whole=all(part.whole for part in known))
