"""Quantiles by private selection: the order in which they are chosen, and intervals whose ends are selected as well.

*Order.* Three or more quantiles of one column are chosen jointly (Kaplan, Schnapp and Stemmer, Differentially Private
Approximate Quantiles, ICML 2022): first the middle one over the whole range, then those below and above it in their parts of
the range. So m quantiles cost as much as log2(m + 1) choices, rounded up, in sequence; segments of one level are disjoint and
share its price. One or two cost the same if chosen separately.

*Ends.* Let v be chosen for the quantile q. The lower end of its interval is chosen among the places below v, with a target t rows
further down; the upper end among those above, and as these are disjoint, both share one price. Rows up to the target have a
smaller weight than rows beyond it; the sum of both weights determines the price (`measurements.select.Select`). With a small
weight inside, ends lie nearly uniformly over the t rows, and seldom beyond; so they are as near on average as with equal weights
at twice the price. The weights are those whose ends are nearest on average. The end misses q only if v > q and the end falls
between them: if E rows lie there, it is chosen t - E rows or more off its target, *and* in one of these places.

- Rows spread evenly: P(E > x) = exp(-x / r) / 2 for the scale r of v, and the end lies x rows below v with a density
  proportional to exp(-(t - x) / s) inside the target and exp(-(x - t) / u) beyond, so that q is missed with the probability
  `EndChoice.missed`, both sides together. As t is much larger than r, this is small.
- Rows tied on values next to each other on the grid: v is off by one value at most, unless that value has hardly any rows; then
  there is no place between v and q. So the end is right, whatever the ties are.
- Rows tied on values far apart on the grid: if q is within a few r of the last row of such a value, v may fall between this value
  and the next one, and so may the end: g places between them have g exp(-(t - E) / s) times the weight of the value. This is the
  one case in which q is missed more often; `planning.script` adds a note where grids are that fine.

*Few rows.* With fewer than about t rows below v no place is much better than any other. So the range of the lowest ends begins
`beyond` places below the range of values, where no value can be; a place there is released as the end of the range. If there is
no row at all, v is anywhere, and an end misses a q at fraction u of the range with probability less than
((1 - u)^2 + u^2) / 2 * places / beyond, which is 1 - confidence at most. An end between two quantiles is used if a noisy count
finds enough rows between them; otherwise it is replaced by that of the next quantile.

*Extremes.* MIN and MAX aim inside the data, and the truth lies anywhere between the chosen value and the declared bound, which is
one end of the interval. The other end competes with all places beyond the last row at once: with
t = s ln(places / (1 - confidence)) these have a total weight below 1 - confidence, whatever the values are.

The standard error assumes that the rows between the ends are spread evenly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates import Ends, Estimate, NoiseTerm, constant
from dpsql.frozen import Frozen, replace
from dpsql.mechanisms.additive_noise import bought
from dpsql.mechanisms.mechanism import Estimates, Ordered, TaskContext
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.cached import cached_property
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.measurements.select import ROUNDING, Segment, Select, Selected, Target, score_change
from dpsql.trusted.noise.integer import Noise
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.ranks import Ranks
from dpsql.trusted.plan.operators.summands import Count
from dpsql.types import Type

Integers = NDArray[np.int64]
ScaleOf = Callable[[Cost, int], float]
ENDS, MORE_ENDS = Fraction(1, 10), Fraction(1, 5)  # shares of the price for the ends of intervals
OUTER = Fraction(1, 4)  # a quantile with a smaller fraction of the rows on one side needs the larger share
COUNTED = Fraction(1, 5)  # share of that for counting rows, where there are ends between quantiles
WEIGHTS = 6  # the weight of a row inside the target of an end plus that of a row beyond it
MISSED = 0.4  # fraction of 1 - confidence for ends nearer than the error; the rest is for rows not spread evenly, and ties
ENOUGH = 3.0  # scales of rows, beyond the distance of an end, that must lie between two quantiles to use the end
OPEN = 5.0  # scales of rows with which an end hardly ever falls beyond the range
EXTREME = 6  # scales by which MIN and MAX aim inside the data, as all values beyond it look equally extreme
MOST_TIES, MOST_BITS = 20, 60  # bits that break ties where several quantiles split the rows of a value; bits of all places
APART = 2  # up to so many quantiles are chosen one by one


def exponential_scale(rows: int) -> ScaleOf:
    """The scale of the exponential mechanism for scores in which a row counts `score_change`; for its cost see
    `measurements.select.Select`."""

    def scale(allotted: Cost, apart: int) -> float:
        if rows == 0:
            return 1e-9  # a public relation: nothing is hidden
        epsilon = allotted.epsilon if allotted.epsilon is not None else 2 * allotted.as_epsilon  # rho = epsilon^2 / 8
        exact = Fraction(rows * apart) / (epsilon - rows * ROUNDING)
        return math.nextafter(float(exact), math.inf)

    return scale


def flip_scale(rows: int) -> ScaleOf:
    """The same for permute-and-flip. No bounded range is proved for it, so its epsilon counts in full."""

    def scale(allotted: Cost, apart: int) -> float:
        return 1e-9 if rows == 0 else math.nextafter(float(Fraction(rows * apart) / allotted.as_epsilon), math.inf)

    return scale


# -- what is chosen, and at what price


class QuantileStep(Frozen):
    """The choice of one quantile between the values chosen for two others, or up to the end of the range where there is none."""

    at: int
    below: int | None = None
    above: int | None = None


def order(quantiles: int) -> tuple[tuple[QuantileStep, ...], ...]:
    """The order in which this many quantiles are chosen, level by level."""
    if quantiles <= APART:
        return tuple((QuantileStep(at=i),) for i in range(quantiles))
    levels: list[tuple[QuantileStep, ...]] = []
    parts: list[tuple[int, int]] = [(-1, quantiles)]
    while parts:
        levels.append(tuple(QuantileStep(at=(a + b) // 2, below=a if a >= 0 else None, above=b if b < quantiles else None)
                            for a, b in parts))
        parts = [inner for a, b in parts for inner in ((a, (a + b) // 2), ((a + b) // 2, b)) if inner[1] - inner[0] > 1]
    return tuple(levels)


class QuantileSearch(Frozen):
    """How the quantiles of a task are chosen, and the ends of their intervals.

    Errors grow as 1 / share in epsilon and as 1 / sqrt(share) in rho. The ends of a median take a tenth of the price, so its
    error is 11 % or 5 % larger than without an interval (`tests/bench/accuracy.py` prints the first). They take a fifth where few
    rows are beyond a quantile, as its end competes with all places beyond the data, and for several quantiles, whose ends need
    two choices and a count.
    """

    task: Ordered
    price: Cost
    flip: bool = False

    @cached_property
    def fractions(self) -> tuple[Fraction, ...]:
        return self.task.part.fractions

    @property
    def most(self) -> int:
        """The last place of the grid."""
        return self.task.part.grid.most

    @cached_property
    def levels(self) -> tuple[tuple[QuantileStep, ...], ...]:
        return order(len(self.fractions))

    def fraction(self, step: QuantileStep) -> Fraction:
        """The quantile of a step, relative to the rows between its neighbours."""
        low = self.fractions[step.below] if step.below is not None else Fraction(0)
        high = self.fractions[step.above] if step.above is not None else Fraction(1)
        return (self.fractions[step.at] - low) / (high - low)

    def target(self, step: QuantileStep) -> Target:
        """The target of a step. MIN and MAX aim inside the data; the targets of quantiles next to them are corrected for that."""
        fraction = self.fraction(step)
        rows = Fraction(self.aims[step.at])
        for place, weight in ((step.below, 1 - fraction), (step.above, fraction)):
            rows -= weight * self.aims[place] if place is not None else 0
        return Target(fraction=fraction, offset=round(rows))

    @cached_property
    def aims(self) -> tuple[int, ...]:
        """For each quantile, the number of rows above its rank at which it aims."""
        signs = {Fraction(0): 1, Fraction(1): -1}
        return tuple(signs.get(p, 0) * math.ceil(EXTREME * errors[-1])
                     for p, errors in zip(self.fractions, self.errors, strict=True))

    @cached_property
    def scales(self) -> tuple[float, ...]:
        """The scale of the scores of each level."""
        share = self.price.part((1 - self.ends_share) / len(self.levels))
        scale_of = flip_scale(self.task.rows) if self.flip else exponential_scale(self.task.rows)
        return tuple(scale_of(share, max(score_change(Target(fraction=self.fraction(step))) for step in level))
                     for level in self.levels)

    @cached_property
    def errors(self) -> tuple[tuple[float, ...], ...]:
        """For each quantile, the scales of the independent errors in its rank, with its own last.

        P(error > x) falls as exp(-x / scale). The segment in which a quantile is chosen moves with the errors of its neighbours.
        """
        found: dict[int, dict[int, float]] = {}
        for level, scale in zip(self.levels, self.scales, strict=True):
            for step in level:
                fraction = self.fraction(step)
                pieces: dict[int, float] = {}
                for place, weight in ((step.below, 1 - fraction), (step.above, fraction)):
                    for other, size in found[place].items() if place is not None else ():
                        pieces[other] = pieces.get(other, 0.0) + float(weight) * size
                found[step.at] = {**pieces, step.at: scale / fraction.denominator}
        return tuple(tuple(found[i].values()) for i in range(len(self.fractions)))

    def deviation(self, i: int) -> float:
        """The standard deviation of the rank of a quantile."""
        return math.sqrt(2) * math.hypot(*self.errors[i])

    @property
    def error(self) -> float:
        """The approximate error of a quantile, in ranks."""
        return max(map(self.deviation, range(len(self.fractions)))) / math.sqrt(2)

    @property
    def ends_share(self) -> Fraction:
        return ENDS if len(self.fractions) == 1 and OUTER <= self.fractions[0] <= 1 - OUTER else MORE_ENDS

    @cached_property
    def end_scale(self) -> float:
        """The scale of the scores of interval ends. The lower and the upper ends of several quantiles are two separate
        choices."""
        share = self.ends_share * (1 - COUNTED * self.counts) / min(2, len(self.fractions))
        return exponential_scale(self.task.rows)(self.price.part(share), WEIGHTS)

    @property
    def counts(self) -> bool:
        """Whether some interval end is between two quantiles, so that rows must be counted. MIN and MAX do not matter here, as
        they take the end of the next quantile."""
        return sum(fraction not in (0, 1) for fraction in self.fractions) + (len(self.fractions) > 2) > 1

    @property
    def for_count(self) -> Cost:
        return self.price.part(self.ends_share * COUNTED)

    @property
    def count_noise(self) -> Noise:
        """The noise of the number of rows."""
        return bought(self.task.rows, self.for_count)

    @property
    def affordable(self) -> bool:
        """Whether the price of each choice is large enough, compared with the rounding error of its draw."""
        try:
            return min(*self.scales, self.end_scale) > 0
        except ArithmeticError:
            return False

    def end(self, i: int, confidence: Fraction) -> EndChoice:
        """How the ends of a quantile's interval are chosen: with the weights whose ends are nearest on average."""
        miss = 1 - float(confidence)
        tried = [EndChoice(inside=inside, scale=self.end_scale) for inside in range(1, WEIGHTS)]
        if self.fractions[i] in (0, 1):
            found = [one.away(one.inner * math.log((self.most + 1) / miss)) for one in tried]
        else:
            found = [one.beyond_error(sum(self.errors[i]), MISSED * miss) for one in tried]
        return min(found, key=lambda one: one.usual)

    def beyond(self, confidence: Fraction) -> int:
        """The number of places added beyond the range; ends are put there if there are few rows."""
        wanted = Fraction(self.most + 1, 2) / (1 - confidence)
        return min(math.ceil(wanted), 1 << MOST_BITS)

    @property
    def ties(self) -> int:
        """The number of bits that break ties between rows with the same value, which quantiles chosen jointly may have to
        split."""
        return min(MOST_TIES, MOST_BITS - self.most.bit_length()) if len(self.fractions) > APART else 0


