"""Pairs of columns of a synthetic table, on its page: how far they are from what was measured, and pictures of numbers against
numbers. What is shown is bounded, however many columns there are."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.answers.html_page import figures, paragraph
from dpsql.models.table_domain import Columns
from dpsql.synthesis.dependence import Correlation, correlations, strongest_unmeasured
from dpsql.synthesis.entry_texts import margin
from dpsql.synthesis.released_table import SyntheticColumn
from dpsql.synthesis.table_comparison import MarginalComparison, TableComparison, Z
from dpsql.synthesis.table_trust import share

MOST_COLUMNS = 40  # of the square of all pairs
MOST_LISTED = 10  # pairs in a list
WEAKEST = 0.01  # Cramér's V of a pair in a list
MOST_PICTURES = 12  # pairs of numbers that are drawn
MOST_PARTS = 16  # of a column in such a picture; neighbouring ones are put together
SHADES = 12  # of a picture, from no rows to the most
FAR = 0.2  # distance of a pair that is coloured most
Counts: TypeAlias = NDArray[np.float64]


def pair_parts(compared: TableComparison) -> Iterator[str]:
    """The section on pairs."""
    yield from _square(compared)
    told = sorted((found for found in compared.pairs.values() if found is not None), key=lambda each: -each.distance)
    if told:
        yield "<h3>Farthest from what was measured</h3>"
        yield figures(("pair", "distance", "noise alone", "cells", "± of a count"), (
            (" and ".join(found.columns), share(found.distance), share(found.noise), f"{found.measured.size:,}",
             margin(found.error)) for found in told[:MOST_LISTED]))
    only = [(pair, strength) for pair, strength in strongest_unmeasured(compared, MOST_LISTED) if strength >= WEAKEST]
    if only:
        yield "<h3>Strongest of those that were not measured</h3>"
        yield paragraph("These columns depend on each other in this table, but were never counted together. The private rows may "
                        "show another dependence, or none. Cramér's V is 0 for independent columns, and 1 where one column "
                        "determines the other; of numbers, it is of a few parts.", "dim")
        yield figures(("pair", "Cramér's V in this table"), ((" and ".join(pair), f"{strength:.2f}") for pair, strength in only))
    yield from _numbers(compared)


def _square(compared: TableComparison) -> Iterator[str]:
    names, pairs = _most_counted(compared), compared.pairs
    yield paragraph("The share of the rows, in percent, that would have to change to agree with the measured counts of "
                    "two columns. Part of it is due to the noise of these counts. A dash: not measured, follows only from the "
                    "model.", "dim")
    if len(names) < len(compared.counted):
        yield paragraph(f"Of {len(compared.counted)} columns, the {len(names)} that were most often counted with others.", "dim")
    heads = "".join(f"<th>{html.escape(name)}</th>" for name in names[:-1])
    lines = (f"<tr><th>{html.escape(name)}</th>{''.join(_cell((other, name), pairs[other, name]) for other in names[:at])}</tr>"
             for at, name in enumerate(names[1:], start=1))
    yield (f"<div class=wide><table class=square><thead><tr><th></th>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
           "</div>")


def _most_counted(compared: TableComparison) -> list[str]:
    """The columns of the square, in the order of the table."""
    times = Counter(name for pair, found in compared.pairs.items() if found is not None for name in pair)
    kept = {*sorted(compared.counted, key=lambda name: -times[name])[:MOST_COLUMNS]}
    return [name for name in compared.counted if name in kept]


def _cell(pair: Columns, found: MarginalComparison | None) -> str:
    names = html.escape(" and ".join(pair))
    if found is None:
        return f"<td class=only title='{names}: not measured, follows from the model only'>–</td>"
    strength = round(100 * min(1.0, found.distance / FAR))
    return (f"<td title='{names}: {share(found.distance)}; noise alone makes about {share(found.noise)}' "
            f"style='background: color-mix(in srgb, var(--far) {strength}%, var(--near))'>"
            f"{share(found.distance).removesuffix(' %')}</td>")


# -- numbers against numbers


def _numbers(compared: TableComparison) -> Iterator[str]:
    found = correlations(compared)
    if not found:
        return
    yield "<h3>Numbers against numbers</h3>"
    more = f" The {MOST_PICTURES} strongest of {len(found)} pairs are shown." if len(found) > MOST_PICTURES else ""
    yield paragraph("The correlation in the rows of this table; in these rows if each value is replaced by the mean of its part; "
                    "and by the measured counts of these parts, with its 95 % interval. The last two should agree. Below, the "
                    f"measured counts and those of this table: the stronger the colour, the more rows.{more}", "dim")
    shown = found[:MOST_PICTURES]
    yield figures(("pair", "this table", "its parts", "measured", "parts"), (
        (" and ".join(each.pair), _text(each.rows), _text(each.binned),
         "not known" if math.isnan(each.measured) else f"{_text(each.measured)} ± {Z * each.error:.2g}",
         " × ".join(map(str, each.cells.measured.shape))) for each in shown))
    columns = {column.name: column for column in compared.table.columns}
    yield f"<div class=maps>{''.join(_maps(each, [columns[name] for name in each.pair]) for each in shown)}</div>"


def _text(correlation: float) -> str:
    return "none" if math.isnan(correlation) else f"{correlation:.2f}"


def _maps(found: Correlation, columns: Sequence[SyntheticColumn]) -> str:
    """Two maps of counts: those that were measured, and those of the table."""
    counts = [_coarse(each) for each in (found.cells.measured, found.cells.drawn)]
    top = max(1.0, *(float(each.max(initial=0.0)) for each in counts))
    across, up = (html.escape(column.name) for column in columns)
    pictures = "".join(f"<div>{_map(each, top)}<span class=dim>{told}</span></div>"
                       for each, told in zip(counts, ("measured", "this table"), strict=True))
    return f"<figure><figcaption><b>{across}</b> → <b>{up}</b> ↑</figcaption><div class=twins>{pictures}</div></figure>"


def _coarse(counts: Counts) -> Counts:
    """The counts with at most so many parts of each column as a picture has."""
    for axis in range(counts.ndim):
        size = counts.shape[axis]
        if size > MOST_PARTS:
            counts = np.add.reduceat(counts, np.arange(MOST_PARTS) * size // MOST_PARTS, axis=axis)
    return counts


def _map(counts: Counts, top: float) -> str:
    """A map of counts: the first column to the right, the second one upwards. Cells of one shade are one path."""
    wide, high = counts.shape
    shades = np.rint(SHADES * np.sqrt(np.maximum(counts, 0.0) / top)).astype(int)
    paths = "".join(
        f"<path d='{''.join(f'M{x} {high - 1 - y}h1v1h-1z' for x, y in np.argwhere(shades == shade).tolist())}' "
        f"fill='var(--c0)' fill-opacity='{shade / SHADES:.2f}'/>" for shade in range(1, SHADES + 1) if (shades == shade).any())
    return (f"<svg viewBox='0 0 {wide} {high}' aria-hidden=true preserveAspectRatio=none shape-rendering=crispEdges>"
            f"<rect width='{wide}' height='{high}' x='0' y='0' fill='var(--model)'/>{paths}</svg>")
