"""Bands: the plan, the price, which bands are kept, and how near the answer comes."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pytest
from support.extensions.given import Given

from dpsql.mechanisms.mechanism import Shared, TaskContext
from dpsql.mechanisms.truncation.bands import SHARE, TOP, Bands, in_bands
from dpsql.questions.no_public_facts import NoPublicFacts
from dpsql.trusted.accounting.cost import Cost, concentrated, pure
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.plan.certificate import certify
from dpsql.trusted.plan.node import Printing, fold
from dpsql.trusted.plan.operators.contributions import Contributions
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Count, GridSum, Summand

ALONE = TaskContext(keys=(), cells=((),))
VALUES = GridSum(column="v", grid=Quantizer(low=-(2**39), high=2**39, step=Fraction(1), from_low=False))


def given(rows: list[tuple[Any, ...]], summand: Summand, groups: int | None = None) -> Shared:
    below = Given(columns=(("owner", "BIGINT"), ("k", "VARCHAR"), ("v", "BIGINT")), rows=tuple(rows), owners=("owner",))
    return Shared(at=0, input=below, owners=("owner",), summand=summand, bound="bands", most=1, groups=groups)  # type: ignore[arg-type]


def totals(plan: GroupedSums) -> dict[tuple[Any, ...], int]:
    found = duckdb.sql(fold(plan, lambda node, below: node.render(below, Printing()))).fetchall()
    return {tuple(key): total for *key, total in found}


def play(request: NoisySums, noise: float, draw: np.random.Generator) -> MeasuredSums:
    """What the kernel would answer, with continuous noise of this scale."""
    exact = totals(request.plan)
    return MeasuredSums(totals=(((tuple(round(exact.get(cell, 0) + draw.laplace() * noise) for cell in request.cells),),)))


def run(task: Shared, context: TaskContext, allotted: Cost, *, noise: bool = True, seed: int = 0) -> Any:
    running = Bands().run([(task, allotted)], context)
    request = next(running)
    assert isinstance(request, NoisySums)
    scale = math.sqrt(request.noises[0].variance / 2) if noise else 0.0
    with pytest.raises(StopIteration) as done:
        running.send(play(request, scale, np.random.default_rng(seed)))
    return done.value.value[0][0]


def test_every_total_is_in_the_band_of_its_power_of_two_as_its_share() -> None:
    sizes = [0, 1, 2, 3, 4, 5, 8, 9, 2**20, 2**20 + 1, 2**39 - 1, 2**39]
    rows = [(i, "x", sign * size) for i, (sign, size) in enumerate((sign, size) for sign in (1, -1) for size in sizes)]
    contributions = Contributions(input=given(rows, VALUES).input, owner="owner", keys=(), summands=(VALUES,))
    plan = GroupedSums(input=in_bands(contributions, ()), keys=("band",), summands=(GridSum(column="share", grid=SHARE),))
    expected: dict[tuple[int], float] = defaultdict(float)
    for _, _, value in rows:
        power = math.ceil(math.log2(abs(value))) if value else 0
        expected[(int(math.copysign(power + 1, value)) if value else 0,)] += abs(value) / 2**power
    found = totals(plan)
    assert found.keys() == expected.keys()
    for band, total in found.items():
        assert total / 2**30 == pytest.approx(expected[band], abs=1e-8)


@pytest.mark.parametrize("allotted", [pure(Fraction(8, 10)), concentrated(Fraction(1, 50))])
@pytest.mark.parametrize("keys", [(), ("k",)])
def test_all_bands_together_cost_the_price_once(allotted: Cost, keys: tuple[str, ...]) -> None:
    context = TaskContext(keys=keys, cells=(("x",), ("y",)) if keys else ((),))
    request = next(Bands().run([(given([(1, "x", 5)], VALUES, 3), allotted)], context))
    assert isinstance(request, NoisySums)
    cost = request.cost(certify(request.plan, NoPublicFacts()))
    assert allotted.covers(cost)
    if allotted.epsilon:
        assert cost.epsilon == pytest.approx(allotted.epsilon)
    else:
        assert float(cost.rho) == pytest.approx(float(allotted.rho))
    numbers = {key[-1] for key in request.cells}
    assert numbers == {*range(1, TOP + 2), *range(-TOP - 1, 0)} and len(request.cells) == len(context.cells) * len(numbers)


def test_counts_have_no_negative_bands() -> None:
    request = next(Bands().run([(given([(1, "x", 5)], Count()), pure(Fraction(1)))], ALONE))
    assert isinstance(request, NoisySums) and {cell[0] for cell in request.cells} == set(range(1, TOP + 2))


def test_without_noise_the_answer_is_exact() -> None:
    rows = [(i, "xy"[i % 2], (-1) ** (i % 3) * (i + 1) * 2) for i in range(200)]
    context = TaskContext(keys=("k",), cells=(("y",), ("x",)))
    truth = [sum(value for _, key, value in rows if key == cell) for cell, in context.cells]
    assert run(given(rows, VALUES, 2), context, pure(Fraction(50)), noise=False).values == pytest.approx(truth, abs=1e-4)


def test_the_answer_is_within_a_few_errors_of_the_truth() -> None:
    draw = np.random.default_rng(2)
    sizes = np.ceil(draw.pareto(2.5, 400) + 1).astype(int) * 10
    task = given([(i, "x", int(size)) for i, size in enumerate(sizes)], VALUES)
    request = next(Bands().run([(task, pure(Fraction(1)))], ALONE))
    assert isinstance(request, NoisySums)
    exact, misses = totals(request.plan), []
    for _ in range(300):
        running = Bands().run([(task, pure(Fraction(1)))], ALONE)
        next(running)
        scale = math.sqrt(request.noises[0].variance / 2)
        told = tuple(round(exact.get(cell, 0) + draw.laplace() * scale) for cell in request.cells)
        with pytest.raises(StopIteration) as done:
            running.send(MeasuredSums(totals=((told,),)))
        ((estimate,),) = done.value.value
        misses.append(abs(estimate.values[0] - sizes.sum()) / estimate.deviations[0])
    assert np.median(misses) < 1.5 and np.quantile(misses, 0.9) < 4
