"""Quantiles over rows of several entities each: a noisy binary search that compares the rows on both sides of each place.

For a place x between two values let B be the number of rows below it and A that of rows above, both truncated at a level of rows
per entity (Lipschitz extensions), and g(x) = (1 - q) B - q A, in whole numbers. Then g(x) is below zero if x lies below the
quantile q of the rows kept, and g is non-decreasing. B and A are the sums of the positive and of the negative weights of one
signed sum, so each comparison is one `balanced_levels.Balance` with one level, which has the proof; the costs of all comparisons
add up. Rows are read nowhere else, and the places are chosen from released numbers.

*Level.* If neither the policy nor the statement limits rows, a level is drawn first, as for a count, at LEVEL_SHARE of the price.

*Comparisons.* As many as halve the range down to one place, at most MOST_ROUNDS. If the range were halved, a wrong turn would be
final. So every place keeps a probability, which each comparison multiplies by the probability that its noise is above, or below,
the released number; the next place is the median (probabilistic bisection, as in Waeber, Frazier and Henderson, SIAM J. Control
Optim. 2013). Only the error depends on these probabilities.

*Intervals.* Let m be the margin of one of k comparisons at confidence 1 - (1 - c) / k. Then with probability c all true g lie
within m of those released (union bound). As g is non-decreasing, the quantile of the rows kept lies above every place where
g + m < 0 and below those where g - m > 0, however many rows are tied. To m is added one row, by which definitions of a quantile
differ, and for three or more owners the slack of the extension.

*MIN and MAX.* At q = 0 the answer is the first place with any row below it, so noise alone would decide. The search aims AIM
standard errors of a comparison inside the data, and the interval extends to the bound.

Source: threshold queries for medians by halving, as in Smith, Privacy-preserving statistical estimation with optimal convergence
rates, STOC 2011, over the extensions of Kasiviswanathan, Nissim, Raskhodnikova and Smith, TCC 2013, in place of counts.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Generator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates import Ends, Estimate, NoiseTerm, constant
from dpsql.frozen import Frozen
from dpsql.mechanisms.additive_noise import bought, error_of, scale_of
from dpsql.mechanisms.mechanism import Accepted, Estimates, Rejected, Script, Shared, SharedRanks, Task, TaskContext, Verdict
from dpsql.mechanisms.truncation.balance import CAUTION
from dpsql.mechanisms.truncation.extension_sums import CELL, numbered, shares
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.measurements.several.balanced_levels import Balance, BalancedLevel, score_range
from dpsql.trusted.measurements.several.levels import ExtensionSums
from dpsql.trusted.noise.integer import Noise
from dpsql.trusted.plan.expr.nodes import Case, Expr, Literal, Ref, all_of, has_value, predicate, whole
from dpsql.trusted.plan.node import Field
from dpsql.trusted.plan.operators.owner_sets import LARGEST, UNIT, OwnerSets, slack
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Count, GridSum
from dpsql.types import Type

LEVEL_SHARE = Fraction(1, 5)
MOST_ROUNDS = 10
AIM = 2.0
MOST_WEIGHT = 100  # of a row on either side: fractions are rounded to hundredths unless a smaller denominator is exact
WEIGHT = "side"

Integers = NDArray[np.int64]


class _Weighed(Frozen):
    """A place for each cell, and the noisy g there."""

    places: Integers
    sums: NDArray[np.float64]


class Belief:
    """The probability that each place 0 .. `top` is the quantile: a density, constant between two places that were compared."""

    def __init__(self, top: int) -> None:
        self._edges, self._logs = np.array([0.0, top + 1.0]), np.zeros(1)

    def middle(self) -> int:
        """The median place, at least 1."""
        widths = np.diff(self._edges)
        mass = np.cumsum(widths * np.exp(self._logs - self._logs.max()))
        at = int(np.searchsorted(mass, mass[-1] / 2))
        before = mass[at - 1] if at else 0.0
        part = (mass[-1] / 2 - before) / (mass[at] - before)
        return max(1, round(float(self._edges[at] + part * widths[at])))

    def learn(self, place: int, told: float) -> None:
        """Update the density with a comparison, given in standard errors of its noise, which is treated as Laplace noise. If it
        is below 0, the places from this one upwards become likelier."""
        if place not in self._edges:
            at = int(np.searchsorted(self._edges, place))
            self._edges, self._logs = np.insert(self._edges, at, place), np.insert(self._logs, at, self._logs[at - 1])
        tail = math.log(0.5) - math.sqrt(2) * abs(told)  # log of the probability that the noise is so far on this side
        other = math.log1p(-math.exp(tail))
        below, above = (tail, other) if told < 0 else (other, tail)
        self._logs = self._logs + np.where(self._edges[:-1] < place, below, above)


class ThresholdSearch:
    """A noisy binary search over the places of a column. Proof: `balanced_levels.Balance`, with one level, each time."""

    name, kind = "threshold_search", SharedRanks

    def __init__(self, rounds: int = MOST_ROUNDS) -> None:
        self._rounds = rounds

    def judge(self, task: Task, allotted: Cost, cells: int) -> Verdict:
        if not isinstance(task, SharedRanks):
            return Rejected(because="it finds quantiles of rows that belong to several entities each")
        context = TaskContext(keys=(), cells=((),) * max(1, cells))
        noise = _Halving(task=task, place=0, fraction=Fraction(1, 2), rows=task.level or 1, price=allotted, context=context,
                        most=self._rounds).noise
        error = math.sqrt(noise.variance) / UNIT
        return Accepted(error=error, noise=f"the last comparison has a standard error of {error:.4g} rows" + (
            "" if task.level else " for each unit of the level"))

    def run(self, tasks: Sequence[tuple[Task, Cost]], context: TaskContext) -> Script:
        found: list[Estimates] = []
        for task, allotted in tasks:
            assert isinstance(task, SharedRanks)
            if context.cells:
                found.append((yield from _quantiles(task, allotted, context, self._rounds)))
            else:
                found.append((constant(np.zeros(0)),) * len(task.part.fractions))
        return found


def _quantiles(task: SharedRanks, allotted: Cost, context: TaskContext, most: int) -> Generator[Request, Any, Estimates]:
    rows = task.level
    if rows is None:
        rows = yield from _drawn_level(task, allotted.part(LEVEL_SHARE), context)
        allotted = allotted.part(1 - LEVEL_SHARE)
    found = []
    for i, fraction in enumerate(task.part.fractions):
        price = allotted.part(Fraction(1, len(task.part.fractions)))
        search = _Halving(task=task, place=i, fraction=fraction, rows=rows, price=price, context=context, most=most)
        found.append((yield from search.run()))
    return tuple(found)


def _counted(task: SharedRanks) -> Shared:
    """The number of rows with a value, as a task."""
    return Shared(at=task.at, input=task.input, owners=task.owners, summand=Count(column=task.part.column, when=task.part.when),
                  bound="balance", most=task.most)


def _drawn_level(task: SharedRanks, allotted: Cost, context: TaskContext) -> Generator[Request, Any, int]:
    """A limit on rows that balances the rows it cuts off against the noise; see `Balance`."""
    levels, cells = tuple(2**j for j in range(task.most.bit_length())), len(context.cells)
    # rho = epsilon^2 / 8: bounded range
    epsilon = allotted.as_epsilon if allotted.epsilon is not None else 2 * allotted.as_epsilon
    scale = scale_of(max(1, score_range(levels, len(task.owners), cells)) / epsilon)
    released: ExtensionSums = yield BalancedLevel(
        plan=shares(_counted(task), context), levels=levels, scale=scale, cells=cells,
        log_priors=tuple(round(CAUTION * scale * math.log(level)) for level in levels))
    (at,), = released.levels
    drawn: int = levels[at or 0]
    return drawn


class _Halving(Frozen):
    """One quantile of every cell, as a position on the grid: the largest n with too few rows below its value. It takes at most
    `most` comparisons."""

    task: SharedRanks
    place: int
    fraction: Fraction
    rows: int
    price: Cost
    context: TaskContext
    most: int

    def run(self) -> Generator[Request, Any, Estimate]:
        spread = math.sqrt(self.noise.variance)
        aim = AIM * spread * ((self.fraction == 0) - (self.fraction == 1))
        beliefs = [Belief(self.task.part.grid.most) for _ in self.context.cells]
        found: list[_Weighed] = []
        for _ in range(self._rounds):
            places = np.array([belief.middle() for belief in beliefs], dtype=np.int64)
            released: ExtensionSums = yield Balance(plan=self._sides(places), levels=(self._level,), log_priors=(0,), scale=1.0,
                                                    noises=(self.noise,), cells=len(beliefs))
            found.append(_Weighed(places=places, sums=np.array(released.totals, dtype=np.float64)))
            for belief, place, told in zip(beliefs, places, found[-1].sums, strict=True):
                belief.learn(int(place), (told - aim) / spread)
        return self._estimate(np.array([belief.middle() - 0.5 for belief in beliefs]), found)

    @property
    def noise(self) -> Noise:
        """The noise of each comparison."""
        part = Fraction(1, self._rounds * max(1, len(self.context.cells)))
        return bought(UNIT * self._level + self._slack, self.price.part(part))

    @property
    def _rounds(self) -> int:
        return max(1, min(self.most, self.task.part.grid.most.bit_length()))

    @property
    def _weights(self) -> tuple[int, int]:
        """The weights of a row below a place and of one above it: 1 - q and q, as whole numbers."""
        near = self.fraction.limit_denominator(MOST_WEIGHT)
        return near.denominator - near.numerator, near.numerator

    @property
    def _level(self) -> int:
        """The level in units of g: the limit on rows of an entity, times the larger weight."""
        return min(LARGEST, self.rows * max(self._weights))

    @property
    def _slack(self) -> int:
        return 2 * slack(self._level, len(self.task.owners))

    def _sides(self, places: Integers) -> OwnerSets:
        """The rows with their weights, positive below the place of their cell and negative above it."""
        kept = numbered(_counted(self.task), self.context) if self.context.keys else self.task.input
        value, (below, above) = kept.field(self.task.part.column), self._weights
        sides: list[Expr] = [Case(branches=((predicate("<", value.ref, self._bound(value, int(place))), whole(below)),),
                                  otherwise=whole(-above), type=Type.BIGINT) for place in places]
        weight = sides[0]
        for cell, side in enumerate(sides[1:], 1):
            weight = Case(branches=((predicate("=", kept.field(CELL).ref, whole(cell)), side),), otherwise=weight,
                          type=Type.BIGINT)
        counted = [has_value(value.ref)]
        if self.task.part.when is not None:
            counted.append(Ref(column=self.task.part.when, type=Type.BOOLEAN))
        present = all_of(counted)
        assert present is not None
        names = [*self.task.owners, *([CELL] if self.context.keys else [])]
        weighed = Project(input=kept, columns=(*((name, kept.names[name], kept.field(name).ref) for name in names), (
            WEIGHT, "side", Case(branches=((present, weight),), otherwise=whole(0), type=Type.BIGINT))))
        grid = Quantizer(low=-float(above), high=float(below), step=Fraction(1), from_low=False)
        return OwnerSets(input=weighed, owners=self.task.owners, summand=GridSum(column=WEIGHT, grid=grid),
                         cell=CELL if self.context.keys else None)

    def _bound(self, value: Field, place: int) -> Literal:
        """A value between a position of the grid and the one before it."""
        middle = self.task.part.grid.value(place - Fraction(1, 2))
        match value.facts.type:
            case Type.DATE:
                return Literal(value=dt.date.fromordinal(min(max(1, math.ceil(middle)), dt.date.max.toordinal())), type=Type.DATE)
            case Type.BIGINT:
                return whole(math.ceil(middle))
        return Literal(value=float(middle), type=Type.DOUBLE)

    def _estimate(self, chosen: NDArray[np.float64], found: Sequence[_Weighed]) -> Estimate:
        top = float(self.task.part.grid.most)
        beside = UNIT * max(self._weights) + self._slack

        def ends(margin: float) -> Ends:
            low, high = np.zeros_like(chosen), np.full_like(chosen, top)
            for each in found:
                low = np.where(each.sums + margin + beside < 0, np.maximum(low, each.places), low)
                high = np.where(each.sums - margin - beside > 0, np.minimum(high, each.places - 1), high)
            return np.minimum(low, chosen), np.maximum(high, chosen)

        def drawn(confidence: float) -> Ends:
            return ends(_margin(self.noise, 1 - (1 - confidence) / len(found)))

        low, high = ends(math.sqrt(self.noise.variance))
        off = (high - low) / 2 if 0 < self.fraction < 1 else np.maximum(high - chosen, chosen - low)
        return Estimate(values=chosen, linear=False, drawn=drawn, slopes={
            (self.task.at, self.place): (NoiseTerm(kind="approximate", scale=1.0), np.maximum(off, 0.5))})


def _margin(noise: Noise, confidence: float) -> float:
    """The bound on the absolute value of the noise that holds with this probability."""
    error = error_of(noise)
    assert error is not None
    return float(Estimate(values=np.zeros(1), slopes={(0,): (error, np.ones(1))}).margins(confidence)[0])
