"""Reads aggregates from sqlglot's tree: their function, arguments and condition."""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from dpsql.errors import SqlError, Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.questions.all_aggregates import AGGREGATES, Aggregate, Kind
from dpsql.questions.question import OverGroups
from dpsql.sql.binding import typing
from dpsql.sql.binding.expressions import Binder
from dpsql.sql.binding.pairs import paired
from dpsql.sql.binding.present_values import present, where
from dpsql.sql.text.equivalents import WRITTEN
from dpsql.sql.text.places import span_of
from dpsql.sql.text.refusals import BY_ORDER, REASONS
from dpsql.sql.text.syntax import AGGREGATE_NODES, NAMED_AGGREGATES, OF_ONE
from dpsql.sql.text.trees import has_aggregate, is_aggregate
from dpsql.trusted.plan.expr.facts import facts
from dpsql.trusted.plan.expr.nodes import Case, Expr, Literal
from dpsql.types import Span, Type


class Aggregated(Frozen):
    """An aggregate as written: its function, arguments and FILTER, over the rows below. See `question.AggregateCall`."""

    id: str
    function: str
    args: tuple[Expr, ...]
    when: Expr | None
    fraction: Fraction | None
    discrete: bool
    type: Type
    span: Span | None
    over: OverGroups | None = None
    distinct: bool = False

    @property
    def aggregate(self) -> Aggregate:
        """The entry of this function in the table of aggregates."""
        return AGGREGATES[self.function]

    @property
    def meaning(self) -> tuple[object, ...]:
        """What is computed: equal for aggregates that can share a column."""
        return self.function, self.args, self.when, self.fraction, self.discrete, self.over, self.distinct


