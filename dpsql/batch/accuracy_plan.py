"""Plans for a required accuracy: the least price at which every number meets its target, less what earlier measurements save.

A group of sums is answered from earlier measurements where these are accurate enough, at no cost; otherwise a new measurement
is made at the least price found, and everything is combined by least squares (`combine`).

The price. Let V be the variances of a strategy at the unit price (epsilon = 1 or rho = 1/2), T their targets, and r = max V / T.
Then the smallest price at which all targets are met is r / 2 in rho, and sqrt(r) in epsilon; the strategy is one for which r is
least (`strategies.all_strategies.best` with targets). A number that is already known with variance K needs a new measurement of
variance 1 / (1 / T - 1 / K) only: the mean of two independent answers, weighted by their inverse variances, then has variance T.
Least squares over all measurements is at least as good, so the price is lowered as far as their combination meets every target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from fractions import Fraction

import numpy as np

from dpsql.batch.combine import WRITTEN, ColumnCells, Combined, fitting, given, queries_over, weighted
from dpsql.batch.goals import Goals
from dpsql.batch.group import Group, GroupPlan, Kind, Told, many
from dpsql.batch.measured import KINDS, MeasuredGroup, chosen
from dpsql.batch.records import MeasuredQueries, Record, about, asked_of
from dpsql.batch.workload_plan import Batch
from dpsql.catalog.price import Price
from dpsql.errors import OptionError, Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.planning.choose import allotted_budget
from dpsql.strategies.all_strategies import GAUSSIAN, LAPLACE, Verdict
from dpsql.strategies.all_strategies import Plan as Search
from dpsql.strategies.optimality_gap import Noise
from dpsql.trusted.accounting.cost import FREE, NANO, Cost, concentrated, pure
from dpsql.trusted.cached import cached_property
from dpsql.trusted.measurements.block_sums import Blocked, Blocks
from dpsql.types import Span
from dpsql.workload.domain import DENSE
from dpsql.workload.factors import Array
from dpsql.workload.workload import Workload

MARGIN = 1 + 1e-7  # relative margin of prices, larger than the effect of rounding scales
MET = 1 + 1e-9  # times a target: a variance up to this meets it, apart from rounding
FAR = 100.0  # times the largest target: the target of numbers that need no measurement, as they are known
CLOSE = 1.002  # relative margin of an estimated price, as another search may find a strategy that is this much worse
HALVINGS, SEARCHED = 12, 400  # bisections of a price, and the number of cells up to which they are made


class Basis(Frozen):
    """A group's queries and the earlier measurements that serve them, over common cells."""

    group: Group
    columns: tuple[str, ...]
    cells: ColumnCells
    records: tuple[Record, ...]

    @cached_property
    def queries(self) -> Array:
        return queries_over(self.group.workload, self.columns, self.cells)

    @cached_property
    def before(self) -> Combined:
        """The combination of the earlier measurements alone."""
        return self._with(())

    def combined(self, fresh: Sequence[MeasuredQueries] = ()) -> Combined:
        return self._with(fresh) if fresh else self.before

    def _with(self, fresh: Sequence[MeasuredQueries]) -> Combined:
        rows = [weighted(asked, self.cells) for asked in (*(record.asked for record in self.records), *fresh)]
        return Combined.of(self.queries, np.concatenate([np.zeros((0, self.cells.size)), *rows]))

    def variances(self, fresh: Sequence[MeasuredQueries] = ()) -> Array:
        """Variances in the unit of the aggregate; infinite for queries that do not follow from the measurements."""
        return self.combined(fresh).variances() * self.group.unit**2

    def combined_answers(self, kind: Kind, fresh: Sequence[Record] = ()) -> Told:
        combined = self.combined([record.asked for record in fresh])
        noisy = [given(record.asked, record.answers) for record in (*self.records, *fresh)]
        return Told(values=combined.answers(np.concatenate(noisy)) * self.group.unit, kind=kind,
                    variances=combined.variances() * self.group.unit**2)


