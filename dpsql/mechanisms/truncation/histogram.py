"""A limit on what is kept of an entity, learned from a noisy histogram of the sizes of entities.

The size of an entity is its number of rows, or the norm of what it adds. Every entity is in one bin, between two half powers of
two, so all bins together cost as much as one count. Bins are aligned so that one of them ends at the bound of one row, where many
totals may lie.

The top is the end t that minimises N(t) + STEEPNESS * scale * ln t, where N(t) is the noisy number of entities above t: to go up
by a factor of r, there must be more entities in between than STEEPNESS * ln r scales of the noise. The noise of empty bins is a
random walk against this drift of d scales for each bin. By Chernoff's bound it reaches a limit k bins too high with a probability
of exp(-k sup_l (l d + ln(1 - l^2))) for Laplace noise and exp(-k d^2 / 2) for normal noise, while the square of the error is 2^k
times as large: 2 exp(-0.80) and 2 exp(-0.96) are below one, so that what false alarms add to the mean square error does not grow
with the ladder. The exponential mechanism for a quantile has the same objective, with a prior of t^-STEEPNESS; such a draw has
the same error at the same price (simulated on 27 data sets at epsilon 0.2 to 5), but releases nothing else. Below the top, the
limit is the end that minimises the sum of what is cut off and the noise, by the same counts.

Only the error depends on the limit, privacy does not: it is enforced, whatever it is.

If there are few entities, or their sizes differ much, no bin may stand out, or only bins away from the top. Then a limit of rows
is drawn as `balance` draws levels, by how much is above it: this takes a part of the price of the sums, but uses sums and not
bins.

The error of the sum is smaller by a third and more than with the sparse vector technique (which needs noise for its threshold and
for each question, and learns about one step only), and than with the sums of bands themselves (`bands`). The same comparison led
to half powers: with whole ones the limit is up to twice what is needed, with thirds more noise adds up. An earlier rule took the
highest bin of those that stand out one after the other: where few entities have most of the total, each of their bins is too thin
for that, and the error was 15 times that of the best limit. `tests/bench/clips.py` compares the limit with the best one in
hindsight, `tests/bench/tpch.py` with other bounds.

Source of the idea: the approximate bounds of Wilson et al., Differentially Private SQL with Bounded User Contribution, PoPETs
2020; here what is cut off is weighed against the noise.

STEEPNESS   by the kind of noise; normal noise has thinner tails
SURELY      errors below the top must be smaller than this factor times that of the top: counts there are noisy, and the smallest
            of many estimates is too small
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpsql.accounting.cost import Cost
from dpsql.measurements import (
    COARSEST,
    BalancedLevel,
    DiscreteLaplace,
    ExtensionSums,
    MeasuredSums,
    Noise,
    NoisySums,
    Request,
    score_range,
    spread_of,
)
from dpsql.mechanisms.additive_noise import bought, scale_of
from dpsql.mechanisms.significance import Reals, stand_out
from dpsql.plan.expr.nodes import Call, Case, Cast, Expr, Literal, Ref, predicate, whole
from dpsql.plan.node import Node
from dpsql.plan.operators.contributions import Contributions
from dpsql.plan.operators.groupby import Fold, GroupBy
from dpsql.plan.operators.grouped_sums import GroupedSums
from dpsql.plan.operators.norms import SIZE, Norms
from dpsql.plan.operators.owner_sets import LARGEST, OwnerSets
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.quantizer import Quantizer
from dpsql.plan.operators.summands import Count, GridSum
from dpsql.types import Type

OCTAVES = 50  # totals of entities are clamped to 2^50
STEEPNESS, SURELY = {True: 6.0, False: 4.0}, 0.85
CAUTION = 2.0  # prior weight t^-CAUTION of a limit t that is drawn; bounds the mean square error of limits that are too high

Deviation = Callable[[float], float]
"""The standard error of the noise for a limit, over all cells together."""


def deviation_of(allotted: Cost, cells: int) -> Deviation:
    """The standard errors of `cells` sums, added up; one entity changes them together by the limit, and all get this budget."""
    unit = math.sqrt(2) / float(allotted.epsilon) if allotted.epsilon is not None else 1 / math.sqrt(2 * allotted.rho)
    return lambda limit: limit * unit * max(1, cells)


def rows_of(view: Node, owner: str) -> Node:
    """A relation with the number of rows of each entity."""
    owned = Project(input=view, columns=((owner, view.names[owner], view.field(owner).ref),))
    return GroupBy(input=owned, keys=(owner,), folds=(Fold(id=SIZE, name="rows", function="count"),))


def norms_of(given: Contributions, order: int) -> Node:
    """A relation with the l1 or l2 norm (`order`) of what each entity adds."""
    return Norms(input=given, owner=given.owner, columns=given.totals, order=order)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedLimit:
    """A limit on sizes; an estimate of the total size of the entities below it; and the standard error of this estimate."""

    limit: int
    total: float
    deviation: float


def learned(sizes: Node, row: int, allotted: Cost, deviation: Deviation) -> Generator[Request, Any, LearnedLimit | None]:
    """The limit on sizes that minimises the sum of what is cut off and the noise; None if the histogram does not show any.

    `sizes` has one row for each entity, with its size in the column `size`; an entity with one row at its bound has size `row`.
    """
    bins = 2 * OCTAVES
    binned = Project(input=sizes, columns=(("bin", "half power of two", bin_of(sizes.field(SIZE).ref, bins, row)),))
    noise = bought(1, allotted)
    told: MeasuredSums = yield NoisySums(plan=GroupedSums(input=binned, keys=("bin",), summands=(Count(),)), noises=(noise,),
                                         cells=tuple((place,) for place in range(bins + 1)))
    counts = np.array(told.totals[0][0], dtype=np.float64)
    place = best(counts, noise, row, deviation)
    if place is None:
        return None
    ends = ends_of(len(counts), row)
    middles = _middles(ends[: place + 1])
    return LearnedLimit(limit=math.ceil(ends[place]), total=float(counts[: place + 1] @ middles),
                        deviation=math.sqrt(noise.variance * float(middles @ middles)))


def drawn(sizes: Node, owner: str, allotted: Cost) -> Generator[Request, Any, int]:
    """A limit on sizes that is drawn by how much is above it; 1 if the price is too small for any draw."""
    ladder = tuple(dict.fromkeys(math.ceil(2 ** (place / 2)) for place in range(2 * LARGEST.bit_length() - 1)))
    # rho = epsilon^2 / 8: bounded range
    epsilon = allotted.as_epsilon if allotted.epsilon is not None else 2 * allotted.as_epsilon
    scale = scale_of(score_range(ladder, 1, 1) / epsilon)
    if scale > COARSEST:
        return 1
    summand = GridSum(column=SIZE, grid=Quantizer(low=0.0, high=float(LARGEST), step=Fraction(1), from_low=True))
    held: ExtensionSums = yield BalancedLevel(plan=OwnerSets(input=sizes, owners=(owner,), summand=summand), levels=ladder,
                                              scale=scale,
                                              log_priors=tuple(round(CAUTION * scale * math.log(level)) for level in ladder))
    return ladder[held.levels[0][0] or 0]


def best(counts: Reals, noise: Noise, row: int, deviation: Deviation) -> int | None:
    """The bin whose upper end is the limit; None if the counts do not support any."""
    ends = ends_of(len(counts), row)
    pairs = (counts + np.concatenate(([0.0], counts[:-1]))) / math.sqrt(2)  # two bins stand out where each alone is too thin
    numbers = np.maximum(counts, pairs)
    sure = stand_out(numbers, noise, usual=_place(row), steps=2)
    pure = isinstance(noise, DiscreteLaplace)
    top = int(np.argmin(_above(counts) + STEEPNESS[pure] * spread_of(noise) * np.log(ends)))
    if not sure.any() or top < np.argmax(np.where(sure, numbers, -np.inf)):
        return None
    kept, ends = counts[: top + 1], ends[: top + 1]
    cut = np.maximum(_above(kept * _middles(ends)) - _above(kept) * ends, 0)
    errors = np.hypot(cut, [deviation(float(end)) for end in ends])
    errors[top] *= SURELY
    return int(np.argmin(errors))


def _above(numbers: Reals) -> Reals:
    """For each position the sum of the numbers above it."""
    return np.append(np.cumsum(numbers[::-1])[::-1][1:], 0.0)


def _middles(ends: Reals) -> Reals:
    return ends * (1 + 2**-0.5) / 2


def ends_of(bins: int, row: int) -> Reals:
    """The upper ends of the bins: half powers of two, times a factor for which one bin ends at `row`, a row at its bound."""
    return np.asarray(row * 2.0 ** ((np.arange(bins) - _place(row)) / 2))


def _place(row: int) -> int:
    """The bin that ends at `row`, a row at its bound."""
    return math.floor(2 * math.log2(row))


def bin_of(size: Ref, bins: int, row: int = 1) -> Expr:
    """The least k >= 0 with size <= `ends_of(k)`, `bins` at most, and -1 for size 0; up to rounding, which only shifts bins."""
    def real(name: str, *args: Expr) -> Expr:
        return Call(function=name, args=args, type=Type.DOUBLE)

    def number(value: float) -> Expr:
        return Literal(value=value, type=Type.DOUBLE)

    steps = real("*", real("log2", Cast(input=size, target="DOUBLE", type=Type.DOUBLE)), number(2.0))
    if shift := 2 * math.log2(row) - _place(row):
        steps = real("-", steps, number(shift + 2**-30))  # so that a row at its bound is surely below its end
    place = Cast(input=real("ceil", steps), target="INTEGER", type=Type.BIGINT)
    ends = ((">=", 2 ** (bins // 2), bins), ("<=", 0, -1), ("<=", 1, 0))
    branches = tuple((predicate(sign, size, whole(end)), whole(at)) for sign, end, at in ends)
    return Case(branches=branches, otherwise=place, type=Type.BIGINT)
