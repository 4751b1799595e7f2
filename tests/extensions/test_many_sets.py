"""More sets of entities than there is room for: held to a level all the same, and between the same bounds."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from extensions.test_totality import broken, nothing, oracle
from support.extensions import hypergraphs
from support.extensions.given import Given
from support.extensions.hypergraphs import of_sets
from support.policies import policy_of

import dpsql
from dpsql.backends.duckdb import DuckReader
from dpsql.solvers.cutting import Rows
from dpsql.solvers.usual import USUAL
from dpsql.trusted.extensions import cuts
from dpsql.trusted.extensions.ask_solvers import Solvers
from dpsql.trusted.extensions.certified import WHOLE as UNITS
from dpsql.trusted.extensions.cuts import CuttingPlanes
from dpsql.trusted.extensions.linear_program import LinearProgram
from dpsql.trusted.extensions.owned import Owned
from dpsql.trusted.extensions.packing import Packing, exact
from dpsql.trusted.extensions.removal_distance import RemovalDistances
from dpsql.trusted.kernel.ledger import Ledger
from dpsql.trusted.kernel.publics import Publics
from dpsql.trusted.measurements.reading.content import Content
from dpsql.trusted.measurements.reading.request import Context
from dpsql.trusted.measurements.several import many_removals, sets
from dpsql.trusted.measurements.several.many_removals import PRICE, Leavers, ManyRemovals
from dpsql.trusted.measurements.several.many_sets import EITHER, Listed, Streamed
from dpsql.trusted.measurements.several.sets import columns_of, in_cells, read
from dpsql.trusted.noise.source import Secure
from dpsql.trusted.plan.node import Printing
from dpsql.trusted.plan.operators.owner_sets import NEAR, UNIT, OwnerSets, slack
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Count, GridSum

SIGNED = GridSum(column="v", grid=Quantizer(low=-100, high=100, step=Fraction(1), from_low=False))
WHOLE = GridSum(column="v", grid=Quantizer(low=0, high=100, step=Fraction(1), from_low=False))


def context(solvers: Solvers = USUAL) -> Context:
    reader = DuckReader(duckdb.connect(), "v")
    return Context(reader=reader, noise=Secure(), printing=Printing(), content=Content(reader), public=Publics(reader),
                   solvers=solvers)


def plan_of(rows: list[tuple[Any, ...]], summand: Count | GridSum, kind: str = "BIGINT") -> OwnerSets:
    owners = tuple(f"o{i}" for i in range(len(rows[0]) - 1))
    given = Given(columns=(*((owner, kind) for owner in owners), ("v", "BIGINT")), rows=tuple(rows), nullable=True)
    return OwnerSets(input=given, owners=owners, summand=summand)


def random_rows(draw: random.Random, width: int, people: int, count: int) -> list[tuple[Any, ...]]:
    """Some people are in many more rows than others, some twice in one, and some places are empty."""
    def one() -> int | None:
        return None if draw.random() < 0.03 else min(draw.randrange(people), draw.randrange(people))
    return [(*(one() for _ in range(width)), draw.randint(0, 9)) for _ in range(count)]


@pytest.mark.parametrize("seed", range(6))
def test_sums_are_held_between_the_same_bounds_whatever_room_there_is(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(cuts, "FEWEST", draw.choice([4, 30]))
    monkeypatch.setattr(cuts, "MOST_LISTED", draw.choice([0, 20, 100]))
    summand, width = draw.choice([Count(), WHOLE]), (2, 3, 4)[seed % 3]
    plan = plan_of(random_rows(draw, width, 7, 40), summand, ("BIGINT", "VARCHAR")[seed % 2])
    levels = (1, 4, 16, 64)
    (expected,), = read(plan, levels, 1, context())
    found = Streamed(Listed(plan, None, context()), levels, draw.choice([0, 25]))
    for j, level in enumerate(levels):
        allowed = slack(level, width)
        assert found.low[j] - allowed <= expected.value(j) <= found.high[j] + allowed
        assert abs(found.value(j) - expected.value(j)) <= allowed, level


def test_cells_are_told_apart_however_many_sets_there_are() -> None:
    """One of them is empty, and nobody is above the second level."""
    rows = ((1, 2, 9, 0), (2, 3, 9, 0), (1, 3, 8, 0), (1, 2, 7, 1), (1, 4, 0, 1))
    given = Given(columns=(*((name, "BIGINT") for name in ("o0", "o1", "v", "c")),), rows=rows, nullable=False)
    plan = OwnerSets(input=given, owners=("o0", "o1"), summand=WHOLE, cell="c")
    found = [Streamed(Listed(plan, cell, context()), (2, 20), 9) for cell in range(3)]
    assert [[one.value(0), one.value(1)] for one in found] == [[UNIT * 3, UNIT * 26], [UNIT * 2, UNIT * 7], [0, 0]]


@pytest.mark.parametrize("people, width, level, truth", [(4, 2, 1, Fraction(2)), (5, 3, 2, Fraction(10, 3))])
def test_sums_over_pairs_alone_are_multiples_of_one_half(people: int, width: int, level: int, truth: Fraction,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a third of each set is taken, which no binary fraction is."""
    monkeypatch.setattr(cuts, "MOST_LISTED", 0)
    plan = plan_of([(*names, 1) for names in itertools.combinations(range(people), width)], Count())
    found = Streamed(Listed(plan, None, context()), (level,), 0).value(0)
    assert int(UNIT * truth) <= found <= UNIT * truth + slack(level, width)


