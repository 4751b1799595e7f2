"""Linear queries over the cells of a view, measured as blocks of integer queries over its marginals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen, replace
from dpsql.trusted.accounting.cost import FREE, Cost, concentrated, pure
from dpsql.trusted.field_types import Assumptions, Natural
from dpsql.trusted.matrices.blocks import IntegerBlock, Noise, sensitivity_of
from dpsql.trusted.matrices.matrices import Exact
from dpsql.trusted.measurements.listed import adds_one_number, are_axes
from dpsql.trusted.measurements.noisy_sums import MOST_ANSWERS
from dpsql.trusted.measurements.reading.occupied_cells import NOWHERE, WORDS, Filled, numbered, read
from dpsql.trusted.measurements.reading.request import Context, OfOnePlan
from dpsql.trusted.plan.cells import different
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.trusted.plan.node import Node, Summary
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.summands import Count, GridSum

LARGEST = 2**26  # cells of a marginal
MOST_READ = 2**32  # cells of the marginals of all blocks together


class Axis(Frozen):
    """A column of the view and its values, including NULL if it may occur.

    rest     the index of the value under which rows with other values are counted; None if they are in no cell
    counted  the indices of the values that have cells, in order; None for all of them
    """

    column: str
    values: tuple[Value, ...]
    rest: Natural | None = None
    counted: tuple[Natural, ...] | None = None

    def assumptions(self) -> Assumptions:
        yield different(zip(self.values)), "each value of an axis must be listed once"
        yield self.rest is None or self.rest < len(self.values), "the rest is counted with one of the values"
        if self.counted is not None:
            yield self.counted and self.counted[-1] < len(self.values), "an axis needs cells, each with a value"
            yield all(before < place for before, place in pairwise(self.counted)), "the cells of an axis must be in order"

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(self.values) if self.counted is None else len(self.counted)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The number of the cell that counts each value; NOWHERE if none does."""
        if self.counted is None:
            return tuple(range(len(self.values)))
        cells = dict(zip(self.counted, range(len(self.counted)), strict=True))
        return tuple(cells.get(place, NOWHERE) for place in range(len(self.values)))


class MergedAxis(Frozen):
    """A further axis of a measurement, whose cells merge those of an earlier one.

    of     the place of that axis
    cells  for each cell of that axis, the number of the cell here
    """

    of: Natural
    cells: tuple[Natural, ...]

    @property
    def size(self) -> int:
        """The number of cells."""
        return max(self.cells, default=-1) + 1


class OfCells(OfOnePlan):
    """A measurement of the numbers of rows in the cells of some axes."""

    __slots__ = ()
    view: Node
    axes: tuple[Axis, ...]

    @property
    def plan(self) -> GroupedSums:  # type: ignore[override]
        """The number of rows in each cell that is not empty."""
        return GroupedSums(input=self.view, keys=tuple(axis.column for axis in self.axes), summands=(Count(),))


def occupied(plan: GroupedSums, axes: Sequence[Axis], context: Context, merged: Sequence[MergedAxis] = ()) -> Filled:
    """The cells of these axes that have rows, and their sums."""
    filled = read(plan, [axis.values for axis in axes], context, [axis.rest for axis in axes])
    if any(axis.counted is not None for axis in axes):
        filled = numbered(filled, [axis.numbers for axis in axes])
    return replace(filled, sizes=(*filled.sizes, *(each.size for each in merged)), merged=_from_axes(len(axes), merged))


def _from_axes(axes: int, merged: Sequence[MergedAxis]) -> tuple[tuple[int, NDArray[Any]], ...]:
    """For each further axis the place of the axis that it merges, at last, and its own code for each code there."""
    found = list[tuple[int, NDArray[Any]]]()
    for each in merged:
        of, codes = each.of, np.array(each.cells, dtype=np.min_scalar_type(each.size))
        if of >= axes:
            of, before = found[of - axes]
            codes = codes[before]
        found.append((of, codes))
    return tuple(found)


