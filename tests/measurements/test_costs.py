"""What each request costs, by formulas written anew; and requests whose plans do not keep what the formulas rest on."""

from __future__ import annotations

import math
import random
from collections.abc import Generator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from support.requests import cost_of
from support.worlds import POLICY, world

from dpsql.backends.duckdb import DuckReader
from dpsql.budgets.convert import limit
from dpsql.catalog.model import Catalog
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.price import price
from dpsql.catalog.schema import fit
from dpsql.engine.opening import public_values
from dpsql.frozen import replace
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.questions.no_public_facts import NoPublicFacts
from dpsql.trusted.accounting.cost import FREE, Account, Cost, concentrated, pure
from dpsql.trusted.field_types import WIDEST
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.kernel.taken import copied_request
from dpsql.trusted.measurements.above_threshold import (
    SUM_GRAIN,
    AboveThresholdOfCounts,
    AboveThresholdOfSums,
    AboveThresholdOfTests,
    Rising,
)
from dpsql.trusted.measurements.flip_distance import Form, Within
from dpsql.trusted.measurements.frequent_keys import Keys
from dpsql.trusted.measurements.noisy_sums import NoisySums
from dpsql.trusted.measurements.select import ROUNDING, Segment, Select, Target
from dpsql.trusted.measurements.smooth_quantile import Smooth
from dpsql.trusted.noise.integer import DiscreteGaussian, DiscreteLaplace
from dpsql.trusted.noise.key_selection import GaussianThreshold, TruncatedGeometric
from dpsql.trusted.plan.certificate import Certificate, Sensitivity, Unbounded, certify
from dpsql.trusted.plan.node import Node, Stability
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.ranks import Ranks
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.summands import Count, GridSum, Moments
from dpsql.trusted.plan.operators.truncate import Truncate

HALF = Target(fraction=Fraction(1, 2))
GRID = Quantizer(low=0, high=100, step=Fraction(1), from_low=True)


@pytest.fixture(scope="module")
def reader() -> DuckReader:
    connection = duckdb.connect(":memory:")
    world(seed=9).fill(connection)
    return DuckReader(connection, "v")


@pytest.fixture(scope="module")
def catalog(reader: DuckReader) -> Catalog:
    return fit(parse_policy(POLICY), "person", reader.schema(), public_values(reader))


@pytest.fixture(scope="module")
def people(catalog: Catalog) -> Node:
    """One row for each entity."""
    scan = Scan(table=catalog.tables["people"], columns=(("p", "person_id"), ("a", "age"), ("s", "sex")), owners=("p",))
    return Truncate(input=scan, rows=1, owner="p", order=("p", "a", "s"))


@pytest.fixture(scope="module")
def visits(catalog: Catalog) -> Node:
    """Up to three rows for each entity."""
    scan = Scan(table=catalog.tables["visits"], columns=(("v", "visit_id"), ("p", "person_id"), ("y", "year"), ("c", "clinic")),
                owners=("p",))
    return Truncate(input=scan, rows=3, owner="p", order=("v",))


@pytest.fixture(scope="module")
def clinics(catalog: Catalog) -> Node:
    """A public relation."""
    return Scan(table=catalog.tables["clinics"], columns=(("c", "clinic"), ("b", "beds")))


def tally(input: Node, *keys: str, **summand: Any) -> GroupedSums:
    return GroupedSums(input=input, keys=keys, summands=(Count(**summand),))


def below(rows: int, *sensitivities: Sensitivity) -> Certificate:
    return Certificate(below=Stability(rows=rows, owners=("p",)), summands=sensitivities)


def certified(plan: GroupedSums) -> Certificate:
    return certify(plan, NoPublicFacts())


# -- sums


