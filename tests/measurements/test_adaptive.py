"""Buckets and trees that follow the data: their distributions, exactly, on neighbours; and what they are without noise."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from bench.bench_cells import VIEW, Cells
from support.released import released
from support.requests import cost_of

from dpsql.audit.epsilon import lower_bound
from dpsql.audit.exact import Exact
from dpsql.trusted.accounting.cost import FREE, Cost
from dpsql.trusted.kernel.taken import copied_request
from dpsql.trusted.measurements import buckets
from dpsql.trusted.measurements.boxes import Leaves, Tree
from dpsql.trusted.measurements.buckets import Buckets, Numbered, Partition, height
from dpsql.trusted.noise import partition as noise_partition
from dpsql.trusted.noise.integer import DiscreteGaussian, DiscreteLaplace
from dpsql.trusted.noise.source import Secure
from dpsql.trusted.noise.tree import rise
from dpsql.trusted.plan.certificate import Certificate, Sensitivity
from dpsql.trusted.plan.node import Stability
from dpsql.trusted.plan.operators.summands import Count


def certificate(moved: int | None) -> Certificate:
    return Certificate(below=Stability(rows=moved), summands=() if moved is None else (Sensitivity(l1=moved, l2=moved),))


def numbered(size: int, name: str = "a0") -> Numbered:
    return Numbered(column=name, values=tuple(range(size)), numbers=tuple(range(size)))


# -- buckets


def request_of(size: int, scale: float, handicap: int = 0) -> Partition:
    return Partition(view=VIEW, axis=numbered(size), summand=Count(), scale=scale, log_priors=(handicap,) * (height(size) + 1))


def buckets_of(sums: Sequence[int], handicap: int = 0, noise: Any = None, scale: float = 1.0) -> Buckets:
    return released(request_of(len(sums), scale, handicap), Cells(sums, noise or Exact()))  # type: ignore[arg-type]


def test_without_noise_buckets_are_runs_of_equal_values() -> None:
    assert buckets_of([5] * 4 + [9] * 4, handicap=1).ends == (4, 8)
    assert buckets_of([0] * 16, handicap=1).ends == (16,)
    assert buckets_of([0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0], handicap=3).ends == (2, 3, 4, 8, 11)
    assert buckets_of([0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0], handicap=30).ends == (11,)
    assert buckets_of([1, 2, 3], handicap=0).ends == (1, 2, 3)
    assert buckets_of([7, 7, 7], handicap=0).ends == (3,), "of partitions that cost the same the coarser one"
    assert Buckets(ends=(2, 3, 7)).numbers == (0, 0, 1, 2, 2, 2, 2)


def test_a_partition_is_the_cheapest_of_all() -> None:
    draw = random.Random(3)
    for _ in range(200):
        size = draw.randint(1, 9)
        costs = [[draw.randint(-9, 9) for _ in range(-(-size // 2**h))] for h in range(height(size) + 1)]
        ends = noise_partition.cheapest(costs, size)
        best = min(sum(costs[h][start >> h] for h, start in blocks) for blocks in trees(height(size), 0, size))
        cost = min(sum(costs[h][start >> h] for h, start in blocks) for blocks in trees(height(size), 0, size)
                   if tuple(min(start + 2**h, size) for h, start in blocks) == ends)
        assert cost == best


def trees(h: int, start: int, size: int) -> Iterator[list[tuple[int, int]]]:
    """All partitions of a block into blocks of the tree."""
    if start >= size:
        yield []
        return
    yield [(h, start)]
    if h:
        for left in trees(h - 1, start, size):
            yield from (left + right for right in trees(h - 1, start + 2 ** (h - 1), size))


def test_deviations_are_those_from_the_median() -> None:
    draw = random.Random(5)
    for _ in range(100):
        sums = [draw.randint(-20, 20) for _ in range(draw.randint(1, 13))]
        for width in (1, 2, 4, 8, 16):
            blocks = [sums[i: i + width] for i in range(0, len(sums), width)]
            for dtype in (np.int64, object):
                assert buckets.deviations(np.array(sums, dtype=dtype), width) == [
                    min(sum(abs(x - t) for x in block) for t in block) for block in blocks]


RANGE = 160  # of costs that are looked at


def from_median(block: list[int]) -> int:
    return min(sum(abs(x - t) for x in block) for t in block)


def chances(sums: Sequence[int], scale: float, handicap: int, cost: Callable[[list[int]], int]) -> dict[Any, float]:
    """The probability of every partition of a power of two of places, from the definition."""
    q = math.exp(-1 / scale)
    values = np.arange(-RANGE, RANGE + 1)

    def noisy(block: list[int]) -> np.ndarray[Any, Any]:
        return np.asarray((1 - q) / (1 + q) * q ** np.abs(values - cost(block) - handicap).astype(float))

    def best(block: list[int]) -> dict[Any, np.ndarray[Any, Any]]:
        """For each partition of a block the chance that it is the cheapest and costs so much."""
        mine = noisy(block)
        if len(block) == 1:
            return {(1,): mine}
        half = len(block) // 2
        left, right = best(block[:half]), best(block[half:])
        parts = {a + b: np.convolve(x, y)[RANGE: -RANGE] for a, x in left.items() for b, y in right.items()}
        dearer = sum(parts.values())[::-1].cumsum()[::-1]
        cheaper = 1 - mine.cumsum()
        return {(len(block),): mine * dearer, **{key: mass * cheaper for key, mass in parts.items()}}

    return {key: float(mass.sum()) for key, mass in best(list(sums)).items()}



def loss(sums: Sequence[int], place: int, scale: float, handicap: int, cost: Callable[[list[int]], int] = from_median) -> float:
    """The largest loss of one row more at a place, over partitions that are not too rare to be computed."""
    one, two = (chances([x + (i == place and more) for i, x in enumerate(sums)], scale, handicap, cost) for more in (False, True))
    return max(abs(math.log(one[key] / two[key])) for key in one if min(one[key], two[key]) > 1e-9)


@pytest.mark.parametrize("scale", [1.3, 2.0, 4.0])
def test_buckets_tell_no_more_than_they_cost(scale: float, effort: float) -> None:
    cost = request_of(4, scale).cost(certificate(1))
    assert cost.epsilon is not None and cost.epsilon == 2 / Fraction(scale) and cost.rho == cost.epsilon**2 / 2
    draw = random.Random(13)
    for _ in range(round(150 * effort)):
        sums = [draw.choice([0, 0, 1, 3, 9]) for _ in range(draw.choice([2, 4, 4, 8]))]
        assert loss(sums, draw.randrange(len(sums)), scale, draw.choice([0, 2, 10, 30])) <= float(cost.epsilon) + 1e-8


@pytest.mark.parametrize("scale", [1.3, 2.0, 4.0])
def test_too_little_noise_and_costs_that_move_further_break_the_promise(scale: float) -> None:
    """So what the test above says is not true of anything: a bucket that is rarely taken, as the whole costs 20 less, tells most."""
    assert 1.2 / scale < loss([0, 0, 9, 9], 0, scale, 30)
    assert loss([0, 0, 9, 9], 0, scale / 2, 30) > 2 / scale
    assert loss([0, 0, 9, 9], 0, scale, 30, lambda block: 3 * from_median(block)) > 2 / scale


def test_chances_are_those_of_the_look(effort: float) -> None:
    from support.chances import p_value

    sums, scale, times = [0, 3, 1, 1], 2.0, round(400 * effort)
    exact = chances(sums, scale, 1, from_median)
    keys = sorted(exact)
    drawn = Counter(tuple(np.diff((0, *buckets_of(sums, 1, Secure(), scale).ends)).tolist()) for _ in range(times))
    assert set(drawn) <= set(keys)
    assert p_value([keys.index(key) for key in drawn.elements()], {i: exact[key] for i, key in enumerate(keys)}) > 1e-8


def test_what_is_not_bounded_is_refused() -> None:
    with pytest.raises(ValueError, match="not bounded"):
        request_of(4, 1.0).cost(Certificate(below=Stability(rows=None), summands=(Sensitivity(l1=None, l2=1),)))
    for wrong in (0.0, math.inf, 2.0**60):
        with pytest.raises(ValueError, match="must be above 0"):
            cost_of(request_of(4, wrong), certificate(1))
    with pytest.raises(ValueError, match="every height"):
        cost_of(Partition(view=VIEW, axis=numbered(4), summand=Count(), scale=1.0, log_priors=(0,)), certificate(1))
    with pytest.raises(ValueError, match="number"):
        copied_request(Numbered(column="a", values=(1, 2), numbers=(0,)))
    assert request_of(4, 1.0).cost(Certificate(below=Stability(rows=0), summands=())) == Cost(epsilon=Fraction(0), rho=Fraction(0))
    assert request_of(4, 2.0).cost(certificate(7)).epsilon == 7


# -- trees


def tree_of(sizes: Sequence[int], scale: float = 1.0, decay: int | None = None, leaf: Any = None) -> Tree:
    axes = tuple(numbered(size, f"a{i}") for i, size in enumerate(sizes))
    decay = math.ceil(scale * math.log(2 ** len(axes))) + 1 if decay is None else decay
    return Tree(view=VIEW, axes=axes, scale=scale, decay=decay, leaf=leaf or DiscreteLaplace(scale=1.0))


def leaves(sums: Any, request: Tree, noise: Any = None) -> Leaves:
    return released(request, Cells(sums, noise or Exact()))  # type: ignore[arg-type]


def by_hand(table: np.ndarray[Any, Any], decay: int) -> Counter[tuple[Any, Any, int]]:
    """The leaves without noise, box by box."""
    found: Counter[tuple[Any, Any, int]] = Counter()
    side = 2 ** max(height(size) for size in table.shape)

    def visit(low: tuple[int, ...], width: int, depth: int) -> None:
        if any(at >= size for at, size in zip(low, table.shape, strict=True)):
            return
        count = int(table[tuple(slice(at, at + width) for at in low)].sum())
        if width == 1 or max(-decay, count - depth * decay) <= 0:
            found[low, tuple(min(at + width, size) for at, size in zip(low, table.shape, strict=True)), count] += 1
            return
        for step in itertools.product((0, width // 2), repeat=len(low)):
            visit(tuple(at + more for at, more in zip(low, step, strict=True)), width // 2, depth + 1)

    visit((0,) * table.ndim, side, 0)
    return found


@pytest.mark.parametrize("shape", [(1,), (7,), (8, 8), (5, 13), (1, 6), (3, 4, 6)])
def test_without_noise_boxes_are_split_where_rows_are(shape: tuple[int, ...]) -> None:
    draw = np.random.RandomState(7)
    for _ in range(20):
        table = draw.poisson(draw.choice([0.2, 3, 40]), shape) * (draw.random_sample(shape) < 0.5)
        request = tree_of(shape)
        found = leaves(table, request)
        assert Counter(zip(found.lows, found.highs, found.counts, strict=True)) == by_hand(table, request.decay)


def test_leaves_hold_every_cell_once() -> None:
    draw = np.random.RandomState(8)
    for shape in [(9,), (6, 11), (16, 16)]:
        table = draw.poisson(2, shape)
        found = leaves(table, tree_of(shape, scale=3.0), Secure())
        covered = np.zeros(shape, dtype=int)
        for low, high in zip(found.lows, found.highs, strict=True):
            covered[tuple(slice(a, b) for a, b in zip(low, high, strict=True))] += 1
        assert (covered == 1).all()


@cache
def split(b: int, scale: float) -> tuple[float, float]:
    """The chances that b plus noise is above 0, and that it is not, as sums of those of the noise."""
    q, far = math.exp(-1 / scale), math.ceil(50 * scale)
    above, below = ([(1 - q) / (1 + q) * q ** abs(z) for z in values] for values in (range(1 - b, abs(b) + far), range(-abs(b) - far, 1 - b)))
    return math.fsum(above), math.fsum(below)


def path_losses(counts: Sequence[int], scale: float, decay: int) -> list[float]:
    """The loss of every place where the path of one row more can end."""
    found, so_far = [], 0.0
    for depth, count in enumerate(counts):
        one, two = (split(max(-decay, c - depth * decay), scale) for c in (count, count + 1))
        found.append(so_far + math.log(two[1] / one[1]))
        so_far += math.log(two[0] / one[0])
        found.append(so_far)
    return found


@pytest.mark.parametrize("scale, decay", [(1.0, 2), (3.0, 5), (3.0, 9), (8.0, 12), (0.5, 1)])
def test_trees_tell_no_more_than_they_cost(scale: float, decay: int) -> None:
    draw = random.Random(11)
    paths = [[top - step * depth for depth in range(9)] for top in range(8 * decay + 2) for step in (decay, decay - 1, 1) if step]
    paths += [sorted((draw.randint(0, 6 * decay) for _ in range(8)), reverse=True) for _ in range(60)]
    up = float(rise(scale, decay))
    losses = [loss for path in paths for loss in path_losses([max(0, count) for count in path], scale, decay)]
    assert max(losses) <= up + 1e-9 and min(losses) >= -1 / scale - 1e-9
    assert max(losses) > 0.85 * up, "the bound is nearly met: twice the loss would be found"


def test_the_price_of_a_tree() -> None:
    assert rise(2.0, 3) >= Fraction((2 + 1 / math.expm1(1.5)) / 2) * (1 - Fraction(1, 10**15))
    assert float(rise(2.0, 3)) == pytest.approx((2 + 1 / math.expm1(1.5)) / 2, rel=1e-12)
    cost = tree_of((8, 8), 2.0, 3, DiscreteLaplace(scale=5.0)).cost(certificate(4))
    up = float(rise(2.0, 3))
    assert float(cost.epsilon or 0) == pytest.approx(4 * up + 4 / 5)
    assert float(cost.rho) == pytest.approx((4 * (up + 0.5)) ** 2 / 8 + (4 / 5) ** 2 / 2)
    assert tree_of((8, 8)).cost(Certificate(below=Stability(rows=0), summands=())) == FREE
    assert (4 * (up + 0.5)) ** 2 / 8 < (4 * up) ** 2 / 2, "a bounded loss is a smaller rho than its epsilon alone tells"
    gaussian = tree_of((8, 8), 2.0, 3, DiscreteGaussian(sigma=5.0)).cost(certificate(4))
    assert gaussian.epsilon is None and float(gaussian.rho) == pytest.approx((4 * (up + 0.5)) ** 2 / 8 + 16 / 50)


def test_trees_without_a_bound_are_refused() -> None:
    with pytest.raises(ValueError, match="less than one child"):
        cost_of(tree_of((8, 8), 3.0, 4), certificate(1))
    with pytest.raises(ValueError, match="not bounded"):
        tree_of((8, 8)).cost(Certificate(below=Stability(rows=None), summands=(Sensitivity(l1=None, l2=1),)))
    with pytest.raises(ValueError, match="64 bits"):
        cost_of(tree_of((8, 8), leaf=DiscreteLaplace(scale=2.0**60)), certificate(1))


def test_cells_of_a_tree_are_numbered_in_62_bits() -> None:
    """Numbers have as many bits for each axis as the longest one needs: 10 times 6, and 9 times 7."""
    assert copied_request(tree_of((1, *[64] * 9))).children == 2**10
    with pytest.raises(ValueError, match="too many cells"):
        copied_request(tree_of((*[2] * 8, 65)))
    with pytest.raises(ValueError, match="too many halves"):
        copied_request(tree_of((2,) * 11))


def test_no_depth_of_a_tree_has_a_bias_that_a_word_does_not_hold() -> None:
    """Four depths: three halvings, and none."""
    assert copied_request(tree_of((8, 8), decay=2**60)).decay == 2**60
    with pytest.raises(ValueError, match="too large"):
        copied_request(tree_of((8, 8), decay=2**60 + 1))


# -- what samples tell


class Faint(Secure):
    """A source with a planted fault: noise of an eighth of the scale."""

    def laplace(self, values: Sequence[int], scale: float) -> list[int]:
        return super().laplace(values, scale / 8)


def told_apart(look: Callable[[Any, Any], Sequence[float]], first: Any, second: Any, noise: Any, times: int) -> float:
    samples = [np.array([look(sums, noise) for _ in range(times)], dtype=float) for sums in (first, second)]
    return lower_bound(*samples, confidence=1 - 1e-8).epsilon


def of_buckets(sums: Any, noise: Any) -> Sequence[float]:
    """Whether each border between places is one between buckets, at epsilon = 1."""
    ends = buckets_of(sums, 0, noise, scale=2.0).ends
    return [float(i in ends) for i in range(1, len(sums))]


def of_leaves(sums: Any, noise: Any) -> Sequence[float]:
    """How many leaves, and the count of the one that holds the first cell; at epsilon = 7 / 3 / 4 + 1 / 2.4."""
    found = leaves(sums, tree_of((8,), scale=4.0, decay=6, leaf=DiscreteLaplace(scale=2.4)), noise)
    at = min(range(len(found.lows)), key=lambda i: found.lows[i])
    return [float(len(found.lows)), float(found.highs[at][0]), float(found.counts[at])]


@pytest.mark.parametrize("look, first, second", [(of_buckets, [0, 0, 9, 9], [1, 0, 9, 9]), (of_leaves, [6, 0, 0, 0, 0, 0, 0, 0], [7, 0, 0, 0, 0, 0, 0, 0])])
def test_neighbours_are_told_apart_no_better_than_is_paid_for(look: Any, first: Any, second: Any, effort: float) -> None:
    assert told_apart(look, first, second, Secure(), round(400 * effort)) <= 1


@pytest.mark.parametrize("look, first, second", [(of_buckets, [0, 0, 9, 9], [1, 0, 9, 9]), (of_leaves, [6, 0, 0, 0, 0, 0, 0, 0], [7, 0, 0, 0, 0, 0, 0, 0])])
def test_too_little_noise_is_found(look: Any, first: Any, second: Any, effort: float) -> None:
    assert told_apart(look, first, second, Faint(), round(700 * max(1.0, effort))) > 1
