"""Choices by scores: the exponential mechanism, and permute-and-flip in the form of a noisy minimum.

Scores are whole numbers. Let their differences change by at most D between neighbours, |(s_i - s_j) - (s'_i - s'_j)| <= D for all
i and j (as they do where each score changes by at most D / 2):

*Exponential mechanism*: i is drawn with probability proportional to exp(-s_i / scale). The ratio of two probabilities of i is
within exp(±D / scale), so epsilon = D / scale, and as the range of the loss is bounded by that, rho = epsilon^2 / 8 (McSherry and
Talwar 2007; Cesar and Rogers 2021). *Permute-and-flip*: epsilon = D / scale too (McKenna and Sheldon 2020), the same as the
least s_i - G_i for whole numbers G_i >= 0 with P(G >= n) = exp(-n / scale) (Ding, Kifer, Sayed, Steinke, Wang, Xiao and Zhang
2021): given the others' G, i wins where G_i reaches a threshold, a whole number that moves by at most D, and P(G >= n + D) >=
exp(-D / scale) P(G >= n). Adding public numbers to the scores changes none of this.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.trusted.accounting.cost import Cost, pure
from dpsql.trusted.field_types import NumberRange
from dpsql.trusted.noise.source import Source

MOST_SCORE = 2**52  # larger than any score that can be drawn
WholeScore: TypeAlias = Annotated[int, NumberRange(least=-MOST_SCORE, most=MOST_SCORE)]
ONE_STEP = 2**10
BLOCK_ROUNDING = Fraction(1, 2**37)  # what drawing blocks before their candidates adds to the loss, at most; see `exponential`


def choice_cost(apart: int, scale: float, *, flip: bool, rounding: Fraction = Fraction(0)) -> Cost:
    """The cost of one choice among scores whose differences change by at most `apart`. `rounding` bounds the privacy loss that
    inexact weights add to the exponential mechanism."""
    epsilon = Fraction(apart) / Fraction(scale)
    if flip:
        return pure(epsilon)
    epsilon += rounding
    return Cost(epsilon=epsilon, rho=epsilon**2 / 8)


def one_sided(scale: float, source: Source) -> int:
    """A whole number E >= 0 with P(E = n) proportional to exp(-n / scale): discrete Laplace noise, given that it is not
    negative.
    """
    while True:
        number = source.laplace([0], scale)[0]
        if number >= 0:
            return number


def exponential(scores: NDArray[np.float64], scale: float, source: Source) -> int:
    """An index with probability proportional to exp(score / scale).

    With many candidates, first a block is drawn, by the total weight of its candidates, then a candidate from the block: the
    product of the two probabilities is the required one, up to the rounding of the block's weight. That weight is a sum of at
    most 2^13 positive terms, each with a relative error below 2^-46, so its own is below 2^-40. So each probability is off by a
    factor within exp(±2^-39) or so, on both neighbours: less than `BLOCK_ROUNDING` in all.
    """
    if len(scores) <= ONE_STEP:
        return source.exponential(scores.tolist(), scale)
    firsts = np.arange(0, len(scores), min(2**13, math.isqrt(len(scores))))
    ends = np.append(firsts[1:], len(scores))
    best = np.maximum.reduceat(scores, firsts)
    weights = np.add.reduceat(np.exp((scores - np.repeat(best, ends - firsts)) / scale), firsts)
    block = source.exponential((best + scale * np.log(weights)).tolist(), scale)
    first = int(firsts[block])
    return first + source.exponential(scores[first : int(ends[block])].tolist(), scale)


def likely_best(scores: Sequence[int], scale: float, source: Source) -> int:
    """An index with probability proportional to exp(score / scale), where scores more than a public number C below the best
    one count as C below it. At C, chances are below any that is ever drawn.

    Proof. Differences of scores change by at most D if and only if all scores move within a range [a, a + D]. Then the best one
    does, so best - C does, and so does the larger of that and any score. Subtracting the best from all of them changes nothing of
    the draw, and leaves numbers that are small enough for floats to hold them exactly.
    """
    best, cap = max(scores), min(math.ceil(scale * (math.log(len(scores)) + 45)), MOST_SCORE)
    return source.exponential([-float(min(best - score, cap)) for score in scores], scale)


class Compared(Protocol):
    """Scores >= 0 that can be compared with limits without being computed exactly."""

    def at_least(self, i: int) -> int:
        """A lower bound of s_i."""
        ...

    def at_most(self, i: int, limit: int) -> bool:
        """Whether s_i <= limit."""
        ...


class Refined(Protocol):
    """Scores with lower bounds that can be raised until they are exact."""

    def at_least(self, i: int) -> int:
        """A lower bound of s_i."""
        ...

    def exact(self, i: int) -> bool:
        """Whether the lower bound equals s_i."""
        ...

    def refine_towards(self, i: int) -> None:
        """Raise one of the bounds that determine the lower bound of s_i."""
        ...


def compared(scores: Compared, log_priors: Sequence[int], scale: float, source: Source) -> int:
    """An index drawn with probability proportional to exp(-(s + prior) / scale), computing scores only as far as needed.

    Proof. In each round there are lower bounds l_i <= s_i. Index i is proposed with probability exp(-(l_i + h_i) / scale) / Z,
    with h the priors, and taken if s_i - l_i <= E, for a whole number E >= 0 with P(E >= d) = exp(-d / scale): so with
    probability exp(-(s_i + h_i) / scale) / Z. Whatever the bounds of a round are, given that some index is taken in it, that
    index has the right distribution. A round that takes none has found that s_i > l_i, so a bound was refined, which can happen
    only finitely often. Bounds are capped where floats stop being exact; capped bounds are still lower bounds.
    """
    while True:
        bounds = [min(scores.at_least(i), MOST_SCORE) for i in range(len(log_priors))]
        place = source.exponential([-float(bound + prior) for bound, prior in zip(bounds, log_priors, strict=True)], scale)
        if scores.at_most(place, bounds[place] + one_sided(scale, source)):
            return place


def least(scores: Refined, shifts: Sequence[int]) -> int:
    """The first i with the least s_i + shifts[i]; a noisy minimum if noise is subtracted from the shifts.

    Proof that computing every s would give the same: take the first i whose lower bound plus shift is least. If its s is
    known exactly, i is the answer, as every other sum is at least its bound; otherwise a bound is refined, that of i or one on
    which it rests.
    """
    while True:
        best = min(range(len(shifts)), key=lambda i: (scores.at_least(i) + shifts[i], i))
        if scores.exact(best):
            return best
        scores.refine_towards(best)
