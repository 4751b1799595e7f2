"""Bins of numbers, dates and times that follow the rows: learned from noisy counts, before a method measures the table.

A range is cut into cells of equal width, besides cells of one value for its ends and 0, and their rows are counted with noise.
Cells with many rows are cut again, up to three times. Neighbouring cells then become bins of about equally many rows, and a value
that many rows share is a bin by itself. Values are drawn from the cells of a bin by their counts; in the outermost bins, the tails
of a distribution, after these were made to fall away from the middle, as else the noise of many empty cells would be drawn.

All columns have an equal share of a tenth of the price. Where the noise is too large to tell anything, what is left of it is for
the method. The counts are released by the kernel like any others, and what is made of them is post-processing.

Source: the idea of cutting only where there are rows is that of Zhang, Xiao and Xie, PrivTree: A Differentially Private Algorithm
for Hierarchical Decompositions, SIGMOD 2016, here with a fixed number of cuts, so that each cut has a known price.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpsql.frozen import Frozen, replace
from dpsql.synthesis.binned_views import Parts, with_parts
from dpsql.synthesis.column_forms import BINS, BinnedColumn, Form, UncutColumn
from dpsql.synthesis.levels import grouped
from dpsql.synthesis.method import CodedColumn, CodedTable, SynthesisTask
from dpsql.synthesis.methods.marginal_requests import noise_for
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.summands import Count
from dpsql.workload.factors import Array

LEARNING = Fraction(1, 10)  # of the price
CUTS = 3  # of a column, at most
PARTS = 16  # into which a cell with many rows is cut
SEEN = 4  # standard errors of a count: fewer rows may be noise
FEWEST = 4  # bins: where noise allows no more, nothing is learned


class Cells(Frozen, eq=False):
    """The first number of each cell of a column, in order, the end of the last one, and the noisy count of each."""

    starts: tuple[float, ...]
    end: float
    counts: tuple[float, ...]

    @property
    def ends(self) -> tuple[float, ...]:
        return (*self.starts[1:], self.end)


class LearnedTable(Frozen):
    """The table with a form for each column, and how much of the price was spent."""

    table: CodedTable
    forms: tuple[Form, ...]
    spent: Fraction


def learned(task: SynthesisTask, forms: Sequence[Form | UncutColumn]) -> Generator[Request, Any, LearnedTable]:
    """Cut the uncut columns of a table into bins, for a tenth of its price at most."""
    uncut = [at for at, form in enumerate(forms) if isinstance(form, UncutColumn)]
    found, spent, each = [*forms], Fraction(0), LEARNING / (CUTS * max(len(uncut), 1))
    for at in uncut:
        cells, paid = yield from _counted_cells(task.table, task.table.columns[at].column, forms[at], task.price, each)
        found[at] = _binned(forms[at], cells, math.sqrt(noise_for(task.table, task.price.part(each)).variance))
        spent += paid
    cut = {at: found[at] for at in uncut}
    view, columns = with_parts(task.table.view, (
        Parts(column=task.table.columns[at].column, starts=_values(form, form.edges[:-1])) for at, form in cut.items()))
    coded = list(task.table.columns)
    for at, column in zip(uncut, columns, strict=True):
        coded[at] = coded_in_bins(column, found[at].name, len(found[at].edges) - 1, nullable=found[at].nullable)
    return LearnedTable(table=replace(task.table, view=view if uncut else task.table.view, columns=tuple(coded)),
                        forms=tuple(found), spent=spent)


def coded_in_bins(column: str, name: str, bins: int, *, nullable: bool) -> CodedColumn:
    """A column whose values are the numbers of bins."""
    return CodedColumn(column=column, name=name, ordered=True, values=(*range(bins), *((None,) if nullable else ())))


def _counted_cells(table: CodedTable, column: str, form: UncutColumn, price: Cost, each: Fraction) -> Generator[
        Request, Any, tuple[Cells, Fraction]]:
    """The cells of a column with their counts, and the part of the price that was spent."""
    cells = Cells(starts=_first_starts(form), end=form.high + (form.whole and form.unit), counts=())
    noise, spent, fresh = noise_for(table, price.part(each)), Fraction(0), range(len(cells.starts))
    error = math.sqrt(noise.variance)
    while fresh and spent < CUTS * each:
        view, (number,) = with_parts(table.view, [Parts(column=column, starts=_values(form, cells.starts))])
        release: MeasuredSums = yield NoisySums(plan=GroupedSums(input=view, keys=(number,), summands=(Count(),)),
                                                cells=tuple((at,) for at in fresh), noises=(noise,))
        spent += each
        counts = dict(enumerate(cells.counts)) | dict(zip(fresh, map(float, release.totals[0][0]), strict=True))
        cells = replace(cells, counts=tuple(counts[at] for at in range(len(cells.starts))))
        many = max(SEEN * error, sum(cells.counts) / BINS)
        if many > sum(cells.counts) / FEWEST:
            break
        cells, fresh = _cut_again(form, cells, many)
    return replace(cells, counts=tuple(0.0 if math.isnan(count) else count for count in cells.counts)), spent


def _cut_again(form: UncutColumn, cells: Cells, many: float) -> tuple[Cells, Sequence[int]]:
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
    found = set(_parts(form, form.low, form.high + (form.whole and form.unit), BINS))
    for value in (form.low, 0.0):
        if form.low <= value < form.high:
            found |= {value, value + form.unit}
    return tuple(sorted({*(one for one in found if one < form.high), form.high}))


def _parts(form: UncutColumn, start: float, end: float, parts: int = PARTS) -> list[float]:
    """The first numbers of parts of a cell: as many, as whole units allow."""
    count = min(parts, max(math.floor((end - start) / form.unit + 1e-9), 1))
    cuts = [start + (end - start) * place / count for place in range(count)]
    if form.whole:
        cuts = [float(math.floor(cut)) for cut in cuts]
    elif form.step is not None:
        step = float(form.step)
        cuts = [cuts[0], *(math.floor(cut / step) * step for cut in cuts[1:])]
    return sorted({cut for cut in cuts if start <= cut < end})


def _binned(form: UncutColumn, cells: Cells, error: float) -> BinnedColumn:
    """The column in bins of about equally many rows, or of a single value that many rows share."""
    counts = np.array(cells.counts)
    bins = max(min(BINS, math.floor(max(counts.sum(), 0.0) / (SEEN / 2 * error))), FEWEST) if error else BINS
    groups = grouped(counts, bins)
    firsts = np.flatnonzero(np.diff(groups, prepend=-1))
    shares = np.concatenate([
        _shares(counts[groups == group], _widths(cells)[groups == group], rising=group == 0, falling=group == groups[-1])
        for group in range(int(groups[-1]) + 1)])
    return form.cut([*(cells.starts[at] for at in firsts), cells.end], cells.starts, shares.tolist())


def _widths(cells: Cells) -> Array:
    return np.subtract(cells.ends, cells.starts)


def _shares(counts: Array, widths: Array, *, rising: bool, falling: bool) -> Array:
    """How many rows each cell of a bin has, about: not fewer than 0, and in tails no more per width than nearer to the middle."""
    from scipy.optimize import isotonic_regression  # loaded when used

    if len(counts) == 1:
        return np.ones(1)
    widths = np.maximum(widths, widths.max() * 1e-12)
    if rising or falling:
        counts = isotonic_regression(counts / widths, weights=widths, increasing=rising).x * widths
    counts = _not_negative(counts)
    return counts if counts.sum() > 0 else widths


def _not_negative(counts: Array) -> Array:
    """The nearest numbers that are not negative and have the same sum, if it is positive."""
    falling = np.sort(counts)[::-1]
    surplus = (falling.cumsum() - max(float(counts.sum()), 0.0)) / np.arange(1, len(falling) + 1)
    return np.maximum(counts - float(surplus[falling >= surplus][-1]), 0.0)


def _values(form: UncutColumn | BinnedColumn, numbers: Sequence[float]) -> tuple[Value, ...]:
    one = form.cut(numbers) if isinstance(form, UncutColumn) else form
    return tuple(one.value(number) for number in numbers)
