"""Binds scalar expressions: from sqlglot's tree to ours, one method for each piece of syntax."""

from __future__ import annotations

import abc
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from sqlglot import exp

from dpsql.errors import DataError, SqlError, Unsupported
from dpsql.frozen import replace
from dpsql.sql.binding import typing
from dpsql.sql.binding.casts import cast, sql_type
from dpsql.sql.binding.misspelt_values import check_spelling
from dpsql.sql.binding.typing import Env
from dpsql.sql.text.border import parameter_of
from dpsql.sql.text.durations import Duration, duration_of
from dpsql.sql.text.literals import ParameterValue, constant, whole_number
from dpsql.sql.text.places import span_of
from dpsql.sql.text.refusals import NAMES, OTHERS, QUANTIFIED, REASONS
from dpsql.sql.text.spelling import for_a_text, mistyped
from dpsql.sql.text.syntax import NAMED, PARTS, SIMPLE, WINDOWED, WORDS
from dpsql.sql.text.trees import is_aggregate, operands
from dpsql.trusted.plan.expr.functions import LONGEST_DAYS, UNITS
from dpsql.trusted.plan.expr.nodes import Call, Cast, Expr, Literal, walk
from dpsql.types import INT64, Span, Type

MOST_NESTING = 100
MOST_JOINED = 1000  # letters of a constant that is joined of two
MOST_UNITS, MOST_STEPS = 1200, 40  # of a duration that is added: units at once, as functions take them, and steps
MOST_MOVED = 61  # most places of a shift, so that 2^n stays far within 64 bits

CURLY = "\u201c\u201d\u2018\u2019\u00ab\u00bb"  # quotation marks of word processors


