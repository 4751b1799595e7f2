"""The SELECT whose aggregates are released with noise, as a question: that of the statement, or a scalar subquery."""

from __future__ import annotations

from sqlglot import exp

from dpsql.catalog.model import Domain
from dpsql.errors import SqlError, Unsupported
from dpsql.plan.expr.facts import Facts, facts
from dpsql.plan.expr.nodes import Expr, Literal, Ref
from dpsql.plan.node import Node
from dpsql.plan.operators.project import Project
from dpsql.plan.question import AggregateCall, Key, Ordering, Output, Question
from dpsql.plan.rules.keep_first import keep_first
from dpsql.plan.rules.push_equalities import push_equalities
from dpsql.sql.binding.aggregates import Aggregated
from dpsql.sql.binding.binding_context import BindingContext, Names
from dpsql.sql.binding.domains import domain_of
from dpsql.sql.binding.grouping import Grouping, GroupKey
from dpsql.sql.binding.left_values import values_left
from dpsql.sql.binding.scope import Scope
from dpsql.sql.binding.select_binder import SelectBinder
from dpsql.sql.text.border import parameter_of
from dpsql.sql.text.places import span_of
from dpsql.sql.text.trees import aliases_of, has_aggregate, inner_of, is_star, item_name, position_of
from dpsql.types import Span, Type


class Outermost:
    """Binds one SELECT whose aggregates are released with noise."""

    def __init__(self, select: exp.Select, context: BindingContext, names: Names, scope: Scope) -> None:
        """`scope` is its FROM. `LooksOutside` is raised for a name that only the query around it knows."""
        self._select, self._context = select, context
        self._host = SelectBinder(context, scope, names, aliases_of(select), alone=True)
        self._grouping = Grouping(self._host, context.fresh)

    def bind(self) -> tuple[Question, Facts]:
        """The question, and what is known of its first column."""
        select, grouping = self._select, self._grouping
        self._host.where(select.args.get("where"))
        self._check_items()
        distinct = select.args.get("distinct") is not None
        plain = select.args.get("group") is None and not any(has_aggregate(item) for item in select.expressions)
        grouping.read_keys(select, all_items=distinct and plain)  # SELECT DISTINCT of columns means GROUP BY all of them
        exprs = grouping.read_items(select)
        having, ordering = grouping.read_having(select), self._ordering(exprs)
        if not grouping.keys and not grouping.aggregates and grouping.sets is None and not self._one_row:
            raise self._rows_asked(select.expressions[0])
        view, slots = self._view()
        question = Question(
            view=view, keys=tuple(self._key(key) for key in grouping.keys),
            aggregates=tuple(AggregateCall(
                id=found.id, function=found.function, columns=tuple(slots[arg] for arg in found.args),
                when=slots[found.when] if found.when is not None else None, fraction=found.fraction, discrete=found.discrete,
                values=self._values(found), over=found.over, type=found.type, span=found.span,
                text=self._text(found.span)) for found in grouping.aggregates),
            outputs=tuple(Output(name=item_name(item) or self._text(span_of(inner_of(item))), expr=expr)
                          for item, expr in zip(select.expressions, exprs, strict=True)),
            having=having, ordering=ordering, limit=self._count("limit"), offset=self._count("offset") or 0,
            distinct=distinct and bool(grouping.aggregates or grouping.sets),
            sets=tuple(grouping.sets) if grouping.sets is not None else None, levels=tuple(grouping.levels))
        return question, facts(exprs[0], grouping.env)

    @property
    def _one_row(self) -> bool:
        """Whether it only shows the values of subqueries: SELECT (SELECT ...), (SELECT ...)."""
        select = self._select
        return select.args.get("from_") is None and select.args.get("where") is None and any(
            item.find(exp.Query) is not None for item in select.expressions)

    def _check_items(self) -> None:
        """Refuse a SELECT list that asks for rows."""
        select = self._select
        for item in select.expressions:
            if is_star(inner_of(item)):
                raise Unsupported("rows are never shown, only aggregates over them", code="star", span=span_of(inner_of(item)),
                                  try_="COUNT(*), or the names of the keys of GROUP BY")
        if not self._one_row and all(select.args.get(key) is None for key in ("group", "distinct", "having")) and not any(
                has_aggregate(item) for item in select.expressions):
            for item in select.expressions:
                self._host.bind(inner_of(item))  # a mistyped name or function is told first
            raise self._rows_asked(select.expressions[0])

    @staticmethod
    def _rows_asked(item: exp.Expr) -> Unsupported:
        return Unsupported("rows are never shown, only aggregates over them", code="no-aggregate", span=span_of(item),
                           try_="COUNT(*), AVG(x) or another aggregate, with or without GROUP BY")

    def _text(self, span: Span | None) -> str:
        """The name of an unnamed column: its text."""
        return self._context.written(span)[:63] or "column"

    def _ordering(self, exprs: list[Expr]) -> tuple[Ordering, ...]:
        clause = self._select.args.get("order")
        found = []
        for term in clause.expressions if clause is not None else ():
            inner = term.this
            if isinstance(inner, exp.Literal) and not inner.args.get("is_string"):
                chosen = [exprs[position_of(inner, self._select.expressions)]]
            elif isinstance(inner, exp.Var) and str(inner.this).upper() == "ALL":
                chosen = exprs
            else:
                chosen = [self._grouping.read_term(inner)]
            found += [Ordering(expr=expr, descending=bool(term.args.get("desc")), nulls_first=bool(term.args.get("nulls_first")))
                      for expr in chosen]
        return tuple(found)

    def _count(self, key: str) -> int | None:
        """The number after LIMIT or OFFSET."""
        clause = self._select.args.get(key)
        if clause is None:
            return None
        node = clause.expression
        if isinstance(node, exp.Var) and str(node.this).upper() == "ALL":
            return None
        value: object = None
        if parameter_of(node) is not None or isinstance(node, exp.Literal):
            bound = self._host.bind(node)
            value = bound.value if isinstance(bound, Literal) else None
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise SqlError(f"{key.upper()} takes a number of rows", code="limit", span=span_of(node), try_=f"{key.upper()} 10")
        return value

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

    def _values(self, found: Aggregated) -> Domain | None:
        """What COUNT(DISTINCT x) may find."""
        return self._declared(found.args[0])[0] if found.function == "count_distinct" else None

    def _declared(self, expr: Expr) -> tuple[Domain | None, bool]:
        """The declared values of an expression that conditions leave, and whether NULL is one of them."""
        scratch = self._context.scratch
        domain, nullable = domain_of(expr, self._host.env, scratch)
        return values_left(expr, self._host.node, domain, scratch, nullable=nullable)

    def _key(self, key: GroupKey) -> Key:
        domain, nullable = self._declared(key.expr)
        return Key(column=key.id, name=key.name or self._text(key.expr.span), type=key.expr.type, domain=domain,
                   nullable=nullable, span=key.expr.span)
