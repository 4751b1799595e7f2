"""Answers and listings on the screen: as tables, JSON or CSV."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpsql.cli.drawn_tables import DrawnColumn, draw
from dpsql.cli.terminal import console, print_wrapped

if TYPE_CHECKING:
    from dpsql.answers.answer import Answer
    from dpsql.answers.listing import Listing


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
        if getattr(options, "json", False):
            print(json.dumps(made.as_dict()))
        else:
            print_wrapped(str(made))
    else:
        from dpsql.answers.listing import Listing
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
    draw([_drawn(answer, i) for i in range(len(answer.columns))], screen)
    screen.print(legend(answer), style="dim", markup=False, highlight=False)
    print_notes(answer.notes, options)


def print_notes(notes: Sequence[str], options: argparse.Namespace) -> None:
    """Print notes below an answer. Long ones are shortened if the command has an option `--notes` that was not given."""
    from dpsql.answers.display import brief

    whole = getattr(options, "notes", True)
    shown = [note if whole else brief(note) for note in notes]
    if shown != [*notes]:
        shown.append("(--notes shows shortened notes in full)")
    screen = console()
    for line in shown:
        screen.print(line, style="dim", markup=False, highlight=False)


def _drawn(answer: Answer, i: int) -> DrawnColumn:
    """A column of an answer, with the intervals of its values."""
    from dpsql.answers.display import interval_text, printable, shown

    column = answer.columns[i]
    found = [(row[i], ends[i]) for row, ends in zip(answer.rows, answer.intervals, strict=True)]
    beside = [] if column.exact else [interval_text(ends, value, column.range) for value, ends in found]
    return DrawnColumn(title=printable(column.name), values=[shown(value, ends) for value, ends in found], beside=beside,
                       number=column.type.numeric)


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

    draw([DrawnColumn(title=name, values=[number(row[i]) for row in listing.rows]) for i, name in enumerate(names)], console())
