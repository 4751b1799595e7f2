"""What a standing query needs of the plan of its query, of whatever kind that is.

When a period closes, some *parts* are measured, and charged, as statements of their own. The rows of all periods are *composed*
of what is stored of the parts, at no cost. That is all that a publisher knows of a plan:

    a statement for each period           one part; its answer has the rows of the period
    totals of grouping sets over periods  one part; totals are sums over all periods so far, and change
    SQL over released rows                one part for each released part; windows that look back do not change
    running totals by a strategy          one part, which charges the earlier periods, too, each by its weight

Rows of a period stay as they were told if they follow from what was measured up to then. Else `changes` says what does not stay.
"""

from __future__ import annotations

import abc
import datetime as dt
import functools
import json
import operator
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeAlias, cast

from dpsql.answers.answer import Answer, of_json, together
from dpsql.answers.listings import price_in_words
from dpsql.catalog.growing_tables import in_words
from dpsql.catalog.price import Price
from dpsql.engine.around_periods import AroundPeriods
from dpsql.engine.charging import Charged, ChargeRequest, located
from dpsql.engine.looking_back import looks_back, period_shown
from dpsql.engine.merged_periods import MergedPeriods
from dpsql.engine.period_by_period import PeriodByPeriod, PeriodPart, places_in_order
from dpsql.engine.plan import Plan
from dpsql.engine.room_for_periods import in_periods
from dpsql.engine.running_over_periods import OfOnePeriod, RunningTotals, Totals
from dpsql.engine.stored_periods import StoredPeriod
from dpsql.errors import Unsupported
from dpsql.frozen import AbstractFrozen, Frozen, replace
from dpsql.planning.claimed_periods import certificate_of
from dpsql.planning.groups import kept_keys
from dpsql.sql.text.places import span_of
from dpsql.sql.text.statement import Query
from dpsql.trusted.accounting.cost import NOTHING, Charge, Cost
from dpsql.trusted.cached import cached_property
from dpsql.trusted.declarations.growth import PeriodKind, PeriodRange, names_of, period_of
from dpsql.trusted.kernel.period_reads import PeriodReads
from dpsql.trusted.measurements.weighted_periods import WeightedPeriods
from dpsql.trusted.plan.expr.nodes import Ref, Value
from dpsql.types import Span

if TYPE_CHECKING:
    from dpsql.planning.explain import Explanation

Bodies: TypeAlias = Mapping[int, Sequence[str]]
"""What is stored of the parts of some periods, by the number of the period, in the order of the parts."""


class PeriodRows(Frozen):
    """Some rows: of one period, by its number, or of several periods together."""

    number: int | None
    rows: Answer


class ComposedRows(Frozen):
    """All rows, and the places of the rows of all blocks in the order that the query asks for."""

    blocks: tuple[PeriodRows, ...]
    order: tuple[int, ...]


class Due(Frozen):
    """What is charged for a part: in the periods that it reads, and in all."""

    reads: PeriodReads
    in_all: Charge


