"""Histograms of a synthetic table's columns of numbers, dates and times.

Bins of unequal width are to scale, so that areas are numbers of rows, over the range of the drawn values. A single value that
many rows share has a bar of another colour, cut off at the top, and its count is below.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.answers.html_page import paragraph
from dpsql.frozen import Frozen
from dpsql.synthesis.count_marks import SVG, bar, whisker
from dpsql.synthesis.counted_values import CountedValues, numbers_of
from dpsql.synthesis.entry_texts import WHOLE, end_text, labelled, measured_text, number_text
from dpsql.synthesis.released_table import SyntheticColumn
from dpsql.synthesis.table_comparison import MarginalComparison, Z

NARROW = 0.4  # percent of the axis: narrower bins than that cannot be to scale
HEAVY = 3  # times the density of other bins: more of a single value would leave no room for these
SINGLE = 0.7  # percent of the axis: the least width of the bar of a single value
ROOM = 1.15  # of the highest bar, up to where the bars of single values are cut off
Numbers: TypeAlias = NDArray[np.float64]


class Bin(Frozen):
    """An entry of a histogram: its index among the counts, its text, and its place on an axis from 0 to 100; `marked` if it is a
    single value that is not drawn to scale."""

    at: int
    text: str
    start: float
    width: float
    marked: bool = False


class NumberAxis(Frozen):
    """The bins of a histogram, the texts at the beginning, the middle and the end of its axis, and its scale in words, which is
    empty if it is that of counts."""

    bins: tuple[Bin, ...]
    ends: tuple[str, str, str]
    scale: str


def unequal(column: SyntheticColumn) -> bool:
    """Whether a column was counted in bins of several widths; the last of equal ones may be shorter."""
    widths = [high - low for low, high in pairwise(column.counted.edges)][:-1] if column.counted is not None else []
    return bool(widths) and max(widths) > 1.5 * min(widths)


def histogram(column: SyntheticColumn, counted: CountedValues, found: MarginalComparison) -> str:
    """A bar for each bin, whose area is its number of rows; below, as text, the numbers of NULLs and of rows in marked bins."""
    axis = _axis_to_scale(column, counted, found) if unequal(column) else _axis_by_entry(column, counted)
    to_scale = [one for one in axis.bins if not one.marked] or axis.bins
    top = max(1e-9, *(max(found.drawn[one.at], found.measured[one.at] + Z * found.error) / one.width for one in to_scale))
    top *= ROOM if len(to_scale) < len(axis.bins) else 1
    bars = "".join(f"<g><title>{html.escape(_told(one.text, one.at, found))}</title>{_bar(one, found, top)}</g>"
                   for one in sorted(axis.bins, key=lambda one: one.marked))
    scale = axis.scale or f"up to {top * axis.bins[0].width:,.0f} rows"
    ends = "".join(f"<span>{html.escape(end)}</span>" for end in axis.ends)
    return (f"<div class=bars><div class=ends>{scale}</div><svg viewBox='0 0 100 100' {SVG}>{bars}</svg>"
            f"<div class=ends>{ends}</div></div>{_below(axis, counted, found)}")


def _below(axis: NumberAxis, counted: CountedValues, found: MarginalComparison) -> str:
    """What the bars do not show."""
    marked = "; ".join(_told(one.text, one.at, found) for one in axis.bins if one.marked)
    told = f"<p class=dim><span class=single></span>single values, not to scale: {html.escape(marked)}</p>" if marked else ""
    return told + "".join(paragraph(_told("NULL", at, found), "dim") for at, value in enumerate(counted.listed) if value is None)


def _told(text: str, at: int, found: MarginalComparison) -> str:
    return f"{text}: {found.drawn[at]:,.0f}, {measured_text(found.measured[at], found.error)}"


def _bar(one: Bin, found: MarginalComparison, top: float) -> str:
    """A bar and the interval of the measured count, both per width of the bin."""
    height = min(100.0, 100 * found.drawn[one.at] / one.width / top)
    drawn = bar(one.start + 0.03 * one.width, 0.94 * one.width, 100 - height, height, "c1" if one.marked else "bar")
    if one.marked:
        return drawn
    ends = (max(0.0, found.measured[one.at] + side * Z * found.error) / one.width for side in (-1, 0, 1))
    low, centre, high = (100 - 100 * end / top for end in ends)
    middle, half = one.start + one.width / 2, min(one.width / 5, 1.0)
    return f"{drawn}{whisker(f'M{middle:.3f} {low:.2f}V{high:.2f}M{middle - half:.3f} {centre:.2f}h{2 * half:.3f}')}"


# -- axes


def _axis_by_entry(column: SyntheticColumn, counted: CountedValues) -> NumberAxis:
    """Bars of one width."""
    labels, shown = labelled(column), [at for at, value in enumerate(counted.listed) if value is not None]
    wide = 100 / len(shown)
    return NumberAxis(bins=tuple(Bin(at=at, text=labels[at], start=place * wide, width=wide) for place, at in enumerate(shown)),
                      ends=(labels[shown[0]], labels[shown[len(shown) // 2]], labels[shown[-1]]), scale="")


def _axis_to_scale(column: SyntheticColumn, counted: CountedValues, found: MarginalComparison) -> NumberAxis:
    """Bars as wide as their bins."""
    edges, numbers = np.array(counted.edges), numbers_of(column.values)
    numbers = numbers[~np.isnan(numbers)]
    low, high = _ends(numbers, edges, whole=column.type in WHOLE)
    places = 100 * (np.clip(edges, low, high) - low) / (high - low)
    singles, labels, bins = _singles(numbers, edges), labelled(column), list[Bin]()
    listed = [(at, number) for at, number in enumerate(counted.listed) if isinstance(number, int)]
    densities = {number: float(found.drawn[at]) / max(places[number + 1] - places[number], 1e-9) for at, number in listed}
    for at, number in listed:
        width = float(places[number + 1] - places[number])
        marked = number in singles and (width < NARROW or _is_heavy(number, densities))
        width = max(width, SINGLE * marked)
        if width > 0:
            text = number_text(singles[number], column.type) if marked else labels[at]
            bins.append(Bin(at=at, text=text, start=min(float(places[number]), 100 - width), width=width, marked=marked))
    first, middle, last = (end_text(end, high - low, column.type)
                           for end in (low, (low + high) / 2, high - (column.type in WHOLE)))
    return NumberAxis(bins=tuple(bins), ends=(first, middle, last), scale="area = rows; each bar is as wide as its bin")


def _is_heavy(number: int, densities: Mapping[int, float]) -> bool:
    """Whether a bin has so many more rows for its width than others that these would be hard to see."""
    others = [density for other, density in densities.items() if other != number]
    return bool(others) and densities[number] > HEAVY * float(np.quantile(others, 0.9))


def _ends(numbers: Numbers, edges: Numbers, *, whole: bool) -> tuple[float, float]:
    """The range of the drawn values."""
    low, high = (float(numbers.min()), float(numbers.max()) + whole) if len(numbers) else (edges[0], edges[-1])
    low, high = max(low, float(edges[0])), min(high, float(edges[-1]))
    return (low, high) if low < high else (float(edges[0]), float(edges[-1]))


def _singles(numbers: Numbers, edges: Numbers) -> Mapping[int, float]:
    """The bins in which all drawn values are equal, with these values."""
    lows, highs = np.full(len(edges) - 1, np.inf), np.full(len(edges) - 1, -np.inf)
    bins = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2)
    np.minimum.at(lows, bins, numbers)
    np.maximum.at(highs, bins, numbers)
    return {number: float(lows[number]) for number in np.flatnonzero(lows == highs).tolist()}
