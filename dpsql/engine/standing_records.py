"""What the ledger knows of a standing query: what is stored of its parts, and what was told of its periods.

Both are found by the text of the query, and not by what identifies a statement: that changes with each edit of the policy. Some
answers cannot be found by it: where the account asked the same before, in other words, its answer is used, and nothing is
charged. And rows that are computed of several periods, with their intervals, follow from the policy and this version of the
program, too. So these are written down when they are told first, as a note that costs nothing; after that, the note holds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from dpsql.answers.answer import Answer, of_json
from dpsql.answers.listings import price_in_words
from dpsql.engine.session import Session
from dpsql.engine.standing_queries import StandingQuery, before_revision, record, revision_of
from dpsql.engine.standing_series import Due, StandingSeries, text_of_part, told_rows
from dpsql.frozen import Frozen, replace
from dpsql.trusted.declarations.growth import CALENDAR, PeriodRange
from dpsql.trusted.kernel.period_reads import PeriodReads

TOLD = hashlib.sha256(b"what standing queries told").hexdigest()
"""The digest of notes about periods of standing queries."""


NO_PARTS: Mapping[int, str] = MappingProxyType({})


class PeriodNote(Frozen):
    """The note on a period: its prices, its rows if they are not those of the stored parts, and parts that have other texts."""

    price_in_period: str
    price_in_all: str
    answer: Answer | None = None
    parts: Mapping[int, str] = NO_PARTS


class Records(Frozen):
    """What is known of the periods of a query, by their numbers.

    parts  what is stored of each part, by its place, of which there are `many`
    dues   what was charged for them
    told   the notes
    """

    parts: Mapping[int, Mapping[int, str]]
    dues: Mapping[int, Mapping[int, Due]]
    told: Mapping[int, PeriodNote]
    many: int

    @property
    def bodies(self) -> dict[int, tuple[str, ...]]:
        """The periods of which everything is stored."""
        return {number: tuple(found[at] for at in sorted(found)) for number, found in self.parts.items()
                if len(found) == self.many}

    def priced(self, number: int, series: StandingSeries) -> PeriodNote:
        """What a period was charged, as its note would say."""
        dues = self.dues.get(number, {})
        made = [*dues.values()] if len(dues) == self.many else series.dues_of(number)
        in_period, in_all = series.price_of(made)
        return PeriodNote(price_in_period=price_in_words(in_period), price_in_all=price_in_words(in_all))


def records_of(query: StandingQuery, session: Session, series: StandingSeries) -> Records:
    """What is recorded of a query."""
    parts: dict[int, dict[int, str]] = {}
    dues: dict[int, dict[int, Due]] = {}
    told: dict[int, PeriodNote] = {}
    is_before = before_revision(query, session)
    for at, text in enumerate(series.texts):
        for paid in session.ledger.answers_to(session.account, text):
            reads = PeriodReads.from_text(paid.data)
            if reads is not None and is_before(revision_of(paid.data), reads.periods):
                continue
            if reads is not None and reads.periods.period == series.kind:
                # a part is measured when its last period has closed; its first answer stays
                number = reads.periods.first if series.kind == CALENDAR else reads.periods.last
                if at not in parts.setdefault(number, {}):
                    parts[number][at] = paid.body
                    dues.setdefault(number, {})[at] = Due(reads=reads, in_all=paid.charge)
            elif reads is None and text == query.text:
                told |= {number: note for number, note in _note(paid.body, told).items()
                         if not is_before(paid.seq, series.period(number))}
    whole = [number for number, found in parts.items() if len(found) == len(series.texts)]
    told = {**_as_known(told, query, session, whole)}
    for number, note in told.items():
        for at, body in note.parts.items():
            parts.setdefault(number, {}).setdefault(at, body)
    return Records(parts=parts, dues=dues, told=told, many=len(series.texts))


class ToldRows(Frozen):
    """What was told of a period: its rows and prices."""

    period: PeriodRange
    rows: Answer
    price_in_period: str
    price_in_all: str


def told_periods(query: StandingQuery, session: Session) -> tuple[ToldRows, ...]:
    """The periods of which the account was told rows, in order, without a plan of the query: the policy may no longer allow it.
    Rows that are computed of what is stored are in notes; where they change with each period, there are none."""
    notes: dict[int, PeriodNote] = {}
    ranges: dict[int, PeriodRange] = {}
    found: dict[int, ToldRows] = {}
    for paid in session.ledger.answers_to(session.account, query.text):
        reads = PeriodReads.from_text(paid.data)
        if reads is None:
            notes |= _note(paid.body, notes)
            continue
        number = reads.periods.first if reads.periods.period == CALENDAR else reads.periods.last
        own = ranges.setdefault(number, replace(reads.periods, first=number))
        if query.is_whole and number not in found and (rows := told_rows(paid.body)) is not None:
            found[number] = ToldRows(period=own, rows=rows, price_in_all=price_in_words(paid.charge),
                                       price_in_period=price_in_words(reads.first_charge(paid.charge)))
    notes = {**_as_known(notes, query, session, [*ranges])}
    kinds = [each.period for each in (*ranges.values(), *(session.catalog.periods or {}).values())]
    for number, note in notes.items():
        period = ranges.get(number) or (PeriodRange(period=kinds[0], first=number, last=number) if kinds else None)
        rows = note.answer if note.answer is not None or not query.is_whole else _rows_of_parts(note.parts)
        if period is not None and rows is not None:
            found.setdefault(number, ToldRows(period=period, rows=rows, price_in_period=note.price_in_period,
                                                price_in_all=note.price_in_all))
    return tuple(found[number] for number in sorted(found))


def _as_known(notes: Mapping[int, PeriodNote], query: StandingQuery, session: Session,
              known: Collection[int]) -> Mapping[int, PeriodNote]:
    """Notes of an account are its own, or of the one that made the query: then those on periods of which this one was `known` to
    be told all parts, as rows follow from these."""
    if query.analyst == session.account.named.analyst:
        return notes
    return {number: replace(note, parts=NO_PARTS) for number, note in notes.items() if number in known}


def tell_parts(query: StandingQuery, session: Session) -> None:
    """Record that another account's answers to all parts of its query are shared with this one. Nothing is recorded unless the
    budget shares answers."""
    number, text, ledger = 1, query.text, session.ledger
    ledger.tell_answers_to(session.account, query.analyst, text)
    while ledger.answers_to(session.account, text):
        number += 1
        text = text_of_part(query.text, number)
        ledger.tell_answers_to(session.account, query.analyst, text)


def _rows_of_parts(parts: Mapping[int, str]) -> Answer | None:
    return told_rows(parts[0]) if len(parts) == 1 and 0 in parts else None


def _note(body: str, known: Mapping[int, PeriodNote]) -> dict[int, PeriodNote]:
    """The note in a stored text, if it is one, with what earlier ones on the same period said: that stays."""
    told: Any = json.loads(body)
    if not isinstance(told, dict) or "told of" not in told:
        return {}
    number = int(told["told of"])
    made = PeriodNote(price_in_period=told["price in the period"], price_in_all=told["price in all"],
                      answer=None if told["answer"] is None else of_json(told["answer"]),
                      parts={int(at): body for at, body in told["parts"].items()})
    if (before := known.get(number)) is not None:
        made = replace(before, answer=made.answer if before.answer is None else before.answer,
                       parts={**made.parts, **before.parts})
    return {number: made}


def keep_parts(numbers: Sequence[int], query: StandingQuery, session: Session, series: StandingSeries) -> Records:
    """Write down the parts of some periods that are stored, but not found by the text; returns what is recorded then."""
    records = records_of(query, session, series)
    for number in numbers:
        there = records.parts.get(number, {})
        others = {at: part.read(part.stored_form or "").as_json() for at, part in enumerate(series.parts_of(number))
                  if at not in there}
        if others:
            whole = replace(records, parts={**records.parts, number: {**others, **there}})
            records = _noted(number, query, session, whole, whole.priced(number, series), parts=others)
    return records


def keep_rows(number: int, rows: Answer, query: StandingQuery, session: Session, series: StandingSeries,
              records: Records) -> Records:
    """Write down the rows of a period; returns what is recorded then."""
    return _noted(number, query, session, records, records.priced(number, series), rows=rows)


def _noted(number: int, query: StandingQuery, session: Session, records: Records, price: PeriodNote, *,
           parts: Mapping[int, str] = NO_PARTS, rows: Answer | None = None) -> Records:
    body = json.dumps({"standing query": query.name, "told of": number, "parts": dict(parts),
                       "answer": None if rows is None else rows.as_json(), "price in the period": price.price_in_period,
                       "price in all": price.price_in_all})
    record(body, query.text, session, TOLD)
    return replace(records, told={**records.told, **_note(body, records.told)})  # as every later run will read it
