"""Quantiles of rows that belong to several entities: where they are, what the weighings cost, and how far they move."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pytest
from support.extensions.given import Given
from support.joined_worlds import context_of

from dpsql.backends.duckdb import DuckReader
from dpsql.mechanisms.mechanism import Linear, Rejected, SharedRanks, TaskContext
from dpsql.mechanisms.select.threshold_search import MOST_ROUNDS, Belief, ThresholdSearch
from dpsql.questions.parts import Quantiles
from dpsql.trusted.accounting.cost import Cost, concentrated, pure
from dpsql.trusted.measurements.several.balanced_levels import Balance, BalancedLevel
from dpsql.trusted.measurements.several.levels import ExtensionSums
from dpsql.trusted.measurements.several.sets import read
from dpsql.trusted.plan.certificate import Certificate, Sensitivity
from dpsql.trusted.plan.node import Stability
from dpsql.trusted.plan.operators.owner_sets import UNIT, slack
from dpsql.trusted.plan.operators.quantizer import Quantizer

ALONE = TaskContext(keys=(), cells=((),))
GROUPED = TaskContext(keys=("k",), cells=(("x",), ("y",)))
COLUMNS = (("a", "BIGINT"), ("b", "BIGINT"), ("c", "BIGINT"), ("k", "VARCHAR"), ("v", "BIGINT"), ("real", "DOUBLE"), ("w", "BOOLEAN"))
GRID = Quantizer(low=0.0, high=40.0, step=Fraction(1), from_low=True)
Row = tuple[Any, ...]


def task(rows: list[Row], *fractions: Fraction, width: int = 2, level: int | None = None, column: str = "v",
         when: str | None = None) -> SharedRanks:
    given = Given(columns=COLUMNS, rows=tuple(rows), owners=("a", "b", "c")[:width])
    part = Quantiles(column=column, when=when, grid=GRID, fractions=fractions)
    return SharedRanks(at=0, input=given, owners=("a", "b", "c")[:width], part=part, most=64, level=level)


def drawn_rows(draw: random.Random, many: int, entities: int) -> list[Row]:
    return [(*(draw.choice([None, *range(entities)]) if i else draw.randrange(entities) for i in range(3)), draw.choice("xyz"),
             value := draw.choice([None, *range(41)]), None if value is None else value + draw.choice([0.0, 0.25]),
             draw.choice([True, False, None])) for _ in range(many)]


def asked(given: SharedRanks, context: TaskContext, price: Cost, noise: Any = None) -> tuple[Any, list[Any]]:
    """The estimates, and all that was asked; without noise, and at the level that is given."""
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("CREATE TABLE t (x BIGINT)")
    reading = context_of(DuckReader(connection, "v1"))
    script, requests, told = ThresholdSearch().run([(given, price)], context), [], None
    try:
        while True:
            request = script.send(told)
            requests.append(request)
            if isinstance(request, BalancedLevel):
                told = ExtensionSums(totals=(), levels=((3,),))
                continue
            cells = read(request.plan, request.levels, request.cells, reading)
            totals = tuple(sum(sign * part.value(0) for sign, part in zip((1, -1), parts, strict=False)) for parts in cells)
            told = ExtensionSums(totals=totals, levels=((0,),) * len(cells))
    except StopIteration as end:
        return end.value[0], requests


@pytest.mark.parametrize("column", ["v", "real"])
@pytest.mark.parametrize("fraction", [Fraction(1, 2), Fraction(1, 10), Fraction(87, 100)])
def test_without_noise_and_limit_it_is_the_quantile(column: str, fraction: Fraction) -> None:
    draw = random.Random(3)
    rows = drawn_rows(draw, 120, 40)
    (found,), requests = asked(task(rows, fraction, level=1000, column=column), ALONE, pure(Fraction(10**7)))
    values = [row[4 if column == "v" else 5] for row in rows if row[4] is not None]
    low, high = found.ends(0.95)
    assert np.quantile(values, float(fraction), method="lower") - 1.5 <= found.values[0] <= np.quantile(values, float(fraction)) + 1.5
    assert low[0] - 0.75 <= np.quantile(values, float(fraction)) <= high[0] + 0.75
    assert len(requests) == 6 and high[0] - low[0] <= 4


def test_extremes_lie_between_the_end_and_the_bound() -> None:
    rows: list[Row] = [(i, 100 + i, None, "x", 5 + i % 20, 1.0, True) for i in range(200)]
    (least, most), _ = asked(task(rows, Fraction(0), Fraction(1), level=1), ALONE, pure(Fraction(1000)))
    assert 4 <= least.values[0] <= 8 and least.ends(0.95)[0][0] <= 5 <= least.ends(0.95)[1][0]
    assert 20 <= most.values[0] <= 26 and most.ends(0.95)[0][0] <= 24 <= most.ends(0.95)[1][0]


def test_groups_and_conditions_are_told_apart() -> None:
    rows: list[Row] = [(i, 1000 + i, None, "xyz"[i % 3], {"x": 10, "y": 30, "z": 20}["xyz"[i % 3]], 1.0, i % 5 > 0) for i in range(90)]
    rows += [(2000 + i, None, None, "x", 39, 1.0, False) for i in range(200)]
    (found,), _ = asked(task(rows, Fraction(1, 2), level=4, when="w"), GROUPED, pure(Fraction(10**6)))
    assert abs(found.values[0] - 10) <= 1 and abs(found.values[1] - 30) <= 1


@pytest.mark.parametrize("width", [2, 3])
def test_no_weighing_moves_further_than_it_is_charged_for_when_an_entity_leaves(width: int) -> None:
    draw = random.Random(width)
    connection = duckdb.connect(":memory:", config={"threads": 1})
    context = context_of(DuckReader(connection, "v1"))
    most = 0.0
    for _ in range(6):
        rows = drawn_rows(draw, 30, 6)
        fraction = draw.choice([Fraction(1, 2), Fraction(1, 4), Fraction(0), Fraction(1)])
        given = task(rows, fraction, width=width, level=2)
        weighings = [request for request in asked(given, GROUPED, pure(Fraction(1)))[1] if isinstance(request, Balance)]
        request = weighings[draw.randrange(len(weighings))]

        def sums(kept: list[Row], request: Balance = request) -> list[int]:
            below = request.plan.input
            plan = _over(request.plan, tuple(kept)) if below is not None else request.plan
            cells = read(plan, request.levels, request.cells, context)
            return [sum(sign * part.value(0) for sign, part in zip((1, -1), parts, strict=False)) for parts in cells]

        whole = sums(rows)
        for entity in range(6):
            moved = np.abs(np.subtract(whole, sums([row for row in rows if entity not in row[:width]])))
            level, = request.levels
            assert moved.max() <= UNIT * level + 2 * slack(level, width)
            most = max(most, moved.max() / (UNIT * level))
    assert most > 0.5  # the test can fail


def _over(plan: Any, rows: tuple[Row, ...]) -> Any:
    """A plan over other rows."""
    from dpsql.frozen import replace

    if isinstance(plan, Given):
        return replace(plan, rows=rows)
    return replace(plan, input=_over(plan.input, rows))


@pytest.mark.parametrize("price", [pure(Fraction(1, 2)), concentrated(Fraction(1, 50))], ids=str)
@pytest.mark.parametrize(("level", "width", "context"), [(None, 2, ALONE), (7, 2, GROUPED), (None, 3, GROUPED)])
def test_the_price_is_spent_and_not_more(price: Cost, level: int | None, width: int, context: TaskContext) -> None:
    rows = drawn_rows(random.Random(1), 20, 5)
    _, requests = asked(task(rows, Fraction(1, 4), Fraction(1, 2), width=width, level=level), context, price)
    known = Certificate(below=Stability(rows=None, owners=("a", "b", "c")[:width]), summands=())
    costs = [request.cost(known) for request in requests]
    spent = sum((each.epsilon for each in costs if each.epsilon is not None), Fraction(0)) if price.epsilon is not None else sum(
        each.rho for each in costs)
    allowed = price.epsilon if price.epsilon is not None else price.rho
    assert allowed is not None and 0.7 * allowed < spent <= allowed
    assert len(requests) == 2 * 6 + (level is None)


def test_belief_finds_its_way_back_from_a_wrong_turn() -> None:
    belief = Belief(1000)
    draw = np.random.default_rng(5)
    belief.learn(belief.middle(), 1.0)  # wrong: the place is 800
    for _ in range(60):
        place = belief.middle()
        belief.learn(place, float((-2 if place <= 800 else 2) + draw.laplace(scale=1 / np.sqrt(2))))
    assert abs(belief.middle() - 800) <= 5


def test_other_tasks_are_refused_and_no_cells_cost_nothing() -> None:
    given = task([], Fraction(1, 2))
    linear: Any = Linear(at=0, input=given.input, summand=None, sensitivity=Sensitivity(l1=1, l2=1))  # type: ignore[arg-type]
    assert isinstance(ThresholdSearch().judge(linear, pure(Fraction(1)), 1), Rejected)
    found, requests = asked(given, TaskContext(keys=("k",), cells=()), pure(Fraction(1)))
    assert len(found) == 1 and not requests and MOST_ROUNDS > 0
