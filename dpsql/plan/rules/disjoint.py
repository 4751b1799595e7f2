"""Conditions that no row can fulfil together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dpsql.plan.expr.nodes import Call, Expr, Literal, Ref, Value, conjuncts
from dpsql.types import Type

Ends = tuple[float, bool, float, bool]  # from, inside, to, inside
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


Known = Mapping[Ref, tuple[set[Value] | None, Ends]]


def disjoint(first: Known, second: Known) -> bool:
    """Whether no row can fulfil two conjunctions, of which this is `known`.

    Proof. A row that fulfils a conjunction fulfils each part of it, and then no part is NULL. So where parts on either side
    say of one column in which set its value lies, and the sets do not meet, no row of any database fulfils both sides.
    "False" says only that this was not shown. (NaN counts as the greatest number: it can fulfil only comparisons without an
    upper end, and of two intervals that do not meet one has such an end.)
    """
    return any(_apart(first[column], second[column]) for column in first.keys() & second.keys())


def known(parts: Sequence[Expr]) -> Known:
    """For each column the finite set, or else the interval, in which its value lies where all parts are true."""
    found: dict[Ref, tuple[set[Value] | None, Ends]] = {}
    for whole in parts:
        for part in conjuncts(whole):
            said = _said(part)
            if said is not None:
                column, values, ends = said
                old = found.get(column, (None, (-math.inf, True, math.inf, True)))
                found[column] = (_meet(old[0], values), _within(old[1], ends))
    return found


def _said(part: Expr) -> tuple[Ref, set[Value] | None, Ends] | None:
    """What a part says of one column."""
    everything: Ends = (-math.inf, True, math.inf, True)
    if isinstance(part, Ref) and part.type is Type.BOOLEAN:
        return part, {True}, everything
    if not isinstance(part, Call):
        return None
    if part.function == "not" and isinstance(part.args[0], Ref):
        return part.args[0], {False}, everything
    if part.function == "in" and isinstance(part.args[0], Ref):
        listed = [arg.value for arg in part.args[1:] if isinstance(arg, Literal) and arg.type is part.args[0].type]
        return (part.args[0], set(listed), everything) if len(listed) == len(part.args) - 1 else None
    if part.function == "or":
        sides = [_said(arg) for arg in part.args]
        sets = [side[1] for side in sides if side is not None and side[1] is not None]
        columns = {side[0] for side in sides if side is not None}
        if len(sets) == len(sides) and len(columns) == 1:
            return columns.pop(), set[Value]().union(*sets), everything
        return None
    if part.function not in MIRRORED or len(part.args) != 2:
        return None
    left, right = part.args
    function = part.function
    if isinstance(left, Literal):
        left, right, function = right, left, MIRRORED[function]
    if not isinstance(left, Ref) or not isinstance(right, Literal) or right.value is None or left.type is not right.type:
        return None
    if function == "=":
        value = right.value
        return None if isinstance(value, float) and math.isnan(value) else (left, {value}, everything)
    if isinstance(right.value, bool) or not isinstance(right.value, int | float) or math.isnan(right.value):
        return None
    end = float(right.value)
    if isinstance(right.value, int) and end != right.value:
        return None  # a float does not hold it
    if function in ("<", "<="):
        return left, None, (-math.inf, True, end, function == "<=")
    return left, None, (end, function == ">=", math.inf, True)


def _meet(first: set[Value] | None, second: set[Value] | None) -> set[Value] | None:
    if first is None or second is None:
        return second if first is None else first
    return first & second


def _within(first: Ends, second: Ends) -> Ends:
    low = max((first[0], not first[1]), (second[0], not second[1]))
    high = min((first[2], first[3]), (second[2], second[3]))
    return low[0], not low[1], high[0], high[1]


def _apart(first: tuple[set[Value] | None, Ends], second: tuple[set[Value] | None, Ends]) -> bool:
    if first[0] is not None and second[0] is not None:
        return not first[0] & second[0]
    if first[0] is None and second[0] is None:
        low, low_in, high, high_in = _within(first[1], second[1])
        return low > high or (low == high and not (low_in and high_in))
    values, ends = (first[0], second[1]) if first[0] is not None else (second[0], first[1])
    assert values is not None
    return all(isinstance(value, int | float) and not isinstance(value, bool) and not _holds(ends, value) for value in values)


def _holds(ends: Ends, value: float) -> bool:
    low, low_in, high, high_in = ends
    return (value > low or (low_in and value == low)) and (value < high or (high_in and value == high))
