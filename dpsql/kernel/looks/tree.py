"""A tree of boxes, split where noisy counts say so, and the noisy counts of its leaves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.looks.cells import Filled, numbered, read
from dpsql.kernel.looks.context import Context
from dpsql.requests import DiscreteLaplace, Leaves, Tree
from dpsql.requests.partition import height

Integers = NDArray[np.int64]


def look(request: Tree, context: Context) -> Leaves:
    """See `Tree`. Cells are put on a curve on which every box is a stretch, so that a count is a difference of two sums."""
    filled = numbered(read(request.cells, [axis.values for axis in request.axes], context),
                      [axis.numbers for axis in request.axes])
    ways, levels = len(request.axes), max(height(size) for size in filled.sizes)
    curve = Curve(filled, levels)
    boxes, leaves, counts = np.zeros(1, dtype=np.int64), [], []
    for depth in range(levels + 1):
        if not len(boxes):
            break
        rest = ways * (levels - depth)
        inside = curve.counts(boxes, rest)
        if depth < levels:
            biased = np.maximum(-request.decay, inside - depth * request.decay)
            split = np.array(context.noise.laplace(biased.tolist(), request.scale), dtype=np.int64) > 0
        else:
            split = np.zeros(len(boxes), dtype=bool)
        leaves.append(np.stack([boxes[~split] << rest, np.full((~split).sum(), levels - depth)]))
        counts.append(inside[~split])
        boxes = (boxes[split][:, None] * request.children + np.arange(request.children)).reshape(-1)
        boxes = boxes[curve.has_cells(boxes << max(0, rest - ways))]
    starts, sizes = np.concatenate(leaves, axis=1)
    lows = _spread_out(starts, ways, levels)
    highs = [np.minimum(low + (1 << sizes), size) for low, size in zip(lows, filled.sizes, strict=True)]
    exact = np.concatenate(counts).tolist()
    told = (context.noise.laplace(exact, request.leaf.scale) if isinstance(request.leaf, DiscreteLaplace)
            else context.noise.gaussian(exact, request.leaf.sigma))
    return Leaves(lows=tuple(zip(*(low.tolist() for low in lows), strict=True)),
                  highs=tuple(zip(*(high.tolist() for high in highs), strict=True)), counts=tuple(told))


class Curve:
    """Counts along the curve that takes the bits of all axes in turn, the highest first."""

    def __init__(self, filled: Filled, levels: int) -> None:
        self._sizes, self._levels = filled.sizes, levels
        places = _interleaved(filled.codes, levels)
        order = np.argsort(places, kind="stable")
        self._places, self._upto = places[order], np.append(0, np.cumsum(filled.sums[order]))

    def counts(self, boxes: Integers, rest: int) -> Integers:
        """The rows in each box, a stretch of 2^rest cells."""
        first, after = (np.searchsorted(self._places, end << rest) for end in (boxes, boxes + 1))
        return np.asarray(self._upto[after] - self._upto[first])

    def has_cells(self, starts: Integers) -> NDArray[np.bool_]:
        """Whether the first cell of a box is a cell of the axes; else none is."""
        lows = _spread_out(starts, len(self._sizes), self._levels)
        return np.asarray(np.all([low < size for low, size in zip(lows, self._sizes, strict=True)], axis=0))


def _interleaved(codes: Sequence[Integers], levels: int) -> Integers:
    places = np.zeros(len(codes[0]), dtype=np.int64)
    for bit in range(levels - 1, -1, -1):
        for code in codes:
            places = places << 1 | (code >> bit & 1)
    return places


def _spread_out(places: Integers, ways: int, levels: int) -> list[Integers]:
    """The codes of places on the curve."""
    codes = [np.zeros(len(places), dtype=np.int64) for _ in range(ways)]
    for at in range(ways * levels):
        axis = ways - 1 - at % ways
        codes[axis] |= (places >> at & 1) << (at // ways)
    return codes
