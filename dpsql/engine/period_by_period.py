"""A statement that groups by period: one statement for each period, and the rows of all of them.

Each is charged to the account of its own period. What was told of a period stays, with its errors, and only periods that are new
are measured: so the same statement next month costs next month. Conditions that hold in a whole period take no part in what its
statement is, so other ends of the time asked for give the same numbers. What combines numbers of several periods, such as totals
of grouping sets without the period, is computed from them (`engine.merged_periods`).
"""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast, overload

from dpsql.answers.answer import Answer, rows_shown, together
from dpsql.answers.described_columns import DescribedColumn, of_question
from dpsql.catalog.price import Price
from dpsql.engine.calendar_keys import ValuesOfKey, one_of, values_of
from dpsql.engine.charging import Charged, ChargeRequest, located
from dpsql.engine.room_for_periods import check_room
from dpsql.engine.session import Session
from dpsql.errors import Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.planning.options import Options
from dpsql.planning.program import priced
from dpsql.questions.question import Key, Ordering, Question
from dpsql.questions.rebuilding import rebuild
from dpsql.sql.binding import typing
from dpsql.sql.binding.periods_read import in_periods, read_in
from dpsql.trusted.declarations.growth import CALENDAR, KINDS, PeriodKind, PeriodRange, first_day, names_of, period_of
from dpsql.trusted.declarations.tables import Domain
from dpsql.trusted.kernel.period_reads import PeriodReads
from dpsql.trusted.plan.expr.nodes import Call, Expr, Literal, Ref, conjuncts
from dpsql.trusted.plan.node import Node, bottom_up
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.types import Type

if TYPE_CHECKING:
    from dpsql.planning.explain import Explanation

NESTED: Mapping[PeriodKind, frozenset[PeriodKind | None]] = {  # the units whose starts tell the period
    "day": frozenset({"day"}), "week": frozenset({"day", "week"}), "month": frozenset({"day", "month"}),
    "quarter": frozenset({"day", "month", "quarter"}), "year": frozenset({"day", "month", "quarter", "year"})}
MOST_NAMES = 3  # that a note lists
PLACE = "\0"  # of the name of a period in a note
ROWS = re.compile(r" in [\d,]+ of [\d,]+ rows")  # of the answer of one period
Part = TypeVar("Part")
Of = TypeVar("Of")


class PaidPart(Protocol):
    """What is charged for one period."""

    @property
    def is_stored(self) -> bool: ...

    def explain(self) -> Explanation: ...

    def dues(self) -> Iterator[ChargeRequest]: ...


class PeriodPart(PaidPart, Protocol):
    """The statement of one period."""

    @property
    def reads(self) -> PeriodReads | None: ...

    def bill(self) -> Any: ...

    def answer(self) -> Any: ...


def explained(parts: Sequence[PaidPart], names: Sequence[str], what: str = "statement", done: str = "answered") -> Explanation:
    """The explanation of the last period that is not stored yet, and how many such periods there are."""
    new = [(part, name) for part, name in zip(parts, names, strict=True) if not part.is_stored]
    part, name = new[-1] if new else (parts[-1], names[-1])
    note = (f"one {what} for each of {len(parts)} periods, {span(names)}, charged to the account of its period; "
            f"not {done} before: {len(new)}; this is the one of {name}")
    own = part.explain()
    cost = f"{own.cost} in each of {len(new)} periods, and their sum in all" if len(new) > 1 else own.cost
    return replace(own, notes=(note, *own.notes), cost=cost)


def dues_of(parts: Sequence[PaidPart]) -> Iterator[ChargeRequest]:
    """The bills of the periods that are not stored yet."""
    for part in parts:
        yield from part.dues()


class PeriodParts(Frozen):
    """The statements of the periods, in order, and the question that they answer together."""

    parts: Sequence[PeriodPart]
    names: tuple[str, ...]
    question: Question
    text: str

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return of_question(self.question)

    def explain(self) -> Explanation:
        with located(self.text):
            return explained(self.parts, self.names) if len(self.parts) > 1 else self.parts[0].explain()

    def dues(self) -> Iterator[ChargeRequest]:
        """The bills of the periods that were not answered before."""
        return dues_of(self.parts)

    def answers(self) -> list[Answer]:
        """The answers of the periods, those that were stored and those that are paid for now."""
        return [part.answer() for part in self.parts]

    def notes(self, answers: Sequence[Answer]) -> tuple[str, ...]:
        """The notes of the answers, and which periods were answered before if only some were."""
        new = [name for name, answer in zip(self.names, answers, strict=True) if not answer.stored]
        old = len(self.names) - len(new)
        told = [f"measured now: {listed(new)}; answered before: {old} other period{'s' * (old > 1)}"] if new and old else []
        return *told, *_notes_together(self.names, answers)