class AggregateReader:
    """Reads one aggregate; `rows` binds the expressions inside it. `exact` aggregates are computed for each entity."""

    def __init__(self, rows: Binder, identifier: str, *, exact: bool) -> None:
        self._rows, self._id, self._exact = rows, identifier, exact

    def read(self, node: exp.Expr) -> Aggregated:
        """Read an aggregate. Raises SqlError or Unsupported, located."""
        span, when = span_of(node), None
        if isinstance(node, exp.Filter):
            inner = node.this
            if isinstance(inner, exp.Filter) or not is_aggregate(inner):
                raise SqlError("FILTER must follow an aggregate", code="filter", span=span, try_="COUNT(*) FILTER (WHERE ...)")
            node, when = inner, self._rows.condition(node.expression.this, "FILTER")
        below = [*node.this.iter_expressions(), node.expression] if isinstance(node, exp.WithinGroup) else node.iter_expressions()
        nested = next((part for part in below if has_aggregate(part)), None)
        if nested is not None:
            raise SqlError("nested aggregates are not answered", code="aggregate-here", span=span_of(nested),
                           try_="a subquery that computes the inner aggregate for each entity")
        match node:
            case exp.ArgMax() | exp.ArgMin():
                reason, try_ = BY_ORDER[type(node)]
                raise Unsupported(reason, code="aggregate-here", span=span, try_=try_)
            case exp.WithinGroup():
                return self._within_group(node, when, span)
            case exp.Count():
                return self._count(node, when, span)
            case exp.Mode():
                return self._mode(node.this, when, span)
            case exp.CountIf():
                return self._make("count", (_one_where(self._rows.condition(node.this, "COUNT_IF")),), when, span)
            case exp.Median():
                return self._quantile(node.this, Fraction(1, 2), False, when, span)
            case exp.PercentileCont() | exp.PercentileDisc() | exp.Quantile() | exp.ApproxQuantile():
                place = node.args.get("quantile") or node.args.get("expression")
                if place is None:
                    raise SqlError(f"{_written(node)} needs a fraction between 0 and 1", code="quantile", span=span,
                                   try_="quantile_cont(x, 0.5), or percentile_cont(0.5) WITHIN GROUP (ORDER BY x)")
                return self._quantile(node.this, self._fraction(place), not isinstance(node, exp.PercentileCont), when, span)
        if type(node) in OF_ONE:
            return self._of_two(node, *OF_ONE[type(node)], when, span)
        name = NAMED_AGGREGATES[str(node.this).lower()] if isinstance(node, exp.Anonymous) else AGGREGATE_NODES[type(node)]
        if AGGREGATES[name].kind is Kind.PAIR:
            return self._of_two(node, name, None, when, span)
        return self._of_column(node, name, when, span)

    def _of_two(self, node: exp.Expr, name: str, place: int | None, when: Expr | None, span: Span | None) -> Aggregated:
        """CORR, COVAR and REGR; `place` says of which of the two columns the aggregate is, if it is of one."""
        y, x = (self._argument(part, _written(node), span, "y, x") for part in (node.this, node.args.get("expression")))
        for part in (y, x):
            self._check_number(part, _written(node), span)
        args = paired(y, x, self._rows.env, span)
        return self._make(name, args if place is None else (args[place],), when, span)

    def _of_column(self, node: exp.Expr, name: str, when: Expr | None, span: Span | None) -> Aggregated:
        """SUM, AVG, MIN, MAX, VAR, STDDEV and their like."""
        given = node.expressions if isinstance(node, exp.Anonymous) else [node.this]
        if not self._exact and WRITTEN in node.meta:
            reason, try_ = REASONS[node.meta[WRITTEN]]
            raise Unsupported(reason, code="aggregate-here", span=span, try_=try_)
        if len(given) != 1:
            raise SqlError(f"{name.upper()} takes one argument", code="type", span=span, try_=f"{name.upper()}(x)")
        distinct = isinstance(given[0], exp.Distinct)
        if distinct and (self._exact or name not in ("sum", "avg") or len(given[0].expressions) != 1):
            raise self._not_distinct(f"{name.upper()}(DISTINCT ...)", f"{name.upper()}(x)", span)
        expr = self._argument(given[0].expressions[0] if distinct else given[0], name.upper(), span)
        if AGGREGATES[name].kind is Kind.RANK:
            if not (self._exact or expr.type.numeric or expr.type is Type.DATE):
                raise Unsupported(f"{name.upper()} of {expr.type.value} is not answered", code="type", span=span,
                                  try_=f"{name.upper()}(CAST(x AS DATE))" if expr.type is Type.TIMESTAMP else
                                  "COUNT(*) with GROUP BY, which shows which values occur")
            return self._make(name, (expr,), when, span)
        self._check_number(expr, name.upper(), span)
        if distinct:
            return replace(self._make(name, (where([when], expr),), None, span), distinct=True)
        return self._make(name, (self._logarithm(expr, span) if AGGREGATES[name].logarithms else expr,), when, span)

    def _not_distinct(self, what: str, plain: str, span: Span | None) -> Unsupported:
        """The error for an aggregate of different values; `plain` is the same of all values."""
        where, key, groups = (" inside a query", "k, ", " GROUP BY k") if self._exact else ("", "", "")
        return Unsupported(f"{what} is not answered{where}", code="distinct-aggregate", span=span,
                           try_=f"SELECT {key}{plain} FROM (SELECT DISTINCT {key}x FROM t) AS d{groups}")

    def _logarithm(self, expr: Expr, span: Span | None) -> Expr:
        """The logarithm of a number, raised first to the lower end of its range where it is below that. NULL stays NULL."""
        env, ends = self._rows.env, facts(expr, self._rows.env).declared
        if not (ends.finite and ends.low > 0):
            raise Unsupported("a geometric mean needs bounds above 0, so that the logarithms have bounds",
                              code="no-bounds", span=expr.span or span,
                              try_="GEOMEAN(LEAST(GREATEST(x, 1), 1000)), or bounds = [low, high] for the column in the policy")
        low = Literal(value=float(ends.low), type=Type.DOUBLE)
        held = typing.call("greatest", [typing.to(expr, Type.DOUBLE, span), low], env, span)
        return replace(where([present(expr, env, span)], typing.call("ln", [held], env, span)), span=expr.span)

    @staticmethod
    def _check_number(expr: Expr, name: str, span: Span | None) -> None:
        if not expr.type.numeric:
            hint = {Type.BOOLEAN: "COUNT(*) FILTER (WHERE x)", Type.VARCHAR: "COUNT(x), or CAST(x AS DOUBLE) inside"}.get(
                expr.type, "MIN or MAX, or year(x)")
            raise SqlError(f"{name} needs numbers, and this is {expr.type.value}", code="type", span=expr.span or span, try_=hint)

    def _make(self, function: str, args: tuple[Expr, ...], when: Expr | None, span: Span | None,
              fraction: Fraction | None = None, *, discrete: bool = False) -> Aggregated:
        result = None if discrete else AGGREGATES[function].result
        return Aggregated(id=self._id, function=function, args=args, when=when, fraction=fraction, discrete=discrete,
                          type=result or args[0].type, span=span)

    def _argument(self, node: exp.Expr | None, name: str, span: Span | None, form: str = "x") -> Expr:
        if node is None or isinstance(node, exp.Star):
            raise SqlError(f"{name} needs an argument", code="type", span=span, try_=f"{name}({form})")
        expr = self._rows.bind(node)
        return Literal(value=None, type=Type.BIGINT, span=expr.span) if typing.is_null(expr) else expr

    def _count(self, node: exp.Expr, when: Expr | None, span: Span | None) -> Aggregated:
        argument = node.this
        if isinstance(argument, exp.Distinct):
            given = argument.expressions
            if len(given) != 1 or isinstance(given[0], exp.Star | exp.Tuple):
                raise Unsupported("COUNT(DISTINCT ...) takes one expression", code="distinct-aggregate", span=span,
                                  try_="SELECT COUNT(*) FROM (SELECT DISTINCT a, b FROM t) AS d")
            return self._make("count_distinct", (self._rows.bind(given[0]),), when, span)
        if argument is None or isinstance(argument, exp.Star):
            return self._make("count", (), when, span)
        expr = self._rows.bind(argument)
        if isinstance(expr, Literal) and expr.value is not None:  # COUNT(1)
            return self._make("count", (), when, span)
        return self._make("count", (expr,), when, span)

    def _within_group(self, node: exp.Expr, when: Expr | None, span: Span | None) -> Aggregated:
        inner, order = node.this, node.expression
        form = "percentile_cont(0.5) WITHIN GROUP (ORDER BY x)"
        if isinstance(inner, exp.Mode) and inner.this is None and isinstance(order, exp.Order) and len(order.expressions) == 1:
            return self._mode(order.expressions[0].this, when, span)
        if not isinstance(inner, exp.PercentileCont | exp.PercentileDisc) or not isinstance(order, exp.Order) or (
                len(order.expressions) != 1 or inner.args.get("expression") is not None):
            raise Unsupported("only percentile_cont(p) and percentile_disc(p) take WITHIN GROUP, with one column",
                              code="quantile", span=span, try_=form)
        ordered, discrete = order.expressions[0], isinstance(inner, exp.PercentileDisc)
        fraction = self._fraction(inner.this)
        if ordered.args.get("desc"):
            fraction = 1 - fraction  # for percentile_disc, if p n is a whole number, this gives the row next to the exact one
        return self._quantile(ordered.this, fraction, discrete, when, span)

    def _mode(self, node: exp.Expr | None, when: Expr | None, span: Span | None) -> Aggregated:
        if isinstance(node, exp.Distinct):
            raise Unsupported("MODE(DISTINCT ...) is not answered: every different value occurs once", code="distinct-aggregate",
                              span=span, try_="MODE(x)")
        expr = self._argument(node, "MODE", span)
        return self._make("mode", (expr,), when, span)

    def _fraction(self, node: exp.Expr) -> Fraction:
        span = span_of(node)
        if isinstance(node, exp.Array):
            raise Unsupported("a list of quantiles is not answered, as each has its own interval", code="quantile",
                              span=span, try_=f"{_one_by_one(node)}: quantiles of one column are chosen together anyway")
        value = self._rows.bind(node)
        if not isinstance(value, Literal) or isinstance(value.value, bool) or not isinstance(value.value, int | float) or (
                not 0 <= value.value <= 1):
            raise SqlError("a quantile needs a constant fraction between 0 and 1", code="quantile", span=span, try_="0.5")
        return Fraction(str(value.value)).limit_denominator(10**6)

    def _quantile(self, node: exp.Expr, fraction: Fraction, discrete: bool, when: Expr | None, span: Span | None) -> Aggregated:
        if isinstance(node, exp.Distinct):
            median = not discrete and fraction * 2 == 1
            plain = "MEDIAN(x)" if median else f"quantile_{'disc' if discrete else 'cont'}(x, {float(fraction):g})"
            raise self._not_distinct("a quantile of DISTINCT values", plain, span)
        expr = self._argument(node, "a quantile", span)
        if not expr.type.numeric and not (discrete and expr.type is Type.DATE):
            raise Unsupported(f"quantiles of {expr.type.value} are not answered", code="type", span=expr.span or span,
                              try_="quantile_disc(x, 0.5)" if expr.type is Type.DATE else "a number")
        return self._make("quantile", (expr,), when, span, fraction, discrete=discrete)


