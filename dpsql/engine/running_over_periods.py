"""Running totals over the periods of a growing table: one measurement for each period that closes, and totals that stay.

SUM(COUNT(*)) OVER (ORDER BY month) for months of a growing table is measured by a strategy over time (`strategies.over_time`):
when a month closes, one noisy weighted sum over the months so far is charged to their accounts, each by its weight, and stored.
All running totals up to then follow from what is stored. So the same statement next month shows the old ones as they were, and
pays for one more measurement.

The price is what each period is charged altogether, by its own measurement and by those of later periods up to the horizon of the
strategy. It must be a rho: for the noise of a pure epsilon, no strategy is much better than adding up the periods
(`engine.around_periods`).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpsql.answers.answer import Answer, compose
from dpsql.answers.described_columns import DescribedColumn, of_question
from dpsql.catalog.price import Price
from dpsql.engine.accounts import left_in_budget
from dpsql.engine.charging import Charged, ChargeRequest, located
from dpsql.engine.period_by_period import (
    KeyedPeriods,
    PlannedParts,
    check_order,
    in_order,
    over_period,
    periods_of,
    read_between,
    without_windows,
)
from dpsql.engine.room_for_periods import check_room
from dpsql.engine.session import Session
from dpsql.engine.stored_periods import data_of_closed, found_stored
from dpsql.errors import Unsupported
from dpsql.estimates import Estimate
from dpsql.frozen import Frozen, replace
from dpsql.planning.claimed_periods import certificate_of, leaves_nothing, revised_in_words, revisions_of
from dpsql.planning.program import Program
from dpsql.planning.script import Released, script
from dpsql.questions.identity import SharedTexts, canonical, digest, digest_of
from dpsql.questions.question import AggregateCall, Key, Output, Question
from dpsql.questions.rules.limit_in_periods import PERIOD
from dpsql.strategies.over_time import OverTime, square_root
from dpsql.strategies.square_root import prefix_bound
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.cached import cached_property
from dpsql.trusted.declarations.growth import PeriodKind, PeriodRange, name_of
from dpsql.trusted.declarations.tables import Domain
from dpsql.trusted.kernel.period_reads import PeriodReads
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.measurements.weighted_periods import WeightedPeriods
from dpsql.trusted.noise.integer import DiscreteGaussian, spread_of
from dpsql.trusted.plan.expr.nodes import Ref, Value
from dpsql.trusted.plan.node import Node, Printing, fold
from dpsql.types import Type

if TYPE_CHECKING:
    from dpsql.planning.explain import Explanation

HORIZONS: Mapping[PeriodKind, int] = {"day": 1024, "week": 256, "month": 64, "quarter": 32, "year": 16}
ALIKE = 1 + 1e-9  # ratios that differ by rounding alone
Numbers = NDArray[np.float64]
OfPeriod = Callable[[Question], Program]  # the program of a question without windows


class Totals(Frozen):
    """What was measured when a period closed: for each summand and component, the noisy weighted sums, one for each cell. They
    can be added up if they have one `form`: the same is computed of the rows of each period, with the same noise."""

    totals: tuple[tuple[tuple[int, ...], ...], ...]
    form: str

    def as_json(self) -> str:
        import json

        return json.dumps({"form": self.form, "totals": self.totals})

    @classmethod
    def from_json(cls, text: str) -> Totals:
        """The inverse of `as_json`."""
        import json

        told = json.loads(text)
        return cls(totals=tuple(tuple(map(tuple, part)) for part in told["totals"]), form=told["form"])


class OfOnePeriod(Charged[Totals]):
    """The measurement that is made when a period closes.

    program  answers what the running totals are of, over all periods of their stream so far
    request  the measurement, with a certificate from which its `cost` in all follows
    sigmas   for each summand, the standard deviation of the noise, for weights as the strategy has them
    own      what the program measures by itself
    form     that of the first measurement of all
    """

    program: Program
    request: WeightedPeriods | NoisySums
    cost: Cost
    sigmas: tuple[float, ...]
    own: NoisySums
    form: str = ""

    @cached_property
    def identity(self) -> str:
        weights = self.request.weights if isinstance(self.request, WeightedPeriods) else ()
        return _identity(self, canonical(self.program.question), weights)

    def first_request(self) -> Request:
        return self.request

    def read(self, stored: str) -> Totals:
        return Totals.from_json(stored)

    def bill(self) -> ChargeRequest:
        return ChargeRequest(steps=_steps(self.request, self.form), cost=self.cost, views=(self.program.view,),
                             options=self.program.options)

    def explanation(self) -> Explanation:
        from dpsql.planning.explain import explained

        return explained(self.program, self.session.kernel, entity=self.session.catalog.entity.name,
                         left=left_in_budget(self.session))

    def told(self, totals: Sequence[Numbers], sigmas: float) -> Released:
        """The released numbers, given the totals of each component as they follow from all measurements, and how many times the
        standard deviation of the program's own noise their errors are."""
        steps = script(self.program, self.session.kernel, self.session.scratch)
        next(steps)
        rows, parts = iter(totals), []
        for part in self.own.plan.summands:
            parts.append(tuple(tuple(map(round, next(rows).tolist())) for _ in range(part.components)))
        released = _ended(steps, MeasuredSums(totals=tuple(parts)))
        return replace(released, aggregates={
            name: _with_noise(estimate, sigmas) for name, estimate in released.aggregates.items()})


