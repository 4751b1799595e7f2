"""FROM, WHERE and subqueries: from sqlglot's tree to relations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sqlglot import exp

from dpsql.catalog.model import Catalog, ForeignKey, Table
from dpsql.errors import SqlError, Unsupported
from dpsql.plan.certificate import stability
from dpsql.plan.expr.facts import Facts, facts
from dpsql.plan.expr.nodes import Call, Case, Expr, Literal, Ref, Value, columns, conjuncts
from dpsql.plan.node import Field, Node, PublicFacts, Stability
from dpsql.plan.operators.constants import Constants
from dpsql.plan.operators.distinct import Distinct
from dpsql.plan.operators.filter import Filter
from dpsql.plan.operators.groupby import Fold, GroupBy
from dpsql.plan.operators.join import Join
from dpsql.plan.operators.lookup import Lookup
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.quantizer import quantizer
from dpsql.plan.operators.scan import Scan
from dpsql.plan.operators.union import UnionAll
from dpsql.plan.rules.limit_rows import limit_rows
from dpsql.plan.rules.push_equalities import TRUE, all_of, push_equalities
from dpsql.sql import typing
from dpsql.sql.border import span_of
from dpsql.sql.domains import Scratch
from dpsql.sql.expressions import Binder
from dpsql.sql.grouping import Aggregated, Grouping, has_aggregate, item_name
from dpsql.sql.scope import Fresh, Origin, Scope, Source
from dpsql.types import Interval, Span, Type


class PublicTables(PublicFacts, Protocol):
    """What binding may look up: facts and rows of public relations."""

    def public_rows(self, relation: Node) -> list[tuple[Value, ...]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A bound query: its node and the columns that the text around it may use."""

    node: Node
    columns: tuple[tuple[str, Field], ...]
    origins: Mapping[str, Origin] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """All that binding looks at beside the text."""

    catalog: Catalog
    public: PublicTables
    scratch: Scratch
    parameters: Mapping[str, Value]
    fresh: Fresh = field(default_factory=Fresh)

    def stability(self, node: Node) -> Stability:
        """What is known of a relation once declared limits are enforced."""
        return stability(limit_rows(push_equalities(node)), self.public)

    def owner(self, node: Node) -> str | None:
        return self.stability(node).owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The CTEs that are visible, innermost first: each is bound anew wherever it is named."""

    ctes: Mapping[str, tuple[exp.CTE, Names]] = field(default_factory=dict)

    def with_(self, clause: exp.Expr | None) -> Names:
        names = self
        for cte in clause.expressions if clause is not None else ():
            alias = str(cte.args["alias"].this.this).lower()
            names = Names(ctes={**names.ctes, alias: (cte, names)})
        return names


class Body:
    """FROM and WHERE of one SELECT while it is bound; the host of its expressions.

    Looking something up in a list adds a column to the relation, so `node` grows while expressions are bound.
    """

    def __init__(self, world: World, scope: Scope, names: Names) -> None:
        self.world, self.scope, self.names = world, scope, names
        self.node = scope.node
        self.binder = Binder(self)

    @property
    def env(self) -> Mapping[str, Facts]:
        return self.node.env if self.scope.outer is None else {**self.scope.outer.env, **self.node.env}

    @property
    def parameters(self) -> Mapping[str, Value]:
        return self.world.parameters

    def column(self, name: str, table: str | None, span: Span | None) -> Expr:
        if table is None and self.scope.is_source(name) and not any(
                column.lower() == name.lower() for _, column, _ in self.scope.columns()):
            raise Unsupported(f"{name} is a table, and rows are never shown", code="table-as-column", span=span, subject=name,
                              try_=f"a column of {name}")
        try:
            return replace(self.scope.resolve(name, table, span).ref, span=span)
        except SqlError as fault:
            if self.scope.outer is not None:
                try:
                    return replace(self.scope.outer.resolve(name, table, span).ref, span=span)
                except SqlError:
                    pass
            raise self._hidden(name, table, span) or fault from None

    def _hidden(self, name: str, table: str | None, span: Span | None) -> Unsupported | None:
        """A better answer where the database has the column but the policy does not declare it."""
        for source in self.scope.sources:
            for reading in {(origin.table) for origin in source.origins.values()}:
                hidden = self.world.catalog.hidden.get(reading, frozenset())
                if (table is None or table.lower() == source.alias.lower()) and any(
                        column.lower() == name.lower() for column in hidden):
                    return Unsupported(f"column {name} of {reading} is not declared in the policy, so it is private and unusable",
                                       code="undeclared-column", span=span, subject=f"{reading}.{name}",
                                       try_=f"another column, or ask the owner to add it under [tables.{reading}.columns]")
        return None

    def compiles(self, pattern: str) -> bool:
        return self.world.scratch.compiles(pattern)

    def aggregate(self, node: exp.Expr) -> Expr:
        raise SqlError("an aggregate is not allowed here", code="aggregate-here", span=span_of(node),
                       try_="HAVING, or a subquery that computes it for each entity")

    def where(self, clause: exp.Expr | None) -> None:
        if clause is not None:
            condition = self.binder.condition(clause.this, "WHERE")
            self.node = Filter(input=self.node, condition=condition)

    # -- lists

    def listed(self, subject: Expr, query: exp.Expr, span: Span | None) -> Expr:
        """x IN (SELECT ...): three-valued, as in SQL."""
        relation = bind_query(query, self.world, self.names)
        if len(relation.columns) != 1:
            raise SqlError("a subquery after IN has one column", code="in-list", span=span)
        column = relation.columns[0][1]
        if column.facts.type is not subject.type:
            subject, column, relation = self._same_type(subject, column, relation, span)
        mark = self._look_up(relation.node, ((subject, column.id),), span)
        if not self.world.stability(relation.node).public:  # owners are never NULL, so the mark says all
            return mark
        rows, present = self._counts(relation.node, column.id)
        nothing, unknown = Literal(value=False, type=Type.BOOLEAN), Literal(value=None, type=Type.BOOLEAN)
        missing = Call(function="is null", args=(subject,), type=Type.BOOLEAN)
        return Case(branches=((mark, Literal(value=True, type=Type.BOOLEAN)), (missing, nothing if rows == 0 else unknown)),
                    otherwise=nothing if rows == present else unknown, type=Type.BOOLEAN, span=span)

    def _same_type(self, subject: Expr, column: Field, relation: Relation, span: Span | None) -> tuple[Expr, Field, Relation]:
        ours, theirs = typing.common([subject, column.ref], span)
        new = self.world.fresh.column()
        node = Project(input=relation.node, columns=((new, column.name, theirs),))
        return ours, node.fields[0], replace(relation, node=node)

    def exists(self, query: exp.Expr, span: Span | None) -> Expr:
        """EXISTS (SELECT ...), alone or linked to this query by equalities in its WHERE."""
        select = query.this if isinstance(query, exp.Subquery) else query
        if not isinstance(select, exp.Select) or any(select.args.get(key) for key in ("group", "having", "limit", "offset")):
            raise Unsupported("EXISTS takes a plain SELECT", code="exists", span=span, try_="EXISTS (SELECT 1 FROM t WHERE ...)")
        names = self.names.with_(select.args.get("with_"))
        inner = Body(self.world, replace(bind_from(select, self.world, names), outer=replace(self.scope, node=self.node)), names)
        clause = select.args.get("where")
        own: list[Expr] = []
        links: list[tuple[Expr, Expr]] = []
        for part in conjuncts(inner.binder.condition(clause.this, "WHERE") if clause is not None else None):
            if columns(part) <= set(inner.node.env):
                own.append(part)
            else:
                links.append(self._link(part, inner.node, span))
        condition = all_of(own)
        node = inner.node if condition is None else Filter(input=inner.node, condition=condition)
        if not links:
            if not self.world.stability(node).public:
                raise self._private_list(node, span)
            rows, _ = self._counts(node, None)
            return Literal(value=rows > 0, type=Type.BOOLEAN, span=span)
        ids = [self.world.fresh.column() for _ in links]
        owner = self.world.owner(node)
        extra = ((owner, "owner", Ref(column=owner, type=node.env[owner].type)),) if owner is not None else ()
        keyed = Project(input=node, columns=(
            *((column, "key", theirs) for column, (_, theirs) in zip(ids, links, strict=True)), *extra))
        return self._look_up(keyed, tuple((ours, column) for column, (ours, _) in zip(ids, links, strict=True)), span)

    def _link(self, part: Expr, inner: Node, span: Span | None) -> tuple[Expr, Expr]:
        """An equality between an expression of the outer query and one of the inner."""
        if isinstance(part, Call) and part.function == "=":
            for ours, theirs in (part.args, part.args[::-1]):
                if columns(ours) <= set(self.node.env) and columns(theirs) <= set(inner.env):
                    return ours, theirs
        raise Unsupported("a subquery of EXISTS is linked to the query around it by equalities only", code="exists",
                          span=part.span or span, try_="WHERE inner.key = outer.key AND ...")

    def _look_up(self, listed: Node, keys: tuple[tuple[Expr, str], ...], span: Span | None) -> Expr:
        keys, listed = self._with_owner(listed, keys)
        mark = self.world.fresh.column()
        node = Lookup(input=self.node, listed=listed, keys=keys, mark=mark)
        known = self.world.stability(node)
        if known.rows is None and known.owner is None and not self.world.stability(self.node).public:
            raise self._private_list(listed, span)
        self.node = node
        return Ref(column=mark, type=Type.BOOLEAN, span=span)

    def _with_owner(self, listed: Node, keys: tuple[tuple[Expr, str], ...]) -> tuple[tuple[tuple[Expr, str], ...], Node]:
        """Say outright that the owners are equal where the keys imply it."""
        ours, theirs = self.world.owner(self.node), self.world.owner(listed)
        if ours is None or theirs is None:
            return keys, listed
        origins = self.scope.origins
        for expr, _ in keys:
            if isinstance(expr, Ref) and _names_owner(origins.get(expr.column), self.world.catalog) and not (
                    self.node.env[expr.column].nullable):
                pair = (Ref(column=ours, type=self.node.env[ours].type), theirs)
                return (keys if pair in keys else (*keys, pair)), listed
        return keys, listed

    def _private_list(self, listed: Node, span: Span | None) -> Unsupported:
        return Unsupported("a list that depends on private rows could change the answer for everybody", code="private-list",
                           span=span, try_="a public table, a list of constants, or a list of this entity's own rows, linked by "
                           f"its key {self.world.catalog.entity.key}")

    def _counts(self, node: Node, column: str | None) -> tuple[int, int]:
        """Rows of a public relation, and rows where a column is not NULL."""
        folds = (Fold(id="n", name="n", function="count"), Fold(id="m", name="m", function="count", column=column))
        rows, present = self.world.public.public_rows(GroupBy(input=node, keys=(), folds=folds))[0]
        return int(rows or 0), int(present or 0)  # type: ignore[arg-type]

    def bins(self, node: exp.Expr) -> Expr:
        span = span_of(node)
        form = "bin_floor(income), with bins declared for the column in the policy"
        if len(node.expressions) != 1 or not isinstance(node.expressions[0], exp.Column):
            raise SqlError("bin_floor takes one column", code="bins", span=span, try_=form)
        column = self.binder.bind(node.expressions[0])
        origin = self.scope.origins.get(column.column) if isinstance(column, Ref) else None
        table = self.world.catalog.table(origin.table) if origin is not None else None
        cuts = table.columns[origin.column].bins if table is not None and origin is not None else None
        if cuts is None:
            raise Unsupported("the policy declares no bins for this column", code="bins", span=span, try_=form)
        value = typing.as_double(column) if column.type is Type.BIGINT else column
        number = [Literal(value=cut, type=Type.DOUBLE) for cut in cuts]
        branches: list[tuple[Expr, Expr]] = [(typing.call("<", [value, number[0]], self.env, span),
                                              Literal(value=None, type=Type.DOUBLE))]
        branches += [(typing.call("<", [value, high], self.env, span), low)
                     for low, high in zip(number[:-1], number[1:], strict=True)]
        branches.append((typing.call("=", [value, number[-1]], self.env, span), number[-2]))
        return typing.case(branches, None, span)


def _names_owner(origin: Origin | None, catalog: Catalog) -> bool:
    """Whether a column is, in its table, the column that names the row's entity."""
    if origin is None:
        return False
    table = catalog.table(origin.table)
    return table is not None and table.owner is not None and not table.owner.steps and table.owner.column == origin.column