def basis(group: Group, records: Sequence[Record]) -> Basis | None:
    """The earlier measurements of the same sums, as far as they fit into common cells; None if the group is too large."""
    sums, columns = about(group.view, group.axes, group.summand)
    own = ColumnCells(columns, tuple(len(axis.values) for axis in group.axes))
    if own.size > DENSE or own.size * group.workload.rows > WRITTEN:
        return None
    alike = [record for record in records if record.asked.sums == sums]
    cells, chosen = fitting(own, group.workload.rows, [record.asked for record in alike])
    return Basis(group=group, columns=columns, cells=cells, records=tuple(alike[i] for i in chosen))


class AnsweredFromKept(Frozen):
    """The plan of a group that is answered from earlier measurements."""

    basis: Basis
    kind: Kind
    name: str = "earlier measurements"
    verdicts: tuple[Verdict, ...] = ()

    @property
    def note(self) -> str:
        return f"{many(self.basis.group.workload.rows, 'number')} from {_counted(len(self.basis.records))}, at no cost"

    def noise(self, price: Cost) -> str:
        return "no further noise"

    @cached_property
    def _variances(self) -> Array:
        return self.basis.variances()

    def variances(self, price: Cost) -> Array:
        return self._variances

    def steps(self, price: Cost) -> Generator[Blocks, Blocked, Told]:
        return self.basis.combined_answers(self.kind)
        yield  # it asks nothing

    def check(self, price: Cost) -> None:
        """Nothing is charged, so nothing is checked."""


class MeasuredAnew(Frozen):
    """The plan of a group that needs a new measurement. Without a basis, the new measurement alone answers it."""

    group: Group
    measured: MeasuredGroup
    basis: Basis | None
    kind: Kind

    @property
    def name(self) -> str:
        return self.measured.name

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return self.measured.verdicts

    @property
    def note(self) -> str:
        earlier = len(self.basis.records) if self.basis is not None else 0
        return self.measured.note + (f", combined with {_counted(earlier)}" if earlier else "")

    def noise(self, price: Cost) -> str:
        return self.measured.noise(price)

    def variances(self, price: Cost) -> Array:
        if self.basis is None:
            return self.measured.variances(price)
        return self.basis.variances([asked_of(self.measured.request(price))])

    def steps(self, price: Cost) -> Generator[Blocks, Blocked, Told]:
        if self.basis is None:
            return (yield from self.measured.steps(price))
        request = self.measured.request(price)
        asked = asked_of(request)
        answered = yield request
        return self.basis.combined_answers(self.kind, [Record(asked=asked, answers=answered.answers)])

    def check(self, price: Cost) -> None:
        self.measured.check(price)


def _counted(number: int) -> str:
    return "an earlier measurement" if number == 1 else f"{number} earlier measurements"


class AccuracyPlan(Batch):
    """A batch in which each group has the least price that meets its targets."""

    chosen: tuple[GroupPlan, ...]
    prices: tuple[Cost, ...]
    goals: Goals

    @property
    def plans(self) -> tuple[GroupPlan, ...]:
        return self.chosen

    def price(self, group: int) -> Cost:
        return self.prices[group]

    @property
    def free(self) -> bool:
        return all(isinstance(plan, AnsweredFromKept) for plan in self.chosen)

    @property
    def goals_and_price(self) -> str:
        """The goals that are met and the price, as text for people."""
        if self.free:
            return f"nothing, as earlier measurements meet {self.goals}"
        laplace = any(group.pure for group in self.groups)
        return f"{price_of(self)} meets {self.goals}" + (", by a bound for all sums of Laplace noise" if laplace else "")


