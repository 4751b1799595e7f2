"""Limits of keys where rows of many entities meet: given, declared, or learned, and told beforehand."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import worlds
from support.sessions import session_of

from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.engine.answering import answer, explain
from dpsql.engine.session import Session
from dpsql.errors import Error
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query

DECLARED = worlds.POLICY.replace("rows_per_entity = { person = 3, household = 12 }\n", (
    "rows_per_entity = { person = 3, household = 12 }\nrows_per_value = { clinic = 4, year = 9 }\n"))
MEET = "visits v JOIN visits w ON v.clinic = w.clinic"


def big(people: int = 60) -> worlds.World:
    """Visits of five clinics, of which one has most."""
    drawn, draw = worlds.world(5, people=people), random.Random(5)
    visits = [(row[0], row[1], row[2], "a" if draw.random() < 0.5 else draw.choice("bcd"), *row[4:]) for row in drawn.rows["visits"]]
    return worlds.World({**drawn.rows, "visits": visits})


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    made = session_of(tmp_path_factory.mktemp("exact"), big(), noise=Exact(), at={"epsilon": 1})
    yield made
    made.close()


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    made = session_of(tmp_path_factory.mktemp("declared"), big(), noise=Exact(), policy=DECLARED, at={"epsilon": 1})
    yield made
    made.close()


def options(**given: object) -> str:
    told = ", ".join(f"{name} = {value!r}" for name, value in given.items())
    return f"WITH DIFFERENTIAL_PRIVACY OPTIONS ({told})"


def value(session: Session, text: str) -> float:
    found = answer(text, session)
    assert isinstance(found, Answer)
    ((number,),) = found.rows
    return float(number)


def told(session: Session, text: str) -> str:
    query = parse(text)
    assert isinstance(query, Query)
    return str(explain(query, session))


def kept(limit: int) -> dict[str, int]:
    """How many visits each clinic has after both limits; three of each person are kept first."""
    rows: dict[str, int] = {}
    people: dict[int, int] = {}
    for row in big().rows["visits"]:
        people[row[1]] = people.get(row[1], 0) + 1
    assert max(people.values()) > 3
    for row in big().rows["visits"]:
        rows[row[3]] = rows.get(row[3], 0) + 1
    return {clinic: min(limit, count) for clinic, count in rows.items()}


def test_pairs_of_few_rows_of_each_key(exact: Session) -> None:
    """Four rows of each of four clinics on both sides: 4 * 4 * 4 pairs."""
    text = f"SELECT {options(bound='frequency', max_frequency=4)} COUNT(*) FROM {MEET}"
    assert min(kept(10**6).values()) > 8
    assert value(exact, text) == 4 * 4 * 4


@pytest.mark.parametrize(("kind", "pairs"), [("LEFT", 64), ("RIGHT", 64), ("FULL", 64), ("SEMI", 16), ("ANTI", 0)])
def test_other_joins_too(exact: Session, kind: str, pairs: int) -> None:
    text = f"SELECT {options(bound='frequency', max_frequency=4)} COUNT(*) FROM visits v {kind} JOIN visits w ON v.clinic = w.clinic"
    assert value(exact, text) == pairs


def test_lists_and_groups_too(exact: Session) -> None:
    few = options(bound="frequency", max_frequency=4)
    assert value(exact, f"SELECT {few} COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.clinic = v.clinic)") == 16
    assert value(exact, f"SELECT {few} COUNT(*) FROM (SELECT v.clinic, COUNT(*) AS n FROM {MEET} GROUP BY v.clinic) AS t "
                        "WHERE n = 16") == 4


def test_keys_may_be_computed(exact: Session) -> None:
    """Years of one decade are one key: four rows of it meet four."""
    few = options(bound="frequency", max_frequency=4)
    text = "COUNT(*) FROM visits v {} JOIN visits w ON v.year // 10 = w.year // 10 WHERE v.year > 2018 AND w.year > 2018"
    assert "202" in str({row[2] for row in big().rows["visits"]})
    assert value(exact, f"SELECT {few} {text.format('')}") == 2 * 4 * 4
    assert "used per year // 10" in told(exact, f"SELECT {few} {text.format('LEFT')}")
    assert value(exact, f"SELECT {few} COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.year = v.year + 1 - 1)"
                 ) == 4 * len({row[2] for row in big().rows["visits"]} - {None})


def test_rows_that_a_condition_drops_take_no_place(exact: Session) -> None:
    """Two rows of each clinic are among the even and among the odd visits, so two are kept of either."""
    text = f"SELECT {options(bound='frequency', max_frequency=2)} COUNT(*) FROM {MEET} WHERE v.visit_id % 2 = 0 AND w.visit_id % 2 = 1"
    assert value(exact, text) == 4 * 2 * 2


def test_a_declared_limit_is_enforced_where_rows_meet(declared: Session) -> None:
    """Without being asked for where there is no other bound, and as the smaller one beside that of a statement."""
    text = "COUNT(*) FROM visits v LEFT JOIN visits w ON v.clinic = w.clinic"
    assert value(declared, f"SELECT {text}") == 64
    assert value(declared, f"SELECT {options(bound='frequency', max_frequency=1000)} {text}") == 64
    assert value(declared, f"SELECT {options(bound='frequency', max_frequency=2)} {text}") == 16
    assert value(declared, f"SELECT {options(bound='frequency')} {text}") == 64
    assert "learned" not in told(declared, f"SELECT {options(bound='frequency')} {text}")


def test_a_declared_limit_multiplies_along_a_chain(declared: Session) -> None:
    """At most sixteen pairs have a clinic where four rows meet four: that is known, and pairs are not counted again."""
    text = f"SELECT {options(bound='frequency')} COUNT(*) FROM {MEET} JOIN visits x ON x.clinic = w.clinic"
    assert value(declared, text) == 4 * 4 * 4 * 4
    assert told(declared, text).count("at most 4 rows are used per clinic") == 1, "one line tells it for all three"


def test_a_table_where_values_do_not_meet_is_not_limited(declared: Session) -> None:
    everything = value(declared, "SELECT COUNT(*) FROM visits")
    assert everything > 16
    assert value(declared, "SELECT COUNT(*) FROM visits v JOIN people p USING (person_id)") == everything


def test_limits_are_learned_one_after_the_other(tmp_path: Path) -> None:
    session = session_of(tmp_path, big(), at={"epsilon": 50})
    try:
        text = f"SELECT {options(bound='frequency')} COUNT(*) FROM scores r LEFT JOIN scores s ON r.points = s.points"
        shown = told(session, text)
        assert "3 limits are each learned" in shown
        assert shown.count("a number of rows that is learned first") == 2  # of a person and of points; the table is read twice
        found = answer(text, session)
        assert isinstance(found, Answer)
        learned = [note for note in found.notes if "learned privately" in note]
        assert [note.split(" of each ")[1].split(" ")[0] for note in learned] == ["entity", "points", "points"]
        assert answer("SHOW BUDGET", session)
    finally:
        session.close()


def test_what_is_learned_is_near_what_the_rows_have(tmp_path: Path) -> None:
    """At a high price, limits leave out hardly any rows, and are not much larger than needed."""
    session = session_of(tmp_path, big(), at={"epsilon": 900, "delta": 0.01})
    try:
        text = f"SELECT {options(bound='frequency')} COUNT(*) FROM scores r JOIN scores s ON r.points = s.points"
        points = [row[1] for row in big().rows["scores"] if row[1] is not None]
        expected = sum(points.count(point) ** 2 for point in set(points))
        assert math.isclose(value(session, text), expected, rel_tol=0.05)
    finally:
        session.close()


def test_max_rows_limits_tables_where_rows_have_no_owner(exact: Session) -> None:
    text = "COUNT(*) FROM (SELECT clinic FROM visits EXCEPT ALL SELECT clinic FROM clinics) AS t"
    few, more = (f"SELECT {options(max_rows=rows)} {text}" for rows in (1, 2))
    assert "1 row of visits" in told(exact, few) and "2 rows of visits" in told(exact, more)
    assert value(exact, few) < value(exact, more) < value(exact, f"SELECT {text}")
    grouped = "COUNT(*) FROM (SELECT points, COUNT(*) AS n FROM scores GROUP BY points) AS t"
    with pytest.raises(Error, match="is not limited"):
        answer(f"SELECT {grouped}", exact)
    assert value(exact, f"SELECT {options(max_rows=5)} {grouped}") == len({row[1] for row in big().rows["scores"]})


def test_explain_tells_why_rows_are_left_out(exact: Session) -> None:
    shown = told(exact, f"SELECT {options(bound='frequency', max_frequency=4, max_rows=2)} COUNT(*) FROM {MEET}")
    assert "at most 2 rows of visits are used per person" in shown
    assert "at most 4 rows are used per clinic" in shown and "be matched on it in: Join on clinic = clinic" in shown
    assert "frequency: what each person adds comes from a limited number of its rows" in shown


GROUPED = "a.nickname, b.sex, COUNT(*) FROM people a JOIN people b USING (household_id) WHERE b.sex IN ('f', 'm') GROUP BY a.nickname, b.sex"


def test_undeclared_groups_of_rows_of_several_entities(tmp_path: Path) -> None:
    """Without noise every key is shown, each with all values of the declared one, as plain SQL counts them."""
    made = session_of(tmp_path, big(), noise=Exact())
    found = answer(f"SELECT {options(bound='frequency', max_frequency=50, epsilon=100, delta=1e-6)} {GROUPED}", made)
    assert isinstance(found, Answer) and "rows or more are shown" in " ".join(found.notes)
    plain = {row[:2]: row[2] for row in made.kernel._reader.rows(f"SELECT {GROUPED}")}
    names = {name for name, _ in plain}
    assert {row[:2]: row[2] for row in found.rows if row[1] is not None} == {  # type: ignore[misc]
        (name, sex): plain.get((name, sex), 0) for name in names for sex in "fm"}
    assert len(names) > 3


def test_groups_are_shown_from_so_many_rows_on(tmp_path: Path) -> None:
    """With noise: a key of many rows is shown, and one of few is not; a limit that is learned decides from how many."""
    crowd = worlds.World({**worlds.world().rows, "people": [
        (i, i // 2, "f", 30, None, None, None, None, "many" if i < 3000 else f"few {i}", None) for i in range(3040)]})
    made = session_of(tmp_path, crowd)
    for limits in ({"max_frequency": 2}, {}):
        text = (f"SELECT {options(bound='frequency', epsilon=4, delta=1e-6, **limits)} a.nickname, COUNT(*) FROM people a "
                "JOIN people b USING (household_id) GROUP BY a.nickname")
        assert "rows that one entity changes count" in told(made, text)
        found = answer(text, made)
        assert isinstance(found, Answer) and [row[0] for row in found.rows] == ["many"]


@pytest.mark.parametrize(("text", "code"), [
    (f"SELECT {options(bound='frequency', max_frequency=4)} COUNT(*) FROM people p, people q WHERE p.age < q.age", "many-to-many"),
    (f"SELECT {options(bound='frequency', max_frequency=0)} COUNT(*) FROM {MEET}", "option"),
    (f"SELECT {options(bound='frequency', max_frequency=4)} COUNT(*) FROM {MEET} GROUP BY v.note", "no-delta"),
    ("SELECT COUNT(*) FROM visits v LEFT JOIN visits w ON v.clinic = w.clinic", "outer-private"),
])
def test_what_is_refused_still(exact: Session, text: str, code: str) -> None:
    with pytest.raises(Error) as caught:
        answer(text, exact)
    assert caught.value.code == code
