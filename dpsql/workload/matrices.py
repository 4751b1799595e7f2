"""Matrices of integers that noise is calibrated to: what is applied to private sums, and how long its columns are.

Each holds immutable numbers: Python integers, and words in a `bytes`. `apply` and `powers` (from which the cost is computed)
read the same numbers. No method of another class is called, and nothing is computed in floats. Sizes and entries were checked
at construction, and every `apply` is a sum of products of an entry and an input number, so that

    |A x|_1 <= max(powers(1)) |x|_1,   and no number on the way is larger than max(1, powers(1)) |x|_1:

where that is below 2^62, 64-bit words hold everything; otherwise pass Python integers (an array of objects).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Exact: TypeAlias = NDArray[Any]  # of 64 bit integers, or of Python integers where those might overflow

LONGEST = 10**8  # rows or columns
LARGEST = 2**256  # of entries
WIDTHS = {"i", "u"}  # kinds of words


class Matrix(Protocol):
    """An integer matrix of `rows` rows and `n` columns."""

    @property
    def rows(self) -> int: ...

    @property
    def n(self) -> int: ...

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        """The matrix times what lies along an axis of integers."""
        ...

    def powers(self, power: int) -> tuple[int, ...]:
        """For each column the sum of |entry|^power."""
        ...


def length(size: object) -> int:
    """A number of rows or columns. Raises ValueError for anything else: booleans, floats, words that wrap around."""
    if type(size) is not int or not 1 <= size <= LONGEST:
        raise ValueError(f"a matrix has 1 to {LONGEST} values, as a whole number")
    return size


def words(numbers: object) -> bytes:
    """Integers of 64 bits each. Raises ValueError for anything else."""
    own = numbers if type(numbers) is np.ndarray else np.array(numbers if len(_sized(numbers)) else np.zeros(0, dtype=np.int64))
    if own.dtype.kind not in WIDTHS or own.dtype.itemsize > 8 or (own.dtype.kind == "u" and own.max(initial=0) >= 2**63):
        raise ValueError("only whole numbers of 64 bits are measured")
    return own.astype(np.int64, copy=False).tobytes()


def _sized(numbers: object) -> Sequence[int]:
    if type(numbers) not in (tuple, list) or not all(type(number) is int for number in numbers):  # type: ignore[attr-defined]
        raise ValueError("only whole numbers of 64 bits are measured")
    return numbers  # type: ignore[return-value]


def _of(data: bytes) -> NDArray[np.int64]:
    """The words, read-only."""
    return np.frombuffer(data, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Unit:
    """Every value by itself."""

    n: int

    @property
    def rows(self) -> int:
        return self.n

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        return array

    def powers(self, power: int) -> tuple[int, ...]:
        return (1,) * self.n


@dataclass(frozen=True, slots=True)
class Stretches:
    """Sums over intervals of values, by cumulative sums. `first` and `after` hold the first value of each, and the one after the
    last; an interval that ends where it begins is a row of zeros."""

    n: int
    first: bytes
    after: bytes

    @classmethod
    def of(cls, n: int, first: object, after: object) -> Stretches:
        made = cls(length(n), words(first), words(after))
        starts, ends = _of(made.first), _of(made.after)
        if len(starts) != len(ends) or (starts < 0).any() or (ends < starts).any() or (ends > n).any():
            raise ValueError("an interval begins at a value and ends at one that is not before it")
        return made

    @property
    def rows(self) -> int:
        return len(self.first) // 8

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        return stretched(array, axis, _of(self.first), _of(self.after))

    def powers(self, power: int) -> tuple[int, ...]:
        """Entries are 0 or 1: how many intervals hold a value."""
        steps = np.bincount(_of(self.first), minlength=self.n + 1) - np.bincount(_of(self.after), minlength=self.n + 1)
        return tuple(np.cumsum(steps)[: self.n].tolist())


def stretched(array: Exact, axis: int, first: NDArray[np.int64], after: NDArray[np.int64]) -> Exact:
    """Sums over intervals along an axis."""
    sums = cumulated(array, axis)
    return np.asarray(np.take(sums, after, axis=axis) - np.take(sums, first, axis=axis))


def cumulated(array: Exact, axis: int) -> Exact:
    """The sum before each value, and the total."""
    head = np.zeros_like(np.take(array, [0], axis=axis))
    return np.concatenate([head, np.cumsum(array, axis=axis)], axis=axis)


@dataclass(frozen=True, slots=True)
class Sum:
    """All values together."""

    n: int

    @property
    def rows(self) -> int:
        return 1

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        return np.asarray(array.sum(axis=axis, keepdims=True))

    def powers(self, power: int) -> tuple[int, ...]:
        return (1,) * self.n


@dataclass(frozen=True, slots=True)
class Written:
    """A dense matrix: words, or Python integers where words are too small."""

    rows: int
    n: int
    entries: bytes | tuple[int, ...]

    @classmethod
    def of(cls, matrix: object) -> Written:
        """Of an array of whole numbers. Raises ValueError for anything else."""
        if type(matrix) is not np.ndarray or matrix.ndim != 2 or max(matrix.shape) > LONGEST:
            raise ValueError("a matrix has rows and columns")
        rows, n = matrix.shape
        if matrix.dtype.kind == "O" or matrix.dtype == np.uint64:
            return cls(rows, n, _python(matrix.reshape(-1).tolist()))
        return cls(rows, n, words(matrix))

    @property
    def array(self) -> Exact:
        flat = _of(self.entries) if isinstance(self.entries, bytes) else _objects(self.entries)
        return flat.reshape(self.rows, self.n)

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        return np.moveaxis(np.tensordot(self.array, array, axes=(1, axis)), 0, axis)

    def powers(self, power: int) -> tuple[int, ...]:
        return exact_column_powers(self.array, power)


def _python(numbers: list[object]) -> tuple[int, ...]:
    found = tuple(number for number in numbers if type(number) is int and abs(number) <= LARGEST)
    if len(found) != len(numbers):
        raise ValueError("only whole numbers are measured")
    return found


def _objects(numbers: Sequence[int]) -> Exact:
    found = np.empty(len(numbers), dtype=object)
    found[:] = numbers
    return found


def exact_column_powers(dense: Exact, power: int) -> tuple[int, ...]:
    """Of a matrix of integers: the sum of |entry|^power in each column, in Python integers where 64 bits might not do."""
    if dense.dtype.kind not in "iuO":
        raise ValueError("only integer matrices have exact norms")
    most = max((abs(int(entry)) for entry in (dense.max(initial=0), dense.min(initial=0))), default=0)
    wide = most**power * max(1, dense.shape[0]) >= 2**62
    sums = (np.abs(dense.astype(object) if wide else dense) ** power).sum(axis=0)
    return tuple(int(entry) for entry in sums)


@dataclass(frozen=True, slots=True)
class Stacked:
    """[diag(own); others]: every value times a number of its own, and further rows."""

    own: bytes
    others: Written

    @classmethod
    def of(cls, own: object, others: object) -> Stacked:
        made = cls(words(own), Written.of(others))
        if type(own) is not np.ndarray or own.ndim != 1 or len(made.own) != 8 * made.others.n or not len(own):
            raise ValueError("every value has a number, and so many columns")
        return made

    @property
    def rows(self) -> int:
        return self.others.n + self.others.rows

    @property
    def n(self) -> int:
        return self.others.n

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        front = np.moveaxis(array, axis, 0)
        kept = front * _of(self.own).reshape(-1, *[1] * (front.ndim - 1))
        return np.moveaxis(np.concatenate([kept, self.others.apply(front)]), 0, axis)

    def powers(self, power: int) -> tuple[int, ...]:
        below = self.others.powers(power)
        return tuple(abs(kept) ** power + rest for kept, rest in zip(_of(self.own).tolist(), below, strict=True))


@dataclass(frozen=True, slots=True)
class Halves:
    """The first half less the second half of every block of a width; the last block may be cut short."""

    n: int
    width: int

    @classmethod
    def of(cls, n: object, width: object) -> Halves:
        if length(width) % 2:
            raise ValueError("a block has two halves")
        return cls(length(n), length(width))

    @property
    def rows(self) -> int:
        return -(-self.n // self.width)

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        front = np.moveaxis(array, axis, 0)
        full = np.zeros((self.rows * self.width, *front.shape[1:]), dtype=array.dtype)
        full[: self.n] = front
        halves = full.reshape(self.rows, 2, self.width // 2, *front.shape[1:]).sum(axis=2)
        return np.moveaxis(halves[:, 0] - halves[:, 1], 0, axis)

    def powers(self, power: int) -> tuple[int, ...]:
        """A value is in one block, and counts 1 or -1 there."""
        return (1,) * self.n


@dataclass(frozen=True, slots=True)
class Centre:
    """n I - 1 1': every value's distance from the mean, times n."""

    n: int

    @property
    def rows(self) -> int:
        return self.n

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        return np.asarray(self.n * array - array.sum(axis=axis, keepdims=True))

    def powers(self, power: int) -> tuple[int, ...]:
        """One entry is n - 1, and n - 1 are -1. (n |x| is at most max(1, powers(1)) |x|_1, as 2 (n - 1) >= n for n >= 2.)"""
        return ((self.n - 1) ** power + self.n - 1,) * self.n


@dataclass(frozen=True, slots=True)
class Root:
    """The square root of n prefix sums: t_(i-j) e_j for j <= i, with the coefficients t of the series and the scales e that
    make columns about equally long. Products are computed on large integers, so the result is an array of Python integers."""

    n: int

    @property
    def rows(self) -> int:
        return self.n

    @property
    def coefficients(self) -> tuple[int, ...]:
        return root_series(self.n)

    @property
    def scales(self) -> tuple[int, ...]:
        return root_scales(self.n)

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        front = np.moveaxis(array.astype(object), axis, 0)
        columns = (front * _objects(self.scales).reshape(-1, *[1] * (front.ndim - 1))).reshape(self.n, -1).T
        series = list(self.coefficients)
        sums = [convolved(series, column.tolist())[: self.n] for column in columns]
        return np.moveaxis(np.array(sums, dtype=object).T.reshape(front.shape), 0, axis)

    def powers(self, power: int) -> tuple[int, ...]:
        """Column j holds the first n - j coefficients, each times its scale."""
        sums, total = [], 0
        for coefficient in self.coefficients:
            total += coefficient**power
            sums.append(total)
        return tuple(scale**power * norm for scale, norm in zip(self.scales, reversed(sums), strict=True))


ROOT_BITS = 20


@lru_cache(maxsize=8)
def root_series(n: int) -> tuple[int, ...]:
    """2^ROOT_BITS s_k of the series (1 - x)^(-1/2), by s_k = s_(k-1) (2k - 1) / 2k with enough extra bits to keep them exact."""
    exact, found = 1 << (ROOT_BITS + 64), []
    for k in range(1, n + 1):
        found.append((exact + (1 << 63)) >> 64)
        exact = exact * (2 * k - 1) // (2 * k)
    return tuple(found)


@lru_cache(maxsize=8)
def root_scales(n: int) -> tuple[int, ...]:
    """2^ROOT_BITS over the length of each column relative to the last one's."""
    norms, total = [], 0
    for coefficient in root_series(n):
        total += coefficient**2
        norms.append(total)
    last = math.isqrt(norms[0])
    return tuple((last << ROOT_BITS) // math.isqrt(norm) for norm in reversed(norms))


def convolved(a: list[int], b: list[int]) -> list[int]:
    """The convolution of two lists of integers, exact: each list is one large integer with the numbers as its digits."""
    most = max(map(abs, a), default=0) * max(map(abs, b), default=0) * min(len(a), len(b))
    width = most.bit_length() // 8 + 2  # bytes of a digit, with room for a sign

    def packed(numbers: list[int]) -> int:
        return int.from_bytes(b"".join(number.to_bytes(width, "little") for number in numbers), "little")

    def product(left: list[int], right: list[int]) -> list[int]:
        if not any(left) or not any(right):
            return [0] * (len(a) + len(b) - 1)
        whole = (packed(left) * packed(right)).to_bytes(width * (len(a) + len(b)), "little")
        return [int.from_bytes(whole[i * width : (i + 1) * width], "little") for i in range(len(a) + len(b) - 1)]

    def part(numbers: list[int], sign: int) -> list[int]:
        return [max(0, sign * number) for number in numbers]

    plus, minus = product(part(a, 1), part(b, 1)), product(part(a, 1), part(b, -1))
    if min(a) < 0:
        more, less = product(part(a, -1), part(b, -1)), product(part(a, -1), part(b, 1))
        plus, minus = [x + y for x, y in zip(plus, more, strict=True)], [x + y for x, y in zip(minus, less, strict=True)]
    return [x - y for x, y in zip(plus, minus, strict=True)]
