"""Variances and statistics of two columns over rows of several owners: missing values, levels, notes, errors."""

from __future__ import annotations

import math
import random
from pathlib import Path

import duckdb
import pytest
from support import worlds
from support.chances import too_few
from support.golden.dense import dense
from support.policies import policy_of
from support.sessions import reader_of, session_of

from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.audit.prepared import PreparedStatement
from dpsql.backends.duckdb import DuckReader, lock_down
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import Error, OptionError
from dpsql.planning import compilation

PAIRS = "FROM people a JOIN people b ON a.household_id = b.household_id AND a.person_id < b.person_id"
TRIPS = policy_of("travellers", "", """
[tables.trips]
rows_per_entity = 60
limits_hold = true
foreign_keys = [{ columns = "passenger", references = "travellers(traveller)" }, { columns = "driver", references = "travellers(traveller)" }]
[tables.trips.columns]
passenger = {}
driver = {}
vehicle = { values = ["bike", "car"], nullable = false }
fare = { bounds = [0, 100], decimals = 2, nullable = false }
tip = { bounds = [0, 20], decimals = 2 }
""", entity="traveller", key="traveller", budget="traveller")


def pairs(folder: Path, *, exact: bool = False) -> Session:
    return session_of(folder, reader=reader_of(dense(people=300)), noise=Exact() if exact else None)


