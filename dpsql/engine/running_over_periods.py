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
from dpsql.engine.period_by_period import check_order, in_order, over_period, periods_of, read_between
from dpsql.engine.session import Session
from dpsql.estimates import Estimate
from dpsql.frozen import Frozen, replace
from dpsql.planning.claimed_periods import certificate_of, leaves_nothing
from dpsql.planning.program import Program
from dpsql.planning.script import Released, script
from dpsql.questions.identity import digest
from dpsql.questions.question import AggregateCall, Key, Output, Question
from dpsql.questions.rules.limit_in_periods import PERIOD
from dpsql.strategies.over_time import OverTime, square_root
from dpsql.strategies.square_root import prefix_bound
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.cached import cached_property
from dpsql.trusted.declarations.growth import PeriodKind, PeriodRange, name_of
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.measurements.weighted_periods import WeightedPeriods
from dpsql.trusted.noise.integer import DiscreteGaussian, spread_of
from dpsql.trusted.plan.expr.nodes import Ref, Value
from dpsql.trusted.plan.node import Node

if TYPE_CHECKING:
    from dpsql.planning.explain import Explanation

HORIZONS: Mapping[PeriodKind, int] = {"day": 1024, "week": 256, "month": 64, "quarter": 32, "year": 16}
Numbers = NDArray[np.float64]
OfPeriod = Callable[[Question], Program]  # the program of a question without windows


class Totals(Frozen):
    """What was measured when a period closed: for each summand and component, the noisy weighted sums, one for each cell."""

    totals: tuple[tuple[tuple[int, ...], ...], ...]

    def as_json(self) -> str:
        import json

        return json.dumps(self.totals)

    @classmethod
    def from_json(cls, text: str) -> Totals:
        """The inverse of `as_json`."""
        import json

        return cls(totals=tuple(tuple(map(tuple, part)) for part in json.loads(text)))


class OfOnePeriod(Charged[Totals]):
    """The measurement that is made when a period closes.

    program  answers what the running totals are of, over all periods of their stream so far
    request  the measurement, with a certificate from which its `cost` in all follows
    sigmas   for each summand, the standard deviation of the noise, for weights as the strategy has them
    own      what the program measures by itself
    """

    program: Program
    request: WeightedPeriods | NoisySums
    cost: Cost
    sigmas: tuple[float, ...]
    own: NoisySums

    @cached_property
    def identity(self) -> str:
        weights = self.request.weights if isinstance(self.request, WeightedPeriods) else ()
        return digest("running total", self.session.policy, self.program.question, self.program.options, weights, self.sigmas)

    def first_request(self) -> Request:
        return self.request

    def read(self, stored: str) -> Totals:
        return Totals.from_json(stored)

    def bill(self) -> ChargeRequest:
        return ChargeRequest(steps=_steps(self.request), cost=self.cost, views=(self.program.view,), options=self.program.options)

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
        try:
            steps.send(MeasuredSums(totals=tuple(parts)))
        except StopIteration as ended:
            released: Released = ended.value
            return replace(released, aggregates={name: _with_noise(estimate, sigmas)
                                                 for name, estimate in released.aggregates.items()})
        raise AssertionError("a running total is one measurement for each period")


def _steps(request: WeightedPeriods | NoisySums) -> Generator[Request, Any, Totals]:
    made = yield request
    return Totals(totals=made.totals)


def _with_noise(estimate: Estimate, times: float) -> Estimate:
    """The same number with noise of so many times the standard deviation."""
    return replace(estimate, slopes={name: (replace(term, scale=term.scale * times), slope)
                                     for name, (term, slope) in estimate.slopes.items()})


class RunningTotals(Frozen):
    """The measurements of all periods, in order, and the totals that follow from them.

    starts  the places of those with which streams of measurements begin
    """

    parts: tuple[OfOnePeriod, ...]
    starts: tuple[int, ...]
    numbers: tuple[int, ...]
    strategy: OverTime
    key: int
    kind: PeriodKind
    question: Question
    text: str
    session: Session

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return of_question(self.question)

    def explain(self) -> Explanation:
        with located(self.text):
            new = sum(not part.is_stored for part in self.parts)
            last, times = self.parts[-1], self._times(len(self.parts) - 1)
            told = last.explain()
            expected = tuple(replace(each, error=None if each.error is None else each.error * times) for each in told.expected)
            cost = str(_price(last.cost)) if new else told.cost
            return replace(told, measurements=(), expected=expected, notes=self._notes(new), cost=cost)

    def dues(self) -> Iterator[ChargeRequest]:
        """The bills of the periods that were not measured before."""
        for part in self.parts:
            yield from part.dues()

    def answer(self) -> Answer:
        with located(self.text):
            new = [part for part in self.parts if not part.is_stored]
            measured = [part.stored_or_paid() for part in self.parts]
        components = [np.array([row for part in one.totals for row in part], dtype=np.float64) for one in measured]
        made, before = [], np.zeros_like(components[0])
        for start, end in zip(self.starts, (*self.starts[1:], len(self.parts)), strict=True):
            totals = self.strategy.totals([self._of_weights(at, components[at]) for at in range(start, end)])
            made += [before + total for total in totals]
            before = made[-1]
        spent = _price(sum((part.cost for part in new[1:]), new[0].cost)) if new else None
        answers = [self._answer(at, total, spent) for at, total in enumerate(made)]
        return in_order(self.question, replace(_joined(answers), stored=not new))

    def _of_weights(self, at: int, measured: Numbers) -> Numbers:
        """What was measured, in the unit of the weights."""
        alone = isinstance(self.parts[at].request, NoisySums)
        return measured * float(self.strategy.weights[0]) if alone else measured

    def _times(self, at: int) -> float:
        """How many times the standard deviation of its program's noise the error of a total is."""
        squares, here = 0.0, self.parts[at]
        for start, end in zip(self.starts, (*self.starts[1:], len(self.parts)), strict=True):
            if start <= at:
                squares += float(self._errors[min(end - 1, at) - start]) ** 2
        return here.sigmas[0] / spread_of(here.own.noises[0]) * math.sqrt(squares)

    @cached_property
    def _errors(self) -> Numbers:
        return self.strategy.errors(min(len(self.parts), self.strategy.horizon))

    def _answer(self, at: int, totals: Numbers, spent: Price | None) -> Answer:
        part, question = self.parts[at], over_period(self.question, self.key, self.kind, self.numbers[at])
        released = part.told([*totals], self._times(at))
        value, = question.keys[self.key].values
        cells: tuple[tuple[Value, ...], ...] = tuple((*cell[:self.key], value, *cell[self.key:]) for cell in released.cells)
        return compose(question, cells, released.aggregates, self.session.scratch, price=spent,
                       confidence=float(part.program.options.confidence), notes=(*released.notes, *self._notes(0)))

    def _notes(self, new: int) -> tuple[str, ...]:
        names = [name_of(self.kind, number) for number in (self.numbers[0], self.numbers[-1])]
        notes = [f"running totals of {len(self.parts)} periods, {names[0]} to {names[-1]}, follow from a measurement of each"]
        if new:
            notes.append(f"not measured before: {new}; the cost is that of {names[-1]}")
        if len(self.starts) == 1:
            error = self.strategy.length * math.sqrt(float((self._errors**2).mean()))
            least = math.sqrt(prefix_bound(len(self.parts)))
            notes.append(f"their root mean square error is {error:.2f} times that of one total that is measured alone at the "
                         f"price, and {error / least:.2f} times the least of any strategy")
        return *notes, f"the price is what each period is charged altogether, with the {self.strategy.horizon - 1} after it"


