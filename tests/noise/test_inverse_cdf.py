"""The sampler for many values: its tables against decimals of 200 digits, its ties one by one, and its draws against OpenDP's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.chances import ALARM, p_value

from dpsql.trusted.noise import inverse_cdf, source
from dpsql.trusted.noise.inverse_cdf import NoiseLaw, block, bounds, coin, exponential

SCALES = [0.05, 0.3, 1.0, 2.5, 31.9, 32.0, 33.3, 100.0, 1e4, 123456.789, 2.0**40, 2.0**50]
KINDS = "laplace", "gaussian"
DIGITS = 200
SURE = 1e-9  # the chance that draws of equal laws are found to differ

Exact = Iterator[None]


def law_of(kind: str, scale: float) -> NoiseLaw:
    shift = max(0, math.floor(math.log2(scale)) - 4)
    return NoiseLaw(1 / Fraction(scale), Fraction(0), shift) if kind == "laplace" else NoiseLaw(Fraction(0), 1 / (2 * Fraction(scale) ** 2), shift)


def decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


def weight(law: NoiseLaw, size: int) -> Decimal:
    """exp(-f(size)), by the library of decimals."""
    return (-decimal(law.linear * size + law.square * size**2)).exp()


@cache
def chances(law: NoiseLaw) -> tuple[Decimal, ...]:
    """P(block <= i), to 190 digits: the blocks that are left out weigh less than 10^-195 in all."""
    with localcontext(prec=DIGITS):
        weights, size = [Decimal(1)], 0
        while weights[-1] > Decimal(10) ** -199:
            size += 2**law.shift
            weights.append(weight(law, size))
        total, sums = sum(weights), [Decimal(0)]
        for part in weights:
            sums.append(sums[-1] + part)
        return tuple(part / total for part in sums[1:])


def faults_of(law: NoiseLaw, lower: Iterable[int], upper: Iterable[int], bits: int) -> list[int]:
    """The places whose bounds do not enclose the probability, or are not close."""
    with localcontext(prec=DIGITS):
        return [i for i, (low, high, chance) in enumerate(zip(lower, upper, chances(law), strict=False))
                if not (low <= chance * 2**bits <= high and high - low <= 4)]


# -- the table


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("bits", [64, 192])
def test_every_cumulative_probability_lies_between_its_bounds(kind: str, scale: float, bits: int) -> None:
    law = law_of(kind, scale)
    lower, upper = bounds(law, bits)
    assert faults_of(law, lower, upper, bits) == []
    assert len(lower) == len(upper) <= len(chances(law)) and 2**bits - lower[-1] < 2**10
    assert all(low <= high for found in (lower, upper) for low, high in pairwise(found))


@pytest.mark.parametrize("scale", [17.3, 31.9])
def test_bounds_of_few_more_digits_than_are_needed_enclose_the_probabilities(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 64 further bits, an error of one in the last place of a weight is never seen; with 8 it is."""
    monkeypatch.setattr(inverse_cdf, "WORD", 8)
    for law in (law_of(kind, scale) for kind in KINDS):
        for bits in (40, 48, 56):
            with localcontext(prec=DIGITS):
                for low, high, chance in zip(*bounds(law, bits), chances(law), strict=False):
                    assert low <= chance * 2**bits <= high


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", SCALES)
def test_blocks_by_arrays_are_the_blocks_of_the_decimals(kind: str, scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Around every bound of the table, and between: what arrays decide is right, and what they leave open is asked for."""
    law = law_of(kind, scale)
    lower, upper = bounds(law, 64)
    given = sorted({min(max(number + off, 0), 2**64 - 1) for ends in (lower, upper) for number in ends for off in (-2, -1, 0, 1, 2)}
                   | {0, 1, 2**64 - 2, 2**64 - 1})
    asked = list[int]()
    monkeypatch.setattr(inverse_cdf, "words", lambda count: np.array(given, dtype=np.uint64))
    monkeypatch.setattr(inverse_cdf, "block", lambda law, begun: asked.append(begun) or -1)
    found = inverse_cdf._blocks(law, len(given))
    with localcontext(prec=DIGITS):
        for begun, h in zip(given, found.tolist(), strict=True):
            if h == -1:
                continue
            before = chances(law)[h - 1] if h else 0
            assert before <= Decimal(begun) / 2**64 and Decimal(begun + 1) / 2**64 <= chances(law)[h]
    assert len(asked) <= 4 * len(lower) + 10, "hardly any number is left open"


def test_a_table_that_is_off_by_one_is_found(monkeypatch: pytest.MonkeyPatch, effort: float) -> None:
    law = law_of("laplace", 2.5)
    lower, upper = bounds(law, 64)
    assert faults_of(law, lower[1:], upper[1:], 64) and faults_of(law, [0, *lower], [0, *upper], 64)
    assert faults_of(law, [low + 5 for low in lower], [high + 5 for high in upper], 64), "five in 2^64"
    for wrong in ((lower[1:], upper[1:]), ([0, *lower], [1, *upper])):
        inverse_cdf._table.cache_clear()
        with monkeypatch.context() as patched:
            patched.setattr(inverse_cdf, "bounds", lambda law, bits, wrong=wrong: wrong)
            draws = inverse_cdf.laplace(np.zeros(10_000, dtype=np.int64), 2.5)
        inverse_cdf._table.cache_clear()
        assert p_value(draws.tolist(), mass("laplace", 2.5)) < ALARM


# -- ties


def feed(monkeypatch: pytest.MonkeyPatch, words: Iterable[int]) -> None:
    """The words that are drawn from here on; an error when there are no more."""
    left = iter(words)
    monkeypatch.setattr(inverse_cdf, "words", lambda count: np.array([next(left) for _ in range(count)], dtype=np.uint64))


def words_of(number: Decimal, count: int) -> list[int]:
    """The first bits of a number in [0, 1), as words."""
    whole = int((number * 2 ** (64 * count)).to_integral_value(rounding=ROUND_FLOOR))
    return [whole >> 64 * (count - 1 - i) & (2**64 - 1) for i in range(count)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", SCALES)
def test_ties_are_decided_by_further_bits(kind: str, scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """U agrees with a probability in 64 bits, or in 250, and is then a little less or more."""
    law = law_of(kind, scale)
    with localcontext(prec=DIGITS):
        for i in {0, 1, len(bounds(law, 64)[0]) // 2, len(bounds(law, 64)[0]) - 2} & {*range(len(bounds(law, 64)[0]))}:
            for near in (70, 130, 250):
                for off, expected in ((-Decimal(2) ** -near, i), (Decimal(2) ** -near, i + 1)):
                    u = chances(law)[i] + off
                    if not (chances(law)[i - 1] if i else 0) <= u < chances(law)[i + 1]:
                        continue
                    first, *others = words_of(u, 8)
                    feed(monkeypatch, others)
                    assert block(law, first) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", SCALES)
def test_blocks_beyond_the_table(kind: str, scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    law = law_of(kind, scale)
    for further in (1, 2):
        at = len(bounds(law, 64 * further)[0]) + 3
        if at < len(chances(law)) - 1:
            with localcontext(prec=DIGITS):
                u = (chances(law)[at - 1] + chances(law)[at]) / 2
                if u < 1 - Decimal(10) ** -150:
                    first, *others = words_of(u, 12)
                    feed(monkeypatch, others)
                    assert block(law, first) == at and first >= 2**64 - 2**10


@pytest.mark.parametrize("exponent", [Fraction(1, 3), Fraction(1, 2**70), Fraction(7, 100), Fraction(5, 2), Fraction(0)])
def test_coins_are_decided_by_further_bits(exponent: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    with localcontext(prec=DIGITS):
        tails = 1 - (-decimal(exponent)).exp()
        for near in (65, 130, 250):
            for off, expected in ((-Decimal(2) ** -near, False), (Decimal(2) ** -near, True)):
                if 0 <= tails + off < 1:
                    first, *others = words_of(tails + off, 8)
                    feed(monkeypatch, others)
                    assert coin(exponent, first) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_proposal_whose_coin_shows_tails_is_not_accepted(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without coins, all numbers of a block would be as probable as its first, and at its end the next one far less."""
    law = law_of(kind, 1000.0)
    for heads, least, most in ((False, 0, 0), (True, 4900, 5000)):
        monkeypatch.setattr(inverse_cdf, "_coins", lambda law, first, place, heads=heads: np.full(len(first), heads))
        assert least <= len(inverse_cdf._accepted(law, 5000)) <= most


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [33.0, 1e6, 2.0**50])
def test_what_floats_decide_of_coins_is_right(kind: str, scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right up to where they decide: at distances from the limit of every order."""
    law, rng = law_of(kind, scale), np.random.default_rng(5)
    first, place, begun = list[int](), list[int](), list[int]()
    with localcontext(prec=60):
        for trial in range(200):  # the last of them have coins that hardly ever show tails
            h, step = int(rng.integers(0, 300)) << law.shift, int(rng.integers(0, 2**law.shift))
            h, step = (h, step) if trial < 150 else (0, min(step, 1 + step % 50))
            tails = 1 - weight(law, h + step) / weight(law, h)
            for off in (0, 1, 2**8, 2**20, 2**24, 2**30, 2**40, 2**50, 2**60):
                for sign in (-1, 1):
                    number = words_of(tails, 1)[0] + sign * off
                    if 0 <= number < 2**64:
                        first, place, begun = [*first, h], [*place, step], [*begun, number]
    asked = list[Fraction]()
    monkeypatch.setattr(inverse_cdf, "words", lambda count: np.array(begun, dtype=np.uint64))
    monkeypatch.setattr(inverse_cdf, "coin", lambda exponent, begun: asked.append(exponent) or False)
    heads = inverse_cdf._coins(law, np.array(first), np.array(place))
    with localcontext(prec=60):
        wrong = 0
        for h, step, number, head in zip(first, place, begun, heads.tolist(), strict=True):
            tails = (1 - weight(law, h + step) / weight(law, h)) * 2**64
            exponent = law.linear * step + law.square * step * (2 * h + step)
            wrong += (head and number < tails) or (not head and number + 1 > tails and exponent not in asked)
    assert wrong == 0 and len(begun) > 1000


@pytest.mark.parametrize("exponent", [Fraction(0), Fraction(1), Fraction(1, 2**60), Fraction(9, 7), Fraction(40), Fraction(3 * 10**6, 7),
                                      Fraction(1e300), Fraction(0.1), Fraction(1, 2048)])
@pytest.mark.parametrize("bits", [64, 128, 512])
def test_the_exponential_lies_between_its_bounds(exponent: Fraction, bits: int) -> None:
    low, high = exponential(exponent, bits)
    with localcontext(prec=DIGITS, Emin=-10**17, Emax=10**17):
        value = (-decimal(exponent)).exp() * 2**bits
        assert low <= value <= high <= 2**bits and high - low <= 2


# -- draws


def mass(kind: str, scale: float) -> dict[int, float]:
    if kind == "laplace":
        q = math.exp(-1 / scale)
        return {z: (1 - q) / (1 + q) * q ** abs(z) for z in range(-round(30 * scale) - 3, round(30 * scale) + 4)}
    weights = {z: math.exp(-z * z / (2 * scale**2)) for z in range(-round(9 * scale) - 3, round(9 * scale) + 4)}
    total = sum(weights.values())
    return {z: one / total for z, one in weights.items()}


def many(kind: str, count: int, scale: float) -> NDArray[np.int64]:
    draw: Callable[[NDArray[np.int64], float], NDArray[np.int64]] = getattr(inverse_cdf, kind)
    return draw(np.zeros(count, dtype=np.int64), scale)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.05, 0.4, 1.0, 7.7, 31.9, 32.0, 33.3, 64.0, 200.0])
def test_draws_have_the_law(kind: str, scale: float, effort: float) -> None:
    draws = many(kind, round(400_000 * effort), scale).tolist()
    assert p_value(draws, mass(kind, scale)) > ALARM
    if scale >= 1:
        assert p_value(draws, mass(kind, scale * 0.9)) < ALARM, "the test would notice noise that is a tenth off"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.7, 20.0, 50.0, 1000.0, 2.0**40, 2.0**50])
def test_draws_are_like_those_of_opendp(kind: str, scale: float, effort: float) -> None:
    """The distance of two empirical distributions, by the bound of Dvoretzky, Kiefer, Wolfowitz and Massart for each."""
    ours = np.sort(many(kind, round(400_000 * effort), scale))
    few = [0] * (source.MANY - 1)
    theirs = np.sort(np.array([getattr(source, kind)(few, scale) for _ in range(round(160 * effort))]).reshape(-1))
    ends = np.concatenate((ours, theirs))
    far = np.abs(np.searchsorted(ours, ends, side="right") / len(ours) - np.searchsorted(theirs, ends, side="right") / len(theirs)).max()
    assert far < sum(math.sqrt(math.log(4 / SURE) / (2 * len(draws))) for draws in (ours, theirs))


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_digits_of_large_noise_are_uniform(kind: str, effort: float) -> None:
    draws = many(kind, round(40_000 * effort), 2.0**40)
    for digit in (0, 13, 35):
        assert p_value(((draws >> digit) % 8).tolist(), dict.fromkeys(range(8), 1 / 8)) > ALARM


@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_in_an_array_have_noise_of_their_own(kind: str, effort: float) -> None:
    draws = np.sign(many(kind, round(80_000 * effort), 40.0)) + 1
    chance = {-1: 0.0, 0: 0.0, 1: 0.0}
    for z, one in mass(kind, 40.0).items():
        chance[(z > 0) - (z < 0)] += one
    joint = {3 * i + j: chance[i - 1] * chance[j - 1] for i in range(3) for j in range(3)}
    for step in (1, 2, 7):
        pairs = 3 * draws[:-step:2 * step] + draws[step::2 * step][:len(draws[:-step:2 * step])]
        assert p_value(pairs.tolist(), joint) > ALARM


@pytest.mark.parametrize("kind", KINDS)
def test_sums_saturate(kind: str) -> None:
    ends = np.array([2**63 - 1, -(2**63), 2**63 - 500, -(2**63) + 500, 0] * 2000)
    noisy = getattr(inverse_cdf, kind)(ends, 300.0)
    for end, sign in ((2**63 - 1, 1), (-(2**63), -1)):
        found = noisy[ends == end]
        assert (np.sign(found) == sign).all() and 0.4 < (found == end).mean() < 0.6
    assert (noisy[ends == 2**63 - 500] == 2**63 - 1).any() and (noisy[ends == -(2**63) + 500] == -(2**63)).any()
    assert np.abs(noisy[ends == 0]).max() < 10**6
    assert len(getattr(inverse_cdf, kind)(ends[:0], 300.0)) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_noise_beyond_64_bits_is_added_all_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never seen, as it has a chance of exp(-2^13): a block of which a hundred times the scale of one fits into 64 bits."""
    monkeypatch.setattr(inverse_cdf, "block", lambda law, begun: 2**18 + 5 if begun == 2**64 - 1 else 1)
    monkeypatch.setattr(inverse_cdf, "_coins", lambda law, first, place: np.ones(len(first), dtype=np.bool_))
    law = law_of(kind, 2.0**50)
    drawn = iter([np.array([2**64 - 1, 5, 2**64 - 1, 2**64 - 2], dtype=np.uint64), np.array([0, 0, 1, 1], dtype=np.uint64)])
    monkeypatch.setattr(inverse_cdf, "words", lambda count: next(drawn))
    noise = inverse_cdf._accepted(law, 4).tolist()
    assert noise == [(2**18 + 5) << 46, 0, -((2**18 + 5) << 46), -(1 << 46)] and noise[0] > 2**63
    monkeypatch.setattr(inverse_cdf, "drawn", lambda law, count: np.array(noise, dtype=object))
    values = np.array([-(2**63), 7, 2**63 - 1, -3])
    assert inverse_cdf._added(values, law).tolist() == [
        min(2**63 - 1, -(2**63) + noise[0]), 7, max(-(2**63), 2**63 - 1 + noise[2]), -3 - 2**46]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan, 2.0**50 * 1.01])
