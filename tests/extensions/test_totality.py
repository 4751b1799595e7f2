"""Solvers that lie, fail or are missing lead to a right answer all the same; the ways that are left then, by themselves."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from extensions.test_removals import Cells
from measurements.test_race_and_balance import Stub, shares
from measurements.test_removals import Told
from support.extensions.doors import BY_FRACTIONS, by, leaving_by
from support.extensions.hypergraphs import Rows, of_sets, random_rows, totals

from dpsql.frozen import replace
from dpsql.solvers import highs, refining
from dpsql.solvers.flow import flow
from dpsql.solvers.refining import refined, scipys
from dpsql.solvers.usual import USUAL
from dpsql.trusted.extensions import ask_solvers, packing
from dpsql.trusted.extensions import certified as certificate
from dpsql.trusted.extensions.linear_program import LinearProgram, Point
from dpsql.trusted.extensions.lipschitz_extension import LipschitzExtension
from dpsql.trusted.extensions.merging import reduced
from dpsql.trusted.extensions.owned import Owned, loads, owned
from dpsql.trusted.extensions.packing import Packing, exact
from dpsql.trusted.extensions.removal_distance import RemovalDistances, sets_of
from dpsql.trusted.extensions.removal_program import RemovalSolution
from dpsql.trusted.extensions.solver_ladder import packed, points
from dpsql.trusted.extensions.words import dot, gathered, scaled, total
from dpsql.trusted.measurements.several.sets import columns_of
from dpsql.trusted.plan.operators.owner_sets import LARGEST, NEAR, UNIT, lipschitz_constant, slack


def cases(seed: int, number: int, largest: tuple[int, ...] = (1, 1, 3, 50)) -> list[tuple[Rows, int]]:
    draw, found = random.Random(seed), []
    for _ in range(number):
        width = draw.choice([1, 2, 2, 3, 3, 4])
        rows = random_rows(draw, width, most=14, entities=max(width, draw.randint(3, 8)), largest=draw.choice(largest))
        found.append((rows, draw.randint(1, max(2, min(LARGEST, max(totals(rows).values(), default=1))))))
    return found


# -- an oracle in fractions that trusts nobody


def oracle(rows: Rows, level: int) -> Fraction:
    """V exactly: a point and prices that are feasible for the rows as they were written and have the same value."""
    named = [(sorted(set(row) - {None}), weight) for row, weight in zip(rows.names, rows.weights, strict=True) if set(row) != {None}]
    people = sorted(rows.entities)
    code = {one: at for at, one in enumerate(people)}
    pairs = [(code[one], at) for at, (owners, _) in enumerate(named) for one in owners if one is not None]
    x, y = exact(Packing(costs=[1] * len(named), limits=[level] * len(people), most=[weight for _, weight in named],
                         lines=np.array([line for line, _ in pairs], dtype=int), columns=np.array([at for _, at in pairs], dtype=int),
                         entries=[1] * len(pairs)))
    assert all(0 <= amount <= weight for amount, (_, weight) in zip(x, named, strict=True)) and all(price >= 0 for price in y)
    for one in people:
        assert sum(amount for amount, (owners, _) in zip(x, named, strict=True) if one in owners) <= level
    bound = level * sum(y) + sum(weight * max(0, 1 - sum(y[code[one]] for one in owners if one is not None)) for owners, weight in named)
    assert sum(x) == bound
    return Fraction(bound)


def fewest(given: Cells, level: int) -> Fraction:
    """R exactly, in the same way: who leaves, and prices of rows and of shares."""
    rows = [(sorted(set(row) - {None}), abs(weight), cell)
            for row, weight, cell in zip(given.rows.names, given.rows.weights, given.cells, strict=True) if set(row) != {None}]
    people = sorted(given.rows.entities)
    shares = sorted({(one, cell) for owners, _, cell in rows for one in owners if one is not None})
    count = len(rows)
    entries = [(at, at, level) for at in range(count)]
    entries += [(at, count + shares.index((one, cell)), -weight) for at, (owners, weight, cell) in enumerate(rows) for one in owners]
    entries += [(count + people.index(one), at, 1) for at, (owners, _, _) in enumerate(rows) for one in owners]
    lines, columns, numbers = (list(part) for part in zip(*entries, strict=True)) if entries else ([], [], [])
    x, y = exact(Packing(costs=[1] * count + [-1] * len(shares), limits=[0] * count + [1] * len(people), most=None,
                         lines=np.array(lines, dtype=int), columns=np.array(columns, dtype=int), entries=numbers))
    leaving = dict(zip(people, y[count:], strict=True))
    stays = [max(Fraction(0), 1 - sum(leaving[one] for one in owners)) for owners, _, _ in rows]
    assert all(0 <= one <= 1 for one in leaving.values())
    for one, cell in shares:
        assert sum(weight * z for (owners, weight, there), z in zip(rows, stays, strict=True) if one in owners and there == cell) <= level
    a, v = x[:count], dict(zip(shares, x[count:], strict=True))
    assert all(0 <= level * price <= weight * sum(v[one, cell] for one in owners)
               for price, (owners, weight, cell) in zip(a, rows, strict=True)) and all(price >= 0 for price in v.values())
    assert all(sum(price for price, (owners, _, _) in zip(a, rows, strict=True) if one in owners) <= 1 for one in people)
    assert sum(leaving.values()) == sum(a) - sum(v.values())
    return Fraction(sum(leaving.values()))


def test_removals_are_exactly_within_what_is_charged(effort: float) -> None:
    for given, level in removal_cases(17, int(200 * effort), (1, 1, 3, 50, LARGEST)):
        truth = UNIT * fewest(given, level)
        assert truth <= RemovalDistances(given.sets(), [level], USUAL).value(0) <= truth + NEAR


def test_values_are_exactly_within_their_slack(effort: float) -> None:
    """In fractions, from weights of one to the largest; and a whole number of units below V is never told."""
    for rows, level in cases(1, int(400 * effort), (1, 1, 3, 50, LARGEST)):
        truth = UNIT * oracle(rows, level)
        found = LipschitzExtension(rows.owned(), [level], rows.width, USUAL).value(0)
        assert int(truth) <= found <= truth + slack(level, rows.width)
        assert found == truth or rows.width > 2


def test_an_entity_moves_a_value_by_its_pull_whoever_solves_it(effort: float) -> None:
    """Other solvers with an entity than without: both numbers are within the slack, and no more is needed."""
    draw = random.Random(2)
    for rows, level in cases(3, int(60 * effort)):
        for entity in rows.entities:
            here, there = (LipschitzExtension(one.owned(), [level], rows.width, draw.choice(CHOICES)).value(0)
                           for one in (rows, rows.without(entity)))
            assert -slack(level, rows.width) <= here - there <= lipschitz_constant(level, rows.width)


# -- doors that lie


def nothing(program: Any, gap: float = 0, error: float = 0) -> Any:
    return None


def zeros(program: LinearProgram, gap: float) -> Point:
    return Point(np.zeros(len(program.weights)), np.zeros(len(program.capacities)))


def greedy(program: LinearProgram, gap: float) -> Point:
    return Point(program.weights * 2.0, np.zeros(len(program.capacities)))


def nans(program: LinearProgram, gap: float) -> Point:
    return Point(np.full(len(program.weights), np.nan), np.full(len(program.capacities), np.nan))


def infinite(program: LinearProgram, gap: float) -> Point:
    return Point(np.full(len(program.weights), np.inf), np.full(len(program.capacities), -np.inf))


def huge(program: LinearProgram, gap: float) -> Point:
    return Point(np.full(len(program.weights), 1e300), np.full(len(program.capacities), 1e300))


def negative(program: LinearProgram, gap: float) -> Point:
    return Point(-1.0 * program.weights, np.full(len(program.capacities), -0.5))


def short(program: LinearProgram, gap: float) -> Point:
    return Point(np.ones(max(0, len(program.weights) - 1)), np.ones(len(program.capacities) + 3))


def words(program: LinearProgram, gap: float) -> Point:
    return Point(np.array(["x"] * len(program.weights)), [None])  # type: ignore[arg-type]


def table(program: LinearProgram, gap: float) -> Point:
    return Point(np.ones((len(program.weights), 2)), np.ones((1, len(program.capacities))))


def crash(program: Any, gap: float = 0, error: float = 0) -> Any:
    raise RuntimeError("the solver is gone")


def hungry(program: Any, gap: float = 0, error: float = 0) -> Any:
    raise MemoryError


def missing(program: Any, gap: float) -> Any:
    raise ImportError


def stopped(program: LinearProgram, gap: float) -> Point:
    """On its way: half of the best point, prices that cover too little."""
    found = highs.simplex(program, gap)
    return Point(found.rows / 2, found.prices * 0.9)


def swapped(program: LinearProgram, gap: float) -> Point:
    """Right numbers in the wrong places."""
    found = highs.simplex(program, gap)
    return Point(found.rows[::-1].copy(), found.prices[::-1].copy())


def noisy(program: LinearProgram, gap: float) -> Point:
    found, draw = highs.simplex(program, gap), np.random.default_rng(len(program.weights))
    return Point(found.rows * draw.normal(1, 1e-3, len(found.rows)), found.prices * draw.normal(1, 1e-3, len(found.prices)))


LIARS = (nothing, zeros, greedy, nans, infinite, huge, negative, short, words, table, crash, hungry, missing, stopped, swapped, noisy)
CHOICES = (USUAL, BY_FRACTIONS, by(), by(flow), by(zeros, highs.first_order), by(highs.simplex), by(*LIARS))


@pytest.mark.parametrize("door", LIARS, ids=lambda door: door.__name__)
def test_a_door_that_lies_spoils_nothing(door: Any, effort: float) -> None:
    for rows, level in cases(4, int(40 * effort)):
        truth = UNIT * oracle(rows, level)
        found = LipschitzExtension(rows.owned(), [level], rows.width, by(door)).value(0)
        assert int(truth) <= found <= truth + slack(level, rows.width)


def broken(*given: Any, **options: Any) -> Any:
    raise RuntimeError("no solver works")


def off(gain: Any, matrix: Any, low: Any, high: Any) -> Any:
    x, y = scipys(gain, matrix, low, high)
    return x * 0.5, y * 2


def empty(gain: Any, matrix: Any, low: Any, high: Any) -> Any:
    return np.zeros(3), np.full(matrix.shape[0], np.nan)


@pytest.mark.parametrize("solver", [broken, off, empty], ids=lambda solver: solver.__name__)
def test_with_every_solver_broken_fractions_answer(solver: Any, monkeypatch: pytest.MonkeyPatch, effort: float) -> None:
    monkeypatch.setattr(refining, "scipys", solver)
    for rows, level in cases(5, int(60 * effort), (1, 3, 50, LARGEST)):
        truth = UNIT * oracle(rows, level)
        found = LipschitzExtension(rows.owned(), [level], rows.width, by(*LIARS[:4])).value(0)
        assert int(truth) <= found <= truth + slack(level, rows.width)
    for given, level in removal_cases(6, int(40 * effort)):
        truth = UNIT * fewest(given, level)
        assert truth <= RemovalDistances(given.sets(), [level], leaving_by()).value(0) <= truth + NEAR


def removal_cases(seed: int, number: int, largest: tuple[int, ...] = (1, 1, 3, 50)) -> list[tuple[Cells, int]]:
    draw, found = random.Random(seed), []
    for rows, level in cases(seed, number, largest):
        found.append((Cells(rows, tuple(draw.randrange(2) for _ in rows.names)), max(1, level * 2 // 3)))
    return found


def made(change: Callable[[Any], Any]) -> Callable[[Any, float], RemovalSolution]:
    def door(crowd: Any, error: float) -> RemovalSolution:
        found = highs.leaving_by_simplex(crowd, error)
        return RemovalSolution(change(found.entities), change(found.rows), change(found.shares))

    return door


@pytest.mark.parametrize("door", [nothing, crash, hungry, *map(made, (
    lambda part: part * 0, lambda part: part + 1e9, lambda part: part * np.nan, lambda part: -part, lambda part: part[1:],
    lambda part: part[::-1].copy(), lambda part: part / 2, lambda part: part * 1.001, lambda part: part + np.inf,
    lambda part: [None] * len(part), lambda part: part.reshape(1, -1)))])
def test_a_door_that_lies_about_who_leaves_spoils_nothing(door: Any, effort: float) -> None:
    for given, level in removal_cases(7, int(25 * effort)):
        truth = UNIT * fewest(given, level)
        assert truth <= RemovalDistances(given.sets(), [level], leaving_by(door, error=1e-4)).value(0) <= truth + NEAR


def test_removals_move_by_what_is_charged_whoever_solves_them(effort: float) -> None:
    draw, doors = random.Random(8), (USUAL, BY_FRACTIONS, leaving_by(), leaving_by(highs.leaving_by_simplex),
                                     leaving_by(crash, made(lambda part: part / 2)))
    for given, level in removal_cases(9, int(40 * effort)):
        for entity in given.rows.entities:
            here, there = (RemovalDistances(one.sets(), [level], draw.choice(doors)).value(0) for one in (given, given.without(entity)))
            assert -NEAR <= here - there <= UNIT + NEAR


def test_a_flow_that_wraps_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of 32 bits that wrapped, as scipy would give them, or a flow that was cut short."""
    import scipy.sparse.csgraph as csgraph

    real = csgraph.maximum_flow
    rows = of_sets([(1, 2), (2, 3), (1, 3), (3, 4), (4, 1)], [7, 9, 4, 8, 5])
    expected = LipschitzExtension(rows.owned(), [9], 2, USUAL).value(0)
    for spoil in (lambda flow: flow * 0, lambda flow: -flow, lambda flow: flow * 3, lambda flow: flow // 2):
        def spoiled(graph: Any, source: int, sink: int, spoil: Any = spoil) -> Any:
            found = real(graph, source, sink)
            return type("Found", (), {"flow": spoil(found.flow), "flow_value": 10**9})()

        monkeypatch.setattr(csgraph, "maximum_flow", spoiled)
        assert LipschitzExtension(rows.owned(), [9], 2, USUAL).value(0) == expected == LipschitzExtension(rows.owned(), [9], 2, by(flow)).value(0)


def test_without_any_solver_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("dpsql.solvers.highs")
    for name in ("dpsql.solvers.highs", "highspy", "pulp"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "dpsql.solvers.portable", raising=False)
    for rows, level in cases(10, 20):
        truth = UNIT * oracle(rows, level)
        assert int(truth) <= LipschitzExtension(rows.owned(), [level], rows.width, USUAL).value(0) <= truth + slack(level, rows.width)


# -- refinement and fractions


def crowd(entities: int, sets: int, seed: int, largest: int = 9) -> Owned:
    draw = np.random.default_rng(seed)
    names = np.stack([draw.permutation(entities)[:3] for _ in range(sets)])
    return owned([names[:, at] for at in range(3)], draw.integers(1, largest + 1, sets))


def test_refinement_adds_digits_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, level = crowd(40, 300, 11), 50
    small = reduced(rows, rows_loads(rows), level)
    whole = packed(LinearProgram(small.owners, small.weights, small.capacities))

    def rough(gain: Any, matrix: Any, low: Any, high: Any) -> Any:
        """A solver to three digits."""
        draw, (x, y) = np.random.default_rng(1), scipys(gain, matrix, low, high)
        return x * draw.uniform(1 - 1e-3, 1 + 1e-3, len(x)), y * draw.uniform(1 - 1e-3, 1 + 1e-3, len(y))

    monkeypatch.setattr(refining, "STEP", 8)
    gaps = []
    for x, y in refined(whole, rough):
        found = certificate.certified(rows, level, small, Point(x, y))
        gaps.append(found.units - found.least)
    assert gaps[-1] <= 1 < gaps[0] / 5


def rows_loads(rows: Owned) -> Any:
    return loads(rows.owners, rows.weights, rows.entities)


def test_refinement_is_enough_where_floats_are_not_too_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(program: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(ask_solvers, "exact", never)
    for seed, largest in itertools.product(range(5), (1, 100, LARGEST)):
        rows = crowd(30, 200, seed, largest)
        for level in (1, largest, min(3 * largest, LARGEST)):
            assert LipschitzExtension(rows, [level], 3, by()).value(0) >= 0
    for seed in range(5):
        draw = np.random.default_rng(seed)
        names = [draw.integers(0, 30, 300) for _ in range(3)]
        sets = sets_of(names, draw.integers(1, 2**20, 300), np.zeros(300, dtype=int))
        assert RemovalDistances(sets, [2**18], leaving_by()).value(0) > UNIT


def test_fractions_are_exact_for_programs_of_some_size() -> None:
    rows, level = crowd(20, 60, 12), 9
    small = reduced(rows, rows_loads(rows), level)
    *_, last = points(small, level)
    found = certificate.certified(rows, level, small, last)
    assert found.units - found.least <= 1


def test_fractions_end_where_every_step_is_degenerate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chvátal's program, on which the plain rule goes round in circles; variables and slacks have limits far away."""
    steps = []

    def step() -> None:
        steps.append(1)
        assert len(steps) < 50

    monkeypatch.setattr(packing, "go_on", step)
    halves = [[1, -11, -5, 18], [1, -3, -1, 2], [-1, 11, 5, -18], [-1, 3, 1, -2]]
    program = Packing(costs=[10, -57, -9, -24], limits=[0, 0, 9, 9], most=[1] * 4, lines=np.repeat(np.arange(4), 4), columns=np.tile(np.arange(4), 4),
                      entries=[Fraction(entry, 2) for line in halves for entry in line])  # type: ignore[misc]
    x, _ = exact(program)
    assert x == [1, 0, 1, 0] and steps


def test_sizes_above_a_capacity_are_scaled_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where floats err by more than the margin, the rows of what is still above its capacity are dropped."""
    owners, sizes, room = np.array([[0, -1], [1, 0], [2, 1]], dtype=np.int32), np.full(3, 2**40), np.array([2**40, 2**41, 2**40])
    assert certificate.fitted(owners, sizes, room).tolist() == [2**39 - 1, 2**39 - 1, 2**40]
    monkeypatch.setattr(certificate, "MARGIN", -0.5)
    assert certificate.fitted(owners, sizes, room).tolist() == [0, 0, 2**40]


# -- sums beyond a word


@pytest.mark.parametrize("high", [1, 10, 2**20, 2**31, 2**36])
@pytest.mark.parametrize("prices", [1, 2**20, 2**40])
def test_sums_of_products_are_exact(high: int, prices: int) -> None:
    draw = np.random.default_rng(high % 97)
    left, right = draw.integers(0, high, 5000, endpoint=True), draw.integers(0, prices, 5000, endpoint=True)
    left[:9], right[:9] = high, prices
    pairs = list(zip(left.tolist(), right.tolist(), strict=True))
    assert dot(left, right) == sum(a * b for a, b in pairs) and dot(left, 0 * right) == 0
    owners = draw.integers(-1, 7, (5000, 2)).astype(np.int32)
    expected = [sum(a * b for (a, b), row in zip(pairs, owners.tolist(), strict=True) for owner in row if owner == one) for one in range(7)]
    assert gathered(owners, left, right, 7) == expected


def test_sums_of_many_large_numbers_do_not_wrap() -> None:
    assert total(np.full(10, 2**62)) == 10 * 2**62 and total(np.full(10, -(2**62))) == -10 * 2**62
    many = np.full(2**21, 2**36)
    assert dot(many, np.full(2**21, 2**40)) == 2**97
    for right in (2**20 - 1, 2**40 - 1):  # sums, or sums of parts, between 2^63 and 2^64
        left, whole = np.full(200, 2**36), np.full(200, right)
        assert dot(left, whole) == 200 * 2**36 * right
        assert gathered(np.zeros((200, 1), dtype=np.int32), left, whole, 1) == [200 * 2**36 * right]


@pytest.mark.parametrize("bits", [1, 5, 19, 20, 21, 37])
def test_scaled_products_are_rounded_down_and_cut(bits: int) -> None:
    draw = np.random.default_rng(bits)
    for left_bits, right_bits in itertools.product((1, 10, 36), (1, 20, 30, 44)):
        left, right = draw.integers(0, 2**left_bits, 200, endpoint=True), draw.integers(0, 2**right_bits, 200, endpoint=True)
        expected = [min(2**40, a * b >> bits) for a, b in zip(left.tolist(), right.tolist(), strict=True)]
        assert scaled(left, right, bits, 2**40).tolist() == expected


# -- extremes


@pytest.mark.parametrize("level", [1, 2**20, LARGEST - 1, LARGEST])
def test_the_largest_weights_of_the_most_owners(level: int) -> None:
    draw = random.Random(13)
    names = tuple(tuple(draw.choice([*range(12), None]) for _ in range(8)) for _ in range(24))
    rows = Rows(names, tuple(draw.choice([LARGEST, LARGEST - 1, 1]) for _ in names))
    truth = UNIT * oracle(rows, level)
    assert int(truth) <= LipschitzExtension(rows.owned(), [level], 8, USUAL).value(0) <= truth + slack(level, 8)
    given = Cells(rows, (0,) * 24)
    truth = UNIT * fewest(given, level)
    assert truth <= RemovalDistances(given.sets(), [level], USUAL).value(0) <= truth + NEAR


def test_weights_above_the_level_are_cut_to_it() -> None:
    """They weigh nothing more: one row of the greatest weight is a row of the level."""
    sets = [one for n in range(3) for one in itertools.combinations(range(5 * n, 5 * n + 5), 3)]
    for level in (1, 3):
        heavy, light = (of_sets(sets, [weight] * len(sets)).owned() for weight in (LARGEST, level))
        assert LipschitzExtension(heavy, [level], 3, USUAL).value(0) == LipschitzExtension(light, [level], 3, USUAL).value(0)


def test_bounds_of_levels_beyond_count_the_weight_that_was_cut(effort: float) -> None:
    """The prices of a low level say nothing of weights above it: at other levels these count in full."""
    for rows, level in cases(14, int(50 * effort), (50, 1000)):
        levels = sorted({max(1, level // 7), level, 3 * level, 20 * level})
        extension = LipschitzExtension(rows.owned(), levels, rows.width, USUAL)
        for j in range(len(levels)):
            for other, bound in enumerate(extension.high):
                assert extension.low[other] <= UNIT * oracle(rows, levels[other]) + slack(levels[other], rows.width)
                assert bound >= int(UNIT * oracle(rows, levels[other]))
            extension.value(j)


def test_one_owner_is_exact_for_many_entities_and_shares() -> None:
    """Where a rounding for each of a hundred thousand entities would add up to more than may be."""
    draw = np.random.default_rng(15)
    names, weights = np.arange(100_000), draw.integers(2, 10**6, 100_000)
    sets = sets_of([names], weights, 0 * weights)
    for level in (1, 17, 10**5):
        exact = Fraction(sum((UNIT * (one - level) << 90) // one for one in weights.tolist() if one > level), 2**90)
        removals = RemovalDistances(sets, [level], USUAL)
        assert removals.low[0] <= exact + NEAR and removals.high[0] >= exact
        assert exact <= removals.value(0) <= exact + NEAR


@pytest.mark.slow
@pytest.mark.long
def test_removals_among_more_sets_than_were_tried_before() -> None:
    draw = np.random.default_rng(16)
    names = [draw.integers(0, 3000, 400_000) for _ in range(2)]
    sets = sets_of(names, np.ones(400_000, dtype=int), np.zeros(400_000, dtype=int))
    assert len(sets.weights) > 300_000
    removals = RemovalDistances(sets, [100], USUAL)
    assert removals.value(0) > 900 * UNIT


@pytest.mark.parametrize("told", [None, "c"])
def test_more_sets_than_are_held_are_found_before_they_are_told_apart(told: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was cut off by the limit of what is read must not pass for all there is, in however many cells."""
    rows = of_sets([(at, at + 1) for at in range(6)])
    plan = replace(shares(2), cell=told)
    context: Any = Told(rows, range(6), None) if told else Stub(rows, None)
    assert columns_of(plan, context) is not None
    monkeypatch.setattr("dpsql.trusted.measurements.several.sets.MOST_ROWS", 5)
    assert columns_of(plan, context) is None
