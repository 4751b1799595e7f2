"""Least squares over blocks of nested widths, without a matrix: of sums of blocks (hierarchies), and of their differences (Haar).

Blocks of widths n = w_0 > ... > w_L = 1, each width dividing the one before, have commuting projectors P_l (the mean of each
block). A strategy whose normal matrix is sum_l mu_l (P_l - P_(l-1)), with P_(-1) = 0, answers

    x = sum_l (P_l - P_(l-1)) A' y / mu_l,    Var(w x) = sum_l (|P_l w|^2 - |P_(l-1) w|^2) / mu_l,

in O(n) for each level; |P_l w|^2 is the sum over blocks of what w has in the block, squared, over the width.

A domain whose size is no multiple of the widths is made longer by values that no row has. Blocks of such values only are not
measured, as they are known to be 0: of a hierarchy, that takes something from the variances. Let e_l be n, rounded up to a
multiple of w_l, and s_l the sum of w over the last block with rows, which ends there. An unmeasured block within e_(j+1) to e_j
has the coefficient h_j = sum_(l <= j) (1 / mu_l - 1 / mu_(l+1)) s_l / w_l in the formula above, times its width over the squared
scale, and their noise would have had sum_j (e_j - e_(j+1)) h_j^2 mu_(j+1) of the variance. (Differences of such values have no
part in queries.)

Source: Hay, Rastogi, Miklau and Suciu, PVLDB 2010, for the tree of powers of two; the weighted form is this project's.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from dpsql.strategies.strategy import Block, Strategy
from dpsql.workload.domain import DENSE, too_large
from dpsql.workload.factors import AllRange, Array, Exact, Factor, Identity, Intervals, Total
from dpsql.workload.workload import Workload


class Nested(Strategy):
    """One block for each width, from the widest, and the eigenvalues mu of the normal matrix.

    `signed` if the first block is the sum of each of the widest blocks, and every other one the difference of the halves of
    blocks of the width before its own; else all are sums.
    """

    widths: tuple[int, ...]
    mu: tuple[float, ...]
    measured: tuple[Block, ...]
    signed: bool

    @property
    def blocks(self) -> Sequence[Block]:
        return self.measured

    def variance_of(self, workload: Workload) -> Array:
        return np.concatenate([self._variances(part.factors[0]) for part in workload.parts])

    def _variances(self, query: Factor) -> Array:
        below, spread = np.zeros(query.rows), np.zeros(query.rows)
        for width, mu in zip(self.widths, self.mu, strict=True):
            squares = projected(query, width)
            spread += np.maximum(squares - below, 0) / mu
            below = squares
        if self.signed:
            return spread
        ends = [-(-query.n // width) * width for width in self.widths]
        part = np.zeros(query.rows)
        for (width, _), (mu, next_mu), (end, next_end) in zip(pairwise(self.widths), pairwise(self.mu), pairwise(ends),
                                                                  strict=True):
            part += (1 / mu - 1 / next_mu) * beyond(query, end - width) / width
            spread -= (end - next_end) * part**2 * next_mu
        return spread

    def reconstruct(self, answers: Sequence[Array], workload: Workload) -> Array:
        right = np.zeros(-(-self.domain.size // self.widths[0]) * self.widths[0])
        for at, (given, block) in enumerate(zip(answers, self.measured, strict=True)):
            values = np.asarray(given, dtype=float) / block.scale**2
            if self.signed and at:
                values = np.repeat(np.stack([values, -values], axis=1).reshape(-1), self.widths[at - 1] // 2)
            else:
                values = np.repeat(values, self.widths[at])
            right[: len(values)] += values
        cells, below = np.zeros(len(right)), np.zeros(len(right))
        for width, mu in zip(self.widths, self.mu, strict=True):
            means = np.repeat(right.reshape(-1, width).mean(axis=1), width)
            cells += (means - below) / mu
            below = means
        return workload.apply(cells[: self.domain.size])


def projected(query: Factor, width: int) -> Array:
    """|P w|^2 for each query w, with P the means of blocks of a width."""
    if isinstance(query, Identity):
        return np.full(query.rows, 1 / width)
    if isinstance(query, Intervals | Total):
        first, after = query.ends
        start, end = -(-first // width), after // width  # of the blocks that lie within
        inside = start <= end
        left, right = start * width - first, after - end * width
        return np.where(inside, (end - start) * float(width) + (left**2 + right**2) / width, (after - first) ** 2 / width)
    if query.n > DENSE:
        raise too_large("a hierarchy for these queries", query.n, DENSE)
    sums: Exact = np.add.reduceat(query.dense().astype(float), np.arange(0, query.n, width), axis=1)
    return np.asarray((sums**2).sum(axis=1) / width)


def beyond(query: Factor, start: int) -> Array:
    """For each query, the sum of its coefficients from the value `start` on."""
    if isinstance(query, Identity):
        return (np.arange(query.n) >= start).astype(float)
    if isinstance(query, Intervals | Total):
        first, after = query.ends
        return np.maximum(after - np.maximum(first, start), 0).astype(float)
    return np.asarray(query.dense()[:, start:].astype(float).sum(axis=1))


def energy(query: Factor, width: int) -> float:
    """The sum of |P w|^2 over the queries."""
    if not isinstance(query, AllRange):
        return float(projected(query, width).sum())
    first, last = np.arange(1.0, query.n + 1), np.arange(query.n, 0.0, -1)  # G_ij = first_i last_j for i <= j
    at = np.arange(0, query.n, width)
    sums = np.cumsum(first)
    before = np.concatenate([[0.0], sums])[np.repeat(at, width)[: query.n]]
    return float(((2 * (sums - before) * last).sum() - (first * last).sum()) / width)
