"""Which noisy numbers stand out: the thresholds are passed as seldom as they say, and the highest is found."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpsql.mechanisms.truncation.standing import Rule, highest
from dpsql.requests import DiscreteGaussian, DiscreteLaplace

RULE = Rule(sure=1e-6, alarm=0.02, caution=1.5)
MOST = 51


def test_numbers_up_to_the_highest_that_stands_out_are_found() -> None:
    limits = RULE.limits(DiscreteLaplace(scale=2.0), MOST)
    assert limits[0] == pytest.approx(2 * math.log(0.5e6)) and limits[1] == pytest.approx(2 * math.log(0.5 / 0.02))
    assert limits[3] - limits[2] == pytest.approx(2 * 1.5 * math.log(2))
    sums = np.zeros(MOST)
    assert highest(sums, limits) == -1
    sums[5] = limits[0] + 1
    assert highest(sums, limits) == 5
    sums[7] = limits[2] + 1e-9
    assert highest(sums, limits) == 7
    sums[7] = limits[2] - 1e-9
    assert highest(sums, limits) == 5
    sums[6], sums[7] = limits[1] + 1e-9, limits[1] + 1e-9  # one that stands out brings the next one nearer
    assert highest(sums, limits) == 7


@pytest.mark.parametrize("noise", [DiscreteLaplace(scale=3.0), DiscreteGaussian(sigma=3.0)])
def test_limits_are_passed_as_seldom_as_they_say(noise: Any) -> None:
    draw = np.random.default_rng(1)
    drawn = draw.laplace(0, 3.0, 400_000) if isinstance(noise, DiscreteLaplace) else draw.normal(0, 3.0, 400_000)
    for d, limit in enumerate(RULE.limits(noise, MOST)[1:5]):
        chance = RULE.alarm * 2 ** (-RULE.caution * d)
        assert abs((drawn > limit).mean() - chance) < 5 * math.sqrt(chance / 400_000)