@pytest.mark.parametrize("many", [5, 6])
def test_as_many_sets_as_there_is_room_for_are_read(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets, "MOST_ROWS", 5)
    columns = columns_of(plan_of([(at, at + 1, 1) for at in range(many)], Count()), context())
    assert (columns is None) is (many > 5)


@pytest.mark.parametrize("sign, loads", [(1, {1: 4, 2: 4}), (-1, {1: 3, 3: 3}), (EITHER, {1: 7, 2: 4, 3: 3})], ids=["above", "below", "either"])
def test_the_rows_of_a_set_are_added_up_before_its_sign_is_known(sign: int, loads: dict[int, int]) -> None:
    plan = plan_of([(1, 2, 9), (2, 1, -5), (1, 3, -4), (3, 1, 1), (4, 1, 2), (1, 4, -2)], SIGNED)
    assert Listed(plan, None, context(), sign).loads == loads


def test_an_estimate_that_is_too_low_leaves_out_no_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many sets as are read at most are perhaps not all."""
    monkeypatch.setattr(Listed, "about", lambda *asked: 1)
    plan = plan_of([(2 * at, 2 * at + 1, 9) for at in range(10)], WHOLE)
    assert Streamed(Listed(plan, None, context()), (4,), 4).value(0) == UNIT * 40


@pytest.mark.slow
def test_where_everybody_meets_everybody_a_few_sets_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Low levels are reached by any sample of the sets, and high ones bind nobody."""
    monkeypatch.setattr(cuts, "FEWEST", 60)
    plan = plan_of([(a, b, c, 1) for a, b, c in itertools.combinations(range(13), 3)], Count())
    levels = (1, 2, 128)
    (expected,), = read(plan, levels, 1, context())
    found = Streamed(Listed(plan, None, context()), levels, 0)
    assert all(abs(found.value(j) - expected.value(j)) <= level for j, level in enumerate(levels))


def test_a_few_cuts_close_in_on_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuts, "FEWEST", 4)
    draw, level = random.Random(7), 3
    for listed in (0, 6) * 4:
        monkeypatch.setattr(cuts, "MOST_LISTED", listed)
        rows = hypergraphs.random_rows(draw, 3, most=30, entities=7, largest=5)
        sets = rows.owned()
        program = LinearProgram(sets.owners, sets.weights, np.full(sets.entities, level))
        search = CuttingPlanes(Rows(program), [level] * sets.entities, halves=False, solvers=USUAL)
        assert (search.least, search.below, [len(part) for part in search.point]) == (0, 0, [0, 0])
        search.narrowed(2, rounds=30)
        assert search.gap <= 2 and len(search.listed.weights) <= listed
        assert search.least / 2**cuts.SHARE - 1e-6 <= rows.truth(level) <= search.most / UNITS + 1e-6


