"""The exponential mechanism and permute-and-flip over ranks."""

from __future__ import annotations

import math

import numpy as np

from dpsql.kernel.looks.context import Context
from dpsql.kernel.looks.ranks import Integers, Ranked, read
from dpsql.requests import Segment, Select, Selected

MOST_FLIPPED = 2**17


def look(request: Select, context: Context) -> Selected:
    """Choose a value in each segment of each cell; see `Select` for the score and its proof."""
    if len(request.segments) != len(request.cells):
        raise ValueError("segments are listed for every cell")
    ranked = read(request.plan, request.cells, context)
    choose = flipped if request.flip else drawn
    return Selected(values=tuple(
        tuple(choose(values.between(segment.low, segment.high), segment, request.scale, context) for segment in segments)
        for values, segments in zip(ranked, request.segments, strict=True)))


def distances(below: Integers, above: Integers, rows: int, segment: Segment) -> Integers:
    """b * d(v) of `Select`, for values with so many of the segment's rows below and above them."""
    a, b = segment.target.fraction.numerator, segment.target.fraction.denominator
    shift = b * segment.target.offset
    return np.maximum(0, np.maximum(b * below - a * rows - shift, b * above - (b - a) * rows + shift))


def drawn(values: Ranked, segment: Segment, scale: float, context: Context) -> int:
    """One draw of the exponential mechanism, interval by interval.

    All values between two neighbouring data points have one score, so an interval is drawn with the weight of its width and
    a value in it uniformly. Scores are capped at a public distance beyond which all values together have a probability
    below 2^-60 (capping is 1-Lipschitz, so the cost is unchanged); what is capped is drawn as one, which bounds the work.
    """
    width = segment.high - segment.low + 1
    cap = math.ceil(scale * (math.log(width) + 45)) + segment.target.fraction.denominator * abs(segment.target.offset)
    starts, widths, far = intervals(values, segment)
    distance = np.minimum(far, cap)
    near = np.flatnonzero(distance < cap)
    rest = np.flatnonzero(distance == cap)
    scores = [float(score) for score in -distance[near] + scale * np.log(widths[near])]
    others = int(widths[rest].sum())
    if others:
        scores.append(-cap + scale * math.log(others))
    chosen = context.noise.exponential(scores, scale)
    if chosen < len(near):
        return int(starts[near[chosen]]) + context.noise.below(int(widths[near[chosen]]))
    position = context.noise.below(others)
    ends = np.cumsum(widths[rest])
    at = int(np.searchsorted(ends, position, side="right"))
    return int(starts[rest[at]]) + position - (int(ends[at - 1]) if at else 0)


def intervals(values: Ranked, segment: Segment) -> tuple[Integers, Integers, Integers]:
    """The segment cut at its data points: starts and widths of the pieces, in order, and the distance of each."""
    points, rows = values.values, values.total
    upto = np.concatenate(([0], np.cumsum(values.counts)))
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


def flipped(values: Ranked, segment: Segment, scale: float, context: Context) -> int:
    """One draw of permute-and-flip, over every value of the segment."""
    if segment.high - segment.low >= MOST_FLIPPED:
        raise ValueError("too many values for permute-and-flip")
    every = np.arange(segment.low, segment.high + 1)
    upto = np.concatenate(([0], np.cumsum(values.counts)))
    below = upto[np.searchsorted(values.values, every, side="left")]
    above = values.total - upto[np.searchsorted(values.values, every, side="right")]
    scores = -distances(below, above, values.total, segment)
    return segment.low + context.noise.flip([int(score) for score in scores], scale)
