"""A page about a synthetic table, for people to read: what it can be used for, with pictures of the rows that were drawn
beside the counts that were measured. It holds released and public values only.

A column is drawn with a line for each value, or as a histogram where numbers, dates or bins are many. Pairs of columns are a
square of distances.
"""

from __future__ import annotations

import datetime as dt
import html
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from dpsql.answers.html_page import document, facts, figures, fragment, heading, paragraph
from dpsql.models.table_domain import Columns
from dpsql.synthesis.acceptance import Acceptance
from dpsql.synthesis.released_table import KeptTable, SyntheticColumn
from dpsql.synthesis.table_comparison import MarginalComparison, TableComparison
from dpsql.synthesis.table_trust import share, trust
from dpsql.types import Type

Z = 1.96  # standard errors from the middle to the end of a 95 % interval
MOST_LINES = 24  # values of a column, each on a line of its own; the smaller ones are put together
FEWEST_BARS = 12  # numbers or dates that are a histogram
MOST_FAR = 10  # pairs in the list of those that are farthest from what was measured
FAR = 0.2  # distance of a pair that is coloured most
SVG = "aria-hidden=true preserveAspectRatio=none"


def page(table: KeptTable) -> str:
    """The page as text."""
    return document(f"{table.name}: a synthetic table", _parts(table), "synthetic_table")


def shown_in_notebook(table: KeptTable) -> str:
    """The same as a part of another page."""
    return fragment(_parts(table), "synthetic_table")


def _parts(table: KeptTable) -> Iterator[str]:
    compared = TableComparison(table)
    yield heading(1, f"{table.name}: a synthetic table")
    yield from _facts(table)
    sentences = (f"<li><b>{html.escape(of)}:</b> {html.escape(told)}</li>" for of, told in trust(compared))
    yield f"<h2>What it can be trusted for</h2><ul>{''.join(sentences)}</ul>"
    if table.acceptance is not None:
        yield "<h2>Criteria of acceptance</h2>"
        yield from _criteria(table.acceptance)
    if compared.columns:
        yield "<h2>Column by column</h2>"
        yield _legend()
        yield from (_column(column, compared.columns[column.name]) for column in table.columns if column.name in compared.columns)
    if compared.pairs:
        yield "<h2>Pair by pair</h2>"
        yield from _pairs(compared)
    yield "<h2>What was measured</h2>"
    yield from _measured(table)


def _facts(table: KeptTable) -> Iterator[str]:
    columns = "one column" if len(table.columns) == 1 else f"{len(table.columns)} columns"
    yield paragraph(f"{table.rows:,} rows of {columns}, drawn from a model that was fitted to noisy counts of the private rows. "
                    "No row belongs to a person; if a row resembles a person's, it does so by chance.")
    yield facts([("private rows, estimated", f"{table.total:,.0f}"), ("method", table.method), ("cost", table.price),
                 ("statement", table.statement)])
    yield from (paragraph(note, "dim") for note in table.notes)


def _criteria(found: Acceptance) -> Iterator[str]:
    yield paragraph(f"{found.first_line[0].upper()}{found.first_line[1:]}. The private answers were measured once, with "
                    "noise. A criterion holds if the table's answer is within the tolerance of every number in the 95 % "
                    "interval.", "dim")
    yield figures(("criterion", "group", "this table", "private rows, 95 %", "tolerance", "holds"), (
        (one.query, answer.group, *answer.figures, "yes" if answer.holds else "no")
        for one in found.criteria for answer in one.answers))


# -- column by column


def _legend() -> str:
    bar = f"<svg viewBox='0 0 100 10' {SVG}>{_bar(0, 100, 1, 8)}</svg>"
    line = f"<svg viewBox='0 0 100 10' {SVG}>{_whisker(_across(8, 50, 92))}</svg>"
    return (f"<p class='legend dim'><span>{bar}rows of this table, scaled to the estimated number of private rows</span>"
            f"<span>{line}measured, with the 95 % interval of the private count</span></p>")