# -- queries


def bind_query(tree: exp.Expr, world: World, names: Names) -> Relation:
    """A subquery or CTE as a relation."""
    match tree:
        case exp.Subquery():
            return bind_query(tree.this, world, names.with_(tree.args.get("with_")))
        case exp.Union():
            return _bind_union(tree, world, names.with_(tree.args.get("with_")))
        case exp.Select():
            return _bind_select(tree, world, names.with_(tree.args.get("with_")))
        case exp.Values():
            return _bind_values(tree, world)
    raise Unsupported(f"{type(tree).__name__} is not answered", code="not-accepted", span=span_of(tree))


def _bind_union(tree: exp.Expr, world: World, names: Names) -> Relation:
    span = span_of(tree)
    if tree.args.get("distinct"):
        raise Unsupported("UNION without ALL is not answered", code="union", span=span, try_="UNION ALL, then SELECT DISTINCT")
    _no_limit(tree)
    left, right = (bind_query(part, world, names) for part in (tree.this, tree.expression))
    if len(left.columns) != len(right.columns):
        raise SqlError("the parts of a UNION ALL differ in their number of columns", code="union", span=span)
    sides: list[list[tuple[str, str, Expr]]] = [[], []]
    shown = []
    for (name, a), (_, b) in zip(left.columns, right.columns, strict=True):
        first, second = typing.common([a.ref, b.ref], span)
        shown.append((world.fresh.column(), name))
        for side, expr in zip(sides, (first, second), strict=True):
            side.append((world.fresh.column(), name, expr))
    owners = [world.owner(side.node) for side in (left, right)]
    kinds = [side.node.env[owner].type for side, owner in zip((left, right), owners, strict=True) if owner is not None]
    both = len(kinds) == 2 and kinds[0] is kinds[1]
    if both:
        shown.append((world.fresh.column(), "(owner)"))
        for side, owner, kind in zip(sides, owners, kinds, strict=True):
            assert owner is not None
            side.append((world.fresh.column(), "(owner)", Ref(column=owner, type=kind)))
    node = UnionAll(parts=tuple(Project(input=relation.node, columns=tuple(side))
                                for relation, side in zip((left, right), sides, strict=True)), columns=tuple(shown))
    visible = node.fields[:-1] if both else node.fields
    return Relation(node=node, columns=tuple((field.name, field) for field in visible))


