"""Periods of tables that grow: how time is cut into numbered periods, and which of them a scan reads.

Periods follow each other without gaps, and a larger number is a later period: a day has the number `date.toordinal`, a week
counts Mondays, months, quarters and years count from year 0. So the period of a row is a function of the row alone.

A *calendar* is a list of first days that everybody may see, such as those of school terms: each period ends where the next one
begins, and the last first day begins a period without an end yet, which is never closed. Its periods are numbered by their
days: the numbers of one period are those of all of its days, which are read and charged together (`kernel.period_reads`). So the
numbers of a period stay when first days are added, and what the ledger says of them means the same without the calendar.

>>> period_of("month", dt.date(2026, 3, 31)), first_day("month", 24314)
(24314, datetime.date(2026, 3, 1))
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from dpsql.frozen import Frozen
from dpsql.trusted.field_types import Assumptions, NumberRange

PeriodKind: TypeAlias = Literal["day", "week", "month", "quarter", "year", "calendar"]
KINDS: tuple[PeriodKind, ...] = "day", "week", "month", "quarter", "year"  # those that need no list of first days
CALENDAR: Literal["calendar"] = "calendar"
ALL_KINDS: tuple[PeriodKind, ...] = (*KINDS, CALENDAR)
MOST_FIRST_DAYS = 4000  # of a calendar
EARLIEST, LATEST = dt.date(1900, 1, 1), dt.date(2999, 12, 31)  # no period begins earlier, or ends later
LONGEST_CLOSES = 400  # days after its end until a period is closed
Ordinal: TypeAlias = Annotated[int, NumberRange(least=1900, most=1_100_000)]


class Growth(Frozen):
    """How a table grows: a row belongs to the period of its value in `column`. Rows with NULL there belong to none, and are never
    read. `since` is the first period, and a period is closed `closes` days after its end. `rows` is the largest number of rows of
    one entity in one period that are used; None if the owner gave no limit. Where late rows are dropped, `arrived` is the column
    of the time at which a row arrived: rows that arrived when their period was closed are never read. `calendar` has the first
    days of the periods of a calendar, as `date.toordinal` numbers them, in order; none for periods of other kinds."""

    column: str
    period: PeriodKind
    since: int
    closes: int = 0
    rows: int | None = None
    arrived: str | None = None
    calendar: tuple[int, ...] = ()

    def last_closed(self, day: dt.date) -> int:
        """The last number of the newest period that is closed on a day; less than `since` if there is none."""
        number = period_of(self.period, day - dt.timedelta(days=self.closes))
        if self.period != CALENDAR:
            return number - 1
        begun = bisect_right(self.calendar, number)
        return self.calendar[begun - 1] - 1 if begun else self.since - 1

    def first_numbers(self, periods: PeriodRange) -> Sequence[int]:
        """The first number of each period of a range."""
        if self.period != CALENDAR:
            return range(periods.first, periods.last + 1)
        return self.calendar[bisect_left(self.calendar, periods.first):bisect_right(self.calendar, periods.last)]

    def each(self, periods: PeriodRange) -> list[PeriodRange]:
        """The periods of a range, one by one."""
        first = self.first_numbers(periods)
        return [PeriodRange(period=self.period, first=number, last=following - 1)
                for number, following in zip(first, [*first[1:], periods.last + 1], strict=True)]

    def is_whole(self, periods: PeriodRange) -> bool:
        """Whether a range consists of whole periods: of a calendar, from one of its first days to the day before another one."""
        if self.period != periods.period or periods.first > periods.last:
            return False
        return self.period != CALENDAR or (periods.first in self.calendar and periods.last + 1 in self.calendar)

    def containing(self, number: int) -> PeriodRange | None:
        """The period with a number; None if the calendar does not say from when to when it lasts."""
        if self.period != CALENDAR:
            return PeriodRange(period=self.period, first=number, last=number)
        begun = bisect_right(self.calendar, number)
        if not 0 < begun < len(self.calendar):
            return None
        return PeriodRange(period=self.period, first=self.calendar[begun - 1], last=self.calendar[begun] - 1)


class PeriodRange(Frozen):
    """The periods from number `first` to number `last`, both included, of one kind. A period of a calendar has several numbers,
    one for each of its days; how many periods these are is known with the calendar alone (`Growth.each`)."""

    period: PeriodKind
    first: Ordinal
    last: Ordinal

    def assumptions(self) -> Assumptions:
        yield self.first <= self.last, "a range of periods must not be empty"
        yield self.first >= period_of(self.period, EARLIEST) and self.last <= period_of(self.period, LATEST), (
            "a range of periods must lie between 1900 and 2999")

    def __len__(self) -> int:
        """How many numbers these are."""
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
    """The number of the period in which a day lies; of a calendar, the one that the day has."""
    match kind:
        case "day" | "calendar":
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
    """The first day with a number. Raises ValueError or OverflowError if there is no such day."""
    match kind:
        case "day" | "calendar":
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
    """A period in words for people: 2026-03, 2026-Q1, 2026; for days and weeks, the first day; of a calendar, the day."""
    day = first_day(kind, number)
    match kind:
        case "day" | "calendar":
            return day.isoformat()
        case "week":
            return f"week of {day.isoformat()}"
        case "month":
            return f"{day:%Y-%m}"
        case "quarter":
            return f"{day.year}-Q{(day.month - 1) // 3 + 1}"
        case "year":
            return f"{day.year}"


def names_of(periods: PeriodRange) -> str:
    """Some periods in words for people, such as 2026-03 to 2026-05; those of a calendar by their first and last day."""
    return " to ".join(name_of(periods.period, number) for number in dict.fromkeys((periods.first, periods.last)))
