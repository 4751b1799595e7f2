"""One attribute's part of a query matrix: m queries over the n values of the attribute, implicit where that saves time.

Besides being applied to data, a factor W supports the two operations that planners need, both in closed form or by cumulative
sums: `gram(p)` = W' diag(p) W and `quadratic(K)` = diag(W K W'). Both work on batches, along the last axes, so that a
Kronecker product of factors does them factor by factor.

Planners use all of a factor. What is measured is the integer matrix that `matrix_of` builds from its parameters; nothing else of
it is trusted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import AbstractFrozen, settle
from dpsql.trusted.cached import cached_property
from dpsql.trusted.matrices.matrices import (
    LARGEST,
    LONGEST,
    AllStretches,
    Matrix,
    Prefixes,
    Stretches,
    Sum,
    Unit,
    Written,
    cumulated,
    stretched,
)
from dpsql.trusted.matrices.matrices import Exact as Exact
from dpsql.workload.domain import room

Array: TypeAlias = NDArray[np.float64]


def length(size: int) -> int:
    """Check a number of rows or columns, and return it. Raises ValueError if it is out of range."""
    if not 1 <= size <= LONGEST:
        raise ValueError(f"a matrix has 1 to {LONGEST} values")
    return size


def words(numbers: Exact) -> bytes:
    """Integers as 64-bit words. Raises ValueError for anything else."""
    if numbers.dtype.kind not in "iu" or (numbers.dtype.kind == "u" and numbers.max(initial=0) >= 2**63):
        raise ValueError("only whole numbers of 64 bits are measured")
    below = numbers.base.base if isinstance(numbers.base, np.ndarray) else None
    if isinstance(below, bytes) and numbers.dtype == np.int64 and numbers.flags.c_contiguous and numbers.nbytes == len(below):
        return below  # as a large matrix was made of them
    return numbers.astype(np.int64, copy=False).tobytes()


def written(matrix: Exact) -> Written:
    """The matrix of an array of whole numbers. Raises ValueError for anything else."""
    rows, n = matrix.shape
    if matrix.dtype.kind != "O" and matrix.dtype != np.uint64:
        return Written(rows, n, words(matrix))
    entries = tuple(matrix.reshape(-1).tolist())
    if not all(type(entry) is int and abs(entry) <= LARGEST for entry in entries):
        raise ValueError("only whole numbers are measured")
    return Written(rows, n, entries)


class Factor(ABC):
    """A matrix of m rows (queries) and n columns (values of the attribute). Equal if kind and parameters are equal."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]: ...

    @abstractmethod
    def dense(self) -> Exact: ...

    @abstractmethod
    def apply(self, array: Exact, axis: int = 0) -> Exact:
        """The queries' answers along an axis of n values. Integers stay integers."""

    @abstractmethod
    def transposed(self, array: Exact, axis: int = 0) -> Exact:
        """The same with the transposed matrix, along an axis with m answers."""

    def gram(self, weights: Array | None = None) -> Array:
        """W' diag(weights) W, for each row of weights."""
        return Dense(self.dense()).gram(weights)

    def quadratic(self, kernel: Array) -> Array:
        """The diagonal of W kernel W', for each symmetric kernel of a batch."""
        return Dense(self.dense()).quadratic(kernel)

    @property
    @abstractmethod
    def key(self) -> tuple[object, ...]:
        """Identifies the factor."""

    @property
    def rows(self) -> int:
        return self.shape[0]

    @property
    def n(self) -> int:
        return self.shape[1]

    def row_norms2(self) -> Array:
        return np.asarray((self.dense().astype(float) ** 2).sum(axis=1))

    def matrix_of(self) -> Matrix:
        """The matrix, built from the parameters alone. Raises ValueError if it is not an integer matrix."""
        return written(self.dense())

    def column_powers(self, power: int) -> tuple[int, ...]:
        """For a matrix of integers, the exact sum of |entry|^power in each column."""
        return self.matrix_of().powers(power)

    def classes(self) -> NDArray[np.int64]:
        """A number for each column, equal for equal columns; -1 for columns of zeros."""
        dense = self.dense()
        _, numbers = np.unique(dense, axis=1, return_inverse=True)
        return np.where(np.any(dense != 0, axis=0), np.asarray(numbers).reshape(-1), -1).astype(np.int64)

    def pick(self, columns: NDArray[np.int64]) -> Factor:
        """The matrix restricted to these columns."""
        if len(columns) == self.n:
            return self
        picked, size = self.dense()[:, columns], len(columns)
        each = picked.shape == (size, size) != (1, 1) and bool((picked == np.eye(size, dtype=np.int64)).all())
        return Identity(size) if each else Dense(picked)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Factor) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class Sized(Factor, AbstractFrozen, kw_only=False):
    """A kind of matrix defined for any number of values; square unless stated otherwise."""

    kind: ClassVar[str]
    size: int

    def __post_init__(self) -> None:
        length(self.size)

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    @property
    def key(self) -> tuple[object, ...]:
        return self.kind, self.size