def _bind_values(tree: exp.Expr, world: World) -> Relation:
    span = span_of(tree)
    body = Body(world, Scope(node=_one_row(world), sources=()), Names())
    rows = [[body.binder.bind(part) for part in (row.expressions if isinstance(row, exp.Tuple) else [row])]
            for row in tree.expressions]
    if not rows or any(len(row) != len(rows[0]) for row in rows) or not all(
            isinstance(part, Literal) for row in rows for part in row):
        raise SqlError("VALUES takes rows of constants of one length", code="values", span=span)
    table = [typing.common([row[i] for row in rows], span) for i in range(len(rows[0]))]
    alias = tree.args.get("alias")
    named = [str(part.this) for part in alias.columns] if alias is not None else []
    found = []
    for i, parts in enumerate(table):
        name = named[i] if i < len(named) else f"col{i}"
        known = [facts(part, {}) for part in parts]
        kinds = {part.type for part in known}
        low = min((part.declared.low for part in known if part.declared.finite), default=None)
        high = max((part.declared.high for part in known if part.declared.finite), default=None)
        ends = Interval(low, high) if low is not None and high is not None else known[0].declared
        found.append(Field(id=world.fresh.column(), name=name, facts=replace(
            known[0], type=kinds.pop(), nullable=any(part.nullable for part in known), physical=ends, declared=ends)))
    values = tuple(tuple(part.value for part in row if isinstance(part, Literal)) for row in zip(*table, strict=True))
    node = Constants(columns=tuple(found), rows=values)
    return Relation(node=node, columns=tuple((field.name, field) for field in found))


