"""Strategies whose answers are combined by plain weighted least squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np
import scipy

from dpsql.frozen import Frozen
from dpsql.strategies.strategy import Block, NotMeasured, Strategy
from dpsql.trusted.cached import cached_property
from dpsql.workload.domain import DENSE, too_large
from dpsql.workload.factor_stack import FactorStack
from dpsql.workload.factors import Array, Factor, Identity, Total
from dpsql.workload.implicit import PIdentity
from dpsql.workload.workload import Product, Workload, joined, product_of

UNEVEN = 2**12  # times, at most, that a column of a p-Identity strategy is as long as its own entry
WORST = 1e8  # condition of a matrix that is inverted


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
        workload = self._same_cells(workload)
        if len(self.measured) == 1:
            found = [_variances(own, [part.factors[i] for part in workload.parts]) for i, own in enumerate(self.solved)]
            return self.measured[0].scale ** 2 * np.concatenate([_kron(list(each)) for each in zip(*found, strict=True)])
        within(workload.gram(), self._covariance @ self._normal)
        return workload.quadratic(self._covariance)

    def reconstruct(self, answers: Sequence[Array], workload: Workload) -> Array:
        workload = self._same_cells(workload)
        if len(self.measured) == 1:
            given = np.asarray(answers[0], dtype=float).reshape(self._products[0].shape)
            for i, own in enumerate(self.solved):
                given = own.solve(given, i)
            return workload.apply(given)
        scaled = [np.asarray(given, dtype=float).reshape(p.shape) / block.scale
                  for given, p, block in zip(answers, self._products, self.measured, strict=True)]
        if self.domain.size <= DENSE:
            right = sum(p.transposed(y).reshape(-1) / block.scale
                        for p, y, block in zip(self._products, scaled, self.measured, strict=True))
            return workload.apply(self._covariance @ right)
        return workload.apply(self._iterated(np.concatenate([y.reshape(-1) for y in scaled])))

    def _same_cells(self, workload: Workload) -> Workload:
        """The workload over this strategy's domain: a strategy may have all cells in one line."""
        return workload if workload.domain.shape == self.domain.shape else joined(workload)

    @cached_property
    def _products(self) -> tuple[Product, ...]:
        return tuple(product_of(block, self.domain) for block in self.measured)

    @cached_property
    def solved(self) -> tuple[Solvable, ...]:
        """The least squares of each factor of the only block."""
        return tuple(_solvable(factor) for factor in self._products[0].factors)

    @cached_property
    def _normal(self) -> Array:
        self.domain.small("least squares with variances over several blocks")
        return np.asarray(sum(product_of(block, self.domain).gram() / block.scale**2 for block in self.measured))

    @cached_property
    def _covariance(self) -> Array:
        return np.asarray(np.linalg.pinv(self._normal, rcond=_rounding(self._normal), hermitian=True))

    def _iterated(self, right: Array) -> Array:
        """The cells by LSMR, to the precision of floats: cells may be many, but fit into memory."""
        stacked = Workload(self.domain, self._products)
        weights = np.concatenate([np.full(block.rows, 1 / block.scale) for block in self.measured])
        operator = scipy.sparse.linalg.LinearOperator((stacked.rows, self.domain.size), dtype=np.float64,
                                  matvec=lambda x: weights * stacked.apply(x),
                                  rmatvec=lambda y: stacked.transposed(weights * y))
        return np.asarray(scipy.sparse.linalg.lsmr(operator, right, atol=1e-13, btol=1e-13, conlim=0, maxiter=10_000)[0])


def within(gram: Array, projection: Array) -> None:
    """Raises NotMeasured unless every query is a combination of what is measured; otherwise least squares would be biased."""
    lost = np.abs(gram - gram @ projection).max()
    if lost > 1e-6 * max(1.0, float(np.abs(gram).max())):
        raise NotMeasured


def _kron(parts: list[Array]) -> Array:
    whole: Array = np.ones(1)
    for part in parts:
        whole = np.outer(whole, part).reshape(-1)
    return whole


def _variances(own: Solvable, factors: Sequence[Factor]) -> list[Array]:
    """The variances of each factor's rows, computed once for equal factors, and together for ranges."""
    stack = FactorStack(tuple(dict.fromkeys(factors)))
    known = dict(zip(stack.factors, stack.each(own.variances), strict=True))
    return [known[factor] for factor in factors]


