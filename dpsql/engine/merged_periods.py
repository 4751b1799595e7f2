"""Answers that combine the numbers of several periods: totals of grouping sets over all periods, rows in an order or without
repetitions across them.

Each period is asked for a *base*: its groups and their aggregates as they are, charged to the account of the period and stored.
HAVING, DISTINCT, ORDER BY and what is shown are computed from the bases of all periods, at no cost. So are the groups of
grouping sets without the period: numbers of rows and sums over all periods are the sums of those of the periods.

Why they are added and not measured. A measurement over T periods takes two steps (`trusted.kernel.period_reads`), and a person
may have rows in all of them. For the same charge in each period, its standard error is 2 sqrt(T) times that of the sum. For the
same charge in all, it is that of the sum with rho, and sqrt(T) times smaller with a pure epsilon. But it must be paid for
anew, in all periods, as soon as one more is closed; the sum costs nothing, and agrees with the rows that are shown.

Errors. The bases of different periods have independent noise, so variances add up. Numbers of the same period may depend on
each other: where they are combined, their standard errors add up, which is a bound (`estimates.NoiseTerm.together`). An answer
does not say of which kind its noise is; margins of sums hold for weighted sums of Laplace noise, unless all intervals are those
of normal noise.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from dpsql.answers.answer import Answer, Single, single, together
from dpsql.engine.charging import ChargeRequest, compose_answer, located
from dpsql.engine.period_by_period import KeyedPeriods, PeriodPart, PeriodParts, as_parts, parts_of, sharing
from dpsql.engine.room_for_periods import check_room
from dpsql.engine.session import Session
from dpsql.errors import Unsupported
from dpsql.estimates import Estimate, NoiseTerm, Numbers, constant, joined, laplaces, normal
from dpsql.frozen import replace
from dpsql.planning.groups import kept_keys, levels_of
from dpsql.planning.options import Options
from dpsql.planning.script import Released
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.question import AggregateCall, GroupingLevel, Output, Question, Scalar
from dpsql.questions.rules.prune_columns import prune_columns
from dpsql.questions.rules.substitute import has_placeholders
from dpsql.sql.text.statement import Query
from dpsql.trusted.plan.expr.nodes import Ref, Value
from dpsql.trusted.plan.node import bottom_up
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.types import Type

if TYPE_CHECKING:
    from dpsql.planning.explain import Explanation

SET = "#set"
LARGE = 20.0  # a standard error from which half a unit does not hide of which kind the noise is
NORMAL = 1.04  # times the margin of normal noise: less than that of Laplace noise


def merged_periods(question: Question, found: KeyedPeriods, options: Options, text: str, session: Session,
                   plan: Callable[[Question, Options], object]) -> MergedPeriods | None:
    """The plan of a question over several periods that is computed from their bases; None if it has aggregates that cannot be
    read back from an answer. Raises Unsupported if totals over the periods do not follow from the numbers of each."""
    if not can_be_base(question):
        return None
    totals = tuple(kept for kept in dict.fromkeys(kept_keys(question)) if found.key not in kept)
    if totals:
        if session.catalog.entity.minimum_frequency > 1:  # what a period withholds would be missing in its sums
            return None
        _check_totals(question, totals, found)
    shared = sharing(options, 1 + len(question.scalars), session) if question.scalars else options
    beside = as_parts([plan(base_of(scalar.question, None), shared.inside(outer_public=False)) for scalar in question.scalars])
    base = base_of(question, found)
    parts = parts_of(base, found, lambda asked: plan(asked, shared))
    if parts is None or beside is None:
        return None
    return MergedPeriods(question=question, base=base, found=found, parts=parts, names=found.names, options=options, text=text,
                         session=session, beside=beside)


def is_beside(question: Question, query: Query) -> bool:
    """Whether the subqueries of a question read no table that grows, and take part in what is shown alone."""
    scalars = [scalar.question for scalar in question.scalars]
    grow = any(isinstance(node, Scan) and node.periods is not None for one in scalars for node in bottom_up(one.view))
    waits = has_placeholders((prune_columns(question.view), question.aggregates, scalars))
    return not (grow or waits or query.goals) and all(map(can_be_base, scalars)) and not any(one.together for one in scalars)


def can_be_base(question: Question) -> bool:
    """Whether the answers to all aggregates of a question are values that can be combined over periods."""
    return all(call.over is None and call.aggregate.kind not in (Kind.MODE, Kind.RELEASED) for call in question.aggregates)


def base_of(question: Question, found: KeyedPeriods | None) -> Question:
    """The groups of a question and their aggregates, without what is made of them. Averages come with their sums and counts where
    these are measured together anyway, in grouping sets."""
    calls, sets = question.aggregates, question.sets
    levels: tuple[GroupingLevel, ...] = ()
    outputs = [Output(name=key.name, expr=Ref(column=key.column, type=key.type)) for key in question.keys]
    if sets is not None and found is not None:
        calls = (*calls, *(moment for moment in _moments(calls) if _same(moment, calls) is None))
        sets = tuple(dict.fromkeys(_in_period(kept, found) for kept in sets))
        levels = GroupingLevel(id=SET, keys=tuple(key.column for key in question.keys)),
        outputs.append(Output(name=SET, expr=Ref(column=SET, type=Type.BIGINT)))
    outputs += [Output(name=call.text or call.function, expr=Ref(column=call.id, type=call.type)) for call in calls]
    return replace(question, aggregates=calls, outputs=tuple(outputs), having=None, ordering=(), limit=None, offset=0,
                   distinct=False, scalars=(), sets=sets, levels=levels)


def _moments(calls: Sequence[AggregateCall]) -> Iterator[AggregateCall]:
    """The sums and counts of averages."""
    for call in calls:
        if call.aggregate.average:
            for function, kind in (("sum", Type.DOUBLE), ("count", Type.BIGINT)):
                yield replace(call, id=f"{function} of {call.id}", function=function, type=kind,
                              text=f"{function} of {call.text}")


def _same(call: AggregateCall, calls: Sequence[AggregateCall]) -> AggregateCall | None:
    """The one of some calls that is the same sum or number of rows."""
    return next((one for one in calls if (one.function, one.columns, one.when) == (call.function, call.columns, call.when)), None)


def _in_period(kept: tuple[int, ...], found: KeyedPeriods) -> tuple[int, ...]:
    """The grouping set of one period from which one over all periods is added up: with the period, which has one value there."""
    return tuple(sorted({*kept, found.key})) if found.whole else kept


def _check_totals(question: Question, totals: Sequence[tuple[int, ...]], found: KeyedPeriods) -> None:
    period = question.keys[found.key]
    instead = f"GROUPING SETS that all have {period.name}, and the totals over the periods in a statement of their own"
    for call in question.aggregates:
        if not call.aggregate.plain:
            raise Unsupported(f"{call.text or call.function} over all periods does not follow from that of each period",
                              code="periods", span=call.span, subject=call.text, try_=instead)
    for kept in totals:
        for key in (question.keys[i] for i in kept):
            if key.domain is None:
                raise Unsupported(f"groups of {key.name} are found privately in each period, so their totals are unknown",
                                  code="periods", span=key.span, subject=key.name, try_=instead)


class MergedPeriods(PeriodParts):
    """A question that is computed from the bases of its periods, and of its subqueries `beside`."""

    base: Question
    found: KeyedPeriods
    options: Options
    session: Session
    beside: tuple[PeriodPart, ...] = ()

    def explain(self) -> Explanation:
        told = PeriodParts.explain(self)
        beside = [part.explain() for part in self.beside]
        return replace(told, cost="; ".join((told.cost, *(f"{one.cost} for a subquery" for one in beside if not one.stored))),
                       stored=told.stored and all(one.stored for one in beside),
                       measurements=(*told.measurements, *(each for one in beside for each in one.measurements)))

    def dues(self) -> Iterator[ChargeRequest]:
        for part in self.beside:
            yield from part.dues()
        yield from PeriodParts.dues(self)

    def answer(self) -> Answer:
        with located(self.text):
            check_room((*self.beside, *self.parts), self.session)
            first = [part.answer() for part in self.beside]
            return self.of(self.answers(), first)

    def of(self, answers: Sequence[Answer], first: Sequence[Answer] = ()) -> Answer:
        """The answer, given those of the periods, and of the subqueries."""
        with located(self.text):
            whole = together([replace(answer, data=()) for answer in (*first, *answers)])
            added = any(self.found.key not in kept for kept in kept_keys(self.question))
            notes = [*([_added(self.question, self.found)] if added and len(answers) > 1 else []),
                     *shown_notes(self.base, self.notes(answers))]
            singles = self._singles(first)
            notes += [_told(scalar, singles[scalar.awaited.id]) for scalar in self.question.scalars]
            released = replace(merged(self.question, self.base, answers, self.found), notes=tuple(notes), singles=singles)
            made = compose_answer(self.question, self.options, released, self.session)
        return replace(made, cost=whole.cost, stored=whole.stored, shared=whole.shared)

    def _singles(self, answers: Sequence[Answer]) -> dict[str, Single]:
        """The values of the subqueries."""
        found = {}
        for place, (scalar, answer) in enumerate(zip(self.question.scalars, answers, strict=True)):
            read = merged(scalar.question, base_of(scalar.question, None), [answer], None)
            estimates = {name: estimate.under(place) for name, estimate in read.aggregates.items()}
            found[scalar.awaited.id] = single(scalar.awaited, scalar.question, read.cells, estimates, self.session.scratch, {})
        return found


def _told(scalar: Scalar, found: Single) -> str:
    sure = "" if found.error is None else f" (standard error {found.error:.4g})"
    return f"{scalar.awaited.text} = {found.value}{sure} was released beside the periods"


def _added(question: Question, found: KeyedPeriods) -> str:
    name = question.keys[found.key].name
    return (f"totals over {name} are the sums of the numbers of {len(found.each)} periods, at no cost; their variances add up, "
            "and the totals change as periods are added")


def shown_notes(base: Question, notes: Sequence[str]) -> list[str]:
    """Those of the notes of a base that are not on its own columns."""
    names = {output.name for output in base.outputs}
    return [note for note in notes if not any(f"{name} tells nothing" in note for name in names)]


def merged(question: Question, base: Question, answers: Sequence[Answer], found: KeyedPeriods | None) -> Released:
    """The groups and aggregates of a question, from the answers to its base."""
    read = [_Read(base, answer, place) for place, answer in enumerate(answers)]
    cells: list[tuple[Value, ...]] = []
    made: dict[str, list[Estimate]] = {call.id: [] for call in question.aggregates}
    for kept in kept_keys(question):
        if found is None or found.key in kept:
            for part in read:
                places = part.rows(kept)
                cells += [(*part.cell(row, kept), *levels_of(question, kept)) for row in places.tolist()]
                for call in question.aggregates:
                    made[call.id].append(part.estimates[call.id].at(places))
        else:
            own, numbers = _totals(question, base, kept, read, _in_period(kept, found))
            cells += [(*cell, *levels_of(question, kept)) for cell in own]
            for name, estimate in numbers.items():
                made[name].append(estimate)
    return Released(cells=tuple(cells), aggregates={name: joined(each) for name, each in made.items()})


def _totals(question: Question, base: Question, kept: tuple[int, ...], read: Sequence[_Read],
            source: tuple[int, ...]) -> tuple[list[tuple[Value, ...]], dict[str, Estimate]]:
    """The groups of a grouping set without the period, and their aggregates, added up over the periods."""
    rows = [part.rows(source) for part in read]
    own = [[part.cell(row, kept) for row in places.tolist()] for part, places in zip(read, rows, strict=True)]
    at = {cell: place for place, cell in enumerate(dict.fromkeys(cell for cells in own for cell in cells))}

    def added(name: str) -> Estimate:
        total = constant(np.zeros(len(at)))
        for part, cells, places in zip(read, own, rows, strict=True):
            own_places = np.array([at[cell] for cell in cells], dtype=np.intp)
            total = total + _spread(part.estimates[name].at(places), own_places, len(at))
        return total

    def told(call: AggregateCall) -> Estimate:
        if not call.aggregate.average:
            return added(call.id)
        above, below = (same for moment in _moments([call]) if (same := _same(moment, base.aggregates)) is not None)
        ends = question.view.field(call.columns[0]).facts.declared
        rows = added(below.id)
        return (added(above.id) / rows).where(rows.values > 0).within(float(ends.low), float(ends.high))

    return [*at], {call.id: told(call) for call in question.aggregates}


def _spread(estimate: Estimate, places: NDArray[np.intp], size: int) -> Estimate:
    """The numbers of an estimate at these places among others, where there are zeros without an error."""
    def put(numbers: float | Numbers) -> Numbers:
        found = np.zeros(size)
        np.add.at(found, places, np.broadcast_to(numbers, estimate.values.shape))
        return found

    return Estimate(values=put(estimate.values), linear=estimate.linear, below=put(estimate.below), above=put(estimate.above),
                    slopes={name: (term, put(slope)) for name, (term, slope) in estimate.slopes.items()})


class _Read:
    """The groups and aggregates of one period, read back from an answer."""

    def __init__(self, base: Question, answer: Answer, place: int) -> None:
        self._base, width = base, len(base.keys)
        self._keys = [answer.data[i].values for i in range(width)]
        self._sets = answer.data[width].values if base.levels else None
        self._size, first = answer.size, width + len(base.levels)
        self.estimates: Mapping[str, Estimate] = {
            call.id: estimate_of(answer, first + at, (place, at)) for at, call in enumerate(base.aggregates)}

    def rows(self, kept: tuple[int, ...]) -> NDArray[np.intp]:
        """The positions of the groups of a grouping set."""
        if self._sets is None:
            return np.arange(self._size, dtype=np.intp)
        (level,) = levels_of(self._base, kept)
        return np.flatnonzero(np.array([told == level for told in self._sets], dtype=np.bool_))

    def cell(self, row: int, kept: tuple[int, ...]) -> tuple[Value, ...]:
        """A group, with NULL for keys that are summed out."""
        return tuple(values[row] if i in kept else None for i, values in enumerate(self._keys))


def estimate_of(answer: Answer, column: int, name: tuple[int, int]) -> Estimate:
    """The numbers of a column of an answer, with its standard errors and intervals; `name` is that of their noise, whose first
    number is the same for noise that may depend on each other."""
    data, shown = answer.data[column], answer.columns[column]
    values = _floats(data.values)
    if data.errors is None and data.lows is None:
        return constant(values)
    none = np.full(values.shape, np.nan)
    errors, lows, highs = (none if part is None else part for part in (data.errors, data.lows, data.highs))
    clipped = (-math.inf, math.inf) if shown.range is None else shown.range
    kind, times = _kind(values, errors, lows, highs, clipped, answer.confidence)
    spread = np.where(np.isnan(errors), np.inf, errors)
    below, above = (np.where(np.isnan(end) | np.isinf(end), np.inf, np.maximum(side * (end - values) - times * errors, 0))
                    for side, end in ((-1, lows), (1, highs)))

    made = Estimate(values=values, linear=not shown.approximate, below=below, above=above, slopes={
        name: (NoiseTerm(kind=kind, scale=1.0, together=name[0]), spread)})
    return replace(made, drawn=lambda confidence: (lows, highs) if confidence == answer.confidence else made.ends(confidence))


def _kind(values: Numbers, errors: Numbers, lows: Numbers, highs: Numbers, clipped: tuple[float, float],
          confidence: float) -> tuple[Literal["normal", "laplaces"], float]:
    """The kind of noise of some numbers, by their intervals, and how many standard errors are in its margin."""
    usual = normal(confidence)
    with np.errstate(invalid="ignore"):
        two_sided = np.isfinite(lows) & np.isfinite(highs) & (lows > clipped[0]) & (highs < clipped[1]) & (errors > LARGE)
        one_sided = np.isfinite(lows) & np.isinf(highs) & (lows > clipped[0]) & (errors > LARGE)
    found = [*((highs - lows)[two_sided] / 2 / errors[two_sided] / usual),
             *((values - lows)[one_sided] / errors[one_sided] / normal(max(2 * confidence - 1, 0.0)))]
    if found and max(found) <= NORMAL:
        return "normal", usual
    return "laplaces", laplaces(confidence)


def _floats(values: Sequence[Value]) -> Numbers:
    return np.array([math.nan if value is None else value.toordinal() if isinstance(value, dt.date) else value
                     for value in values], dtype=np.float64)
