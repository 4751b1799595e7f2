"""Buckets of adjacent values with similar counts: the first stage of DAWA."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import FREE, Cost
from dpsql.trusted.cached import cached_property
from dpsql.trusted.field_types import Assumptions, Natural, NumberRange, Scale
from dpsql.trusted.matrices.matrices import Exact
from dpsql.trusted.measurements.listed import adds_one_number
from dpsql.trusted.measurements.reading.occupied_cells import numbered, read
from dpsql.trusted.measurements.reading.request import Context
from dpsql.trusted.noise.partition import cheapest_partition, partition_cost
from dpsql.trusted.plan.cells import different
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.trusted.plan.node import Node, Summary
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.summands import Count, GridSum

OUTSIDE = -1
FARTHEST = 2**80  # the largest log-prior, in units of the sum


class Numbered(Frozen):
    """A column of the view, its values, and for each value the number of the place that counts it; OUTSIDE for none.

    Rows with unlisted values are counted with the value at index `rest`, or nowhere if that is None. A row's place is a function
    of the row alone.
    """

    column: str
    values: tuple[Value, ...]
    numbers: tuple[Annotated[int, NumberRange(least=OUTSIDE, most=2**62)], ...]
    rest: Natural | None = None

    def assumptions(self) -> Assumptions:
        yield different(zip(self.values)), "each value of an axis must be listed once"
        yield self.rest is None or self.rest < len(self.values), "the rest is counted with one of the values"
        yield len(self.values) == len(self.numbers), "every value needs a number"
        yield 1 <= self.size <= len(self.values), "at least one value must be counted, in at most one place per value"

    @property
    def size(self) -> int:
        """The number of places."""
        return max(self.numbers, default=OUTSIDE) + 1


class Partition(Frozen):
    """A partition of the places 0 .. n - 1 of an axis into buckets of roughly equal sums.

    Buckets are blocks of 2^h places that begin at a multiple of 2^h (the last ones end at n): a bucket b costs

        cost(b) = deviation(b) + noise_b + log_priors[h],   deviation(b) = min over t of the sum over j in b of |x_j - t|,

    with x_j the exact sum at place j, independent discrete Laplace noise of `scale` for every block, and public log-priors.
    The partition with the least total cost is released, the coarser one in case of a tie (compared at the root of the tree of
    blocks first, then in its left half, then in its right half), and nothing else: neither costs nor noise.

    Cost: `noise.partition`, as an entity changes x by at most k l1 in l1, as in `Blocks`. When one x_j changes by 1, every sum of
    |x_j - t| over a block that contains j changes by at most 1, and so does their minimum, the deviation; others do not change.

    The proof assumes that a row's place is a function of the row alone, and each place is in one block of
    each height; that all blocks of a height have the same log-prior, which is an integer, as rounding could make different
    totals equal; and that all noise has the same scale.

    Sources: Li, Hay and Miklau, A Data- and Workload-Aware Algorithm for Range Queries Under Differential Privacy (DAWA), PVLDB
    2014, Algorithm 1. Differences from the paper: deviations from the median, which have sensitivity 1 where those from the mean
    have 2; only the blocks of a tree, as with every further candidate noise is likelier to win; and log-priors against this.
    Published programs raise low noisy costs to a floor. The argument above fails for them (a cost at the floor cannot be
    lowered), and we know of no proof, so there is no floor here.
    """

    view: Node
    axis: Numbered
    summand: Count | GridSum
    scale: Scale
    log_priors: tuple[Annotated[int, NumberRange(least=-FARTHEST, most=FARTHEST)], ...]

    def assumptions(self) -> Assumptions:
        yield adds_one_number(self.summand), "the summand must be a count or a sum of one number per row"
        yield len(self.log_priors) == height(self.axis.size) + 1, "the blocks of every height need a log-prior"

    @property
    def plan(self) -> GroupedSums:
        """The sum over all rows: its certificate bounds what an entity adds to the places."""
        return GroupedSums(input=self.view, keys=(), summands=(self.summand,))

    @property
    def cells(self) -> GroupedSums:
        """The sums of all values that have rows."""
        return GroupedSums(input=self.view, keys=(self.axis.column,), summands=(self.summand,))

    @property
    def plans(self) -> tuple[Summary, ...]:
        return (self.cells,)

    def cost(self, certificate: Certificate) -> Cost:
        return FREE if certificate.below.public else partition_cost(certificate.l1, self.scale)

    def release(self, context: Context, certificate: Certificate) -> Buckets:
        """See `Partition`: a noisy cost for every block, then the least total from the finest blocks up."""
        filled = read(self.cells, [self.axis.values], context, [self.axis.rest])
        sums = numbered(filled, [self.axis.numbers]).marginal((0,))
        deviating = [deviations(sums, 2**h) for h in range(len(self.log_priors))]
        return Buckets(ends=cheapest_partition(deviating, self.log_priors, len(sums), self.scale, context.noise))


def height(places: int) -> int:
    """The least h with 2^h >= places."""
    return (places - 1).bit_length()


class Buckets(Frozen):
    """The end of each bucket, in order; the last one is the number of places."""

    ends: tuple[int, ...]

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The bucket of each place."""
        starts = (0, *self.ends)
        return tuple(i for i, (start, end) in enumerate(zip(starts, self.ends, strict=False)) for _ in range(start, end))


def deviations(sums: Exact, width: int) -> list[int]:
    """For each block of `width` places, the least sum of |x - t|, which is the sum of the larger half minus the sum of the
    smaller half."""
    full = len(sums) // width * width
    found = _from_median(np.sort(sums[:full].reshape(-1, width), axis=1)) if full else []
    return found + (_from_median(np.sort(sums[None, full:], axis=1)) if full < len(sums) else [])


def _from_median(rows: Exact) -> list[int]:
    half = rows.shape[1] // 2
    if not half:
        return [0] * len(rows)
    found: list[int] = (rows[:, -half:].sum(axis=1) - rows[:, :half].sum(axis=1)).tolist()
    return found


