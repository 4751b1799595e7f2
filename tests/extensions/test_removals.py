"""R against plain linear programming, its sensitivity against every neighbour, and every way to it against every other."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from support.extensions.doors import leaving_by
from support.extensions.hypergraphs import Rows, of_sets, random_rows

from dpsql.frozen import Frozen, replace
from dpsql.solvers import highs, portable
from dpsql.solvers.usual import USUAL
from dpsql.trusted.extensions.ask_solvers import Solvers
from dpsql.trusted.extensions.certified import WHOLE
from dpsql.trusted.extensions.owned import loads
from dpsql.trusted.extensions.removal_distance import RemovalDistances, enough, line, sets_of
from dpsql.trusted.extensions.removal_program import RemovalProgram, RemovalSolution, Sets, removal_program
from dpsql.trusted.plan.operators.owner_sets import NEAR, UNIT

EXACT = leaving_by(highs.leaving_by_simplex)


class Cells(Frozen, kw_only=False):
    """Rows, each in a cell."""

    rows: Rows
    cells: tuple[int, ...]

    def sets(self) -> Sets:
        return sets_of(self.rows.columns(), np.array(self.rows.weights), np.array(self.cells))

    def without(self, entity: int) -> Cells:
        kept = tuple(cell for row, cell in zip(self.rows.names, self.cells, strict=True) if entity not in row)
        return Cells(self.rows.without(entity), kept or (0,))

    def truth(self, level: float) -> float:
        """R by scipy's solver, over the rows as they stand: no row merged, no entity left out."""
        rows = [(sorted(set(row) - {None}), abs(weight), cell)
                for row, weight, cell in zip(self.rows.names, self.rows.weights, self.cells, strict=True)]
        rows = [row for row in rows if row[0]]
        people = sorted(self.rows.entities)
        if not rows:
            return 0.0
        cost = [1.0] * len(people) + [0.0] * len(rows)
        lines, limits = [], []
        for at, (owners, _, _) in enumerate(rows):
            lines.append([-1.0 * (one in owners) for one in people] + [-1.0 * (i == at) for i in range(len(rows))])
            limits.append(-1.0)
        for one in people:
            for cell in set(self.cells):
                lines.append([0.0] * len(people) + [weight * (one in owners and there == cell) for owners, weight, there in rows])
                limits.append(level)
        found = linprog(cost, A_ub=lines, b_ub=limits, bounds=[(0, 1)] * len(cost), method="highs")
        assert found.status == 0
        return float(found.fun)