def searched(sets: Owned, level: int, solvers: Solvers) -> CuttingPlanes:
    program = LinearProgram(sets.owners, sets.weights, np.full(sets.entities, level))
    return CuttingPlanes(Rows(program), [level] * sets.entities, halves=False, solvers=solvers)


def test_cuts_of_the_largest_weights_are_exact() -> None:
    rows, level = of_sets([(i, i + 1, i + 2) for i in range(0, 12, 2)], [2**36 - i for i in range(6)]), 2**35
    search, truth = searched(rows.owned(), level, USUAL), oracle(rows, level)
    search.narrowed(level)
    assert int(UNIT * truth) <= search.units <= UNIT * truth + level and search.least <= truth * 2**cuts.SHARE


def test_a_better_answer_follows_where_the_first_gives_nothing_new() -> None:
    """Right prices without a point close no gap: else they would be asked for without end."""
    def prices(packing: Packing) -> list[Any]:
        x, y = exact(packing)
        return [(np.zeros(len(x)), np.array(y, dtype=float))]

    rows = of_sets([*itertools.combinations(range(5), 3), (5, 6, 7)])
    search = searched(rows.owned(), 2, Solvers(packings=prices))
    search.narrowed(2, rounds=5)
    assert search.gap <= 2 and search.units > UNIT * Fraction(13, 3) - 1


@pytest.mark.parametrize("seed", range(4))
def test_signed_sums_and_removals_are_held_between_the_same_bounds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets of three and four whose names stand twice in a row are one set, however often: {a, a, b} and {a, b, b}."""
    draw = random.Random(seed)
    monkeypatch.setattr(cuts, "FEWEST", draw.choice([4, 30]))
    monkeypatch.setattr(cuts, "MOST_LISTED", draw.choice([0, 20, 100]))
    monkeypatch.setattr(many_removals, "MOST_NUMBERS", draw.choice([1, 20, 1000]))
    width, below = (1, 2, 3, 4)[seed % 4], 5 * (seed % 2)
    rows = [(*names, value - below) for *names, value in random_rows(draw, width, 7, 40)]
    plan = plan_of(rows, SIGNED if below else WHOLE, ("BIGINT", "VARCHAR")[seed % 2])
    levels = (1, 4, 16, 64)
    columns = columns_of(plan, context())
    assert columns is not None
    expected, found = RemovalDistances(in_cells(columns, plan, 1), levels), ManyRemovals([Listed(plan, None, context(), EITHER)], levels)
    for j in range(len(levels)):
        assert found.low[j] <= expected.value(j) + NEAR and expected.value(j) <= found.high[j] + NEAR
        assert abs(found.value(j) - expected.value(j)) <= NEAR
    (parts,) = read(plan, levels, 1, context())
    for sign, part in zip((1, -1) if below else (0,), parts, strict=True):
        held = Streamed(Listed(plan, None, context(), sign), levels, 0)
        for j, level in enumerate(levels):
            assert abs(held.value(j) - part.value(j)) <= slack(level, width)


def test_removals_at_a_level_bound_those_at_lower_levels_from_below() -> None:
    plan = plan_of(random_rows(random.Random(1), 2, 7, 40), WHOLE)
    found = ManyRemovals([Listed(plan, None, context(), EITHER)], (1, 4, 16))
    lowest, highest = found.value(0), found.value(2)
    assert found.low[0] == found.high[0] == lowest >= found.low[1] == highest - NEAR > 0


def test_before_any_search_removals_are_bounded_by_loads() -> None:
    """Of those above the level, all but the level leaves. Nobody need leave where nobody is above it."""
    plan = plan_of([(1, 2, 9), (1, 3, 3), (4, 4, 2)], WHOLE)
    found = ManyRemovals([Listed(plan, None, context(), EITHER)], (3, 9, 12))
    assert found.low == [0, 0, 0] and found.high == [91 + NEAR, UNIT // 4 + NEAR, 0]  # 3/4 and 2/3; 1/4


def test_any_prices_of_cuts_bound_removals_from_below() -> None:
    """At level 80 each of three loads of 360 loses 7/9, when 7/18 of each entity leaves: two are in each set of 180."""
    cell = Listed(plan_of([(1, 2, 90), (2, 3, 90), (1, 3, 90)] * 2, WHOLE), None, context(), EITHER)
    search = Leavers([cell], sorted(cell.loads), 80)
    search._learn([0] * 3)
    bounds = [search._below([PRICE // part] * 3) for part in (2000, 720, 500, 360)]
    assert max(bounds) == bounds[1] and 0 <= Fraction(7, 6) - Fraction(bounds[1], PRICE) < Fraction(1, 2**80)


def test_a_solution_gives_new_cuts_once() -> None:
    """Else the search would ask for the same solution for ever where a solver's numbers are not accurate enough."""
    cell = Listed(plan_of([(1, 2, 9), (2, 3, 9), (1, 3, 9)], WHOLE), None, context(), EITHER)
    search = Leavers([cell], sorted(cell.loads), 4)
    assert [search._learn([0] * 3)[1] for _ in range(3)] == [True, False, False]