@pytest.mark.parametrize("l1, scale, epsilon", [(1, 1.0, Fraction(1)), (3, 2.0, Fraction(3, 2)), (7, 0.5, Fraction(14))])
def test_laplace_noise_costs_distance_over_scale(l1: int, scale: float, epsilon: Fraction) -> None:
    found = DiscreteLaplace(scale=scale).cost(Sensitivity(l1=l1, l2=l1))
    assert found == Cost(epsilon=epsilon, rho=epsilon**2 / 2)


def test_the_cost_of_a_scale_is_that_of_the_float_that_is_used() -> None:
    cost = DiscreteLaplace(scale=0.1).cost(Sensitivity(l1=1, l2=1))
    assert cost.epsilon == 1 / Fraction(0.1) != 10


@pytest.mark.parametrize("l2, sigma, rho", [(1, 1.0, Fraction(1, 2)), (3, 2.0, Fraction(9, 8)), (2, 0.5, Fraction(8))])
def test_gaussian_noise_costs_half_the_square_of_distance_over_sigma(l2: int, sigma: float, rho: Fraction) -> None:
    assert DiscreteGaussian(sigma=sigma).cost(Sensitivity(l1=None, l2=l2)) == Cost(epsilon=None, rho=rho)


def test_what_nobody_moves_is_free() -> None:
    for scale in (0.0, 1.0):
        assert DiscreteLaplace(scale=scale).cost(Sensitivity(l1=0, l2=0)) == FREE
        assert DiscreteGaussian(sigma=scale).cost(Sensitivity(l1=0, l2=0)) == FREE


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_no_noise_is_no_price(scale: float) -> None:
    with pytest.raises((ZeroDivisionError, ValueError, OverflowError)):
        DiscreteLaplace(scale=scale).cost(Sensitivity(l1=1, l2=1))
    if scale >= 0 or math.isnan(scale):
        with pytest.raises((ZeroDivisionError, ValueError, OverflowError)):
            DiscreteGaussian(sigma=scale).cost(Sensitivity(l1=1, l2=1))


def test_laplace_noise_needs_a_bound_in_l1() -> None:
    with pytest.raises(ValueError, match="l1"):
        DiscreteLaplace(scale=1.0).cost(Sensitivity(l1=None, l2=3))


def test_variances_are_those_of_the_integer_noises() -> None:
    for scale in (0.3, 1.0, 4.0):
        weights = {z: math.exp(-abs(z) / scale) for z in range(-300, 301)}
        exact = sum(z * z * weight for z, weight in weights.items()) / sum(weights.values())
        assert DiscreteLaplace(scale=scale).variance == pytest.approx(exact)
    for sigma in (1.0, 3.0):
        weights = {z: math.exp(-z * z / (2 * sigma**2)) for z in range(-60, 61)}
        exact = sum(z * z * weight for z, weight in weights.items()) / sum(weights.values())
        assert DiscreteGaussian(sigma=sigma).variance == pytest.approx(exact, rel=1e-6)
    assert DiscreteLaplace(scale=1e9).variance == pytest.approx(2e18)
    assert DiscreteLaplace(scale=2.0**60).variance == 2.0**121


def test_a_measure_costs_the_sum_over_its_summands(visits: Node) -> None:
    summands = (Count(), GridSum(column="y", grid=Quantizer(low=-5, high=20, step=Fraction(1), from_low=False)),
                Moments(column="y", grid=Quantizer(low=2018, high=2021, step=Fraction(1), from_low=True), degree=2))
    plan = GroupedSums(input=visits, keys=("c",), summands=summands)
    noises = (DiscreteLaplace(scale=4.0), DiscreteLaplace(scale=10.0), DiscreteLaplace(scale=100.0))
    request = NoisySums(plan=plan, cells=(("a",), ("b",)), noises=noises)
    epsilons = (Fraction(3 * 1, 4), Fraction(3 * 20, 10), Fraction(3 * 3**2, 100))
    assert request.cost(certified(plan)) == Cost(epsilon=sum(epsilons), rho=sum(e**2 / 2 for e in epsilons))
    mixed = NoisySums(plan=plan, cells=(), noises=(DiscreteGaussian(sigma=2.0), *noises[1:]))
    assert mixed.cost(certified(plan)) == Cost(epsilon=None, rho=Fraction(9, 8) + sum(e**2 / 2 for e in epsilons[1:]))


