"""Methods that measure a table for a model: what they spend, what they choose, and how good the tables are that follow."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
import pytest
from oracle.moves import LAWS, View
from support.coded_tables import Coded, Places, total_variation

from dpsql.audit.exact import Exact
from dpsql.budgets.convert import rho_of
from dpsql.microdata.all_fits import METHODS as FITS
from dpsql.models.table_domain import TableDomain
from dpsql.synthesis.method import Method
from dpsql.synthesis.method_choice import in_best_account
from dpsql.synthesis.methods import mst
from dpsql.synthesis.methods.aim import AdaptiveMarginals
from dpsql.synthesis.methods.all_methods import METHODS
from dpsql.synthesis.methods.independent import Independent
from dpsql.synthesis.methods.marginal_requests import HOPELESS, Candidate, hopeful
from dpsql.synthesis.methods.mst import SpanningTree
from dpsql.trusted.accounting.cost import Cost, concentrated, pure
from dpsql.trusted.measurements.dependent_parents import DependentParents
from dpsql.trusted.measurements.farthest_count import FarthestCount
from dpsql.trusted.measurements.farthest_marginal import FarthestMarginal
from dpsql.trusted.measurements.noisy_sums import NoisySums

CHOICES: dict[str, type] = {"aim": FarthestMarginal, "mst": FarthestMarginal, "privbayes": DependentParents}  # what must be asked
DOMAIN = TableDomain(("a", "b", "c", "d", "e"), (3, 4, 2, 5, 3))
QUICK = [name for name in METHODS if name not in FITS or name == "nnls"]  # the others ask what nnls asks, and fit for longer
PRICES: dict[str, Cost] = {"pure": pure(Fraction(3, 2)), "rho": concentrated(Fraction(1, 25))}


@cache
def places() -> Places:
    """b follows a, c follows a and b, d follows b; e is by itself."""
    draws = np.random.default_rng(5)
    count = 4000
    a = draws.choice(3, count, p=[0.6, 0.3, 0.1])
    b = np.where(draws.random(count) < 0.8, a + 1, draws.integers(0, 4, count))
    c = np.where(draws.random(count) < 0.9, (a + b) % 2, 1)
    d = np.where(draws.random(count) < 0.7, b, draws.integers(0, 5, count))
    return np.stack([a, b, c, d, draws.integers(0, 3, count)], axis=1)


@cache
def data(rows: int = 1, exact: bool = False) -> Coded:
    return Coded(DOMAIN, places(), rows=rows, noise=Exact() if exact else None)


def small(*columns: int, sizes: tuple[int, ...] = DOMAIN.sizes) -> Coded:
    """Some of the columns."""
    domain = TableDomain(tuple(DOMAIN.columns[at] for at in columns), tuple(sizes[at] for at in columns))
    return Coded(domain, places()[:, list(columns)], noise=Exact())


def columns_of(found: Any) -> list[tuple[str, ...]]:
    return [each.columns for each in found]


# -- the price


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("account", PRICES)
@pytest.mark.parametrize("name", QUICK)
def test_requests_cost_the_price_and_no_more(name: str, account: str, rows: int) -> None:
    table, price = data(rows), PRICES[account]
    found = table.measured(METHODS[name], price).marginals
    charged = [cost.rho if price.epsilon is None else cost.epsilon for _, cost in table.asked]
    whole = price.rho if price.epsilon is None else price.epsilon
    assert 0.9999 * whole <= sum(part for part in charged if part is not None) <= whole
    assert all(part is not None for part in charged)
    measured = [request for request, _ in table.asked if isinstance(request, NoisySums)]
    assert len(measured) == len(found) and [request.noises[0].variance for request in measured] == [each.variance for each in found]


@pytest.mark.parametrize("name", QUICK)
def test_the_price_of_the_ledger_is_enough_for_an_awkward_amount(name: str) -> None:
    """Shares of it are no finite decimals, and scales are rounded to floats."""
    for price in (pure(Fraction(7, 9)), concentrated(Fraction(1, 37))):
        data().measured(METHODS[name], price)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("name", QUICK)
def test_requests_move_no_further_on_neighbours_than_they_cost(name: str, rows: int) -> None:
    """By the distances of the oracle, on tables with the first entity, with the last one, and without it."""
    full = Coded(DOMAIN, places()[:300], rows=rows)
    full.measured(METHODS[name], concentrated(Fraction(rows**2)))  # enough for choices among so few rows
    for neighbour in (Coded(DOMAIN, places()[rows:300], rows=rows), Coded(DOMAIN, places()[:300 - rows], rows=rows)):
        most: dict[type, float] = {}
        for request, _ in full.asked:
            read, compare = LAWS[type(request)]
            certificates = full.kernel._certificates(request)
            here, there = (read(request, certificates, View(table.kernel)) for table in (full, neighbour))
            for move in compare(request, certificates, here, there):
                assert not move.broken, move
                most[type(request)] = max(most.get(type(request), 0), move.share)
        assert most[NoisySums] > 0.5 and all(most.get(kind, 1) > 0.2 for kind in (FarthestCount, FarthestMarginal))
        assert name not in CHOICES or most[CHOICES[name]] > 0.1


# -- the counts


@pytest.mark.parametrize("name", QUICK)
def test_counts_are_those_of_the_table_but_for_noise(name: str) -> None:
    table = data()
    for each in table.measured(METHODS[name], PRICES["rho"]).marginals:
        off = (each.values - table.counts(each.columns)) / math.sqrt(each.variance)
        assert np.abs(off).max() < 7 and (off.size < 8 or np.sqrt((off**2).mean()) > 0.2)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("at", [(0,), (1, 3)])
def test_tables_of_one_or_two_columns(name: str, at: tuple[int, ...]) -> None:
    table = small(*at)
    found = table.measured(METHODS[name], PRICES["rho"]).marginals
    asked = [type(request) for request, _ in table.asked]
    assert name == "dualquery" or {column for each in found for column in each.columns} == set(table.domain.columns)
    if len(at) == 1:
        assert asked == [NoisySums] and sum(cost.rho for _, cost in table.asked) > 0.999 * PRICES["rho"].rho
    elif name not in ("independent", "dualquery"):
        assert ("b", "d") in columns_of(found)
        assert name == "aim" or FarthestMarginal not in asked


@pytest.mark.parametrize("name", METHODS)
def test_a_column_of_one_value(name: str) -> None:
    table = Coded(TableDomain(("one", "a", "b"), (1, 3, 4)), np.insert(places()[:, :2], 0, 0, axis=1))
    network = table.measured(METHODS[name], PRICES["rho"]).model
    assert network.marginal(("one",)).sum() == pytest.approx(4000, rel=0.1)


def test_a_table_without_rows_has_a_model() -> None:
    table = Coded(DOMAIN, np.zeros((0, 5), dtype=np.int64))
    for name in QUICK:
        assert table.measured(METHODS[name], PRICES["rho"]).model.total < 200


# -- what is chosen


def test_without_noise_mst_is_the_maximum_spanning_tree() -> None:
    table = data(exact=True)
    price = concentrated(Fraction(10**4))  # noise of a thousandth: its mean size does not count
    found = table.measured(SpanningTree(), price).marginals
    graph = nx.Graph()
    for one, other in combinations(DOMAIN.columns, 2):
        expected = np.outer(table.counts((one,)), table.counts((other,))) / len(places())
        graph.add_edge(one, other, weight=np.abs(table.counts((one, other)) - expected).sum())
    assert {frozenset(each.columns) for each in found[5:]} == set(map(frozenset, nx.maximum_spanning_tree(graph).edges))
    assert columns_of(found[:5]) == [(column,) for column in DOMAIN.columns]


def test_mst_leaves_out_pairs_that_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mst, "MOST_CELLS", 12)
    table = small(0, 1, 3)
    assert columns_of(table.measured(SpanningTree(), PRICES["rho"]).marginals)[3:] == [("a", "b")]
    monkeypatch.setattr(mst, "MOST_CELLS", 5)
    assert columns_of(table.measured(SpanningTree(), PRICES["rho"]).marginals) == [("a",), ("b",), ("d",)]


def test_aim_halves_its_noise_where_nothing_more_is_learned_and_keeps_within_its_size() -> None:
    table = data(exact=True)
    for price in PRICES.values():
        made = table.measured(AdaptiveMarginals(cells=60, rounds=6), price)
        found = made.marginals
        variances = [each.variance for each in found]
        assert all(later <= earlier * (1 + 1e-9) for earlier, later in zip(variances[5:], variances[6:-1], strict=False))
        assert variances[0] == variances[4] and any(
            earlier / later == pytest.approx(4, rel=0.01) for earlier, later in zip(variances[5:], variances[6:], strict=False))
        assert ("a", "b") in columns_of(found) or ("a", "b", "c") in columns_of(found)
        assert sum(table.size for table in made.model.probabilities) <= 60
    larger = table.measured(AdaptiveMarginals(), concentrated(Fraction(100))).marginals
    assert max(len(each.columns) for each in larger) == 3


def test_candidates_that_are_left_out_could_not_be_drawn() -> None:
    """Whatever the counts are, up to the bound of the docstring, a candidate that stays has a score that is higher by many scales."""
    draws = np.random.default_rng(3)
    for _ in range(200):
        sizes = tuple(draws.integers(1, 40, 5).tolist())
        domain = TableDomain(DOMAIN.columns, sizes)
        tried = [Candidate(columns=columns, weight=int(draws.integers(1, 4))) for size in (1, 2, 3) for columns in combinations(DOMAIN.columns, size)]
        noise, total, scale = 10 ** draws.uniform(-2, 2), 10 ** draws.uniform(0, 5), 10 ** draws.uniform(-1, 3)
        kept = hopeful(domain, tried, noise, total, scale)
        assert kept
        surely = max(-each.weight * noise * domain.cells(each.columns) for each in kept)
        for each in tried:
            at_most = each.weight * (3 * total - noise * domain.cells(each.columns))
            assert each in kept or at_most + HOPELESS * scale < surely


def test_what_is_asked_follows_from_what_was_released() -> None:
    table = data(exact=True)
    for method in map(METHODS.__getitem__, QUICK):
        table.measured(method, PRICES["rho"])
        first = list(table.asked)
        table.measured(method, PRICES["rho"])
        assert table.asked == first


# -- how good it is


@pytest.mark.parametrize("account", PRICES)
def test_marginals_of_pairs_are_nearer_than_those_of_independent_columns(account: str) -> None:
    def error(method: Method, size: int) -> float:
        network = data().measured(method, PRICES[account]).model
        return total_variation(DOMAIN, places(), network.draw(len(places()), np.random.default_rng(1)), size)

    apart = error(Independent(), 2)
    assert error(SpanningTree(), 2) < 0.6 * apart and error(AdaptiveMarginals(), 2) < 0.5 * apart
    assert error(Independent(), 1) < 0.02 and error(AdaptiveMarginals(), 1) < 0.04


# -- what is told


@pytest.mark.parametrize("account", PRICES)
@pytest.mark.parametrize("name", QUICK)
def test_stages_tell_the_noise_of_what_is_measured(name: str, account: str) -> None:
    table, price = data(), PRICES[account]
    told = METHODS[name].stages(table.task(price))
    found = table.measured(METHODS[name], price).marginals
    errors = {f"{math.sqrt(each.variance):.3g}" for each in found}
    numbers = {line.partition("standard error ")[2].split()[0] for line in told if "standard error" in line}
    assert numbers and numbers <= errors
    assert ("26 marginals" if name in FITS else "2 cells" if name == "dualquery" else "17 cells") in told[0]
    if name == "aim":
        assert len(found) - 5 <= int(told[1].split()[2])


def test_methods_are_found_by_their_names() -> None:
    assert all(method.name == name for name, method in METHODS.items())


@pytest.mark.parametrize(("name", "few", "many"), [("aim", 5, 6), ("mst", 5, 6), ("privbayes", 5, 6), ("independent", 11, 12)])
def test_few_measurements_have_laplace_noise_and_many_gaussian(name: str, few: int, many: int) -> None:
    """A price of (0.5, 1e-7) is one of epsilon = 0.5, or of rho = 0.0054. With the first, noise has a standard deviation of 2.8 for each
    measurement, and with the second one of 9.6 for the root of their number, so both are equal for between eleven and twelve."""
    accounts = [pure(Fraction(1, 2)), concentrated(rho_of(Fraction(1, 2), Fraction(1, 10**7)))]
    for columns, epsilon in ((few, accounts[0].epsilon), (many, None)):
        domain = TableDomain(tuple(f"c{i}" for i in range(columns)), (2,) * columns)
        task = Coded(domain, np.zeros((10, columns), dtype=np.int64)).task(accounts[-1])
        chosen = in_best_account(task, METHODS[name], accounts)
        assert chosen.price.epsilon == epsilon and in_best_account(task, METHODS[name], accounts[1:]).price == accounts[1]
