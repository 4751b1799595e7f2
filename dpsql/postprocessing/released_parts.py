"""Cuts a statement into parts that are released separately, and the SQL around them.

The cut is where aggregates combine the rows of different entities. Each SELECT below it reads private rows and is a separate
question; the SQL around them reads only the rows that they release, and public tables.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dpsql.errors import Error, Unsupported
from dpsql.frozen import Frozen
from dpsql.questions.rules.decompose import decompose
from dpsql.sql.binding.binding_context import BindingContext, LooksOutside, Names
from dpsql.sql.binding.outermost import Outermost
from dpsql.sql.binding.sources import bind_from
from dpsql.sql.binding.windows_beside_groups import split_windows
from dpsql.sql.text.places import placed, span_of
from dpsql.sql.text.trees import has_aggregate, has_window, is_grouping_set
from dpsql.trusted.plan.certificate import Unbounded
from dpsql.trusted.plan.node import InvalidPlan

PRIVATE, PUBLIC, RELEASED = "private", "public", "released"
MOST_PARTS = 50


class NotAround(Exception):
    """The statement cannot be answered as SQL over released rows."""


class ReleasedPart(Frozen):
    """A SELECT that is released, the CTEs visible to it, and the name that stands for its rows in the SQL around it."""

    select: exp.Select
    names: Names
    table: str


def cut(tree: exp.Expr, context: BindingContext) -> tuple[exp.Expr, tuple[ReleasedPart, ...]]:
    """The statement with tables instead of its released parts. Raises NotAround if the whole statement is one such part, or if it
    also reads private rows elsewhere."""
    cutting = _Cutting(context)
    around, kind = cutting.query(tree.copy(), Names(), shown=True)
    if kind == PRIVATE or _is_part(around):
        raise NotAround
    return around, tuple(cutting.parts)


def _is_part(tree: exp.Expr) -> bool:
    """Whether the whole statement is one released part."""
    while isinstance(tree, exp.Subquery):
        tree = tree.this
    return tree.meta.get(_PART) is not None


_PART = "released part"


class _Cutting:
    """Cuts one statement. Trees over private rows stay unchanged; others are changed in place."""

    def __init__(self, context: BindingContext) -> None:
        self._context = context
        self._ctes: dict[int, str] = {}
        self.parts: list[ReleasedPart] = []

    def query(self, tree: exp.Expr, names: Names, *, shown: bool) -> tuple[exp.Expr, str]:
        """The query with tables in place of its released parts, and whether its rows are private, public or released. Rows
        that are `shown` are not read by an outer query, so they cannot be private rows that such a query would aggregate."""
        names = names.with_(tree.args.get("with_"))
        if isinstance(tree, exp.Subquery) and isinstance(tree.this, exp.Query):
            inner, kind = self.query(tree.this, names, shown=shown)
            tree.set("this", inner)
            kinds = [kind, *self._joined(tree, names)]
            return tree, _together(kinds)
        if isinstance(tree, exp.SetOperation):
            kinds = []
            for side in ("this", "expression"):
                inner, kind = self.query(tree.args[side], names, shown=shown)
                tree.set(side, inner)
                kinds.append(kind)
            return tree, _together(kinds)
        if isinstance(tree, exp.Select):
            return self._select(tree, names, shown)
        return tree, PUBLIC

    def _select(self, select: exp.Select, names: Names, shown: bool) -> tuple[exp.Expr, str]:
        whole = select.copy()
        if shown and select.parent is not None and self._is_one_question(whole, names):
            return self._part(whole, names), RELEASED
        source = select.args.get("from_")
        kind = _together([*([self._source(source, "this", names)] if source is not None else []), *self._joined(select, names)])
        if kind != PRIVATE:
            return select, self._around(select, names, kind)
        grouped = any(whole.args.get(key) is not None for key in ("group", "having", "distinct")) or any(
            has_aggregate(item) for item in whole.expressions)
        if not grouped or (not shown and self._keeps_entities(whole, names)):
            return whole, PRIVATE
        if whole.args.get("qualify") is not None or any(map(has_window, whole.expressions)):
            group = whole.args.get("group")
            if group is None and whole.args.get("having") is None and not any(map(has_aggregate, whole.expressions)):
                raise NotAround  # windows over rows of entities, before DISTINCT
            if group is not None and any(map(is_grouping_set, group.expressions)):
                raise NotAround
            around, inner = split_windows(whole)
            inner.set("with_", None)
            around.args["from_"].this.set("this", self._part(inner, names))
            return around, RELEASED
        return self._part(whole, names), RELEASED

    def _is_one_question(self, select: exp.Select, names: Names) -> bool:
        """Whether a SELECT of aggregates is answered as one question although a query that it reads could be released: for
        instance, a count of the distinct values of private rows."""
        if select.args.get("from_") is None or not any(map(has_aggregate, select.expressions)):
            return False
        try:
            scope = bind_from(select, self._context, names)
            if self._context.stability(scope.node).public:
                return False
            question, _ = Outermost(select, self._context, names, scope).bind()
            decompose(question, owner=None)
        except (Error, LooksOutside, InvalidPlan, Unbounded):
            return False
        return not question.together

    def _part(self, select: exp.Select, names: Names) -> exp.Expr:
        """The table that replaces a released part. Equal parts are released once."""
        known = next((part for part in self.parts if part.select == select and part.names == names), None)
        if known is None:
            if len(self.parts) >= MOST_PARTS:
                raise Unsupported(f"the statement releases more than {MOST_PARTS} queries", code="too-large",
                                  span=span_of(select), try_="several statements")
            known = ReleasedPart(select=select, names=names, table=f"released {len(self.parts) + 1}")
            self.parts.append(known)
        table = exp.Table(this=exp.to_identifier(known.table, quoted=True))
        made = exp.Select(expressions=[exp.Star()], from_=exp.From(this=table))
        made.meta[_PART] = known.table
        return placed(made, span_of(select))

    def _keeps_entities(self, select: exp.Select, names: Names) -> bool:
        """Whether each row of a grouped query belongs to one entity, so that the query around it may aggregate them."""
        try:
            return bool(self._context.owners(self._context.relation(select.copy(), names).node))
        except Error:
            return False

    def _joined(self, tree: exp.Expr, names: Names) -> list[str]:
        return [self._source(join, "this", names) for join in tree.args.get("joins") or ()]

    def _source(self, holder: exp.Expr, key: str, names: Names) -> str:
        """Cut one source of FROM; returns the kind of its rows."""
        tree = holder.args[key]
        if isinstance(tree, exp.Table):
            return _together([self._table(tree, names), *self._joined(tree, names)])
        if isinstance(tree, exp.Subquery) and not isinstance(tree.this, exp.Query):
            return _together([self._source(tree, "this", names), *self._joined(tree, names)])
        inner, kind = self.query(tree, names, shown=False)
        holder.set(key, inner)
        return kind

    def _table(self, tree: exp.Table, names: Names) -> str:
        name = str(tree.name)
        found = names.ctes.get(name.lower()) if tree.args.get("db") is None else None
        if found is not None:
            cte, seen = found
            if id(cte) not in self._ctes:
                inner, self._ctes[id(cte)] = self.query(cte.this, seen, shown=False)
                cte.set("this", inner)
            return self._ctes[id(cte)]
        table = self._context.catalog.table(name)
        if table is None:
            raise NotAround
        return PUBLIC if table.public else PRIVATE

    def _around(self, select: exp.Select, names: Names, kind: str) -> str:
        """The queries in expressions of a SELECT over released or public rows."""
        for query in list(_inner_queries(select)):
            inner, own = self.query(query, names, shown=True)
            if own == PRIVATE:
                raise NotAround
            if inner is not query:
                query.replace(inner)
            kind = _together([kind, own])
        return kind


def _inner_queries(select: exp.Select) -> Iterator[exp.Expr]:
    """The outermost queries in the expressions of a SELECT: not those of FROM and WITH."""
    waiting = [part for key, part in select.args.items() if key not in ("from_", "with_", "joins") for part in _parts(part)]
    waiting += [on for join in select.args.get("joins") or () for on in _parts(join.args.get("on"))]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, exp.Query):
            yield node
        else:
            waiting += node.iter_expressions()


def _parts(value: object) -> list[exp.Expr]:
    return [part for part in (value if isinstance(value, list) else [value]) if isinstance(part, exp.Expr)]


def _together(kinds: list[str]) -> str:
    """The kind of rows that are made from rows of these kinds. Raises NotAround if private rows meet released ones."""
    if PRIVATE in kinds and RELEASED in kinds:
        raise NotAround
    return next((kind for kind in (PRIVATE, RELEASED) if kind in kinds), PUBLIC)
