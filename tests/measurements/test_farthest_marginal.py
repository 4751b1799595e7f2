"""The choice of the farthest marginal: its distribution, exactly, on neighbours; what is read, and how often."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from bench.bench_cells import VIEW
from support.chances import ALARM, p_value
from support.three_axes import (
    AXES,
    MARGINALS,
    MERGED,
    OF_MERGED,
    SIZES,
    Database,
    Tap,
    certificate,
    chances,
    drawn_by,
    some_rows,
)

from dpsql.audit.exact import Exact
from dpsql.trusted.measurements import marginal_tables
from dpsql.trusted.measurements.block_sums import Axis, MergedAxis
from dpsql.trusted.measurements.farthest_marginal import FarthestMarginal, distance


def request_of(draw: random.Random, **given: Any) -> FarthestMarginal:
    marginals = MARGINALS + OF_MERGED
    cells = [math.prod((*SIZES, 2, 1)[place] for place in places) for places in marginals]
    made: dict[str, Any] = {"expected": tuple(tuple(draw.randint(-1, 5) for _ in range(size)) for size in cells),
                            "weights": tuple(draw.choice([-2, -1, 1, 2, 3]) for _ in cells), "penalties": tuple(draw.randint(-9, 9) for _ in cells),
                            "scale": draw.choice([0.3, 2.0, 5.0]), "grain": draw.choice([1, 2])}
    return FarthestMarginal(view=VIEW, axes=AXES, merged=MERGED, **{"marginals": marginals, **made, **given})


def scores(request: FarthestMarginal, rows: Sequence[tuple[int, ...]]) -> list[float]:
    """By the definition, row by row."""
    found = []
    rows = [(*row, (1, 0, 1)[row[0]], 0) for row in rows]
    for places, expected, weight, penalty in zip(request.marginals, request.expected, request.weights, request.penalties, strict=True):
        cells = itertools.product(*(range((*SIZES, 2, 1)[place]) for place in places))
        far = sum(abs(request.grain * sum(tuple(row[place] for place in places) == cell for row in rows) - count)
                  for cell, count in zip(cells, expected, strict=True))
        found.append(weight * (far - penalty) / request.scale)
    return found


@pytest.mark.parametrize("most", [0, 2**16])
def test_scores_are_those_of_the_definition(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marginal_tables, "MOST_MERGED", most)
    draw = random.Random(1)
    for _ in range(100):
        request, rows = request_of(draw), some_rows(draw)
        expected = scores(request, rows)
        cap = math.ceil(request.scale * (math.log(len(expected)) + 45)) / request.scale
        assert drawn_by(request, rows) == pytest.approx([max(score - max(expected), -cap) for score in expected])


@pytest.mark.parametrize("moved", [1, 3])
def test_neighbours_are_told_apart_by_no_more_than_is_charged(moved: int) -> None:
    """Of every candidate the exact chance, where an entity of so many rows is there and where it is not; and nearly as much is reached."""
    draw, most = random.Random(2), 0.0
    for _ in range(300):
        request, rows = request_of(draw), some_rows(draw)
        more = (*rows, *(tuple(draw.randrange(size) for size in SIZES) for _ in range(moved)))
        cost = request.cost(certificate(moved))
        one, two = (chances(drawn_by(request, each)) for each in (rows, more))
        loss = max(abs(math.log(one[place] / two[place])) for place in one)
        assert cost.epsilon is not None and loss <= float(cost.epsilon) * (1 + 1e-9)
        concentrated = sum(one[place] * math.log(one[place] / two[place]) for place in one)  # the Renyi divergence of order 1
        assert concentrated <= float(cost.rho) * (1 + 1e-9)
        most = max(most, loss / float(cost.epsilon))
    assert most > 0.6


def test_scores_that_are_far_apart_are_cut_off_and_move_no_more_than_others() -> None:
    """Candidates as far below the best one as they get are never drawn; a row moves them by no more than it moves the others."""
    request = request_of(random.Random(3), expected=((0,) * 3, (2**51,) * 2, (0,) * 6, (2**51 + 20, *(0,) * 5), (0,)), marginals=MARGINALS,
                         penalties=(0, 2**51, 0, 0, 0), scale=1.0, grain=1, weights=(1,) * 5)
    one, two = (drawn_by(request, rows) for rows in ((), ((0, 0, 0),)))
    assert one == [-47, -20, -47, 0, -47] and two == [-47, -20, -47, 0, -47]
    two = drawn_by(request, ((0, 1, 1),))
    assert two == [-47, -22, -47, 0, -47], "what moves the best score moves all others, as seen from it"


def test_candidates_are_drawn_by_their_scores(effort: float) -> None:
    request, rows = request_of(random.Random(4), scale=5.0), ((0, 0, 0), (2, 1, 1))
    context = Database(rows)
    found = [request.release(context, None).place for _ in range(round(3000 * effort))]  # type: ignore[arg-type]
    assert p_value(found, chances(scores(request, rows))) >= ALARM
    assert context.reads == 1


def test_rows_are_read_anew_where_something_else_was_asked() -> None:
    draw = random.Random(5)
    context = Database(((0, 0, 0),), Exact())
    for asked in (1, 1, 2, 3, 3):
        axes = AXES if asked != 2 else (*AXES[:2], Axis(column="a2", values=(1, 0)))
        request_of(draw)
        FarthestMarginal(view=VIEW, axes=axes, marginals=((asked % 2,),), expected=((0,) * SIZES[asked % 2],), weights=(1,), penalties=(0,),
                         scale=1.0).release(context, None)  # type: ignore[arg-type]
        assert context.reads == asked


def test_rows_are_read_anew_where_other_cells_are_merged() -> None:
    context = Database(((0, 0, 0), (1, 0, 0)), Exact())
    scored = []
    for cells in ((0, 0, 1), (0, 0, 1), (0, 1, 1)):
        context.noise = tap = Tap()
        FarthestMarginal(view=VIEW, axes=AXES, merged=(MergedAxis(of=0, cells=cells),), marginals=((3,), ()), expected=((2, 0), (0,)), weights=(1, 1),
                         penalties=(0, 0), scale=1.0).release(context, None)  # type: ignore[arg-type]
        scored.append(tap.scores)
    assert scored == [[-2, 0], [-2, 0], [0, 0]], "distances as seen from the largest one"
    assert context.reads == 2


def test_values_that_are_not_listed_are_in_no_cell() -> None:
    axes = (AXES[0], Axis(column="a1", values=(1,)), AXES[2])
    tap = Tap()
    FarthestMarginal(view=VIEW, axes=axes, marginals=((0,), ()), expected=((0,) * 3, (0,)), weights=(1, 1), penalties=(0, 3), scale=1.0).release(
        Database(((0, 0, 0), (1, 1, 1), (1, 1, 0)), tap), None)  # type: ignore[arg-type]
    assert tap.scores == [0, -3], "two rows are left"


@pytest.mark.parametrize("large", [5, 2**50])
def test_distances_are_exact(large: int) -> None:
    counts, expected = [0, 7, large], [large, 8, 1]
    for grain in (1, 2**20):
        exact = sum(abs(grain * count - other) for count, other in zip(counts, expected, strict=True))
        assert distance(np.array(counts), expected, grain, sum(counts)) == exact
        assert distance(np.array(counts, dtype=object), expected, grain, 2**62) == exact


def test_the_cost_is_that_of_the_heaviest_candidate() -> None:
    request = request_of(random.Random(6), weights=(1, 2, 7, 2, 1), scale=3.0, grain=4)
    assert request.cost(certificate(5)).epsilon == Fraction(2 * 4 * 5 * 7, 3)
