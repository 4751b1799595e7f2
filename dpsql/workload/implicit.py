"""One-attribute matrices found by strategy searches, implicit where that saves time, with their least squares."""

from __future__ import annotations

import numpy as np

from dpsql.frozen import AbstractFrozen, settle
from dpsql.trusted.cached import cached_property
from dpsql.trusted.matrices.matrices import Centre, Halves, Matrix, Root, Stacked
from dpsql.workload.domain import room, too_large
from dpsql.workload.factors import Array, Exact, Factor, Prefix, Sized, length, words, written

ENTRIES = 2**33  # of rows of queries whose variance is computed at once


class PIdentity(Factor, AbstractFrozen, kw_only=False):
    """[diag(own); rows] in integers. Its least squares are those of a diagonal matrix and a few rows (Woodbury's formula)."""

    own: Exact
    others: Exact

    def __post_init__(self) -> None:
        own, others = np.array(self.own), np.array(self.others)
        if own.ndim != 1 or others.ndim != 2 or others.shape[1] != len(own) or not len(own):
            raise ValueError("every value must have a number below the number of columns")
        for name, numbers in (("own", np.frombuffer(words(own), dtype=np.int64)), ("others", written(others).array)):
            settle(self, name, numbers)
        if (self.own <= 0).any():
            raise ValueError("every value must be measured with a positive weight")

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.own) + len(self.others), len(self.own)

    @property
    def key(self) -> tuple[object, ...]:
        return "p-identity", self.shape, self.own.tobytes(), self.others.tobytes()

    def dense(self) -> Exact:
        room("a matrix of queries", *self.shape)
        return np.vstack([np.diag(self.own), self.others])

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        return self._matrix.apply(array, axis)

    def transposed(self, array: Exact, axis: int = 0) -> Exact:
        front = np.moveaxis(array, axis, 0)
        kept = front[: len(self.own)] * self.own.reshape(-1, *[1] * (front.ndim - 1))
        return np.moveaxis(kept + np.tensordot(self.others.T, front[len(self.own) :], axes=1), 0, axis)

    def matrix_of(self) -> Matrix:
        return Stacked(words(self.own), written(self.others))

    def solve(self, array: Array, axis: int = 0) -> Array:
        """The least squares values for answers along an axis."""
        right = np.moveaxis(self.transposed(array, axis), axis, 0)
        own = self._inverse_own.reshape(-1, *[1] * (right.ndim - 1))
        inner = np.tensordot(self._half, right, axes=1)
        return np.moveaxis(own**2 * right - np.tensordot(self._half.T, inner, axes=1), 0, axis)

    def variances(self, query: Factor) -> Array:
        """diag(W (A'A)^-1 W')."""
        return query.quadratic(np.diag(self._inverse_own**2) - self._half.T @ self._half)

    @cached_property
    def _matrix(self) -> Matrix:
        return self.matrix_of()

    @cached_property
    def _inverse_own(self) -> Array:
        return 1 / self.own.astype(float)

    @cached_property
    def _half(self) -> Array:
        """H with (A'A)^-1 = D^-2 - H'H: L^-1 R D^-2, where L L' = I + R D^-2 R'."""
        scaled = self.others * self._inverse_own
        lower = np.linalg.cholesky(np.eye(len(self.others)) + scaled @ scaled.T)
        return np.asarray(np.linalg.solve(lower, scaled * self._inverse_own))