class StandingSeries(AbstractFrozen):
    """How the periods of a query are measured, and its rows composed.

    IS_WHOLE  whether what is stored of a part are the rows of the period
    """

    text: str
    IS_WHOLE: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def plan(self) -> Plan:
        """The plan of the query over all periods."""

    @property
    @abc.abstractmethod
    def periods(self) -> tuple[PeriodRange, ...]:
        """The periods that are closed, in the order of time."""

    @abc.abstractmethod
    def parts_of(self, number: int) -> tuple[Charged[Any], ...]:
        """What is measured when a period closes. A part has the text at its place in `texts`, by which it is found again. A
        period counts as measured when there is an answer to the text of the query, which is the last one."""

    @abc.abstractmethod
    def composed(self, bodies: Bodies) -> ComposedRows:
        """The rows that follow from some periods: without gaps from the first one on, if they do not follow `alone`."""

    @property
    def alone(self) -> bool:
        """Whether the rows of a period follow from its own parts, so that other periods may be missing."""
        return False

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text,)

    @property
    def changes(self) -> str:
        """What does not stay as it was told, in words; "" if all rows do."""
        return ""

    @property
    def terms(self) -> tuple[Price, Fraction]:
        """The price and the confidence that the query is asked with."""
        due = self.parts_of(self.periods[-1].first)[-1].bill()
        assert isinstance(due, ChargeRequest) and due.options.price is not None  # as it reads private rows
        return due.options.price, due.options.confidence

    @property
    def kind(self) -> PeriodKind:
        return self.periods[0].period

    def period(self, number: int) -> PeriodRange:
        """The period that begins with a number; one of a calendar has several."""
        return next((period for period in self.periods if period.first == number),
                    PeriodRange(period=self.kind, first=number, last=number))

    def check(self, bodies: Bodies) -> None:
        """Raises a located error if what is stored no longer fits to what would be measured now. Periods are measured from the
        first one on if rows follow from several; so if another one is the first now, the policy has changed since when a table
        grows."""
        if any(told_rows(body) is None for parts in bodies.values() for body in parts):
            self._refuse("the policy has changed how it is measured, so numbers from before that and after it do not follow from "
                         "each other")
        if not self.alone and bodies and min(bodies) != self.periods[0].first:
            self._refuse(f"the policy has changed the first {self.kind}, so numbers from before that and after it do not follow "
                         "from each other")

    def _refuse(self, reason: str) -> NoReturn:
        with located(self.text):
            raise Unsupported(reason, code="standing", span=Span(0, len(self.text.split("\n", 1)[0])),
                              try_="another standing query, with another name; what this one told stays")

    def dues_of(self, number: int) -> tuple[Due, ...]:
        """What is charged when a period closes, also in the future."""
        made = []
        for part in self.parts_of(self.periods[-1].first):
            due, reads = part.bill(), part.reads
            assert isinstance(due, ChargeRequest) and reads is not None  # as it reads private rows that grow
            made.append(Due(reads=replace(reads, periods=PeriodRange(period=self.kind, first=number, last=number)),
                            in_all=due.cost.rounded()))
        return tuple(made)

    def price_of(self, dues: Iterable[Due]) -> tuple[Charge, Charge]:
        """What a person in a period is charged for it, and a person in all, given what is charged when it closes."""
        dues = tuple(dues)
        return added(due.reads.first_charge(due.in_all) for due in dues), added(due.in_all for due in dues)

    def in_order(self, rows: Answer) -> tuple[int, ...]:
        """The places of rows in the order of the query, as far as it follows from them."""
        return tuple(range(rows.size))

    def explain(self) -> Explanation:
        """What each period costs, and what stays."""
        told = self.plan.explain()
        kind = in_words(self.kind)
        note = f"when another {kind} closes, {self.changes} change" if self.changes else (
            f"numbers of earlier {kind}s stay as they are when another {kind} closes")
        return replace(told, notes=(*told.notes, note))

    def _part_named(self, number: int) -> int:
        return [period.first for period in self.periods].index(number)


def _charged(part: PeriodPart) -> Charged[Any]:
    """The statement of a period, planned even if its answer is stored."""
    return part.planned if isinstance(part, StoredPeriod) else cast(Charged[Any], part)


def added(charges: Iterable[Charge]) -> Charge:
    return functools.reduce(operator.add, charges, NOTHING)


