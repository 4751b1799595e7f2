"""Products of ranges, prefixes and other queries over many attributes: residuals in directions that suit the queries.

For one attribute with queries of Gram matrix G, let X be the Gram matrix of a strategy (X_jj <= 1), alpha = 1 / (1' X^-1 1) and
pi = alpha X^-1 1. Then X = alpha 1 1' + V with V pi = 0: the strategy measures the total with variance 1/alpha and residuals in
the direction pi with V (see `residual`). All that other attributes feel of it are two numbers,

    r = max_j V_jj (tr(X^-1 G) - s / alpha),    s = pi' G pi,

residual and total. With noise of variance sigma_S^2 on kron_{i in S} R_i the total variance at cost 1 is (sum_S sqrt(v_S))^2 for

    v_S = sum over asked products A that contain S of prod_{i in S} r_i prod_{i in A but not S} s_i,

by Cauchy-Schwarz, as cost and variance are sums over S of c_S / sigma_S^2 and w_S sigma_S^2 (c_S the product of max V_jj).
Orthogonal planners are confined to pi = 1/n; here it is chosen with X.

Choosing. The best X for G + c 1 1' at cost 1 has the value (sqrt(r) + sqrt(s + c))^2 (the two terms of X^-1 split the same way),
so the strategies of least total variance for these Gram matrices, c >= 0, are the frontier of what r and s can be together. At
the optimum the derivatives a, b of sum_S sqrt(v_S) with respect to r and s are in the ratio a : b = sqrt(s + c) : sqrt(r) that
the frontier has at c; hence c <- r (a / b)^2 - s, which settles in a few rounds. An attribute that is asked in several ways has
their Gram matrices added with the weights a. Attributes that are asked alike are planned once.

It is the optimum for one attribute, and for a single product. Elsewhere it leaves out correlations between the noise of different
subsets: by a few thousandths in the cases whose optimum is known.

Source: Xiao, He, Zhang and Kifer, ResidualPlanner+, for Kronecker residuals of other bases (pi = 1/n); the oblique direction is
this project's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpsql.strategies.asked import Asked, Kind, Pair
from dpsql.strategies.base import Refusal
from dpsql.strategies.certificate import Certificate
from dpsql.strategies.fixed_point import solve
from dpsql.strategies.product_bound import product_bound
from dpsql.strategies.residual import Even, Oblique, Residuals, Split
from dpsql.workload.domain import DENSE, domain
from dpsql.workload.factors import Array, Dense, Identity, Total
from dpsql.workload.workload import Product, Workload

ROUNDS = 12
SETTLED = 1e-6  # relative change of the total variance
BITS = 18  # of the integer matrices; those of several attributes multiply


def plan(workload: Workload, *, gap: float = 1e-5) -> Residuals | Refusal:
    """The least total variance of strategies of this form."""
    if any(factor.n > DENSE and not isinstance(factor, Identity | Total) for part in workload.parts for factor in part.factors):
        return Refusal(f"matrices over pairs of values of an attribute are made for up to {DENSE} values")
    asked = Asked.of(workload)
    now = best = {kind: _planned(kind, np.ones(len(kind)), 0.0, gap) for kind in asked.different}
    least = asked.value({kind: each.pair for kind, each in now.items()})
    for _ in range(ROUNDS):
        slopes = asked.slopes({kind: each.pair for kind, each in now.items()})
        now = {kind: _improved(kind, each, *slopes[kind], gap) for kind, each in now.items()}
        value = asked.value({kind: each.pair for kind, each in now.items()})
        if value < least:
            best = now
        if value > least * (1 - SETTLED):
            break
        least = value
    return _strategy(asked, best)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A split for one kind of attribute, its numbers, and the weights of values that prove the best."""

    split: Split
    pair: Pair
    cells: Array


def _planned(kind: Kind, weights: Array, tilt: float, gap: float) -> Planned:
    """The split of the best strategy for the factors' Gram matrices, with these weights, and tilt * 1 1'."""
    n = kind[0].n
    split: Split
    if all(isinstance(factor, Identity) for factor in kind):
        split, cells = Even(n), np.full(n, 1 / n)
    else:
        split, cells = _solved(kind, weights, tilt, gap)
    pair = Pair(norm=float(max(split.factor.column_powers(2))),
                residuals=np.array([split.residual(factor).sum() for factor in kind]),
                totals=np.array([split.total(factor).sum() for factor in kind]))
    return Planned(split=split, pair=pair, cells=cells)


def _solved(kind: Kind, weights: Array, tilt: float, gap: float) -> tuple[Oblique, Array]:
    n = kind[0].n
    stacked = Workload(domain(n), tuple(Product((factor,)) for factor in (*kind, Total(n))))
    base = np.repeat(np.append(weights, tilt), [*(factor.rows for factor in kind), 1])
    base = np.maximum(base, 1e-9 * base.max())
    solution = solve(stacked, base=base / base.sum(), share=0.0, gap=gap)
    gram = solution.matrix.T @ solution.matrix + 1e-9 * np.eye(n)  # directions that no query needs are measured too, hardly
    inverse = np.linalg.inv(gram).sum(axis=1)
    values, vectors = np.linalg.eigh(gram - 1 / inverse.sum())
    rows = np.sqrt(np.maximum(values[1:], 0.0))[:, None] * vectors[:, 1:].T
    longest = np.sqrt((rows**2).sum(axis=0).max())
    return Oblique(Dense(np.rint(rows * 2.0**BITS / longest).astype(np.int64))), solution.cells


def _improved(kind: Kind, now: Planned, weights: Array, pulls: Array, gap: float) -> Planned:
    """The split where the frontier is as steep as the value is here."""
    if isinstance(now.split, Even):
        return now
    residual, total = weights @ now.pair.residuals * now.pair.norm, weights @ now.pair.totals
    steep = pulls @ now.pair.totals / total
    return _planned(kind, weights / weights.max(), max(0.0, residual / steep**2 - total) / weights.max(), gap)


def _strategy(asked: Asked, plans: dict[Kind, Planned]) -> Residuals:
    pairs = {kind: each.pair for kind, each in plans.items()}
    weights, costs, value = asked.weights(pairs), asked.costs(pairs), asked.value(pairs)
    ratios = np.divide(costs, weights, out=np.zeros_like(weights), where=weights > 0)
    scales = np.sqrt(math.sqrt(value) * np.sqrt(ratios))
    bound = product_bound(asked, {kind: each.cells for kind, each in plans.items()})
    return Residuals(
        name="oblique residual planner", domain=asked.workload.domain,
        splits=tuple(plans[kind].split if kind else Even(size)
                     for kind, size in zip(asked.kinds, asked.workload.domain.shape, strict=True)),
        scales={axes: scale for axes, scale in zip(asked.closure.kinds, scales.tolist(), strict=True) if scale > 0},
        certificate=Certificate(objective="total variance", value=value, bound=min(bound, value), covers="Gaussian strategies"))
