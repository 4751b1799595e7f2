"""The discrete Gaussian mechanism: sums of bounded l2 sensitivity, at a price in rho."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from dpsql.accounting.cost import Cost
from dpsql.measurements import DiscreteGaussian
from dpsql.mechanisms.additive.additive_noise import measured
from dpsql.mechanisms.mechanism import Linear, No, Script, Setting, Task, Verdict, Yes


class Gaussian:
    """Noise of variance D^2 / (2 rho) for sums that one entity moves by at most D in l2. Proof: `DiscreteGaussian`."""

    name, kind = "gaussian", Linear

    def judge(self, task: Task, allotted: Cost, cells: int) -> Verdict:
        if not isinstance(task, Linear):
            return No(because="it adds noise to sums")
        if allotted.epsilon is not None:
            return No(because="it has no pure epsilon, and the price has no delta")
        noise = self.noise(task, allotted)
        return Yes(error=noise.sigma, noise=f"discrete Gaussian, sigma {noise.sigma:.6g}")

    def noise(self, task: Linear, allotted: Cost) -> DiscreteGaussian:
        return DiscreteGaussian(sigma=sigma_of(Fraction(task.sensitivity.l2) ** 2 / (2 * allotted.rho)))

    def run(self, tasks: Sequence[tuple[Task, Cost]], setting: Setting) -> Script:
        return measured([(task, self.noise(task, allotted)) for task, allotted in tasks if isinstance(task, Linear)], setting)


def sigma_of(variance: Fraction) -> float:
    """The least float near the square root of a variance whose square is not below it."""
    sigma = math.sqrt(variance)
    while Fraction(sigma) ** 2 < variance:
        sigma = math.nextafter(sigma, math.inf)
    return sigma