def _identity(one: OfOnePeriod, question: str, weights: tuple[tuple[int, int], ...]) -> str:
    """What identifies a measurement, given the canonical text of its question and its weights; the rest is that of its stream."""
    return digest_of(("running total", one.session.policy), question, (one.program.options, weights, one.sigmas))


def _steps(request: WeightedPeriods | NoisySums, form: str) -> Generator[Request, Any, Totals]:
    made = yield request
    return Totals(totals=made.totals, form=form)


def _form_of(first: OfOnePeriod) -> str:
    """The form of the measurement of the first period of all, and of those that are added to it. It depends on the policy as far
    as what is executed and the noise do."""
    plan = first.own.plan
    relation = fold(plan.input, lambda node, below: node.render(below, Printing()))
    return digest("form of a running total", relation, plan.keys, plan.summands, first.own.cells, first.sigmas)


def _with_noise(estimate: Estimate, times: float) -> Estimate:
    """The same number with noise of so many times the standard deviation."""
    return replace(estimate, slopes={name: (replace(term, scale=term.scale * times), slope)
                                     for name, (term, slope) in estimate.slopes.items()})


class RunningTotals(Frozen):
    """The measurements of all periods, in order, and the totals that follow from them.

    first    the measurement of the first period; what the others have in common follows from it
    parts    those of all periods, each planned when it is first needed
    stored   what is found to be stored without planning it, by the place of the period
    starts   the places of those with which streams of measurements begin
    whole    the program of the numbers of all periods as if they were groups of one period: it says how totals are shown
    is_late  whether rows may reach a period that was measured. Later measurements have their weights of these rows, and totals
             follow from all measurements, so such rows count in part
    """

    first: OfOnePeriod
    parts: PlannedParts[int, OfOnePeriod]
    stored: Mapping[int, str]
    starts: tuple[int, ...]
    numbers: tuple[int, ...]
    strategy: OverTime
    key: int
    kind: PeriodKind
    question: Question
    whole: Program
    is_late: bool
    text: str
    session: Session

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return of_question(self.question)

    @cached_property
    def _new(self) -> list[int]:
        """The places of the periods that were not measured when this was planned."""
        return [at for at in range(len(self.numbers)) if at not in self.stored and not self.parts[at].is_stored]

    def explain(self) -> Explanation:
        with located(self.text):
            new, last = len(self._new), self.parts[-1]
            times = self.first.sigmas[0] / spread_of(last.own.noises[0]) * float(self._deviations[-1])
            told = last.explain()
            expected = tuple(replace(each, error=None if each.error is None else each.error * times) for each in told.expected)
            cost = str(_price(last.cost)) if new else told.cost
            return replace(told, measurements=(), expected=expected, notes=self._notes(new), cost=cost)

    def dues(self) -> Iterator[ChargeRequest]:
        """The bills of the periods that were not measured before."""
        for at in self._new:
            yield from self.parts[at].dues()

    def answer(self) -> Answer:
        with located(self.text):
            new = [self.parts[at] for at in self._new]
            check_room(new, self.session)
            measured = [self.first.read(self.stored[at]) if at in self.stored else self.parts[at].stored_or_paid()
                        for at in range(len(self.numbers))]
        spent = _price(sum((part.cost for part in new[1:]), new[0].cost)) if new else None
        made = self._totals(measured)
        shown = self._shown_together(made, spent) or _joined([self._shown(at, total, spent) for at, total in enumerate(made)])
        revised = revised_in_words(revisions_of([self.question.view], self.session.revised))
        return in_order(self.question, replace(shown, stored=not new, notes=(*shown.notes, *revised)))

    def told(self, measured: Sequence[Totals]) -> list[Answer]:
        """The rows of the first periods, which follow from what was measured for them."""
        return [self._shown(at, total, None) for at, total in enumerate(self._totals(measured))]

    def _totals(self, measured: Sequence[Totals]) -> Numbers:
        """The running totals of the first periods, by period, component and cell, given what was measured for them."""
        components = np.array([[row for part in one.totals for row in part] for one in measured], dtype=np.float64)
        made, before = [], np.zeros_like(components[0])
        for start in (start for start in self.starts if start < len(measured)):
            end = min(start + self.strategy.horizon, len(measured))
            components[start] *= float(self.strategy.weights[0])  # measured alone, without a weight
            made += [before + total for total in self.strategy.totals([*components[start:end]])]
            before = made[-1]
        return np.array(made)

    @cached_property
    def _deviations(self) -> Numbers:
        """The standard deviations of all totals, for noise of standard deviation 1 in measurements."""
        errors, squares = self.strategy.errors(min(len(self.numbers), self.strategy.horizon)) ** 2, np.zeros(len(self.numbers))
        for start in self.starts:
            later = len(self.numbers) - start
            squares[start:] += np.pad(errors[:later], (0, max(0, later - len(errors))), mode="edge")
        return np.sqrt(squares)

    def _shown_together(self, totals: Numbers, spent: Price | None) -> Answer | None:
        """The answer of all periods, composed at once; None if the numbers of the periods are not of one form with those of one
        period alone. `totals` are by period, component and cell."""
        first, session = self.first.own, self.session
        steps = script(self.whole, session.kernel, session.scratch)
        own = next(steps, None)
        if not isinstance(own, NoisySums) or own.plan.summands != first.plan.summands or len(own.noises) != len(first.noises):
            return None
        ratios = [sigma / spread_of(noise) for sigma, noise in zip(self.first.sigmas, own.noises, strict=True)]
        starts, places = self._starts_of_periods, {cell: at for at, cell in enumerate(first.cells)}
        found = [(starts.get(cell[self.key]), places.get((*cell[:self.key], *cell[self.key + 1:]))) for cell in own.cells]
        whole = len(found) == totals.shape[0] * totals.shape[2] and not any(None in one for one in found)
        if max(ratios) > min(ratios) * ALIKE or not whole:
            return None
        periods, cells = (np.array(each, dtype=np.intp) for each in zip(*found, strict=True))
        rows, parts = iter(np.rint(totals).transpose(1, 0, 2)), []
        for part in own.plan.summands:
            parts.append(tuple(tuple(map(int, next(rows)[periods, cells].tolist())) for _ in range(part.components)))
        released = _ended(steps, MeasuredSums(totals=tuple(parts)))
        times = ratios[0] * self._deviations[[starts[cell[self.key]] for cell in released.cells]]
        return compose(without_windows(self.question), released.cells, {
            name: replace(estimate, slopes={term: (noise, slope * times) for term, (noise, slope) in estimate.slopes.items()})
            for name, estimate in released.aggregates.items()}, session.scratch, price=spent,
            confidence=float(self.whole.options.confidence), notes=(*released.notes, *self._notes(0)))

    @property
    def _starts_of_periods(self) -> Mapping[Value, int]:
        return {value: at for at, value in enumerate(self.whole.question.keys[self.key].values)}

    def _shown(self, at: int, totals: Numbers, spent: Price | None) -> Answer:
        """The answer of one period."""
        part, question = self.first, over_period(self.question, self.key, self.kind, self.numbers[at])
        released = part.told([*totals], part.sigmas[0] / spread_of(part.own.noises[0]) * float(self._deviations[at]))
        value, = question.keys[self.key].values
        cells: tuple[tuple[Value, ...], ...] = tuple((*cell[:self.key], value, *cell[self.key:]) for cell in released.cells)
        return compose(question, cells, released.aggregates, self.session.scratch, price=spent,
                       confidence=float(part.program.options.confidence), notes=(*released.notes, *self._notes(0)))

    def _notes(self, new: int) -> tuple[str, ...]:
        names = [name_of(self.kind, number) for number in (self.numbers[0], self.numbers[-1])]
        notes = [f"running totals of {len(self.numbers)} periods, {names[0]} to {names[-1]}, follow from a measurement of each"]
        if new:
            notes.append(f"not measured before: {new}; the cost is that of {names[-1]}")
        if len(self.starts) == 1:
            error = self.strategy.length * math.sqrt(float((self._deviations**2).mean()))
            least = math.sqrt(prefix_bound(len(self.numbers)))
            notes.append(f"their root mean square error is {error:.2f} times that of one total that is measured alone at the "
                         f"price, and {error / least:.2f} times the least of any strategy")
        if self.is_late:
            notes.append(f"rows that reach a {self.kind} after its measurement count in part")
        entity = self.session.catalog.entity.name
        return *notes, ("the stated price is what each period is charged altogether, by its own measurement and by the "
                        f"{self.strategy.horizon - 1} after it; the cost is what each {entity} is charged in all")


