"""Noisy sums over cells."""

from __future__ import annotations

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import FREE, Cost
from dpsql.trusted.field_types import Assumptions
from dpsql.trusted.measurements.reading.occupied_cells import sums_in
from dpsql.trusted.measurements.reading.request import Context, OfOnePlan
from dpsql.trusted.noise.integer import Noise, added
from dpsql.trusted.plan.cells import Cells, are_cells
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums

MOST_ANSWERS = 10**7  # of one measurement: each is a number of Python, with noise


class NoisySums(Frozen, OfOnePlan):
    """The grouped sums of the listed cells, with independent noise `noises[i]` on every component of summand i.

    Cells that are not listed are dropped, which is post-processing, and listed cells without rows count as zero. The costs of
    the summands add up (their noise is independent); several cells cost nothing extra, as each sensitivity is that of
    all cells together.
    """

    plan: GroupedSums
    cells: Cells
    noises: tuple[Noise, ...]

    def assumptions(self) -> Assumptions:
        yield are_cells(self.cells, self.plan.keys), "cells must be different, each with a value for every key"
        yield len(self.noises) == len(self.plan.summands), "every summand needs noise"
        yield len(self.cells) * sum(part.components for part in self.plan.summands) <= MOST_ANSWERS, "there are too many sums"

    def cost(self, certificate: Certificate) -> Cost:
        total = FREE
        for noise, sensitivity in zip(self.noises, certificate.summands, strict=True):
            total += noise.cost(sensitivity)
        return total

    def release(self, context: Context, certificate: Certificate) -> MeasuredSums:
        """Read the exact sums of the listed cells, add each summand's noise, and return only the noisy sums."""
        plan, many = self.plan, len(self.cells)
        totals, column = [], iter(sums_in(context.columns(plan), len(plan.keys), self.cells))
        for summand, noise in zip(plan.summands, self.noises, strict=True):
            noisy = added([number for _ in range(summand.components) for number in next(column)], noise, context.noise)
            totals.append(tuple(tuple(noisy[i * many:(i + 1) * many]) for i in range(summand.components)))
        return MeasuredSums(totals=tuple(totals))


class MeasuredSums(Frozen):
    """For each summand and component, the noisy integers, one per cell."""

    totals: tuple[tuple[tuple[int, ...], ...], ...]