def test_every_summand_has_noise(visits: Node) -> None:
    plan = GroupedSums(input=visits, keys=(), summands=(Count(), Count(column="y")))
    for noises in ((), (DiscreteLaplace(scale=1.0),), (DiscreteLaplace(scale=1.0),) * 3):
        with pytest.raises(ValueError, match="every summand"):
            cost_of(NoisySums(plan=plan, cells=((),), noises=noises), certified(plan))


def test_sums_over_public_rows_are_free(clinics: Node) -> None:
    plan = tally(clinics, "c")
    assert NoisySums(plan=plan, cells=(), noises=(DiscreteLaplace(scale=1.0),)).cost(certified(plan)) == FREE


# -- selection


def select(people: Node, *segments: Segment, scale: float = 4.0, flip: bool = False) -> Select:
    plan = Ranks(input=people, keys=(), column="a", grid=GRID)
    return Select(plan=plan, cells=((),), segments=(segments,), scale=scale, flip=flip)


@pytest.mark.parametrize("a, b", [(1, 2), (1, 10), (9, 10), (0, 1), (1, 1), (37, 100)])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_selection_costs_twice_what_a_score_moves(people: Node, a: int, b: int, rows: int) -> None:
    segment = Segment(low=0, high=100, target=Target(fraction=Fraction(a, b), offset=7))
    epsilon = Fraction(2 * rows * max(a, b - a)) / 4
    assert select(people, segment, flip=True).cost(below(rows)) == Cost(epsilon=epsilon, rho=epsilon**2 / 2)
    rounded = epsilon + rows * ROUNDING
    exponential = Cost(epsilon=rounded, rho=rounded**2 / 8)
    assert select(people, segment).cost(below(rows)) == exponential
    by_default = Select(plan=Ranks(input=people, keys=(), column="a", grid=GRID), cells=((),), segments=((segment,),), scale=4.0)
    assert by_default.cost(below(rows)) == exponential


@pytest.mark.parametrize(("a", "b", "low", "high", "moved"), [
    (1, 1, 1, 1, 2), (1, 1, 1, 4, 5), (1, 1, 4, 1, 5), (0, 1, 3, 1, 4), (1, 2, 1, 4, 8), (1, 10, 2, 1, 27), (9, 10, 1, 5, 54)])
def test_rows_that_count_more_cost_more(people: Node, a: int, b: int, low: int, high: int, moved: int) -> None:
    """By as much as one row raises one score and lowers another: 9 below, each with 2 in 10, and 9 above, with 1, make 18 + 9."""
    segment = Segment(low=0, high=100, target=Target(fraction=Fraction(a, b)), below=low, above=high)
    assert select(people, segment).cost(below(3)).epsilon == 3 * (Fraction(moved) / 4 + ROUNDING)


@pytest.mark.parametrize("counted", [{"below": 0}, {"above": 0}, {"below": -1}, {"above": -2}])
def test_rows_that_count_for_nothing_are_refused(people: Node, counted: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="Segment.(below|above) must be at least 1"):
        cost_of(select(people, Segment(low=0, high=9, target=HALF, **counted)), below(1))


def test_segments_cost_as_much_as_the_dearest_of_them(people: Node) -> None:
    cheap = Segment(low=0, high=9, target=HALF)
    dear = Segment(low=10, high=99, target=Target(fraction=Fraction(1, 10)))
    assert select(people, cheap, dear).cost(below(1)) == select(people, dear).cost(below(1))


@pytest.mark.parametrize("segments", [
    [(0, 10), (10, 20)], [(5, 20), (0, 7)], [(0, 100), (3, 4)], [(0, 9), (0, 9)], [(3, 2)], [(0, 5), (6, 9), (9, 9)]])
