"""Degrees brought down to a limit: exact below it, and moved by one entity no further than claimed, on all small multigraphs."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.extensions.given import Given
from support.released import released

from dpsql.solvers.usual import USUAL
from dpsql.trusted.extensions import bounded_degrees
from dpsql.trusted.extensions.ask_solvers import Solvers
from dpsql.trusted.extensions.bounded_degrees import ArcList, projected
from dpsql.trusted.extensions.linear_program import Network
from dpsql.trusted.measurements.several.degree_histogram import DegreeHistogram
from dpsql.trusted.noise.integer import DiscreteLaplace
from dpsql.trusted.plan.operators.arcs import Arcs, moves

Edge = tuple[int, int, int]
Way = Callable[[ArcList, int], np.ndarray]
extended = partial(bounded_degrees.extended, solvers=USUAL)
WAYS = [projected, extended]


def arcs(edges: Sequence[Edge], entities: int, *, mutual: bool) -> ArcList:
    columns = np.array(edges, dtype=np.int64).reshape(-1, 3)
    return ArcList(columns[:, 0], columns[:, 1], columns[:, 2], entities, mutual)


def plain(edges: Iterable[Edge], *, mutual: bool) -> Counter[int]:
    """The degrees as anyone would count them."""
    found = Counter[int]()
    for tail, head, size in edges:
        found[tail] += size
        if mutual:
            found[head] += size
    return found


class Moved:
    """How far the cumulative counts and the counts move when an entity leaves, at most, in shares of what is claimed."""

    def __init__(self, way: Way, *, mutual: bool, most: int) -> None:
        self._mutual, self._most, self.furthest, self.counts = mutual, most, 0.0, 0.0
        self._told = lru_cache(maxsize=None)(lambda edges: way(arcs(edges, 1 + max((max(edge[:2]) for edge in edges), default=0),
                                                                    mutual=mutual), most))

    def without_each(self, edges: tuple[Edge, ...], entities: Iterable[int]) -> None:
        here = self._told(edges)
        for entity in entities:
            there = self._told(tuple(edge for edge in edges if entity not in edge[:2]))
            # c_i = n - (number of entities of a degree above i), with n larger by one where the entity is
            rise = [1 - int(here[i:].sum() - there[i:].sum()) for i in range(self._most + 1)]
            self.furthest = max(self.furthest, sum(map(abs, rise)) / moves(self._most, mutual=self._mutual))
            self.counts = max(self.counts, float(np.abs(here - there).sum()) / (2 * self._most + 1))


def multigraphs(pairs: Sequence[tuple[int, int]], sizes: Sequence[int]) -> Iterable[tuple[Edge, ...]]:
    for chosen in itertools.product(sizes, repeat=len(pairs)):
        yield tuple((*pair, size) for pair, size in zip(pairs, chosen, strict=True) if size)


UNORDERED = list(itertools.combinations_with_replacement(range(3), 2))  # with loops
ORDERED = list(itertools.product(range(3), repeat=2))
SIMPLE = list(itertools.combinations(range(5), 2))


GRAPHS = [(UNORDERED, (0, 1, 2), True), (ORDERED, (0, 1), False), (SIMPLE, (0, 1), True)]


@pytest.mark.parametrize("way, most, pairs, sizes, mutual", [
    *((projected, most, *graphs) for graphs in GRAPHS for most in (1, 2, 3)),
    *((extended, most, *graphs) for graphs, most in zip(GRAPHS, (2, 3, 1), strict=True))])  # each limit and each kind, as flows take long
def test_no_multigraph_moves_further_than_claimed(way: Way, pairs: list[tuple[int, int]], sizes: tuple[int, ...], mutual: bool,
                                                  most: int) -> None:
    """All of them: three nodes with loops and double edges, three with arcs both ways, five without either; in several orders."""
    draw, found = random.Random(1), Moved(way, mutual=mutual, most=most)
    for _ in range(3 if way is projected else 1):
        order = draw.sample(pairs, len(pairs))  # one order of all possible edges: that of their hashes
        for edges in multigraphs(order, sizes):
            found.without_each(edges, range(5 if pairs is SIMPLE else 3))
    assert found.furthest <= 1
    if mutual:
        assert found.furthest == 1, "the bound is reached"


@pytest.mark.parametrize("way", WAYS)
def test_nor_does_a_random_graph(way: Way, effort: float) -> None:
    draw, furthest = random.Random(2), Counter[bool]()
    for _ in range(int(150 * effort)):
        mutual, most, people = draw.random() < 0.5, draw.choice([1, 2, 4, 8]), draw.randint(6, 25)
        pairs = {(draw.randrange(people), min(draw.randrange(people), draw.randrange(people))) for _ in range(draw.choice([20, 80]))}
        found = Moved(way, mutual=mutual, most=most)
        found.without_each(tuple((*pair, draw.choice([1, 1, 2, 9])) for pair in sorted(pairs, key=lambda _: draw.random())),
                           draw.sample(range(people), 5))
        assert found.furthest <= 1 and (found.counts <= 1 or not mutual)
        furthest[mutual] = max(furthest[mutual], found.furthest)  # type: ignore[assignment]
    assert furthest[True] > 0.85 and furthest[False] > 0.6


def test_degrees_themselves_move_by_twice_the_limit_and_one() -> None:
    """So a histogram with the noise of `most` would be told apart: a new entity that meets `most` others moves all of them."""
    most, people = 3, 10
    ring = [(i, (i + 1) % people, 1) for i in range(people)]
    for way in WAYS:
        found = Moved(way, mutual=True, most=most)
        found.without_each((*((i, people, 1) for i in (0, 3, 6)), *ring), [people])
        assert found.counts == 1, "2 most + 1"
        assert found.furthest == 1, "most + 1"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mutual", [True, False])
def test_degrees_up_to_the_limit_are_exact(way: Way, mutual: bool, effort: float) -> None:
    draw = random.Random(3)
    for _ in range(int(40 * effort)):
        people = draw.randint(2, 12)
        edges = [(draw.randrange(people), draw.randrange(people), draw.choice([1, 1, 3])) for _ in range(draw.randint(1, 25))]
        expected = Counter(plain(edges, mutual=mutual).values())
        most = max([*plain(edges, mutual=mutual).values(), *plain([(b, a, size) for a, b, size in edges], mutual=mutual).values()])
        for limit in (most, most + 3):
            counts = way(arcs(edges, people, mutual=mutual), limit)
            assert {degree: number for degree, number in enumerate(counts.tolist(), 1) if number} == expected


def test_the_fairest_flow_is_that_of_every_limit(effort: float) -> None:
    """sum min(d, k) is the largest flow of limit k, for every k: by as many flows as there are limits."""
    draw, shared = random.Random(4), 0
    for _ in range(int(80 * effort)):
        people, most, mutual = draw.randint(2, 12), draw.randint(1, 9), draw.random() < 0.5
        edges = [(draw.randrange(people), draw.randrange(people), draw.choice([1, 1, 2, 20])) for _ in range(draw.randint(1, 40))]
        counts = extended(arcs(edges, people, mutual=mutual), most)
        both = edges + [(b, a, size) for a, b, size in edges] if mutual else edges
        sizes = Counter[tuple[int, int]]()
        for tail, head, size in both:
            sizes[tail, head] += size
        ends = np.array(list(sizes), dtype=np.int64)
        whole = Network(ends[:, 0], ends[:, 1], np.array(list(sizes.values())), np.zeros(people, dtype=np.int64),
                              np.full(people, most))
        for limit in range(1, most + 1):
            held = sum(min(degree, limit) * number for degree, number in enumerate(counts.tolist(), 1))
            assert held == bounded_degrees._largest(whole, limit, USUAL).sum()
        shared += counts.sum() > 1 and np.count_nonzero(counts) > 2
    assert shared > 12 * effort


def test_the_flow_keeps_no_less_than_the_projection(effort: float) -> None:
    draw, more = random.Random(5), 0
    for _ in range(int(40 * effort)):
        people, most = draw.randint(5, 40), draw.randint(1, 6)
        edges = [(draw.randrange(people), min(draw.randrange(people), draw.randrange(people)), 1) for _ in range(4 * people)]
        kept = [int(way(arcs(edges, people, mutual=True), most) @ np.arange(1, most + 1)) for way in WAYS]
        assert kept[1] >= kept[0] and kept[0] >= kept[1] / 2
        more += kept[1] > kept[0]
    assert more > 20 * effort


def test_without_rows_there_are_no_degrees() -> None:
    for way in WAYS:
        for mutual in (True, False):
            assert way(arcs([], 0, mutual=mutual), 3).tolist() == [0, 0, 0]


@pytest.mark.parametrize("way, most, counts", [("projection", 1, [4]), ("flow", 1, [6]), ("projection", 2, [4, 2]), ("flow", 2, [4, 2])])
def test_a_histogram_is_released_as_differences_of_noisy_sums(way: Any, most: int, counts: list[int]) -> None:
    """Of a chain of three edges, the middle one first, and an edge apart."""
    read = [np.array(column) for column in ((1, 0, 2, 4), (2, 1, 3, 5), (10, 20, 30, 40), (1, 1, 1, 1))]  # tails, heads, order, sizes
    noise = SimpleNamespace(laplace=lambda values, scale: [value + 10 * i**2 for i, value in enumerate(values)])
    plan = Arcs(input=Given(columns=(("a", "BIGINT"), ("b", "BIGINT")), nullable=False), tail="a", head="b", mutual=True)
    request = DegreeHistogram(plan=plan, most=most, way=way, noise=DiscreteLaplace(scale=1.0))
    found = released(request, SimpleNamespace(arrays=lambda plan: read, noise=noise, solvers=USUAL))
    assert found.counts == tuple(count + 10 * (2 * i + 1) for i, count in enumerate(counts))


# -- faults


def by_who_is_rich(given: ArcList, most: int) -> np.ndarray:
    """A projection in an order that depends on degrees, which other rows decide."""
    load = np.bincount(np.concatenate((given.tails, given.heads)), minlength=given.entities)
    order = np.argsort(-(load[given.tails] + load[given.heads]), kind="stable")
    return projected(ArcList(given.tails[order], given.heads[order], given.sizes[order], given.entities, given.mutual), most)


def by_place(given: ArcList, most: int) -> np.ndarray:
    """A projection that takes every second row first, counted along those that are there."""
    order = np.concatenate((np.arange(0, len(given.tails), 2), np.arange(1, len(given.tails), 2)))
    return projected(ArcList(given.tails[order], given.heads[order], given.sizes[order], given.entities, given.mutual), most)


def cut_apart(given: ArcList, most: int) -> np.ndarray:
    """Every entity's own degree, cut at the limit: what a GROUP BY with LEAST would tell."""
    found = np.bincount(np.concatenate((given.tails, given.heads)), minlength=given.entities)
    return bounded_degrees.counted(np.minimum(found, most), most)


