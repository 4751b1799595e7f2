"""Scalar expressions: a tree of frozen values, independent of any SQL text.

An expression is total by construction: every function comes from the table in `functions`, which prints it in a form that
never raises, whatever the row holds. Spans point into the analyst's text and do not take part in equality, so an expression
that is written twice is one value.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator
from typing import Annotated, TypeAlias

from dpsql.frozen import Frozen, field, replace, settle
from dpsql.trusted.field_types import NumberRange
from dpsql.types import Interval, Span, Type

Value: TypeAlias = bool | Annotated[int, NumberRange(least=-(2**63), most=2**63 - 1)] | float | str | dt.date | dt.datetime | None
NAN = math.nan


def merged(number: float) -> float:
    """The number that represents all numbers that an engine considers equal to it."""
    return NAN if math.isnan(number) else number + 0.0  # -0.0 + 0.0 is 0.0


class Expr(Frozen, gc=False):
    """A scalar expression of a known type."""

    type: Type
    span: Span | None = field(default=None, compare=False)


class Literal(Expr):
    """A constant. `value` is None for a typed NULL.

    Two are equal if their values are equal for an engine, and are then printed alike: zero has no sign, and all NaN are one.
    (Python would find NaN unequal to itself, and True equal to 1.)
    """

    value: Value

    def __post_init__(self) -> None:
        if isinstance(self.value, float):
            settle(self, "value", merged(self.value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._told == other._told

    def __hash__(self) -> int:
        return hash(self._told)

    @property
    def _told(self) -> tuple[Type, bool, Value]:
        missing = isinstance(self.value, float) and math.isnan(self.value)
        return self.type, missing, None if missing else self.value


class Ref(Expr):
    """A column of the relation below, by its plan-wide identifier."""

    column: str


class Call(Expr):
    """A function or operator of the table `functions.FUNCTIONS`, already resolved to one overload."""

    function: str
    args: tuple[Expr, ...]


class Case(Expr):
    """CASE WHEN condition THEN value ... ELSE otherwise END; the first true condition decides."""

    branches: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr


class Cast(Expr):
    """A conversion that gives NULL if it fails.

    `target` is the SQL type asked for (such as ``INTEGER`` or ``DECIMAL(10,2)``); `type` the wide type it is carried in.
    """

    input: Expr
    target: str


class Placeholder(Expr):
    """The value of a scalar subquery. It is released before the expression is evaluated, and then replaces the placeholder.

    The facts stated here hold for every value that will take its place (`rules.substitute` ensures this), so all that was proved
    for an expression stays proved. The value may be NULL. A placeholder is never printed for an engine.
    """

    id: str
    physical: Interval
    declared: Interval
    text: str = field(default="", compare=False)


def predicate(function: str, *args: Expr) -> Call:
    """A call that is true, false or NULL."""
    return Call(function=function, args=args, type=Type.BOOLEAN)


def whole(number: int) -> Literal:
    return Literal(value=number, type=Type.BIGINT)


def real(number: float) -> Literal:
    return Literal(value=number, type=Type.DOUBLE)


def has_value(expr: Expr) -> Expr:
    """The test that a value is neither NULL nor NaN."""
    return predicate("not", predicate("isnan", expr)) if expr.type is Type.DOUBLE else predicate("is not null", expr)


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct sub-expressions, in the order in which they are printed."""
    match expr:
        case Call(args=args):
            return args
        case Case(branches=branches, otherwise=otherwise):
            return (*(part for branch in branches for part in branch), otherwise)
        case Cast(input=below):
            return (below,)
        case _:
            return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and everything below it."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def columns(expr: Expr) -> frozenset[str]:
    """The identifiers of all columns that the expression reads."""
    return frozenset(part.column for part in walk(expr) if isinstance(part, Ref))


def rewrite(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Replace, from the top, every sub-expression for which `change` returns another one."""
    changed = change(expr)
    if changed is not None:
        return changed
    match expr:
        case Call(args=args):
            return replace(expr, args=tuple(rewrite(arg, change) for arg in args))
        case Case(branches=branches, otherwise=otherwise):
            pairs = tuple((rewrite(when, change), rewrite(then, change)) for when, then in branches)
            return replace(expr, branches=pairs, otherwise=rewrite(otherwise, change))
        case Cast(input=below):
            return replace(expr, input=rewrite(below, change))
        case _:
            return expr


TRUE = Literal(value=True, type=Type.BOOLEAN)


def conjuncts(condition: Expr | None) -> tuple[Expr, ...]:
    """The parts of a condition that are joined by AND; none if there is no condition."""
    if condition is None:
        return ()
    if isinstance(condition, Call) and condition.function == "and":
        return tuple(part for arg in condition.args for part in conjuncts(arg))
    return (condition,)


def all_of(parts: list[Expr]) -> Expr | None:
    """The conjunction of conditions; None for none."""
    result: Expr | None = None
    for part in parts:
        result = part if result is None else Call(function="and", args=(result, part), type=Type.BOOLEAN)
    return result
