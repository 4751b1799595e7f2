"""A released query used as a table: SELECT 100 * n / total FROM (SELECT COUNT(*) AS n, SUM(x) AS total FROM t GROUP BY k) AS r.

The outer query is computed from noisy rows, so the two together are one question: the view, keys and aggregates of the inner
query, the outer SELECT list in terms of the inner one, and the outer WHERE beside the inner HAVING, as both select noisy rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from dpsql.errors import SqlError, Unsupported
from dpsql.frozen import replace
from dpsql.questions.question import Output, Question
from dpsql.sql.binding.binding_context import BindingContext, Names
from dpsql.sql.binding.expressions import Binder
from dpsql.sql.binding.ordered_rows import ordering_of, row_count
from dpsql.sql.binding.outermost import Outermost
from dpsql.sql.binding.sources import bind_from
from dpsql.sql.text.literals import ParameterValue
from dpsql.sql.text.places import span_of
from dpsql.sql.text.spelling import closest, one_of
from dpsql.sql.text.trees import has_aggregate, inner_of, is_star, item_name, refuse_windows
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import Expr, all_of
from dpsql.types import Span

_ALONE = ("group", "having", "distinct", "qualify", "windows", "joins")
_INNER = ("distinct", "order", "limit", "offset", "qualify", "windows")


def released_inside(select: exp.Select, names: Names) -> tuple[exp.Select, Names, list[exp.Expr]] | None:
    """The released query that a SELECT reads, the CTEs visible to it, and its aliases from the inside out (both a CTE and its use
    may name columns); None if a SELECT does not have this form."""
    clause = select.args.get("from_")
    if clause is None or any(select.args.get(key) for key in _ALONE) or any(map(has_aggregate, select.expressions)):
        return None
    source, seen = clause.this, names
    aliases = [source.args["alias"]] if source.args.get("alias") is not None else []
    if isinstance(source, exp.Table) and source.args.get("db") is None and not source.args.get("joins"):
        found = names.ctes.get(str(source.name).lower())
        if found is None:
            return None
        source, seen = found[0].this, found[1]
        aliases.insert(0, found[0].args["alias"])
    while isinstance(source, exp.Subquery) and not source.args.get("joins"):
        seen, source = seen.with_(source.args.get("with_")), source.this
    if not isinstance(source, exp.Select) or any(source.args.get(key) for key in _INNER):
        return None
    grouped = source.args.get("group") is not None or any(has_aggregate(item) for item in source.expressions)
    return (source, seen.with_(source.args.get("with_")), aliases) if grouped else None


def bind_over_released(select: exp.Select, inner: exp.Select, aliases: Sequence[exp.Expr], context: BindingContext,
                       names: Names) -> Question:
    """The question of a SELECT over a released query. Raises SqlError or Unsupported, located."""
    refuse_windows(inner)
    below = Outermost(inner, context, names, bind_from(inner, context, names))
    question, _ = below.bind()
    rows = ReleasedRows(question, below.known, context, aliases)
    outputs = rows.items(select)
    ordering = ordering_of(select, [output.expr for output in outputs], rows.term)
    where = select.args.get("where")
    kept = all_of([part for part in (question.having, rows.condition(where.this, "WHERE") if where is not None else None)
                   if part is not None])
    return replace(question, outputs=tuple(outputs), having=kept, ordering=ordering,
                   limit=row_count(select, "limit", rows.bind), offset=row_count(select, "offset", rows.bind) or 0)


class ReleasedRows(Binder):
    """Binds expressions over the columns of a released query."""

    def __init__(self, question: Question, known: Mapping[str, Facts], context: BindingContext,
                 aliases: Sequence[exp.Expr]) -> None:
        super().__init__()
        self._known, self._context = known, context
        self._alias, labels = "", [output.name for output in question.outputs]
        for alias in aliases:
            self._alias = str(alias.this.this) if alias.this is not None else ""
            renamed = [str(part.this) for part in alias.args.get("columns") or ()]
            if len(renamed) > len(labels):
                raise SqlError(f"{self._alias} has {len(labels)} columns, and {len(renamed)} names are given", code="alias",
                               span=span_of(alias), subject=self._alias, try_=f"up to {len(labels)} names")
            labels = [*renamed, *labels[len(renamed):]]
        self._columns: list[tuple[str, Expr]] = [
            (label, output.expr) for label, output in zip(labels, question.outputs, strict=True)]
        self._items: dict[str, Expr] = {}

    def items(self, select: exp.Select) -> list[Output]:
        """The SELECT list."""
        found: list[Output] = []
        for item in select.expressions:
            inner, span = inner_of(item), span_of(inner_of(item))
            if is_star(inner):
                star = inner if isinstance(inner, exp.Star) else inner.this
                if any(star.args.values()):
                    raise Unsupported("EXCLUDE, REPLACE and RENAME are not answered beside released rows", code="star", span=span,
                                      try_="the names of the columns")
                found += [Output(name=name, expr=expr) for name, expr in self._columns]
                continue
            found.append(Output(name=item_name(item) or self._context.written(span)[:63] or "column", expr=self.bind(inner)))
            if isinstance(item, exp.Alias):
                self._items.setdefault(item_name(item).lower(), found[-1].expr)
        return found

    def term(self, node: exp.Expr) -> Expr:
        """A term of ORDER BY, where an alias of the SELECT list takes precedence over a column."""
        named = isinstance(node, exp.Column) and node.args.get("table") is None and self._items.get(str(node.name).lower())
        return named or self.bind(node)

    @property
    def env(self) -> Mapping[str, Facts]:
        return self._known

    @property
    def parameters(self) -> Mapping[str, ParameterValue]:
        return self._context.parameters

    def column(self, name: str, table: str | None, span: Span | None) -> Expr:
        found = [expr for label, expr in self._columns if label.lower() == name.lower()]
        if table is not None and table.lower() != self._alias.lower():
            raise SqlError(f"there is no table {table} in FROM", code="unknown-table", span=span, subject=table, try_=self._alias)
        if len(found) != 1:
            known = [label for label, _ in self._columns]
            raise SqlError(f"{name} is the name of several columns" if found else f"there is no column {name}",
                           code="unknown-column", span=span, subject=name, try_="another alias for one of them" if found else
                           closest(name, known) or one_of(known))
        return replace(found[0], span=span)

    def aggregate(self, node: exp.Expr) -> Expr:
        raise SqlError("an aggregate is not allowed here", code="aggregate-here", span=span_of(node),
                       try_="the condition without it")

    def listed(self, subjects: tuple[Expr, ...], query: exp.Expr, span: Span | None) -> Expr:
        raise self._no_subquery(span)

    def exists(self, query: exp.Expr, span: Span | None) -> Expr:
        raise self._no_subquery(span)

    def compared_with_any(self, subject: Expr, name: str, query: exp.Expr, span: Span | None) -> Expr:
        raise self._no_subquery(span)

    def scalar(self, query: exp.Expr, span: Span | None) -> Expr:
        raise self._no_subquery(span)

    @staticmethod
    def _no_subquery(span: Span | None) -> Unsupported:
        return Unsupported("a subquery over released rows is not answered here", code="scalar-subquery", span=span,
                           try_="the subquery in the SELECT list or HAVING of the query inside")

    def window(self, node: exp.Expr) -> Expr:
        raise Unsupported("a window function over released rows is not answered", code="window-here", span=span_of(node),
                          try_="SELECT k, COUNT(*), SUM(COUNT(*)) OVER () FROM t GROUP BY k")

    def level(self, node: exp.Expr) -> Expr:
        raise SqlError("GROUPING is known only in the query that groups the rows", code="group-by", span=span_of(node),
                       try_="GROUPING(a) AS g in the query inside")

    def bins(self, node: exp.Expr) -> Expr:
        raise Unsupported("bin_floor takes a column of a table", code="bins", span=span_of(node), try_="the same call in the "
                                                                                                       "query inside")

    def compiles(self, pattern: str) -> bool:
        return self._context.scratch.compiles(pattern)
