"""Binds the SELECT whose aggregates are released with noise, as a question: the statement's own, or a scalar subquery."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dpsql.errors import Unsupported
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.question import AggregateCall, Key, Output, Question
from dpsql.questions.rules.keep_first import keep_first
from dpsql.questions.rules.push_equalities import push_equalities
from dpsql.sql.binding.aggregates import Aggregated
from dpsql.sql.binding.binding_context import BindingContext, Names, Scope
from dpsql.sql.binding.combinations import combinations_of, narrowed
from dpsql.sql.binding.domains import MOST_COMBINATIONS, known_values, values_left
from dpsql.sql.binding.grouping import Grouping, GroupKey
from dpsql.sql.binding.ordered_rows import ordering_of, row_count
from dpsql.sql.binding.select_binder import SelectBinder
from dpsql.sql.text.places import placed, span_of
from dpsql.sql.text.trees import aliases_of, has_aggregate, inner_of, is_star, item_name
from dpsql.trusted.declarations.tables import Domain
from dpsql.trusted.plan.cells import MOST_CELLS
from dpsql.trusted.plan.expr.facts import Facts, facts
from dpsql.trusted.plan.expr.nodes import Expr, Literal, Ref
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.project import Project
from dpsql.types import Span, Type


def _changed(star: exp.Expr) -> bool:
    """Whether * has EXCLUDE, REPLACE or RENAME."""
    return any((star if isinstance(star, exp.Star) else star.this).args.values())


class Outermost:
    """Binds one SELECT whose aggregates are released with noise."""

    def __init__(self, select: exp.Select, context: BindingContext, names: Names, scope: Scope) -> None:
        """`scope` is its FROM. Raises LooksOutside for a name that only the query around it knows."""
        self._select, self._context = select, context
        self._aggregates = any(map(has_aggregate, select.expressions))  # the columns that * stands for have none
        self._host = SelectBinder(context, scope, names, aliases_of(select), alone=True)
        self._grouping = Grouping(self._host, context.fresh)

    def bind(self) -> tuple[Question, Facts]:
        """The question, and the facts about its first column."""
        select, grouping = self._select, self._grouping
        self._host.where(select.args.get("where"))
        self._check_items()
        select = self._select
        distinct = select.args.get("distinct") is not None
        plain = select.args.get("group") is None and not self._aggregates
        public_rows = self._public_rows
        grouping.read_keys(select, all_items=(distinct and plain) or public_rows)  # SELECT DISTINCT means GROUP BY all columns
        if public_rows:
            self._number_rows()
        exprs = grouping.read_items(select)
        having = grouping.read_having(select)
        ordering = ordering_of(select, exprs, grouping.read_term) if select.args.get("order") is not None else ()
        if not grouping.keys and not grouping.aggregates and grouping.sets is None and not self._one_row:
            raise self._rows_asked(select.expressions[0])
        view, slots = self._distinct_view() if any(found.distinct for found in grouping.aggregates) else self._view()
        together = combinations_of(view, [key.id for key in grouping.keys], self._context.scratch)
        counts_groups = any(found.over is not None and found.over.by_number for found in grouping.aggregates)
        keys = [self._key(key) for key in grouping.keys]
        unlisted = {key.column for key in keys if key.domain is None}
        question = Question(
            view=view, keys=tuple(narrowed(key, together) for key in keys),
            combinations=tuple(one for one in together if not counts_groups and (
                len(one.keys) > 1 or not unlisted.isdisjoint(one.keys))),
            aggregates=tuple(AggregateCall(
                id=found.id, function=found.function, columns=tuple(slots[arg] for arg in found.args),
                when=slots[found.when] if found.when is not None else None, fraction=found.fraction, discrete=found.discrete,
                values=self._values(found), over=found.over, type=found.type, span=found.span,
                text=self._text(found.span)) for found in grouping.aggregates),
            outputs=tuple(Output(name=item_name(item) or self._text(span_of(inner_of(item))), expr=expr)
                          for item, expr in zip(select.expressions, exprs, strict=True)),
            having=having, ordering=ordering, limit=self._rows("limit"), offset=self._rows("offset") or 0,
            distinct=distinct and bool(grouping.aggregates or grouping.sets),
            sets=tuple(grouping.sets) if grouping.sets is not None else None, levels=tuple(grouping.levels))
        return question, facts(exprs[0], grouping.env)

    def _rows(self, clause: str) -> int | None:
        return row_count(self._select, clause, self._host.bind) if self._select.args.get(clause) is not None else None

    @property
    def _one_row(self) -> bool:
        """Whether the list has only values of subqueries: SELECT (SELECT ...), (SELECT ...)."""
        select = self._select
        return select.args.get("from_") is None and select.args.get("where") is None and any(
            item.find(exp.Query) is not None for item in select.expressions)

    @property
    def known(self) -> Mapping[str, Facts]:
        """Facts about keys and aggregates, after they are bound."""
        return self._grouping.env

    @property
    def _public_rows(self) -> bool:
        """Whether it selects rows of public tables, which are shown unchanged."""
        select = self._select
        return select.args.get("from_") is not None and all(select.args.get(key) is None for key in (
            "group", "distinct", "having")) and not self._aggregates and self._context.stability(self._host.node).public

    def _check_items(self) -> None:
        """Refuse a SELECT list that asks for rows, unless of public tables, where * becomes the names of all columns."""
        select = self._select
        if self._public_rows:
            if not any(is_star(inner_of(item)) and not _changed(inner_of(item)) for item in select.expressions):
                return
            items = [part for item in select.expressions for part in self._named(item)]
            self._select = select = select.copy()
            select.set("expressions", items)
            return
        for item in select.expressions:
            if is_star(inner_of(item)):
                raise Unsupported("rows are never shown, only aggregates over them", code="star", span=span_of(inner_of(item)),
                                  try_="COUNT(*), or the names of the keys of GROUP BY")
        if not self._one_row and not self._aggregates and all(
                select.args.get(key) is None for key in ("group", "distinct", "having")):
            for item in select.expressions:
                self._host.bind(inner_of(item))  # reports a mistyped name or function first
            raise self._rows_asked(select.expressions[0])

    def _number_rows(self) -> None:
        """Treat each row of a public table as a group: by its number, and by the terms of ORDER BY."""
        shown = aliases_of(self._select)
        clause = self._select.args.get("order")
        for column in clause.find_all(exp.Column) if clause is not None else ():
            if column.args.get("table") is not None or str(column.name).lower() not in shown:
                self._grouping.add_key("order", self._host.bind(column))
        if not self._context.stability(self._host.node).public:
            raise self._rows_asked(self._select.expressions[0])  # an item reads private rows
        self._grouping.add_key("row", self._host.numbered())

    def _named(self, item: exp.Expr) -> list[exp.Expr]:
        """The columns that * or t.* stands for, by name; the item itself where it is something else."""
        star, table = inner_of(item), None
        if not is_star(star):
            return [item.copy()]
        if isinstance(star, exp.Column):
            table = str(star.args["table"].this)
            if not self._host.scope.is_source(table):
                self._host.scope.resolve("*", table, span_of(star))  # raises: there is no such table
        named = [[exp.to_identifier(part, quoted=True) for part in (name, alias)] for alias, name, _ in self._host.scope.columns()
                 if table is None or table.lower() == alias.lower()]
        return [placed(exp.column(name, table=alias), span_of(star)) for name, alias in named]

    @staticmethod
    def _rows_asked(item: exp.Expr) -> Unsupported:
        return Unsupported("rows are never shown, only aggregates over them", code="no-aggregate", span=span_of(item),
                           try_="COUNT(*), AVG(x) or another aggregate, with or without GROUP BY")

    def _text(self, span: Span | None) -> str:
        """The name of an unnamed column: its text."""
        return self._context.written(span)[:63] or "column"

    def _view(self) -> tuple[Node, dict[Expr, str]]:
        """The rows that are aggregated: keys, arguments and conditions, and the owners."""
        fresh, host = self._context.fresh, self._host
        carried: list[tuple[str, str, Expr]] = [(key.id, key.name or "key", key.expr) for key in self._grouping.keys]
        slots: dict[Expr, str] = {}
        for found in self._grouping.aggregates:
            for expr in (*found.args, *([found.when] if found.when is not None else [])):
                if expr not in slots:
                    slots[expr] = fresh.column()
                    carried.append((slots[expr], self._text(expr.span), expr))
        owners = self._context.owners(host.node)
        seen = {expr.column for _, _, expr in carried if isinstance(expr, Ref)}
        carried += [(fresh.column(), host.node.names[owner], Ref(column=owner, type=host.node.env[owner].type))
                    for owner in owners if owner not in seen]
        if not carried:
            carried.append((fresh.column(), "one", Literal(value=1, type=Type.BIGINT)))
        return keep_first(push_equalities(Project(input=host.node, columns=tuple(carried)))), slots

    def _distinct_view(self) -> tuple[Node, dict[Expr, str]]:
        """The different values of one argument in each group: SUM(DISTINCT x) is SUM(x) over SELECT DISTINCT keys, x. They are
        rows of nobody, so they have no owner."""
        fresh, grouping = self._context.fresh, self._grouping
        first = next(found for found in grouping.aggregates if found.distinct)
        if grouping.sets is not None or any(
                found.args != first.args or found.when is not None or not (found.distinct or found.function == "count_distinct")
                for found in grouping.aggregates):
            raise Unsupported(f"{first.function.upper()}(DISTINCT x) is answered beside other DISTINCT aggregates of x only, "
                              "without grouping sets", code="distinct-aggregate", span=first.span,
                              try_="a statement for the others, or (SELECT SUM(DISTINCT x) FROM t) as a value beside them")
        below = [(fresh.column(), key.name or "key", key.expr) for key in grouping.keys]
        below.append((fresh.column(), self._text(first.args[0].span), first.args[0]))
        ids = [*(key.id for key in grouping.keys), fresh.column()]
        different = Distinct(input=Project(input=self._host.node, columns=tuple(below)))
        carried = tuple((new, name, different.field(old).ref) for new, (old, name, _) in zip(ids, below, strict=True))
        return Project(input=different, columns=carried), {first.args[0]: ids[-1]}

    def _values(self, found: Aggregated) -> Domain | None:
        """The declared values that COUNT(DISTINCT x) can count, or that MODE(x) can be; None if there are none."""
        return self._declared(found.args[0], MOST_COMBINATIONS)[0] if found.aggregate.kind in (Kind.DISTINCT, Kind.MODE) else None

    def _declared(self, expr: Expr, most: int) -> tuple[Domain | None, bool]:
        """The declared values of an expression that the conditions allow, and whether NULL is possible; None where they are more
        than `most` numbers, which `planning.groups.not_listed` tells."""
        scratch = self._context.scratch
        domain, nullable = known_values(expr, self._host.node, scratch)
        return values_left(expr, self._host.node, domain, scratch, nullable=nullable, most=most)

    def _key(self, key: GroupKey) -> Key:
        domain, nullable = self._declared(key.expr, MOST_CELLS)
        return Key(column=key.id, name=key.name or self._text(key.expr.span), type=key.expr.type, domain=domain,
                   nullable=nullable, span=key.expr.span)
