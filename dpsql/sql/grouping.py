"""GROUP BY and aggregates: what the SELECT lists of grouped queries share, inside a query and outermost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from dpsql.errors import SqlError, Unsupported
from dpsql.plan.expr.facts import Facts, facts
from dpsql.plan.expr.functions import SAFE_INTEGERS
from dpsql.plan.expr.nodes import Case, Expr, Literal, Ref, Value, rewrite, walk
from dpsql.sql import typing
from dpsql.sql.border import span_of
from dpsql.sql.expressions import AGGREGATES, Binder, Host
from dpsql.sql.scope import Fresh
from dpsql.types import Interval, Span, Type

RELEASED_COUNTS = Interval(-(2**50), 2**50)  # counts, noisy ones too, are held in this range, so that they stay integers


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    """An expression of GROUP BY, and the identifier of the column that will carry it."""

    id: str
    name: str
    expr: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregated:
    """An aggregate as it is written: function, arguments and FILTER over the rows below. See `question.AggregateCall`."""

    id: str
    function: str
    args: tuple[Expr, ...]
    when: Expr | None
    fraction: Fraction | None
    discrete: bool
    type: Type
    span: Span | None

    def same(self, other: Aggregated) -> bool:
        return (self.function, self.args, self.when, self.fraction, self.discrete) == (
            other.function, other.args, other.when, other.fraction, other.discrete)


class Grouping:
    """The host of expressions over groups: it knows keys, collects aggregates, and passes everything else on to the rows below."""

    def __init__(self, body: Host, fresh: Fresh) -> None:
        self._body, self._fresh = body, fresh
        self._rows = Binder(body)
        self.keys: list[GroupKey] = []
        self.aggregates: list[Aggregated] = []
        self.aliases: dict[str, Expr] = {}
        self.binder = Binder(self)

    # -- host

    @property
    def env(self) -> Mapping[str, Facts]:
        return {**self._body.env, **{found.id: result_facts(found, self._body.env) for found in self.aggregates}}

    @property
    def parameters(self) -> Mapping[str, Value]:
        return self._body.parameters

    def column(self, name: str, table: str | None, span: Span | None) -> Expr:
        if table is None and name.lower() in self.aliases:
            return self.aliases[name.lower()]
        return self._body.column(name, table, span)

    def listed(self, subject: Expr, query: exp.Expr, span: Span | None) -> Expr:
        return self._body.listed(subject, query, span)

    def exists(self, query: exp.Expr, span: Span | None) -> Expr:
        return self._body.exists(query, span)

    def bins(self, node: exp.Expr) -> Expr:
        return self._body.bins(node)

    def compiles(self, pattern: str) -> bool:
        return self._body.compiles(pattern)

    def aggregate(self, node: exp.Expr) -> Expr:
        """Read an aggregate; one that was read before is the same one."""
        read = _Reader(self._rows, self._fresh.column()).read(node)
        known = next((found for found in self.aggregates if found.same(read)), None)
        if known is None:
            self.aggregates.append(read)
            known = read
        return Ref(column=known.id, type=known.type, span=read.span)

    # -- keys

    def read_keys(self, select: exp.Expr) -> None:
        """The keys of the GROUP BY of a SELECT: columns, expressions, positions, aliases or ALL."""
        group = select.args.get("group")
        if group is None:
            return
        if group.args.get("all"):
            for item in select.expressions:
                if not has_aggregate(item):
                    self._add_key(item_name(item), self._rows.bind(_inner(item)))
            return
        for part in group.expressions:
            if isinstance(part, exp.Tuple) or isinstance(part, exp.Paren) and isinstance(part.this, exp.Tuple):
                raise Unsupported("GROUP BY takes a list of keys without brackets", code="group-by", span=span_of(part))
            item = self._item(part, select.expressions)
            self._add_key(item_name(item), self._rows.bind(_inner(item)))

    def _item(self, part: exp.Expr, items: Sequence[exp.Expr]) -> exp.Expr:
        """What a term of GROUP BY means: a position in the SELECT list, an alias where no column has the name, or itself."""
        if isinstance(part, exp.Literal) and not part.args.get("is_string"):
            return positioned(part, items)
        if isinstance(part, exp.Column) and part.args.get("table") is None:
            try:
                self._body.column(str(part.this.this), None, span_of(part))
            except SqlError:
                named = [item for item in items if isinstance(item, exp.Alias)
                         and str(item.args["alias"].this).lower() == str(part.this.this).lower()]
                if named and has_aggregate(named[0]):
                    raise SqlError("an aggregate cannot be a key", code="group-by", span=span_of(part)) from None
                if named:
                    return named[0]
        if has_aggregate(part):
            raise SqlError("an aggregate cannot be a key", code="group-by", span=span_of(part))
        return part

    def _add_key(self, name: str, expr: Expr) -> None:
        if typing.is_null(expr):
            expr = Literal(value=None, type=Type.VARCHAR, span=expr.span)
        if not any(key.expr == expr for key in self.keys):
            self.keys.append(GroupKey(id=self._fresh.column(), name=name, expr=expr))

    # -- expressions over groups

    def output(self, expr: Expr, span: Span | None) -> Expr:
        """An expression with its keys replaced by their columns. Raises SqlError where a column is neither key nor aggregated."""
        keys = {key.id for key in self.keys}
        results = {found.id for found in self.aggregates}

        def change(part: Expr) -> Expr | None:
            found = next((key for key in self.keys if key.expr == part and not isinstance(part, Literal)), None)
            return Ref(column=found.id, type=part.type, span=part.span) if found is not None else None

        result = rewrite(expr, change)
        for part in walk(result):
            if isinstance(part, Ref) and part.column not in keys | results:
                name = self._name_of(part)
                raise SqlError(f"{name} is neither a key of GROUP BY nor inside an aggregate", code="group-by",
                               span=part.span or span, subject=name, try_=f"GROUP BY {name}, or an aggregate such as AVG({name})")
        return result

    def _name_of(self, part: Ref) -> str:
        node = getattr(self._body, "node", None)
        return str(node.names.get(part.column, "a column")) if node is not None else "a column"


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate stands in an expression, outside of subqueries."""
    def outside(part: exp.Expr) -> bool:
        while part is not node and part.parent is not None:
            part = part.parent
            if isinstance(part, exp.Query):
                return False
        return True

    return any(outside(part) for part in node.find_all(*AGGREGATES)) or any(
        str(part.this).lower() == "mean" and outside(part) for part in node.find_all(exp.Anonymous))


