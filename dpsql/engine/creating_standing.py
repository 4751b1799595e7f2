"""CREATE STANDING QUERY: checked as it will be planned when the next period is closed, and then recorded."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from dpsql.answers.described_columns import OF_STANDING_QUERIES, DescribedColumn, columns_of
from dpsql.answers.listing import Listing
from dpsql.engine.charging import located
from dpsql.engine.session import Session
from dpsql.engine.standing_prices import listed_one
from dpsql.engine.standing_queries import PlanOf, StandingQuery, check_terms, growth_of, named, next_closing, record, series_on
from dpsql.engine.standing_series import StandingSeries
from dpsql.errors import OptionError, ProgrammingError, SqlError, Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.sql.text.places import span_of
from dpsql.sql.text.statement import CreateStandingQuery
from dpsql.trusted.declarations.growth import names_of

if TYPE_CHECKING:
    from dpsql.planning.explain import Explanation


def creating(statement: CreateStandingQuery, session: Session, plan_of: PlanOf) -> CreatingStatement:
    """The plan of a statement that creates a standing query. Raises a located error if it is wrong."""
    with located(statement.text):
        if session.analyst in session.budget.agents:  # its periods are charged later, when nobody is asked for consent
            raise ProgrammingError("an agent has no standing queries", code="agent", span=statement.span,
                                   try_="the query itself, or the owner")
        query = statement.priced_query
        today = session.today
        growth = growth_of(query, session.catalog)
        number, day = next_closing(growth, today) if growth is not None else (0, today)
        series = _priced_series(statement, session, day, plan_of)
        if growth is None or series.periods[-1].first < number:
            last = names_of(series.periods[-1])
            raise Unsupported(f"a standing query goes on with each period that closes, and this one ends with {last}",
                              code="standing", span=span_of(query.tree), try_="the statement without an end of its time")
        price, confidence = series.terms
        return CreatingStatement(series=series, text=statement.text, session=session, made=StandingQuery(
            name=statement.name, text=statement.text, analyst=session.account.named.analyst, price=price,
            confidence=confidence, is_whole=series.IS_WHOLE), statement=statement, plan_of=plan_of)


def _priced_series(statement: CreateStandingQuery, session: Session, day: dt.date, plan_of: PlanOf) -> StandingSeries:
    try:
        return series_on(statement.priced_query, session, day, plan_of)
    except OptionError as fault:
        if fault.code != "no-price":
            raise
        raise OptionError(fault.reason, code=fault.code, span=statement.span, try_="OPTIONS (epsilon = 0.1) at its end") from None


class CreatingStatement(Frozen):
    """CREATE STANDING QUERY. `series` is that of the query when its next period is closed."""

    series: StandingSeries
    text: str
    session: Session
    made: StandingQuery
    statement: CreateStandingQuery
    plan_of: PlanOf

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return columns_of(OF_STANDING_QUERIES)

    def explain(self) -> Explanation:
        """What each period will cost; the statement itself costs nothing."""
        return self.series.explain()

    def answer(self) -> Listing:
        """Record the query; the answer is its row of SHOW STANDING QUERIES. Raises SqlError, located, if there is one with this
        name."""
        with located(self.text):
            self._check_free(named(self.made.name, self.session))
            check_terms(self.made, self.statement.span, self.session)
            record(self.made.as_json(), self.text, self.session)
            there = named(self.made.name, self.session)
            self._check_free(None if there is not None and self._is_this(there) else there)  # another one may have been first
            return listed_one(self.made.name, self.session, self.plan_of)

    def _is_this(self, other: StandingQuery) -> bool:
        return replace(other, measured=(), since=0) == self.made

    def _check_free(self, there: StandingQuery | None) -> None:
        if there is not None:
            free = there.analyst == self.made.analyst
            raise SqlError(f"there is a standing query {there.name} already" + ("" if free else f", made by {there.analyst}"),
                           code="standing", span=self.statement.span, subject=there.name,
                           try_=f"{there.name}_2" + (f", or DROP STANDING QUERY {there.name}" if free else ""))