class Identity(Sized):
    """Every value by itself."""

    kind = "identity"

    @property
    def ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See `Intervals`."""
        return np.arange(self.size), np.arange(1, self.size + 1)

    def dense(self) -> Exact:
        room("a matrix of queries", *self.shape)
        return np.eye(self.size, dtype=np.int64)

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        return array

    def transposed(self, array: Exact, axis: int = 0) -> Exact:
        return array

    def gram(self, weights: Array | None = None) -> Array:
        weights = np.ones(self.size) if weights is None else weights
        room("a matrix over pairs of values", *weights.shape, self.size)
        return weights[..., None] * np.eye(self.size)

    def quadratic(self, kernel: Array) -> Array:
        return np.diagonal(kernel, axis1=-2, axis2=-1)

    def row_norms2(self) -> Array:
        return np.ones(self.size)

    def matrix_of(self) -> Matrix:
        return Unit(self.size)

    def classes(self) -> NDArray[np.int64]:
        return np.arange(self.size)

    def pick(self, columns: NDArray[np.int64]) -> Factor:
        return self if len(columns) == self.size else super().pick(columns)


class Total(Sized):
    """All values together: the attribute is summed out."""

    kind = "total"

    @property
    def shape(self) -> tuple[int, int]:
        return 1, self.size

    @property
    def ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See `Intervals`."""
        return np.zeros(1, dtype=np.int64), np.array([self.size])

    def dense(self) -> Exact:
        return np.ones((1, self.size), dtype=np.int64)

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        return np.asarray(array.sum(axis=axis, keepdims=True))

    def transposed(self, array: Exact, axis: int = 0) -> Exact:
        return np.repeat(array, self.size, axis=axis)

    def gram(self, weights: Array | None = None) -> Array:
        weights = np.ones(1) if weights is None else weights
        room("a matrix over pairs of values", *weights.shape[:-1], self.size, self.size)
        return np.broadcast_to(weights[..., None], (*weights.shape[:-1], self.size, self.size))

    def quadratic(self, kernel: Array) -> Array:
        return np.asarray(kernel.sum(axis=(-2, -1)))[..., None]

    def row_norms2(self) -> Array:
        return np.array([float(self.size)])

    def matrix_of(self) -> Matrix:
        return Sum(self.size)

    def classes(self) -> NDArray[np.int64]:
        return np.zeros(self.size, dtype=np.int64)

    def pick(self, columns: NDArray[np.int64]) -> Factor:
        return Total(len(columns))


