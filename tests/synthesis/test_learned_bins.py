"""Bins that follow the rows: what is counted and spent, and that moments, quantiles and correlations of numbers are kept."""

from __future__ import annotations

import datetime as dt
import math
import random
from fractions import Fraction
from types import SimpleNamespace

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpsql
from dpsql.catalog.price import Price
from dpsql.engine.synthesizing import statement_of, synthesis
from dpsql.frozen import replace
from dpsql.synthesis.column_cells import cut_again, first_starts, uncounted
from dpsql.synthesis.column_forms import UncutColumn
from dpsql.synthesis.learned_bins import FEWEST, LEARNING, binned, learned, smoothed
from dpsql.synthesis.synthetic_table import SyntheticTable
from dpsql.trusted.accounting.cost import concentrated, pure
from dpsql.trusted.kernel.ledger import Ledger
from dpsql.types import Type

COUNT = 6000
POLICY = """version = 1
database = "x.duckdb"
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
[tables.people.columns]
id = {}
income = { bounds = [0, 1000000], nullable = false }
spending = { bounds = [0, 1000000], nullable = false }
score = { bounds = [-100, 100] }
age = { range = [0, 90], nullable = false }
day = { bounds = [2000-01-01, 2030-12-31], nullable = false }
at = { bounds = [2000-01-01, 2030-12-31], nullable = false }
sex = { values = ["f", "m"], nullable = false }
[budgets.b]
entity = "person"
rho = 1000
delta = 0.001
"""


def people() -> pd.DataFrame:
    """Incomes of which a third is 0, with a long tail; what is spent follows; some scores are missing or no number."""
    draws = np.random.default_rng(3)
    income = np.where(draws.random(COUNT) < 1 / 3, 0, np.round(draws.lognormal(10.3, 0.7, COUNT)))
    score = np.round(draws.normal(20, 4, COUNT), 3)
    score[::10] = np.nan
    age = np.clip(draws.normal(42, 14, COUNT), 0, 90).astype(int)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(draws.integers(0, 366, COUNT), unit="D")
    return pd.DataFrame({
        "id": np.arange(COUNT), "income": income.astype(int), "spending": np.round(income * 0.7 + draws.exponential(3000, COUNT)).astype(int),
        "score": score, "age": age, "day": day, "at": day + pd.to_timedelta(draws.integers(0, 86400, COUNT), unit="s"),
        "sex": draws.choice(["f", "m"], COUNT)})


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> dpsql.Connection:
    folder = tmp_path_factory.mktemp("learned")
    with duckdb.connect(str(folder / "x.duckdb")) as made:
        made.register("frame", people())
        made.execute("CREATE TABLE people AS SELECT * REPLACE (CAST(day AS DATE) AS day) FROM frame")
    (folder / "x.toml").write_text(POLICY, encoding="utf-8")
    Ledger.create(folder / "x.ledger", None).close()
    return dpsql.connect(policy=folder / "x.toml", analyst="ada")


@pytest.fixture(scope="module")
def table(connection: dpsql.Connection) -> SyntheticTable:
    return connection.synthesize("SELECT income, spending, score, age, day, at, sex FROM people", name="made", epsilon=2, delta=1e-8)


def test_moments_quantiles_and_zeros_are_kept(table: SyntheticTable) -> None:
    real, made = people(), table.df()
    assert (made.income == 0).mean() == pytest.approx((real.income == 0).mean(), abs=0.03)
    for column in ("income", "spending", "age"):
        assert made[column].mean() == pytest.approx(real[column].mean(), rel=0.2)
        for part in (0.5, 0.75, 0.9):
            assert made[column].quantile(part) == pytest.approx(real[column].quantile(part), rel=0.2, abs=real[column].std() * 0.2)
    assert made.score.mean() == pytest.approx(20, abs=1.5) and made.score.std() < 12
    assert made.score.isna().mean() == pytest.approx(0.1, abs=0.03)
    days = pd.to_datetime(made.day)
    assert ((days >= "2023-11-01") & (days < "2025-03-01")).mean() > 0.9
    times = pd.to_datetime(made["at"])
    assert ((times >= "2023-11-01") & (times < "2025-03-01")).mean() > 0.9


def test_a_correlation_that_is_there_stays_there(table: SyntheticTable) -> None:
    assert people()[["income", "spending"]].corr().iloc[0, 1] > 0.9 and table.df()[["income", "spending"]].corr().iloc[0, 1] > 0.4


