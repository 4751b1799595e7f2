"""Choices of what to measure next, attacked exactly: their distributions on random small tables and on all that an entity makes of
them, with expectations that hit a count, so that as much is told as can be.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support.coded_tables import Coded

from dpsql.audit.exact import Exact
from dpsql.frozen import replace
from dpsql.models.table_domain import TableDomain
from dpsql.trusted.measurements import all_measurements as measurements
from dpsql.trusted.measurements.block_sums import Axis, MergedAxis

SIZES = (2, 3, 2)
AXES = tuple(Axis(column=f"c{at}", values=tuple(range(size))) for at, size in enumerate(SIZES))
SETS = ((0,), (1,), (0, 1), (2, 0), (1, 2))
MERGED = MergedAxis(of=1, cells=(0, 1, 0)), MergedAxis(of=3, cells=(1, 0))
OF_MERGED = (3,), (4, 0), (1, 4)


class Scores(Exact):
    """Keeps the scores that a choice is drawn by, and their scale."""

    def __init__(self) -> None:
        self.drawn: list[tuple[np.ndarray[Any, Any], float]] = []

    def exponential(self, scores: Sequence[float], scale: float) -> int:
        self.drawn.append((np.array(scores, dtype=float), scale))
        return 0


def farthest_marginal(view: Any, draw: random.Random) -> Any:
    chosen, grain, sizes = draw.sample((*SETS, *OF_MERGED), 3), draw.choice([1, 3]), (*SIZES, 2, 2)
    expected = tuple(tuple(draw.choice([0, 1, 2, 4]) * grain for _ in range(math.prod(sizes[at] for at in places))) for places in chosen)
    return measurements.FarthestMarginal(view=view, axes=AXES, merged=MERGED, marginals=tuple(chosen), expected=expected, grain=grain,
                                         scale=draw.choice([1.0, 5.0]),
                                         weights=tuple(draw.choice([1, -1, 2, -2]) for _ in chosen), penalties=tuple(draw.choice([0, 3]) for _ in chosen))


def farthest_count(view: Any, draw: random.Random) -> Any:
    chosen, multiplier = draw.sample(SETS, 2), draw.choice([1, 2])
    expected = tuple(tuple(draw.choice([0, 1, 2, 4]) for _ in range(math.prod(SIZES[at] for at in places))) for places in chosen)
    return measurements.FarthestCount(view=view, axes=AXES, marginals=tuple(chosen), expected=expected,  # type: ignore[attr-defined]
                                      scale=draw.choice([1.0, 5.0]), multiplier=multiplier)


def dependent_parents(view: Any, draw: random.Random) -> Any:
    from dpsql.trusted.measurements.dependent_parents import ConvexInformation, ProductDistance  # type: ignore[import-not-found]

    score = draw.choice([ProductDistance(grain=draw.choice([1, 100])), ConvexInformation(kinks=tuple(sorted(draw.choices(range(6), k=4))))])
    chosen = tuple(draw.sample(((0, 1), (1, 0), (2, 0, 1), (1, 2), (0,)), 3))
    return measurements.DependentParents(view=view, axes=AXES, candidates=chosen, score=score,  # type: ignore[attr-defined]
                                         offsets=tuple(draw.choice([0, 2]) for _ in chosen), scale=draw.choice([2.0, 9.0]))


CHOICES: dict[str, Callable[[Any, random.Random], Any]] = {
    "FarthestMarginal": farthest_marginal, "FarthestCount": farthest_count, "DependentParents": dependent_parents}
HERE = [name for name in CHOICES if hasattr(measurements, name)]


def logs(table: Coded, request: Any) -> np.ndarray[Any, Any]:
    """The logarithms of the chances of all outcomes."""
    source = Scores()
    own, certificates, _ = table.kernel._certified(replace(request, view=table.table.view))
    own.release(replace(table.kernel._context(), noise=source), *certificates)
    (scores, scale), = source.drawn
    powers = scores / scale
    return powers - powers.max() - math.log(np.exp(powers - powers.max()).sum())


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("name", HERE)
def test_choices_tell_no_more_than_they_cost(name: str, rows: int) -> None:
    draw, most = random.Random(f"{name} {rows}"), 0.0
    for _ in range(12):
        places = [[draw.randrange(size) for size in SIZES] for _ in range(rows * draw.randint(0, 4))]
        more = [[draw.randrange(size) for size in SIZES] for _ in range(rows)]
        one, two = (Coded(TableDomain(("a", "b", "c"), SIZES), np.array(each, dtype=np.int64).reshape(-1, 3), rows=rows)
                    for each in (places, [*places, *more]))
        request = CHOICES[name](one.table.view, draw)
        cost = request.cost(*one.kernel._certificates(request))
        here, there = logs(one, request), logs(two, request)
        change = here - there
        assert cost.epsilon is not None and change.max() - change.min() <= float(cost.epsilon) * (1 + 1e-9), "the range that rho rests on"
        assert np.abs(change).max() <= float(cost.epsilon) * (1 + 1e-9)
        most = max(most, (change.max() - change.min()) / float(cost.epsilon))
    assert most > 0.45
