"""Fitness for use and least total variance as strategies in integers: what they promise holds for the integers themselves."""

from __future__ import annotations

import numpy as np
import pytest
from support.dense_algebra import by_definition, cost, line, products, variances

from dpsql.errors import Unsupported
from dpsql.strategies import ca, fitness
from dpsql.strategies.fixed_point import solve
from dpsql.strategies.integers import rounded, whole
from dpsql.strategies.least_squares import LeastSquares, one_block
from dpsql.strategies.strategy import Refusal, Strategy
from dpsql.workload.domain import domain
from dpsql.workload.factors import AllRange, Dense, Identity, Prefix, Ranges, Total
from dpsql.workload.workload import Product, Workload, joined, product_of

RANDOM = np.random.default_rng(13)


def planned(made: Strategy | Refusal) -> LeastSquares:
    assert isinstance(made, LeastSquares) and made.certificate is not None
    return made


def pl94() -> Workload:
    return products([Identity(2), Identity(2), Identity(63)], (1, 3))


def age() -> Workload:
    ages = Dense(np.triu(np.ones((116, 116), dtype=np.int64)))
    return Workload(domain(2, 116), (Product((Identity(2), ages)), Product((Total(2), ages))))


def random_ranges(size: int) -> tuple[Workload, np.ndarray]:
    """Table 6 of the fitness-for-use paper: legacy generator, three calls for each query."""
    random = np.random.RandomState(0)
    drawn = [(random.randint(size), random.randint(size), random.randint(1, 11)) for _ in range(2 * size)]
    lows, highs = tuple(min(a, b) for a, b, _ in drawn), tuple(max(a, b) for a, b, _ in drawn)
    return line(Ranges(size, lows, highs)), np.array([float(c) for *_, c in drawn])


CASES = {"PL94": (pl94(), np.ones(319), 3.013432), "age": (age(), np.ones(348), 6.997509), "ranges": (*random_ranges(64), 2.955880),
         "prefix": (line(Prefix(64)), np.ones(64), 4.457869)}


@pytest.mark.parametrize("name", CASES)
def test_the_integers_meet_every_target_at_the_certified_cost(name: str) -> None:
    workload, targets, optimum = CASES[name]
    strategy = planned(fitness.plan(workload, targets))
    assert strategy.certificate is not None and strategy.certificate.covers == "Gaussian strategies"
    assert strategy.certificate.bound == pytest.approx(optimum, rel=2e-6)
    assert strategy.certificate.value <= optimum * (1 + 1e-4)
    explicit = variances(strategy, workload)
    assert np.allclose(explicit, strategy.variances(workload), rtol=1e-6)
    rho = fitness.price(strategy, workload, targets)
    assert rho == pytest.approx(strategy.certificate.value / 2, rel=1e-6)
    assert (explicit / (2 * rho) <= targets * (1 + 1e-9)).all()
    assert strategy.sensitivity.exact and float(strategy.sensitivity.value) == pytest.approx(cost(strategy), rel=1e-12)


@pytest.mark.parametrize(("size", "rmse"), [(16, 1.689404), (64, 2.099856)])
def test_integers_lose_next_to_nothing(size: int, rmse: float) -> None:
    strategy = planned(ca.plan(line(Prefix(size)), gap=1e-6))
    exact = solve(line(Prefix(size)), share=0.0, gap=5e-7)
    assert strategy.certificate is not None
    assert strategy.certificate.value / size <= exact.upper * (1 + 1e-5)
    assert np.sqrt(variances(strategy, line(Prefix(size))).mean()) == pytest.approx(rmse, rel=1e-5)


def test_weights_from_targets() -> None:
    """Ratios at the optimal cost as certified for table 6 (64 cells): least sum 2.5677, wCA-I 1.6254, wCA-II 1.9934."""
    workload, targets, optimum = CASES["ranges"]
    for strategy, ratio in ((ca.plan(workload), 2.5677), (ca.weighted(workload, targets, 2), 1.6254), (ca.weighted(workload, targets, 1), 1.9934)):
        assert (planned(strategy).variances(workload) / targets).max() / optimum == pytest.approx(ratio, rel=2e-3)