def test_values_are_possible_ones(table: SyntheticTable) -> None:
    frame = table.df()
    values = {column.name: [value for value in column.values if value is not None] for column in table.columns}
    assert {type(value) for value in values["income"]} == {int} and min(values["income"]) == 0 and max(values["income"]) <= 10**6
    assert {type(value) for value in values["age"]} == {int} and set(values["age"]) <= set(range(91))
    assert all(-100 <= value <= 100 for value in values["score"])
    assert {type(value) for value in values["day"]} == {dt.date}
    assert {type(value) for value in values["at"]} == {dt.datetime}
    assert len(frame) > 5000


def test_the_plan_says_which_bins_are_learned_and_costs_what_it_says(connection: dpsql.Connection) -> None:
    text = "CREATE SYNTHETIC TABLE other AS SELECT income, sex FROM people OPTIONS (epsilon = 1, delta = 0.00000001)"
    told = connection.explain(text)
    assert "bins for income that follow the rows" in str(told) and "income, age" not in str(told)
    before = connection.execute("SHOW BUDGET").fetchall()
    connection.execute(text)
    assert connection.execute("SHOW BUDGET").fetchall() != before
    again = connection.execute("SHOW BUDGET").fetchall()
    connection.execute(text)
    assert connection.execute("SHOW BUDGET").fetchall() == again


@pytest.mark.parametrize("options", ["epsilon = 0.0001", "epsilon = 0.01, method = 'mst'", "rho = 400", "rho = 0.00001",
                                     "epsilon = 1, method = 'independent'", "epsilon = 1, method = 'privbayes'", "epsilon = 1, method = 'mwem'"])
def test_any_price_and_method_makes_a_table(connection: dpsql.Connection, options: str) -> None:
    name = f"made_{abs(hash(options))}"
    columns = "income, sex" if "mwem" in options else "income, score, day, sex"
    connection.execute(f"CREATE SYNTHETIC TABLE {name} AS SELECT {columns} FROM people OPTIONS ({options}, rows = 500)")
    assert connection.execute(f"SELECT COUNT(*), MIN(income) >= 0, MAX(income) <= 1000000 FROM {name}").fetchall() == [(500, True, True)]


def test_counts_of_single_values_are_reused_and_then_listed(connection: dpsql.Connection) -> None:
    connection.execute("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (rho = 1) age, COUNT(*) FROM people GROUP BY age")
    told = str(connection.explain("CREATE SYNTHETIC TABLE aged AS SELECT age, sex FROM people OPTIONS (epsilon = 1)"))
    assert "reused at no cost: age" in told and "bins for age" not in told


def forms() -> list[UncutColumn]:
    draws, found = np.random.default_rng(0), list[UncutColumn]()
    for kind in (Type.BIGINT, Type.DOUBLE, Type.DATE, Type.TIMESTAMP):
        for width in (0, 1, 3, 31, 40, 99, 100, 2000, 10**6):
            low = float(draws.integers(-50, 5)) if not kind.temporal else 730_000.0
            step = {Type.BIGINT: Fraction(1), Type.DOUBLE: draws.choice([None, Fraction(1, 10), Fraction(1, 4)])}.get(kind)
            high = low + (min(width, 10**5) if kind.temporal else width) or low + (kind is Type.DOUBLE)
            found.append(UncutColumn(name="x", type=kind, low=low, high=high + (high == low and kind in (Type.DOUBLE, Type.TIMESTAMP)),
                                     nullable=False, step=step))
    return found


@pytest.mark.parametrize("form", forms(), ids=lambda form: f"{form.type.value} {form.low:g} to {form.high:g}, {form.step}")
def test_cells_and_bins_cover_the_range_in_order(form: UncutColumn) -> None:
    draws = np.random.default_rng(1)
    starts, end = first_starts(form, 40), form.high + (form.whole and form.unit)
    assert starts[0] == form.low and list(starts) == sorted(set(starts)) and starts[-1] <= form.high <= end
    cells = uncounted(starts, end)
    for _ in range(3):
        counts = draws.exponential(100, len(cells.starts)) * (draws.random(len(cells.starts)) < 0.4)
        cells = cells.counted_again(counts, 100.0)
        assert (cells.variances <= 100).all()
        finer = cut_again(form, cells, 150.0, 10.0)
        assert finer.starts[0] == form.low and list(finer.starts) == sorted(set(finer.starts)) and finer.end == end
        kept = np.isfinite(finer.variances)
        assert finer.counts[kept].sum() == pytest.approx(cells.counts[cells.counts <= 150].sum() + sum(
            count for start, count in zip(cells.starts, cells.counts, strict=True) if count > 150 and start in np.array(finer.starts)[kept]))
        cells = finer
    for counts in (np.zeros(len(cells.starts)), draws.normal(0, 10, len(cells.starts)), draws.exponential(100, len(cells.starts))):
        column = binned(form, uncounted(cells.starts, end).counted_again(counts, 100.0), 20.0)
        assert column.edges[0] == form.low and column.edges[-1] == end and len(column.edges) - 1 <= max(form.most, FEWEST)
        assert set(column.edges[:-1]) <= set(column.cells) and list(column.edges) == sorted(column.edges)
        listed = tuple(range(len(column.edges) - 1))
        bins = draws.integers(0, len(listed), 400)
        drawn = column.values(listed, bins, draws.random(400))
        wrong = [at for at, value in enumerate(drawn) if column.counted(listed).places([value])[0] != bins[at]]
        assert len(wrong) <= (40 if form.type is Type.TIMESTAMP else 0)  # each lies in its own bin, but that seconds are whole


