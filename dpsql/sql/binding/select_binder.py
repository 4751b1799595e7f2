"""Binds FROM and WHERE of one SELECT, and resolves what its expressions refer to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from sqlglot import exp

from dpsql.backends.row_orders import tie_breaks
from dpsql.catalog.writing import key
from dpsql.errors import Error, SqlError, Unsupported
from dpsql.frozen import replace
from dpsql.questions.rebuilding import rebuild
from dpsql.questions.rules.keep_marks import keep_marks
from dpsql.questions.rules.push_equalities import push_equalities
from dpsql.sql.binding import membership, scalars, typing
from dpsql.sql.binding.binding_context import (
    AddedColumns,
    BindingContext,
    LooksOutside,
    Names,
    Scope,
    SelectHost,
    WindowFunctions,
    declared_bins,
)
from dpsql.sql.binding.owners import say_owners
from dpsql.sql.binding.windows import places
from dpsql.sql.text.literals import ParameterValue
from dpsql.sql.text.places import span_of
from dpsql.sql.text.trees import aliases_of, contains, has_aggregate, is_plain, kept_lists, not_here, operands, plain_select
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import Expr, Literal, Ref, columns
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.window import Window, WindowFunction
from dpsql.types import Span, Type


class SelectBinder(SelectHost):
    """Binds the expressions of one SELECT.

    A lookup in a list, or the value of a subquery, adds a column to the relation, so `node` grows while expressions are
    bound.
    """

    def __init__(self, context: BindingContext, scope: Scope, names: Names, aliases: Mapping[str, exp.Expr] | None = None, *,
                 alone: bool = False) -> None:
        """`aliases` are the named items of the SELECT list, which may be used where no column has the name. With `alone`,
        columns of the query around raise `scope.LooksOutside`."""
        super().__init__()
        self.context, self.scope, self.names, self._aliases, self._alone = context, scope, names, dict(aliases or {}), alone
        self.node = scope.node
        self._windows: WindowFunctions | None = None
        self.joined: set[str] = set()  # columns that a linked subquery has added
        self._bound: dict[str, Expr] = {}
        self._marks: dict[tuple[tuple[Expr, ...] | None, exp.Expr, bool], Expr] = {}
        self._kept: set[int] = set()  # subqueries after IN that are conditions of WHERE
        self._values: dict[exp.Expr, Expr] = {}
        self._compared: dict[tuple[Expr, str, exp.Expr], Expr] = {}

    @property
    def env(self) -> Mapping[str, Facts]:
        around = self.scope.outer.env if self.scope.outer is not None else {}
        added = self._windows.env if self._windows is not None else {}
        return {**around, **self.node.env, **added} if around or added else self.node.env

    @property
    def parameters(self) -> Mapping[str, ParameterValue]:
        return self.context.parameters

    def column(self, name: str, table: str | None, span: Span | None) -> Expr:
        """The column that a name refers to: one of this query, or otherwise of the outer query. Raises SqlError or
        Unsupported."""
        if table is None and self.scope.is_source(name) and not self.scope.find(name, None):
            raise Unsupported(f"{name} is a table, and rows are never shown", code="table-as-column", span=span, subject=name,
                              try_=f"a column of {name}")
        if table is None and name.lower() in self._aliases and not self.scope.find(name, None):
            return self._alias(name, span)
        outer = self.scope.outer
        around = outer is not None and not self.scope.find(name, table) and bool(outer.find(name, table))
        if around and self._alone:
            raise LooksOutside
        scope = outer if outer is not None and around else self.scope
        fault: Error
        try:
            return replace(scope.resolve(name, table, span).ref, span=span)
        except SqlError as caught:
            fault = self._hidden(name, table, span) or self._elsewhere(name, table, span) or caught
        raise fault

    def _alias(self, name: str, span: Span | None) -> Expr:
        known = self._bound.get(name.lower())
        if known is not None:
            return replace(known, span=span)
        item = self._aliases[name.lower()]
        if has_aggregate(item):
            raise SqlError(f"{name} is an aggregate, known only after rows are grouped", code="aggregate-here", span=span,
                           subject=name, try_=f"HAVING {name} ..., or a subquery that computes it for each entity")
        del self._aliases[name.lower()]  # so that an alias cannot refer to itself
        try:
            self._bound[name.lower()] = self.bind(item)
            return replace(self._bound[name.lower()], span=span)
        finally:
            self._aliases[name.lower()] = item

    def _hidden(self, name: str, table: str | None, span: Span | None) -> Unsupported | None:
        """The refusal of a column that the database has and the policy does not declare."""
        if self.scope.find(name, table):
            return None
        for source in self.scope.sources:
            for reading in {origin.table for origin in source.origins.values()}:
                hidden = self.context.catalog.hidden.get(reading, frozenset())
                if (table is None or table.lower() == source.alias.lower()) and any(
                        column.lower() == name.lower() for column in hidden):
                    return Unsupported(f"column {name} of {reading} is not declared in the policy, so it is private and unusable",
                                       code="undeclared-column", span=span, subject=f"{reading}.{name}",
                                       try_=f"another column, or ask the owner to add it under [tables.{key(reading)}.columns]")
        return None

    def _elsewhere(self, name: str, table: str | None, span: Span | None) -> SqlError | None:
        """The refusal of a column that a table outside of FROM has."""
        if table is not None or self.scope.find(name, None):
            return None
        found = next((other.name for other in self.context.catalog.tables.values()
                      if any(column.lower() == name.lower() for column in other.columns)), None)
        if found is None:
            return None
        return SqlError(f"there is no column {name} in FROM; {found} has one", code="unknown-column", span=span, subject=name,
                        try_=f"FROM ... JOIN {found} ...")

    def where(self, clause: exp.Expr | None) -> list[Expr]:
        """Keep the rows that satisfy a condition; returns the parts of it that name columns of the outer query.

        Equalities that link tables become conditions of their joins first, before subqueries in the condition are bound: whether
        a subquery is allowed depends on whose rows are joined.
        """
        links: list[Expr] = []
        parts = operands(clause.this, exp.And) if clause is not None else []
        self._kept |= {id(query) for part in parts for query in kept_lists(part)}
        nested = [contains(part, exp.Query) for part in parts]
        for subqueries in (False, True):
            chosen = [self.condition(part, "WHERE") for part, inner in zip(parts, nested, strict=True) if inner is subqueries]
            own = [part for part in chosen if columns(part) <= set(self.node.env)]
            links += [part for part in chosen if part not in own]
            if own:
                self.node = self._linked(Filter(input=self.node, condition=self.all_of("and", own)))
        return links

    def _linked(self, node: Node) -> Node:
        origins = self.scope.origins
        return rebuild(keep_marks(push_equalities(node)), lambda below: say_owners(below, origins, self.context) if isinstance(
            below, Join) else below)

    def aggregate(self, node: exp.Expr) -> Expr:
        raise SqlError("an aggregate is not allowed here", code="aggregate-here", span=span_of(node),
                       try_="HAVING, or a subquery that computes it for each entity")

    def compiles(self, pattern: str) -> bool:
        return self.context.scratch.compiles(pattern)

    def listed(self, subjects: tuple[Expr, ...], query: exp.Expr, span: Span | None) -> Expr:
        """(subjects) IN (query); equal tests are bound once."""
        key = subjects, query, id(query) in self._kept
        if key not in self._marks:
            self._marks[key] = self._added(membership.listed(self, subjects, query, span, kept=key[2]))
        return replace(self._marks[key], span=span)

    def exists(self, query: exp.Expr, span: Span | None) -> Expr:
        """EXISTS (query); equal tests are bound once."""
        if (None, query, False) not in self._marks:
            select = plain_select(query, span)
            names = self.names.with_(select.args.get("with_"))
            inner = SelectBinder(self.context, self._scope_inside(select, names), names)
            self._marks[None, query, False] = self._added(membership.exists(self, inner, select, span))
        return replace(self._marks[None, query, False], span=span)

    def compared_with_any(self, subject: Expr, name: str, query: exp.Expr, span: Span | None) -> Expr:
        """subject > ANY (query); equal tests are bound once."""
        key = subject, name, query
        if key not in self._compared:
            select, inner = query.this if isinstance(query, exp.Subquery) else query, None
            if is_plain(select):
                names = self.names.with_(select.args.get("with_"))
                inner = SelectBinder(self.context, self._scope_inside(select, names), names)
            self._compared[key] = self._added(membership.compared_with_any(self, inner, select, subject, name, span))
        return replace(self._compared[key], span=span)

    def scalar(self, query: exp.Expr, span: Span | None) -> Expr:
        """(query) as a value; equal subqueries are bound once."""
        if query not in self._values:
            self._values[query] = self._added(scalars.scalar(self, query, span))
        return replace(self._values[query], span=span)

    def inside(self, select: exp.Select, names: Names) -> SelectBinder:
        """The binder of a subquery, which also sees the names of this SELECT."""
        return SelectBinder(self.context, self._scope_inside(select, names), names, aliases_of(select))

    def _scope_inside(self, select: exp.Select, names: Names) -> Scope:
        return replace(self.context.sources(select, names), outer=replace(self.scope, node=self.node))

    def _added(self, found: AddedColumns) -> Expr:
        """The expression, once the columns that it reads are among those of this SELECT."""
        self.node = found.node
        self.joined |= found.joined
        return found.expr

    def answer_windows(self, windows: WindowFunctions) -> None:
        """Allow window functions from now on, over the rows that WHERE has kept."""
        self._windows = windows

    def window(self, node: exp.Expr) -> Expr:
        if self._windows is None:
            raise not_here(node)
        return self._windows.read(node)

    def numbered(self) -> Expr:
        """A column that numbers the rows, so that equal rows can be distinguished."""
        new = WindowFunction(id=self.context.fresh.column(), name="row", function="row_number")
        self.node = Window(input=self.node, partition=(), order=(), ties=tie_breaks(self.node, ()), functions=(new,),
                           most_rows=None)
        return self.node.field(new.id).ref

    def continue_with(self, node: Node) -> None:
        self.node = node

    def places(self, within: Sequence[Expr], value: Expr, span: Span | None, *, descending: bool) -> tuple[Expr, Expr]:
        self.node, place, size = places(self, within, value, span, descending=descending)
        return place, size

    def level(self, node: exp.Expr) -> Expr:
        raise SqlError("GROUPING is known only after rows are grouped", code="group-by", span=span_of(node),
                       try_="SELECT GROUPING(a) ... GROUP BY CUBE (a)")

    def bins(self, node: exp.Expr) -> Expr:
        """bin_floor(column): the lower end of the declared bin that contains a value."""
        span = span_of(node)
        form = "bin_floor(income), with bins declared for the column in the policy"
        if len(node.expressions) != 1 or not isinstance(node.expressions[0], exp.Column):
            raise SqlError("bin_floor takes one column", code="bins", span=span, try_=form)
        column = self.bind(node.expressions[0])
        origin = self.scope.origins.get(column.column) if isinstance(column, Ref) else None
        cuts = declared_bins(self.context.catalog, origin)
        if cuts is None:
            name = node.expressions[0].name
            raise Unsupported(f"the policy declares no bins for {name}", code="bins", span=span, subject=name,
                              try_=f"floor({name} / 10) * 10, or bins = [0, 10, 50, 100] for it in the policy")
        value = typing.as_double(column) if column.type is Type.BIGINT else column
        number = [Literal(value=cut, type=Type.DOUBLE) for cut in cuts]
        branches: list[tuple[Expr, Expr]] = [(typing.call("<", [value, number[0]], self.env, span),
                                              Literal(value=None, type=Type.DOUBLE))]
        branches += [(typing.call("<", [value, high], self.env, span), low)
                     for low, high in pairwise(number)]
        branches.append((typing.call("=", [value, number[-1]], self.env, span), number[-2]))
        return typing.case(branches, None, span)
