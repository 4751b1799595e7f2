"""Results of statements as agents get them: as data, and in few words."""

from __future__ import annotations

import math
from typing import Any

from dpsql.answers.answer import Answer
from dpsql.answers.columns import plain
from dpsql.answers.display import interval_text, number, shown

MOST_ROWS = 200  # of an answer that are sent at once
ROWS_IN_WORDS = 12


def answer_as_data(answer: Answer, *, offset: int = 0, rows: int = MOST_ROWS) -> dict[str, Any]:
    """A part of an answer: values, standard errors and ends of intervals, row by row. An end that is None is open."""
    part = answer.at(slice(offset, offset + min(rows, MOST_ROWS)))
    columns = range(len(part.columns))
    return {
        "columns": [{"name": column.name, "type": column.type.value, "exact": column.exact, "approximate": column.approximate}
                    for column in part.columns],
        "rows": [[_finite(plain(value)) for value in row] for row in part.rows],
        "errors": [[_finite(error) for error in row] for row in part.errors],
        "intervals": [[_ends(part, i, j) for j in columns] for i in range(part.size)],
        "confidence": answer.confidence, "rows_in_all": answer.size, "offset": offset}


def answer_in_words(answer: Answer) -> str:
    """The first rows of an answer, one line each."""
    lines = []
    for i, (row, ends) in enumerate(zip(answer.rows[:ROWS_IN_WORDS], answer.intervals, strict=False)):
        cells = []
        for column, value, interval in zip(answer.columns, row, ends, strict=True):
            margin = interval_text(interval, value)
            told = shown(value, interval) if interval else number(value)
            cells.append(f"{column.name} = {told}" + (f" ({margin})" if margin else ""))
        lines.append(f"{i + 1}. {', '.join(cells)}")
    if answer.size > ROWS_IN_WORDS:
        lines.append(f"... {answer.size - ROWS_IN_WORDS} more rows in the structured result")
    return "\n".join(lines) or "no rows"


def rows_as_data(names: list[str], types: list[str], rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    """A table of texts and numbers without errors, in the form of an answer."""
    return {"columns": [{"name": name, "type": kind, "exact": True, "approximate": False}
                        for name, kind in zip(names, types, strict=True)],
            "rows": [[_finite(plain(value)) for value in row] for row in rows[:MOST_ROWS]],
            "errors": [], "intervals": [], "confidence": None, "rows_in_all": len(rows), "offset": 0}


def _ends(answer: Answer, row: int, column: int) -> list[Any] | None:
    ends = answer.ends(row, column)
    return None if ends is None else [_finite(plain(end)) for end in ends]


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