def test_overlapping_segments_are_refused(people: Node, segments: list[tuple[int, int]]) -> None:
    request = select(people, *(Segment(low=low, high=high, target=HALF) for low, high in segments))
    for rows in (0, 1):
        with pytest.raises(ValueError, match="overlap|in order"):
            cost_of(request, below(rows))
    apart = select(people, *(Segment(low=low, high=high, target=HALF) for low, high in ((6, 9), (0, 5), (10, 10))))
    assert cost_of(apart, below(1)).epsilon == Fraction(2 * 1) / 4 + ROUNDING


def test_a_segment_has_fewer_than_2_to_the_62_values_and_one_or_more() -> None:
    for high in (2**62 - 1, 0):
        assert copied_request(Segment(low=0, high=high, target=HALF)).high == high
    for high in (2**62, -1):
        with pytest.raises(ValueError, match="in order"):
            copied_request(Segment(low=0, high=high, target=HALF))


def test_segments_are_listed_for_every_cell(people: Node) -> None:
    by_sex, whole = Ranks(input=people, keys=("s",), column="a", grid=GRID), (Segment(low=0, high=100, target=HALF),)
    for segments in ((whole,), (whole,) * 3, ((), ())):
        with pytest.raises(ValueError, match="every cell needs"):
            cost_of(Select(plan=by_sex, cells=(("f",), ("m",)), segments=segments, scale=4.0), below(1))


def test_selecting_among_public_rows_is_free(people: Node) -> None:
    assert select(people, Segment(low=0, high=9, target=HALF), scale=1e-9).cost(below(0)) == FREE


# -- smooth sensitivity


def smooth(people: Node, cells: int = 1, **changes: Any) -> Smooth:
    settings = {"epsilon": Fraction(1), "delta": Fraction(1, 10**6), "epsilon_size": Fraction(1, 10)} | changes
    return Smooth(plan=Ranks(input=people, keys=("s",), column="a", grid=GRID), cells=tuple((str(i),) for i in range(cells)),
                  target=HALF, **settings)


def test_smooth_noise_costs_its_parts(people: Node) -> None:
    assert smooth(people).cost(below(1)) == pure(Fraction(11, 10), Fraction(1, 10**6))
    assert smooth(people).cost(below(3)) == pure(Fraction(11, 10), Fraction(1, 10**6))
    assert smooth(people, cells=5).cost(below(1)) == pure(Fraction(11, 10), Fraction(1, 10**6))
    assert smooth(people, cells=5).cost(below(0)) == FREE


def test_smooth_noise_over_several_cells_needs_one_row_an_entity(people: Node) -> None:
    with pytest.raises(ValueError, match="one row"):
        smooth(people, cells=2).cost(below(2))


def test_an_epsilon_below_zero_buys_nothing(people: Node) -> None:
    with pytest.raises(ValueError, match="epsilon_size must be at least"):
        cost_of(smooth(people, epsilon=Fraction(1), epsilon_size=Fraction(-2)), below(1))
    with pytest.raises(ValueError, match="above 0"):
        cost_of(select(people, Segment(low=0, high=1, target=HALF), scale=-1.0), below(1))


def test_beta_is_as_large_as_its_proof_allows(people: Node) -> None:
    for epsilon in (Fraction(1, 100), Fraction(1), Fraction(20)):
        for delta in (Fraction(1, 10**3), Fraction(1, 10**9)):
            beta = smooth(people, epsilon=epsilon, delta=delta).beta
            room = float(epsilon) / 2
            assert math.expm1(beta) * (math.log(2 / delta) + room) <= room and beta <= room
            assert math.expm1(beta * 1.001) * (math.log(2 / delta) + room) > room


def laplace(scale: float, z: int) -> float:
    return math.tanh(0.5 / scale) * math.exp(-abs(z) / scale)


