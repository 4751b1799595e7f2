"""Joins whose rows belong to several entities each: exact where noise is off and no level binds, bounded where one does."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest
from support import worlds
from support.sessions import session_of

from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.engine.answering import answer
from dpsql.errors import Unsupported

PAIRS = ("WITH pairs AS (SELECT a.person_id AS x, b.person_id AS y FROM people a JOIN people b USING (household_id) "
         "WHERE a.person_id < b.person_id)")
ENDS = "SELECT x AS p FROM pairs UNION ALL SELECT y FROM pairs"
EXACT = [
    "SELECT COUNT(*) FROM people a JOIN people b ON a.age = b.age",
    "SELECT COUNT(*) FROM people a JOIN people b ON a.household_id = b.household_id WHERE a.person_id < b.person_id",
    "SELECT COUNT(*) FROM people a, people b WHERE a.household_id = b.household_id AND a.sex IN ('f')",
    "SELECT COUNT(*) FROM people a, people b, people c WHERE a.household_id = b.household_id AND b.household_id = c.household_id "
    "AND a.person_id < b.person_id AND b.person_id < c.person_id",
    "SELECT SUM(a.age) FROM people a JOIN people b USING (household_id)",
    "SELECT SUM(a.age - b.age) FROM people a JOIN people b ON a.household_id = b.household_id AND a.age > b.age",
    "SELECT AVG(b.age) FROM people a JOIN people b USING (household_id)",
    "SELECT COUNT(b.nickname) FROM people a JOIN people b USING (household_id)",
    "SELECT a.sex, COUNT(*) FROM people a JOIN people b USING (household_id) WHERE a.sex IS NOT NULL GROUP BY a.sex ORDER BY 1",
    "SELECT COUNT(*) FILTER (WHERE a.active) FROM people a JOIN people b USING (household_id)",
    "WITH pairs AS (SELECT a.person_id AS x, b.person_id AS y FROM people a JOIN people b USING (household_id)) "
    "SELECT COUNT(*) FROM pairs WHERE x < y",
    "SELECT COUNT(*) FROM (SELECT DISTINCT a.person_id AS x, b.person_id AS y FROM visits a JOIN visits b USING (clinic)) AS t",
    "SELECT COUNT(*) FROM people a JOIN people b USING (household_id) WHERE a.age IN (SELECT beds FROM clinics)",
    "SELECT VAR_POP(a.age), STDDEV_SAMP(a.age), AVG(a.age) FROM people a JOIN people b USING (household_id)",
    "SELECT VAR_SAMP(b.age) FILTER (WHERE a.active), COUNT(*) FROM people a JOIN people b USING (household_id)",
    "SELECT a.sex, STDDEV_POP(b.age) FROM people a JOIN people b USING (household_id) WHERE a.sex IS NOT NULL GROUP BY a.sex ORDER BY 1",
    "SELECT COVAR_POP(a.age, b.age), COVAR_SAMP(a.age, b.age) FROM people a JOIN people b USING (household_id)",
    "SELECT CORR(a.age, b.age), REGR_R2(a.age, b.age) FROM people a JOIN people b USING (household_id)",
    "SELECT REGR_SLOPE(a.age, b.age), REGR_INTERCEPT(a.age, b.age) FROM people a JOIN people b USING (household_id)",
    "SELECT a.sex, COUNT(*), GROUPING(a.sex) FROM people a JOIN people b USING (household_id) WHERE a.sex IS NOT NULL GROUP BY ROLLUP (a.sex) "
    "ORDER BY 3, 1",
    "SELECT AVG(b.age), GROUPING(a.sex) FROM people a JOIN people b USING (household_id) WHERE a.sex IS NOT NULL GROUP BY ROLLUP (a.sex) "
    "ORDER BY 2, a.sex",
    "SELECT geometric_mean(a.age + 1) FROM people a JOIN people b USING (household_id)",
    "SELECT COUNT(DISTINCT a.sex) FROM people a JOIN people b USING (household_id)",
    "SELECT COUNT(DISTINCT a.nickname) FROM people a JOIN people b USING (household_id)",
    "SELECT COUNT(DISTINCT a.age % 3), COUNT(*) FROM people a JOIN people b USING (household_id)",
    "SELECT MODE(a.sex), COUNT(*) FROM people a JOIN people b USING (household_id)",
    "SELECT b.sex, MODE(a.active) FROM people a JOIN people b USING (household_id) WHERE b.sex IS NOT NULL GROUP BY b.sex ORDER BY 1",
    "SELECT date_trunc('year', a.born) AS y, COUNT(*) FROM people a JOIN people b USING (household_id) WHERE a.born IS NOT NULL GROUP BY y "
    "HAVING COUNT(*) > 0.5 ORDER BY y",
    f"{PAIRS} SELECT COUNT(*) FROM ({ENDS}) AS ends",
    f"{PAIRS} SELECT sex, COUNT(*) FROM ({ENDS}) AS ends JOIN people ON person_id = p WHERE sex IS NOT NULL GROUP BY sex ORDER BY 1",
    f"{PAIRS} SELECT SUM(age), AVG(age) FROM ({ENDS} UNION ALL SELECT x FROM pairs) AS ends JOIN people ON person_id = p",
]
QUANTILES = [  # which are found between two values
    "SELECT MEDIAN(a.age) FROM people a JOIN people b USING (household_id)",
    "SELECT QUANTILE_CONT(a.age, 0.25), QUANTILE_CONT(a.age, 0.75) FROM people a JOIN people b USING (household_id)",
    "SELECT MIN(b.age), MAX(b.age) FROM people a JOIN people b USING (household_id)",
    "SELECT MEDIAN(a.age) FILTER (WHERE a.active) FROM people a JOIN people b USING (household_id)",
]


@pytest.mark.parametrize("text", EXACT)
def test_without_noise_it_is_what_duckdb_says(text: str, tmp_path: Path) -> None:
    world = worlds.world(seed=5, people=30, most_visits=3)
    found = answer(text, session_of(tmp_path, world, noise=Exact(), at={"epsilon": 1000}))
    connection = duckdb.connect(":memory:")
    world.fill(connection)
    assert isinstance(found, Answer)
    _agree(found, connection.execute(text).fetchall())


@pytest.mark.parametrize("text", QUANTILES)
def test_quantiles_without_noise_are_next_to_what_duckdb_says(text: str, tmp_path: Path) -> None:
    world = worlds.world(seed=5, people=30, most_visits=3)
    found = answer(text, session_of(tmp_path, world, noise=Exact(), at={"epsilon": 1000}))
    connection = duckdb.connect(":memory:")
    world.fill(connection)
    assert isinstance(found, Answer)
    row, = connection.execute(text).fetchall()
    for ours, theirs, (low, high) in zip(found.rows[0], row, found.intervals[0], strict=True):  # type: ignore[misc]
        assert ours == pytest.approx(theirs, rel=0.12, abs=2) and low <= theirs <= high  # type: ignore[operator]


def _agree(found: Answer, plain: Sequence[tuple[object, ...]]) -> None:
    shown = [row for row in found.rows if row[0] is not None or len(row) == 1 or "GROUPING" in found.columns[-1].name.upper()]
    assert len(shown) == len(plain)
    for ours, theirs in zip(shown, plain, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            if isinstance(b, dt.date):
                a, b = str(a)[:10], str(b)[:10]
            assert a == b if isinstance(b, str) or a is None else a == pytest.approx(float(b or 0), rel=1e-4, abs=0.02)  # type: ignore[arg-type]


def test_the_level_is_noted_and_the_answer_is_at_least(tmp_path: Path) -> None:
    found = answer(EXACT[0], session_of(tmp_path, worlds.world(people=40)))
    assert isinstance(found, Answer)
    assert found.intervals[0][0] is not None and found.intervals[0][0][1] == math.inf and "level" in found.notes[0]


@pytest.mark.parametrize(("text", "code"), [
    ("SELECT MODE(a.nickname) FROM people a JOIN people b USING (household_id)", "no-bounds"),
    ("SELECT a.age, b.age % 20, MODE(b.sex) FROM people a JOIN people b USING (household_id) GROUP BY 1, 2", "too-many-groups"),
    (f"{PAIRS} SELECT COUNT(*) FROM (SELECT x AS p FROM pairs UNION ALL SELECT person_id FROM people) AS t", "many-to-many"),
    ("SELECT a.nickname, COUNT(*) FROM people a JOIN people b USING (household_id) GROUP BY a.nickname", "no-owner"),
    ("SELECT COUNT(*) FROM people a LEFT JOIN people b ON a.household_id = b.household_id", "outer-private"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = 'laplace') COUNT(*) FROM people a JOIN people b USING (household_id)",
     "mechanism"),
])
def test_what_cannot_be_bounded_is_refused_with_a_way_out(text: str, code: str, tmp_path: Path) -> None:
    with pytest.raises(Exception) as caught:
        answer(text, session_of(tmp_path))
    assert caught.value.code == code  # type: ignore[attr-defined]
    assert isinstance(caught.value, Unsupported) is (code not in ("mechanism", "too-many-groups"))
    assert caught.value.try_ or code == "mechanism"  # type: ignore[attr-defined]