def test_products_are_solved_factor_by_factor_and_exactly() -> None:
    workload = products([Prefix(6), AllRange(4)], (2,))
    together = joined(workload)
    for plan in (fitness.plan, ca.plan):
        single, whole_ = planned(plan(workload, gap=1e-6)), planned(plan(together, gap=1e-6))
        assert single.certificate is not None and whole_.certificate is not None
        assert single.certificate.bound == pytest.approx(whole_.certificate.bound, rel=2e-6)
        assert np.allclose(variances(single, workload), single.variances(workload))
    wide = products([Prefix(64), Prefix(64)], (2,))
    strategy = planned(fitness.plan(wide))
    assert strategy.certificate is not None and strategy.certificate.bound == pytest.approx(4.457869**2, rel=1e-6)
    ranges = planned(ca.plan(products([AllRange(64), AllRange(64)], (2,))))
    assert ranges.certificate is not None and np.sqrt(ranges.certificate.value) / 2080 == pytest.approx(2.302213**2, rel=2e-5)


def test_targets_that_are_products_are_split_and_others_are_not() -> None:
    workload = products([Prefix(4), Identity(3)], (2,))
    rows, columns = RANDOM.uniform(1, 5, 4), RANDOM.uniform(1, 5, 3)
    for targets in (np.multiply.outer(rows, columns).reshape(-1), RANDOM.uniform(1, 5, 12)):
        strategy, flat = planned(fitness.plan(workload, targets, gap=1e-6)), planned(fitness.plan(joined(workload), targets, gap=1e-6))
        assert strategy.certificate is not None and flat.certificate is not None
        assert strategy.certificate.bound == pytest.approx(flat.certificate.bound, rel=2e-6)
        assert (strategy.variances(workload) / targets).max() == pytest.approx(strategy.certificate.value)


@pytest.mark.parametrize("size", [8, 16, 64])
def test_cells_and_their_sum_have_a_closed_form(size: int) -> None:
    """Targets g and k g: ((d - 1)^2 / (d^2 - k) + 1 / k) / g for k <= d; for k = 1 it is 2d / (d + 1)."""
    workload = Workload(domain(size), (Product((Identity(size),)), Product((Total(size),))))
    for k in (1.0, 3.0):
        strategy = planned(fitness.plan(workload, np.append(np.full(size, 2.0), 2.0 * k), gap=1e-6))
        expected = ((size - 1) ** 2 / (size**2 - k) + 1 / k) / 2
        assert strategy.certificate is not None and strategy.certificate.bound == pytest.approx(expected, rel=1e-6)


def test_queries_that_do_not_determine_the_cells_stay_unbiased() -> None:
    workload = line(Dense(RANDOM.integers(-5, 6, size=(7, 20))))
    strategy = planned(fitness.plan(workload))
    assert sum(block.rows for block in strategy.blocks) == 7
    table = RANDOM.integers(0, 10**6, 20)
    exact = [product_of(block, strategy.domain).apply(table) for block in strategy.blocks]
    assert np.allclose(strategy.reconstruct(exact, workload), workload.apply(table), rtol=1e-9)
    assert strategy.certificate is not None and strategy.certificate.ratio < 1 + 1e-4


def test_coefficients_that_are_not_integers() -> None:
    queries = RANDOM.normal(size=(9, 4))
    assert isinstance(fitness.plan(line(Dense(queries))), LeastSquares)
    assert isinstance(fitness.plan(line(Dense(queries.T))), Refusal)
    assert whole(np.eye(3, 4), line(Dense(queries.T[:3, :4]))) is None


def test_rounding_keeps_the_lengths_of_columns() -> None:
    for bits in (8, 13, 20):
        matrix = RANDOM.normal(size=(30, 30)) / np.arange(1, 31)
        found = rounded(matrix, bits).astype(float)
        unit = 2.0**bits / np.sqrt((matrix**2).sum(axis=0).max())
        assert np.abs(found - matrix * unit).max() <= 1
        off = (found**2).sum(axis=0) - ((matrix * unit) ** 2).sum(axis=0)
        assert (np.abs(off) <= 1 + 2 * np.sort(np.abs(matrix * unit), axis=0)[4]).all()  # what a few small entries can mend
    solution = solve(line(Prefix(64)), share=0.0, gap=1e-7)
    few = LeastSquares(name="", domain=domain(64), measured=(one_block(Dense(rounded(solution.matrix, 13))),))
    assert few.variances(line(Prefix(64))).mean() < solution.lower * (1 + 1e-5)


