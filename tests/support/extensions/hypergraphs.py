"""Small random rows of several owners, and what V must be for them by plain means."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog

from dpsql.frozen import Frozen
from dpsql.trusted.extensions.owned import Owned, owned, signed


class Rows(Frozen, kw_only=False):
    """Rows as anyone would write them: names (None for nobody) and a weight."""

    names: tuple[tuple[int | None, ...], ...]
    weights: tuple[int, ...]

    @property
    def width(self) -> int:
        return len(self.names[0])

    @property
    def entities(self) -> set[int]:
        return {name for row in self.names for name in row if name is not None}

    def without(self, entity: int) -> Rows:
        kept = [(row, weight) for row, weight in zip(self.names, self.weights, strict=True) if entity not in row]
        return Rows(tuple(row for row, _ in kept) or ((None,) * self.width,), tuple(weight for _, weight in kept) or (0,))

    def columns(self) -> list[np.ma.MaskedArray]:
        return [np.ma.array([0 if row[at] is None else row[at] for row in self.names],
                            mask=[row[at] is None for row in self.names], dtype=np.int64) for at in range(self.width)]

    def owned(self) -> Owned:
        return owned(self.columns(), np.array(self.weights))

    def signed(self) -> tuple[Owned, Owned]:
        return signed(self.columns(), np.array(self.weights))

    def truth(self, level: float) -> float:
        """V by scipy's solver, over the rows as they stand."""
        rows = [(set(row) - {None}, weight) for row, weight in zip(self.names, self.weights, strict=True)]
        rows = [(owners, weight) for owners, weight in rows if owners]
        if not rows:
            return 0.0
        loads = np.array([[entity in owners for owners, _ in rows] for entity in sorted(self.entities)], dtype=float)
        found = linprog(-np.ones(len(rows)), A_ub=loads, b_ub=np.full(len(loads), level), method="highs",
                        bounds=[(0, weight) for _, weight in rows])
        assert found.status == 0
        return -float(found.fun)


def random_rows(draw: random.Random, width: int, *, most: int = 9, entities: int = 6, largest: int = 1,
                lowest: int = 0, nobody: float = 0.1, again: float = 0.1) -> Rows:
    """Few entities and many rows, so that they compete; some names missing, some twice in a row."""
    names, weights = [], []
    for _ in range(draw.randint(1, most)):
        row: list[int | None] = [draw.randrange(entities) for _ in range(width)] if draw.random() < again else list(
            draw.sample(range(entities), width))
        names.append(tuple(None if draw.random() < nobody else name for name in row))
        weights.append(draw.randint(lowest, largest))
    return Rows(tuple(names), tuple(weights))


def totals(rows: Rows) -> dict[int, int]:
    """The weight of each entity's rows."""
    return {entity: sum(weight for row, weight in zip(rows.names, rows.weights, strict=True) if entity in row)
            for entity in rows.entities}


def of_sets(sets: Sequence[Sequence[int]], weights: Sequence[int] | None = None) -> Rows:
    width = max(len(one) for one in sets)
    return Rows(tuple((*one, *(None,) * (width - len(one))) for one in sets), tuple(weights or [1] * len(sets)))