class EndChoice(Frozen):
    """How an end of an interval is chosen: with a target `rows` rows from v, by scores of this scale in which each row inside the
    target has the weight `inside`, and each row beyond it the rest of `WEIGHTS`."""

    inside: int
    scale: float
    rows: float = 0.0

    @property
    def inner(self) -> float:
        """The scale inside the target, in rows."""
        return self.scale / self.inside

    @property
    def outer(self) -> float:
        return self.scale / (WEIGHTS - self.inside)

    def away(self, rows: float) -> EndChoice:
        return replace(self, rows=rows)

    def beyond_error(self, error: float, chance: float) -> EndChoice:
        """The same choice with the fewest rows at which q is missed with at most this probability, up to an eighth of a scale."""
        low, high = 0.0, self.inner + error
        while self.away(high).missed(error) > chance:
            low, high = high, 2 * high
        while high - low > self.outer / 8:
            middle = (low + high) / 2
            low, high = (low, middle) if self.away(middle).missed(error) <= chance else (middle, high)
        return self.away(high)

    def missed(self, error: float) -> float:
        """The probability that the end is fewer rows away from v than the error of v, if v is off to that side: the mean of
        exp(-x / error) for x > 0 with a density proportional to exp(-(rows - x) / inner) inside, exp(-(x - rows) / outer)
        beyond."""
        away, gap = math.exp(-self.rows / self.inner), 1 / error - 1 / self.inner
        near = away * (-math.expm1(-self.rows * gap) / gap if gap else self.rows)
        return (near + math.exp(-self.rows / error) / (1 / error + 1 / self.outer)) / (self.inner * (1 - away) + self.outer)

    def beyond_target(self, chance: float) -> float:
        """The number of rows from v that an end is beyond with this probability at most, in the same model."""
        whole = self.inner * -math.expm1(-self.rows / self.inner) + self.outer
        return math.ceil(self.rows) + 1 + self.outer * max(0.0, math.log(self.outer / whole / chance))

    @property
    def usual(self) -> float:
        """The average distance of the end from v, in rows."""
        away, rows, inner, outer = math.exp(-self.rows / self.inner), self.rows, self.inner, self.outer
        return (inner * rows - inner**2 * (1 - away) + outer * (rows + outer)) / (inner * (1 - away) + outer)