def test_the_bounds_and_zero_are_bins_where_many_rows_have_them() -> None:
    form = UncutColumn(name="x", type=Type.DOUBLE, low=-10.0, high=90.0, nullable=False)
    starts = first_starts(form, 40)
    counts = np.array([900.0 if start in (-10.0, 0.0, 90.0) else 20.0 for start in starts])
    column = binned(form, uncounted(starts, 90.0).counted_again(counts, 1.0), 5.0)
    for value in (-10.0, 0.0, 90.0):
        at = column.edges.index(value) if value < 90 else len(column.edges) - 2
        assert column.values(tuple(range(len(column.edges) - 1)), np.array([at]), np.array([0.7])) == [value]


def test_cells_of_a_tail_are_wider_the_farther_away_they_are() -> None:
    form = UncutColumn(name="x", type=Type.BIGINT, low=0.0, high=10**6, nullable=False, step=Fraction(1))
    starts = first_starts(form, 40)
    counts = np.where(np.array(starts) < 10**5, 1000.0, 0.0)
    cells = cut_again(form, uncounted(starts, 10**6 + 1).counted_again(counts, 900.0), 200.0, 10.0)
    widths = np.subtract(cells.ends, cells.starts)[np.array(cells.starts) >= 125_000]
    assert len(widths) <= 7 and (np.diff(widths[:-1]) >= 0).all()
    again = cut_again(form, cells.counted_again(np.where(np.array(cells.starts) < 10**5, 100.0, 0.0), 900.0), 50.0, 10.0)
    assert [start for start in again.starts if start > 125_000] == [start for start in cells.starts if start > 125_000]


def test_a_tail_ends_where_noise_is_all_there_is() -> None:
    form = UncutColumn(name="x", type=Type.BIGINT, low=0.0, high=10**6, nullable=False, step=Fraction(1))
    starts = first_starts(form, 40)
    draws = np.random.default_rng(0)
    counts = np.where(np.array(starts) < 10**5, 1000.0, 0.0) + draws.normal(0, 30, len(starts))
    column = binned(form, uncounted(starts, 10**6 + 1).counted_again(counts, 900.0), 60.0)
    last = len(column.edges) - 2
    drawn = np.array(column.values(tuple(range(last + 1)), np.full(1000, last), draws.random(1000)), dtype=float)
    assert drawn.mean() < 3 * 10**5


def test_few_rows_are_counted_in_few_cells_and_keep_a_correlation(connection: dpsql.Connection) -> None:
    found = list[float]()
    for number in range(5):
        table = connection.synthesize("SELECT income, age, spending, score, sex FROM people WHERE id < $1", parameters=[500 + number],
                                      name=f"few{number}", epsilon=1, delta=1e-6, method="mst")
        income = next(column for column in table.columns if column.name == "income")
        assert income.counted is not None and 2 <= len(income.counted.edges) - 1 <= 16  # 32 and more of many rows
        found.append(table.df()[["income", "spending"]].corr().iloc[0, 1])
    assert np.mean(found) > 0.15


def test_rows_of_wide_cells_are_drawn_by_a_smooth_curve() -> None:
    form = UncutColumn(name="x", type=Type.DOUBLE, low=0.0, high=40.0, nullable=False)
    cells = uncounted((0.0, 10.0, 20.0, 30.0), 40.0).counted_again(np.array([0.0, 300.0, 100.0, 0.0]), 1.0)
    starts, shares = smoothed(form, cells, cells.counts)
    of = np.searchsorted(cells.starts, starts, side="right") - 1
    assert np.bincount(of, shares) == pytest.approx(cells.counts, abs=1e-6) and starts[0] == 0.0
    second, third = (np.array(shares)[of == cell] for cell in (1, 2))
    assert second[-1] > third[0] > third[-1]  # the rows thin out


