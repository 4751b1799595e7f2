"""Quantiles by selection: which segments are searched, in which order, and what the choices tell of their own error.

Several quantiles of one column are chosen jointly (Kaplan, Schnapp and Stemmer, Differentially Private Approximate Quantiles,
ICML 2022): first the middle one over the whole range, then those below and above it inside their parts, so that m quantiles
cost as much as log2(m + 1) choices, rounded up, made one after another; segments of one level are disjoint and share its
price. A last level chooses, around each quantile, the values whose ranks are a known number of rows away: how far these lie
off turns the error in ranks, which is known, into one in values, which is told as approximate. Where there are fewer rows than
that, as a noisy count tells, the values chosen lie beyond all rows, and as many rows share the distance as there are. MIN and
MAX aim inside, so that the truth may lie anywhere between what is chosen and the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.cost import Cost
from dpsql.estimates import Estimate, NoiseTerm, constant
from dpsql.measurements import (
    ROUNDING,
    MeasuredSums,
    NoisySums,
    Request,
    Segment,
    Select,
    Selected,
    Target,
    reach,
)
from dpsql.mechanisms.additive.bought import bought
from dpsql.mechanisms.mechanism import Estimates, Ordered, Setting
from dpsql.plan.operators.grouped_sums import GroupedSums
from dpsql.plan.operators.ranks import Ranks
from dpsql.plan.operators.summands import Count

Integers = NDArray[np.int64]
ERROR_SHARE = Fraction(1, 5)  # of the price, for measuring the error:
COUNT_SHARE = Fraction(3, 50)  # for counting the rows,
AROUND_SHARE = ERROR_SHARE - COUNT_SHARE  # and for the level that looks around what was chosen
AROUND = 12  # how far off that level looks, in units of its own scale of rank errors
EXTREME = 6  # MIN and MAX aim so many units inside, as all values beyond the data look equally extreme
TIES = 20  # bits that tell rows of one value apart where several quantiles split them


def levels(quantiles: int) -> int:
    """How many choices one after another find so many quantiles."""
    return quantiles.bit_length()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileSearch:
    """How one task is searched: `select` makes the request of a level from its segments and its share of the price."""

    task: Ordered
    setting: Setting
    plan: Ranks
    price: Cost
    scale: Callable[[Cost, int], float]
    flip: bool

    @property
    def bits(self) -> int:
        return self.plan.ties

    @property
    def top(self) -> int:
        """The last place on the grid, with ties told apart."""
        return ((self.plan.grid.most + 1) << self.bits) - 1

    def level(self, segments: Sequence[Sequence[Segment]], share: Fraction) -> Generator[Request, Any, Selected]:
        worst = max(reach(segment.target) for listed in segments for segment in listed)
        released: Selected = yield Select(plan=self.plan, cells=self.setting.cells, segments=tuple(map(tuple, segments)),
                                          scale=self.scale(self.price.part(share), worst), flip=self.flip)
        return released

    def ranks(self, share: Fraction) -> float:
        """The scale of rank errors of a choice at this share: P(error > r) falls as exp(-r / scale)."""
        return self.scale(self.price.part(share), 1)


def exponential_scale(rows: int) -> Callable[[Cost, int], float]:
    """The scale of the exponential mechanism on scores that a row moves by `worst`; see `measurements.Select` for the cost."""

    def scale(allotted: Cost, worst: int) -> float:
        if rows == 0:
            return 1e-9  # a public relation: nothing is hidden
        epsilon = allotted.epsilon if allotted.epsilon is not None else 2 * allotted.as_epsilon  # rho = epsilon^2 / 8
        exact = Fraction(2 * rows * worst) / (epsilon - rows * ROUNDING)
        return math.nextafter(float(exact), math.inf)

    return scale


def flip_scale(rows: int) -> Callable[[Cost, int], float]:
    """The same for permute-and-flip, whose bounded range is not proved: it pays its epsilon in full."""

    def scale(allotted: Cost, worst: int) -> float:
        return 1e-9 if rows == 0 else math.nextafter(float(Fraction(2 * rows * worst) / allotted.as_epsilon), math.inf)

    return scale


def searched(search: QuantileSearch) -> Generator[Request, Any, Estimates]:
    """Choose all quantiles of a task, and measure how sure they are."""
    fractions = search.task.part.fractions
    depth = levels(len(fractions))
    share = (1 - ERROR_SHARE) / depth
    cells = len(search.setting.cells)
    if not cells:  # no group was selected
        return tuple(constant(np.zeros(0)) for _ in fractions)
    chosen = np.zeros((cells, len(fractions)), dtype=np.int64)
    parts = [_QuantileRange(first=0, last=len(fractions), low=np.zeros(cells, dtype=np.int64), high=np.full(cells, search.top),
                            below=Fraction(0), above=Fraction(1))]
    while parts:
        segments, places = _segments(search, parts, share)
        released = yield from search.level(segments, share)
        for cell, values in enumerate(released.values):
            for part, value in zip(places[cell], values, strict=True):
                chosen[cell, part.middle] = value
            for part in parts:
                if part not in places[cell]:  # no room was left: the quantile is where its part ends
                    chosen[cell, part.middle] = part.high[cell]
        parts = [inner for part in parts for inner in part.split(chosen, fractions)]
    return (yield from _with_errors(search, chosen, share))


@dataclass(frozen=True, eq=False, kw_only=True)
class _QuantileRange:
    """Quantiles first <= i < last, looked for between `low` and `high` of each cell, where fractions `below` to `above` lie."""

    first: int
    last: int
    low: Integers
    high: Integers
    below: Fraction
    above: Fraction

    @property
    def middle(self) -> int:
        return (self.first + self.last) // 2

    def split(self, chosen: Integers, fractions: Sequence[Fraction]) -> list[_QuantileRange]:
        at = chosen[:, self.middle]
        parts = []
        if self.first < self.middle:
            parts.append(replace(self, last=self.middle, high=at, above=fractions[self.middle]))
        if self.middle + 1 < self.last:
            parts.append(replace(self, first=self.middle + 1, low=np.minimum(at + 1, self.high), below=fractions[self.middle]))
        return parts

    def fraction(self, fractions: Sequence[Fraction]) -> Fraction:
        """The middle quantile among the rows of this part."""
        width = self.above - self.below
        return (fractions[self.middle] - self.below) / width if width else Fraction(0)


def _segments(search: QuantileSearch, parts: Sequence[_QuantileRange], share: Fraction) -> tuple[list[list[Segment]],
                                                                                                 list[list[_QuantileRange]]]:
    """For each cell the segments of a level, which are disjoint, and the part that each searches."""
    inside = math.ceil(EXTREME * search.ranks(share))
    cells, places = [], []
    for cell in range(len(search.setting.cells)):
        listed: list[Segment] = []
        whose: list[_QuantileRange] = []
        for part in parts:
            fraction = part.fraction(search.task.part.fractions)
            start, end = max(int(part.low[cell]), listed[-1].high + 1 if listed else 0), int(part.high[cell])
            if start <= end:
                offset = inside if fraction == part.below == 0 else -inside if fraction == part.above == 1 else 0
                listed.append(Segment(low=start, high=end, target=Target(fraction=fraction, offset=offset)))
                whose.append(part)
        cells.append(listed)
        places.append(whose)
    return cells, places


def _with_errors(search: QuantileSearch, chosen: Integers, share: Fraction) -> Generator[Request, Any, Estimates]:
    """Estimates of the chosen values, with a standard error from how values spread around them."""
    fractions = search.task.part.fractions
    around = math.ceil(AROUND * search.ranks(AROUND_SHARE))
    segments, sides = _surroundings(search, chosen, around)
    released = yield from search.level(segments, AROUND_SHARE)
    rows = yield from _rows(search)
    rank_error = math.sqrt(2) * search.ranks(share) * levels(len(fractions))
    found = []
    for i, fraction in enumerate(fractions):
        deviation = np.zeros(len(rows))
        for cell, values in enumerate(released.values if search.task.rows else ()):
            at = int(chosen[cell, i])
            told = [min(around, max(1.0, part * rows[cell])) if part else 0 for part in _beside(fractions, i)]
            far = max(_gap(values, sides[cell], i, at, told) * rank_error,
                      at if fraction == 0 else search.top - at if fraction == 1 else 0)
            deviation[cell] = max(min(far, search.top) / 2**search.bits, 0.5)
        values_ = (chosen[:, i] >> search.bits).astype(np.float64)
        found.append(Estimate(values=values_, linear=False,
                              slopes={(search.task.at, i): (NoiseTerm(kind="approximate", scale=1.0), deviation)}))
    return tuple(found)


def _rows(search: QuantileSearch) -> Generator[Request, Any, NDArray[np.float64]]:
    """How many rows each cell has, less a standard deviation of the noise."""
    task, allotted = search.task, search.price.part(COUNT_SHARE)
    if not task.rows:
        return np.zeros(len(search.setting.cells))
    noise = bought(task.rows, allotted)
    counted: MeasuredSums = yield NoisySums(
        plan=GroupedSums(input=task.input, keys=search.setting.keys, summands=(Count(column=task.part.column,
                                                                                     when=task.part.when),)),
        cells=search.setting.cells, noises=(noise,))
    return np.array(counted.totals[0][0], dtype=np.float64) - math.sqrt(noise.variance)


def _beside(fractions: Sequence[Fraction], i: int) -> tuple[float, float]:
    """Which parts of the rows lie below and above a quantile, up to halfway to the next one."""
    below = fractions[i] - ((fractions[i - 1] + fractions[i]) / 2 if i > 0 else 0)
    above = ((fractions[i] + fractions[i + 1]) / 2 if i + 1 < len(fractions) else 1) - fractions[i]
    return float(below), float(above)


def _surroundings(search: QuantileSearch, chosen: Integers, around: int) -> tuple[list[list[Segment]], list[list[tuple[int,
                                                                                                                       int]]]]:
    """Disjoint segments below and above each chosen value, cut halfway to the next one; which quantile and side each is for."""
    cells, sides = [], []
    for row in chosen.tolist():
        listed: list[Segment] = []
        which: list[tuple[int, int]] = []
        for i, value in enumerate(row):
            low = 0 if i == 0 else (row[i - 1] + value) // 2 + 1
            high = search.top if i == len(row) - 1 else (value + row[i + 1]) // 2
            if low <= value and (not listed or listed[-1].high < low):
                listed.append(Segment(low=low, high=value, target=Target(fraction=Fraction(1), offset=-around)))
                which.append((i, -1))
            if value + 1 <= high:
                listed.append(Segment(low=value + 1, high=high, target=Target(fraction=Fraction(0), offset=around)))
                which.append((i, 1))
        cells.append(listed)
        sides.append(which)
    return cells, sides


def _gap(values: Sequence[int], sides: Sequence[tuple[int, int]], quantile: int, chosen: int, rows: Sequence[float]) -> float:
    """How far apart two rows lie around a chosen value, from the values found on both sides and how many `rows` are up to
    them; one side stands for two where the other has no room or no rows."""
    found = [abs(value - chosen) / rows[side > 0] for value, (which, side) in zip(values, sides, strict=True)
             if which == quantile and rows[side > 0]]
    return sum(found) / len(found) if found else 0.0