def test_smooth_noise_tells_no_more_than_it_costs(people: Node, effort: float) -> None:
    """The exact hockey-stick divergence of the noisy value between neighbours: values S apart, scales e^beta apart."""
    draw = random.Random(4)
    for _ in range(round(60 * effort)):
        epsilon, delta = Fraction(draw.randint(1, 30), 10), Fraction(1, 10 ** draw.randint(1, 5))
        request = smooth(people, epsilon=epsilon, delta=delta)
        bound = draw.uniform(0.5, 12)
        other = bound * math.exp(request.beta * draw.choice([-1, 1, 0.3]))
        moved = draw.randint(0, math.floor(min(bound, other)))
        scales = [2 * size / float(epsilon) for size in (bound, other)]
        reach = round(60 * max(scales)) + 20
        for here, there, shift in ((scales[0], scales[1], moved), (scales[1], scales[0], -moved)):
            beyond = (laplace(here, z) - math.exp(epsilon) * laplace(there, z - shift) for z in range(-reach, reach))
            assert math.fsum(max(0.0, part) for part in beyond) <= delta


def test_the_size_of_the_noise_tells_no_more_than_it_costs() -> None:
    """It moves by one, and has noise of scale 1 / epsilon_size."""
    scale = 1 / 0.1 * (1 + 1e-15)
    for z in range(-40, 40):
        assert abs(math.log(laplace(scale, z) / laplace(scale, z - 1))) <= 0.1 + 1e-12


# -- the ladder


def test_a_ladder_costs_both_of_its_noises(people: Node, visits: Node) -> None:
    for plan, rows in ((tally(people, "a"), 1), (tally(Truncate(input=visits, rows=2, owner="p", order=("v",)), "y"), 2)):
        request = AboveThresholdOfCounts(plan=plan, limits=(3,) * 5, scale_limit=4.0, scale_query=8.0)
        assert request.cost(certified(plan)) == pure(rows * (Fraction(1, 4) + Fraction(1, 8)))


def test_a_ladder_of_anything_but_limited_rows_is_refused(people: Node, visits: Node, clinics: Node) -> None:
    def ladder(plan: GroupedSums) -> Cost:
        return cost_of(AboveThresholdOfCounts(plan=plan, limits=(3,) * 5, scale_limit=4.0, scale_query=8.0), certified(plan))

    weighty = GroupedSums(input=people, keys=("a",), summands=(GridSum(column="a", grid=GRID),))
    twice = GroupedSums(input=people, keys=("a",), summands=(Count(), Count()))
    for plan in (weighty, twice, tally(people), tally(people, "a", "s")):
        with pytest.raises(ValueError, match="one count|one key"):
            ladder(plan)
    assert ladder(tally(clinics, "b")) == FREE


def thresholds(plan: GroupedSums, *summands: int) -> AboveThresholdOfSums:
    return AboveThresholdOfSums(plan=plan, steps=tuple(Rising(at=at, threshold=Fraction(3)) for at in summands),
                                scale_limit=2.0 * SUM_GRAIN, scale_query=4.0 * SUM_GRAIN)


def test_thresholds_of_sums_cost_more_where_an_entity_may_raise_some_and_lower_others(people: Node, clinics: Node) -> None:
    rising = GroupedSums(input=people, keys=(), summands=(Count(), GridSum(column="a", grid=GRID)))
    signed = Quantizer(low=-5, high=20, step=Fraction(1), from_low=False)
    either = GroupedSums(input=people, keys=(), summands=(Count(), GridSum(column="a", grid=signed)))
    assert thresholds(rising, 0, 1).cost(certified(rising)) == pure(Fraction(1, 2) + Fraction(1, 4))
    assert thresholds(either, 0, 1).cost(certified(either)) == pure(Fraction(1, 2) + Fraction(2, 4))
    # an entity that adds rows and takes others away
    assert thresholds(rising, 0).cost(Certificate(below=Stability(rows=1), summands=())) == pure(Fraction(1, 2) + Fraction(2, 4))
    public = GroupedSums(input=clinics, keys=(), summands=(Count(),))
    assert thresholds(public, 0).cost(certified(public)) == FREE


