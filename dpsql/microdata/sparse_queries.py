"""The queries of a workload as sparse matrices: one entry for each cell that a query counts."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dpsql.microdata.noisy_answers import NoisyAnswers, Sparse, query_group
from dpsql.workload.domain import room
from dpsql.workload.factors import Array, Factor, Identity, Intervals, Total
from dpsql.workload.workload import Product, Workload


def of_workload(workload: Workload, answers: Array, variances: Array, *, noise: str = "gaussian") -> NoisyAnswers:
    """One group for each part of a workload, named part 0, part 1 and so on. The stage of a part is the number of attributes
    along which it has several queries: single numbers come before marginals, and these before cells.

    `answers` and `variances` are (queries,), in the order of the workload.
    Raises Unsupported if the matrices have more than 2^25 entries.
    """
    given, spread = np.asarray(answers, dtype=float).reshape(-1), np.asarray(variances, dtype=float).reshape(-1)
    if len(given) != workload.rows or len(spread) != workload.rows:
        raise ValueError("every query of the workload has one answer and one variance")
    return NoisyAnswers(tuple(
        query_group(f"part {i}", of_product(part), given[at], spread[at], noise, stage=sum(size > 1 for size in part.shape))
        for i, (part, at) in enumerate(zip(workload.parts, workload.slices, strict=True))))


def sums_and_entries(workload: Workload) -> tuple[int, int]:
    """The number of queries about several cells, and the number of cells that all queries count, with repetitions."""
    lengths = {factor: _row_lengths(factor) for part in workload.parts for factor in part.factors}
    sums = entries = 0
    for part in workload.parts:
        each = [lengths[factor] for factor in part.factors]
        sums += math.prod(int((own > 0).sum()) for own in each) - math.prod(int((own == 1).sum()) for own in each)
        entries += math.prod(int(own.sum()) for own in each)
    return sums, entries


def _row_lengths(factor: Factor) -> NDArray[np.int64]:
    """How many values each query counts."""
    if isinstance(factor, Identity | Total | Intervals):
        first, after = factor.ends
        return np.asarray(after - first, dtype=np.int64)
    return np.asarray(np.count_nonzero(factor.dense(), axis=1), dtype=np.int64)


def of_product(product: Product) -> Sparse:
    """The matrix (queries x cells) of a Kronecker product."""
    parts = [_of_factor(factor) for factor in product.factors]
    room("a sparse matrix of queries", math.prod(max(part.nnz, 1) for part in parts))
    found: Any = reduce(lambda left, right: scipy.sparse.kron(left, right, format="csr"), parts[1:], parts[0])
    return scipy.sparse.csr_array(found)


def _of_factor(factor: Factor) -> Sparse:
    """Intervals are written from their ends; anything else through its dense matrix, which raises Unsupported if it is large."""
    if not isinstance(factor, Identity | Total | Intervals):
        return scipy.sparse.csr_array(factor.dense().astype(float))
    first, after = factor.ends
    lengths = after - first
    room("a sparse matrix of queries", int(lengths.sum()))
    pointer = np.concatenate([[0], np.cumsum(lengths)])
    columns = np.arange(pointer[-1]) - np.repeat(pointer[:-1] - first, lengths)
    return scipy.sparse.csr_array((np.ones(len(columns)), columns, pointer), shape=factor.shape)
