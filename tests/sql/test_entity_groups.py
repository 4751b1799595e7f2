"""GROUP BY of columns that name one entity each: no such group is ever shown, so the statement is refused for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.sessions import session_of

from dpsql.engine.answering import answer
from dpsql.errors import Unsupported


@pytest.mark.parametrize(("budget", "text"), [
    ("person", "SELECT person_id, COUNT(*) FROM people GROUP BY person_id"),
    ("person", "SELECT visit_id, COUNT(*) FROM visits GROUP BY visit_id"),
    ("person", "SELECT year, visit_id, COUNT(*) FROM visits GROUP BY year, visit_id"),
    ("person", "SELECT p.person_id, COUNT(*) FROM visits AS v JOIN people AS p ON v.person_id = p.person_id GROUP BY p.person_id"),
    ("person", "SELECT person_id, sex, COUNT(*) FROM visits JOIN people USING (person_id) GROUP BY person_id, sex"),
    ("person", "SELECT visit_id, SUM(cost) FROM visits JOIN people USING (person_id) JOIN clinics USING (clinic) GROUP BY visit_id"),
    ("person", "SELECT who, COUNT(*) FROM (SELECT person_id AS who, year FROM visits WHERE year = 2020) AS t GROUP BY who"),
    ("household", "SELECT household_id, AVG(age) FROM people GROUP BY household_id"),
    ("household", "SELECT v.person_id, COUNT(*) FROM visits AS v GROUP BY v.person_id"),
    ("household", "SELECT p.person_id, p.sex, COUNT(*) FROM people AS p JOIN households AS h ON p.household_id = h.household_id "
     "GROUP BY p.person_id, p.sex"),
])
def test_a_group_for_each_entity_is_refused_for_nothing(budget: str, text: str, tmp_path: Path) -> None:
    session = session_of(tmp_path, budget=budget)
    with pytest.raises(Unsupported) as caught:
        answer(text, session)
    assert caught.value.code == "entity-group" and "such groups are never shown" in caught.value.reason
    assert not session.ledger.entries(budget)


@pytest.mark.parametrize("text", [
    "SELECT nickname, COUNT(*) FROM people GROUP BY nickname",
    "SELECT household_id, COUNT(*) FROM people GROUP BY household_id",
    "SELECT note, COUNT(*) FROM visits GROUP BY note",
    "SELECT v.person_id, COUNT(*) FROM people AS p LEFT JOIN visits AS v ON v.person_id = p.person_id GROUP BY v.person_id",
])
def test_groups_of_many_entities_are_not(text: str, tmp_path: Path) -> None:
    session = session_of(tmp_path, budget="person")
    answer(text, session)
    assert session.ledger.entries("person")
