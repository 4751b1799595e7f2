"""DAWA: counts over one column by buckets that follow the data.

A part of the price finds buckets of neighbouring values with about the same counts (`buckets.Partition`); the rest measures
the buckets' totals with a strategy for the workload over them, and each value gets an equal share of its bucket. Few buckets
mean little noise, but different values in the same bucket mean an unknown bias. So DAWA is better than a fixed strategy if counts
are small compared with the noise, or nearly all zero, and worse otherwise: choose it knowingly.

Source: Li, Hay and Miklau, PVLDB 2014. The partition and its proof are in `measurements.buckets`.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpsql.batch.group import Group, Told, too_small
from dpsql.batch.measured import SLACK, blocks_of, variances_at
from dpsql.frozen import Frozen
from dpsql.mechanisms.additive_noise import scale_of
from dpsql.strategies import ca, hierarchy, p_identity
from dpsql.strategies.all_strategies import Verdict
from dpsql.strategies.least_squares import LeastSquares, one_block
from dpsql.strategies.optimality_gap import Noise
from dpsql.strategies.strategy import Refusal, Strategy
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.field_types import WIDEST
from dpsql.trusted.measurements.buckets import Buckets, Numbered, Partition, height
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.operators.summands import Count
from dpsql.workload.domain import DENSE, Attribute, CellDomain
from dpsql.workload.factors import Array, Dense, Factor, Identity, Intervals
from dpsql.workload.workload import Product, ReducedWorkload, Workload

NAME = "dawa"
FIRST = Fraction(1, 4)  # of the price, for the buckets
AGAINST_NOISE = 1.5  # noise scales added to the cost of a bucket, as the least of many noisy costs is too low
LARGEST = 2**24  # entries of a matrix of all numbers over buckets
ROUNDED = 1e-9  # a fraction of a bucket that is nearer to 0 or 1 is it
SURE = 2.0  # standard errors
FEW = 48  # number of buckets up to which the best strategies known are found at once


class Dawa(Frozen):
    """The plan of a group over one column."""

    group: Group
    name: str = NAME
    verdicts: tuple[Verdict, ...] = ()

    @property
    def note(self) -> str:
        return (f"{self.group.size} by the strategy '{NAME}': it chooses buckets from the data, privately, and gives all values "
                "in a bucket the same share of its total")

    def noise(self, price: Cost) -> str:
        scale = self.partition(price).scale
        return (f"discrete Laplace noise of scale {scale:.4g} on the cost of every bucket, for a quarter of the price; then "
                "noise on the totals of the buckets, which are not known beforehand")

    def variances(self, price: Cost) -> Array | None:
        return None

    def check(self, price: Cost) -> None:
        least = scale_of(Fraction(self.group.moved) / price.part(1 - FIRST).as_epsilon)
        if self.partition(price).scale > WIDEST / 2 or least > WIDEST / 2**20:
            raise too_small()

    def partition(self, price: Cost) -> Partition:
        """The request for buckets. The log-prior of each bucket accounts for the noise that its total will get, with a margin for
        the noise of costs."""
        group, column = self.group, self.group.columns[0]
        numbers = tuple(group.smaller.classes[0].tolist())
        axis = Numbered(column="a0", values=column.values, numbers=numbers, rest=column.rest)
        scale = scale_of(2 * group.moved / price.part(FIRST).as_epsilon) * SLACK
        second = float(group.moved / price.part(1 - FIRST).as_epsilon)
        log_prior = round(AGAINST_NOISE * scale + second)
        return Partition(view=group.view, axis=axis, summand=group.summand, scale=scale,
                         log_priors=(log_prior,) * (height(axis.size) + 1))

    def steps(self, price: Cost) -> Generator[Request, Any, Told]:
        found: Buckets = yield self.partition(price)
        over, rest = bucketed(self.group.smaller, found), price.part(1 - FIRST)
        strategy = chosen(over.workload, pure=price.epsilon is not None)
        answered = yield blocks_of(self.group, over, strategy, rest)
        given = [np.array(part, dtype=float) for part in answered.answers]
        values = strategy.reconstruct(given, over.workload) * self.group.unit
        note = (f"{len(found.ends)} buckets of neighbouring values; standard errors are those of the noise on their totals; "
                "intervals also cover any differences between the values of a bucket")
        return Told(values=values, variances=variances_at(self.group, over.workload, strategy, rest), kind="approximate",
                    off=self._uneven(found, strategy, given, rest), notes=(note,))

    def _uneven(self, found: Buckets, strategy: Strategy, given: Sequence[Array], price: Cost) -> tuple[Array, Array]:
        """How far each answer may be off because the values in a bucket differ. A query that weighs the values of a bucket
        between a and b adds between a and b times its total, if no value is negative; otherwise nothing is known."""
        totals = Workload(CellDomain((Attribute("bucket", len(found.ends)),)), (Product((Identity(len(found.ends)),)),))
        sizes = strategy.reconstruct(given, totals) * self.group.unit
        sizes = at_most(sizes, variances_at(self.group, totals, strategy, price))
        ends = [weights(part.factors[0], found.ends) for part in self.group.smaller.workload.parts]
        below, above = (np.concatenate([end[side] for end in ends]) for side in (0, 1))
        if not isinstance(self.group.summand, Count) and self.group.summand.grid.low < 0:
            return np.where(below.any(axis=1), math.inf, 0.0), np.where(above.any(axis=1), math.inf, 0.0)
        return below @ sizes, above @ sizes


def plan(group: Group) -> Dawa | Refusal:
    """The plan for a group, or the reason why there is none."""
    if len(group.columns) != 1:
        return Refusal(f"it is over {len(group.columns)} columns, not one")
    if not 1 < group.smaller.workload.domain.size <= DENSE:
        return Refusal(f"the number of values that it distinguishes is {group.smaller.workload.domain.size}, not 2 to {DENSE}")
    if group.workload.rows * group.smaller.workload.domain.size > LARGEST:
        return Refusal(f"the matrix of its {group.workload.rows} numbers is too large")
    return Dawa(group=group)


def bucketed(smaller: ReducedWorkload, found: Buckets) -> ReducedWorkload:
    """The workload over buckets; each value is mapped to its bucket."""
    domain = CellDomain((Attribute("bucket", len(found.ends)),))
    parts = tuple(Product((shared(part.factors[0], found.ends),)) for part in smaller.workload.parts)
    numbers = np.array(found.numbers, dtype=np.int64)
    classes = smaller.classes[0]
    return ReducedWorkload(Workload(domain, parts), (np.where(classes < 0, -1, numbers[classes]),))


def shared(own: Factor, ends: Sequence[int]) -> Dense:
    """Queries over values, rewritten as queries over buckets, (queries, buckets), where all values of a bucket have equal
    shares."""
    starts, widths = np.array([0, *ends[:-1]]), np.diff(ends, prepend=0)
    if not isinstance(own, Intervals):
        return Dense(np.add.reduceat(own.dense(), starts, axis=1) / widths)
    below = np.clip((np.arange(own.n + 1)[:, None] - starts) / widths, 0.0, 1.0)  # the fraction of each bucket below each value
    first, after = own.ends
    return Dense(below[after] - below[first])


def weights(own: Factor, ends: Sequence[int]) -> tuple[Array, Array]:
    """How far the mean weight of a bucket's values in each query, (queries, buckets), is above the least weight and below the
    largest."""
    mean = shared(own, ends).dense()
    if isinstance(own, Intervals):
        return np.where(mean < 1 - ROUNDED, mean, 0.0), np.where(mean > ROUNDED, 1 - mean, 0.0)
    table, starts = own.dense(), np.array([0, *ends[:-1]])
    return mean - np.minimum.reduceat(table, starts, axis=1), np.maximum.reduceat(table, starts, axis=1) - mean


def at_most(totals: Array, variances: Array) -> Array:
    """What totals that are not negative are hardly larger than."""
    return np.maximum(totals + SURE * np.sqrt(variances), 0)


def chosen(workload: Workload, *, pure: bool) -> Strategy:
    """A strategy for the totals of buckets. It is not cached on disk, because buckets depend on the data."""
    noise: Noise = "laplace" if pure else "gaussian"
    if workload.domain.size <= FEW:
        found = p_identity.plan(workload) if pure else ca.plan(workload)
        return found if isinstance(found, Strategy) else cells(workload, noise)
    larger = hierarchy.plan(workload, noise=noise)
    return larger if isinstance(larger, Strategy) else cells(workload, noise)


def cells(workload: Workload, noise: Noise) -> Strategy:
    """The strategy that measures the total of every bucket."""
    block = one_block(Identity(workload.domain.size))
    return LeastSquares(name="identity", domain=workload.domain, noise=noise, measured=(block,))
