"""Averages over rows of several entities: measured from a centre that is searched for, with errors as told."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.chances import too_few
from support.golden.dense import dense
from support.sessions import reader_of, session_of

from dpsql.audit.exact import Exact
from dpsql.audit.prepared import PreparedStatement
from dpsql.engine.session import Session
from dpsql.planning import compilation

MEASURED = "was measured by deviations of rows from"
PAIRS = "FROM people a JOIN people b ON a.household_id = b.household_id AND a.person_id < b.person_id"


def session(folder: Path, *, exact: bool = False) -> Session:
    return session_of(folder, reader=reader_of(dense(people=300)), noise=Exact() if exact else None)


def statement(text: str, at: Session, options: str = "epsilon = 4") -> PreparedStatement:
    return PreparedStatement(text.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options})", 1), at)


@pytest.mark.parametrize(("text", "averages"), [
    (f"SELECT AVG(a.age) {PAIRS}", 1), (f"SELECT AVG(a.age - b.age), COUNT(*) {PAIRS}", 1), (f"SELECT AVG(a.age), AVG(b.age) {PAIRS}", 2),
    (f"SELECT AVG(a.age) FILTER (WHERE b.age > 30) {PAIRS}", 1), (f"SELECT AVG(a.income) {PAIRS}", 1),
    (f"SELECT AVG(a.age), SUM(a.age) {PAIRS}", 0)])  # the sum itself is needed
def test_without_noise_it_is_the_average(text: str, averages: int, tmp_path: Path) -> None:
    at = session(tmp_path, exact=True)
    told = statement(text, at, "epsilon = 1000").release()
    assert sum(MEASURED in note for note in told.notes) == averages
    truth, = at.kernel._reader.rows(text)
    assert [float(value) for value in told.rows[0]] == pytest.approx([float(value) for value in truth], rel=1e-3, abs=0.01)  # type: ignore[arg-type]


def test_groups_are_measured_from_one_centre(tmp_path: Path) -> None:
    at, text = session(tmp_path, exact=True), f"SELECT a.sex, AVG(b.age) {PAIRS} WHERE a.sex IS NOT NULL GROUP BY a.sex"
    told = statement(text, at, "epsilon = 1000").release()
    assert sum(MEASURED in note for note in told.notes) == 1
    truth = dict(at.kernel._reader.rows(text))
    assert {row[0]: row[1] for row in told.rows if row[0] in truth} == pytest.approx(truth, rel=1e-3)


def test_explain_says_what_it_costs(tmp_path: Path) -> None:
    from dpsql.engine.answering import answer

    found = answer(f"EXPLAIN PRIVACY SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 6) AVG(a.age) {PAIRS}", session(tmp_path))
    assert "a number near each average is searched for at ε = 1, to measure it from" in str(found)


@pytest.mark.slow
def test_averages_err_less_and_intervals_hold(tmp_path: Path, effort: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The middle one errs by about half as much, as the sum and the count are cut at levels of their own; how much exactly takes more
    releases to see."""
    at, text, times = session(tmp_path), f"SELECT AVG(a.age) {PAIRS}", round(480 * effort)
    (truth,), = at.kernel._reader.rows(text)

    def middle() -> float:
        told = [made.release() for made in [statement(text, at, "epsilon = 1")] for _ in range(times)]
        ends = [each.intervals[0][0] for each in told]
        assert not too_few(sum(pair is None or pair[0] <= truth <= pair[1] for pair in ends), times, 0.95)
        found = [100.0 if value is None else abs(float(value) - truth) for each in told for value in each.rows[0]]  # type: ignore[arg-type]
        return sorted(found)[times // 2]

    found = middle()
    monkeypatch.setattr(compilation, "to_centre", lambda *given: [])
    assert found < (0.75 if effort >= 1 else 1) * middle()
