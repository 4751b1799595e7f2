"""Many draws of discrete Laplace or Gaussian noise at once, by numpy, exactly: no rounding, however small, is in the law.

Noise z has probability proportional to exp(-f(|z|)), where f(n) = `linear` n + `square` n^2 with exact fractions. It is drawn by
proposals that are accepted or not; accepted ones have this law, independently of each other. Let B be a power of two.

*A proposal* is a block h >= 0 with probability exp(-f(B h)) / W, where W is the sum over all blocks; a place l, uniform in
0 <= l < B; and a fair sign. It stands for z = B h + l or its negative, and is accepted with probability exp(f(B h) - f(B h + l)),
which is at most 1 as f increases. So each z != 0 is accepted with probability exp(-f(|z|)) / (2 B W); and so is 0, of whose two
signs only one is accepted.

*Blocks* are drawn by inverting their distribution: for U uniform in [0, 1), h is the number of all i with P(block <= i) <= U.
`bounds` encloses each of these probabilities between two integers, by integer arithmetic with directed rounding. Where the first
64 bits of U leave open on which side of one of them U is, or whether it is beyond all that were computed, further bits are drawn
and closer bounds are computed of more probabilities, until that is certain: so h is the number that all bits of U determine.

*Coins.* For V uniform in [0, 1) and g >= 0, V >= 1 - exp(-g) has probability exp(-g), and g - g^2 / 2 <= 1 - exp(-g) <= g. So
nearly always two comparisons decide. They are made with floats, whose sums, products and conversions are correctly rounded (IEEE
754): g is computed by at most five of them and V by two, with relative errors below 2^-49, and the comparisons leave 2^-40. What
they leave open is decided by exact bounds of exp(-g) and as many further bits of V as it takes.

All bits come from the operating system, by `words`, which has no state: nothing is shared after a fork. Noise that does not fit
into 64 bits is an integer of Python in an array of objects, so that not even tails are cut off.

Sources: Devroye, Non-Uniform Random Variate Generation, 1986 (inversion by lazy bits); Karney, Sampling Exactly from the Normal
Distribution, ACM TOMS 2016 (a block, a uniform place in it, and a coin).
"""

from __future__ import annotations

import os
from bisect import bisect_right
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen

WORD = 64  # bits of a uniform number that are drawn at once
LARGEST = 2.0**50  # of the scales; noise of larger ones would often not fit into 64 bits
AT_ONCE = 2**16  # proposals: their arrays fit into the caches of a processor
BLOCKS = 5  # the scale is at most 2^5 blocks
LEFT = 2.0**-40  # what comparisons of floats leave to exact ones
LEAST, MOST = -(2**63), 2**63 - 1


class NoiseLaw(Frozen, kw_only=False):
    """Probabilities proportional to exp(-linear |z| - square z^2); `shift` is the logarithm of the size of a block."""

    linear: Fraction
    square: Fraction
    shift: int