class Binder(abc.ABC):
    """Binds expressions. Subclasses determine which names are known in their clause."""

    def __init__(self) -> None:
        self._depth = 0

    @property
    @abc.abstractmethod
    def env(self) -> Env:
        """Facts of the columns that bound expressions read."""

    @property
    @abc.abstractmethod
    def parameters(self) -> Mapping[str, ParameterValue]: ...

    @abc.abstractmethod
    def column(self, name: str, table: str | None, span: Span | None) -> Expr: ...

    @abc.abstractmethod
    def aggregate(self, node: exp.Expr) -> Expr: ...

    @abc.abstractmethod
    def listed(self, subjects: tuple[Expr, ...], query: exp.Expr, span: Span | None) -> Expr:
        """(subjects) IN (query)"""

    @abc.abstractmethod
    def exists(self, query: exp.Expr, span: Span | None) -> Expr: ...

    @abc.abstractmethod
    def compared_with_any(self, subject: Expr, name: str, query: exp.Expr, span: Span | None) -> Expr:
        """subject > ANY (query), with the operator `name`"""

    @abc.abstractmethod
    def scalar(self, query: exp.Expr, span: Span | None) -> Expr:
        """(query) as a value"""

    @abc.abstractmethod
    def window(self, node: exp.Expr) -> Expr:
        """A function with OVER"""

    @abc.abstractmethod
    def level(self, node: exp.Expr) -> Expr:
        """GROUPING(keys)"""

    @abc.abstractmethod
    def bins(self, node: exp.Expr) -> Expr:
        """bin_floor(column)"""

    @abc.abstractmethod
    def compiles(self, pattern: str) -> bool:
        """Whether the engine accepts a regular expression."""

    def condition(self, node: exp.Expr, what: str) -> Expr:
        """An expression that must be boolean."""
        expr = self.bind(node)
        if typing.is_null(expr):
            return Literal(value=None, type=Type.BOOLEAN, span=expr.span)
        if expr.type is not Type.BOOLEAN:
            raise SqlError(f"{what} needs a condition, and this is {expr.type.value}", code="type", span=span_of(node),
                           try_="a comparison")
        return expr

    def bind(self, node: exp.Expr) -> Expr:
        """The bound expression of a node. Raises SqlError or Unsupported, located."""
        if self._depth >= MOST_NESTING:
            raise SqlError("this expression is nested too deeply", code="too-deep", span=span_of(node),
                           try_="a subquery that computes a part of it")
        self._depth += 1
        try:
            return self._bind(node, span_of(node))
        finally:
            self._depth -= 1

    def _bind(self, node: exp.Expr, span: Span | None) -> Expr:
        parameter = parameter_of(node)
        if parameter is not None:
            return self._parameter(parameter, span)
        if is_aggregate(node):
            return self.aggregate(node)
        clause = _CLAUSES.get(type(node))
        if clause is not None:
            return clause(self, node, span)
        if type(node) in SIMPLE:
            name, keys = SIMPLE[type(node)]
            return self._call(name, [node.args[key] for key in keys if node.args.get(key) is not None], span)
        reason, try_ = ("an INTERVAL is allowed only after + or -", "time_bucket(INTERVAL 30 MINUTE, x)") if isinstance(
            node, exp.Interval) else ("this is not answered here", "")
        raise Unsupported(reason, code="not-accepted", span=span, subject=type(node).__name__, try_=try_)

    def _call(self, name: str, nodes: Sequence[exp.Expr], span: Span | None) -> Expr:
        return self._apply(name, [self.bind(node) for node in nodes], span)

    def _apply(self, name: str, args: list[Expr], span: Span | None) -> Expr:
        if name in ("=", "<>"):
            check_spelling([typing.without_cast(arg) for arg in args], self.env)
        return typing.call(name, args, self.env, span)

    def _constant(self, node: exp.Expr) -> Expr:
        """An operand that may have to be a constant: a cast that changes nothing is left out."""
        return typing.without_cast(self.bind(node))

    def all_of(self, name: str, parts: Sequence[Expr]) -> Expr:
        """Conditions joined by AND or OR, as a balanced tree."""
        if len(parts) == 1:
            return parts[0]
        middle = len(parts) // 2
        left, right = self.all_of(name, parts[:middle]), self.all_of(name, parts[middle:])
        return self._apply(name, [left, right], left.span.join(right.span) if left.span is not None else right.span)

    def _parameter(self, name: str, span: Span | None) -> Expr:
        value = self._value(name, span)
        if isinstance(value, tuple):
            raise DataError("the value of this parameter is a list, where one value is expected", span=span, try_="x = ANY($1)")
        if isinstance(value, dt.timedelta | Duration):
            raise DataError("the value of this parameter is a duration, where another value is expected", span=span,
                            try_="d + $1, of a date d")
        return constant(value, span)

    def _value(self, name: str, span: Span | None) -> ParameterValue:
        if name not in self.parameters:
            shown = "?" if name.startswith("?") else f"${name}"
            raise SqlError(f"no value is given for {shown}", code="parameter", span=span, subject=shown,
                           try_="values passed with the statement: a list for ?, a dict for names")
        return self.parameters[name]

    # -- constants and names

    def _column(self, node: exp.Expr, span: Span | None) -> Expr:
        if isinstance(node, exp.Star) or isinstance(node.this, exp.Star):
            raise Unsupported("rows are never shown", code="star", span=span, try_="COUNT(*), or the names of columns")
        table = node.args.get("table")
        if table is not None:
            return self.column(str(node.this.this), str(table.this), span)
        name = str(node.this.this)
        try:
            return self.column(name, None, span)
        except SqlError as fault:
            advised = for_a_text(name.strip(CURLY), "") in fault.try_
            if fault.code == "unknown-column" and not advised and (node.this.args.get("quoted") or name[:1] in CURLY):
                fault.try_ = for_a_text(name.strip(CURLY), fault.try_)
            raise

    def _literal(self, node: exp.Expr, span: Span | None) -> Expr:
        text = str(node.this)
        if node.args.get("is_string"):
            return Literal(value=text, type=Type.VARCHAR, span=span)
        number = whole_number(text)
        if number is not None and number <= INT64.high:
            return Literal(value=number, type=Type.BIGINT, span=span)
        try:
            return Literal(value=float(text), type=Type.DOUBLE, span=span)
        except ValueError:
            pass
        raise SqlError("this is not a number", code="syntax", span=span)

    def _boolean(self, node: exp.Expr, span: Span | None) -> Expr:
        return Literal(value=bool(node.this), type=Type.BOOLEAN, span=span)

    def _null(self, node: exp.Expr, span: Span | None) -> Expr:
        return Literal(value=None, type=Type.VARCHAR, span=span)

    def _paren(self, node: exp.Expr, span: Span | None) -> Expr:
        return self.bind(node.this)

    # -- operators with a form of their own

    def _negate(self, node: exp.Expr, span: Span | None) -> Expr:
        expr = self.bind(node.this)
        constant = _opposite(expr)
        return self._apply("negate", [expr], span) if constant is None else replace(constant, span=span)

    def _complement(self, node: exp.Expr, span: Span | None) -> Expr:
        """~x: all bits of x inverted, its sign included."""
        return self._apply("xor", [self.bind(node.this), Literal(value=-1, type=Type.BIGINT)], span)

    def _moved(self, node: exp.Expr, span: Span | None) -> Expr:
        """x << n and x >> n: the product with 2^n, and the quotient by 2^n once the last n bits of x are cleared."""
        value, by = self.bind(node.this), self.bind(node.expression)
        if not isinstance(by, Literal) or not isinstance(by.value, int) or not 0 <= by.value <= MOST_MOVED:
            raise SqlError(f"a shift needs a constant from 0 to {MOST_MOVED}", code="type", span=by.span or span, try_="x << 2")
        if value.type is not Type.BIGINT:
            raise SqlError(f"only whole numbers can be shifted, and this is {value.type.value}", code="type",
                           span=value.span or span, try_="CAST(x AS BIGINT)")
        size = 2**by.value
        if isinstance(node, exp.BitwiseLeftShift):
            return self._apply("*", [value, Literal(value=size, type=Type.BIGINT)], span)
        return self._apply("//", [self._apply("&", [value, Literal(value=-size, type=Type.BIGINT)], span),
                                  Literal(value=size, type=Type.BIGINT)], span)

    def _is(self, node: exp.Expr, span: Span | None) -> Expr:
        right = node.expression
        if isinstance(right, exp.Null):
            return self._apply("is null", [self.bind(node.this)], span)
        if not isinstance(right, exp.Boolean):
            raise SqlError("IS is followed by NULL, TRUE, FALSE or [NOT] DISTINCT FROM", code="syntax", span=span, try_="x = y")
        return self._apply("is not distinct from", [self.condition(node.this, "IS"), self.bind(right)], span)

    def _not(self, node: exp.Expr, span: Span | None) -> Expr:
        inner = node.this
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            return self._apply("is not null", [self.bind(inner.this)], span)
        return self._apply("not", [self.condition(inner, "NOT")], span)

    def _and_or(self, node: exp.Expr, span: Span | None) -> Expr:
        name = "and" if isinstance(node, exp.And) else "or"
        return self.all_of(name, [self.condition(part, name.upper()) for part in operands(node, type(node))])

    def _between(self, node: exp.Expr, span: Span | None) -> Expr:
        subject = self.bind(node.this)
        low = self._apply(">=", [subject, self.bind(node.args["low"])], span)
        return self._apply("and", [low, self._apply("<=", [subject, self.bind(node.args["high"])], span)], span)

    def _in(self, node: exp.Expr, span: Span | None) -> Expr:
        query = node.args.get("query")
        if query is not None:
            parts = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
            return self.listed(tuple(map(self.bind, parts)), query, span)
        subject = self.bind(node.this)
        listed = node.args.get("unnest")
        values = [self.bind(value) for value in node.expressions] if listed is None else [
            value for value in self.listed_in(listed) if not typing.is_null(value)]  # NULL is like nothing there
        for value in values:
            if not all(isinstance(part, Literal | Call | Cast) for part in walk(value)):
                raise Unsupported("IN takes a list of constants, or a subquery", code="in-list", span=value.span or span,
                                  try_="x = a OR x = b")
        written = [value for value in values if isinstance(typing.without_cast(value), Literal)]
        check_spelling([subject, *map(typing.without_cast, written)], self.env)
        listed_in = [typing.membership(subject, written, self.env, span)] if written else []
        computed = [self._apply("=", [subject, value], span) for value in values
                    if not isinstance(typing.without_cast(value), Literal)]
        return self.all_of("or", [*listed_in, *computed]) if values else Literal(value=False, type=Type.BOOLEAN, span=span)

    def listed_in(self, node: exp.Expr) -> list[Expr]:
        """The values of a parameter that is a list, each of them cast where it is cast."""
        if isinstance(node, exp.Cast):
            span = span_of(node)
            return [cast(value, sql_type(node.args["to"], span), span) for value in self.listed_in(node.this)]
        name, span = parameter_of(node), span_of(node)
        values = self._value(name, span) if name is not None else None
        if not isinstance(values, tuple):
            raise SqlError("ANY, ALL and UNNEST take a parameter whose value is a list", code="in-list", span=span,
                           try_="x = ANY($1), with the value [1, 2]")
        return [constant(value, span) for value in values]

    def _comparison(self, node: exp.Expr, span: Span | None) -> Expr:
        name, other = SIMPLE[type(node)][0], node.expression
        every = isinstance(other, exp.All) or _is_all(other)
        if not every and not isinstance(other, exp.Any):
            return self._call(name, [node.this, other], span)
        inner = other.expressions[0] if isinstance(other, exp.Anonymous) else other.this
        while isinstance(inner, exp.Paren):
            inner = inner.this
        subject = self.bind(node.this)
        if isinstance(inner, exp.Query):
            found = self.compared_with_any(subject, NEGATED[name] if every else name, inner, span)
            return self._apply("not", [found], span) if every else found
        if isinstance(inner, exp.Array):
            values = [self.bind(value) for value in inner.expressions]
        elif parameter_of(inner) is not None:
            values = self.listed_in(inner)
        else:
            return self._quantifier(other, span)
        parts = [self._apply(name, [subject, value], span) for value in values]
        return self.all_of("and" if every else "or", parts) if parts else Literal(value=every, type=Type.BOOLEAN, span=span)

    def _quantifier(self, node: exp.Expr, span: Span | None) -> Expr:
        reason, try_ = QUANTIFIED
        raise Unsupported(reason, code="not-accepted", span=span, try_=try_)

    def _exists(self, node: exp.Expr, span: Span | None) -> Expr:
        return self.exists(node.this, span)

    def _like(self, node: exp.Expr, span: Span | None) -> Expr:
        name = "ilike" if isinstance(node, exp.ILike) else "like"
        match = self._call(name, [node.this, node.expression], span)
        return self._apply("not", [match], span) if node.args.get("negate") else match

    def _escape(self, node: exp.Expr, span: Span | None) -> Expr:
        match = node.this
        if not isinstance(match, exp.Like | exp.ILike):
            raise SqlError("ESCAPE must follow a pattern", code="syntax", span=span, try_="x LIKE 'a!%' ESCAPE '!'")
        name = "ilike_escape" if isinstance(match, exp.ILike) else "like_escape"
        found = self._call(name, [match.this, match.expression, node.expression], span)
        return self._apply("not", [found], span) if match.args.get("negate") else found

    def _regexp(self, node: exp.Expr, span: Span | None) -> Expr:
        name = "regexp_full_match" if isinstance(node, exp.RegexpFullMatch) else "regexp_matches"
        pattern, flag = self._constant(node.expression), node.args.get("flag")
        if flag is not None:
            pattern = self._with_flag(pattern, self._constant(flag))
        return self._apply(name, [self.bind(node.this), self._compiled(pattern, span)], span)

    def _compiled(self, pattern: Expr, span: Span | None) -> Expr:
        """A regular expression. Raises SqlError, located, if it is not valid."""
        if isinstance(pattern, Literal) and isinstance(pattern.value, str) and not self.compiles(pattern.value):
            raise SqlError("this is not a regular expression", code="pattern", span=pattern.span or span, try_="'^[a-z]+$'")
        return pattern

    def _extracted(self, node: exp.Expr, span: Span | None) -> Expr:
        """The match of a regular expression: the whole of it (sqlglot's group 0), or one of its groups."""
        given = [self.bind(node.this), self._compiled(self._constant(node.expression), span)]
        group = self.bind(node.args["group"]) if node.args.get("group") is not None else None
        whole = group is None or (isinstance(group, Literal) and group.value == 0)
        return self._apply("regexp_extract", given if whole or group is None else [*given, group], span)

    def _replaced(self, node: exp.Expr, span: Span | None) -> Expr:
        option = self._constant(node.args["modifiers"]) if node.args.get("modifiers") is not None else None
        if option is not None and (not isinstance(option, Literal) or option.value != "g"):
            raise Unsupported("the only option of regexp_replace that is answered is 'g'", code="pattern", span=option.span,
                              try_="regexp_replace(x, '(?i)pattern', 'text', 'g')")
        pattern = self._compiled(self._constant(node.expression), span)
        return self._apply("regexp_replace" if option is None else "regexp_replace_all",
                           [self.bind(node.this), pattern, self.bind(node.args["replacement"])], span)

    @staticmethod
    def _with_flag(pattern: Expr, flag: Expr) -> Expr:
        if not isinstance(flag, Literal) or flag.value not in ("i", "c") or not isinstance(pattern, Literal):
            raise Unsupported("only the flags 'i' and 'c' of regular expressions are answered, with a constant pattern",
                              code="pattern", span=flag.span, try_="regexp_matches(x, 'pattern', 'i')")
        return replace(pattern, value=f"(?i){pattern.value}") if flag.value == "i" and pattern.value is not None else pattern

    def _add(self, node: exp.Expr, span: Span | None) -> Expr:
        left, right = node.this, node.expression
        minus = isinstance(node, exp.Sub)
        if isinstance(right, exp.Interval):
            return self._shift(self.bind(left), right, -1 if minus else 1, span)
        if isinstance(left, exp.Interval) and not minus:
            return self._shift(self.bind(right), left, 1, span)
        if (lasting := self._duration(right)) is not None:
            return self._shifted_by(self.bind(left), *lasting, -1 if minus else 1, span_of(right))
        if not minus and (lasting := self._duration(left)) is not None:
            return self._shifted_by(self.bind(right), *lasting, 1, span_of(left))
        a, b = self.bind(left), self.bind(right)
        if minus and a.type is Type.DATE and b.type is Type.DATE:
            return self._apply("days_between", [a, b], span)
        if a.type is Type.BIGINT and b.type is Type.DATE and not minus:
            a, b = b, a
        if a.type is Type.DATE and b.type is Type.BIGINT:
            days = _opposite(b) if minus else b
            if days is None:
                raise Unsupported("only a constant number of days can be subtracted from a date", code="type", span=span,
                                  try_="a constant, or date_diff('day', a, b)")
            return self._apply("add_to_date", [a, days], span)
        return self._apply("-" if minus else "+", [a, b], span)

    def _duration(self, node: exp.Expr) -> tuple[Duration | None] | None:
        """The duration that a parameter is, or a text or parameter that is cast to INTERVAL, which may be NULL; None for other
        expressions."""
        while isinstance(node, exp.Paren):
            node = node.this
        is_cast = isinstance(node, exp.Cast) and node.args["to"].this is exp.DType.INTERVAL
        inner, span = node.this if is_cast else node, span_of(node)
        name = parameter_of(inner)
        if name is None and not (is_cast and isinstance(inner, exp.Literal) and inner.is_string):
            return None
        value = self._value(name, span) if name is not None else inner.name
        if not is_cast and not isinstance(value, dt.timedelta | Duration):
            return None
        found = duration_of(value)
        if found is None and value is not None:
            raise SqlError("this is not a duration", code="interval", span=span, try_="'1 day'::interval")
        return (found,)

    def _shifted_by(self, moment: Expr, lasting: Duration | None, sign: int, span: Span | None) -> Expr:
        """A moment moved by the units of a duration, one after another, as in PostgreSQL."""
        if not moment.type.temporal:
            raise SqlError(f"an interval cannot be added to {moment.type.value}", code="type", span=span,
                           try_="CAST(... AS DATE)")
        if lasting is None:
            return Literal(value=None, type=Type.TIMESTAMP, span=span)
        try:
            steps = list(islice(lasting.steps(MOST_UNITS), MOST_STEPS + 1))
        except ValueError:
            raise Unsupported("fractions of seconds are not added", code="interval", span=span, try_="whole seconds") from None
        if len(steps) > MOST_STEPS:
            raise Unsupported("this duration is too long", code="interval", span=span, try_="years, or a date instead")
        for unit, number in steps:
            moment = self._apply(f"add_{unit}s", [moment, Literal(value=sign * number, type=Type.BIGINT, span=span)], span)
        return moment

    def _shift(self, moment: Expr, interval: exp.Expr, sign: int, span: Span | None) -> Expr:
        unit, steps = self._steps(interval)
        if not moment.type.temporal:
            raise SqlError(f"an interval cannot be added to {moment.type.value}", code="type", span=span,
                           try_="CAST(... AS DATE)")
        number = Literal(value=sign * steps, type=Type.BIGINT, span=span_of(interval))
        return self._apply(f"add_{unit}s", [moment, number], span_of(interval))

    def _steps(self, interval: exp.Expr) -> tuple[str, int]:
        """The unit of an interval, and its number of units."""
        unit = str(interval.args["unit"].this).lower().rstrip("s") if interval.args.get("unit") is not None else ""
        steps = self.bind(interval.this)
        if isinstance(steps, Literal) and isinstance(steps.value, str):
            steps = typing.convert(steps, Type.BIGINT) or steps
        if unit not in LONGEST_DAYS or not isinstance(steps, Literal) or not isinstance(steps.value, int):
            reason, try_ = REASONS[exp.ToDays]
            raise Unsupported(reason, code="interval", span=span_of(interval), try_=try_)
        return unit, steps.value

    def _bucket(self, node: exp.Expr, span: Span | None) -> Expr:
        if not isinstance(node.this, exp.Interval):
            raise Unsupported("time_bucket takes a constant interval and a time", code="interval", span=span,
                              try_="time_bucket(INTERVAL 7 DAY, d)")
        unit, steps = self._steps(node.this)
        number = Literal(value=steps, type=Type.BIGINT, span=span_of(node.this))
        return self._apply(f"time_bucket_{unit}s", [self.bind(node.expression), number], span)

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
        return cast(self.bind(node.this), sql_type(node.args["to"], span), span)

    def _variadic(self, node: exp.Expr, span: Span | None) -> Expr:
        names: dict[type[exp.Expr], str] = {exp.Coalesce: "coalesce", exp.Greatest: "greatest", exp.Least: "least"}
        name = names[type(node)]
        args = [self.bind(part) for part in (node.this, *node.expressions)]
        return args[0] if len(args) == 1 else self._apply(name, args, span)

    def _double_pipe(self, node: exp.Expr, span: Span | None) -> Expr:
        """a || b; short constants are joined at once, so that $1 || '%' is a pattern as '...%' is."""
        first, second = self._constant(node.this), self._constant(node.expression)
        if isinstance(first, Literal) and isinstance(second, Literal):
            left, right = first.value, second.value
            if isinstance(left, str) and isinstance(right, str) and len(left) + len(right) <= MOST_JOINED:
                return Literal(value=left + right, type=Type.VARCHAR, span=span)
        return self._apply("||", [first, second], span)

    def _concat(self, node: exp.Expr, span: Span | None) -> Expr:
        """concat(a, b, ...) leaves NULL out, where a || b is NULL."""
        empty = Literal(value="", type=Type.VARCHAR)
        result: Expr | None = None
        for part in node.expressions:
            text = self._apply("coalesce", [typing.as_text(self.bind(part)), empty], span_of(part))
            result = text if result is None else self._apply("||", [result, text], span)
        return result if result is not None else empty

    def _trim(self, node: exp.Expr, span: Span | None) -> Expr:
        side = str(node.args.get("position") or "BOTH").upper()
        given = [part for part in (node.this, node.expression) if part is not None]
        return self._call({"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "trim"), given, span)

    def _pad(self, node: exp.Expr, span: Span | None) -> Expr:
        given = [part for part in (node.this, node.expression, node.args.get("fill_pattern")) if part is not None]
        return self._call("lpad" if node.args.get("is_left") else "rpad", given, span)

    def _strftime(self, node: exp.Expr, span: Span | None) -> Expr:
        """strftime(moment, format); as in DuckDB, in either order."""
        moment, form = self.bind(node.this), self.bind(node.args["format"])
        return self._apply("strftime", [form, moment] if form.type.temporal else [moment, form], span)

    def _joined(self, node: exp.Expr, span: Span | None) -> Expr:
        """concat_ws(s, a, b, ...) joins values that are not NULL by a constant s, put before each; the first s is removed."""
        first, *rest = node.expressions
        between = self._constant(first)
        if not isinstance(between, Literal) or not isinstance(between.value, str) or not rest:
            raise Unsupported("concat_ws takes a constant separator and the values to join", code="type", span=span,
                              try_="concat_ws('-', a, b)")
        parts = [self._apply("coalesce", [self._apply("||", [between, typing.as_text(self.bind(part))], span_of(part)),
                                          Literal(value="", type=Type.VARCHAR)], span_of(part)) for part in rest]
        whole = parts[0]
        for part in parts[1:]:
            whole = self._apply("||", [whole, part], span)
        return self._apply("substring", [whole, Literal(value=len(between.value) + 1, type=Type.BIGINT)], span)

    def _log(self, node: exp.Expr, span: Span | None) -> Expr:
        if node.expression is None:
            return self._call("log10", [node.this], span)
        base = self.bind(node.this)
        if isinstance(base, Literal) and base.value in (2, 10):
            return self._call(f"log{base.value:g}", [node.expression], span)
        return self._apply("/", [self._call("ln", [node.expression], span), self._apply("ln", [base], span)], span)

    # -- time

    def _extract(self, node: exp.Expr, span: Span | None) -> Expr:
        part = str(node.this.this)
        if is_age(node.expression):
            return self._of_age(part, node.expression, span)
        return self._part(part, self.bind(node.expression), span)

    def _year(self, node: exp.Expr, span: Span | None) -> Expr:
        return self._of_age("year", node.this, span) if is_age(node.this) else self._call("year", [node.this], span)

    def _part(self, part: str, moment: Expr, span: Span | None) -> Expr:
        name = PARTS.get(part.upper())
        if name is None:
            raise Unsupported(f"the part {part.lower()} of a time is not answered", code="time-part", span=span,
                              try_="one of " + ", ".join(sorted(set(PARTS.values()))))
        return self._apply(name, [moment], span)

    def _truncate(self, node: exp.Expr, span: Span | None) -> Expr:
        return self._apply(f"date_trunc_{self._unit(node.args.get('unit'), span)}", [self.bind(node.this)], span)

    def _difference(self, node: exp.Expr, span: Span | None) -> Expr:
        return self._call(f"date_diff_{self._unit(node.args.get('unit'), span)}", [node.expression, node.this], span)

    def _unit(self, unit: exp.Expr | None, span: Span | None) -> str:
        name = str(unit.this).lower() if unit is not None else "day"
        if name not in UNITS:
            raise Unsupported(f"the unit {name} is not answered", code="time-part", span=span, try_="one of " + ", ".join(UNITS))
        return name

    def _named(self, node: exp.Expr, span: Span | None) -> Expr:
        if _is_all(node):
            return self._quantifier(node, span)
        name = str(node.this).lower()
        known = NAMED.get(name)
        if known is None:
            if is_age(node):
                raise _age_refused(node, span)
            reason, try_ = NAMES.get(name, (f"the function {name} is not answered", mistyped(name, WORDS) or OTHERS))
            raise Unsupported(reason, code="unknown-function", span=span, subject=name, try_=try_)
        if known == "bin_floor":
            return self.bins(node)
        if known == "date_part":
            return self._date_part(node, span)
        if known == "date_sub" and len(node.expressions) == 3:
            return self._call(f"date_sub_{self._unit(node.expressions[0], span)}", node.expressions[1:], span)
        return self._call(known, node.expressions, span)

    def _date_part(self, node: exp.Expr, span: Span | None) -> Expr:
        part = self.bind(node.expressions[0]) if len(node.expressions) == 2 else None
        if not isinstance(part, Literal) or not isinstance(part.value, str):
            raise SqlError("date_part takes the name of a part and a time", code="time-part", span=span,
                           try_="date_part('year', d)")
        moment = node.expressions[1]
        return self._of_age(part.value, moment, span) if is_age(moment) else self._part(part.value, self.bind(moment), span)

    def _of_age(self, part: str, node: exp.Expr, span: Span | None) -> Expr:
        """The full years of age(later, earlier). Those of date_sub are the same, except between the ends of two Februaries: a
        person born on the 29th is a year older on the 1st of March."""
        if part.upper() not in ("YEAR", "YEARS"):
            raise _age_refused(node, span)
        later, earlier = typing.common([self.bind(moment) for moment in node.expressions], span)
        known = any(isinstance(moment, Literal) and not _ends_a_february(moment.value) for moment in (later, earlier))
        if known or not later.type.temporal:
            return self._apply("date_sub_year", [earlier, later], span)
        if later.type is not Type.DATE:
            raise Unsupported("age() of two timestamps is answered if one is a constant other than February 28 or 29",
                              code="interval", span=span, try_="date_sub('year', earlier, later)")

        def number(value: int) -> Expr:
            return Literal(value=value, type=Type.BIGINT)

        def day(moment: Expr) -> Expr:
            months = self._apply("*", [self._apply("month", [moment], span), number(100)], span)
            return self._apply("+", [months, self._apply("day", [moment], span)], span)

        def years(sign: str, compared: str) -> Expr:
            whole = self._apply("-", [self._apply("year", [later], span), self._apply("year", [earlier], span)], span)
            before = self._apply(compared, [day(later), day(earlier)], span)
            return self._apply(sign, [whole, typing.case([(before, number(1))], number(0), span)], span)

        return typing.case([(self._apply(">=", [later, earlier], span), years("-", "<"))], years("+", ">"), span)

    def _window(self, node: exp.Expr, span: Span | None) -> Expr:
        return self.window(node)

    def _level(self, node: exp.Expr, span: Span | None) -> Expr:
        return self.level(node)

    def _without_over(self, node: exp.Expr, span: Span | None) -> Expr:
        raise SqlError("this function needs OVER", code="window-function", span=span,
                       try_="ROW_NUMBER() OVER (PARTITION BY k ORDER BY x)")

    def _subquery(self, node: exp.Expr, span: Span | None) -> Expr:
        return self.scalar(node, span)

    def _array(self, node: exp.Expr, span: Span | None) -> Expr:
        raise Unsupported("lists are not answered", code="not-accepted", span=span, try_="one column for each value")

    def _tuple(self, node: exp.Expr, span: Span | None) -> Expr:
        raise Unsupported("rows of values in parentheses are answered only with = and IN, with equally many values on both "
                          "sides", code="tuple",
                          span=span, try_="(a, b) = (1, 2), or (a, b) IN ((1, 2), (3, 4))")


NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}

_CLAUSES: dict[type[exp.Expr], Callable[[Binder, exp.Expr, Span | None], Expr]] = {
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), Binder._comparison),
    exp.Any: Binder._quantifier, exp.All: Binder._quantifier,
    exp.And: Binder._and_or, exp.Or: Binder._and_or, exp.Tuple: Binder._tuple, exp.Array: Binder._array,
    exp.DPipe: Binder._double_pipe,
    exp.Column: Binder._column, exp.Star: Binder._column, exp.Literal: Binder._literal, exp.Boolean: Binder._boolean,
    exp.Null: Binder._null, exp.Paren: Binder._paren, exp.Neg: Binder._negate, exp.Is: Binder._is, exp.Not: Binder._not,
    exp.Between: Binder._between, exp.In: Binder._in, exp.Exists: Binder._exists, exp.Like: Binder._like, exp.ILike: Binder._like,
    exp.Escape: Binder._escape, exp.BitwiseNot: Binder._complement,
    exp.BitwiseLeftShift: Binder._moved, exp.BitwiseRightShift: Binder._moved,
    exp.RegexpExtract: Binder._extracted, exp.RegexpReplace: Binder._replaced,
    exp.RegexpLike: Binder._regexp, exp.RegexpFullMatch: Binder._regexp,
    exp.Add: Binder._add, exp.Sub: Binder._add, exp.Case: Binder._case, exp.If: Binder._if, exp.Cast: Binder._cast,
    exp.TryCast: Binder._cast, exp.Coalesce: Binder._variadic, exp.Greatest: Binder._variadic, exp.Least: Binder._variadic,
    exp.Concat: Binder._concat, exp.ConcatWs: Binder._joined, exp.Trim: Binder._trim,
    exp.Pad: Binder._pad,
    exp.TimeToStr: Binder._strftime, exp.DateBin: Binder._bucket, exp.Log: Binder._log, exp.Extract: Binder._extract,
    exp.Year: Binder._year,
    exp.TimestampTrunc: Binder._truncate, exp.DateTrunc: Binder._truncate, exp.DateDiff: Binder._difference,
    exp.Grouping: Binder._level, exp.GroupingId: Binder._level,
    exp.Window: Binder._window, **dict.fromkeys(WINDOWED, Binder._without_over),
    exp.Anonymous: Binder._named, exp.Subquery: Binder._subquery, exp.Select: Binder._subquery,
}