# -- the choices


def searched(search: QuantileSearch, context: TaskContext) -> Generator[Request, Any, Estimates]:
    """Choose all quantiles of a task, and the ends of their intervals."""
    if not context.cells:  # no group was selected
        return tuple(constant(np.zeros(0)) for _ in search.fractions)
    chosen = np.sort((yield from _chosen(search, context)), axis=1)
    sides = [EndSide(search=search, sign=sign, confidence=context.confidence) for sign in (-1, 1)]
    found: dict[int, list[dict[int, int]]] = {-1: [], 1: []}
    for together in [sides] if len(search.fractions) == 1 else [[side] for side in sides]:
        asked = [[side.segments(row) for side in together] for row in chosen.tolist()]
        released: Selected = yield Select(
            plan=_ranks(search, context, ties=0), cells=context.cells, scale=search.end_scale,
            segments=tuple(tuple(segment for listed in cell for segment in listed.values()) for cell in asked))
        for cell, values in zip(asked, released.values, strict=True):
            rest = iter(values)
            for side, listed in zip(together, cell, strict=True):
                found[side.sign].append({i: next(rest) for i in listed})
    rows = (yield from _rows(search, context)) if search.counts else np.zeros(len(chosen))
    ends = [side.places(found[side.sign], rows) for side in sides]
    return tuple(_estimate(search, context, i, chosen[:, i], [places[:, i] for places in ends]) for i in range(chosen.shape[1]))