def test_every_threshold_is_of_one_of_the_sums(people: Node) -> None:
    plan = GroupedSums(input=people, keys=(), summands=(Count(), Count(column="a")))
    for summands in ((0, 2), (2, 1), (2,)):
        with pytest.raises(ValueError, match="one of the sums"):
            cost_of(thresholds(plan, *summands), certified(plan))


def test_the_widest_noise_of_a_comparison_fits_into_64_bits(people: Node) -> None:
    plain = Within(plan=tally(people), cells=((),), forms=(Form(at=0, sign=1, constants=(-2,)),))
    request = AboveThresholdOfTests(tests=(plain,), most=1, limits=(0,) * 20, scale_limit=2.0, scale_query=WIDEST / 2**19)
    assert copied_request(request) == request
    with pytest.raises(ValueError, match="64 bits"):
        copied_request(replace(request, scale_query=WIDEST / 2**19 * 1.01))
    with pytest.raises(ValueError, match="1 to 20 limits"):
        copied_request(replace(request, limits=(0,) * 21, scale_query=2.0))


def test_a_test_that_computes_one_end_of_its_interval_is_not_compared_side_by_side(people: Node) -> None:
    plan = GroupedSums(input=people, keys=(), summands=(GridSum(column="a", grid=GRID),))
    plain = Within(plan=plan, cells=((),), forms=(Form(at=0, sign=1, constants=(-2,)), Form(at=0, sign=-1, constants=(10,))))
    for tests in ((replace(plain, exact=True), plain), (plain, replace(plain, exact=True)), (replace(plain, exact=True),)):
        with pytest.raises(ValueError, match="exact test"):
            cost_of(AboveThresholdOfTests(tests=tests, most=1, limits=(0,), scale_limit=2.0, scale_query=2.0), *[certified(plan)] * len(tests))


# -- keys


def told(visits: Node, groups: int) -> Node:
    """Which entity has which key, at most so many keys each."""
    pairs = Project(input=visits, columns=(("c", "clinic", visits.field("c").ref), ("p", "p", visits.field("p").ref)))
    return Truncate(input=Distinct(input=pairs), rows=groups, owner="p", order=("c",))


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_keys_cost_as_many_times_as_an_entity_has_them(visits: Node, groups: int) -> None:
    plan = tally(told(visits, groups), "c")
    rule = TruncatedGeometric(epsilon=Fraction(1, 4), delta=Fraction(1, 10**6))
    assert Keys(plan=plan, rule=rule).cost(certified(plan)) == pure(Fraction(groups, 4), Fraction(groups, 10**6))
    noisy = Keys(plan=plan, rule=GaussianThreshold(sigma=4.0, threshold=30)).cost(certified(plan))
    assert noisy.epsilon is None and noisy.rho == Fraction(groups, 32)
    assert float(noisy.delta) == pytest.approx(groups * 0.5 * math.erfc(28 / (4 * math.sqrt(2))), rel=1e-8)


