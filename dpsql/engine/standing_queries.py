"""Standing queries: queries that group by the period of a growing table, kept by name, and measured when periods have closed.

CREATE STANDING QUERY measures nothing and is charged nothing. The ledger keeps its text as a note, as it keeps notes about
synthetic tables (`kept_tables`): the answer to a charge of nothing, for which no row is read. Notes of a budget have one digest,
which depends neither on the data nor on the policy, so they stay when both change. What is published is no secret, so all
accounts of a budget see its standing queries, and a name is that of one of them. Each is charged to the account that made it,
which alone may drop it. If two accounts create the same name at once, the ledger's order decides.

The price and the confidence are kept, too: whoever publishes does so on the terms of whoever created the query.

What was measured for a standing query is found by its text (`measured`), and not by what identifies a statement: that changes
with each edit of the policy, and with the rows of tables that do not grow. So numbers of the past stay, as they were told, and
are not charged again.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import difflib
import json
from collections.abc import Callable, Generator, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any, TypeAlias

from dpsql.answers.described_columns import OF_DROP
from dpsql.answers.listing import Listing
from dpsql.catalog import growing
from dpsql.catalog.growing_tables import in_words
from dpsql.catalog.model import Catalog
from dpsql.catalog.price import Price
from dpsql.engine.charging import located, open_account
from dpsql.engine.plan import Plan
from dpsql.engine.session import Session
from dpsql.engine.standing_series import StandingSeries, series_of
from dpsql.errors import Error, SqlError, Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.ledgers.ledger_reports import STANDING, RecordedNote
from dpsql.sql.text.parse import parse
from dpsql.sql.text.places import span_of
from dpsql.sql.text.standing_clause import is_name
from dpsql.sql.text.statement import CreateStandingQuery, DropStandingQuery, Query
from dpsql.trusted.accounting.cost import FREE, Account
from dpsql.trusted.declarations.growth import CALENDAR, Growth, PeriodRange, first_day
from dpsql.trusted.kernel.period_reads import PeriodReads
from dpsql.trusted.measurements.reading.request import Request
from dpsql.types import Span

REVISED = " revised "  # in front of the number of the newest revision, in what identifies the data of an answer
PlanOf: TypeAlias = Callable[[Query, Session], Plan]
"""How queries are planned, which is `decide`."""


class StandingQuery(Frozen):
    """A query that is kept.

    is_whole  whether what is stored of a period are its rows, and not what they are computed of
    measured  what was read for its answers so far, in the order of time: each was measured when the last period that it reads
              had closed
    since     the number of the event of the ledger by which it was created
    """

    name: str
    text: str
    analyst: str
    price: Price
    confidence: Fraction
    is_whole: bool = False
    measured: tuple[PeriodReads, ...] = ()
    since: int = 0

    @property
    def query(self) -> Query:
        """Its query, with its options. Raises a located error if this version cannot read the text any more."""
        statement = parse(self.text)
        assert isinstance(statement, CreateStandingQuery)
        return statement.priced_query

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of the periods that are measured."""
        return frozenset(reads.periods.last for reads in self.measured)

    def as_json(self) -> str:
        """The note that it is kept."""
        parts = {"epsilon": self.price.epsilon, "delta": self.price.delta, "rho": self.price.rho}
        price = {name: str(part) for name, part in parts.items() if part is not None}
        return json.dumps({"standing query": self.name, "price": price, "confidence": str(self.confidence),
                           "whole": self.is_whole})


class Removal(Frozen):
    """That a standing query is kept no longer."""

    name: str

    def as_json(self) -> str:
        """The note."""
        return json.dumps({"standing query": self.name, "dropped": True})


def kept(session: Session) -> dict[str, StandingQuery]:
    """The standing queries of the session's budget, by their names in lower case, oldest first. Of two with one name, the first
    one is kept, and only the account that made one removes it."""
    found: dict[str, StandingQuery] = {}
    for note in session.ledger.standing_notes(session.budget.name):
        told = json.loads(note.body)
        name = told["standing query"]
        there = found.get(name.lower())
        if told.get("dropped"):
            if there is not None and there.analyst == note.analyst:
                del found[name.lower()]
        elif there is None and is_name(name):  # it will be the name of files, whoever wrote the note
            found[name.lower()] = _read(note, told, session)
    return found


