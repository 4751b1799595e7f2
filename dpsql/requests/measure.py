"""Noisy sums over cells."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.accounting.cost import FREE, Cost
from dpsql.cells import Cells
from dpsql.plan.certificate import Certificate
from dpsql.plan.operators.tally import Tally
from dpsql.requests.noise import Noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The sums of a tally over the listed cells, with independent noise of `noises[i]` on every component of summand i.

    Cells that are not listed are dropped, which is post-processing, and listed cells without rows count as zero. The costs of
    the summands add up (their noise is independent); cells cost nothing more, as sensitivities are over all cells together.
    """

    plan: Tally
    cells: Cells
    noises: tuple[Noise, ...]

    def cost(self, certificate: Certificate) -> Cost:
        total = FREE
        for noise, sensitivity in zip(self.noises, certificate.summands, strict=True):
            total += noise.cost(sensitivity)
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """For each summand and component the noisy integers, one for each cell."""

    totals: tuple[tuple[tuple[int, ...], ...], ...]
