"""Window functions of a SELECT inside a query: the rows that each of them sees, and the columns that they add."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from sqlglot import exp

from dpsql.backends.row_orders import tie_breaks
from dpsql.errors import SqlError, Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.sql.binding import typing
from dpsql.sql.binding.aggregates import Aggregated, AggregateReader
from dpsql.sql.binding.binding_context import SelectHost
from dpsql.sql.binding.frames import FORM, read_frame
from dpsql.sql.binding.inner_groups import exact_argument, names_entity
from dpsql.sql.text.places import span_of
from dpsql.sql.text.trees import has_window, is_aggregate
from dpsql.trusted.plan.expr.facts import Facts, facts
from dpsql.trusted.plan.expr.nodes import Expr, Literal, Ref, columns, conjuncts, whole
from dpsql.trusted.plan.expr.upper_limits import limit_of
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.ordering import Term
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.window import MOST_OFFSET, RUNNING, WHOLE, Frame, Window, WindowFunction, over_facts
from dpsql.types import Span, Type

RANKS: dict[type[exp.Expr], str] = {exp.RowNumber: "row_number", exp.Rank: "rank", exp.DenseRank: "dense_rank"}
VALUES: dict[type[exp.Expr], str] = {
    exp.Lag: "lag", exp.Lead: "lead", exp.FirstValue: "first_value", exp.LastValue: "last_value"}


class Clauses(Frozen):
    """The clauses inside OVER (...), completed from the named window that they are based on."""

    partition: tuple[exp.Expr, ...] = ()
    order: tuple[exp.Expr, ...] = ()
    frame: exp.Expr | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class WindowGroup:
    """The functions over one partition and order; `most` is the largest number of rows of a partition, None if unknown."""

    partition: tuple[str, ...]
    order: tuple[Term, ...]
    most: int | None
    span: Span | None
    functions: list[WindowFunction] = dataclasses.field(default_factory=list)

    def having(self, functions: list[WindowFunction]) -> WindowGroup:
        """The same group with other functions."""
        return dataclasses.replace(self, functions=functions)


class Windows:
    """The window functions of one SELECT. They see the rows that WHERE keeps; QUALIFY sees their values."""

    _operator: type[Window] = Window

    def __init__(self, host: SelectHost, select: exp.Expr) -> None:
        self._host = host
        self._named: dict[str, Clauses] = {}
        for definition in select.args.get("windows") or ():
            self._define(definition)
        self._computed: dict[Expr, str] = {}  # expressions that functions read, as columns
        self._groups: list[WindowGroup] = []
        self._read: dict[exp.Expr, Ref] = {}
        self._known: dict[str, Facts] = {}

    @property
    def env(self) -> Mapping[str, Facts]:
        """Facts about the columns of window functions."""
        return self._known

    # -- reading

    def read(self, node: exp.Expr) -> Expr:
        """The column of a window function. Raises SqlError or Unsupported, located."""
        span = span_of(node)
        if node not in self._read:
            self._read[node] = self._function(node, span)
        return replace(self._read[node], span=span)

    def _function(self, node: exp.Expr, span: Span | None) -> Ref:
        clauses = self._clauses(node)
        group = self._group(clauses, span)
        called, host = node.this, self._host
        if is_aggregate(called):
            found = AggregateReader(host, host.context.fresh.column(), exact=True).read(called)
            argument, grid = self._added_up(found)
            part = WindowFunction(id=found.id, name=found.function, function=found.function, grid=grid, frame=_frame(clauses,
                                                                                                                     host),
                                  column=self._column(argument) if argument is not None else None)
        else:
            part = self._nth(called, clauses, span) if isinstance(called, exp.NthValue) else self._positional(called, clauses)
        self._known[part.id] = self._facts(part, {**host.env, **self._arguments}, group.most)
        group.functions.append(part)
        return Ref(column=part.id, type=self._known[part.id].type)

    def _added_up(self, found: Aggregated) -> tuple[Expr | None, Quantizer | None]:
        """The argument of an aggregate, and the grid that its values are rounded to."""
        return exact_argument(found, self._host.env)

    def _facts(self, part: WindowFunction, env: Mapping[str, Facts], most: int | None) -> Facts:
        return over_facts(part, env, most)

    def _positional(self, called: exp.Expr, clauses: Clauses) -> WindowFunction:
        """ROW_NUMBER, RANK, NTILE, LAG, LEAD, FIRST_VALUE and LAST_VALUE."""
        new, frame = self._host.context.fresh.column(), _frame(clauses, self._host)
        if type(called) in RANKS:
            return WindowFunction(id=new, name=RANKS[type(called)], function=RANKS[type(called)])
        if isinstance(called, exp.Ntile):
            parts = _count(called.this, "NTILE takes a number of parts", "NTILE(4)", self._host, least=1)
            return WindowFunction(id=new, name="ntile", function="ntile", number=parts)
        if type(called) not in VALUES:
            raise Unsupported("this is not answered as a window function", code="window-function", span=span_of(called),
                              try_="ROW_NUMBER, RANK, NTILE, LAG, LEAD, FIRST_VALUE, LAST_VALUE, NTH_VALUE, COUNT, SUM, AVG, "
                              "MIN or MAX")
        name, value = VALUES[type(called)], self._host.bind(called.this)
        if name not in ("lag", "lead"):
            return WindowFunction(id=new, name=name, function=name, column=self._column(value), frame=frame)
        distance, otherwise = called.args.get("offset"), None
        number = 1 if distance is None else _count(distance, f"{name.upper()} takes a number of rows", f"{name.upper()}(x, 2)",
                                                   self._host)
        if called.args.get("default") is not None:
            value, shown = typing.common([value, self._host.bind(called.args["default"])], span_of(called))
            otherwise = self._column(shown)
        return WindowFunction(id=new, name=name, function=name, column=self._column(value), number=number, otherwise=otherwise)

    def _nth(self, called: exp.Expr, clauses: Clauses, span: Span | None) -> WindowFunction:
        """NTH_VALUE(x, n): the greatest x of the row with number n, in frames from the first row on."""
        host, frame = self._host, _frame(clauses, self._host)
        form = "NTH_VALUE(x, 2) OVER (PARTITION BY k ORDER BY y ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        if frame.start is not None:
            raise Unsupported("NTH_VALUE is answered in frames that begin with UNBOUNDED PRECEDING", code="window-frame",
                              span=span, try_=form)
        if called.args.get("offset") is None:
            raise SqlError("NTH_VALUE takes a value and the number of a row", code="window-number", span=span, try_=form)
        number = _count(called.args["offset"], "NTH_VALUE takes the number of a row", "NTH_VALUE(x, 2)", host, least=1)
        value, new = host.bind(called.this), host.context.fresh.column()
        counted = Windows(host, exp.Select())
        place = WindowFunction(id=new, name="row_number", function="row_number")
        counted._group(clauses, span).functions.append(place)
        host.continue_with(counted.rows(None))
        there = typing.call("=", [host.node.field(new).ref, whole(number)], host.env, span)
        column = self._column(replace(typing.case([(there, value)], None, span), span=None))
        return WindowFunction(id=host.context.fresh.column(), name="nth_value", function="max", column=column, frame=frame)

    def _column(self, expr: Expr) -> str:
        """The column of an expression. Raises SqlError if the expression uses a window function."""
        if not columns(expr).isdisjoint(self._known):
            raise SqlError("a window function inside a window function is not answered", code="window-here", span=expr.span,
                           try_="a subquery that computes the inner one")
        plain = replace(expr, span=None)
        if isinstance(plain, Ref):
            return plain.column
        if plain not in self._computed:
            self._computed[plain] = self._host.context.fresh.column()
        return self._computed[plain]

    @property
    def _arguments(self) -> Mapping[str, Facts]:
        return {column: facts(expr, self._host.env) for expr, column in self._computed.items()}

    # -- OVER

    def _define(self, definition: exp.Expr) -> None:
        name = str(definition.this.this)
        if name.lower() in self._named:
            raise SqlError(f"{name} is named twice in WINDOW", code="alias", span=span_of(definition.this), subject=name,
                           try_=f"{name}2")
        self._named[name.lower()] = self._clauses(definition)

    def _clauses(self, node: exp.Expr) -> Clauses:
        own = Clauses(partition=tuple(node.args.get("partition_by") or ()), frame=node.args.get("spec"),
                      order=tuple(node.args["order"].expressions) if node.args.get("order") is not None else ())
        alias = node.args.get("alias")
        if alias is None:
            return own
        name, span = str(alias.this), span_of(alias)
        base = self._named.get(name.lower())
        if base is None:
            raise SqlError(f"there is no window {name}", code="unknown-window", span=span, subject=name,
                           try_=f"WINDOW {name} AS (PARTITION BY ...)")
        if own == Clauses():
            return base
        if own.partition or (own.order and base.order) or base.frame is not None:
            word = "frame" if base.frame is not None else "partition" if own.partition else "order"
            raise SqlError(f"a window based on {name} cannot change its {word}", code="window-base", span=span, subject=name,
                           try_="OVER (PARTITION BY ... ORDER BY ...)")
        return replace(own, partition=base.partition, order=own.order or base.order)

    def _group(self, clauses: Clauses, span: Span | None) -> WindowGroup:
        """The functions over this partition and order. A partition that determines the entity includes its owner."""
        split = [self._column(self._host.bind(part)) for part in clauses.partition]
        return self.group(split, tuple(self._term(part) for part in clauses.order), span)

    def group(self, split: list[str], order: tuple[Term, ...], span: Span | None) -> WindowGroup:
        """The same of columns."""
        host = self._host
        owners, origins = host.context.owners(host.node), host.scope.origins
        if len(owners) == 1:
            split = [owners[0] if host.context.names_owner(origins.get(column)) and not host.node.env[column].nullable else column
                     for column in split]
        if all(names_entity(split, host, owner, owners) for owner in owners):
            split = [*split, *owners]
        partition = tuple(dict.fromkeys(split))
        found = next((group for group in self._groups if (group.partition, group.order) == (partition, order)), None)
        if found is None:
            apart = bool(owners) and set(owners) <= set(partition)
            most = host.context.stability(host.node).rows if apart else host.node.max_frequency(partition)
            found = WindowGroup(partition=partition, order=order, most=most or None, span=span)
            self._groups.append(found)
        return found

    def _term(self, node: exp.Expr) -> Term:
        if isinstance(node.this, exp.Var) and str(node.this.this).upper() == "ALL":
            raise SqlError("ORDER BY ALL has no meaning in a window", code="window-order", span=span_of(node), try_="ORDER BY x")
        return Term(column=self._column(self._host.bind(node.this)), descending=bool(node.args.get("desc")),
                    nulls_first=bool(node.args.get("nulls_first")))

    # -- the rows

    def rows(self, condition: Expr | None) -> Node:
        """The rows of the SELECT with the columns of its window functions, filtered by the condition of QUALIFY.

        Row numbers that QUALIFY limits are computed last and by themselves, so that no other function sees fewer rows where a
        truncation keeps the limit (`rules.keep_first`).
        """
        node = self._with_arguments(self._host.node)
        limited = {limit.column for limit in filter(None, map(limit_of, conjuncts(condition))) if limit.high is not None}
        first = [group.having([part for part in group.functions if part.id not in limited]) for group in self._groups]
        last = [group.having([part]) for group in self._groups for part in group.functions if part.id in limited]
        for group in (*first, *last):
            if group.functions:
                told = {*group.partition, *(term.column for term in group.order)}
                node = self._operator(input=node, partition=group.partition, order=group.order, ties=tie_breaks(node, told),
                                      functions=tuple(group.functions), most_rows=group.most, span=group.span)
        return node if condition is None else Filter(input=node, condition=condition)

    def _with_arguments(self, node: Node) -> Node:
        if not self._computed:
            return node
        kept = tuple((found.id, found.name, found.ref) for found in node.fields)
        written = self._host.context.written
        made = tuple((column, written(expr.span) or "argument", expr) for expr, column in self._computed.items())
        return Project(input=node, columns=(*kept, *made))


def places(host: SelectHost, within: Sequence[Expr], value: Expr, span: Span | None, *,
           descending: bool) -> tuple[Node, Expr, Expr]:
    """See `SelectHost.places`; and the rows with the columns."""
    windows = Windows(host, exp.Select())
    number = windows._column(value)
    group = windows.group([windows._column(part) for part in within], (Term(column=number, descending=descending),), span)
    if not set(host.context.owners(host.node)) <= set(group.partition):
        raise Unsupported("inside a query this is answered for the rows of one entity only", code="inner-aggregate", span=span,
                          try_="the key of the entity in GROUP BY; or COUNT, SUM, AVG, MIN or MAX")
    place, size = host.context.fresh.column(), host.context.fresh.column()
    group.functions.append(WindowFunction(id=place, name="place", function="row_number"))
    group.functions.append(WindowFunction(id=size, name="values", function="count", column=number))
    node = windows.rows(None)
    return node, node.field(place).ref, node.field(size).ref


def read_qualify(select: exp.Expr, host: SelectHost) -> Expr | None:
    """The condition of QUALIFY. Raises SqlError if the SELECT has no window function."""
    clause = select.args.get("qualify")
    if clause is None:
        return None
    if not any(has_window(part) for part in (*select.expressions, clause)):
        raise SqlError("QUALIFY needs a window function, and this query has none", code="qualify", span=span_of(clause),
                       try_="WHERE ..., or QUALIFY ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) = 1")
    return host.condition(clause.this, "QUALIFY")


# -- frames


def _frame(clauses: Clauses, host: SelectHost) -> Frame:
    """The written frame; without one, all rows up to the last peer, or all rows where there is no order."""
    spec = clauses.frame
    if spec is None:
        return RUNNING if clauses.order else WHOLE

    def distance(node: exp.Expr, rows: bool) -> int:
        if not rows:
            raise Unsupported("RANGE with a distance is not answered", code="window-frame", span=span_of(node) or span_of(spec),
                              try_=FORM)
        return _count(node, "a frame takes a number of rows", FORM, host)

    rows, start, end = read_frame(spec, distance)
    return Frame(rows=rows, start=start, end=end)


def _count(node: exp.Expr, reason: str, form: str, host: SelectHost, *, least: int = 0) -> int:
    """A number of rows that is written as a constant."""
    value = host.bind(node)
    number = value.value if isinstance(value, Literal) and value.type is Type.BIGINT else None
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= MOST_OFFSET:
        raise SqlError(reason, code="window-number", span=span_of(node), try_=form)
    return number