def _one_row(world: World) -> Node:
    return Constants(columns=(Field(id=world.fresh.column(), name="one", facts=Facts(type=Type.BIGINT, nullable=False)),),
                     rows=((1,),))


def _no_limit(tree: exp.Expr) -> None:
    for key in ("limit", "offset"):
        if tree.args.get(key) is not None:
            raise Unsupported(f"{key.upper()} inside a subquery depends on the rows of everybody", code="inner-limit",
                              span=span_of(tree.args[key]), try_=f"{key.upper()} in the outermost query, where it acts on noisy rows")


# -- FROM


def bind_from(select: exp.Expr, world: World, names: Names) -> Scope:
    """The sources of a SELECT, joined."""
    clause = select.args.get("from_")
    if clause is None:
        return Scope(node=_one_row(world), sources=())
    scope = _bind_source(clause.this, world, names)
    for join in select.args.get("joins") or ():
        scope = _bind_join(scope, join, world, names)
    return scope


def _bind_source(tree: exp.Expr, world: World, names: Names) -> Scope:
    match tree:
        case exp.Table():
            return _bind_table(tree, world, names)
        case exp.Subquery() | exp.Values():
            relation = bind_query(tree, world, names)
            alias = tree.args.get("alias")
            if isinstance(tree, exp.Subquery) and alias is None and isinstance(tree.this, exp.Table):
                return _bind_table(tree.this, world, names)
            return _named(relation, alias, "(subquery)")
    raise Unsupported(f"{type(tree).__name__} in FROM is not answered", code="not-accepted", span=span_of(tree))


