"""Bins of linked synthetic tables follow the rows: in which columns, for which price, and what is drawn from them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpsql
from dpsql.engine.synthesizing_linked import linked_synthesis
from dpsql.sql.text.parse import parse
from dpsql.synthesis.column_forms import BinnedColumn, UncutColumn
from dpsql.synthesis.learned_bins import LEARNING
from dpsql.synthesis.linked_bins import MOST
from dpsql.synthesis.linked_plan import LinkedPlan
from dpsql.synthesis.released_database import ReleasedDatabase, database_of_json
from dpsql.trusted.kernel.ledger import Ledger

COUNT = 3000
POLICY = """version = 1
[entities.owner]
table = "owners"
key = "id"
[tables.owners]
key = "id"
source = "owners.parquet"
[tables.owners.columns]
id = {}
income = { bounds = [0, 1000000] }
[tables.shops]
key = ["owner", "year"]
source = "shops.parquet"
foreign_keys = [{ columns = "owner", references = "owners(id)" }]
rows_per_entity = 6
[tables.shops.columns]
owner = {}
year = { range = [1960, 2009], nullable = false }
rent = { bounds = [0, 1000000], nullable = false }
[tables.visits]
key = ["visit"]
source = "visits.parquet"
foreign_keys = [{ columns = "owner", references = "owners(id)" }]
rows_per_entity = 4
[tables.visits.columns]
visit = {}
owner = {}
at = { bounds = [2000-01-01, 2030-12-31], nullable = false }
[tables.bills]
source = "bills.parquet"
foreign_keys = [{ columns = "visit", references = "visits(visit)" }]
rows_per_entity = 8
[tables.bills.columns]
visit = {}
paid = { bounds = [0, 10000], decimals = 2, nullable = false }
age = { range = [0, 90], nullable = false }
[budgets.all]
entity = "owner"
rho = 800
"""
OWNERS, SHOPS = "o AS SELECT id, income FROM owners", "s AS SELECT owner, year, rent FROM shops"
VISITS, BILLS = "v AS SELECT visit, owner, at FROM visits", "b AS SELECT visit, paid, age FROM bills"
MAKE = f"CREATE SYNTHETIC TABLES {OWNERS}, {SHOPS} OPTIONS (rho = 2)"
ALL = f"CREATE SYNTHETIC TABLES {OWNERS}, {SHOPS}, {VISITS}, {BILLS} OPTIONS (rho = 2)"


def frames() -> dict[str, pd.DataFrame]:
    """Incomes and rents of which a third is 0, while the others are within a thousandth of their range; an owner who pays no rent in
    one year pays none in the next."""
    draws = np.random.default_rng(7)
    income = np.where(draws.random(COUNT) < 1 / 3, 0.0, draws.normal(40_500, 100, COUNT))
    income[::20] = np.nan
    owner = np.repeat(np.arange(COUNT), draws.integers(0, 5, COUNT))
    year = 1960 + np.concatenate([np.sort(draws.choice(50, count, replace=False)) for count in np.bincount(owner, minlength=COUNT)])
    free = draws.random(COUNT) < 1 / 3
    rent = np.where(free[owner], 0.0, draws.normal(2500, 50, len(owner)))
    visitor = np.repeat(np.arange(COUNT), draws.integers(0, 3, COUNT))
    at = pd.Timestamp("2024-01-01") + pd.to_timedelta(draws.integers(0, 366, len(visitor)), unit="D")
    visit = np.repeat(np.arange(len(visitor)), draws.integers(0, 4, len(visitor)))
    return {"owners": pd.DataFrame({"id": np.arange(COUNT), "income": income}),
            "shops": pd.DataFrame({"owner": owner, "year": year, "rent": rent}),
            "visits": pd.DataFrame({"visit": np.arange(len(visitor)), "owner": visitor, "at": at.date}),
            "bills": pd.DataFrame({"visit": visit, "paid": np.round(draws.exponential(20, len(visit)), 2),
                                   "age": np.clip(draws.normal(40, 10, len(visit)), 0, 90).astype(int)})}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bins")
    for name, frame in frames().items():
        frame.to_parquet(folder / f"{name}.parquet")
    (folder / "dpsql.toml").write_text(POLICY, encoding="utf-8")
    return folder


@pytest.fixture
def connection(place: Path, tmp_path: Path) -> Iterator[dpsql.Connection]:
    Ledger.create(tmp_path / "test.ledger", None).close()
    with dpsql.connect(policy=place / "dpsql.toml", analyst="ada", ledger=tmp_path / "test.ledger") as made:
        yield made


def made_by(connection: dpsql.Connection, text: str) -> ReleasedDatabase:
    database = connection.execute(text).database
    assert database is not None
    return database


@pytest.fixture(scope="module")
def made(place: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Owners and shops."""
    ledger = tmp_path_factory.mktemp("ledger") / "test.ledger"
    Ledger.create(ledger, None).close()
    with dpsql.connect(policy=place / "dpsql.toml", analyst="ada", ledger=ledger) as connection:
        owners, shops = (table.df() for table in made_by(connection, MAKE).tables)
    return owners, shops


def planned(connection: dpsql.Connection, text: str) -> LinkedPlan:
    return linked_synthesis(parse(text), connection.session).plan  # type: ignore[arg-type]


