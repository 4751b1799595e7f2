"""Bugs in which other programs broke their promise, each as a test of every method.

What they have in common: something was read from the private rows that no price was paid for. Here a method is a generator that is
given releases; so every method is played twice with the same releases, over different rows, and must do the same in everything.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Generator, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from support.coded_tables import Coded, Places, counts_of

import dpsql
from dpsql.answers.simulation import Simulation
from dpsql.audit.exact import Exact
from dpsql.catalog.price import price
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.models.table_domain import TableDomain
from dpsql.planning.options import read_options
from dpsql.synthesis.column_forms import ListedColumn
from dpsql.synthesis.method import Method
from dpsql.synthesis.method_choice import MethodChoice
from dpsql.synthesis.methods.all_methods import METHODS
from dpsql.synthesis.synthetic_table import SyntheticTable
from dpsql.synthesis.table_options import SynthesisTerms
from dpsql.synthesis.table_plan import TablePlan
from dpsql.trusted.accounting.cost import FREE, Cost, concentrated, pure
from dpsql.trusted.measurements.noisy_sums import MeasuredSums
from dpsql.types import Type

DOMAIN = TableDomain(("a", "b", "c", "d"), (3, 4, 2, 3))
PRICES = {"pure": pure(Fraction(1)), "rho": concentrated(Fraction(1, 50))}


def rows(count: int = 2000, seed: int = 1) -> Places:
    """b and c follow a, each by itself; d follows nothing."""
    draw = np.random.default_rng(seed)
    a = draw.integers(0, 3, count)
    b = np.where(draw.random(count) < 0.7, a, draw.integers(0, 4, count))
    c = np.where(draw.random(count) < 0.8, a % 2, draw.integers(0, 2, count))
    return np.stack([a, b, c, draw.integers(0, 3, count)], axis=1)


PUBLIC = rows(500, seed=2)


def coded(places: Places, noise: Any = None) -> Coded:
    """A private table, beside a public one that has nothing to do with it."""
    made = Coded(DOMAIN, places, noise=noise)
    made.task = partial(Coded.task, made, public=PUBLIC)  # type: ignore[method-assign]
    return made


def plan_of(method: Method, table: Coded, cost: Cost) -> TablePlan:
    options = read_options([], default=price(epsilon=1), confidence=Fraction(19, 20), known=())
    return TablePlan(name="made", task=table.task(cost), forms=tuple(ListedColumn(name=name, type=Type.BIGINT) for name in DOMAIN.columns),
                     choice=MethodChoice(method=method), terms=SynthesisTerms(options=options), statement="")


def steps_of(plan: TablePlan, identity: str) -> Generator[Any, Any, SyntheticTable]:
    """The requests of a plan, and the table that is drawn from their releases."""
    return plan.drawn((yield from plan.modelled(None)), identity)


Told = list[tuple[Any, Any]]  # requests and their releases


def played(method: Method, table: Coded, cost: Cost, identity: str = "1" * 64) -> tuple[SyntheticTable, Told, Cost]:
    """A synthetic table, all that was asked and released for it, and what that costs."""
    steps, told, spent, context = steps_of(plan_of(method, table, cost), identity), Told(), FREE, table.kernel._context()
    try:
        request = next(steps)
        while True:
            own, certificates, _ = table.kernel._certified(request)
            spent += own.cost(*certificates)
            told.append((request, table.kernel._look(own, certificates, context)))
            request = steps.send(told[-1][1])
    except StopIteration as done:
        return done.value, told, spent


def replayed(method: Method, table: Coded, cost: Cost, told: Told, identity: str = "1" * 64,
             change: Callable[[Any], Any] = lambda release: release) -> tuple[SyntheticTable, list[Any]]:
    """The table that is made of these releases, changed if need be, and what is asked: no rows are read."""
    steps, asked = steps_of(plan_of(method, table, cost), identity), list[Any]()
    try:
        request = next(steps)
        for _, release in told:
            asked.append(request)
            request = steps.send(change(release))
    except StopIteration as done:
        return done.value, asked
    raise AssertionError("more is asked")


each_method = pytest.mark.parametrize("name", METHODS)
each_price = pytest.mark.parametrize("account", PRICES)


@each_price
@each_method
def test_nothing_is_read_but_by_requests(name: str, account: str) -> None:
    """pmw-pub returned the iterate that was best by the true error, and used T, k and thresholds that were tuned on the truth; others
    report errors of the true counts. With the same releases all is the same over other rows, or none: what is asked, how often, the
    table, and the errors that are told."""
    method, cost = METHODS[name], PRICES[account]
    made, told, _ = played(method, coded(rows()), cost)
    for others in (rows(500, seed=9), rows(0)):
        again, asked = replayed(method, coded(others), cost, told)
        assert asked == [request for request, _ in told] and again.as_json() == made.as_json()


@each_price
@each_method
def test_the_price_is_spent_once(name: str, account: str) -> None:
    """DataSynthesizer spent it on every column first, and then again on pairs."""
    _, told, spent = played(METHODS[name], coded(rows()), PRICES[account])
    whole, used = (PRICES[account].epsilon, spent.epsilon) if account == "pure" else (PRICES[account].rho, spent.rho)
    assert whole is not None and used is not None and told and Fraction(99, 100) * whole < used <= whole


@each_method
def test_what_is_asked_first_follows_from_public_facts(name: str) -> None:
    """Other programs take domains, the number of rows, or which columns are binary, from the private rows."""
    plans = [plan_of(METHODS[name], coded(places), PRICES["rho"]) for places in (rows(), rows()[:1], rows(0))]
    firsts = [next(steps_of(plan, "1" * 64)) for plan in plans]
    assert firsts[0] == firsts[1] == firsts[2]
    assert len({str((plan.measurements, plan.expected)) for plan in plans}) == 1


@each_method
def test_the_number_of_rows_is_an_estimate(name: str) -> None:
    """Under add or remove it is a count like any other: nothing tells it exactly, and the table has as many rows as the estimate."""
    table, cost = coded(rows()), pure(Fraction(1, 20))
    made = [played(METHODS[name], table, cost)[0] for _ in range(4)]
    totals = [each.total for each in made]
    assert len({round(total, 6) for total in totals}) > 1 and max(abs(total - 2000) for total in totals) > 1
    assert [each.rows for each in made] == [max(round(total), 1) for total in totals]


@each_method
def test_chance_is_that_of_the_noise_and_of_the_seed(name: str) -> None:
    """Other programs use the global random state, or pass the generator into the slot of another argument, so that the seed did
    nothing; and noise of ordinary floats. Here the draws follow from the seed, the noise is drawn by the kernel alone, and without it
    nothing is left to chance."""
    before = random.getstate(), str(np.random.get_state())
    table, cost = coded(rows(), noise=Exact()), PRICES["rho"]
    one, told, _ = played(METHODS[name], table, cost)
    assert played(METHODS[name], table, cost)[0].as_json() == one.as_json()
    other, _ = replayed(METHODS[name], table, cost, told, identity="2" * 64)
    assert other.total == one.total and other.columns != one.columns
    assert (random.getstate(), str(np.random.get_state())) == before


def modules_of_chance(path: Path) -> Iterator[str]:
    """The modules of random numbers that a file names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or "", *(alias.name for alias in node.names)] if isinstance(node, ast.ImportFrom) else []
        names += [node.attr] if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "np" else []
        yield from (name for name in names if name in ("random", "secrets", "numpy.random", "default_rng", "opendp"))


