"""Grid values near a given rank, by the exponential mechanism."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Annotated

import numpy as np

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import FREE, Cost
from dpsql.trusted.field_types import Assumptions, NumberRange, Positive, Scale, Word
from dpsql.trusted.measurements.reading.request import Context, OfOnePlan
from dpsql.trusted.measurements.reading.sorted_values import Integers, Ranked, read
from dpsql.trusted.noise.choice import BLOCK_ROUNDING, choice_cost, exponential
from dpsql.trusted.plan.cells import Cells, are_cells
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.operators.ranks import Ranks
from dpsql.trusted.stopping import each

MOST_FLIPPED = 2**17  # values of a segment that permute-and-flip tries one by one


class Target(Frozen):
    """A target rank among the n values of a segment: `fraction` * n + `offset` values are below it."""

    fraction: Annotated[Fraction, NumberRange(least=0, most=1)]
    offset: Word = 0


class Segment(Frozen):
    """Grid values low <= v <= high of one cell, and the target rank among the values there.

    below, above  the penalty for each row too many below a value, and for each row too many above it
    """

    low: Word
    high: Word
    target: Target
    below: Positive = 1
    above: Positive = 1

    def assumptions(self) -> Assumptions:
        yield 0 <= self.high - self.low < 2**62, "the ends of a segment must be in order"


ROUNDING = Fraction(1, 2**40) + BLOCK_ROUNDING


class Select(Frozen, OfOnePlan):
    """For each segment of each cell, a grid value whose rank is near the target: the exponential mechanism.

    The score of v is -d(v), d(v) = max(0, y (L - (p n + t)), z (G - ((1 - p) n - t))), with L and G the numbers of values
    below and above v, n that of all values in the segment, p and t the target's fraction and offset, y = `below` and z = `above`
    of the segment. A value is drawn with probability proportional to exp(-d(v) * b / scale), b the denominator of p (so that
    scores are integers), or with `flip` by permute-and-flip from the same scores.

    Cost. Adding one value moves L - p n by 1 - p (where it is below v) or -p, and G - (1 - p) n by p (where it is above v) or
    p - 1. So it raises each d by max(y (1 - p), z p) at most and lowers it by max(y p, z (1 - p)) at most, and the difference
    between two values' d changes by at most the sum of these; removing one does the same with opposite signs. With y = z = 1 the
    sum is 2 max(p, 1 - p). An entity that changes j values of a segment changes the difference by at most j times that. Segments
    are disjoint, so an entity's k rows are distributed over segments, and the losses add up to at most the loss of k rows in the
    segment where it is largest: epsilon = k b (max(y (1 - p), z p) + max(y p, z (1 - p))) / scale (`noise.choice`). A draw by
    intervals weighs each interval by exp(ln(width)), rounded: each weight is off by a factor within exp(±2^-43). Where there are
    many intervals, which depends on the rows, blocks of them are drawn first, whose weights are rounded too (`BLOCK_ROUNDING`).
    Together that adds less than `ROUNDING` to the loss of each draw that an entity affects, and it affects k draws at most.
    """

    plan: Ranks
    cells: Cells
    segments: tuple[tuple[Segment, ...], ...]
    scale: Scale
    flip: bool = False

    def assumptions(self) -> Assumptions:
        yield are_cells(self.cells, self.plan.keys), "cells must be different, each with a value for every key"
        yield len(self.segments) == len(self.cells) and any(self.segments), "every cell needs its segments"
        for segments in self.segments:
            ordered = sorted(segments, key=lambda segment: segment.low)
            yield all(a.high < b.low for a, b in pairwise(ordered)), "segments of a cell overlap"
            yield not self.flip or all(part.high - part.low < MOST_FLIPPED for part in segments), "there are too many values"

    def cost(self, certificate: Certificate) -> Cost:
        if certificate.below.public:
            return FREE
        rows = certificate.rows
        worst = max(score_change(each.target, each.below, each.above) for segments in self.segments for each in segments)
        return choice_cost(rows * worst, self.scale, flip=self.flip, rounding=rows * ROUNDING)

    def release(self, context: Context, certificate: Certificate) -> Selected:
        """Choose a value in each segment of each cell; see `Select` for the score and its proof."""
        ranked = read(self.plan, self.cells, context)
        choose = flipped if self.flip else drawn
        return Selected(values=tuple(
            tuple(choose(values.between(segment.low, segment.high), segment, self.scale, context) for segment in segments)
            for values, segments in each(zip(ranked, self.segments, strict=True))))


def score_change(target: Target, below: int = 1, above: int = 1) -> int:
    """How much one row can change the difference between two integer scores of a segment; see `Select`."""
    a, rest = target.fraction.numerator, target.fraction.denominator - target.fraction.numerator
    return max(below * rest, above * a) + max(below * a, above * rest)


class Selected(Frozen):
    """For each cell, the chosen grid value of each segment."""

    values: tuple[tuple[int, ...], ...]


def distances(below: Integers, above: Integers, rows: int, segment: Segment) -> Integers:
    """b * d(v) of `Select`, for values with `below` of the segment's rows below them and `above` above them."""
    a, b = segment.target.fraction.numerator, segment.target.fraction.denominator
    shift, y, z = b * segment.target.offset, segment.below, segment.above
    if max(y, z) * (b * rows + abs(shift)) >= 2**62:
        below, above = below.astype(object), above.astype(object)
    return np.maximum(0, np.maximum(y * (b * below - a * rows - shift), z * (b * above - (b - a) * rows + shift)))


