"""Substitute released values for their placeholders."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from dpsql.frozen import field_names, replace
from dpsql.questions.question import Ordering, Output, Question
from dpsql.trusted.plan.expr.functions import day_number
from dpsql.trusted.plan.expr.nodes import Case, Expr, Literal, Placeholder, Ref, Value
from dpsql.trusted.plan.node import Node
from dpsql.types import Interval, Type

Tree = TypeVar("Tree")
_PARTS = (Node, Expr, Question, Output, Ordering)


def substitute(tree: Tree, values: Mapping[str, Value]) -> Tree:
    """A plan, a question or an expression with values substituted for placeholders; a placeholder without a value stays.

    What was proved before still holds: values are clamped to the ranges that their placeholders declare (`clamped_value`), and a
    NULL gets such a range too, so facts can only become narrower.
    """
    def change(part: Placeholder) -> Expr:
        return _constant(part, values[part.id]) if part.id in values else part

    return _changed(tree, change)  # type: ignore[no-any-return]


def as_columns(tree: Tree) -> Tree:
    """The same, with placeholders turned into columns, for expressions over rows that contain their values."""
    return _changed(tree, lambda part: Ref(column=part.id, type=part.type, span=part.span))  # type: ignore[no-any-return]


def has_placeholders(tree: object) -> dict[str, Placeholder]:
    """The placeholders in a plan, a question or an expression, by their ids."""
    found: dict[str, Placeholder] = {}

    def change(part: Placeholder) -> Expr:
        found[part.id] = part
        return part

    _changed(tree, change)
    return found


def clamped_value(awaited: Placeholder, value: Value) -> Value:
    """A released value, clamped to the ranges that its placeholder declares; None for NaN and infinities."""
    if isinstance(value, bool | str) or value is None:
        return value
    for ends in (awaited.declared, awaited.physical):
        value = _clamp(value, ends)
    return value


def _clamp(value: Any, ends: Interval) -> Value:
    if isinstance(value, dt.date):
        day = min(max(day_number(value), ends.low), ends.high)
        return value if day == day_number(value) else dt.datetime.fromordinal(math.floor(day)) if isinstance(
            value, dt.datetime) else dt.date.fromordinal(math.floor(day))
    if value is None or not math.isfinite(value):
        return None
    return type(value)(min(max(value, ends.low), ends.high))  # type: ignore[no-any-return]


def _constant(awaited: Placeholder, value: Value) -> Expr:
    kept = clamped_value(awaited, value)
    if kept is not None:
        return Literal(value=kept, type=awaited.type, span=awaited.span)
    null = Literal(value=None, type=awaited.type, span=awaited.span)
    never = Literal(value=False, type=Type.BOOLEAN)
    return Case(branches=((never, _some(awaited)),), otherwise=null, type=awaited.type, span=awaited.span)


def _some(awaited: Placeholder) -> Expr:
    """A value in the ranges, for the branch of a CASE that is never taken and gives a NULL the facts of the placeholder."""
    some: dict[Type, Value] = {Type.BOOLEAN: False, Type.BIGINT: 0, Type.DOUBLE: 0.0, Type.VARCHAR: "",
                               Type.DATE: dt.date(1970, 1, 1), Type.TIMESTAMP: dt.datetime(1970, 1, 1)}
    return Literal(value=clamped_value(awaited, some[awaited.type]), type=awaited.type)


def _changed(tree: Any, change: Callable[[Placeholder], Expr]) -> Any:
    """The tree with every placeholder changed; the same object if there is none."""
    if isinstance(tree, Placeholder):
        return change(tree)
    if isinstance(tree, tuple):
        parts = tuple(_changed(part, change) for part in tree)
        return tree if all(new is old for new, old in zip(parts, tree, strict=True)) else parts
    if not isinstance(tree, _PARTS):
        return tree
    found = {name: (getattr(tree, name), _changed(getattr(tree, name), change)) for name in field_names(type(tree))}
    updates = {name: new for name, (old, new) in found.items() if new is not old}
    return replace(tree, **updates) if updates else tree
