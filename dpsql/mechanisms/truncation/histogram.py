"""How much of an entity to keep, learned from a noisy histogram of how much entities have.

Every entity is in one bin, by the half power of two that its rows, or the norm of what it adds, are below: so all bins together
cost as much as one count. Bins are aligned so that one of them ends at a row at its bound, as many totals may.

The top is the end t with the least N(t) + STEEPNESS * scale * ln t, for N(t) the noisy number of entities above it: to go up
by a factor of r there must be STEEPNESS * ln r scales of noise more entities between. The noise of empty bins is a random
walk against this drift d, in scales for each bin. By Chernoff's bound it reaches a limit k bins too high with a probability
of exp(-k sup_l (l d + ln(1 - l^2))) for Laplace noise and exp(-k d^2 / 2) for normal noise, while the square of the error is
2^k times as large: 2 exp(-0.80) and 2 exp(-0.96) are below one, so that what false alarms add to the mean square error does
not grow with the ladder. It is the rule of the exponential mechanism for a quantile, with a prior of t^-STEEPNESS; the draw
itself errs as much at the same price (simulated on 27 data sets at epsilon 0.2 to 5), but tells nothing else. Below the top
the limit is the end for which what is cut off and the noise are smallest together, by the same counts.

Nothing rests on the limit but the error: it is enforced, whatever it is.

Few entities, or such as differ much, stand out nowhere, or elsewhere than the top is. Then a limit of rows is drawn as `balance`
draws levels, by how much is above it: that takes of what is left for the sums, but it sees sums and not bins.

Against the sparse vector technique (which needs noise for its limit and for each question, and learns of one step only), and
against the sums of bands themselves (`bands`), the error of the sum is smaller by a third and more. That bins are of half powers
was chosen there: with whole ones the limit is up to twice what is needed, with thirds more noise is added up. Before, the top
was the highest bin of those that stand out one after the other: where few entities have most of the total, each of their
bins is too thin for that, and the error was 15 times that of the best. `tests/bench/clips.py` prints it beside the best limit
in hindsight, `tests/bench/tpch.py` beside other ways.

Source of the idea: the approximate bounds of Wilson et al., Differentially Private SQL with Bounded User Contribution, PoPETs
2020; here what is cut off is weighed against the noise.

STEEPNESS   by the noise; normal noise has thinner tails
SURELY      below the top, errors are compared with that of the top times this: counts there are noisy, and the least of many
            estimates is too small
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

OCTAVES = 50  # totals of entities are held within 2^50
STEEPNESS, SURELY = {True: 6.0, False: 4.0}, 0.85
CAUTION = 2.0  # a limit t that is drawn has the prior weight t^-CAUTION, which bounds the mean square of what is too high

Deviation = Callable[[float], float]
"""The standard error of the noise for a limit, over all cells together."""


def deviation_of(allotted: Cost, cells: int) -> Deviation:
    """That of so many sums which an entity moves by the limit, told for this amount."""
    unit = math.sqrt(2) / float(allotted.epsilon) if allotted.epsilon is not None else 1 / math.sqrt(2 * allotted.rho)
    return lambda limit: limit * unit * max(1, cells)


def rows_of(view: Node, owner: str) -> Node:
    """The number of rows of each entity."""
    owned = Project(input=view, columns=((owner, view.names[owner], view.field(owner).ref),))
    return GroupBy(input=owned, keys=(owner,), folds=(Fold(id=SIZE, name="rows", function="count"),))


def norms_of(given: Contributions, order: int) -> Node:
    """How much each entity adds."""
    return Norms(input=given, owner=given.owner, columns=given.totals, order=order)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedLimit:
    """A limit of sizes, about how much entities that have no more have together, and the standard error of that."""

    limit: int
    total: float
    deviation: float


def learned(sizes: Node, row: int, allotted: Cost, deviation: Deviation) -> Generator[Request, Any, LearnedLimit | None]:
    """The limit of sizes for which what is cut off and the noise are smallest; None where the histogram does not show any.

    `sizes` has one row for each entity, and how much it has in the column `size`: `row`, if it has one row at its bound.
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
    """A limit of sizes that is drawn by how much is above it; 1 where the price is too small for any."""
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
    """The bin at whose upper end to cut, if there is one that the counts agree on."""
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
    """For each place the sum of what is above it."""
    return np.append(np.cumsum(numbers[::-1])[::-1][1:], 0.0)


def _middles(ends: Reals) -> Reals:
    return ends * (1 + 2**-0.5) / 2


def ends_of(bins: int, row: int) -> Reals:
    """Where bins end: half powers of two, times what makes one of them end at a row at its bound."""
    return np.asarray(row * 2.0 ** ((np.arange(bins) - _place(row)) / 2))


def _place(row: int) -> int:
    """The bin that ends at a row at its bound."""
    return math.floor(2 * math.log2(row))


def bin_of(size: Ref, bins: int, row: int = 1) -> Expr:
    """The least k >= 0 with size <= `ends_of(k)`, `bins` at most, and -1 for nothing; up to roundings, which only move bins."""
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