def trips(folder: Path) -> tuple[Session, DuckReader]:
    """4000 trips of 500 passengers and 200 drivers, none of whom has more than 60; tips rise with fares, and some are unknown."""
    draw, connection = random.Random(3), duckdb.connect(":memory:", config={"threads": 1})
    rows = []
    for i in range(4000):
        fare = round(min(100.0, 6 / (1 - draw.random()) ** 0.5), 2)
        tip = round(min(20.0, 0.1 * fare + draw.uniform(0, 6)), 2)
        rows.append((i % 500, 500 + (i * i + i // 7) % 200, draw.choice(["bike", "car"]), fare, None if draw.random() < 0.1 else tip))
    connection.execute("CREATE TABLE travellers AS SELECT i AS traveller FROM range(700) t(i)")
    connection.execute("CREATE TABLE trips (passenger INTEGER, driver INTEGER, vehicle VARCHAR NOT NULL, fare DOUBLE NOT NULL, tip DOUBLE)")
    worlds.insert(connection, "trips", rows)
    assert connection.execute("SELECT MAX(n) FROM (SELECT COUNT(*) n FROM trips GROUP BY driver)").fetchall()[0][0] <= 60
    lock_down(connection)
    reader = DuckReader(connection, "v1")
    return session_of(folder, reader=reader, policy=TRIPS, budget="traveller", at={"epsilon": 8}), reader


@pytest.mark.parametrize(("ours", "plain"), [
    ("VAR_POP(a.income)", "VAR_POP(a.income)"), ("STDDEV(a.income), AVG(a.income)", "STDDEV(a.income), AVG(a.income)"),
    ("COVAR_POP(a.income, b.income)", "COVAR_POP(a.income, b.income)"),
    ("REGR_SLOPE(a.income, b.age), REGR_INTERCEPT(a.income, b.age)", "REGR_SLOPE(a.income, b.age), REGR_INTERCEPT(a.income, b.age)"),
    ("VAR_POP(LEAST(GREATEST(a.age, 20), 60))", "VAR_POP(LEAST(GREATEST(a.age, 20), 60))")])
def test_missing_values_are_left_out_and_bounds_hold(ours: str, plain: str, tmp_path: Path) -> None:
    at = pairs(tmp_path, exact=True)
    told = answer(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 900) {ours} {PAIRS}", at)
    truth, = at.kernel._reader.rows(f"SELECT {plain} {PAIRS}")
    assert isinstance(told, Answer)
    assert [float(value) for value in told.rows[0]] == pytest.approx([float(value) for value in truth], rel=2e-3)  # type: ignore[arg-type]


def test_not_a_number_is_no_value(tmp_path: Path) -> None:
    full, column = worlds.world(seed=5, people=30), "least(greatest(a.income, 0), 100000)"
    at = session_of(tmp_path, full, noise=Exact(), at={"epsilon": 900})
    told = answer(f"SELECT VAR_POP(a.income) {PAIRS}", at)
    truth, = at.kernel._reader.rows(f"SELECT VAR_POP({column}) {PAIRS} AND a.income IS NOT NULL AND NOT isnan(a.income)")
    missing, = at.kernel._reader.rows(f"SELECT COUNT(*) {PAIRS} AND isnan(a.income)")
    assert isinstance(told, Answer) and missing[0]
    assert told.rows[0][0] == pytest.approx(truth[0], rel=2e-3)


def test_a_note_tells_from_where_it_was_measured_and_explain_what_that_costs(tmp_path: Path) -> None:
    told = answer(f"SELECT STDDEV(a.age), COVAR_POP(a.age, b.age) {PAIRS}", pairs(tmp_path))
    assert isinstance(told, Answer)
    assert [note.split(":")[0] for note in told.notes if "measured by deviations of" in note] == [
        "STDDEV(a.age), COVAR_POP(a.age, b.age)", "COVAR_POP(a.age, b.age)"]
    assert told.intervals[0][0] == (0.0, pytest.approx(100 / 2**0.5)), "what is cut off may move it either way"
    explained = str(answer(f"EXPLAIN PRIVACY SELECT VAR_POP(a.age) {PAIRS}", pairs(tmp_path)))
    assert "a number near the values of each column is searched for at" in explained
    assert "sums of (a.age - 50) squared in [0, 2500]" in explained


def test_a_clip_of_it_has_no_one_meaning(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="clip could mean") as caught:
        answer(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'extension', clip = 9) VAR_POP(a.age) {PAIRS}", pairs(tmp_path))
    assert "bound = 'balance'" in caught.value.try_
    assert isinstance(answer(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'balance') VAR_POP(a.age) {PAIRS}", pairs(tmp_path)), Answer)


def test_a_column_without_bounds_is_refused_with_advice(tmp_path: Path) -> None:
    with pytest.raises(Error, match="no declared bounds") as caught:
        answer(f"SELECT VAR_POP(a.household_id * 1.0) {PAIRS}", pairs(tmp_path))
    assert "LEAST(GREATEST" in caught.value.try_
    assert isinstance(answer(f"SELECT VAR_POP(LEAST(GREATEST(a.household_id, 0), 1000)) {PAIRS}", pairs(tmp_path)), Answer)


@pytest.mark.parametrize(("bound", "near"), [("balance", 0.01), ("removals", 0.01), ("recursive", 1), ("r2t", 0.1)])
def test_every_bound_of_rows_of_several_entities_holds_squares_too(bound: str, near: float, tmp_path: Path) -> None:
    at = session_of(tmp_path, worlds.world(seed=5, people=40, most_visits=3), at={"epsilon": 900}, noise=Exact())
    told = answer(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = '{bound}') VAR_POP(a.age) {PAIRS}", at)
    (truth,), = at.kernel._reader.rows(f"SELECT VAR_POP(a.age) {PAIRS}")
    assert isinstance(told, Answer) and told.rows[0][0] == pytest.approx(truth, rel=near)


@pytest.mark.slow
@pytest.mark.parametrize(("text", "wide"), [
    ("SELECT VAR_POP(fare) FROM trips", 4), ("SELECT STDDEV(tip), AVG(tip) FROM trips WHERE vehicle = 'car'", 4),
    ("SELECT COVAR_SAMP(tip, fare) FROM trips", 9), ("SELECT CORR(tip, fare) FROM trips", 9)])
def test_intervals_hold_at_a_declared_level(text: str, wide: float, tmp_path: Path, effort: float) -> None:
    at, reader = trips(tmp_path)
    truth, = reader.rows(text)
    made, times = PreparedStatement(text.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'extension')", 1), at), round(160 * effort)
    told = [made.release() for _ in range(times)]
    for i, true in enumerate(truth):
        ends = [each.intervals[0][i] for each in told]
        assert not too_few(sum(pair is None or pair[0] <= true <= pair[1] for pair in ends), times, 0.95)
        narrow = [pair for pair in ends if pair is not None and pair[1] - pair[0] < wide * abs(true)]
        assert len(narrow) > times / 4, "they say something"


@pytest.mark.slow
def test_variances_err_less_from_a_centre(tmp_path: Path, effort: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is cut off the squares and off the number of rows differs; from far away, a variance is what is left of both."""
    (at, reader), text, times = trips(tmp_path), "SELECT VAR_POP(fare) FROM trips", round(100 * effort)
    (truth,), = reader.rows(text)

    def middle() -> float:
        made = PreparedStatement(text, at)
        found = [made.release().rows[0][0] for _ in range(times)]  # NULL where the noisy number of rows is too small
        return sorted(math.inf if value is None else abs(float(value) - truth) for value in found)[times // 2]  # type: ignore[arg-type]

    found = middle()
    monkeypatch.setattr(compilation, "columns_to_centre", lambda *given: {})
    assert found < 0.5 * middle()
