"""Scalar expressions: from sqlglot's tree to ours, one clause for each piece of syntax."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Protocol

from sqlglot import exp

from dpsql.errors import DataError, SqlError, Unsupported
from dpsql.plan.expr.functions import UNITS
from dpsql.plan.expr.nodes import Cast, Expr, Literal, Value
from dpsql.sql import typing
from dpsql.sql.border import parameter_of, span_of
from dpsql.sql.typing import Env
from dpsql.types import INT64, Span, Type


class Host(Protocol):
    """What an expression may refer to where it stands."""

    @property
    def env(self) -> Env:
        """Facts of the columns that bound expressions read."""
        ...

    @property
    def parameters(self) -> Mapping[str, Value]: ...

    def column(self, name: str, table: str | None, span: Span | None) -> Expr: ...

    def aggregate(self, node: exp.Expr) -> Expr: ...

    def listed(self, subject: Expr, query: exp.Expr, span: Span | None) -> Expr:
        """subject IN (query)"""
        ...

    def exists(self, query: exp.Expr, span: Span | None) -> Expr: ...

    def bins(self, node: exp.Expr) -> Expr:
        """bin_floor(column)"""
        ...

    def compiles(self, pattern: str) -> bool:
        """Whether a regular expression is one."""
        ...


AGGREGATES = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Median, exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevPop,
              exp.StddevSamp, exp.PercentileCont, exp.PercentileDisc, exp.Quantile, exp.WithinGroup, exp.CountIf, exp.Filter)

# Functions whose arguments stand in these keys of sqlglot's node, in the order of our table.
SIMPLE: dict[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.And: ("and", ("this", "expression")), exp.Or: ("or", ("this", "expression")), exp.Not: ("not", ("this",)),
    exp.EQ: ("=", ("this", "expression")), exp.NEQ: ("<>", ("this", "expression")),
    exp.LT: ("<", ("this", "expression")), exp.LTE: ("<=", ("this", "expression")),
    exp.GT: (">", ("this", "expression")), exp.GTE: (">=", ("this", "expression")),
    exp.NullSafeEQ: ("is not distinct from", ("this", "expression")), exp.NullSafeNEQ: ("is distinct from", ("this", "expression")),
    exp.Mul: ("*", ("this", "expression")), exp.Div: ("/", ("this", "expression")), exp.IntDiv: ("//", ("this", "expression")),
    exp.Mod: ("%", ("this", "expression")), exp.Pow: ("pow", ("this", "expression")), exp.DPipe: ("||", ("this", "expression")),
    exp.Nullif: ("nullif", ("this", "expression")), exp.Abs: ("abs", ("this",)), exp.Sign: ("sign", ("this",)),
    exp.Floor: ("floor", ("this",)), exp.Ceil: ("ceil", ("this",)), exp.Trunc: ("trunc", ("this",)),
    exp.Round: ("round", ("this", "decimals")), exp.Sqrt: ("sqrt", ("this",)), exp.Cbrt: ("cbrt", ("this",)),
    exp.Ln: ("ln", ("this",)), exp.Exp: ("exp", ("this",)), exp.Sin: ("sin", ("this",)), exp.Cos: ("cos", ("this",)),
    exp.Tan: ("tan", ("this",)), exp.Atan: ("atan", ("this",)), exp.Radians: ("radians", ("this",)),
    exp.Degrees: ("degrees", ("this",)), exp.IsNan: ("isnan", ("this",)), exp.IsInf: ("isinf", ("this",)),
    exp.Lower: ("lower", ("this",)), exp.Upper: ("upper", ("this",)), exp.Length: ("length", ("this",)),
    exp.Substring: ("substring", ("this", "start", "length")), exp.Left: ("left", ("this", "expression")),
    exp.Right: ("right", ("this", "expression")), exp.Contains: ("contains", ("this", "expression")),
    exp.StartsWith: ("starts_with", ("this", "expression")), exp.EndsWith: ("ends_with", ("this", "expression")),
    exp.StrPosition: ("strpos", ("this", "substr")), exp.Reverse: ("reverse", ("this",)),
    exp.Year: ("year", ("this",)), exp.Quarter: ("quarter", ("this",)), exp.Month: ("month", ("this",)),
    exp.Week: ("week", ("this",)), exp.WeekOfYear: ("week", ("this",)), exp.Day: ("day", ("this",)),
    exp.DayOfMonth: ("day", ("this",)), exp.DayOfYear: ("dayofyear", ("this",)), exp.DayOfWeek: ("dayofweek", ("this",)),
    exp.DayOfWeekIso: ("isodow", ("this",)), exp.Hour: ("hour", ("this",)), exp.Minute: ("minute", ("this",)),
    exp.Second: ("second", ("this",)),
}
NAMED = {"isfinite": "isfinite", "suffix": "ends_with", "prefix": "starts_with"}
PARTS = {"YEAR": "year", "QUARTER": "quarter", "MONTH": "month", "WEEK": "week", "DAY": "day", "DOW": "dayofweek",
         "DAYOFWEEK": "dayofweek", "ISODOW": "isodow", "DOY": "dayofyear", "DAYOFYEAR": "dayofyear", "HOUR": "hour",
         "MINUTE": "minute", "SECOND": "second"}
TYPES = {"INT": "INTEGER", "BIGINT": "BIGINT", "SMALLINT": "SMALLINT", "TINYINT": "TINYINT", "UINT": "UINTEGER",
         "USMALLINT": "USMALLINT", "UTINYINT": "UTINYINT", "DOUBLE": "DOUBLE", "FLOAT": "FLOAT", "TEXT": "VARCHAR",
         "VARCHAR": "VARCHAR", "DATE": "DATE", "TIMESTAMP": "TIMESTAMP", "TIMESTAMPNTZ": "TIMESTAMP", "BOOLEAN": "BOOLEAN"}


class Binder:
    """Binds expressions for one host."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def condition(self, node: exp.Expr, what: str) -> Expr:
        """An expression that must be a truth value."""
        expr = self.bind(node)
        if typing.is_null(expr):
            return Literal(value=None, type=Type.BOOLEAN, span=expr.span)
        if expr.type is not Type.BOOLEAN:
            raise SqlError(f"{what} needs a condition, and this is {expr.type.value}", code="type", span=span_of(node),
                           try_="a comparison")
        return expr

    def bind(self, node: exp.Expr) -> Expr:
        """The expression a node stands for. Raises SqlError or Unsupported, located."""
        span = span_of(node)
        parameter = parameter_of(node)
        if parameter is not None:
            return self._parameter(parameter, span)
        if isinstance(node, AGGREGATES) or (isinstance(node, exp.Anonymous) and str(node.this).lower() == "mean"):
            return self._host.aggregate(node)
        clause = _CLAUSES.get(type(node))
        if clause is not None:
            return clause(self, node, span)
        if type(node) in SIMPLE:
            name, keys = SIMPLE[type(node)]
            return self._call(name, [node.args[key] for key in keys if node.args.get(key) is not None], span)
        raise Unsupported(f"{type(node).__name__} is not answered here", code="not-accepted", span=span)

    def _call(self, name: str, nodes: list[exp.Expr], span: Span | None) -> Expr:
        return self._apply(name, [self.bind(node) for node in nodes], span)

    def _apply(self, name: str, args: list[Expr], span: Span | None) -> Expr:
        return typing.call(name, args, self._host.env, span)

    def _parameter(self, name: str, span: Span | None) -> Expr:
        if name not in self._host.parameters:
            shown = "?" if name.startswith("?") else f"${name}"
            raise SqlError(f"no value is given for {shown}", code="parameter", span=span, subject=name)
        return constant(self._host.parameters[name], span)

    # -- constants and names

    def _column(self, node: exp.Expr, span: Span | None) -> Expr:
        if isinstance(node, exp.Star) or isinstance(node.this, exp.Star):
            raise Unsupported("rows are never shown", code="star", span=span, try_="COUNT(*), or the names of columns in a subquery")
        table = node.args.get("table")
        return self._host.column(str(node.this.this), str(table.this) if table is not None else None, span)

    def _literal(self, node: exp.Expr, span: Span | None) -> Expr:
        text = str(node.this)
        if node.args.get("is_string"):
            return Literal(value=text, type=Type.VARCHAR, span=span)
        whole = text.isdigit()
        if whole and int(text) <= INT64.high:
            return Literal(value=int(text), type=Type.BIGINT, span=span)
        try:
            return Literal(value=float(text), type=Type.DOUBLE, span=span)
        except ValueError:
            raise SqlError(f"{text} is not a number", code="syntax", span=span) from None

    def _boolean(self, node: exp.Expr, span: Span | None) -> Expr:
        return Literal(value=bool(node.this), type=Type.BOOLEAN, span=span)

    def _null(self, node: exp.Expr, span: Span | None) -> Expr:
        return Literal(value=None, type=Type.VARCHAR, span=span)

    def _paren(self, node: exp.Expr, span: Span | None) -> Expr:
        return self.bind(node.this)

    # -- operators with a form of their own

    def _negate(self, node: exp.Expr, span: Span | None) -> Expr:
        expr = self.bind(node.this)
        if isinstance(expr, Literal) and isinstance(expr.value, int | float) and not isinstance(expr.value, bool):
            return Literal(value=-expr.value, type=expr.type, span=span)
        return self._apply("negate", [expr], span)

    def _is(self, node: exp.Expr, span: Span | None) -> Expr:
        right = node.expression
        if isinstance(right, exp.Null):
            return self._apply("is null", [self.bind(node.this)], span)
        return self._apply("is not distinct from", [self.bind(node.this), self.bind(right)], span)

    def _not(self, node: exp.Expr, span: Span | None) -> Expr:
        inner = node.this
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            return self._apply("is not null", [self.bind(inner.this)], span)
        return self._apply("not", [self.condition(inner, "NOT")], span)

    def _between(self, node: exp.Expr, span: Span | None) -> Expr:
        subject = self.bind(node.this)
        low = self._apply(">=", [subject, self.bind(node.args["low"])], span)
        return self._apply("and", [low, self._apply("<=", [subject, self.bind(node.args["high"])], span)], span)

    def _in(self, node: exp.Expr, span: Span | None) -> Expr:
        subject = self.bind(node.this)
        query = node.args.get("query")
        if query is not None:
            return self._host.listed(subject, query, span)
        values = [self.bind(value) for value in node.expressions]
        if not values or not all(isinstance(value, Literal) for value in values):
            raise Unsupported("IN takes a list of constants, or a subquery", code="in-list", span=span, try_="x = a OR x = b")
        return typing.membership(subject, values, span)

    def _exists(self, node: exp.Expr, span: Span | None) -> Expr:
        return self._host.exists(node.this, span)

    def _like(self, node: exp.Expr, span: Span | None) -> Expr:
        name = "ilike" if isinstance(node, exp.ILike) else "like"
        match = self._call(name, [node.this, node.expression], span)
        return self._apply("not", [match], span) if node.args.get("negate") else match

    def _regexp(self, node: exp.Expr, span: Span | None) -> Expr:
        name = "regexp_full_match" if isinstance(node, exp.RegexpFullMatch) else "regexp_matches"
        pattern = self.bind(node.expression)
        if isinstance(pattern, Literal) and isinstance(pattern.value, str) and not self._host.compiles(pattern.value):
            raise SqlError("this is not a regular expression", code="pattern", span=pattern.span or span)
        return self._apply(name, [self.bind(node.this), pattern], span)

    def _add(self, node: exp.Expr, span: Span | None) -> Expr:
        left, right = node.this, node.expression
        minus = isinstance(node, exp.Sub)
        if isinstance(right, exp.Interval):
            return self._shift(self.bind(left), right, -1 if minus else 1, span)
        if isinstance(left, exp.Interval) and not minus:
            return self._shift(self.bind(right), left, 1, span)
        a, b = self.bind(left), self.bind(right)
        if minus and a.type is Type.DATE and b.type is Type.DATE:
            return self._apply("days_between", [a, b], span)
        if a.type is Type.DATE and b.type is Type.BIGINT:
            days = Literal(value=-b.value, type=Type.BIGINT) if minus and isinstance(b, Literal) and isinstance(b.value, int) else b
            if minus and days is b:
                raise Unsupported("only a constant number of days can be taken from a date", code="not-accepted", span=span)
            return self._apply("add_to_date", [a, days], span)
        return self._apply("-" if minus else "+", [a, b], span)

    def _shift(self, moment: Expr, interval: exp.Expr, sign: int, span: Span | None) -> Expr:
        unit = str(interval.args["unit"].this).lower().rstrip("s") if interval.args.get("unit") is not None else ""
        steps = self.bind(interval.this)
        if isinstance(steps, Literal) and isinstance(steps.value, str):
            steps = typing.convert(steps, Type.BIGINT) or steps
        if unit not in ("day", "week", "month", "year") or not isinstance(steps, Literal) or not isinstance(steps.value, int):
            raise Unsupported("intervals are a whole number of days, weeks, months or years", code="interval", span=span_of(interval)
                              or span, try_="INTERVAL 3 DAY")
        if not moment.type.temporal:
            raise SqlError(f"an interval cannot be added to {moment.type.value}", code="type", span=span)
        return self._apply(f"add_{unit}s", [moment, Literal(value=sign * steps.value, type=Type.BIGINT)], span)

    def _case(self, node: exp.Expr, span: Span | None) -> Expr:
        subject = self.bind(node.this) if node.this is not None else None
        branches = []
        for part in node.args["ifs"]:
            if subject is None:
                when = self.condition(part.this, "WHEN")
            else:
                when = self._apply("=", [subject, self.bind(part.this)], span_of(part.this))
            branches.append((when, self.bind(part.args["true"])))
        otherwise = node.args.get("default")
        return typing.case(branches, self.bind(otherwise) if otherwise is not None else None, span)

    def _if(self, node: exp.Expr, span: Span | None) -> Expr:
        otherwise = node.args.get("false")
        return typing.case([(self.condition(node.this, "IF"), self.bind(node.args["true"]))],
                           self.bind(otherwise) if otherwise is not None else None, span)

    def _cast(self, node: exp.Expr, span: Span | None) -> Expr:
        expr, target = self.bind(node.this), sql_type(node.args["to"], span)
        carrier = Type.DOUBLE if target.startswith("DECIMAL") or target == "FLOAT" else (
            Type.BIGINT if "INT" in target else Type[target])
        if typing.is_null(expr):
            return Literal(value=None, type=carrier, span=span)
        if isinstance(expr, Literal) and isinstance(expr.value, str) and carrier in (Type.DATE, Type.TIMESTAMP):
            read = typing.convert(expr, carrier)
            if read is None:
                raise SqlError(f"this text is not a {target}", code="type", span=span, try_="DATE '2020-12-31'")
            return read
        return Cast(input=expr, target=target, type=carrier, span=span)

    def _variadic(self, node: exp.Expr, span: Span | None) -> Expr:
        name = {exp.Coalesce: "coalesce", exp.Greatest: "greatest", exp.Least: "least"}[type(node)]
        args = [self.bind(part) for part in (node.this, *node.expressions)]
        return args[0] if len(args) == 1 else self._apply(name, args, span)

    def _concat(self, node: exp.Expr, span: Span | None) -> Expr:
        empty = Literal(value="", type=Type.VARCHAR)
        result: Expr | None = None
        for part in node.expressions:
            text = self._apply("coalesce", [self.bind(part), empty], span_of(part))
            result = text if result is None else self._apply("||", [result, text], span)
        assert result is not None
        return result

    def _trim(self, node: exp.Expr, span: Span | None) -> Expr:
        side = str(node.args.get("position") or "BOTH").upper()
        return self._call({"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "trim"), [node.this], span)

    def _log(self, node: exp.Expr, span: Span | None) -> Expr:
        if node.expression is None:
            return self._call("log10", [node.this], span)
        base = self.bind(node.this)
        if isinstance(base, Literal) and base.value in (2, 10):
            return self._call(f"log{base.value}", [node.expression], span)
        return self._apply("/", [self._call("ln", [node.expression], span), self._call("ln", [node.this], span)], span)

    # -- time

    def _extract(self, node: exp.Expr, span: Span | None) -> Expr:
        return self._part(str(node.this.this), self.bind(node.expression), span)

    def _part(self, part: str, moment: Expr, span: Span | None) -> Expr:
        name = PARTS.get(part.upper())
        if name is None:
            raise Unsupported(f"the part {part.lower()} of a time is not answered", code="time-part", span=span,
                              try_="one of " + ", ".join(sorted(set(PARTS.values()))))
        return self._apply(name, [moment], span)

    def _truncate(self, node: exp.Expr, span: Span | None) -> Expr:
        return self._apply(f"date_trunc_{self._unit(node, span)}", [self.bind(node.this)], span)

    def _difference(self, node: exp.Expr, span: Span | None) -> Expr:
        return self._call(f"date_diff_{self._unit(node, span)}", [node.expression, node.this], span)

    def _unit(self, node: exp.Expr, span: Span | None) -> str:
        unit = node.args.get("unit")
        name = str(unit.this).lower() if unit is not None else "day"
        if name not in UNITS:
            raise Unsupported(f"the unit {name} is not answered", code="time-part", span=span, try_="one of " + ", ".join(UNITS))
        return name

    def _named(self, node: exp.Expr, span: Span | None) -> Expr:
        name = str(node.this).lower()
        if name == "bin_floor":
            return self._host.bins(node)
        if name in ("date_part", "datepart") and len(node.expressions) == 2:
            part = self.bind(node.expressions[0])
            if isinstance(part, Literal) and isinstance(part.value, str):
                return self._part(part.value, self.bind(node.expressions[1]), span)
        if name in NAMED:
            return self._call(NAMED[name], node.expressions, span)
        raise Unsupported(f"the function {name} is not answered", code="unknown-function", span=span, subject=name)

    def _subquery(self, node: exp.Expr, span: Span | None) -> Expr:
        raise Unsupported("a subquery as a value is not answered", code="scalar-subquery", span=span,
                          try_="its value as a parameter, after asking for it in a statement of its own")


_CLAUSES: dict[type[exp.Expr], Callable[[Binder, exp.Expr, Span | None], Expr]] = {
    exp.Column: Binder._column, exp.Star: Binder._column, exp.Literal: Binder._literal, exp.Boolean: Binder._boolean,
    exp.Null: Binder._null, exp.Paren: Binder._paren, exp.Neg: Binder._negate, exp.Is: Binder._is, exp.Not: Binder._not,
    exp.Between: Binder._between, exp.In: Binder._in, exp.Exists: Binder._exists, exp.Like: Binder._like, exp.ILike: Binder._like,
    exp.RegexpLike: Binder._regexp, exp.RegexpFullMatch: Binder._regexp,
    exp.Add: Binder._add, exp.Sub: Binder._add, exp.Case: Binder._case, exp.If: Binder._if, exp.Cast: Binder._cast,
    exp.TryCast: Binder._cast, exp.Coalesce: Binder._variadic, exp.Greatest: Binder._variadic, exp.Least: Binder._variadic,
    exp.Concat: Binder._concat, exp.Trim: Binder._trim, exp.Log: Binder._log, exp.Extract: Binder._extract,
    exp.TimestampTrunc: Binder._truncate, exp.DateTrunc: Binder._truncate, exp.DateDiff: Binder._difference,
    exp.Anonymous: Binder._named, exp.Subquery: Binder._subquery, exp.Select: Binder._subquery,
}


def sql_type(node: exp.Expr, span: Span | None) -> str:
    """The name of the type that a cast asks for."""
    name = node.this.name if hasattr(node.this, "name") else str(node.this)
    if name == "DECIMAL":
        digits = [int(str(part.this.this)) for part in node.expressions] or [18, 3]
        width, scale = (digits[0], digits[1] if len(digits) > 1 else 0)
        if 1 <= width <= 38 and 0 <= scale <= min(width, 9):
            return f"DECIMAL({width},{scale})"
    if name in TYPES:
        return TYPES[name]
    raise Unsupported(f"casts to {name} are not answered", code="cast", span=span_of(node) or span,
                      try_="one of " + ", ".join(sorted(set(TYPES.values()))))


def constant(value: Value | Decimal, span: Span | None = None) -> Literal:
    """A Python value as a typed constant. Raises DataError for what cannot be one."""
    match value:
        case None:
            return Literal(value=None, type=Type.VARCHAR, span=span)
        case bool():
            return Literal(value=value, type=Type.BOOLEAN, span=span)
        case int():
            if not INT64.low <= value <= INT64.high:
                raise DataError("a parameter does not fit into 64 bits", span=span)
            return Literal(value=value, type=Type.BIGINT, span=span)
        case float():
            return Literal(value=value, type=Type.DOUBLE, span=span)
        case Decimal():
            return Literal(value=float(value), type=Type.DOUBLE, span=span)
        case str():
            if "\x00" in value:
                raise DataError("a parameter contains a NUL character", span=span)
            return Literal(value=value, type=Type.VARCHAR, span=span)
        case dt.datetime():
            return Literal(value=value.replace(tzinfo=None), type=Type.TIMESTAMP, span=span)
        case dt.date():
            return Literal(value=value, type=Type.DATE, span=span)
        case other:
            raise DataError(f"a parameter cannot be of type {type(other).__name__}", span=span)
