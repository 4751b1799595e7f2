"""Lower bounds of the total variance of products over many attributes, for any number of products.

For probabilities q of the cells, the total variance at squared cost 1 of any Gaussian mechanism is at least |W diag(q)^(1/2)|_*^2
(see `fixed_point`). Let q be a product, h_i = sqrt(q_i) entry by entry, and M_i = W_i diag(h_i) for the factors of a part A; an
attribute that is summed out contributes the row h_i'.

Few queries. The nuclear norm is the trace of the square root of W diag(q) W', every block of which is a Kronecker product. (A
factor may be replaced by any matrix with the same Gram matrix, and so by one with as many rows as its rank.)

Any number. |M|_* >= tr U'M for every U of norm at most 1. For each factor take U_i with U_i' U_i <= I, and for each part
U_A = kron_{i in A} U_i kron h_i' (outside A) times Z_A = sum_{S in A} z_AS Q_S, where Q_S projects on vectors that are orthogonal
to h_i for i in S and multiples of h_i elsewhere. Then sum_A U_A' U_A <= sum_S Q_S sum_A z_AS^2, which is at most I if all inner
sums are 1, and tr U_A' M_A = sum_S z_AS prod_{i in S} rho_i prod_{i in A but not S} tau_i with

    tau_i = h_i' U_i' M_i h_i,    rho_i = tr U_i' M_i - tau_i.

The best z_AS (Cauchy-Schwarz over A) gives the bound (sum_S (sum_A prod_S rho_i^2 prod_{A-S} tau_i^2)^(1/2))^2, of the same form
as the value of the oblique planner. U_i is the polar factor of M_i (h h' + k (I - h h')): k = 1 is the best for a single product,
where the bound is exact; with more attributes a greater k, and so a greater rho, is better.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import scipy

from dpsql.strategies import clock
from dpsql.strategies.marginal_products import Kind, MarginalProducts, Pair, Weights
from dpsql.strategies.optimality_gap import Covers, OptimalityBound
from dpsql.strategies.square_root import prefix_bound
from dpsql.strategies.strategy import Strategy
from dpsql.workload.domain import DENSE
from dpsql.workload.factors import Array, Factor, Identity, Prefix, Total
from dpsql.workload.workload import Product, Workload

SMALL = 1024  # most cells, or values of an attribute, for which eigenvalues are computed
FEW = 1500  # most rows of the matrix that is decomposed
LONGEST = 20  # seconds that a bound may take
BLOCK, POLAR = 2e-4, 5e-4  # approximate least time of a block and of a polar factor, in seconds
EMPHASES = (0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0)


def product_bound(asked: MarginalProducts, weights: Weights, cells: Mapping[Kind, Array]) -> float:
    """The better of the two bounds on the weighted total variance, for these probabilities of each kind's values; 0 if there is
    no time to compute either."""
    polar = sum(len(kind) * (POLAR + 4 * clock.EIGEN * float(kind[0].n) ** 3) for kind in asked.different if kind)
    if not _in_time(len(EMPHASES) * polar):
        return 0.0

    def value(pairs: Mapping[Kind, Pair]) -> float:
        return asked.value(pairs, weights.parts)

    pairs = {kind: [_pair(kind, weights.rows[kind], cells[kind], emphasis) for emphasis in EMPHASES] for kind in asked.different}
    best = max(({kind: each[at] for kind, each in pairs.items()} for at in range(len(EMPHASES))), key=value)
    for kind in asked.different:
        best = max(({**best, kind: pair} for pair in pairs[kind]), key=value)
    bound = value(best)
    rows = sum(math.prod(min(part.factors[i].shape) for i in part.axes) for part in asked.workload.parts)
    if rows <= FEW and _in_time(len(asked.workload.parts) ** 2 * BLOCK + clock.EIGEN * float(rows) ** 3):
        bound = max(bound, _decomposed(asked, weights, cells))
    return bound * (1 - 1e-9)


def _in_time(seconds: float) -> bool:
    return seconds < LONGEST and clock.allows(seconds)


def spectral_bound(workload: Workload) -> float:
    """A lower bound of the total variance of Gaussian strategies at squared cost 1, with q = 1/n for all values.

    It is the squared nuclear norm of W divided by the number of cells (Li and Miklau, 2013); the norm of a single product is the
    product of the norms of its factors. 0 where it is not computed.
    """
    if len(workload.parts) == 1:
        norms = [_nuclear(factor) for factor in workload.parts[0].factors]
        return math.prod(norms) ** 2 / workload.domain.size
    if workload.domain.size <= SMALL:
        values = np.linalg.eigvalsh(workload.gram())
        return float(np.sqrt(np.maximum(values, 0)).sum()) ** 2 / workload.domain.size
    if max(workload.domain.shape) > SMALL:
        return 0.0
    asked = MarginalProducts.of(workload)
    return product_bound(asked, asked.ones(), {kind: np.full(kind[0].n, 1 / kind[0].n) for kind in asked.different})


def _nuclear(factor: Factor) -> float:
    if isinstance(factor, Identity):
        return float(factor.n)
    if isinstance(factor, Total):
        return math.sqrt(factor.n)
    if isinstance(factor, Prefix):
        return factor.n * math.sqrt(prefix_bound(factor.n))
    if factor.n > DENSE:
        return 0.0
    if factor.rows < factor.n:  # W W' has the eigenvalues of W'W but for zeros, which rounding would make positive
        rows = factor.dense().astype(float)
        gram = rows @ rows.T
    else:
        gram = factor.gram()
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0)).sum())


def _root(gram: Array) -> Array:
    """A matrix of full row rank with this Gram matrix."""
    values, vectors = scipy.linalg.eigh(gram, driver="evd", check_finite=False)
    kept = values > 1e-13 * values[-1]
    return np.asarray((vectors[:, kept] * np.sqrt(values[kept])).T)


def valued(strategy: Strategy, workload: Workload, *, bounded: bool = True) -> Strategy:
    """The strategy with its total variance and, if `bounded`, a lower bound on that of all strategies with the same kind of
    noise."""
    covers: Covers = "Laplace strategies" if strategy.noise == "laplace" else "Gaussian strategies"
    bound = spectral_bound(workload) * (2 if strategy.noise == "laplace" else 1) if bounded else 0.0
    value = float(strategy.variances(workload).sum())
    return strategy.certified(OptimalityBound(objective="total variance", value=value, bound=bound, covers=covers))


def _pair(kind: Kind, rows: tuple[Array, ...], cells: Array, emphasis: float) -> Pair:
    """rho^2 and tau^2 of each factor."""
    if all(isinstance(factor, Identity) for factor in kind) and np.ptp(cells) == 0 and all(np.ptp(each) == 0 for each in rows):
        scales, n = np.array([each[0] for each in rows]), len(cells)  # M is a multiple of the identity
        return Pair(residuals=scales * (n - 1) ** 2 / n, totals=scales / n)
    found = np.array([_polar(factor.gram(each), cells, emphasis) for factor, each in zip(kind, rows, strict=True)])
    return Pair(residuals=np.maximum(found[:, 0], 0.0) ** 2, totals=np.maximum(found[:, 1], 0.0) ** 2)


def _polar(gram: Array, cells: Array, emphasis: float) -> tuple[float, float]:
    """rho and tau, from U'M = ((M T)' M T)^(-1/2) T M'M with T = h h' + emphasis (I - h h')."""
    root = np.sqrt(cells)
    across = np.outer(root, root)
    tilted = across + emphasis * (np.eye(len(cells)) - across)
    values, vectors = scipy.linalg.eigh(tilted @ (gram * across) @ tilted, driver="evd", check_finite=False)
    kept = values > 1e-10 * values[-1]
    inverse = (vectors[:, kept] / np.sqrt(values[kept])) @ vectors[:, kept].T
    turned = inverse @ tilted @ (gram * across)
    tau = float(root @ turned @ root)
    return float(np.trace(turned)) - tau, tau


def _decomposed(asked: MarginalProducts, weights: Weights, cells: Mapping[Kind, Array]) -> float:
    """tr((W diag(q) W')^(1/2))^2."""
    roots = {kind: tuple(_root(factor.gram(each)) for factor, each in zip(kind, weights.rows[kind], strict=True))
             for kind in asked.different}
    chances = [cells[kind] if kind else np.full(size, 1 / size)
               for kind, size in zip(asked.kinds, asked.workload.domain.shape, strict=True)]

    def side(part: Product, axis: int) -> Array:
        return asked.of_part(roots, part, axis) if axis in part.axes else np.ones((1, len(chances[axis])))

    def block(a: Product, b: Product) -> Array:
        whole: Array = np.ones((1, 1))
        for i in sorted({*a.axes, *b.axes}):
            whole = np.asarray(np.kron(whole, (side(a, i) * chances[i]) @ side(b, i).T), dtype=float)
        return whole

    parts, own = asked.workload.parts, np.sqrt(weights.parts)
    matrix = np.block([[x * y * block(a, b) for b, y in zip(parts, own, strict=True)] for a, x in zip(parts, own, strict=True)])
    values = scipy.linalg.eigvalsh(matrix, check_finite=False)
    near = 4 * len(values) ** 0.5 * np.finfo(float).eps * float(values[-1])
    return float(np.sqrt(np.maximum(values - near, 0.0)).sum() ** 2)