def _chosen(search: QuantileSearch, context: TaskContext) -> Generator[Request, Any, Integers]:
    """The places of all quantiles in each cell, as an array of cells by quantiles."""
    last = ((search.most + 1) << search.ties) - 1
    chosen: dict[int, list[int]] = {}
    for level, scale in zip(search.levels, search.scales, strict=True):
        targets = [search.target(step) for step in level]
        ranges = [[(chosen[step.below][cell] + 1 if step.below is not None else 0,
                    chosen[step.above][cell] if step.above is not None else last) for step in level]
                  for cell in range(len(context.cells))]
        segments = tuple(tuple(Segment(low=low, high=high, target=target)
                               for (low, high), target in zip(row, targets, strict=True) if low <= high) for row in ranges)
        released: Selected = yield Select(plan=_ranks(search, context, ties=search.ties), cells=context.cells, segments=segments,
                                          scale=scale, flip=search.flip)
        for cell, row in enumerate(ranges):
            rest = iter(released.values[cell])
            for step, (low, high) in zip(level, row, strict=True):  # with no place left, it is the end of its segment
                chosen.setdefault(step.at, []).append(next(rest) if low <= high else high)
    return np.array([chosen[i] for i in range(len(search.fractions))], dtype=np.int64).T >> search.ties


def _ranks(search: QuantileSearch, context: TaskContext, *, ties: int) -> Ranks:
    part = search.task.part
    return Ranks(input=search.task.input, keys=context.keys, column=part.column, grid=part.grid, when=part.when, ties=ties)


