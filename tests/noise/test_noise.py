"""The noise of every answer, against its exact distribution."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support.chances import ALARM, p_value

from dpsql.trusted.noise import source
from dpsql.trusted.noise.source import Secure

NOISE = Secure()


def discrete_laplace(scale: float, centre: int = 0) -> dict[int, float]:
    q = math.exp(-1 / scale)
    return {centre + z: (1 - q) / (1 + q) * q ** abs(z) for z in range(-round(40 * scale) - 2, round(40 * scale) + 3)}


def discrete_gaussian(sigma: float, centre: int = 0) -> dict[int, float]:
    weights = {z: math.exp(-z * z / (2 * sigma**2)) for z in range(-round(12 * sigma) - 2, round(12 * sigma) + 3)}
    total = sum(weights.values())
    return {centre + z: weight / total for z, weight in weights.items()}


def discrete_student(scale: float, centre: int = 0) -> dict[int, float]:
    """1 / (1 + (z / s)^2)^2 over its sum, which is s^4 times the derivative of pi coth(pi s) / s by s^2, with a minus."""
    x = math.pi * scale
    total = x / 2 / math.tanh(x) + (x * x / 2 / math.sinh(x) ** 2 if x < 300 else 0)
    return {centre + z: 1 / (1 + (z / scale) ** 2) ** 2 / total for z in range(-round(40 * scale) - 9, round(40 * scale) + 10)}


def few_at_a_time(add: Callable[[Sequence[int], float], list[int]]) -> Callable[[Sequence[int], float], list[int]]:
    """By the sampler for few values."""
    return lambda values, scale: [noisy for few in batched(values, source.MANY - 1) for noisy in add(few, scale)]


def batched(values: Sequence[int], size: int) -> list[Sequence[int]]:
    return [values[at:at + size] for at in range(0, len(values), size)]


KINDS: list[tuple[Callable[[Sequence[int], float], list[int]], Callable[..., dict[int, float]]]] = [
    (NOISE.laplace, discrete_laplace), (NOISE.gaussian, discrete_gaussian), (NOISE.student, discrete_student),
    (few_at_a_time(NOISE.laplace), discrete_laplace), (few_at_a_time(NOISE.gaussian), discrete_gaussian)]


@pytest.mark.parametrize("add, mass", KINDS)
@pytest.mark.parametrize("scale", [0.2, 0.7, 1.0, 2.5, 17.3, 100.0])
def test_noise_has_the_distribution_it_is_charged_for(
        add: Callable[[Sequence[int], float], list[int]], mass: Callable[..., dict[int, float]], scale: float,
        effort: float) -> None:
    draws = add([-3] * round(20_000 * effort), scale)
    assert p_value(draws, mass(scale, -3)) > ALARM
    if scale > 0.5 and effort >= 1:
        assert p_value(draws, mass(scale * 0.8, -3)) < ALARM, "the test would notice noise that is a fifth off"


@pytest.mark.parametrize("add, mass", KINDS)
def test_large_noise_too(add: Callable[[Sequence[int], float], list[int]], mass: Callable[..., dict[int, float]],
                         effort: float) -> None:
    """At a scale of 10^12, in cells of a tenth of the scale."""
    grain, scale = 10**11, 10.0**12
    draws = [value // grain for value in add([0] * round(20_000 * effort), scale)]
    density = {  # cell i holds grain * i <= z < grain * (i + 1)
        discrete_laplace: lambda x: 0.5 * math.exp(x) if x < 0 else 1 - 0.5 * math.exp(-x),
        discrete_gaussian: lambda x: 0.5 * math.erfc(-x / math.sqrt(2)),
        discrete_student: lambda x: 0.5 + (math.atan(x) + x / (1 + x * x)) / math.pi}[mass]
    assert p_value(draws, {i: density((i + 1) / 10) - density(i / 10) for i in range(-150, 150)}) > ALARM


@pytest.mark.parametrize("add, mass", KINDS)
def test_each_value_has_noise_of_its_own(add: Callable[[Sequence[int], float], list[int]],
                                         mass: Callable[..., dict[int, float]], effort: float) -> None:
    one = {z: chance for z, chance in mass(0.8).items() if abs(z) <= 2}
    pairs = [(a, b) for a, b in zip(*[iter(add([0, 0] * round(10_000 * effort), 0.8))] * 2, strict=True)]
    numbers = {pair: i for i, pair in enumerate(itertools.product(one, one))}
    joint = {i: one[a] * one[b] for (a, b), i in numbers.items()}
    assert p_value([numbers.get(pair, -1) for pair in pairs], joint) > ALARM


@pytest.mark.parametrize("add, mass", KINDS)
def test_values_are_moved_as_integers_and_held_within_64_bits(add: Callable[[Sequence[int], float], list[int]],
                                                              mass: Callable[..., dict[int, float]]) -> None:
    assert add([], 1.0) == []
    assert add([7, -7, 2**62, -(2**62)], 1e-9) == [7, -7, 2**62, -(2**62)]
    for _ in range(50):
        high, low = add([2**63 - 1, -(2**63)], 100.0)
        assert 2**63 - 10**7 < high <= 2**63 - 1 and -(2**63) <= low < -(2**63) + 10**7
        assert isinstance(high, int)


@pytest.mark.parametrize("scale", [-1.0, math.inf, math.nan])
def test_impossible_scales_are_refused(scale: float) -> None:
    for draw in (NOISE.laplace, NOISE.gaussian, NOISE.student, NOISE.exponential, NOISE.flip):
        with pytest.raises(Exception, match="scale"):
            draw([1, 2], scale)


@pytest.mark.parametrize("scores, scale", [
    ([0.0, -1.0, -2.0], 1.0), ([-4.5, 0.25, 0.25, -1.0], 1.7), ([-1e6, -1e6 - 3.0], 2.0), ([3.0], 1.0), ([0.0] * 5, 0.1)])
def test_exponential_draws_by_weight(scores: list[float], scale: float, effort: float) -> None:
    draws = [NOISE.exponential(scores, scale) for _ in range(round(5000 * effort))]
    weights = [math.exp((score - max(scores)) / scale) for score in scores]
    assert p_value(draws, {i: weight / sum(weights) for i, weight in enumerate(weights)}) > ALARM


def permute_and_flip(scores: Sequence[int], scale: float) -> list[float]:
    """The distribution by going through every order: the first candidate whose coin falls on heads."""
    accept = [math.exp((score - max(scores)) / scale) for score in scores]
    chances = [0.0] * len(scores)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        still = 1 / len(orders)
        for i in order:
            chances[i] += still * accept[i]
            still *= 1 - accept[i]
    return chances


@pytest.mark.parametrize("scores, scale", [
    ([0, -1, -2], 1.0), ([-5, 0, 0, -1, -3], 2.3), ([10, 4], 4.0), ([7], 1.0), ([2] * 4, 0.5)])
def test_permute_and_flip_draws_by_its_closed_form(scores: list[int], scale: float, effort: float) -> None:
    chances = permute_and_flip(scores, scale)
    assert sum(chances) == pytest.approx(1)
    draws = [NOISE.flip(scores, scale) for _ in range(round(5000 * effort))]
    assert p_value(draws, dict(enumerate(chances))) > ALARM


def test_permute_and_flip_is_not_the_exponential_mechanism() -> None:
    scores, weights = [0, -1, -2], [math.exp(-i) for i in range(3)]
    draws = [NOISE.flip(scores, 1.0) for _ in range(8000)]
    assert p_value(draws, {i: weight / sum(weights) for i, weight in enumerate(weights)}) < ALARM


@pytest.mark.parametrize("end", [1, 2, 7, 30])
def test_below_is_uniform(end: int, effort: float) -> None:
    assert p_value([NOISE.below(end) for _ in range(round(20_000 * effort))], dict.fromkeys(range(end), 1 / end)) > ALARM


def test_below_is_uniform_over_long_ranges(effort: float) -> None:
    end = 3 * 2**40
    draws = [NOISE.below(end) for _ in range(round(20_000 * effort))]
    assert all(0 <= draw < end for draw in draws)
    assert p_value([draw * 9 // end for draw in draws], dict.fromkeys(range(9), 1 / 9)) > ALARM
    assert p_value([draw % 8 for draw in draws], dict.fromkeys(range(8), 1 / 8)) > ALARM


@pytest.mark.parametrize("scale, reach", [(1.0, 5), (0.3, 2), (7.0, 20), (3.0, 3), (50.0, 4), (1e6, 2), (2.0, 0)])
def test_counts_above_a_reach_have_noise_that_stays_within_it(scale: float, reach: int, effort: float) -> None:
    """Both ways of drawing; counts from which some, all and none of the noise is told."""
    weights = {z: math.exp(-abs(z) / scale) for z in range(-reach, reach + 1)}
    for count in (0, 1, reach, reach + 1, 3 * reach + 1):
        law = {z: weight / sum(weights.values()) for z, weight in weights.items()}
        told = NOISE.above([count] * round(20_000 * effort), scale, reach)
        noise = [-reach - 1 if number is None else number - count for number in told]
        silent = sum(chance for z, chance in law.items() if count + z <= reach)
        left = {z: chance for z, chance in law.items() if count + z > reach}
        assert p_value(noise, left | ({-reach - 1: silent} if silent else {})) > ALARM


def test_no_count_is_told_that_is_none_of_anybody() -> None:
    assert NOISE.above([0] * 10_000, 1.0, 1) == [None] * 10_000
    assert NOISE.above([], 1.0, 1) == []


FORK = """
import os, sys
from dpsql.trusted.noise.source import Secure
noise = Secure()
draw = lambda: (noise.laplace([0] * 8, 1e6), noise.gaussian([0] * 8, 1e6), noise.laplace([0] * 300, 1e6), noise.gaussian([0] * 300, 1e6),
                noise.student([0] * 8, 1e6), [noise.below(2**60) for _ in range(8)],
                [noise.exponential([0.0] * 999, 1.0) for _ in range(8)], [noise.flip([0] * 999, 1.0) for _ in range(8)])
draw()
for _ in range(2):
    if os.fork() == 0:
        print(*draw(), sep=";", flush=True)
        os._exit(0)
    os.wait()
print(*draw(), sep=";")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks")
def test_forked_processes_draw_differently() -> None:
    root = Path(source.__file__).parents[3]
    found = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True, timeout=600,
                           env=os.environ | {"PYTHONPATH": str(root)}).stdout.strip().split("\n")
    assert len(found) == 3
    for draws in zip(*(line.split(";") for line in found), strict=True):
        assert len(set(draws)) == 3