def accuracy_plan(made: Batch, goals: Goals, records: Sequence[Record]) -> AccuracyPlan:
    """The plans and prices that meet the goals. Raises Unsupported if an aggregate without a goal does not follow from the
    measurements for the others."""
    found = [_group(made, i, goals, records) for i in range(len(made.groups))]
    total = sum((price for _, price in found), FREE)
    return AccuracyPlan(asked=made.asked, groups=made.groups, places=made.places, allotted=total, goals=goals,
                        chosen=tuple(plan for plan, _ in found), prices=tuple(price for _, price in found))


def _group(made: Batch, at: int, goals: Goals, records: Sequence[Record]) -> tuple[AnsweredFromKept | MeasuredAnew, Cost]:
    group = made.groups[at]
    noise: Noise = "laplace" if group.pure else "gaussian"
    own = [record for record in records if record.asked.noise == noise]
    known = basis(group, own)
    tries: list[tuple[Basis | None, Kind]] = [(known, KINDS[noise])]
    if len(own) < len(records):
        tries.append((basis(group, records), "laplaces"))
    for free, kind in tries:
        if free is None or not free.records or not free.before.small:
            continue
        spread = free.variances()
        if (spread <= goals.targets(made, at, kind) * MET).all() and np.isfinite(spread).all():
            return AnsweredFromKept(basis=free, kind=kind), FREE
    found = _measured(group, goals.targets(made, at, KINDS[noise]), known)
    if found is None:
        without = [recipe.call for one, places, wanted in zip(made.asked, made.places, goals.each, strict=True)
                   for recipe in one.recipes if recipe.call.id not in wanted and any(places[i].group == at for i in recipe.sums)]
        raise Unsupported("an aggregate without an accuracy does not follow from the measurements for the others",
                          code="accuracy", span=without[0].span if without else None, subject=without[0].text if without else "",
                          try_="ERROR WITHIN 50 at the end of the statement, for all of its columns")
    return found


def _measured(group: Group, targets: Array, known: Basis | None) -> tuple[MeasuredAnew, Cost] | None:
    """The plan and price of a new measurement beside the earlier ones; None if a number without a target would not follow."""
    needed, helpful = targets, False
    if known is not None and known.records and known.before.small:
        before = known.variances()
        inverse = np.where(np.isfinite(targets), 1 / targets, 0.0) - 1 / before
        needed = np.where(inverse > 1e-9 / before, 1 / np.maximum(inverse, 1e-300), math.inf)
        helpful = True
    parts = [i for i, part in enumerate(group.workload.slices) if np.isfinite(needed[part]).any()]
    if not parts:
        return None
    part_of = replace(group, workload=Workload(group.workload.domain, tuple(group.workload.parts[i] for i in parts)))
    wanted = np.concatenate([needed[group.workload.slices[i]] for i in parts])
    wanted = np.where(np.isfinite(wanted), wanted, FAR * wanted[np.isfinite(wanted)].max())
    measured, price = _cheapest(part_of, wanted)
    complete = len(parts) == len(group.workload.parts) and bool(np.isfinite(targets).all())
    fresh = MeasuredAnew(group=group, measured=measured, basis=known, kind=KINDS[measured.strategy.noise])
    combined = known.combined([asked_of(measured.request(price))]) if known is not None and (helpful or not complete) else None
    if known is None or combined is None or not combined.small:  # answered from the new measurement alone
        return (replace(fresh, basis=None), price) if complete else None
    if not np.isfinite(combined.variances()).all():
        return None
    if helpful:
        price = _lowered(price, lambda cost: bool((fresh.variances(cost) <= targets * MET).all()), known)
    return fresh, price


def _cheapest(group: Group, targets: Array) -> tuple[MeasuredGroup, Cost]:
    """The strategy that meets the targets for the least price, and that price.

    For a pure epsilon, a search for the least total variance may do better than one that takes account of the targets. If the
    noise of the best strategy is too wide to be drawn, as its integers are large, the cells or the queries are measured instead.
    """
    plans = LAPLACE if group.pure else GAUSSIAN
    found = [_priced(group, targets, aims, plans) for aims in ((targets, None) if group.pure else (targets,))]
    measured, price = min(found, key=lambda one: one[1].rho)
    try:
        measured.check(price)
    except OptionError:
        return _priced(group, targets, targets, {name: plans[name] for name in ("identity", "workload")})
    return measured, price


