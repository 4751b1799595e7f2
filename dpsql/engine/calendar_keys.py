"""Which keys of a question tell the period of a calendar: any that the day decides, such as a CASE over first days, a month where
terms begin with months, or the day itself. They are computed for every day that is read, so no form of them is needed."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from dpsql.engine.session import Session
from dpsql.frozen import Frozen
from dpsql.questions.question import Key
from dpsql.questions.rules.substitute import has_placeholders
from dpsql.sql.binding import typing
from dpsql.trusted.declarations.growth import KINDS, PeriodRange
from dpsql.trusted.declarations.tables import Domain
from dpsql.trusted.plan.expr.nodes import Call, Expr, Literal, Ref, columns, rewrite, walk
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.project import Project
from dpsql.types import Type

STARTS = frozenset(f"date_trunc_{kind}" for kind in KINDS)


class ValuesOfKey(Frozen):
    """The values of a key in each of some periods, of which none has a value of another one if the key is `telling`."""

    each: tuple[Domain, ...]

    @property
    def telling(self) -> bool:
        return len({value for one in self.each for value in one.values}) == sum(map(len, self.each))

    @property
    def whole(self) -> bool:
        """Whether each period has one value."""
        return self.telling and all(len(one) == 1 for one in self.each)


def values_of(key: Key, view: Node, time: str, periods: Sequence[PeriodRange], session: Session) -> ValuesOfKey | None:
    """The values of a key in periods of a calendar; None if the day alone does not decide it."""
    if key.nullable or (expr := _of_time(key, view, time)) is None:
        return None
    kind, days = expr_type(expr, time), [day for one in periods for day in range(one.first, one.last + 1)]
    moments: list[Any] = [dt.date.fromordinal(day) for day in days]
    if kind is Type.TIMESTAMP:
        moments = [dt.datetime.combine(day, dt.time()) for day in moments]
    values = [value for value, in session.scratch.evaluate([expr], {time: (kind, moments)})]
    if None in values:
        return None
    known = None if key.domain is None else key.domain.values
    found, at = list[Domain](), 0
    for one in periods:
        own = sorted({*values[at:at + len(one)]})
        found.append(Domain(tuple(value for value in own if known is None or value in known)))
        at += len(one)
    return ValuesOfKey(each=tuple(found)) if all(map(len, found)) else None


def one_of(key: Key, values: Domain, view: Node) -> Expr:
    """The condition that a key has one of some values."""
    column = Ref(column=key.column, type=key.type)
    tests = [typing.call("=", [column, Literal(value=value, type=key.type)], view.env, None) for value in values.values]
    return functools.reduce(lambda one, other: typing.call("or", [one, other], view.env, None), tests)


def expr_type(expr: Expr, time: str) -> Type:
    """The type of the column of time in an expression."""
    return next(part.type for part in walk(expr) if isinstance(part, Ref) and part.column == time)


def _below(exprs: Mapping[str, Expr], part: Expr) -> Expr | None:
    return exprs.get(part.column) if isinstance(part, Ref) else None


def _of_time(key: Key, view: Node, time: str) -> Expr | None:
    """A key as an expression of a day; None if it depends on something else, such as the hour."""
    expr: Expr = Ref(column=key.column, type=key.type)
    while isinstance(view, Project | Filter):
        if isinstance(view, Project):
            below = {column: found for column, _, found in view.columns}
            expr = rewrite(expr, functools.partial(_below, below))
        view = view.input
    if columns(expr) != {time} or has_placeholders(expr) or time not in view.env:
        return None
    if expr_type(expr, time) is Type.DATE:
        return expr
    starts = isinstance(expr, Call) and expr.function in STARTS and isinstance(expr.args[0], Ref)
    return expr if starts else None
