"""Synthetic tables that are fitted cell by cell: rows are the fitted table's, failures lose nothing, large tables are refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from support.coded_tables import Coded, counts_of

from dpsql.answers.simulation import Simulation
from dpsql.audit.exact import Exact
from dpsql.errors import DataError, OperationalError
from dpsql.microdata import diagnostic
from dpsql.microdata.all_fits import METHODS as FITS
from dpsql.models.noisy_marginals import MarginalMeasurement
from dpsql.models.table_domain import TableDomain
from dpsql.synthesis.methods import fitted_cells
from dpsql.synthesis.methods.all_methods import METHODS
from dpsql.synthesis.methods.fitted_cells import NonNegativeCells, marginals_within
from dpsql.trusted.accounting.cost import concentrated, pure

DOMAIN = TableDomain(("a", "b", "c"), (4, 5, 3))
PRICE = concentrated(Fraction(1, 50))


@pytest.fixture(autouse=True)
def few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostic, "MOST_RUNS", 3)
    monkeypatch.setattr(diagnostic, "LEAST_RUNS", 3)


def coded(rows: int = 300, *, exact: bool = False) -> Coded:
    """Most combinations are nobody's."""
    draw = np.random.default_rng(4)
    a = draw.choice(4, rows, p=[0.7, 0.3, 0, 0])
    return Coded(DOMAIN, np.stack([a, a + draw.integers(0, 2, rows), np.zeros(rows, dtype=np.int64)], axis=1), noise=Exact() if exact else None)


@pytest.mark.parametrize("name", FITS)
def test_rows_are_those_of_the_fitted_table(name: str) -> None:
    """As many as it has, each cell exactly as often as it was fitted, in whole numbers that are not negative."""
    table = coded()
    for price in (PRICE, pure(Fraction(1, 5))):
        model = table.measured(METHODS[name], price).model
        cells = model.marginal(DOMAIN.columns)
        assert (cells == np.rint(cells)).all() and cells.min() >= 0 and model.total == cells.sum() > 0
        for seed in range(5):
            drawn = model.draw(int(model.total), Simulation(seed))
            assert np.array_equal(counts_of(DOMAIN, drawn, DOMAIN.columns), cells)


@pytest.mark.parametrize("name", FITS)
def test_without_noise_the_table_is_the_private_one(name: str) -> None:
    table = coded(exact=True)
    assert np.array_equal(table.measured(METHODS[name], PRICE).model.marginal(DOMAIN.columns), table.counts(DOMAIN.columns))


@pytest.mark.parametrize("name", FITS)
def test_a_table_without_rows_has_a_total_that_divides(name: str) -> None:
    model = coded(0, exact=True).measured(METHODS[name], PRICE).model
    assert 0 < model.total < 0.01 and len(model.draw(1, Simulation(0))) == 1


def test_all_marginals_within_the_workload_are_measured_for_equal_shares() -> None:
    assert marginals_within(DOMAIN, [("b", "a"), ("c",)]) == (("a",), ("b",), ("c",), ("a", "b"), ("a", "b", "c"))
    assert marginals_within(TableDomain(("a",), (4,)), [("a",)]) == (("a",),)
    table = coded()
    found = table.measured(METHODS["reweight"], PRICE).marginals
    assert [each.columns for each in found] == list(marginals_within(DOMAIN, [DOMAIN.columns])) and len({cost.rho for _, cost in table.asked}) == 1


def test_least_squares_keeps_its_number_of_rows_without_negative_cells() -> None:
    table = coded()
    measured = table.measured(METHODS["ols"], PRICE)
    noisy = fitted_cells.noisy_table(DOMAIN, measured.marginals, "gaussian")
    plain = fitted_cells.fit(noisy, "ols")
    assert plain.cells.min() < 0 and measured.model.total == max(float(np.rint(plain.cells.sum())), 0.0)


def test_what_earlier_statements_measured_is_used() -> None:
    """Counts that are nearly exact decide."""
    table, columns = coded(), DOMAIN.columns
    known = MarginalMeasurement(columns=columns, values=table.counts(columns), variance=1e-4)
    released = [MarginalMeasurement(columns=columns, values=table.counts(columns) + 50, variance=400.0)]
    found = NonNegativeCells()._fitted(table.task(PRICE, known=(known,)), released)
    assert np.array_equal(found.model.marginal(columns), table.counts(columns))


@pytest.mark.parametrize("failure", [OperationalError("no table"), DataError("no rounding"), RuntimeError("given up"), MemoryError()])
def test_a_fit_that_fails_leaves_the_noisy_cells(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*given: object, **more: object) -> None:
        raise failure

    monkeypatch.setattr(fitted_cells, "fit", failing)
    measured = coded().measured(METHODS["nnls"], PRICE)
    assert measured.notes == ("nnls found no table: this one is made from the noisy cells alone",)
    assert np.array_equal(measured.model.marginal(DOMAIN.columns), np.maximum(measured.marginals[-1].values, 0))


@pytest.mark.parametrize(("sizes", "because"), [((50, 50, 41), "at most 100,000 cells, and here there are 102,500"), ((60, 40, 3), "1,500 sums of several cells"),
                                                ((2,) * 14, "in total"), ((2,) * 40, "at most 100,000 cells")])
def test_large_tables_are_refused(sizes: tuple[int, ...], because: str) -> None:
    domain = TableDomain(tuple(f"x{i}" for i in range(len(sizes))), sizes)
    refused = METHODS["nnls"].refusal(Coded(domain, np.zeros((1, len(sizes)), dtype=np.int64)).task(PRICE))
    assert refused is not None and because in refused.why and "method = 'aim'" in refused.try_


def test_the_number_of_cells_that_fits() -> None:
    task = Coded(TableDomain(("a", "b"), (250, 400)), np.zeros((1, 2), dtype=np.int64)).task(PRICE)
    assert all(METHODS[name].refusal(task) is None for name in FITS)
