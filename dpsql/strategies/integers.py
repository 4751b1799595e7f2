"""Real strategies made of whole numbers, so that they can be measured exactly."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from dpsql.workload.factors import Array, Dense, Exact, Factor, Identity, Prefix, Total

BITS = 20  # rounding entries to 2^-k of the longest column moves its squared length by about 2 / 2^k
ALL_BITS = 40  # of a product, so that its answers and their noise are held by 64 bits


def bits_of(factors: int) -> int:
    """The bits of each of so many factors of a product."""
    return min(BITS, ALL_BITS // max(1, factors))


def whole(matrix: Array, queries: Exact | None = None, bits: int = BITS) -> Dense | None:
    """An integer matrix that measures nearly the same, in units of 2^-bits of the longest column.

    If the matrix has full column rank, its entries are rounded. Else rounding would tilt the space of what is measured, and
    queries that were combinations of it would be no more. So it is written as T B with B some of the integer `queries`
    themselves, a basis of all of them, and T is rounded: what is measured spans exactly the queries. Nothing, if the queries are
    not integers.
    """
    longest = np.sqrt((matrix**2).sum(axis=0).max())
    if matrix.shape[0] == matrix.shape[1]:
        return Dense(np.rint(matrix / longest * 2.0**bits).astype(np.int64))
    if queries is None or queries.dtype.kind not in "iu":
        return None
    basis = _basis(queries, matrix.shape[0])
    mixing = np.linalg.lstsq(basis.T.astype(float), matrix.T / longest, rcond=None)[0].T
    bits += int(np.ceil(np.log2(1 + np.sqrt((basis.astype(float) ** 2).sum(axis=0).max()))))
    return Dense(np.rint(mixing * 2.0**bits).astype(np.int64) @ basis)


def _basis(queries: Exact, rank: int) -> Exact:
    """As many rows as the rank, far from dependent."""
    *_, order = scipy.linalg.qr(queries.T.astype(float), mode="r", pivoting=True)
    return np.asarray(queries[np.sort(order[:rank])])


def integral(factor: Factor) -> bool:
    """Whether the matrix consists of integers."""
    return not isinstance(factor, Dense) or factor.matrix.dtype.kind in "iuO"


def trivial(factor: Factor) -> bool:
    """Whether measuring the queries themselves is as good as anything: one query, or all cells."""
    return isinstance(factor, Identity | Total) or (isinstance(factor, Prefix) and factor.n == 1)
