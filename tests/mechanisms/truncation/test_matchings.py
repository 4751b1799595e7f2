"""Values and entities that are counted by matching rows: as many as there are, and no entity moves them by more than one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import duckdb
import pytest
from support.extensions.given import Given
from support.joined_worlds import context_of

from dpsql.backends.duckdb import DuckReader
from dpsql.mechanisms.mechanism import TaskContext
from dpsql.mechanisms.truncation.extension_sums import shares
from dpsql.planning.matching_parts import matching_task, names_task
from dpsql.questions.parts import Matchings
from dpsql.trusted.measurements.several.balanced_levels import Balance
from dpsql.trusted.measurements.several.sets import read
from dpsql.trusted.noise.integer import DiscreteLaplace
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.node import Stability
from dpsql.trusted.plan.operators.owner_sets import UNIT, slack

COLORS = ("red", "green", "blue", "black")
Row = tuple[Any, ...]


def columns(kind: str) -> tuple[tuple[str, str], ...]:
    return (("a", kind), ("b", kind), ("c", kind), ("k", "VARCHAR"), ("color", "VARCHAR"), ("v", "BIGINT"), ("w", "BOOLEAN"))


def rows_of(draw: random.Random, many: int, entities: int, name: Any = int) -> list[Row]:
    return [(name(draw.randrange(entities)), *(None if draw.random() < 0.2 else name(draw.randrange(entities)) for _ in "bc"),
             draw.choice("xyz"), draw.choice([None, *COLORS, "other"]), draw.choice([None, *range(12)]),
             draw.choice([True, True, False, None])) for _ in range(many)]


def counted(rows: Sequence[Row], column: str | None, *, width: int = 2, kind: str = "BIGINT", when: str | None = None,
            context: TaskContext = TaskContext(keys=(), cells=((),))) -> list[float]:
    """What is counted in every cell, without noise."""
    given = Given(columns=columns(kind), rows=tuple(rows), owners=("a", "b", "c")[:width])
    task = matching_task(0, Matchings(column=column, when=when), given, given.owners)
    plan = shares(task, context)
    request = Balance(plan=plan, levels=(1,), log_priors=(0,), scale=1.0, noises=(DiscreteLaplace(scale=100.0),), cells=len(context.cells))
    request.cost(Certificate(below=Stability(rows=None, owners=given.owners), summands=()))  # the kernel would take it
    connection = duckdb.connect(":memory:", config={"threads": 1})
    return [part.value(0) / UNIT for part, in read(plan, (1,), len(context.cells), context_of(DuckReader(connection, "v1")))]


@pytest.mark.parametrize(("kind", "name"), [("BIGINT", int), ("VARCHAR", str)])
def test_values_of_many_entities_are_all_counted(kind: str, name: Any) -> None:
    rows = rows_of(random.Random(1), 200, 80, name)
    assert counted(rows, "v", kind=kind)[0] == pytest.approx(12, abs=0.1)
    assert counted(rows, "color", kind=kind)[0] == pytest.approx(5, abs=0.1)


def test_conditions_and_groups_are_told_apart() -> None:
    rows: list[Row] = [(i, 100 + i, None, "xy"[i % 2], COLORS[i % 4], i % 6, i % 3 == 0) for i in range(60)]
    assert counted(rows, "v", when="w")[0] == pytest.approx(2, abs=0.1)
    context = TaskContext(keys=("k",), cells=(("x",), ("y",), ("z",)))
    assert counted(rows, "color", context=context) == pytest.approx([2, 2, 0], abs=0.1)


def test_one_entity_vouches_for_one_value() -> None:
    rows: list[Row] = [(1, 100 + i, None, "x", COLORS[i % 4], i, True) for i in range(12)]
    assert counted(rows, "v")[0] == pytest.approx(1, abs=0.1)
    assert counted(rows, None)[0] == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("column", [None, "v", "color"])
def test_no_entity_moves_it_by_more_than_one_and_there_are_as_many_at_least(column: str | None, width: int) -> None:
    draw = random.Random(width)
    most = 0.0
    for _ in range(5):
        rows, slacks = rows_of(draw, draw.choice([8, 20]), 6), slack(1, 3) / UNIT
        whole, = counted(rows, column, width=width)
        entities = {name for row in rows for name in row[:width] if name is not None}
        values = {row[4 if column == "color" else 5] for row in rows} - {None}
        assert whole <= (len(entities) if column is None else min(len(entities), len(values))) + slacks
        for entity in range(6):
            found, = counted([row for row in rows if entity not in row[:width]], column, width=width)
            assert -slacks <= whole - found <= 1 + slacks
            most = max(most, whole - found)
    assert most > 0.5  # the test can fail


def named(rows: Sequence[Row], column: str, level: int) -> float:
    """How many names of one kind are counted at a level, without noise."""
    given = Given(columns=columns("BIGINT"), rows=tuple(rows), owners=("a", "b"))
    task = names_task(0, Matchings(column=column, when=None), given, given.owners)
    plan = shares(task, TaskContext(keys=(), cells=((),)))
    request = Balance(plan=plan, levels=(level,), log_priors=(0,), scale=1.0, noises=(DiscreteLaplace(scale=100.0),), cells=1)
    request.cost(Certificate(below=Stability(rows=None, owners=given.owners), summands=()))
    connection = duckdb.connect(":memory:", config={"threads": 1})
    (part,), = read(plan, (level,), 1, context_of(DuckReader(connection, "v1")))
    return part.value(0) / UNIT


@pytest.mark.parametrize("column", ["a", "b"])
@pytest.mark.parametrize("level", [1, 2, 8])
def test_names_are_counted_up_to_a_level_of_each_entity(column: str, level: int) -> None:
    """Whoever leaves takes at most `level` names along, and a level above all rows of an entity counts every name."""
    draw = random.Random(level)
    for _ in range(6):
        rows = [(draw.randrange(12), 100 + draw.randrange(4), *row[2:]) for row in rows_of(draw, 16, 4)]
        whole, slacks = named(rows, column, level), slack(level, 3) / UNIT
        place = "ab".index(column)
        if level == 8 and max(sum(row[at] == row_[at] for row_ in rows) for row in rows for at in (0, 1)) <= level:
            assert whole == pytest.approx(len({row[place] for row in rows}), abs=0.1)
        for entity in {name for row in rows for name in row[:2]}:
            rest = named([row for row in rows if entity not in row[:2]], column, level)
            assert -slacks <= whole - rest <= level + slacks