class Intervals(Factor):
    """Sums over intervals of values, by cumulative sums: no query costs more than two look-ups."""

    @cached_property
    def ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each query, its first value, and the value after its last one."""
        raise NotImplementedError

    def dense(self) -> Exact:
        room("a matrix of queries", *self.shape)
        first, after = self.ends
        values = np.arange(self.n)
        return ((values >= first[:, None]) & (values < after[:, None])).astype(np.int64)

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        return stretched(array, axis, *self.ends)

    def transposed(self, array: Exact, axis: int = 0) -> Exact:
        first, after = self.ends
        front = np.moveaxis(array, axis, 0)
        steps = np.zeros((self.n + 1, *front.shape[1:]), dtype=array.dtype)
        np.add.at(steps, first, front)
        np.subtract.at(steps, after, front)
        return np.moveaxis(np.cumsum(steps, axis=0)[:-1], 0, axis)

    def gram(self, weights: Array | None = None) -> Array:
        """W' diag(weights) W: each query adds its weight to a square of the matrix, computed from four corners and cumulative
        sums along both axes."""
        first, after = self.ends
        weights = np.ones(self.rows) if weights is None else weights
        front, side = np.moveaxis(weights, -1, 0), self.n + 1
        room("a matrix over pairs of values", *weights.shape[:-1], side, side)
        steps = np.zeros((side * side, *front.shape[1:]))
        np.add.at(steps, first * side + first, front)
        np.add.at(steps, after * side + after, front)
        np.subtract.at(steps, first * side + after, front)
        np.subtract.at(steps, after * side + first, front)
        steps = np.moveaxis(steps, 0, -1).reshape(*weights.shape[:-1], side, side)
        return np.asarray(steps.cumsum(axis=-1).cumsum(axis=-2)[..., :-1, :-1])

    def quadratic(self, kernel: Array) -> Array:
        """The diagonal of W kernel W', as sums of the kernel over squares, computed from its cumulative sums along both axes."""
        first, after = self.ends
        sums = cumulated(cumulated(kernel, -1), -2)
        return np.asarray(sums[..., after, after] + sums[..., first, first] - sums[..., after, first] - sums[..., first, after])

    def row_norms2(self) -> Array:
        first, after = self.ends
        return (after - first).astype(float)


class Prefix(Sized, Intervals):
    """The values up to each value."""

    kind = "prefix"

    @cached_property
    def ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.zeros(self.size, dtype=np.int64), np.arange(1, self.size + 1)

    def matrix_of(self) -> Matrix:
        return Prefixes(self.size)

    def gram(self, weights: Array | None = None) -> Array:
        weights = np.ones(self.size) if weights is None else weights
        room("a matrix over pairs of values", *weights.shape, self.size)
        later = weights[..., ::-1].cumsum(axis=-1)[..., ::-1]
        values = np.arange(self.size)
        return np.asarray(later[..., np.maximum.outer(values, values)])

    def quadratic(self, kernel: Array) -> Array:
        return np.diagonal(kernel.cumsum(axis=-1).cumsum(axis=-2), axis1=-2, axis2=-1)

    def classes(self) -> NDArray[np.int64]:
        return np.arange(self.size)


class AllRange(Sized, Intervals):
    """All n (n + 1) / 2 intervals, by first value and then by last."""

    kind = "all ranges"

    @property
    def shape(self) -> tuple[int, int]:
        return self.size * (self.size + 1) // 2, self.size

    @cached_property
    def ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        room("a list of all ranges", self.rows)
        first, last = np.triu_indices(self.size)
        return first.astype(np.int64), last.astype(np.int64) + 1

    def matrix_of(self) -> Matrix:
        return AllStretches(self.size)

    def gram(self, weights: Array | None = None) -> Array:
        if weights is not None:
            return super().gram(weights)
        room("a matrix over pairs of values", self.size, self.size)
        values = np.arange(self.size)
        return np.asarray((np.minimum.outer(values, values) + 1.0) * (self.size - np.maximum.outer(values, values)))

    def classes(self) -> NDArray[np.int64]:
        return np.arange(self.size)


