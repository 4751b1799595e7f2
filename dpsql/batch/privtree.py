"""PrivTree: counts over two numeric columns by boxes that are smaller where there are more rows.

One half of the price grows a tree of boxes (`boxes.Tree`), the other half buys the counts of its leaves; a range that cuts
a leaf gets a share of its count, by area. The tree is deeper where rows are denser, and its noise does not grow with the depth.
An uneven distribution of rows within a leaf causes an unknown bias.

Source: Zhang, Xiao and Xie, SIGMOD 2016. The tree and its proof are in `measurements.boxes`.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.batch.dawa import at_most
from dpsql.batch.group import Group, Told, too_small
from dpsql.batch.measured import SLACK
from dpsql.errors import Unsupported
from dpsql.frozen import Frozen
from dpsql.mechanisms.additive_noise import bought, scale_of
from dpsql.strategies.all_strategies import Verdict
from dpsql.strategies.strategy import Refusal
from dpsql.trusted.accounting.cost import Cost, root
from dpsql.trusted.field_types import WIDEST
from dpsql.trusted.measurements.boxes import Leaves, Tree
from dpsql.trusted.measurements.buckets import Numbered
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.noise.integer import DiscreteLaplace
from dpsql.trusted.plan.operators.summands import Count
from dpsql.workload.domain import room
from dpsql.workload.factors import Array, Factor, Identity, Intervals, Total

NAME = "privtree"
GROWING = Fraction(1, 2)  # of the price, for the tree
WAYS = 2
WHOLE = 1 - 1e-9  # a larger fraction of a side is all of it
AT_ONCE = 2**22  # shares of leaves that are computed at a time


class PrivTree(Frozen):
    """The plan of a group of counts over two numeric columns."""

    group: Group
    name: str = NAME
    verdicts: tuple[Verdict, ...] = ()

    @property
    def note(self) -> str:
        return (f"{self.group.size} by the strategy '{NAME}': boxes with many rows "
                "are split privately, and cells share a box by size")

    def noise(self, price: Cost) -> str:
        request = self.request(price)
        spread = (f"discrete Laplace noise of scale {request.leaf.scale:.4g}" if isinstance(request.leaf, DiscreteLaplace) else
                  f"discrete Gaussian noise of standard deviation {request.leaf.sigma:.4g}")
        return (f"discrete Laplace noise of scale {request.scale:.4g} on every box's count less {request.decay} for each level, "
                f"to decide whether it is split; then {spread} on every leaf's count")

    def variances(self, price: Cost) -> Array | None:
        return None

    def check(self, price: Cost) -> None:
        request = self.request(price)
        spread = request.leaf.scale if isinstance(request.leaf, DiscreteLaplace) else request.leaf.sigma
        if max(request.scale, spread) > WIDEST / 2:
            raise too_small()

    def request(self, price: Cost) -> Tree:
        """The tree with the noise that its half of the price pays for. At a decay of ln 4 scales, one row costs an epsilon of (7
        / 3) / scale, and its privacy loss lies in an interval of length (10 / 3) / scale (`noise.tree`)."""
        group, growing = self.group, price.part(GROWING)
        exact = Fraction(7, 3) / growing.as_epsilon if price.epsilon is not None else Fraction(10, 3) / root(8 * growing.rho)
        scale = scale_of(group.moved * exact) * SLACK
        axes = tuple(Numbered(column=f"a{i}", values=column.values, numbers=tuple(numbers.tolist()), rest=column.rest)
                     for i, (column, numbers) in enumerate(zip(group.columns, group.smaller.classes, strict=True)))
        return Tree(view=group.view, axes=axes, scale=scale, decay=math.ceil(scale * math.log(2**WAYS)) + 1,
                    leaf=bought(group.moved, price.part(1 - GROWING)))

    def steps(self, price: Cost) -> Generator[Request, Any, Told]:
        request = self.request(price)
        found: Leaves = yield request
        values, squares, *off = summed(self.group, found, request.leaf.variance)
        leaves = f"{len(found.counts)} leaves" if len(found.counts) != 1 else "1 leaf"
        return Told(values=values, variances=squares * request.leaf.variance, kind="approximate", off=(off[0], off[1]), notes=(
            f"a tree with {leaves}; standard errors are those of the noise on their counts; intervals also cover any "
            "distribution of rows within a leaf",))


def plan(group: Group) -> PrivTree | Refusal:
    """The plan for a group, or the reason why there is none."""
    if len(group.columns) != WAYS or not all(
            ref.type.numeric for column in group.columns for ref in column.refs):
        named = ", ".join(column.name for column in group.columns)
        return Refusal(f"it is over {named or 'no column'}, not over two numeric columns")
    for factor in (own for part in group.smaller.workload.parts for own in part.factors):
        try:  # it is written out after the charge
            room("a matrix of queries", *(() if isinstance(factor, Identity | Intervals | Total) else factor.shape))
        except Unsupported as refused:
            return Refusal(refused.reason)
    if not isinstance(group.summand, Count):
        return Refusal("it has a SUM, and boxes are split by counts")
    return PrivTree(group=group)


def summed(group: Group, leaves: Leaves, variance: float) -> tuple[Array, ...]:
    """For every query, the sum over leaves of the share that it counts times the leaf's noisy count, the sum of the squared
    shares, and how far the truth may be below and above because rows lie unevenly in the leaves that it cuts."""
    parts = group.smaller.workload.parts
    values, squares, below, above = ([np.zeros((part.factors[0].rows, part.factors[1].rows)) for part in parts] for _ in range(4))
    counts = np.array(leaves.counts, dtype=float)
    most = at_most(counts, np.full(len(counts), variance))
    lows, highs = (np.array(ends, dtype=np.int64) for ends in (leaves.lows, leaves.highs))
    step = max(1, AT_ONCE // max(factor.rows for part in parts for factor in part.factors))
    for begin in range(0, len(counts), step):
        some, shares = slice(begin, begin + step), [dict[Factor, Array]() for _ in range(WAYS)]
        for i, part in enumerate(parts):
            for axis, factor in enumerate(part.factors):
                if factor not in shares[axis]:
                    shares[axis][factor] = shared(factor, sizes(group, axis), lows[some, axis], highs[some, axis])
            first, second = (shares[axis][factor] for axis, factor in enumerate(part.factors))
            values[i] += (first * counts[some]) @ second.T
            squares[i] += first**2 @ (second**2).T
            share = (first * most[some]) @ second.T
            below[i] += share - (np.where(first > WHOLE, most[some], 0) @ (second > WHOLE).T)
            above[i] += (np.where(first > 0, most[some], 0) @ (second > 0).T) - share
    for i, part in enumerate(parts):
        if not all(isinstance(factor, Identity | Intervals | Total) for factor in part.factors):
            below[i], above[i] = np.full_like(below[i], np.inf), np.full_like(above[i], np.inf)  # weights other than 0 and 1
    return tuple(np.concatenate([each.reshape(-1) for each in found]) for found in (values, squares, below, above))


def sizes(group: Group, axis: int) -> Array:
    """The width of each position of an axis: the number of values merged there."""
    numbers = group.smaller.classes[axis]
    return np.bincount(numbers[numbers >= 0], minlength=group.smaller.workload.domain.shape[axis]).astype(float)


def shared(factor: Factor, room: Array, lows: NDArray[np.int64], highs: NDArray[np.int64]) -> Array:
    """The fraction of each leaf's side that each query of an axis counts, (queries, leaves)."""
    whole = np.append(0.0, np.cumsum(room))
    sides = whole[highs] - whole[lows]
    if isinstance(factor, Identity | Intervals | Total):
        first, after = factor.ends
        inside = whole[np.minimum(after[:, None], highs)] - whole[np.maximum(first[:, None], lows)]
        return np.asarray(np.maximum(inside, 0) / sides)
    upto = np.cumsum(np.concatenate([np.zeros((factor.rows, 1)), factor.dense() * room], axis=1), axis=1)
    return np.asarray((upto[:, highs] - upto[:, lows]) / sides)
