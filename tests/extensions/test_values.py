"""V against plain linear programming, its sensitivity against every neighbour, and every way to it against every other."""

from __future__ import annotations

import csv
import itertools
import random
import re
import subprocess
import sys
from fractions import Fraction
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pytest
from support.extensions.doors import by
from support.extensions.hypergraphs import Rows, of_sets, random_rows, totals

from dpsql.solvers import highs, portable
from dpsql.solvers.flow import flow, large_flow
from dpsql.solvers.usual import USUAL, for_program
from dpsql.trusted.extensions import bounds
from dpsql.trusted.extensions import lipschitz_extension as values
from dpsql.trusted.extensions.ask_solvers import Solver
from dpsql.trusted.extensions.certified import WHOLE, certified
from dpsql.trusted.extensions.linear_program import LinearProgram, Point
from dpsql.trusted.extensions.merging import reduced
from dpsql.trusted.extensions.owned import Owned, each_once, loads, owned
from dpsql.trusted.extensions.solver_ladder import linear
from dpsql.trusted.plan.operators.owner_sets import EXACT_FLOW, UNIT, lipschitz_constant, slack

GRAPHS = Path(__file__).parents[4] / "shared" / "data" / "graphs"
NEAR = 1e-6


Extension = partial(values.LipschitzExtension, solvers=USUAL)


def value(rows: Owned, level: int, owners: int, *doors: Solver) -> int:
    return Extension(rows, [level], owners, solvers=by(*doors) if doors else USUAL).value(0)


def cases(seed: int, number: int, **kinds: int) -> list[tuple[Rows, int]]:
    draw = random.Random(seed)
    found = []
    for _ in range(number):
        width = draw.choice([1, 2, 2, 3, 3, 4])
        rows = random_rows(draw, width, most=14, entities=max(width, draw.randint(3, 8)), largest=draw.choice([1, 1, 3, 50]))
        found.append((rows, draw.randint(1, max(2, max(totals(rows).values(), default=1)))))
    return found


def test_values_are_those_of_the_linear_program(effort: float) -> None:
    for rows, level in cases(1, int(250 * effort)):
        found, exact = value(rows.owned(), level, rows.width), UNIT * rows.truth(level)
        assert exact - NEAR - 1 < found <= exact + slack(level, rows.width) + NEAR
        if rows.width <= 2:
            assert found == round(exact)


def test_one_owner_is_a_sum_of_capped_totals() -> None:
    rows = owned([np.array([1, 1, 2, 3])], np.array([5, 6, 4, 100]))
    assert [value(rows, level, 1) for level in (1, 4, 10, 11, 1000)] == [3 * UNIT, 12 * UNIT, 24 * UNIT, 26 * UNIT, 115 * UNIT]


def test_removing_an_entity_moves_no_value_further_than_its_pull(effort: float) -> None:
    largest = Fraction(0)
    for rows, level in cases(2, int(120 * effort)):
        here = value(rows.owned(), level, rows.width)
        for entity in rows.entities:
            there = value(rows.without(entity).owned(), level, rows.width)
            assert -slack(level, rows.width) <= here - there <= lipschitz_constant(level, rows.width)
            largest = max(largest, Fraction(here - there, UNIT * level))
    assert largest >= 1, "some entity moves the value by all of the level"


def test_a_weight_below_zero_would_break_the_sensitivity_so_signs_are_parted(effort: float) -> None:
    """With x_r between w_r < 0 and 0 the value of rows with mixed signs moves further than the level; parted it does not."""
    draw = random.Random(3)
    for _ in range(int(80 * effort)):
        rows = random_rows(draw, 2, most=12, entities=5, largest=6, lowest=-6)
        level = draw.randint(1, 8)

        def difference(rows: Rows) -> int:
            positive, negative = (value(part, level, 2) for part in rows.signed())
            return positive - negative

        for entity in rows.entities:
            assert abs(difference(rows) - difference(rows.without(entity))) <= lipschitz_constant(level, 2)
    broken = of_sets([(1, 2), (1, 3)], [10, -10])  # taken as they are, removing 3 would free nothing and removing 2 leave -10
    assert [value(part, 4, 2) for part in broken.signed()] == [4 * UNIT, 4 * UNIT]