@pytest.mark.parametrize("fault", [by_who_is_rich, by_place, cut_apart])
def test_faults_move_further_and_are_found(fault: Way) -> None:
    draw, furthest = random.Random(6), 0.0
    for most, number in itertools.product((1, 2, 3), (20, 60, 120)):
        for _ in range(20):
            people = 30
            pairs = sorted({(draw.randrange(people), draw.randrange(people)) for _ in range(number)}, key=lambda _: draw.random())
            edges = [(a, b, 1) for a, b in pairs if a != b] + [(people, other, 1) for other in draw.sample(range(people), 20)]
            found = Moved(fault, mutual=True, most=most)
            found.without_each(tuple(draw.sample(edges, len(edges))), [people])
            furthest = max(furthest, found.furthest)
    assert furthest > 1


def test_a_path_goes_back_only_along_arcs_in_use() -> None:
    """The last node on the left finds room where another one gives way, and not along an arc that carries nothing."""
    tails, heads, one = np.array([1, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 2, 3, 0]), np.ones(6, dtype=np.int64)
    part = Network(tails, heads, one, np.zeros(3, dtype=np.int64), one[:4])
    assert bounded_degrees._largest(part, 1).tolist() == [0, 0, 1, 1, 0, 1]


@pytest.mark.parametrize("room, left, right", [
    (2, [True, True], [True, True]), (2, [True, False], [True, False]), (2, [True, False], [False, False]), (2, [False, False], [False, False]),
    (2, [True, True], [False, False]), (1, [True, True], [-1, 0]), (1, [1, 1], [True, False]), (2, [True], [True, False]), (2, [True, True], [True])])
