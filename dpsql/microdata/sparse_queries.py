"""The queries of a workload, and those of a two-way table, as sparse matrices: one entry for each cell that a query counts."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np
import scipy

from dpsql.microdata.noisy_answers import NoisyAnswers, QueryGroup, Sparse, query_group
from dpsql.workload.domain import room
from dpsql.workload.factors import Array, Factor, Identity, Intervals, Total
from dpsql.workload.workload import Product, Workload


def of_workload(workload: Workload, answers: Array, variances: Array, *, noise: str = "gaussian") -> NoisyAnswers:
    """One group for each part of a workload, named part 0, part 1 and so on; the parts with the fewest queries come first.

    `answers` and `variances` are (queries,), in the order of the workload; `restored` puts fitted answers into this order.
    Raises Unsupported if the matrices have more than 2^25 entries.
    """
    given, spread = np.asarray(answers, dtype=float).reshape(-1), np.asarray(variances, dtype=float).reshape(-1)
    if len(given) != workload.rows or len(spread) != workload.rows:
        raise ValueError("every query of the workload has one answer and one variance")
    return NoisyAnswers(tuple(
        query_group(f"part {i}", of_product(workload.parts[i]), given[at], spread[at], noise)
        for i in by_importance(workload) for at in (workload.slices[i],)))


def by_importance(workload: Workload) -> list[int]:
    """The parts of a workload, those with the fewest queries first: totals before marginals before cells."""
    return sorted(range(len(workload.parts)), key=lambda i: workload.parts[i].rows)


def restored(workload: Workload, answers: Array) -> Array:
    """Answers in the order of `of_workload`, put into the order of the workload."""
    found, begin = np.empty(workload.rows), 0
    for i in by_importance(workload):
        end = begin + workload.parts[i].rows
        found[workload.slices[i]] = answers[begin:end]
        begin = end
    return found


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


def two_way(table: Array, variances: dict[str, float]) -> tuple[QueryGroup, ...]:
    """The groups sum, rows, columns and cells of a two-way table, with its exact answers; those that `variances` names.

    `table` is (rows x columns). Add noise with `NoisyAnswers.with_answers`. Raises ValueError for names other than these four.
    """
    height, width = table.shape
    kinds: dict[str, tuple[Factor, Factor]] = {
        "sum": (Total(height), Total(width)), "rows": (Identity(height), Total(width)),
        "columns": (Total(height), Identity(width)), "cells": (Identity(height), Identity(width))}
    if not variances.keys() <= kinds.keys():
        raise ValueError(f"the groups of a two-way table are {', '.join(kinds)}")
    parts = {name: of_product(Product(kinds[name])) for name in kinds if name in variances}
    cells = np.asarray(table, dtype=float).reshape(-1)
    return tuple(query_group(name, part, part @ cells, variances[name]) for name, part in parts.items())
