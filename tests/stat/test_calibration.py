"""Answers know their own errors: standard errors are those of many releases, and intervals cover the truth as often as they say.

Those of quantiles may be too wide, as they add up the worst of every choice; they must not be too narrow.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from support.chances import too_few, too_many
from support.golden.dense import dense
from support.sessions import reader_of, session_of

from dpsql.audit.exact import Exact
from dpsql.audit.prepared import Batched, PreparedStatement, Remembering

pytestmark = pytest.mark.stat

MEAN = 6  # standard deviations: what chance alone does once in 10^9
# The mean of 1000 squares of Laplace noise, the most uneven of the kinds there are, is above 1 + 6.5 of its standard deviations
# less than once in 10^7, by convolution of its distribution; the mean of squares of normal noise hardly ever.
SQUARES = 6.5


def releases(text: str, times: int, folder: Path, *, people: int = 300) -> tuple[np.ndarray, ...]:
    """For each release, of each column: its value, its standard error, whether its interval holds the truth; and the truth."""
    reader = reader_of(dense(people=people))
    (folder / "true").mkdir()
    true = PreparedStatement(text, session_of(folder / "true", reader=reader, noise=Exact(), at={"epsilon": 900, "delta": 1e-6})).release()
    statement = PreparedStatement(text, session_of(folder, reader=reader, around=Remembering, noise=Batched()))
    values, errors, covered = [], [], []
    for _ in range(times):
        made = statement.release()
        values.append([math.nan if value is None else float(value) for value in made.rows[0]])  # type: ignore[arg-type]
        errors.append(made.errors[0])
        ends = [made.intervals[0][i] for i in range(len(made.columns))]
        covered.append([pair is not None and pair[0] <= truth <= pair[1]  # type: ignore[operator]
                        for pair, truth in zip(ends, true.rows[0], strict=True)])
    return np.array(values), np.array(errors, dtype=float), np.array(covered), np.array(true.rows[0], dtype=float)


LINEAR = [
    ("epsilon = 0.7", "COUNT(*) FROM people"),
    ("epsilon = 0.7", "SUM(age), SUM(cost) FILTER (WHERE clinic = 'a') FROM people JOIN visits USING (person_id)"),
    ("epsilon = 0.7", "COUNT(DISTINCT person_id), COUNT(DISTINCT note) FROM visits"),
    ("epsilon = 0.7", "SUM(cost) - 100 * COUNT(*) FROM visits"),
    ("epsilon = 0.7, max_rows = 4", "SUM(points) FROM scores"),
    ("rho = 0.2", "SUM(income), COUNT(*) - COUNT(income) FROM people"),
    ("rho = 0.2", "COUNT(*), SUM(cost) FROM visits"),
]


@pytest.mark.parametrize(("price", "text"), LINEAR, ids=[case[1] for case in LINEAR])
def test_linear_answers_are_unbiased_and_know_their_error(price: str, text: str, tmp_path: Path, effort: float) -> None:
    times = int(1000 * effort)
    values, errors, covered, true = releases(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({price}) {text}", times, tmp_path)
    for i in range(values.shape[1]):
        off, error = values[:, i] - true[i], errors[0, i]
        assert (errors[:, i] == error).all(), "the error of a linear answer is public"
        assert abs(off.mean()) < MEAN * error / math.sqrt(times) + 1e-6 * abs(true[i])
        spread = (off**2).mean()  # its own variance is at most 5 error^4 / times: a Laplace kurtosis of 6
        assert abs(spread / error**2 - 1) < SQUARES * math.sqrt(5 / times) + 0.02
        covers(covered[:, i], 0.95, 0.975)


def covers(covered: np.ndarray, least: float, most: float = 1.0) -> None:
    hits, times = int(covered.sum()), len(covered)
    assert not too_few(hits, times, least), f"intervals cover {hits / times}"
    assert not too_many(hits, times, most), f"intervals are too wide, as they cover {hits / times}"


def halfway(off: np.ndarray, least: float, most: float) -> None:
    """Half of the errors are larger than the one, and half smaller than the other."""
    assert not too_many(int((off < least).sum()), len(off), 0.5), f"errors are told as more than {least}"
    assert not too_few(int((off <= most).sum()), len(off), 0.5), f"errors are told as less than {most}"


APPROXIMATE = [
    ("AVG(age) FROM people", 800),
    ("AVG(income), STDDEV(age) FROM people", 800),
    ("SUM(cost) / COUNT(cost) FROM visits", 800),
    ("AVG(weight) FROM people", 600),
]
QUANTILES = [  # with the number of people
    ("MEDIAN(age) FROM people", 300, 200),
    ("MEDIAN(income) FROM people", 300, 150),
    ("MEDIAN(income) FROM people", 40, 200),
    ("MIN(income), MAX(income) FROM people", 100, 100),
    ("quantile_cont(income, 0.25), quantile_cont(income, 0.75) FROM people", 300, 80),
]


@pytest.mark.parametrize(("text", "times"), APPROXIMATE, ids=[case[0] for case in APPROXIMATE])
def test_approximate_intervals_cover_about_what_they_say(text: str, times: int, tmp_path: Path, effort: float) -> None:
    times = int(times * effort)
    values, errors, covered, true = releases(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) {text}", times, tmp_path)
    for i in range(values.shape[1]):
        covers(covered[:, i], 0.93, 0.97)
        told = float(np.median(errors[:, i]))
        halfway(np.abs(values[:, i] - true[i]), 0.3 * told, 1.2 * told)


@pytest.mark.parametrize(("text", "people", "times"), QUANTILES, ids=[f"{case[0]} ({case[1]})" for case in QUANTILES])
def test_intervals_of_quantiles_are_not_too_narrow(text: str, people: int, times: int, tmp_path: Path, effort: float) -> None:
    """Also where there are fewer rows than noise, and for the extremes, which are chosen well inside."""
    times = int(times * effort)
    values, errors, covered, true = releases(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) {text}", times, tmp_path,
                                             people=people)
    for i in range(values.shape[1]):
        covers(covered[:, i], 0.95)
        told = float(np.median(errors[:, i]))
        halfway(np.abs(values[:, i] - true[i]), 0.05 * told - 1, 1.2 * told + 1)


@pytest.mark.slow
def test_an_error_that_is_told_too_small_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpsql.estimates import NoiseTerm

    variance = NoiseTerm.variance.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(NoiseTerm, "variance", property(lambda self: variance(self) / 2))
    with pytest.raises(AssertionError):
        test_linear_answers_are_unbiased_and_know_their_error("epsilon = 0.7", "COUNT(*) FROM people", tmp_path, 2.0)


def test_quantiles_among_many_places_say_what_their_intervals_rest_on(tmp_path: Path) -> None:
    """Of 300 incomes in tens of thousands the median is chosen between two of them as often as not, and by far."""
    session = session_of(tmp_path, reader=reader_of(dense()), at={"epsilon": 1, "delta": 1e-6})
    for text, fine in [("MEDIAN(income) FROM people", True), ("COUNT(*), quantile_cont(cost, 0.9) FROM visits", True),
                       ("MEDIAN(age), MAX(points) FROM people JOIN scores USING (person_id)", False), ("AVG(income) FROM people", False)]:
        notes = PreparedStatement(f"SELECT {text}", session).release().notes
        assert any("intervals of quantiles" in note for note in notes) is fine, text
