"""Strategies for Laplace noise over few cells: every cell, and a few weighted sums of them, found by gradient descent.

A p-Identity strategy is A = [I; B] diag(1 / s) with p further rows B >= 0 and s = 1 + (column sums of B), so that every column
has an L1 norm of 1. The total squared error at epsilon = 1, over 2, is tr(G (A'A)^-1) for the Gram matrix G of the workload. With
M1 = (I + B B')^-1 B and (A'A)^-1 = diag(s) (I - B' M1) diag(s) it is sum(diag(G) s^2) - <B, M2>, M2 = ((M1 * s) G) * s: one
product by G an evaluation, and no matrix of n x n is made for the gradient either. The problem is not convex: descent starts
from a tree of blocks, as random starts end in worse places or, for many cells, nowhere.

Source: McKenna, Miklau, Hay and Machanavajjhala, Optimizing Error of High-Dimensional Statistical Queries under Differential
Privacy (HDMM), PVLDB 2018. The start and the one-product gradient are ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize

from dpsql.strategies.base import Refusal, Strategy
from dpsql.strategies.certificate import Certificate
from dpsql.strategies.integers import BITS, bits_of, trivial
from dpsql.strategies.least_squares import LeastSquares, one_block
from dpsql.workload.domain import Attribute, Domain
from dpsql.workload.factors import Array, Dense, Factor
from dpsql.workload.workload import Workload, joined

LONG = 1024  # cells, or values of an attribute, that descent is tried for
ROWS = 10**7  # measurements
TREES = ((8, 64), (4, 16, 64), (2, 8, 32), (4, 16), (3, 12), (2, 8), (16,), (8,), (4,))  # how many blocks a start's levels have
STEPS, SETTLED = 500, 3e-7
SHORT, SHORT_STEPS, SHORT_SETTLED = 256, 1500, 1e-9  # where a step takes no time
LONG_TREES = 3  # of the starts, where steps take time
FIRST_STEPS, FOLLOWED = 12, 4  # steps from every start, before the best is followed; of short ones the best few
ROUNDS = 6  # over the attributes of a union of products


def plan(workload: Workload, targets: Array | None = None) -> Strategy | Refusal:
    """The best p-Identity strategy found: of a single product by attributes, of few cells as a whole, of a union by turns."""
    if targets is not None:
        return Refusal("it minimises the total variance")
    if len(workload.parts) == 1:
        bits = bits_of(sum(not trivial(factor) for factor in workload.parts[0].factors))
        factors = [_measured(factor.gram(), factor, bits) for factor in workload.parts[0].factors]
    elif workload.domain.size <= LONG:
        workload = joined(workload)
        factors = [_measured(workload.gram(), None, BITS)]
    else:
        factors = list(_by_turns(workload))
    if any(factor is None for factor in factors):
        return Refusal(f"descent is for up to {LONG} values of an attribute")
    own = tuple(factor for factor in factors if factor is not None)
    if math.prod(factor.rows for factor in own) > ROWS:
        return Refusal(f"its product has more than {ROWS} rows")
    domain = Domain(tuple(Attribute(attribute.name, factor.n)
                          for attribute, factor in zip(workload.domain.attributes, own, strict=True)))
    found = LeastSquares(name="p-identity", domain=domain, noise="laplace", measured=(one_block(*own),))
    value = float(found.variances(workload).sum())
    return replace(found, certificate=Certificate(objective="total variance", value=value, bound=2 * spectral_bound(workload),
                                                  covers="Laplace strategies"))


def spectral_bound(workload: Workload) -> float:
    """The least total variance of Gaussian strategies at squared cost 1 is the nuclear norm of W, squared, over the number of
    cells, or more (Li and Miklau, 2013). Of a single product the norms multiply; 0 where it is not worked out."""
    if len(workload.parts) == 1:
        norms = [_nuclear(factor.gram()) for factor in workload.parts[0].factors]
        return math.prod(norms) ** 2 / workload.domain.size
    if workload.domain.size > LONG:
        return 0.0
    return _nuclear(workload.gram()) ** 2 / workload.domain.size


def _nuclear(gram: Array) -> float:
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0)).sum())


def _measured(gram: Array, factor: Factor | None, bits: int) -> Factor | None:
    """The strategy of one attribute in integers; None where it has too many values."""
    if factor is not None and trivial(factor):
        return factor
    if len(gram) > LONG:
        return None
    return whole(best(gram), bits)


def whole(rows: Array, bits: int) -> Dense:
    """The strategy of some B in integers: 2^bits [I; B] diag(1 / s), rounded."""
    s = 1 + rows.sum(axis=0)
    return Dense(np.rint(np.vstack([np.diag(1 / s), rows / s]) * 2.0**bits).astype(np.int64))


def best(gram: Array) -> Array:
    """B of the best strategy found: a few steps from every start, then all the way from the best."""
    begun = [descended(gram, start, FIRST_STEPS) for start in starts(len(gram))]
    begun.sort(key=lambda pair: pair[0])
    followed = begun[: FOLLOWED if len(gram) <= SHORT else 1]
    return min((descended(gram, rows) for _, rows in followed), key=lambda pair: pair[0])[1]


def starts(n: int) -> list[Array]:
    """Trees of blocks, with weights that differ a little, as equal rows would stay equal."""
    found = []
    for tree in TREES if n <= SHORT else TREES[:LONG_TREES]:
        levels = [blocks(n, count) for count in tree if count < n]
        if levels and sum(map(len, levels)) <= max(4, n // 3):
            rows = np.vstack(levels)
            found.append(rows * (1 + 0.05 * _scattered(rows.shape)))
    return found or [0.5 * _scattered((max(1, n // 8), n))]


def _scattered(shape: tuple[int, ...]) -> Array:
    """Numbers spread evenly over [0, 1), without a pattern: multiples of the golden ratio."""
    count = math.prod(shape)
    return np.asarray(np.modf(np.arange(1, count + 1) * (math.sqrt(5) - 1) / 2)[0]).reshape(shape)


def blocks(n: int, count: int) -> Array:
    """The rows that sum one of so many blocks of about equal width."""
    of = np.arange(n) * count // n
    return np.asarray((of[None, :] == np.arange(count)[:, None]).astype(float))


def descended(gram: Array, start: Array, steps: int | None = None) -> tuple[float, Array]:
    """The error over 2 and B where descent ends."""
    shape = start.shape
    usual, settled = (SHORT_STEPS, SHORT_SETTLED) if len(gram) <= SHORT else (STEPS, SETTLED)

    def loss(flat: Array) -> tuple[float, Array]:
        value, slope = error(gram, flat.reshape(shape))
        return value, slope.reshape(-1)

    found = minimize(loss, start.reshape(-1), jac=True, method="L-BFGS-B", bounds=[(0, None)] * start.size,
                     options={"maxiter": steps or usual, "ftol": settled, "maxcor": 10, "maxfun": 100_000})
    return float(found.fun), np.asarray(found.x).reshape(shape)


def error(gram: Array, rows: Array) -> tuple[float, Array]:
    """tr(G (A'A)^-1) and its gradient by B."""
    s = 1 + rows.sum(axis=0)
    m1 = np.linalg.solve(np.eye(len(rows)) + rows @ rows.T, rows)
    m2 = ((m1 * s) @ gram) * s
    diagonal = np.diagonal(gram)
    value = float(diagonal @ s**2 - (rows * m2).sum())
    inner = m2 @ m1.T
    k = diagonal * s**2 - 2 * (rows * m2).sum(axis=0) + (rows * (inner @ rows)).sum(axis=0)
    bk = m2 - (m2 @ rows.T) @ m1
    y2, y1 = -2 * bk * s, -2 * k * s
    return value, (y2 * s - (y1 + (rows * y2).sum(axis=0))) / s**2


def _by_turns(workload: Workload) -> Sequence[Factor | None]:
    """One strategy for each attribute: each in turn is the best one for its Gram matrices, weighted by what the others cost."""
    grams = [[factor.gram() for factor in part.factors] for part in workload.parts]
    count = len(workload.domain.attributes)
    if any(attribute.size > LONG for attribute in workload.domain.attributes):
        return [None]
    rows = [starts(attribute.size)[0] * 0.1 for attribute in workload.domain.attributes]
    for turn in range(ROUNDS):
        before = [row.copy() for row in rows]
        for i in range(count):
            weights = [math.prod(error(part[j], rows[j])[0] for j in range(count) if j != i) for part in grams]
            total = np.asarray(sum(weight * part[i] for weight, part in zip(weights, grams, strict=True)))
            scale = float(np.trace(total))
            tried = [descended(total / scale, start) for start in ([rows[i]] if turn else starts(len(total)))]
            rows[i] = min(tried, key=lambda pair: pair[0])[1]
        if all(np.abs(a - b).max() < 1e-3 for a, b in zip(rows, before, strict=True) if a.shape == b.shape):
            break
    return [whole(row, bits_of(count)) for row in rows]
