"""The best Gaussian strategy for marginals: of all mechanisms the residual planner's is optimal, for every convex loss.

For subsets S of the marginals in the workload (the closure), with noise of variance sigma_S^2 on the residual of S,

    a cell of marginal A has the variance  sum over S in A of sigma_S^2 prod_{i in S} (1 - 1/n_i) prod_{i in A but not S} 1/n_i^2,
    the squared cost is                    sum over S of prod_{i in S} (1 - 1/n_i) / sigma_S^2.

If the variances of the marginals have weights lambda_A, the best sigma_S^2 is sqrt(p_S / w_S) up to scale, where p_S is the
coefficient in the cost and w_S the weighted sum of those in the variances, and cost times value is f^2 with f = sum_S sqrt(p_S
w_S). With numbers of cells as weights, that is the total variance. With a target for each marginal, the least largest v_A, the
variance over its target, is the maximum of f^2 over probability vectors lambda: f is concave, its maximum is a fixed point of
lambda_A <- lambda_A v_A, every lambda gives a lower bound (as the largest v_A is at least the mean under lambda), and f^2 max v /
mean v is attained.

Attributes of equal size are interchangeable, so planning is by kinds of marginals: all marginals of up to three of a hundred
attributes of ten values are four kinds. (Averaging over permutations of equal attributes changes neither cost nor error.) The
sums over the complement of S in the closed form, elementary symmetric polynomials of 1/n_i, are such sums over kinds.

The integer queries kron_{i in S} (n_i I - 1 1') are measured, with prod n_i times the noise: exactly the same mechanism.

Source: Xiao, He, Zhang and Kifer, NeurIPS 2023 (ResidualPlanner), for sums and the proof of optimality.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Self

import numpy as np
import scipy

from dpsql.frozen import AbstractFrozen, Frozen
from dpsql.strategies.climb import climb, logarithms, probabilities
from dpsql.strategies.closure import closure, how_many, products, ways
from dpsql.strategies.optimality_gap import OptimalityBound
from dpsql.strategies.residual import Even, Residuals
from dpsql.strategies.strategy import Refusal
from dpsql.trusted.cached import cached_property
from dpsql.workload.domain import CellDomain
from dpsql.workload.factors import Array, Identity, Total
from dpsql.workload.workload import Workload

MARGIN = 1e-9  # relative bound on the rounding errors in sums of positive numbers


def plan(workload: Workload, targets: Array | None = None, *, weights: Array | None = None,
         gap: float = 1e-8) -> Residuals | Refusal:
    """The plan for marginals. With `targets` it minimises the largest ratio of variance to target, otherwise the total
    variance.

    There is a target for each query, the same for all cells of a marginal. `weights`, one for each part, multiply the total
    variances of the parts.
    """
    if any(not isinstance(factor, Identity | Total) for part in workload.parts for factor in part.factors):
        return Refusal("the workload has queries other than cells of marginals")
    if targets is not None and any(np.ptp(targets[at]) > 0 for at in workload.slices):
        return Refusal("cells of one marginal have different targets")
    asked: dict[tuple[int, ...], float] = {}
    for number, (part, at) in enumerate(zip(workload.parts, workload.slices, strict=True)):
        if targets is None:
            asked[part.axes] = asked.get(part.axes, 0.0) + part.rows * (1.0 if weights is None else float(weights[number]))
        else:
            asked[part.axes] = min(asked.get(part.axes, np.inf), float(targets[at.start]))
    found = _solved(list(asked), workload.domain.shape, [1] * len(workload.domain.shape), np.array(list(asked.values())),
                    largest=targets is not None, gap=gap)
    return _strategy(workload.domain, found.measured, found)


def plan_ways(domain: CellDomain, sizes: Iterable[int], *, largest: bool = False, gap: float = 1e-8) -> Residuals:
    """The plan for all marginals of the given numbers of attributes, for instance range(4) for up to three. The marginals are
    never listed one by one.

    With `largest` the largest variance of a cell is minimised, else the total variance.
    """
    values = sorted(set(domain.shape))
    groups = [domain.shape.count(size) for size in values]
    kinds, counts = ways(groups, [size for size in sizes if size <= len(domain.shape)])
    demand = np.ones(len(kinds)) if largest else products(kinds, np.array(values, dtype=float)) * np.array(counts, dtype=float)
    found = _solved(kinds, values, groups, demand, largest=largest, gap=gap)
    members = [tuple(i for i, size in enumerate(domain.shape) if size == value) for value in values]
    scales = ByKind(kinds=found.measured, members=members)
    return _strategy(domain, scales, found)


class MeasuredSubsets(Frozen):
    """The kinds of subsets that are measured, with the scales of their integer queries at cost 1; and the certificate."""

    measured: dict[tuple[int, ...], float]
    certificate: OptimalityBound


def _solved(marginals: list[tuple[int, ...]], values: Sequence[int], groups: Sequence[int], demand: Array, *, largest: bool,
            gap: float) -> MeasuredSubsets:
    """By kinds: `values` are the sizes of the attributes in each group, `groups` their numbers; `demand` are weights or targets.
    """
    subsets = closure(marginals)
    n = np.array(values, dtype=float)
    privacy = products(subsets.kinds, 1 - 1 / n) * np.array([float(how_many(kind, groups)) for kind in subsets.kinds])
    # prod_S (1 - 1/n) prod_{A - S} 1/n^2 = prod_S (n^2 - n) prod_A 1/n^2
    share = scipy.sparse.csr_array(scipy.sparse.diags_array(products(subsets.kinds, n**2 - n)) @ subsets.within()
                             @ scipy.sparse.diags_array(products(marginals, n**-2.0)))
    count = len(marginals)
    if largest:
        share = scipy.sparse.csr_array(share @ scipy.sparse.diags_array(1 / demand))
        start = MarginalLook(privacy=privacy, share=share, chances=np.full(count, 1 / count))
        tightest, best, _ = climb(start, gap, 400)
        certificate = OptimalityBound(objective="largest variance over target", value=best.upper,
                                      bound=tightest.lower * (1 - MARGIN), covers="Gaussian strategies")
    else:
        best = MarginalLook(privacy=privacy, share=share, chances=demand)
        certificate = OptimalityBound(objective="total variance", value=best.f**2, bound=best.f**2 * (1 - MARGIN),
                                      covers="Gaussian strategies")
    scales = zip(subsets.kinds, np.sqrt(best.noise) * products(subsets.kinds, n), strict=True)
    return MeasuredSubsets(measured={kind: float(scale) for kind, scale in scales if scale > 0}, certificate=certificate)


def _strategy(domain: CellDomain, scales: Mapping[tuple[int, ...], float], found: MeasuredSubsets) -> Residuals:
    return Residuals(name="residual-planner", domain=domain, splits=tuple(Even(size) for size in domain.shape), scales=scales,
                     certificate=found.certificate)


class MarginalLook(Frozen):
    """Noise and bounds for one weighting of kinds of marginals; `privacy` and `share` are coefficients of cost and variances."""

    privacy: Array
    share: scipy.sparse.csr_array
    chances: Array

    @cached_property
    def weights(self) -> Array:
        return np.asarray(self.share @ self.chances)

    @cached_property
    def f(self) -> float:
        return float(np.sqrt(self.privacy * self.weights).sum())

    @property
    def lower(self) -> float:
        return self.f**2

    @property
    def upper(self) -> float:
        return float(self.f * self.v.max())

    @property
    def noise(self) -> Array:
        """sigma_S^2 at cost 1; zero for subsets that need no measurement (the residual of an attribute of one value)."""
        return self.f * self._roots

    @cached_property
    def _roots(self) -> Array:
        return np.sqrt(np.divide(self.privacy, self.weights, out=np.zeros_like(self.weights), where=self.weights > 0))

    @cached_property
    def v(self) -> Array:
        """The variances over their targets, at cost f."""
        return np.asarray(self.share.T @ self._roots)

    @property
    def steepness(self) -> Array:
        """- d log v_A / d log lambda_A for each A."""
        used = np.divide(self._roots, self.weights, out=np.zeros_like(self.weights), where=self.weights > 0)
        squares = self.share.power(2).T @ used
        return np.asarray(self.chances * squares / (2 * self.v))

    @cached_property
    def residual(self) -> Array:
        return logarithms(self.v / self.f)

    @cached_property
    def place(self) -> Array:
        return np.asarray(np.log(self.chances))

    def moved(self, place: Array) -> Self:
        return type(self)(privacy=self.privacy, share=self.share, chances=probabilities(place))


class ByKind(AbstractFrozen, Mapping[tuple[int, ...], float], kw_only=False):
    """The scales of all subsets of these kinds, listed only when they are asked for."""

    kinds: dict[tuple[int, ...], float]
    members: list[tuple[int, ...]]

    @cached_property
    def _group(self) -> dict[int, int]:
        return {i: group for group, members in enumerate(self.members) for i in members}

    def __getitem__(self, axes: tuple[int, ...]) -> float:
        return self.kinds[tuple(sorted(self._group[i] for i in axes))]

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        order = sorted(self._group)
        for size in sorted({len(kind) for kind in self.kinds}):
            yield from (axes for axes in combinations(order, size) if tuple(sorted(self._group[i] for i in axes)) in self.kinds)

    def __len__(self) -> int:
        return sum(how_many(kind, [len(members) for members in self.members]) for kind in self.kinds)
