"""Bins of numbers, dates and times that follow the rows: learned from noisy counts, before a method measures the table.

A range is cut into cells of equal width, besides cells of one value for its ends and 0, and their rows are counted with noise.
Cells with many rows are cut again, up to three times. Neighbouring cells then become bins of about equally many rows, and a
value that many rows share is a bin by itself. Values are drawn from the cells of a bin by their counts, as far as these are
not noise. Cells with few rows are put together, more of them the farther they are from the middle of the rows, and are counted
again: the tails of a distribution are then known in parts, whose noise is small. At both ends of the range, cells where noise
may be all there is are left empty.

All columns have an equal share of a fifth of the price, half of it for the first cells. As soon as the noise of one column is
too large to tell anything, all columns get bins of equal width, and what is left of the price is for the method. The counts are
released by the kernel like any others, and what is made of them is post-processing.

Source: the idea of cutting only where there are rows is that of Zhang, Xiao and Xie, PrivTree: A Differentially Private Algorithm
for Hierarchical Decompositions, SIGMOD 2016, here with a fixed number of cuts, so that each cut has a known price.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen, replace
from dpsql.synthesis.binned_views import ColumnParts, with_parts
from dpsql.synthesis.coarser_versions import grouped
from dpsql.synthesis.column_forms import BINS, SLIGHT, BinnedColumn, Form, PlannedForm, UncutColumn
from dpsql.synthesis.method import CodedColumn, CodedTable, SynthesisTask
from dpsql.synthesis.methods.marginal_requests import noise_for
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.summands import Count
from dpsql.workload.factors import Array

LEARNING = Fraction(1, 5)  # of the price
FIRST = Fraction(1, 2)  # of a column's part of that, for the first cells
CUTS = 3  # of a column, at most
SINGLES = Fraction(3, 10)  # of the price, which methods spend on counts of single columns, about
BLUR = 1  # of these counts' standard errors: no bin should have fewer rows
PARTS = 16  # into which a cell with many rows is cut
SEEN = 4  # standard errors of a count: fewer rows may be noise
TRIM = 1.5  # standard errors
SURE = 2.5  # standard errors: smaller counts of cells beside larger ones are taken to be noise
FEWEST = 4  # bins: where noise allows no more, nothing is learned


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


class LearnedTable(Frozen):
    """The table with a form for each column, and how much of the price was spent."""

    table: CodedTable
    forms: tuple[Form, ...]
    spent: Fraction


def learned(task: SynthesisTask, forms: Sequence[PlannedForm]) -> Generator[Request, Any, LearnedTable]:
    """Cut the uncut columns of a table into bins, for a part of its price."""
    table, spent, cut = task.table, Fraction(0), dict[int, BinnedColumn]()
    uncut = {at: form for at, form in enumerate(forms) if isinstance(form, UncutColumn)}
    error = math.sqrt(noise_for(table, task.price.part(SINGLES / len(task.columns))).variance)
    for at, form in uncut.items():
        cells, paid = yield from _counted_cells(table, table.columns[at].column, form, task.price, LEARNING / len(uncut))
        spent += paid
        if not _told(cells):
            cut = {other: each.equally() for other, each in uncut.items()}
            break
        cut[at] = binned(form, cells, BLUR * error)
    found = tuple(cut[at] if isinstance(form, UncutColumn) else form for at, form in enumerate(forms))
    if not cut:
        return LearnedTable(table=table, forms=found, spent=spent)
    view, columns = with_parts(table.view, (
        ColumnParts(column=table.columns[at].column, starts=tuple(map(form.value, form.edges[:-1]))) for at, form in cut.items()))
    coded = {at: coded_in_bins(column, form.name, len(form.edges) - 1, nullable=form.nullable)
             for column, (at, form) in zip(columns, cut.items(), strict=True)}
    return LearnedTable(forms=found, spent=spent, table=replace(table, view=view, columns=tuple(
        coded.get(at, column) for at, column in enumerate(table.columns))))


def learning_stage(task: SynthesisTask, names: Sequence[str]) -> str:
    """The stage in words, for EXPLAIN."""
    error = math.sqrt(noise_for(task.table, task.price.part(FIRST * LEARNING / len(names))).variance)
    return (f"bins for {', '.join(names)} that follow the rows: counts of cells, up to {CUTS} times for each, for at most a "
            f"{LEARNING.denominator}th of the price; standard error of the first ones {error:.3g}")


def parts_of(uncut: int) -> int:
    """Into about how many equal parts the price is divided where bins of so many columns are learned."""
    return math.ceil(uncut / (FIRST * LEARNING))


def coded_in_bins(column: str, name: str, bins: int, *, nullable: bool) -> CodedColumn:
    """A column whose values are the numbers of bins."""
    return CodedColumn(column=column, name=name, ordered=True, values=(*range(bins), *((None,) if nullable else ())))


def _counted_cells(table: CodedTable, column: str, form: UncutColumn, price: Cost, part: Fraction) -> Generator[
        Request, Any, tuple[Cells, Fraction]]:
    """The cells of a column with their counts, and the part of the price that was spent."""
    cells, spent = uncounted(first_starts(form), form.high + (form.whole and form.unit)), Fraction(0)
    for each in (FIRST * part, *((1 - FIRST) * part / (CUTS - 1),) * (CUTS - 1)):
        noise, many = noise_for(table, price.part(each)), len(cells.starts)
        starts = tuple(map(form.cut(()).value, cells.starts))
        view, (number,) = with_parts(table.view, [ColumnParts(column=column, starts=starts)])
        release: MeasuredSums = yield NoisySums(plan=GroupedSums(input=view, keys=(number,), summands=(Count(),)),
                                                cells=tuple((at,) for at in range(many)), noises=(noise,))
        cells, spent = cells.counted_again(np.array(release.totals[0][0], dtype=np.float64), noise.variance), spent + each
        following = cut_again(form, cells, max(SEEN * math.sqrt(noise.variance), float(cells.counts.sum()) / BINS))
        if not _told(cells) or spent == part or following.starts == cells.starts:
            break
        cells = following
    return cells, spent


def _told(cells: Cells) -> bool:
    """Whether counts of cells tell something: a few bins would have more rows than noise makes."""
    return bool(SEEN * math.sqrt(cells.variances.max()) <= cells.counts.sum() / FEWEST)


def uncounted(starts: Sequence[float], end: float) -> Cells:
    """Cells that were not counted yet."""
    unknown = np.full(len(starts), np.inf)
    return Cells(starts=tuple(starts), end=end, counts=np.zeros(len(starts)), variances=unknown, shares=unknown)


def cut_again(form: UncutColumn, cells: Cells, enough: float) -> Cells:
    """Cells with more rows than `enough` in parts, whose counts are not known; before the first of them and after the last, cells
    are put together, the wider the farther away they are, as long as they have no more rows."""
    found, families = list[tuple[float, float, float, float]](), list[Family]()
    for first, last in _runs(cells, enough):
        own, count = slice(first, last + 1), float(cells.counts[first:last + 1].sum())
        parts = _parts(form, cells.starts[first], cells.ends[last]) if cells.counts[first] > enough else []
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


def first_starts(form: UncutColumn) -> tuple[float, ...]:
    """Cells of equal width, and cells of the single values at the ends and 0."""
    found = {form.high, *_parts(form, form.low, form.high + (form.whole and form.unit), form.most)}
    for value in (form.low, 0.0):
        if form.low <= value < form.high:
            found |= {value, form.on_grid(value + form.unit)}
    return tuple(sorted(one for one in found if form.low <= one <= form.high))


def _parts(form: UncutColumn, start: float, end: float, parts: int = PARTS) -> list[float]:
    """The first numbers of parts of a cell, of equal width: as many as there are units."""
    count = min(parts, max(math.floor((end - start) / form.unit + SLIGHT), 1))
    inner = (form.on_grid(start + (end - start) * place / count) for place in range(1, count))
    return sorted({start, *(cut for cut in inner if start < cut < end)})


def binned(form: UncutColumn, cells: Cells, least: float) -> BinnedColumn:
    """The column in bins of about equally many rows, `least` at least, or of a single value that many rows share."""
    counts, widths = np.where(_seen(cells), cells.counts, 0.0), np.subtract(cells.ends, cells.starts)
    bins = max(min(form.most, math.floor(max(counts.sum(), 0.0) / least)), FEWEST) if least else form.most
    groups, errors = grouped(counts, bins), np.sqrt(cells.variances)
    middle, last = groups[_middle(counts)], int(groups[-1])
    shares = [_shares(counts[own], widths[own], errors[own], rising=bool(group < middle), outermost=group in (0, last))
              for group in range(last + 1) for own in [groups == group]]
    firsts = np.flatnonzero(np.diff(groups, prepend=-1))
    return form.cut([*(cells.starts[at] for at in firsts), cells.end], cells.starts, np.concatenate(shares).tolist())


def _middle(counts: Array) -> int:
    """The cell in the middle of the rows."""
    sums = np.cumsum(np.maximum(counts, 0.0))
    return int(np.searchsorted(sums, sums[-1] / 2))


def _seen(cells: Cells) -> NDArray[np.bool_]:
    """Which cells are not beyond the last ones, at both ends, where more rows are than noise explains."""
    found, certain = np.ones(len(cells.starts), dtype=bool), cells.counts > SEEN * np.sqrt(cells.variances)
    for way in (slice(None), slice(None, None, -1)):
        dark = np.cumsum(cells.counts[way]) <= TRIM * np.sqrt(np.cumsum(cells.shares[way]))
        tail = np.cumsum(certain[way]) == 0
        last = np.flatnonzero(dark & tail)
        found[way][:last[-1] + 1 if len(last) else 0] = False
    return found


def _shares(counts: Array, widths: Array, errors: Array, *, rising: bool, outermost: bool) -> Array:
    """How many rows each cell of a bin has, about. Cells whose counts noise explains have none if others are sure. If none are,
    and in tails, cells farther from the middle have no more rows per width than nearer ones."""
    from scipy.optimize import isotonic_regression  # loaded when used

    if len(counts) == 1:
        return np.ones(1)
    sure = counts > SURE * errors
    if sure.any() and not outermost:
        return np.where(sure, counts, 0.0)
    widths = np.maximum(widths, widths.max() * 1e-12)
    counts = _not_negative(isotonic_regression(counts / widths, weights=widths, increasing=rising).x * widths)
    return counts if counts.sum() > 0 else np.eye(len(counts))[-1 if rising else 0]


def _not_negative(counts: Array) -> Array:
    """The nearest numbers that are not negative and have the same sum, if it is positive."""
    falling = np.sort(counts)[::-1]
    surplus = (falling.cumsum() - max(float(counts.sum()), 0.0)) / np.arange(1, len(falling) + 1)
    return np.maximum(counts - float(surplus[falling >= surplus][-1]), 0.0)