def _named(relation: Relation, alias: exp.Expr | None, default: str) -> Scope:
    name = str(alias.this.this) if alias is not None and alias.this is not None else default
    renamed = [str(part.this) for part in alias.columns] if alias is not None and alias.columns else []
    if len(renamed) > len(relation.columns):
        raise SqlError(f"{name} has {len(relation.columns)} columns", code="alias", span=span_of(alias))
    shown = tuple((renamed[i] if i < len(renamed) else column, found) for i, (column, found) in enumerate(relation.columns))
    return Scope(node=relation.node, sources=(Source(alias=name, columns=shown, origins=relation.origins),))


def _bind_table(tree: exp.Expr, world: World, names: Names) -> Scope:
    name, alias, span = str(tree.this.this), tree.args.get("alias"), span_of(tree.this)
    cte = names.ctes.get(name.lower())
    if cte is not None:
        definition, visible = cte
        relation = bind_query(definition.this, world, visible)
        inner = _named(relation, definition.args["alias"], name)
        shown = inner.sources[0]
        return _named(replace(relation, columns=shown.columns), alias, name)
    table = world.catalog.table(name)
    if table is None:
        raise _unknown_table(name, span, world.catalog, names)
    relation = read_table(table, world)
    return _named(relation, alias, table.name)


def _unknown_table(name: str, span: Span | None, catalog: Catalog, names: Names) -> SqlError | Unsupported:
    import difflib

    outside = next((table for table in catalog.outside if table.lower() == name.lower()), None)
    if outside is not None:
        return Unsupported(f"table {outside} cannot be used: {catalog.outside[outside]}", code="outside-table", span=span,
                           subject=outside, try_="a foreign key to the protected entity, or public = true, in the policy")
    if any(table.lower() == name.lower() for table in catalog.undeclared):
        return Unsupported(f"table {name} is not declared in the policy, so it is private and unusable", code="undeclared-table",
                           span=span, subject=name, try_=f"[tables.{name}] in the policy")
    if "." in name or "/" in name:
        return Unsupported("files are not read by statements", code="file", span=span, try_="source = ... in the policy")
    known = [*catalog.tables, *names.ctes]
    close = difflib.get_close_matches(name, known, n=1)
    return SqlError(f"there is no table {name}", code="unknown-table", span=span, subject=name,
                    try_=close[0] if close else "one of " + ", ".join(known))


def read_table(table: Table, world: World) -> Relation:
    """A scan of a declared table, under fresh identifiers."""
    pairs = tuple((world.fresh.column(), name) for name in table.columns)
    owner = None
    if table.owner is not None:
        ids = {name: column for column, name in pairs}
        owner = ids.get(table.owner.column) if not table.owner.steps else None
        owner = owner or world.fresh.column()
    node = Scan(table=table, columns=pairs, owner=owner)
    reading = world.fresh.scan()
    origins = {column: Origin(scan=reading, table=table.name, column=name) for column, name in pairs}
    return Relation(node=node, columns=tuple((name, node.field(column)) for column, name in pairs), origins=origins)


