"""The limit on an entity's contribution, learned from a noisy histogram of the sizes of contributions.

Every entity is in one bin: the half power of two just above its number of rows, or the norm of what it adds. So all bins together
cost as much as one count. They are aligned so that one of them ends at a row at its bound, as many totals may.

The top is the end t that minimises N(t) + STEEPNESS * scale * ln t, for N(t) the noisy number of entities above it: the top rises
by a factor of r only if STEEPNESS * ln r noise scales more entities are in between. The noise of empty bins is a random walk
against this drift d, in scales per bin. By Chernoff's bound it reaches a limit k bins too high with probability at most
exp(-k sup_l (l d + ln(1 - l^2))) for Laplace noise and exp(-k d^2 / 2) for normal noise, while the squared error is 2^k times as
large: 2 exp(-0.80) and 2 exp(-0.96) are below one, so the part of false alarms in the mean square error does not grow with the
ladder. It is the rule of the exponential mechanism for a quantile, with a prior of t^-STEEPNESS; that mechanism itself has the
same error at the same price (simulated on 27 data sets at epsilon 0.2 to 5), but releases nothing else. Below the top the limit
is the end with the smallest combined error, of what is cut off and of the noise, by the same counts.

Only the error depends on the limit: it is enforced, whatever it is.

If entities are few or very unequal, no bin is significant, or one above the top is. Then a limit of rows is drawn as `balance`
draws levels, by how much lies above it: this takes part of the price of the sums, but it depends on sums and not on bins.

Against the sparse vector technique (which needs noise for its threshold and for each query, and learns one step only), and
against the sums of bands themselves (`bands`), the error of the sum is smaller by a third or more. Half powers were chosen by the
same comparison: with whole ones the limit is up to twice what is needed, with thirds more noise is added up. In an earlier rule
the top was the last bin that was significant in a row: where few entities have most of the total, each of their bins is too
sparse for that, and the error was 15 times that of the best limit. `tests/bench/clips.py` prints the error beside that of the
best limit in hindsight, `tests/bench/tpch.py` beside that of other bounds.

Source of the idea: the approximate bounds of Wilson et al., Differentially Private SQL with Bounded User Contribution, PoPETs
2020; here what is cut off is balanced against the noise.

STEEPNESS   depends on the noise; normal noise has thinner tails
SURELY      errors below the top are compared with that of the top times this factor: the counts are noisy, and the least of many
            estimates is biased downwards
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from fractions import Fraction
from typing import Any

import numpy as np

from dpsql.frozen import Frozen
from dpsql.mechanisms.additive_noise import bought, scale_of
from dpsql.mechanisms.significance import Reals, stand_out
from dpsql.questions.rules.limit_rows import below_projections
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.measurements.several.balanced_levels import BalancedLevel, score_range
from dpsql.trusted.measurements.several.levels import COARSEST, ExtensionSums
from dpsql.trusted.noise.integer import DiscreteLaplace, Noise, spread_of
from dpsql.trusted.plan.cells import Grid
from dpsql.trusted.plan.expr.nodes import Call, Case, Cast, Expr, Literal, Ref, predicate, whole
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.contributions import Contributions
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.norms import SIZE, Norms
from dpsql.trusted.plan.operators.owner_sets import LARGEST, OwnerSets
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Count, GridSum
from dpsql.types import Type

OCTAVES = 50  # totals of entities are clamped to 2^50
STEEPNESS, SURELY = {True: 6.0, False: 4.0}, 0.85
CAUTION = 2.0  # a limit t that is drawn has the prior weight t^-CAUTION, which bounds the mean square error of limits too high

Deviation = Callable[[float], float]
"""The standard error of the noise as a function of the limit, over all cells together."""


def deviation_of(allotted: Cost, cells: int) -> Deviation:
    """The standard error of this many sums, each with the limit as its sensitivity, at this cost."""
    unit = math.sqrt(2) / float(allotted.epsilon) if allotted.epsilon is not None else 1 / math.sqrt(2 * allotted.rho)
    return lambda limit: limit * unit * max(1, cells)


def rows_of(view: Node, owner: str) -> Node:
    """The number of rows of each entity."""
    rows, inner = below_projections(view, owner)
    sizes = norms_of(Contributions(input=rows, owner=inner, keys=(), summands=(Count(),)), 1)
    named = (owner, view.names[owner], sizes.field(inner).ref), (SIZE, SIZE, sizes.field(SIZE).ref)
    return sizes if inner == owner else Project(input=sizes, columns=named)


def norms_of(given: Contributions, order: int, columns: tuple[str, ...] = ()) -> Node:
    """The norm of each entity's contribution, to all sums or to those in `columns`: l1 or l2, as `order` says."""
    return Norms(input=given, owner=given.owner, columns=columns or given.totals, order=order)