def _ended(steps: Generator[Request, Any, Released], measured: MeasuredSums) -> Released:
    """What a script of one request releases."""
    try:
        steps.send(measured)
    except StopIteration as ended:
        released: Released = ended.value
        return released
    raise AssertionError("a running total is one measurement for each period")


def _joined(answers: Sequence[Answer]) -> Answer:
    from dpsql.answers.answer import together

    return replace(together(answers), cost=answers[-1].cost)


def _price(cost: Cost) -> Price:
    return Price(epsilon=cost.epsilon, delta=cost.delta, rho=cost.rho if cost.epsilon is None else None)


def running_over_periods(question: Question, text: str, session: Session, plan: OfPeriod) -> RunningTotals | None:
    """The plan of running totals over the periods of a growing table; None for other questions. `plan` makes the program of a
    question of one period."""
    found = periods_of(question, session)
    if found is None or not found.whole or found.values or question.sets is not None or question.scalars or question.distinct:
        return None
    key, others = question.keys[found.key], {one.column for i, one in enumerate(question.keys) if i != found.key}
    if session.catalog.entity.minimum_frequency > 1 or not all(_is_running(call, key, others) for call in question.aggregates):
        return None
    check_order(question)
    kind, numbers = found.each[0].period, tuple(one.first for one in found.each)
    strategy = square_root(HORIZONS[kind])

    def of(at: int) -> Question:
        read = PeriodRange(period=kind, first=numbers[at - at % strategy.horizon], last=numbers[at])
        return _alone(question, found.key, read_between(question.view, found.time, read))

    if (alone := _measured_alone(plan(of(0)), strategy, text, session)) is None:
        return None
    first = replace(alone, form=_form_of(alone))
    parts = PlannedParts(range(len(numbers)), lambda at: _measured(
        plan(of(at)), strategy, at % strategy.horizon, numbers[at - at % strategy.horizon], first))
    try:
        parts[-1]
    except _NotAlike:
        return None
    every = replace(_alone(question, found.key, read_between(question.view, found.time, found.each[0])), keys=tuple(
        replace(key, domain=_starts(key, found)) if i == found.key else key for i, key in enumerate(question.keys)))
    return RunningTotals(first=first, parts=parts, stored=_stored(first, parts, of, numbers, strategy),
                         starts=tuple(range(0, len(numbers), strategy.horizon)), numbers=numbers, strategy=strategy,
                         key=found.key, kind=kind, question=question, whole=plan(every), text=text, session=session,
                         is_late=found.scan.table.growth is None or found.scan.table.growth.arrived is None)


