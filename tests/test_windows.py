"""Window functions through the whole engine: what is answered, for what price, and what is said where it is not."""

from __future__ import annotations

import pytest
from support import worlds
from support.sessions import session_of

from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import Unsupported

FIRST = "SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY seen) = 1"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return session_of(tmp_path_factory.mktemp("windows"), worlds.world(3, people=60), noise=Exact(), at={"epsilon": 1, "delta": 1e-6})


def rows(text: str, session: Session) -> Answer:
    made = answer(text, session)
    assert isinstance(made, Answer)
    return made


def test_one_row_of_each_person_is_cheaper_than_all(session: Session) -> None:
    """An entity moves 1 row of 3, so the error is a third."""
    alone, every = (rows(f"SELECT COUNT(*) FROM ({text}) AS t", session).errors[0][0] for text in (FIRST, "SELECT * FROM visits"))
    assert alone is not None and every is not None
    assert 2.5 < every / alone < 3.5


def test_places_are_shown_as_groups(session: Session) -> None:
    made = rows("SELECT nth, COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY seen) AS nth FROM visits) AS t "
                "GROUP BY nth ORDER BY nth", session)
    assert [row[0] for row in made.rows] == [1, 2, 3]  # the policy allows three visits of a person
    counts = [row[1] for row in made.rows]
    assert counts == sorted(counts, reverse=True) and counts[0] > 40  # type: ignore[type-var, operator]


def test_the_plan_tells_what_is_kept(session: Session) -> None:
    told = str(answer(f"EXPLAIN PRIVACY SELECT COUNT(*) FROM ({FIRST}) AS t", session))
    assert "keep first: the first 1 row of each person_id by seen, as the statement asks" in told
    assert "truncate: at most 3 rows of visits (declared)" in told
    told = str(answer("EXPLAIN PRIVACY SELECT AVG(c) FROM (SELECT cost - LAG(cost) OVER (ORDER BY seen) AS c FROM visits) AS t", session))
    assert "Window lag(cost) ordered by seen" in told
    assert "9 rows, without an owner: a row is read by 1 other at most" in told


def test_a_limit_of_frequency_bounds_windows_by_a_key(session: Session) -> None:
    text = "SELECT {} COUNT(*) FROM (SELECT RANK() OVER (PARTITION BY clinic ORDER BY cost) AS r FROM visits) AS t WHERE r <= 2"
    with pytest.raises(Unsupported) as caught:
        answer(text.format(""), session)
    assert caught.value.code == "shared-window" and "max_frequency" in caught.value.try_
    assert str(caught.value).count("^") == len("RANK() OVER (PARTITION BY clinic ORDER BY cost)")
    made = rows(text.format("WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'frequency', max_frequency = 2)"), session)
    assert made.errors[0][0] == pytest.approx(18 * 2**0.5, rel=0.05)  # 3 rows, 2 for each in a full key, 3 for each in a window


@pytest.mark.parametrize("text", [
    "SELECT COUNT(*) FROM (SELECT SUM(cost) OVER (ORDER BY seen) AS total FROM visits) AS t WHERE total > 5",
    "SELECT COUNT(*) FROM (SELECT COUNT(*) OVER () AS n FROM visits) AS t WHERE n > 5",
    "SELECT COUNT(*) FROM (SELECT * FROM visits QUALIFY RANK() OVER (ORDER BY cost DESC) <= 10) AS t",
    "SELECT COUNT(*) FROM (SELECT LAST_VALUE(cost) OVER (ORDER BY seen ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS c FROM visits) "
    "AS t WHERE c > 5",
])
def test_what_one_row_could_move_for_everybody_is_refused(text: str, session: Session) -> None:
    before = session.ledger.spent("person")
    with pytest.raises(Unsupported) as caught:
        answer(text, session)
    assert caught.value.code == "shared-window" and "PARTITION BY" in caught.value.try_
    assert session.ledger.spent("person") == before


@pytest.mark.parametrize(("column", "condition", "count"), [
    ("NTILE(2) OVER (PARTITION BY person_id ORDER BY seen)", "q >= 2", 35),
    ("LAG(k, 1, 0) OVER (PARTITION BY person_id ORDER BY seen)", "q <= 1", 79)])
def test_a_limit_of_what_a_window_function_makes_up(column: str, condition: str, count: int, session: Session) -> None:
    """The ends of such a column are not those of a table's, so they do not tell how many rows of a person there are."""
    numbered = "SELECT person_id, seen, ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY seen) AS k FROM visits"
    made = rows(f"SELECT COUNT(*) FROM (SELECT DISTINCT person_id, q FROM (SELECT person_id, {column} AS q FROM ({numbered}) AS n) AS t) AS u "
                f"WHERE {condition}", session)
    assert made.rows == ((count,),)