def test_a_cut_that_is_wrong_is_not_believed(room: int, left: list[Any], right: list[Any]) -> None:
    """Of a flow with an open arc from the left node with spare capacity to a full right node, which the other left node shares."""
    part = Network(np.array([0, 1, 1]), np.array([0, 0, 1]), np.array([2, 1, 1]), np.array([0, 1]), np.array([2, room]))
    found = bounded_degrees._reached(part, np.array([1, 1, 1]), 3, Solvers(cuts=lambda *given: (left, right)))
    assert [side.tolist() for side in found] == [[True, True], [True, False]]


@pytest.mark.parametrize("spoil", [lambda flow: flow * 0, lambda flow: -flow, lambda flow: flow * 2, lambda flow: flow // 2,
                                   lambda flow: flow[:1], lambda flow: None])
def test_a_flow_that_is_wrong_is_made_right(spoil: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch, effort: float) -> None:
    """Largest flows and what is reached in them are checked in integers, and found without scipy where it fails."""
    from scipy.sparse import csgraph

    draw, real, searched = random.Random(5), csgraph.maximum_flow, csgraph.breadth_first_order
    given = []
    for _ in range(int(20 * effort)):
        people = draw.randint(2, 7)
        edges = tuple((draw.randrange(people), draw.randrange(people), draw.randint(1, 4)) for _ in range(draw.randint(1, 14)))
        made = arcs(edges, people, mutual=draw.random() < 0.5)
        most = draw.randint(1, 5)
        given.append((made, most, extended(made, most)))
    monkeypatch.setattr(csgraph, "maximum_flow", lambda *asked: SimpleNamespace(flow=spoil(real(*asked).flow)))
    for made, most, expected in given:
        assert (extended(made, most) == expected).all()
    for lie in (lambda *asked, **options: np.arange(asked[0].shape[0]), lambda *asked, **options: np.array([asked[1]]),
                lambda *asked, **options: searched(*asked, **options)[:-1], lambda *asked, **options: None):
        monkeypatch.setattr(csgraph, "breadth_first_order", lie)
        for made, most, expected in given:
            assert (extended(made, most) == expected).all()
