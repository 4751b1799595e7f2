"""Worlds made to break laws: ties, numbers that are equal but not the same, rows without an owner, the largest entities."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from support.laws.family import Family
from support.worlds import World, world

NAN = float("nan")


def small(seed: int) -> World:
    """A few people in more than two households."""
    full = world(seed, people=6, most_visits=4)
    draw = random.Random(seed)
    rows = {name: list(found) for name, found in full.rows.items()}
    rows["households"] = [(i, draw.choice(["east", "north", None])) for i in range(4)]
    rows["people"] = [_with(row, 1, draw.choice([0, 1, 2, 3, None])) for row in rows["people"]]
    return World(rows)


def crowded(seed: int) -> World:
    """One household with more people than the limit; visits, beyond the limit too, that agree in all but their key and cost."""
    draw = random.Random(seed)
    day = dt.datetime(2020, 5, 17, 8)
    people = [(i, 0 if i < 5 else 1, "f", 40, 1000.0 * i, 10.0, True, dt.date(1980, 1, 1), "al", "sss") for i in range(6)]
    visits = [(5 * i + j, i, 2020, "a", float(draw.choice([0, 500, 499])), "ill", day) for i in range(6) for j in range(5)]
    scores = [(i, 5 if draw.random() < 0.7 else -5) for i in range(6) for _ in range(4)]
    return _world(people, visits, scores, households=[(0, "east"), (1, "west")])


def twins(seed: int) -> World:
    """Rows that are equal, and numbers that are equal but not the same: -0.0 and 0.0, NaN and -NaN."""
    draw = random.Random(seed)
    zeros = [-0.0, 0.0, -0.0, NAN, -NAN, 0.0]
    draw.shuffle(zeros)
    people = [(i, i % 3, draw.choice(["f", None]), draw.choice([0, 100]), zeros[i], zeros[-1 - i], draw.choice([True, None]),
               None, draw.choice(["", "al"]), "sss") for i in range(6)]
    visits = [(i, i // 3, 2019, "b", draw.choice([0, None]), None, None) for i in range(14)]
    scores = [(i // 4, draw.choice([0, None])) for i in range(16)]
    return _world(people, visits, scores, households=[(0, None), (1, None), (2, "east")])


def orphans(seed: int) -> World:
    """Rows that belong to nobody, or to somebody who is not there."""
    full = small(seed)
    draw = random.Random(seed)
    rows = {name: list(found) for name, found in full.rows.items()}
    rows["people"] = [_with(row, 1, draw.choice([None, 0, 77])) for row in rows["people"]]
    rows["visits"] = [_with(row, 1, draw.choice([row[1], None, 99, 98])) for row in rows["visits"]]
    rows["scores"] = [_with(row, 0, draw.choice([row[0], None, 99])) for row in rows["scores"]]
    return World(rows)


def loners(seed: int) -> World:
    """Clinics that one person alone visits, years that one person alone has, and one person alone with a NULL."""
    draw = random.Random(seed)
    days = [dt.datetime(2020, 5, 17 + i, 8) for i in range(3)]
    people = [(i, i % 3, draw.choice("fm"), 20 + 10 * i, 100.0 * i, 1.0, True, None, None, "sss") for i in range(8)]
    visits = [(0, 0, 2018, "a", 1.0, None, days[0]), (1, 0, 2019, "b", 2.0, None, days[1]), (2, 0, 2021, "c", 3.0, None, days[2]),
              (3, 1, 2020, "d", 4.0, None, days[0]), (4, 1, 2020, "d", 5.0, None, days[0]), (5, 2, None, "d", 6.0, None, days[0])]
    scores = [(3, 1), (3, 2), (4, 3)]
    return _world(people, visits, scores, households=[(0, "east"), (1, None), (2, "west")])


def tame(seed: int) -> World:
    """All values within what the policy declares of them."""
    full = small(seed)

    def inside(row: tuple[Any, ...], place: int, low: float, high: float) -> tuple[Any, ...]:
        fine = row[place] is None or low <= row[place] <= high
        return row if fine else _with(row, place, low)

    rows = {name: list(found) for name, found in full.rows.items()}
    rows["people"] = [inside(row, 4, 0, 100_000) for row in rows["people"]]
    rows["visits"] = [inside(inside(row, 2, 2018, 2021), 4, 0, 500) for row in rows["visits"]]
    rows["visits"] = [row if row[6] is None or row[6].year < 2022 else _with(row, 6, None) for row in rows["visits"]]
    rows["scores"] = [inside(row, 1, -5, 5) for row in rows["scores"]]
    return World(rows)


def _with(row: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*row[:place], value, *row[place + 1 :])


def _world(people: list[tuple[Any, ...]], visits: list[tuple[Any, ...]], scores: list[tuple[Any, ...]],
           households: list[tuple[Any, ...]]) -> World:
    return World({**world(0, people=1).rows, "people": people, "visits": visits, "scores": scores, "households": households})


KINDS: dict[str, Callable[[int], World]] = {
    "small": small, "crowded": crowded, "twins": twins, "orphans": orphans, "loners": loners, "tame": tame}


@contextmanager
def families_of(size: int) -> Iterator[list[Family]]:
    """A world of each kind, of this size, with all of its neighbours."""
    made = [Family(kind(size), name=name, tame=name == "tame") for name, kind in KINDS.items()]
    yield made
    for family in made:
        family.close()
