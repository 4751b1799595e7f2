"""Answers as text, HTML, CSV and JSON. All of it is made from released values."""

from __future__ import annotations

import csv
import datetime as dt
import html
import io
import math
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

from dpsql.answers.answer import Answer
from dpsql.answers.columns import plain
from dpsql.answers.worth import tells_nothing
from dpsql.trusted.plan.expr.nodes import Value

EVEN = 0.25  # ends whose distances differ by less than this fraction are shown as one ±
EXPONENT = 1e18  # numbers from which on an exponent says as much as all their digits
LONGEST_NOTE = 140  # letters of a note that is shown whole
CLAUSE_ENDS = re.compile(r"(?<=.{40})(?:; |: |\. |, | \()")  # where a long note may be cut: not right at its beginning
Ends: TypeAlias = tuple[float, float] | None


def number(value: Value, margin: float | None = None) -> str:
    """A value as text for people: it has only the digits that are meaningful given its error."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        if margin is None or not 0 < margin < math.inf or abs(value) >= EXPONENT:
            return f"{value:,.10g}"
        decimals = max(0, 1 - math.floor(math.log10(margin)))
        return f"{value:,.{min(decimals, 10)}f}"
    return f"{value:,}" if isinstance(value, int) and margin is not None else printable(str(value))


def shown(value: Value, ends: Ends) -> str:
    """A value with an interval, as text for people."""
    if ends is None or value is None or isinstance(value, str | dt.date):
        return number(value)
    return number(value, half_width(ends) or min(abs(end - float(value)) for end in ends))


def printable(text: str) -> str:
    """A text without terminal control characters: these are shown as Python escapes."""
    return "".join(letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1] for letter in text)


def interval_text(ends: Ends, value: Value, possible: Ends = None) -> str:
    """The text of an interval, shown after its value: ± half its width, or both ends if the value is not in the middle, or if it
    is all that is `possible`."""
    if ends is None or value is None or isinstance(value, str):
        return ""
    if possible is not None and tells_nothing(ends, possible) and math.isfinite(ends[1] - ends[0]):
        return f"any of {_end(ends[0], value)} … {_end(ends[1], value)}"
    middle = value.toordinal() if isinstance(value, dt.date) else float(value)
    below, above = middle - ends[0], ends[1] - middle
    margin = half_width(ends)
    if margin is None:
        at_least, at_most = math.isfinite(ends[0]), math.isfinite(ends[1])
        return "of any error" if not at_least and not at_most else (
            f"≥ {_end(ends[0], value)}" if at_least else f"≤ {_end(ends[1], value)}")
    rounding = 1 + 1e-9 if isinstance(value, int | dt.date) else 0.0
    if abs(below - above) > max(EVEN * margin, rounding):
        return f"{_end(ends[0], value, margin)} … {_end(ends[1], value, margin)}"
    return f"± {_width(margin if rounding else max(below, above), value)}"


def half_width(ends: Ends) -> float | None:
    """Half the width of an interval; None if there is no interval, or one of its ends is open."""
    return None if ends is None or not math.isfinite(ends[1] - ends[0]) else (ends[1] - ends[0]) / 2


def _width(margin: float, value: Value) -> str:
    if isinstance(value, dt.date):
        return f"{margin:.1f} days"
    if margin == 0:
        return "0"
    decimals = max(0, 1 - math.floor(math.log10(margin)))
    if margin >= EXPONENT:
        return f"{margin:.3g}"
    return f"{math.ceil(margin - 1e-9):,}" if isinstance(value, int) and margin >= 1 else f"{margin:,.{min(decimals, 10)}f}"


def _end(end: float, value: Value, margin: float | None = None) -> str:
    """The end of an interval in the type of its column: a date for dates, a whole number for whole numbers."""
    if isinstance(value, dt.date):
        return str(dt.date.fromordinal(round(min(max(end, 1), dt.date.max.toordinal()))))
    return f"{round(end):,}" if isinstance(value, int) else number(end, margin or abs(float(value or 0) - end))


def legend(answer: Answer) -> str:
    """One line under a table that says what intervals mean, what is approximate, and what it cost."""
    return "; ".join((*meaning(answer), charged(answer)))


def meaning(answer: Answer, names: Sequence[str] | None = None) -> list[str]:
    """What intervals mean and which columns are approximate (only these columns, if named); empty if all columns are exact."""
    parts = []
    if any(not column.exact for column in answer.columns):
        open_ = any(ends is not None and half_width(ends) is None for row in answer.intervals for ends in row)
        nothing = any(tells_nothing(row[i], column.range) for i, column in enumerate(answer.columns) if column.range is not None
                      for row in answer.intervals)
        parts.append(f"± is the {answer.confidence * 100:g} % interval" + (", ≥ is a lower bound" if open_ else "")
                     + (", any of: all that is possible" if nothing else ""))
    rough = [column.name for column in answer.columns if column.approximate and (names is None or column.name in names)]
    if rough:
        parts.append(f"approximate for {', '.join(rough)}")
    return parts


def told_before(*, shared: bool) -> str:
    """The words for an answer that cost nothing; `shared` if another analyst was told it, and this one is for the first time."""
    return "free: answered before for another analyst of this budget" if shared else "answered before, no cost"


def charged(answer: Answer) -> str:
    """What the answer cost this time."""
    return told_before(shared=answer.shared) if answer.stored else f"cost {answer.cost}" if answer.cost else "no cost" if any(
        not column.exact for column in answer.columns) else "public, no cost"


def brief(note: str) -> str:
    """A note, cut after its first clauses if it is too long to read at a glance. The rest is shown by `--notes` in a terminal, or
    by a click in a page (`console/notes.js` does the same)."""
    if len(note) <= LONGEST_NOTE:
        return note
    head = note[:LONGEST_NOTE]
    ends = [found.start() for found in CLAUSE_ENDS.finditer(head)] or [head.rfind(" ")]
    return f"{head[:ends[-1]]} ..."


def note_html(note: str) -> str:
    """A note as HTML; a long one is folded until it is clicked."""
    whole = html.escape(note)
    return whole if brief(note) == note else f"<details><summary>{html.escape(brief(note))}</summary>{whole}</details>"


def as_html(answer: Answer) -> str:
    """A table for notebooks."""
    sides = ["right" if column.type.numeric else "left" for column in answer.columns]
    head = "".join(f'<th style="text-align:{side}">{html.escape(column.name)}</th>'
                   for side, column in zip(sides, answer.columns, strict=True))
    body = []
    for row, intervals in zip(answer.rows, answer.intervals, strict=True):
        cells = "".join(f'<td style="text-align:{side}">{html.escape(shown(value, ends))} '
                        f'<span style="opacity:.6">{interval_text(ends, value, column.range)}</span></td>'
                        for side, value, ends, column in zip(sides, row, intervals, answer.columns, strict=True))
        body.append(f"<tr>{cells}</tr>")
    lines = [html.escape(legend(answer)), *map(note_html, answer.notes)]
    below = "".join(f'<div style="opacity:.7">{line}</div>' for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>{below}"


def listed_html(names: Sequence[str], rows: Sequence[Sequence[Value]]) -> str:
    """A table of public facts for notebooks."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f'<td style="text-align:left">{html.escape(number(value))}</td>' for value in row) + "</tr>"
                   for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def as_csv(answer: Answer) -> str:
    """The answer as CSV; each noisy number is followed by its standard error and the ends of its interval."""
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    titles: list[str] = []
    for column in answer.columns:
        titles.append(column.name)
        titles += [] if column.exact else [f"{column.name} {part}" for part in ("error", "low", "high")]
    writer.writerow(titles)
    for i, row in enumerate(answer.rows):
        cells: list[Any] = []
        for j, value in enumerate(row):
            cells.append("" if value is None else plain(value))
            if not answer.columns[j].exact:
                ends = answer.ends(i, j) or ("", "")
                error = answer.errors[i][j]
                cells += ["" if error is None else error, *map(plain, ends)]
        writer.writerow(cells)
    return made.getvalue()


def as_dict(answer: Answer) -> dict[str, Any]:
    """An answer for programs."""
    return {
        "columns": [{"name": column.name, "type": column.type.value, "exact": column.exact, "approximate": column.approximate,
                     "range": None if column.range is None else [*map(_finite, column.range)]} for column in answer.columns],
        "rows": [[_finite(plain(value)) for value in row] for row in answer.rows], "errors": answer.errors,
        "intervals": [[_ends(answer, i, j) for j in range(len(answer.columns))] for i in range(len(answer.rows))],
        "confidence": answer.confidence, "cost": answer.cost or None, "stored": answer.stored, "notes": list(answer.notes)}


def _ends(answer: Answer, row: int, column: int) -> list[Any] | None:
    ends = answer.ends(row, column)
    return None if ends is None else [_finite(plain(end)) for end in ends]


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
