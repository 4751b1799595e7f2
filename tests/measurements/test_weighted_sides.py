"""Choices by ranks whose two sides weigh differently: the exact distribution moves by no more than is charged."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from dpsql.trusted.measurements.reading.sorted_values import Ranked
from dpsql.trusted.measurements.select import Segment, Target, cap_of, excess, intervals, score_change

HIGH = 7


def log_chances(values: list[int], segment: Segment, scale: float) -> list[float]:
    """The logarithm of the probability of each grid value, from the pieces that are drawn."""
    found, counts = np.unique(np.array(values, dtype=np.int64), return_counts=True)
    starts, widths, far = intervals(Ranked(found, counts), segment, cap_of(segment, scale))
    distance, _ = excess(far, segment, scale)
    scores = np.repeat(-distance / scale, widths)
    assert len(scores) == HIGH + 1 and (np.diff(starts) > 0).all()
    return list(scores - math.log(np.exp(scores).sum()))


@pytest.mark.parametrize("fraction", [Fraction(0), Fraction(1, 2), Fraction(9, 10), Fraction(1)], ids=str)
def test_rows_that_come_and_go_move_a_weighted_choice_by_what_is_charged(fraction: Fraction) -> None:
    draw, most = random.Random(3), 0.0
    for _ in range(300):
        segment = Segment(low=0, high=HIGH, target=Target(fraction=fraction, offset=draw.choice([0, -1, 3])),
                          below=draw.choice([1, 2, 7]), above=draw.choice([1, 3, 7]))
        scale, rows = draw.choice([1.0, 20.0]), draw.choice([1, 3])
        here = [draw.randint(0, HIGH) for _ in range(draw.choice([0, 1, 5, 40]))]
        there = list(here)
        for _ in range(rows):
            if there and draw.random() < 0.4:
                there.pop()
            else:
                there.append(draw.randint(0, HIGH))
        charged = rows * score_change(segment.target, segment.below, segment.above) / scale
        moved = max(abs(a - b) for a, b in zip(log_chances(here, segment, scale), log_chances(there, segment, scale), strict=True))
        assert moved <= charged + 1e-9
        most = max(most, moved / charged)
    assert most > 0.4  # the test can fail
