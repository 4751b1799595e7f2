"""Quantiles of rows of which the policy allows very many: how many are kept is learned, and told."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support import worlds
from support.golden.dense import dense
from support.sessions import reader_of, session_of
from support.worlds import World

from dpsql.audit.prepared import PreparedStatement
from dpsql.engine.session import Session
from dpsql.errors import OptionError
from dpsql.planning.contribution_bound import MANY_ROWS


def with_visits(people: int, most: int) -> World:
    """The dense world with 1 to `most` visits of each person."""
    draw, made = random.Random(people), dense(people=people)
    owners = [person for person in range(people) for _ in range(draw.randint(1, most))]
    return World({**made.rows, "visits": [(i, person, 2019, "a", draw.randint(0, 500), "ill", None)
                                          for i, person in enumerate(owners)]})


def session(folder: Path, *, declared: int, most: int = 6, people: int = 900) -> Session:
    policy = worlds.POLICY.replace("{ person = 3, household = 12 }", f"{{ person = {declared}, household = 1000 }}")
    return session_of(folder, reader=reader_of(with_visits(people, most)), policy=policy)


def statement(text: str, at: Session, options: str = "epsilon = 2") -> PreparedStatement:
    return PreparedStatement(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {text}", at)


LEARNED = ["MEDIAN(cost) FROM visits", "MIN(cost), MAX(cost) FROM visits", "clinic, MEDIAN(cost) FROM visits GROUP BY clinic",
           "MEDIAN(cost), quantile_cont(year, 0.9) FROM visits WHERE note = 'ill'",
           "MEDIAN(cost) FROM visits JOIN people USING (person_id) WHERE age >= 0"]


@pytest.mark.parametrize("text", LEARNED)
def test_a_limit_is_learned_and_told(text: str, tmp_path: Path) -> None:
    """Nobody has more than six rows; a false alarm makes the limit larger once in some tens of times."""
    made = statement(text, session(tmp_path, declared=40))
    found = [note for _ in range(6) for note in made.release().notes if "were kept" in note]
    assert all("of the 40 rows that an entity may have" in note and ("either way" in note) is ("MIN" not in text) for note in found)
    assert 3 <= min(int(note.split()[2]) for note in found) <= 12


@pytest.mark.parametrize(("text", "options", "declared"), [
    ("MEDIAN(cost) FROM visits", "epsilon = 2", MANY_ROWS - 1),
    ("MEDIAN(cost) FROM visits", "epsilon = 2, max_rows = 20", 40),
    ("MEDIAN(cost) FROM visits", "epsilon = 2, bound = 'rows'", 40),
    ("MEDIAN(cost), COUNT(*) FROM visits", "epsilon = 2", 40),
    ("COUNT(*) FROM visits", "epsilon = 2", 40),
    ("SUM(cost) FROM visits", "epsilon = 2", MANY_ROWS - 1),
    ("SUM(cost) FROM visits", "epsilon = 2, max_rows = 20", 40),
    ("SUM(cost) FROM visits", "epsilon = 2, bound = 'rows'", 40),
    *((f"{call} FROM visits", "epsilon = 2, prefer = 'speed'", 40) for call in ("MEDIAN(cost)", "SUM(cost)", "AVG(cost)")),
    ("COUNT(DISTINCT cost) FROM visits", "epsilon = 2", 40),
    ("MEDIAN(age) FROM people", "epsilon = 2", 40),
    ("MEDIAN(n) FROM (SELECT person_id, LEAST(COUNT(*), 50) AS n FROM visits GROUP BY person_id) AS t", "epsilon = 2", 40),
])
def test_nothing_is_learned_where_a_limit_is_small_or_given_or_counts_are_asked(text: str, options: str, declared: int,
                                                                                 tmp_path: Path) -> None:
    prepared = statement(text, session(tmp_path, declared=declared, people=90), options)
    assert prepared.program.learned_limit is None
    assert not any("learned" in note for note in prepared.release().notes)


@pytest.mark.parametrize("text", ["SUM(cost) FROM visits", "AVG(cost), COUNT(*) FROM visits", "clinic, SUM(cost) FROM visits GROUP BY clinic"])
def test_totals_of_many_rows_are_scaled_down_to_a_learned_limit(text: str, tmp_path: Path) -> None:
    prepared = statement(text, session(tmp_path, declared=40))
    assert prepared.program.bound.name == "clip" and prepared.program.learned_limit == "totals"
    assert "an entity may have 40 of these rows" in prepared.program.decided.because
    made = prepared.release()
    if "AVG" not in text:
        assert all(row[-1] is not None and row[-1][1] == float("inf") for row in made.intervals)
    assert any("scaled down" in note and "learned privately" in note for note in made.notes)


def test_what_is_preferred_is_accuracy_or_speed(tmp_path: Path) -> None:
    here = session(tmp_path, declared=40)
    assert statement("SUM(cost) FROM visits", here, "epsilon = 2, prefer = 'accuracy'").program.bound.name == "clip"
    assert "prefer = 'speed'" in statement("SUM(cost) FROM visits", here, "epsilon = 2, prefer = 'speed'").program.decided.because
    with pytest.raises(OptionError, match="there is no prefer 'fast'") as caught:
        statement("SUM(cost) FROM visits", here, "epsilon = 2, prefer = 'fast'")
    assert caught.value.try_ == "one of 'accuracy', 'speed'"


def test_the_declared_limit_stays_where_entities_have_that_many_or_nothing_is_seen(tmp_path: Path) -> None:
    """Noise alone stops the search for a limit in about one of a hundred releases."""
    (tmp_path / "many").mkdir()
    for folder, most, people in ((tmp_path, 6, 3), (tmp_path / "many", 60, 200)):
        prepared = statement("MEDIAN(cost) FROM visits", session(folder, declared=20, most=most, people=people), "epsilon = 0.5")
        assert prepared.program.learned_limit == "rows"
        assert sum(any("learned" in note for note in prepared.release().notes) for _ in range(4)) <= 1


def test_what_is_learned_is_a_part_of_the_price(tmp_path: Path) -> None:
    program = statement("MEDIAN(cost) FROM visits", session(tmp_path, declared=40)).program
    assert program.stages["limits"].epsilon + program.parts_allotted.epsilon == program.cost.epsilon == 2
