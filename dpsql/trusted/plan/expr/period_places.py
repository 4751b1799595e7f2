"""The place of a time among days on which periods begin, as an expression."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from dpsql.trusted.plan.expr.nodes import Case, Expr, Literal, Ref, predicate, whole
from dpsql.types import Type


def place_among(time: Ref, first_days: Sequence[int]) -> Expr:
    """The place, from 0 on, of the last one of some days that is not after a time, or the first place if all are. The days are in
    order, as `date.toordinal` numbers them.

    Each comparison halves the days that remain, so that the expression is not deep where they are many.
    """
    def among(begin: int, end: int) -> Expr:
        if end - begin == 1:
            return whole(begin)
        middle = (begin + end) // 2
        day = dt.date.fromordinal(first_days[middle])
        value = dt.datetime.combine(day, dt.time()) if time.type is Type.TIMESTAMP else day
        earlier = predicate("<", time, Literal(value=value, type=time.type))
        return Case(branches=((earlier, among(begin, middle)),), otherwise=among(middle, end), type=Type.BIGINT)

    return among(0, len(first_days))
