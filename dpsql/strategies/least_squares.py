"""Strategies whose answers are combined by plain weighted least squares."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsmr

from dpsql.strategies.base import Block, Strategy
from dpsql.workload.domain import DENSE, too_large
from dpsql.workload.factors import Array, Factor, Identity, Total
from dpsql.workload.workload import Product, Workload


@dataclass(frozen=True, kw_only=True)
class LeastSquares(Strategy):
    """Any blocks.

    One block is a product, and so is its pseudo-inverse: each attribute is solved by itself. Several blocks over few cells are
    solved by their normal matrix; over many cells by LSMR, where only answers are had and no variances.
    """

    measured: tuple[Block, ...]

    @property
    def blocks(self) -> Sequence[Block]:
        return self.measured

    def variance_of(self, workload: Workload) -> Array:
        """diag(W (A' S^-1 A)^+ W'), the variance of least squares."""
        if len(self.measured) == 1:
            block = self.measured[0]
            factors = block.product(self.domain).factors
            parts = [[_variance(w, a) for w, a in zip(part.factors, factors, strict=True)] for part in workload.parts]
            return block.scale**2 * np.concatenate([_kron(each) for each in parts])
        covariance = self._covariance
        within(workload.gram(), covariance @ self._normal)
        return workload.quadratic(covariance)

    def reconstruct(self, answers: Sequence[Array], workload: Workload) -> Array:
        if len(self.measured) == 1:
            block = self.measured[0]
            wide = block.product(self.domain)
            given = np.asarray(answers[0], dtype=float).reshape(wide.shape)
            return np.concatenate([_answered(part, wide, given) for part in workload.parts])
        products = [block.product(self.domain) for block in self.measured]
        scaled = [np.asarray(given, dtype=float).reshape(p.shape) / block.scale
                  for given, p, block in zip(answers, products, self.measured, strict=True)]
        if self.domain.size <= DENSE:
            right = sum(p.transposed(y).reshape(-1) / block.scale
                        for p, y, block in zip(products, scaled, self.measured, strict=True))
            return workload.apply(self._covariance @ right)
        return workload.apply(self._solved(products, np.concatenate([y.reshape(-1) for y in scaled])))

    @cached_property
    def _normal(self) -> Array:
        self.domain.small("least squares with variances over several blocks")
        return np.asarray(sum(block.product(self.domain).gram() / block.scale**2 for block in self.measured))

    @cached_property
    def _covariance(self) -> Array:
        return np.asarray(np.linalg.pinv(self._normal, hermitian=True))

    def _solved(self, products: list[Product], right: Array) -> Array:
        """The cells by LSMR, to the precision of floats: cells may be many, but fit into memory."""
        stacked = Workload(self.domain, tuple(products))
        weights = np.concatenate([np.full(block.rows, 1 / block.scale) for block in self.measured])
        operator = LinearOperator((stacked.rows, self.domain.size), dtype=np.float64,
                                  matvec=lambda x: weights * stacked.apply(x),
                                  rmatvec=lambda y: stacked.transposed(weights * y))
        return np.asarray(lsmr(operator, right, atol=1e-13, btol=1e-13, conlim=0, maxiter=10_000)[0])


def within(gram: Array, projection: Array) -> None:
    """That every query is a combination of what is measured; else least squares would be biased."""
    lost = np.abs(gram - gram @ projection).max()
    if lost > 1e-6 * max(1.0, float(np.abs(gram).max())):
        raise ValueError("the strategy does not measure all of the workload")


def _kron(parts: list[Array]) -> Array:
    whole: Array = np.ones(1)
    for part in parts:
        whole = np.asarray(np.kron(whole, part), dtype=float)
    return whole


class Solvable(Factor):
    """A factor that knows its own pseudo-inverse. Others have theirs computed, for up to as many values as matrices fit."""

    @abstractmethod
    def solve(self, array: Array, axis: int = 0) -> Array:
        """The least squares values for answers along an axis."""

    @abstractmethod
    def variances(self, query: Factor) -> Array:
        """diag(W (A'A)^+ W') for the rows W of a query factor."""


def _solve(measured: Factor, array: Array, axis: int) -> Array:
    if isinstance(measured, Identity):
        return array
    if isinstance(measured, Total):
        return np.repeat(array / measured.n, measured.n, axis=axis)
    if isinstance(measured, Solvable):
        return measured.solve(array, axis)
    fits(measured)
    inverse = np.linalg.pinv(measured.dense().astype(float))
    return np.moveaxis(np.tensordot(inverse, array, axes=(1, axis)), 0, axis)


def _variance(query: Factor, measured: Factor) -> Array:
    """diag(W (A'A)^+ W') of one attribute."""
    if isinstance(measured, Identity):
        return query.row_norms2()
    if isinstance(measured, Solvable):
        return measured.variances(query)
    if isinstance(measured, Total) and isinstance(query, Total):
        return np.ones(1)
    fits(measured)
    gram = measured.gram()
    covariance = np.asarray(np.linalg.pinv(gram, hermitian=True), dtype=float)
    within(query.gram(), covariance @ gram)
    return query.quadratic(covariance)


def fits(factor: Factor) -> None:
    if factor.n > DENSE:
        raise too_large("least squares over one attribute", factor.n, DENSE)


def _answered(part: Product, measured: Product, given: Array) -> Array:
    """W A^+ y, attribute by attribute."""
    for i, (query, factor) in enumerate(zip(part.factors, measured.factors, strict=True)):
        given = query.apply(_solve(factor, given, i), i)
    return given.reshape(-1)


def one_block(*factors: Factor, scale: float = 1.0) -> Block:
    """A block over all attributes."""
    return Block(axes=tuple(range(len(factors))), factors=factors, scale=scale)
