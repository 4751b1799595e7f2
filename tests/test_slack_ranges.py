"""Differences of columns: their declared ranges are wide and their values are not, so a limit of totals is learned for them."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path

import duckdb
import numpy as np
import pytest
from support.policies import policy_of
from support.sessions import session_of
from support.worlds import insert

from dpsql.audit.exact import Exact
from dpsql.audit.prepared import PreparedStatement
from dpsql.backends.duckdb import DuckReader, lock_down
from dpsql.engine.session import Session

POLICY = policy_of("stays", """
came = { range = [2015-01-01, 2024-12-31], nullable = false }
went = { range = [2015-01-01, 2024-12-31], nullable = false }
before = { bounds = [0, 10000], nullable = false }
after = { bounds = [0, 10000], nullable = false }
ward = { values = ["a", "b"], nullable = false }
""", price="rho = 1000")
WIDE = ["AVG(went - came)", "SUM(after - before)", "AVG(date_diff('day', came, went))", "AVG(2 * (after - before) + 1)",
        "SUM(CAST(went - came AS DOUBLE) / 7)", "AVG(went - came), SUM(after - before)", "SUM(LENGTH(ward))", "AVG(LENGTH(ward) + 1)"]
NARROW = ["AVG(after)", "AVG(after - 100)", "SUM(after + before)", "AVG(LEAST(GREATEST(went - came, 0), 60))", "AVG(after - after)", "SUM(LEAST(LENGTH(ward), 9))",
          "AVG(went - came), COUNT(*)", "MEDIAN(went - came)"]


def session(folder: Path, **how: object) -> Session:
    made, draw = duckdb.connect(), np.random.default_rng(4)
    made.execute("CREATE TABLE stays (id INTEGER PRIMARY KEY, came DATE NOT NULL, went DATE NOT NULL, before DOUBLE NOT NULL, "
                 "after DOUBLE NOT NULL, ward VARCHAR NOT NULL)")
    rows = []
    for i in range(1500):
        came, meter = dt.date(2015, 1, 1) + dt.timedelta(days=int(draw.integers(0, 3500))), float(draw.integers(0, 9000))
        went, after = came + dt.timedelta(days=int(draw.exponential(6))), meter + int(draw.exponential(40))
        rows.append((i, came, went, meter, after, "ab"[i % 2]))
    insert(made, "stays", rows)
    lock_down(made)
    return session_of(folder, reader=DuckReader(made, version="1"), policy=POLICY, **how)  # type: ignore[arg-type]


def statement(text: str, at: Session) -> PreparedStatement:
    return PreparedStatement(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) {text}", at)


def test_totals_of_differences_have_a_learned_limit(tmp_path: Path) -> None:
    at = session(tmp_path)
    chosen = {what: statement(f"{what} FROM stays", at).program.bound.name for what in (*WIDE, *NARROW)}
    assert chosen == dict.fromkeys(WIDE, "clip") | dict.fromkeys(NARROW, "rows")
    assert statement("ward, AVG(went - came) FROM stays WHERE went > came GROUP BY ward", at).program.bound.name == "clip"
    assert statement("AVG(d) FROM (SELECT went - came AS d FROM stays) AS t WHERE d > 1", at).program.bound.name == "clip"
    assert statement("AVG(d) FROM (SELECT id, MAX(went - came) AS d FROM stays GROUP BY id) AS t", at).program.bound.name == "rows"


@pytest.mark.parametrize("what", WIDE)
def test_without_noise_they_are_the_totals(what: str, tmp_path: Path) -> None:
    at = session(tmp_path, noise=Exact())
    told = statement(f"{what} FROM stays", at).release()
    (*truth,), = at.kernel._reader.rows(f"SELECT {what} FROM stays")
    assert [float(value) for value in told.rows[0]] == pytest.approx(truth, rel=0.02), "at the limit a few may be cut off"
    assert sum("a limit that was learned privately" in note for note in told.notes) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("what", ["AVG(went - came)", "SUM(after - before)"])
def test_they_err_far_less_than_their_ranges_allow(what: str, tmp_path: Path, effort: float) -> None:
    """By rows, noise for the whole range is more than half of the answer; the limit is a fiftieth of that."""
    at = session(tmp_path)
    (truth,), = at.kernel._reader.rows(f"SELECT {what} FROM stays")
    made, found = statement(f"{what} FROM stays", at), []
    for _ in range(round(80 * effort)):
        told = made.release()
        found.append(float(told.rows[0][0]) / truth - 1)
        low, high = told.intervals[0][0]  # type: ignore[misc]
        assert low <= truth <= high
    assert math.sqrt(np.mean(np.square(found))) < 0.1