def test_methods_and_models_have_no_chance_of_their_own() -> None:
    folder = Path(dpsql.__file__).parent
    files = [path for room in ("synthesis", "models", "microdata") for path in sorted((folder / room).rglob("*.py"))]
    assert len(files) > 30 and not {path.name: found for path in files if (found := [*modules_of_chance(path)])}
    assert [*modules_of_chance(folder / "trusted" / "noise" / "source.py")], "which has them"


@each_method
def test_columns_that_are_independent_given_another_stay_so(name: str) -> None:
    """mbi 1.1.0 drew siblings in the same order, and made them depend on each other. The drawn table has the marginals of the model,
    but for the chance of drawing."""
    table = coded(rows())
    measured = table.measured(METHODS[name], PRICES["rho"])
    count = 4000
    drawn = measured.model.draw(count, Simulation(3))
    for pair in (("b", "c"), ("a", "d"), ("b", "d")):
        expected = measured.model.marginal(pair) / measured.model.total * count
        off = counts_of(DOMAIN, drawn, pair) - expected
        assert np.abs(off).max() < 6 * np.sqrt(expected.max()) and np.abs(off).sum() < 3 * np.sqrt(count * expected.size)


@each_method
def test_errors_are_told_of_released_counts(name: str) -> None:
    """How far a table is from the counts that were measured, noise and all, computed anew; and where counts below zero were cut off,
    which adds to empty cells, that is told as part of the distance."""
    places = rows()
    places[:, 3] = 0  # the other values of d are nobody's
    made, told, _ = played(METHODS[name], coded(places), pure(Fraction(1, 4)))
    released = [(request.plan.keys, np.array(release.totals[0][0], dtype=float)) for request, release in told if isinstance(release, MeasuredSums)]
    drawn = np.stack([np.array(column.values) for column in made.columns], axis=1)
    for each in made.marginals:
        keys = tuple(f"c{DOMAIN.columns.index(column)}" for column in each.columns)
        ours = counts_of(DOMAIN, drawn, each.columns).ravel() * (made.total / made.rows)
        noisy = next(counts for names, counts in released if names == keys and each.off == pytest.approx(np.abs(ours - counts).mean(), rel=1e-9))
        assert each.off >= abs(noisy[noisy < 0].sum()) / noisy.size * 0.99


