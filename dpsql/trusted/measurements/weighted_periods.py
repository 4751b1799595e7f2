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

    Cost in all. (1) Remove the rows of an entity from one period after the other: by the triangle inequality, what is released
    moves by at most W s for the sum W of all weights. After that no row of the relation names the entity, since each of its rows
    is made of a row of a growing table (`kernel.period_certificate`); so removing the rest of the entity changes nothing.
    (2) The sums of all cells in all periods move by at most S, by the certificate for the whole entity, and what is released by
    at most S times the largest weight: in the l1 norm, by the triangle inequality; in the l2 norm, where cells of different
    periods are added up, only that l1 bound holds, as an l1 norm is never less than the l2 norm. The smaller one counts.
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
        total = sum(many * weight for many, weight in self.weights)
        heaviest = max((weight for _, weight in self.weights), default=0)
        return self._cost(certificate, [_least(_times(total, once), heaviest, whole) for once, whole in zip(
            _in_period(certificate).summands, certificate.summands, strict=True)])

    def costs_in_periods(self, certificate: Certificate) -> list[tuple[int, Cost]]:
        """The cost in each of some successive periods, for all of them. Raises ValueError as `cost` does."""
        once = _in_period(certificate).summands
        return [(many, self._cost(certificate, [_times(weight, each) for each in once])) for many, weight in self.weights]

    def _cost(self, certificate: Certificate, moved: list[Sensitivity]) -> Cost:
        if certificate.below.public:
            return FREE
        return sum((noise.cost(each) for noise, each in zip(self.noises, moved, strict=True)), FREE)

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


def _in_period(certificate: Certificate) -> Certificate:
    if certificate.in_period is None:
        raise ValueError("what an entity moves in one period is not known")
    return certificate.in_period


def _times(weight: int, each: Sensitivity) -> Sensitivity:
    return Sensitivity(l1=None if each.l1 is None else weight * each.l1, l2=weight * each.l2)


def _least(added: Sensitivity, heaviest: int, whole: Sensitivity) -> Sensitivity:
    """The smaller of two bounds in each norm: see the cost in all, (1) and (2)."""
    if whole.l1 is None:
        return added
    other = heaviest * whole.l1
    return Sensitivity(l1=other if added.l1 is None else min(added.l1, other), l2=min(added.l2, other))
