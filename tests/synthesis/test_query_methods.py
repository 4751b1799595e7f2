"""MWEM, MWEM+PUB and DualQuery: their rounds, what they pay, and how near they come."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from oracle.moves import LAWS, View
from support.coded_tables import Coded, Places

from dpsql.answers.simulation import Simulation
from dpsql.audit.exact import Exact
from dpsql.frozen import replace
from dpsql.models.table_domain import TableDomain
from dpsql.models.table_model import TableModel
from dpsql.models.weighted_rows import WeightedRows
from dpsql.synthesis.methods.all_methods import METHODS
from dpsql.synthesis.methods.dualquery import DualQuery, best_row
from dpsql.synthesis.methods.mwem import MultiplicativeWeights
from dpsql.synthesis.methods.mwem_pub import WeightedPublicRows, support
from dpsql.synthesis.methods.query_rounds import wanted_marginals
from dpsql.trusted.accounting.cost import Cost, concentrated, pure
from dpsql.trusted.measurements.farthest_count import FarCell, FarthestCount
from dpsql.trusted.measurements.noisy_sums import NoisySums

DOMAIN = TableDomain(("a", "b", "c", "d", "e"), (3, 4, 2, 5, 3))
LOW: dict[str, Cost] = {"pure": pure(Fraction(1, 20)), "rho": concentrated(Fraction(1, 5000))}  # too low to measure all at once
CHOOSING: dict[str, dict[str, Any]] = {"mwem": {}, "mwem_pub": {}, "dualquery": {}, "mwem, single counts": {"single": True}}


def rows(count: int, seed: int) -> Places:
    """b follows a, c follows both; d and e are by themselves."""
    draws = np.random.default_rng(seed)
    a = draws.choice(3, count, p=[0.6, 0.3, 0.1])
    b = np.where(draws.random(count) < 0.8, a + 1, draws.integers(0, 4, count))
    c = np.where(draws.random(count) < 0.9, (a + b) % 2, 1)
    return np.stack([a, b, c, draws.integers(0, 5, count), draws.integers(0, 3, count)], axis=1)


@cache
def data(entity: int = 1) -> Coded:
    return Coded(DOMAIN, rows(4000, 5), rows=entity, public=rows(600, 6))


def measured(table: Coded, name: str, price: Cost) -> TableModel:
    return table.measured(METHODS[name.partition(",")[0]], price, **CHOOSING[name]).model


def largest(table: Coded, model: TableModel) -> float:
    return max(float(np.abs(model.marginal(columns) / model.total - table.counts(columns) / len(table.places)).max())
               for columns in itertools.combinations(DOMAIN.columns, 3))


@pytest.mark.parametrize("entity", [1, 3])
@pytest.mark.parametrize("account", LOW)
@pytest.mark.parametrize("name", CHOOSING)
def test_rounds_cost_the_price_and_no_more(name: str, account: str, entity: int) -> None:
    table, price = data(entity), LOW[account]
    measured(table, name, price)
    charged = [cost.epsilon if price.epsilon is not None else cost.rho for _, cost in table.asked]
    whole = price.epsilon if price.epsilon is not None else price.rho
    assert 0.9999 * whole <= sum(part for part in charged if part is not None) <= whole and None not in charged
    assert sum(type(request) is FarthestCount for request, _ in table.asked) in ({"mwem": 5, "mwem_pub": 3}.get(name, 30), 9, 10, 11, 12)


@pytest.mark.parametrize("name", CHOOSING)
def test_rounds_move_no_further_on_neighbours_than_they_cost(name: str) -> None:
    full = Coded(DOMAIN, rows(300, 5), public=rows(50, 6))
    measured(full, name, LOW["rho"])
    neighbour, most = Coded(DOMAIN, rows(300, 5)[1:]), 0.0
    for request, _ in full.asked:
        read, compare = LAWS[type(request)]
        certificates = full.kernel._certificates(request)
        for move in compare(request, certificates, *(read(request, certificates, View(table.kernel)) for table in (full, neighbour))):
            assert not move.broken, move
            most = max(most, move.share if type(request) is FarthestCount else 0)
    assert most > 0.9, "the row's cells are there with both signs"


def test_what_is_asked_in_rounds_follows_from_what_was_released() -> None:
    table = Coded(DOMAIN, rows(500, 5), noise=Exact())
    for name in CHOOSING:
        measured(table, name, LOW["rho"])
        first = list(table.asked)
        measured(table, name, LOW["rho"])
        assert table.asked == first


def test_without_noise_mwem_measures_the_marginal_of_the_worst_count() -> None:
    table = Coded(DOMAIN, rows(4000, 5), noise=Exact())
    made = table.measured(METHODS["mwem"], LOW["rho"])
    choice = next(request for request, _ in table.asked if type(request) is FarthestCount)
    worst = [max(abs(choice.multiplier * count - number) for count, number in zip(table.counts(columns).ravel(), numbers, strict=True))
             for columns, numbers in zip(wanted_marginals(table.task(LOW["rho"])), choice.expected, strict=True)]
    assert made.marginals[5].columns == wanted_marginals(table.task(LOW["rho"]))[int(np.argmax(worst))]


def test_every_marginal_is_measured_where_noise_allows_it() -> None:
    table = data()
    found = table.measured(METHODS["mwem"], concentrated(Fraction(1, 2))).marginals
    assert [each.columns for each in found[5:]] == list(itertools.combinations(DOMAIN.columns, 3))
    assert {type(request) for request, _ in table.asked} == {NoisySums}


def test_methods_are_nearer_than_independent_columns_and_public_rows_help() -> None:
    """At a price at which independent columns have hardly any noise: what they miss is how columns depend on each other."""
    table, price = data(), concentrated(Fraction(1, 50))
    apart = largest(table, table.measured(METHODS["independent"], price).model)
    errors = {name: largest(table, measured(table, name, price)) for name in CHOOSING}
    assert errors["mwem"] < apart / 3 and errors["mwem, single counts"] < apart / 2 and errors["dualquery"] < 0.2
    low = concentrated(Fraction(1, 10**5))
    assert largest(table, measured(table, "mwem_pub", low)) < 0.6 * largest(table, measured(table, "mwem", low))


def test_a_public_table_of_others_is_corrected() -> None:
    """It has far too few rows with a = 0, whose other columns are like the private ones."""
    public = rows(3000, 7)
    few = public[(public[:, 0] != 0) | (np.arange(3000) % 10 == 0)]
    table = Coded(DOMAIN, rows(4000, 5), public=few)
    start = support(DOMAIN, few)
    assert largest(table, start) > 0.25
    for price, most in ((concentrated(Fraction(1, 50)), 0.03), (concentrated(Fraction(1, 1000)), 0.09)):
        assert largest(table, table.measured(METHODS["mwem_pub"], price).model) < most


def test_rows_are_mixed_from_public_ones_alone() -> None:
    public = np.array([[0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [1, 1, 1, 1, 1], [2, 2, 0, 2, 2]])
    made = support(DOMAIN, public)
    assert isinstance(made, WeightedRows) and all(set(column) <= set(own) for column, own in zip(made.places.T, public.T, strict=True))
    held = [made.weights[(made.places == row).all(axis=1)].sum() for row in np.unique(public, axis=0)]
    assert made.total == pytest.approx(4) and sum(held) >= 0.8 * 4 and held[1] > 1.5 * held[0]
    assert np.array_equal(made.places, support(DOMAIN, public).places), "the draws follow from the public rows"


def test_what_a_method_cannot_do_is_said_with_what_to_write() -> None:
    task = data().task(LOW["rho"])
    for method, given, why in ((MultiplicativeWeights(cells=359), task, "360 combinations of values"),
                               (WeightedPublicRows(), replace(task, public=None), "public table"),
                               (WeightedPublicRows(), replace(task, public=np.zeros((0, 5), dtype=np.int64)), "no row of this one")):
        refusal = method.refusal(given)
        assert refusal is not None and why in refusal.why and refusal.try_
    assert MultiplicativeWeights(cells=360).refusal(task) is None and WeightedPublicRows().refusal(task) is None


# -- DualQuery


def test_draws_cost_what_the_formula_says() -> None:
    """rho = s eta^2 T (T - 1) (2 T - 1) / (12 n^2) where eta / n is 1 / scale: about s eta^2 T^3 / (6 n^2)."""
    table = data()
    table.measured(DualQuery(rounds=8, draws=3), concentrated(Fraction(1, 100)))
    choices = [(request, cost) for request, cost in table.asked if type(request) is FarthestCount]
    assert [request.multiplier for request, _ in choices] == list(range(1, 8))
    scale = choices[0][0].scale
    assert all(request.scale == pytest.approx(scale, rel=1e-6) for request, _ in choices)
    assert float(sum(cost.rho for _, cost in choices)) == pytest.approx(3 * 8 * 7 * 15 / 12 / scale**2, rel=1e-6)
    table.measured(DualQuery(rounds=8, draws=3), pure(Fraction(1, 10)))
    choices = [(request, cost) for request, cost in table.asked if type(request) is FarthestCount]
    assert float(sum(cost.epsilon or 0 for _, cost in choices)) == pytest.approx(3 * 8 * 7 / choices[0][0].scale, rel=1e-6)


def test_the_best_row_is_found_in_small_domains() -> None:
    draws = np.random.default_rng(3)
    wanted = tuple(itertools.combinations(DOMAIN.columns, 2))
    every = np.stack(np.unravel_index(np.arange(360), DOMAIN.sizes), axis=1)
    hits = 0
    for _ in range(20):
        cells = []
        for _ in range(15):
            marginal = int(draws.integers(len(wanted)))
            cells.append(FarCell(marginal=marginal, cell=int(draws.integers(DOMAIN.cells(wanted[marginal]))), sign=int(draws.choice([-1, 1]))))

        def score(row: Any, cells: list[FarCell] = cells) -> int:
            return sum(cell.sign for cell in cells if np.ravel_multi_index(
                [row[DOMAIN.columns.index(column)] for column in wanted[cell.marginal]], DOMAIN.shape(wanted[cell.marginal])) == cell.cell)

        found, = best_row(DOMAIN, wanted, cells, Simulation(1))
        best = max(map(score, every))
        assert score(found) >= best - 1
        hits += score(found) == best
    assert hits >= 17
