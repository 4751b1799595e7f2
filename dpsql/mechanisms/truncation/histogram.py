"""How much of an entity to keep, learned from a noisy histogram of how much entities have.

Every entity is in one bin, by the half power of two that its rows, or the norm of what it adds, are below: so all bins together
cost as much as one count. From the bins that stand out, the limit is taken for which what is cut off and the noise are
smallest together. Nothing rests on it but the error: the limit is enforced, whatever it is.

Few entities, or such as differ much, stand out nowhere. Then a limit of rows is drawn as `balance` draws levels, by how much is
above it: that needs a larger part of the price, which is taken of what is left for the sums, but it sees sums and not bins.

Against the sparse vector technique (which needs noise for its limit and for each question, and learns of one step only), and
against the sums of bands themselves (`bands`), the median error of the sum on 32 data sets and six prices is smaller by a
third; `tests/bench/tpch.py` prints some of it. There the share of the price was chosen, and that bins are of half powers: with
whole ones the limit is up to twice what is needed. Two bins together stand out where each alone is too thin.

Source of the idea: the approximate bounds of Wilson et al., Differentially Private SQL with Bounded User Contribution, PoPETs
2020; here what is cut off is weighed against the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from fractions import Fraction
from typing import Any

import numpy as np

from dpsql.accounting.cost import Cost
from dpsql.measurements import COARSEST, BalancedLevel, ExtensionSums, MeasuredSums, Noise, NoisySums, Request, score_range
from dpsql.mechanisms.additive_noise import bought, scale_of
from dpsql.mechanisms.significance import Reals, top_of
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


def learned(sizes: Node, row: int, allotted: Cost, deviation: Deviation) -> Generator[Request, Any, int | None]:
    """The limit of sizes for which what is cut off and the noise are smallest; None where nothing stands out.

    `sizes` has one row for each entity, and how much it has in the column `size`: `row`, if it has one row at its bound.
    """
    bins = 2 * OCTAVES
    binned = Project(input=sizes, columns=(("bin", "half power of two", bin_of(sizes.field(SIZE).ref, bins)),))
    noise = bought(1, allotted)
    told: MeasuredSums = yield NoisySums(plan=GroupedSums(input=binned, keys=("bin",), summands=(Count(),)), noises=(noise,),
                                         cells=tuple((place,) for place in range(bins + 1)))
    place = best(np.array(told.totals[0][0], dtype=np.float64), noise, row, deviation)
    return None if place is None else math.ceil(2 ** (place / 2))


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
    """The bin at whose upper end to cut, if one stands out."""
    pairs = (counts + np.concatenate(([0.0], counts[:-1]))) / math.sqrt(2)
    top = top_of(np.maximum(counts, pairs), noise, usual=math.ceil(2 * math.log2(row)), steps=2)
    if top < 0:
        return None
    ends = 2.0 ** (np.arange(top + 1) / 2)
    middles, there = ends * (1 + 2**-0.5) / 2, np.maximum(counts[: top + 1], 0)
    cut = [float((there[place + 1 :] * np.maximum(middles[place + 1 :] - ends[place], 0)).sum()) for place in range(top + 1)]
    return int(np.argmin([math.hypot(cut[place], deviation(float(ends[place]))) for place in range(top + 1)]))


def bin_of(size: Ref, bins: int) -> Expr:
    """The least k >= 0 with size <= 2^(k/2), `bins` at most, and -1 for nothing; up to roundings, which only move bins."""
    def real(name: str, *args: Expr) -> Expr:
        return Call(function=name, args=args, type=Type.DOUBLE)

    octaves = real("log2", Cast(input=size, target="DOUBLE", type=Type.DOUBLE))
    place = Cast(input=real("ceil", real("*", octaves, Literal(value=2.0, type=Type.DOUBLE))), target="INTEGER", type=Type.BIGINT)
    ends = ((">=", 2 ** (bins // 2), bins), ("<=", 0, -1), ("<=", 1, 0))
    branches = tuple((predicate(sign, size, whole(end)), whole(at)) for sign, end, at in ends)
    return Case(branches=branches, otherwise=place, type=Type.BIGINT)
