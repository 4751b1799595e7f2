"""Products of ranges, prefixes and other queries over many attributes: residuals in directions chosen for the queries.

For one attribute with queries of Gram matrix G, let X be the Gram matrix of a strategy (X_jj <= 1), alpha = 1 / (1' X^-1 1) and
pi = alpha X^-1 1. Then X = alpha 1 1' + V with V pi = 0: the strategy measures the total with variance 1/alpha and residuals in
the direction pi with V (see `residual`). For the other attributes only two numbers matter,

    r = max_j V_jj (tr(X^-1 G) - s / alpha),    s = pi' G pi,

residual and total. With noise of variance sigma_S^2 on kron_{i in S} R_i the total variance at cost 1 is (sum_S sqrt(v_S))^2 for

    v_S = sum over the workload's products A that contain S of prod_{i in S} r_i prod_{i in A but not S} s_i,

by Cauchy-Schwarz, as cost and variance are sums over S of c_S / sigma_S^2 and w_S sigma_S^2 (c_S the product of max V_jj).
Orthogonal planners require pi = 1/n; here pi follows from the choice of X.

Choice of X. The best X for G + c 1 1' at cost 1 has the value (sqrt(r) + sqrt(s + c))^2 (the two terms of X^-1 split the same
way), so the strategies of least total variance for these Gram matrices, c >= 0, form the Pareto frontier of (r, s). At the
optimum the derivatives a, b of sum_S sqrt(v_S) with respect to r and s are in the ratio a : b = sqrt(s + c) : sqrt(r) that
the frontier has at c; hence c <- r (a / b)^2 - s, which converges in a few rounds. If several factors query an
attribute, their Gram matrices are added with the weights a. Attributes with the same queries are planned once.

The result is optimal for one attribute and for a single product. Otherwise it ignores correlations between the noises of
different subsets, which costs a few thousandths in the cases whose optimum is known.

Source: Xiao, He, Zhang and Kifer, ResidualPlanner+, for Kronecker residuals of other bases (pi = 1/n); the oblique direction is
this project's.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from dpsql.errors import Unsupported
from dpsql.frozen import Frozen
from dpsql.strategies import clock
from dpsql.strategies.climb import climb
from dpsql.strategies.fixed_point import solve
from dpsql.strategies.integers import bits_of, rounded
from dpsql.strategies.marginal_products import Kind, MarginalProducts, Pair, Weights
from dpsql.strategies.optimal import TURNS, check_long, eigen
from dpsql.strategies.optimality_gap import OptimalityBound
from dpsql.strategies.product_bound import product_bound
from dpsql.strategies.residual import Even, Oblique, Residuals, Split, subsets
from dpsql.strategies.residual_planner import MarginalLook
from dpsql.strategies.strategy import Refusal
from dpsql.workload.domain import domain
from dpsql.workload.factors import Array, Dense, Identity, Total
from dpsql.workload.workload import Product, Workload

ROUNDS = 12
FITTINGS = 10
WAYS = 24  # most sets of queries of one attribute; each needs computations of its own in every round
MANY = 200_000  # most queries whose variances are computed one by one
GAP = 2e-6  # relative optimality gap of the strategy of each attribute
SETTLED = 1e-6  # relative change of the total variance


def plan(workload: Workload, targets: Array | None = None) -> Residuals | Refusal:
    """The strategy of this form with the least total variance or, with targets, the least largest ratio of variance to target
    found."""
    if len(workload.domain.shape) == 1 and not clock.allows(TURNS * eigen(workload.domain.size)):
        return Refusal("there is one attribute, and no time for another search over its values")
    try:
        factors = [factor for part in workload.parts for factor in part.factors]
        check_long(max((factor.n for factor in factors if not isinstance(factor, Identity | Total)), default=1))
    except Unsupported as refused:
        return Refusal(refused.reason)
    if any(size < 2 for size in workload.domain.shape):
        return Refusal("an attribute has a single value, so it has no residual beside its total")
    asked = MarginalProducts.of(workload)
    most = max((len(kind) for kind in asked.kinds), default=0)
    if most > WAYS:
        return Refusal(f"an attribute has {most} different sets of queries, where {WAYS} is the limit")
    bits = bits_of(max(len(part.axes) for part in workload.parts))
    if targets is None:
        plans, ones = _least(asked, asked.ones(), {}, bits), asked.ones()
        strategy, value = _strategy(asked, ones, plans)
        objective, bound = "total variance", product_bound(asked, ones, {kind: each.cells for kind, each in plans.items()})
    elif workload.rows > MANY:
        return Refusal(f"targets for single queries are limited to {MANY} queries")
    else:
        strategy, value, bound = _fitted(asked, np.asarray(targets, dtype=float), bits)
        objective = "largest variance over target"
    return strategy.certified(OptimalityBound(objective=objective, value=value, bound=min(bound, value),
                                              covers="Gaussian strategies"))


class Planned(Frozen):
    """A split for one kind of attribute, its r and s, and the probabilities of values for the lower bound."""

    split: Split
    pair: Pair
    cells: Array
    tilt: float


def _least(asked: MarginalProducts, weights: Weights, plans: dict[Kind, Planned], bits: int) -> dict[Kind, Planned]:
    """The splits of least weighted total variance, starting from the tilts c of given ones."""
    now = best = {kind: _planned(kind, weights.rows[kind], np.ones(len(kind)), plans[kind].tilt if kind in plans else 0.0, bits)
                  for kind in asked.different}
    least = asked.value(_pairs(now), weights.parts)
    for _ in range(ROUNDS):
        slopes = asked.slopes(_pairs(now), weights.parts)
        now = {kind: _improved(kind, weights.rows[kind], each, *slopes[kind], bits) for kind, each in now.items()}
        value = asked.value(_pairs(now), weights.parts)
        if value < least:
            best = now
        if value > least * (1 - SETTLED) or clock.over():
            break
        least = value
    return best


def _fitted(asked: MarginalProducts, targets: Array, bits: int) -> tuple[Residuals, float, float]:
    """Splits for a sequence of weights that even out the variances over their targets, v, and the best noise for each.

    Weights w are replaced by w v, approximated by a product. The largest of v is at least its mean under any weights, so every w
    gives a lower bound: that of the weighted total variance, divided by the weighted sum of the targets. For given splits the
    best noise is that of the residual planner, with queries in place of marginals. Returns the best value and bound seen.
    """
    weights, plans = asked.ones(), dict[Kind, Planned]()
    best, value, bound = None, math.inf, 0.0
    for _ in range(FITTINGS):
        plans = _least(asked, weights, plans, bits)
        found = _evened(asked, plans, targets)
        if found.upper < value:
            best, value = _measured(asked, plans, found.noise), found.upper
        mean = float(asked.each(weights) @ targets)
        bound = max(bound, product_bound(asked, weights, {kind: each.cells for kind, each in plans.items()}) / mean)
        if value < bound * (1 + 1e-3) or clock.over():
            break
        ratios = _strategy(asked, weights, plans)[0].variances(asked.workload) / targets
        weights = _reweighted(asked, weights, ratios / ratios.max())
    assert best is not None
    return best, value, bound


def _evened(asked: MarginalProducts, plans: dict[Kind, Planned], targets: Array) -> MarginalLook:
    """The noise of each subset for which the largest variance over target is least, for given splits."""
    numbers = {axes: number for number, axes in enumerate(asked.closure.kinds)}
    rows, shares = [], []
    for part in asked.workload.parts:
        splits = {axis: plans[asked.kinds[axis]].split for axis in part.axes}
        residuals = {axis: split.residual(part.factors[axis]) for axis, split in splits.items()}
        totals = {axis: split.total(part.factors[axis]) for axis, split in splits.items()}
        for axes in subsets(part.axes):
            share = np.ones(())
            for axis in part.axes:
                share = np.multiply.outer(share, residuals[axis] if axis in axes else totals[axis])
            rows.append(np.full(part.rows, numbers[axes]))
            shares.append(share.reshape(-1))
    columns = np.concatenate([np.tile(np.arange(at.start, at.stop), 2 ** len(part.axes))
                              for part, at in zip(asked.workload.parts, asked.workload.slices, strict=True)])
    entries = np.concatenate(shares) / targets[columns]
    pairs = scipy.sparse.coo_array((entries, (np.concatenate(rows), columns)), shape=(len(numbers), len(targets)))
    start = MarginalLook(privacy=asked.costs(_pairs(plans)), share=scipy.sparse.csr_array(pairs),
                         chances=np.full(len(targets), 1 / len(targets)))
    return climb(start, 1e-3, 200)[1]


def _reweighted(asked: MarginalProducts, weights: Weights, ratios: Array) -> Weights:
    """The product of the marginals of the weights times the ratios."""
    wanted = asked.each(weights) * ratios
    parts = np.array([wanted[at].sum() for at in asked.workload.slices])
    rows = {kind: tuple(np.zeros(factor.rows) for factor in kind) for kind in asked.different}
    for part, at in zip(asked.workload.parts, asked.workload.slices, strict=True):
        table = wanted[at].reshape(tuple(part.factors[axis].rows for axis in part.axes))
        for place, axis in enumerate(part.axes):
            kind = asked.kinds[axis]
            rows[kind][kind.index(part.factors[axis])][:] += table.sum(axis=tuple(i for i in range(table.ndim) if i != place))
    even = {kind: tuple(each * len(each) / each.sum() for each in found) for kind, found in rows.items()}
    sizes = np.array([part.rows for part in asked.workload.parts])
    return Weights(parts=parts / sizes / (parts / sizes).max(), rows=even)


def _planned(kind: Kind, rows: tuple[Array, ...], weights: Array, tilt: float, bits: int) -> Planned:
    """The split of the best strategy for the factors' Gram matrices, with these weights, and tilt * 1 1'."""
    n = kind[0].n
    split: Split
    if all(isinstance(factor, Identity) and np.ptp(each) == 0 for factor, each in zip(kind, rows, strict=True)):
        split, cells = Even(n), np.full(n, 1 / n)
    else:
        split, cells = _solved(kind, rows, weights, tilt, bits)
    pair = Pair(norm=float(max(split.factor.column_powers(2))),
                residuals=np.array([each @ split.residual(factor) for factor, each in zip(kind, rows, strict=True)]),
                totals=np.array([each @ split.total(factor) for factor, each in zip(kind, rows, strict=True)]))
    return Planned(split=split, pair=pair, cells=cells, tilt=tilt)


def _pairs(plans: dict[Kind, Planned]) -> dict[Kind, Pair]:
    return {kind: each.pair for kind, each in plans.items()}


def _solved(kind: Kind, rows: tuple[Array, ...], weights: Array, tilt: float, bits: int) -> tuple[Oblique, Array]:
    n = kind[0].n
    stacked = Workload(domain(n), tuple(Product((factor,)) for factor in (*kind, Total(n))))
    base = np.concatenate([weight * each for weight, each in zip(weights, rows, strict=True)] + [np.array([tilt])])
    base = np.maximum(base, 1e-9 * base.max())
    solution = solve(stacked, base=base / base.sum(), share=0.0, gap=GAP)
    gram = solution.matrix.T @ solution.matrix + 1e-7 * np.eye(n)  # unneeded directions: weakly measured
    inverse = np.linalg.inv(gram).sum(axis=1)
    values, vectors = np.linalg.eigh(gram - 1 / inverse.sum())
    return Oblique(Dense(rounded(np.sqrt(np.maximum(values[1:], 0.0))[:, None] * vectors[:, 1:].T, bits))), solution.cells


def _improved(kind: Kind, rows: tuple[Array, ...], now: Planned, weights: Array, pulls: Array, bits: int) -> Planned:
    """The split at the point of the frontier where its slope is that of the value here."""
    if isinstance(now.split, Even):
        return now
    residual, total = weights @ now.pair.residuals * now.pair.norm, weights @ now.pair.totals
    steep = pulls @ now.pair.totals / total
    return _planned(kind, rows, weights / weights.max(), max(0.0, residual / steep**2 - total) / weights.max(), bits)


def _strategy(asked: MarginalProducts, weights: Weights, plans: dict[Kind, Planned]) -> tuple[Residuals, float]:
    """The strategy and its weighted total variance at cost 1."""
    pairs = _pairs(plans)
    sums, costs, value = asked.sums(pairs, weights.parts), asked.costs(pairs), asked.value(pairs, weights.parts)
    ratios = np.divide(costs, sums, out=np.zeros_like(sums), where=sums > 0)
    return _measured(asked, plans, math.sqrt(value) * np.sqrt(ratios)), value


def _measured(asked: MarginalProducts, plans: dict[Kind, Planned], noise: Array) -> Residuals:
    """The strategy with these variances of the noise of each subset; none is measured whose variance is zero."""
    splits = tuple(plans[kind].split if kind else Even(size)
                   for kind, size in zip(asked.kinds, asked.workload.domain.shape, strict=True))
    spreads = zip(asked.closure.kinds, np.sqrt(noise).tolist(), strict=True)
    return Residuals(name="oblique-residual-planner", domain=asked.workload.domain, splits=splits,
                     scales={axes: spread for axes, spread in spreads if spread > 0})
