"""Products of strategies with the best factor for each attribute, for unions of products of queries and Gaussian noise.

Columns of a Kronecker product have the product of the lengths of the factors' columns, and (A'A)^-1 is the product of the
factors' ones. So the total variance of a union of products is a sum, over its parts k, of products over attributes of
c_i^k = tr(G_i^k (A_i'A_i)^-1). For given strategies of the others, the best strategy of an attribute minimises the total variance
for its Gram matrices, each weighted by the product of the others' factors in that part: a convex problem (`fixed_point`), solved
for one attribute after the other. For a single product `optimal` has the optimum; few queries over few cells are planned there
too.

Source: McKenna, Miklau, Hay and Machanavajjhala, HDMM, PVLDB 2018 (OPT_kron), for Laplace noise; for Gaussian noise the problem
of each attribute is convex.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsql.errors import Unsupported
from dpsql.strategies import clock
from dpsql.strategies.fixed_point import solve
from dpsql.strategies.integers import bits_of, trivial, whole
from dpsql.strategies.least_squares import LeastSquares, one_block
from dpsql.strategies.optimal import check_long
from dpsql.strategies.product_bound import valued
from dpsql.strategies.strategy import Refusal, Strategy
from dpsql.workload.domain import domain
from dpsql.workload.factor_stack import FactorStack
from dpsql.workload.factors import Array, Factor, Ranges, Total
from dpsql.workload.workload import Product, Workload

ROUNDS = 5  # over the attributes
SETTLED = 1e-3  # relative change of the total variance in a round
GAP = 1e-3  # of the strategy of each attribute
SHARE = 0.4  # of the time that is left, for one attribute


def plan(workload: Workload, targets: Array | None = None) -> Strategy | Refusal:
    """The best product found."""
    if targets is not None:
        return Refusal("it minimises the total variance")
    if len(workload.domain.shape) == 1 or len(set(workload.parts)) == 1:
        return Refusal("there is only one attribute, or only one product")
    columns = list(zip(*(part.factors for part in workload.parts), strict=True))
    axes = [i for i, column in enumerate(columns) if not (trivial(column[0]) and len(set(column)) == 1)]
    try:
        check_long(max((workload.domain.shape[i] for i in axes), default=1))
    except Unsupported as refused:
        return Refusal(refused.reason)
    factors = _by_turns(workload, columns, axes)
    if factors is None:
        return Refusal("its coefficients are not whole numbers, and its queries do not determine all values")
    found = LeastSquares(name="convex-kronecker", domain=workload.domain, measured=(one_block(*factors),))
    return valued(found, workload)


def _by_turns(workload: Workload, columns: Sequence[Sequence[Factor]], axes: Sequence[int]) -> list[Factor] | None:
    """A strategy for each attribute, in integers; None if one cannot be rounded to integers."""
    factors = [column[0] for column in columns]
    costs = {i: np.array([1.0 if isinstance(factor, Total) else float(factor.rows) for factor in column])
             for i, column in enumerate(columns)}
    before = math.inf
    for _ in range(ROUNDS):
        for i in axes:
            with clock.part(SHARE):
                found = _improved(columns[i], np.prod([costs[j] for j in costs if j != i], axis=0), bits_of(len(axes)))
            if found is None:
                return None
            factors[i], costs[i] = found
        value = float(np.prod([*costs.values()], axis=0).sum())
        if value > before * (1 - SETTLED) or clock.over():
            break
        before = value
    return factors


def _improved(column: Sequence[Factor], weights: Array, bits: int) -> tuple[Factor, Array] | None:
    """The best strategy of an attribute if the parts have these weights, and c_i^k for each part, at columns of length 1."""
    different = dict.fromkeys(column, 0.0)
    for factor, weight in zip(column, weights.tolist(), strict=True):
        different[factor] += weight
    base = np.concatenate([np.full(factor.rows, weight) for factor, weight in different.items()])
    asked = _stacked(list(different))
    solution = solve(asked, base=base / base.sum(), share=0.0, gap=GAP)
    matrix = whole(solution.matrix, asked, bits)
    if matrix is None:
        return None
    norm = float(max(matrix.column_powers(2)))
    inverse = np.asarray(np.linalg.pinv(matrix.gram(), hermitian=True) * norm)
    each = FactorStack(tuple(different)).each(lambda factor: factor.quadratic(inverse))
    cost = {factor: float(own.sum()) for factor, own in zip(different, each, strict=True)}
    return matrix, np.array([cost[factor] for factor in column])


def _stacked(factors: Sequence[Factor]) -> Workload:
    """The queries of all parts over one attribute, with all ranges in one matrix."""
    n = factors[0].n
    if all(isinstance(factor, Ranges | Total) for factor in factors):
        ends = [(factor.lows, factor.highs) if isinstance(factor, Ranges) else ((0,), (n - 1,)) for factor in factors]
        factors = [Ranges(n, tuple(low for lows, _ in ends for low in lows), tuple(high for _, highs in ends for high in highs))]
    return Workload(domain(n), tuple(Product((factor,)) for factor in factors))