def positioned(part: exp.Expr, items: Sequence[exp.Expr]) -> exp.Expr:
    """The item of a SELECT list that a number stands for."""
    text = str(part.this)
    if not text.isdigit() or not 1 <= int(text) <= len(items):
        raise SqlError(f"there is no item {text} in the SELECT list", code="position", span=span_of(part),
                       try_=f"a number from 1 to {len(items)}")
    return items[int(text) - 1]


def _inner(item: exp.Expr) -> exp.Expr:
    return item.this if isinstance(item, exp.Alias) else item


def item_name(item: exp.Expr) -> str:
    """The name of an item: its alias or the column's own name; empty where it has none."""
    if isinstance(item, exp.Alias):
        return str(item.args["alias"].this)
    if isinstance(item, exp.Column) and isinstance(item.this, exp.Identifier):
        return str(item.this.this)
    return ""


def result_facts(found: Aggregated, env: Mapping[str, Facts]) -> Facts:
    """What is known of the value of an aggregate, exact or noisy, where expressions use it."""
    if found.function in ("count", "count_distinct"):
        return Facts(type=Type.BIGINT, nullable=False, physical=RELEASED_COUNTS, whole=True)
    if found.type is Type.BIGINT:
        return Facts(type=Type.BIGINT, physical=SAFE_INTEGERS, whole=True)
    if found.function in ("min", "max"):
        return Facts(type=found.type, declared=facts(found.args[0], env).declared)
    return Facts(type=found.type)