def _starts(key: Key, found: KeyedPeriods) -> Domain:
    days = [one.start for one in found.each]
    return Domain(tuple(dt.datetime.combine(day, dt.time()) for day in days) if key.type is Type.TIMESTAMP else tuple(days))


def _stored(first: OfOnePeriod, parts: Sequence[OfOnePeriod], of: Callable[[int], Question], numbers: Sequence[int],
            strategy: OverTime) -> dict[int, str]:
    """What is stored of the periods, by their places, without planning each of them.

    What identifies a measurement follows from that of the first period, the periods that are read and the weights; what
    identifies its data, from these and the charges that belong to the weights. Both are compared with those of the last one in
    the first stream, which is planned. If they differ, nothing is looked up in this way. Periods that are not found are planned,
    and looked up by what their plans say.
    """
    last = min(len(numbers), strategy.horizon) - 1
    if last < 2 or (reads := parts[last].reads) is None or not isinstance(request := parts[last].request, WeightedPeriods):
        return {}
    kind, stated_ = reads.periods.period, reads.stated
    session, planned = first.session, first.program.question
    charges = {weight: charge for (_, weight), (_, charge) in zip(request.weights, stated_, strict=False)}
    texts = SharedTexts(planned)

    def name(at: int) -> tuple[str, str] | None:
        place = at % strategy.horizon
        if not place or not {weight for _, weight in strategy.at(place)} <= charges.keys():
            return None
        asked, weights = of(at), strategy.at(place)
        identity = _identity(first, texts.of(replace(planned, view=asked.view, keys=asked.keys)), weights)
        periods = PeriodRange(period=kind, first=numbers[at - place], last=numbers[at])
        stated = PeriodReads(periods=periods, steps=2, stated=tuple((many, charges[weight]) for many, weight in weights))
        return identity, data_of_closed(stated, [asked.view], session)

    asked = of(0)
    if (planned.view, planned.keys, *(name(last) or ())) != (asked.view, asked.keys, parts[last].identity, parts[last].data):
        return {}
    return found_stored(session, first.text, {at: found for at in range(1, len(numbers)) if (found := name(at)) is not None})