def series_of(plan: Plan, query: Query, growth_kind: str, instead: str) -> StandingSeries:
    """The series of a plan. Raises Unsupported, with a span, for plans that are not split by period; `growth_kind` and `instead`
    say what to write."""
    place = span_of(query.tree)
    match plan:
        case PeriodByPeriod():
            return EachPeriod(plan=plan, text=query.text)
        case RunningTotals():
            return TotalsSoFar(plan=plan, text=query.text)
        case MergedPeriods() if plan.beside:
            raise Unsupported("a subquery that reads no table that grows would be measured and charged anew whenever its data "
                              "change", code="standing", span=place, try_="the statement without it, or a number for it")
        case MergedPeriods():
            return OfAllPeriods(plan=plan, text=query.text)
        case AroundPeriods() if any(table.found is None for table in plan.tables):
            raise Unsupported(f"every query inside must group by the {growth_kind}, as what is measured without it would be "
                              "charged anew whenever its data change", code="standing", span=place, try_=instead)
        case AroundPeriods() if len({table.found and table.found.each for table in plan.tables}) > 1:
            raise Unsupported(f"all queries inside must begin with the same {growth_kind}", code="standing", span=place,
                              try_="the same condition on time in each of them")
        case AroundPeriods():
            return AroundEachPeriod(plan=plan, text=query.text)
    raise Unsupported(f"a standing query must group by the {growth_kind}, so that each {growth_kind.split()[0]} is a statement "
                      "of its own", code="standing", span=place, try_=instead)


class EachPeriod(StandingSeries):
    """One statement for each period."""

    plan: PeriodByPeriod
    IS_WHOLE: ClassVar[bool] = True

    @property
    def alone(self) -> bool:
        return True

    @property
    def periods(self) -> tuple[PeriodRange, ...]:
        return self.plan.periods

    def parts_of(self, number: int) -> tuple[Charged[Any], ...]:
        return (_charged(self.plan.parts[self._part_named(number)]),)

    def composed(self, bodies: Bodies) -> ComposedRows:
        blocks = tuple(PeriodRows(number=number, rows=answer_in(body)) for number, (body,) in sorted(bodies.items()))
        return ComposedRows(blocks=blocks, order=self.in_order(together([block.rows for block in blocks])))

    def in_order(self, rows: Answer) -> tuple[int, ...]:
        return tuple(places_in_order(self.plan.question, rows))