def before_revision(query: StandingQuery, session: Session) -> Callable[[int, PeriodRange], bool]:
    """A function that says whether something is from before a revision of some periods, to which the query was created later: an
    answer that knows the revisions up to a number, or a note with this number. An older query keeps what it told."""
    known = [one for one in session.ledger.time_state().revised if one.seq < query.since]
    if not known:
        return lambda number, periods: False
    tables: frozenset[str] = frozenset()
    with contextlib.suppress(Error):  # a text that this version cannot read any more
        tables = frozenset(query.query.tables)
    return lambda number, periods: any(number < one.seq and one.meets(table, periods) for one in known for table in tables)


def revision_of(data: str) -> int:
    """The number of the newest revision that an answer knows, by what identifies its data; 0 if it knows none."""
    _, there, number = data.partition(REVISED)
    return int(number) if there else 0


def _read(note: RecordedNote, told: Mapping[str, Any], session: Session) -> StandingQuery:
    price = {name: Fraction(part) for name, part in told["price"].items()}
    made = StandingQuery(name=told["standing query"], text=note.sql, analyst=note.analyst, price=Price(**price),
                         confidence=Fraction(told["confidence"]), is_whole=bool(told.get("whole")), since=note.seq)
    is_before = before_revision(made, session)
    reads = [each for data in note.data if (each := PeriodReads.from_text(data)) is not None
             and not is_before(revision_of(data), each.periods)]
    return replace(made, measured=tuple(sorted(reads, key=lambda each: each.periods.last)))


def named(name: str, session: Session) -> StandingQuery | None:
    """The standing query with this name, regardless of case."""
    return kept(session).get(name.lower())


def unknown(name: str, session: Session) -> SqlError:
    """The error for a standing query that there is not, with the nearest name."""
    names = {lower: query.name for lower, query in kept(session).items()}
    close = difflib.get_close_matches(name.lower(), names, n=1)
    return SqlError(f"there is no standing query {name}", code="unknown-standing-query", subject=name,
                    try_=names[close[0]] if close else "SHOW STANDING QUERIES, which lists them")


def session_of(query: StandingQuery, session: Session) -> Session:
    """The session in which a standing query is answered: on the terms on which it was created, by whoever created it, and after
    all revisions so far, so that no answer from before one is taken for what the periods hold now."""
    return replace(session, analyst=query.analyst, price=query.price, confidence=query.confidence,
                   revised=session.ledger.time_state().revised)


def check_listed(query: StandingQuery, session: Session) -> None:
    """Raises a located error if the policy lists those who may ask, and whoever made a query is no longer one of them."""
    budget = session.budget
    if budget.listed is not None and query.analyst not in {Account(budget=budget.name, analyst=name).named.analyst
                                                           for name in budget.listed}:
        with located(query.text):
            raise Unsupported(f"the policy does not list {query.analyst}, who made it, among the analysts of the budget "
                              f"{budget.name}", code="analyst", span=Span(0, len(query.text.split("\n", 1)[0])),
                              subject=query.analyst, try_="another analyst who creates it")


def check_terms(made: StandingQuery, span: Span | None, session: Session) -> None:
    """Raises SqlError, located, if the account, or another one that shares its answers, created a query with the same text
    before, on other terms: what was measured for that one is found by this text, and its errors and intervals are others."""
    for note in session.ledger.standing_notes(session.budget.name):
        told = json.loads(note.body)
        if note.sql == made.text and not told.get("dropped") and (session.budget.share_answers or note.analyst == made.analyst):
            before = _read(note, told, session)
            if (before.price, before.confidence) != (made.price, made.confidence):
                raise SqlError(f"{made.name} was created with the same text before, at another price or confidence, and would go "
                               "on with the numbers of that one", code="standing", span=span, subject=made.name,
                               try_=f"{made.name}_2; or its terms in the text: OPTIONS (epsilon = 0.1, confidence = 0.9)")


# -- plans