def _one_where(condition: Expr) -> Expr:
    """1 where a condition is true, else NULL."""
    return Case(branches=((condition, Literal(value=1, type=Type.BIGINT)),), otherwise=Literal(value=None, type=Type.BIGINT),
                type=Type.BIGINT, span=condition.span)


def _one_by_one(places: exp.Array) -> str:
    """The quantiles of a list as separate expressions, if the list is short."""
    call = places.parent
    name, column = (_written(call), call.this) if isinstance(call, exp.Func) else ("", None)
    numbers = [str(part.this) for part in places.expressions if isinstance(part, exp.Literal)]
    if isinstance(column, exp.Column) and len(numbers) == len(places.expressions) in range(1, 6):
        return ", ".join(f"{name}({column.sql('duckdb')}, {number})" for number in numbers)
    return "one column for each quantile, such as quantile_cont(x, 0.1), quantile_cont(x, 0.9)"


def _written(node: exp.Expr) -> str:
    """The usual name of a quantile function, or of a function of two columns."""
    names: dict[type[exp.Expr], str] = {exp.PercentileCont: "quantile_cont", exp.PercentileDisc: "quantile_disc",
                                        exp.Quantile: "quantile", exp.ApproxQuantile: "approx_quantile"}
    return names.get(type(node)) or type(node).sql_name() if isinstance(node, exp.Func) else ""