class Solvable(Protocol):
    """Something that knows its own least squares: a factor with a closed form, or one whose pseudo-inverse was computed."""

    def solve(self, array: Array, axis: int = 0) -> Array:
        """The least squares values for answers along an axis."""
        ...

    def variances(self, query: Factor) -> Array:
        """diag(W (A'A)^+ W') for the rows W of a query factor."""
        ...


def even(strategy: LeastSquares) -> bool:
    """Whether the errors of a product's least squares are accurate to many digits on every processor, although processors add up
    in different orders: rounding grows with the condition of the factors."""
    for factor, solved in zip(strategy.measured[0].factors, strategy.solved, strict=True):
        if isinstance(factor, PIdentity) and max(factor.column_powers(1)) > UNEVEN * int(factor.own.min()):
            return False
        if isinstance(solved, Inverted) and solved.condition > WORST:
            return False
    return True


def _solvable(factor: Factor) -> Solvable:
    match factor:
        case Identity():
            return MeasuredCells()
        case Total():
            return MeasuredTotal(factor.n)
        case object(solve=_, variances=_):
            return cast(Solvable, factor)
    if factor.n > DENSE:
        raise too_large("least squares over one attribute", factor.n, DENSE)
    return Inverted(factor)


class MeasuredCells(Frozen):
    """Every value was measured by itself."""

    def solve(self, array: Array, axis: int = 0) -> Array:
        return array

    def variances(self, query: Factor) -> Array:
        return query.row_norms2()


class MeasuredTotal(Frozen, kw_only=False):
    """Only the sum of n values was measured."""

    n: int

    def solve(self, array: Array, axis: int = 0) -> Array:
        return np.repeat(array / self.n, self.n, axis=axis)

    def variances(self, query: Factor) -> Array:
        if query != Total(self.n):
            raise NotMeasured
        return np.ones(1)


class Inverted(Frozen, kw_only=False):
    """Any matrix, with its pseudo-inverse."""

    factor: Factor

    @cached_property
    def inverse(self) -> Array:
        return pseudo_inverse(self._matrix)

    @cached_property
    def _matrix(self) -> Array:
        return np.asarray(self.factor.dense().astype(float))

    @property
    def condition(self) -> float:
        """|A| |A^+| in the Frobenius norm, an upper bound of the condition number."""
        return float(np.linalg.norm(self._matrix) * np.linalg.norm(self.inverse))

    def solve(self, array: Array, axis: int = 0) -> Array:
        return np.moveaxis(np.tensordot(self.inverse, array, axes=(1, axis)), 0, axis)

    def variances(self, query: Factor) -> Array:
        if query.rows <= self.factor.n:
            return self._of_few(query.dense().astype(float))
        within(query.gram(), self.inverse @ self._matrix)
        return query.quadratic(self.inverse @ self.inverse.T)

    def _of_few(self, queries: Array) -> Array:
        """By how each query is combined of what was measured, which takes no matrix over pairs of cells. It is the one of least
        variance, as its rows lie in the space of the answers that cells can have."""
        mixed = queries @ self.inverse
        if np.abs(queries - mixed @ self._matrix).max() > 1e-6 * max(1.0, float(np.abs(queries).max())):
            raise NotMeasured
        return np.asarray((mixed**2).sum(axis=1))


def pseudo_inverse(matrix: Array) -> Array:
    """The pseudo-inverse. If the matrix has full rank, it uses QR, which is several times faster than singular values."""
    if matrix.shape[0] < matrix.shape[1]:
        return pseudo_inverse(matrix.T).T
    q, r = scipy.linalg.qr(matrix, mode="economic", check_finite=False)
    diagonal = np.abs(np.diag(r))
    if diagonal.min() > 1e-9 * diagonal.max():
        return np.asarray(scipy.linalg.solve_triangular(r, q.T, check_finite=False))
    return np.asarray(np.linalg.pinv(matrix, rcond=_rounding(matrix)))


def _rounding(matrix: Array) -> float:
    """How large, against the largest, a singular value may come out that is 0. Inverted, it would put noise in place of what is
    measured."""
    return float(max(matrix.shape) * np.finfo(np.float64).eps)


def one_block(*factors: Factor, scale: float = 1.0) -> Block:
    """A block over all attributes."""
    return Block(axes=tuple(range(len(factors))), factors=factors, scale=scale)