class PeriodByPeriod(PeriodParts):
    """A statement whose rows are those of the statements of its periods."""

    periods: tuple[PeriodRange, ...]
    session: Session

    def answer(self) -> Answer:
        with located(self.text):
            check_room(self.parts, self.session)
        found = self.answers()
        return replace(in_order(self.question, together(found)), notes=self.notes(found))


class PlannedParts(Sequence[Part], Generic[Of, Part]):
    """The statements of some periods, each planned when it is first needed: most were answered long ago, and are not."""

    def __init__(self, periods: Sequence[Of], plan: Callable[[Of], Part]) -> None:
        self._periods, self._plan = periods, plan
        self._made: dict[int, Part] = {}

    def known(self, parts: Mapping[int, Part]) -> None:
        """Use these statements at their places, where they are not planned yet."""
        self._made = {**parts, **self._made}

    def __len__(self) -> int:
        return len(self._periods)

    @overload
    def __getitem__(self, at: int) -> Part: ...

    @overload
    def __getitem__(self, at: slice) -> list[Part]: ...

    def __getitem__(self, at: int | slice) -> Part | list[Part]:
        places = range(len(self))[at]
        if isinstance(places, range):
            return [self[place] for place in places]
        if places not in self._made:
            self._made[places] = self._plan(self._periods[places])
        return self._made[places]


def places_in_order(question: Question, made: Answer) -> list[int]:
    """The places of the rows of some periods, in the order that is asked for."""
    rows = [*range(made.size)]
    if question.ordering:
        rows.sort(key=cmp_to_key(_order(question, made)))
    return rows


def in_order(question: Question, made: Answer) -> Answer:
    """The rows of all periods in the order that is asked for, as many as are asked for."""
    shown = places_in_order(question, made)[rows_shown(question.limit, question.offset)]
    return replace(made, data=tuple(column.at(shown) for column in made.data))


def _notes_together(names: Sequence[str], answers: Sequence[Answer]) -> tuple[str, ...]:
    """The notes of several periods, in which those that differ in the name of the period alone are one."""
    found: dict[str, list[str]] = {}
    for name, answer in zip(names, answers, strict=True):
        for note in answer.notes:
            found.setdefault(note.replace(name, PLACE), []).append(name)
    return tuple(_of_periods(note, own, len(names)) for note, own in found.items())


def _of_periods(note: str, names: Sequence[str], among: int) -> str:
    """A note on some of the periods of an answer, of which there are so many. If it names none, it says which they are."""
    if PLACE not in note:
        if len(names) < among:
            return f"{', '.join(names) if len(names) <= MOST_NAMES else f'{len(names)} of {among} periods'}: {note}"
        return f"in each period, {note}" if among > 1 and ROWS.search(note) else note
    if len(names) == 1:
        return note.replace(PLACE, names[0])
    start, end = "this is what each ", f" is charged in {PLACE}, and in all"  # see `claimed_periods.charged_in`
    if note.startswith(start) and note.endswith(end):
        entity = note[len(start):-len(end)]
        return f"each {entity} is charged the price of each of {listed(names)} in that period, and their sum in all"
    start, between, end = "in any ", f" that include {PLACE}, each ", " is charged the same"  # see `charged_in_any` there
    if note.startswith(start) and between in note and note.endswith(end):
        window, entity = note[:-len(end)].split(between)
        return f"{window}, each {entity} is charged the sum of the prices of those of {listed(names)} that are among them"
    return note.replace(f" in {PLACE} are read", f" in {listed(names)} are read").replace(PLACE, f"each of {listed(names)}")


def listed(names: Sequence[str]) -> str:
    """Some names of periods, shortened if they are many."""
    return ", ".join(names) if len(names) <= MOST_NAMES else f"the {len(names)} periods {span(names)}"


def span(names: Sequence[str]) -> str:
    """The first and the last of some names, each of which may be one of a first and a last day."""
    return f"{names[0].split(' to ')[0]} to {names[-1].split(' to ')[-1]}"


class KeyedPeriods(Frozen):
    """The periods of a question, by one of its keys: the scan of the growing table, its column of time, and the position of the
    key, which is the start of the period if it is `whole`, and else of a shorter time. Of a calendar, `values` has those of each
    key in each period, where the day decides them."""

    scan: Scan
    time: str
    key: int
    whole: bool
    each: tuple[PeriodRange, ...]
    values: tuple[ValuesOfKey | None, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(names_of, self.each))

    def only_in(self, question: Question, period: PeriodRange) -> Question:
        """The question of one period, without order and limit."""
        asked = _of_period(question, self.scan, self.time, period)
        at = self.each.index(period)
        return replace(asked, keys=tuple(key if own is None else replace(key, domain=own.each[at]) for key, own in zip(
            asked.keys, self.values, strict=True))) if self.values else asked