class Blocks(Frozen):
    """For every block, integer queries on the marginal over its axes; each answer gets independent noise of the block's scale.

    With `line`, all cells are one axis, the last column's values changing fastest.

    Cost. A row adds a number of at most l1 (the summand's bound) to at most one cell of x, so the answers of a block move by at
    most l1 times the column of that cell in the block's matrix; an entity changes k rows, and k l1 is the summand's bound in the
    certificate. The cell is a function of the row alone, whatever values the axes list. Laplace noise costs epsilon = k l1 S,
    with S the largest over all cells of the sum over blocks of (L1 norm of the cell's column) / scale: the losses of all answers
    add up, and rows add up by the triangle inequality. Gaussian noise costs rho = (k l1)^2 S / 2, with S the same for (L2 norm /
    scale)^2: the k rows move the vector of all answers, each in units of its scale, by at most k l1 sqrt(S). S is computed from
    the integer matrices, rounded upwards (`matrices.blocks.sensitivity_of`).

    The blocks hold these matrices, and both `release` and the cost use them. How blocks were chosen, and how their answers are
    used, does not matter.
    """

    view: Node
    axes: tuple[Axis, ...]
    summand: Count | GridSum
    blocks: tuple[IntegerBlock, ...]
    noise: Noise
    line: bool = False

    def assumptions(self) -> Assumptions:
        yield are_axes(self.axes), "axes must be different columns of the view"
        yield adds_one_number(self.summand), "the summand must be a count or a sum of one number per row"
        yield all(block.fits(self.sizes) for block in self.blocks), "a block does not fit the cells"
        cells, rows = [block.cells for block in self.blocks], sum(block.rows for block in self.blocks)
        few = max(cells, default=0) <= LARGEST and sum(cells) <= MOST_READ and rows <= MOST_ANSWERS
        yield few, "the blocks have too many cells or answers"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each axis of the blocks."""
        sizes = tuple(axis.size for axis in self.axes)
        return (math.prod(sizes),) if self.line else sizes

    @property
    def plan(self) -> GroupedSums:
        """The sum over all rows: its certificate bounds what an entity adds to the cells."""
        return GroupedSums(input=self.view, keys=(), summands=(self.summand,))

    @property
    def cells(self) -> GroupedSums:
        """The sums of all cells that have rows."""
        return GroupedSums(input=self.view, keys=tuple(axis.column for axis in self.axes), summands=(self.summand,))

    @property
    def plans(self) -> tuple[Summary, ...]:
        return (self.cells,)

    def cost(self, certificate: Certificate) -> Cost:
        if certificate.below.public:
            return FREE
        worst = sensitivity_of(self.blocks, self.noise).value
        moved = certificate.l1
        return pure(moved * worst) if self.noise == "laplace" else concentrated(moved * moved * worst / 2)

    def release(self, context: Context, certificate: Certificate) -> Blocked:
        """Read the non-empty cells once, and for each block apply its matrix, from which the cost is computed too, to their
        marginal."""
        filled = occupied(self.cells, self.axes, context)
        draw = context.noise.laplace if self.noise == "laplace" else context.noise.gaussian
        found = []
        for block in self.blocks:
            line = self.line and block.axes  # all cells are one axis
            table = filled.marginal(range(len(self.axes))).reshape(-1) if line else filled.marginal(block.axes)
            exact = block.answers(table, filled.total).reshape(-1)
            found.append(with_noise(exact, draw([0] * len(exact), float(block.scale))))
        return Blocked(answers=tuple(found))


class Blocked(Frozen):
    """For each block, its noisy answers, with the last matrix's rows changing fastest."""

    answers: tuple[tuple[int, ...], ...]


def with_noise(exact: Exact, noise: Sequence[int]) -> tuple[int, ...]:
    """Sums plus their noise. Both fit into 64 bits, but their sum may not."""
    drawn = np.array(noise, dtype=np.int64)
    small = exact.dtype != object and max(int(drawn.max(initial=0)), -int(drawn.min(initial=0))) < WORDS
    return tuple((exact + drawn if small else exact.astype(object) + drawn.astype(object)).tolist())
