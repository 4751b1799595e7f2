"""COUNT(DISTINCT x) over undeclared values: counted as far as entities vouch for them, with a lower bound that holds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.chances import too_few
from support.sessions import reader_of, session_of
from support.worlds import World, world

from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import Error

MIXED = "points + 20 * (person_id // 200)"  # of which no list of values is known
TEXT = f"SELECT COUNT(DISTINCT {MIXED}) FROM scores"


def crowd(people: int = 400, each: int = 9) -> World:
    """Many people with some scores each, of few values, some of which are missing."""
    draw, rows = random.Random(1), dict(world().rows)
    rows["people"] = [(i, *rows["people"][0][1:]) for i in range(people)]
    rows["scores"] = [(i, draw.choice([None, *range(-5, 6)])) for i in range(people) for _ in range(draw.randint(1, each))]
    return World({**rows, "visits": []})


def session(folder: Path, *, exact: bool = False, of: World | None = None) -> Session:
    return session_of(folder, reader=reader_of(of or crowd()), noise=Exact() if exact else None)


def asked(text: str, at: Session, options: str = "epsilon = 1") -> Answer:
    found = answer(text.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options})", 1), at)
    assert isinstance(found, Answer)
    return found


def explained(text: str, at: Session) -> str:
    return str(answer(f"EXPLAIN PRIVACY {text}", at))


@pytest.mark.parametrize("text", [
    TEXT,
    f"SELECT COUNT(DISTINCT {MIXED}) FROM scores WHERE points > 2",
    f"SELECT COUNT(DISTINCT {MIXED}) FILTER (WHERE points < 4) FROM scores",
    "SELECT COUNT(DISTINCT points / (1 + person_id // 200)), COUNT(DISTINCT 'a' || CAST(points * (person_id // 200) AS VARCHAR)) FROM scores",
    "SELECT sex, COUNT(DISTINCT points + 20 * (scores.person_id // 200)) FROM scores JOIN people USING (person_id) WHERE sex IS NOT NULL GROUP BY sex",
    f"SELECT COUNT(DISTINCT {MIXED}), COUNT(DISTINCT person_id) FROM scores",
    f"SELECT COUNT(DISTINCT {MIXED}) + 1 AS n FROM scores HAVING COUNT(DISTINCT {MIXED}) > 0",
])
def test_without_noise_it_is_what_duckdb_says(text: str, tmp_path: Path) -> None:
    at = session(tmp_path, exact=True)
    plain = {row[:-1]: row for row in at.kernel._reader.rows(text)}
    found = {row[:-1]: row for row in asked(text, at).rows}
    assert {key: found[key] for key in plain} == plain


def test_errors_are_those_of_one_value_and_intervals_are_open_above(tmp_path: Path) -> None:
    at, held, off = session(tmp_path), 0, []
    (truth,), = at.kernel._reader.rows(TEXT)
    for i in range(40):
        found = asked(TEXT, at, f"epsilon = 1.{i:03}")
        (number,), ((low, high),) = found.rows[0], found.intervals[0]  # type: ignore[misc]
        off.append(abs(float(number) - truth))
        held += bool(low <= truth <= high)
        assert high == float("inf") or high >= 2**60
    assert not too_few(held, 40, 0.95)
    assert sorted(off)[20] < 6  # a limit of rows would be about 9, with noise of a standard deviation of 13


def test_it_is_told_how_they_are_counted(tmp_path: Path) -> None:
    at = session(tmp_path)
    assert any("as far as entities vouch for them" in note for note in asked(TEXT, at).notes)
    told = explained(TEXT, at)
    assert "balance at" in told and "Keep at most" not in told and "is learned" not in told


@pytest.mark.parametrize(("text", "options", "how"), [
    (TEXT, "epsilon = 1, max_rows = 4", "laplace at"),
    (TEXT, "epsilon = 1, bound = 'rows'", "laplace at"),
    (TEXT, "epsilon = 1, mechanism = 'laplace'", "laplace at"),
    ("SELECT COUNT(DISTINCT points) FROM scores", "epsilon = 1", "declared_values at"),
    ("SELECT COUNT(DISTINCT person_id) FROM scores", "epsilon = 1", "laplace at"),
    ("SELECT COUNT(DISTINCT note) FROM visits", "epsilon = 1", "laplace at"),  # three rows of an entity, which are enough
    (f"SELECT points, COUNT(DISTINCT {MIXED}) FROM scores GROUP BY points", "epsilon = 1", "laplace at"),  # of many groups
])
def test_elsewhere_the_number_gets_noise_for_a_limit_of_rows(text: str, options: str, how: str, tmp_path: Path) -> None:
    assert how in explained(text.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options})", 1), session(tmp_path))


@pytest.mark.parametrize("people", [0, 1])
def test_no_rows_and_one_person_are_answered(people: int, tmp_path: Path) -> None:
    at = session(tmp_path, of=crowd(people, each=500))
    assert [len(asked(TEXT, at, f"epsilon = {price}").rows) for price in (0.001, 1, 50)] == [1, 1, 1]


@pytest.mark.parametrize("wrong", [
    f"SELECT COUNT(DISTINCT {MIXED}) FROM score", "SELECT COUNT(DISTINCT point * 3) FROM scores",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, mechanism = 'balanced') COUNT(DISTINCT points * person_id) FROM scores"])
def test_mistakes_cost_nothing(wrong: str, tmp_path: Path) -> None:
    at = session(tmp_path)
    with pytest.raises(Error):
        answer(wrong, at)
    assert not at.ledger.entries("person")