class EndSide(Frozen):
    """The lower ends of intervals (sign -1), or the upper ones (sign 1)."""

    search: QuantileSearch
    sign: int
    confidence: Fraction

    @cached_property
    def last(self) -> int:
        """The last place of the range on this side."""
        return 0 if self.sign < 0 else self.search.most

    @cached_property
    def outermost(self) -> int:
        """The last place that was added beyond the range on this side."""
        return self.last + self.sign * self.search.beyond(self.confidence)

    @cached_property
    def choices(self) -> tuple[EndChoice, ...]:
        """The choice of the end of each quantile."""
        return tuple(self.search.end(i, self.confidence) for i in range(len(self.search.fractions)))

    def _segment(self, i: int, low: int, high: int) -> Segment:
        """The places for an end, and its target among the rows there."""
        choice = self.choices[i]
        target = Target(fraction=Fraction(1 - self.sign, 2), offset=self.sign * (math.ceil(choice.rows) + 1))
        counted = choice.inside, WEIGHTS - choice.inside
        below, above = counted if self.sign < 0 else counted[::-1]
        return Segment(low=low, high=high, target=target, below=below, above=above)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The quantiles whose end is chosen, outermost first. For an extreme it is the end of the range."""
        extreme = 0 if self.sign < 0 else 1
        return tuple(i for i, fraction in enumerate(self.search.fractions) if fraction != extreme)[:: -self.sign]

    def segments(self, chosen: Sequence[int]) -> dict[int, Segment]:
        """The segments from which ends are chosen, next to the quantiles chosen in a cell; a quantile has none if no place is
        left."""
        found = {}
        for at, i in enumerate(self.order):
            if at and self.search.fractions[i] in (0, 1):
                continue  # the next quantile's end will do
            beside = chosen[i] + self.sign
            edge = chosen[self.order[at - 1]] - self.sign if at else self.outermost
            if (edge - beside) * self.sign >= 0:
                found[i] = self._segment(i, min(edge, beside), max(edge, beside))
        return found

    def places(self, found: Sequence[dict[int, int]], rows: NDArray[np.float64]) -> Integers:
        """The end of each quantile in each cell, which has at least `rows` rows; beyond the range if these are too few."""
        places = np.full((len(found), len(self.search.fractions)), self.last, dtype=np.int64)
        for at, i in enumerate(self.order):
            beside = self.order[at - 1]
            between = float(abs(self.search.fractions[i] - self.search.fractions[beside])) * rows
            enough = between >= self.choices[i].rows + ENOUGH * self.choices[i].outer
            places[:, i] = [cell[i] if not at or (i in cell and sure) else place
                            for cell, sure, place in zip(found, enough.tolist(), places[:, beside].tolist(), strict=True)]
        return places


def _rows(search: QuantileSearch, context: TaskContext) -> Generator[Request, Any, NDArray[np.float64]]:
    """The noisy number of rows of each cell, less two standard deviations of the noise."""
    task = search.task
    if not task.rows:
        return np.full(len(context.cells), math.inf)
    noise = search.count_noise
    counted: MeasuredSums = yield NoisySums(plan=GroupedSums(input=task.input, keys=context.keys, summands=(
        Count(column=task.part.column, when=task.part.when),)), cells=context.cells, noises=(noise,))
    return np.array(counted.totals[0][0], dtype=np.float64) - 2 * math.sqrt(noise.variance)


# -- estimates


def _estimate(search: QuantileSearch, context: TaskContext, i: int, chosen: Integers, ends: Sequence[Integers]) -> Estimate:
    """The values, with intervals at the confidence for which the ends were chosen; for a lower confidence these are used too."""
    top, off = float(search.most), search.deviation(i)
    rounded = 0.0 if on_grid(search.task) else 0.5
    squares = sum((np.abs(np.clip(places, 0, top) - chosen) * _part_of(search, i, places, last, off, context.confidence)) ** 2 / 2
                  for places, last in zip(ends, (Fraction(0), Fraction(1)), strict=True))
    low, high = np.maximum(ends[0] - rounded, 0.0), np.minimum(ends[1] + rounded, top)

    def drawn(confidence: float) -> Ends:
        return (low, high) if confidence <= float(context.confidence) else (np.zeros_like(low), np.full_like(high, top))

    return Estimate(values=chosen.astype(np.float64), linear=False, drawn=drawn, slopes={
        (search.task.at, i): (NoiseTerm(kind="approximate", scale=1.0), np.maximum(np.sqrt(squares), 0.5))})


def _part_of(search: QuantileSearch, i: int, places: Integers, last: Fraction, off: float, confidence: Fraction) -> NDArray[
        np.float64] | float:
    """The ratio of the standard error to the distance of an end.

    The end lies as many rows away as its target, for MIN and MAX up to the bound. Up to an end beyond the range there are fewer
    rows, and how many is unknown: the middle is used, on the logarithmic scale.
    """
    if search.fractions[i] == last:
        return 1.0
    choice = search.end(i, confidence)
    inside = (places >= 0) & (places <= search.most)
    return np.where(inside, min(1.0, off / choice.usual), min(1.0, math.sqrt(off / (choice.rows + OPEN * choice.outer))))


def on_grid(task: Ordered) -> bool:
    """Whether the values of the column are places of the grid already, so that nothing was rounded."""
    known, grid = task.input.field(task.part.column).facts, task.part.grid
    return grid.step == 1 and float(grid.low).is_integer() and (known.whole or known.type is Type.DATE)