def _bind_join(left: Scope, join: exp.Expr, world: World, names: Names) -> Scope:
    right = _bind_source(join.this, world, names)
    span = span_of(join)
    taken = {source.alias.lower() for source in left.sources}
    for source in right.sources:
        if source.alias.lower() in taken and source.alias != "(subquery)":
            raise SqlError(f"{source.alias} is named twice in FROM", code="alias", span=span_of(join.this), subject=source.alias,
                           try_=f"{source.alias} AS {source.alias}2")
    side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
    if side == "FULL" or kind in ("SEMI", "ANTI"):
        raise Unsupported(f"{'FULL' if side == 'FULL' else kind} JOIN is not answered", code="join-kind", span=span,
                          try_="LEFT JOIN" if side == "FULL" else "EXISTS or NOT EXISTS")
    sources = (*left.sources, *right.sources)
    merged = left.merged
    if join.args.get("using"):
        shared = [str(part.this) for part in join.args["using"]]
        condition = _using(left, right, shared, span)
        merged |= {name.lower() for name in shared}
    elif join.args.get("on") is not None:
        condition = _on(left, right, join.args["on"], world, names)
    elif side:
        raise SqlError("an outer join needs ON or USING", code="join-condition", span=span)
    else:
        condition = TRUE
    first, second = (right, left) if side == "RIGHT" else (left, right)
    condition = _with_owners(first, second, condition, world)
    node = Join(left=first.node, right=second.node, condition=condition, keep_left=bool(side), span=span)
    padded = {field.id: field for field in node.fields}
    seen = tuple(replace(source, columns=tuple((name, padded[found.id]) for name, found in source.columns)) for source in sources)
    return Scope(node=node, sources=seen, merged=merged)


def _on(left: Scope, right: Scope, clause: exp.Expr, world: World, names: Names) -> Expr:
    """The condition after ON, over the columns of both sides."""
    side_by_side = Join(left=left.node, right=right.node, condition=TRUE)
    body = Body(world, Scope(node=side_by_side, sources=(*left.sources, *right.sources), merged=left.merged), names)
    condition = body.binder.condition(clause, "ON")
    if body.node is not side_by_side:
        raise Unsupported("a subquery in ON is not answered", code="join-condition", span=span_of(clause), try_="it in WHERE")
    return condition


def _using(left: Scope, right: Scope, shared: Sequence[str], span: Span | None) -> Expr:
    parts = []
    for name in shared:
        a, b = left.resolve(name, None, span).ref, right.resolve(name, None, span).ref
        parts.append(typing.call("=", [a, b], {**left.env, **right.env}, span))
    condition = all_of(list(parts))
    assert condition is not None
    return condition


def _with_owners(left: Scope, right: Scope, condition: Expr, world: World) -> Expr:
    """Say outright that the owners are equal where a foreign key in the condition implies it.

    The stability of a join rests on the equality that is printed, so a mistake here could change the meaning of a query but
    not its privacy.
    """
    owners = [world.owner(side.node) for side in (left, right)]
    if owners[0] is None or owners[1] is None:
        return condition
    pairs = Join(left=left.node, right=right.node, condition=condition).equated
    if (owners[0], owners[1]) in pairs:
        return condition
    origins = {**left.origins, **right.origins}
    found = [(origins[a], origins[b]) for a, b in pairs if a in origins and b in origins]
    if _implied(found, world.catalog) or _implied([(b, a) for a, b in found], world.catalog):
        kinds = [side.node.env[owner].type for side, owner in zip((left, right), owners, strict=True) if owner is not None]
        equal = Call(function="=", type=Type.BOOLEAN, args=tuple(
            Ref(column=owner, type=kind) for owner, kind in zip(owners, kinds, strict=True) if owner is not None))
        if kinds[0] is kinds[1]:
            return all_of([condition, equal]) or condition
    return condition


