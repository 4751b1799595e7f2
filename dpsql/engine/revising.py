"""Revisions of closed periods, as owners declare them: `dpsql revise`.

Rows never decide about a revision, and nothing is compared here: the owner says which periods were changed, and statements about
them are measured, and charged, anew. So which periods are revised, and when, must not depend on the rows of a person either; the
guide for owners says how erasures are handled.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Mapping
from pathlib import Path

from dpsql.catalog import growing
from dpsql.catalog.model import GrowthPolicy, Policy
from dpsql.catalog.policy import read_policy
from dpsql.engine.opening import find_ledger, find_policy
from dpsql.errors import OptionError
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.sql.text.spelling import closest, one_of
from dpsql.trusted.declarations.growth import Growth, PeriodRange, name_of, period_of
from dpsql.trusted.kernel.revisions import LONGEST_REASON, Revision


def revise(table: str | None, *, period: str | None = None, to: str | None = None, reason: str = "",
           policy: str | Path | None = None, database: str | Path | None = None,
           ledger: str | Path | None = None) -> list[Revision]:
    """Declare that rows of a closed period of a growing table have changed, of those up to `to`, or of all closed periods;
    without a table, of all tables. The `reason` is public. Returns what was recorded.

    Statements about these periods are charged anew, to the same accounts. Raises PolicyError, OptionError or LedgerError.
    """
    declared = read_policy(find_policy(database, policy))
    if len(reason) > LONGEST_REASON or not reason.isprintable():
        raise OptionError(f"a reason is one line of at most {LONGEST_REASON} letters", code="option", subject="reason",
                          try_='reason = "rows of deleted accounts"')
    book = ReportingLedger(*find_ledger(declared, ledger))
    with contextlib.closing(book):
        today = growing.today() + dt.timedelta(days=book.time_state().days_behind)
        made = [Revision(table=name, periods=periods, reason=reason)
                for name, periods in _chosen(declared, table, period, to, today).items()]
        book.revise(made)
    return made


def correct_clock(*, policy: str | Path | None = None, database: str | Path | None = None,
                  ledger: str | Path | None = None) -> int:
    """Say that this machine's clock is right, after events were recorded with one that was ahead. Returns by how many days it
    was. Raises PolicyError or LedgerError."""
    book = ReportingLedger(*find_ledger(read_policy(find_policy(database, policy)), ledger))
    with contextlib.closing(book):
        behind = book.time_state().days_behind
        if behind:
            book.correct_clock()
    return behind


def _chosen(policy: Policy, table: str | None, period: str | None, to: str | None, today: dt.date) -> Mapping[str, PeriodRange]:
    """The periods to revise, by table."""
    tables = {name: made.growth for name, made in policy.tables.items() if made.growth is not None}
    if not tables:
        raise OptionError("no table of the policy grows, so there are no periods", code="option", subject="table",
                          try_="dpsql help owner, which says how tables grow")
    if table is not None:
        named = {name: growth for name, growth in tables.items() if name.lower() == table.lower()}
        if not named:
            raise OptionError(f"{table} is not a table that grows", code="option", subject="table",
                              try_=closest(table, [*tables]) or one_of([*tables]))
        tables = named
    elif period is not None or to is not None:
        raise OptionError("periods are those of one table", code="option", subject="period", try_="the name of the table before")
    found = {name: _periods(name, growth, period, to, today) for name, growth in tables.items()}
    return {name: periods for name, periods in found.items() if periods is not None}


def _periods(table: str, growth: GrowthPolicy, period: str | None, to: str | None, today: dt.date) -> PeriodRange | None:
    """The periods of a table from one name to another, or all that are closed; None if none is closed yet."""
    since = period_of(growth.period, growth.since)
    days = None if growth.calendar is None else tuple(range(since, (today - dt.timedelta(days=growth.closes)).toordinal() + 1))
    newest = Growth(column=growth.column, period=growth.period, since=since, closes=growth.closes,
                    calendar=days or ()).last_closed(today)  # periods of a calendar are revised by their days
    if period is None:
        if to is not None:
            raise OptionError("the first period is missing", code="option", subject="to", try_="--period beside --to")
        return PeriodRange(period=growth.period, first=since, last=newest) if newest >= since else None
    first = _number(growth, period, "period")
    last = first if to is None else _number(growth, to, "to")
    for name, number in ("period", first), ("to", last):
        if not since <= number <= newest or number < first:
            raise OptionError(f"{name_of(growth.period, number)} is no closed period of {table}"
                              f"{', or comes before the first one' if number < first else ''}", code="option", subject=name,
                              try_="one from " + name_of(growth.period, max(since, first if name == "to" else since))
                              + f" to {name_of(growth.period, newest)}" if newest >= since else "waiting until one is closed")
    return PeriodRange(period=growth.period, first=first, last=last)


def _number(growth: GrowthPolicy, text: str, option: str) -> int:
    found = growing.number_named(growth.period, text)
    if found is None:
        such = name_of(growth.period, period_of(growth.period, growth.since)).removeprefix("week of ")
        wrong = f"the name of a {growth.period}" if growth.calendar is None else "a day of a period"
        raise OptionError(f"{text} is not {wrong}", code="option", subject=option,
                          try_=f"--{option} {such}")
    return found
