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
    if b * rows + abs(shift) >= 2**62:
        below, above = below.astype(object), above.astype(object)
    return np.maximum(0, np.maximum(b * below - a * rows - shift, b * above - (b - a) * rows + shift))


def drawn(values: Ranked, segment: Segment, scale: float, context: Context) -> int:
    """One draw of the exponential mechanism, interval by interval.

    All values between two neighbouring data points have one score, so an interval is drawn with the weight of its width and
    a value in it uniformly; what is capped is drawn as one, which bounds the work.
    """
    starts, widths, far = intervals(values, segment)
    distance, cap = excess(far, segment, scale)
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


def excess(distance: Integers, segment: Segment, scale: float) -> tuple[Integers, int]:
    """How much farther each value is than the nearest, capped; and the cap, which all that are too far share.

    Beyond the cap all values together have a probability below 2^-60. The cap is a public number above the least distance,
    and that moves no more than any distance does; so capped distances move no more either. No draw depends on what is taken
    from all scores alike, and small scores lose nothing as floats.
    """
    cap = min(math.ceil(scale * (math.log(segment.high - segment.low + 1) + 45)), 2**62)
    return np.minimum(distance - distance.min(), cap).astype(np.int64), cap


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
    distance, _ = excess(distances(below, above, values.total, segment), segment, scale)
    return segment.low + context.noise.flip([-int(part) for part in distance], scale)
