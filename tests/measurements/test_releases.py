"""How private rows are looked at: every distribution and bound against its definition, by enumeration."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar

import duckdb
import numpy as np
import pytest
from bench.bench_cells import VIEW
from support.chances import too_few, too_many
from support.columns_read import as_columns
from support.released import released
from support.worlds import POLICY, world

from dpsql.backends.duckdb import DuckReader
from dpsql.catalog.model import Catalog
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.schema import fit
from dpsql.engine.opening import public_values
from dpsql.frozen import replace
from dpsql.trusted.kernel.taken import copied_request
from dpsql.trusted.measurements import select, smooth_quantile
from dpsql.trusted.measurements.above_threshold import (
    SUM_GRAIN,
    AboveThresholdOfCounts,
    AboveThresholdOfSums,
    AboveThresholdOfTests,
    Failed,
    Rising,
    Rung,
    Stopped,
)
from dpsql.trusted.measurements.flip_distance import FlipDistances, Form, NoisyFlipDistance, Within, slack_of
from dpsql.trusted.measurements.frequent_keys import FrequentKeys, Keys
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.measurements.reading import sorted_values
from dpsql.trusted.measurements.reading.content import Content
from dpsql.trusted.measurements.reading.occupied_cells import NOWHERE, coded, sums_in
from dpsql.trusted.measurements.reading.request import Last
from dpsql.trusted.measurements.reading.sorted_values import Ranked, read
from dpsql.trusted.measurements.select import Segment, Select, Target
from dpsql.trusted.measurements.smooth_quantile import Smooth
from dpsql.trusted.measurements.vote import Vote
from dpsql.trusted.noise import choice
from dpsql.trusted.noise.integer import DiscreteGaussian, DiscreteLaplace
from dpsql.trusted.noise.key_selection import GaussianThreshold, TruncatedGeometric
from dpsql.trusted.noise.smooth import told_size
from dpsql.trusted.noise.source import Secure
from dpsql.trusted.plan.cells import Cells, Grid
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.expr.nodes import Call, Literal, Ref
from dpsql.trusted.plan.node import Node, Printing, Stability, fold
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.ranks import Ranks
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.summands import Count, GridSum
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.types import Type

# -- what stands in for a database and for noise


class Nothing:
    """A source that adds nothing, and remembers how much noise it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, float]] = []

    def laplace(self, values: Sequence[int], scale: float) -> list[int]:
        self.asked.append(("laplace", scale))
        return list(values)

    def gaussian(self, values: Sequence[int], sigma: float) -> list[int]:
        self.asked.append(("gaussian", sigma))
        return list(values)


class Stub:
    """A context whose database holds the given rows, whatever is asked."""

    stored: ClassVar[Mapping[str, Any]] = MappingProxyType({})  # no table is in a store
    content, keeps = "", False

    def __init__(self, rows: Sequence[tuple[Any, ...]], noise: Any) -> None:
        self.found, self.noise, self.reader, self.last = list(rows), noise, self, Last()

    def query(self, plan: Node) -> tuple[str, tuple[()]]:
        return "SELECT", ()

    def rows(self, sql: str, parts: Any = ()) -> list[tuple[Any, ...]]:
        return self.found

    def arrays(self, sql: str, parts: Any = ()) -> list[np.ndarray[Any, Any]]:
        table = np.array(self.found, dtype=np.int64).reshape(-1, 2)
        return [table[:, 0], table[:, 1]]

    def columns(self, sql: str, parts: Any = ()) -> list[np.ma.MaskedArray[Any, Any]]:
        *keys, values, counts = zip(*self.found, strict=True) if self.found else ((), ())
        return [*(np.ma.asarray(np.array(key, dtype=object)) for key in keys),
                *(np.ma.asarray(np.array(numbers, dtype=np.int64)) for numbers in (values, counts))]


def catalog(reader: DuckReader, budget: str = "person") -> Catalog:
    return fit(parse_policy(POLICY), budget, reader.schema(), public_values(reader))


@pytest.fixture
def reader() -> DuckReader:
    connection = duckdb.connect(":memory:")
    world(seed=4).fill(connection)
    return DuckReader(connection, "v")


@pytest.fixture
def people(reader: DuckReader) -> Scan:
    return Scan(table=catalog(reader).tables["people"], columns=(("p", "person_id"), ("a", "age"), ("s", "sex")), owners=("p",))


def counted(input: Node, *by: str) -> GroupedSums:
    return GroupedSums(input=input, keys=by, summands=(Count(),))


AGES = Quantizer(low=0, high=100, step=Fraction(1), from_low=True)


def ranked(rows: Sequence[int]) -> Ranked:
    found = sorted(Counter(rows).items())
    table = np.array(found, dtype=np.int64).reshape(-1, 2)
    return Ranked(table[:, 0], table[:, 1])


# -- selection


class Every:
    """A source that goes through all outcomes of a draw; `chances` are their probabilities."""

    def __init__(self) -> None:
        self.path: list[int] = []
        self.chance = 1.0
        self.scores: list[float] = []
        self._next: list[tuple[int, int]] = []
        self._at = 0

    def outcomes(self, draw: Any) -> Iterator[tuple[Any, float]]:
        while True:
            self._at, self.chance = 0, 1.0
            result = draw()
            yield result, self.chance
            while self._next and self._next[-1][0] + 1 == self._next[-1][1]:
                self._next.pop()
            if not self._next:
                return
            at, size = self._next.pop()
            self._next.append((at + 1, size))

    def _step(self, chances: Sequence[float]) -> int:
        if self._at == len(self._next):
            self._next.append((0, len(chances)))
        chosen = self._next[self._at][0]
        self._at += 1
        self.chance *= chances[chosen]
        return chosen

    def exponential(self, scores: Sequence[float], scale: float) -> int:
        self.scores = list(scores)
        weights = [math.exp((score - max(scores)) / scale) for score in scores]
        return self._step([weight / math.fsum(weights) for weight in weights])

    def below(self, end: int) -> int:
        return self._step([1 / end] * end)

    def flip(self, scores: Sequence[int], scale: float) -> int:
        """Permute-and-flip by its recursion over the candidates that are left."""
        assert all(isinstance(score, int) for score in scores)
        accept = [math.exp((score - max(scores)) / scale) for score in scores]
        chances = [0.0] * len(scores)
        orders = list(itertools.permutations(range(len(scores))))
        for order in orders:
            still = 1 / len(orders)
            for i in order:
                chances[i] += still * accept[i]
                still *= 1 - accept[i]
        return self._step(chances)


def distribution(rows: Sequence[int], segment: Segment, scale: float, *, flip: bool = False) -> dict[int, float]:
    """What is drawn, with which probability."""
    source, found = Every(), defaultdict(float)
    inside = ranked(rows).between(segment.low, segment.high)
    choose = select.flipped if flip else select.drawn
    for value, chance in source.outcomes(lambda: choose(inside, segment, scale, Stub([], source))):  # type: ignore[arg-type]
        found[value] += chance
    return dict(found)


