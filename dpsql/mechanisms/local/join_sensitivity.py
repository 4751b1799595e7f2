"""Sums over joins by elastic or residual sensitivity: noise scaled to what one entity can change on this database and near it.

Nothing is cut off, so answers are unbiased; the noise has polynomial tails and needs no delta. Settings:

SIZE_SHARE   share of the price for releasing the scale of the noise; with less, intervals are wider, as the scale is less certain
SPLITS       shares of epsilon for the difference between the bounds of neighbours (4 beta); the one is taken that has the least
             noise if every value occurs USUAL times. Where bounds grow fast with distance, a large beta keeps them small.

Laplace noise, by the proof of `Smooth`, would spend half of epsilon on beta, with beta = epsilon / (2 ln(2 / delta) + epsilon).
At delta = 1e-6 and that same beta the median error of Student's t is smaller by a quarter, and no delta is spent.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dpsql.estimates import Estimate, NoiseTerm
from dpsql.frozen import Frozen
from dpsql.mechanisms.mechanism import Accepted, Rejected, Shared, TaskContext, Verdict
from dpsql.mechanisms.truncation.extension_sums import SharedMechanism
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.cached import cached_property
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.measurements.several.smooth_join_sum import SmoothSum
from dpsql.trusted.measurements.smooth_quantile import Smoothed
from dpsql.trusted.noise.smooth import Student
from dpsql.trusted.plan.decompose_join import JoinParts, decompose_join
from dpsql.trusted.plan.distance import FARTHEST, Reals, farthest, local_bounds, smoothed
from dpsql.trusted.plan.expr.nodes import Literal, Value, predicate
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.join_sum import JoinSum

SIZE_SHARE = Fraction(3, 20)
SPLITS = (Fraction(1, 2), Fraction(1, 4), Fraction(1, 8), Fraction(1, 16), Fraction(1, 32))
USUAL = 100
LEAST_BETA = 1e-8  # far above its rounding error
NORMAL_95 = 1.959963984540054


class JoinSensitivity(SharedMechanism):
    """Student's t noise scaled to a smooth bound of local sensitivity. Proofs: `smooth.Student`, `plan.distance`."""

    def __init__(self, name: str, *, residual: bool) -> None:
        self.name, self._residual = name, residual

    def _judged(self, task: Shared, allotted: Cost, cells: int) -> Verdict:
        told = self._told(task, allotted, cells)
        if not told.choices:
            return Rejected(because="the price is too small for a smooth bound")
        return Accepted(error=told.expected(told.noise), noise="Student's t with three degrees of freedom, scaled to the data")

    def _told(self, task: Shared, allotted: Cost, cells: int) -> _Told:
        return _Told(task=task, price=allotted.part(Fraction(1, max(1, cells))), residual=self._residual)

    def _one(self, task: Shared, allotted: Cost, context: TaskContext) -> Generator[Request, Any, Estimate]:
        """One request for each cell, as an entity may have joined rows in all of them."""
        told = self._told(task, allotted, len(context.cells))
        values, deviations = [], []
        for cell in context.cells:
            released: Smoothed = yield told.request(in_cell(task.input, context.keys, cell))
            values.append(float(released.values[0]))
            deviations.append(told.deviation(released.sizes[0]))
        return Estimate(values=np.array(values), linear=False,
                        slopes={(task.at, 0): (NoiseTerm(kind="approximate", scale=1.0), np.array(deviations))})


def in_cell(rows: Node, keys: Sequence[str], cell: Sequence[Value]) -> Node:
    """The rows of one cell of a GROUP BY, where NULL counts as a value."""
    for key, value in zip(keys, cell, strict=True):
        ref = rows.field(key).ref
        rows = Filter(input=rows, condition=predicate("is not distinct from", ref, Literal(value=value, type=ref.type)))
    return rows


class _Told(Frozen):
    """One sum at one price, with the noises that are possible for it."""

    task: Shared
    price: Cost
    residual: bool

    @cached_property
    def joined(self) -> JoinParts:
        return decompose_join(self.task.input, _Usual())

    @cached_property
    def choices(self) -> tuple[Student, ...]:
        """The noises that the price allows and for which bounds can be computed."""
        epsilon = self.price.part(1 - SIZE_SHARE).as_epsilon
        return tuple(Student(epsilon=epsilon, beta=beta) for beta in (float(epsilon * split / 4) for split in SPLITS)
                     if beta >= LEAST_BETA and farthest(len(self.joined.relations), beta) <= FARTHEST)

    @cached_property
    def noise(self) -> Student:
        return min(self.choices, key=self.expected)

    @cached_property
    def usual(self) -> Reals:
        """The sensitivity at each distance, if every value occurred USUAL times."""
        distances = np.arange(1.0 + max(farthest(len(self.joined.relations), noise.beta) for noise in self.choices))
        return local_bounds(self.joined, distances, lambda *_: USUAL, (lambda _: USUAL) if self.residual else None)

    def expected(self, noise: Student) -> float:
        """The standard error if every value occurred USUAL times."""
        return noise.scale(smoothed(self.usual, noise.beta) * self.task.summand.l1)

    @cached_property
    def epsilon_size(self) -> Fraction:
        return self.price.part(SIZE_SHARE).as_epsilon

    def request(self, rows: Node) -> SmoothSum:
        return SmoothSum(plan=JoinSum(input=rows, summand=self.task.summand), residual=self.residual, noise=self.noise,
                         epsilon_size=self.epsilon_size)

    def deviation(self, size: int) -> float:
        """The standard deviation of the normal distribution with the same 95 % interval as the noise, whose scale is noisy too.

        The scale is at most exp((size + 1) beta), apart from the noise of the released size.
        """
        bound = math.exp(min((size + 1) * self.noise.beta, 300.0))
        return self.noise.scale(bound) * _quantile(self.noise.beta / float(self.epsilon_size)) / NORMAL_95


@lru_cache(maxsize=256)
def _quantile(ratio: float) -> float:
    """The x with P(|T| <= x exp(ratio L)) = 0.95 for a unit Student's t with three degrees of freedom and a unit Laplace L."""
    places = np.linspace(-40, 40, 8001)
    weights, factors = np.exp(-np.abs(places)), np.exp(np.clip(ratio * places, -600, 600))
    weights = weights / weights.sum()
    low, high = 0.0, 1.0
    while _covered(high, weights, factors) < 0.95:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _covered(middle, weights, factors) < 0.95 else (low, middle)
    return high


def _covered(x: float, weights: Any, factors: Any) -> float:
    within = np.minimum(x * factors, 1e100)
    return float((weights * (np.arctan(within) + within / (1 + within**2)) * 2 / math.pi).sum())


class _Usual:
    """Public facts for expected errors: every value occurs equally often. The facts themselves are looked up only when needed."""

    def fanout(self, relation: Node, columns: tuple[str, ...]) -> int:
        return USUAL
