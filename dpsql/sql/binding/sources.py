"""FROM: tables, subqueries and joins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from dpsql.catalog.model import Catalog
from dpsql.catalog.writing import key
from dpsql.errors import SqlError, Unsupported
from dpsql.frozen import replace
from dpsql.sql.binding import typing
from dpsql.sql.binding.binding_context import (
    BindingContext,
    BoundRelation,
    NamedSource,
    Names,
    Origin,
    Scope,
    distinct_names,
    owner_column,
)
from dpsql.sql.binding.lateral import added_columns, is_lateral
from dpsql.sql.binding.membership import half_join
from dpsql.sql.binding.owners import say_owners
from dpsql.sql.binding.select_binder import SelectBinder
from dpsql.sql.text.places import span_of
from dpsql.sql.text.refusals import JOINS, LATERAL
from dpsql.sql.text.schemas import standing_in
from dpsql.sql.text.spelling import closest, one_of
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import TRUE, Expr, all_of
from dpsql.trusted.plan.node import Field, Node
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.join import Join, Merged
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.types import Span, Type


def bind_from(select: exp.Expr, context: BindingContext, names: Names) -> Scope:
    """The sources of a SELECT, joined."""
    clause = select.args.get("from_")
    if clause is None:
        return Scope(node=one_row(context), sources=())
    return _with_joins(_bind_source(clause.this, context, names), select, context, names)


def one_row(context: BindingContext) -> Node:
    """The relation of one row that a SELECT without FROM reads."""
    return Constants(columns=(Field(id=context.fresh.column(), name="one", facts=Facts(type=Type.BIGINT, nullable=False)),),
                     rows=((1,),))


def _with_joins(scope: Scope, tree: exp.Expr, context: BindingContext, names: Names) -> Scope:
    for join in tree.args.get("joins") or ():
        scope = _bind_join(scope, join, context, names)
    return scope


def _bind_source(tree: exp.Expr, context: BindingContext, names: Names) -> Scope:
    alias = tree.args.get("alias")
    match tree:
        case exp.Table():
            scope = _bind_table(tree, context, names)
        case exp.Subquery() if isinstance(tree.this, exp.Table) or (tree.this.args.get("joins") and isinstance(
                tree.this, exp.Subquery)):  # brackets around a table or a join
            scope = _bind_source(tree.this, context, names)
            if alias is not None:
                scope = _named(BoundRelation(node=scope.node, origins=scope.origins, columns=tuple(
                    (name, found) for _, name, found in scope.columns())), alias, "(subquery)")
        case exp.Lateral():
            raise Unsupported("LATERAL needs a table before it", code="lateral", span=span_of(tree),
                              try_="the subquery without LATERAL")
        case exp.Subquery() | exp.Values():
            scope = _named(context.relation(tree, names), alias, "(subquery)")
        case _:
            raise Unsupported(f"{type(tree).__name__} in FROM is not answered", code="not-accepted", span=span_of(tree))
    return _with_joins(scope, tree, context, names)


def _named(relation: BoundRelation, alias: exp.Expr | None, default: str) -> Scope:
    """A relation under a name, its columns renamed by `name(a, b)`; columns with the same name get different ones."""
    name = str(alias.this.this) if alias is not None and alias.this is not None else default
    renamed = [str(part.this) for part in alias.args.get("columns") or ()] if alias is not None else []
    if len(renamed) > len(relation.columns):
        raise SqlError(f"{name} has {len(relation.columns)} column{'s' if len(relation.columns) != 1 else ''}, and "
                       f"{len(renamed)} names are given", code="alias", span=span_of(alias), subject=name,
                       try_=f"up to {len(relation.columns)} names")
    labels = distinct_names([*renamed, *(column for column, _ in relation.columns[len(renamed):])])
    shown = tuple((label, found) for label, (_, found) in zip(labels, relation.columns, strict=True))
    return Scope(node=relation.node, sources=(NamedSource(alias=name, columns=shown, origins=relation.origins),))


# -- tables


def _bind_table(tree: exp.Expr, context: BindingContext, names: Names) -> Scope:
    alias, span = tree.args.get("alias"), span_of(tree.this)
    if not isinstance(tree.this, exp.Identifier):
        raise Unsupported("functions in FROM are not answered", code="table-function", span=span,
                          try_="a table that the policy declares")
    name = str(tree.this.this)
    cte = names.ctes.get(name.lower()) if tree.args.get("db") is None else None
    if cte is not None:
        definition, visible = cte
        relation = context.relation(definition.this, visible)
        columns = _named(relation, definition.args["alias"], name).sources[0].columns
        return _named(replace(relation, columns=columns), alias, name)
    table = context.catalog.table(name)
    if table is None:
        raise unknown_table(name, span, context.catalog, names.ctes)
    called = table.name if table.name.lower() == name.lower() else name  # a synthetic table may stand for the one that is named
    return _named(read_table(table, context), alias, called)


def unknown_table(name: str, span: Span | None, catalog: Catalog, ctes: Iterable[str] = ()) -> SqlError | Unsupported:
    """The error for a table that cannot be read: it cannot be protected, is not declared, is a file, or does not exist."""
    outside = next((table for table in catalog.outside if table.lower() == name.lower()), None)
    if outside is not None:
        return Unsupported(f"table {outside} cannot be used: {catalog.outside[outside]}", code="outside-table", span=span,
                           subject=outside, try_="a foreign key to the protected entity, or public = true, in the policy")
    if any(table.lower() == name.lower() for table in catalog.undeclared):
        return Unsupported(f"table {name} is not declared in the policy, so it is private and unusable", code="undeclared-table",
                           span=span, subject=name, try_=f"[tables.{key(name)}] in the policy")
    if (query := standing_in(name)) is not None:
        return SqlError(f"there is no standing query {query} whose numbers could be read", code="unknown-table", span=span,
                        subject=name, try_=closest(name, [*catalog.tables]) or "SHOW STANDING QUERIES, which lists them")
    if "." in name or "/" in name:
        return Unsupported("files are not read by statements", code="file", span=span, try_="source = ... in the policy")
    known = [*catalog.tables, *ctes]
    return SqlError(f"there is no table {name}", code="unknown-table", span=span, subject=name,
                    try_=closest(name, known) or one_of(known))


def read_table(table: Table, context: BindingContext) -> BoundRelation:
    """A scan of a declared table, under fresh identifiers."""
    pairs = tuple((context.fresh.column(), name) for name in table.columns)
    ids = {name: column for column, name in pairs}
    owners = tuple((ids.get(way.column) if way.in_row else None) or context.fresh.column() for way in table.owners)
    if table.growth is not None and table.name not in context.catalog.periods:
        raise Unsupported(f"no period of {table.name} is closed yet", code="periods", subject=table.name,
                          try_="a later day; the policy says when periods close")
    node = Scan(table=table, columns=pairs, owners=owners, periods=context.catalog.periods.get(table.name))
    reading = context.fresh.scan()
    origins = {column: Origin(scan=reading, table=table.name, column=name) for column, name in pairs}
    origins |= {owner: Origin(scan=reading, table=table.name, column=owner_column(table, i)) for i, owner in enumerate(owners)}
    shown = tuple((name, field) for (_, name), field in zip(pairs, node.fields, strict=False))  # owners come after them
    return BoundRelation(node=node, columns=shown, origins=origins)


# -- joins


def _bind_join(left: Scope, join: exp.Expr, context: BindingContext, names: Names) -> Scope:
    if is_lateral(join.this):
        return _with_columns(left, join, context, names)
    right = _beside(left, join.this, context, names)
    _check_aliases(left, right, join)
    side, kind = _kind(join)
    merged, pairs = {**left.merged, **right.merged}, _shared_names(left, right, join)
    if pairs:
        condition, merged = _using(left, right, pairs, merged, side, span_of(join))
    elif join.args.get("on") is not None:
        condition = _on(left, right, join.args["on"], context, names)
    elif side or kind in HALVES:
        raise SqlError(f"{'an outer' if side else 'this'} join needs ON or USING", code="join-condition", span=span_of(join),
                       try_="ON a.key = b.key")
    else:
        condition = TRUE
    if kind in HALVES:
        node = half_join(left.node, right.node, condition, {**left.origins, **right.origins}, context, keep=kind == "SEMI",
                         span=span_of(join))
        return replace(left, node=node)
    return _joined(left, right, condition, side, [(a.id, b.id) for a, b in pairs], merged, context, span_of(join))


def _with_columns(left: Scope, join: exp.Expr, context: BindingContext, names: Names) -> Scope:
    """The rows on the left, each with the columns of a lateral subquery."""
    found = added_columns(left, join, context, names)
    right = _named(found, join.this.args.get("alias"), "(subquery)")
    _check_aliases(left, right, join)
    return replace(left, node=found.node, sources=(*left.sources, *right.sources))


HALVES = ("SEMI", "ANTI")


def _kind(join: exp.Expr) -> tuple[str, str]:
    """The side whose rows are kept, and the kind of a join. Raises Unsupported for others."""
    side, kind, method = (str(join.args.get(name) or "").upper() for name in ("side", "kind", "method"))
    if method not in ("", "NATURAL") or kind not in ("", "INNER", "OUTER", "CROSS", *HALVES) or (side and kind in HALVES):
        raise Unsupported(f"{' '.join(filter(None, (method, side, kind)))} JOIN is not answered", code="join-kind",
                          span=span_of(join), try_=JOINS.get(kind) or JOINS.get(method) or "JOIN ... ON, or SEMI JOIN ... ON")
    return side, kind


def _joined(left: Scope, right: Scope, condition: Expr, side: str, pairs: Sequence[tuple[str, str]],
            merged: dict[str, str | None], context: BindingContext, span: Span | None) -> Scope:
    """The pairs of a join under the names of both sides. A full join shows one column for each of the `pairs` of USING."""
    full = side == "FULL"
    join = Join(left=left.node, right=right.node, condition=condition, keep_left=side in ("LEFT", "FULL"),
                keep_right=side in ("RIGHT", "FULL"), span=span)
    if full:
        made = [Merged(id=context.fresh.column(), name=left.node.names[a], left=a, right=b) for a, b in pairs]
        merged = {place: next((new.id for new in made if new.left == shown), shown) for place, shown in merged.items()}
        join = replace(join, merged=tuple(made))
    node = say_owners(join, {**left.origins, **right.origins}, context)
    padded = {field.id: field for field in node.fields}
    sources = tuple(replace(source, columns=tuple((name, padded[found.id]) for name, found in source.columns))
                    for source in (*left.sources, *right.sources))
    return Scope(node=node, sources=sources, merged=merged)


def _beside(left: Scope, tree: exp.Expr, context: BindingContext, names: Names) -> Scope:
    """A further source of FROM. Raises Unsupported if it names an earlier one, which only LATERAL would allow."""
    try:
        return _bind_source(tree, context, names)
    except SqlError as fault:
        if fault.code != "unknown-table" or not left.is_source(fault.subject):
            raise
        span, subject = fault.span, fault.subject
    raise Unsupported("a subquery in FROM cannot refer to the tables next to it", code="lateral", span=span, subject=subject,
                      try_=LATERAL[1])


def _check_aliases(left: Scope, right: Scope, join: exp.Expr) -> None:
    taken = {source.alias.lower() for source in left.sources}
    for source in right.sources:
        if source.alias.lower() in taken and source.alias != "(subquery)":
            raise SqlError(f"{source.alias} is named twice in FROM", code="alias", span=span_of(join.this), subject=source.alias,
                           try_=f"{source.alias} AS {source.alias}2")


def _on(left: Scope, right: Scope, clause: exp.Expr, context: BindingContext, names: Names) -> Expr:
    """The condition after ON, over the columns of both sides."""
    side_by_side = Join(left=left.node, right=right.node, condition=TRUE)
    host = SelectBinder(context, Scope(node=side_by_side, sources=(*left.sources, *right.sources),
                             merged={**left.merged, **right.merged}), names)
    condition = host.condition(clause, "ON")
    if host.node is not side_by_side:
        raise Unsupported("a subquery in ON is not answered", code="join-condition", span=span_of(clause), try_="it in WHERE")
    return condition


def _shared_names(left: Scope, right: Scope, join: exp.Expr) -> list[tuple[Field, Field]]:
    """The pairs of columns that USING or NATURAL merges; none for other joins."""
    if str(join.args.get("method") or "").upper() != "NATURAL":
        return [(_shared(left, part), _shared(right, part)) for part in join.args.get("using") or ()]
    theirs = {name.lower() for _, name, _ in right.columns()}
    shared = dict.fromkeys(name for _, name, _ in left.columns() if name.lower() in theirs)
    if not shared:
        raise SqlError("the tables of this NATURAL JOIN have no column name in common", code="join-condition", span=span_of(join),
                       try_="JOIN ... ON a.key = b.key")
    return [(left.resolve(name, None, span_of(join)), right.resolve(name, None, span_of(join))) for name in shared]


def _shared(side: Scope, part: exp.Expr) -> Field:
    """A column of USING on one side of the join."""
    name = str(part.this)
    if not side.find(name, None):
        known = list(dict.fromkeys(source.alias for source in side.sources))
        raise SqlError(f"there is no column {name} in {' or '.join(known)}", code="unknown-column", span=span_of(part),
                       subject=name, try_="ON a.key = b.key, where the two have different names")
    return side.resolve(name, None, span_of(part))


def _using(left: Scope, right: Scope, pairs: Sequence[tuple[Field, Field]], merged: dict[str, str | None],
           side: str, span: Span | None) -> tuple[Expr, dict[str, str | None]]:
    """The condition of USING, and the columns shown for its pairs: those of the side whose rows are all kept."""
    parts = []
    for a, b in pairs:
        if side == "FULL" and a.facts.type is not b.facts.type:
            raise Unsupported(f"{a.name} is {a.facts.type.value} on one side of this full join, and {b.facts.type.value} on the "
                              "other", code="join-condition", span=span, subject=a.name, try_="ON in place of USING")
        parts.append(typing.call("=", [a.ref, b.ref], {**left.env, **right.env}, span))
        first, second = (_place(found, merged) for found in (a, b))
        merged = {**merged, first: b.id if side == "RIGHT" else a.id, second: None}
    condition = all_of(parts)
    assert condition is not None
    return condition, merged


def _place(found: Field, merged: dict[str, str | None]) -> str:
    """The column that is shown in place of a merged one."""
    return next((place for place, shown in merged.items() if shown == found.id), found.id)