@pytest.mark.parametrize("door", [broken, nothing])
def test_without_a_solver_that_works_fractions_answer(door: Any) -> None:
    plan = plan_of(random_rows(random.Random(1), 3, 5, 12), WHOLE)
    columns = columns_of(plan, context())
    assert columns is not None
    expected, (held,) = RemovalDistances(in_cells(columns, plan, 1), (3,)), read(plan, (3,), 1, context())[0]
    here = context(Solvers(packings=door))
    assert abs(ManyRemovals([Listed(plan, None, here, EITHER)], (3,)).value(0) - expected.value(0)) <= NEAR
    assert abs(Streamed(Listed(plan, None, here), (3,), 0).value(0) - held.value(0)) <= slack(3, 3)


POLICY = policy_of("persons", "note = {}", budget="main", price="epsilon = 100")
JOIN = """COUNT(*) FROM (SELECT id, CASE WHEN note = 'victim' THEN 1 END AS k FROM persons) v
JOIN (SELECT id, 1 AS k FROM persons WHERE id < 41) a ON v.k = a.k JOIN (SELECT id, 1 AS k FROM persons WHERE id < 41) b ON v.k = b.k"""


@pytest.mark.parametrize("epsilon", [0.001, 1])
@pytest.mark.parametrize("bound", ["bound = 'balance'", "bound = 'r2t'", "bound = 'extension', clip = 8"])
def test_one_row_that_makes_too_many_sets_changes_no_outcome(bound: str, epsilon: float, tmp_path: Path,
                                                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets, "MOST_ROWS", 400)  # the victim makes 820
    (tmp_path / "policy.toml").write_text(POLICY)
    for victim in (False, True):
        path, ledger = tmp_path / f"{victim}.duckdb", tmp_path / f"{victim}.ledger"
        with duckdb.connect(str(path)) as made:
            made.execute("CREATE TABLE persons (id INTEGER PRIMARY KEY, note VARCHAR)")
            made.execute("INSERT INTO persons SELECT range, '' FROM range(1, 60)")
            made.execute(f"INSERT INTO persons VALUES (100, '{'victim' if victim else ''}')")
        Ledger.create(ledger).close()
        con = dpsql.connect(path, policy=tmp_path / "policy.toml", ledger=ledger, epsilon=epsilon)
        rows = con.execute(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({bound}) {JOIN}").fetchall()
        assert len(rows) == 1 and isinstance(rows[0][0], int)
        con.close()