# -- as statements

@pytest.fixture
def connection(tmp_path: Path) -> Iterator[dpsql.Connection]:
    with duckdb.connect(str(tmp_path / "x.duckdb")) as made:
        made.execute("CREATE TABLE t AS SELECT i AS id, i % 3 AS k, CASE WHEN i = 7 THEN 'secret' WHEN i % 2 = 0 THEN 'a' ELSE 'b' END AS s "
                     "FROM range(600) AS r(i); CREATE TABLE other AS SELECT * FROM t; CREATE TABLE public AS SELECT k, s FROM t WHERE id > 500")
    (tmp_path / "x.toml").write_text(
        'version = 1\ndatabase = "x.duckdb"\n[entities.e]\ntable = "t"\nkey = "id"\n[tables.t]\nkey = "id"\n[tables.t.columns]\nid = {}\n'
        'k = { values = [0, 1, 2, 3] }\ns = { values = ["a", "b"] }\n[tables.public]\npublic = true\n[tables.public.columns]\nk = {}\ns = {}\n'
        '[budgets.b]\nentity = "e"\nepsilon = 50\n', encoding="utf-8")
    ReportingLedger.create(tmp_path / "x.ledger", None).close()
    with dpsql.connect(policy=tmp_path / "x.toml", analyst="ada") as made_connection:
        yield made_connection


@pytest.mark.parametrize("table", ["t", "other", "no_such"])
def test_only_a_public_table_is_one(connection: dpsql.Connection, table: str) -> None:
    """pmw-pub drew the public rows from all rows, private ones included. A private table, one that the policy does not name, or none at
    all cannot be given as public, by whatever method."""
    for name in METHODS:
        for given in (f"'{table}'", table):
            with pytest.raises(dpsql.Error) as told:
                connection.execute(f"CREATE SYNTHETIC TABLE made AS SELECT k, s FROM t OPTIONS (epsilon = 2, method = '{name}', public = {given})")
            assert told.value.try_ and not connection.session.ledger.spent("b").epsilon


def test_a_statement_charges_its_price_once_and_draws_declared_values_alone(connection: dpsql.Connection) -> None:
    """A value that a row has and nobody declared is never drawn; one that is declared and no row has, is in the domain."""
    tables = 0
    for name in METHODS:
        before = connection.session.ledger.spent("b").epsilon or 0
        text = f"CREATE SYNTHETIC TABLE by_{name} AS SELECT k, s FROM t OPTIONS (epsilon = 2, method = '{name}')"
        try:
            table = connection.execute(text).synthetic
        except dpsql.Error as refused:  # a method that needs something else says so, for nothing
            assert refused.span is not None and refused.try_ and connection.session.ledger.spent("b").epsilon == before
            continue
        tables += 1
        assert table is not None and connection.session.ledger.spent("b").epsilon == before + 2 * 10**9
        assert set(table.df().s) <= {"a", "b", None} and set(table.df().k.dropna()) <= {0, 1, 2, 3}
    assert tables >= 3
