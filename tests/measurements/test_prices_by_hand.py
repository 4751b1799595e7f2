"""What requests tell of one entity, worked out case by case, is no more than what they cost.

The sparse vector technique is run through all of its draws, with the exact probability of each comparison; of other requests, the
numbers that noise is added to are worked out with an entity and without it. No test here draws at random. Faults that few other tests
find, or none, are planted at the end.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support import worlds
from support.laws.family import Family, catalog
from support.planted_faults import PlantedFault
from support.small_tables import equal, literal, ref, visits

from dpsql.frozen import replace
from dpsql.trusted.kernel.taken import copied_request
from dpsql.trusted.matrices.blocks import IntegerBlock
from dpsql.trusted.matrices.matrices import Sum, Unit
from dpsql.trusted.measurements import above_threshold, block_sums, flip_distance
from dpsql.trusted.measurements.above_threshold import AboveThresholdOfTests
from dpsql.trusted.measurements.block_sums import Axis, Blocks
from dpsql.trusted.measurements.flip_distance import MOST_TESTS, Form, NoisyFlipDistance, Within, slack_of, touched
from dpsql.trusted.measurements.reading.content import Content
from dpsql.trusted.measurements.vote import VOTE_GRAIN, Vote
from dpsql.trusted.noise import sparse_vector
from dpsql.trusted.noise.integer import DiscreteLaplace
from dpsql.trusted.noise.sparse_vector import first_small, sparse_cost
from dpsql.trusted.plan.certificate import Certificate, Sensitivity
from dpsql.trusted.plan.node import Stability
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.summands import Count
from dpsql.types import Type
from dpsql.workload.factors import written

CLOSE = 1 + 1e-9


def owned(rows: int, *, owners: tuple[str, ...] = ("p",), l1: int | None = None) -> Certificate:
    """An entity changes so many rows, and a sum by so much."""
    most = rows if l1 is None else l1
    return Certificate(below=Stability(rows=rows, owners=owners), summands=(Sensitivity(l1=most, l2=most),))


# -- the sparse vector technique


class Path(Exception):
    """There are more comparisons than the path says."""


class Noise:
    """Noise of one comparison, which is decided by the path and has the probability of that. `offset` was added to it."""

    def __init__(self, draws: Draws, scale: float, offset: int = 0) -> None:
        self.draws, self.scale, self.offset = draws, scale, offset

    def __add__(self, number: int) -> Noise:
        return Noise(self.draws, self.scale, self.offset + number)

    __radd__ = __add__

    def __ge__(self, number: int) -> bool:
        return self.draws.decide(self.at_least(number - self.offset))

    def __le__(self, number: int) -> bool:
        return self.draws.decide(1 - self.at_least(number - self.offset + 1))

    def at_least(self, number: int) -> float:
        """The probability of this number or more: of discrete Laplace noise, or of its half that is not negative."""
        q = math.exp(-1 / self.scale)
        if self.draws.half:
            return q ** max(0, number)
        return q**number / (1 + q) if number > 0 else 1 - q ** (1 - number) / (1 + q)


class Draws:
    """A source of noise whose shared draws are given, and whose comparisons follow a path."""

    def __init__(self, shared: Sequence[int], path: Sequence[bool], *, half: bool) -> None:
        self.shared, self.path, self.half, self.chance = [*shared], [*path], half, 1.0

    def laplace(self, values: Sequence[int], scale: float) -> list[Any]:
        assert [*values] == [0]
        return [self.shared.pop(0) if self.shared else Fresh(self, scale) if self.half else Noise(self, scale)]

    def decide(self, chance: float) -> bool:
        if not self.path:
            raise Path
        decided = self.path.pop(0)
        self.chance *= chance if decided else 1 - chance
        return decided


class Fresh(Noise):
    """One-sided noise as it is drawn: it is not negative."""

    def __ge__(self, number: int) -> bool:
        return True if number == 0 else super().__ge__(number)

    def __add__(self, number: int) -> Noise:
        return Noise(self.draws, self.scale, self.offset + number)


def chances(run: Callable[[Any], Any], shared: Iterable[tuple[Sequence[int], float]], *, half: bool) -> dict[Any, float]:
    """The probability of every outcome, for shared draws with their probabilities."""
    found: dict[Any, float] = defaultdict(float)
    for given, weight in shared:
        paths: list[tuple[bool, ...]] = [()]
        while paths:
            path = paths.pop()
            draws = Draws(given, path, half=half)
            try:
                outcome = run(draws)
            except Path:
                paths += [(*path, False), (*path, True)]
            else:
                found[outcome if not isinstance(outcome, list) else tuple(outcome)] += weight * draws.chance
    return found


REACH = 30  # of the shared noise, of scale 1: what is left out has a probability of e^-30


def halves(scale: float) -> list[tuple[int, float]]:
    q = math.exp(-1 / scale)
    return [(z, (1 - q) * q**z) for z in range(round(REACH * scale))]


def loss(here: Mapping[Any, float], there: Mapping[Any, float]) -> float:
    """The largest privacy loss of an outcome, which is a sequence of answers here: so of every set of them."""
    return max(abs(math.log(here[told] / there[told])) for told in here.keys() | there.keys() if max(here[told], there[told]) > 1e-12)


def summed(gaps: Sequence[Mapping[int, int]], asked: AboveThresholdOfTests) -> dict[Any, float]:
    kinds = sorted({kind for gap in gaps for kind in gap})
    drawn = [(tuple(dict(zip(kinds, found, strict=True)).get(kind, (0, 1.0))[0] for kind in (-1, 0, 1)), math.prod(p for _, p in found))
             for found in itertools.product(*(halves(asked.scale_limit) for _ in kinds))]
    return chances(lambda source: above_threshold.small(gaps, asked.limits, asked.scale_limit, asked.scale_query, asked.most, source),
                   drawn, half=True)


def count_of(limit: int) -> Within:
    """Whether a count lies between 1 and a number."""
    view = visits("v")
    return Within(plan=GroupedSums(input=view, keys=(), summands=(Count(),)), cells=((),), forms=(
        Form(at=0, sign=1, constants=(0,)), Form(at=0, sign=-1, constants=(limit + 1,))))


def failing(most: int, limits: tuple[int, ...], *, split: bool = False) -> AboveThresholdOfTests:
    return AboveThresholdOfTests(tests=(count_of(5),) * 3, most=most, limits=limits, scale_limit=1.0, scale_query=2.0, split=split)


@pytest.mark.parametrize("most, limits", [(1, (0,)), (2, (0,)), (1, (1, 0))])
def test_tests_that_fail_tell_no_more_than_they_cost(most: int, limits: tuple[int, ...]) -> None:
    """Slacks rise and fall by 1, some of them at once: at worst all of those before the last fall, and the last rises."""
    asked = failing(most, limits)
    cost, worst = float(asked.cost(*(owned(1),) * 3).epsilon or 0), 0.0
    for slacks in ((0, 0, 0), (2, 2, -2), (-1, 3, 0)):
        here = summed([{0: slack} for slack in slacks], asked)
        assert sum(here.values()) == pytest.approx(1)
        for step in ((1, 1, 1), (-1, -1, -1), (1, 1, -1), (-1, -1, 1), (1, -1, -1), (-1, 1, 1)):
            there = summed([{0: slack + moved} for slack, moved in zip(slacks, step, strict=True)], asked)
            worst = max(worst, loss(here, there))
    assert worst <= cost * CLOSE
    assert worst > 0.6 * cost, "the claim is hardly ever reached"


def test_sides_that_are_compared_one_by_one_tell_no_more_than_they_cost() -> None:
    """An entity that comes raises one side of each test, or leaves it, and lowers the other one, or leaves it."""
    asked = replace(failing(1, (0,), split=True), tests=(count_of(5),) * 2, scale_limit=0.5)
    cost = float(asked.cost(*(owned(1),) * 2).epsilon or 0)
    slacks = [{1: 0, -1: 1}, {1: 1, -1: -1}]
    here = summed(slacks, asked)
    worst = max(loss(here, summed([{1: gap[1] + up, -1: gap[-1] - down} for gap, (up, down) in zip(slacks, moved, strict=True)], asked))
                for moved in itertools.product(itertools.product((0, 1), repeat=2), repeat=2))
    assert worst <= cost * CLOSE
    assert worst > 0.5 * cost


@pytest.mark.parametrize("shared, own", [(1, 1), (1, 2), (2, 2)])
def test_the_first_small_number_tells_no_more_than_it_costs(shared: int, own: int) -> None:
    """All numbers fall by u at most and rise by w at most, where u + w is `own`, and both are `shared` at most."""
    q, scale = math.exp(-1), 2.0
    drawn = [((z,), (1 - q) / (1 + q) * q ** abs(z)) for z in range(-REACH, REACH + 1)]

    def told(gaps: Sequence[int]) -> dict[Any, float]:
        return chances(lambda source: first_small(gaps, 1.0, scale, source), drawn, half=False)

    cost, worst = float(sparse_cost(shared, own, 1.0, scale).epsilon or 0), 0.0
    for gaps in ((0, 0, 0), (3, 3, 0), (-1, 2, 4)):
        here = told(gaps)
        assert sum(here.values()) == pytest.approx(1)
        for fall in range(max(0, own - shared), min(own, shared) + 1):
            for moved in itertools.product((-fall, own - fall), repeat=3):
                worst = max(worst, loss(here, told([gap + step for gap, step in zip(gaps, moved, strict=True)])))
    assert 0.5 * cost < worst <= cost * CLOSE


# -- what an entity moves


def test_an_entity_moves_a_vote_by_one_for_all_of_its_rows() -> None:
    """Log-odds are the score over the grain and the scale: they move by 1 / scale, however many rows an entity has."""
    for blunt, most in itertools.product((False, True), (Fraction(100), Fraction(3, 2))):
        vote = Vote(plan=GroupedSums(input=visits("v"), keys=(), summands=(Count(),)), low=Fraction(3), high=Fraction(21, 2), most=most, scale=2.0,
                    blunt=blunt)
        for rows in (1, 2, 3, 7):
            moved = [abs(vote.score(count, rows) - vote.score(count + more, rows)) for count in range(30) for more in range(rows + 1)]
            assert max(moved) <= VOTE_GRAIN * float(vote.cost(owned(rows)).epsilon or 0) * vote.scale
            assert max(moved) > VOTE_GRAIN * (0 if rows > 1 and (blunt or most < 3) else 0.9)


def towns_of(many: int) -> tuple[Within, ...]:
    """Counts of the visits to so many towns, of which each visit is to one: tests of one plan that no row is in two of."""
    below = visits("v")
    towns = [equal(ref(below, "v_town"), literal(f"town {i}", Type.VARCHAR)) for i in range(many)]
    view = Project(input=below, columns=(("v_person", "person", ref(below, "v_person")), *((f"c{i}", f"c{i}", town) for i, town in enumerate(towns))))
    plan = GroupedSums(input=view, keys=(), summands=tuple(Count(when=f"c{i}") for i in range(many)))
    return tuple(Within(plan=plan, cells=((),), forms=(Form(at=i, sign=1, constants=(0,)), Form(at=i, sign=-1, constants=(7,)))) for i in range(many))


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
@pytest.mark.parametrize("many", [1, 2, 4, 5])
def test_an_entity_moves_no_more_tests_than_are_paid_for(many: int, rows: int) -> None:
    """Each of its rows may be in another test. Slacks are in entities, so one row of several moves them at some totals."""
    tests, certificates, most = towns_of(many), (owned(rows),) * many, 0
    for whose in itertools.combinations_with_replacement(range(many), rows):
        added = Counter(whose)
        for before in (0, rows, 6):
            here, there = ([slack_of(test.sides([[before + own[i]] for i in range(many)], lambda listed: ()), rows) for test in tests]
                           for own in (Counter[int](), added))
            most = max(most, sum(a != b for a, b in zip(here, there, strict=True)))
    assert most == touched(tests, certificates) == min(many, rows)
    asked = NoisyFlipDistance(tests=tests, noise=DiscreteLaplace(scale=3.0))
    assert asked.cost(*certificates).epsilon == Fraction(most, 3)


def test_slacks_are_those_of_some_tests_but_not_of_too_many() -> None:
    tests, noise = towns_of(1) * (MOST_TESTS + 1), DiscreteLaplace(scale=3.0)
    assert copied_request(NoisyFlipDistance(tests=tests[1:], noise=noise))
    for wrong in ((), tests):
        with pytest.raises(ValueError, match="tests"):
            copied_request(NoisyFlipDistance(tests=wrong, noise=noise))


MATRICES = (np.array([[1, 1, 0], [0, 2, 5]], dtype=np.int64), np.eye(3, dtype=np.int64), np.ones((1, 3), dtype=np.int64))
SCALES = (3.0, 1.5, 2.0)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_blocks_cost_what_all_rows_of_an_entity_move(noise: str, rows: int) -> None:
    """At worst all are in the cell that most answers depend on."""
    blocks = (IntegerBlock(axes=(0,), matrices=(written(MATRICES[0]),), scale=SCALES[0]), IntegerBlock(axes=(0,), matrices=(Unit(3),), scale=SCALES[1]),
              IntegerBlock(axes=(0,), matrices=(Sum(3),), scale=SCALES[2]))
    asked = Blocks(view=visits("v"), axes=(Axis(column="v_town", values=("a", "b", "c")),), summand=Count(), blocks=blocks, noise=noise)  # type: ignore[arg-type]
    cost, worst = asked.cost(owned(rows)), Fraction(0)
    for cells in itertools.combinations_with_replacement(range(3), rows):
        change = [sum(matrix[:, cell] for cell in cells) for matrix in MATRICES]
        parts = [(int(part), Fraction(scale)) for vector, scale in zip(change, SCALES, strict=True) for part in vector]
        worst = max(worst, sum(abs(part) / scale for part, scale in parts) if noise == "laplace" else sum((part / scale) ** 2 for part, scale in parts) / 2)
    charged = cost.epsilon if noise == "laplace" else cost.rho
    assert charged is not None and worst <= charged <= worst * Fraction(CLOSE)


# -- what is learned of the rows


def test_the_most_rows_of_an_entity_are_counted_exactly() -> None:
    """A limit of one row fewer is needed then, and left out if the count is one too low."""
    for seed in range(4):
        world = worlds.world(seed, people=9, most_visits=6)
        family = Family(world, entities=())
        try:
            content = Content(family)  # type: ignore[arg-type]
            for table in ("visits", "scores", "people"):
                declared = catalog("person").tables[table]
                at = [*(name.split()[0] for name in worlds.SCHEMA[table].split(", "))].index("person_id")
                most = max(Counter(row[at] for row in world.rows[table]).values(), default=0)
                assert content.most_rows(Scan(table=declared, columns=(), owners=("owner",))) == most
        finally:
            family.close()


# -- faults


def _one_step(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(above_threshold, "sparse_cost", lambda shared, own, *others: sparse_vector.sparse_cost(shared, 1, *others))


def _runs_on(patch: pytest.MonkeyPatch) -> None:
    original = sparse_vector.small
    patch.setattr(above_threshold, "small", lambda gaps, limits, a, b, most, source: original(gaps, limits, a, b, most + 1, source))


def _without_rows(patch: pytest.MonkeyPatch) -> None:
    original = flip_distance.touched
    patch.setattr(flip_distance, "touched", lambda tests, certificates: original(
        tests, tuple(replace(one, below=replace(one.below, rows=min(1, one.below.rows or 0))) for one in certificates)))
    patch.setitem(globals(), "touched", flip_distance.touched)


def _not_squared(patch: pytest.MonkeyPatch) -> None:
    original = block_sums.concentrated

    def cost(self: Blocks, certificate: Certificate) -> Any:
        patch.setattr(block_sums, "concentrated", lambda rho: original(rho / certificate.l1))
        return priced(self, certificate)

    priced = Blocks.cost
    patch.setattr(Blocks, "cost", cost)


FAULTS = (
    PlantedFault("sparse tests are priced as one step", _one_step, lambda: test_tests_that_fail_tell_no_more_than_they_cost(1, (0,))),
    PlantedFault("a sparse vector runs on for one more", _runs_on, lambda: test_tests_that_fail_tell_no_more_than_they_cost(1, (0,))),
    PlantedFault("a vote is not divided by the rows of an entity", lambda patch: patch.setattr(
        Vote, "score", lambda self, count, rows, score=Vote.score: score(self, count, 1)), test_an_entity_moves_a_vote_by_one_for_all_of_its_rows),
    PlantedFault("an entity is in as many tests as one of its rows", _without_rows, lambda: test_an_entity_moves_no_more_tests_than_are_paid_for(4, 3)),
    PlantedFault("blocks under rho move by the root of what they do", _not_squared, lambda: test_blocks_cost_what_all_rows_of_an_entity_move("gaussian", 3)),
    PlantedFault("the most rows of an entity are counted one too low", lambda patch: patch.setattr(
        Content, "most_rows", lambda self, scan, most=Content.most_rows: max(0, most(self, scan) - 1)),
        test_the_most_rows_of_an_entity_are_counted_exactly),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what.replace(" ", "_"))
def test_a_planted_fault_is_found(fault: PlantedFault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.is_found(monkeypatch)