def periods_of(question: Question, session: Session) -> KeyedPeriods | None:
    """The periods of a question, if each row belongs to one by one of its keys."""
    scans = {id(node): node for node in bottom_up(question.view) if isinstance(node, Scan) and node.periods is not None}
    if len(scans) != 1:
        return None
    (scan,) = scans.values()
    periods, time = scan.periods, _time(scan)
    if periods is None or time is None or scan.table.growth is None:
        return None
    if periods.period == CALENDAR:
        return _of_calendar(question, scan, time, scan.table.growth.each(periods), session)
    units = [_unit(key, question.view, time) for key in question.keys]
    told = [i for i, unit in enumerate(units) if unit in NESTED[periods.period]]
    if not told:
        return None
    key = next((i for i in told if units[i] == periods.period), told[0])
    each = scan.table.growth.each(periods)
    tests = _between(each[0], question.view, question.keys[key])
    if question.keys[key].nullable or not _is_made_of(each[0], question.view, tests, session):
        return None  # rows without a time, as outer joins make them, are of no period
    return KeyedPeriods(scan=scan, time=time, key=key, whole=units[key] == periods.period, each=tuple(each))


def _of_calendar(question: Question, scan: Scan, time: str, each: Sequence[PeriodRange], session: Session) -> KeyedPeriods | None:
    """The periods of a calendar, if each row belongs to one by one of the keys."""
    values = [values_of(key, question.view, time, each, session) for key in question.keys]
    told = [(i, own) for i, own in enumerate(values) if own is not None and own.telling]
    if not told:
        return None
    key, own = next(((i, own) for i, own in told if own.whole), told[0])
    if not _is_made_of(each[0], question.view, [one_of(question.keys[key], own.each[0], question.view)], session):
        return None
    return KeyedPeriods(scan=scan, time=time, key=key, whole=own.whole, each=tuple(each), values=tuple(values))


def parts_of(question: Question, found: KeyedPeriods, plan: Callable[[Question], object]) -> Sequence[PeriodPart] | None:
    """The statements of the periods; None if they are not charged. They all have one form, so if the last one can be planned, the
    others can."""

    def asked(period: PeriodRange) -> Question:
        return found.only_in(question, period)

    def planned(period: PeriodRange) -> PeriodPart:
        return cast(PeriodPart, plan(asked(period)))

    made = PlannedParts(found.each, planned)
    if not isinstance(made[-1], Charged):
        return None
    from dpsql.engine.stored_periods import stored_parts

    made.known(stored_parts(found.each, asked, planned, made[0], made[-1]))
    return made


def sharing(options: Options, parts: int, session: Session) -> Options:
    """The options of one of several statements that share a price equally. Raises OptionError if there is no price."""
    price, part = priced(options.price, session.budget, options.span), Fraction(1, parts)
    return replace(options, price=Price(
        epsilon=None if price.epsilon is None else price.epsilon * part, delta=price.delta * part,
        rho=None if price.rho is None else price.rho * part))


def as_parts(plans: Sequence[object]) -> tuple[PeriodPart, ...] | None:
    """Plans of single statements; None if some are not charged."""
    return cast(tuple[PeriodPart, ...], tuple(plans)) if all(isinstance(part, Charged) for part in plans) else None


def _between(period: PeriodRange, view: Node, key: Key) -> list[Expr]:
    """The conditions that a key, which is the start of a time, is in a period."""
    column = Ref(column=key.column, type=key.type)
    ends = (dt.datetime.combine(day, dt.time()) if key.type is Type.TIMESTAMP else day for day in (period.start, period.end))
    return [typing.call(sign, [column, Literal(value=end, type=key.type)], view.env, None)
            for sign, end in zip((">=", "<"), ends, strict=True)]


def _is_made_of(period: PeriodRange, view: Node, tests: Sequence[Expr], session: Session) -> bool:
    """Whether the groups of a period are made of rows of this period alone: not where windows look at other ones, for instance.
    They are if conditions on the key leave no other period to be read; what holds of one period holds of all."""
    left = in_periods(view, session.catalog, session.scratch, tests)
    return all(node.periods in (None, period) for node in bottom_up(left) if isinstance(node, Scan))


def _time(scan: Scan) -> str | None:
    growth = scan.table.growth
    return next((column for column, name in scan.columns if growth is not None and name == growth.column), None)


