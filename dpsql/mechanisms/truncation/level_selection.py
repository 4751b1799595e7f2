"""The common part of mechanisms that choose one level for all cells, then release the sums at that level with fresh noise."""

from __future__ import annotations

import abc
import math
from collections.abc import Generator
from fractions import Fraction
from typing import Any, ClassVar

from dpsql.estimates import Estimate
from dpsql.frozen import AbstractFrozen
from dpsql.mechanisms.additive_noise import bought
from dpsql.mechanisms.mechanism import Accepted, Shared, TaskContext, Verdict
from dpsql.mechanisms.truncation.extension_sums import SharedMechanism, bearable, estimate, parts
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.cached import cached_property
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.measurements.several.balanced_levels import Balance
from dpsql.trusted.measurements.several.levels import ExtensionSums
from dpsql.trusted.measurements.several.removal_levels import RecursiveSums, Removed
from dpsql.trusted.noise.integer import Noise
from dpsql.trusted.plan.operators.owner_sets import UNIT, slack

LOWER = 8  # octaves between the lowest level and what one row can add


class SumsAtLevel(AbstractFrozen):
    """The sums of all cells of a task at one price.

    of_epsilon, of_rho   the share of the price that goes to choosing the level
    of_values            the same where values are counted as far as entities vouch for them
    cut                  the total standard error, of what is cut off and of the noise, in standard errors of the noise
    """

    of_epsilon: ClassVar[Fraction]
    of_rho: ClassVar[Fraction]
    of_values: ClassVar[Fraction] = Fraction(1, 3)
    cut: ClassVar[float]

    task: Shared
    price: Cost
    cells: int

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """Powers of two, from a small fraction of what one row can add; lower levels would only make the right one less
        likely."""
        end = max(1, self.task.most.bit_length())
        return bearable((2**j for j in range(min(end, max(1, self.task.summand.l1.bit_length() - LOWER)) - 1, end)), self.noise)

    @property
    def choice(self) -> Fraction:
        if self.task.once is not None:
            return self.of_values
        return self.of_epsilon if self.price.epsilon is not None else self.of_rho

    def noise(self, level: int) -> Noise:
        moved = UNIT * level + self._parts * slack(level, self.task.width)
        return bought(moved, self._of_a_sum)

    @cached_property
    def _parts(self) -> int:
        return parts(self.task)

    @cached_property
    def _of_a_sum(self) -> Cost:
        return self.price.part((1 - self.choice) / self.cells)

    def deviation(self, level: int) -> float:
        """The approximate error of a sum, including truncation, if this level is drawn."""
        return self.cut * math.sqrt(self.noise(level).variance) / UNIT

    @abc.abstractmethod
    def request(self, context: TaskContext) -> Balance | Removed | RecursiveSums:
        """The request to the kernel."""


class LevelSelection(SharedMechanism):
    """A mechanism that chooses a level by the request of its `told`."""

    told: ClassVar[type[SumsAtLevel]]

    def _judged(self, task: Shared, allotted: Cost, cells: int) -> Verdict:
        error = self.told(task=task, price=allotted, cells=max(1, cells)).deviation(1)
        return Accepted(error=error, noise=f"a standard error of {error:.4g} for each unit of the level")

    def largest_noise(self, task: Shared, allotted: Cost, cells: int) -> Noise:
        """The noise of each of this many cells at the highest level, times UNIT."""
        told = self.told(task=task, price=allotted, cells=max(1, cells))
        return told.noise(told.levels[-1])

    def _one(self, task: Shared, allotted: Cost, context: TaskContext) -> Generator[Request, Any, Estimate]:
        told = self.told(task=task, price=allotted, cells=len(context.cells))
        released: ExtensionSums = yield told.request(context)
        return estimate(task, released, [told.noise(told.levels[level or 0]) for level, *_ in released.levels])
