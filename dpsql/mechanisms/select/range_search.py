"""Range search: undeclared bounds of a column, estimated as the powers of two between which nearly all rows lie.

The bounds are the ends of the outermost significant bins of a noisy histogram over powers of two. Source: the approximate bounds
of Wilson et al., Differentially Private SQL with Bounded User Contribution, PoPETs 2020.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.additive_noise import scale_of, sigma_of
from dpsql.mechanisms.significance import highest
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.noise.integer import DiscreteGaussian, DiscreteLaplace, Noise
from dpsql.trusted.plan.expr.nodes import Call, Case, Cast, Expr, Literal, predicate
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.summands import Count
from dpsql.types import Interval, Type

LEAST, MOST = -20, 50  # numbers below 2^-20 count as zero; numbers of 2^50 and more as 2^50
FALSE_ALARM = 1e-3  # probability that any empty bin is significant
EXTRA = 1  # bins beyond the last significant one: rows cut off there cost more than the noise of a bound twice as wide
BINS = tuple(range(-(MOST - LEAST + 1), MOST - LEAST + 2))


def found_bounds(view: Node, column: str, rows: int, allotted: Cost) -> Generator[Request, Any, Interval | None]:
    """Bounds that contain nearly all values; None if no bin is significant."""
    binned = Project(input=view, columns=(("bin", "power of two", bin_of(view.field(column).ref)),))
    noise, threshold = _noise(rows, allotted)
    found: MeasuredSums = yield NoisySums(plan=GroupedSums(input=binned, keys=("bin",), summands=(Count(),)),
                                          cells=tuple((number,) for number in BINS), noises=(noise,))
    counts = np.array(found.totals[0][0], dtype=np.float64)
    standing = np.flatnonzero(counts > threshold)
    if not len(standing):
        return None
    first, last = int(standing[0]), int(standing[-1])
    return Interval(ends(BINS[first - _further(counts[first::-1], noise)]).low,
                    ends(BINS[last + _further(counts[last:], noise)]).high)


def rows_to_find(rows: int, allotted: Cost) -> int:
    """The approximate number of values that a bin needs to be significant, if an entity has at most `rows` rows."""
    return math.ceil(_noise(rows, allotted)[1])


def _further(counts: NDArray[np.float64], noise: Noise) -> int:
    """How many bins further out the bounds are than the outermost bin that is significant among all, which comes first here.

    A bin that is not may still hold as many rows as the noise at so small a share of the price can hide, and all of these would
    be clamped to the bound. So the bins outwards from there are tested one after the other, at the false-alarm level of a few.
    """
    return min(max(0, highest(counts, noise, usual=0, steps=1)) + EXTRA, len(counts) - 1)


def _noise(rows: int, allotted: Cost) -> tuple[Noise, float]:
    """The noise of a bin, and the value that some empty bin exceeds with probability `FALSE_ALARM`."""
    chance = FALSE_ALARM / len(BINS)
    if allotted.epsilon is not None:
        scale = scale_of(Fraction(rows) / allotted.epsilon)
        return DiscreteLaplace(scale=scale), scale * math.log(1 / (2 * chance))
    from scipy.special import ndtri

    sigma = sigma_of(Fraction(rows) ** 2 / (2 * allotted.rho))
    return DiscreteGaussian(sigma=sigma), -sigma * float(ndtri(chance))


def ends(number: int) -> Interval:
    """The interval of numbers that a bin covers."""
    if number == 0:
        return Interval(0, 0)
    size = Interval(2.0 ** (LEAST + abs(number) - 1), 2.0 ** (LEAST + abs(number)))
    return size if number > 0 else Interval(-size.high, -size.low)


def bin_of(value: Expr) -> Expr:
    """The index of the bin of a value: its sign, and the power of two below its absolute value."""
    x = value if value.type is Type.DOUBLE else Cast(input=value, target="DOUBLE", type=Type.DOUBLE)

    def real(name: str, *args: Expr) -> Expr:
        return Call(function=name, args=args, type=Type.DOUBLE)

    def number(n: float) -> Expr:
        return Literal(value=float(n), type=Type.DOUBLE)

    size = real("abs", x)
    power = real("floor", real("log2", size))
    held = Case(branches=((predicate(">=", size, number(2.0**MOST)), number(MOST)),), otherwise=power, type=Type.DOUBLE)
    place = real("+", held, number(1 - LEAST))
    signed = Case(branches=((predicate(">=", x, number(2.0**LEAST)), place),
                            (predicate("<=", x, number(-(2.0**LEAST))), real("negate", place)),
                            (predicate("is not null", x), number(0))),
                  otherwise=Literal(value=None, type=Type.DOUBLE), type=Type.DOUBLE)
    return Cast(input=signed, target="INTEGER", type=Type.BIGINT)
