"""Many linear queries over one domain, as a stack of Kronecker products.

One GROUP BY is a product of identities and totals, a batch of statements is a stack. Only `apply`, `dense` and the matrices
over pairs of cells grow with the number of cells.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import AbstractFrozen, Frozen
from dpsql.trusted.cached import cached_property
from dpsql.workload.domain import Attribute, CellDomain, room
from dpsql.workload.factor_blocks import Block
from dpsql.workload.factors import Array, Exact, Factor, Total


class Product(Frozen, kw_only=False):
    """The queries that combine one row of each attribute's factor; the last attribute changes fastest."""

    factors: tuple[Factor, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows of each factor."""
        return tuple(factor.rows for factor in self.factors)

    @property
    def rows(self) -> int:
        return math.prod(self.shape)

    @property
    def axes(self) -> tuple[int, ...]:
        """The attributes that are not summed out: the queries are over this marginal."""
        return tuple(i for i, factor in enumerate(self.factors) if not isinstance(factor, Total))

    def apply(self, table: Exact) -> Exact:
        """The answers for a table of cells, as an array of `shape`. Factors that shrink the table come first."""
        for i in sorted(range(len(self.factors)), key=lambda i: self.factors[i].rows / self.factors[i].n):
            table = self.factors[i].apply(table, i)
        return table

    def transposed(self, answers: Exact) -> Exact:
        for i in sorted(range(len(self.factors)), key=lambda i: self.factors[i].n / self.factors[i].rows):
            answers = self.factors[i].transposed(answers, i)
        return answers

    def dense(self) -> Exact:
        room("a matrix of queries", self.rows, math.prod(factor.n for factor in self.factors))
        matrix = np.ones((1, 1), dtype=np.int64)
        for factor in self.factors:
            matrix = np.kron(matrix, factor.dense())
        return matrix

    def gram(self, weights: Array | None = None) -> Array:
        """W' diag(weights) W, computed axis by axis: the rows of a factor become pairs of its values."""
        count, size = len(self.factors), math.prod(factor.n for factor in self.factors)
        room("a matrix over pairs of cells", size, size)
        pairs = np.ones(self.shape) if weights is None else weights.reshape(self.shape)
        for factor in self.factors:  # the axes of rows that are left, then two axes of values for each factor that is done
            pairs = factor.gram(np.ascontiguousarray(np.moveaxis(pairs, 0, -1)))
        order = [*range(0, 2 * count, 2), *range(1, 2 * count, 2)]
        return np.ascontiguousarray(pairs.transpose(order)).reshape(size, size)

    def quadratic(self, kernel: Array) -> Array:
        """The diagonal of W kernel W', computed axis by axis: pairs of values of a factor become its rows."""
        sizes = tuple(factor.n for factor in self.factors)
        pairs = kernel.reshape(sizes + sizes)
        for left, factor in zip(range(len(sizes), 0, -1), self.factors, strict=True):
            pairs = factor.quadratic(np.moveaxis(pairs, (0, left), (-2, -1)))
        return pairs.reshape(-1)

    def row_norms2(self) -> Array:
        norms: Array = np.ones(1)
        for factor in self.factors:
            norms = np.asarray(np.kron(norms, factor.row_norms2()), dtype=float)
        return norms


def product_of(block: Block, domain: CellDomain) -> Product:
    """The queries of a block over all attributes."""
    factors: list[Factor] = [Total(size) for size in domain.shape]
    for axis, factor in zip(block.axes, block.factors, strict=True):
        factors[axis] = factor
    return Product(tuple(factors))


class Workload(Frozen, kw_only=False):
    """Queries over a domain: the rows of each part, one part after the other."""

    domain: CellDomain
    parts: tuple[Product, ...]

    def __post_init__(self) -> None:
        if not self.parts or any(tuple(f.n for f in part.factors) != self.domain.shape for part in self.parts):
            raise ValueError("every part has a factor for each attribute, of as many columns as the attribute has values")

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def slices(self) -> tuple[slice, ...]:
        """The positions of the answers of each part."""
        ends = np.cumsum([0, *(part.rows for part in self.parts)]).tolist()
        return tuple(slice(begin, end) for begin, end in pairwise(ends))

    def apply(self, table: Exact) -> Exact:
        """All answers for a table of cells."""
        table = table.reshape(self.domain.shape)
        return np.concatenate([part.apply(table).reshape(-1) for part in self.parts])

    def transposed(self, answers: Exact) -> Exact:
        tables = (part.transposed(answers[at].reshape(part.shape)) for part, at in zip(self.parts, self.slices, strict=True))
        return np.asarray(sum(tables)).reshape(-1)

    def dense(self) -> Exact:
        self.domain.small("a dense matrix of queries")
        room("a matrix of queries", self.rows, self.domain.size)
        return np.concatenate([part.dense() for part in self.parts])

    def gram(self, weights: Array | None = None) -> Array:
        """W' diag(weights) W, over all pairs of cells."""
        self.domain.small("a matrix over all pairs of cells")
        return np.asarray(sum(part.gram(None if weights is None else weights[at])
                              for part, at in zip(self.parts, self.slices, strict=True)))

    def quadratic(self, kernel: Array) -> Array:
        """The diagonal of W kernel W': the variances of the queries, if the kernel is the covariance of the cells."""
        return np.concatenate([part.quadratic(kernel) for part in self.parts])

    def row_norms2(self) -> Array:
        return np.concatenate([part.row_norms2() for part in self.parts])

    @cached_property
    def fingerprint(self) -> str:
        """A digest that is equal for equal workloads, regardless of attribute names."""
        told = hashlib.sha256(repr((self.domain.shape, len(self.parts))).encode())
        for factor in (factor for part in self.parts for factor in part.factors):
            for part in factor.key:  # that of a matrix ends in its bytes, which would be four times as long as text
                told.update(part if isinstance(part, bytes) else repr(part).encode())
                told.update(b";")
        return told.hexdigest()


class JoinedFactor(Factor, AbstractFrozen, kw_only=False):
    """A product as one factor: the cells of several attributes in one line."""

    product: Product

    @property
    def shape(self) -> tuple[int, int]:
        return self.product.rows, math.prod(factor.n for factor in self.product.factors)

    @property
    def key(self) -> tuple[object, ...]:
        return "joined", *(factor.key for factor in self.product.factors)

    def dense(self) -> Exact:
        return self.product.dense()

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        return self._along(array, axis, tuple(factor.n for factor in self.product.factors),
                           lambda factor, table, i: factor.apply(table, i))

    def transposed(self, array: Exact, axis: int = 0) -> Exact:
        return self._along(array, axis, self.product.shape, lambda factor, answers, i: factor.transposed(answers, i))

    def _along(self, array: Exact, axis: int, sizes: tuple[int, ...], act: Callable[[Factor, Exact, int], Exact]) -> Exact:
        front = np.moveaxis(array, axis, 0)
        open_ = front.reshape(*sizes, *front.shape[1:])
        for i, factor in enumerate(self.product.factors):
            open_ = act(factor, open_, i)
        return np.moveaxis(open_.reshape(-1, *front.shape[1:]), 0, axis)

    def gram(self, weights: Array | None = None) -> Array:
        if weights is None or weights.ndim == 1:
            return self.product.gram(weights)
        return np.stack([self.gram(each) for each in weights])

    def quadratic(self, kernel: Array) -> Array:
        if kernel.ndim == 2:
            return self.product.quadratic(kernel)
        return np.stack([self.quadratic(each) for each in kernel])

    def row_norms2(self) -> Array:
        return self.product.row_norms2()


def joined(workload: Workload) -> Workload:
    """The same queries over a domain of one attribute, whose values are the cells in order."""
    if len(workload.domain.attributes) == 1:
        return workload
    name = " x ".join(attribute.name for attribute in workload.domain.attributes)
    return Workload(CellDomain((Attribute(name, workload.domain.size),)), tuple(Product((JoinedFactor(part),))
                                                                                for part in workload.parts))


class ReducedWorkload(Frozen, kw_only=False):
    """A workload over fewer values. `classes[i][j]` is the new number of value j of attribute i, or -1 if no query counts it."""

    workload: Workload
    classes: tuple[NDArray[np.int64], ...]

    def table(self, table: Exact) -> Exact:
        """The same data over the reduced domain."""
        table = table.reshape(tuple(len(numbers) for numbers in self.classes))
        for i, numbers in enumerate(self.classes):
            if not np.array_equal(numbers, np.arange(len(numbers))):
                front = np.moveaxis(table, i, 0)
                merged = np.zeros((self.workload.domain.shape[i], *front.shape[1:]), dtype=table.dtype)
                np.add.at(merged, numbers[numbers >= 0], front[numbers >= 0])
                table = np.moveaxis(merged, 0, i)
        return table


def reduced(workload: Workload) -> ReducedWorkload:
    """The workload with values merged that no query distinguishes, and without values that no query counts.

    Neither changes the cost of the best strategy: columns of the strategy may be repeated for merged values, and one cell of
    each kind has the same sensitivity as all of them. (For Gaussian strategies the dual bound puts the joint weight on one
    copy.)
    """
    classes = [_classes([part.factors[i] for part in workload.parts]) for i in range(len(workload.domain.attributes))]
    picked = [np.unique(numbers, return_index=True)[1][int(numbers.min(initial=0) < 0):] for numbers in classes]
    attributes = tuple(Attribute(attribute.name, len(columns))
                       for attribute, columns in zip(workload.domain.attributes, picked, strict=True))
    parts = tuple(Product(tuple(factor.pick(columns) for factor, columns in zip(part.factors, picked, strict=True)))
                  for part in workload.parts)
    return ReducedWorkload(Workload(CellDomain(attributes), parts), tuple(classes))


def _classes(factors: list[Factor]) -> NDArray[np.int64]:
    """The columns on which no factor differs, numbered in the order in which they come first."""
    numbers = np.stack([factor.classes() for factor in dict.fromkeys(factors)])
    zero = np.all(numbers < 0, axis=0)
    _, first, inverse = np.unique(numbers, axis=1, return_index=True, return_inverse=True)
    first_of = first[np.asarray(inverse).reshape(-1)]
    kept = np.unique(first_of[~zero])
    return np.where(zero, -1, np.searchsorted(kept, first_of)).astype(np.int64)
