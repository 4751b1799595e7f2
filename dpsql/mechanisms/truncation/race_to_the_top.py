"""Sums over rows that may belong to several entities each: the highest of many noisy underestimates (R2T).

Dong, Fang, Yi, Tao and Machanavajjhala, R2T: Instance-optimal truncation for differentially private query evaluation with
foreign keys, SIGMOD 2022. Every level of the ladder costs its share, and each sum is lowered by a bound that its noise seldom
exceeds: the answer is seldom above the truth, but below it by about ln(L / BETA) times the noise of the best of L levels.
`balance` pays for two measurements, whatever the number of levels; the race is here for comparison, and for those who want an
underestimate.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpsql.estimates import Estimate, NoiseTerm
from dpsql.frozen import Frozen
from dpsql.mechanisms.additive_noise import bought
from dpsql.mechanisms.mechanism import Accepted, Shared, TaskContext, Verdict
from dpsql.mechanisms.truncation.extension_sums import SharedMechanism, bearable, parts, shares
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.measurements.several.levels import ExtensionSums
from dpsql.trusted.measurements.several.race import Race
from dpsql.trusted.noise.integer import DiscreteGaussian, DiscreteLaplace, Noise
from dpsql.trusted.plan.operators.owner_sets import UNIT, lipschitz_constant

BASE = 5.5  # ratio between levels; the proof in the paper has 2, its experiments 5.5
BETA = 0.1  # probability that the answer is above the truth


class RaceToTheTop(SharedMechanism):
    """The highest of the noisy sums truncated at every level of a ladder, each lowered. Proof: `race.Race`."""

    name = "r2t"

    def _judged(self, task: Shared, allotted: Cost, cells: int) -> Verdict:
        error = _Runner(task=task, price=allotted.part(Fraction(1, max(1, cells)))).penalty(1) / UNIT
        return Accepted(error=error, noise=f"about {error:.4g} too low for each unit of the level")

    @staticmethod
    def _one(task: Shared, allotted: Cost, context: TaskContext) -> Generator[Request, Any, Estimate]:
        runner = _Runner(task=task, price=allotted.part(Fraction(1, len(context.cells))))
        released: ExtensionSums = yield runner.request(context)
        deviations = np.array([runner.error(places) for places in released.levels])
        return Estimate(values=np.array(released.totals) / UNIT, linear=False,
                        slopes={(task.at, 0): (NoiseTerm(kind="approximate", scale=1.0), deviations)})


class _Runner(Frozen):
    """The sum of one cell, at its share of the price."""

    task: Shared
    price: Cost

    @property
    def steps(self) -> int:
        return max(1, math.floor(math.log(max(self.task.most, 1), BASE) + 1e-9))

    @property
    def levels(self) -> tuple[int, ...]:
        return bearable((math.floor(BASE**j) for j in range(1, 1 + self.steps)), self.noise)

    def noise(self, level: int) -> Noise:
        return bought(lipschitz_constant(level, self.task.width), self.price.part(Fraction(1,
                                                                                                 self.steps * parts(self.task))))

    def penalty(self, level: int) -> int:
        """The bound that the noise of a level exceeds with probability at most BETA / L."""
        rare = math.log(self.steps / BETA)
        match self.noise(level):
            case DiscreteLaplace(scale=scale):
                return math.ceil(scale * rare)
            case DiscreteGaussian(sigma=sigma):
                return math.ceil(sigma * math.sqrt(2 * rare))

    def error(self, places: Sequence[int | None]) -> float:
        """The penalty of the winning levels, which is most of the bias of the answer; that of the lowest level where none won."""
        return math.hypot(*(self.penalty(self.levels[place or 0]) for place in places)) / UNIT

    def request(self, context: TaskContext) -> Race:
        return Race(plan=shares(self.task, context), levels=self.levels, noises=tuple(map(self.noise, self.levels)),
                    penalties=tuple(map(self.penalty, self.levels)), cells=len(context.cells))
