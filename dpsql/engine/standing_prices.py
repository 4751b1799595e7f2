"""SHOW STANDING QUERIES: what each was answered for, when its next period closes, what it will cost, and if the budget has room.

The year ahead is everything that `dpsql publish` would measure within a year from today, periods that are closed already
included. The budget has room if it can pay for this query together with those that are listed above it.
"""

from __future__ import annotations

import datetime as dt
import functools
import operator
from collections import defaultdict
from collections.abc import Mapping

from dpsql.answers.described_columns import OF_STANDING_QUERIES
from dpsql.answers.listing import Listing
from dpsql.answers.listings import price_in_words
from dpsql.budgets.convert import limit
from dpsql.catalog import growing
from dpsql.catalog.price import Price
from dpsql.engine.period_by_period import PeriodByPeriod
from dpsql.engine.session import Session
from dpsql.engine.standing_queries import (
    PlanOf,
    StandingQuery,
    closing,
    due_of,
    growth_of,
    kept,
    next_closing,
    plan_on,
    session_of,
)
from dpsql.errors import Error
from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import NOTHING, Charge
from dpsql.trusted.declarations.growth import Growth, PeriodRange, name_of, names_of
from dpsql.trusted.kernel.period_reads import PeriodReads

MOST_LOOKED_UP = 50
YEAR = dt.timedelta(days=365)


class Foreseen(Frozen):
    """What a standing query will be charged.

    growth     how the table grows whose periods are its groups
    reads      what its next statement reads
    in_all     what a person is charged in all, for each period
    numbers    the periods that will be measured within a year, in order
    """

    growth: Growth
    reads: PeriodReads
    in_all: Charge
    numbers: tuple[int, ...]

    @property
    def in_period(self) -> Charge:
        """What a person in one period is charged, for that period."""
        return self.reads.first_charge(self.in_all)

    @property
    def year(self) -> Charge:
        """What a person is charged in all within a year."""
        return functools.reduce(operator.add, [self.in_all] * len(self.numbers), NOTHING)


def foreseen(query: StandingQuery, session: Session, plan_of: PlanOf) -> Foreseen:
    """What a standing query will be charged. Raises a located error if the policy no longer allows it."""
    today, asked, mine = growing.today(), query.query, session_of(query, session)
    growth = growth_of(asked, mine.catalog)
    number, day = (0, today) if growth is None else next_closing(growth, today)
    plan = plan_on(asked, mine, day, plan_of)
    assert growth is not None
    reads = plan.parts[-1].reads
    assert reads is not None
    until = max(growth.last_closed(today + YEAR), number)
    there = query.numbers | _answered(plan, session, query)
    return Foreseen(growth=growth, reads=reads, in_all=due_of(plan).cost.rounded(),
                    numbers=tuple(each for each in growth.first_numbers(PeriodRange(
                        period=growth.period, first=plan.periods[0].first, last=until)) if each not in there))


def _answered(plan: PeriodByPeriod, session: Session, query: StandingQuery) -> frozenset[int]:
    """The periods in which this account asked the same before, which are free, too: among the newest that are not measured, as
    each has to be planned."""
    missing = [period for period in plan.periods if period.first not in query.numbers][-MOST_LOOKED_UP:]
    mine = query.analyst == session.account.named.analyst
    return frozenset(period.first for period in missing if mine and plan.part(period).is_stored)


class Accounts:
    """What the accounts of a budget will have been charged, with the standing queries that were added so far. An analyst sees
    those of all together, and their own."""

    def __init__(self, session: Session) -> None:
        self._session = session
        session.ledger.refresh()
        self._totals: defaultdict[str | None, Charge] = defaultdict(lambda: NOTHING)
        self._periods: defaultdict[tuple[str | None, int], Charge] = defaultdict(lambda: NOTHING)
        budget, mine = session.budget, session.analyst
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
            for number in due.numbers:
                self._periods[whose, number] += due.in_period
            owner = "" if whose is None else f" of {whose}"
            total: Mapping[str | None, Price | None] = {None: budget.total, analyst: budget.of(analyst)}
            each = self._session.period_prices.get(whose)
            exceeded += [f"no: {name_of(due.growth.period, number)}{owner}" for number in due.numbers
                         if each is not None and not limit(each).allows(self._periods[whose, number])][:1]
            if (whole := total[whose]) is not None and not limit(whole).allows(self._totals[whose]):
                exceeded.append(f"no: the total{owner}")
        return exceeded[0] if exceeded else "yes"


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
    published = "" if last is None else names_of(last)
    try:
        due = foreseen(query, session, plan_of)
    except Error as fault:  # the policy has changed: what was published stays
        return query.name, query.analyst, published, "", "", "", "", "", f"no: {fault.reason}", query.text
    following = due.numbers[0] if due.numbers else None
    return (query.name, query.analyst, published, "" if following is None else name_of(due.growth.period, following),
            "" if following is None else closing(due.growth, following).isoformat(), in_both(due.in_period, due.in_all),
            price_in_words(due.in_period), price_in_words(due.year), accounts.room_for(query, due), query.text)


def in_both(in_period: Charge, in_all: Charge) -> str:
    """What a person is charged in one period and in all, once if it is the same."""
    one, other = price_in_words(in_period), price_in_words(in_all)
    return one if one == other else f"{one} in the period, {other} in all"
