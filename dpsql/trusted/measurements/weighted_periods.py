"""Sums over periods with a weight for each of them, as strategies over time measure them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import FREE, Cost
from dpsql.trusted.field_types import Assumptions, Natural
from dpsql.trusted.measurements.noisy_sums import MOST_ANSWERS, MeasuredSums
from dpsql.trusted.measurements.reading.occupied_cells import sums_in
from dpsql.trusted.measurements.reading.request import Context, OfOnePlan
from dpsql.trusted.noise.integer import Noise, added
from dpsql.trusted.plan.cells import Cells, are_cells
from dpsql.trusted.plan.certificate import Certificate, Sensitivity
from dpsql.trusted.plan.operators.grouped_sums import SATURATION, GroupedSums

MOST_PERIODS = 2**20
HEAVIEST = 2**30


class WeightedPeriods(Frozen, OfOnePlan):
    """For every cell, the sum over periods of its sums there, each times the weight of the period, with independent noise
    `noises[i]` on every component of summand i.

    The first key of the plan numbers the periods, from 0 on; `cells` are values of the other keys. `weights` are numbers of
    successive periods, with the weight of each of them.

    Cost in a period. Let the certificate for one period bound how far the sums of all cells move in it, by s in a norm. Sums in
    other periods do not change, so what is released moves by the weight w of the period times that, at most w s: the cost of
    noise for this sensitivity. (Clamping sums to 62 bits is 1-Lipschitz.)

    Cost in all. Remove the rows of an entity from one period after the other: by the triangle inequality, what is released moves
    by at most W s for the sum W of all weights. After that no row of the relation names the entity, since each of its rows is
    made of a row of a growing table (`kernel.period_certificate`); so removing the rest of the entity changes nothing.
    """

    plan: GroupedSums
    cells: Cells
    weights: tuple[tuple[Natural, Natural], ...]
    noises: tuple[Noise, ...]

    def assumptions(self) -> Assumptions:
        yield bool(self.plan.keys), "the first key must number the periods"
        yield are_cells(self.cells, self.plan.keys[1:]), "cells must be different, each with a value for every key but the first"
        yield all(many > 0 and weight <= HEAVIEST for many, weight in self.weights), "each weight is small, and of some periods"
        yield len(self.noises) == len(self.plan.summands), "every summand needs noise"
        yield self.periods <= MOST_PERIODS, "there are too many periods"
        answers = len(self.cells) * sum(part.components for part in self.plan.summands)
        yield answers * max(1, self.periods) <= MOST_ANSWERS, "there are too many sums"

    @property
    def periods(self) -> int:
        """The number of periods, also of those that have no weight."""
        return sum(many for many, _ in self.weights)

    def cost(self, certificate: Certificate) -> Cost:
        """The cost in all. Raises ValueError if what an entity moves in one period is not known."""
        return self._cost(sum(many * weight for many, weight in self.weights), certificate)

    def costs_in_periods(self, certificate: Certificate) -> list[tuple[int, Cost]]:
        """The cost in each of some successive periods, for all of them. Raises ValueError as `cost` does."""
        return [(many, self._cost(weight, certificate)) for many, weight in self.weights]

    def _cost(self, weight: int, certificate: Certificate) -> Cost:
        if certificate.below.public:
            return FREE
        if (once := certificate.in_period) is None:
            raise ValueError("what an entity moves in one period is not known")
        total = FREE
        for noise, each in zip(self.noises, once.summands, strict=True):
            total += noise.cost(Sensitivity(l1=None if each.l1 is None else weight * each.l1, l2=weight * each.l2))
        return total

    def release(self, context: Context, certificate: Certificate) -> MeasuredSums:
        """Read the exact sums of the listed cells in each period, add them up by weight, and return them with noise."""
        plan, many, components = self.plan, len(self.cells), [part.components for part in self.plan.summands]
        weighted = [(period, weight) for period, weight in self._by_period() if weight]
        cells = tuple((period, *cell) for period, _ in weighted for cell in self.cells)
        columns = sums_in(context.columns(plan), len(plan.keys), cells)
        totals, column = [], iter(columns)
        for noise, each in zip(self.noises, components, strict=True):
            exact = [total for _ in range(each) for total in _added_up(next(column), [weight for _, weight in weighted], many)]
            noisy = added(exact, noise, context.noise)
            totals.append(tuple(tuple(noisy[i * many:(i + 1) * many]) for i in range(each)))
        return MeasuredSums(totals=tuple(totals))

    def _by_period(self) -> Iterator[tuple[int, int]]:
        starts = accumulate((many for many, _ in self.weights), initial=0)
        return ((start + i, weight) for start, (many, weight) in zip(starts, self.weights, strict=False) for i in range(many))


def _added_up(sums: list[int], weights: list[int], cells: int) -> list[int]:
    """For each cell, its sums in the periods times their weights, clamped to 62 bits."""
    totals = [sum(weight * sums[i * cells + at] for i, weight in enumerate(weights)) for at in range(cells)]
    return [min(max(total, -SATURATION), SATURATION) for total in totals]