def _is_all(node: exp.Expr) -> bool:
    """Whether a node is ALL([...]), which sqlglot reads as a function."""
    return isinstance(node, exp.Anonymous) and str(node.this).upper() == "ALL" and len(node.expressions) == 1


def is_age(node: exp.Expr) -> bool:
    """Whether a node is age(later, earlier)."""
    return isinstance(node, exp.Anonymous) and str(node.this).lower() == "age" and len(node.expressions) == 2


def _age_refused(node: exp.Expr, span: Span | None) -> Unsupported:
    later, earlier = (part.sql("duckdb") if isinstance(part, exp.Column) and parameter_of(part) is None else other
                      for part, other in zip(node.expressions, ("DATE '2020-12-31'", "born"), strict=True))
    return Unsupported("of the interval that age() returns, only the full years are answered", code="interval", span=span,
                       try_=f"EXTRACT(YEAR FROM age({later}, {earlier})), or date_sub('month', {earlier}, {later})")


def _ends_a_february(value: object) -> bool:
    return not isinstance(value, dt.date) or (value.month == 2 and value.day >= 28)


def _opposite(expr: Expr) -> Literal | None:
    """A constant number with the other sign; None for anything else."""
    if isinstance(expr, Literal) and isinstance(expr.value, int | float) and not isinstance(expr.value, bool):
        return replace(expr, value=-expr.value)
    return None