class Differences(Factor, AbstractFrozen, kw_only=False):
    """The first half less the second half of every block of a width; the last block may be cut short."""

    size: int
    width: int

    def __post_init__(self) -> None:
        if length(self.size) and length(self.width) % 2:
            raise ValueError("a block has two halves")

    @property
    def shape(self) -> tuple[int, int]:
        return -(-self.size // self.width), self.size

    @property
    def key(self) -> tuple[object, ...]:
        return "differences", self.size, self.width

    def dense(self) -> Exact:
        room("a matrix of queries", self.size, self.size)
        return self.apply(np.eye(self.size, dtype=np.int64))

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        return self.matrix_of().apply(array, axis)

    def transposed(self, array: Exact, axis: int = 0) -> Exact:
        front = np.moveaxis(array, axis, 0)
        signs = np.repeat(np.stack([front, -front], axis=1).reshape(-1, *front.shape[1:]), self.width // 2, axis=0)
        return np.moveaxis(signs[: self.size], 0, axis)

    def matrix_of(self) -> Matrix:
        return Halves(self.size, self.width)


class Centered(Sized):
    """n I - 1 1': every value's distance from the mean, times n."""

    kind = "centered"

    def dense(self) -> Exact:
        room("a matrix of queries", *self.shape)
        return self.size * np.eye(self.size, dtype=np.int64) - 1

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        return self.matrix_of().apply(array, axis)

    def transposed(self, array: Exact, axis: int = 0) -> Exact:
        return self.apply(array, axis)

    def quadratic(self, kernel: Array) -> Array:
        sums = kernel.sum(axis=-1)
        return np.asarray(self.size**2 * np.diagonal(kernel, axis1=-2, axis2=-1) - 2 * self.size * sums
                          + sums.sum(axis=-1, keepdims=True))

    def matrix_of(self) -> Matrix:
        return Centre(self.size)


class SquareRoot(Sized):
    """The normalised square root of n prefix sums, in integers."""

    kind = "square root"

    def matrix_of(self) -> Matrix:
        return Root(self.size)

    @property
    def coefficients(self) -> tuple[int, ...]:
        """2^BITS s_k."""
        return Root(self.size).coefficients

    @property
    def scales(self) -> tuple[int, ...]:
        """2^BITS divided by the length of each column relative to the last one's."""
        return Root(self.size).scales

    def dense(self) -> Exact:
        room("a matrix of queries", *self.shape)
        coefficients, scales = np.array(self.coefficients), np.array(self.scales)
        places = np.subtract.outer(np.arange(self.size), np.arange(self.size))
        return np.asarray(np.where(places >= 0, coefficients[places], 0) * scales)

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        if array.dtype.kind == "f":
            return self._convolved(array * _lying(self._float_scales, array, axis), self._float_coefficients, axis)
        return self.matrix_of().apply(array, axis)

    def transposed(self, array: Exact, axis: int = 0) -> Exact:
        back = np.flip(self._convolved(np.flip(array.astype(float), axis), self._float_coefficients, axis), axis)
        return np.asarray(back * _lying(self._float_scales, back, axis))

    def solve(self, array: Array, axis: int = 0) -> Array:
        """S^-1 y, with the scales of the columns undone."""
        found = self._convolved(array, self._inverse, axis)
        return np.asarray(found / _lying(self._float_scales, found, axis))

    def variances(self, query: Factor) -> Array:
        """The squared norms of the rows of W S^-1, computed row by row, because no two rows of prefix sums are alike."""
        if isinstance(query, Prefix):
            return self._prefix_variances
        if query.rows * self.size > ENTRIES:
            raise too_large("the variances of queries about long prefix sums", query.rows * self.size, ENTRIES)
        found = []
        for start in range(0, query.rows, 256):
            chosen = np.eye(query.rows)[start : start + 256].T
            rows = query.transposed(chosen, 0) / self._float_scales[:, None]
            back = np.flip(self._convolved(np.flip(rows, 0), self._inverse, 0), 0)
            found.append((back**2).sum(axis=0))
        return np.concatenate(found)

    @cached_property
    def _prefix_variances(self) -> Array:
        """The rows differ by a multiple of one row of S^-1."""
        inverse, weights = self._inverse[::-1].copy(), 1 / self._float_scales
        row, found = np.zeros(self.size), np.zeros(self.size)
        for i in range(self.size):
            row[: i + 1] += weights[i] * inverse[self.size - 1 - i :]
            found[i] = row[: i + 1] @ row[: i + 1]
        return found

    @cached_property
    def _float_coefficients(self) -> Array:
        return np.array(self.coefficients, dtype=float)

    @cached_property
    def _float_scales(self) -> Array:
        return np.array(self.scales, dtype=float)

    @cached_property
    def _inverse(self) -> Array:
        """The coefficients of the inverse series, by Newton's iteration: each round doubles how many are right."""
        series = self._float_coefficients
        inverse: Array = np.array([1 / series[0]])
        while len(inverse) < self.size:
            known = min(2 * len(inverse), self.size)
            rest = -_by_fourier(series[:known], inverse, 0)[:known]
            rest[0] += 2
            inverse = _by_fourier(inverse, rest, 0)[:known]
        return inverse

    def _convolved(self, array: Exact, series: Array, axis: int) -> Exact:
        shape = [1] * array.ndim
        shape[axis] = self.size
        whole = _by_fourier(array, series.reshape(shape), axis)
        return np.asarray(np.take(whole, np.arange(self.size), axis=axis))


def _lying(values: Exact, array: Exact, axis: int) -> Exact:
    """A vector along an axis of an array."""
    shape = [1] * array.ndim
    shape[axis] = len(values)
    return values.reshape(shape)


def _by_fourier(a: Array, b: Array, axis: int) -> Array:
    """The convolution of floats along an axis."""
    wanted = a.shape[axis] + b.shape[axis] - 1
    size = min(odd << max(0, (-(-wanted // odd) - 1).bit_length()) for odd in (1, 3, 5, 9, 15))  # transforms are fast for these
    whole = np.fft.irfft(np.fft.rfft(a, size, axis=axis) * np.fft.rfft(b, size, axis=axis), size, axis=axis)
    return np.asarray(np.take(whole, np.arange(wanted), axis=axis))
