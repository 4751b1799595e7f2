"""Marginals: published totals to their last digit, the closed forms, and everything else by dense algebra."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from support.dense_algebra import by_definition, cost, products, variances

from dpsql.errors import Unsupported
from dpsql.strategies.closure import closure, how_many, ways
from dpsql.strategies.fixed_point import solve
from dpsql.strategies.residual import Centered, Even, Residuals
from dpsql.strategies.residual_planner import plan, plan_ways
from dpsql.strategies.strategy import Refusal
from dpsql.workload.domain import domain
from dpsql.workload.factors import Dense, Identity, Prefix, Total
from dpsql.workload.workload import Product, Workload, joined

RANDOM = np.random.default_rng(17)
ADULT = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)


def planned(made: Residuals | Refusal) -> Residuals:
    assert isinstance(made, Residuals) and made.certificate is not None
    return made


def value(made: Residuals) -> float:
    assert made.certificate is not None
    return made.certificate.value


def cells(sizes: tuple[int, ...], counts: range | tuple[int, ...]) -> int:
    return sum(math.prod(chosen) for count in counts for chosen in combinations(sizes, count))


@cache
def of_tens(attributes: int) -> Residuals:
    """All marginals of up to three of so many attributes with ten values each."""
    made = plan_ways(domain(*[10] * attributes), range(4))
    assert isinstance(made, Residuals)
    return made


@pytest.mark.parametrize(("attributes", "total", "rmse"), [(10, 10888529.5519, 9.348111), (20, 839859903.12, 26.916839),
                                                           (50, 226899402209.76, 107.258119), (100, 14912301850346.07, 303.216110)])
def test_all_three_way_marginals_have_the_published_total(attributes: int, total: float, rmse: float) -> None:
    made = of_tens(attributes)
    assert value(made) == pytest.approx(total, rel=1e-9)
    assert math.sqrt(value(made) / cells((10,) * attributes, range(4))) == pytest.approx(rmse, abs=5e-7)


@pytest.mark.parametrize(("counts", "rmse"), [((1,), 3.046823), ((2,), 6.358720), ((3,), 10.515270), ((0, 1, 2, 3), 10.665008)])
def test_marginals_of_adult(counts: tuple[int, ...], rmse: float) -> None:
    assert math.sqrt(value(plan_ways(domain(*ADULT), counts)) / cells(ADULT, counts)) == pytest.approx(rmse, abs=5e-7)


@pytest.mark.parametrize(("sizes", "largest"), [((10,) * 6, 26.904583), ((10,) * 10, 105.030804), ((10,) * 15, 332.769347),
                                                ((10,) * 20, 768.941404), (ADULT, 253.605155)])
def test_the_least_largest_variance_is_the_published_one(sizes: tuple[int, ...], largest: float) -> None:
    made = plan_ways(domain(*sizes), range(4), largest=True)
    assert value(made) == pytest.approx(largest, rel=3e-8)
    assert made.certificate is not None and 1 <= made.certificate.ratio < 1 + 1e-7


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_one_and_two_way_marginals_have_a_closed_form(size: int) -> None:
    """max over a of (sqrt(a/t^2 + (1-a)/t^4) + k (t-1) sqrt(...) + ...)^2, for k attributes of t values."""
    k, t, a = 3, size, np.linspace(0, 1, 200_001)
    pairs = k * (k - 1) // 2
    f = (np.sqrt(a / t**2 + (1 - a) / t**4) + k * (t - 1) * np.sqrt(a / (k * t**2) + 2 * (1 - a) / (k * t**4))
         + pairs * (t - 1) ** 2 * np.sqrt((1 - a) / (pairs * t**4)))
    assert value(plan_ways(domain(*[size] * 3), (1, 2), largest=True)) == pytest.approx(float(f.max()) ** 2, rel=1e-8)


def mixed() -> Workload:
    return Workload(domain(3, 4, 2), tuple(products([Identity(3), Identity(4), Identity(2)], (0, 1, 2)).parts[:6]))


@pytest.mark.parametrize("targets", [None, (5.0, 1.0, 2.0, 1.0, 3.0, 4.0)])
def test_claims_hold_in_dense_algebra(targets: tuple[float, ...] | None) -> None:
    workload = mixed()
    each = None if targets is None else np.repeat(targets, [part.rows for part in workload.parts])
    made = planned(plan(workload, each))
    assert cost(made) == pytest.approx(1) and float(made.sensitivity.value) == pytest.approx(1) and made.sensitivity.exact
    explicit = variances(made, workload)
    assert np.allclose(made.variances(workload), explicit)
    exact = solve(joined(workload), targets=each, share=0.0 if targets is None else 1.0, gap=1e-6)
    aim = explicit.sum() if each is None else (explicit / each).max()
    assert value(made) == pytest.approx(aim) and aim == pytest.approx(exact.lower * (workload.rows if each is None else 1), rel=2e-6)


def test_answers_are_those_of_least_squares_also_for_other_queries() -> None:
    workload = mixed()
    made = planned(plan(workload))
    table = RANDOM.integers(0, 100, 24)
    noise = [RANDOM.normal(size=block.rows) * block.scale for block in made.blocks]
    ours, theirs = by_definition(made, workload, table, noise)
    assert np.allclose(ours, theirs)
    other = Workload(domain(3, 4, 2), (Product((Prefix(3), Total(4), Identity(2))), Product((Total(3), Dense(np.array([[1, -2, 0, 5]])), Total(2)))))
    ours, theirs = by_definition(made, other, table, noise)
    assert np.allclose(ours, theirs) and np.allclose(made.variances(other), variances(made, other))


def test_marginals_by_kind_are_marginals_one_by_one() -> None:
    shape = (3, 4, 3, 2, 4, 1)
    workload = products([Identity(size) for size in shape], (1, 2, 3))
    for largest in (False, True):
        one_by_one = planned(plan(workload, np.ones(workload.rows) if largest else None))
        by_kind = plan_ways(domain(*shape), (1, 2, 3), largest=largest)
        assert value(by_kind) == pytest.approx(value(one_by_one), rel=1e-7)
        assert len(by_kind.scales) == len(list(by_kind.scales)) == len(one_by_one.scales)
        for axes, scale in by_kind.scales.items():
            assert 5 not in axes  # the residual of one value is nothing
            assert one_by_one.scales[axes] == pytest.approx(scale, rel=1e-3 if largest else 1e-9)
        assert np.allclose(by_kind.variances(workload), one_by_one.variances(workload), rtol=1e-3)


def test_weights_of_parts() -> None:
    workload = mixed()
    weights = np.array([1.0, 2.0, 0.5, 3.0, 1.0, 10.0])
    made = planned(plan(workload, weights=weights))
    each = np.repeat(weights, [part.rows for part in workload.parts])
    exact = solve(joined(workload), base=each / each.sum(), share=0.0, gap=1e-7)
    assert value(made) == pytest.approx(exact.lower * each.sum(), rel=1e-6) and variances(made, workload) @ each == pytest.approx(value(made))


def test_a_hundred_attributes_are_planned_by_their_four_kinds() -> None:
    made = of_tens(100)
    assert len(made.scales) == 1 + 100 + 4950 + 161700
    assert made.scales[(3,)] == made.scales[(77,)] and made.scales[(3, 8, 50)] == made.scales[(0, 1, 2)]
    assert "_blocks" not in made.__dict__
    cell = Workload(domain(*[10] * 100), (Product((*(Identity(10) for _ in range(3)), *(Total(10) for _ in range(97)))),))
    assert made.variances(cell)[0] == pytest.approx(made.variances(cell)[-1]) and made.sensitivity.exact


def test_what_is_no_marginal_is_refused() -> None:
    assert isinstance(plan(products([Prefix(3), Identity(2)], (1, 2))), Refusal)
    assert isinstance(plan(products([Identity(3), Identity(2)], (1,)), np.array([1.0, 1.0, 2.0, 1.0, 1.0])), Refusal)
    with pytest.raises(Unsupported, match="subsets"):
        plan(Workload(domain(*[2] * 30), (Product(tuple(Identity(2) for _ in range(30))),)))
    made = planned(plan(products([Identity(3), Identity(2)], (1,))))
    with pytest.raises(ValueError, match="does not measure"):
        made.variances(products([Identity(3), Identity(2)], (2,)))


def test_centered_queries_and_their_inverse() -> None:
    for size in (1, 2, 5):
        factor, matrix = Centered(size), size * np.eye(size) - 1
        assert np.array_equal(factor.dense(), matrix)
        table = RANDOM.integers(-9, 10, (3, size))
        assert np.array_equal(factor.apply(table, 1), table @ matrix)
        assert factor.column_powers(2) == tuple(int(x) for x in (matrix**2).sum(axis=0))
        assert factor.column_powers(1) == tuple(int(x) for x in np.abs(matrix).sum(axis=0))
        kernel = RANDOM.normal(size=(size, size))
        assert np.allclose(factor.quadratic(kernel + kernel.T), np.diag(matrix @ (kernel + kernel.T) @ matrix))
        assert np.allclose(Even(size).solve(table.astype(float), 1), table @ np.linalg.pinv(matrix))


def test_subsets_are_counted_as_they_are() -> None:
    kinds, counts = ways([3, 2], [0, 2, 3])
    assert dict(zip(kinds, counts, strict=True)) == {(): 1, (0, 0): 3, (0, 1): 6, (1, 1): 1, (0, 0, 0): 1, (0, 0, 1): 6, (0, 1, 1): 3}
    assert how_many((0, 0, 1), [3, 2]) == 6
    found = closure(kinds)
    table = found.within().toarray()
    members = [0, 0, 0, 1, 1]
    for column, kind in enumerate(kinds):
        marginal = next(axes for axes in combinations(range(5), len(kind)) if tuple(members[i] for i in axes) == kind)
        for row, subset in enumerate(found.kinds):
            inside = [axes for axes in combinations(marginal, len(subset)) if tuple(members[i] for i in axes) == subset]
            assert table[row, column] == len(inside)
