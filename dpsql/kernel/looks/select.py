"""The exponential mechanism and permute-and-flip over ranks."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.looks.context import Context
from dpsql.kernel.looks.ranks import Integers, Ranked, read
from dpsql.requests import Segment, Select, Selected

MOST_FLIPPED = 2**17
ONE_STEP = 2**10


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
    starts, widths, far = intervals(values, segment, cap_of(segment, scale))
    distance, cap = excess(far, segment, scale)
    near = np.flatnonzero(distance < cap)
    rest = np.flatnonzero(distance == cap)
    scores = -distance[near] + scale * np.log(widths[near])
    others = int(widths[rest].sum())
    if others:
        scores = np.append(scores, -cap + scale * math.log(others))
    chosen = draw(scores, scale, context)
    if chosen < len(near):
        return int(starts[near[chosen]]) + context.noise.below(int(widths[near[chosen]]))
    position = context.noise.below(others)
    ends = np.cumsum(widths[rest])
    at = int(np.searchsorted(ends, position, side="right"))
    return int(starts[rest[at]]) + position - (int(ends[at - 1]) if at else 0)


def draw(scores: NDArray[np.float64], scale: float, context: Context) -> int:
    """An index with probability proportional to exp(score / scale).

    Of many candidates first a block is drawn, by the weight of all of its candidates, then one of the block: the product of
    the two probabilities is the one that is wanted, up to the rounding of the block's weight. That is a sum of at most 2^13
    positive terms, each within 2^-46 of what it stands for, so it is within 2^-40, and all stays inside the `ROUNDING` of
    `requests.Select`.
    """
    if len(scores) <= ONE_STEP:
        return context.noise.exponential(scores.tolist(), scale)
    firsts = np.arange(0, len(scores), min(2**13, math.isqrt(len(scores))))
    ends = np.append(firsts[1:], len(scores))
    best = np.maximum.reduceat(scores, firsts)
    weights = np.add.reduceat(np.exp((scores - np.repeat(best, ends - firsts)) / scale), firsts)
    block = context.noise.exponential((best + scale * np.log(weights)).tolist(), scale)
    first = int(firsts[block])
    return first + context.noise.exponential(scores[first : int(ends[block])].tolist(), scale)


def cap_of(segment: Segment, scale: float) -> int:
    """The excess of distance that all share who have more; see `excess`."""
    return min(math.ceil(scale * (math.log(segment.high - segment.low + 1) + 45)), 2**62)


def excess(distance: Integers, segment: Segment, scale: float) -> tuple[Integers, int]:
    """How much farther each value is than the nearest, capped; and the cap, which all that are too far share.

    Beyond the cap all values together have a probability below 2^-60. The cap is a public number above the least distance,
    and that moves no more than any distance does; so capped distances move no more either. No draw depends on what is taken
    from all scores alike, and small scores lose nothing as floats.
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

    Between the points i - 1 and i the distance is |x_i|, x_i = b upto_i - (a n + b t), which rises with i; at point i it is
    max(0, x_i, -x_(i+1)). The least is max(0, x_0, -x_n): 0 where some x_i <= 0 <= x_(i+1), else that of an end, where either
    a gap or a point attains it. So with reach = least + cap, only gaps with |x_i| < reach matter, and the points beside them.
    """
    a, b = segment.target.fraction.numerator, segment.target.fraction.denominator
    rows, start = values.total, int(values.upto[0])
    middle = a * rows + b * segment.target.offset
    reach = max(0, -middle, middle - b * rows) + cap
    low, high = (middle - reach) // b + 1, -((-middle - reach) // b) - 1  # the least and the most rows below such a gap
    first = int(np.searchsorted(values.upto, start + min(max(low, 0), rows + 1), side="left"))
    last = int(np.searchsorted(values.upto, start + min(max(high, -1), rows), side="right")) - 1
    return max(first - 1, 0), min(last + 1, len(values.values))


def flipped(values: Ranked, segment: Segment, scale: float, context: Context) -> int:
    """One draw of permute-and-flip, over every value of the segment."""
    if segment.high - segment.low >= MOST_FLIPPED:
        raise ValueError("too many values for permute-and-flip")
    every = np.arange(segment.low, segment.high + 1)
    upto = values.upto - values.upto[0]
    below = upto[np.searchsorted(values.values, every, side="left")]
    above = values.total - upto[np.searchsorted(values.values, every, side="right")]
    distance, _ = excess(distances(below, above, values.total, segment), segment, scale)
    return segment.low + context.noise.flip((-distance).tolist(), scale)
