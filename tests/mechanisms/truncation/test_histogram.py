"""Limits learned from a noisy histogram: the plan, the price, and how well the limit balances what is cut off and the noise."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pytest
from support.extensions.given import Given

from dpsql.mechanisms.truncation import histogram
from dpsql.mechanisms.truncation.histogram import best, bin_of, deviation_of, drawn, learned, norms_of, rows_of
from dpsql.questions.no_public_facts import NoPublicFacts
from dpsql.trusted.accounting.cost import Cost, concentrated, pure
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.measurements.several.balanced_levels import BalancedLevel
from dpsql.trusted.measurements.several.levels import ExtensionSums
from dpsql.trusted.noise.integer import DiscreteGaussian, DiscreteLaplace
from dpsql.trusted.plan.certificate import Certificate, certify, stability
from dpsql.trusted.plan.expr.nodes import Ref
from dpsql.trusted.plan.node import Printing, fold
from dpsql.trusted.plan.operators.contributions import Contributions
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import GridSum
from dpsql.types import Type

VALUES = GridSum(column="v", grid=Quantizer(low=-(2**39), high=2**39, step=Fraction(1), from_low=False))
PURSES = [pure(Fraction(8, 10)), concentrated(Fraction(1, 50))]


def table(*rows: tuple[Any, ...]) -> Given:
    return Given(columns=(("owner", "BIGINT"), ("k", "VARCHAR"), ("v", "BIGINT")), rows=rows, owners=("owner",))


def contributions(rows: Given, keys: tuple[str, ...] = ()) -> Contributions:
    return Contributions(input=rows, owner="owner", keys=keys, summands=(VALUES,))


def played(script: Any) -> tuple[Any, NoisySums]:
    """What a script returns where the kernel adds no noise, and what it asked."""
    request = next(script)
    exact = dict(duckdb.sql(fold(request.plan, lambda node, below: node.render(below, Printing()))).fetchall())
    with pytest.raises(StopIteration) as done:
        script.send(MeasuredSums(totals=((tuple(exact.get(place, 0) for place, in request.cells),),)))
    return done.value.value, request


@pytest.mark.parametrize("allotted", PURSES)
@pytest.mark.parametrize("order", [1, 2])
def test_all_bins_together_cost_the_price_once(allotted: Cost, order: int) -> None:
    given = table((1, "x", 5))
    scripts = [learned(norms_of(contributions(given, ("k",)), order), VALUES.l1, allotted, deviation_of(allotted, 3)),
               learned(rows_of(given, "owner"), 1, allotted, deviation_of(allotted, 3))]
    for script in scripts:
        request = next(script)
        assert isinstance(request, NoisySums)
        cost = request.cost(certify(request.plan, NoPublicFacts()))
        assert allotted.covers(cost)
        assert math.isclose(*((cost.epsilon, allotted.epsilon) if allotted.epsilon else (cost.rho, allotted.rho)), rel_tol=1e-9)  # type: ignore[arg-type]


def test_bins_are_half_powers_of_two() -> None:
    sizes = [0, 1, 2, 3, 4, 5, 6, 8, 9, 11, 12, 2**20, 2**20 + 1, 2**38 + 1, 2**39, 2**50, 2**52]
    given = Given(columns=(("size", "BIGINT"),), rows=tuple((size,) for size in sizes), nullable=False)
    plan = Project(input=given, columns=(("bin", "bin", bin_of(Ref(column="size", type=Type.BIGINT), 100)),))  # type: ignore[arg-type]
    found = [place for place, in duckdb.sql(fold(plan, lambda node, below: node.render(below, Printing()))).fetchall()]
    assert found == [-1, *(min(100, math.ceil(2 * math.log2(size))) for size in sizes[1:])]


@pytest.mark.parametrize("row", [1, 3, 1000, 9_999_900, 2**30, 2**40 - 1])
def test_a_bin_ends_at_a_row_at_its_bound(row: int) -> None:
    ends = histogram.ends_of(101, row)
    sizes = [1, 2, row - 1, row, row + max(1, row // 2**20), 2 * row, 3 * row]
    given = Given(columns=(("size", "BIGINT"),), rows=tuple((size,) for size in sizes), nullable=False)
    plan = Project(input=given, columns=(("bin", "bin", bin_of(Ref(column="size", type=Type.BIGINT), 100, row)),))  # type: ignore[arg-type]
    found = [place for place, in duckdb.sql(fold(plan, lambda node, below: node.render(below, Printing()))).fetchall()]
    for size, place in zip(sizes, found, strict=True):
        if size:
            assert size <= ends[place] * (1 + 1e-9) and (place in (0, 100) or size > ends[place - 1] * (1 - 1e-9))
    at = found[sizes.index(row)]
    assert math.isclose(ends[at], row, rel_tol=1e-12) and (row == 1 or found[4] == at + 1)
    counts = [0] * 101
    counts[at] = 10**6
    script = learned(rows_of(table((1, "x", 5)), "owner"), row, pure(Fraction(1)), lambda limit: limit)
    next(script)
    with pytest.raises(StopIteration) as done:
        script.send(MeasuredSums(totals=((tuple(counts),),)))
    assert done.value.value.limit == row


def test_rows_and_norms_are_what_is_counted() -> None:
    rows = [(entity, "xyz"[i % 3], 100 if i else -100) for entity in range(40) for i in range(5)]
    allotted = pure(Fraction(50))
    for order, size in ((1, 500), (2, math.hypot(100, 200, 100))):  # y sums to 200, z to 100, x to 0 or so
        found, _ = played(learned(norms_of(contributions(table(*rows), ("k",)), order), VALUES.l1, allotted, deviation_of(allotted, 3)))
        sizes = Counter[str]()
        for entity, key, value in rows:
            sizes[key] += value if entity == 0 else 0
        norm = sum(abs(total) for total in sizes.values()) if order == 1 else math.hypot(*sizes.values())
        assert norm <= found.limit <= norm * 2**0.5 + 1, size
        assert 0.8 * 40 * norm <= found.total <= 1.25 * 40 * norm
    found, _ = played(learned(rows_of(table(*rows), "owner"), 1, allotted, deviation_of(allotted, 1)))
    assert found.limit == 6  # five rows are below 2^2.5


def test_without_noise_the_limit_is_the_best_of_its_ladder() -> None:
    draw, noise = np.random.default_rng(3), DiscreteLaplace(scale=0.01)
    for _ in range(40):
        totals = np.exp(draw.normal(draw.uniform(1, 8), draw.uniform(0.1, 1.5), 3000))
        counts = np.bincount(np.maximum(np.ceil(2 * np.log2(totals)), 0).astype(int), minlength=80).astype(float)
        unit = draw.uniform(0.5, 50)
        place = best(counts, noise, 1, lambda limit, unit=unit: unit * limit)
        assert place is not None
        errors = [math.hypot(np.maximum(totals - 2 ** (k / 2), 0).sum(), unit * 2 ** (k / 2)) for k in range(len(counts))]
        assert errors[place] < 1.5 * min(errors)


@pytest.mark.parametrize("noise", [DiscreteLaplace(scale=3.3), DiscreteGaussian(sigma=2.6)])
def test_few_entities_with_most_of_the_total_are_seen_together(noise: Any, effort: float) -> None:
    """Those of 4,000 that pay thousands of times as much: their bins hold too few to be seen one by one."""
    draw, places = np.random.default_rng(7), Counter[int | None]()
    counts = np.zeros(101)
    counts[10:18], counts[38:46] = 480, [7, 14, 26, 42, 68, 102, 85, 34]
    for _ in range(int(300 * effort)):
        drawn_ = draw.laplace(0, 3.3, 101) if isinstance(noise, DiscreteLaplace) else draw.normal(0, 2.6, 101)
        places[best(np.round(counts + drawn_), noise, 2**27, lambda limit: 1.5 * limit)] += 1
    assert sum(number for place, number in places.items() if place in (44, 45, 46)) > 0.95 * places.total(), places


@pytest.mark.parametrize("noise", [DiscreteLaplace(scale=2.0), DiscreteGaussian(sigma=2.0)])
def test_what_is_falsely_taken_for_the_top_costs_little_on_average(noise: Any, effort: float) -> None:
    """In squares: a limit that is d octaves too high has 4^d times the mean square error."""
    draw, squares = np.random.default_rng(6), []
    counts = np.concatenate(([0.0] * 20, [200.0], [0.0] * 79))
    for _ in range(int(4000 * effort)):
        drawn_ = draw.laplace(0, 2.0, 100) if isinstance(noise, DiscreteLaplace) else draw.normal(0, 2.0, 100)
        top = best(counts + drawn_, noise, 2**50, lambda limit: limit)
        assert top is not None
        squares.append(4.0 ** ((top - 20) / 2))
    assert np.mean(squares) < 2


def test_counts_that_disagree_show_no_limit() -> None:
    """One bin stands out, and yet so far up that the top is below it: then a limit is drawn."""
    noise, counts = DiscreteLaplace(scale=10.0), np.zeros(101)
    needed = 10.0 * histogram.STEEPNESS[True] * 30 * math.log(2)
    for more, place in ((-1.0, None), (1.0, 60)):
        counts[60] = needed + more
        assert best(counts, noise, 2**40, lambda limit: limit) == place


def test_a_false_alarm_far_up_is_rare_and_a_row_decides_where_nothing_stands_out(effort: float) -> None:
    draw, noise, found = np.random.default_rng(4), DiscreteLaplace(scale=8.0), Counter[int | None]()
    for _ in range(int(3000 * effort)):
        found[best(np.round(draw.laplace(0, 8.0, 101)), noise, 1000, lambda limit: limit)] += 1
    assert found[None] > 0.99 * found.total() and max((place for place in found if place is not None), default=0) < 45
    request = next(script := learned(rows_of(table((1, "x", 5)), "owner"), 1, pure(Fraction(1)), deviation_of(pure(Fraction(1)), 1)))
    with pytest.raises(StopIteration) as done:
        script.send(MeasuredSums(totals=(((0,) * len(request.cells),),)))
    assert done.value.value is None


@pytest.mark.parametrize("allotted", PURSES)
def test_a_limit_is_drawn_for_the_price(allotted: Cost) -> None:
    given = table(*((i, "x", i) for i in range(9) for _ in range(i)))
    script = drawn(rows_of(given, "owner"), "owner", allotted)
    level = next(script)
    assert isinstance(level, BalancedLevel) and level.levels[:7] == (1, 2, 3, 4, 6, 8, 12)
    cost = level.cost(Certificate(below=stability(level.plan.input, NoPublicFacts()), summands=()))
    assert allotted.covers(cost)
    assert (cost.epsilon or 0) > allotted.as_epsilon * Fraction(9, 10)
    sizes = dict(duckdb.sql(fold(level.plan, lambda node, below: node.render(below, Printing()))).fetchall())
    assert sizes == {i: i for i in range(1, 9)}
    with pytest.raises(StopIteration) as done:
        script.send(ExtensionSums(totals=(), levels=((20,),)))
    assert done.value.value == level.levels[20]


def test_nothing_is_drawn_for_a_price_that_is_too_small() -> None:
    with pytest.raises(StopIteration) as done:
        next(drawn(rows_of(table((1, "x", 5)), "owner"), "owner", pure(Fraction(1, 10**11))))
    assert done.value.value == 1


def test_the_noise_of_a_limit() -> None:
    assert deviation_of(pure(Fraction(1, 2)), 3)(10) == pytest.approx(3 * 10 * math.sqrt(2) * 2)
    assert deviation_of(concentrated(Fraction(1, 8)), 3)(10) == pytest.approx(3 * 10 * 2)
    for allotted, noise in ((pure(Fraction(1, 2)), DiscreteLaplace(scale=20.0)), (concentrated(Fraction(1, 8)), DiscreteGaussian(sigma=20.0))):
        assert deviation_of(allotted, 1)(10) == pytest.approx(math.sqrt(noise.variance), rel=1e-3)
