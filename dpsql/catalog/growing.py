"""A catalog on a day: which periods of its growing tables are closed by then, and so which days their rows are of."""

from __future__ import annotations

import datetime as dt
import re

from dpsql.catalog.days import Days
from dpsql.catalog.model import Catalog
from dpsql.frozen import replace
from dpsql.trusted.declarations.growth import PeriodKind, PeriodRange, name_of, period_of
from dpsql.trusted.declarations.tables import Column, Domain, Table
from dpsql.types import Interval, Type

NAMED = re.compile(r"(?:week of )?([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2}))?|-Q([1-4]))?")  # a year, month, day, week or quarter


def today() -> dt.date:
    """The day by which periods are closed (UTC), by the clock of this machine. Where there is a ledger, it is no earlier than the
    day of its newest event (`kernel.revisions.TimeState`)."""
    return dt.datetime.now(dt.UTC).date()


def on_day(catalog: Catalog, day: dt.date) -> Catalog:
    """The catalog with the periods of its growing tables that are closed on a day; those without any have none."""
    periods = {name: found for name, table in catalog.tables.items() if (found := closed_periods(table, day)) is not None}
    tables = {name: within(table, periods[name]) if name in periods else table for name, table in catalog.tables.items()}
    return replace(catalog, tables=tables, periods=periods)


def closed_periods(table: Table, day: dt.date) -> PeriodRange | None:
    """The periods of a table that are closed on a day; None if it does not grow, or has none yet."""
    growth = table.growth
    if growth is None or (last := growth.last_closed(day)) < growth.since:
        return None
    return PeriodRange(period=growth.period, first=growth.since, last=last)


def within(table: Table, periods: PeriodRange) -> Table:
    """A growing table of which some periods are read: its column of time has their days as values, and an entity has as many rows
    as it may have in so many periods."""
    growth = table.growth
    assert growth is not None
    columns = {**table.columns, growth.column: _of_days(table.columns[growth.column], periods)}
    rows = table.rows if growth.rows is None or table.rows == 1 else growth.rows * len(growth.first_numbers(periods))
    return replace(table, columns=columns, rows=rows)


def number_named(kind: PeriodKind, text: str) -> int | None:
    """The number of the period that a text names, as `name_of` does, or by a day in it; None for other texts.

    >>> number_named("month", "2026-03") == number_named("month", "2026-03-31"), number_named("month", "2026-Q1")
    (True, None)
    """
    found = NAMED.fullmatch(text)
    if found is None:
        return None
    year, month, day, quarter = (int(part or 0) for part in found.groups())
    try:
        number = period_of(kind, dt.date(year, month or 3 * quarter or 1, day or 1))
    except ValueError:
        return None
    return number if day or name_of(kind, number) == text else None


def _of_days(column: Column, periods: PeriodRange) -> Column:
    days = range(periods.start.toordinal(), periods.end.toordinal())
    own = column.domain is None or isinstance(column.domain.values, Days)
    return replace(column, nullable=False, declared=Interval(days[0], days[-1]),
                   domain=Domain(Days(days)) if own and column.type is Type.DATE else column.domain)
