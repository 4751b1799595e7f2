"""The range that the checker derives for clamped whole numbers: that of the two constants, and of nothing that only looks like them."""

from __future__ import annotations

import math

import pytest

from dpsql.trusted.kernel.shapes import ColumnShape, typed
from dpsql.trusted.plan.expr.nodes import Call, Expr, Ref, real, whole
from dpsql.types import Type

COLUMNS = {"x": ColumnShape(type=Type.BIGINT), "y": ColumnShape(type=Type.DOUBLE)}
X, Y = Ref(column="x", type=Type.BIGINT), Ref(column="y", type=Type.DOUBLE)


def call(function: str, *args: Expr, kind: Type = Type.BIGINT) -> Expr:
    return Call(function=function, args=args, type=kind)


@pytest.mark.parametrize(("high", "low", "ends"), [(5, -3, (-3, 5)), (2**50, -(2**50), (-(2**50), 2**50)), (1, 7, (7, 7))])
def test_two_constants_hold_a_value(high: int, low: int, ends: tuple[int, int]) -> None:
    found = typed(call("greatest", call("least", X, whole(high)), whole(low)), COLUMNS)
    assert (found.low, found.high) == ends


@pytest.mark.parametrize("expr", [
    call("least", X, whole(5)), call("greatest", X, whole(-3)), call("greatest", call("least", whole(5), X), whole(-3)),
    call("greatest", call("least", X, X), whole(-3)), call("greatest", call("least", X, whole(5)), X),
    call("greatest", call("greatest", X, whole(5)), whole(-3)), call("least", call("least", X, whole(5)), whole(-3)),
    call("greatest", call("least", X, whole(5), X), whole(-3)),
    call("greatest", call("least", Y, real(5.0), kind=Type.DOUBLE), real(-3.0), kind=Type.DOUBLE)])
def test_nothing_else_does(expr: Expr) -> None:
    found = typed(expr, COLUMNS)
    assert (found.low, found.high) == (-math.inf, math.inf)
