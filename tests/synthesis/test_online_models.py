"""CREATE ONLINE MODEL, from the text to counts that it answers, also when its updates are used up."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import dpsql
from dpsql.demo.folder import export
from dpsql.mechanisms.additive_noise import bought
from dpsql.models.joint_histogram import GroupCount, of_columns
from dpsql.models.table_domain import TableDomain
from dpsql.synthesis.online_model import reach, within
from dpsql.trusted.accounting.cost import concentrated, pure
from dpsql.trusted.kernel.ledger import Ledger
from dpsql.trusted.noise.integer import spread_of

MAKE = "CREATE ONLINE MODEL m AS SELECT health, female, plan, income FROM people OPTIONS (epsilon = 4, updates = 3, queries = 50, bins = 8)"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("online") / "study"
    export(place)
    return place


def opened(place: Path, ledger: Path, analyst: str = "ada") -> dpsql.Connection:
    if not ledger.exists():
        Ledger.create(ledger, None).close()
    return dpsql.connect(policy=place / "dpsql.toml", budget="study", analyst=analyst, ledger=ledger)


@pytest.fixture
def connection(place: Path, tmp_path: Path) -> Iterator[dpsql.Connection]:
    with opened(place, tmp_path / "x.ledger") as made:
        yield made


def spent(connection: dpsql.Connection) -> list[str]:
    return [account.left_exactly() for account in connection.budget().accounts]


def test_counts_are_answered_for_nothing_and_after_the_last_update_without_a_promise(connection: dpsql.Connection, place: Path) -> None:
    text = "SELECT health, plan, COUNT(*) AS n FROM m GROUP BY health, plan ORDER BY n DESC"
    truth = {(health, plan): n for health, plan, n in dpsql_exact(place)}
    cursor = connection.execute(MAKE)
    left = spent(connection)
    assert cursor.model is not None and cursor.fetchall() == [("health", 4), ("female", 2), ("plan", 18), ("income", 8)]
    assert abs(cursor.model.total - 5900) < 100
    notes = list[str]()
    for _ in range(3):
        found = connection.execute(text)
        notes += found.notes
        rows = found.fetchall()
        assert len(rows) == 72 and rows == sorted(rows, key=lambda row: -row[2])
        covered = [ends[2][0] <= truth.get((health, plan), 0) <= ends[2][1] for (health, plan, _), ends in
                   zip(rows, found.intervals, strict=True) if ends[2] is not None]
        assert np.mean(covered or [1]) > 0.8
        assert found.cost == ""
    assert spent(connection) == left
    assert any("measured" in note for note in notes) and any("no accuracy is promised" in note for note in notes)


def dpsql_exact(place: Path) -> list[tuple[str, int, int]]:
    import duckdb

    with duckdb.connect() as made:
        return made.execute(f"SELECT health, plan, COUNT(*) FROM '{place / 'people.parquet'}' GROUP BY ALL").fetchall()


def test_a_model_outlives_its_connection_and_belongs_to_its_account(place: Path, tmp_path: Path) -> None:
    ledger, text = tmp_path / "x.ledger", "SELECT female, COUNT(*) FROM m GROUP BY female"
    with opened(place, ledger) as connection:
        connection.execute(MAKE)
        connection.execute("SELECT health, COUNT(*) FROM m GROUP BY health")
        before = connection.execute(text).fetchall()
        assert ("m", "online model", "", "health, female, plan, income") in connection.execute("SHOW TABLES").fetchall()
    with opened(place, ledger) as connection:
        assert [sex for sex, _ in connection.execute(text).fetchall()] == [sex for sex, _ in before]
        assert connection.execute(MAKE).model is not None and "nothing" in str(connection.explain(MAKE))
        with pytest.raises(dpsql.Error, match="already"):
            connection.execute(MAKE.replace("updates = 3", "updates = 4"))
        with pytest.raises(dpsql.Error, match="already"):
            connection.execute("CREATE SYNTHETIC TABLE m AS SELECT health FROM people OPTIONS (epsilon = 0.1)")
    with opened(place, ledger, "bea") as connection, pytest.raises(dpsql.Error, match="no table m"):
        connection.execute(text)


@pytest.mark.parametrize(("text", "told"), [
    ("SELECT SUM(plan) FROM m", "SUM(plan)"),
    ("SELECT COUNT(DISTINCT plan) FROM m", "COUNT(DISTINCT plan)"),
    ("SELECT health FROM m", "SELECT health FROM m"),
    ("SELECT * FROM m", "SELECT * FROM m"),
    ("SELECT COUNT(*) FROM m JOIN people USING (health)", "SELECT"),
    ("SELECT COUNT(*) FROM m WHERE plan IN (SELECT plan FROM plans)", "SELECT"),
    ("SELECT health, COUNT(*) FROM m GROUP BY ROLLUP (health)", "health)"),
    ("SELECT health, COUNT(*) FROM m GROUP BY ALL", "SELECT"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM m", "epsilon"),
    ("SELECT COUNT(*) FROM m ERROR WITHIN 5", "ERROR WITHIN 5"),
    ("SELECT COUNT(*) FROM m WHERE heallth = 'good'", "heallth"),
    ("CREATE ONLINE MODEL other AS SELECT health, female, plan, income, education_years, site, mental_health_index FROM people OPTIONS (epsilon = 1, bins = 32)", "SELECT"),
    ("CREATE ONLINE MODEL other AS SELECT health FROM people OPTIONS (epsilon = 1, updates = 0)", "updates"),
    ("CREATE ONLINE MODEL other AS SELECT health FROM people OPTIONS (epsilon = 1, method = 'pmv')", "method"),
    ("CREATE ONLINE MODEL other AS SELECT year FROM person_years OPTIONS (epsilon = 1, rows = 7)", "rows"),
    ("CREATE ONLINE MODEL other AS SELECT plan FROM plans OPTIONS (epsilon = 1)", "SELECT"),
    ("CREATE ONLINE people AS SELECT plan FROM plans", "people"),
])
def test_what_it_does_not_do_is_refused_and_costs_nothing(connection: dpsql.Connection, text: str, told: str) -> None:
    connection.execute(MAKE)
    left, asked = spent(connection), len(connection.execute("SHOW RELEASES").fetchall())
    with pytest.raises(dpsql.Error) as found:
        connection.execute(text)
    assert found.value.span is not None and text[found.value.span.start :].startswith(told), str(found.value)
    assert spent(connection) == left and len(connection.execute("SHOW RELEASES").fetchall()) == asked


def test_explain_says_what_it_is_worth(connection: dpsql.Connection) -> None:
    few, many = (str(connection.explain(MAKE.replace("queries = 50", f"queries = {queries}"))) for queries in (10, 10**6))
    assert "does not pay" in few and "so a model pays" in many
    connection.execute(MAKE)
    told = str(connection.explain("SELECT COUNT(*) FROM m"))
    assert "3 of 3 are left" in told and "nothing" in told


def test_a_histogram_meets_the_counts_that_were_measured() -> None:
    draw = np.random.default_rng(1)
    domain = TableDomain(("a", "b", "c"), (3, 4, 5))
    truth = draw.integers(1, 30, domain.sizes).astype(float)
    start = of_columns(domain, truth.sum(), [truth.sum(axis=(1, 2)), truth.sum(axis=(0, 2)), truth.sum(axis=(0, 1))])
    found = [GroupCount(columns=("a", "c"), inside=(mask := draw.random((3, 5)) < 0.4), count=float(truth.sum(axis=1)[mask].sum()))
             for _ in range(4)]
    made = start.agreeing(found)
    for each in found:
        assert made.marginal(each.columns)[each.inside].sum() == pytest.approx(each.count, abs=0.2)
    assert made.total == pytest.approx(truth.sum()) and made.counts.min() > 0
    ratio = np.log(made.counts / start.counts)  # of groups of a and c alone, so b stays independent of them
    assert np.ptp(ratio, axis=1).max() < 1e-9


def test_counts_out_of_reach_leave_every_cell_possible() -> None:
    domain = TableDomain(("a",), (4,))
    start = of_columns(domain, 100.0, [np.array([0.0, -5.0, 60.0, 40.0])])
    assert start.counts.min() > 0 and start.total == pytest.approx(100)
    one, every = np.array([True, False, False, False]), np.ones(4, dtype=bool)
    for count in (-1e9, 1e9):
        made = start.agreeing([GroupCount(columns=("a",), inside=one, count=count), GroupCount(columns=("a",), inside=every, count=count),
                               GroupCount(columns=("a",), inside=~every, count=count)])
        assert made.total == pytest.approx(100) and made.counts.min() > 0 and np.isfinite(made.counts).all()


@pytest.mark.parametrize(("price", "confidence"), [(Fraction(1), 0.95), (Fraction(1), 0.99), (None, 0.95), (None, 0.99)])
def test_intervals_cover_as_often_as_they_say(price: Fraction | None, confidence: float) -> None:
    """Exactly, for the noise of a measured count, Laplace for a pure price; and for the noise that a run of comparisons shares, however
    far off a count is: to be told as near, it must be within that."""
    cost = pure(price) if price is not None else concentrated(Fraction(1, 100))
    noise = bought(1, cost)
    reached = within(noise, confidence)
    at = np.arange(-4000, 4001)
    scale = spread_of(noise)
    weights = np.exp(-np.abs(at) / scale) if price is not None else np.exp(-(at / scale) ** 2 / 2)
    chance = weights[np.abs(at) <= reached].sum() / weights.sum()
    assert confidence <= chance and weights[np.abs(at) < reached].sum() / weights.sum() < confidence
    shared = 30.0
    for off in (1, 50, 120, 200):  # near where off <= limit + z - noise, for some noise of 0 or more
        needed = max(off - 40, 0)
        assert off <= reach(40, shared, confidence) or np.exp(-needed / shared) <= 1 - confidence


NET = "CREATE ONLINE MODEL small AS SELECT female, physical_limitation FROM people OPTIONS (epsilon = 2, method = 'net')"


def test_the_net_mechanism_chooses_a_small_table(connection: dpsql.Connection, place: Path) -> None:
    model = connection.execute(NET).model
    left = spent(connection)
    assert model is not None and model.updates == 0
    found = connection.execute("SELECT female, COUNT(*) FROM small GROUP BY female")
    answer = dict(found.fetchall())
    import duckdb

    with duckdb.connect() as made:
        exact = dict(made.execute(f"SELECT female, COUNT(*) FROM '{place / 'people.parquet'}' WHERE physical_limitation IS NOT NULL "
                                  "OR TRUE GROUP BY ALL").fetchall())
    for value, count in answer.items():
        assert abs(count - exact[value]) <= model.reach(0.95)
    assert all(ends[1] is not None and ends[1][1] - ends[1][0] <= 2 * model.reach(0.95) for ends in found.intervals)
    assert spent(connection) == left and found.cost == ""
    assert "tables of" in str(connection.explain(NET))
    with pytest.raises(dpsql.Error, match="tables of two rows, more than 5,000") as refused:
        connection.execute("CREATE ONLINE MODEL large AS SELECT health, plan, female FROM people OPTIONS (epsilon = 1, method = 'net')")
    assert refused.value.span is not None and spent(connection) == left


def test_all_small_tables_are_candidates() -> None:
    from dpsql.synthesis.net_mechanism import _compositions, candidates

    for cells, rows in ((1, 5), (2, 7), (4, 6), (7, 3)):
        found = _compositions(cells, rows)
        assert found.shape == (candidates(cells, rows), cells) and (found.sum(axis=1) == rows).all() and found.min() >= 0
        assert len({tuple(row) for row in found.tolist()}) == len(found)