def definition(rows: Sequence[int], segment: Segment) -> dict[int, Fraction]:
    """d(v) of `Select` for every value of a segment."""
    p, t = segment.target.fraction, segment.target.offset
    inside = [row for row in rows if segment.low <= row <= segment.high]
    n = len(inside)
    return {v: max(Fraction(0), segment.below * (sum(row < v for row in inside) - (p * n + t)),
                   segment.above * (sum(row > v for row in inside) - ((1 - p) * n - t)))
            for v in range(segment.low, segment.high + 1)}


def random_segment(draw: random.Random, most: int = 12) -> Segment:
    low = draw.randint(-4, most)  # also where no value can be
    fraction = draw.choice([Fraction(0), Fraction(1, 2), Fraction(1), Fraction(1, 3), Fraction(9, 10), Fraction(37, 100)])
    return Segment(low=low, high=draw.randint(low, most), target=Target(fraction=fraction, offset=draw.choice([0, 0, 1, -2, 40])),
                   below=draw.choice([1, 1, 2, 7]), above=draw.choice([1, 1, 3]))


def test_values_are_drawn_by_the_exponential_mechanism(effort: float) -> None:
    draw = random.Random(2)
    for _ in range(round(1500 * effort)):
        rows = [draw.randint(0, 12) for _ in range(draw.randint(0, 9))]
        segment, scale = random_segment(draw), draw.uniform(0.3, 8)
        far = definition(rows, segment)
        b = segment.target.fraction.denominator
        weights = {v: math.exp(-float(b * (d - min(far.values()))) / scale) for v, d in far.items()}
        found = distribution(rows, segment, scale)
        assert math.fsum(found.values()) == pytest.approx(1)
        assert found == pytest.approx({v: weight / math.fsum(weights.values()) for v, weight in weights.items()}, abs=1e-12)


def test_permute_and_flip_sees_the_same_distances(effort: float) -> None:
    """Chances are exact, so what is wrong with a distance shows in any case that has it."""
    draw = random.Random(3)
    for _ in range(round(20 * effort)):
        rows = [draw.randint(0, 5) for _ in range(draw.randint(0, 6))]
        segment, scale = random_segment(draw, most=5), draw.uniform(0.3, 8)
        far, b = definition(rows, segment), segment.target.fraction.denominator
        order = sorted(far)
        source = Every()
        expected = {}
        for i, chance in source.outcomes(lambda: source.flip([-int(b * far[v]) for v in order], scale)):  # noqa: B023
            expected[order[i]] = chance
        assert distribution(rows, segment, scale, flip=True) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("flip", [False, True])
def test_no_draw_tells_more_than_it_costs(flip: bool, effort: float, people: Scan) -> None:
    """The exact loss between neighbours, against `Select.cost`: k rows more or less, over all disjoint segments together."""
    draw, plan = random.Random(4 + flip), Ranks(input=people, keys=(), column="a", grid=AGES)
    for _ in range(round((80 if flip else 800) * effort)):
        most, k = 6, draw.randint(1, 3)
        rows = [draw.randint(0, most) for _ in range(draw.randint(0, 7))]
        moved = [draw.randint(0, most) for _ in range(draw.randint(1, k))]
        cut = draw.randint(0, most - 1)
        segments = (replace(random_segment(draw), low=0, high=cut), replace(random_segment(draw), low=cut + 1, high=most))
        scale = draw.uniform(0.5, 6)
        request = Select(plan=plan, cells=((),), segments=(segments,), scale=scale, flip=flip)
        cost = request.cost(Certificate(below=Stability(rows=k, owners=("p",)), summands=()))
        loss, opposite = 0.0, 0.0
        for segment in segments:
            one, two = (distribution(found, segment, scale, flip=flip) for found in (rows, rows + moved))
            loss += max(math.log(one[v] / two[v]) for v in one)
            opposite += max(math.log(two[v] / one[v]) for v in one)
        assert cost.epsilon is not None and max(loss, opposite) <= float(cost.epsilon) + 1e-9


def test_what_is_too_far_is_drawn_as_one_and_hardly_ever() -> None:
    segment = Segment(low=0, high=2**40 - 1, target=Target(fraction=Fraction(1, 2)))
    rows = [1000] * 500 + [2000] * 500 + [2**39] * 3000
    source = Every()
    values = ranked(rows).between(segment.low, segment.high)
    source.below = lambda end: end - 1  # type: ignore[method-assign, assignment]
    chances = dict(source.outcomes(lambda: select.drawn(values, segment, 0.5, Stub([], source))))  # type: ignore[arg-type]
    assert chances[2**39] == pytest.approx(1)
    assert sum(chance for value, chance in chances.items() if value != 2**39) < 2.0**-60
    cap = select.cap_of(segment, 0.5)
    assert source.scores == pytest.approx([0, -cap + 0.5 * math.log(2**40 - 1)]), "all that is far away is one candidate"


def test_every_place_of_what_is_far_can_be_drawn() -> None:
    segment = Segment(low=0, high=9, target=Target(fraction=Fraction(1, 2)))
    found = distribution([4] * 1000, segment, 0.1)
    assert set(found) == set(range(10)) and found[4] == pytest.approx(1)


