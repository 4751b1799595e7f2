"""A page about a synthetic table, for people to read: what it can be used for, with pictures of the rows that were drawn
beside the counts that were measured. It holds released and public values only.

Columns are drawn in `column_pictures`, pairs of columns in `pair_pictures`.
"""

from __future__ import annotations

import html
from collections.abc import Iterator

from dpsql.answers.html_page import document, facts, figures, fragment, heading, paragraph
from dpsql.synthesis.acceptance import Acceptance
from dpsql.synthesis.column_pictures import column_picture, legend
from dpsql.synthesis.pair_pictures import pair_parts
from dpsql.synthesis.released_table import KeptTable
from dpsql.synthesis.table_comparison import TableComparison
from dpsql.synthesis.table_trust import trust


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
        yield legend()
        yield from (column_picture(column, compared.columns.get(column.name))
                    for column in table.columns if column.name not in table.keys)
    if compared.pairs:
        yield "<h2>Pair by pair</h2>"
        yield from pair_parts(compared)
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

