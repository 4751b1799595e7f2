"""Publishing a standing query: what has closed since is measured, and all of its periods are told.

A period that was measured is stored, and costs nothing more. It is found by the text of the query (`standing_queries`), so its
numbers stay when the policy or other tables change. A period that cannot be measured, as a budget is used up or a statement
fails, is told with the reason, and the others go on; the next run tries it again.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
from collections.abc import Mapping

from dpsql.answers.answer import Answer, of_json, together
from dpsql.answers.listings import price_in_words
from dpsql.answers.published_series import PublishedPeriod, PublishedSeries
from dpsql.catalog import growing
from dpsql.engine.charging import Charged
from dpsql.engine.decide import decide
from dpsql.engine.guard import guarded
from dpsql.engine.period_by_period import PeriodByPeriod, PeriodPart, places_in_order
from dpsql.engine.session import Session
from dpsql.engine.standing_queries import StandingQuery, growth_of, next_closing, plan_on, session_of
from dpsql.errors import Error, LedgerError, Unsupported
from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import Charge
from dpsql.trusted.declarations.growth import CALENDAR, PeriodKind, PeriodRange, names_of
from dpsql.trusted.kernel.period_reads import PeriodReads


class UnmeasuredPeriod(Frozen):
    """A period that could not be measured, and why."""

    period: str
    fault: Error


class Publication(Frozen):
    """What a run made of a standing query: `new` are the periods that it measured, and `failed` those that it could not. There is
    no series while no period is measured."""

    query: StandingQuery
    series: PublishedSeries | None
    new: tuple[str, ...]
    failed: tuple[UnmeasuredPeriod, ...]


def publishing(session: Session) -> contextlib.AbstractContextManager[None]:
    """A context that only one publisher of a budget can be in at a time; others wait."""
    return session.ledger.alone(f"publish-{hashlib.sha256(session.budget.name.encode()).hexdigest()}")


@guarded
def publish(query: StandingQuery, session: Session) -> Publication:
    """Measure the periods of a standing query that are closed and were not measured before. Raises LedgerError, and a located
    error if the policy no longer allows the query."""
    mine = session_of(query, session)
    plan = _plan(query, mine)
    kind = None if plan is None else plan.periods[0].period
    found = _stored(query, mine, kind)
    new, failed = [], []
    for period in () if plan is None else plan.periods:
        if plan is None or period.first in found:
            continue
        try:
            part = plan.part(period)
            answer = part.answer()
        except LedgerError:
            raise
        except Error as fault:
            failed.append(UnmeasuredPeriod(period=names_of(period), fault=fault))
            found[period.first] = _period(period)
            continue
        found[period.first] = _answered(period, answer, part)
        new += [] if answer.stored else [names_of(period)]
    if new:  # as every later run will read them
        found |= _stored(query, mine, kind)
    periods = tuple(found[number] for number in sorted(found))
    return Publication(query=query, new=tuple(new), failed=tuple(failed), series=_series(query, mine, periods, plan))


def _plan(query: StandingQuery, session: Session) -> PeriodByPeriod | None:
    """The plan for the periods that are closed today; None if none is."""
    asked, today = query.query, growing.today()
    try:
        return plan_on(asked, session, today, decide)
    except Unsupported as fault:
        growth = growth_of(asked, session.catalog)
        if fault.code != "periods" or growth is None:
            raise
        plan_on(asked, session, next_closing(growth, today)[1], decide)  # raises what is wrong but for that
        return None


def _stored(query: StandingQuery, session: Session, kind: PeriodKind | None) -> dict[int, PublishedPeriod]:
    """The periods that were measured for a query, by their numbers. The first answer of each stays."""
    found: dict[int, PublishedPeriod] = {}
    for paid in session.ledger.answers_to(session.account, query.text) if kind is not None else ():
        reads = PeriodReads.from_text(paid.data)
        if reads is None or (len(reads.periods) != 1 and kind != CALENDAR) or reads.periods.period != kind:
            continue
        found.setdefault(reads.periods.first, _period(
            reads.periods, of_json(paid.body), in_period=reads.first_charge(paid.charge), in_all=paid.charge))
    return found


def _answered(period: PeriodRange, answer: Answer, part: PeriodPart) -> PublishedPeriod:
    in_all = part.bill().cost.rounded()
    return _period(period, answer, in_period=in_all if part.reads is None else part.reads.first_charge(in_all), in_all=in_all)


def _period(period: PeriodRange, answer: Answer | None = None, *, in_period: Charge | None = None,
            in_all: Charge | None = None) -> PublishedPeriod:
    return PublishedPeriod(name=names_of(period), first=period.start, answer=answer,
                           last=period.end - dt.timedelta(days=1),
                           price_in_period="" if in_period is None else price_in_words(in_period),
                           price_in_all="" if in_all is None else price_in_words(in_all))


def _series(query: StandingQuery, session: Session, periods: tuple[PublishedPeriod, ...],
            plan: PeriodByPeriod | None) -> PublishedSeries | None:
    answers = [period.answer for period in periods if period.answer is not None]
    if plan is None or not answers:
        return None
    return PublishedSeries(name=query.name, statement=query.text, analyst=query.analyst, budget=session.budget.name,
                           entity=session.catalog.entity.name, confidence=float(query.confidence), periods=periods,
                           order=tuple(places_in_order(plan.question, together(answers))))


# -- without measuring


def measured_so_far(query: StandingQuery, session: Session) -> PublishedSeries | None:
    """What was measured of a standing query so far, as far as the session's account was told it; None if nothing was. Nothing is
    charged and no row is read, and if the policy no longer allows the query, what was told of it stays."""
    mine, plan = session_of(query, session), None
    with contextlib.suppress(Error):
        plan = _plan(query, mine)
    kind = plan.periods[0].period if plan is not None else query.measured[-1].periods.period if query.measured else None
    found = _stored(query, session, kind)
    if plan is not None and query.analyst == session.account.named.analyst:
        found = _answered_before(plan, found) | found
    periods = tuple(found[number] for number in sorted(found))
    answers = [period.answer for period in periods if period.answer is not None]
    if not answers:
        return None
    return _series(query, mine, periods, plan) or PublishedSeries(
        name=query.name, statement=query.text, analyst=query.analyst, budget=session.budget.name,
        entity=session.catalog.entity.name, confidence=float(query.confidence), periods=periods,
        order=tuple(range(together(answers).size)))


MOST_LOOKED_UP = 50  # periods: each has to be planned


def _answered_before(plan: PeriodByPeriod, known: Mapping[int, PublishedPeriod]) -> dict[int, PublishedPeriod]:
    """The newest periods that are not known, if the account has asked the same of them before in another statement."""
    found: dict[int, PublishedPeriod] = {}
    for period in [period for period in plan.periods if period.first not in known][-MOST_LOOKED_UP:]:
        part = plan.part(period)
        if isinstance(part, Charged) and (stored := part.stored_form) is not None:
            found[period.first] = _answered(period, part.read(stored), part)
    return found
