"""A page about an answer, or the answers of a workload: the question, every number with its interval, charts, and what the
numbers mean. It holds released and public values only."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dpsql.answers.answer import Answer
from dpsql.answers.asked import Asked
from dpsql.answers.chart_svg import chart_html
from dpsql.answers.charted import pictured
from dpsql.answers.display import as_csv, charged, interval_text, note_html, printable, shown
from dpsql.answers.html_page import code, document, figures, folded, heading, paragraph
from dpsql.errors import ProgrammingError

MOST_ROWS = 10_000  # of a table: a browser can still show it
LONGEST_TITLE = 120  # letters


def answer_page(answer: Answer, asked: Asked) -> str:
    """The page of one answer, as text."""
    title = title_of(answer)
    head = asked.head(charged(answer).removeprefix("cost "))
    parts = [heading(1, title), *map(code, asked.statements), head, *rows_and_charts(answer),
             *meanings([answer], asked.spending.entity), *notes_below(answer.notes), asked.foot()]
    return document(title, parts, "charts")


def workload_page(answers: Sequence[Answer], asked: Asked, *, cost: str, notes: Sequence[str]) -> str:
    """The page of a workload, whose answers are consistent and were paid for together, as text."""
    title = f"{len(answers)} statements, answered together" if len(answers) > 1 else "a statement"
    parts = [heading(1, title), asked.head(cost), paragraph(
        "One set of noisy numbers was measured for all of them, so the answers agree with each other: groups add up to totals."),
        "<h2>How accurate they are</h2>", _accuracies(answers, asked), *meanings(answers, asked.spending.entity)]
    for i, (answer, statement) in enumerate(zip(answers, asked.statements, strict=True), start=1):
        parts += [heading(2, f"{i}. {title_of(answer)}"), code(statement), *rows_and_charts(answer), *notes_below(answer.notes)]
    return document(title, [*parts, asked.foot(notes)], "charts")


def title_of(answer: Answer) -> str:
    """The page's title: aggregates, then grouping columns."""
    told = ", ".join(column.name for column in answer.columns if not column.exact) or "public numbers"
    by = ", ".join(column.name for column in answer.columns if column.exact and told != "public numbers")
    title = printable(f"{told} by {by}" if by else told).replace("\n", " ")
    return title if len(title) <= LONGEST_TITLE else f"{title[:LONGEST_TITLE - 2]} …"


def meanings(answers: Sequence[Answer], entity: str) -> list[str]:
    """What the numbers mean, in sentences."""
    if all(column.exact for answer in answers for column in answer.columns):
        return [paragraph("Only public tables were read, so every number is exact.")]
    share = answers[0].confidence
    wrong = round(1 / (1 - share)) if share < 1 else 0
    told = (f"Noise was added to each number, so the answer reveals hardly anything about whether any one {entity} is in the "
            f"data. An interval (±, or from … to) contains the exact number with {share * 100:g} % probability"
            + (f": of {wrong:,} such intervals, one misses it on average." if wrong else "."))
    rough = dict.fromkeys(column.name for answer in answers for column in answer.columns if column.approximate)
    return [paragraph(told)] + ([paragraph(f"The interval of {', '.join(rough)} is approximate: its probability may differ.")]
                                if rough else [])


def notes_below(notes: Sequence[str]) -> Iterator[str]:
    """The notes of an answer."""
    if notes:
        yield heading(3, "To keep in mind") + f"<ul>{''.join(f'<li>{note_html(note)}</li>' for note in notes)}</ul>"


def rows_and_charts(answer: Answer) -> Iterator[str]:
    """The rows of an answer, and its charts where it can be drawn."""
    heads: list[str] = []
    for column in answer.columns:
        heads += [column.name] if column.exact else [column.name, "interval"]
    texts = [i for i, j in enumerate(_owners(answer)) if answer.columns[j].exact and not answer.columns[j].type.numeric]
    yield figures(heads, (_line(answer, i) for i in range(min(answer.size, MOST_ROWS))), texts=texts)
    if answer.size > MOST_ROWS:
        yield paragraph(f"The first {MOST_ROWS:,} of {answer.size:,} rows.", "dim")
    if not answer.size:
        yield paragraph("No row.", "dim")
    try:
        yield from (chart_html(chart) for chart in pictured(answer))
    except ProgrammingError as fault:
        yield paragraph(f"No chart: {fault.reason}.", "dim")
    if 0 < answer.size <= MOST_ROWS and not all(column.exact for column in answer.columns):
        yield folded("All digits, standard errors and the ends of intervals, as CSV", code(as_csv(answer)))


def _owners(answer: Answer) -> list[int]:
    """For each column of the table, the answer's column that it shows."""
    return [j for j, column in enumerate(answer.columns) for _ in range(1 if column.exact else 2)]


def _line(answer: Answer, i: int) -> list[str]:
    cells = []
    for j, column in enumerate(answer.columns):
        value, ends = answer.rows[i][j], answer.intervals[i][j]
        cells += [shown(value, ends)] if column.exact else [shown(value, ends), interval_text(ends, value, column.range)]
    return cells


def _accuracies(answers: Sequence[Answer], asked: Asked) -> str:
    """For each column of numbers: how many groups it has, its expected standard error, and the released one."""
    noisy = [(i, j) for i, answer in enumerate(answers) for j, column in enumerate(answer.columns) if not column.exact]
    expected = asked.expected if len(asked.expected) == len(noisy) else (None,) * len(noisy)
    lines = []
    for (i, j), error in zip(noisy, expected, strict=True):
        found = [row[j] for row in answers[i].errors if row[j] is not None]
        lines.append((f"{i + 1}. {answers[i].columns[j].name}", f"{answers[i].size:,}",
                      "depends on the data" if error is None else _short(error), _range(found)))
    return figures(("statement and number", "groups", "expected standard error", "released with"), lines)


def _range(errors: Sequence[float | None]) -> str:
    known = [error for error in errors if error is not None]
    if not known:
        return ""
    least, most = min(known), max(known)
    return _short(most) if math.isclose(least, most, rel_tol=1e-3) else f"{_short(least)} to {_short(most)}"


def _short(error: float) -> str:
    return f"{float(f'{error:.4g}'):,.10g}"
