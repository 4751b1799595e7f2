"""Publishing a standing query: periods that have closed since the last run are measured, and all periods are published.

A period that was measured is stored, and costs nothing more. It is found by the text of the query (`standing_records`), so its
numbers stay when the policy or other tables change. A period that cannot be measured, because a budget is used up or a
statement fails, is published without numbers and with the reason, and the next run tries it again. The others go on,
unless their rows follow from it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
from collections.abc import Callable, Collection, Mapping

from dpsql.answers.answer import Answer, together
from dpsql.answers.published_series import PublishedPeriod, PublishedSeries
from dpsql.engine.charging import located
from dpsql.engine.decide import decide
from dpsql.engine.guard import guarded
from dpsql.engine.session import Session
from dpsql.engine.standing_queries import StandingQuery, check_listed, growth_of, next_closing, series_on, session_of
from dpsql.engine.standing_records import PeriodNote, Records, keep_parts, keep_rows, records_of, tell_parts, told_periods
from dpsql.engine.standing_series import ComposedRows, PeriodRows, StandingSeries
from dpsql.errors import Error, LedgerError, Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.trusted.declarations.growth import names_of

NO_ROWS = ComposedRows(blocks=(), order=())


class UnmeasuredPeriod(Frozen):
    """A period that could not be measured, and why."""

    period: str
    fault: Error


class Publication(Frozen):
    """What a run made of a standing query: `new` are the periods that it measured, `failed` those that it could not, and
    `stopped` says that it left others to the next run. There is no series while no period is measured."""

    query: StandingQuery
    series: PublishedSeries | None
    new: tuple[str, ...]
    failed: tuple[UnmeasuredPeriod, ...]
    stopped: bool = False


def publishing(session: Session) -> contextlib.AbstractContextManager[None]:
    """A context that only one publisher of a budget can be in at a time; others wait."""
    return session.ledger.alone(f"publish-{hashlib.sha256(session.budget.name.encode()).hexdigest()}")


@guarded
def publish(query: StandingQuery, session: Session, *, told: Collection[str] = (),
            is_to_stop: Callable[[], bool] = lambda: False) -> Publication:
    """Measure the periods of a standing query that are closed and were not measured before; `told` are the names of periods that
    were published before. Raises LedgerError, before anything is charged, if the ledger does not know one of them, and a located
    error if the policy no longer allows the query, or the account that made it."""
    check_listed(query, session)
    mine = session_of(query, session)
    series = _series(query, mine)
    if series is None:
        return Publication(query=query, series=None, new=(), failed=())
    records = records_of(query, mine, series)
    _check_known(told, records, series, query)
    tried, new, failed, stopped = list[int](), list[str](), list[UnmeasuredPeriod](), False
    misfit = _misfit(series, records)
    for period in (period for period in series.periods if period.first not in records.bodies):
        if stopped := is_to_stop():
            break
        name = names_of(period)
        try:
            if misfit is not None:
                raise misfit
            new += [name] * _measure(period.first, series, records)
            tried.append(period.first)
        except LedgerError:
            raise
        except Error as fault:
            failed.append(UnmeasuredPeriod(period=name, fault=fault))
            if not series.alone:
                break
    if tried:  # as every later run will read them
        records = keep_parts(tried, query, mine, series)
    made = _composed(series, records, fits=misfit is None)
    records = _told(made, query, mine, series, records)
    return Publication(query=query, new=tuple(new), failed=tuple(failed), stopped=stopped,
                       series=_published(query, mine, series, records, made, is_complete=not failed))


def _misfit(series: StandingSeries, records: Records) -> Error | None:
    """Why what is stored does not fit to what would be measured now; None if it does."""
    try:
        series.check(records.bodies)
    except Error as fault:
        return fault
    return None


def _series(query: StandingQuery, session: Session) -> StandingSeries | None:
    """The series of the periods that are closed today; None if none is."""
    asked, today = query.query, session.today
    try:
        return series_on(asked, session, today, decide)
    except Unsupported as fault:
        growth = growth_of(asked, session.catalog)
        if fault.code != "periods" or growth is None:
            raise
        series_on(asked, session, next_closing(growth, today)[1], decide)  # raises what is wrong but for that
        return None


def _check_known(told: Collection[str], records: Records, series: StandingSeries, query: StandingQuery) -> None:
    known = {names_of(series.period(number)) for number in records.bodies.keys() | records.told.keys()}
    if unknown := sorted({*told} - known):
        names = unknown[0] if len(unknown) == 1 else f"{len(unknown)} periods, {unknown[0]} to {unknown[-1]},"
        raise LedgerError(f"{names} of {query.name} {'was' if len(unknown) == 1 else 'were'} published before, but not measured "
                          "with this ledger, which may be an older copy", code="ledger-older",
                          try_="the newest copy of the ledger; or another folder, in which these periods will have other "
                          "numbers, and are charged once more")


def _measure(number: int, series: StandingSeries, records: Records) -> bool:
    """Measure what is missing of a period; returns whether anything was new."""
    new, there = False, records.parts.get(number, {})
    for at, part in enumerate(series.parts_of(number)):
        if at not in there:
            new |= not part.is_stored
            with located(series.text):
                part.stored_or_paid()
    return new


class _Made(Frozen):
    """Rows, and the periods that they are of."""

    rows: ComposedRows
    numbers: frozenset[int]


def _composed(series: StandingSeries, records: Records, *, fits: bool) -> _Made:
    """The rows of what is measured; those that were told before, as they were told."""
    numbers = sorted(records.bodies) if fits else []
    if not series.alone:  # without gaps from the first period on
        first = series.periods[0].first
        numbers = [number for at, number in enumerate(numbers) if number == first + at]
    made = series.composed({number: records.bodies[number] for number in numbers}) if numbers else NO_ROWS
    blocks = {block.number: block for block in made.blocks}
    before = {number: PeriodRows(number=number, rows=one.answer) for number, one in records.told.items()
              if one.answer is not None}
    every = blocks | before
    shown = tuple(every[number] for number in sorted(every, key=lambda number: (number is None, number or 0)))
    alike = {number: block.rows.size for number, block in blocks.items()} == {
        number: block.rows.size for number, block in every.items()}
    order = made.order if alike else series.in_order(together([block.rows for block in shown]))
    return _Made(rows=ComposedRows(blocks=shown, order=order), numbers=frozenset(numbers) | before.keys())


def _told(made: _Made, query: StandingQuery, session: Session, series: StandingSeries, records: Records) -> Records:
    """Record rows that are published for the first time, if later runs must repeat them and nothing else stores them."""
    for block in () if series.IS_WHOLE or series.changes else made.rows.blocks:
        number = block.number
        if number is not None and (number not in records.told or records.told[number].answer is None):
            records = keep_rows(number, block.rows, query, session, series, records)
    return records


def _published(query: StandingQuery, session: Session, series: StandingSeries, records: Records, made: _Made, *,
               is_complete: bool) -> PublishedSeries | None:
    if not made.numbers:
        return None
    rows = {block.number: block.rows for block in made.rows.blocks}
    empty = together([block.rows for block in made.rows.blocks]).at(slice(0, 0))
    periods = {number: _period(series, number, records.told.get(number) or records.priced(number, series),
                               rows.get(number, empty)) for number in made.numbers}
    missing = set() if is_complete else {period.first for period in series.periods} - made.numbers
    periods |= {number: _period(series, number) for number in missing}
    return PublishedSeries(
        name=query.name, statement=query.text, analyst=query.analyst, budget=session.budget.name, order=made.rows.order,
        entity=session.catalog.entity.name, confidence=float(query.confidence), changes=series.changes,
        periods=tuple(periods[number] for number in sorted(periods)), whole=rows.get(None))


def _period(series: StandingSeries, number: int, told: PeriodNote | None = None, rows: Answer | None = None) -> PublishedPeriod:
    period = series.period(number)
    return PublishedPeriod(name=names_of(period), first=period.start, answer=rows,
                           last=period.end - dt.timedelta(days=1), price_in_period="" if told is None else told.price_in_period,
                           price_in_all="" if told is None else told.price_in_all)


# -- without measuring


MOST_LOOKED_UP = 50  # periods: each has to be planned


def measured_so_far(query: StandingQuery, session: Session, *, telling: bool = False) -> PublishedSeries | None:
    """What was measured of a standing query so far, as far as the session's account was told it; None if nothing was. Nothing is
    charged and no row is read, and if the policy no longer allows the query, what was told of it stays. With `telling`,
    the answers of the account that created the query are first shared with this one, which the ledger records."""
    mine, series = session_of(query, session), None
    with contextlib.suppress(Error):
        series = _series(query, mine)
    if telling and query.analyst != session.account.named.analyst:
        tell_parts(query, session)
    if series is None:
        return _as_told(query, session)
    records = records_of(query, session, series)
    if query.analyst == session.account.named.analyst:
        records = _with_answered(series, records)
    made = _composed(series, records, fits=_misfit(series, records) is None)
    return _published(query, mine, series, records, made, is_complete=True)


def _with_answered(series: StandingSeries, records: Records) -> Records:
    """What is recorded, with the newest periods of which the account has asked the same before, in another statement."""
    parts: dict[int, Mapping[int, str]] = {**records.parts}
    for number in [period.first for period in series.periods if period.first not in records.bodies][-MOST_LOOKED_UP:]:
        asked = series.parts_of(number)
        forms = [form for part in asked if (form := part.stored_form) is not None]
        if len(forms) == len(asked):
            parts[number] = {at: part.read(form).as_json() for at, (part, form) in enumerate(zip(asked, forms, strict=True))}
    return replace(records, parts=parts)


def _as_told(query: StandingQuery, session: Session) -> PublishedSeries | None:
    """The periods that were told of a query which the policy no longer allows, as they are stored; None if they are not stored as
    rows."""
    periods = tuple(PublishedPeriod(
        name=names_of(told.period), first=told.period.start, last=told.period.end - dt.timedelta(days=1), answer=told.rows,
        price_in_period=told.price_in_period, price_in_all=told.price_in_all) for told in told_periods(query, session))
    if not periods:
        return None
    rows = together([period.answer for period in periods if period.answer is not None])
    return PublishedSeries(
        name=query.name, statement=query.text, analyst=query.analyst, budget=session.budget.name, periods=periods,
        entity=session.catalog.entity.name, confidence=float(query.confidence), order=tuple(range(rows.size)))
