"""Answers and listings on the screen: as tables, JSON or CSV."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dpsql.cli.terminal import console, new_table

if TYPE_CHECKING:
    from rich.table import Table

    from dpsql.answers.answer import Answer
    from dpsql.answers.listings import Listing


def show(cursor: Any, options: argparse.Namespace) -> None:
    if cursor.answer is not None:
        print_answer(cursor.answer, options)
    elif cursor.synthetic is not None:
        print(json.dumps(cursor.synthetic.as_dict()) if getattr(options, "json", False) else cursor.synthetic)
    elif cursor.database is not None:
        print(cursor.database.as_json() if getattr(options, "json", False) else cursor.database)
    elif cursor.model is not None:
        print(cursor.model.as_json() if getattr(options, "json", False) else cursor.model)
    elif cursor.explanation is not None:
        made = cursor.explanation
        print(json.dumps(made.as_dict()) if getattr(options, "json", False) else made)
    else:
        from dpsql.answers.listings import Listing
        from dpsql.types import Type

        columns = tuple((name, Type(kind)) for name, kind, *_ in cursor.description)
        print_listing(Listing(columns=columns, rows=tuple(cursor.fetchall())), options)


def print_answer(answer: Answer, options: argparse.Namespace) -> None:
    from dpsql.answers.display import as_csv, as_dict, legend

    if getattr(options, "json", False):
        print(json.dumps(as_dict(answer)))
        return
    if getattr(options, "csv", False):
        print(as_csv(answer), end="")
        return
    screen = console()
    screen.print(_drawn(answer), crop=False)
    for line in (legend(answer), *answer.notes):
        screen.print(line, style="dim", markup=False, highlight=False)


def _drawn(answer: Answer) -> Table:
    """A table in which no number and no word of a key is broken or cut off, however narrow the terminal: headings give way."""
    from dpsql.answers.display import interval_text, shown

    table, drawn = new_table(), []
    for i, column in enumerate(answer.columns):
        values = [(row[i], ends[i]) for row, ends in zip(answer.rows, answer.intervals, strict=True)]
        cells = [shown(value, ends) for value, ends in values]
        table.add_column(column.name, justify="left" if column.exact and not column.type.numeric else "right", overflow="fold",
                         min_width=_longest_word([*cells, column.name[:len("COUNT(*)")]]))
        drawn.append(cells)
        if not column.exact:
            intervals = [interval_text(ends, value) for value, ends in values]
            table.add_column("", style="dim", justify="left", overflow="fold", min_width=_longest_word(intervals))
            drawn.append(intervals)
    for row in zip(*drawn, strict=True):
        table.add_row(*row)
    return table


def _longest_word(texts: Iterable[str]) -> int:
    from rich.cells import cell_len

    return max((cell_len(word) for text in texts for word in text.split()), default=0)


def print_listing(listing: Listing, options: argparse.Namespace) -> None:
    names = [name for name, _ in listing.columns]
    if getattr(options, "json", False):
        for row in listing.rows:
            print(json.dumps(dict(zip(names, row, strict=True))))
        return
    if getattr(options, "csv", False):
        import csv

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(listing.rows)
        return
    from dpsql.answers.display import number

    table = new_table()
    for name in names:
        table.add_column(name, overflow="fold")
    for row in listing.rows:
        table.add_row(*(number(value) for value in row))
    console().print(table)
