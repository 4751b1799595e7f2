"""The choice of the farthest counts: its distribution, exactly, on neighbours; what is read, and how it is cut off."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from bench.bench_cells import VIEW, Cells
from support.chances import ALARM, p_value
from support.three_axes import AXES, MARGINALS, SIZES, Database, Rows, Tap, certificate, chances, drawn_by, some_rows

from dpsql.trusted.measurements.block_sums import Axis
from dpsql.trusted.measurements.farthest_count import FarthestCount
from dpsql.trusted.measurements.reading.request import Last
from dpsql.trusted.noise.choice import BLOCK_ROUNDING, ONE_STEP


def cells() -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    for places in MARGINALS:
        for cell in itertools.product(*(range(SIZES[place]) for place in places)):
            yield places, cell


def request_of(draw: random.Random, **given: Any) -> FarthestCount:
    sizes = [math.prod(SIZES[place] for place in places) for places in MARGINALS]
    made: dict[str, Any] = {"expected": tuple(tuple(draw.randint(-1, 9) for _ in range(size)) for size in sizes),
                            "scale": draw.choice([0.7, 2.0, 5.0]), "multiplier": draw.choice([1, 2, 5])}
    return FarthestCount(view=VIEW, axes=AXES, marginals=MARGINALS, **{**made, **given})


def scores(request: FarthestCount, rows: Rows) -> list[float]:
    """By the definition, row by row: first all of the sign +, then all of the sign -."""
    flat = [number for numbers in request.expected for number in numbers]
    above = [(request.multiplier * sum(tuple(row[place] for place in places) == cell for row in rows) - number) / request.scale
             for (places, cell), number in zip(cells(), flat, strict=True)]
    return above + [-score for score in above]


def release(request: FarthestCount, context: Any) -> Any:
    return request.release(context, None)  # type: ignore[arg-type]


def test_scores_are_those_of_the_definition() -> None:
    draw = random.Random(1)
    for _ in range(100):
        request, rows = request_of(draw), some_rows(draw)
        wanted = scores(request, rows)
        cap = math.ceil(request.scale * (math.log(len(wanted)) + 45)) / request.scale
        assert drawn_by(request, rows) == pytest.approx([max(score - max(wanted), -cap) for score in wanted])


@pytest.mark.parametrize("moved", [1, 3])
def test_neighbours_are_told_apart_by_no_more_than_is_charged(moved: int) -> None:
    """Of every outcome the exact chance, where an entity of so many rows is there and where it is not; and nearly as much is reached."""
    draw, most, most_rho = random.Random(2), 0.0, 0.0
    for _ in range(300):
        request, rows = request_of(draw), some_rows(draw)
        new = tuple(draw.randrange(size) for size in SIZES)
        more = (*rows, *(new for _ in range(moved)))
        cost = request.cost(certificate(moved))
        one, two = (chances(drawn_by(request, each)).values() for each in (rows, more))
        losses = [math.log(a / b) for a, b in zip(one, two, strict=True)]
        assert cost.epsilon is not None and max(map(abs, losses)) <= float(cost.epsilon) * (1 + 1e-9)
        for order in (1.0001, 2.0, 8.0):  # Renyi divergences, both ways
            for p, q in ((one, two), (two, one)):
                divergence = math.log(sum(a**order * b**(1 - order) for a, b in zip(p, q, strict=True))) / (order - 1)
                assert divergence <= order * float(cost.rho) * (1 + 1e-6)
                most_rho = max(most_rho, divergence / order / float(cost.rho))
        most = max(most, max(map(abs, losses)) / float(cost.epsilon))
    assert most > 0.8 and most_rho > 0.3


def test_draws_are_paid_one_by_one() -> None:
    request = request_of(random.Random(3), scale=7.0, multiplier=4, draws=9)
    each = Fraction(2 * 4 * 5, 7) + BLOCK_ROUNDING
    assert request.cost(certificate(5)).epsilon == 9 * each and request.cost(certificate(5)).rho == 9 * each**2 / 8


def test_cells_and_signs_are_drawn_by_their_scores(effort: float) -> None:
    request, rows = request_of(random.Random(4), scale=5.0, draws=1000), ((0, 0, 0), (2, 1, 1), (2, 1, 0))
    context = Database(rows)
    places = [(MARGINALS.index(places), sign) for sign in (1, -1) for places, _ in cells()]
    numbers = [cell for _ in (1, -1) for places in MARGINALS for cell in range(math.prod(SIZES[place] for place in places))]
    law = dict(zip([(marginal, cell, sign) for (marginal, sign), cell in zip(places, numbers, strict=True)], chances(scores(request, rows)).values(), strict=True))
    found = [(each.marginal, each.cell, each.sign) for _ in range(round(3 * effort)) for each in release(request, context).cells]
    assert p_value(found, law) >= ALARM and context.reads == 1


def test_scores_that_are_far_apart_are_cut_off_and_move_no_more_than_others() -> None:
    request = request_of(random.Random(5), expected=((0,) * 3, (2**51,) * 2, (0,) * 6, (2**51 + 20, *(0,) * 5), (0,)), scale=1.0, multiplier=1)
    before, after = (drawn_by(request, rows) for rows in ((), ((0, 1, 0),)))
    cap = math.ceil(math.log(36) + 45)
    assert sorted(set(before)) == [-cap, -20, 0]
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) <= 2


def test_scores_beyond_words_stay_exact() -> None:
    """They are cut off at the largest number that floats hold: here one scale below the best."""
    rows = ((0, 0, 0),) * 2000
    request = request_of(random.Random(6), multiplier=2**52, expected=((0,) * 3, (2**52, 0), (0,) * 6, (0,) * 6, (2**52,)), scale=2.0**52)
    wanted = scores(request, rows)
    assert drawn_by(request, rows) == [max(score - max(wanted), -1) for score in wanted]


def test_a_table_without_rows_and_values_that_are_not_listed() -> None:
    request = FarthestCount(view=VIEW, axes=(AXES[0], Axis(column="a1", values=(1,)), AXES[2]), marginals=((0,), ()), expected=((0, 3, 0), (1,)),
                            scale=1.0)
    best, = release(request, Database((), Tap())).cells
    assert (best.marginal, best.cell, best.sign) == (0, 1, -1)
    best, = release(request, Database(((0, 0, 0),) * 9 + ((1, 1, 0),) * 5, Tap())).cells
    assert (best.marginal, best.cell, best.sign) == (1, 0, 1), "rows with the value that is not listed are in no cell"


def test_a_choice_among_hundreds_of_thousands_of_cells_is_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 100_000
    axes = (Axis(column="a0", values=tuple(range(size))),)
    counts = np.zeros(size, dtype=np.int64)
    counts[777] = 500
    context = Cells(counts)
    context.last = Last()  # type: ignore[attr-defined]
    request = FarthestCount(view=VIEW, axes=axes, marginals=((0,),), expected=((0,) * size,), scale=20.0, draws=20)
    assert 2 * size > ONE_STEP
    start = time.process_time()
    found = release(request, context)
    assert time.process_time() - start < 2
    assert [(each.cell, each.sign) for each in found.cells].count((777, 1)) >= 19
