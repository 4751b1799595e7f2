"""A query as a question: the outermost SELECT, whose aggregates are answered with noise."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dpsql.catalog.model import Catalog
from dpsql.errors import Error, SqlError, Unsupported
from dpsql.plan.expr.nodes import Expr, Literal, Ref, Value
from dpsql.plan.node import Node
from dpsql.plan.operators.project import Project
from dpsql.plan.question import AggregateCall, Key, Ordering, Output, Question
from dpsql.plan.rules.push_equalities import push_equalities
from dpsql.sql import border
from dpsql.sql.border import parameter_of, span_of
from dpsql.sql.domains import Scratch, domain_of
from dpsql.sql.grouping import Grouping, GroupKey, has_aggregate, item_name, positioned
from dpsql.sql.relations import Body, Names, PublicTables, World, bind_from
from dpsql.sql.statement import Query
from dpsql.types import Span, Type


def bind(query: Query, catalog: Catalog, public: PublicTables, scratch: Scratch, parameters: Mapping[str, Value]) -> Question:
    """Resolve names and types. Raises SqlError or Unsupported, located; reads public tables only."""
    try:
        border.check(query.tree)
        return _Top(query, World(catalog=catalog, public=public, scratch=scratch,
                                 parameters=parameters)).bind()
    except Error as fault:
        fault.located(query.text)
        raise
    except RecursionError:
        pass
    raise SqlError("the statement is nested too deeply", code="too-deep").located(query.text)


class _Top:
    """The outermost SELECT while it is bound."""

    def __init__(self, query: Query, world: World) -> None:
        self._query, self._world = query, world

    def bind(self) -> Question:
        select, names = self._select()
        self._body = Body(self._world, bind_from(select, self._world, names), names)
        self._body.where(select.args.get("where"))
        self._grouping = Grouping(self._body, self._world.fresh)
        distinct = select.args.get("distinct") is not None
        items = self._items(select, distinct)
        outputs = [self._output(item) for item in items]
        having, ordering = self._having(select, items, outputs), self._ordering(select, items, outputs)
        if not self._grouping.keys and not self._grouping.aggregates:
            raise Unsupported("rows are never shown, only aggregates over them", code="no-aggregate", span=span_of(select.expressions[0]),
                              try_="COUNT(*), AVG(x) or another aggregate, with or without GROUP BY")
        view, slots = self._view()
        return Question(
            view=view, keys=tuple(self._key(key) for key in self._grouping.keys),
            aggregates=tuple(AggregateCall(
                id=found.id, function=found.function, columns=tuple(slots[arg] for arg in found.args),
                when=slots[found.when] if found.when is not None else None, fraction=found.fraction, discrete=found.discrete,
                type=found.type, span=found.span, text=self._text(found.span)) for found in self._grouping.aggregates),
            outputs=tuple(outputs), having=having, ordering=ordering, limit=self._count(select, "limit"),
            offset=self._count(select, "offset") or 0, distinct=distinct and bool(self._grouping.aggregates))

    def _select(self) -> tuple[exp.Expr, Names]:
        tree: exp.Expr = self._query.tree
        names = Names()
        while isinstance(tree, exp.Subquery):
            names = names.with_(tree.args.get("with_"))
            tree = tree.this
        if not isinstance(tree, exp.Select):
            raise Unsupported("the outermost query is one SELECT", code="outer-union", span=span_of(tree),
                              try_="SELECT ... FROM (SELECT ... UNION ALL SELECT ...) AS u")
        return tree, names.with_(tree.args.get("with_"))

    def _items(self, select: exp.Expr, distinct: bool) -> list[exp.Expr]:
        """The SELECT list, after the keys are read. SELECT DISTINCT of plain columns means GROUP BY all of them."""
        items: list[exp.Expr] = list(select.expressions)
        for item in items:
            inner = item.this if isinstance(item, exp.Alias) else item
            if isinstance(inner, exp.Star) or isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star):
                raise Unsupported("rows are never shown, only aggregates over them", code="star", span=span_of(inner),
                                  try_="COUNT(*), or the names of the keys of GROUP BY")
        grouped = select.args.get("group")
        if grouped is None and distinct and not any(has_aggregate(item) for item in items):
            select.set("group", exp.Group(all=True))
        elif grouped is None and not any(has_aggregate(item) for item in items) and select.args.get("having") is None:
            raise Unsupported("rows are never shown, only aggregates over them", code="no-aggregate", span=span_of(items[0]),
                              try_="COUNT(*), AVG(x) or another aggregate, with or without GROUP BY")
        self._grouping.read_keys(select)
        return items

    def _output(self, item: exp.Expr) -> Output:
        inner = item.this if isinstance(item, exp.Alias) else item
        expr = self._grouping.output(self._grouping.binder.bind(inner), span_of(inner))
        return Output(name=item_name(item) or self._text(span_of(inner)), expr=expr)

    def _text(self, span: Span | None) -> str:
        """The name of an unnamed column: its text, closed where the last bracket left no trace in the tree."""
        if span is None:
            return "column"
        text = " ".join(self._query.text[span.start : span.end].split())
        rest = self._query.text[span.end :]
        while text.count("(") > text.count(")"):
            at = rest.find(")")
            if at < 0:
                break
            text, rest = text + " ".join(rest[: at + 1].split()), rest[at + 1 :]
        return text[:63]

    def _having(self, select: exp.Expr, items: list[exp.Expr], outputs: list[Output]) -> Expr | None:
        clause = select.args.get("having")
        if clause is None:
            return None
        with_names = self._with_aliases(items, outputs)
        return with_names.output(with_names.binder.condition(clause.this, "HAVING"), span_of(clause))

    def _with_aliases(self, items: list[exp.Expr], outputs: list[Output]) -> Grouping:
        """From here on the aliases of the SELECT list are names too, before columns: they stand for noisy values."""
        self._grouping.aliases = {str(item.args["alias"].this).lower(): output.expr
                                  for item, output in zip(items, outputs, strict=True) if isinstance(item, exp.Alias)}
        return self._grouping

    def _ordering(self, select: exp.Expr, items: list[exp.Expr], outputs: list[Output]) -> tuple[Ordering, ...]:
        clause = select.args.get("order")
        if clause is None:
            return ()
        grouping, found = self._with_aliases(items, outputs), []
        for term in clause.expressions:
            inner = term.this
            descending = bool(term.args.get("desc"))
            if isinstance(inner, exp.Literal) and not inner.args.get("is_string"):
                exprs = [outputs[[id(item) for item in items].index(id(positioned(inner, items)))].expr]
            elif isinstance(inner, exp.Var) and str(inner.this).upper() == "ALL":
                exprs = [output.expr for output in outputs]
            else:
                exprs = [grouping.output(grouping.binder.bind(inner), span_of(inner))]
            found += [Ordering(expr=expr, descending=descending, nulls_first=bool(term.args.get("nulls_first"))) for expr in exprs]
        return tuple(found)

    def _count(self, select: exp.Expr, key: str) -> int | None:
        clause = select.args.get(key)
        if clause is None:
            return None
        node = clause.expression
        value: object = None
        if parameter_of(node) is not None or isinstance(node, exp.Literal):
            bound = self._body.binder.bind(node)
            value = bound.value if isinstance(bound, Literal) else None
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise SqlError(f"{key.upper()} takes a number of rows", code="limit", span=span_of(clause), try_=f"{key.upper()} 10")
        return value

    def _view(self) -> tuple[Node, dict[Expr, str]]:
        """The rows that are aggregated: keys, arguments and conditions, and the owner."""
        fresh, body = self._world.fresh, self._body
        carried: list[tuple[str, str, Expr]] = [(key.id, key.name or "key", key.expr) for key in self._grouping.keys]
        slots: dict[Expr, str] = {}
        for found in self._grouping.aggregates:
            for expr in (*found.args, *([found.when] if found.when is not None else [])):
                if expr not in slots:
                    slots[expr] = fresh.column()
                    carried.append((slots[expr], self._text(expr.span), expr))
        owner = self._world.owner(body.node)
        if owner is not None and not any(isinstance(expr, Ref) and expr.column == owner for _, _, expr in carried):
            carried.append((fresh.column(), body.node.names[owner], Ref(column=owner, type=body.node.env[owner].type)))
        if not carried:
            carried.append((fresh.column(), "one", Literal(value=1, type=Type.BIGINT)))
        return push_equalities(Project(input=body.node, columns=tuple(carried))), slots

    def _key(self, key: GroupKey) -> Key:
        domain, nullable = domain_of(key.expr, self._body.env, self._world.scratch)
        return Key(column=key.id, name=key.name or self._text(key.expr.span), type=key.expr.type, domain=domain,
                   nullable=nullable, span=key.expr.span)
