"""SHOW STANDING QUERIES: what each was answered for, when its next period closes, what it will cost, and if the budget has room.

The year ahead is everything that `dpsql publish` would measure within a year from today, periods that are closed already
included. The budget has room if it can pay for this query together with those that are listed above it.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Mapping

from dpsql.answers.described_columns import OF_STANDING_QUERIES
from dpsql.answers.listing import Listing
from dpsql.answers.listings import price_in_words
from dpsql.budgets.convert import limit
from dpsql.catalog.price import Price
from dpsql.engine.period_accounts import window_name
from dpsql.engine.room_for_periods import in_windows
from dpsql.engine.session import Session
from dpsql.engine.standing_queries import (
    PlanOf,
    StandingQuery,
    check_listed,
    closing,
    growth_of,
    kept,
    next_closing,
    series_on,
    session_of,
)
from dpsql.engine.standing_series import Due, StandingSeries, added, charged_in_periods, worst
from dpsql.errors import Error
from dpsql.frozen import Frozen, replace
from dpsql.trusted.accounting.cost import NOTHING, Charge
from dpsql.trusted.declarations.growth import CALENDAR, Growth, PeriodRange, name_of, names_of

MOST_LOOKED_UP = 50
YEAR = dt.timedelta(days=365)


class Foreseen(Frozen):
    """What a standing query will be charged.

    growth      how the table grows whose periods are its groups
    price       what a person in a period is charged for it, and a person in all, when the next one closes
    dues        what is charged for each period that will be measured within a year, in order
    """

    growth: Growth
    price: tuple[Charge, Charge]
    dues: tuple[tuple[int, tuple[Due, ...]], ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        """The periods that will be measured within a year."""
        return tuple(number for number, _ in self.dues)

    @property
    def in_periods(self) -> dict[int, Charge]:
        """What a person in each period is charged within a year."""
        return charged_in_periods(due for _, dues in self.dues for due in dues)

    @property
    def in_one(self) -> Charge:
        """What a person is charged within a year in the period where that is most."""
        return worst(due for _, dues in self.dues for due in dues)

    @property
    def year(self) -> Charge:
        """What a person is charged in all within a year."""
        return added(due.in_all for _, dues in self.dues for due in dues)


def foreseen(query: StandingQuery, session: Session, plan_of: PlanOf) -> Foreseen:
    """What a standing query will be charged. Raises a located error if the policy no longer allows it."""
    check_listed(query, session)
    today, asked, mine = session.today, query.query, session_of(query, session)
    growth = growth_of(asked, mine.catalog)
    number, day = (0, today) if growth is None else next_closing(growth, today)
    series = series_on(asked, mine, day, plan_of)
    assert growth is not None
    until = max(growth.last_closed(today + YEAR), number)
    there = query.numbers | _answered(series, session, query)
    every = growth.first_numbers(PeriodRange(period=growth.period, first=series.periods[0].first, last=until))
    numbers = [each for each in every if each not in there]
    following = next(iter(numbers), every[-1])
    return Foreseen(growth=growth, price=series.price_of(series.dues_of(following)),
                    dues=tuple((each, series.dues_of(each)) for each in numbers))


def _answered(series: StandingSeries, session: Session, query: StandingQuery) -> frozenset[int]:
    """The periods in which this account asked the same before, which are free, too: among the newest that are not measured, as
    each has to be planned."""
    missing = [period.first for period in series.periods if period.first not in query.numbers][-MOST_LOOKED_UP:]
    mine = query.analyst == session.account.named.analyst
    return frozenset(number for number in missing if mine and all(part.is_stored for part in series.parts_of(number)))


class Accounts:
    """What the accounts of a budget will have been charged, with the standing queries that were added so far. An analyst sees
    those of all together, and their own."""

    def __init__(self, session: Session) -> None:
        self._session = session
        session.ledger.refresh()
        self._totals: defaultdict[str | None, Charge] = defaultdict(lambda: NOTHING)
        self._periods: defaultdict[tuple[str | None, int], Charge] = defaultdict(lambda: NOTHING)
        self._windows: defaultdict[tuple[str | None, int], Charge] = defaultdict(lambda: NOTHING)
        budget, mine = session.budget, session.analyst
        for whose in session.window_prices:
            found = session.ledger.spent_in_windows(budget.name, whose, budget.in_any_periods)
            self._windows |= {(whose, number): charge for number, charge in found.items()}
        for whose in (None, mine):
            self._totals[whose] = session.ledger.spent(budget.name, whose)
            self._periods |= {(whose, number): charge
                              for number, charge in session.ledger.spent_in_periods(budget.name, whose).items()}

    def room_for(self, query: StandingQuery, due: Foreseen) -> str:
        """Add a query, and say whether there is room for it in a year: yes, or no and the first limit that is exceeded."""
        budget, analyst = self._session.budget, self._session.analyst
        own = [None, *([analyst] if query.analyst == self._session.account.named.analyst else [])]
        exceeded: list[str] = []
        for whose in own:
            self._totals[whose] += due.year
            charged = due.in_periods
            for number, charge in charged.items():
                self._periods[whose, number] += charge
            owner = "" if whose is None else f" of {whose}"
            total: Mapping[str | None, Price | None] = {None: budget.total, analyst: budget.of(analyst)}
            each = self._session.period_prices.get(whose)
            exceeded += [f"no: {name_of(due.growth.period, number)}{owner}" for number in sorted(charged)
                         if each is not None and not limit(each).allows(self._periods[whose, number])][:1]
            exceeded += self._windows_without_room(due, whose, owner)[:1]
            if (whole := total[whose]) is not None and not limit(whole).allows(self._totals[whose]):
                exceeded.append(f"no: the total{owner}")
        return exceeded[0] if exceeded else "yes"

    def _windows_without_room(self, due: Foreseen, whose: str | None, owner: str) -> list[str]:
        """Add what a query is charged in consecutive periods, and say where this is too much."""
        price, many = self._session.window_prices.get(whose), self._session.budget.in_any_periods
        if price is None:
            return []
        charged = in_windows(((one.reads, one.in_all) for _, dues in due.dues for one in dues), many)
        for number, charge in charged.items():
            self._windows[whose, number] += charge
        return [f"no: {window_name(self._session, number, many)}{owner}" for number in sorted(charged)
                if not limit(price).allows(self._windows[whose, number])]


def listed(session: Session, plan_of: PlanOf) -> Listing:
    """The standing queries of the session's budget, oldest first."""
    accounts = Accounts(session)
    rows = tuple(_row(query, session, accounts, plan_of) for query in kept(session).values())
    return Listing(columns=OF_STANDING_QUERIES, rows=rows)


