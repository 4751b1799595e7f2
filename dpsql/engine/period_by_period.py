"""A statement that groups by period: one statement for each period, and the rows of all of them.

Each is charged to the account of its own period. What was told of a period stays, with its errors, and only periods that are new
are measured: so the same statement next month costs next month. Conditions that hold in a whole period take no part in what its
statement is, so other ends of the time asked for give the same numbers.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable, Iterator, Mapping
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from dpsql.answers.answer import Answer, rows_shown, together
from dpsql.answers.described_columns import DescribedColumn, of_question
from dpsql.engine.charging import ChargeRequest, located
from dpsql.engine.session import Session
from dpsql.engine.single import SingleStatement
from dpsql.errors import Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.questions.question import Key, Ordering, Question
from dpsql.questions.rebuilding import rebuild
from dpsql.sql.binding import typing
from dpsql.sql.binding.periods_read import in_periods, read_in
from dpsql.trusted.declarations.growth import KINDS, PeriodKind, PeriodRange, first_day, name_of, period_of
from dpsql.trusted.declarations.tables import Domain
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


class PeriodByPeriod(Frozen):
    """The statements of the periods, in order."""

    parts: tuple[SingleStatement, ...]
    names: tuple[str, ...]
    question: Question
    text: str

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return of_question(self.question)

    def explain(self) -> Explanation:
        with located(self.text):
            new = [(part, name) for part, name in zip(self.parts, self.names, strict=True) if not part.is_stored]
            part, name = new[-1] if new else (self.parts[-1], self.names[-1])
            note = (f"one statement for each of {len(self.parts)} periods, {self.names[0]} to {self.names[-1]}, charged to the "
                    f"account of its period; not answered before: {len(new)}; this is the one of {name}")
            told = part.explain()
            cost = f"{told.cost} in each of {len(new)} periods, and their sum in all" if len(new) > 1 else told.cost
            return replace(told, notes=(note, *told.notes), cost=cost) if len(self.parts) > 1 else told

    def dues(self) -> Iterator[ChargeRequest]:
        """The bills of the periods that were not answered before."""
        for part in self.parts:
            yield from part.dues()

    def answer(self) -> Answer:
        return in_order(self.question, together([part.answer() for part in self.parts]))


def in_order(question: Question, made: Answer) -> Answer:
    """The rows of all periods in the order that is asked for, as many as are asked for."""
    rows = [*range(made.size)]
    if question.ordering:
        rows.sort(key=cmp_to_key(_order(question, made)))
    shown = rows[rows_shown(question.limit, question.offset)]
    return replace(made, data=tuple(column.at(shown) for column in made.data))


class PeriodKey(Frozen):
    """A key that tells the period of the rows: its place, the unit of time that it is the start of, and the only scan of a
    growing table, with its column of time."""

    key: int
    unit: PeriodKind
    scan: Scan
    time: str
    periods: PeriodRange
    view: Node

    def of(self, periods: PeriodRange) -> Node:
        """The rows of some of the periods."""
        return _read_in(self.view, self.time, periods)


def period_by_period(question: Question, text: str, session: Session,
                     plan: Callable[[Question], SingleStatement]) -> PeriodByPeriod | None:
    """The plan of a question one of whose keys tells the period of the rows; None for others. `plan` makes the plan of a period.
    Raises Unsupported if its rows cannot be ordered."""
    if question.together or (found := period_key(question, session)) is None:
        return None
    periods = found.periods
    each = [PeriodRange(period=periods.period, first=number, last=number) for number in range(periods.first, periods.last + 1)]
    return PeriodByPeriod(question=question, text=text, names=tuple(name_of(one.period, one.first) for one in each), parts=tuple(
        plan(_of_period(question, found, one)) for one in each))


def period_key(question: Question, session: Session) -> PeriodKey | None:
    """The key that tells the period of the rows, if there is one and groups are made of rows of one period. Raises Unsupported if
    rows of several periods cannot be ordered."""
    scans = {id(node): node for node in bottom_up(question.view) if isinstance(node, Scan) and node.periods is not None}
    if len(scans) != 1 or question.scalars or question.distinct:
        return None
    (scan,) = scans.values()
    periods, time = scan.periods, _time(scan)
    units = [] if time is None else [_unit(key, question.view, time) for key in question.keys]
    key = next((i for i, unit in enumerate(units) if periods is not None and unit in NESTED[periods.period]), None)
    if periods is None or time is None or key is None or (unit := units[key]) is None:
        return None
    first = PeriodRange(period=periods.period, first=periods.first, last=periods.first)
    if question.keys[key].nullable or not _is_made_of(first, question.view, question.keys[key], session):
        return None  # rows without a time, as outer joins make them, are of no period
    _check_order(question)
    return PeriodKey(key=key, unit=unit, scan=scan, time=time, periods=periods, view=question.view)


def _is_made_of(period: PeriodRange, view: Node, key: Key, session: Session) -> bool:
    """Whether the groups of a period are made of rows of this period alone: not where windows look at other ones, for instance.
    They are if conditions on the key leave no other period to be read; what holds of one period holds of all."""
    column = Ref(column=key.column, type=key.type)
    ends = (dt.datetime.combine(day, dt.time()) if key.type is Type.TIMESTAMP else day for day in (period.start, period.end))
    tests = [typing.call(sign, [column, Literal(value=end, type=key.type)], view.env, None)
             for sign, end in zip((">=", "<"), ends, strict=True)]
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


def _of_period(question: Question, found: PeriodKey, period: PeriodRange) -> Question:
    """The question of one period, without order and limit."""
    keys = tuple(replace(one, domain=_within(one, question.view, found.time, period)) if i == found.key else one
                 for i, one in enumerate(question.keys))
    return replace(question, view=found.of(period), keys=keys, ordering=(), limit=None, offset=0)


def over_period(question: Question, key: int, kind: PeriodKind, number: int) -> Question:
    """A question whose key at a place is the start of a period, of this period alone, without windows, order and limit."""
    start = first_day(kind, number)
    value = dt.datetime.combine(start, dt.time()) if question.keys[key].type is Type.TIMESTAMP else start
    keys = tuple(replace(one, domain=Domain((value,))) if i == key else one for i, one in enumerate(question.keys))
    calls = tuple(replace(call, over=None) for call in question.aggregates)
    return replace(question, keys=keys, aggregates=calls, ordering=(), limit=None, offset=0)


def _read_in(view: Node, time: str, periods: PeriodRange) -> Node:
    """The rows of some periods; conditions that hold in all of them are left out."""
    def changed(node: Node) -> Node:
        if isinstance(node, Scan) and node.periods is not None:
            return read_in(node, periods)
        if isinstance(node, Filter):
            return _without_implied(node, time, periods)
        return node

    return rebuild(view, changed)


def _within(key: Key, view: Node, time: str, period: PeriodRange) -> Domain:
    """The values of a key in one period."""
    unit, days = _unit(key, view, time), range(period.start.toordinal(), period.end.toordinal())
    starts = dict.fromkeys(first_day(unit, period_of(unit, dt.date.fromordinal(day))) for day in days) if unit is not None else ()
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


def _check_order(question: Question) -> None:
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