def _column(column: SyntheticColumn, found: MarginalComparison) -> str:
    labels = labelled(column)
    ordered = (column.type.numeric or column.type.temporal) and len(labels) > FEWEST_BARS
    told = _histogram(labels, found) if ordered else "".join(_entries(labels, found))
    return (f"<figure><figcaption><b>{html.escape(column.name)}</b> <span class=dim>{share(found.distance)} of the rows would "
            f"have to change to agree with what was measured; noise alone makes about {share(found.noise)}</span></figcaption>"
            f"{told}</figure>")


def labelled(column: SyntheticColumn) -> list[str]:
    """The entries that were counted, as text; NULL is one of them."""
    if column.counted is None:
        return []
    bins = [_bin_text(low, high, column.type) for low, high in pairwise(column.counted.edges)]
    return [bins[entry] if bins and isinstance(entry, int) else value_text(entry) for entry in column.counted.listed]


def value_text(value: object) -> str:
    """A listed value."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"{value:,.10g}"
        case dt.date():
            return value.isoformat().replace("T", " ")
        case _:
            return str(value) or "''"


def _bin_text(low: float, high: float, kind: Type) -> str:
    whole = kind in (Type.BIGINT, Type.DATE)
    first, last = _edge_text(low, kind), _edge_text(high - whole, kind)
    return first if first == last else f"{first} to {last}"


def _edge_text(edge: float, kind: Type) -> str:
    if not kind.temporal:
        return f"{edge:,.6g}"
    day = dt.datetime.fromordinal(int(edge))
    return day.date().isoformat() if kind is Type.DATE else (day + dt.timedelta(days=edge - int(edge))).isoformat(" ", "minutes")


def _entries(labels: Sequence[str], found: MarginalComparison) -> Iterator[str]:
    """A line for each value. Where there are too many, the smaller ones share a line."""
    most = len(labels) if len(labels) <= MOST_LINES + 1 else MOST_LINES
    kept = np.sort(np.argsort(-found.measured, kind="stable")[:most])
    lines = [(labels[at], found.measured[at], found.error, found.drawn[at]) for at in kept]
    if rest := len(labels) - most:
        lines.append((f"{rest} others, together", found.measured.sum() - found.measured[kept].sum(), found.error * rest**0.5,
                      found.drawn.sum() - found.drawn[kept].sum()))
    top = 1.01 * max(1.0, *(max(measured + Z * error, drawn) for _, measured, error, drawn in lines))
    for label, measured, error, drawn in lines:
        ends = [100 * max(0.0, at) / top for at in (measured - Z * error, measured, measured + Z * error)]
        yield (f"<div class=entry><span>{html.escape(label)}</span><svg viewBox='0 0 100 10' {SVG}>"
               f"{_bar(0, 100 * drawn / top, 1, 8)}{_whisker(_across(*ends))}</svg>"
               f"<span>{drawn:,.0f} <span class=dim>{measured_text(measured, error)}</span></span></div>")


def _histogram(labels: Sequence[str], found: MarginalComparison) -> str:
    """Bars from left to right; NULL is told below them."""
    shown = [at for at, label in enumerate(labels) if label != "NULL"]
    top = max(1.0, found.drawn[shown].max(), found.measured[shown].max() + Z * found.error)
    wide, bars, below = 100 / len(shown), [], []
    for at, label in enumerate(labels):
        said = f"{found.drawn[at]:,.0f}, {measured_text(found.measured[at], found.error)}"
        if at not in shown:
            below.append(paragraph(f"NULL: {said}", "dim"))
            continue
        x, height = wide * (shown.index(at) + 0.5), 100 * found.drawn[at] / top
        low, middle, high = (100 - 100 * max(0.0, found.measured[at] + side * Z * found.error) / top for side in (-1, 0, 1))
        bars.append(f"<g><title>{html.escape(label)}: {said}</title>{_bar(x - 0.44 * wide, 0.88 * wide, 100 - height, height)}"
                    f"{_whisker(f'M{x:.3f} {low:.2f}V{high:.2f}M{x - wide / 5:.3f} {middle:.2f}h{wide / 2.5:.3f}')}</g>")
    ends = "".join(f"<span>{html.escape(labels[at])}</span>" for at in (shown[0], shown[len(shown) // 2], shown[-1]))
    return (f"<div class=bars><div class=ends>up to {top:,.0f} rows</div><svg viewBox='0 0 100 100' {SVG}>{''.join(bars)}</svg>"
            f"<div class=ends>{ends}</div></div>{''.join(below)}")


def _bar(x: float, width: float, y: float, height: float) -> str:
    return f"<rect x='{x:.3f}' width='{width:.3f}' y='{y:.2f}' height='{height:.2f}' fill='var(--bar)'/>"


def _across(low: float, middle: float, high: float) -> str:
    """The path of a whisker from left to right."""
    return f"M{low:.2f} 5H{high:.2f}M{low:.2f} 2.5V7.5M{high:.2f} 2.5V7.5M{middle:.2f} 1.5V8.5"


def measured_text(count: float, error: float) -> str:
    """A noisy count, which may be negative, with its 95 % interval."""
    return f"measured {count:,.0f} ± {margin(error)}"


def margin(error: float) -> str:
    """Half of a 95 % interval."""
    return f"{Z * error:,.0f}" if Z * error >= 10 else f"{Z * error:.2g}"


def _whisker(path: str) -> str:
    return f"<path d='{path}' stroke='var(--mark)' fill='none' stroke-width='1.5' vector-effect='non-scaling-stroke'/>"


# -- pair by pair


def _pairs(compared: TableComparison) -> Iterator[str]:
    names, pairs = list(compared.counted), compared.pairs
    yield paragraph("The share of the rows, in percent, that would have to change to agree with the measured counts of "
                    "two columns. Part of it is due to the noise of these counts. A dash: not measured, follows only from the "
                    "model.", "dim")
    heads = "".join(f"<th>{html.escape(name)}</th>" for name in names[:-1])
    lines = (f"<tr><th>{html.escape(name)}</th>{''.join(_cell((other, name), pairs[other, name]) for other in names[:at])}</tr>"
             for at, name in enumerate(names[1:], start=1))
    yield (f"<div class=wide><table class=square><thead><tr><th></th>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
           "</div>")
    told = sorted((found for found in pairs.values() if found is not None), key=lambda each: -each.distance)
    if told:
        yield "<h3>Farthest from what was measured</h3>"
        yield figures(("pair", "distance", "noise alone", "cells", "± of a count"), (
            (" and ".join(found.columns), share(found.distance), share(found.noise), f"{found.measured.size:,}",
             margin(found.error)) for found in told[:MOST_FAR]))


def _cell(pair: Columns, found: MarginalComparison | None) -> str:
    names = html.escape(" and ".join(pair))
    if found is None:
        return f"<td class=only title='{names}: not measured, follows from the model only'>–</td>"
    strength = round(100 * min(1.0, found.distance / FAR))
    return (f"<td title='{names}: {share(found.distance)}; noise alone makes about {share(found.noise)}' "
            f"style='background: color-mix(in srgb, var(--far) {strength}%, var(--near))'>"
            f"{share(found.distance).removesuffix(' %')}</td>")


def _measured(table: KeptTable) -> Iterator[str]:
    if not table.marginals:
        yield paragraph("No counts were released.")
        return
    yield paragraph("In the order of measuring. A cell is a combination of values; the error is the standard error of each "
                    "count; the last column is the mean difference, over cells, between the rows of the table and the "
                    "counts.", "dim")
    new = len(table.marginals) - table.known
    yield figures(("columns", "cells", "error", "off by"), (
        (", ".join(each.columns) + (" (by an earlier statement)" if at >= new else ""), f"{each.cells:,}", f"{each.error:,.4g}",
         f"{each.off:,.4g}") for at, each in enumerate(table.marginals)))