class LearnedLimit(Frozen):
    """A limit on sizes, an estimate of the total size of entities within it, and the standard error of that estimate."""

    limit: int
    total: float
    deviation: float


def learned(sizes: Node, row: int, allotted: Cost, deviation: Deviation) -> Generator[Request, Any, LearnedLimit | None]:
    """The limit on sizes that minimises the total error of truncation and noise; None if the histogram does not show any.

    `sizes` has one row for each entity, with its size in the column `size`: `row`, if it has one row at its bound.
    """
    bins = 2 * OCTAVES
    binned = Project(input=sizes, columns=(("bin", "half power of two", bin_of(sizes.field(SIZE).ref, bins, row)),))
    noise = bought(1, allotted)
    told: MeasuredSums = yield NoisySums(plan=GroupedSums(input=binned, keys=("bin",), summands=(Count(),)), noises=(noise,),
                                         cells=Grid(axes=(tuple(range(bins + 1)),)))
    counts = np.array(told.totals[0][0], dtype=np.float64)
    place = best(counts, noise, row, deviation)
    if place is None:
        return None
    ends = ends_of(len(counts), row)
    middles = _middles(ends[: place + 1])
    return LearnedLimit(limit=math.ceil(ends[place]), total=float(counts[: place + 1] @ middles),
                        deviation=math.sqrt(noise.variance * float(middles @ middles)))


def drawn(sizes: Node, owner: str, allotted: Cost) -> Generator[Request, Any, int]:
    """A limit on sizes, drawn with probabilities that depend on how much is above it; 1 if the price is too small for any
    draw."""
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
    """The bin whose upper end is the limit; None if no bin is significant, or if one above the top is."""
    ends = ends_of(len(counts), row)
    pairs = (counts + np.concatenate(([0.0], counts[:-1]))) / math.sqrt(2)  # two bins may be significant together
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
    """The sum of all numbers above each place."""
    return np.append(np.cumsum(numbers[::-1])[::-1][1:], 0.0)


def _middles(ends: Reals) -> Reals:
    return ends * (1 + 2**-0.5) / 2


def ends_of(bins: int, row: int) -> Reals:
    """The upper ends of bins: half powers of two, scaled so that a row at its bound is one of them."""
    return np.asarray(row * 2.0 ** ((np.arange(bins) - _place(row)) / 2))


def _place(row: int) -> int:
    """The bin whose upper end is a row at its bound."""
    return math.floor(2 * math.log2(row))


def bin_of(size: Ref, bins: int, row: int = 1) -> Expr:
    """The least k >= 0 with size <= `ends_of(k)`, at most `bins`; -1 for a size of 0. Rounding can only change the bin."""
    def real(name: str, *args: Expr) -> Expr:
        return Call(function=name, args=args, type=Type.DOUBLE)

    def number(value: float) -> Expr:
        return Literal(value=value, type=Type.DOUBLE)

    steps = real("*", real("log2", Cast(input=size, target="DOUBLE", type=Type.DOUBLE)), number(2.0))
    if shift := 2 * math.log2(row) - _place(row):
        steps = real("-", steps, number(shift + 2**-30))  # so that a row at its bound is certainly below its end
    place = Cast(input=real("ceil", steps), target="INTEGER", type=Type.BIGINT)
    ends = ((">=", 2 ** (bins // 2), bins), ("<=", 0, -1), ("<=", 1, 0))
    branches = tuple((predicate(sign, size, whole(end)), whole(at)) for sign, end, at in ends)
    return Case(branches=branches, otherwise=place, type=Type.BIGINT)