def _is_running(call: AggregateCall, key: Key, others: set[str]) -> bool:
    over = call.over
    return over is not None and (over.order, over.start, over.end, over.descending, over.mean) == (
        key.column, None, 0.0, False, False) and {*over.within} == others


def _alone(question: Question, key: int, view: Node) -> Question:
    """The question of what is added up: over some rows, without the key of the periods."""
    calls = tuple(replace(call, over=None) for call in question.aggregates)
    return replace(question, view=view, keys=(*question.keys[:key], *question.keys[key + 1:]), aggregates=calls, having=None,
                   outputs=tuple(Output(name=call.id, expr=Ref(column=call.id, type=call.type)) for call in calls),
                   ordering=(), limit=None, offset=0, distinct=False)


def _own(program: Program, session: Session) -> NoisySums | None:
    """What a program measures; None if that is no single measurement of sums with Gaussian noise."""
    own = next(script(program, session.kernel, session.scratch), None)
    if not isinstance(own, NoisySums) or not all(isinstance(noise, DiscreteGaussian) for noise in own.noises):
        return None
    if not leaves_nothing(own.cost(certificate_of(own.plan, session.kernel)), program.cost):
        return None
    return NoisySums(plan=own.plan, cells=own.cells, noises=own.noises)


def _measured_alone(program: Program, strategy: OverTime, text: str, session: Session) -> OfOnePeriod | None:
    """The measurement of the first period of a stream, which reads no other; None if it cannot be one of a stream."""
    if (own := _own(program, session)) is None:
        return None
    sigmas = tuple(spread_of(noise) * strategy.length for noise in own.noises)
    request = replace(own, noises=tuple(DiscreteGaussian(sigma=sigma / float(strategy.weights[0])) for sigma in sigmas))
    return OfOnePeriod(program=program, request=request, cost=request.cost(certificate_of(request.plan, session.kernel)),
                       sigmas=sigmas, own=own, text=text, session=session)


class _NotAlike(Unsupported):
    """The error for a period that cannot be measured as the first one is."""

    def __init__(self) -> None:
        super().__init__("a period cannot be measured as the first one is", code="periods",
                         try_="the statement for periods from that one on")


def _measured(program: Program, strategy: OverTime, place: int, since: int, first: OfOnePeriod) -> OfOnePeriod:
    """The measurement when a period at a place of its stream closes, with the noise that follows from the measurement of the
    first period. Raises Unsupported if they are not of one form, or if more can change in a period."""
    session = first.session
    if not place:
        alone = _measured_alone(program, strategy, first.text, session)
        if alone is None or alone.sigmas != first.sigmas:
            raise _NotAlike
        return replace(alone, form=first.form)
    own = next(script(program, session.kernel, session.scratch), None)
    number = next((field.id for field in program.view.fields if field.id.endswith(PERIOD)), None)
    if not isinstance(own, NoisySums) or own.plan.summands != first.own.plan.summands or own.cells != first.own.cells or (
            number is None or number not in own.plan.input.env):
        raise _NotAlike
    plan = replace(own.plan, keys=(number, *own.plan.keys))
    certificate = certificate_of(plan, session.kernel)
    once, alone_ = certificate.in_period, certificate_of(first.own.plan, session.kernel)
    if once is None or once.numbered_from != since or any(
            each.l2 > one.l2 for each, one in zip(once.summands, alone_.summands, strict=True)):
        raise _NotAlike
    request = WeightedPeriods(plan=plan, cells=own.cells, weights=strategy.at(place), noises=tuple(
        DiscreteGaussian(sigma=sigma) for sigma in first.sigmas))
    return OfOnePeriod(program=program, request=request, cost=request.cost(certificate), sigmas=first.sigmas,
                       own=NoisySums(plan=own.plan, cells=own.cells, noises=own.noises), form=first.form,
                       text=first.text, session=session)
