"""Rounding real strategies to integers, so that they can be measured exactly."""

from __future__ import annotations

import numpy as np
import scipy

from dpsql.workload.factors import Array, Dense, Exact, Factor, Identity, Total
from dpsql.workload.workload import Workload

BITS = 20  # of the length of the longest column
ALL_BITS = 40  # of a product, so that its answers and their noise are held by 64 bits


def bits_of(factors: int) -> int:
    """The number of bits for each of this many factors of a product."""
    return min(BITS, ALL_BITS // max(1, factors))


def whole(matrix: Array, workload: Workload, bits: int = BITS, mixing: Array | None = None) -> Dense | None:
    """An integer matrix that measures nearly the same, in units of 2^-bits of the longest column.

    If the matrix has full column rank, its entries are rounded. Else rounding would tilt the space of what is measured, and
    queries that were combinations of it would be no more. So it is written as T B with B some of the workload's integer queries
    themselves, a basis of all of them, and T is rounded: what is measured spans exactly the queries. Where `mixing` times all
    queries is known to be the matrix, it is T. Nothing, if the queries are not integers.
    """
    if matrix.shape[0] == matrix.shape[1]:
        return Dense(rounded(matrix, bits))
    queries = workload.dense()
    if queries.dtype.kind not in "iu":
        return None
    longest = np.sqrt((matrix**2).sum(axis=0).max())
    if mixing is not None:
        basis, mixing = queries, mixing / longest
    else:
        basis = _basis(queries, matrix.shape[0])
        mixing = np.linalg.lstsq(basis.T.astype(float), matrix.T / longest, rcond=None)[0].T
    bits += int(np.ceil(np.log2(1 + np.sqrt((basis.astype(float) ** 2).sum(axis=0).max()))))
    return Dense(_product(np.rint(mixing * 2.0**bits), basis))


def _product(left: Array, right: Exact) -> Exact:
    """Of whole numbers: in floats where these hold every partial sum, as that is many times faster."""
    if np.abs(left).sum(axis=1).max() * np.abs(right).max() < 2.0**53:
        return np.asarray((left @ right.astype(float)).astype(np.int64))
    return np.asarray(left.astype(np.int64) @ right)


def rounded(matrix: Array, bits: int) -> Exact:
    """The matrix in units of 2^-bits of its longest column, every entry rounded up or down, so that columns keep their lengths.

    Entry by entry, from the largest to the smallest of each column, the neighbour is taken that brings the squared length nearer
    to what it should be. At the optimum of a sum of variances the lengths are all that counts to first order (the derivative by
    the Gram matrix of the strategy is diagonal there), so the loss is second order: at 13 bits 3e-6, not 2e-4.
    """
    real = matrix / np.sqrt((matrix**2).sum(axis=0).max()) * 2.0**bits
    below, columns = np.floor(real), np.arange(real.shape[1])
    excess, found = np.zeros(real.shape[1]), np.zeros_like(real)
    for rows in np.argsort(-np.abs(real), axis=0, kind="stable"):
        down, square = below[rows, columns], real[rows, columns] ** 2
        if_down, if_up = excess + down**2 - square, excess + (down + 1) ** 2 - square
        nearer = np.abs(if_down) <= np.abs(if_up)
        found[rows, columns], excess = np.where(nearer, down, down + 1), np.where(nearer, if_down, if_up)
    return np.asarray(found.astype(np.int64))


def _basis(queries: Exact, rank: int) -> Exact:
    """As many rows as the rank, far from dependent."""
    *_, order = scipy.linalg.qr(queries.T.astype(float), mode="r", pivoting=True)
    return np.asarray(queries[np.sort(order[:rank])])


def integral(factor: Factor) -> bool:
    """Whether the matrix consists of integers."""
    return not isinstance(factor, Dense) or factor.matrix.dtype.kind in "iuO"


def trivial(factor: Factor) -> bool:
    """Whether measuring the queries themselves is optimal: one query, or all cells."""
    return isinstance(factor, Identity | Total)
