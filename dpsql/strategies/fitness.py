"""Fitness for use: every query has a largest allowed variance, and the strategy is the one that costs least.

Source: Xiao, He, Zhang and Kifer, Optimizing Fitness-For-Use of Differentially Private Linear Queries, PVLDB 2021. Theirs is a
Newton method on soft maxima; ours is the certified fixed point, which is faster and reaches the optimum.
"""

from __future__ import annotations

import math

import numpy as np

from dpsql.frozen import replace
from dpsql.strategies.fixed_point import solve
from dpsql.strategies.integers import whole
from dpsql.strategies.least_squares import LeastSquares, one_block
from dpsql.strategies.optimal import optimal
from dpsql.strategies.optimality_gap import OptimalityBound
from dpsql.strategies.strategy import Refusal, Strategy
from dpsql.workload.domain import CellDomain
from dpsql.workload.factors import Array, Dense, Factor, Total
from dpsql.workload.workload import Workload, joined, product_of


def plan(workload: Workload, targets: Array | None = None, *, gap: float = 1e-4, total: float = 0.0) -> Strategy | Refusal:
    """The strategy with the least largest ratio of variance to target; all targets are 1 if none are given.

    With `total` between 0 and 1 the value is (1 - total) times that and `total` times the mean variance over target, for those
    who also care for queries well within their targets.
    """
    goals = np.ones(workload.rows) if targets is None else np.asarray(targets, dtype=float)
    if not (goals > 0).all():
        raise ValueError("a target is a variance above zero")
    name = "fitness-for-use-hybrid" if total else "fitness-for-use"
    found = optimal(workload, name=name, targets=targets, share=1.0 - total, gap=gap)
    if isinstance(found, Refusal):
        return found
    ratios = found.strategy.variances(workload) / goals
    value = (1 - total) * float(ratios.max()) + total * float(ratios.mean())
    objective = "largest variance over target" if total == 0 else "mixture of the largest and the mean variance over target"
    return found.strategy.certified(OptimalityBound(objective=objective, value=value, bound=found.lower,
                                                    covers="Gaussian strategies"))


def price(strategy: Strategy, workload: Workload, targets: Array) -> float:
    """The least rho (or epsilon) at which the strategy meets every target."""
    factor = reach(strategy, workload, targets, 0.5 if strategy.noise == "gaussian" else 1.0)
    return factor / 2 if strategy.noise == "gaussian" else math.sqrt(factor)


def reach(strategy: Strategy, workload: Workload, targets: Array, price: float) -> float:
    """The least common factor by which targets must be multiplied so that they are met at this price."""
    return float((strategy.variances(workload, price) / targets).max())


def profile(strategy: Strategy) -> tuple[int, ...]:
    """The cost of a row of each cell, largest first, in units of the strategy's own integers.

    Of two strategies of equal price the one is more private whose profile comes first in lexicographic order (the refined order
    of privacy): it protects the rows of some cells better.
    """
    norms = [1]
    for factor in _only_block(strategy):
        norms = [norm * other for norm in norms for other in factor.column_powers(2)]
    return tuple(sorted(norms, reverse=True))


def filled(strategy: LeastSquares) -> LeastSquares:
    """The same strategy, extended by measurements of cells that cost nothing: cells whose rows are not the most sensitive
    ones.

    Proof. A multiple k of the indicator of cell j adds k^2 to the squared norm of column j alone, and k^2 is at most what the
    longest column has more. Least squares with more measurements has no larger variance.
    """
    factors: list[Factor] = []
    for factor in _only_block(strategy):
        powers = factor.column_powers(2)
        spare = np.array([math.isqrt(max(powers) - power) for power in powers], dtype=np.int64)
        extra = np.diag(spare)[spare > 0]
        factors.append(Dense(np.concatenate([factor.dense(), extra])) if len(extra) and not isinstance(factor, Total) else factor)
    return replace(strategy, measured=(one_block(*factors, scale=strategy.measured[0].scale),), certificate=None)


def refined(workload: Workload, targets: Array | None = None, *, gap: float = 1e-4) -> Strategy | Refusal:
    """Fitness for use with a second aim: better protection of rows that need less accuracy.

    Cells whose rows cost less than others in the optimum are limited to a part of the cost, the least with which the price stays
    within the gap. That is one level of the refined order of privacy.
    """
    flat = joined(workload)
    goals = np.ones(flat.rows) if targets is None else np.asarray(targets, dtype=float)
    first = solve(flat, targets=goals, gap=gap / 4)
    loose = (first.matrix**2).sum(axis=0) < 0.99
    low, high, best = 0.0, 1.0, first
    while loose.any() and high - low > 1 / 64:
        middle = (low + high) / 2
        tried = solve(flat, targets=goals, limits=np.where(loose, middle, 1.0), gap=gap / 4)
        if tried.upper <= first.lower * (1 + gap):
            high, best = middle, tried
        else:
            low = middle
    matrix = whole(best.matrix, flat)
    if matrix is None:
        return Refusal("its coefficients are not whole numbers, and its queries do not determine all cells")
    strategy = LeastSquares(name="fitness-for-use-refined", domain=CellDomain(flat.domain.attributes),
                            measured=(one_block(matrix),))
    value = float((strategy.variances(workload) / goals).max())
    return replace(strategy, certificate=OptimalityBound(objective="largest variance over target", value=value, bound=first.lower,
                                                         covers="Gaussian strategies"))


def _only_block(strategy: Strategy) -> tuple[Factor, ...]:
    (block,) = strategy.blocks
    return product_of(block, strategy.domain).factors
