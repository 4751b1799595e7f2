"""Bins of numbers, dates and times that follow the rows: learned from noisy counts, before a method measures the table.

A range is cut into cells of equal width, besides cells of one value for its ends and 0, and their rows are counted with noise:
as few cells as the number of all rows, which is counted first, makes worth counting. Cells with many rows are cut again, up to
three times. Neighbouring cells then become bins of about equally many rows, and a value that many rows share is a bin by itself.
Values are drawn from the cells of a bin by their counts, as far as these are not noise. Cells with few rows are put together,
more of them the farther they are from the middle of the rows, and are counted again: the tails of a distribution are then known
in parts, whose noise is small. At both ends of the range, cells where noise may be all there is are left empty. Where cells are
few, a smooth curve through their counts says how many rows are in each part of a cell.

A fiftieth of the price is for the number of rows; all columns have an equal share of another 18 %, half of it for the first
cells, or most of it where there are too few rows to cut these again. Columns of which noise hides everything get few bins, of
equal width. The counts are released by the kernel like any others, and what is made of them is post-processing.

Sources: the idea of cutting only where there are rows is that of Zhang, Xiao and Xie, PrivTree: A Differentially Private Algorithm
for Hierarchical Decompositions, SIGMOD 2016, here with a fixed number of cuts, so that each cut has a known price; the curve is
that of Fritsch and Carlson, Monotone Piecewise Cubic Interpolation, SIAM Journal on Numerical Analysis 1980.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen, replace
from dpsql.models.noisy_marginals import nearest_counts
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
TOTAL = Fraction(1, 50)  # of the price, as a part of that, for the number of all rows
FIRST, MOST_OF_IT = Fraction(1, 2), Fraction(4, 5)  # of a column's part of the rest, for the first cells
CUTS = 3  # of a column, at most
SINGLES = Fraction(3, 10)  # of the price, which methods spend on counts of single columns, about
BLUR = 2  # of these counts' standard errors: no bin should have fewer rows
PARTS = 16  # into which a cell with many rows is cut, at most
WORTH = 2  # standard errors of a count: cells should have as many rows, on average
CUT = 3  # standard errors of the counts of cut cells: a cell with fewer rows is not cut
SEEN = 4  # standard errors of a count: fewer rows may be noise
TRIM = 1.5  # standard errors
SURE = 2.5  # standard errors: smaller counts of cells beside larger ones are taken to be noise
FEWEST = 2  # bins
FEW, SMOOTH = 16, 6  # first cells: fewer are smoothed, each in so many parts
LEAST_SHARE = 1e-9  # of rows, in a part
SINGLE_VALUES = 4  # cells: where noise allows fewer, single values are not counted


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
    table, cut = task.table, dict[int, BinnedColumn]()
    uncut = {at: form for at, form in enumerate(forms) if isinstance(form, UncutColumn)}
    known = tuple(form for form in forms if not isinstance(form, UncutColumn))
    if not uncut:
        return LearnedTable(table=table, forms=known, spent=Fraction(0))
    least = BLUR * _error(task, SINGLES / len(task.columns))
    total, spent = (yield from _total(task)), TOTAL
    for at, form in uncut.items():
        rounds = _rounds(task, total, len(uncut))
        most = math.floor(total / (WORTH * _error(task, rounds[0])))
        if most < FEWEST:
            cut[at] = form.equally(math.floor(total / least))
            continue
        cells, paid = yield from _counted_cells(task, table.columns[at].column, form, rounds, most)
        cut[at], spent = binned(form, cells, least, wide=most < FEW), spent + paid
    view, columns = with_parts(table.view, (
        ColumnParts(column=table.columns[at].column, starts=tuple(map(form.value, form.edges[:-1]))) for at, form in cut.items()))
    coded = {at: coded_in_bins(column, form.name, len(form.edges) - 1, nullable=form.nullable)
             for column, (at, form) in zip(columns, cut.items(), strict=True)}
    return LearnedTable(
        table=replace(table, view=view, columns=tuple(coded.get(at, column) for at, column in enumerate(table.columns))),
        forms=tuple(cut[at] if isinstance(form, UncutColumn) else form for at, form in enumerate(forms)), spent=spent)


def learning_stage(task: SynthesisTask, names: Sequence[str]) -> str:
    """The stage in words, for EXPLAIN."""
    return (f"bins for {', '.join(names)} that follow the rows: counts of cells, up to {CUTS} times for each, for at most a "
            f"{LEARNING.denominator}th of the price; standard error of the first ones "
            f"{_error(task, FIRST * _share(len(names))):.3g} or less")


def parts_of(uncut: int) -> int:
    """Into about how many equal parts the price is divided where bins of so many columns are learned."""
    return math.ceil(uncut / (FIRST * (LEARNING - TOTAL)))


def coded_in_bins(column: str, name: str, bins: int, *, nullable: bool) -> CodedColumn:
    """A column whose values are the numbers of bins."""
    return CodedColumn(column=column, name=name, ordered=True, values=(*range(bins), *((None,) if nullable else ())))


def _share(uncut: int) -> Fraction:
    """The part of the price for the cells of each of so many columns."""
    return (LEARNING - TOTAL) / uncut


def _error(task: SynthesisTask, part: Fraction) -> float:
    """The standard error of counts for this part of the price."""
    return math.sqrt(noise_for(task.table, task.price.part(part)).variance)


def _total(task: SynthesisTask) -> Generator[Request, Any, float]:
    """The noisy number of all rows."""
    release: MeasuredSums = yield NoisySums(plan=task.table.plan(()), cells=((),), noises=(
        noise_for(task.table, task.price.part(TOTAL)),))
    return float(release.totals[0][0][0])


def _rounds(task: SynthesisTask, total: float, uncut: int) -> tuple[Fraction, ...]:
    """The parts of the price for the first cells of a column and for each time that cells are cut."""
    share = _share(uncut)
    later = (1 - FIRST) * share / (CUTS - 1)
    first = FIRST if total > 2 * SEEN * _error(task, later) else MOST_OF_IT
    return (first * share, *((1 - first) * share / (CUTS - 1),) * (CUTS - 1))


def _counted_cells(task: SynthesisTask, column: str, form: UncutColumn, rounds: Sequence[Fraction], most: int) -> Generator[
        Request, Any, tuple[Cells, Fraction]]:
    """The cells of a column with their counts, at most about so many at first, and the part of the price that was spent."""
    table, spent = task.table, Fraction(0)
    cells = uncounted(first_starts(form, most), form.high + (form.whole and form.unit))
    for number, each in enumerate(rounds, 1):
        noise, many = noise_for(table, task.price.part(each)), len(cells.starts)
        starts = tuple(map(form.cut(()).value, cells.starts))
        view, (counted,) = with_parts(table.view, [ColumnParts(column=column, starts=starts)])
        release: MeasuredSums = yield NoisySums(plan=GroupedSums(input=view, keys=(counted,), summands=(Count(),)),
                                                cells=tuple((at,) for at in range(many)), noises=(noise,))
        cells, spent = cells.counted_again(np.array(release.totals[0][0], dtype=np.float64), noise.variance), spent + each
        if number == len(rounds):
            break
        following = cut_again(form, cells, _error(task, rounds[number]))
        if following.starts == cells.starts:
            break
        cells = following
    return cells, spent


def uncounted(starts: Sequence[float], end: float) -> Cells:
    """Cells that were not counted yet."""
    unknown = np.full(len(starts), np.inf)
    return Cells(starts=tuple(starts), end=end, counts=np.zeros(len(starts)), variances=unknown, shares=unknown)


def cut_again(form: UncutColumn, cells: Cells, error: float) -> Cells:
    """Cells with many rows in parts, whose counts are not known and will have this standard error; before the first of them and
    after the last, cells are put together, the wider the farther away they are, as long as they have no more rows."""
    enough = max(CUT * error, float(cells.counts.sum()) / BINS)
    found, families = list[tuple[float, float, float, float]](), list[Family]()
    for first, last in _runs(cells, enough):
        own, count = slice(first, last + 1), float(cells.counts[first:last + 1].sum())
        many = min(PARTS, math.floor(count / (WORTH * error))) if cells.counts[first] > enough else 1
        parts = _parts(form, cells.starts[first], cells.ends[last], many)
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
    found = {*_parts(form, form.low, form.high + (form.whole and form.unit), min(most, form.most))}
    if most < SINGLE_VALUES:
        return tuple(sorted(found))
    found.add(form.high)
    for value in (form.low, 0.0):
        if form.low <= value < form.high:
            found |= {value, form.on_grid(value + form.unit)}
    return tuple(sorted(one for one in found if form.low <= one <= form.high))


def _parts(form: UncutColumn, start: float, end: float, parts: int) -> list[float]:
    """The first numbers of parts of a cell, of equal width: as many as there are units."""
    count = min(parts, max(math.floor((end - start) / form.unit + SLIGHT), 1))
    inner = (form.on_grid(start + (end - start) * place / count) for place in range(1, count))
    return sorted({start, *(cut for cut in inner if start < cut < end)})


def binned(form: UncutColumn, cells: Cells, least: float, *, wide: bool = False) -> BinnedColumn:
    """The column in bins of about equally many rows, `least` at least, or of a single value that many rows share; `wide` says
    that its cells are too wide to draw values evenly from them."""
    if wide:
        cells = _without_doubtful_values(form, cells)
    counts, widths = np.where(_seen(cells), cells.counts, 0.0), np.subtract(cells.ends, cells.starts)
    bins = max(min(form.most, math.floor(max(counts.sum(), 0.0) / least)), FEWEST)
    groups, errors = grouped(counts, bins), np.sqrt(cells.variances)
    middle, last = groups[_middle(counts)], int(groups[-1])
    shares = [_shares(counts[own], widths[own], errors[own], rising=bool(group < middle), outermost=group in (0, last))
              for group in range(last + 1) for own in [groups == group]]
    edges = [*(cells.starts[at] for at in np.flatnonzero(np.diff(groups, prepend=-1))), cells.end]
    within = np.concatenate(shares)
    if not wide:
        return form.cut(edges, cells.starts, within.tolist())
    sizes = _not_negative(np.bincount(groups, counts)) / np.bincount(groups, within)
    return form.cut(edges, *smoothed(form, cells, within * sizes[groups]))


def smoothed(form: UncutColumn, cells: Cells, counts: Array) -> tuple[list[float], list[float]]:
    """Parts of the cells, by their first numbers, and how many rows are in each: by a curve of the rows up to each number, smooth
    but for single values."""
    from scipy.interpolate import PchipInterpolator  # loaded when used

    wide = np.subtract(cells.ends, cells.starts) > form.unit
    if not wide.any():
        return list(cells.starts), np.maximum(counts, LEAST_SHARE).tolist()
    knots = [*np.array(cells.starts)[wide].tolist(), cells.ends[np.flatnonzero(wide)[-1]]]
    curve = PchipInterpolator(knots, np.append(0.0, np.cumsum(counts[wide])))
    starts, shares = list[float](), list[float]()
    for start, end, count, is_wide in zip(cells.starts, cells.ends, counts.tolist(), wide.tolist(), strict=True):
        parts = _parts(form, start, end, SMOOTH) if is_wide else [start]
        starts += parts
        shares += np.diff(curve([*parts, end])).tolist() if is_wide else [count]
    return starts, np.maximum(shares, LEAST_SHARE).tolist()


def _without_doubtful_values(form: UncutColumn, cells: Cells) -> Cells:
    """The cells, with those of a single value that noise explains put together with the cell after them, or before the end."""
    wide = np.subtract(cells.ends, cells.starts) > form.unit
    doubtful = ~wide & (cells.counts <= SURE * np.sqrt(cells.variances))
    begins = np.ones(len(wide), dtype=bool)
    begins[1:] = ~(doubtful[:-1] & wide[1:])
    begins[-1] &= not (len(wide) > 1 and doubtful[-1] and wide[-2])
    groups = np.cumsum(begins) - 1
    counts, variances, shares = (np.bincount(groups, each) for each in (cells.counts, cells.variances, cells.shares))
    starts = tuple(start for start, is_first in zip(cells.starts, begins.tolist(), strict=True) if is_first)
    return Cells(starts=starts, end=cells.end, counts=counts, variances=variances, shares=shares)


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
    return nearest_counts(counts, max(float(counts.sum()), 0.0))
