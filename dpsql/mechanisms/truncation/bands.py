"""Sums over rows of one entity each, without a limit of what an entity adds: every entity in the band of its own total.

Band j holds the entities with a total of 2^(j-1) < n <= 2^j, and of each its share n / 2^j, a number in (1/2, 1], is added
up. An entity is in one band only, so all bands together have the sensitivity of one share, and each is told with the noise that a
whole price buys: 2^j / epsilon in the unit of totals. (A race over levels pays for each of them.) The answer is the sum
of the bands up to the highest that stands out; bands above it hold few entities or none, but noise of more than that.

*Which bands stand out.* A share sum above what noise exceeds with probability SURE does. From the highest of these upwards, a
band d steps above the last that was kept is kept where its sum is above what noise exceeds with probability
ALARM * 2^(-CAUTION (d - 1)). A false alarm there adds about 2^j times the noise, so with CAUTION > 1 the error expected
from false alarms stays bounded however long the ladder is; with a fixed probability it is that of the highest band. Bands
below are kept whatever they show, so their noise has mean zero and adds a third to the variance.

Where an entity has rows in several cells, each of its rows there is in a band of its own and the noise is as many times larger.
The cost is that of `requests.Measure`, on a plan whose certificate says all this; no look of its own is needed.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.cost import Cost
from dpsql.estimates import Error, Estimate
from dpsql.mechanisms.additive.gaussian import sigma_of
from dpsql.mechanisms.additive.laplace import scale_of
from dpsql.mechanisms.base import Setting
from dpsql.plan.expr.nodes import Call, Case, Cast, Expr, Literal, Ref
from dpsql.plan.node import Node
from dpsql.plan.operators.contributions import Contributions
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.quantizer import Quantizer
from dpsql.plan.operators.summands import GridSum
from dpsql.plan.operators.tally import Tally
from dpsql.requests import DiscreteGaussian, DiscreteLaplace, Measure, Measured, Noise, Request
from dpsql.types import Type

SURE, ALARM, CAUTION = 1e-6, 0.02, 1.5
TOP = 50  # totals of entities are held within 2^50
SHARE = Quantizer(low=0, high=1, step=Fraction(1, 2**30), from_low=False)

Reals = NDArray[np.float64]


def banded(given: Contributions, rows: int, setting: Setting, at: int, purse: Cost) -> Generator[Request, Any, Estimate]:
    """The sum of the one total of `given` in every cell, in integers. Where it has keys, an entity has at most `rows` rows."""
    total, = given.totals
    ref = given.field(total).ref
    signs = (1, -1) if isinstance(given.summands[0], GridSum) and given.summands[0].grid.least < 0 else (1,)
    numbers = [sign * (power + 1) for sign in signs for power in range(TOP + 1)]
    noise = _noise(SHARE.largest * (rows if given.keys else 1), purse)
    released: Measured = yield Measure(
        plan=Tally(input=in_bands(given, ref), keys=(*given.keys, "band"), summands=(GridSum(column="share", grid=SHARE),)),
        cells=tuple((*cell, number) for cell in setting.cells for number in numbers), noises=(noise,))
    sums = np.array(released.totals[0][0], dtype=np.float64).reshape(len(setting.cells), len(signs), TOP + 1) * float(SHARE.step)
    unit = math.sqrt(noise.variance) * float(SHARE.step)
    limits = thresholds(noise, float(SHARE.step))
    values, deviations = np.zeros(len(setting.cells)), np.zeros(len(setting.cells))
    powers = 2.0 ** np.arange(TOP + 1)
    for cell, parts in enumerate(sums):
        for sign, part in zip(signs, parts, strict=True):
            top = highest(part, limits)
            values[cell] += sign * float((part * powers)[: top + 1].sum())
            kept = unit * math.sqrt(float((powers[: top + 1] ** 2).sum()))
            cut = limits[1] * 2.0**top  # about what the next band may hold without standing out
            deviations[cell] = math.hypot(deviations[cell], kept, cut)
    return Estimate(values=values, linear=False, slopes={(at, 0): (Error(kind="approximate", scale=1.0), deviations)})


def in_bands(given: Contributions, total: Ref) -> Node:
    """For each row of an entity the number of its band, 1 + j with the sign of the total (0 for none), and its share of 2^j."""
    size = Call(function="abs", args=(total,), type=Type.BIGINT)

    def by_band(result: Sequence[Expr], otherwise: Expr) -> Expr:
        return Case(branches=tuple((_call("<=", size, _whole(2**power)), each) for power, each in enumerate(result)),
                    otherwise=otherwise, type=otherwise.type)

    def number(sign: int) -> Expr:
        return by_band([_whole(sign * (power + 1)) for power in range(TOP)], _whole(sign * (TOP + 1)))

    band = Case(branches=((_call(">", total, _whole(0)), number(1)), (_call("<", total, _whole(0)), number(-1))),
                otherwise=_whole(0), type=Type.BIGINT)
    inverse = by_band([_real(2.0**-power) for power in range(TOP)], _real(2.0**-TOP))
    share = Call(function="*", args=(Cast(input=size, target="DOUBLE", type=Type.DOUBLE), inverse), type=Type.DOUBLE)
    kept = tuple((key, given.names[key], given.field(key).ref) for key in given.keys)
    return Project(input=given, columns=(*kept, ("band", "power of two", band), ("share", "share", share)))


def thresholds(noise: Noise, step: float) -> Reals:
    """The share sums that noise exceeds with probability SURE, and d = 1, 2, ... steps above a kept band."""
    chances = np.array([SURE, *(ALARM * 2.0 ** (-CAUTION * d) for d in range(TOP + 1))])
    match noise:
        case DiscreteLaplace(scale=scale):
            return np.asarray(np.log(0.5 / chances) * scale * step)
        case DiscreteGaussian(sigma=sigma):
            from scipy.special import ndtri

            return np.asarray(-ndtri(chances) * sigma * step)


def highest(sums: Reals, limits: Reals) -> int:
    """The highest band that stands out; -1 where none does."""
    sure = np.flatnonzero(sums > limits[0])
    top = int(sure[-1]) if len(sure) else -1
    for band in range(top + 1, len(sums)):
        if sums[band] > limits[band - top]:
            top = band
    return top


def _noise(moved: int, purse: Cost) -> Noise:
    if purse.epsilon is not None:
        return DiscreteLaplace(scale=scale_of(moved / purse.epsilon))
    return DiscreteGaussian(sigma=sigma_of(Fraction(moved) ** 2 / (2 * purse.rho)))


def _call(name: str, *args: Expr) -> Expr:
    return Call(function=name, args=args, type=Type.BOOLEAN)


def _whole(number: int) -> Expr:
    return Literal(value=number, type=Type.BIGINT)


def _real(number: float) -> Expr:
    return Literal(value=number, type=Type.DOUBLE)
