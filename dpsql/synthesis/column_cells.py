"""Cells of a column of numbers, dates or times, and the noisy counts of their rows, by which bins are learned.

Where there are many rows, a column is cut into cells of equal width, besides cells of one value for the ends of its range and 0.
Cells with many rows are cut again, up to two times. Cells with few rows are put together, more of them the farther they are from
the middle of the rows, and are counted again: the tails of a distribution are then known in parts, whose noise is small.

Where noise allows only a few cells, they are counted once. Most of a range may be empty: so first, for a small part of the price,
quarters of the range are counted; if one has nearly all rows, its own quarters, and so on. The cells are parts of the last one.

Source: the idea of cutting only where there are rows is that of Zhang, Xiao and Xie, PrivTree: A Differentially Private Algorithm
for Hierarchical Decompositions, SIGMOD 2016, here with a fixed number of cuts, so that each cut has a known price.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpsql.frozen import Frozen, replace
from dpsql.synthesis.binned_views import ColumnParts, with_parts
from dpsql.synthesis.column_forms import BINS, SLIGHT, UncutColumn
from dpsql.synthesis.method import SynthesisTask
from dpsql.synthesis.methods.marginal_requests import noise_for
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.summands import Count
from dpsql.workload.factors import Array

FIRST = Fraction(1, 2)  # of a column's price, for the first of many cells
LATER = Fraction(1, 4), Fraction(1, 4)  # for those that are cut again
LOOK, LOOKS = Fraction(1, 10), 5  # of a column's price, for the counts of quarters; so many times at most
QUARTERS, NEARLY_ALL = 4, 0.85  # parts; and the share of all rows with which one is nearly all there is
CLEAR = 5  # standard errors of these counts: with fewer rows in all, what they show would be left to chance
PARTS = 16  # into which a cell with many rows is cut, at most
FEW = 8  # cells
WORTH = 2  # standard errors of a count: cells should have as many rows, on average
CUT = 3  # standard errors of the counts of its parts: a cell with fewer rows is not cut
FEWEST = 2  # cells


class Family(Frozen):
    """Cells, from the first to the last, that are the parts of one: its noisy count, and the variance of that."""

    first: int
    last: int
    count: float
    variance: float


class Cells(Frozen, eq=False):
    """The first number of each cell of a column, in order, the end of the last one, and the noisy count of each.

    variances  of the counts; infinite where nothing is known
    shares     of each cell in the variance of a sum of many: less than its own where the count of a larger cell is known
    families   of cells that were not counted yet
    """

    starts: tuple[float, ...]
    end: float
    counts: Array
    variances: Array
    shares: Array
    families: tuple[Family, ...] = ()

    @property
    def ends(self) -> tuple[float, ...]:
        return (*self.starts[1:], self.end)

    def counted_again(self, counts: Array, variance: float) -> Cells:
        """The cells with more counts, each combined with the one before, and those of a family with that of the whole: by least
        squares, which moves all parts by the same amount."""
        weights = 1 / (1 + self.variances / variance)  # of the counts before
        found, variances = weights * self.counts + (1 - weights) * counts, (1 - weights) * variance
        shares = np.minimum(self.shares, variances)
        for one in self.families:
            own, size = slice(one.first, one.last + 1), one.last + 1 - one.first
            of_sum = size * variance / (size * variance + one.variance)
            found[own] += (one.count - found[own].sum()) * of_sum / size
            shares[own] = one.variance * of_sum / size
        return replace(self, counts=found, variances=variances, shares=shares, families=())


class CountedColumn(Frozen, eq=False):
    """The cells of a column with their counts, and the part of the price that was spent. `wide` says that they are too wide for
    values to be drawn evenly from them."""

    cells: Cells
    spent: Fraction
    wide: bool


def counted_column(task: SynthesisTask, column: str, form: UncutColumn, total: float, share: Fraction) -> Generator[
        Request, Any, CountedColumn | None]:
    """Count the cells of a column for a part of the price of a task; None if noise would hide everything. `total`: the number of
    all rows, about."""
    if total < FEWEST * WORTH * error_for(task, share):
        return None
    most = math.floor(total / (WORTH * error_for(task, FIRST * share)))
    if most < FEW:
        return (yield from _few_cells(task, column, form, total, share))
    return (yield from _many_cells(task, column, form, most, share))


def error_for(task: SynthesisTask, part: Fraction) -> float:
    """The standard error of counts for this part of the price."""
    return math.sqrt(noise_for(task.table, task.price.part(part)).variance)


def _many_cells(task: SynthesisTask, column: str, form: UncutColumn, most: int, share: Fraction) -> Generator[
        Request, Any, CountedColumn]:
    cells = yield from _counted(task, column, form, uncounted(first_starts(form, most), _end(form)), FIRST * share)
    spent = FIRST * share
    for each in (part * share for part in LATER):
        error = error_for(task, each)
        finer = cut_again(form, cells, max(CUT * error, float(cells.counts.sum()) / BINS), WORTH * error)
        if finer.starts == cells.starts:
            break
        cells, spent = (yield from _counted(task, column, form, finer, each)), spent + each
    return CountedColumn(cells=cells, spent=spent, wide=False)


def _few_cells(task: SynthesisTask, column: str, form: UncutColumn, total: float, share: Fraction) -> Generator[
        Request, Any, CountedColumn]:
    spent, start, end = Fraction(0), form.low, _end(form)
    outside = [start]
    looks = LOOKS if total > CLEAR * error_for(task, LOOK * share) else 0
    while spent < looks * LOOK * share:
        quarters = parts_of_cell(form, start, end, QUARTERS)
        starts = sorted({*outside, *quarters})
        cells = yield from _counted(task, column, form, uncounted(starts, _end(form)), LOOK * share)
        spent += LOOK * share
        densest = int(np.argmax(cells.counts))
        if len(quarters) == 1 or cells.counts[densest] <= NEARLY_ALL * total:
            break
        outside, start, end = starts, cells.starts[densest], cells.ends[densest]
    inside = parts_of_cell(form, start, end, math.floor(total / (WORTH * error_for(task, share - spent))))
    cells = uncounted(with_single_values(form, [*outside, *inside]), _end(form))
    return CountedColumn(cells=(yield from _counted(task, column, form, cells, share - spent)), spent=share, wide=True)


def _end(form: UncutColumn) -> float:
    return form.high + (form.whole and form.unit)


def _counted(task: SynthesisTask, column: str, form: UncutColumn, cells: Cells, part: Fraction) -> Generator[Request, Any, Cells]:
    """The cells with their counts for a part of the price."""
    noise, starts = noise_for(task.table, task.price.part(part)), tuple(map(form.cut(()).value, cells.starts))
    view, (number,) = with_parts(task.table.view, [ColumnParts(column=column, starts=starts)])
    release: MeasuredSums = yield NoisySums(plan=GroupedSums(input=view, keys=(number,), summands=(Count(),)),
                                            cells=tuple((at,) for at in range(len(starts))), noises=(noise,))
    return cells.counted_again(np.array(release.totals[0][0], dtype=np.float64), noise.variance)


def uncounted(starts: Sequence[float], end: float) -> Cells:
    """Cells that were not counted yet."""
    unknown = np.full(len(starts), np.inf)
    return Cells(starts=tuple(starts), end=end, counts=np.zeros(len(starts)), variances=unknown, shares=unknown)


def cut_again(form: UncutColumn, cells: Cells, enough: float, each: float) -> Cells:
    """Cells with more rows than `enough` in parts of about `each` rows, whose counts are not known; before the first of them and
    after the last, cells are put together, the wider the farther away they are, as long as they have no more rows."""
    found, families = list[tuple[float, float, float, float]](), list[Family]()
    for first, last in _runs(cells, enough):
        own, count = slice(first, last + 1), float(cells.counts[first:last + 1].sum())
        many = min(PARTS, math.floor(count / each)) if cells.counts[first] > enough else 1
        parts = parts_of_cell(form, cells.starts[first], cells.ends[last], many)
        if len(parts) > 1:
            families.append(Family(first=len(found), last=len(found) + len(parts) - 1, count=count,
                                   variance=float(cells.variances[first])))
            found += ((part, 0.0, math.inf, math.inf) for part in parts)
        else:
            found.append((cells.starts[first], count, float(cells.variances[own].sum()), float(cells.shares[own].sum())))
    starts, counts, variances, shares = zip(*found, strict=True)
    return Cells(starts=starts, end=cells.end, counts=np.array(counts), variances=np.array(variances), shares=np.array(shares),
                 families=tuple(families))


def _runs(cells: Cells, enough: float) -> Iterator[tuple[int, int]]:
    """The first and last of the cells that become one, in order: one by itself between the first and the last that have more rows
    than enough."""
    dense, size = np.flatnonzero(cells.counts > enough), len(cells.starts)
    before, after = (int(dense[0]), int(dense[-1]) + 1) if len(dense) else (0, size)
    mirrored = _tail([-end for end in cells.ends[:before][::-1]], -cells.starts[0], cells.counts[:before][::-1], enough)
    yield from ((before - 1 - last, before - 1 - first) for first, last in reversed(mirrored))
    yield from ((at, at) for at in range(before, after))
    yield from ((after + first, after + last)
                for first, last in _tail(cells.starts[after:], cells.end, cells.counts[after:], enough))


def _tail(starts: Sequence[float], end: float, counts: Array, enough: float) -> list[tuple[int, int]]:
    """The first and last of the cells that become one, in a tail that begins with the first cell: it is no wider than it is away
    from there."""
    found = list[tuple[int, int]]()
    for at, limit in enumerate((*starts[1:], end)[:len(starts)]):
        first = found[-1][0] if found else at
        if first < at and limit - starts[first] <= starts[first] - starts[0] and counts[first:at + 1].sum() <= enough:
            found[-1] = first, at
        else:
            found.append((at, at))
    return found


def first_starts(form: UncutColumn, most: int) -> tuple[float, ...]:
    """Cells of equal width, at most so many, and cells of the single values at the ends and 0."""
    return with_single_values(form, parts_of_cell(form, form.low, form.high + (form.whole and form.unit), min(most, form.most)))


def with_single_values(form: UncutColumn, starts: Sequence[float]) -> tuple[float, ...]:
    """The first numbers of cells, and of those of the single values at the ends and 0."""
    found = {*starts, form.high}
    for value in (form.low, 0.0):
        if form.low <= value < form.high:
            found |= {value, form.on_grid(value + form.unit)}
    return tuple(sorted(one for one in found if form.low <= one <= form.high))


def parts_of_cell(form: UncutColumn, start: float, end: float, parts: int) -> list[float]:
    """The first numbers of parts of a cell, of equal width: as many as there are units."""
    count = min(parts, max(math.floor((end - start) / form.unit + SLIGHT), 1))
    inner = (form.on_grid(start + (end - start) * place / count) for place in range(1, count))
    return sorted({start, *(cut for cut in inner if start < cut < end)})
