"""Elastic and residual sensitivity as mechanisms: what they ask for, what they make of it, and how honest their intervals are."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support import joined_worlds
from support.chances import too_few, too_many
from support.joined_worlds import planned

from dpsql.backends.duckdb import DuckReader
from dpsql.mechanisms.local.join_sensitivity import SIZE_SHARE, JoinSensitivity
from dpsql.mechanisms.mechanism import Accepted, Rejected, Shared, TaskContext
from dpsql.questions.no_public_facts import NoPublicFacts
from dpsql.trusted.accounting.cost import Cost, concentrated, pure
from dpsql.trusted.measurements.several.smooth_join_sum import SmoothSum
from dpsql.trusted.measurements.smooth_quantile import Smoothed
from dpsql.trusted.noise.source import Secure
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.decompose_join import decompose_join
from dpsql.trusted.plan.node import Node, Stability
from dpsql.trusted.plan.operators.summands import Count

RESIDUAL, ELASTIC = JoinSensitivity("residual", residual=True), JoinSensitivity("elastic", residual=False)
TRIANGLES = "SELECT COUNT(*) FROM edges a JOIN edges b ON a.v = b.u JOIN edges c ON b.v = c.u AND c.v = a.u"
ALONE = TaskContext(keys=(), cells=((),))


@pytest.fixture(scope="module")
def readers() -> Iterator[dict[bool, DuckReader]]:
    yield {unique: joined_worlds.Small({}, unique).reader() for unique in (False, True)}


def task(reader: DuckReader, text: str = TRIANGLES, bound: str = "residual", entity: str = "edge") -> Shared:
    view = planned(text, reader, entity)
    return Shared(at=0, input=view, owners=(), summand=Count(), bound=bound, most=1)


def asked(given: Shared, allotted: Cost, context: TaskContext = ALONE, how: JoinSensitivity = RESIDUAL,
          reply: Any = lambda request: Smoothed(values=(100,), sizes=(30,))) -> tuple[list[SmoothSum], Any]:
    """The requests of a script, and what it returns."""
    running, requests = how.run([(given, allotted)], context), []
    try:
        request = next(running)
        while True:
            requests.append(request)
            request = running.send(reply(request))
    except StopIteration as done:
        return requests, done.value[0][0]


@pytest.mark.parametrize("allotted", [pure(Fraction(1)), pure(Fraction(1, 50)), concentrated(Fraction(1, 2)), concentrated(Fraction(1, 1000))])
@pytest.mark.parametrize("cells", [1, 3])
def test_it_asks_for_no_more_than_the_price(allotted: Cost, cells: int, readers: dict[bool, DuckReader]) -> None:
    given = task(readers[True])
    context = ALONE if cells == 1 else TaskContext(keys=(given.input.fields[0].id,), cells=tuple((i,) for i in range(cells)))
    requests, _ = asked(given, allotted, context)
    spent = [request.cost(Certificate(below=Stability(rows=None), summands=())) for request in requests]
    total = sum(spent[1:], start=spent[0])
    assert len(requests) == cells and allotted.covers(total)
    assert total.rho >= 0.99 * allotted.rho if allotted.epsilon is None else total.epsilon == allotted.epsilon
    assert not total.delta


def test_each_cell_is_asked_about_its_rows(readers: dict[bool, DuckReader]) -> None:
    world = joined_worlds.people(random.Random(4), 8)
    reader = world.reader()
    view = planned("SELECT COUNT(*) FROM people a JOIN people b ON a.town = b.town WHERE a.size IS NOT NULL", reader, "person")
    key = next(field.id for field in view.fields)
    given = Shared(at=0, input=view, owners=(), summand=Count(), bound="elastic", most=1)
    context = joined_worlds.context_of(reader)
    found = []
    for request in asked(given, pure(Fraction(1)), TaskContext(keys=(key,), cells=tuple((i,) for i in range(9))), ELASTIC)[0]:
        assert not request.residual
        found += [row[0] for row in reader.rows(*context.query(request.plan))]
    assert sum(found) == sum(a[1] == b[1] is not None for a in world.of("people") for b in world.of("people"))
    assert max(found) < sum(found)


def test_beta_is_large_where_bounds_grow_fast(readers: dict[bool, DuckReader]) -> None:
    """With a key, two edges of a triangle leave one place for the third; without it any number of equal edges could come."""
    betas = {unique: asked(task(readers[unique]), pure(Fraction(1, 10)))[0][0].noise.beta for unique in (False, True)}
    assert betas[False] > betas[True]


def test_other_tasks_and_tiny_prices_are_left_to_others(readers: dict[bool, DuckReader]) -> None:
    given = task(readers[False])
    assert isinstance(RESIDUAL.judge(given, pure(Fraction(1)), 1), Accepted)
    assert isinstance(ELASTIC.judge(given, pure(Fraction(1)), 1), Rejected)
    assert isinstance(RESIDUAL.judge(given, pure(Fraction(1, 10**7)), 1), Rejected)
    assert isinstance(RESIDUAL.judge(given, pure(Fraction(1, 10**4)), 10**3), Rejected)
    assert isinstance(RESIDUAL.judge(task(readers[False], "SELECT COUNT(*) FROM edges"), pure(Fraction(1, 10**9)), 1), Rejected)


def test_less_is_expected_for_more(readers: dict[bool, DuckReader]) -> None:
    given, errors = task(readers[True]), []
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(10)):
        verdict = RESIDUAL.judge(given, pure(epsilon), 1)
        assert isinstance(verdict, Accepted)
        errors.append(verdict.error)
    assert errors[0] > 5 * errors[1] > 25 * errors[2]


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
@pytest.mark.parametrize("bound", [1.0, 777.7])
def test_intervals_hold_the_truth_as_often_as_they_say(epsilon: Fraction, bound: float, readers: dict[bool, DuckReader],
                                                       effort: float) -> None:
    """The width is told with noise too, and the interval allows for it."""
    noise, given, times = Secure(), task(readers[True]), round(1500 * effort)

    def reply(request: SmoothSum) -> Smoothed:
        size = noise.laplace([math.floor(math.log(bound) / request.noise.beta)], 1 / float(request.epsilon_size))[0]
        return Smoothed(values=tuple(noise.student([0], request.noise.scale(bound))), sizes=(size,))

    context = TaskContext(keys=(), cells=((),) * times)
    one = given.__class__(at=0, input=given.input, owners=(), summand=Count(), bound="residual", most=1)
    found = asked(one, pure(epsilon * times), context, reply=reply)[1]
    covered = int((np.abs(found.values) <= found.margins(0.95)).sum())
    assert not too_few(covered, times, 0.95) and not too_many(covered, times, 0.985)


def test_what_is_told_of_the_size_is_what_the_kernel_tells(readers: dict[bool, DuckReader]) -> None:
    """The interval is never narrower than for the scale that the size stands for."""
    (request,), found = asked(task(readers[True]), pure(Fraction(1)))
    size = 30
    assert request.epsilon_size == SIZE_SHARE
    assert found.margins(0.95)[0] > 1.83 * request.noise.scale(math.exp(size * request.noise.beta))
    assert found.approximate and found.values[0] == 100


def test_plans_need_no_public_facts_for_expectations(readers: dict[bool, DuckReader]) -> None:
    given = task(readers[False])
    view: Node = given.input
    assert len(decompose_join(view, NoPublicFacts()).relations) == 3
