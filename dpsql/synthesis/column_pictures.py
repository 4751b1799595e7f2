"""Pictures of single columns of a synthetic table: the drawn rows beside the measured counts.

A column is drawn with a line for each value, or as a histogram where numbers, dates or bins are many, or of unequal width.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

import numpy as np

from dpsql.synthesis.count_marks import SVG, across, bar, whisker
from dpsql.synthesis.entry_texts import labelled, measured_text
from dpsql.synthesis.histograms import histogram, unequal
from dpsql.synthesis.released_table import SyntheticColumn
from dpsql.synthesis.table_comparison import MarginalComparison, Z
from dpsql.synthesis.table_trust import share

MOST_LINES = 24  # values of a column, each on a line of its own; the smaller ones are put together
FEWEST_BARS = 12  # numbers or dates that are a histogram


def legend() -> str:
    """The marks of these pictures."""
    row = f"<svg viewBox='0 0 100 10' {SVG}>{bar(0, 100, 1, 8)}</svg>"
    line = f"<svg viewBox='0 0 100 10' {SVG}>{whisker(across(8, 50, 92))}</svg>"
    return (f"<p class='legend dim'><span>{row}rows of this table, scaled to the estimated number of private rows</span>"
            f"<span>{line}measured, with the 95 % interval of the private count</span></p>")


def column_picture(column: SyntheticColumn, found: MarginalComparison | None) -> str:
    """A column, as drawn and as measured."""
    name = f"<b>{html.escape(column.name)}</b>"
    if found is None or column.counted is None:
        told = "not counted, so how often each of its values occurs follows from other columns or from the model only"
        return f"<figure><figcaption>{name} <span class=dim>{told}</span></figcaption></figure>"
    labels = labelled(column)
    ordered = (column.type.numeric or column.type.temporal) and (len(labels) > FEWEST_BARS or unequal(column))
    told = histogram(column, column.counted, found) if ordered else "".join(_entries(labels, found))
    return (f"<figure><figcaption>{name} <span class=dim>{share(found.distance)} of the rows would "
            f"have to change to agree with what was measured; noise alone makes about {share(found.noise)}</span></figcaption>"
            f"{told}</figure>")


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
               f"{bar(0, 100 * drawn / top, 1, 8)}{whisker(across(*ends))}</svg>"
               f"<span>{drawn:,.0f} <span class=dim>{measured_text(measured, error)}</span></span></div>")
