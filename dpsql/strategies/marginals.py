"""Weighted marginals for Laplace noise: complete marginal tables are measured, and every query is answered from all of them.

Marginal S with weight theta_S (noise of scale 1 / theta_S) costs theta_S, as a row is in one cell of it. The Gram matrices of
marginals commute: their common eigenspaces are the residuals of subsets T (see `residual`), on which marginal S has the
eigenvalue prod_{i not in S} n_i if T is within S, and 0 otherwise. So least squares comes down to one number for each T: its
residual, summed up over the attributes outside of T, is the mean of what the marginals above say of it, of variance

    v_T = 2 / sum_{S >= T} theta_S^2 / prod_{i in S but not T} n_i,

and the total error at epsilon = 1 is (sum theta)^2 sum_T c_T v_T, where c_T counts how much of the residual T the queries ask for
(`MarginalProducts.sums` for the even split). Sums of exponentials of log theta are minimised by descent from a few starts; the
problem is not convex. No step is over all cells. Measured are subsets of what is asked, and larger ones where they are not too
many, as one table of few cells may answer for several: the best starts are covers, in which every asked marginal is within a
measured one (for all three-way marginals of eight attributes of ten values it is a Steiner system: 14 four-way tables instead of
56).

Source: McKenna, Miklau, Hay and Machanavajjhala, HDMM, PVLDB 2018 (OPT_M), where all 2^d marginals take part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import scipy

from dpsql.strategies.closure import closure
from dpsql.strategies.marginal_products import MarginalProducts, Pair
from dpsql.strategies.product_bound import valued
from dpsql.strategies.residual import Even, Residuals, subsets
from dpsql.strategies.strategy import Block, Refusal, Strategy
from dpsql.trusted.cached import cached_property
from dpsql.workload.factors import Array, Identity
from dpsql.workload.workload import Workload

MANY = 2000  # marginals that are tried, if more than the subsets of those that are asked for
ASIDE = -4.0  # the logarithm of the weight at the start of marginals that are not in the cover
CELLS = 10**7  # of a marginal that is measured
STEPS, SETTLED = 2000, 1e-11
LEAST_WEIGHT = 1e-5  # of all weights: a marginal below is not measured


def plan(workload: Workload, targets: Array | None = None) -> Strategy | Refusal:
    """The strategy of weighted marginals with the best weights found."""
    if targets is not None:
        return Refusal("it minimises the total variance")
    asked = MarginalProducts.of(workload)
    shape = workload.domain.shape
    pairs = {kind: Pair(residuals=np.array([Even(kind[0].n).residual(factor).sum() for factor in kind]) * kind[0].n**2,
                        totals=np.array([Even(kind[0].n).total(factor).sum() for factor in kind])) for kind in asked.different}
    wanted = dict(zip(asked.closure.kinds, asked.sums(pairs, np.ones(len(workload.parts))).tolist(), strict=True))
    measured = candidates(asked)
    measured = [kind for kind in measured if math.prod(shape[i] for i in kind) <= CELLS]
    if any(not any(set(kind) <= set(other) for other in measured) for kind in {part.axes for part in workload.parts}):
        return Refusal(f"marginals of more than {CELLS} cells are not measured")
    weights = found(measured, wanted, shape, cover(measured, asked) if len(measured) <= MANY else [])
    return valued(Marginals(name="marginals", domain=workload.domain, noise="laplace", weights=weights), workload)


def candidates(asked: MarginalProducts) -> list[tuple[int, ...]]:
    """The marginals that may be measured: subsets of the requested ones, and larger ones as long as there are not too many."""
    axes = sorted({axis for part in asked.workload.parts for axis in part.axes})
    found = dict.fromkeys(asked.closure.kinds)
    for size in range(1, len(axes) + 1):
        if len(found) + math.comb(len(axes), size) <= MANY:
            found |= dict.fromkeys(combinations(axes, size))
    return list(found)


def cover(measured: Sequence[tuple[int, ...]], asked: MarginalProducts) -> list[int]:
    """Marginals that together contain every requested one, chosen greedily: the next one is the cheapest for what it adds.

    Groups of queries with total errors e_g at epsilon = 1, each at a share of its own, have (sum e_g^(1/3))^3 together at the
    best shares; so a marginal costs the third root of the error of what is new in it, and is worth the sum of the third roots of
    the errors that the same queries would have by themselves. Of equals the first is taken, which is what makes Steiner systems.
    """
    shape, parts = asked.workload.domain.shape, asked.workload.parts
    kinds = sorted({part.axes for part in parts})
    errors = np.array([sum(math.prod(float(part.factors[i].row_norms2().sum()) for i in kind)
                           for part in parts if part.axes == kind) for kind in kinds])
    inside = np.array([[set(kind) <= set(other) for kind in kinds] for other in measured])
    cells = np.array([math.prod(shape[i] for i in kind) for kind in measured], dtype=float)
    wider = inside * cells[:, None] / np.array([math.prod(shape[i] for i in kind) for kind in kinds])
    left, chosen = np.ones(len(kinds), dtype=bool), list[int]()
    while left.any():
        worth = inside @ (left * np.cbrt(errors))
        price = np.cbrt(wider @ (left * errors))
        best = int(np.argmax(np.divide(worth, price, out=np.zeros_like(worth), where=worth > 0).round(9)))
        chosen.append(best)
        left &= ~inside[best]
    return chosen


def found(measured: Sequence[tuple[int, ...]], wanted: dict[tuple[int, ...], float], shape: Sequence[int],
          covering: Sequence[int]) -> dict[tuple[int, ...], float]:
    """Weights that add up to 1, for the marginals that are worth measuring."""
    within = sharing(measured, shape)
    counts = np.array([wanted.get(kind, 0.0) for kind in measured])
    within, counts = within[counts > 0], counts[counts > 0]

    def loss(logs: Array) -> tuple[float, Array]:
        theta = np.exp(logs - logs.max())
        known = within @ theta**2
        error = counts / known
        total, spent = float(error.sum()), float(theta.sum())
        slope = 2 * theta / spent - 2 * theta**2 * (within.T @ (error / known)) / total
        return 2 * math.log(spent) + math.log(total), slope

    sizes = np.array([len(kind) for kind in measured])
    cells = np.array([math.prod(shape[i] for i in kind) for kind in measured], dtype=float)
    direct = np.array([1.0 if wanted.get(kind, 0.0) > 0 else 0.05 for kind in measured])
    starts = [np.zeros(len(measured)), np.log(direct), 0.5 * sizes, -0.2 * np.log(cells)]
    if covering:
        starts.append(np.where(np.isin(np.arange(len(measured)), covering), 0.0, ASIDE))
    tried = [scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B",
                                     options={"maxiter": STEPS, "ftol": SETTLED, "maxcor": 20}) for start in starts]
    best = min(tried, key=lambda each: float(each.fun)).x
    theta = np.exp(best - best.max())
    theta = theta / theta.sum()
    kept = theta >= LEAST_WEIGHT / len(theta)
    return {kind: float(weight) for kind, weight, keep in zip(measured, theta, kept, strict=True) if keep}


def sharing(measured: Sequence[tuple[int, ...]], shape: Sequence[int]) -> scipy.sparse.csr_array:
    """For each T (row) and S >= T (column) of the marginals 1 / prod_{i in S but not T} n_i."""
    below = closure(measured)
    sizes = {kind: math.prod(shape[i] for i in kind) for kind in {*below.kinds, *measured}}
    within = below.within()
    order = {kind: at for at, kind in enumerate(below.kinds)}
    rows = within[[order[kind] for kind in measured]]
    own = np.array([float(sizes[kind]) for kind in measured])
    return scipy.sparse.csr_array(scipy.sparse.diags_array(own) @ rows @ scipy.sparse.diags_array(1 / own))


class Marginals(Strategy):
    """Marginal tables and their weights; the scales of their noise are the inverse weights."""

    weights: dict[tuple[int, ...], float]

    @cached_property
    def _blocks(self) -> Sequence[Block]:
        shape = self.domain.shape
        return [Block(axes=axes, factors=tuple(Identity(shape[i]) for i in axes), scale=1 / weight)
                for axes, weight in self.weights.items()]

    @property
    def blocks(self) -> Sequence[Block]:
        return self._blocks

    def variance_of(self, workload: Workload) -> Array:
        return self._residuals.variance_of(workload)

    def reconstruct(self, answers: Sequence[Array], workload: Workload) -> Array:
        """Combine the weighted estimates of each residual from all marginals above it, then answer from the residuals."""
        given = {axes: np.asarray(answer, dtype=float).reshape(tuple(self.domain.shape[i] for i in axes))
                 for axes, answer in zip(self.weights, answers, strict=True)}
        means = []
        for axes in self._residuals.scales:
            mean = np.zeros(tuple(self.domain.shape[i] for i in axes))
            for other, table in given.items():
                if set(axes) <= set(other):
                    mean += self._weight(axes, other) * table.sum(axis=tuple(at for at, i in enumerate(other) if i not in axes))
            mean *= self._known[axes]
            for at, i in enumerate(axes):
                mean = self._residuals.splits[i].factor.apply(mean, at)
            means.append(mean.reshape(-1))
        return self._residuals.reconstruct(means, workload)

    def _weight(self, axes: tuple[int, ...], other: tuple[int, ...]) -> float:
        return self.weights[other] ** 2 / math.prod(self.domain.shape[i] for i in other if i not in axes)

    @cached_property
    def _known(self) -> dict[tuple[int, ...], float]:
        """For each residual that is measured its variance v_T, for noise of variance 1 / theta^2."""
        found: dict[tuple[int, ...], float] = {}
        for other in self.weights:
            for axes in subsets(other):
                found[axes] = found.get(axes, 0.0) + self._weight(axes, other)
        return {axes: 1 / total for axes, total in found.items()}

    @cached_property
    def _residuals(self) -> Residuals:
        """A strategy of independent residuals that has the same errors."""
        shape = self.domain.shape
        scales = {axes: math.sqrt(known) * math.prod(shape[i] for i in axes) for axes, known in self._known.items()}
        return Residuals(name=self.name, domain=self.domain, splits=tuple(Even(size) for size in shape), scales=scales)