def test_keys_that_are_not_counted_once_cost_as_many_moves(people: Node, visits: Node, clinics: Node) -> None:
    coins, noisy = (TruncatedGeometric(epsilon=Fraction(1), delta=Fraction(1, 10**6)), GaussianThreshold(sigma=4.0, threshold=30))
    pairs = told(visits, 2)
    heavy = GroupedSums(input=pairs, keys=("c",), summands=(GridSum(column="p", grid=Quantizer(low=0, high=7, step=Fraction(1),
                                                                                          from_low=False)),))
    # rows of visits: three of them may have one clinic; all keys but one; a key that is left out
    for plan, rows in ((tally(visits, "c"), 3), (tally(visits, "y", "c"), 3), (tally(pairs), 2)):
        moved = Keys(plan=plan, rule=coins).cost(certified(plan))
        assert moved.epsilon == rows and float(moved.delta) == pytest.approx(rows * math.exp(rows - 1) / 10**6, rel=1e-6)
        with pytest.raises(ValueError, match="counts of entities"):
            Keys(plan=plan, rule=noisy).cost(certified(plan))
    for rule in (coins, noisy):
        with pytest.raises(ValueError, match="one count"):
            cost_of(Keys(plan=heavy, rule=rule), certified(heavy))
        assert Keys(plan=tally(people, "s"), rule=rule).cost(certified(tally(people, "s"))) == rule.cost(1)
        assert Keys(plan=tally(clinics, "c"), rule=rule).cost(certified(tally(clinics, "c"))) == FREE


def test_moves_of_counts_tell_no_more_than_they_cost() -> None:
    """The exact distributions of what is told of three keys, where an entity's rows come and go at any of them."""
    draw, reached = random.Random(7), 0.0
    for _ in range(100):
        rule = TruncatedGeometric(epsilon=Fraction(draw.randint(10, 20), 20), delta=Fraction(draw.randint(10, 60), 1000))
        rows, reach = draw.randint(1, 4), rule.reach
        first = [draw.choice((0, 0, 1, 2, 6)) for _ in range(3)]
        second = list(first)
        for _ in range(rows):
            at = draw.choice((0, 0, 0, 1, 2))
            second[at] = max(0, second[at] + draw.choice((1, 1, -1)))
        claimed = rule.cost_of_moves(rows)
        assert claimed.epsilon is not None
        tables = [[told_chances(rule, count, reach + 12) for count in counts] for counts in (first, second)]
        for one, two in (tables, tables[::-1]):
            p, q = (np.einsum("i,j,k->ijk", *parts) for parts in (one, two))
            apart = float(np.maximum(0.0, p - math.exp(claimed.epsilon) * q).sum())
            assert apart <= float(claimed.delta) + 1e-12
            reached = max(reached, apart / float(claimed.delta) if rows > 1 else 0.0)
    assert reached > 0.3, reached


def told_chances(rule: TruncatedGeometric, count: int, most: int) -> np.ndarray[Any, Any]:
    """The chance that nothing is told of a key, and that each number up to `most` above the reach is."""
    found, reach = np.zeros(most + 1), rule.reach
    law = np.exp(-np.abs(np.arange(-reach, reach + 1)) / rule.scale)
    for z, chance in zip(range(-reach, reach + 1), law / law.sum(), strict=True):
        found[max(0, count + z - reach)] += chance
    return found


def test_the_failure_of_a_noisy_threshold_is_a_bound_of_the_exact_one() -> None:
    for sigma in (0.3, 0.5, 1.0, 1.7, 4.0, 20.0):
        weights = {z: math.exp(-z * z / (2 * sigma**2)) for z in range(-400, 401)}
        whole = math.fsum(weights.values())
        for threshold in range(-5, 60):
            exact = math.fsum(weight for z, weight in weights.items() if 1 + z >= threshold) / whole
            charged = GaussianThreshold(sigma=sigma, threshold=threshold).cost(1).delta
            assert exact <= charged + Fraction(1, 10**15)


# -- planted claims, at the kernel's door


def served(tmp_path: Path, reader: DuckReader, request: Any, cost: Cost, charged: bool = True) -> Any:
    """What the kernel releases for a script of this one request; it is `charged` whatever comes of it, or not at all."""
    def script() -> Generator[Any, Any, Any]:
        return (yield request)

    ledger = ReportingLedger.create(tmp_path / "ledger")
    account = Account(budget="person", analyst="eve")
    try:
        return Kernel(reader, ledger).run(
            script(), cost=cost, account=account, limits={None: limit(price(epsilon=1000, delta=0.1))}, digest="d", sql="SELECT",
            encode=str)
    finally:
        assert [entry.charge for entry in ledger.entries("person")] == [cost.rounded()] * charged
        ledger.close()


