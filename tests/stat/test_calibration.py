"""Answers know their own errors: standard errors are those of many releases, and intervals cover the truth as often as they say.

Those of quantiles may be too wide, as they add up the worst of every choice; they must not be too narrow.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from golden.dense import dense
from sessions import reader_of, session_of

from dpsql.audit.exact import Exact
from dpsql.audit.prepared import Batched, Prepared, Remembering

pytestmark = pytest.mark.stat

ALARM = 4.5  # standard deviations of what chance alone does


def releases(text: str, times: int, folder: Path, *, people: int = 300) -> tuple[np.ndarray, ...]:
    """For each release, of each column: its value, its standard error, whether its interval holds the truth; and the truth."""
    reader = reader_of(dense(people=people))
    (folder / "true").mkdir()
    true = Prepared(text, session_of(folder / "true", reader=reader, noise=Exact(), at={"epsilon": 900, "delta": 1e-6})).release()
    statement = Prepared(text, session_of(folder, reader=reader, around=Remembering, noise=Batched()))
    values, errors, covered = [], [], []
    for _ in range(times):
        made = statement.release()
        values.append([math.nan if value is None else float(value) for value in made.rows[0]])  # type: ignore[arg-type]
        errors.append(made.errors[0])
        ends = [made.interval(0, i) for i in range(len(made.columns))]
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
    times = int(800 * effort)
    values, errors, covered, true = releases(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({price}) {text}", times, tmp_path)
    for i in range(values.shape[1]):
        off, error = values[:, i] - true[i], errors[0, i]
        assert (errors[:, i] == error).all(), "the error of a linear answer is public"
        assert abs(off.mean()) < ALARM * error / math.sqrt(times) + 1e-6 * abs(true[i])
        spread = (off**2).mean()  # its own variance is at most 5 error^4 / times: a Laplace kurtosis of 6
        assert abs(spread / error**2 - 1) < ALARM * math.sqrt(5 / times) + 0.02
        share = covered[:, i].mean()
        assert share > 0.95 - ALARM * math.sqrt(0.95 * 0.05 / times), f"intervals cover {share}"
        assert share < 0.985 + ALARM * math.sqrt(0.02 / times), f"intervals are too wide, as they cover {share}"


APPROXIMATE = [
    ("AVG(age) FROM people", 0.93, 0.985, 800),
    ("AVG(income), STDDEV(age) FROM people", 0.92, 0.99, 800),
    ("SUM(cost) / COUNT(cost) FROM visits", 0.93, 0.985, 800),
    ("AVG(weight) FROM people", 0.93, 0.99, 400),
]
QUANTILES = [  # with the number of people
    ("MEDIAN(age) FROM people", 300, 200),
    ("MEDIAN(income) FROM people", 300, 150),
    ("MEDIAN(income) FROM people", 40, 200),
    ("MIN(income), MAX(income) FROM people", 100, 100),
    ("quantile_cont(income, 0.25), quantile_cont(income, 0.75) FROM people", 300, 80),
]


@pytest.mark.parametrize(("text", "least", "most", "times"), APPROXIMATE, ids=[case[0] for case in APPROXIMATE])
def test_approximate_intervals_cover_about_what_they_say(text: str, least: float, most: float, times: int, tmp_path: Path,
                                                         effort: float) -> None:
    times = int(times * effort)
    values, errors, covered, true = releases(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) {text}", times, tmp_path)
    for i in range(values.shape[1]):
        share, told = covered[:, i].mean(), np.median(errors[:, i])
        assert share > least - ALARM * math.sqrt(0.05 / times), f"intervals cover {share}"
        assert share < most + ALARM * math.sqrt(0.02 / times), f"intervals are too wide, as they cover {share}"
        typical = np.median(np.abs(values[:, i] - true[i]))
        assert 0.3 * told < typical < 1.2 * told, f"errors of about {typical} are told as {told}"


@pytest.mark.parametrize(("text", "people", "times"), QUANTILES, ids=[f"{case[0]} ({case[1]})" for case in QUANTILES])
def test_intervals_of_quantiles_are_not_too_narrow(text: str, people: int, times: int, tmp_path: Path, effort: float) -> None:
    """Also where there are fewer rows than noise, and for the extremes, which are chosen well inside."""
    times = int(times * effort)
    values, errors, covered, true = releases(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) {text}", times, tmp_path,
                                             people=people)
    for i in range(values.shape[1]):
        assert covered[:, i].mean() > 0.95 - ALARM * math.sqrt(0.05 / times), f"intervals cover {covered[:, i].mean()}"
        typical, told = np.median(np.abs(values[:, i] - true[i])), np.median(errors[:, i])
        assert 0.05 * told - 1 < typical < 1.2 * told + 1, f"errors of about {typical} are told as {told}"


def test_an_error_that_is_told_too_small_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpsql.estimates import Error

    variance = Error.variance.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(Error, "variance", property(lambda self: variance(self) / 2))
    with pytest.raises(AssertionError):
        test_linear_answers_are_unbiased_and_know_their_error("epsilon = 0.7", "COUNT(*) FROM people", tmp_path, 1.0)
