"""Looks that choose a level by removals: each is its definition, however little is worked out; costs are what proofs say."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from measurements.test_race_and_balance import Extension, Seeded, Stub, crowd, owned_by, shares
from support.extensions.hypergraphs import Rows
from support.released import released
from support.requests import cost_of

from dpsql.frozen import replace
from dpsql.solvers.usual import USUAL
from dpsql.trusted.accounting.cost import FREE
from dpsql.trusted.extensions.removal_distance import RemovalDistances
from dpsql.trusted.measurements.several.levels import ExtensionSums
from dpsql.trusted.measurements.several.removal_levels import RecursiveSums, Removed, first
from dpsql.trusted.measurements.several.sets import in_cells
from dpsql.trusted.noise.choice import compared, least, one_sided
from dpsql.trusted.noise.integer import DiscreteGaussian, DiscreteLaplace
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.node import Stability
from dpsql.trusted.plan.operators.owner_sets import LARGEST, NEAR, UNIT

LEVELS = (1, 2, 4, 8, 16, 32)
FINE = tuple(range(1, 40))


class Told(Stub):
    """A context whose database holds these rows, each in a cell."""

    def __init__(self, rows: Rows, cells: Sequence[int], noise: Any) -> None:
        super().__init__(rows, noise)
        self._cells = np.array(cells)

    def arrays(self, sql: str, parts: Any = ()) -> list[Any]:
        return [self._cells, *super().arrays(sql)]


def lazy(rows: Rows, levels: Sequence[int] = LEVELS) -> RemovalDistances:
    columns = [*rows.columns(), np.array(rows.weights)]
    return RemovalDistances(in_cells(columns, shares(rows.width), 1), levels, USUAL)


def exact(rows: Rows, levels: Sequence[int] = LEVELS) -> list[int]:
    """Every number by itself."""
    return [lazy(rows, [level]).value(0) for level in levels]


def place(rows: Rows, levels: Sequence[int]) -> int:
    """i* by its definition."""
    return next((i for i, number in enumerate(exact(rows, levels)) if number <= (UNIT + NEAR) * i), len(levels) - 1)


def test_the_least_is_found_without_working_all_out(effort: float) -> None:
    draw, saved, ties = random.Random(1), 0, 0
    for case in range(int(120 * effort)):
        rows = crowd(draw, draw.choice([1, 2, 3, 4]))
        shifts = [round(draw.gauss(0, draw.choice([5, 100]))) for _ in LEVELS] if case % 8 else [0] * len(LEVELS)
        numbers, found = [number + shift for number, shift in zip(exact(rows), shifts, strict=True)], lazy(rows)
        assert least(found, shifts) == numbers.index(min(numbers))
        saved += sum(not found.exact(j) for j in range(len(LEVELS)))
        ties += numbers.count(min(numbers)) > 1
    assert saved > 50 * effort and ties > 5 * effort


def test_the_first_place_is_found_by_halves(effort: float) -> None:
    draw, places = random.Random(2), Counter[int]()
    for _ in range(int(30 * effort)):
        rows = crowd(draw, draw.choice([1, 2, 3]), most=120)
        found = lazy(rows, FINE)
        assert first(found) == place(rows, FINE)
        places[first(found)] += 1
        assert sum(found.exact(j) for j in range(len(FINE))) < len(FINE)
    assert len(places) > 4


def test_the_first_place_is_the_lowest_where_nobody_is_above_it() -> None:
    assert first(lazy(Rows(((1,), (2,)), (1, 1)))) == 0


def test_rows_of_the_cells_that_are_asked_for_are_read() -> None:
    columns = [np.array([1, 2, 0, -1]), np.array([7, 8, 9, 9]), np.array([4, 5, 6, 6])]
    kept = in_cells(columns, replace(shares(1), cell="c"), 2)
    assert sorted(zip(kept.cells.tolist(), kept.weights.tolist(), strict=True)) == [(0, 6), (1, 4)]


def test_no_place_moves_by_more_than_one(effort: float) -> None:
    draw, moves = random.Random(3), Counter[int]()
    for _ in range(int(15 * effort)):
        rows = crowd(draw, draw.choice([1, 2, 3]), most=90)
        here = first(lazy(rows, FINE))
        for entity in rows.entities:
            moves[first(lazy(rows.without(entity), FINE)) - here] += 1
    assert set(moves) <= {-1, 0, 1} and moves[-1] > 5


def test_no_two_levels_move_apart_further_than_their_cost_says(effort: float) -> None:
    draw, widest = random.Random(4), 0
    for _ in range(int(12 * effort)):
        rows = crowd(draw, draw.choice([1, 2, 3]), most=40)
        here = exact(rows)
        for entity in rows.entities:
            changes = [b - a for a, b in zip(here, exact(rows.without(entity)), strict=True)]
            widest = max(widest, max(changes) - min(changes))
    assert UNIT - 8 <= widest <= UNIT + 2 * NEAR


def test_levels_are_drawn_with_their_probabilities(effort: float) -> None:
    """The noisy maximum against its chances worked out: level i wins if it is first by its geometric draw."""
    rows, log_priors, scale, runs = crowd(random.Random(5), 3, most=90), [0, 20, 60, 90, 120, 200], 60.0, int(8000 * effort)
    scores = [number + handicap for number, handicap in zip(exact(rows), log_priors, strict=True)]
    q = math.exp(-1 / scale)

    def below(j: int, end: int) -> float:  # P(score_j - G_j > end)
        return 1 - q ** max(0, scores[j] - end)

    expected = [sum((1 - q) * q**g * math.prod(below(j, scores[i] - g - (j > i)) for j in range(6) if j != i)
                    for g in range(6000)) for i in range(6)]
    assert sum(expected) == pytest.approx(1) and sorted(expected)[-3] > 0.05
    source, found, known = Stub(rows, Seeded(6)), Counter[int](), lazy(rows)
    for _ in range(runs):
        found[least(known, [handicap - one_sided(scale, source.noise) for handicap in log_priors])] += 1  # type: ignore[arg-type]
    for i, chance in enumerate(expected):
        assert abs(found[i] / runs - chance) < 5 * math.sqrt(chance * (1 - chance) / runs) + 1e-3
    weights = [math.exp(-score / scale) for score in scores]
    drawn = Counter(compared(known, log_priors, scale, source.noise) for _ in range(runs))  # type: ignore[arg-type]
    for i, weight in enumerate(weights):
        chance = weight / sum(weights)
        assert abs(drawn[i] / runs - chance) < 5 * math.sqrt(chance * (1 - chance) / runs)


class Quiet(Seeded):
    """Adds nothing to sums, and draws levels all the same."""

    def laplace(self, values: Sequence[int], scale: float) -> list[int]:
        return super().laplace(values, scale) if scale == 70.0 else list(values)


@pytest.mark.parametrize("kind", ["flip", "exponential", "recursive"])
def test_what_is_told_is_the_sum_held_to_the_level_plus_the_noise_of_that_level(kind: str) -> None:
    draw, levels = random.Random(7), Counter[int]()
    noises = tuple(DiscreteLaplace(scale=float(level)) for level in LEVELS)
    plan = replace(shares(2, signed=True), cell="c")
    request: Removed | RecursiveSums = Removed(plan=plan, levels=LEVELS, noises=noises, log_priors=(0, 30, 60, 90, 120, 150),
                                               scale=70.0, flip=kind == "flip", cells=2)
    if kind == "recursive":
        request = RecursiveSums(plan=plan, levels=LEVELS, noises=noises, scale=70.0, shift=1, cells=2)
    for case in range(20):
        rows = crowd(draw, 2, lowest=-3)
        cells = [draw.randrange(3) for _ in rows.names]  # cell 2 is not asked for
        found = released(request, Told(rows, cells, Quiet(case)))  # type: ignore[arg-type]
        (at, _), again = found.levels
        assert again == (at, at) and at is not None
        levels[at] += 1
        for cell, total in enumerate(found.totals):
            kept = [i for i, there in enumerate(cells) if there == cell]
            part = Rows(tuple(rows.names[i] for i in kept) or ((None,) * 2,), tuple(rows.weights[i] for i in kept) or (0,))
            positive, negative = (Extension(side, [LEVELS[at]], 2).value(0) for side in part.signed())
            assert total == positive - negative
    assert len(levels) > 1


def test_a_place_is_told_ahead_with_noise_and_cut_to_the_ladder() -> None:
    rows = crowd(random.Random(8), 2, most=80)
    found, noises = place(rows, FINE), tuple(DiscreteLaplace(scale=1.0) for _ in FINE)
    asked = RecursiveSums(plan=shares(2), levels=FINE, noises=noises, scale=2.0, shift=3)
    still = released(asked, Stub(rows, type("Still", (), {"laplace": lambda self, values, scale: list(values)})()))  # type: ignore[arg-type]
    assert still == ExtensionSums(totals=(Extension(rows.owned(), [FINE[found + 3]], 2).value(0),), levels=((found + 3,),))
    ends = {released(replace(asked, shift=shift), Stub(rows, Seeded(9))).levels[0][0] for shift in (-500, 500)}  # type: ignore[arg-type]
    assert ends == {0, len(FINE) - 1}


def test_costs_are_those_of_the_proofs() -> None:
    noises = (DiscreteLaplace(scale=100.0), DiscreteLaplace(scale=300.0))
    flip = Removed(plan=shares(2), levels=(1, 4), log_priors=(0, 9), scale=680.0, noises=noises)
    epsilon = Fraction(UNIT + 2 * NEAR, 680)
    assert flip.cost(owned_by("a", "b")).epsilon == epsilon + Fraction(4 * UNIT, 300)
    assert flip.cost(owned_by("a", "b")).rho == epsilon**2 / 2 + Fraction(4 * UNIT, 300) ** 2 / 2
    drawn = replace(flip, flip=False)
    assert drawn.cost(owned_by("a")).rho == epsilon**2 / 8 + Fraction(4 * UNIT, 300) ** 2 / 2
    cells = replace(flip, plan=replace(shares(3, signed=True), cell="c"), cells=5)
    assert cells.cost(owned_by("a")).epsilon == epsilon + 5 * Fraction(4 * UNIT + 8, 300), "one draw, and a sum for each cell"
    index = RecursiveSums(plan=shares(2), levels=(1, 4), scale=8.0, shift=2, noises=noises)
    assert index.cost(owned_by("a", "b")).epsilon == Fraction(1, 8) + Fraction(4 * UNIT, 300)
    gauss = replace(index, noises=(DiscreteGaussian(sigma=100.0), DiscreteGaussian(sigma=300.0)))
    assert gauss.cost(owned_by("a")).epsilon is None
    assert gauss.cost(owned_by("a")).rho == Fraction(1, 128) + Fraction((4 * UNIT) ** 2, 2 * 300**2)
    public = Certificate(below=Stability(rows=0), summands=())
    assert flip.cost(public) == index.cost(public) == FREE


def test_what_has_no_proof_is_refused() -> None:
    noises = (DiscreteLaplace(scale=1.0), DiscreteLaplace(scale=1.0))
    flip = Removed(plan=shares(2), levels=(1, 4), log_priors=(0, 9), scale=680.0, noises=noises)
    index = RecursiveSums(plan=shares(2), levels=(1, 4), scale=8.0, shift=2, noises=noises)
    for request in (flip, index):
        for levels in ((0, 1), (2, 1), (1, 1), (1, 2 * LARGEST)):
            with pytest.raises(ValueError, match="levels"):
                cost_of(replace(request, levels=levels), owned_by("a"))
        for scale in (0.0, -1.0, 2.0**41):
            with pytest.raises(ValueError, match="scale"):
                cost_of(replace(request, scale=scale), owned_by("a"))
        for owners in ((), ("a", "c")):
            with pytest.raises(ValueError, match="owners"):
                request.cost(owned_by(*owners))
        with pytest.raises(ValueError, match="cells"):
            cost_of(replace(request, cells=2), owned_by("a"))
        with pytest.raises(ValueError, match="noise"):
            cost_of(replace(request, noises=noises[:1]), owned_by("a"))
    with pytest.raises(ValueError, match="log-prior"):
        cost_of(replace(flip, log_priors=(0,)), owned_by("a"))
