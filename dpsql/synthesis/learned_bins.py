"""Bins of numbers, dates and times that follow the rows: learned from noisy counts, before a method measures the table.

A range is cut into cells of equal width, besides cells of one value for its ends and 0, and their rows are counted with noise.
Cells with many rows are cut again, up to three times. Neighbouring cells then become bins of about equally many rows, and a
value that many rows share is a bin by itself. Values are drawn from the cells of a bin by their counts. In the outermost bins,
the tails of a distribution, cells where noise may be all there is are left empty, and the others fall away from the middle.

All columns have an equal share of a fifth of the price, half of it for the first cells. Where the noise is too large to tell
anything, what is left of it is for the method. The counts are released by the kernel like any others, and what is made of them
is post-processing.

Source: the idea of cutting only where there are rows is that of Zhang, Xiao and Xie, PrivTree: A Differentially Private Algorithm
for Hierarchical Decompositions, SIGMOD 2016, here with a fixed number of cuts, so that each cut has a known price.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen, replace
from dpsql.synthesis.binned_views import Parts, with_parts
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
BLUR = 1  # of these counts' standard errors: fewer rows should no bin have
PARTS = 16  # into which a cell with many rows is cut
SEEN = 4  # standard errors of a count: fewer rows may be noise
TRIM = 1.0  # standard errors
FEWEST = 4  # bins: where noise allows no more, nothing is learned


class Cells(Frozen, eq=False):
    """The first number of each cell of a column, in order, the end of the last one, and the noisy count of each."""

    starts: tuple[float, ...]
    end: float
    counts: tuple[float, ...]
    error: float = 0.0

    @property
    def ends(self) -> tuple[float, ...]:
        return (*self.starts[1:], self.end)


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
        cut[at], spent = _binned(form, cells, BLUR * error), spent + paid
    found = tuple(cut[at] if isinstance(form, UncutColumn) else form for at, form in enumerate(forms))
    if not cut:
        return LearnedTable(table=table, forms=found, spent=spent)
    view, columns = with_parts(table.view, (
        Parts(column=table.columns[at].column, starts=tuple(map(form.value, form.edges[:-1]))) for at, form in cut.items()))
    coded = {at: coded_in_bins(column, form.name, len(form.edges) - 1, nullable=form.nullable)
             for column, (at, form) in zip(columns, cut.items(), strict=True)}
    return LearnedTable(forms=found, spent=spent, table=replace(table, view=view, columns=tuple(
        coded.get(at, column) for at, column in enumerate(table.columns))))


def learning_stage(task: SynthesisTask, names: Sequence[str]) -> str:
    """The stage in words, for EXPLAIN."""
    error = math.sqrt(noise_for(task.table, task.price.part(FIRST * LEARNING / len(names))).variance)
    return (f"bins for {', '.join(names)} that follow the rows: counts of cells, up to {CUTS} times for each, for at most a "
            f"{LEARNING.denominator}th of the price; standard error of the first ones {error:.3g}")


def coded_in_bins(column: str, name: str, bins: int, *, nullable: bool) -> CodedColumn:
    """A column whose values are the numbers of bins."""
    return CodedColumn(column=column, name=name, ordered=True, values=(*range(bins), *((None,) if nullable else ())))


def _counted_cells(table: CodedTable, column: str, form: UncutColumn, price: Cost, part: Fraction) -> Generator[
        Request, Any, tuple[Cells, Fraction]]:
    """The cells of a column with their counts, and the part of the price that was spent."""
    cells = Cells(starts=_first_starts(form), end=form.high + (form.whole and form.unit), counts=())
    spent, each, fresh = Fraction(0), FIRST * part, list(range(len(cells.starts)))
    while fresh and spent < part:
        noise = noise_for(table, price.part(each))
        view, (number,) = with_parts(table.view, [Parts(column=column, starts=tuple(map(form.cut(()).value, cells.starts)))])
        release: MeasuredSums = yield NoisySums(plan=GroupedSums(input=view, keys=(number,), summands=(Count(),)),
                                                cells=tuple((at,) for at in fresh), noises=(noise,))
        spent, each = spent + each, (part - FIRST * part) / (CUTS - 1)
        counts = dict(enumerate(cells.counts)) | dict(zip(fresh, map(float, release.totals[0][0]), strict=True))
        error, numbers = math.sqrt(noise.variance), tuple(counts[at] for at in range(len(cells.starts)))
        cells, many = replace(cells, counts=numbers, error=error), max(SEEN * error, sum(numbers) / BINS)
        if many > sum(cells.counts) / FEWEST:
            break
        cells, fresh = _cut_again(form, cells, many)
    return cells, spent


def _cut_again(form: UncutColumn, cells: Cells, many: float) -> tuple[Cells, list[int]]:
    """Cells with many rows in parts, whose counts are not known yet, and where these are."""
    starts, counts, fresh = list[float](), list[float](), list[int]()
    for start, end, count in zip(cells.starts, cells.ends, cells.counts, strict=True):
        parts = _parts(form, start, end) if count > many else [start]
        if len(parts) > 1:
            fresh += range(len(starts), len(starts) + len(parts))
        starts += parts
        counts += [count / len(parts)] * len(parts)
    return replace(cells, starts=tuple(starts), counts=tuple(counts)), fresh


def _first_starts(form: UncutColumn) -> tuple[float, ...]:
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


def _binned(form: UncutColumn, cells: Cells, least: float) -> BinnedColumn:
    """The column in bins of about equally many rows, `least` at least, or of a single value that many rows share."""
    counts = np.array(cells.counts)
    bins = max(min(form.most, math.floor(max(counts.sum(), 0.0) / least)), FEWEST) if least else form.most
    groups, widths = grouped(counts, bins), np.subtract(cells.ends, cells.starts)
    seen, last = np.where(_seen(counts, cells.error), counts, 0.0), int(groups[-1])
    shares = [_shares(seen[groups == group], widths[groups == group], rising=group == 0, falling=group == last)
              for group in range(last + 1)]
    firsts = np.flatnonzero(np.diff(groups, prepend=-1))
    return form.cut([*(cells.starts[at] for at in firsts), cells.end], cells.starts, np.concatenate(shares).tolist())


def _seen(counts: Array, error: float) -> NDArray[np.bool_]:
    """Which cells are not beyond the last ones, at both ends, where more rows are than noise explains."""
    found = np.ones(len(counts), dtype=bool)
    for end in (found, found[::-1]):
        inward = counts if end is found else counts[::-1]
        sums = np.cumsum(inward)
        dark = np.flatnonzero(sums <= TRIM * error * np.sqrt(np.arange(1, len(counts) + 1)))
        end[:dark[-1] + 1 if len(dark) else 0] = False
    return found


def _shares(counts: Array, widths: Array, *, rising: bool, falling: bool) -> Array:
    """How many rows each cell of a bin has, about: not fewer than 0, and in tails no more per width than nearer the middle."""
    from scipy.optimize import isotonic_regression  # loaded when used

    if len(counts) == 1:
        return np.ones(1)
    widths = np.maximum(widths, widths.max() * 1e-12)
    if rising or falling:
        counts = isotonic_regression(counts / widths, weights=widths, increasing=rising).x * widths
    counts = _not_negative(counts)
    if counts.sum() > 0:
        return counts
    return np.eye(len(counts))[0 if falling else -1] if rising or falling else widths


def _not_negative(counts: Array) -> Array:
    """The nearest numbers that are not negative and have the same sum, if it is positive."""
    falling = np.sort(counts)[::-1]
    surplus = (falling.cumsum() - max(float(counts.sum()), 0.0)) / np.arange(1, len(falling) + 1)
    return np.maximum(counts - float(surplus[falling >= surplus][-1]), 0.0)