def _priced(group: Group, targets: Array, aims: Array | None, plans: dict[str, Search]) -> tuple[MeasuredGroup, Cost]:
    workload, one = group.smaller.workload, (group.moved * group.unit) ** 2
    strategy, verdicts = chosen(group, None if aims is None else aims / one, plans)
    reach = float((strategy.variances(workload) * one / targets).max())
    price = pure(_up(math.sqrt(reach))) if group.pure else concentrated(_up(reach / 2))
    return MeasuredGroup(group=group, strategy=strategy, verdicts=verdicts), price


def _up(number: float) -> Fraction:
    """A price, with a margin, rounded up to the billionths that the ledger counts in."""
    return Fraction(max(1, math.ceil(number * MARGIN * NANO)), NANO)


def _lowered(price: Cost, meets: Callable[[Cost], bool], known: Basis) -> Cost:
    """The least part of a price, by bisection, that still meets the targets."""
    if known.cells.size > SEARCHED:
        return price
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if meets(_part(price, middle)) else (middle, high)
    return _part(price, high)


def _part(price: Cost, share: float) -> Cost:
    return pure(_up(float(price.epsilon) * share)) if price.epsilon is not None else concentrated(_up(float(price.rho) * share))


# -- the cost, and what a smaller price would buy


def price_of(made: AccuracyPlan) -> Price | None:
    """The price of the whole plan; None if earlier measurements answer everything."""
    if made.free:
        return None
    return Price(epsilon=made.allotted.epsilon) if made.allotted.epsilon is not None else Price(rho=made.allotted.rho)


def check_cap(made: AccuracyPlan, cap: Price | None, span: Span | None) -> None:
    """Raise OptionError if the plan costs more than the cap, stating the accuracy that the cap would buy."""
    if cap is None or made.free:
        return
    most = allotted_budget(cap, concentrated=made.allotted.epsilon is None)
    if not replace(most, delta=Fraction(0)).covers(made.allotted):
        left = most.epsilon if made.allotted.epsilon is not None else most.rho
        raise OptionError(f"this accuracy costs {price_of(made)}, more than {cap}", code="accuracy", span=span,
                          try_=reachable_accuracy(made, left or Fraction(0)) or "a higher price")


def reachable_accuracy(made: AccuracyPlan, left: Fraction) -> str:
    """The accuracy that the remaining budget buys, with all goals widened by the same factor, as text; empty if none.

    Errors c times as wide need 1 / c^2 of the price in rho, or 1 / c in epsilon: new measurements then have c^2 times the
    variances, and earlier ones those that they had.
    """
    total, power = (made.allotted.epsilon, 1) if made.allotted.epsilon is not None else (made.allotted.rho, 2)
    if left <= 0:
        return ""
    factor = float(total / left) ** (1 / power)
    for _ in range(100):
        wider = made.goals.wider(factor)
        if _needed(made, wider, power) * CLOSE <= left:
            return str(wider)
        factor *= 1.01
    return ""


def _needed(made: AccuracyPlan, wider: Goals, power: int) -> float:
    """A price, in epsilon (power 1) or rho (power 2), that meets wider goals."""
    total = 0.0
    for at, (group, _, price) in enumerate(made.shares):
        kind = KINDS["laplace" if group.pure else "gaussian"]
        before, after = made.goals.targets(made, at, kind), wider.targets(made, at, kind)
        asked = np.isfinite(before)
        times = float((before[asked] / after[asked]).max(initial=0.0))
        total += float(price.rho) * times if power == 2 else float(price.epsilon or 0) * math.sqrt(times)
    return total
