"""A world in which privacy costs no row and no digit: all values within their bounds, nobody above a limit, no group empty."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

from support.worlds import CLINICS, World


def dense(seed: int = 1, people: int = 300) -> World:
    draw = random.Random(seed)

    def sometimes(value: Any, share: float = 0.12) -> Any:
        return None if draw.random() < share else value

    households = [(i, sometimes(draw.choice(["east", "north", "south", "west"]))) for i in range(people // 3)]
    homes = [i for i, _ in households for _ in range(4)]
    draw.shuffle(homes)
    persons: list[tuple[Any, ...]] = []
    visits: list[tuple[Any, ...]] = []
    scores: list[tuple[Any, ...]] = []
    for i in range(people):
        born = dt.date(1920, 1, 1) + dt.timedelta(days=draw.randint(0, 36_000))
        persons.append((i, sometimes(homes[i]), sometimes(draw.choice("fm")), draw.randint(0, 100),
                        sometimes(round(draw.uniform(0, 100_000))), sometimes(draw.randint(320, 960) / 8),
                        sometimes(draw.random() < 0.5), sometimes(born), sometimes(draw.choice(["al", "bo", "cy", "x'y", ""])),
                        "secret"))
        for _ in range(draw.choice([0, 1, 2, 3, 3])):
            visits.append((len(visits), i, sometimes(draw.randint(2018, 2021)), sometimes(draw.choice("abcd")),
                           sometimes(round(draw.uniform(0, 500), 2)), sometimes(draw.choice(["ill", "well"])),
                           sometimes(dt.datetime(2018, 1, 1) + dt.timedelta(minutes=draw.randint(0, 2_000_000)))))
        for _ in range(draw.choice([0, 1, 4, 4])):
            scores.append((i, sometimes(draw.randint(-5, 5))))
    return World({"households": households, "people": persons, "visits": visits, "scores": scores, "clinics": list(CLINICS),
                  "unlisted": [(1,)]})