def test_scales_that_are_not_covered_are_refused(kind: str, scale: float) -> None:
    with pytest.raises(ValueError, match="scale"):
        many(kind, 3, scale)


@pytest.mark.parametrize("scale", [*SCALES, 1e-300, 31.999999, 2.0**5, 2.0**6 - 1e-9, 2.0**49])
def test_the_scale_is_a_few_blocks(scale: float) -> None:
    assert scale < 32 and inverse_cdf._shift(scale) == 0 or 16 <= scale / 2 ** inverse_cdf._shift(scale) <= 32


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 0.01])
def test_hardly_any_noise(scale: float) -> None:
    for kind in KINDS:
        assert not many(kind, 1000, scale).any()


def test_many_values_go_to_this_sampler_and_few_to_opendp(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = list[str]()

    def noted(name: str) -> Callable[..., Any]:
        def add(values: Any, scale: float = 0) -> Any:
            taken.append(name)
            return np.asarray(values)
        return add

    for kind in KINDS:
        monkeypatch.setattr(inverse_cdf, kind, noted(f"{kind}, many"))
    monkeypatch.setattr(source, "_sampler", lambda name, scale: noted(f"{name}, few"))
    noise = source.Secure()
    for draw in (noise.laplace, noise.gaussian):
        for values, scale in (([0] * source.MANY, 1.0), ([0] * (source.MANY - 1), 1.0), ([0] * source.MANY, 2.0**55)):
            draw(values, scale)
    assert taken == [f"{kind}, {name}" for kind in KINDS for name in ("many", "few", "few")]
