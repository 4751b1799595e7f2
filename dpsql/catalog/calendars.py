"""Calendars: periods of growing tables that begin on the days of a public table, such as those of school terms.

A policy names the table and its column of first days. They are read when the policy is fitted to a database, and become a part
of what the budgets promise (`catalog.promise`).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from itertools import pairwise

from dpsql.catalog.model import CalendarPolicy, GrowthPolicy, Policy
from dpsql.catalog.public_lists import Values
from dpsql.catalog.sections import locate, suggest
from dpsql.errors import PolicyError
from dpsql.frozen import replace
from dpsql.trusted.declarations.growth import EARLIEST, LATEST, MOST_FIRST_DAYS
from dpsql.trusted.declarations.tables import TableSchema


def has_calendars(policy: Policy) -> bool:
    """Whether a table grows by a calendar whose first days are not read yet."""
    return any(_unread(table.growth) is not None for table in policy.tables.values())


def with_calendars(policy: Policy, schema: Mapping[str, TableSchema], values: Values) -> Policy:
    """The policy with the first days of its calendars. `values(table, columns, most)` lists different rows of a public table.

    Raises PolicyError, located in the policy, if a table or column is missing, or if its values are no first days.
    """
    tables = dict(policy.tables)
    for name, table in policy.tables.items():
        if table.growth is not None and (calendar := _unread(table.growth)) is not None:
            days = _first_days(policy, name, calendar, schema, values)
            if table.growth.since not in days:
                known = [day for day in days if day <= table.growth.since]
                raise _fault(policy, (name, "since"), f"no period of {calendar.words} begins on {table.growth.since}",
                             try_=f"since = {max(known, default=days[0])}")
            tables[name] = replace(table, growth=replace(table.growth, calendar=replace(
                calendar, days=tuple(day.toordinal() for day in days))))
    return replace(policy, tables=tables) if tables != policy.tables else policy


def _unread(growth: GrowthPolicy | None) -> CalendarPolicy | None:
    return growth.calendar if growth is not None and growth.calendar is not None and not growth.calendar.days else None


def _first_days(policy: Policy, name: str, calendar: CalendarPolicy, schema: Mapping[str, TableSchema],
                values: Values) -> list[dt.date]:
    path, words = (name, "period"), calendar.words
    names = {each.lower(): each for each in schema}
    if calendar.table.lower() not in names:
        raise _fault(policy, path, f"the database has no table {calendar.table}", try_=suggest(calendar.table, sorted(schema)))
    types = {column.lower(): kind for column, kind in schema[names[calendar.table.lower()]].columns}
    kind = types.get(calendar.starts.lower())
    if kind is None:
        raise _fault(policy, path, f"table {calendar.table} has no column {calendar.starts}",
                     try_=suggest(calendar.starts, types))
    if kind.upper() != "DATE":
        raise _fault(policy, path, f"{words} is {kind}, not a date", try_="a column of type DATE")
    others = [column for column in policy.tables[calendar.table].columns if column.lower() != calendar.starts.lower()]
    try:
        found = [row[0] for row in values(calendar.table, [calendar.starts, *others], MOST_FIRST_DAYS + 1)]
    except ValueError:  # a day that Python cannot represent
        raise _fault(policy, path, f"{words} has days outside {EARLIEST} to {LATEST}") from None
    if len(found) > MOST_FIRST_DAYS:
        raise _fault(policy, path, f"{calendar.table} has more than {MOST_FIRST_DAYS:,} rows", try_="a table with fewer periods")
    days = sorted(day for day in found if isinstance(day, dt.date))
    if len(days) < len(found):
        raise _fault(policy, path, f"{words} is NULL in a row", try_="the first day of each period")
    again = next((day for day, other in pairwise(days) if day == other), None)
    if again is not None:
        raise _fault(policy, path, f"{words} has {again} in two rows", try_="one row for each period")
    if len(days) < 2:
        raise _fault(policy, path, f"{words} has fewer than two days, so no period has an end",
                     try_="the first day of the period that follows, too")
    if not EARLIEST <= days[0] <= days[-1] <= LATEST:
        raise _fault(policy, path, f"{words} has days outside {EARLIEST} to {LATEST}")
    return days


def _fault(policy: Policy, path: tuple[str, str], reason: str, *, try_: str = "") -> PolicyError:
    whole = ("tables", *path)
    return PolicyError(f"{'.'.join(whole)}: {reason}", code="policy-schema", try_=try_, span=locate(policy.text, whole),
                       subject=".".join(whole), text=policy.text, source=policy.path)
