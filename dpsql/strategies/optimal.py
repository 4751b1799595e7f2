"""Certified optimal Gaussian strategies: factor by factor for a single product, as a whole for other workloads over few cells."""

from __future__ import annotations

import math

import numpy as np

from dpsql.errors import Unsupported
from dpsql.frozen import Frozen
from dpsql.strategies import clock
from dpsql.strategies.fixed_point import Solution, solve
from dpsql.strategies.integers import bits_of, trivial, whole
from dpsql.strategies.least_squares import LeastSquares, one_block
from dpsql.strategies.square_root import SquareRoot, prefix_bound
from dpsql.strategies.strategy import Refusal
from dpsql.workload.domain import DENSE, Attribute, CellDomain, domain, too_large
from dpsql.workload.factors import Array, Dense, Factor, Prefix
from dpsql.workload.workload import Product, Workload, joined


class Optimum(Frozen):
    """A strategy, and a lower bound on the value of all Gaussian strategies."""

    strategy: LeastSquares
    lower: float


TURNS = 12  # eigenproblems after which the search over prefix sums is nearer to the optimum than the square root
FEW, LEAST = 1000, 512  # most queries, and fewest cells, for eigenproblems over queries instead of cells
LONG = 2048  # most values of an attribute, or cells, for a sequence of eigenproblems (a second each)


def optimal(workload: Workload, *, name: str, targets: Array | None = None, base: Array | None = None, share: float = 1.0,
            gap: float = 1e-4) -> Optimum | Refusal:
    """The strategy that minimises the objective of `fixed_point.solve`, in integers. Its domain may have all cells in one
    axis.

    A product W1 x W2 with targets (and weights) that are products too is solved factor by factor. Proof: the product of the
    factors' strategies has the product of their values, and the product of their p and q gives the product of their bounds, as
    singular values multiply. (Not for a share between 0 and 1: the sum of two terms is no product.)
    """
    try:
        if len(workload.parts) == 1 and share in (0.0, 1.0):
            shape = workload.parts[0].shape
            goals, bases = _parted(targets, shape), _parted(base, shape)
            if goals is not None and bases is not None:
                bits = bits_of(sum(not trivial(factor) for factor in workload.parts[0].factors))
                solved = [_one(attribute, factor, targets=goal, base=weights, share=share, gap=gap / len(shape), bits=bits)
                          for attribute, factor, goal, weights
                          in zip(workload.domain.attributes, workload.parts[0].factors, goals, bases, strict=True)]
                return _together(workload.domain, solved, name)
        flat = _by_queries(workload)
        if flat is None:
            check_long(workload.domain.size)
            flat = joined(workload)
        solution = solve(flat, targets=targets, base=base, share=share, gap=gap / 2)
        matrix = whole(solution.matrix, flat, mixing=solution.mixing)
    except Unsupported as refused:
        return Refusal(refused.reason)
    return _together(flat.domain, [None if matrix is None else (matrix, solution.lower)], name)


def _by_queries(workload: Workload) -> Workload | None:
    """The workload as a dense matrix, if it has so few queries that the eigenproblems are better solved over queries."""
    if workload.rows > min(workload.domain.size // 2, FEW) or not LEAST < workload.domain.size <= DENSE:
        return None
    queries = workload.dense()
    return Workload(domain(workload.domain.size), (Product((Dense(queries),)),)) if queries.dtype.kind in "iu" else None


def check_long(n: int) -> None:
    """Raises Unsupported if eigenproblems over n values are too large, or would take longer than the remaining time."""
    if n > LONG:
        raise too_large("the search for the best strategy", n, LONG)
    if not clock.allows(2 * eigen(n)):
        raise Unsupported(f"the search over {n} values would take longer than the time for planning", code="too-large",
                          try_="planning = 60")


def eigen(n: int) -> float:
    """The approximate CPU time of an eigenproblem over n values, in seconds."""
    return clock.EIGEN * float(n) ** 3


def _one(attribute: Attribute, factor: Factor, *, targets: Array | None, base: Array | None, share: float,
         gap: float, bits: int) -> tuple[Factor, float] | None:
    """The integer strategy of one attribute and its bound."""
    if trivial(factor) and targets is None and base is None:
        return factor, 1.0
    long = factor.n > LONG or not clock.allows(TURNS * eigen(factor.n))
    if long and isinstance(factor, Prefix) and targets is None and base is None:
        return SquareRoot(factor.n), prefix_bound(factor.n)
    check_long(factor.n)
    alone = Workload(CellDomain((attribute,)), (Product((factor,)),))
    solution: Solution = solve(alone, targets=targets, base=base, share=share, gap=gap / 2)
    matrix = whole(solution.matrix, alone, bits)
    return None if matrix is None else (matrix, solution.lower)


def _together(domain: CellDomain, solved: list[tuple[Factor, float] | None], name: str) -> Optimum | Refusal:
    done = [each for each in solved if each is not None]
    if len(done) < len(solved):
        return Refusal("its coefficients are not whole numbers, and its queries do not determine all cells")
    strategy = LeastSquares(name=name, domain=domain, measured=(one_block(*(factor for factor, _ in done)),))
    return Optimum(strategy=strategy, lower=math.prod(bound for _, bound in done))


def _parted(values: Array | None, shape: tuple[int, ...]) -> list[Array | None] | None:
    """Numbers for the rows of each factor whose products are the given values; None if there are none."""
    if values is None:
        return [None] * len(shape)
    table = np.asarray(values, dtype=float).reshape(shape)
    corner = table[(0,) * len(shape)]
    lines = [table[tuple(slice(None) if i == axis else 0 for i in range(len(shape)))] / corner for axis in range(len(shape))]
    lines[0] = lines[0] * corner
    whole_table = lines[0]
    for line in lines[1:]:
        whole_table = np.multiply.outer(whole_table, line)
    return list(lines) if np.allclose(whole_table, table, rtol=1e-12) else None
