"""Degree counts: they spend what they are given, add up what each degree adds, and know their noise."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pytest
from support.extensions.given import Given
from support.requests import ROWS as PLAIN
from support.requests import cost_of

from dpsql.frozen import replace
from dpsql.mechanisms.mechanism import Accepted, DegreeSums, Linear, Rejected, TaskContext
from dpsql.mechanisms.truncation.graph_degrees import LEVELS, DegreeCounts, learned_degree, risen
from dpsql.questions.labels import label
from dpsql.trusted.accounting.cost import FREE, Cost, concentrated, pure
from dpsql.trusted.kernel.taken import copied_request
from dpsql.trusted.measurements.several.balanced_levels import Balance, BalancedLevel, score_range
from dpsql.trusted.measurements.several.degree_histogram import DegreeHistogram as Asked
from dpsql.trusted.measurements.several.degree_histogram import Histogram
from dpsql.trusted.measurements.several.levels import ExtensionSums
from dpsql.trusted.noise.integer import DiscreteGaussian, DiscreteLaplace
from dpsql.trusted.plan.certificate import Certificate, Sensitivity
from dpsql.trusted.plan.node import InvalidPlan, Printing, Stability
from dpsql.trusted.plan.operators.arcs import Arcs, moves
from dpsql.trusted.plan.operators.owner_sets import UNIT
from dpsql.trusted.plan.operators.summands import Count
from dpsql.types import Type

ROWS = Given(columns=(("tail", "BIGINT"), ("head", "BIGINT")), nullable=False, owners=("tail", "head"))
PURSES = [pure(Fraction(8, 10)), pure(Fraction(1, 1000)), concentrated(Fraction(1, 100)), concentrated(Fraction(3))]
BY_DEGREE = TaskContext(keys=("degree",), cells=((1,), (2,), (3,), (4,)))


def arcs(*, mutual: bool = True) -> Arcs:
    return Arcs(input=ROWS, tail="tail", head="head", mutual=mutual)


def task(most: int = 4, *, bound: str = "projection", mutual: bool = True, table: Any = None) -> DegreeSums:
    own = tuple(((degree,), 1.0) for degree in range(1, most + 1))
    return DegreeSums(at=3, arcs=arcs(mutual=mutual), bound=bound, most=most, table=table or own)


def of(*owners: str) -> Certificate:
    return Certificate(below=Stability(rows=None, owners=owners), summands=())


def answered(tasks: list[DegreeSums], counts: tuple[int, ...], context: TaskContext = BY_DEGREE, price: Cost = pure(Fraction(1))) -> Any:  # noqa: B008
    running = DegreeCounts("projection").run([(one, price) for one in tasks], context)
    request = next(running)
    with pytest.raises(StopIteration) as done:
        running.send(Histogram(counts=counts))
    return request, [estimate for (estimate,) in done.value.value]


@pytest.mark.parametrize("allotted", PURSES)
@pytest.mark.parametrize("mutual", [True, False])
@pytest.mark.parametrize("most", [1, 30, 1000])
@pytest.mark.parametrize("way", ["projection", "flow"])
def test_the_price_of_all_tasks_is_spent_on_one_release(way: Any, most: int, mutual: bool, allotted: Cost) -> None:
    given = task(most, bound=way, mutual=mutual)
    request = next(DegreeCounts(way).run([(given, allotted.part(Fraction(1, 4))), (given, allotted.part(Fraction(3, 4)))], BY_DEGREE))
    assert isinstance(request, Asked) and request.way == way and request.most == most
    cost = request.cost(of("tail", "head"))
    assert allotted.covers(cost)
    if allotted.epsilon is not None:
        assert cost.epsilon is not None and cost.epsilon >= Fraction(98, 100) * allotted.epsilon
    else:
        assert cost.rho >= Fraction(98, 100) * allotted.rho


def test_counts_rise_in_sums_and_are_near() -> None:
    assert risen((5, 3, 2)).tolist() == [5, 3, 2]
    assert risen((5, -3, 2)).tolist() == pytest.approx([3.5, 0, 0.5])  # sums 0 5 2 4, nearest that do not fall: 0 3.5 3.5 4
    draw = random.Random(1)
    for _ in range(50):
        noisy = [draw.randint(-9, 9) for _ in range(12)]
        assert (risen(noisy) >= -1e-9).all()


def test_an_estimate_adds_up_degrees_and_knows_the_noise_of_sums() -> None:
    """Against the matrix that takes noisy sums to cells."""
    draw = random.Random(2)
    for _ in range(30):
        most = draw.randint(1, 12)
        cells = tuple((name,) for name in "abc")
        table = tuple((None, 0.0) if draw.random() < 0.2 else ((draw.choice("abcx"),), draw.choice([0.0, 1.0, 2.5, -1.0]))
                      for _ in range(most))
        counts = tuple(draw.randint(0, 20) for _ in range(most))
        request, (found,) = answered([task(most, table=table)], counts, TaskContext(keys=("k",), cells=cells))
        matrix = np.array([[adds if cell == here else 0.0 for cell, adds in table] for here in cells])
        assert found.values.tolist() == pytest.approx((matrix @ np.array(counts)).tolist())
        differences = np.diff(np.eye(most + 1), axis=0)  # counts from sums
        spread = np.linalg.norm(matrix @ differences, axis=1) * math.sqrt(request.noise.variance)
        assert found.deviations.tolist() == pytest.approx(spread.tolist())
        assert found.approximate


def test_several_tasks_share_the_release() -> None:
    degrees = tuple(((), float(degree)) for degree in range(1, 5))
    ones = tuple(((), 1.0) for _ in range(4))
    request, (total, number) = answered([task(table=degrees), task(table=ones)], (4, 0, 2, 1), TaskContext(keys=(), cells=((),)))
    assert total.values.tolist() == [14] and number.values.tolist() == [7]
    assert request.noise == DiscreteLaplace(scale=request.noise.scale) and request.noise.scale == pytest.approx(5 / 2, rel=1e-6)


def test_they_answer_what_is_left_to_them() -> None:
    other = Linear(at=0, input=None, summand=Count(), sensitivity=Sensitivity(l1=1, l2=1))  # type: ignore[arg-type]
    flow = DegreeCounts("flow")
    assert isinstance(flow.judge(other, pure(Fraction(1)), 1), Rejected) and isinstance(flow.judge(task(), pure(Fraction(1)), 1), Rejected)
    narrow, wide = (flow.judge(task(most, bound="flow"), pure(Fraction(1)), 1) for most in (9, 99))
    assert isinstance(narrow, Accepted) and isinstance(wide, Accepted) and wide.error == pytest.approx(10 * narrow.error, rel=0.01)
    with pytest.raises(StopIteration) as done:
        next(flow.run([(task(), pure(Fraction(1)))], TaskContext(keys=("k",), cells=())))
    assert done.value.value[0][0].values.shape == (0,)


@pytest.mark.parametrize("allotted", PURSES)
def test_a_limit_is_drawn_for_its_share(allotted: Cost) -> None:
    running = learned_degree(arcs(), allotted, pure(Fraction(1)))
    request = next(running)
    assert isinstance(request, BalancedLevel) and request.levels == LEVELS and allotted.covers(request.cost(of("tail", "head")))
    assert request.log_priors[0] == 0 and list(request.log_priors) == sorted(request.log_priors)
    with pytest.raises(StopIteration) as done:
        running.send(ExtensionSums(totals=(), levels=((5,),)))
    assert done.value.value == 32


def test_less_noise_affords_a_higher_limit() -> None:
    cheap, dear = (next(learned_degree(arcs(), pure(Fraction(1)), pure(Fraction(told)))).log_priors for told in (1, 16))  # type: ignore[union-attr]
    assert dear[5] == pytest.approx(cheap[5] / 4, rel=1e-3)


# -- requests and operators


def test_a_level_costs_what_it_costs_in_a_balance() -> None:
    level = next(learned_degree(arcs(), pure(Fraction(1)), pure(Fraction(1))))
    assert isinstance(level, BalancedLevel)
    alone = BalancedLevel(plan=level.plan, levels=(1, 4), log_priors=(0, 9), scale=800.0)
    both = Balance(plan=level.plan, levels=(1, 4), log_priors=(0, 9), scale=800.0,
                   noises=(DiscreteLaplace(scale=100.0), DiscreteLaplace(scale=300.0)))
    epsilon = Fraction(score_range((1, 4), 2, 1), 800)
    assert alone.cost(of("tail", "head")) == Cost(epsilon=epsilon, rho=epsilon**2 / 8)
    assert both.cost(of("tail", "head")).epsilon == epsilon + Fraction(4 * UNIT, 300)
    with pytest.raises(ValueError, match="log-prior"):
        cost_of(BalancedLevel(plan=replace(level.plan, input=PLAIN), levels=(1, 4), log_priors=(0,), scale=800.0), of("tail"))
    with pytest.raises(ValueError, match="owners"):
        alone.cost(of("other"))


def test_degrees_cost_what_one_entity_moves() -> None:
    for mutual, moved in ((True, 8), (False, 15)):
        assert moves(7, mutual=mutual) == moved
        asked = Asked(plan=arcs(mutual=mutual), most=7, way="flow", noise=DiscreteLaplace(scale=30.0))
        assert asked.cost(of("head", "tail")).epsilon == Fraction(moved, 30)
        gauss = Asked(plan=arcs(mutual=mutual), most=7, way="projection", noise=DiscreteGaussian(sigma=30.0))
        assert gauss.cost(of("tail", "head")).rho == Fraction(moved**2, 1800)
        assert asked.cost(Certificate(below=Stability(rows=0), summands=())) == FREE


@pytest.mark.parametrize("owners", [(), ("tail",), ("tail", "other"), ("tail", "head", "other")])
def test_degrees_of_rows_of_other_entities_are_refused(owners: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="ends"):
        Asked(plan=arcs(), most=7, way="flow", noise=DiscreteLaplace(scale=30.0)).cost(of(*owners))


@pytest.mark.parametrize("change", [{"most": 0}, {"most": 20_000}, {"noise": DiscreteLaplace(scale=2.0**56)}])
def test_degrees_without_a_proof_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be|64 bits"):
        copied_request(Asked(**{"plan": replace(arcs(), input=PLAIN), "most": 7, "way": "flow", "noise": DiscreteLaplace(scale=30.0)} | change))


def test_arcs_are_counted_and_ordered_by_their_ends_alone() -> None:
    draw = random.Random(3)
    rows = [(draw.randrange(6), draw.randrange(6)) for _ in range(40)]

    def printed(kept: list[tuple[int, int]], salt: int) -> dict[tuple[int, int], tuple[int, int]]:
        given = Given(columns=ROWS.columns, rows=tuple(kept), nullable=False, owners=ROWS.owners)
        plan = Arcs(input=given, tail="tail", head="head")
        sql = plan.render((given.render((), Printing()),), Printing(salt=salt))
        return {(tail, head): (order, size) for tail, head, order, size in duckdb.sql(sql).fetchall()}

    here, there, other = printed(rows, 1), printed([row for row in rows if 3 not in row], 1), printed(rows, 2)
    assert {pair: size for pair, (_, size) in here.items()} == {pair: rows.count(pair) for pair in rows}
    assert there == {pair: told for pair, told in here.items() if 3 not in pair}, "other rows decide nothing"
    orders = [sorted(found, key=lambda pair, found=found: found[pair]) for found in (here, other)]  # type: ignore[misc]
    assert orders[0] != orders[1] != sorted(here), "the secret does"


def test_arcs_need_two_ends() -> None:
    texts = Given(columns=(("tail", "BIGINT"), ("head", "VARCHAR")), nullable=False, owners=("tail", "head"))
    empty = Given(columns=ROWS.columns, nullable=True, owners=("tail", "head"))
    for plan in (Arcs(input=ROWS, tail="tail", head="tail"), Arcs(input=texts, tail="tail", head="head"),
                 Arcs(input=empty, tail="tail", head="head")):
        with pytest.raises(InvalidPlan):
            _ = plan.fields
    for kind, named in (("BIGINT", Type.BIGINT), ("VARCHAR", Type.VARCHAR), ("DATE", Type.VARCHAR)):
        given = Given(columns=(("tail", kind), ("head", kind)), nullable=False, owners=("tail", "head"))
        assert [field.facts.type for field in Arcs(input=given, tail="tail", head="head").fields] == [named, named, Type.BIGINT, Type.BIGINT]
    assert label(arcs()) == "Arcs between tail and head" and label(arcs(mutual=False)) == "Arcs from tail to head"
    assert arcs().stability((Stability(rows=3),), None).rows is None  # type: ignore[arg-type]
