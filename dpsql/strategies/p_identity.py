"""Strategies for Laplace noise over few cells: every cell, and a few weighted sums of them, found by gradient descent.

A p-Identity strategy is A = [I; B] diag(1 / s) with p further rows B >= 0 and s = 1 + (column sums of B), so that every column
has an L1 norm of 1. Half the total squared error at epsilon = 1 is tr(G (A'A)^-1), with G the Gram matrix of the workload. With
M1 = (I + B B')^-1 B and (A'A)^-1 = diag(s) (I - B' M1) diag(s) it is sum(diag(G) s^2) - <B, M2>, M2 = ((M1 * s) G) * s: one
product with G for each evaluation, and no n x n matrix is formed for the gradient either. The problem is not convex: descent
starts from trees of blocks, as random starts lead to worse optima or, for many cells, make no progress.

Where no query needs a single cell, that cell's own weight 1 / s may tend to zero, and (A'A)^-1 becomes the difference of two
numbers that agree in more and more digits. So entries of B and s are bounded: errors are then accurate to nine digits, whatever
the order in which a processor adds, and the bounds change totals by at most a part in a thousand.

Source: McKenna, Miklau, Hay and Machanavajjhala, Optimizing Error of High-Dimensional Statistical Queries under Differential
Privacy (HDMM), PVLDB 2018. The start and the one-product gradient are ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy

from dpsql.frozen import Frozen
from dpsql.strategies import clock, marginals
from dpsql.strategies.integers import BITS
from dpsql.strategies.least_squares import LeastSquares, one_block
from dpsql.strategies.product_bound import valued
from dpsql.strategies.strategy import Refusal, Strategy
from dpsql.trusted.cached import cached_property
from dpsql.workload.factors import Array, Factor, Identity
from dpsql.workload.implicit import PIdentity as PIdentity
from dpsql.workload.workload import Workload, joined, product_of

LONG = 1024  # most cells, or values of an attribute, for gradient descent
ENDED = 4096  # the same where the Gram matrix has the form of `Gram.ends`, as for prefix sums and for all ranges
# The numbers of blocks in the levels of each start:
TREES = ((8, 64), (3, 12, 48), (4, 16, 64), (2, 8, 32), (4, 16), (3, 12), (2, 8), (16,), (8,), (4,))
STEEPEST, THINNEST = 2.0**10, 2.0**11  # the largest entry of B, and the largest s
LEAST_GAIN = 1e-5  # relative to noise on the cells
LEAST_OWN, MOST_TABLES = 0.02, 256  # in a start from marginals: the least weight of cells, and the most rows
SHORT = 256  # most cells for which the time of a step is negligible
SECONDS = 4e-3  # approximate time of a descent from several starts, for each cell where there are many
FIRST_SHARE = 0.5  # of the time, for the first steps from every start
STEPS, SETTLED, REMEMBERED, LONG_TREES, FIRST_STEPS = 200, 3e-7, 5, 2, 90
SHORT_STEPS, SHORT_SETTLED, SHORT_REMEMBERED, SHORT_FIRST_STEPS, FOLLOWED = 1500, 1e-9, 10, 12, 4  # and of the best few starts


def plan(workload: Workload, targets: Array | None = None) -> Strategy | Refusal:
    """The best p-Identity strategy found, for all cells as one attribute."""
    if targets is not None:
        return Refusal("it minimises the total variance")
    flat = joined(workload)
    gram = Gram(flat.gram()) if flat.domain.size <= (ENDED if flat is workload else LONG) else None
    if gram is None or (flat.domain.size > LONG and gram.ends is None):
        return Refusal(f"gradient descent is limited to {LONG} cells")
    factor = whole(best(gram, tables(workload)), BITS)
    found = LeastSquares(name="p-identity", domain=flat.domain, noise="laplace", measured=(one_block(factor),))
    return valued(found, flat)


def smallest(workload: Workload) -> Strategy | Refusal:
    """A strategy as small as any that `plan` gives, other than noise on cells alone."""
    flat = joined(workload)
    if flat.domain.size > ENDED:
        return Refusal(f"gradient descent is limited to {LONG} cells")
    factor = PIdentity(own=np.ones(flat.domain.size, dtype=np.int64), others=np.ones((1, flat.domain.size), dtype=np.int64))
    return LeastSquares(name="p-identity", domain=flat.domain, noise="laplace", measured=(one_block(factor),))


def measured(gram: Array, bits: int) -> Factor | None:
    """The strategy of one attribute in integers; None if it has too many values."""
    one = Gram(gram)
    if len(gram) > ENDED or (len(gram) > LONG and one.ends is None):
        return None
    return whole(best(one), bits)


def whole(rows: Array, bits: int) -> PIdentity | Identity:
    """The integer strategy for a given B: 2^bits [I; B] diag(1 / s), rounded; the cells themselves, if B has no rows."""
    if not len(rows):
        return Identity(rows.shape[1])
    rows = rows * np.minimum(1.0, (THINNEST - 1) / np.maximum(rows.sum(axis=0), 1.0))
    s = 1 + rows.sum(axis=0)
    own, others = np.maximum(1, np.rint(2.0**bits / s)), np.rint(rows / s * 2.0**bits)
    return PIdentity(own=own.astype(np.int64), others=others.astype(np.int64))


class Gram(Frozen, kw_only=False, eq=False):
    """A Gram matrix, prepared for many products with rows."""

    matrix: Array

    @cached_property
    def diagonal(self) -> Array:
        return np.diagonal(self.matrix).copy()

    @cached_property
    def ends(self) -> tuple[Array, Array] | None:
        """u and v, if G_ij = u_i v_j for i <= j, as for prefix sums (1, n - j) and all ranges (i + 1, n - j). Products with G are
        then two cumulative sums."""
        if len(self.matrix) <= SHORT or not self.matrix[0, -1] > 0:
            return None
        first, last = self.matrix[:, -1] / self.matrix[0, -1], self.matrix[0]
        alike = np.allclose(np.triu(np.outer(first, last)), np.triu(self.matrix), rtol=1e-12, atol=0)
        return (first, last) if alike else None

    def times(self, rows: Array) -> Array:
        """rows G."""
        if self.ends is None:
            return np.asarray(rows @ self.matrix)
        first, last = self.ends
        before = np.cumsum(rows * first, axis=1)
        after = rows * last
        after = np.cumsum(after[:, ::-1], axis=1)[:, ::-1] - after
        return np.asarray(before * last + after * first)


def tables(workload: Workload) -> list[Array]:
    """Starting points for several attributes: the cells of weighted marginals, relative to the weight of the cells themselves."""
    shape = workload.domain.shape
    made = marginals.plan(workload) if len(shape) > 1 else None
    if not isinstance(made, marginals.Marginals):
        return []
    axes, rows = tuple(range(len(shape))), []
    own = max(made.weights.get(axes, 0.0), LEAST_OWN)
    for block, weight in zip(made.blocks, made.weights.values(), strict=True):
        if block.axes != axes:
            rows.append(product_of(block, made.domain).dense() * (weight / own))
    start = np.vstack(rows) if rows else np.zeros((0, workload.domain.size))
    return [start * (1 + 0.05 * _scattered(start.shape))] if 0 < len(start) <= MOST_TABLES else []


def best(gram: Gram, others: Sequence[Array] = ()) -> Array:
    """The B of the best strategy found: a few steps from every starting point, then full descents from the best ones."""
    n = len(gram.matrix)
    short = n <= SHORT
    first = SHORT_FIRST_STEPS if short else fewer(FIRST_STEPS, n)
    begun: list[tuple[float, Array]] = []
    with clock.part(FIRST_SHARE):
        for start in [*starts(n), *others] if short or clock.allows(n * SECONDS) else [*starts(n)[:1], *others]:
            if not begun or not clock.over():
                begun.append(descended(gram, start, first))
    begun.sort(key=lambda pair: pair[0])
    value, rows = min((descended(gram, rows) for _, rows in begun[: FOLLOWED if short else 1]), key=lambda pair: pair[0])
    return rows if value < float(gram.diagonal.sum()) * (1 - LEAST_GAIN) else np.zeros((0, n))


def fewer(steps: int, n: int) -> int:
    """The number of steps for n cells, reduced where each step takes longer."""
    return steps if n <= LONG else max(50, steps * LONG // n)


def starts(n: int) -> list[Array]:
    """Starting points: trees of blocks, with slightly different weights, as equal rows would remain equal in the descent."""
    found = []
    for tree in TREES if n <= SHORT else TREES[:LONG_TREES]:
        levels = [blocks(n, count) for count in tree if count < n]
        if levels and sum(map(len, levels)) <= max(4, n // 3):
            rows = np.vstack(levels)
            found.append(rows * (1 + 0.05 * _scattered(rows.shape)))
    return found or [0.5 * _scattered((max(1, n // 8), n))]


def _scattered(shape: tuple[int, ...]) -> Array:
    """Numbers spread evenly over [0, 1): fractional parts of multiples of the golden ratio."""
    count = math.prod(shape)
    return np.asarray(np.modf(np.arange(1, count + 1) * (math.sqrt(5) - 1) / 2)[0]).reshape(shape)


def blocks(n: int, count: int) -> Array:
    """The indicator rows of `count` blocks of about equal width, as an array (count, n)."""
    of = np.arange(n) * count // n
    return np.asarray((of[None, :] == np.arange(count)[:, None]).astype(float))


def descended(gram: Gram, start: Array, steps: int | None = None) -> tuple[float, Array]:
    """Half of the error, and B, at the end of the descent."""
    short = len(gram.matrix) <= SHORT
    usual = SHORT_STEPS if short else fewer(STEPS, len(gram.matrix))

    def loss(flat: Array) -> tuple[float, Array]:
        value, slope = error(gram, flat.reshape(start.shape))
        return value, slope.reshape(-1)

    found = scipy.optimize.minimize(
        loss, start.reshape(-1), jac=True, method="L-BFGS-B", callback=_in_time, bounds=scipy.optimize.Bounds(0, STEEPEST),
        options={"maxiter": steps or usual, "maxfun": 100_000, "ftol": SHORT_SETTLED if short else SETTLED,
                 "maxcor": SHORT_REMEMBERED if short else REMEMBERED})
    return float(found.fun), np.asarray(found.x).reshape(start.shape)


def _in_time(intermediate_result: scipy.optimize.OptimizeResult) -> None:
    """Ends a descent when its time is over."""
    if clock.over():
        raise StopIteration


def error(gram: Gram, rows: Array) -> tuple[float, Array]:
    """tr(G (A'A)^-1) and its gradient with respect to B."""
    s = 1 + rows.sum(axis=0)
    m1 = np.linalg.inv(np.eye(len(rows)) + rows @ rows.T) @ rows
    m2 = gram.times(m1 * s) * s
    across = (rows * m2).sum(axis=0)
    own = gram.diagonal * s**2
    k = own - 2 * across + (rows * ((m2 @ m1.T) @ rows)).sum(axis=0)
    bk = m2 - (m2 @ rows.T) @ m1
    y2, y1 = -2 * bk * s, -2 * k * s
    return float(own.sum() - across.sum()), (y2 * s - (y1 + (rows * y2).sum(axis=0))) / s**2


def covariance(rows: Array) -> Array:
    """(A'A)^-1."""
    s = 1 + rows.sum(axis=0)
    m1 = np.linalg.inv(np.eye(len(rows)) + rows @ rows.T) @ rows
    return np.asarray((np.eye(len(s)) - rows.T @ m1) * np.multiply.outer(s, s))
