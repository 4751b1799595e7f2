"""Averages under learned limits: from moments of rows where values are not far below their bounds."""

from __future__ import annotations

import math
import random
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from support import worlds
from support.golden.dense import dense
from support.sessions import reader_of, session_of
from support.worlds import World

from dpsql.audit.exact import Exact
from dpsql.audit.prepared import PreparedStatement
from dpsql.engine.session import Session
from dpsql.planning import script

WIDE = "{ person = 400, household = 4000 }"
MOST = 500  # the declared bound of `cost`


def uneven(people: int = 800) -> World:
    """The dense world, with 1 to 5 visits of each person and 60 to 90 of some, at costs all over the range, some unknown."""
    draw, made = random.Random(people), dense(people=people)
    owners = [person for person in range(people) for _ in range(draw.randint(60, 90) if person % 50 == 0 else draw.randint(1, 5))]
    return World({**made.rows, "visits": [
        (i, person, draw.choice([2018, 2019]), "a", None if draw.random() < 0.2 else round(MOST * draw.random() ** 2, 2),
         draw.choice(["ill", "well"]), None) for i, person in enumerate(owners)]})


def session(folder: Path, bound: int = MOST, **how: Any) -> Session:
    policy = worlds.POLICY.replace("{ person = 3, household = 12 }", WIDE).replace("bounds = [0, 500]", f"bounds = [0, {bound}]")
    return session_of(folder, reader=reader_of(uneven()), policy=policy, **how)


def statement(text: str, at: Session, options: str = "") -> PreparedStatement:
    return PreparedStatement(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 4{options}) {text}", at)


def limited(told: Any) -> list[str]:
    """What limits were learned of."""
    return [note.split(" was scaled down")[0].removeprefix("each entity's contribution to ") for note in told.notes
            if "was scaled down" in note]


@pytest.mark.parametrize("text", ["AVG(cost) FROM visits", "year, AVG(cost) FROM visits GROUP BY year",
                                  "AVG(cost) FILTER (WHERE note = 'ill') FROM visits"])
def test_which_is_taken_follows_from_how_wide_the_bounds_are(text: str, tmp_path: Path) -> None:
    found = []
    for bound in (MOST, 10_000 * MOST):
        folder = tmp_path / str(bound)
        folder.mkdir()
        found.append(limited(statement(text, session(folder, bound)).release()))
    assert found[0] == ["rows"] and len(found[1]) == 2 and found[1][0].startswith("cost")


@pytest.mark.parametrize("text", ["AVG(cost), SUM(cost) FROM visits", "AVG(cost), COUNT(*) FROM visits"])
def test_other_aggregates_keep_limits_of_their_own(text: str, tmp_path: Path) -> None:
    assert limited(statement(text, session(tmp_path)).release()) != ["rows"]


def test_entities_that_are_scaled_down_keep_their_mean(tmp_path: Path) -> None:
    """Without noise the answer is the mean over entities, each with the weight of its rows or of the limit."""
    at = session(tmp_path, noise=Exact())
    told = statement("AVG(cost) FROM visits", at).release()
    assert limited(told) == ["rows"]
    most = int(told.notes[0].split("at most ")[1].split(",")[0])
    rows = at.kernel._reader.rows("SELECT person_id, COUNT(cost), SUM(cost) FROM visits GROUP BY person_id HAVING COUNT(cost) > 0")
    weights = [(min(1.0, most / count) * count, float(total) / count) for _, count, total in rows]
    assert any(count > most for _, count, _ in rows)
    expected = sum(weight * value for weight, value in weights) / sum(weight for weight, _ in weights)
    assert math.isclose(float(told.rows[0][0]), expected, rel_tol=1e-4)


def test_bounds_that_were_found_privately_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moments are made before bounds are found, so they are not taken for columns whose bounds are."""
    monkeypatch.setattr(script, "moments_err_less", lambda *given, **how: True)
    at = session(tmp_path, noise=Exact())
    told = statement("AVG(weight) FROM people", at, ", bound = 'clip'").release()
    (truth,), = at.kernel._reader.rows("SELECT AVG(weight) FROM people")
    assert float(told.rows[0][0]) == pytest.approx(float(truth), rel=0.2)


@pytest.mark.slow
def test_it_errs_less_than_limits_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, effort: float) -> None:
    at, runs = session(tmp_path), round(100 * max(1.0, effort))
    (truth,), = at.kernel._reader.rows("SELECT AVG(cost) FROM visits")

    def squares() -> float:
        made = statement("AVG(cost) FROM visits", at)
        return mean(sorted((float(made.release().rows[0][0]) - float(truth)) ** 2 for _ in range(runs))[: runs - runs // 50])

    found = squares()
    monkeypatch.setattr(script, "moments_err_less", lambda *given, **how: False)
    assert found < 0.6 * squares()
