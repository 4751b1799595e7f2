"""Integer matrices to which noise is calibrated: they are applied to private sums, and the lengths of their columns bound the
sensitivity.

Each is a frozen value whose fields are whole numbers and `bytes` of 64-bit words. `kernel.taken` constructs it again from these,
checks that its sizes and entries lie in the ranges of their annotations, and its `assumptions`. `apply` and `powers` (from which
the cost is computed) read the same numbers. No method of another class is called, and nothing is computed in floats. Every
`apply` is a sum of products of an entry and an input number, so that

    |A x|_1 <= max(powers(1)) |x|_1,   and no number on the way is larger than max(1, powers(1)) |x|_1:

where that is below 2^62, 64-bit words hold everything; otherwise pass Python integers (an array of objects).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen
from dpsql.trusted.field_types import Assumptions, NumberRange

Exact: TypeAlias = NDArray[Any]  # of 64 bit integers, or of Python integers where those might overflow

LONGEST = 10**8  # rows or columns
LARGEST = 2**256  # of entries
AT_ONCE = 2**20  # entries of which powers are computed at once
Length: TypeAlias = Annotated[int, NumberRange(least=1, most=LONGEST)]
Height: TypeAlias = Annotated[int, NumberRange(least=0, most=LONGEST)]
Entry: TypeAlias = Annotated[int, NumberRange(least=-LARGEST, most=LARGEST)]


def _of(data: bytes) -> NDArray[np.int64]:
    """The words as a read-only array."""
    return np.frombuffer(data, dtype=np.int64)


class Unit(Frozen, kw_only=False):
    """Every value separately."""

    n: Length

    @property
    def rows(self) -> int:
        return self.n

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        return array

    def powers(self, power: int) -> tuple[int, ...]:
        return (1,) * self.n


class Stretches(Frozen, kw_only=False):
    """Sums over intervals of values, computed from cumulative sums. `first` contains the first value of each interval, and
    `after` the value after its last; an interval with equal ends is a row of zeros."""

    n: Length
    first: bytes
    after: bytes

    def assumptions(self) -> Assumptions:
        yield len(self.first) == len(self.after) and len(self.first) % 8 == 0, "every interval has two ends"
        first, after = _of(self.first), _of(self.after)
        yield (first >= 0).all() and (first <= after).all() and (after <= self.n).all(), "an interval ends before it begins"

    @property
    def rows(self) -> int:
        return len(self.first) // 8

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        return stretched(array, axis, _of(self.first), _of(self.after))

    def powers(self, power: int) -> tuple[int, ...]:
        """Entries are 0 or 1, so this is the number of intervals that contain each value."""
        steps = np.bincount(_of(self.first), minlength=self.n + 1) - np.bincount(_of(self.after), minlength=self.n + 1)
        return tuple(np.cumsum(steps)[: self.n].tolist())


class Prefixes(Frozen, kw_only=False):
    """Sums over the values up to each one."""

    n: Length

    @property
    def rows(self) -> int:
        return self.n

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        return np.asarray(np.cumsum(array, axis=axis))

    def powers(self, power: int) -> tuple[int, ...]:
        """Entries are 0 or 1: a value is in its own sum and in all later ones."""
        return tuple(range(self.n, 0, -1))


class AllStretches(Frozen, kw_only=False):
    """Sums over all n (n + 1) / 2 intervals of values, by first value and then by last."""

    n: Length

    @property
    def rows(self) -> int:
        return self.n * (self.n + 1) // 2

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        first, last = np.triu_indices(self.n)
        return stretched(array, axis, first, last + 1)

    def powers(self, power: int) -> tuple[int, ...]:
        """Entries are 0 or 1: an interval contains a value if it begins at or before it, and ends at or after it."""
        return tuple((value + 1) * (self.n - value) for value in range(self.n))


def stretched(array: Exact, axis: int, first: NDArray[np.int64], after: NDArray[np.int64]) -> Exact:
    """Sums over intervals along an axis."""
    sums = cumulated(array, axis)
    return np.asarray(np.take(sums, after, axis=axis) - np.take(sums, first, axis=axis))


def cumulated(array: Exact, axis: int) -> Exact:
    """The sum before each value, and the total."""
    head = np.zeros_like(np.take(array, [0], axis=axis))
    return np.concatenate([head, np.cumsum(array, axis=axis)], axis=axis)


class Sum(Frozen, kw_only=False):
    """All values together."""

    n: Length

    @property
    def rows(self) -> int:
        return 1

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        return np.asarray(array.sum(axis=axis, keepdims=True))

    def powers(self, power: int) -> tuple[int, ...]:
        return (1,) * self.n


class Written(Frozen, kw_only=False):
    """A dense matrix, stored as 64-bit words, or as Python integers if words are too small."""

    rows: Height
    n: Length
    entries: bytes | tuple[Entry, ...]

    def assumptions(self) -> Assumptions:
        size = 8 if isinstance(self.entries, bytes) else 1
        yield len(self.entries) == self.rows * self.n * size, "a matrix has an entry for each row and column"

    @property
    def array(self) -> Exact:
        flat = _of(self.entries) if isinstance(self.entries, bytes) else _objects(self.entries)
        return flat.reshape(self.rows, self.n)

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        return np.moveaxis(np.tensordot(self.array, array, axes=(1, axis)), 0, axis)

    def powers(self, power: int) -> tuple[int, ...]:
        return exact_column_powers(self.array, power)


def _objects(numbers: Sequence[int]) -> Exact:
    found = np.empty(len(numbers), dtype=object)
    found[:] = numbers
    return found


def exact_column_powers(dense: Exact, power: int) -> tuple[int, ...]:
    """For a matrix of integers, the sum of |entry|^power in each column, in Python integers if 64 bits may not suffice."""
    if dense.dtype.kind not in "iuO":
        raise ValueError("only integer matrices have exact norms")
    most = max((abs(int(entry)) for entry in (dense.max(initial=0), dense.min(initial=0))), default=0)
    wide = most**power * max(1, dense.shape[0]) >= 2**62
    found: list[int] = []
    for first in range(0, dense.shape[1], step := max(1, AT_ONCE // max(1, dense.shape[0]))):
        part = dense[:, first : first + step]
        found += ((np.abs(part.astype(object) if wide else part) ** power).sum(axis=0)).tolist()
    return tuple(map(int, found))


class Stacked(Frozen, kw_only=False):
    """[diag(own); others]: every value times its own number, and further rows."""

    own: bytes
    others: Written

    def assumptions(self) -> Assumptions:
        yield len(self.own) == 8 * self.others.n, "every value must have a number below the number of columns"

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


class Halves(Frozen, kw_only=False):
    """The first half minus the second half of every block of a given width; the last block may be shorter."""

    n: Length
    width: Length

    def assumptions(self) -> Assumptions:
        yield self.width % 2 == 0, "a block has two halves"

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
        """A value is in exactly one block, with coefficient 1 or -1."""
        return (1,) * self.n


class Centre(Frozen, kw_only=False):
    """n I - 1 1': every value's distance from the mean, times n."""

    n: Length

    @property
    def rows(self) -> int:
        return self.n

    def apply(self, array: Exact, axis: int = 0) -> Exact:
        return np.asarray(self.n * array - array.sum(axis=axis, keepdims=True))

    def powers(self, power: int) -> tuple[int, ...]:
        """One entry is n - 1, and n - 1 are -1. (n |x| is at most max(1, powers(1)) |x|_1, as 2 (n - 1) >= n for n >= 2.)"""
        return ((self.n - 1) ** power + self.n - 1,) * self.n


class Root(Frozen, kw_only=False):
    """The square root of n prefix sums: t_(i-j) e_j for j <= i, with the coefficients t of the series and scales e that make
    columns about equally long. Products are computed on large integers, so the result is an array of Python integers."""

    n: Length

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


Matrix: TypeAlias = Unit | Sum | Prefixes | AllStretches | Stretches | Written | Stacked | Halves | Centre | Root
"""The matrices that may be measured, of `rows` rows and `n` columns: `apply` multiplies one with what lies along an axis of
integers, and `powers` is for each column the sum of |entry|^power. A new one belongs in the test of this file too."""

ROOT_BITS = 20


@lru_cache(maxsize=8)
def root_series(n: int) -> tuple[int, ...]:
    """2^ROOT_BITS s_k for the series (1 - x)^(-1/2), computed by s_k = s_(k-1) (2k - 1) / 2k with enough extra bits to keep them
    exact."""
    exact, found = 1 << (ROOT_BITS + 64), []
    for k in range(1, n + 1):
        found.append((exact + (1 << 63)) >> 64)
        exact = exact * (2 * k - 1) // (2 * k)
    return tuple(found)


@lru_cache(maxsize=8)
def root_scales(n: int) -> tuple[int, ...]:
    """2^ROOT_BITS divided by the length of each column relative to the last one's."""
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
