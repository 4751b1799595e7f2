"""The discrete Laplace mechanism: sums of bounded l1 sensitivity, at a pure epsilon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from dpsql.accounting.cost import Cost
from dpsql.measurements import DiscreteLaplace
from dpsql.mechanisms.additive.additive_noise import measured
from dpsql.mechanisms.mechanism import Linear, No, Script, Setting, Task, Verdict, Yes


class Laplace:
    """Noise of scale D / epsilon for sums that one entity moves by at most D in l1. Proof: `measurements.DiscreteLaplace`."""

    name, kind = "laplace", Linear

    def judge(self, task: Task, allotted: Cost, cells: int) -> Verdict:
        if not isinstance(task, Linear):
            return No(because="it adds noise to sums")
        if task.sensitivity.l1 is None:
            return No(because="only an l2 norm is bounded")
        noise = self.noise(task, allotted)
        return Yes(error=math.sqrt(noise.variance), noise=f"discrete Laplace, scale {noise.scale:.6g}")

    def noise(self, task: Linear, allotted: Cost) -> DiscreteLaplace:
        assert task.sensitivity.l1 is not None
        return DiscreteLaplace(scale=scale_of(Fraction(task.sensitivity.l1) / allotted.as_epsilon))

    def run(self, tasks: Sequence[tuple[Task, Cost]], setting: Setting) -> Script:
        return measured([(task, self.noise(task, allotted)) for task, allotted in tasks if isinstance(task, Linear)], setting)


def scale_of(exact: Fraction) -> float:
    """The least float that is not below an exact scale, so that no more is spent than was given."""
    scale = float(exact)
    return scale if Fraction(scale) >= exact else math.nextafter(scale, math.inf)