def test_merging_keeps_the_value(effort: float) -> None:
    """The small problem that is left, solved by other means, plus what is fixed: the value of the whole."""
    left = 0
    for rows, level in cases(4, int(250 * effort)):
        if not rows.entities:
            continue
        whole = rows.owned()
        small = reduced(whole, loads(whole.owners, whole.weights, whole.entities), level)
        assert (small.loads > small.capacities).all() and ((small.owners >= 0).sum(axis=1) >= 2).all()
        point = highs.simplex(LinearProgram(small.owners, small.weights, small.capacities), 0) if not small.solved else None
        rest = float(point.rows.sum()) if point else 0.0
        assert small.fixed + rest == pytest.approx(rows.truth(level), abs=NEAR)
        left += not small.solved
    assert left > 20, "some problems are not settled by merging alone"


def test_prices_are_rounded_up_so_that_covered_rows_stay_covered() -> None:
    whole, level = of_sets(list(itertools.combinations(range(5), 3))).owned(), 2
    small = reduced(whole, loads(whole.owners, whole.weights, whole.entities), level)
    found = certified(whole, level, small, Point(np.zeros(len(small.weights)), np.full(5, 1 / 3)))
    assert found.below == found.above == 0 and found.slope == 5 * -(-WHOLE // 3)


@pytest.mark.parametrize("people, width, level, share, least", [(3, 2, 1, 0.49999, UNIT * 3 // 2), (5, 3, 2, 1 / 3, int(UNIT * Fraction(10, 3)))])
def test_a_point_is_rounded_up_to_one_half_where_rows_have_two_owners(people: int, width: int, level: int, share: float, least: int) -> None:
    whole = of_sets(list(itertools.combinations(range(people), width))).owned()
    small = reduced(whole, loads(whole.owners, whole.weights, whole.entities), level)
    found = certified(whole, level, small, Point(np.full(len(small.weights), share), np.full(people, 1 / width)))
    assert found.least == least


def test_weights_that_are_cut_to_a_level_count_in_full_beyond_it() -> None:
    whole = of_sets([(1, 2, 3)], [9]).owned()
    small = reduced(whole, loads(whole.owners, whole.weights, whole.entities), 4)
    found = certified(whole, 4, small, Point(np.zeros(1), np.zeros(3)))
    assert (found.units, found.at_most(3, 4), found.at_most(9, 4)) == (UNIT * 4, UNIT * 4, UNIT * 9)


def test_merging_makes_heavy_problems_small() -> None:
    hubs = [(0, i) for i in range(10, 60)] + [(1, i) for i in range(10, 60)] + [(0, 1)] * 30
    whole = of_sets(hubs).owned()
    small = reduced(whole, loads(whole.owners, whole.weights, whole.entities), 40)
    assert small.solved and small.fixed == 80 and len(small.spent) == 2


def test_bounds_hold_before_and_after_merging(effort: float) -> None:
    for rows, level in cases(5, int(250 * effort)):
        exact = UNIT * rows.truth(level)
        extension = Extension(rows.owned(), [level], rows.width)
        steps = 0
        while True:
            assert extension.low[0] <= exact + NEAR
            assert exact - 1 - NEAR < extension.high[0]
            if extension.exact(0):
                break
            extension.refine(0)
            steps += 1
        assert steps <= 2


def test_bounds_of_a_level_hold_at_every_other_level(effort: float) -> None:
    """The prices of one level bound the values of all others."""
    tight = 0
    for rows, level in cases(6, int(150 * effort)):
        levels = sorted({max(1, level // 2), level, level + 1, 3 * level})
        at = levels.index(level)
        extension = Extension(rows.owned(), levels, rows.width)
        before = list(extension.high)
        extension.value(at)
        for j, other in enumerate(levels):
            found = value(rows.owned(), other, rows.width)
            assert extension.low[j] <= found <= extension.high[j]
            tight += j != at and extension.high[j] < before[j]
    assert tight > 5 * effort


def crowds(seed: int, number: int, width: int) -> list[tuple[Rows, int]]:
    """Rows of which merging leaves something."""
    draw, found = random.Random(seed), []
    while len(found) < number:
        rows = random_rows(draw, width, most=40, entities=width + draw.randint(1, 8), largest=20, again=0, nobody=0)
        level, whole = draw.randint(1, 60), rows.owned()
        if not reduced(whole, loads(whole.owners, whole.weights, whole.entities), level).solved:
            found.append((rows, level))
    return found


@pytest.mark.parametrize("door", [flow, large_flow, highs.simplex, highs.first_order, portable.solve])
def test_every_solver_is_near_enough_for_rows_of_two(door: Solver, effort: float) -> None:
    for rows, level in crowds(7, int(25 * effort), 2):
        assert value(rows.owned(), level, 2, door) == value(rows.owned(), level, 2) == round(UNIT * rows.truth(level))


@pytest.mark.parametrize("door", [highs.simplex, highs.first_order, portable.solve])
def test_every_solver_is_certified_within_the_slack(door: Solver) -> None:
    for rows, level in crowds(8, 20, 3):
        exact, whole = UNIT * rows.truth(level), rows.owned()
        small = reduced(whole, loads(whole.owners, whole.weights, whole.entities), level)
        for allowed in (1, 64):
            found = linear(whole, level, small, allowed, by(door))
            assert found.least <= exact + NEAR and exact - 1 - NEAR <= found.units <= exact + allowed + NEAR
            point = door(LinearProgram(small.owners, small.weights, small.capacities), 1 / UNIT)
            assert certified(whole, level, small, point).units >= exact - 1 - NEAR


@pytest.mark.parametrize("door", ["highs.simplex", "highs.first_order", "portable.solve"])
def test_solvers_print_nothing(door: str) -> None:
    """In a process of its own, as libraries print from C and only when their buffers are full."""
    program = ("import numpy as np; from dpsql.solvers import highs, portable; from dpsql.trusted.extensions.linear_program import LinearProgram; "
               f"print({door}(LinearProgram(np.array([[0, 1], [1, 2]], np.int32), np.ones(2, np.int64), np.ones(3, np.int64)), 1e-3).rows)")
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"\[.*\]\n", ended.stdout) and not ended.stderr


def crowd(entities: int, number: int) -> Owned:
    draw = np.random.default_rng(12)
    names = np.stack([draw.permutation(entities)[:3] for _ in range(number)])
    return owned([names[:, at] for at in range(3)], draw.integers(1, 5, number))


def test_a_value_does_not_depend_on_what_was_asked_before() -> None:
    """For programs of both solvers."""
    for rows, levels in ((crowd(60, 2000), (40, 100, 200)), (crowd(250, 8000), (60, 110, 170))):
        alone = [value(rows, level, 3) for level in levels]
        for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
            extension = Extension(rows, levels, 3)
            for j in order:
                extension.refine(j)
                extension.refine(j)
            assert [extension.value(j) for j in range(3)] == alone
            assert any(len(extension.left(j).weights) > 1000 for j in range(3))


def test_without_highspy_the_portable_solver_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(rows: int, width: int = 3) -> LinearProgram:
        return LinearProgram(np.tile(np.arange(width, dtype=np.int32), (rows, 1)), np.ones(rows, np.int64), np.ones(3, np.int64))

    assert for_program(program(10)) == (highs.simplex, highs.first_order)
    assert for_program(program(10, 2))[0] is flow
    assert for_program(program(10**4)) == (highs.first_order, highs.finer, highs.simplex)
    monkeypatch.delattr("dpsql.solvers.highs")
    monkeypatch.setitem(sys.modules, "dpsql.solvers.highs", None)
    assert for_program(program(10)) == (portable.solve,)


def test_flows_of_large_weights_are_exact() -> None:
    """Beyond 32 bits, where no other solver is asked."""
    for rows, level in crowds(9, 5, 2):
        whole = rows.owned()
        large = Owned(whole.weights * 2**31, whole.owners, whole.entities)
        assert for_program(LinearProgram(large.owners, large.weights, np.full(large.entities, 2**32)))[0] is large_flow
        found = value(large, level * 2**31, 2, large_flow)
        assert round(UNIT * rows.truth(level) * 2**31) <= found <= round(UNIT * rows.truth(level) * 2**31) + slack(level * 2**31, 2)


def test_large_weights_do_not_wrap() -> None:
    big = 2**35
    pairs = of_sets([(1, 2), (2, 3), (1, 3)], [big, big, big]).owned()
    assert value(pairs, EXACT_FLOW - 1, 2) == UNIT * 3 * (EXACT_FLOW - 1) // 2
    beyond = 2**33
    assert UNIT * 3 * beyond // 2 <= value(pairs, beyond, 2) <= UNIT * 3 * beyond // 2 + slack(beyond, 2)
    triples = of_sets([(1, 2, 3), (1, 2, 4), (3, 4, 5), (2, 4, 5)], [big] * 4).owned()
    exact = of_sets([(1, 2, 3), (1, 2, 4), (3, 4, 5), (2, 4, 5)], [4] * 4).truth(1) * beyond
    assert UNIT * exact - 1 <= value(triples, beyond, 3) <= UNIT * exact + slack(beyond, 3)


def test_nothing_is_left_of_nothing() -> None:
    empty = of_sets([(1, 2, 3)], [0]).owned()
    extension = Extension(empty, [1, 10], 3)
    assert extension.low == extension.high == [0, 0]


def test_an_owner_twice_in_a_row_uses_its_capacity_once() -> None:
    """The fault of adding such a row's weight to its owner twice would halve what is left of it."""
    twice = Rows(((1, 1, 2), (1, 1, 1)), (4, 4))
    assert value(twice.owned(), 8, 3) == 8 * UNIT and value(twice.owned(), 5, 3) == 5 * UNIT


def test_sorting_within_rows_leaves_no_gap() -> None:
    table = np.array([[1, 1, 2], [3, -1, 3], [-1, -1, 0]], dtype=np.int32)
    assert each_once(table).tolist() == [[2, 1, -1], [3, -1, -1], [0, -1, -1]]


def test_upper_bound_takes_rows_of_few_owners_first() -> None:
    assert bounds.upper([0, 5, 10], 11) == UNIT * 5 + UNIT * 3
    assert bounds.upper([0, 5, 10], 1000) == UNIT * 15
    assert bounds.by_size(np.array([[4, 1], [3, -1], [2, 0]]), np.array([7, 5, 3])) == [0, 5, 10]


def test_lower_bound_adds_whole_rows_exactly_and_parts_less_what_floats_round() -> None:
    assert bounds.lower(np.array([3, 1]), np.array([1.0, 0.5])) == UNIT * 3 + UNIT // 2 - 1


def test_upper_bound_of_high_levels_does_not_wrap() -> None:
    assert bounds.covered(np.full(9, 5), 2**61) == UNIT * 45


# -- published graphs


def references() -> list[tuple[str, str, int, float]]:
    path = GRAPHS / "lp_reference.csv"
    if not path.is_file():
        return []
    with path.open() as lines:
        return [(row["graph"], row["pattern"], int(row["tau"]), float(row["lp_value"])) for row in csv.DictReader(lines)]


PATTERNS = {"edge": "SELECT u, v FROM e", "triangle": "SELECT x.u, x.v, y.v FROM e x JOIN e y ON x.v = y.u JOIN e z ON z.u = x.u "
                                                      "AND z.v = y.v"}
SLOW = {("ca-AstroPh", "triangle"), ("ego_facebook_snap", "triangle"), ("musae_git", "triangle"), ("deezer_HU", "edge"), ("deezer_RO", "edge")}
SMALL = 20_000  # variables that the simplex solves to the last digit in little time


PUBLISHED = sorted({(graph, pattern) for graph, pattern, *_ in references()}) or [("none", "none")]


@pytest.mark.slow
@pytest.mark.parametrize("graph, pattern", PUBLISHED)
def test_published_values(graph: str, pattern: str, effort: float) -> None:
    if graph == "none":
        pytest.skip("the graphs are not kept with the code")
    if (graph, pattern) in SLOW and effort < 10:
        pytest.skip("takes more than a few seconds; run with --effort 10")
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE e AS SELECT CAST(u AS BIGINT) AS u, CAST(v AS BIGINT) AS v FROM '{GRAPHS / graph}.parquet'")
    columns = list(connection.execute(PATTERNS[pattern]).fetchnumpy().values())
    rows = owned(columns, np.ones(len(columns[0]), dtype=np.int64))
    expected = {tau: number for name, kind, tau, number in references() if (name, kind) == (graph, pattern)}
    for tau, number in expected.items():
        extension, allowed = Extension(rows, [tau], len(columns)), slack(tau, len(columns)) / UNIT
        found = extension.value(0) / UNIT
        assert number * (1 - 1e-6) - 1 / UNIT <= found <= number * (1 + 1e-6) + allowed
        if not allowed or len(extension.left(0).weights) <= SMALL:
            exact = value(rows, tau, len(columns), highs.simplex) / UNIT
            assert exact == pytest.approx(number, rel=1e-6, abs=1 / UNIT)
