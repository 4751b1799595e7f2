"""Sums truncated at a declared level: a Lipschitz extension, with noise for that level alone.

The rows of every entity are scaled down to add at most the level; the extension is the largest sum possible under this constraint
(in closed form where rows have one owner, as a flow for two, as a linear program for more; `extensions`). The level is given, so
nothing is paid to choose it. Proof: `balanced_levels.Balance`, with one level. Source: Kasiviswanathan, Nissim, Raskhodnikova and
Smith, TCC 2013.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from fractions import Fraction
from typing import Any

from dpsql.estimates import Estimate
from dpsql.mechanisms.additive_noise import bought
from dpsql.mechanisms.mechanism import Accepted, Shared, TaskContext, Verdict
from dpsql.mechanisms.truncation.extension_sums import SharedMechanism, estimate, parts, shares
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.measurements.several.balanced_levels import Balance
from dpsql.trusted.measurements.several.levels import ExtensionSums
from dpsql.trusted.noise.integer import Noise
from dpsql.trusted.plan.operators.owner_sets import UNIT, slack


class DeclaredLevel(SharedMechanism):
    """The sums truncated at one level, with additive noise."""

    name = "extension"

    def _judged(self, task: Shared, allotted: Cost, cells: int) -> Verdict:
        error = math.sqrt(self.noise(task, allotted, max(1, cells)).variance) / UNIT
        return Accepted(error=error, noise=f"a standard error of {error:.6g}, and what is cut off")

    def _one(self, task: Shared, allotted: Cost, context: TaskContext) -> Generator[Request, Any, Estimate]:
        noise = self.noise(task, allotted, len(context.cells))
        released: ExtensionSums = yield Balance(plan=shares(task, context), levels=(_level(task),), log_priors=(0,), scale=1.0,
                                                noises=(noise,), cells=len(context.cells))
        return estimate(task, released, [noise] * len(context.cells))

    @staticmethod
    def noise(task: Shared, allotted: Cost, cells: int) -> Noise:
        """The noise of each of this many cells, times UNIT."""
        moved = UNIT * _level(task) + parts(task) * slack(_level(task), task.width)
        return bought(moved, allotted.part(Fraction(1, cells)))


def _level(task: Shared) -> int:
    assert task.level is not None
    return task.level
