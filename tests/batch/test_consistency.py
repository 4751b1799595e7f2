"""Tables fitted to the numbers of workloads: what is kept, what is told, what is refused before any charge, and what a failure loses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import worlds
from support.golden.dense import dense
from support.sessions import session_of

from dpsql.audit.exact import Exact
from dpsql.batch import consistency
from dpsql.dbapi import Connection
from dpsql.errors import Error, OperationalError, OptionError
from dpsql.microdata import diagnostic, limits
from dpsql.microdata.all_fits import METHODS

POLICY = worlds.POLICY.replace("person = 3, household = 12", "person = 50, household = 50")
CUBE = ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.02, {}) clinic, GROUPING(year, clinic) AS level, COUNT(*) FROM visits "
        "GROUP BY CUBE(year, clinic)")


@pytest.fixture
def noisy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    monkeypatch.setattr(diagnostic, "MOST_RUNS", 4)
    monkeypatch.setattr(diagnostic, "LEAST_RUNS", 2)
    with Connection(session_of(tmp_path, dense(), policy=POLICY)) as made:
        yield made


def agree(rows: list[tuple[Any, ...]], within: float) -> None:
    """A clinic is not smaller than its years that are shown, nor the total than its clinics."""
    for clinic, total in [(row[0], row[2]) for row in rows if row[1] == 2]:
        assert total >= sum(row[2] for row in rows if row[:2] == (clinic, 0)) - within
    assert next(row[2] for row in rows if row[1] == 3) >= sum(row[2] for row in rows if row[1] == 2) - within


@pytest.mark.parametrize("method", METHODS)
def test_numbers_become_those_of_one_table(method: str, noisy: Connection) -> None:
    cursor = noisy.execute(CUBE.format(f"strategy = 'independent', consistency = '{method}', rounding = 'whole'"))
    rows = cursor.fetchall()
    assert all(row[2] == int(row[2]) for row in rows) and (method == "ols" or min(row[2] for row in rows) >= 0)
    if method != "ols":
        agree(rows, 0)
    assert any(f"fitted to the noisy numbers by {method}, in whole numbers" in note for note in cursor.notes)
    assert any(note.startswith(f"{method}: ") and "best for all: " in note for note in cursor.notes)


@pytest.mark.slow
def test_without_noise_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostic, "MOST_CELLS", 1)
    with Connection(session_of(tmp_path, dense(), noise=Exact(), policy=POLICY)) as exact:
        plain = exact.execute(CUBE.format("strategy = 'identity'")).fetchall()
        for method in METHODS:
            assert exact.execute(CUBE.format(f"strategy = 'identity', consistency = '{method}', rounding = 'whole'")).fetchall() == plain


def test_what_noise_makes_negative_is_raised(noisy: Connection) -> None:
    """Noise of scale 50 and more on cells of 20."""
    assert min(row[2] for row in noisy.execute(CUBE.format("consistency = 'none'")).fetchall()) < 0
    cursor = noisy.execute(CUBE.format("consistency = 'sequential'"))
    assert min(row[2] for row in cursor.fetchall()) >= 0 and any("no number is negative" in note for note in cursor.notes)


@pytest.mark.parametrize("method", [method for method in METHODS if method != "ols"])
def test_intervals_are_those_of_the_measured_numbers(method: str, noisy: Connection) -> None:
    """What is fitted without negative numbers is too large where cells are small, and so are totals of them; intervals hold."""
    truth = {row[:2]: row[2] for row in noisy.execute(CUBE.replace("0.02", "100").format("consistency = 'none'")).fetchall()}
    inside = []
    for _ in range(12):
        cursor = noisy.execute(CUBE.format(f"consistency = '{method}', strategy = 'independent'"))
        for row, ends in zip(cursor.fetchall(), cursor.intervals, strict=True):
            low, high = ends[2]
            assert low - 0.5 <= row[2] <= high + 0.5  # the number is shown whole, its interval is not
            inside.append(low <= truth[row[:2]] <= high)
    assert np.mean(inside) >= 0.85


def test_a_public_total_is_kept(noisy: Connection) -> None:
    """It is the number of rows that some number counts: of visits in all years, with those that no group shows."""
    for method in METHODS:
        cursor = noisy.execute(CUBE.format(f"consistency = '{method}', rounding = 'whole', total = 321"))
        assert next(row[2] for row in cursor.fetchall() if row[1] == 3) == 321
        assert any("of 321 rows as the statement says" in note for note in cursor.notes)
    some = noisy.execute("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.02, consistency = 'nnls', rounding = 'whole', total = 55) "
                         "COUNT(*) FROM visits WHERE year = 2019").fetchall()
    assert some == [(55,)]
    assert noisy.execute(CUBE.format("consistency = 'nnls', total = 0")).fetchall()[0][2] == 0


def test_sums_of_both_signs_stay_as_they_are(noisy: Connection) -> None:
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.02{}) active, SUM(income - 50000), COUNT(*) FROM people GROUP BY ROLLUP(active)"
    cursor = noisy.execute(text.format(", consistency = 'nnls'"))
    rows = cursor.fetchall()
    assert min(row[2] for row in rows) >= 0 and len([note for note in cursor.notes if "fitted to the noisy numbers" in note]) == 1


def test_explain_tells_of_public_shapes_and_spends_nothing(noisy: Connection) -> None:
    told = str(noisy.explain(CUBE.format("consistency = 'nnls', rounding = 'whole'")))
    assert "afterwards a table is fitted to the noisy numbers by nnls, in whole numbers" in told
    assert "nnls if there are no rows: squared errors of the total " in told and "spread evenly" in told and "all in one cell" in told
    assert "best for all: " in told and not noisy.session.ledger.entries("person")
    assert "nnls if there are 500 rows, spread evenly: squared errors of the total 0, by year" in str(
        noisy.explain(CUBE.format("consistency = 'nnls', total = 500")))


@pytest.mark.parametrize("failure", [OperationalError("no table"), RuntimeError("given up"), MemoryError(), np.linalg.LinAlgError("singular")])
def test_a_fit_that_fails_returns_what_was_paid_for(failure: Exception, noisy: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*given: object, **more: object) -> None:
        raise failure

    monkeypatch.setattr(consistency, "fit", failing)
    cursor = noisy.execute(CUBE.format("consistency = 'nnls'"))
    assert min(row[2] for row in cursor.fetchall()) < 0 and len(noisy.session.ledger.entries("person")) == 1
    assert any("nnls found no table, so the measured numbers are shown unchanged" in note for note in cursor.notes)


WRONG = [
    ("consistency = 'positive'", "there is no consistency 'positive'", "'positive'"), ("rounding = 'whole'", "rounding applies only to a fitted table", "'whole'"),
    ("total = 3", "total applies only to a fitted table", "3"), ("consistency = 'nnls', total = -1", "total must be a whole number from 0", "-1"),
    ("consistency = 'nnls', rounding = 'up'", "there is no rounding 'up'", "'up'"),
]


@pytest.mark.parametrize(("options", "reason", "place"), WRONG)
def test_what_is_wrong_is_told_before_any_charge(options: str, reason: str, place: str, noisy: Connection) -> None:
    with pytest.raises(OptionError) as caught:
        noisy.execute(CUBE.format(options))
    fault = caught.value
    assert fault.reason.startswith(reason) and fault.span is not None and place in fault.text[fault.span.start:fault.span.end]
    assert not noisy.session.ledger.entries("person")


OTHERS = [
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (consistency = 'nnls') COUNT(*) FROM people ERROR WITHIN 10", "no accuracy can be promised"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, strategy = 'dawa', consistency = 'reweight') age, COUNT(*) FROM people GROUP BY age",
     "reweight needs the errors of numbers"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, consistency = 'nnls', total = 9) SUM(income) FROM people GROUP BY ROLLUP(sex)",
     "total is the number of counted rows, and this statement counts none"),
]


@pytest.mark.parametrize(("text", "reason"), OTHERS)
def test_what_has_no_fitted_table_is_told_before_any_charge(text: str, reason: str, noisy: Connection) -> None:
    with pytest.raises(Error, match=reason):
        noisy.execute(text)
    assert not noisy.session.ledger.entries("person")


def test_large_workloads_are_refused_before_any_charge(noisy: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_CELLS", 10)
    with pytest.raises(OptionError, match="too large for nnls: it fits at most 10 cells, and here there are ") as caught:
        noisy.execute(CUBE.format("consistency = 'nnls'"))
    assert caught.value.span is not None and not noisy.session.ledger.entries("person")