def _implied(pairs: Sequence[tuple[Origin, Origin]], catalog: Catalog) -> bool:
    """Whether equal (child, parent) columns cover a foreign key to a parent of which the database says it is unique."""
    for child, parent in pairs:
        table, target = catalog.table(child.table), catalog.table(parent.table)
        if table is None or target is None:
            continue
        for key in table.foreign_keys:
            if _covers(key, child.scan, parent.scan, pairs) and key.table == target.name and any(
                    unique <= set(key.references) for unique in target.unique):
                return True
    return False


def _covers(key: ForeignKey, child: int, parent: int, pairs: Sequence[tuple[Origin, Origin]]) -> bool:
    equal = {(a.column, b.column) for a, b in pairs if a.scan == child and b.scan == parent and b.table == key.table}
    return all(pair in equal for pair in zip(key.columns, key.references, strict=True))


# -- SELECT inside a query


def _bind_select(select: exp.Expr, world: World, names: Names) -> Relation:
    _no_limit(select)
    body = Body(world, bind_from(select, world, names), names)
    body.where(select.args.get("where"))
    grouped = select.args.get("group") is not None or select.args.get("having") is not None or any(
        has_aggregate(item) for item in select.expressions)
    relation = _bind_groups(select, body) if grouped else _bind_rows(select, body)
    return _distinct(relation, world) if select.args.get("distinct") is not None else relation


def _distinct(relation: Relation, world: World) -> Relation:
    """Each row once. The unseen owner is left out: with it, rows of different entities would not be equal."""
    kept = Project(input=relation.node, columns=tuple((world.fresh.column(), name, found.ref) for name, found in relation.columns))
    node = Distinct(input=kept)
    origins = {new.id: relation.origins[old.id] for new, (_, old) in zip(node.fields, relation.columns, strict=True)
               if old.id in relation.origins}
    return Relation(node=node, columns=tuple((field.name, field) for field in node.fields), origins=origins)


def _bind_rows(select: exp.Expr, body: Body) -> Relation:
    """SELECT without aggregates."""
    items: list[tuple[str, Expr]] = []
    for item in select.expressions:
        inner = item.this if isinstance(item, exp.Alias) else item
        starred = _star(inner, body)
        items += starred if starred is not None else [(item_name(item), body.binder.bind(inner))]
    return _project(items, body.node, body.scope.origins, body.world)


def _star(node: exp.Expr, body: Body) -> list[tuple[str, Expr]] | None:
    """The columns that * or t.* stands for; None for anything else."""
    if isinstance(node, exp.Star):
        return [(name, found.ref) for _, name, found in body.scope.columns()]
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        table = str(node.args["table"].this)
        if not body.scope.is_source(table):
            raise SqlError(f"there is no table {table} in FROM", code="unknown-table", span=span_of(node), subject=table)
        return [(name, found.ref) for alias, name, found in body.scope.columns() if alias.lower() == table.lower()]
    return None


def _project(items: Sequence[tuple[str, Expr]], node: Node, origins: Mapping[str, Origin], world: World) -> Relation:
    """The relation of named expressions, with the owner carried along unseen."""
    shown = [(world.fresh.column(), name or f"col{i}", expr) for i, (name, expr) in enumerate(items)]
    owner = world.owner(node)
    hidden = []
    if owner is not None and not any(isinstance(expr, Ref) and expr.column == owner for _, _, expr in shown):
        hidden.append((world.fresh.column(), node.names[owner], Ref(column=owner, type=node.env[owner].type)))
    result = Project(input=node, columns=(*shown, *hidden))
    kept = {column: origins[expr.column] for column, _, expr in shown if isinstance(expr, Ref) and expr.column in origins}
    return Relation(node=result, columns=tuple((name, result.field(column)) for column, name, _ in shown), origins=kept)