def _unit(key: Key, view: Node, time: str) -> PeriodKind | None:
    """The unit of time that a key is the start of, of a scan's column of time; None if it is none."""
    expr: Expr = Ref(column=key.column, type=key.type)
    while isinstance(view, Project | Filter):
        if isinstance(view, Project) and isinstance(expr, Ref):
            expr = next(found for column, _, found in view.columns if column == expr.column)
        elif isinstance(view, Project) and isinstance(expr, Call) and isinstance(expr.args[0], Ref):
            below = next(found for column, _, found in view.columns if column == expr.args[0].column)
            expr = replace(expr, args=(below, *expr.args[1:]))
        view = view.input
    if time not in view.env:
        return None
    column = Ref(column=time, type=view.env[time].type)
    if expr == column:
        return "day" if column.type is Type.DATE else None
    if isinstance(expr, Call) and expr.args[:1] == (column,):
        return next((kind for kind in KINDS if expr.function == f"date_trunc_{kind}"), None)
    return None


def _of_period(question: Question, scan: Scan, time: str, period: PeriodRange) -> Question:
    """The question of one period, without order and limit."""
    keys = tuple(one if (unit := _unit(one, question.view, time)) is None else replace(one, domain=_within(one, unit, period))
                 for one in question.keys)
    return replace(question, view=read_between(question.view, time, period), keys=keys, ordering=(), limit=None, offset=0)


def over_period(question: Question, key: int, kind: PeriodKind, number: int) -> Question:
    """A question whose key at a place is the start of a period, of this period alone, without windows, order and limit."""
    start = first_day(kind, number)
    value = dt.datetime.combine(start, dt.time()) if question.keys[key].type is Type.TIMESTAMP else start
    keys = tuple(replace(one, domain=Domain((value,))) if i == key else one for i, one in enumerate(question.keys))
    return replace(without_windows(question), keys=keys)


def without_windows(question: Question) -> Question:
    """The question without windows, order and limit."""
    calls = tuple(replace(call, over=None) for call in question.aggregates)
    return replace(question, aggregates=calls, ordering=(), limit=None, offset=0)


def read_between(view: Node, time: str, periods: PeriodRange) -> Node:
    """The rows of some periods; conditions that hold in all of them are left out."""
    def changed(node: Node) -> Node:
        if isinstance(node, Scan) and node.periods is not None:
            return read_in(node, periods)
        if isinstance(node, Filter):
            return _without_implied(node, time, periods)
        return node

    return rebuild(view, changed)


def _within(key: Key, unit: PeriodKind, period: PeriodRange) -> Domain:
    """The values in one period of a key that is the start of a unit of time."""
    days = range(period.start.toordinal(), period.end.toordinal())
    starts = dict.fromkeys(first_day(unit, period_of(unit, dt.date.fromordinal(day))) for day in days)
    known = None if key.domain is None else key.domain.values
    values = [dt.datetime.combine(day, dt.time()) if key.type is Type.TIMESTAMP else day for day in starts]
    return Domain(tuple(value for value in values if known is None or value in known))


def _without_implied(node: Filter, time: str, period: PeriodRange) -> Node:
    """A filter without the conditions that hold for all moments of a period."""
    tests = conjuncts(node.condition)
    kept = [test for test in tests if not _is_implied(test, time, period)]
    if len(kept) == len(tests):
        return node
    if not kept:
        return node.input
    return replace(node, condition=functools.reduce(
        lambda one, other: Call(function="and", args=(one, other), type=Type.BOOLEAN), kept))


def _is_implied(test: Expr, time: str, period: PeriodRange) -> bool:
    if not (isinstance(test, Call) and len(test.args) == 2 and isinstance(test.args[0], Ref) and test.args[0].column == time
            and isinstance(test.args[1], Literal) and isinstance(test.args[1].value, dt.date)):
        return False
    end, start, after = (day if isinstance(day, dt.datetime) else dt.datetime.combine(day, dt.time())
                         for day in (test.args[1].value, period.start, period.end))
    last = after - dt.timedelta(days=1) if test.args[0].type is Type.DATE else after - dt.timedelta(microseconds=1)
    return {">=": start >= end, ">": start > end, "<": last < end, "<=": last <= end}.get(test.function, False)


def is_order_shown(question: Question) -> bool:
    return {term.expr for term in question.ordering} <= {output.expr for output in question.outputs}


def check_order(question: Question) -> None:
    shown = {output.expr for output in question.outputs}
    for term in question.ordering:
        if term.expr not in shown:
            raise Unsupported("rows of several periods are ordered by columns that are shown", code="periods",
                              span=term.expr.span, try_="the same expression among the columns, too")


def _order(question: Question, made: Answer) -> Callable[[int, int], int]:
    places = {output.expr: i for i, output in reversed([*enumerate(question.outputs)])}
    terms = [(term, made.data[places[term.expr]].values) for term in question.ordering]

    def compare(first: int, second: int) -> int:
        return next((sign for term, values in terms if (sign := _compared(term, values[first], values[second]))), 0)

    return compare


def _compared(term: Ordering, first: Any, second: Any) -> int:
    if first is None or second is None:
        return 0 if first is second else (-1 if (first is None) is term.nulls_first else 1)
    return 0 if first == second else (-1 if (first < second) is not term.descending else 1)