@pytest.mark.parametrize("fraction", [Fraction(10**15 // 7, 10**15), Fraction(1, 10**18), Fraction(10**30 - 1, 10**30)])
def test_fine_fractions_do_not_overflow(fraction: Fraction) -> None:
    segment = Segment(low=0, high=9, target=Target(fraction=fraction, offset=3))
    rows = [0, 3, 3, 7, 9, 9]
    far, b = definition(rows, segment), fraction.denominator
    scale = float(b) * 2
    weights = {v: math.exp(-float(b * (d - min(far.values())) / Fraction(scale))) for v, d in far.items()}
    expected = {v: weight / math.fsum(weights.values()) for v, weight in weights.items()}
    if b < 2**60:
        assert distribution(rows, segment, scale) == pytest.approx(expected)
    else:
        assert math.fsum(distribution(rows, segment, scale).values()) == pytest.approx(1)
    many = Ranked(np.array([0, 5], dtype=np.int64), np.array([10**12, 10**12], dtype=np.int64))
    exact = [int(d) for d in select.distances(np.array([0, 10**12]), np.array([2 * 10**12, 10**12]), many.total, segment)]
    a = fraction.numerator
    assert exact == [max(0, b * L - a * 2 * 10**12 - 3 * b, b * G - (b - a) * 2 * 10**12 + 3 * b)
                     for L, G in ((0, 2 * 10**12), (10**12, 10**12))]


@pytest.mark.parametrize("below, above", [(1, 2**30), (2**30, 1)])
def test_large_penalties_do_not_overflow(below: int, above: int) -> None:
    segment, rows = Segment(low=0, high=9, target=Target(fraction=Fraction(1, 2)), below=below, above=above), 2**40
    assert select.distances(np.array([0, rows]), np.array([rows, 0]), rows, segment).tolist() == [above * rows, below * rows]
    far = replace(segment, target=Target(fraction=Fraction(1, 2), offset=-2**60))
    assert select.distances(np.array([0, 3]), np.array([3, 0]), 3, far).tolist() == [below * (2**61 - 3), below * (2**61 + 3)]


def test_points_that_are_left_out_are_too_far(effort: float) -> None:
    """The pieces near the target, with the rest as one, against all values of the segment by definition."""
    draw = random.Random(12)
    for _ in range(round(400 * effort)):
        rows = [draw.randint(0, 40) for _ in range(draw.randint(0, 120))]
        segment = random_segment(draw, most=40)
        far, b = definition(rows, segment), segment.target.fraction.denominator
        least, cap = min(far.values()), draw.choice([1, 2, 5, 30, 10**6])
        starts, widths, distance = select.intervals(ranked(rows).between(segment.low, segment.high), segment, cap)
        found = {v: min(int(d - distance.min()), cap) for start, width, d in zip(starts, widths, distance, strict=True)
                 for v in range(start, start + width)}
        assert int(distance.min()) == b * least
        assert found == {v: min(b * (d - least), cap) for v, d in far.items()}


def test_only_points_near_the_target_are_looked_at() -> None:
    many = ranked(range(10**5))
    segment = Segment(low=0, high=2**30, target=Target(fraction=Fraction(1, 2)))
    starts, _, _ = select.intervals(many, segment, 50)
    assert len(starts) < 60 and abs(int(np.median(starts)) - 50_000) < 50


def test_blocks_of_candidates_are_drawn_with_their_weight(monkeypatch: pytest.MonkeyPatch, effort: float) -> None:
    draw = random.Random(13)
    monkeypatch.setattr(choice, "ONE_STEP", 1)
    for _ in range(round(300 * effort)):
        rows = [draw.randint(0, 12) for _ in range(draw.randint(0, 30))]
        segment, scale = random_segment(draw), draw.uniform(0.3, 8)
        found = distribution(rows, segment, scale)
        monkeypatch.setattr(choice, "ONE_STEP", 10**9)
        assert found == pytest.approx(distribution(rows, segment, scale), rel=1e-9, abs=1e-14)
        monkeypatch.setattr(choice, "ONE_STEP", 1)


def test_the_rounding_of_blocks_is_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of blocks are sums of floats, of at most 2^13 terms each: here as many, and against fifty digits."""
    monkeypatch.setattr(math, "isqrt", lambda number: 10**6)
    scores, source = np.random.default_rng(5).choice(np.random.default_rng(6).uniform(-9, 0, 99), 2**14 + 1), Every()
    first = source.exponential
    monkeypatch.setattr(source, "exponential", lambda scores, scale: first(scores, scale) if len(scores) == 3 else 0)
    assert next(iter(source.outcomes(lambda: choice.exponential(scores, 1.5, source))))[0] == 0  # type: ignore[arg-type]
    off = []
    with localcontext(prec=50):
        for told, block in zip(source.scores, np.split(scores, [2**13, 2**14]), strict=True):
            weight = sum((Decimal(score) / Decimal(1.5)).exp() * times for score, times in Counter(block.tolist()).items())
            off.append(abs(Decimal(told) / Decimal(1.5) - Decimal(weight).ln()))
        assert 0 < 4 * max(off) <= Decimal(float(choice.BLOCK_ROUNDING))


def test_a_second_look_at_the_same_values_reads_nothing(people: Scan) -> None:
    plan = Ranks(input=people, keys=(), column="a", grid=AGES)
    context = Stub([(3, 2), (9, 1)], Secure())
    first = read(plan, ((),), context)  # type: ignore[arg-type]
    context.found = [(1, 1)]
    assert read(plan, ((),), context) is first  # type: ignore[arg-type]
    other = Ranks(input=people, keys=(), column="p", grid=AGES)
    assert [list(part.values) for part in read(other, ((),), context)] == [[1]]  # type: ignore[arg-type]
    assert [list(part.values) for part in read(plan, ((),), context)] == [[1]]  # type: ignore[arg-type]


def test_values_too_many_to_count_come_one_by_one(people: Scan, reader: DuckReader) -> None:
    fine = Quantizer(low=0, high=100, step=Fraction(1, 2**20), from_low=True)
    counted, single = (Ranks(input=people, keys=(), column="a", grid=grid) for grid in (AGES, fine))
    texts = [fold(plan, lambda node, below: node.render(below, Printing())) for plan in (counted, single)]
    assert "GROUP BY" in texts[0] and "GROUP BY" not in texts[1]
    one, two = (sorted_values.ranked(*reader.arrays(text)) for text in texts)
    assert list(one.values * 2**20) == list(two.values) and list(one.counts) == list(two.counts)


def test_a_far_target_loses_no_precision() -> None:
    """Only differences of scores matter, and they are taken before they become floats."""
    near, far = (Segment(low=0, high=3, target=Target(fraction=Fraction(0), offset=offset)) for offset in (10, 2**50))
    assert distribution([0, 1, 1, 2], near, 0.7) == pytest.approx(distribution([0, 1, 1, 2], far, 0.7), abs=1e-12)


def test_cells_and_segments_answer_in_order(people: Scan) -> None:
    plan = Ranks(input=people, keys=("s",), column="a", grid=AGES)
    whole = Target(fraction=Fraction(1, 2))
    rows = [("m", 7, 500), ("f", 90, 500), ("f", 10, 500), ("x", 1, 500)]
    request = Select(plan=plan, cells=(("f",), ("m",), (None,)), scale=1.0, segments=(
        (Segment(low=50, high=100, target=whole), Segment(low=0, high=49, target=whole)),
        (Segment(low=0, high=100, target=whole),), ()))
    found = released(request, Stub(rows, Secure()))  # type: ignore[arg-type]
    assert found.values == ((90, 10), (7,), ())


def test_a_cell_cannot_be_looked_at_twice(people: Scan) -> None:
    plan = Ranks(input=people, keys=("s",), column="a", grid=AGES)
    segment = (Segment(low=0, high=100, target=Target(fraction=Fraction(1, 2))),)
    for cells in ((("f",), ("f",)), ((1,), (1.0,)), ((math.nan,), (math.nan,)), ((0.0,), (-0.0,))):
        for request in asked(plan, cells, segment):
            with pytest.raises(ValueError, match="different"):
                copied_request(request)
    alone = Ranks(input=people, keys=(), column="a", grid=AGES)
    for cells in (((), ()), (("f",),), (("f", "m"),)):
        for request in asked(alone, cells, segment):  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="different"):
                copied_request(request)


def asked(plan: Ranks, cells: Cells, segments: tuple[Segment, ...]) -> tuple[Select, Smooth]:
    return (Select(plan=plan, cells=cells, segments=(segments,) * len(cells), scale=1.0),
            Smooth(plan=plan, cells=cells, target=segments[0].target, epsilon=Fraction(1), delta=Fraction(1, 10**6), epsilon_size=Fraction(1)))


@pytest.mark.parametrize("flip", [False, True])
def test_values_are_drawn_in_the_way_that_is_paid_for(flip: bool, people: Scan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "flipped", lambda values, segment, scale, context: 7)
    monkeypatch.setattr(select, "drawn", lambda values, segment, scale, context: 8)
    segment = Segment(low=0, high=9, target=Target(fraction=Fraction(1, 2)))
    request = Select(plan=Ranks(input=people, keys=(), column="a", grid=AGES), cells=((),), segments=((segment,),), scale=1.0, flip=flip)
    assert released(request, Stub([(3, 1)], None)).values == ((7 if flip else 8,),)  # type: ignore[arg-type]


def test_too_fine_a_grid_is_not_flipped(people: Scan) -> None:
    plan = Ranks(input=people, keys=(), column="a", grid=AGES)
    wide = Segment(low=-3, high=2**17 - 3, target=Target(fraction=Fraction(1, 2)))
    request = Select(plan=plan, cells=((),), segments=((wide,),), scale=1.0, flip=True)
    with pytest.raises(ValueError, match="too many"):
        copied_request(request)
    assert copied_request(replace(request, segments=((replace(wide, high=2**17 - 4),),))).flip


# -- smooth sensitivity


def place(rows: Sequence[int], position: int, top: int) -> int:
    return 0 if position <= 0 else top if position > len(rows) else sorted(rows)[position - 1]


def quantile(rows: Sequence[int], fraction: Fraction, top: int) -> int:
    return place(rows, smooth_quantile.quantile_index(len(rows), fraction), top)


def every_window(rows: Sequence[int], middle: int, top: int, k: int, beta: float) -> float:
    """The definition, over all windows."""
    return max([smooth_quantile.LEAST, *(
        math.exp(-beta * ((h - i) / k - 1)) * (place(rows, h, top) - place(rows, i, top))
        for i in range(middle + 1) for h in range(max(middle, i + 1), len(rows) + 2))])


def smoothed(rows: Sequence[int], fraction: Fraction, top: int, k: int, beta: float) -> float:
    ordered, middle = np.array(sorted(rows), dtype=np.int64), smooth_quantile.quantile_index(len(rows), fraction)
    return smooth_quantile.smooth_sensitivity(ordered, middle, top, k, beta)


FRACTIONS = [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10), Fraction(0), Fraction(1), Fraction(1, 3)]


def random_rows(draw: random.Random, most: int, top: int) -> list[int]:
    centre = draw.randint(0, top)
    kinds = [lambda: draw.randint(0, top), lambda: centre, lambda: min(top, max(0, round(draw.gauss(centre, top / 20))))]
    kind = draw.choice(kinds)
    return [kind() for _ in range(draw.randint(0, most))]


@pytest.mark.parametrize("k", [1, 2, 3])
def test_smooth_sensitivity_is_the_largest_window(k: int, effort: float) -> None:
    draw = random.Random(10 + k)
    for _ in range(round(1500 * effort)):
        top = draw.choice([1, 10, 1000, 2**40])
        rows, fraction, beta = random_rows(draw, 25, top), draw.choice(FRACTIONS), draw.choice([1e-6, 0.01, 0.1, 0.5, 2.0])
        middle = smooth_quantile.quantile_index(len(rows), fraction)
        assert smoothed(rows, fraction, top, k, beta) == pytest.approx(every_window(rows, middle, top, k, beta), rel=1e-12)


@pytest.mark.parametrize("k", [3, 4, 5, 10, 10**13])
def test_smooth_sensitivity_where_an_entity_may_have_more_rows_than_there_are(k: int) -> None:
    """In memory for the rows that there are."""
    for rows in ([], [5], [1, 5, 9], [0, 0, 100, 100]):
        middle = smooth_quantile.quantile_index(len(rows), Fraction(1, 2))
        assert smoothed(rows, Fraction(1, 2), 100, k, 0.1) == pytest.approx(every_window(rows, middle, 100, k, 0.1), rel=1e-12)


def test_smooth_sensitivity_of_many_rows(effort: float) -> None:
    """The same by a plain search over long arrays, and where every row has one value."""
    draw = random.Random(20)
    for _ in range(round(6 * effort)):
        rows = sorted(min(10**6, round(draw.lognormvariate(8, 2))) for _ in range(400))
        fraction, beta, k = draw.choice(FRACTIONS), draw.choice([0.003, 0.03]), draw.randint(1, 3)
        x = np.array([0, *rows, 10**6])
        middle = smooth_quantile.quantile_index(len(rows), fraction)
        i, h = np.meshgrid(np.arange(middle + 1), np.arange(middle, len(x)), indexing="ij")
        windows = np.where(h > i, np.exp(-beta * ((h - i) / k - 1)) * (x[h] - x[i]), 0)
        assert smoothed(rows, fraction, 10**6, k, beta) == pytest.approx(windows.max(), rel=1e-12)
    assert smoothed([30] * 100_000, Fraction(1, 2), 100, 1, 0.05) == smooth_quantile.LEAST
    assert smoothed([30] * 100_000, Fraction(1, 2), 100, 3, 0.001) == pytest.approx(
        max(math.exp(0.001 - 0.001 / 3 * 50_000) * 70, smooth_quantile.LEAST))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_smooth_sensitivity_bounds_every_move_and_is_smooth(k: int, effort: float) -> None:
    draw = random.Random(30 + k)
    for _ in range(round(150 * effort)):
        top = draw.choice([1, 3, 6])
        rows, fraction, beta = random_rows(draw, 7, top), draw.choice(FRACTIONS), draw.choice([0.01, 0.3, 1.0])
        here, value = smoothed(rows, fraction, top, k, beta), quantile(rows, fraction, top)
        for r in range(1, k + 1):
            removed = {tuple(rows[i] for i in range(len(rows)) if i not in gone)
                       for gone in itertools.combinations(range(len(rows)), min(r, len(rows)))}
            added = {(*rows, *more) for more in itertools.combinations_with_replacement(range(top + 1), r)}
            for other in removed | added:
                assert abs(quantile(other, fraction, top) - value) <= here
                there = smoothed(other, fraction, top, k, beta)
                assert max(here / there, there / here) <= math.exp(beta) * (1 + 1e-12)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_one_entity_may_move_a_quantile_by_all_of_its_smooth_sensitivity(k: int) -> None:
    """Half of the rows at either end. Random rows, of which few are far from the median, move by a small part of the bound."""
    rows = [0] * (10 * k) + [1000] * (10 * k)
    other = [*rows, *[1000] * k]
    here, there = (quantile(some, Fraction(1, 2), 1000) for some in (rows, other))
    assert abs(here - there) == 1000 >= math.exp(-0.1) * smoothed(rows, Fraction(1, 2), 1000, k, 0.1)


def test_a_quantile_is_a_row_whose_rank_is_the_fraction() -> None:
    for n in range(1, 30):
        for fraction in FRACTIONS:
            at = smooth_quantile.quantile_index(n, fraction)
            assert 1 <= at <= n and Fraction(at - 1, n) <= fraction <= max(fraction, Fraction(at, n))
    assert smooth_quantile.quantile_index(0, Fraction(1, 2)) == 0


def request_smooth(people: Scan, **changes: Any) -> Smooth:
    plan = Ranks(input=people, keys=changes.pop("keys", ()), column="a", grid=AGES, ties=changes.pop("ties", 0))
    settings = {"cells": ((),), "target": Target(fraction=Fraction(1, 2)), "epsilon": Fraction(1), "delta": Fraction(1, 10**6),
                "epsilon_size": Fraction(1, 10)}
    return Smooth(plan=plan, **(settings | changes))


def test_a_smooth_look_adds_the_noise_of_its_proof(people: Scan) -> None:
    rows, noise, request = [10, 20, 20, 30, 50], Nothing(), request_smooth(people, epsilon=Fraction(1, 4))
    found = released(request, Stub(sorted(Counter(rows).items()), noise), rows=2)  # type: ignore[arg-type]
    bound = smoothed(rows, Fraction(1, 2), 100, 2, request.beta)
    assert found.values == (20,)
    assert noise.asked == [("laplace", pytest.approx(8 * bound)), ("laplace", pytest.approx(10))]
    assert noise.asked[1][1] >= 10
    assert found.sizes[0] == pytest.approx(math.log(bound) / request.beta, abs=1)


def test_the_told_size_moves_by_one_at_most(people: Scan, effort: float) -> None:
    draw, request = random.Random(40), request_smooth(people)
    for _ in range(round(2000 * effort)):
        rows = random_rows(draw, 30, 100) or [1]
        fewer = rows[:-1]
        sizes = [released(request, Stub(sorted(Counter(found).items()), Nothing()), rows=1).sizes[0]  # type: ignore[arg-type]
                 for found in (rows, fewer)]
        assert abs(sizes[0] - sizes[1]) <= 1


def test_the_told_size_moves_by_one_at_most_however_smooth_a_bound_is() -> None:
    draw = random.Random(41)
    for beta in (1e-9, 1e-5, 0.1):
        for _ in range(500):
            bound = math.exp(draw.uniform(-6, 30))
            one, other = (told_size(size, beta, Fraction(1), Nothing()) for size in (bound, bound * math.exp(beta)))  # type: ignore[arg-type]
            assert 0 <= other - one <= 1


def test_rows_that_are_told_apart_have_a_longer_range(people: Scan) -> None:
    noise = Nothing()
    released(request_smooth(people, ties=10), Stub([(101 * 1024 - 1, 1)], noise), rows=1)  # type: ignore[arg-type]
    assert noise.asked[0][1] >= 2 * (101 * 1024 - 1)


def test_an_empty_cell_reads_as_the_lower_bound(people: Scan) -> None:
    noise = Nothing()
    found = released(request_smooth(people), Stub([], noise), rows=1)  # type: ignore[arg-type]
    assert found.values == (0,) and noise.asked[0][1] == pytest.approx(200)


def test_a_price_without_a_smooth_bound_is_refused(people: Scan) -> None:
    with pytest.raises(ValueError, match="too small"):
        copied_request(request_smooth(people, epsilon=Fraction(1, 10**11)))


# -- keys


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(17, 10), Fraction(1, 37), Fraction(5), Fraction(1, 10**5)])
@pytest.mark.parametrize("delta", [Fraction(1, 10**6), Fraction(1, 100), Fraction(1, 3 * 10**9)])
def test_counts_of_keys_are_as_private_as_they_cost_and_no_reach_is_too_long(epsilon: Fraction, delta: Fraction) -> None:
    """What is told of n and of n + 1 entities, worked out exactly."""
    rule = TruncatedGeometric(epsilon=epsilon, delta=delta)

    def law(reach: int) -> dict[int, Fraction]:
        with localcontext() as context:
            context.prec = 60
            weights = [Fraction((-Decimal(abs(z)) * epsilon.numerator / epsilon.denominator).exp()) for z in range(-reach, reach + 1)]
        whole = sum(weights)
        return {z: weight / whole for z, weight in zip(range(-reach, reach + 1), weights, strict=True)}

    def told(n: int, noise: dict[int, Fraction]) -> dict[int | None, Fraction]:
        shown: dict[int | None, Fraction] = {n + z: chance for z, chance in noise.items() if n + z > rule.reach}
        return shown | {None: 1 - sum(shown.values())}

    if rule.reach > 300:  # fractions of so many places take long; the last one says what the proof needs
        assert float(delta) * 0.999 * math.exp(-1 / rule.scale) < math.tanh(0.5 / rule.scale) * math.exp(-rule.reach / rule.scale) / (
            1 - math.exp(-rule.reach / rule.scale) * (1 - math.tanh(0.5 / rule.scale))) <= float(delta)
        return
    noise, worst, factor = law(rule.reach), 0.0, Fraction(math.exp(epsilon) * (1 + 1e-12))
    for n in {0, 1, 2, rule.reach // 2, rule.reach, rule.reach + 1, 2 * rule.reach, 2 * rule.reach + 1}:
        for p, q in itertools.permutations((told(n, noise), told(n + 1, noise))):
            apart = sum((max(Fraction(0), chance - factor * q.get(what, Fraction(0))) for what, chance in p.items()), Fraction(0))
            assert apart <= delta
            worst = max(worst, float(apart / delta))
    assert worst > 0.9 * math.exp(-epsilon) * (1 - math.exp(-epsilon)), worst
    assert law(rule.reach - 1)[rule.reach - 1] > delta, "a shorter reach would cost more"


@pytest.mark.parametrize("epsilon, delta", [(Fraction(1, 10**18), Fraction(1, 10**18)), (Fraction(1), Fraction(0)),
                                            (Fraction(1), Fraction(1, 10**400))])
def test_prices_too_small_for_keys_are_refused(epsilon: Fraction, delta: Fraction) -> None:
    with pytest.raises(ValueError, match="(epsilon|delta) must be"):
        copied_request(TruncatedGeometric(epsilon=epsilon, delta=delta))


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.inf, math.nan, 2.0**56])
def test_thresholds_have_noise_that_can_be_drawn(sigma: float) -> None:
    with pytest.raises(ValueError, match="sigma must be"):
        copied_request(GaussianThreshold(sigma=sigma, threshold=3))


def test_keys_are_kept_with_their_chance(people: Scan, effort: float) -> None:
    rule, n = TruncatedGeometric(epsilon=Fraction(1), delta=Fraction(1, 100)), round(4000 * effort)
    law = [math.exp(-abs(z)) for z in range(-rule.reach, rule.reach + 1)]
    for count in (0, 1, 3, rule.reach, rule.reach + 1, 10**9):
        chance = sum(weight for z, weight in enumerate(law, -rule.reach) if count + z > rule.reach) / sum(law)
        rows = [(i, count) for i in range(n)]
        found = released(Keys(plan=counted(people, "a"), rule=rule), Stub(rows, Secure()))  # type: ignore[arg-type]
        kept = len(found.keys)
        assert not too_few(kept, n, chance) and not too_many(kept, n, chance)
        assert len(found.counts) == kept and all(rule.reach < told <= count + rule.reach for told in found.counts)


def test_keys_above_a_noisy_threshold_are_kept(people: Scan) -> None:
    rows = [("a", 9), ("b", 10), ("c", 11), ("d", 0), (None, 12), ("e", -3)]
    request = Keys(plan=counted(people, "s"), rule=GaussianThreshold(sigma=2.0, threshold=10))
    noise = Nothing()
    found = released(request, Stub(rows, noise))  # type: ignore[arg-type]
    assert found == FrequentKeys(keys=(("b",), ("c",), (None,)), counts=(10, 11, 12)) and noise.asked == [("gaussian", 2.0)]
    nothing_there = released(Keys(plan=counted(people, "s"), rule=GaussianThreshold(sigma=1.0, threshold=-5)),
                              Stub([("d", 0)], Nothing()))  # type: ignore[arg-type]
    assert nothing_there == FrequentKeys(keys=(), counts=()), "a key without entities is never shown, whatever the noise"


def test_keys_come_in_canonical_order(people: Scan) -> None:
    rows = [(None, 10**6), (2.5, 10**6), (math.nan, 10**6), (-1.0, 10**6)]
    random.Random(1).shuffle(rows)
    rule = TruncatedGeometric(epsilon=Fraction(1), delta=Fraction(1, 100))
    found = released(Keys(plan=counted(people, "a"), rule=rule), Stub(rows, Secure())).keys  # type: ignore[arg-type]
    assert found[:2] == ((-1.0,), (2.5,)) and math.isnan(found[2][0]) and found[3] == (None,)  # type: ignore[arg-type]


# -- the ladder


class Scripted:
    """Noise that is given."""

    def __init__(self, *parts: int) -> None:
        self.parts = list(parts)
        self.scales: list[float] = []

    def laplace(self, values: Sequence[int], scale: float) -> list[int]:
        self.scales.append(scale)
        return [value + self.parts.pop(0) for value in values]


def ladder(people: Scan, rungs: int, limit: int) -> AboveThresholdOfCounts:
    return AboveThresholdOfCounts(plan=counted(people, "a"), limits=(limit,) * rungs, scale_limit=2.0, scale_query=3.0)


@pytest.mark.parametrize("noise, rung", [
    ((0, 0, 0, 0, 0), 2),  # above rungs 0, 1, 2, 3 are 9, 6, 2, 1 entities
    ((4, 0, 0), 1), ((0, -7), 0), ((0, 0, -4), 1), ((-1, 0, 0, 0, 0), 3), ((-3, 0, 0, 0, 0), 4), ((0, 0, 0, 1, 1), 3)])
def test_a_ladder_is_climbed_until_few_are_above(people: Scan, noise: tuple[int, ...], rung: int) -> None:
    rows = [(0, 5), (1, 3), (2, 4), (3, 1), (4, 1), (None, 50), (7, 50), (-1, 50)]
    source = Scripted(*noise)
    assert released(ladder(people, 4, 2), Stub(rows, source)) == Rung(rung=rung)  # type: ignore[arg-type]
    assert source.scales == [2.0, *[3.0] * (len(source.scales) - 1)]


def stops(above: Sequence[int], limits: Sequence[int], scale_limit: float, scale_query: float) -> list[float]:
    """The exact distribution of the rung."""
    def mass(z: int, scale: float) -> float:
        return math.tanh(1 / (2 * scale)) * math.exp(-abs(z) / scale)

    def at_most(z: int, scale: float) -> float:
        q = math.exp(-1 / scale)
        return q ** -z / (1 + q) if z < 0 else 1 - q ** (z + 1) / (1 + q)

    chances = [0.0] * (len(above) + 1)
    for moved in range(-120, 121):
        still = mass(moved, scale_limit)
        for j, (count, limit) in enumerate(zip(above, limits, strict=True)):
            stop = at_most(limit + moved - count, scale_query)
            chances[j] += still * stop
            still *= 1 - stop
        chances[-1] += still
    return chances


def test_a_ladder_tells_no_more_than_it_costs(effort: float) -> None:
    """Rows of an entity come and go at several keys at once; limits are any numbers."""
    draw, reached = random.Random(50), [0.0] * 4
    for _ in range(round(90 * effort)):
        counts, rungs, moved = [draw.randint(0, 3) for _ in range(5)], 4, draw.randint(1, 3)
        other = list(counts)
        for _ in range(moved):
            at = draw.randrange(5)
            other[at] += draw.choice([1, -1]) if other[at] else 1
        scales = moved * draw.uniform(0.4, 4), moved * draw.uniform(0.4, 4)
        limits = [draw.randint(0, 4) for _ in range(rungs)]
        one, two = (stops([sum(found[j + 1:]) for j in range(rungs)], limits, *scales) for found in (counts, other))
        assert math.fsum(one) == pytest.approx(1, abs=1e-4)  # the noise of the limit ends somewhere
        told = max(abs(math.log(a / b)) for a, b in zip(one, two, strict=True))
        claimed = moved * (1 / scales[0] + 1 / scales[1])
        assert told <= claimed + 1e-9
        reached[moved] = max(reached[moved], told / claimed)
    assert min(reached[1:]) > 0.4, reached


def test_a_ladder_stops_as_often_as_it_should(people: Scan, effort: float) -> None:
    rows, n = [(0, 4), (1, 3), (2, 2), (3, 1)], round(3000 * effort)
    request = AboveThresholdOfCounts(plan=counted(people, "a"), limits=(2, 2, 2), scale_limit=1.5, scale_query=2.0)
    found = Counter(released(request, Stub(rows, Secure())).rung for _ in range(n))  # type: ignore[arg-type]
    for rung, chance in enumerate(stops([6, 3, 1], [2, 2, 2], 1.5, 2.0)):
        assert not too_few(found[rung], n, chance) and not too_many(found[rung], n, chance)


# -- thresholds of sums and of tests, and votes


def summed(people: Node, low: int, high: int) -> GroupedSums:
    """A count, and a sum of whole numbers."""
    grid = Quantizer(low=low, high=high, step=Fraction(1), from_low=False)
    return GroupedSums(input=people, keys=(), summands=(Count(), GridSum(column="a", grid=grid)))


def test_the_first_sum_that_reaches_its_threshold_is_told(people: Scan) -> None:
    """An entity adds 2 to the count of 7, and 20 to the sum of 45: gaps are in units of these."""
    steps = Rising(at=0, threshold=Fraction(8)), Rising(at=1, threshold=Fraction(46)), Rising(at=0, threshold=Fraction(7))
    gaps = SUM_GRAIN * 8 // 2 - SUM_GRAIN * 7 // 2, SUM_GRAIN * 46 // 20 - SUM_GRAIN * 45 // 20, 0
    request = AboveThresholdOfSums(plan=summed(people, 0, 10), steps=steps, scale_limit=2.0, scale_query=3.0)
    for step, off in itertools.product(range(3), (0, 1)):
        source, stopped = Scripted(5, *[5] * step, 5 - gaps[step] + off, *[9**9] * 2), None if off else step
        found = released(request, Stub([(7, 45)], source), rows=2)  # type: ignore[arg-type]
        assert found == Stopped(step=stopped) and source.scales[:3] == [2.0, 3.0, 3.0][: len(source.scales)]


def test_a_sum_of_zeros_has_a_threshold_too(people: Scan) -> None:
    request = AboveThresholdOfSums(plan=summed(people, 0, 0), steps=(Rising(at=1, threshold=Fraction(1)),), scale_limit=2.0, scale_query=3.0)
    assert released(request, Stub([(7, 0)], Nothing()), rows=2) == Stopped(step=None)  # type: ignore[arg-type]


ONE_ROW = Certificate(below=Stability(rows=1), summands=())


def tests_of(people: Scan) -> tuple[Within, ...]:
    """Whether a count is from 4 to 9, at most 4, and 7 or more."""
    return tuple(Within(plan=counted(people), cells=((),), forms=(
        Form(at=0, sign=1, constants=(1 - low,)), Form(at=0, sign=-1, constants=(high + 1,)))) for low, high in ((4, 9), (0, 4), (7, 99)))


def test_tests_fail_whose_slack_is_small(people: Scan) -> None:
    """A count of 7; with noise for sides that rows lower, for whole tests, and for sides that they raise."""
    for split, shared, failed in (
            (False, (9, 0, 9), (False, True, True)), (False, (0, 1, 0), (False, True, False)), (False, (0, 4, 0), (False, False, False)),
            (True, (0, 9, 0), (False, True, True)), (True, (4, 0, 0), (False, False, True)), (True, (0, 0, 2), (False, True, False))):
        request = AboveThresholdOfTests(tests=tests_of(people), most=5, limits=(1,), scale_limit=2.0, scale_query=3.0, split=split)
        found = request.release(Stub([(7, 0)], Scripted(*shared, *[0] * 6)), *[ONE_ROW] * 3)  # type: ignore[arg-type]
        assert found == Failed(failed=failed)


def test_the_least_slack_is_told_where_tests_are_taken_together(people: Scan) -> None:
    request = NoisyFlipDistance(tests=tests_of(people), noise=DiscreteLaplace(scale=2.0))
    for together, slacks in ((False, (3, -2, 1)), (True, (-2,))):
        found = replace(request, together=together).release(Stub([(7, 0)], Nothing()), *[ONE_ROW] * 3)  # type: ignore[arg-type]
        assert found == FlipDistances(slacks=slacks)


def flip_distance(rows: Sequence[int], grid: range, first: int, last: int) -> int:
    """How many rows have to go or come until a sum enters the interval or leaves it; 60 where more do."""
    found, inside = 60, first <= sum(rows) <= last
    for gone in itertools.product((False, True), repeat=len(rows)):
        left = sum(itertools.compress(rows, (not here for here in gone)))
        for come in range(60 - sum(gone)):
            low, high = left + come * grid[0], left + come * grid[-1]
            if (low < first or high > last) if inside else low <= last and high >= first:
                found = min(found, sum(gone) + come)
                break
    return found


@pytest.mark.parametrize("grid", [range(6), range(-2, 4), range(1, 5), range(-4, 0), range(-3, 1)], ids=str)
def test_the_exact_slack_of_a_sum_is_its_flip_distance(grid: range) -> None:
    draw, seen = random.Random(str(grid)), Counter[bool]()
    plan = summed(VIEW, grid[0], grid[-1])
    for _ in range(80):
        first = draw.randint(-30, 30)
        last, rows = first + draw.randint(6, 30), [draw.choice(grid) for _ in range(draw.randint(0, 5))]
        test = Within(plan=plan, cells=((),), exact=True, forms=(
            Form(at=1, sign=-1, constants=(last + 1,)), Form(at=1, sign=1, constants=(1 - first,))))
        assert copied_request(test) == test
        slack = slack_of(test.sides([[len(rows)], [sum(rows)]], lambda listed: sorted(  # noqa: B023
            (value * listed.sign for value in rows if value * listed.sign > 0), reverse=True)), 1)  # noqa: B023
        assert (slack >= 1) == (first <= sum(rows) <= last)
        distance = flip_distance(rows, grid, first, last)
        assert min(slack if slack >= 1 else 1 - slack, 60) == distance, (rows, first, last)
        seen[distance < 60] += 1
    assert min(seen.values()) > 5


def test_a_vote_has_the_log_odds_of_its_score(people: Scan) -> None:
    plain = Vote(plan=counted(people), low=Fraction(3), high=Fraction(10), most=Fraction(2), scale=1.5)
    for vote, count, score in (*((plain, *pair) for pair in ((5, 2), (4, 1), (9, 1), (10, 0), (11, -1), (99, -2), (0, -2))),
                               *((replace(plain, blunt=True), *pair) for pair in ((5, 0.5), (3, -0.5), (10, -0.5), (99, -0.5)))):
        source = Every()
        chances = dict(source.outcomes(lambda: released(vote, Stub([(count, 0)], source), rows=3).yes))  # type: ignore[arg-type]  # noqa: B023
        assert math.log(chances[True] / chances[False]) == pytest.approx(score / (3 * 1.5), abs=1e-6)
    assert copied_request(replace(plain, low=Fraction(7), high=Fraction(7))).high == 7


# -- sums


def test_cells_are_filled_in_their_order(people: Scan) -> None:
    plan = GroupedSums(input=people, keys=("s",), summands=(Count(), Count(column="a")))
    rows = [("m", 3, 2), ("f", 5, 4), ("unlisted", 9, 9), (None, 7, 1)]
    noise = Nothing()
    request = NoisySums(plan=plan, cells=(("f",), ("x",), (None,), ("m",)),
                        noises=(DiscreteLaplace(scale=2.0), DiscreteGaussian(sigma=3.0)))
    assert released(request, Stub(rows, noise)) == MeasuredSums(  # type: ignore[arg-type]
        totals=(((5, 0, 7, 3),), ((4, 0, 1, 2),)))
    assert noise.asked == [("laplace", 2.0), ("gaussian", 3.0)]


def test_nan_is_a_key_like_any_other() -> None:
    found = as_columns([(math.nan, 3), (1.0, 4)])
    assert sums_in(found, 1, ((1.0,), (math.nan,))) == sums_in(found, 1, Grid(((1.0, math.nan),))) == [[4, 3]]


def test_values_of_another_type_are_those_that_are_equal() -> None:
    for values, codes in (([2.0**53, 2.0], [NOWHERE, 1]), (["2", None], [NOWHERE, 2]), ([Decimal(2), Decimal("2.5")], [1, NOWHERE])):
        assert coded(as_columns([(value, 1) for value in values])[0], (2**53 + 1, 2, None)).tolist() == codes


def test_only_integers_leave() -> None:
    for value in (1.5, "7", None, Decimal(3)):
        with pytest.raises(TypeError):
            sums_in(as_columns([("a", value)]), 1, (("a",),))


def test_no_rows_are_zeros() -> None:
    none = [np.ma.asarray(np.array([], dtype=kind)) for kind in (object, np.int64, np.int64)]
    assert sums_in(none, 1, (("a",), ("b",))) == sums_in(none, 1, Grid((("a", "b"),))) == [[0, 0], [0, 0]]
    assert sums_in(none, 1, ()) == sums_in(none, 1, Grid(((),))) == [[], []]
    assert sums_in(as_columns([(3, 4)]), 0, ()) == [[], []], "rows, and no cells"


def test_cells_of_a_grid_are_those_of_its_list() -> None:
    """Whole numbers, texts, days and NULL, in any order, with rows of no listed cell."""
    draw, days = random.Random(3), [dt.date(2020, 1, day) for day in range(1, 5)]
    for _ in range(60):
        axes = [draw.sample(values, draw.randint(1, len(values))) for values in (
            [3, -7, 0, 2**62, None], ["a", "b", None, "ü"], [*days, None], [1.5, -0.0, None, math.nan])]
        kept = draw.sample(range(4), draw.randint(1, 4))
        grid = Grid(tuple(tuple(axes[at]) for at in kept))
        drawn = [[draw.choice([*axis, None, other]) for _ in range(50)] for axis, other in zip(
            axes, (99, "other", dt.date(1999, 1, 1), 7.0), strict=True)]
        rows = list({tuple(str(part) for part in row): row for row in zip(*(drawn[at] for at in kept), strict=True)}.values())
        found = as_columns([(*row, i, -i) for i, row in enumerate(rows)])
        made = sums_in(found, len(kept), grid)
        assert made == sums_in(found, len(kept), tuple(grid)) and made[1] == [-number for number in made[0]]
        shuffled = draw.sample(list(grid), len(grid))
        assert dict(zip(map(str, shuffled), sums_in(found, len(kept), tuple(shuffled))[0], strict=True)) == dict(
            zip(map(str, grid), made[0], strict=True))
        assert sum(made[0]) == sum(i for i, row in enumerate(rows) if any(map(str, cell) and list(map(str, cell)) == list(map(str, row))
                                                                      for cell in grid))
        assert [grid[at] for at in range(len(grid))] == list(grid) and grid[-1:] == (grid[len(grid) - 1],)
        assert [list(column) for column in zip(*grid, strict=True)] == [grid.column(at) for at in range(len(kept))]


# -- truncations that change nothing

SALTED = Printing(salt=5)


def printed(plan: Node) -> str:
    return fold(plan, lambda node, below: node.render(below, SALTED))


def _equal(a: str, b: str) -> Call:
    return Call(function="=", args=(Ref(column=a, type=Type.BIGINT), Ref(column=b, type=Type.BIGINT)), type=Type.BOOLEAN)


def test_a_truncation_is_left_out_where_nobody_has_more_rows(reader: DuckReader) -> None:
    tables = catalog(reader).tables
    visits = Scan(table=tables["visits"], columns=(("v", "visit_id"), ("p", "person_id")), owners=("p",))
    most = max(n for (n,) in reader.rows("SELECT COUNT(*) FROM visits WHERE person_id IS NOT NULL GROUP BY person_id"))
    rows = Content(reader)
    for limit in range(1, most + 3):
        cut = Truncate(input=visits, rows=limit, owner="p", order=("v",))
        plan = counted(cut, "p")
        assert (rows.query(plan, SALTED, lambda plan: ())[0] == printed(counted(visits, "p"))) == (limit >= most)
        assert sorted(reader.rows(rows.query(plan, SALTED, lambda plan: ())[0])) == sorted(reader.rows(printed(plan)))


def test_rows_are_counted_for_each_kind_of_entity(reader: DuckReader) -> None:
    content = Content(reader)
    person, household = (Scan(table=catalog(reader, budget).tables["visits"], columns=(("v", "visit_id"),), owners=("o",))
                         for budget in ("person", "household"))
    of_person = max(n for (n,) in reader.rows("SELECT COUNT(*) FROM visits GROUP BY person_id"))
    of_household = max(n for (n,) in reader.rows(
        "SELECT COUNT(*) FROM visits JOIN people USING (person_id) JOIN households USING (household_id) GROUP BY household_id"))
    assert (content.most_rows(person), content.most_rows(household), content.most_rows(person)) == (of_person, of_household, of_person)
    assert of_household > of_person


def test_a_truncation_above_anything_else_stays(people: Scan, reader: DuckReader) -> None:
    some = Filter(input=people, condition=Literal(value=True, type=Type.BOOLEAN))
    plan = Truncate(input=some, rows=1000, owner="p", order=("p", "a", "s"))
    assert Content(reader).query(plan, SALTED, lambda plan: ())[0] == printed(plan)
    alone = Truncate(input=people, rows=1, owner="p", order=("p", "a", "s"))
    assert Content(reader).query(alone, SALTED, lambda plan: ())[0] == printed(people)


def test_the_choice_above_is_the_same_whether_one_below_is_left_out(reader: DuckReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were it not, an entity that is the first to exceed a limit would change which rows all others keep."""
    tables = catalog(reader).tables
    people, visits, others = (Scan(table=tables[name], columns=((f"{id_}v", key), (id_, "person_id")), owners=(id_,)) for name, id_, key in (
        ("people", "p", "age"), ("visits", "v", "visit_id"), ("visits", "o", "visit_id")))
    one = Truncate(input=visits, rows=1, owner="v", order=("vv",))
    pairs = Join(left=people, right=one, condition=_equal("p", "v"))
    plan = Truncate(input=Join(left=pairs, right=others, condition=_equal("p", "o")), rows=2, owner="p", order=("ov",))
    needed, idle = Content(reader), Content(reader)
    monkeypatch.setattr(idle, "most_rows", lambda scan: 1)
    chosen = [re.findall(r"ORDER BY CAST.*?AS UINTEGER", rows.query(plan, SALTED, lambda plan: ())[0]) for rows in (needed, idle)]
    assert len(chosen[1]) == 1 and chosen[1] == chosen[0][:1]


# -- rows that are read as one cell


def test_rows_that_are_read_as_one_cell_are_added_up(people: Scan) -> None:
    plan = Ranks(input=people, keys=("s",), column="a", grid=AGES)
    found = read(plan, ((1,), ("x",)), Stub([(1, 5, 2), (1.0, 5, 3), (1, 9, 1), ("x", 4, 7)], None))  # type: ignore[arg-type]
    assert [list(zip(part.values, part.counts, strict=True)) for part in found] == [[(5, 5), (9, 1)], [(4, 7)]]
    assert read(plan, (), Stub([(1, 5, 2)], None)) == []  # type: ignore[arg-type]
    assert sums_in(as_columns([(1, 2), (1.0, 3)]), 1, ((1,),)) == [[5]]
    assert sums_in(as_columns([(1, 2**62), (1.0, 2**62)]), 1, ((1,),)) == [[2**63]]
