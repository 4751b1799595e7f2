"""A tree of boxes that is finer where there are more rows, and the counts of its leaves: PrivTree."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import FREE, Cost
from dpsql.trusted.field_types import Assumptions, Positive, Scale
from dpsql.trusted.measurements.buckets import Numbered, height
from dpsql.trusted.measurements.listed import are_axes
from dpsql.trusted.measurements.reading.occupied_cells import Filled, numbered, read
from dpsql.trusted.measurements.reading.request import Context
from dpsql.trusted.noise.integer import TOO_WIDE, Noise, added, fits_a_word
from dpsql.trusted.noise.tree import are_split, tree_cost
from dpsql.trusted.plan.certificate import Certificate, Sensitivity
from dpsql.trusted.plan.node import Node, Summary
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.summands import Count

MOST_CHILDREN = 2**10  # of a box, as they are listed for each that is split
BITS = 62  # of the number of a cell, over all axes together


class Tree(Frozen):
    """The leaves of a tree of boxes over the cells of some axes, and the noisy count of rows in each.

    The root is a cube of 2^h cells along each axis that contains all cells. For a box of depth i with c rows let b = max(-decay,
    c - i * decay); the box is split in the middle of every axis if b + discrete Laplace noise of `scale` is above 0, with fresh
    noise for each box. Single cells are not split, and boxes without cells of the axes are left out. The scale does not depend
    on the depth of the tree. Then every leaf's count is released with independent noise `leaf`.

    Cost of the tree: `noise.tree`, where by the certificate an entity changes at most D rows.

    Cost of the counts. Leaves do not overlap, so an entity moves their counts by D in l1 and in l2 at most.

    The proofs assume that axes are different columns and a row's cell is a function of the row alone; that
    each box is split into halves, and cell numbers over all axes fit into 62 bits; and that the decay is an integer whose
    product with the number of levels fits into 64 bits, so that no depth causes an error or wraps around.

    Source: Zhang, Xiao and Xie, PrivTree: A Differentially Private Algorithm for Hierarchical Decompositions, SIGMOD 2016
    (Theorem 3.1); here for noise on integers, with a bounded range for zCDP.
    """

    view: Node
    axes: tuple[Numbered, ...]
    scale: Scale
    decay: Positive
    leaf: Noise

    def assumptions(self) -> Assumptions:
        yield self.axes and are_axes(self.axes), "a tree needs one axis or more, of different columns"
        yield self.children <= MOST_CHILDREN, "a box that is split has too many halves"
        levels = max(height(axis.size) for axis in self.axes)
        yield len(self.axes) * levels <= BITS, "there are too many cells to number them in 64 bits"
        yield fits_a_word(self.leaf), TOO_WIDE
        yield self.decay <= 2**BITS // (levels + 1), "the decay is too large for the number of levels"
        yield self.decay >= self.scale * math.log(self.children), "an empty box must have less than one child on average"

    @property
    def children(self) -> int:
        return int(2 ** len(self.axes))

    @property
    def plan(self) -> GroupedSums:
        return GroupedSums(input=self.view, keys=(), summands=(Count(),))

    @property
    def cells(self) -> GroupedSums:
        """The counts of all cells that have rows."""
        return GroupedSums(input=self.view, keys=tuple(axis.column for axis in self.axes), summands=(Count(),))

    @property
    def plans(self) -> tuple[Summary, ...]:
        return (self.cells,)

    def cost(self, certificate: Certificate) -> Cost:
        if certificate.below.public:
            return FREE
        moved = certificate.l1
        return tree_cost(moved, self.scale, self.decay) + self.leaf.cost(Sensitivity(l1=moved, l2=moved))

    def release(self, context: Context, certificate: Certificate) -> Leaves:
        """Release the leaves; see `Tree`. Cells are ordered along a curve on which every box is an interval, so that its count is
        the difference of two cumulative sums."""
        filled = read(self.cells, [axis.values for axis in self.axes], context, [axis.rest for axis in self.axes])
        filled = numbered(filled, [axis.numbers for axis in self.axes])
        ways, levels = len(self.axes), max(height(size) for size in filled.sizes)
        curve = Curve(filled, levels)
        boxes, leaves, counts = np.zeros(1, dtype=np.int64), [], []
        for depth in range(levels + 1):
            if not len(boxes):
                break
            rest = ways * (levels - depth)
            inside = curve.counts(boxes, rest)
            if depth < levels:
                split = are_split(inside, depth, self.decay, self.scale, context.noise)
            else:
                split = np.zeros(len(boxes), dtype=bool)
            leaves.append(np.stack([boxes[~split] << rest, np.full((~split).sum(), levels - depth)]))
            counts.append(inside[~split])
            boxes = (boxes[split][:, None] * self.children + np.arange(self.children)).reshape(-1)
            boxes = boxes[curve.has_cells(boxes << max(0, rest - ways))]
        starts, sizes = np.concatenate(leaves, axis=1)
        lows = _spread_out(starts, ways, levels)
        highs = [np.minimum(low + (1 << sizes), size) for low, size in zip(lows, filled.sizes, strict=True)]
        exact = np.concatenate(counts).tolist()
        return Leaves(lows=tuple(zip(*(low.tolist() for low in lows), strict=True)),
                      highs=tuple(zip(*(high.tolist() for high in highs), strict=True)),
                      counts=tuple(added(exact, self.leaf, context.noise)))


class Leaves(Frozen):
    """Disjoint boxes that cover all cells, given along each axis by their first place and the place after their last; and their
    counts."""

    lows: tuple[tuple[int, ...], ...]
    highs: tuple[tuple[int, ...], ...]
    counts: tuple[int, ...]


Integers = NDArray[np.int64]


class Curve:
    """Counts along the curve that interleaves the bits of all axes, highest bits first."""

    def __init__(self, filled: Filled, levels: int) -> None:
        self._sizes, self._levels = filled.sizes, levels
        places = _interleaved(filled.codes, levels)
        order = np.argsort(places, kind="stable")
        self._places, self._upto = places[order], np.append(0, np.cumsum(filled.sums[order]))

    def counts(self, boxes: Integers, rest: int) -> Integers:
        """The number of rows in each box, which is an interval of 2^rest cells."""
        first, after = (np.searchsorted(self._places, end << rest) for end in (boxes, boxes + 1))
        return np.asarray(self._upto[after] - self._upto[first])

    def has_cells(self, starts: Integers) -> NDArray[np.bool_]:
        """Whether the first cell of each box is a cell of the axes; if not, none of its cells is."""
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