def listed_one(name: str, session: Session, plan_of: PlanOf) -> Listing:
    """The row of one standing query."""
    whole = listed(session, plan_of)
    return Listing(columns=whole.columns, rows=tuple(row for row in whole.rows if str(row[0]).lower() == name.lower()))


def _row(query: StandingQuery, session: Session, accounts: Accounts, plan_of: PlanOf) -> tuple[str, ...]:
    last = query.measured[-1].periods if query.measured else None
    published = "" if last is None else names_of(last if last.period == CALENDAR else replace(last, first=last.last))
    try:
        due = foreseen(query, session, plan_of)
    except Error as fault:  # the policy has changed: what was published stays
        return query.name, query.analyst, published, "", "", "", "", "", f"no: {fault.reason}", query.text
    following = due.numbers[0] if due.numbers else None
    return (query.name, query.analyst, published, "" if following is None else name_of(due.growth.period, following),
            "" if following is None else closing(due.growth, following).isoformat(), in_both(*due.price),
            price_in_words(due.in_one), price_in_words(due.year), accounts.room_for(query, due), query.text)


def in_both(in_period: Charge, in_all: Charge) -> str:
    """What a person is charged in one period and in all, once if it is the same."""
    one, other = price_in_words(in_period), price_in_words(in_all)
    return one if one == other else f"{one} in the period, {other} in all"
