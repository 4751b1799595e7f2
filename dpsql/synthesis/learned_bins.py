"""Bins of numbers, dates and times that follow the rows: learned from noisy counts, before a method measures the table.

The rows of a column's cells are counted with noise (`column_cells`). Neighbouring cells then become bins of about equally many
rows, and a value that many rows share is a bin by itself. Values are drawn from the cells of a bin by their counts, as far as
these are not noise. At both ends of the range, cells where noise may be all there is are left empty. Where few cells could be
counted, a smooth curve through their counts says how many rows are in each part of a cell.

A fiftieth of the price is for the number of all rows, on which it depends how many cells are worth counting; all columns have an
equal share of another 18 %. Columns of which noise hides everything get few bins, of equal width. The counts are released by the
kernel like any others, and what is made of them is post-processing.

Source of the curve: Fritsch and Carlson, Monotone Piecewise Cubic Interpolation, SIAM Journal on Numerical Analysis 1980.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen, replace
from dpsql.models.noisy_marginals import nearest_counts
from dpsql.synthesis.binned_views import ColumnParts, with_parts
from dpsql.synthesis.coarser_versions import grouped
from dpsql.synthesis.column_cells import FIRST, LATER, LOOKS, Cells, counted_column, error_for, parts_of_cell
from dpsql.synthesis.column_forms import BinnedColumn, Form, PlannedForm, UncutColumn
from dpsql.synthesis.method import CodedColumn, CodedTable, SynthesisTask
from dpsql.synthesis.methods.marginal_requests import noise_for
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.measurements.reading.request import Request
from dpsql.workload.factors import Array

Groups: TypeAlias = NDArray[np.int64]

LEARNING = Fraction(1, 5)  # of the price
TOTAL = Fraction(1, 50)  # of the price, as a part of that, for the number of all rows
SINGLES = Fraction(3, 10)  # of the price, which methods spend on counts of single columns, about
BLUR = 2  # of these counts' standard errors: no bin should have fewer rows
SEEN = 4  # standard errors of a count: fewer rows may be noise
TRIM = 1.5  # standard errors
SURE = 2.5  # standard errors: smaller counts of cells beside larger ones are taken to be noise
FEWEST = 2  # bins
FAR = 4  # times as wide as all cells with rows: cells at an end that have none
SMOOTH = 6  # parts of a wide cell
LEAST_SHARE = 1e-9  # of rows, in a part


class LearnedTable(Frozen):
    """The table with a form for each column, and how much of the price was spent."""

    table: CodedTable
    forms: tuple[Form, ...]
    spent: Fraction


class LearnedColumns(Frozen):
    """Columns in bins, and how much of the price was spent."""

    forms: tuple[BinnedColumn, ...]
    spent: Fraction


def learned(task: SynthesisTask, forms: Sequence[PlannedForm]) -> Generator[Request, Any, LearnedTable]:
    """Cut the uncut columns of a table into bins, for a part of its price."""
    columns = [column.column for column in task.table.columns]
    uncut = {column: form for column, form in zip(columns, forms, strict=True) if isinstance(form, UncutColumn)}
    found = yield from learned_columns(task, uncut, least_rows(task))
    cut = dict(zip(uncut, found.forms, strict=True))
    return LearnedTable(table=in_bins(task.table, cut), spent=found.spent, forms=tuple(
        cut[column] if isinstance(form, UncutColumn) else form for column, form in zip(columns, forms, strict=True)))


def learned_columns(task: SynthesisTask, uncut: Mapping[str, UncutColumn], least: float) -> Generator[
        Request, Any, LearnedColumns]:
    """Cut columns of the task's rows into bins of about `least` rows or more, for a part of its price; `uncut` has each column by
    its identifier."""
    if not uncut:
        return LearnedColumns(forms=(), spent=Fraction(0))
    cut, total, spent = list[BinnedColumn](), (yield from _total(task)), TOTAL
    for column, form in uncut.items():
        counted = yield from counted_column(task, column, form, total, _share(len(uncut)))
        if counted is None:
            cut.append(form.equally(math.floor(total / least)))
        else:
            cut.append(binned(form, counted.cells, least, wide=counted.wide))
            spent += counted.spent
    return LearnedColumns(forms=tuple(cut), spent=spent)


def least_rows(task: SynthesisTask) -> float:
    """How many rows a bin should have so that noise hides little of them when a method measures the table."""
    return BLUR * error_for(task, SINGLES / len(task.columns))


def in_bins(table: CodedTable, cut: Mapping[str, BinnedColumn]) -> CodedTable:
    """The table with columns, given by their identifiers, replaced by the numbers of their bins."""
    if not cut:
        return table
    view, columns = with_parts(table.view, (
        ColumnParts(column=column, starts=tuple(map(form.value, form.edges[:-1]))) for column, form in cut.items()))
    coded = {old: coded_in_bins(column, form.name, len(form.edges) - 1, nullable=form.nullable)
             for column, (old, form) in zip(columns, cut.items(), strict=True)}
    return replace(table, view=view, columns=tuple(coded.get(column.column, column) for column in table.columns))


def learning_stage(task: SynthesisTask, names: Sequence[str], most: str = f"a {LEARNING.denominator}th of the price") -> str:
    """The stage in words, for EXPLAIN; it costs at most so much."""
    error, times = error_for(task, FIRST * _share(len(names))), 1 + max(len(LATER), LOOKS)
    return (f"bins for {', '.join(names)} that follow the rows: counts of cells, up to {times} times for each, for at most "
            f"{most}; standard error of most about {error:.3g}")


def parts_of(uncut: int) -> int:
    """Into about how many equal parts the price is divided where bins of so many columns are learned."""
    return math.ceil(uncut / (FIRST * (LEARNING - TOTAL)))


def coded_in_bins(column: str, name: str, bins: int, *, nullable: bool) -> CodedColumn:
    """A column whose values are the numbers of bins."""
    return CodedColumn(column=column, name=name, ordered=True, values=(*range(bins), *((None,) if nullable else ())))


def _share(uncut: int) -> Fraction:
    """The part of the price for the cells of each of so many columns."""
    return (LEARNING - TOTAL) / uncut


def _total(task: SynthesisTask) -> Generator[Request, Any, float]:
    """The noisy number of all rows."""
    release: MeasuredSums = yield NoisySums(plan=task.table.plan(()), cells=((),), noises=(
        noise_for(task.table, task.price.part(TOTAL)),))
    return float(release.totals[0][0][0])


def binned(form: UncutColumn, cells: Cells, least: float, *, wide: bool = False) -> BinnedColumn:
    """The column in bins of about equally many rows, `least` at least, or of a single value that many rows share; `wide` says
    that its cells are too wide to draw values evenly from them."""
    if wide:
        cells = _without_doubtful_values(form, cells)
    counts, widths = np.where(_seen(cells), cells.counts, 0.0), np.subtract(cells.ends, cells.starts)
    bins = max(min(form.most, math.floor(max(counts.sum(), 0.0) / least)), FEWEST)
    groups, errors = _without_wide_ends(grouped(counts, bins), counts, cells.starts, cells.end), np.sqrt(cells.variances)
    middle, last = groups[_middle(counts)], int(groups[-1])
    shares = [_shares(counts[own], widths[own], errors[own], rising=bool(group < middle), outermost=group in (0, last))
              for group in range(last + 1) for own in [groups == group]]
    edges = [*(cells.starts[at] for at in np.flatnonzero(np.diff(groups, prepend=-1))), cells.end]
    within = np.concatenate(shares)
    if not wide:
        return form.cut(edges, cells.starts, within.tolist())
    sizes = _not_negative(_sums(groups, counts)) / np.bincount(groups, within)
    return form.cut(edges, *smoothed(form, cells, within * sizes[groups]))


def _without_wide_ends(groups: Groups, counts: Array, starts: Sequence[float], end: float) -> Groups:
    """The groups of cells; the outermost that have no rows, and are far wider than all that have some, are parts of their
    neighbours. Noise in their later counts would make values that are far from all real ones."""
    seen = np.flatnonzero(np.bincount(groups, counts) > 0)
    if not len(seen):
        return groups
    ends = np.append(np.array(starts)[np.flatnonzero(np.diff(groups, prepend=-1))], end)
    widths, span = np.diff(ends), ends[seen[-1] + 1] - ends[seen[0]]
    first = seen[0] if widths[:seen[0]].sum() > FAR * span else 0
    last = seen[-1] if widths[seen[-1] + 1:].sum() > FAR * span else len(widths) - 1
    return np.clip(groups, first, last) - first if last - first + 1 >= FEWEST else groups


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
        parts = parts_of_cell(form, start, end, SMOOTH) if is_wide else [start]
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
    counts, variances, shares = (_sums(groups, each) for each in (cells.counts, cells.variances, cells.shares))
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
    """About how many rows each cell of a bin has: in proportion to its width, if noise explains how far the counts are from that.
    Otherwise the rows that were counted, and none in cells whose counts may be noise alone and are too low for their width. In
    tails, cells farther from the middle have no more rows per width than nearer ones."""
    from scipy.optimize import isotonic_regression  # loaded when used

    if len(counts) == 1:
        return np.ones(1)
    widths = np.maximum(widths, widths.max() * 1e-12)
    if not outermost:
        even = max(float(counts.sum()), 0.0) * widths / widths.sum()
        off, free = (counts - even) / np.maximum(errors, LEAST_SHARE), len(counts) - 1
        if (off**2).sum() <= free + SURE * math.sqrt(2 * free):
            return np.asarray(widths)
        found = np.where((counts > SURE * errors) | (off > -SURE), np.maximum(counts, 0.0), 0.0)
        return found if found.sum() > 0 else np.asarray(widths)
    counts = _not_negative(isotonic_regression(counts / widths, weights=widths, increasing=rising).x * widths)
    return counts if counts.sum() > 0 else np.eye(len(counts))[-1 if rising else 0]


def _sums(groups: Groups, numbers: Array) -> Array:
    return np.bincount(groups, numbers).astype(np.float64)


def _not_negative(counts: Array) -> Array:
    """The nearest numbers that are not negative and have the same sum, if it is positive."""
    return nearest_counts(counts, max(float(counts.sum()), 0.0))