class TotalsSoFar(StandingSeries):
    """Running totals, measured by a strategy over time."""

    plan: RunningTotals

    @property
    def periods(self) -> tuple[PeriodRange, ...]:
        return tuple(PeriodRange(period=self.plan.kind, first=number, last=number) for number in self.plan.numbers)

    def parts_of(self, number: int) -> tuple[Charged[Any], ...]:
        return (self.plan.parts[self._part_named(number)],)

    def check(self, bodies: Bodies) -> None:
        form = self.plan.parts[0].form
        if any(json.loads(body).get("form") != form for (body,) in bodies.values()):
            self._refuse("the policy has changed what is added up, so numbers from before that and after it cannot be added")

    def composed(self, bodies: Bodies) -> ComposedRows:
        """Periods may be stored that are not closed by the policy of today; their rows are those that were told."""
        measured = [Totals.from_json(body) for number, (body,) in sorted(bodies.items()) if number <= self.plan.numbers[-1]]
        blocks = tuple(PeriodRows(number=number, rows=rows) for number, rows in zip(
            self.plan.numbers, self.plan.told(measured), strict=False))
        return ComposedRows(blocks=blocks, order=self.in_order(together([block.rows for block in blocks])))

    def in_order(self, rows: Answer) -> tuple[int, ...]:
        return tuple(places_in_order(self.plan.question, rows))

    def dues_of(self, number: int) -> tuple[Due, ...]:
        """Every period of the stream so far is charged by the weight of its lag; and a person in all, who may have rows in all of
        them, by the sum of these weights at most (`WeightedPeriods`)."""
        strategy, first = self.plan.strategy, self.plan.numbers[0]
        place = (number - first) % strategy.horizon
        runs = strategy.at(place)
        total = sum(many * weight for many, weight in runs)
        reads = PeriodReads(periods=PeriodRange(period=self.kind, first=number - place, last=number), steps=2, stated=tuple(
            (many, self._charge(weight**2)) for many, weight in runs))
        return (Due(reads=reads, in_all=self._charge(total**2)),)

    def price_of(self, dues: Iterable[Due]) -> tuple[Charge, Charge]:
        """In the period, what its own measurement and those after it charge altogether, up to the horizon."""
        (due,) = dues
        *_, (_, own) = due.reads.charges(due.in_all)
        weights = [int(weight) ** 2 for weight in self.plan.strategy.weights]
        return Charge(epsilon=None, rho=-(-own.rho * sum(weights) // weights[0]), delta=own.delta), due.in_all

    def explain(self) -> Explanation:
        told, year = StandingSeries.explain(self), {"day": 365, "week": 52, "month": 12, "quarter": 4, "year": 1}[self.kind]
        whole, _ = self.price_of(self.dues_of(self.plan.numbers[-1]))
        start = self.plan.numbers[-1] + 1
        dues = [due for number in range(start, start + year) for due in self.dues_of(number)]
        most, in_all = worst(dues), added(due.in_all for due in dues)
        return replace(told, notes=(*told.notes, (
            f"the measurement of each {self.kind} also charges the {self.kind}s before it, by their weights: altogether "
            f"{price_in_words(whole)} in each {self.kind}; in a year with {year} more, {price_in_words(most)} at most in one "
            f"{self.kind}, and {price_in_words(in_all)} in all")))

    def _charge(self, square: int) -> Charge:
        return replace(self._unit, rho=self._unit.rho * square).rounded()

    @cached_property
    def _unit(self) -> Cost:
        """What a weight of 1 costs; the noise is Gaussian, so other weights cost their square times that."""
        part: OfOnePeriod = self.plan.parts[-1]
        cost, request = part.cost, part.request
        if isinstance(request, WeightedPeriods):
            *_, (_, cost) = request.costs_in_periods(certificate_of(request.plan, part.session.kernel))
        return replace(cost, epsilon=None, rho=cost.rho / Fraction(int(self.plan.strategy.weights[0])) ** 2)


def worst(dues: Iterable[Due]) -> Charge:
    """The most that a person in one period is charged for some measurements."""
    return max(charged_in_periods(dues).values(), key=lambda charge: (charge.rho, charge.epsilon or 0), default=NOTHING)


def charged_in_periods(dues: Iterable[Due]) -> dict[int, Charge]:
    """What a person in each period is charged for some measurements."""
    return in_periods((due.reads, due.in_all) for due in dues)


class OfAllPeriods(StandingSeries):
    """Rows that are computed from the groups of all periods."""

    plan: MergedPeriods

    @property
    def alone(self) -> bool:
        return not self.changes

    @property
    def periods(self) -> tuple[PeriodRange, ...]:
        return self.plan.found.each

    @property
    def changes(self) -> str:
        question, found = self.plan.question, self.plan.found
        if any(found.key not in kept for kept in kept_keys(question)):
            return f"totals over {question.keys[found.key].name}"
        return "" if self._place is not None else f"rows, which do not show their {in_words(self.kind)},"

    def parts_of(self, number: int) -> tuple[Charged[Any], ...]:
        return (_charged(self.plan.parts[self._part_named(number)]),)

    def composed(self, bodies: Bodies) -> ComposedRows:
        numbers = sorted(bodies)
        each = tuple(map(self.period, numbers))
        some = replace(self.plan, found=replace(self.plan.found, each=each), names=tuple(map(names_of, each)))
        return by_period(some.of([answer_in(bodies[number][0]) for number in numbers]), self._place, self.kind)

    @property
    def _place(self) -> int | None:
        """The column that shows the period."""
        question, found = self.plan.question, self.plan.found
        shown = Ref(column=question.keys[found.key].column, type=question.keys[found.key].type)
        return next((at for at, output in enumerate(question.outputs) if output.expr == shown), None)


class AroundEachPeriod(StandingSeries):
    """SQL over released rows. The part of the first table has the text of the query, and is measured last."""

    plan: AroundPeriods

    @cached_property
    def periods(self) -> tuple[PeriodRange, ...]:
        found = self.plan.tables[0].found
        assert found is not None
        return found.each

    @property
    def texts(self) -> tuple[str, ...]:
        return *(text_of_part(self.text, at + 1) for at in range(len(self.plan.tables) - 1, 0, -1)), self.text

    @property
    def terms(self) -> tuple[Price, Fraction]:
        part, many = self.plan.options.price, len(self.plan.tables)  # all parts have an equal share
        assert part is not None
        return Price(epsilon=None if part.epsilon is None else part.epsilon * many, delta=part.delta * many,
                     rho=None if part.rho is None else part.rho * many), self.plan.options.confidence

    def parts_of(self, number: int) -> tuple[Charged[Any], ...]:
        made = []
        for table, text in zip(reversed(self.plan.tables), self.texts, strict=True):
            made.append(replace(_charged(table.parts[self._part_named(number)]), text=text))
        return tuple(made)

    @property
    def changes(self) -> str:
        return "" if looks_back(self.plan.around, self._keys) else f"numbers of earlier {in_words(self.kind)}s"

    def composed(self, bodies: Bodies) -> ComposedRows:
        numbers = sorted(bodies)
        names = tuple(names_of(self.period(number)) for number in numbers)
        some = replace(self.plan, tables=tuple(replace(table, names=names) for table in self.plan.tables))
        made = some.of([[answer_in(bodies[number][-1 - at]) for number in numbers] for at in range(len(self.plan.tables))])
        return by_period(made, period_shown(self.plan.around, self._keys), self.kind)

    @cached_property
    def _keys(self) -> dict[str, str]:
        """For each table, its column that tells the period."""
        found: dict[str, str] = {}
        for table in self.plan.tables:
            assert table.found is not None
            key = table.table.question.keys[table.found.key]
            for label, output in zip(table.table.labels, table.table.question.outputs, strict=True):
                if output.expr == Ref(column=key.column, type=key.type):
                    found.setdefault(table.name, label)
        return found


def text_of_part(text: str, number: int) -> str:
    """The text of a part of a query but the first. It is that of no statement, as its parenthesis is never opened."""
    return f"{text}\n) released part {number}"


def told_rows(body: str) -> Answer | None:
    """The rows in the stored answer to a part; None if it has none of its own, as a measurement of running totals."""
    told = json.loads(body)
    return answer_in(body) if isinstance(told, dict) and ("answers" in told or "columns" in told) else None


def answer_in(body: str) -> Answer:
    """The answer that is stored of a part; several statements that are measured together have one body."""
    if "answers" not in json.loads(body):
        return of_json(body)
    from dpsql.batch import workload_answers  # loaded only where it is needed

    (answer,) = workload_answers.of_json(body).answers
    return answer


def by_period(made: Answer, place: int | None, kind: PeriodKind) -> ComposedRows:
    """Rows by the period that a column shows; those without one are of several periods."""
    numbers = [_number(value, kind) for value in made.data[place].values] if place is not None else [None] * made.size
    rows: dict[int | None, list[int]] = {}
    for at, number in enumerate(numbers):
        rows.setdefault(number, []).append(at)
    order = sorted(rows, key=lambda number: (number is None, number or 0))
    places = [at for number in order for at in rows[number]]
    whole = replace(made, cost="", stored=True)
    blocks = tuple(PeriodRows(number=number, rows=replace(whole, data=tuple(column.at(rows[number]) for column in made.data)))
                   for number in order)
    return ComposedRows(blocks=blocks, order=tuple(places.index(at) for at in range(made.size)))


def _number(value: Value, kind: PeriodKind) -> int | None:
    if not isinstance(value, dt.date):
        return None
    return period_of(kind, value.date() if isinstance(value, dt.datetime) else value)