def test_values_are_drawn_where_rows_are(made: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    """In the top table, in first rows and in later ones. In 32 equal bins, all rents would be up to 31,250."""
    owners, shops = made
    income, first = owners.income.dropna(), ~shops.owner.duplicated()
    assert (income == 0).mean() == pytest.approx(1 / 3, abs=0.05) and income[income > 0].between(38_000, 43_000).mean() > 0.95
    assert owners.income.isna().mean() == pytest.approx(0.05, abs=0.03)
    for rents in (shops.rent[first], shops.rent[~first]):
        assert len(rents) > 1000 and (rents == 0).mean() == pytest.approx(1 / 3, abs=0.06)
        assert rents[rents > 0].between(1500, 3500).mean() > 0.95


def test_rows_of_one_owner_stay_alike(made: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    _, shops = made
    after = shops.groupby("owner").rent.shift(-1)
    assert ((shops.rent == 0) == (after == 0))[after.notna()].mean() > 0.85, "with independent rows it would be 5 in 9"


def test_a_column_that_tells_rows_apart_stays_listed(connection: dpsql.Connection, made: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    """Each year once, though a range of 50 years could be cut."""
    _, shops = made
    assert not shops.duplicated(["owner", "year"]).any() and shops.groupby("owner").year.is_monotonic_increasing.all()
    year, rent = planned(connection, MAKE).tables.lower[0].forms
    assert not isinstance(year, UncutColumn) and isinstance(rent, UncutColumn)


def test_three_levels_of_dates_decimals_and_ages(connection: dpsql.Connection) -> None:
    made = made_by(connection, ALL)
    visits, bills = made.table("v").df(), made.table("b").df()
    assert pd.to_datetime(visits["at"]).dt.year.isin([2023, 2024, 2025]).mean() > 0.95 and set(bills.visit) <= set(visits.visit)
    assert bills.paid.mean() == pytest.approx(20, rel=0.3) and (bills.paid * 100 % 1).round(6).isin([0, 1]).all()
    assert bills.age.between(0, 90).all() and bills.age.mean() == pytest.approx(40, abs=2) and bills.age.std() == pytest.approx(10, rel=0.25)
    again = database_of_json(made.as_json())
    assert again == made and all(one.df().equals(other.df()) for one, other in zip(again.tables, made.tables, strict=True))


def test_pages_and_answers_tell_of_learned_bins(connection: dpsql.Connection, tmp_path: Path) -> None:
    made = made_by(connection, MAKE)
    for table in made.tables:
        table.report(tmp_path / f"{table.name}.html")
    assert "income" in (tmp_path / "o.html").read_text(encoding="utf-8") and "rent" in (tmp_path / "s.html").read_text(encoding="utf-8")
    answer = connection.execute("SELECT AVG(income), COUNT(*) FROM o WHERE income > 0")
    assert answer.fetchall()[0][0] == pytest.approx(40_500, rel=0.05)


def test_rules_hold_in_learned_bins(connection: dpsql.Connection) -> None:
    text = MAKE.replace("rho = 2", "rho = 2, rules = 'rent < 2550; income <> 0 OR income IS NULL; rent = 0 OR year > 1970'")
    owners, shops = (table.df() for table in made_by(connection, text).tables)
    assert (shops.rent < 2550).all() and not (owners.income == 0).any() and (shops.year > 1970)[shops.rent > 0].all()
    assert len(shops) > 3000 and (shops.rent == 0).any()


def test_a_range_that_determines_another_column_stays_listed(connection: dpsql.Connection) -> None:
    text = (f"CREATE SYNTHETIC TABLES {OWNERS}, {VISITS}, b AS SELECT visit, paid, age, age >= 40 AS old FROM bills "
            "OPTIONS (rho = 20, rules = 'age DETERMINES old')")
    bills = made_by(connection, text).table("b").df()
    sure = bills.age.between(20, 60)
    assert (bills.old == (bills.age >= 40))[sure].mean() > 0.98 and len(bills) > 1000
    form = planned(connection, text).tables.lower[1].forms[1]
    assert form.name == "age" and not isinstance(form, UncutColumn)


def test_the_statement_can_say_how_ranges_are_cut(connection: dpsql.Connection) -> None:
    plan = planned(connection, ALL.replace("rho = 2", "rho = 2, bins = 8"))
    assert not plan.uncut and sum(view.task.price.rho for _, view in plan.views) == 2
    assert any(isinstance(form, BinnedColumn) for form in plan.whole.forms)


def test_explaining_tells_what_is_learned_for_which_part_of_the_price(connection: dpsql.Connection) -> None:
    """Each table has a part as large as that of its columns, and all parts add up to the price."""
    before = [account.left_exactly() for account in connection.budget().accounts]
    told, plan = str(connection.explain(ALL)), planned(connection, ALL)
    for part in ("bins of o", "bins of s", "bins of v", "bins of b", "bins for paid, age that follow the rows", "for at most this price"):
        assert part in told
    assert [account.left_exactly() for account in connection.budget().accounts] == before
    parts = {plan.tables.by_place[at].name: rows.task.price.rho * LEARNING for at, rows in plan.uncut.items()}
    each = Fraction(2) * MOST / 5
    assert parts == {"o": each, "s": each, "v": each, "b": 2 * each} and list(parts) == ["o", "s", "v", "b"]
    assert sum(parts.values()) + sum(view.task.price.rho for _, view in plan.views) == 2
    assert sum(amount_of(line.price) for line in plan.measurements) == pytest.approx(2, rel=1e-3)


def amount_of(price: str) -> float:
    return float(price.removeprefix("ρ = "))


@pytest.mark.parametrize("rho", [1e-6, 1e-4, 1e-2])
def test_at_a_low_price_there_are_few_bins(connection: dpsql.Connection, rho: float) -> None:
    owners, shops = (table.df() for table in made_by(connection, MAKE.replace("rho = 2", f"rho = {rho}, rows = 100")).tables)
    assert len(owners) == 100 and set(shops.owner) <= set(owners.id)
    assert owners.income.dropna().between(0, 1e6).all() and shops.rent.between(0, 1e6).all()
