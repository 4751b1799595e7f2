"""Sums over rows of one entity each, with no limit on an entity's contribution: every entity is counted in the band of its total.

Band j is the sum, over the entities with a total of 2^(j-1) < n <= 2^j, of their shares n / 2^j, which are in (1/2, 1]. An entity
is in one band only, so all bands together have the sensitivity of one share, and each is released with the noise of the whole
price: 2^j / epsilon in the unit of totals. (A race over levels pays for each of them.) The answer is the sum of the bands up to
the highest one that is significant (`significance`); bands above it hold few entities or none, but more noise than that. Bands
below are kept whatever their noisy sums are, so their noise has mean zero; it adds a third to the variance.

If an entity has rows in several cells, its total in each has a band of its own, and the noise is as many times larger. The cost
is that of `noisy_sums.NoisySums`, on a plan whose certificate states this sensitivity; no other measurement is needed.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpsql.estimates import Estimate, NoiseTerm
from dpsql.mechanisms.additive_noise import bought
from dpsql.mechanisms.mechanism import Accepted, Shared, TaskContext, Verdict
from dpsql.mechanisms.significance import ALARM, Reals, exceeded, highest
from dpsql.mechanisms.truncation.extension_sums import SharedMechanism, parts
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.noise.integer import Noise
from dpsql.trusted.plan.expr.nodes import Call, Case, Cast, Expr, predicate, real, whole
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.contributions import Contributions
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import GridSum
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.types import Type

TOP = 50  # totals of entities are clamped to 2^50
SHARE = Quantizer(low=0, high=1, step=Fraction(1, 2**30), from_low=False)


class Bands(SharedMechanism):
    """Shares of totals in bands of powers of two, added up to the highest significant band."""

    name = "bands"

    def _judged(self, task: Shared, allotted: Cost, cells: int) -> Verdict:
        error = 2 * _unit(_noise(task, allotted, grouped=task.groups is not None))
        return Accepted(error=error, noise=f"a standard error of about {error:.4g} for each unit of the largest "
                        "total that stands out")

    @staticmethod
    def _one(task: Shared, allotted: Cost, context: TaskContext) -> Generator[Request, Any, Estimate]:
        noise = _noise(task, allotted, grouped=bool(context.keys))
        signs = (1, -1) if parts(task) == 2 else (1,)
        numbers = [sign * (power + 1) for sign in signs for power in range(TOP + 1)]
        plan = GroupedSums(input=in_bands(totals(task, context.keys), context.keys), keys=(*context.keys, "band"),
                           summands=(GridSum(column="share", grid=SHARE),))
        released: MeasuredSums = yield NoisySums(
            plan=plan, cells=tuple((*cell, number) for cell in context.cells for number in numbers), noises=(noise,))
        sums = np.array(released.totals[0][0], dtype=np.float64).reshape(len(context.cells), len(signs), TOP + 1)
        return added(task, sums, signs, noise)


def totals(task: Shared, keys: tuple[str, ...]) -> Node:
    """The total of each entity in each cell, for at most the number of cells that an entity may contribute to."""
    owner, = task.owners
    given = Contributions(input=task.input, owner=owner, keys=keys, summands=(task.summand,))
    if not keys:
        return given
    assert task.groups is not None
    return Truncate(input=given, rows=task.groups, owner=owner, order=keys)


def added(task: Shared, sums: Reals, signs: Sequence[int], noise: Noise) -> Estimate:
    """For each cell and sign, the sum of its bands up to the highest significant one."""
    usual, step, powers = (task.summand.l1 - 1).bit_length(), float(SHARE.step), 2.0 ** np.arange(TOP + 1)
    hidden = float(exceeded(noise, np.array([ALARM]))[0]) * step  # what the next band may hold without being significant
    values, deviations = np.zeros(len(sums)), np.zeros(len(sums))
    for cell, both in enumerate(sums):
        for sign, part in zip(signs, both, strict=True):
            top = highest(part, noise, usual=usual, steps=1)
            values[cell] += sign * step * float((part * powers)[: top + 1].sum())
            kept = _unit(noise) * math.sqrt(float((powers[: top + 1] ** 2).sum()))
            deviations[cell] = math.hypot(deviations[cell], kept, hidden * 2.0**top)
    return Estimate(values=values, linear=False, slopes={(task.at, 0): (NoiseTerm(kind="approximate", scale=1.0), deviations)})


def in_bands(given: Node, keys: Sequence[str]) -> Node:
    """Each total of an entity with its band, which is 1 + j with the sign of the total (0 for a total of 0), and its share of
    2^j."""
    total = given.field("e0_0").ref
    size = Call(function="abs", args=(total,), type=Type.BIGINT)

    def by_band(result: Sequence[Expr], otherwise: Expr) -> Expr:
        return Case(branches=tuple((predicate("<=", size, whole(2**power)), each) for power, each in enumerate(result)),
                    otherwise=otherwise, type=otherwise.type)

    def number(sign: int) -> Expr:
        return by_band([whole(sign * (power + 1)) for power in range(TOP)], whole(sign * (TOP + 1)))

    band = Case(branches=((predicate(">", total, whole(0)), number(1)), (predicate("<", total, whole(0)), number(-1))),
                otherwise=whole(0), type=Type.BIGINT)
    inverse = by_band([real(2.0**-power) for power in range(TOP)], real(2.0**-TOP))
    share = Call(function="*", args=(Cast(input=size, target="DOUBLE", type=Type.DOUBLE), inverse), type=Type.DOUBLE)
    kept = tuple((key, given.names[key], given.field(key).ref) for key in keys)
    return Project(input=given, columns=(*kept, ("band", "power of two", band), ("share", "share", share)))


def _noise(task: Shared, allotted: Cost, *, grouped: bool) -> Noise:
    return bought(SHARE.largest * (task.groups or 1 if grouped else 1), allotted)


def _unit(noise: Noise) -> float:
    """The standard error of a sum of shares."""
    return math.sqrt(noise.variance) * float(SHARE.step)