def cases(seed: int, number: int) -> list[tuple[Cells, int]]:
    draw = random.Random(seed)
    found = []
    for _ in range(number):
        width, cells = draw.choice([1, 2, 2, 3, 3, 4]), draw.choice([1, 1, 1, 2, 3])
        rows = random_rows(draw, width, most=14, entities=max(width, draw.randint(3, 8)), largest=draw.choice([1, 1, 3, 50]))
        made = Cells(rows, tuple(draw.randrange(cells) for _ in rows.names))
        heaviest = max(loads(made.sets().shares, made.sets().weights, len(made.sets().whose)), default=1)
        found.append((made, draw.randint(1, max(1, int(heaviest) * 2 // 3))))
    return found


def value(given: Cells, level: int, solvers: Solvers = USUAL) -> int:
    return RemovalDistances(given.sets(), [level], solvers).value(0)


def test_values_are_those_of_the_linear_program(effort: float) -> None:
    above = 0
    for given, level in cases(1, int(250 * effort)):
        found, exact = value(given, level), UNIT * given.truth(level)
        assert exact - 1e-6 <= found <= exact + NEAR + 1e-6
        above += exact > UNIT
    assert above > 30 * effort


def test_removing_an_entity_lowers_every_value_by_one_at_most_and_raises_none(effort: float) -> None:
    lowest, highest = 0, 0
    for given, level in cases(2, int(120 * effort)):
        here = value(given, level)
        for entity in given.rows.entities:
            moved = value(given.without(entity), level) - here
            assert -(UNIT + NEAR) <= moved <= NEAR
            lowest, highest = min(lowest, moved), max(highest, moved)
    assert lowest <= -UNIT + 8, "some entity is worth a whole one"


def test_the_exact_number_is_monotone_and_moves_by_one_at_most(effort: float) -> None:
    """The definition itself, by another solver."""
    for given, level in cases(3, int(60 * effort)):
        here = given.truth(level)
        assert given.truth(level + 1) <= here + 1e-9
        for entity in given.rows.entities:
            assert here - 1 - 1e-7 <= given.without(entity).truth(level) <= here + 1e-7


def test_light_entities_that_are_kept_are_needed() -> None:
    """One light entity in the rows of many heavy pairs: that it leaves is the best way, though it is not above the level."""
    pairs = [(0, 2 * i + 1, 2 * i + 2) for i in range(4)]
    more = [(one, 20 + 10 * one + i) for one in range(1, 9) for i in range(4)]
    given = Cells(of_sets([*pairs, *more]), (0,) * 36)
    assert given.truth(4) == pytest.approx(1)
    assert value(given, 4) == UNIT
    crowd = removal_program(given.sets(), loads(given.sets().shares, given.sets().weights, len(given.sets().whose)), 4)
    assert crowd.entities == 9 and len(crowd.whose) == 8
    alone = [owners[owners >= 0].tolist() for owners in crowd.owners if (owners >= 0).sum() == 1]
    assert len(alone) == 8, "rows that name the same owners are one"


def test_one_owner_is_a_sum_over_who_is_above() -> None:
    given = Cells(of_sets([[1], [1], [2], [3]], [5, 6, 4, 100]), (0,) * 4)
    assert value(given, 1) == math.ceil(UNIT * (10 / 11 + 3 / 4 + 99 / 100))
    assert [value(given, level) for level in (50, 99, 100, 1000)] == [UNIT // 2, 1, 0, 0]
    parted = Cells(given.rows, (0, 1, 0, 1))
    assert value(parted, 3) == math.ceil(UNIT * (1 / 2 + 1 / 4 + 97 / 100)), "the largest share of an entity decides"


def test_weights_count_by_their_size() -> None:
    given = of_sets([[1, 2], [1, 3], [2, 3], [4, 5]], [3, -4, 5, -1])
    signed, plain = (Cells(rows, (0,) * 4) for rows in (given, replace(given, weights=(3, 4, 5, 1))))
    for level in (1, 2, 4, 6):
        assert value(signed, level) == value(plain, level)


def test_many_cells_of_few_entities_are_not_taken_for_one_another() -> None:
    """Where the numbers of nineteen owners and of the cell do not fit into one word."""
    row = (*range(7), *(None,) * 12)
    assert value(Cells(Rows((row, row), (10, 10)), (0, 128)), 5) == UNIT // 2


def test_very_large_weights_are_added_up_exactly() -> None:
    given = Cells(of_sets([[i, i + 1, i + 2] for i in range(0, 60, 2)], [2**36 - i for i in range(30)]), (0,) * 30)
    for level in (2**30, 2**35, 2**36):
        assert UNIT * given.truth(level) - 1e-4 <= value(given, level) <= UNIT * given.truth(level) + NEAR + 1e-4


def test_values_do_not_depend_on_the_order_of_rows(effort: float) -> None:
    draw = random.Random(4)
    for given, level in cases(5, int(40 * effort)):
        order = list(range(len(given.cells)))
        draw.shuffle(order)
        mixed = Cells(Rows(tuple(given.rows.names[i][::-1] for i in order), tuple(given.rows.weights[i] for i in order)),
                      tuple(given.cells[i] for i in order))
        here, there = given.sets(), mixed.sets()
        assert all((getattr(here, name) == getattr(there, name)).all() for name in ("weights", "cells", "owners", "shares", "whose"))
        assert value(given, level) == value(mixed, level)


def crowd_of(seed: int, people: int = 60, sets: int = 900) -> Sets:
    draw = random.Random(seed)
    rows = of_sets([draw.sample(range(people), draw.choice([2, 3])) for _ in range(sets)], [draw.randint(1, 4) for _ in range(sets)])
    return sets_of(rows.columns(), np.array(rows.weights), np.array([draw.randrange(2) for _ in range(sets)]))


@pytest.mark.parametrize("door", [highs.leaving, highs.leaving_by_simplex, portable.leaving])
def test_every_solver_finds_the_same(door: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(highs, "SMALL_CROWD", 10)
    rows = crowd_of(6)
    for level in (10, 20, 40):
        found = [RemovalDistances(rows, [level], solvers).value(0) for solvers in (EXACT, leaving_by(door, error=1e-5))]
        assert abs(found[0] - found[1]) <= NEAR and found[0] > UNIT


def test_whatever_a_solver_gives_becomes_a_solution_and_a_bound(effort: float) -> None:
    """Wrong answers of a solver are mended or refused, never believed."""
    rows, draw = crowd_of(7, people=12, sets=60), np.random.default_rng(8)
    totals = loads(rows.shares, rows.weights, len(rows.whose))
    for level in (3, 6, 12):
        crowd = removal_program(rows, totals, level)
        exact = highs.leaving_by_simplex(crowd, 0.0)
        truth = float(exact.entities.sum())
        for spread in (0.0, 1e-3, 0.1, 1.0):
            for _ in range(int(5 * effort)):
                found = RemovalSolution(*(part + spread * draw.normal(size=len(part)) for part in (exact.entities, exact.rows, exact.shares)))
                at_zero, slope = line(rows, crowd, found)
                assert enough(rows, totals, crowd, found) / WHOLE >= truth - 1e-6 >= at_zero - slope * level - 2e-6
                for other in (level // 2 + 1, 2 * level):
                    there = highs.leaving_by_simplex(removal_program(rows, totals, other), 0.0).entities.sum() if (totals > other).any() else 0
                    assert at_zero - slope * other <= there + 1e-6


def test_right_prices_do_not_make_up_for_too_many_who_leave() -> None:
    """Half of one of two entities need leave; a solver says nine tenths."""
    def door(crowd: RemovalProgram, error: float) -> RemovalSolution:
        return RemovalSolution(entities=np.full(2, 0.45), rows=np.ones(1), shares=np.full(2, 0.25))

    assert value(Cells(of_sets([[1, 2]], [10]), (0,)), 5, leaving_by(door)) <= UNIT // 2 + NEAR


def test_a_limit_at_the_lower_bound_is_looked_into() -> None:
    """Or draws at which a level is just taken would be lost, and others had too large a chance."""
    given = Cells(of_sets([[1]], [10]), (0,))
    removals = RemovalDistances(given.sets(), [5, 10], USUAL)
    assert removals.low[0] == UNIT // 2 < removals.high[0]
    assert removals.at_most(0, UNIT // 2)


def test_bounds_hold_before_and_after_every_step(effort: float) -> None:
    """What is known of a level is true whichever others were worked out, in whatever order."""
    draw, levels, saved = random.Random(10), (1, 2, 4, 8, 16, 32, 64, 128, 256), 0
    for seed in range(int(12 * effort)):
        rows = crowd_of(100 + seed, people=30, sets=draw.choice([40, 200]))
        exact = [RemovalDistances(rows, [level], USUAL).value(0) for level in levels]
        lazy = RemovalDistances(rows, levels, USUAL)
        assert min(lazy.low) >= 0
        while True:
            assert all(low <= one <= high for low, one, high in zip(lazy.low, exact, lazy.high, strict=True))
            open_ = [j for j in range(len(levels)) if not lazy.exact(j)]
            saved += len(levels) - len(open_)
            if not open_:
                break
            lazy.refine(draw.choice(open_))
        again = RemovalDistances(rows, levels, USUAL)
        for _ in range(4):
            j = draw.randrange(len(levels))
            limit = max(0, exact[j] + draw.choice([-UNIT, -1, 0, 1, UNIT]))
            assert again.at_least(j) <= exact[j] and again.at_most(j, limit) == (exact[j] <= limit)
    assert saved > 20
