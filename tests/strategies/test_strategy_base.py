"""Sensitivities, variances and reconstruction against the same in dense algebra."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpsql.errors import Unsupported
from dpsql.strategies.all_strategies import attempted
from dpsql.strategies.least_squares import LeastSquares, one_block
from dpsql.strategies.plain import AsAsked, plan_cells, plan_queries
from dpsql.strategies.strategy import Block, Refusal, rmse, sensitivity
from dpsql.workload.domain import domain
from dpsql.workload.factors import AllRange, Dense, Identity, Prefix, Total
from dpsql.workload.workload import Product, Workload, product_of

RANDOM = np.random.default_rng(5)


def integers(rows: int, columns: int) -> Dense:
    return Dense(RANDOM.integers(-9, 10, size=(rows, columns)))


def blocks() -> tuple[Block, ...]:
    return (Block(axes=(0, 2), factors=(integers(4, 3), Identity(5)), scale=3.0), Block(axes=(1,), factors=(integers(2, 2),), scale=0.7),
            Block(axes=(), factors=(), scale=2.0), one_block(Identity(3), Identity(2), integers(6, 5), scale=11.0))


def dense(blocks: tuple[Block, ...], shape: tuple[int, ...]) -> np.ndarray:
    return np.concatenate([product_of(block, domain(*shape)).dense() / block.scale for block in blocks])


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_sensitivity_is_that_of_the_matrix(noise: str) -> None:
    for _ in range(20):
        asked = blocks()
        matrix = dense(asked, (3, 2, 5))
        norms = np.abs(matrix).sum(axis=0) if noise == "laplace" else (matrix**2).sum(axis=0)
        found = sensitivity(asked, noise)
        assert found.exact and float(found.value) == pytest.approx(norms.max(), rel=1e-12)


def test_sensitivity_is_exact_to_the_last_integer() -> None:
    found = sensitivity([Block(axes=(0,), factors=(Dense(np.array([[2**31, 1], [0, 2**40]])),), scale=1.0)], "gaussian")
    assert found.value == 2**80 + 1
    third = sensitivity([Block(axes=(0,), factors=(Identity(2),), scale=3.0)], "laplace").value
    assert Fraction(1, 3) < third < Fraction(1, 3) + Fraction(1, 2**95)


def test_too_many_kinds_of_cells_give_a_bound_and_say_so() -> None:
    ramp = np.array([[j + 1, 40 - j] for j in range(40)])
    asked = [Block(axes=(i,), factors=(Dense(ramp[:, [side]].T.copy()),), scale=1.0) for i in range(5) for side in (0, 1)]
    found = sensitivity(asked, "laplace")
    assert not found.exact and found.value == 5 * 80
    few = sensitivity([block for block in asked if block.axes[0] < 3], "laplace")
    assert few.exact and few.value == 3 * 41


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf")])
def test_no_block_goes_without_noise(scale: float) -> None:
    with pytest.raises(ValueError, match="noise"):
        sensitivity([Block(axes=(0,), factors=(Identity(2),), scale=scale)], "gaussian")


def small() -> Workload:
    return Workload(domain(3, 2, 5), (Product((Identity(3), Total(2), Prefix(5))), Product((Total(3), Identity(2), AllRange(5)))))


def strategies() -> list[LeastSquares]:
    several = (*blocks(), one_block(Identity(3), Identity(2), Prefix(5)))
    return [LeastSquares(name="one", domain=domain(3, 2, 5), measured=(one_block(integers(4, 3), integers(3, 2), integers(7, 5), scale=2.5),)),
            LeastSquares(name="several", domain=domain(3, 2, 5), measured=several)]


@pytest.mark.parametrize("strategy", strategies(), ids=lambda strategy: strategy.name)
def test_variances_and_answers_of_least_squares(strategy: LeastSquares) -> None:
    workload = small()
    matrix = dense(strategy.measured, (3, 2, 5))
    covariance = np.linalg.inv(matrix.T @ matrix)
    queries = workload.dense()
    assert np.allclose(strategy.variance_of(workload), np.diag(queries @ covariance @ queries.T))
    most = (matrix**2).sum(axis=0).max()
    assert np.allclose(strategy.variances(workload), most * np.diag(queries @ covariance @ queries.T))
    assert np.allclose(strategy.variances(workload, price=2.0), most / 4 * np.diag(queries @ covariance @ queries.T))
    table = RANDOM.integers(0, 100, size=(3, 2, 5))
    noise = [RANDOM.normal(size=block.rows) * block.scale for block in strategy.measured]
    given = [product_of(block, strategy.domain).apply(table).reshape(-1) + z for block, z in zip(strategy.measured, noise, strict=True)]
    weighted = np.concatenate([y / block.scale for y, block in zip(given, strategy.measured, strict=True)])
    expected = queries @ np.linalg.lstsq(matrix, weighted, rcond=None)[0]
    assert np.allclose(strategy.reconstruct(given, workload), expected)


def test_large_unions_are_answered_without_matrices() -> None:
    shape = (70, 70)
    strategy = LeastSquares(name="rows and columns", domain=domain(*shape), measured=(
        Block(axes=(0,), factors=(Identity(70),), scale=1.0), Block(axes=(1,), factors=(Identity(70),), scale=2.0)))
    workload = Workload(domain(*shape), (Product((Total(70), Total(70))), Product((Identity(70), Total(70)))))
    table = RANDOM.integers(0, 50, size=shape)
    given = [table.sum(axis=1) + RANDOM.normal(size=70), table.sum(axis=0) + 2 * RANDOM.normal(size=70)]
    answers = strategy.reconstruct(given, workload)
    weights = np.array([1.0, 0.25])  # both marginals estimate the total, with variances 70 and 280
    total = weights @ [given[0].sum(), given[1].sum()] / weights.sum()
    assert answers[0] == pytest.approx(total, rel=1e-9)
    assert np.allclose(answers[1:], given[0] + (total - given[0].sum()) / 70)
    with pytest.raises(Unsupported, match="4900"):
        strategy.variances(workload)


def test_a_strategy_that_misses_a_query_is_found_out() -> None:
    strategy = LeastSquares(name="too little", domain=domain(4), measured=(one_block(Dense(np.array([[1, 1, 0, 0], [0, 0, 1, 1]]))),))
    assert np.allclose(strategy.variances(Workload(domain(4), (Product((Total(4),)),))), 2.0)
    with pytest.raises(ValueError, match="does not measure"):
        strategy.variances(Workload(domain(4), (Product((Identity(4),)),)))


def test_rounding_is_not_taken_for_what_is_measured() -> None:
    """Queries of few directions among many cells: what the others come out as is rounding, and inverted it hides the workload."""
    for size in (30, 60, 92, 104, 116):
        workload = Workload(domain(4, 2, size), (Product((Identity(4), Dense(np.array([[1, 0]])), Total(size))),
                                                 Product((Total(4), Total(2), Identity(size)))))
        queries = plan_queries(workload)
        assert isinstance(queries, LeastSquares)
        assert (queries.variances(workload) <= float(queries.sensitivity.value) * (1 + 1e-9)).all()
        table = RANDOM.integers(0, 50, size=(4, 2, size))
        assert np.allclose(queries.reconstruct([table[:, 0].sum(axis=1), table.sum(axis=(0, 1))], workload), workload.apply(table))


def test_a_strategy_that_does_not_answer_the_workload_is_refused() -> None:
    def found() -> LeastSquares:
        strategy = LeastSquares(name="too little", domain=domain(4), measured=(one_block(Total(4)),))
        strategy.variances(Workload(domain(4), (Product((Identity(4),)),)))
        return strategy

    assert attempted(found) == Refusal("the strategy does not measure all of the workload")


def test_the_plain_strategies() -> None:
    workload = small()
    cells = plan_cells(workload)
    assert np.allclose(cells.variances(workload), workload.row_norms2())
    queries = plan_queries(workload)
    assert isinstance(queries, LeastSquares)
    norm = (workload.dense() ** 2).sum(axis=0).max()
    assert float(queries.sensitivity.value) == norm and (queries.variances(workload) <= norm * (1 + 1e-9)).all()
    wide = Workload(domain(100, 100), (Product((Prefix(100), Prefix(100))),))
    single = plan_queries(wide, noise="laplace")
    assert isinstance(single, AsAsked) and np.allclose(single.variances(wide), 2 * 100**4)
    given = RANDOM.normal(size=10_000)
    assert np.array_equal(single.reconstruct([given], wide), given)
    assert isinstance(plan_queries(Workload(domain(2), (Product((Dense(np.array([[0.5, 1.0]])),)),))), Refusal)


def test_the_stated_variance_is_that_of_many_runs(effort: float) -> None:
    workload = small()
    strategy = strategies()[1]
    runs = int(4000 * effort)
    stretch = strategy.stretch(0.5)
    errors = np.array([strategy.reconstruct([RANDOM.normal(size=block.rows) * block.scale * stretch for block in strategy.measured], workload)
                       for _ in range(runs)])
    stated = strategy.variances(workload)
    assert np.allclose((errors**2).mean(axis=0) / stated, 1, atol=6 * np.sqrt(2 / runs))
    assert rmse(stated) == pytest.approx(np.sqrt(stated.mean()))