DEAR = pure(Fraction(100), Fraction(1, 100))


def test_the_kernel_serves_what_is_paid_for(tmp_path: Path, reader: DuckReader, people: Node) -> None:
    plan = tally(people, "s")
    request = NoisySums(plan=plan, cells=(("f",), ("m",)), noises=(DiscreteLaplace(scale=0.01),))
    found = served(tmp_path, reader, request, pure(1 / Fraction(0.01)))
    exact = dict(reader.rows("SELECT sex, COUNT(*) FROM people GROUP BY sex"))
    assert found.totals == (((exact["f"], exact["m"]),),)


def planted(people: Node, visits: Node) -> dict[str, tuple[Any, Cost]]:
    ages, by_sex = (Ranks(input=people, keys=keys, column="a", grid=GRID) for keys in ((), ("s",)))
    years = Ranks(input=visits, keys=("c",), column="y", grid=Quantizer(low=2018, high=2021, step=Fraction(1), from_low=True))
    whole = (Segment(low=0, high=100, target=HALF),)
    rule = TruncatedGeometric(epsilon=Fraction(1), delta=Fraction(1, 10**4))
    paid = {"target": HALF, "epsilon": Fraction(1), "delta": Fraction(1, 10**4), "epsilon_size": Fraction(1)}

    def count(of: Node, noise: DiscreteLaplace | DiscreteGaussian) -> NoisySums:
        return NoisySums(plan=tally(of), cells=((),), noises=(noise,))

    return {
        "overlapping segments": (Select(plan=ages, cells=((),), segments=(whole * 2,), scale=4.0), DEAR),
        "a cell twice": (Select(plan=by_sex, cells=(("f",), ("f",)), segments=(whole, whole), scale=4.0), DEAR),
        "a smooth cell twice": (Smooth(plan=by_sex, cells=(("f",), ("f",)), **paid), DEAR),
        "smooth cells of several rows": (Smooth(plan=years, cells=(("a",), ("b",)), **paid), DEAR),
        "a ladder of sums": (
            AboveThresholdOfCounts(plan=GroupedSums(input=people, keys=("a",), summands=(GridSum(column="a", grid=GRID),)), limits=(2,) * 5,
                                   scale_limit=4.0, scale_query=4.0), DEAR),
        "keys counted thrice": (Keys(plan=tally(visits, "c"), rule=GaussianThreshold(sigma=4.0, threshold=30)), DEAR),
        "keys moved thrice at the price of once": (Keys(plan=tally(visits, "c"), rule=rule), pure(Fraction(3), Fraction(1, 10**3))),
        "no noise": (count(people, DiscreteLaplace(scale=0.0)), DEAR),
        "noise below zero": (count(people, DiscreteLaplace(scale=-1.0)), DEAR),
        "more than was paid": (count(people, DiscreteLaplace(scale=1.0)), pure(Fraction(99, 100))),
        "rho at the price of epsilon": (count(people, DiscreteGaussian(sigma=1.0)), pure(Fraction(2))),
        "a failure that was not paid": (Keys(plan=tally(told(visits, 1), "c"), rule=rule), pure(Fraction(5))),
        "rows that are not limited": (count(visits.inputs[0], DiscreteLaplace(scale=1.0)), DEAR),
        "three rows at the price of one": (count(visits, DiscreteGaussian(sigma=1.0)), concentrated(Fraction(4))),
    }


def test_a_planted_claim_is_refused_before_the_charge(tmp_path: Path, reader: DuckReader, people: Node, visits: Node) -> None:
    for i, (name, (request, cost)) in enumerate(planted(people, visits).items()):
        with pytest.raises((TypeError, ValueError, Unbounded)):
            served(tmp_path / str(i), reader, request, cost, charged=False)
            pytest.fail(name)
