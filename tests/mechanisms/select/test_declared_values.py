"""Declared values told one by one: shares of entities, their price, which look comes second, and what is told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pytest
from support.chances import too_few
from support.extensions.given import Given

from dpsql.estimates import Estimate
from dpsql.mechanisms.mechanism import Linear, Occurrences, TaskContext
from dpsql.mechanisms.select.declared_values import LOOK, UNIT, DeclaredValues, occurring, shares_of
from dpsql.questions.no_public_facts import NoPublicFacts
from dpsql.trusted.accounting.cost import Cost, concentrated, pure
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.noise.integer import DiscreteGaussian, DiscreteLaplace
from dpsql.trusted.plan.certificate import Sensitivity, certify
from dpsql.trusted.plan.node import Printing, fold
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.summands import Count

ALONE = TaskContext(keys=(), cells=((),))
EPSILON, RHO = pure(Fraction(1)), concentrated(Fraction(1, 2))
Pairs = Sequence[tuple[int, int | None]]


def given(pairs: Pairs, *, limited: int | None = None, most: int = 20, cell: str = "x") -> Occurrences:
    """Entities and values that they have, of 1 to `most`; with a limit their number may be told instead."""
    rows = Given(columns=(("owner", "BIGINT"), ("k", "VARCHAR"), ("v", "BIGINT")), owners=("owner",),
                 rows=tuple((owner, cell, value) for owner, value in pairs))
    total = Linear(at=0, input=Distinct(input=Project(input=rows, columns=(("v", "v", rows.field("v").ref),))),
                   summand=Count(column="v"), sensitivity=Sensitivity(l1=limited, l2=limited)) if limited is not None else None
    return Occurrences(at=0, input=Distinct(input=rows), owner="owner", column="v", values=tuple(range(1, most + 1)), total=total)


@cache
def totals(plan: GroupedSums) -> dict[tuple[Any, ...], int]:
    found = duckdb.sql(fold(plan, lambda node, below: node.render(below, Printing()))).fetchall()
    return {tuple(key): total for *key, total in found}


def run(task: Occurrences, allotted: Cost, context: TaskContext = ALONE, *, seed: int = 0, noise: bool = True,
        asked: list[NoisySums] | None = None) -> Estimate:
    """What is told, with the kernel played by continuous noise."""
    draw = np.random.default_rng(seed)
    running = DeclaredValues().run([(task, allotted)], context)
    request = next(running)
    while True:
        assert isinstance(request, NoisySums)
        if asked is not None:
            asked.append(request)
        found = totals(request.plan)
        spread = math.sqrt(request.noises[0].variance) if noise else 0.0
        laplace = isinstance(request.noises[0], DiscreteLaplace)
        told = tuple(round(found.get(cell, 0) + spread * (draw.laplace() / math.sqrt(2) if laplace else draw.normal()))
                     for cell in request.cells)
        try:
            request = running.send(MeasuredSums(totals=((told,),)))
        except StopIteration as done:
            (estimate,), = done.value
            return estimate  # type: ignore[no-any-return]


COMMON = [(i, 1 + i % 14) for i in range(700)]  # 14 of 20 values, fifty entities each
ALL = [(i, 1 + i % 20) for i in range(1000)]
BUSY = [(0, value) for value in range(1, 21)]  # one entity with all values


@pytest.mark.parametrize("order", [1, 2])
def test_an_entity_moves_all_shares_by_one_unit(order: int) -> None:
    """However many values it has, beside others who have them too; and the certificate says so."""
    for extra in (BUSY, BUSY[:1], BUSY[:2], [(0, None), (0, 3)], [(0, None)], [(0, 77), (0, 1)]):
        one, other = (shares_of(given([*some, (1, 1), (1, 2), (2, 20)]), (), order=order) for some in (extra, []))
        first, second = totals(one), totals(other)
        moved = [abs(first.get(cell, 0) - second.get(cell, 0)) for cell in {*first, *second}]
        assert sum(size**order for size in moved) <= UNIT**order
        known = certify(one, NoPublicFacts()).summands[0]
        assert known.l2 == UNIT and known.l1 == (UNIT if order == 1 else None)
    assert totals(shares_of(given(BUSY), (), order=1))[3,] == pytest.approx(UNIT / 20, abs=1)
    assert totals(shares_of(given(BUSY), (), order=2))[3,] == pytest.approx(UNIT / math.sqrt(20), abs=1)


@pytest.mark.parametrize("allotted", [EPSILON, RHO])
@pytest.mark.parametrize("limited", [None, 1, 30])
@pytest.mark.parametrize("pairs", [COMMON, BUSY])
def test_all_looks_together_cost_the_price(allotted: Cost, limited: int | None, pairs: Pairs) -> None:
    asked: list[NoisySums] = []
    run(given(pairs, limited=limited), allotted, asked=asked)
    assert len(asked) == (1 if limited is None else 2)
    costs = [request.cost(certify(request.plan, NoPublicFacts())) if "k" not in request.plan.keys and len(request.plan.keys)
             else request.noises[0].cost(Sensitivity(l1=limited or 0, l2=limited or 0)) for request in asked]
    whole = sum(costs[1:], costs[0])
    assert allotted.covers(whole)
    spent, price = (whole.epsilon, allotted.epsilon) if allotted.epsilon is not None else (whole.rho, allotted.rho)
    assert spent is not None and float(spent) == pytest.approx(float(price or 0), rel=1e-6)
    assert isinstance(asked[0].noises[0], DiscreteLaplace if allotted.epsilon is not None else DiscreteGaussian)


def test_common_values_are_told_again_and_rare_ones_by_their_number() -> None:
    for pairs, limited, keys in ((COMMON, 30, ("v",)), (COMMON, 1, ()), (ALL, 1, ("v",)), ([(1, 1)], 1, ()), ([(1, 1)], 30, ("v",))):
        asked: list[NoisySums] = []
        run(given(pairs, limited=limited), EPSILON, asked=asked)
        assert asked[0].plan.keys == ("v",) and asked[1].plan.keys == keys, (limited, len(pairs))
        assert asked[0].noises[0].variance == pytest.approx(2 * (UNIT / float(LOOK)) ** 2, rel=1e-3)


@pytest.mark.parametrize("allotted", [EPSILON, RHO])
@pytest.mark.parametrize("limited", [None, 30])
def test_common_values_are_counted_without_error(allotted: Cost, limited: int | None) -> None:
    found = [run(given(COMMON, limited=limited), allotted, seed=seed) for seed in range(20)]
    assert [round(float(each.values[0])) for each in found] == [14] * 20
    assert all(each.deviations[0] < 0.5 for each in found)
    assert all(each.ends(0.99)[1][0] == 20 for each in found)


@pytest.mark.parametrize("confidence", [0.5, 0.9])
@pytest.mark.parametrize("pairs", [COMMON, BUSY, [(i, 1 + int(i**0.5) % 20) for i in range(60)], [(0, None)]])
def test_intervals_cover(pairs: Pairs, confidence: float) -> None:
    """The lower end above all: values that do not occur hardly ever stand out."""
    task, truth = given(pairs), len({value for _, value in pairs} - {None})
    found = [run(task, EPSILON, seed=seed).ends(confidence) for seed in range(120)]
    assert not too_few(sum(low[0] <= truth <= high[0] for low, high in found), 120, confidence)


def test_cells_and_conditions_are_apart() -> None:
    context = TaskContext(keys=("k",), cells=(("y",), ("x",)))
    found = run(given(COMMON), pure(Fraction(50)), context, noise=False)
    assert found.values == pytest.approx([0, 14], abs=0.05)


def test_without_noise_single_entities_count_too() -> None:
    assert run(given(BUSY), pure(Fraction(900)), noise=False).values == pytest.approx([20], abs=0.05)
    assert run(given([(1, None), (2, 5), (3, 99)]), pure(Fraction(900)), noise=False).values == pytest.approx([1], abs=0.05)


def test_chances_rise_with_shares_and_fall_where_all_that_show_are_common() -> None:
    noise = DiscreteLaplace(scale=float(UNIT))
    shares = np.array([[0.0, 1.0, 3.0, 10.0, 200.0, 230.0, 210.0, 190.0, 180.0, 220.0, 215.0, 199.0]])
    chances = occurring([shares], [noise])[0]
    assert (np.diff(chances[:4]) >= -1e-9).all() and chances[3] > 0.9 and chances[4] > 0.999
    thinning = np.array([[0.0, 1.0, 3.0, 10.0, 6.0, 14.0, 20.0, 40.0, 80.0, 25.0, 9.0, 12.0]])
    assert occurring([thinning], [noise])[0][1] > chances[1]
