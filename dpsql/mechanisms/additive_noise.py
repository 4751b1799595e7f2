"""Sums with noise: discrete Laplace for a pure epsilon, discrete Gaussian for rho. Tasks over one relation share a scan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpsql.estimates import NoiseTerm, constant, released
from dpsql.mechanisms.mechanism import Accepted, Estimates, Linear, Rejected, Script, Task, TaskContext, Verdict
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.noise.integer import DiscreteGaussian, DiscreteLaplace, Noise
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums


class Laplace:
    """Noise of scale D / epsilon for sums of l1 sensitivity D. Proof: `integer.DiscreteLaplace`."""

    name, kind = "laplace", Linear

    def judge(self, task: Task, allotted: Cost, cells: int) -> Verdict:
        if not isinstance(task, Linear):
            return Rejected(because="it adds noise to sums")
        if task.sensitivity.l1 is None:
            return Rejected(because="only an l2 norm is bounded")
        noise = self.noise(task, allotted)
        return Accepted(error=math.sqrt(noise.variance), noise=f"discrete Laplace, scale {noise.scale:.6g}")

    def noise(self, task: Linear, allotted: Cost) -> DiscreteLaplace:
        assert task.sensitivity.l1 is not None
        return DiscreteLaplace(scale=scale_of(Fraction(task.sensitivity.l1) / allotted.as_epsilon))

    def run(self, tasks: Sequence[tuple[Task, Cost]], context: TaskContext) -> Script:
        return measured([(task, self.noise(task, allotted)) for task, allotted in tasks if isinstance(task, Linear)], context)


class Gaussian:
    """Noise of variance D^2 / (2 rho) for sums of l2 sensitivity D. Proof: `integer.DiscreteGaussian`."""

    name, kind = "gaussian", Linear

    def judge(self, task: Task, allotted: Cost, cells: int) -> Verdict:
        if not isinstance(task, Linear):
            return Rejected(because="it adds noise to sums")
        if allotted.epsilon is not None:
            return Rejected(because="it has no pure epsilon, and the price has no delta")
        noise = self.noise(task, allotted)
        return Accepted(error=noise.sigma, noise=f"discrete Gaussian, sigma {noise.sigma:.6g}")

    def noise(self, task: Linear, allotted: Cost) -> DiscreteGaussian:
        return DiscreteGaussian(sigma=sigma_of(Fraction(task.sensitivity.l2) ** 2 / (2 * allotted.rho)))

    def run(self, tasks: Sequence[tuple[Task, Cost]], context: TaskContext) -> Script:
        return measured([(task, self.noise(task, allotted)) for task, allotted in tasks if isinstance(task, Linear)], context)


def measured(tasks: Sequence[tuple[Linear, Noise]], context: TaskContext) -> Script:
    """One `NoisySums` request for each relation to be summed. Returns the estimates of each task, in the given order."""
    groups: list[tuple[Node, list[int]]] = []
    for i, (task, _) in enumerate(tasks):
        known = next((places for node, places in groups if node == task.input), None)
        if known is None:
            groups.append((task.input, [i]))
        else:
            known.append(i)
    found: dict[int, Estimates] = {}
    for node, places in groups:
        release: MeasuredSums = yield NoisySums(
            plan=GroupedSums(input=node, keys=context.keys, summands=tuple(tasks[i][0].summand for i in places)),
            cells=context.cells, noises=tuple(tasks[i][1] for i in places))
        for i, totals in zip(places, release.totals, strict=True):
            found[i] = estimates(tasks[i][0].at, totals, tasks[i][1])
    return [found[i] for i in range(len(tasks))]


def estimates(at: int, totals: Sequence[Sequence[int]], noise: Noise) -> Estimates:
    """Noisy integers as estimates that carry the distribution of their noise."""
    values = [np.array(total, dtype=np.float64) for total in totals]
    error = error_of(noise)
    if error is None:
        return tuple(constant(value) for value in values)
    return tuple(released((at, i), value, error) for i, value in enumerate(values))


def error_of(noise: Noise) -> NoiseTerm | None:
    """The error term of a noise; None for zero noise, which is only added to public relations."""
    match noise:
        case DiscreteLaplace(scale=scale):
            return NoiseTerm(kind="laplace", scale=scale) if scale > 0 else None
        case DiscreteGaussian(sigma=sigma):
            return NoiseTerm(kind="gaussian", scale=sigma) if sigma > 0 else None


# -- the amount of noise


def bought(moved: int, allotted: Cost) -> Noise:
    """The smallest noise allowed for one number of sensitivity `moved`: Laplace for a pure epsilon, Gaussian for rho."""
    if allotted.epsilon is not None:
        return DiscreteLaplace(scale=scale_of(moved / allotted.epsilon))
    return DiscreteGaussian(sigma=sigma_of(Fraction(moved) ** 2 / (2 * allotted.rho)))


def scale_of(exact: Fraction) -> float:
    """The least float that is not below an exact scale, so that the cost does not exceed the allotted one."""
    scale = float(exact)
    return scale if Fraction(scale) >= exact else math.nextafter(scale, math.inf)


def sigma_of(variance: Fraction) -> float:
    """The least float near the square root of a variance whose square is not below that variance."""
    sigma = math.sqrt(variance)
    while Fraction(sigma) ** 2 < variance:
        sigma = math.nextafter(sigma, math.inf)
    return sigma