class _Reader:
    """Reads one aggregate of the text."""

    def __init__(self, rows: Binder, identifier: str) -> None:
        self._rows, self._id = rows, identifier

    def read(self, node: exp.Expr, when: Expr | None = None) -> Aggregated:
        span = span_of(node)
        if isinstance(node, exp.Filter):
            return self.read(node.this, self._rows.condition(node.expression.this, "FILTER"))
        if isinstance(node, exp.WithinGroup):
            return self._within_group(node, when)
        if isinstance(node, exp.Count):
            return self._count(node, when, span)
        if isinstance(node, exp.CountIf):
            return self._make("count", (self._true(self._rows.condition(node.this, "COUNT_IF")),), when, span, Type.BIGINT)
        if isinstance(node, exp.Median):
            return self._quantile(node.this, Fraction(1, 2), False, when, span)
        if isinstance(node, exp.PercentileCont | exp.PercentileDisc | exp.Quantile):
            if node.args.get("expression") is None and node.args.get("quantile") is None:
                raise SqlError("percentile_cont needs WITHIN GROUP", code="quantile", span=span,
                               try_="percentile_cont(0.5) WITHIN GROUP (ORDER BY x)")
            fraction = self._fraction(node.args.get("quantile") or node.expression)
            return self._quantile(node.this, fraction, not isinstance(node, exp.PercentileCont), when, span)
        name = _NAMES[type(node)] if type(node) in _NAMES else "avg"
        argument = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
        if isinstance(argument, exp.Distinct):
            raise Unsupported(f"{name.upper()}(DISTINCT ...) is not answered", code="distinct-aggregate", span=span,
                              try_=f"{name.upper()}(x), or COUNT(DISTINCT x)")
        expr = self._argument(argument, name, span)
        if name in ("min", "max"):
            if not (expr.type.numeric or expr.type is Type.DATE):
                raise Unsupported(f"{name.upper()} of {expr.type.value} is not answered", code="type", span=span,
                                  try_="COUNT(*) with GROUP BY, which shows which values occur")
            return self._make(name, (expr,), when, span, expr.type)
        if not expr.type.numeric:
            hint = "COUNT(*) FILTER (WHERE x)" if expr.type is Type.BOOLEAN else "a number"
            raise SqlError(f"{name.upper()} needs numbers, and this is {expr.type.value}", code="type", span=span, try_=hint)
        return self._make(name, (expr,), when, span, expr.type if name == "sum" else Type.DOUBLE)

    def _make(self, function: str, args: tuple[Expr, ...], when: Expr | None, span: Span | None, kind: Type,
              fraction: Fraction | None = None, *, discrete: bool = False) -> Aggregated:
        return Aggregated(id=self._id, function=function, args=args, when=when, fraction=fraction, discrete=discrete, type=kind,
                          span=span)

    def _argument(self, node: exp.Expr | None, name: str, span: Span | None) -> Expr:
        if node is None or isinstance(node, exp.Star):
            raise SqlError(f"{name.upper()} needs an argument", code="type", span=span, try_=f"{name.upper()}(x)")
        expr = self._rows.bind(node)
        return Literal(value=None, type=Type.BIGINT, span=expr.span) if typing.is_null(expr) else expr

    @staticmethod
    def _true(condition: Expr) -> Expr:
        """1 where a condition is true, else NULL."""
        return Case(branches=((condition, Literal(value=1, type=Type.BIGINT)),), otherwise=Literal(value=None, type=Type.BIGINT),
                    type=Type.BIGINT, span=condition.span)

    def _count(self, node: exp.Expr, when: Expr | None, span: Span | None) -> Aggregated:
        argument = node.this
        if isinstance(argument, exp.Distinct):
            if len(argument.expressions) != 1:
                raise Unsupported("COUNT(DISTINCT ...) takes one expression", code="distinct-aggregate", span=span,
                                  try_="SELECT DISTINCT a, b in a subquery, and COUNT(*) outside")
            return self._make("count_distinct", (self._rows.bind(argument.expressions[0]),), when, span, Type.BIGINT)
        if argument is None or isinstance(argument, exp.Star):
            return self._make("count", (), when, span, Type.BIGINT)
        expr = self._rows.bind(argument)
        if isinstance(expr, Literal) and expr.value is not None:  # COUNT(1)
            return self._make("count", (), when, span, Type.BIGINT)
        return self._make("count", (expr,), when, span, Type.BIGINT)

    def _within_group(self, node: exp.Expr, when: Expr | None) -> Aggregated:
        span, inner, order = span_of(node), node.this, node.expression
        if not isinstance(inner, exp.PercentileCont | exp.PercentileDisc) or len(order.expressions) != 1:
            raise Unsupported("only percentile_cont and percentile_disc take WITHIN GROUP", code="quantile", span=span,
                              try_="percentile_cont(0.5) WITHIN GROUP (ORDER BY x)")
        ordered, discrete = order.expressions[0], isinstance(inner, exp.PercentileDisc)
        fraction = self._fraction(inner.this)
        if ordered.args.get("desc"):
            if discrete:
                raise Unsupported("percentile_disc with DESC is not answered", code="quantile", span=span,
                                  try_="1 - p, in ascending order")
            fraction = 1 - fraction
        return self._quantile(ordered.this, fraction, discrete, when, span)

    def _fraction(self, node: exp.Expr) -> Fraction:
        span = span_of(node)
        if isinstance(node, exp.Array):
            raise Unsupported("a list of quantiles is not answered", code="quantile", span=span,
                              try_="one column for each quantile; quantiles of one column are chosen together anyway")
        value = self._rows.bind(node)
        if not isinstance(value, Literal) or isinstance(value.value, bool) or not isinstance(value.value, int | float) or (
                not 0 <= value.value <= 1):
            raise SqlError("the place of a quantile is a constant between 0 and 1", code="quantile", span=span, try_="0.5")
        return Fraction(str(value.value)).limit_denominator(10**6)

    def _quantile(self, node: exp.Expr, fraction: Fraction, discrete: bool, when: Expr | None, span: Span | None) -> Aggregated:
        expr = self._argument(node, "quantile", span)
        if not expr.type.numeric and not (discrete and expr.type is Type.DATE):
            raise Unsupported(f"quantiles of {expr.type.value} are not answered", code="type", span=span, try_="a number")
        kind = expr.type if discrete else Type.DOUBLE
        return self._make("quantile", (expr,), when, span, kind, fraction, discrete=discrete)


_NAMES: dict[type[exp.Expr], str] = {
    exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max", exp.Variance: "var_samp", exp.VariancePop: "var_pop",
    exp.Stddev: "stddev_samp", exp.StddevSamp: "stddev_samp", exp.StddevPop: "stddev_pop",
}