def laplace(values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    """Each value plus noise z with probability proportional to exp(-|z| / scale); saturates at the ends of 64 bits."""
    shift = _shift(scale)
    return _added(values, NoiseLaw(1 / Fraction(scale), Fraction(0), shift))


def gaussian(values: NDArray[np.int64], sigma: float) -> NDArray[np.int64]:
    """Each value plus noise z with probability proportional to exp(-z^2 / (2 sigma^2)); saturates at the ends of 64 bits."""
    shift = _shift(sigma)
    return _added(values, NoiseLaw(Fraction(0), 1 / (2 * Fraction(sigma) ** 2), shift))


def _shift(scale: float) -> int:
    """The shift for a scale. Raises ValueError for a scale that is not supported."""
    if not 0 < scale <= LARGEST:
        raise ValueError("the scale of noise drawn in bulk must be above 0 and fit into 64 bits")
    return (int(scale) >> BLOCKS).bit_length()


def _added(values: NDArray[np.int64], law: NoiseLaw) -> NDArray[np.int64]:
    """The sum is computed modulo 2^64, so it is wrong where its sign differs from the signs of both numbers."""
    noise = drawn(law, len(values))
    if noise.dtype == object:
        return np.asarray(np.clip(values.astype(object) + noise, LEAST, MOST), dtype=np.int64)
    total: NDArray[np.int64] = values + noise
    over = ((values ^ total) & (noise ^ total)) < 0
    total[over] = np.where(noise[over] > 0, MOST, LEAST)
    return total


def drawn(law: NoiseLaw, count: int) -> NDArray[Any]:
    """Independent draws: the first accepted ones of a sequence of proposals."""
    parts, missing = [np.zeros(0, dtype=np.int64)], count
    while missing > 0:
        parts.append(_accepted(law, min(missing + missing // 16, AT_ONCE))[:missing])
        missing -= len(parts[-1])
    return np.concatenate(parts)


def _accepted(law: NoiseLaw, count: int) -> NDArray[Any]:
    """The noise of the accepted ones among `count` proposals."""
    first, second = _blocks(law, count) << law.shift, words(count)
    place = (second >> np.uint64(WORD - law.shift)).astype(np.int64) if law.shift else np.zeros(count, dtype=np.int64)
    size, negative = first + place, (second & np.uint64(1)).astype(np.bool_)
    kept = (size != 0) | ~negative
    if law.shift:
        kept &= _coins(law, first, place)
    signed: NDArray[Any] = np.where(negative, -size, size)[kept]
    return signed


def words(count: int) -> NDArray[np.uint64]:
    """Independent uniform 64-bit numbers."""
    return np.frombuffer(os.urandom(WORD // 8 * count), dtype=np.uint64)


# -- blocks


def _blocks(law: NoiseLaw, count: int) -> NDArray[Any]:
    """Blocks; as Python's integers if there is one whose noise does not fit into 64 bits."""
    table, begun = _table(law), words(count)
    found: NDArray[Any] = np.searchsorted(table.lower, begun, side="right")
    exact = {int(i): block(law, int(begun[i])) for i in np.flatnonzero(begun <= table.unclear[found])}
    if max(exact.values(), default=0) >= 2 ** (WORD - 2 - law.shift):
        found = found.astype(object)
    for i, h in exact.items():
        found[i] = h
    return found


class _Table(Frozen, kw_only=False):
    """For 64 bits u of U, the number of lower bounds that are <= u is the block, unless u <= `unclear` of this number: then the
    upper bound before, or all that follows the last one, is not certainly on the other side of U."""

    lower: NDArray[np.uint64]
    unclear: NDArray[np.uint64]


@lru_cache(maxsize=64)
def _table(law: NoiseLaw) -> _Table:
    lower, upper = bounds(law, WORD)
    return _Table(lower=np.array(lower, dtype=np.uint64),
                  unclear=np.array([0, *(high - 1 for high in upper[:-1]), 2**WORD - 1], dtype=np.uint64))


def block(law: NoiseLaw, begun: int) -> int:
    """The block for a U that begins with these 64 bits."""
    bits = WORD
    while True:
        lower, upper = bounds(law, bits)
        most, least = bisect_right(lower, begun), bisect_right(upper, begun)
        if least == most < len(lower):
            return most
        bits, begun = bits + WORD, begun << WORD | int(words(1)[0])


def bounds(law: NoiseLaw, bits: int) -> tuple[list[int], list[int]]:
    """Lower and upper bounds of 2^bits P(block <= i) for i = 0, 1, ..., as far as blocks have a weight of about 2^-bits.

    Proof. Weights exp(-f(B i)) begin with 1, and each is the one before times a ratio exp(f(B i - B) - f(B i)), whose exponent is
    a linear function of i: so each ratio is the one before times a constant. All bounds of positive numbers are multiplied and
    added, rounded down for lower and up for upper ones. Ratios decrease, so weights from w on, whose next ratio is r, add up to
    at most w / (1 - r).
    """
    size, work = 2**law.shift, bits + WORD
    low, high = _Products(work, down=True), _Products(work, down=False)
    for part, end in zip((low, high), (0, 1), strict=True):
        part.ratio = exponential(law.linear * size + law.square * size**2, work)[end]
        part.factor = exponential(2 * law.square * size**2, work)[end]
    while high.weight >> WORD:
        low.step()
        high.step()
    least = low.sums[-1]
    rest = _up(high.weight << work, (1 << work) - high.ratio)
    most = high.sums[-1] + rest
    return ([(total << bits) // most for total in low.sums],
            [min(_up(total << bits, least), 1 << bits) for total in high.sums])


class _Products:
    """Weights, each the one before times a ratio that itself changes by a constant factor, and their sums."""

    def __init__(self, work: int, *, down: bool) -> None:
        self._work, self._add = work, 0 if down else (1 << work) - 1
        self.weight = self.ratio = self.factor = 1 << work
        self.sums = list[int]()

    def step(self) -> None:
        self.sums.append(self.weight + (self.sums[-1] if self.sums else 0))
        self.weight = self.weight * self.ratio + self._add >> self._work
        self.ratio = self.ratio * self.factor + self._add >> self._work


def _up(number: int, divisor: int) -> int:
    return -(-number // divisor)


def exponential(x: Fraction, bits: int) -> tuple[int, int]:
    """Lower and upper bounds of 2^bits exp(-x), for x >= 0.

    Proof. For y = x / 2^n <= 1, the terms y^i / i! from i = 1 on are at least halved each time, so those after a term add up to
    at most that term. Their sum, rounded down or up, gives exp(y); its inverse, squared n times, exp(-x). All numbers are
    positive, and each step is rounded in its direction.
    """
    halvings = max(0, x.numerator.bit_length() - x.denominator.bit_length() + 1)
    work = bits + halvings + 16
    one, divisor = 1 << work, x.denominator << halvings
    y_low, y_high = (x.numerator << work) // divisor, _up(x.numerator << work, divisor)
    low = high = term_low = term_high = one
    i = 0
    while term_high > 1:
        i += 1
        term_low, term_high = term_low * y_low // (i << work), _up(term_high * y_high, i << work)
        low, high = low + term_low, high + term_high
    low, high = (one << work) // (high + term_high), _up(one << work, low)
    for _ in range(halvings):
        low, high = low * low >> work, _up(high * high, one)
    return low >> work - bits, min(_up(high, 1 << work - bits), 1 << bits)


# -- coins


def _coins(law: NoiseLaw, first: NDArray[Any], place: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each proposal is accepted, with probability exp(f(first) - f(first + place))."""
    begun, twice = words(len(first)), (2 * first + place).astype(np.float64)
    exponent = place.astype(np.float64) * (float(law.linear) + float(law.square) * twice)
    v = begun.astype(np.float64) * 2.0**-WORD
    heads = v >= exponent * (1 + LEFT)
    tails = v + 2.0**-WORD <= exponent * (1 - exponent / 2 - LEFT)
    for i in np.flatnonzero(~heads & ~tails):
        start, step = int(first[i]), int(place[i])
        heads[i] = coin(law.linear * step + law.square * step * (2 * start + step), int(begun[i]))
    return heads


def coin(exponent: Fraction, begun: int) -> bool:
    """Whether V >= 1 - exp(-exponent), for a V that begins with these 64 bits."""
    bits = WORD
    while True:
        low, high = exponential(exponent, bits)
        if begun >= (1 << bits) - low:
            return True
        if begun + 1 <= (1 << bits) - high:
            return False
        bits, begun = bits + WORD, begun << WORD | int(words(1)[0])
