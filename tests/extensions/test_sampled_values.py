"""Values that entities vouch for, counted from some of their pairs: the same numbers as from all of them."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest
from extensions.test_many_sets import context
from extensions.test_vouched_values import LEVELS, Pairs, matching, plan_of, some_pairs
from support.extensions.given import Given

from dpsql.frozen import replace
from dpsql.solvers.flow import flow
from dpsql.trusted.extensions.linear_program import LinearProgram
from dpsql.trusted.measurements.several import sets, vouched_values
from dpsql.trusted.measurements.several.sets import read
from dpsql.trusted.measurements.several.vouched_values import VouchedValues
from dpsql.trusted.plan.operators.owner_sets import UNIT, OwnerSets
from dpsql.trusted.plan.operators.summands import Count

KINDS = ("BIGINT", "BIGINT"), ("VARCHAR", "VARCHAR"), ("VARCHAR", "BIGINT"), ("DOUBLE", "DOUBLE")


def named(pairs: Pairs, kinds: tuple[str, str]) -> Pairs:
    """The same pairs with texts in place of numbers where the kinds say so."""
    return [tuple(name if kind == "BIGINT" else f"{name}.5" for name, kind in zip(pair, kinds, strict=True)) for pair in pairs]


def all_pairs(plan: OwnerSets, levels: tuple[int, ...] = LEVELS, cells: int = 1) -> list[list[int]]:
    """The numbers computed from all pairs at once."""
    return [[part.value(j) for j in range(len(levels))] for part, in sets._sums(plan, levels, cells, context())]


def numbers(plan: OwnerSets, levels: tuple[int, ...] = LEVELS, cells: int = 1, order: list[int] | None = None) -> list[list[int]]:
    """The numbers as they are read, levels in some order; at each step their bounds enclose them."""
    found = []
    for (part,), truth in zip(read(plan, levels, cells, context()), all_pairs(plan, levels, cells), strict=True):
        assert isinstance(part, VouchedValues)
        for j in order or range(len(levels)):
            while not part.exact(j):
                assert all(low <= true <= high for low, true, high in zip(part.low, truth, part.high, strict=True))
                part.refine(j)
        found.append([part.value(j) for j in range(len(levels))])
    return found


@pytest.fixture(params=[(1, 2), (2, 3), (8, 64)], ids=str)
def samples(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    monkeypatch.setattr(vouched_values, "SAMPLES", request.param)
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize("kinds", KINDS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_some_pairs_give_the_numbers_of_all(samples: tuple[int, int], seed: int, kinds: tuple[str, str]) -> None:
    draw = random.Random(seed)
    people, values = draw.choice([(6, 12), (20, 5), (12, 40), (30, 30)])
    plan = plan_of(named(some_pairs(draw, people, values, 150), kinds), kinds)
    order = draw.sample(range(len(LEVELS)), len(LEVELS))
    assert numbers(plan, order=order) == all_pairs(plan)


@pytest.mark.parametrize("kinds", KINDS[:2], ids=str)
@pytest.mark.parametrize("pairs", [
    [(who, 7) for who in range(40)],
    [(3, what) for what in range(40)],
    [(3, what) for what in range(20)] + [(who, 7) for who in range(20)],
    [(who, what) for who in range(9) for what in range(9)],
    [(who, who // 2) for who in range(30)],
    [(who // 2, who) for who in range(30)] * 2,
    [(1, 1)],
], ids=["one value", "one entity", "both", "all pairs", "two entities each", "values alone", "one pair"])
def test_odd_shapes(samples: tuple[int, int], pairs: Pairs, kinds: tuple[str, str]) -> None:
    plan = plan_of(named(pairs, kinds), kinds)
    assert numbers(plan) == [[UNIT * matching(pairs, level) for level in LEVELS]]


def test_nothing_and_nobody(samples: tuple[int, int]) -> None:
    """Rows without an entity are left out."""
    lines = Given(columns=(("who", "BIGINT"), ("what", "BIGINT")), rows=((None, 1), (None, 2), (5, 2), (5, 3), (6, 3)), owners=("who",))

    class Present(Given):
        """The values are there. Proof: none."""

        @property
        def fields(self) -> Any:
            who, what = super().fields
            return who, replace(what, facts=replace(what.facts, nullable=False))

    plan = OwnerSets(input=Present(columns=lines.columns, rows=lines.rows, owners=lines.owners), owners=("who",), once="what",
                     summand=Count())
    assert numbers(plan) == [[UNIT * 2] * len(LEVELS)]
    nobody = replace(plan, input=Present(columns=lines.columns, rows=((None, 1),), owners=lines.owners))
    assert numbers(nobody) == [[0] * len(LEVELS)]


@pytest.mark.parametrize("seed", range(4))
def test_each_cell_has_its_own_number(samples: tuple[int, int], seed: int) -> None:
    draw = random.Random(seed)
    rows = tuple((who, what, draw.randrange(-1, 4)) for who, what in some_pairs(draw, 9, 9, 120))
    given = Given(columns=(("who", "BIGINT"), ("what", "BIGINT"), ("cell", "BIGINT")), rows=rows, nullable=False, owners=("who",))
    plan = OwnerSets(input=given, owners=("who",), once="what", summand=Count(), cell="cell")
    found = numbers(plan, cells=3)
    assert found == all_pairs(plan, cells=3)
    assert found == [[UNIT * matching([(who, what) for who, what, at in rows if at == cell], level) for level in LEVELS] for cell in range(3)]


@pytest.mark.parametrize("seed", range(3))
def test_an_entity_moves_the_number_by_no_more_than_the_level(samples: tuple[int, int], seed: int) -> None:
    pairs = some_pairs(random.Random(seed), 8, 20, 90)
    (whole,), reached = numbers(plan_of(pairs)), set()
    for entity in {who for who, _ in pairs}:
        (found,) = numbers(plan_of([pair for pair in pairs if pair[0] != entity]))
        for level, here, there in zip(LEVELS, whole, found, strict=True):
            assert 0 <= here - there <= UNIT * level
            reached |= {level} if here - there == UNIT * level else set()
    assert reached


def refuse(*given: Any) -> Any:
    raise AssertionError("this is not needed")


def test_what_is_not_needed_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(1)
    many = [(draw.randrange(400), draw.randrange(20)) for _ in range(900)]
    monkeypatch.setattr(sets, "_sums", refuse)
    few = [(who, what) for who in range(0, 600, 2) for what in (who, who + 1)]  # two values each, and nobody else's
    (part,), = read(plan_of(few), LEVELS, 1, context())
    assert [part.value(j) for j in range(4)] == [UNIT * 300, UNIT * 600, UNIT * 600, UNIT * 600]
    monkeypatch.setattr(OwnerSets, "gathered", refuse)
    (part,), = read(plan_of(many), LEVELS, 1, context())
    assert [part.value(j) for j in range(4)] == [UNIT * 20] * 4
    (part,), = read(plan_of(few), LEVELS, 1, context())
    assert [part.value(j) for j in range(4)] == [UNIT * 300, UNIT * 600, UNIT * 600, UNIT * 600]


def test_entities_with_the_same_hash_do_not_change_the_number(samples: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """From below they are merged, and from above they have their names."""
    pairs = named(some_pairs(random.Random(3), 12, 12, 90), ("VARCHAR", "BIGINT"))
    plan, printed = plan_of(pairs, ("VARCHAR", "BIGINT")), OwnerSets.sampled
    truth = all_pairs(plan)
    monkeypatch.setattr(OwnerSets, "sampled", lambda self, below: re.sub(
        r'hash\((t\d\."#[ev]")\)', r"hash(left(CAST(\1 AS VARCHAR), 1))", printed(self, below)))
    assert numbers(plan) == truth


@pytest.mark.parametrize("broken", ["sampled", "gathered"])
def test_a_fault_of_a_shorter_way_is_no_fault_of_the_statement(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(some_pairs(random.Random(4)))
    truth = all_pairs(plan)
    monkeypatch.setattr(OwnerSets, broken, lambda *_: "SELECT error('memory')")
    (part,), = read(plan, LEVELS, 1, context())
    assert [part.value(j) for j in range(len(LEVELS))] == truth[0]


@pytest.mark.parametrize("seed", range(5))
def test_one_copy_of_a_flow_is_enough_between_two_kinds(seed: int) -> None:
    draw = np.random.default_rng(seed)
    pairs = np.unique(draw.integers(0, [20, 12], (90, 2)), axis=0)
    owners = np.asfortranarray(np.stack((12 + pairs[:, 0], pairs[:, 1]), axis=1)[np.lexsort((pairs[:, 1], pairs[:, 0]))].astype(np.int32))
    room = draw.integers(0, 4, 32)
    weights = np.minimum(draw.integers(1, 3, len(pairs)), room[owners].min(axis=1))
    point = flow(LinearProgram(owners, weights, room), 0)
    load = sum(np.bincount(owners[:, at], weights=point.rows, minlength=32) for at in (0, 1))
    open_ = np.maximum(0, 1 - point.prices[owners].sum(axis=1))
    assert (point.rows <= weights).all() and (load <= room).all() and set(point.prices) <= {0, 1}
    assert point.rows.sum() == room @ point.prices + weights @ open_
