"""What strategies claim, by plain dense algebra on matrices that are written out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from dpsql.strategies.strategy import Strategy
from dpsql.workload.domain import domain
from dpsql.workload.factors import Factor, Total
from dpsql.workload.workload import Product, Workload, joined, product_of


def line(*factors: Factor) -> Workload:
    """Queries over one attribute."""
    return Workload(domain(factors[0].n), tuple(Product((factor,)) for factor in factors))


def products(factors: Sequence[Factor], sizes: Sequence[int]) -> Workload:
    """All products of so many of the attributes' factors."""
    parts = [Product(tuple(factor if i in axes else Total(factor.n) for i, factor in enumerate(factors)))
             for size in sizes for axes in combinations(range(len(factors)), size)]
    return Workload(domain(*(factor.n for factor in factors)), tuple(parts))


def measured(strategy: Strategy) -> np.ndarray:
    """All measured queries over their noise."""
    return np.concatenate([product_of(block, strategy.domain).dense().astype(float) / block.scale for block in strategy.blocks])


def cost(strategy: Strategy) -> float:
    """The longest column: its squared L2 norm for Gaussian noise, its L1 norm for Laplace noise."""
    matrix = np.abs(measured(strategy))
    return float((matrix if strategy.noise == "laplace" else matrix**2).sum(axis=0).max())


def own_variances(strategy: Strategy, workload: Workload) -> np.ndarray:
    """At the unit price, from the strategy's own way to combine answers, which is linear: tried on one answer after the other.

    Also checks that it is unbiased: without noise it gives the queries.
    """
    sizes = [block.rows for block in strategy.blocks]
    columns = []
    for at in range(sum(sizes)):
        unit = np.split(np.eye(1, sum(sizes), at)[0], np.cumsum(sizes)[:-1])
        columns.append(strategy.reconstruct(unit, workload))
    combining = np.array(columns).T * np.repeat([block.scale for block in strategy.blocks], sizes)
    queries = joined(workload).dense().astype(float)
    assert np.allclose(combining @ measured(strategy), queries, atol=1e-5 * np.abs(queries).max())
    noise = 2 * cost(strategy) ** 2 if strategy.noise == "laplace" else cost(strategy)
    return (combining**2).sum(axis=1) * noise


def variances(strategy: Strategy, workload: Workload) -> np.ndarray:
    """At squared cost 1, from the covariance of least squares, which is formed and inverted."""
    matrix, queries = measured(strategy), joined(workload).dense().astype(float)
    inverse = np.linalg.pinv(matrix, rcond=1e-13)
    assert np.allclose(queries @ inverse @ matrix, queries, atol=1e-6 * np.abs(queries).max())
    return ((queries @ inverse) ** 2).sum(axis=1) * cost(strategy)


def by_definition(strategy: Strategy, workload: Workload, table: np.ndarray, noise: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The strategy's answers for a table and given noise, and those of weighted least squares over all that was measured."""
    exact = [product_of(block, strategy.domain).apply(table.reshape(strategy.domain.shape)).reshape(-1) for block in strategy.blocks]
    answers = [y + z for y, z in zip(exact, noise, strict=True)]
    weighted = np.concatenate([y / block.scale for y, block in zip(answers, strategy.blocks, strict=True)])
    cells = np.linalg.lstsq(measured(strategy), weighted, rcond=1e-13)[0]
    return strategy.reconstruct(answers, workload), joined(workload).dense() @ cells
