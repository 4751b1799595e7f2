"""Small tables of three axes, and what choices over them are drawn by."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from bench.bench_cells import Cells

from dpsql.audit.exact import Exact
from dpsql.trusted.measurements.block_sums import Axis, MergedAxis
from dpsql.trusted.measurements.reading.request import Last
from dpsql.trusted.plan.certificate import Certificate, Sensitivity
from dpsql.trusted.plan.node import Stability

SIZES = 3, 2, 2
AXES = tuple(Axis(column=f"a{i}", values=tuple(range(size))) for i, size in enumerate(SIZES))
MARGINALS = (0,), (1,), (0, 1), (2, 0), ()
MERGED = MergedAxis(of=0, cells=(1, 0, 1)), MergedAxis(of=3, cells=(0, 0))
OF_MERGED = (3,), (1, 3), (4, 0)
Rows = tuple[tuple[int, ...], ...]


class Tap(Exact):
    """Writes down the scores that a choice is drawn by."""

    def exponential(self, scores: Sequence[float], scale: float) -> int:
        self.scores = [score / scale for score in scores]
        return int(np.argmax(scores))


class Database(Cells):
    """Rows, or counts in cells; how often they are read is counted."""

    def __init__(self, data: Rows | np.ndarray, noise: Any = None) -> None:
        super().__init__(data if isinstance(data, np.ndarray) else in_cells(data), noise)
        self.last, self.reads = Last(), 0

    def columns(self, sql: str, parts: Any = ()) -> list[Any]:
        self.reads += 1
        return super().columns(sql)


def in_cells(rows: Rows) -> np.ndarray:
    counts = np.zeros(SIZES, dtype=np.int64)
    for row in rows:
        counts[row] += 1
    return counts


def some_rows(draw: random.Random) -> Rows:
    return tuple(tuple(draw.randrange(size) for size in SIZES) for _ in range(draw.randint(0, 6)))


def certificate(moved: int) -> Certificate:
    return Certificate(below=Stability(rows=moved), summands=(Sensitivity(l1=moved, l2=moved),))


def chances(logs: Sequence[float]) -> dict[int, float]:
    """Of each place, in proportion to the exponentials."""
    weights = [math.exp(log - max(logs)) for log in logs]
    return {place: weight / sum(weights) for place, weight in enumerate(weights)}


def drawn_by(request: Any, data: Rows | np.ndarray) -> list[float]:
    """The scores by which a request chooses."""
    tap = Tap()
    request.release(Database(data, tap), None)
    return tap.scores