def _joined(answers: Sequence[Answer]) -> Answer:
    from dpsql.answers.answer import together

    return replace(together(answers), cost=answers[-1].cost)


def _price(cost: Cost) -> Price:
    return Price(epsilon=cost.epsilon, delta=cost.delta, rho=cost.rho if cost.epsilon is None else None)


def running_over_periods(question: Question, text: str, session: Session, plan: OfPeriod) -> RunningTotals | None:
    """The plan of running totals over the periods of a growing table; None for other questions. `plan` makes the program of a
    question of one period."""
    found = periods_of(question, session)
    if found is None or not found.whole or question.sets is not None or question.scalars or question.distinct:
        return None
    key, others = question.keys[found.key], {one.column for i, one in enumerate(question.keys) if i != found.key}
    if session.catalog.entity.minimum_frequency > 1 or not all(_is_running(call, key, others) for call in question.aggregates):
        return None
    check_order(question)
    kind, numbers, parts = found.each[0].period, [one.first for one in found.each], list[OfOnePeriod]()
    strategy = square_root(HORIZONS[kind])
    for place, number in enumerate(numbers):
        since = place % strategy.horizon
        read = read_between(question.view, found.time, PeriodRange(period=kind, first=number - since, last=number))
        made = _measured(plan(_alone(question, found.key, read)), strategy, since, number - since, text, session)
        if made is None:
            return None
        parts.append(made)
    return RunningTotals(parts=tuple(parts), starts=tuple(range(0, len(parts), strategy.horizon)), numbers=tuple(numbers),
                         strategy=strategy, key=found.key, kind=kind, question=question, text=text, session=session)


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


def _measured(program: Program, strategy: OverTime, place: int, first: int, text: str, session: Session) -> OfOnePeriod | None:
    """The measurement when a period at a place of its stream closes; None if the program is no single measurement of sums with
    Gaussian noise."""
    own = next(script(program, session.kernel, session.scratch), None)
    if not isinstance(own, NoisySums) or not all(isinstance(noise, DiscreteGaussian) for noise in own.noises):
        return None
    if not leaves_nothing(own.cost(certificate_of(own.plan, session.kernel)), program.cost):
        return None
    alone, deviations = NoisySums(plan=own.plan, cells=own.cells, noises=own.noises), [spread_of(noise) for noise in own.noises]
    request: NoisySums | WeightedPeriods
    if not place:
        sigmas = tuple(deviation * strategy.length for deviation in deviations)
        request = replace(alone, noises=tuple(DiscreteGaussian(sigma=sigma / float(strategy.weights[0])) for sigma in sigmas))
    else:
        number = next((field.id for field in program.view.fields if field.id.endswith(PERIOD)), None)
        if number is None or number not in own.plan.input.env:
            return None
        plan = replace(own.plan, keys=(number, *own.plan.keys))
        certificate = certificate_of(plan, session.kernel)
        once = certificate.in_period
        if once is None or once.numbered_from != first:
            return None
        whole = certificate_of(own.plan, session.kernel).summands
        ratios = {each.l2 / every.l2 for each, every in zip(once.summands, whole, strict=True)}
        if len(ratios) > 1:
            return None
        sigmas = tuple(deviation * strategy.length * ratio for deviation in deviations for ratio in ratios)
        request = WeightedPeriods(plan=plan, cells=own.cells, weights=strategy.at(place), noises=tuple(
            DiscreteGaussian(sigma=sigma) for sigma in sigmas))
    cost = request.cost(certificate_of(request.plan, session.kernel))
    return OfOnePeriod(program=program, request=request, cost=cost, sigmas=sigmas, own=alone, text=text, session=session)
