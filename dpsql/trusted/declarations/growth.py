"""Periods of tables that grow: how time is cut into numbered periods, and which of them a scan reads.

Periods follow each other without gaps, and a larger number is a later period: a day has the number `date.toordinal`, a week
counts Mondays, months, quarters and years count from year 0. So the period of a row is a function of the row alone.

>>> period_of("month", dt.date(2026, 3, 31)), first_day("month", 24314)
(24314, datetime.date(2026, 3, 1))
"""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal, TypeAlias

from dpsql.frozen import Frozen
from dpsql.trusted.field_types import Assumptions, NumberRange

PeriodKind: TypeAlias = Literal["day", "week", "month", "quarter", "year"]
KINDS: tuple[PeriodKind, ...] = "day", "week", "month", "quarter", "year"
EARLIEST, LATEST = dt.date(1900, 1, 1), dt.date(2999, 12, 31)  # no period begins earlier, or ends later
LONGEST_CLOSES = 400  # days after its end until a period is closed
Ordinal: TypeAlias = Annotated[int, NumberRange(least=1900, most=1_100_000)]


class Growth(Frozen):
    """How a table grows: a row belongs to the period of its value in `column`. Rows with NULL there belong to none, and are never
    read. `since` is the first period, and a period is closed `closes` days after its end. `rows` is the largest number of rows of
    one entity in one period that are used; None if the owner gave no limit. Where late rows are dropped, `arrived` is the column
    of the time at which a row arrived: rows that arrived when their period was closed are never read."""

    column: str
    period: PeriodKind
    since: int
    closes: int = 0
    rows: int | None = None
    arrived: str | None = None

    def last_closed(self, day: dt.date) -> int:
        """The newest period that is closed on a day; less than `since` if there is none."""
        return period_of(self.period, day - dt.timedelta(days=self.closes)) - 1


class PeriodRange(Frozen):
    """The periods from `first` to `last`, both included, of one kind."""

    period: PeriodKind
    first: Ordinal
    last: Ordinal

    def assumptions(self) -> Assumptions:
        yield self.first <= self.last, "a range of periods must not be empty"
        yield self.first >= period_of(self.period, EARLIEST) and self.last <= period_of(self.period, LATEST), (
            "a range of periods must lie between 1900 and 2999")

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __contains__(self, other: PeriodRange) -> bool:
        return self.period == other.period and self.first <= other.first and other.last <= self.last

    @property
    def start(self) -> dt.date:
        """The first day of these periods."""
        return first_day(self.period, self.first)

    @property
    def end(self) -> dt.date:
        """The first day after them."""
        return first_day(self.period, self.last + 1)


def period_of(kind: PeriodKind, day: dt.date) -> int:
    """The number of the period in which a day lies."""
    match kind:
        case "day":
            return day.toordinal()
        case "week":
            return (day.toordinal() - 1) // 7  # 0001-01-01 is a Monday
        case "month":
            return day.year * 12 + day.month - 1
        case "quarter":
            return day.year * 4 + (day.month - 1) // 3
        case "year":
            return day.year


def first_day(kind: PeriodKind, number: int) -> dt.date:
    """The first day of a period. Raises ValueError or OverflowError if there is no such day."""
    match kind:
        case "day":
            return dt.date.fromordinal(number)
        case "week":
            return dt.date.fromordinal(number * 7 + 1)
        case "month":
            return dt.date(number // 12, number % 12 + 1, 1)
        case "quarter":
            return dt.date(number // 4, number % 4 * 3 + 1, 1)
        case "year":
            return dt.date(number, 1, 1)


def name_of(kind: PeriodKind, number: int) -> str:
    """A period in words for people: 2026-03, 2026-Q1, 2026; for days and weeks, the first day."""
    day = first_day(kind, number)
    match kind:
        case "day":
            return day.isoformat()
        case "week":
            return f"week of {day.isoformat()}"
        case "month":
            return f"{day:%Y-%m}"
        case "quarter":
            return f"{day.year}-Q{(day.month - 1) // 3 + 1}"
        case "year":
            return f"{day.year}"
