"""Exact least squares for two products measured together, over as many cells as fit into memory, attribute by attribute.

Two positive semidefinite matrices can be diagonalised together: for an attribute with Gram matrices G and H of the two factors
there is P with P'GP = E and P'HP = 1 - E, both diagonal (decompose G + H, scale it to the identity on its range, decompose the
transformed G). So in these coordinates the normal matrix of both products is diagonal with the entries
d = prod e_i / s^2 + prod (1 - e_i) / t^2, and x = P d^-1 P'(A'y / s^2 + B'z / t^2), with P the Kronecker product of those of the
attributes. Where d is zero nothing is measured, and queries must have no component there. Shares e within 1e-10 of 0 or 1 are
taken as 0 or 1 with rounding errors.

Source: this project's; the common diagonal form is in Golub and Van Loan, Matrix Computations, section 8.7.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy

from dpsql.frozen import Frozen
from dpsql.strategies.strategy import Block, NotMeasured, Strategy
from dpsql.trusted.cached import cached_property
from dpsql.workload.factors import Array, Dense, Factor
from dpsql.workload.workload import Product, Workload, product_of

NOTHING = 1e-10  # of an attribute's share
UNSEEN = 1e-8  # largest part of a query's squared norm where nothing is measured


class Common(Frozen):
    """P of one attribute, and the shares e of the first factor; both factors are scaled to columns of norm about 1."""

    basis: Array
    shares: Array
    lengths: tuple[float, float]


class TwoProducts(Strategy):
    """Two blocks and their common least squares."""

    measured: tuple[Block, Block]

    @property
    def blocks(self) -> Sequence[Block]:
        return self.measured

    def variance_of(self, workload: Workload) -> Array:
        """sum_k (P'w)_k^2 / d_k for each query w."""
        return np.concatenate([self._variances(part) for part in workload.parts])

    def _variances(self, part: Product) -> Array:
        squares = [Dense(np.asarray(factor.transposed(np.eye(factor.rows)).T @ common.basis) ** 2)
                   for factor, common in zip(part.factors, self._common, strict=True)]
        spread, hidden = self._applied(squares, self._inverse), self._applied(squares, (self._inverse == 0).astype(float))
        if (hidden > UNSEEN * np.maximum(1.0, spread)).any():
            raise NotMeasured
        return spread

    def reconstruct(self, answers: Sequence[Array], workload: Workload) -> Array:
        right = np.zeros(self.domain.shape)
        for given, product, block in zip(answers, self._products, self.measured, strict=True):
            right += product.transposed(np.asarray(given, dtype=float).reshape(product.shape)) / block.scale**2
        inner = self._turned(right, [common.basis.T for common in self._common])
        return workload.apply(self._turned(inner * self._inverse, [common.basis for common in self._common]))

    @cached_property
    def _products(self) -> tuple[Product, Product]:
        one, other = self.measured
        return product_of(one, self.domain), product_of(other, self.domain)

    @cached_property
    def _common(self) -> list[Common]:
        return [common_form(one, other) for one, other in zip(*(product.factors for product in self._products), strict=True)]

    @cached_property
    def _inverse(self) -> Array:
        """1 / d, and 0 where nothing is measured."""
        first, second = np.ones(()), np.ones(())
        for common in self._common:
            first = np.multiply.outer(first, common.shares * common.lengths[0])
            second = np.multiply.outer(second, (1 - common.shares) * common.lengths[1])
        d = first / self.measured[0].scale ** 2 + second / self.measured[1].scale ** 2
        return np.divide(1.0, d, out=np.zeros_like(d), where=d > 0)

    @staticmethod
    def _turned(table: Array, matrices: Sequence[Array]) -> Array:
        for axis, matrix in enumerate(matrices):
            table = np.moveaxis(np.tensordot(matrix, table, axes=(1, axis)), 0, axis)
        return table

    @staticmethod
    def _applied(squares: Sequence[Factor], table: Array) -> Array:
        return np.asarray(Product(tuple(squares)).apply(table).reshape(-1))


def common_form(one: Factor, other: Factor) -> Common:
    """P with P'GP = E and P'HP = 1 - E, for the Gram matrices divided by their largest entries."""
    grams = [factor.gram() for factor in (one, other)]
    lengths = tuple(float(np.diagonal(gram).max()) for gram in grams)
    g, h = (gram / length for gram, length in zip(grams, lengths, strict=True))
    values, vectors = scipy.linalg.eigh(g + h, driver="evd", check_finite=False)
    kept = values > NOTHING * values[-1]
    scaled = vectors[:, kept] / np.sqrt(values[kept])
    shares, turn = scipy.linalg.eigh(scaled.T @ g @ scaled, driver="evd", check_finite=False)
    shares = np.where(shares < NOTHING, 0.0, np.where(shares > 1 - NOTHING, 1.0, shares))
    return Common(basis=scaled @ turn, shares=shares, lengths=(lengths[0], lengths[1]))
