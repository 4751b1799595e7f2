"""Pages of what is published: one for each standing query, and one that lists them. They hold released and public values only,
and nothing that changes without them: no time of writing, and no rest of a budget."""

from __future__ import annotations

import datetime as dt
import html
from collections.abc import Iterable

from dpsql.answers.answer import Answer
from dpsql.answers.answer_page import meanings, notes_below, rows_and_charts, title_of
from dpsql.answers.html_page import code, document, facts, figures, folded, heading, paragraph
from dpsql.answers.published_series import PublishedPeriod, PublishedSeries
from dpsql.frozen import Frozen, replace
from dpsql.types import Type


class IndexEntry(Frozen):
    """A standing query in the list: `periods` says which are published, and `files` are those that there are."""

    name: str
    statement: str
    analyst: str
    periods: str
    files: tuple[str, ...]


def series_page(series: PublishedSeries, files: Iterable[str]) -> str:
    """The page of a standing query, as text; `files` have the same numbers."""
    missing = [period.name for period in series.periods if period.answer is None]
    newest, answer = series.measured[-1], with_dates(series.answer)
    parts = [
        heading(1, f"{series.name}: {title_of(answer)}"), code(series.statement),
        facts([("made by", series.analyst), ("budget", f"{series.budget}, which protects each {series.entity}"),
               ("periods", span_of(series.measured)), ("price of a period", price_of(newest)),
               ("changes", series.changes and f"{series.changes} change as periods are added"),
               ("not measured", ", ".join(missing))]),
        _links(files), *rows_and_charts(answer), *meanings([answer], series.entity),
        *notes_below(() if newest.answer is None else newest.answer.notes),
        folded("Periods and prices", figures(
            ("period", "first day", "last day", "price in the period", "price in all", "stored"),
            ((period.name, period.first.isoformat(), period.last.isoformat(), period.price_in_period, period.price_in_all,
              "no" if period.answer is None else "yes") for period in series.periods), texts=range(6)))]
    return document(f"{series.name}: {title_of(answer)}", parts, "charts")


def with_dates(answer: Answer) -> Answer:
    """The answer with dates in columns of times that are all at midnight, as starts of periods are."""
    columns, data = [*answer.columns], [*answer.data]
    for at, column in enumerate(columns):
        days = [value.date() for value in data[at].values if isinstance(value, dt.datetime) and value.time() == dt.time()]
        if column.type is Type.TIMESTAMP and column.exact and len(days) == sum(value is not None for value in data[at].values):
            found = iter(days)
            columns[at] = replace(column, type=Type.DATE)
            data[at] = replace(data[at], values=tuple(None if value is None else next(found) for value in data[at].values))
    return replace(answer, columns=tuple(columns), data=tuple(data))


def index_page(budget: str, entries: Iterable[IndexEntry]) -> str:
    """The page that lists the standing queries of a budget, as text."""
    parts = [heading(1, f"Standing queries of {budget}")]
    for entry in entries:
        parts += [heading(2, entry.name), code(entry.statement), facts([("made by", entry.analyst), ("periods", entry.periods)]),
                  _links(entry.files) if entry.files else paragraph("No period is published yet.", "dim")]
    return document(f"Standing queries of {budget}", parts)


def span_of(periods: tuple[PublishedPeriod, ...]) -> str:
    """How many periods there are, and from when to when."""
    first, last = periods[0].name, periods[-1].name
    return first if first == last else f"{len(periods)}, {first} to {last}"


def price_of(period: PublishedPeriod) -> str:
    """What a person was charged, once if it is the same in the period and in all."""
    if period.price_in_period == period.price_in_all:
        return period.price_in_period
    return f"{period.price_in_period} in the period, {period.price_in_all} in all"


def _links(files: Iterable[str]) -> str:
    """Links to files beside the page."""
    shown = " · ".join(f"<a href='{html.escape(name)}'>{html.escape(name)}</a>" for name in files)
    return f"<p>{shown}</p>" if shown else ""