def series_on(query: Query, session: Session, day: dt.date, plan_of: PlanOf) -> StandingSeries:
    """The series of the query, whose plan is made by `plan_of`, with the periods that are closed on a day: one in the future, to
    know prices. Raises a located error if the query is wrong, or is not measured period by period of a growing table."""
    growth = growth_of(query, session.catalog)
    place = span_of(query.tree)
    if growth is None:
        raise Unsupported("a standing query must read a table that grows by period", code="standing", span=place,
                          try_=_example(session.catalog))
    if query.tree.args.get("limit") is not None or query.tree.args.get("offset") is not None:
        raise Unsupported("a standing query shows all of its periods", code="standing", span=place,
                          try_="the statement without LIMIT and OFFSET")
    if query.parameters:
        raise Unsupported("a standing query cannot have parameters, as it is answered later", code="parameters", span=place,
                          try_="the values themselves")
    try:
        plan = plan_of(query, replace(session, catalog=growing.on_day(session.catalog, day)))
    except Unsupported as fault:
        if fault.code != "open-period":
            raise
        raise Unsupported("a standing query goes on with each period that closes", code="standing", span=fault.span,
                          text=fault.text, try_="the statement without an end of its time") from None
    return series_of(plan, query, f"{in_words(growth.period)} of {growth.column}", _grouped(growth))


def growth_of(query: Query, catalog: Catalog) -> Growth | None:
    """How the growing table that a query names grows; None if it names none."""
    tables = (catalog.table(name) for name in query.tables)
    return next((table.growth for table in tables if table is not None and table.growth is not None), None)


def next_closing(growth: Growth, today: dt.date) -> tuple[int, dt.date]:
    """The next period of a table to be closed, and the day on which it is. Where a calendar does not say when that is, the newest
    one that is closed today."""
    last = growth.last_closed(today)
    number = max(last + 1, growth.since)
    if growth.containing(number) is None and (newest := growth.containing(last)) is not None:
        return newest.first, today
    return number, closing(growth, number)


def closing(growth: Growth, number: int) -> dt.date:
    """The first day on which the period with a number is closed. A period that has no end yet is taken to end with its first day.
    """
    period = growth.containing(number)
    return first_day(growth.period, number + 1 if period is None else period.last + 1) + dt.timedelta(days=growth.closes)


def _example(catalog: Catalog) -> str:
    grown = next((table for table in catalog.tables.values() if table.growth is not None), None)
    if grown is None or grown.growth is None:
        return "a query that is asked when it is needed; no table of this policy grows (dpsql help owner)"
    return f"FROM {grown.name} ... {_grouped(grown.growth)}"


def _grouped(growth: Growth) -> str:
    if growth.period == CALENDAR:
        return f"SELECT CASE WHEN {growth.column} < DATE '...' THEN ... END AS period, ... GROUP BY period"
    return f"SELECT date_trunc('{growth.period}', {growth.column}) AS {growth.period}, ... GROUP BY {growth.period}"


# -- notes


def drop(statement: DropStandingQuery, session: Session) -> Listing:
    """Record that a standing query is dropped; what was measured for it stays, as it was told. Raises SqlError, located, if there
    is none, or if another account made it."""
    with located(statement.text):
        there = named(statement.name, session)
        if there is None:
            fault = unknown(statement.name, session)
            fault.span = statement.span
            raise fault
        if there.analyst != session.account.named.analyst:
            raise SqlError(f"{there.analyst} made the standing query {there.name}, and nobody else drops it", code="standing",
                           span=statement.span, subject=there.name, try_=f"asking {there.analyst}")
        record(Removal(name=there.name).as_json(), statement.text, session)
        return Listing(columns=OF_DROP, rows=((there.name,),))


def record(note: str, text: str, session: Session, mark: str = STANDING) -> None:
    """Record a note of the session's account, which asked `text`, under a mark."""
    with open_account(text, session):
        session.kernel.run(_noted(note), cost=FREE, account=session.account, sql=text, limits=MappingProxyType({}),
                           digest=mark, encode=str)


def _noted(note: str) -> Generator[Request, Any, str]:
    """A script that asks for nothing."""
    yield from ()
    return note