def test_a_single_value_that_noise_explains_is_no_bin() -> None:
    form = UncutColumn(name="x", type=Type.DOUBLE, low=0.0, high=40.0, nullable=False)
    cells = uncounted(first_starts(form, 4), 40.0).counted_again(np.zeros(len(first_starts(form, 4))), 900.0)
    for zeros, has_own in ((50.0, False), (500.0, True)):
        own = replace(cells, counts=np.where(np.array(cells.starts) == 0.0, zeros, 100.0))
        assert (binned(form, own, 20.0, wide=True).edges[1] < 1) == has_own


@pytest.mark.parametrize("seed", range(60))
def test_no_release_makes_bins_beyond_the_range_or_spends_more(connection: dpsql.Connection, seed: int) -> None:
    """Whatever numbers are released, at any price: edges and cells are in order, and values within the bounds."""
    draws = random.Random(seed)
    with connection._used() as session:
        plan = synthesis(statement_of("SELECT income, score, day, at FROM people", "never", ()), replace(session, price=Price(rho=Fraction(1))), ()).plan
    price = draws.choice([concentrated, pure])(Fraction(10) ** draws.randint(-9, 3))
    steps, released = learned(replace(plan.task, price=price), plan.forms), None
    try:
        while True:
            request = next(steps) if released is None else steps.send(released)
            rows, size = 10 ** draws.randint(0, 6), math.sqrt(request.noises[0].variance)
            totals = [round(draws.choice([0, rows]) + draws.gauss(0, size)) for _ in request.cells]
            released = SimpleNamespace(totals=[[totals]])
    except StopIteration as ended:
        made = ended.value
    assert 0 < made.spent <= LEARNING
    for form, before in zip(made.forms, plan.forms, strict=True):
        edges, cells = form.edges, form.cells or form.edges[:-1]
        assert list(edges[:-1]) == sorted({*edges[:-1]}) and edges[0] == before.low and edges[-2] <= edges[-1]
        assert list(cells) == sorted({*cells}) and {*edges[:-1]} <= {*cells} and all(share >= 0 for share in form.shares)
        values = form.values(range(len(edges) - 1), np.arange(len(edges) - 1).repeat(9), np.tile(np.linspace(0, 1, 9, endpoint=False), len(edges) - 1))
        low, high = (value.toordinal() if isinstance(value, dt.date) else value for value in (min(values), max(values)))
        assert before.low <= low and high <= before.high


def test_noise_alone_makes_no_gaps_within_bins() -> None:
    """Rows are even over a range, and the counts of cells are two standard errors each. Were cells empty where noise explains their
    counts beside larger ones, nearly half of the rows in a bin would move."""
    form, moved = UncutColumn(name="x", type=Type.DOUBLE, low=0.0, high=64.0, nullable=False), list[float]()
    for seed in range(30):
        counts = 80 + np.random.default_rng(seed).normal(0, 40, 64)
        start = uncounted(list(range(64)), 64.0)
        cut = binned(form, start.counted_again(counts, 40.0**2), least=240)
        edges, cells, shares = np.array(cut.edges), np.array(cut.cells), np.array(cut.shares)
        of = np.searchsorted(edges, cells, side="right") - 1
        for inner in range(1, len(edges) - 2):
            own = of == inner
            widths = np.diff([*cells[own], edges[inner + 1]])
            moved.append(float(np.abs(shares[own] / shares[own].sum() - widths / widths.sum()).sum() / 2))
    assert len(moved) > 200 and np.mean(moved) < 0.03


def test_a_gap_that_noise_does_not_explain_stays_empty() -> None:
    form = UncutColumn(name="x", type=Type.DOUBLE, low=0.0, high=12.0, nullable=False)
    counts = np.array([900.0, 900, 900, 400, 5, 3, 400, 2, 1, 900, 900, 900])
    cut = binned(form, uncounted(list(range(12)), 12.0).counted_again(counts, 10.0**2), least=1100)
    drawn = np.array(list(cut.values(tuple(range(len(cut.edges) - 1)), np.repeat(np.arange(len(cut.edges) - 1), 1000), np.random.default_rng(0).random(
        1000 * (len(cut.edges) - 1)))))
    assert not ((drawn > 4) & (drawn < 6)).any() and not ((drawn > 7) & (drawn < 9)).any() and ((drawn > 6) & (drawn < 7)).any()
