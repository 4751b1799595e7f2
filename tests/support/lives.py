"""People and their visits, generated: how one person's rows depend on each other is known."""

from __future__ import annotations

import numpy as np
import pandas as pd

KINDS = np.array(["gp", "er", "lab"])
MOST = 8  # visits of a person
DECLARED = """version = 1
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
source = "people.parquet"
[tables.people.columns]
id = {}
heavy = { nullable = false }
age = { range = [0, 99], nullable = false }
[tables.visits]
key = ["person", "day"]
source = "visits.parquet"
foreign_keys = [{ columns = "person", references = "people(id)" }]
rows_per_entity = 8
[tables.visits.columns]
person = {}
day = { bounds = [0, 999], nullable = false }
kind = { values = ["gp", "er", "lab"], nullable = false }
cost = { bounds = [0, 400], nullable = false }
"""
"""A policy for both tables, as Parquet files; budgets come after it."""


def people_and_visits(number: int, draws: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Heavy people come more often, to other kinds, for more; costs and kinds are like those of the visit before."""
    heavy = draws.random(number) < 0.15
    rows = np.minimum(np.where(heavy, 1 + draws.poisson(3, number), draws.poisson(1.2, number)), MOST)
    age = np.clip(draws.normal(45 + 20 * heavy, 15), 0, 99).astype(int)
    people = pd.DataFrame({"id": np.arange(number), "heavy": heavy, "age": age})
    person, place = np.repeat(np.arange(number), rows), np.concatenate([np.arange(count) for count in rows])
    level, kind = draws.normal(size=number), draws.integers(0, 3, number)
    levels, kinds = np.zeros(len(person)), np.zeros(len(person), dtype=np.int64)
    for turn in range(MOST):
        at = np.flatnonzero(place == turn)
        who = person[at]
        level[who] = 0.9 * level[who] + 0.43 * draws.normal(size=len(at))
        kind[who] = np.where(draws.random(len(at)) < 0.6, kind[who], np.where(heavy[who], 1, 0))
        levels[at], kinds[at] = level[who], kind[who]
    day = np.concatenate([np.sort(draws.choice(1000, count, replace=False)) for count in rows])
    cost = np.minimum(400, 25 * np.exp(1.2 * heavy[person] + 0.6 * levels))
    return people, pd.DataFrame({"person": person, "day": day, "kind": KINDS[kinds], "cost": cost})