def _bind_groups(select: exp.Expr, body: Body) -> Relation:
    """SELECT with aggregates: exact, over the rows of one entity or over public rows."""
    grouping = Grouping(body, body.world.fresh)
    grouping.read_keys(select)
    items = []
    for item in select.expressions:
        inner = item.this if isinstance(item, exp.Alias) else item
        if _star(inner, body) is not None:
            raise SqlError("* cannot stand beside GROUP BY", code="group-by", span=span_of(inner), try_="the names of the keys")
        items.append((item_name(item), grouping.output(grouping.binder.bind(inner), span_of(inner))))
    having = select.args.get("having")
    condition = None
    if having is not None:
        condition = grouping.output(grouping.binder.condition(having.this, "HAVING"), span_of(having))
    node = _grouped(grouping, body, span_of(select.args.get("group") or select))
    if condition is not None:
        node = Filter(input=node, condition=condition)
    origins = {key.id: body.scope.origins[key.expr.column] for key in grouping.keys
               if isinstance(key.expr, Ref) and key.expr.column in body.scope.origins}
    return _project(items, node, origins, body.world)


def _grouped(grouping: Grouping, body: Body, span: Span | None) -> Node:
    """The GROUP BY of a subquery, by its keys and, where they name the entity, by the owner too."""
    world, carried = body.world, [(key.id, key.name or "key", key.expr) for key in grouping.keys]
    folds = [_fold(found, carried, body) for found in grouping.aggregates]
    known = world.stability(body.node)
    keys = [key.id for key in grouping.keys]
    if not known.public:
        owner = known.owner
        if owner is None or not _names_entity(grouping, body, owner):
            entity = world.catalog.entity
            raise Unsupported("a group of this subquery mixes the rows of many entities", code="inner-group", span=span,
                              try_=f"GROUP BY {entity.key} inside, or the aggregate in the outermost query")
        if not any(key.expr == Ref(column=owner, type=key.expr.type) for key in grouping.keys):
            carried.append((world.fresh.column(), body.node.names[owner], Ref(column=owner, type=body.node.env[owner].type)))
            keys.append(carried[-1][0])
    below = Project(input=body.node, columns=tuple(carried))
    rows = world.stability(below).rows
    return GroupBy(input=below, keys=tuple(keys), folds=tuple(folds), most_rows=rows or None)


def _names_entity(grouping: Grouping, body: Body, owner: str) -> bool:
    """Whether the keys determine the entity: the owner itself, another copy of its name, or a key of a private table."""
    refs = {key.expr.column for key in grouping.keys if isinstance(key.expr, Ref)}
    if owner in refs:
        return True
    catalog, origins = body.world.catalog, body.scope.origins
    readings: dict[tuple[int, str], set[str]] = {}
    for column in refs:
        origin = origins.get(column)
        if origin is None:
            continue
        if _names_owner(origin, catalog) and not body.node.env[column].nullable:
            return True
        readings.setdefault((origin.scan, origin.table), set()).add(origin.column)
    for (_, name), found in readings.items():
        table = catalog.table(name)
        if table is not None and not table.public and any(unique <= found for unique in table.unique):
            return True
    return False


def _fold(found: Aggregated, carried: list[tuple[str, str, Expr]], body: Body) -> Fold:
    """One aggregate of a subquery; its argument is added to what the relation below carries."""
    if found.function not in ("count", "count_distinct", "sum", "avg", "min", "max"):
        raise Unsupported(f"{found.function} inside a query is not answered", code="inner-aggregate", span=found.span,
                          try_="COUNT, SUM, AVG, MIN or MAX inside, and the statistic outside")
    argument = found.args[0] if found.args else None
    if found.when is not None:
        value = argument if argument is not None else Literal(value=1, type=Type.BIGINT)
        argument = Case(branches=((found.when, value),), otherwise=Literal(value=None, type=value.type), type=value.type)
    if argument is None:
        return Fold(id=found.id, name=found.function, function="count")
    known, grid = facts(argument, body.env), None
    if found.function in ("sum", "avg") and known.type is Type.DOUBLE:
        grid = quantizer(known, from_low=False)
        if grid is None:
            raise Unsupported(f"the values that {found.function.upper()} adds up have no declared bounds", code="no-bounds",
                              span=found.span, try_="bounds = [low, high] for the column in the policy, or LEAST(GREATEST(x, 0), 1000)")
    column = next((id_ for id_, _, expr in carried if expr == argument), None)
    if column is None:
        column = body.world.fresh.column()
        carried.append((column, "argument", argument))
    return Fold(id=found.id, name=found.function, function=found.function, column=column, grid=grid)