def test_answers_are_those_of_least_squares() -> None:
    workload = products([Prefix(3), Identity(4)], (1, 2))
    strategy = planned(ca.plan(workload))
    table = RANDOM.integers(0, 50, 12)
    noise = [RANDOM.normal(size=block.rows) * 1e5 for block in strategy.blocks]
    ours, theirs = by_definition(strategy, workload, table, noise)
    assert np.allclose(ours, theirs)


def test_price_and_reach_are_inverse() -> None:
    workload, targets = CASES["ranges"][:2]
    strategy = planned(fitness.plan(workload, targets))
    rho = fitness.price(strategy, workload, targets)
    assert fitness.reach(strategy, workload, targets, rho) == pytest.approx(1)
    assert fitness.reach(strategy, workload, targets, rho / 3) == pytest.approx(3)


def slack() -> tuple[Workload, np.ndarray]:
    """Prefixes of three cells that matter, and two cells by themselves that need not be known well."""
    queries = np.array([[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]])
    return line(Dense(queries)), np.array([1.0, 1.0, 1.0, 50.0, 2.0])


def test_what_is_left_of_the_price_is_spent_or_kept() -> None:
    workload, targets = slack()
    plain = planned(fitness.plan(workload, targets, gap=1e-5))
    full = fitness.filled(plain)
    assert full.sensitivity.value == plain.sensitivity.value
    assert (full.variances(workload) <= plain.variances(workload) * (1 + 1e-9)).all()
    assert max(fitness.profile(full)) < min(fitness.profile(full)) * (1 + 1e-3)
    lean = planned(fitness.refined(workload, targets, gap=1e-3))
    assert lean.certificate is not None and lean.certificate.value <= plain.certificate.value * (1 + 2e-3)
    profile = np.array(fitness.profile(lean), dtype=float) / max(fitness.profile(lean))
    assert profile[3] == pytest.approx(1 / (2 * 1.5705), rel=0.05)  # two cells are limited alike, by the one with target 2
    assert (lean.variances(workload) / targets).max() == pytest.approx(lean.certificate.value)


def test_a_share_of_total_error_costs_little_and_gains_much() -> None:
    workload, targets = CASES["PL94"][:2]
    plain, both = planned(fitness.plan(workload, targets)), planned(fitness.plan(workload, targets, total=0.3))
    assert both.certificate is not None and both.certificate.ratio < 1 + 1e-4
    assert both.variances(workload).sum() < plain.variances(workload).sum()
    assert both.variances(workload).max() > plain.variances(workload).max()


def test_too_many_cells_are_refused_with_their_number() -> None:
    made = ca.plan(products([Prefix(100), Prefix(100)], (1, 2)))
    assert isinstance(made, Refusal) and "10000" in made.because
    with pytest.raises(Unsupported, match="10000"):
        solve(products([Prefix(100), Prefix(100)], (1, 2)))
    with pytest.raises(ValueError, match="above zero"):
        fitness.plan(line(Prefix(3)), np.array([1.0, 0.0, 1.0]))


def test_the_stated_variance_is_that_of_many_measurements(effort: float) -> None:
    workload, targets = CASES["ranges"][:2]
    strategy = planned(fitness.plan(workload, targets))
    runs = int(1500 * effort)
    rho = fitness.price(strategy, workload, targets)
    (block,) = strategy.blocks
    table = RANDOM.integers(0, 1000, 64)
    exact = block.measure(table)
    noise = np.rint(RANDOM.normal(size=(runs, block.rows)) * block.scale * strategy.stretch(rho)).astype(np.int64)
    errors = np.array([strategy.reconstruct([exact + z], workload) for z in noise]) - workload.apply(table)
    empirical = (errors**2).mean(axis=0) / strategy.variances(workload, rho)
    assert np.allclose(empirical, 1, atol=6 * np.sqrt(2 / runs))
    assert np.abs(errors.mean(axis=0)).max() < 6 * np.sqrt(targets.max() / runs)
