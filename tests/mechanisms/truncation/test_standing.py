"""Which noisy numbers stand out: as seldom by chance as it says, and the highest is found."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpsql.mechanisms.significance import ALARM, CAUTION, FIRST, SURE, exceeded, highest
from dpsql.trusted.noise.integer import DiscreteGaussian, DiscreteLaplace

NOISE = DiscreteLaplace(scale=2.0)


def test_the_highest_is_found() -> None:
    sure, climbed = 2 * math.log(0.5 / SURE), [2 * math.log(0.5 / (ALARM * 2 ** (-CAUTION * d))) for d in range(5)]
    sums = np.zeros(51)
    assert highest(sums, NOISE, usual=20, steps=1) == -1
    sums[5] = sure + 1e-9
    assert highest(sums, NOISE, usual=20, steps=1) == 5
    sums[7] = climbed[1] + 1e-9
    assert highest(sums, NOISE, usual=20, steps=1) == 7
    sums[7] = climbed[1] - 1e-9
    assert highest(sums, NOISE, usual=20, steps=1) == 5
    sums[6], sums[7] = climbed[0] + 1e-9, climbed[0] + 1e-9  # one that stands out brings the next one nearer
    assert highest(sums, NOISE, usual=20, steps=1) == 7
    assert highest(np.concatenate((sums[:6], [0.0, climbed[1] - 1e-9])), NOISE, usual=20, steps=2) == 7  # half an octave each


def test_far_above_a_row_more_is_needed() -> None:
    for place, chance in ((20, SURE), (22, FIRST * 2 ** (-2 * CAUTION)), (30, FIRST * 2 ** (-10 * CAUTION))):
        for more in (-1e-9, 1e-9):
            sums = np.zeros(51)
            sums[place] = 2 * math.log(0.5 / chance) + more
            assert highest(sums, NOISE, usual=20, steps=1) == (place if more > 0 else -1)


@pytest.mark.parametrize("noise", [DiscreteLaplace(scale=3.0), DiscreteGaussian(sigma=3.0)])
def test_noise_exceeds_what_it_says_as_often_as_it_says(noise: Any) -> None:
    draw, chances = np.random.default_rng(1), np.array([0.3, 0.05, 0.01])
    drawn = draw.laplace(0, 3.0, 400_000) if isinstance(noise, DiscreteLaplace) else draw.normal(0, 3.0, 400_000)
    for limit, chance in zip(exceeded(noise, chances), chances, strict=True):
        assert abs((drawn > limit).mean() - chance) < 5 * math.sqrt(chance / 400_000)


def test_noise_alone_seldom_errs_by_much(effort: float) -> None:
    """Of a ladder of a hundred places without anything in it, the size of what stands out is small on average."""
    draw, sizes = np.random.default_rng(2), []
    for _ in range(int(20_000 * effort)):
        top = highest(draw.laplace(0, 2.0, 100), NOISE, usual=0, steps=2)
        sizes.append(2 ** (top / 2) if top >= 0 else 0.0)
    assert np.mean(sizes) < 1 and np.mean(np.array(sizes) > 0) < 0.05
