"""The policy of tables that grow: what a table declares about its periods, and what its budgets must then declare.

Two units of privacy follow from it: an entity in one period of the growing tables, and an entity in all
(`kernel.period_reads`). The first period must be declared, because statements without a condition on time need one, and the
earliest time in the rows is private.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping

from dpsql.catalog.foreign_keys import above
from dpsql.catalog.model import Budget, CalendarPolicy, Entity, GrowthPolicy, Policy
from dpsql.catalog.price import Price, excess, in_policy, misfit
from dpsql.catalog.sections import FORMS, Section, closest
from dpsql.frozen import replace
from dpsql.trusted.declarations.growth import CALENDAR, EARLIEST, KINDS, LATEST, LONGEST_CLOSES, PeriodKind

CLOSES = re.compile(r"([0-9]{1,3}) days?")
LATE_RULES = "revision", "drop", "arrival"  # what a policy may say, or has to be told another way to say, of late rows
PART = 10  # by which a total is divided for an example of a limit in one period
MOST_PERIODS = 4000  # that are limited together: days of almost eleven years
LIMITS_OF_PERIODS = "per_period", "per_analyst_and_period", "in_any", "per_analyst_in_any"
Fail = Callable[[tuple[str, ...], str, str], None]


def growth_of(part: Section, rows: Mapping[str, int]) -> GrowthPolicy | None:
    """What the section of a table says about its growth; `rows` is its limit on rows in each period. None if it does not grow.
    Fails where a part is missing or wrong; that the column is declared is checked elsewhere."""
    column = part.take("grows_by", str)
    if column is None:
        for key in ("period", "since", "closes", "late", "arrived", "rows_per_entity_and_period"):
            if part.has(key):
                part.check_mistyped("grows_by")
                part.fail(key, "there is no grows_by, the column by which rows belong to periods",
                          try_='grows_by = "visited_on" beside it, or leaving it out')
        return None
    calendar = _calendar(part)
    growth = GrowthPolicy(column=column, period=_period(part) if calendar is None else CALENDAR, since=_since(part),
                          closes=_closes(part), rows=rows, arrived=_arrived(part, column), calendar=calendar)
    if calendar is not None and growth.arrived is not None:
        part.fail("late", "late rows can be dropped only where periods are days, weeks, months, quarters or years",
                  try_='leaving out late and arrived, and declaring revisions with dpsql revise')
    if part.has("rows_per_entity"):
        part.fail("rows_per_entity", "the table grows, so its rows are limited in each period",
                  try_=FORMS["rows_per_entity_and_period"])
    return growth


def _calendar(part: Section) -> CalendarPolicy | None:
    """The calendar that the periods are declared by; None if they are of another kind."""
    if not isinstance(part.take("period", str, dict, required=True), dict):
        return None
    own = part.section("period")
    assert own is not None
    made = CalendarPolicy(table=own.take("table", str, required=True, form='table = "terms", a public table'),
                          starts=own.take("starts", str, required=True))
    own.finish()
    return made


def _period(part: Section) -> PeriodKind:
    text = part.take("period", str, required=True)
    kind = next((kind for kind in KINDS if kind == text), None)
    if kind is None:
        near = closest(text, KINDS)
        part.fail("period", f"{text} is not a period", try_=f'period = "{near}"' if near else None)
    return kind


def _since(part: Section) -> dt.date:
    day: dt.date = part.take("since", dt.date, required=True)
    if isinstance(day, dt.datetime):
        part.fail("since", "must be a date without a time", try_=f"since = {day.date()}")
    if not EARLIEST <= day <= LATEST:
        part.fail("since", f"must be a day from {EARLIEST} to {LATEST}")
    if day > (today := dt.datetime.now(dt.UTC).date()):
        part.fail("since", "the first period must not begin in the future", try_=f"since = {today}, or an earlier day")
    return day


def _closes(part: Section) -> int:
    text = part.take("closes", str)
    if text is None:
        return 0
    found = CLOSES.fullmatch(text)
    if found is None or int(found[1]) > LONGEST_CLOSES:
        part.fail("closes", f"must be a number of whole days, up to {LONGEST_CLOSES}")
    return int(found[1])


def _arrived(part: Section, column: str) -> str | None:
    """The column of the time at which rows arrive, if late rows are dropped. That they belong to the period in which they arrive
    is said by `grows_by` alone: a row has one time, so that conditions on the column of time name what is read."""
    late: str | None = part.take("late", str)
    arrived: str | None = part.take("arrived", str)
    if late == "arrival":
        part.fail("late", "rows that belong to the period in which they arrive grow by the column of their arrival",
                  try_=f'grows_by = "{arrived or "loaded_at"}", without late')
    if late is not None and late not in LATE_RULES:
        part.fail("late", f"{late} is not a rule for late rows", try_=f'late = "{closest(late, LATE_RULES) or LATE_RULES[0]}"')
    if late == "drop":
        if arrived is None:
            part.fail("late", "the column is missing that says when a row arrived", try_='arrived = "loaded_at" beside it')
        if arrived.lower() == column.lower():
            part.fail("arrived", f"{column} is the column by which rows belong to periods, so no row of it is ever late",
                      try_="leaving out late and arrived")
        return arrived
    if arrived is not None:
        part.fail("arrived", "it matters only where late rows are dropped", try_='late = "drop" beside it, or leaving it out')
    return None


def growing_of(policy: Policy, entity: Entity) -> dict[str, GrowthPolicy]:
    """The growing tables whose rows belong to an entity, by foreign keys."""
    kinds = {policy.entities[kind].table for kind in entity.any_of} or {entity.table}
    keys = {name: table.foreign_keys for name, table in policy.tables.items() if not table.public}
    return {name: table.growth for name, table in policy.tables.items() if table.growth is not None and kinds & above(keys, name)}


def check_growing(policy: Policy, fail: Fail) -> None:
    """Check that calendars are public, and that budgets limit each period exactly where there are some."""
    for name, table in policy.tables.items():
        if table.growth is not None and table.growth.calendar is not None:
            _check_calendar(policy, name, table.growth.calendar, fail)
    for budget in policy.budgets.values():
        _check_budget(budget, growing_of(policy, policy.entities[budget.entity]), fail)


def _check_calendar(policy: Policy, name: str, calendar: CalendarPolicy, fail: Fail) -> None:
    path, known = ("tables", name, "period"), policy.tables.get(calendar.table)
    if known is None:
        public = [table.name for table in policy.tables.values() if table.public]
        fail(path, f"table {calendar.table} is not declared", closest(calendar.table, public) or f"[tables.{calendar.table}]")
    elif not known.public:
        fail(path, f"table {calendar.table} is not public, so its days are private", f"public = true in [tables.{known.name}]")
    elif calendar.starts not in known.columns:
        fail(path, f"column {calendar.starts} of {known.name} is not declared",
             closest(calendar.starts, known.columns) or f"[tables.{known.name}.columns]  {calendar.starts} = {{}}")


def _check_budget(budget: Budget, growing: Mapping[str, GrowthPolicy], fail: Fail) -> None:
    path, names = ("budgets", budget.name), [*growing]
    if not growing:
        for key in [key for key in LIMITS_OF_PERIODS if getattr(budget, key) is not None]:
            fail((*path, key), f"no table that belongs to {budget.entity} grows, so there are no periods",
                 'leaving it out, or grows_by = "visited_on" in a table')
        return
    period, calendar = growing[names[0]].period, growing[names[0]].calendar
    for name, growth in growing.items():
        if (growth.period, growth.calendar) != (period, calendar):
            told = period if calendar is None else calendar.words
            form = f'"{period}"' if calendar is None else f'{{ table = "{calendar.table}", starts = "{calendar.starts}" }}'
            fail(("tables", name, "period"), f"{names[0]}, whose rows belong to the same {budget.entity}, grows by {told}",
                 f"period = {form}")
    if calendar is not None and budget.in_any_periods:
        fail((*path, "in_any"), "a limit in any so many consecutive periods is for days, weeks, months, quarters or years",
             "leaving it out; per_period limits each period, and the total all of them")
    if budget.per_period is None:
        fail(path, f"per_period is missing, the limit on what is spent on one {budget.entity} in one {in_words(period)} of "
             f"{' and '.join(names)}", f"per_period = {in_policy(_part_of(budget.total))}")


def check_limits_of_periods(part: Section, parts: Mapping[str, Section | None], prices: Mapping[str, Price | None],
                            many: int) -> None:
    """Check the limits that a budget gives on periods against each other: each analyst's against that of all analysts, and one
    period's against that of so `many` together."""
    for mine, whole in (("per_analyst_and_period", "per_period"), ("per_analyst_in_any", "in_any")):
        if (own := prices[mine]) is not None and prices[whole] is None:
            form = in_policy(own) if whole == "per_period" else in_policy(own).replace("{ ", "{ periods = 12, ", 1)
            part.fail(mine, f"there is no {whole}, the limit of all analysts together",
                      try_=f"{whole} = {form} or more beside it")
        _check_within(parts[mine], prices[mine], prices[whole], f"this is more than {whole}, so it could never be spent", whole)
    for one, several in (("per_period", "in_any"), ("per_analyst_and_period", "per_analyst_in_any")):
        _check_within(parts[one], prices[one], prices[several],
                      f"this is more than {several}, which limits {many} periods together", several)


def _check_within(part: Section | None, amount: Price | None, whole: Price | None, too_much: str, named: str) -> None:
    if part is not None and amount is not None and whole is not None:
        check_fits(part, amount, whole, too_much, named)


def check_fits(part: Section, amount: Price, whole: Price, too_much: str, named: str) -> None:
    """Fail where an amount is of another kind than the whole, which is `named`; and where it is `too_much`."""
    if (wrong := misfit(amount, whole)) is not None:
        part.fail(wrong[0], f"{named} {wrong[1]}", try_=wrong[2])
    if (more := excess(amount, whole)) is not None:
        part.fail(more[0], too_much, try_=more[1])


def _part_of(total: Price) -> Price:
    """A part of a total, as an example."""
    return replace(total, epsilon=None if total.epsilon is None else total.epsilon / PART, delta=total.delta / PART,
                   rho=None if total.rho is None else total.rho / PART)


def in_words(period: PeriodKind) -> str:
    """The name of a period: that of a calendar is a period, and others are days, weeks, months, quarters or years."""
    return "period" if period == CALENDAR else period