class Ranges(Intervals, AbstractFrozen, kw_only=False):
    """Some intervals, by the first and last value of each (both belong to it)."""

    size: int
    lows: tuple[int, ...]
    highs: tuple[int, ...]

    def __post_init__(self) -> None:
        length(self.size)
        if any(not 0 <= low <= high < self.size for low, high in zip(self.lows, self.highs, strict=True)):
            raise ValueError("a range has at least one value, and they are numbered from zero")

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.lows), self.size

    @property
    def key(self) -> tuple[object, ...]:
        return "ranges", self.size, self.lows, self.highs

    @cached_property
    def ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.array(self.lows, dtype=np.int64), np.array(self.highs, dtype=np.int64) + 1

    def matrix_of(self) -> Matrix:
        return Stretches(self.size, *map(words, self.ends))

    def classes(self) -> NDArray[np.int64]:
        """Numbers of equal columns. Columns change only where an interval begins or ends, and are numbered by their first value.
        Stretches are merged only if they are adjacent or empty, which is enough in practice."""
        begun, ended = (np.bincount(ends, minlength=self.size + 1) for ends in self.ends)
        covered = np.cumsum(begun - ended) > 0
        return np.where(covered, np.cumsum(begun + ended > 0), -1)[:-1]

    def pick(self, columns: NDArray[np.int64]) -> Factor:
        """The intervals restricted to the kept values; at least one value of each interval must be kept."""
        first, after = (np.searchsorted(columns, end) for end in self.ends)
        return intervals(len(columns), first, after - 1)


def intervals(n: int, low: NDArray[np.int64], high: NDArray[np.int64]) -> Factor:
    """Sums over intervals of values, given the first and last value of each; a simpler kind of factor if it is equivalent."""
    if len(low) == n > 1 and (low == 0).all() and (high == np.arange(n)).all():
        return Prefix(n)
    if len(low) == n > 1 and (low == high).all() and (low == np.arange(n)).all():
        return Identity(n)
    if len(low) == 1 < n and low[0] == 0 and high[0] == n - 1:
        return Total(n)
    return Ranges(n, tuple(low.tolist()), tuple(high.tolist()))


def _is_fixed(array: object) -> bool:
    """Whether nothing can change an array, so that a large one need not be copied."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return False
        array = array.base
    return array is None or isinstance(array, bytes)


class Dense(Factor, AbstractFrozen, kw_only=False):
    """A dense matrix. Integers are kept as integers."""

    matrix: Exact

    def __post_init__(self) -> None:
        own = self.matrix if _is_fixed(self.matrix) else np.array(self.matrix)
        own.flags.writeable = False
        settle(self, "matrix", own)

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape[0], self.matrix.shape[1]

    @cached_property
    def key(self) -> tuple[object, ...]:
        wide = self.matrix.dtype.kind == "O"
        return "dense", self.shape, self.matrix.dtype.str, tuple(self.matrix.ravel()) if wide else self.matrix.tobytes()

    @cached_property
    def floats(self) -> Array:
        return self.matrix.astype(np.float64)

    def dense(self) -> Exact:
        return self.matrix

    def matrix_of(self) -> Matrix:
        return written(self.matrix)

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        return _along(self.matrix if array.dtype.kind != "f" else self.floats, array, axis)

    def transposed(self, array: Exact, axis: int = 0) -> Exact:
        return _along((self.matrix if array.dtype.kind != "f" else self.floats).T, array, axis)

    def gram(self, weights: Array | None = None) -> Array:
        room("a matrix over pairs of values", *(() if weights is None else weights.shape[:-1]), self.n, self.n)
        if weights is None:
            return np.asarray(self.floats.T @ self.floats)
        return np.asarray(np.swapaxes(weights[..., None] * self.floats, -1, -2) @ self.floats)

    def quadratic(self, kernel: Array) -> Array:
        return np.asarray(((self.floats @ kernel) * self.floats).sum(axis=-1))


def _along(matrix: Exact, array: Exact, axis: int) -> Exact:
    return np.moveaxis(np.tensordot(matrix, array, axes=(1, axis)), 0, axis)
