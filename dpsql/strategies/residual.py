"""Strategies over many attributes that measure, for each subset of attributes, its residual beyond smaller subsets.

Each attribute has a vector pi over its values, whose entries add up to 1. It splits the identity into "total" and "residual",

    I = pi 1' + (I - pi 1').

Multiplied out over the attributes of a marginal, the identity becomes a sum over subsets S: the total along attributes outside
S, the residual along those in S. For each S that is needed the integer queries kron_{i in S} R_i are measured on its marginal,
where R_i has n_i - 1 independent directions and R_i pi_i = 0, so that its rows span exactly the residuals. The estimate of a
marginal table is the sum over its subsets of

    kron_{i in S} (I - pi_i 1') R_i^+ y_S  kron  pi_i along the others,

which is unbiased because (I - pi 1') R^+ R = I - pi 1' (R^+ R projects on the complement of pi, and I - pi 1' maps pi to zero).
The noises of different S are independent, so variances add up, and each is a product over attributes. No step needs all cells.

Sources: Xiao, He, Zhang and Kifer, An Optimal and Scalable Matrix Mechanism for Noisy Marginals under Convex Loss Functions
(ResidualPlanner), NeurIPS 2023, for pi = 1/n. The oblique form is this project's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Protocol

import numpy as np

from dpsql.frozen import Frozen
from dpsql.strategies.least_squares import pseudo_inverse
from dpsql.strategies.strategy import Block, NotMeasured, Strategy
from dpsql.trusted.cached import cached_property
from dpsql.workload.factors import Array, Dense, Factor
from dpsql.workload.implicit import Centered as Centered
from dpsql.workload.workload import Product, Workload


class Split(Protocol):
    """How an attribute's values are split into total and residual."""

    @property
    def factor(self) -> Factor:
        """The integer matrix R."""
        ...

    def solve(self, array: Array, axis: int) -> Array:
        """(I - pi 1') R^+ along an axis."""
        ...

    def spread(self, array: Array, axis: int) -> Array:
        """Distribute the total along an axis over n values, in the proportions pi."""
        ...

    def residual(self, query: Factor) -> Array:
        """For each query w, the variance of w (I - pi 1') R^+ z, with z independent of unit variance."""
        ...

    def total(self, query: Factor) -> Array:
        """For each query w, the square of w pi."""
        ...


class Even(Frozen, kw_only=False):
    """pi = 1/n, all values measured equally well: optimal for the values themselves."""

    n: int

    @property
    def factor(self) -> Factor:
        return Centered(self.n)

    def solve(self, array: Array, axis: int) -> Array:
        return np.asarray((array - array.mean(axis=axis, keepdims=True)) / self.n)

    def spread(self, array: Array, axis: int) -> Array:
        return np.repeat(array / self.n, self.n, axis=axis)

    def residual(self, query: Factor) -> Array:
        return np.maximum(0.0, query.row_norms2() - query.apply(np.ones(self.n)) ** 2 / self.n) / self.n**2

    def total(self, query: Factor) -> Array:
        return np.asarray((query.apply(np.ones(self.n)) / self.n) ** 2)


class Oblique(Frozen, kw_only=False):
    """R has any n - 1 independent integer rows; pi spans their null space."""

    factor: Dense

    @cached_property
    def pi(self) -> Array:
        n = self.factor.n
        rows = self.factor.floats / np.abs(self.factor.floats).max()
        return np.asarray(np.linalg.solve(np.vstack([rows, np.ones(n)]), np.eye(n)[-1]))

    @cached_property
    def inverse(self) -> Array:
        """(I - pi 1') R^+."""
        inverse = pseudo_inverse(self.factor.floats)
        return np.asarray(inverse - np.outer(self.pi, inverse.sum(axis=0)))

    @cached_property
    def covariance(self) -> Array:
        return np.asarray(self.inverse @ self.inverse.T)

    def solve(self, array: Array, axis: int) -> Array:
        return np.moveaxis(np.tensordot(self.inverse, array, axes=(1, axis)), 0, axis)

    def spread(self, array: Array, axis: int) -> Array:
        return np.moveaxis(np.tensordot(self.pi[:, None], array, axes=(1, axis)), 0, axis)

    def residual(self, query: Factor) -> Array:
        return query.quadratic(self.covariance)

    def total(self, query: Factor) -> Array:
        return np.asarray(query.apply(self.pi) ** 2)


class Residuals(Strategy):
    """One split for each attribute, and for each measured subset the scale of its noise."""

    splits: tuple[Split, ...]
    scales: Mapping[tuple[int, ...], float]

    @cached_property
    def _blocks(self) -> Sequence[Block]:
        factors = [split.factor for split in self.splits]
        return [Block(axes=axes, factors=tuple(factors[i] for i in axes), scale=scale) for axes, scale in self.scales.items()]

    @property
    def blocks(self) -> Sequence[Block]:
        return self._blocks

    def variance_of(self, workload: Workload) -> Array:
        return np.concatenate([self._variances(part) for part in workload.parts])

    def _variances(self, part: Product) -> Array:
        residual = {i: self.splits[i].residual(part.factors[i]) for i in part.axes}
        total = {i: self.splits[i].total(part.factors[i]) for i in part.axes}
        variances = np.zeros(tuple(part.factors[i].rows for i in part.axes))
        for axes in subsets(part.axes):
            share = np.ones(())
            for i in part.axes:
                share = np.multiply.outer(share, residual[i] if i in axes else total[i])
            if axes in self.scales:
                variances += self.scales[axes] ** 2 * share
            elif share.max() > 1e-12:
                raise NotMeasured
        return np.asarray(variances.reshape(-1))

    def reconstruct(self, answers: Sequence[Array], workload: Workload) -> Array:
        given = dict(zip(self.scales, answers, strict=True))
        tables: dict[tuple[int, ...], Array] = {}
        found = []
        for part in workload.parts:
            if part.axes not in tables:
                tables[part.axes] = self.table(given, part.axes)
            found.append(Product(tuple(part.factors[i] for i in part.axes)).apply(tables[part.axes]).reshape(-1))
        return np.concatenate(found)

    def table(self, given: Mapping[tuple[int, ...], Array], attributes: tuple[int, ...]) -> Array:
        """The estimate of a marginal table from the answers of its subsets."""
        table = np.zeros(tuple(self.domain.shape[i] for i in attributes))
        for axes in subsets(attributes):
            if axes in self.scales:
                part = np.asarray(given[axes], dtype=float)
                part = part.reshape(tuple(self.splits[i].factor.rows if i in axes else 1 for i in attributes))
                for axis, i in enumerate(attributes):
                    part = self.splits[i].solve(part, axis) if i in axes else self.splits[i].spread(part, axis)
                table += part
        return table


def subsets(axes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for size in range(len(axes) + 1):
        yield from combinations(axes, size)
