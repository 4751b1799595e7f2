"""Pairs of conditions that share no row are found together as they are one by one."""

from __future__ import annotations

import datetime as dt
import math
from random import Random

import pytest

from dpsql.trusted.plan.disjoint import disjoint, is_simple, known, pairs_apart
from dpsql.trusted.plan.expr.nodes import Expr, Literal, Ref, Value, predicate
from dpsql.types import Type

VALUES: dict[Type, list[Value]] = {
    Type.BIGINT: [-1, 0, 1, 2, 2**62], Type.DOUBLE: [-0.0, 0.0, 0.5, math.nan, math.inf, -math.inf],
    Type.VARCHAR: ["", "a", "b", "ä"], Type.DATE: [dt.date(2020, 1, day) for day in (1, 2, 3)],
    Type.TIMESTAMP: [dt.datetime(2020, 1, 1, hour) for hour in (1, 2, 3)]}


def condition(dice: Random) -> Expr:
    kind = dice.choice(list(VALUES))
    ref = Ref(column=kind.value, type=kind)
    word = dice.choice(("=", "<", "<=", ">", ">=", "<", ">", "<>", "in"))
    return predicate(word, ref, *(Literal(value=dice.choice([*VALUES[kind], None]), type=kind) for _ in range(1 + (word == "in"))))


@pytest.mark.parametrize("seed", range(20))
def test_pairs_are_apart_where_they_are_disjoint(seed: int) -> None:
    dice = Random(seed)
    sides = [known([condition(dice) for _ in range(dice.randint(0, 6))]) for _ in range(60)]
    simple = [side for side in sides if is_simple(side)]
    assert len(simple) > 20
    found = pairs_apart(simple)
    for i, first in enumerate(simple):
        for j, second in enumerate(simple):
            assert found[i, j] == disjoint(first, second), (first, second)
    assert found.any() and not found.all()


def test_a_set_of_several_values_is_not_simple() -> None:
    ref = Ref(column="v", type=Type.BIGINT)
    listed = [Literal(value=value, type=Type.BIGINT) for value in (1, 2)]
    assert not is_simple(known([predicate("in", ref, *listed)]))
    assert is_simple(known([predicate("in", ref, listed[0])])) and is_simple(known([]))
    assert not is_simple(known([predicate("in", ref, Literal(value=None, type=Type.BIGINT))]))