def drawn(values: Ranked, segment: Segment, scale: float, context: Context) -> int:
    """One draw of the exponential mechanism, interval by interval.

    All values between two adjacent data points have the same score, so an interval is drawn with its width as a factor of its
    weight, and then a value in it uniformly. Capped values are drawn as one group, which bounds the work.
    """
    starts, widths, far = intervals(values, segment, cap_of(segment, scale))
    distance, cap = excess(far, segment, scale)
    near = np.flatnonzero(distance < cap)
    rest = np.flatnonzero(distance == cap)
    scores = -distance[near] + scale * np.log(widths[near])
    others = int(widths[rest].sum())
    if others:
        scores = np.append(scores, -cap + scale * math.log(others))
    chosen = exponential(scores, scale, context.noise)
    if chosen < len(near):
        return int(starts[near[chosen]]) + context.noise.below(int(widths[near[chosen]]))
    position = context.noise.below(others)
    ends = np.cumsum(widths[rest])
    at = int(np.searchsorted(ends, position, side="right"))
    return int(starts[rest[at]]) + position - (int(ends[at - 1]) if at else 0)


def cap_of(segment: Segment, scale: float) -> int:
    """The cap on excess distances; see `excess`."""
    return min(math.ceil(scale * (math.log(segment.high - segment.low + 1) + 45)), 2**62)


def excess(distance: Integers, segment: Segment, scale: float) -> tuple[Integers, int]:
    """The amount by which the distance of each value exceeds the least one, capped; and the cap.

    All values beyond the cap together have a probability below 2^-60. The cap is the least distance plus a public number, and
    the least distance moves no more than any distance does; so capped distances move no more either. Subtracting the same
    number from all scores does not change the draw, and small scores are exact as floats.
    """
    cap = cap_of(segment, scale)
    return np.minimum(distance - distance.min(), cap).astype(np.int64), cap


def intervals(values: Ranked, segment: Segment, cap: int) -> tuple[Integers, Integers, Integers]:
    """The segment cut at its data points: starts and widths of the pieces, in order, and the distance of each.

    Data points at which the excess is above the cap are left out, so the two outermost pieces may span many of them.
    """
    first, last = near(values, segment, cap)
    rows, points = values.total, values.values[first:last]
    upto = values.upto[first : last + 1] - values.upto[0]
    edges = np.concatenate(([segment.low - 1], points, [segment.high + 1]))
    gap_starts, gap_widths = edges[:-1] + 1, np.diff(edges) - 1
    gaps = distances(upto, rows - upto, rows, segment)
    hits = distances(upto[:-1], rows - upto[1:], rows, segment)
    starts = np.concatenate((gap_starts, points))
    widths = np.concatenate((gap_widths, np.ones(len(points), dtype=np.int64)))
    distance = np.concatenate((gaps, hits))
    order = np.argsort(starts, kind="stable")
    kept = order[widths[order] > 0]
    return starts[kept], widths[kept], distance[kept]


def near(values: Ranked, segment: Segment, cap: int) -> tuple[int, int]:
    """Positions of the data points around which the excess may be below the cap: first <= i < last.

    Between the points i - 1 and i the distance is max(y x_i, -z x_i), x_i = b upto_i - (a n + b t), which rises with i; at
    point i it is max(0, y x_i, -z x_(i+1)). The least is max(0, y x_0, -z x_n): 0 where some x_i <= 0 <= x_(i+1), else that of
    an end, where either a gap or a point attains it. So with reach = least + cap, only gaps with |x_i| < reach matter, as y
    and z are 1 at least, and the points beside them. As reach > a n + b t - b n and reach >
    -(a n + b t), `low` is at most n, and `high` at least 0.
    """
    a, b = segment.target.fraction.numerator, segment.target.fraction.denominator
    rows, start = values.total, int(values.upto[0])
    middle = a * rows + b * segment.target.offset
    reach = max(0, -segment.below * middle, segment.above * (middle - b * rows)) + cap
    low, high = (middle - reach) // b + 1, -((-middle - reach) // b) - 1  # the least and the most rows below such a gap
    first = int(np.searchsorted(values.upto, start + max(low, 0), side="left"))
    last = int(np.searchsorted(values.upto, start + min(high, rows), side="right")) - 1
    return max(first - 1, 0), min(last + 1, len(values.values))


def flipped(values: Ranked, segment: Segment, scale: float, context: Context) -> int:
    """One draw of permute-and-flip, over every value of the segment."""
    every = np.arange(segment.low, segment.high + 1)
    upto = values.upto - values.upto[0]
    below = upto[np.searchsorted(values.values, every, side="left")]
    above = values.total - upto[np.searchsorted(values.values, every, side="right")]
    distance, _ = excess(distances(below, above, values.total, segment), segment, scale)
    return segment.low + context.noise.flip((-distance).tolist(), scale)
