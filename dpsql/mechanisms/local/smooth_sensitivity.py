"""Quantiles by smooth sensitivity: Laplace noise scaled to how far apart the values around the quantile lie."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpsql.estimates import Estimate, NoiseTerm
from dpsql.mechanisms.mechanism import Accepted, Ordered, Rejected, Script, Task, TaskContext, Verdict
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.measurements.select import Target
from dpsql.trusted.measurements.smooth_quantile import Smooth, Smoothed
from dpsql.trusted.plan.operators.ranks import Ranks

SIZE_SHARE = Fraction(1, 10)  # share of the price for releasing the scale of the noise


class SmoothSensitivity:
    """Noise scaled to the smooth sensitivity of Nissim, Raskhodnikova and Smith (2007). Proof: `smooth_quantile.Smooth`."""

    name, kind = "smooth_sensitivity", Ordered

    def judge(self, task: Task, allotted: Cost, cells: int) -> Verdict:
        if not isinstance(task, Ordered):
            return Rejected(because="it answers quantiles")
        if not allotted.delta:
            return Rejected(because="it needs a delta")
        if any(fraction in (0, 1) for fraction in task.part.fractions):
            return Rejected(because="extremes have no smooth bound below the whole range")
        if task.rows > 1 and cells > 1:
            return Rejected(because="with several groups, an entity may have only one row")
        return Accepted(error=math.inf, noise="Laplace, scaled to the data")

    def run(self, tasks: Sequence[tuple[Task, Cost]], context: TaskContext) -> Script:
        found = []
        for task, allotted in tasks:
            assert isinstance(task, Ordered)
            share = Fraction(1, len(task.part.fractions))
            parts = []
            for i, fraction in enumerate(task.part.fractions):
                parts.append((yield from _one(task, context, i, fraction, allotted.part(share, delta=allotted.delta * share))))
            found.append(tuple(parts))
        return found


def _one(task: Ordered, context: TaskContext, at: int, fraction: Fraction, allotted: Cost) -> Generator[Request, Any, Estimate]:
    epsilon = allotted.as_epsilon
    request = Smooth(plan=Ranks(input=task.input, keys=context.keys, column=task.part.column, grid=task.part.grid,
                                when=task.part.when), cells=context.cells, target=Target(fraction=fraction),
                     epsilon=epsilon * (1 - SIZE_SHARE), delta=allotted.delta, epsilon_size=epsilon * SIZE_SHARE)
    released: Smoothed = yield request
    top = float(task.part.grid.most)
    values = np.clip(np.array(released.values, dtype=np.float64), 0, top)
    sizes = np.minimum(np.exp(np.minimum((np.array(released.sizes) + 1) * request.beta, 700)), top)
    deviation = math.sqrt(2) * 2 * sizes / float(request.epsilon) if task.rows else np.zeros(len(values))
    return Estimate(values=values, linear=False,
                    slopes={(task.at, at): (NoiseTerm(kind="approximate", scale=1.0), deviation)}).known(0.0, top)
