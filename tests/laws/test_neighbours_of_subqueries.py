"""The neighbour law on statements with subqueries as values: linked ones as the joins they become, and released ones for
whatever value was released."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.laws.asked import plans_of, question_of, view_of
from support.laws.bad_worlds import families_of
from support.laws.family import ENTITIES, Family
from support.laws.law import violations

from dpsql.errors import Error
from dpsql.frozen import replace
from dpsql.planning.bounded_view import limited_view
from dpsql.planning.options import Options
from dpsql.questions.rules.substitute import substitute
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.node import Stability
from dpsql.trusted.plan.operators.join import Join

LINKED = (
    "SELECT COUNT(*) FROM visits v WHERE v.cost > (SELECT AVG(w.cost) FROM visits w WHERE w.person_id = v.person_id)",
    "SELECT AVG(n) FROM (SELECT (SELECT COUNT(*) FROM visits v WHERE v.person_id = p.person_id) AS n FROM people p) AS t",
    "SELECT (SELECT COUNT(*) FROM visits v WHERE v.person_id = p.person_id) AS n, COUNT(*), AVG(age) FROM people p GROUP BY n",
    "SELECT sex, SUM((SELECT SUM(cost) FROM visits v WHERE v.person_id = p.person_id AND v.year > 2018)) FROM people p GROUP BY sex",
    "SELECT COUNT(*) FROM people p WHERE (SELECT COUNT(*) FROM visits v WHERE v.person_id = p.person_id) = 0",
    "SELECT COUNT(*) FROM people p WHERE (SELECT MIN(year) FROM visits v WHERE v.person_id = p.person_id HAVING COUNT(*) > 1) = 2018",
    "SELECT COUNT(*) FROM people p WHERE (SELECT SUM(points) - p.age FROM scores s WHERE s.person_id = p.person_id) > -40",
    "SELECT COUNT(*) FROM visits v WHERE (SELECT COUNT(*) FROM visits w WHERE w.person_id = v.person_id AND w.year = v.year) > 1",
    "SELECT COUNT(*) FROM visits v WHERE (SELECT MAX(s.points) FROM scores s WHERE s.person_id = v.person_id) > 0",
    "SELECT COUNT(*) FROM people p JOIN visits v ON v.person_id = p.person_id WHERE v.cost >= (SELECT MAX(w.cost) FROM visits w "
    "WHERE w.person_id = p.person_id)",
    "SELECT COUNT(*) FROM people p WHERE (SELECT SUM(cost) FROM visits v WHERE v.person_id = p.person_id AND v.cost >= (SELECT "
    "AVG(w.cost) FROM visits w WHERE w.person_id = v.person_id)) > 100",
    "SELECT COUNT(*) FROM people p WHERE (SELECT COUNT(DISTINCT clinic) FROM visits v WHERE v.person_id = p.person_id AND EXISTS "
    "(SELECT 1 FROM clinics c WHERE c.clinic = v.clinic)) > 1",
    "SELECT COUNT(*) FROM visits v WHERE (SELECT SUM(c.beds) FROM clinics c WHERE c.clinic = v.clinic) > 5",
    "SELECT COUNT(*) FROM visits v WHERE v.cost > (SELECT AVG(c.beds) * v.year / 200 FROM clinics c)",
    "SELECT COUNT(*) FROM visits v WHERE (SELECT c.city FROM clinics c WHERE c.clinic = v.clinic) = 'Oslo'",
    "SELECT COUNT(*) FROM visits v WHERE (SELECT p.age FROM people p WHERE p.person_id = v.person_id) > 40",
    "SELECT SUM((SELECT p.age FROM people p WHERE p.person_id = s.person_id)) FROM scores s",
    "SELECT COUNT(*) FROM (SELECT DISTINCT v.clinic, (SELECT p.sex FROM people p WHERE p.person_id = v.person_id) AS sex, v.person_id "
    "FROM visits v) AS t WHERE sex = 'f'",
    "SELECT COUNT(*) FROM clinics c WHERE (SELECT COUNT(*) FROM visits v WHERE v.clinic = c.clinic) > 3",
)
RELEASED = (
    "SELECT COUNT(*) FROM people WHERE income > (SELECT AVG(income) FROM people)",
    "SELECT SUM(LEAST(GREATEST(income, 0), (SELECT AVG(income) FROM people))) FROM people",
    "SELECT SUM(age - (SELECT MAX(age) FROM people)), COUNT(*) FILTER (WHERE age < (SELECT MAX(age) FROM people)) FROM people",
    "SELECT age > (SELECT AVG(age) FROM people) AS old, COUNT(*), SUM(age) FROM people GROUP BY old",
    "SELECT COUNT(*) FROM people JOIN visits ON people.person_id = visits.person_id AND cost > (SELECT AVG(cost) FROM visits)",
    "SELECT SUM(n) FROM (SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id HAVING COUNT(*) > (SELECT AVG(points) FROM "
    "scores)) AS t",
    "SELECT COUNT(*) FROM visits v WHERE v.cost > (SELECT AVG(w.cost) FROM visits w WHERE w.person_id = v.person_id AND w.cost > "
    "(SELECT AVG(cost) FROM visits))",
    "SELECT MEDIAN(age + (SELECT MIN(age) FROM people)), COUNT(DISTINCT age // (SELECT MAX(age) FROM people)) FROM people",
    "SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person_id = p.person_id AND v.cost < (SELECT AVG(cost) "
    "FROM visits))",
)
LINKED_TO_OTHERS = (
    "SELECT COUNT(*) FROM visits v WHERE v.cost > (SELECT AVG(w.cost) FROM visits w WHERE w.clinic = v.clinic)",
    "SELECT SUM((SELECT COUNT(*) FROM people q WHERE q.sex = p.sex AND q.age > 30)) FROM people p",
    "SELECT COUNT(*) FROM people p WHERE (SELECT MAX(cost) FROM visits v WHERE v.note = p.nickname HAVING COUNT(*) > 1) > 100",
)
VALUES = (None, 0, 3, 55, 10**12, -(10**12))
REFUSED_FOR_HOUSEHOLDS = 14  # links by person, where a person is not what is protected


@pytest.fixture(scope="module")
def families() -> Iterator[list[Family]]:
    with families_of(7) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("entity", ENTITIES)
def test_a_linked_subquery_moves_no_further_than_the_join_claims(entity: str, families: list[Family], effort: float) -> None:
    triples = refused = 0
    repeats = max(1, round(effort))
    for number, text in enumerate(LINKED):
        for family in [families[(number + i) % len(families)] for i in range(repeats)]:
            try:
                question = question_of(text, entity, family)
            except Error:
                refused += 1
                continue
            assert question.scalars == () and stability(view_of(question), family.kernel).rows != 0
            plans = tuple(plans_of(question, family))
            broken = violations(plans, entity, family)
            assert not broken, f"{text}\n{family.name} world, {entity}: {broken[0]}"
            triples += len(plans) * len(family.keys(entity))
    assert triples > (100 if entity == "person" else 15) * repeats
    assert refused <= (0 if entity == "person" else REFUSED_FOR_HOUSEHOLDS * repeats)


def test_a_released_subquery_is_safe_with_any_value(families: list[Family], effort: float) -> None:
    """With the plan as it is made for a value that is still awaited, and as it is once the value is there."""
    triples = 0
    for number, text in enumerate(RELEASED):
        family = families[number % len(families)]
        awaiting = question_of(text, "person", family)
        before = stability(view_of(awaiting), family.kernel)
        for value in VALUES[: max(3, round(4 * effort))]:
            question = substitute(replace(awaiting, scalars=()), {
                scalar.awaited.id: None if value is None else float(value) if scalar.awaited.type.value == "DOUBLE" else value
                for scalar in awaiting.scalars})
            after = stability(view_of(question), family.kernel)
            assert (after.rows, after.owners) == (before.rows, before.owners)
            plans = tuple(plans_of(question, family))
            broken = violations(plans, "person", family)
            assert not broken, f"{text} with {value}\n{family.name} world: {broken[0]}"
            triples += len(plans) * len(family.keys("person"))
    assert triples > 200


@pytest.mark.parametrize("most", [1, 3])
def test_a_link_to_others_moves_no_further_than_limits_of_keys_allow(most: int, families: list[Family], effort: float) -> None:
    options = Options(price=None, bound="frequency", max_frequency=most)
    for number, text in enumerate(LINKED_TO_OTHERS):
        for family in [families[(number + i) % len(families)] for i in range(max(1, round(2 * effort)))]:
            view, known = limited_view(question_of(text, "person", family), options, family.kernel, None)
            assert known.rows is not None and known.owners == ()
            broken = violations((view,), "person", family)
            assert not broken, f"{text}\n{family.name} world: {broken[0]}"


def test_a_link_that_is_thought_to_bound_everything_would_be_found(families: list[Family], monkeypatch: pytest.MonkeyPatch) -> None:
    """Joined on something else than the entity, one entity changes the average of many rows."""
    family = next(found for found in families if found.name == "tame")
    known = Join.stability

    def wrong(self: Join, below: tuple[Stability, ...], public: Any) -> Stability:
        found = known(self, below, public)
        return replace(found, rows=below[0].rows) if self.keep_left and found.rows is None else found

    monkeypatch.setattr(Join, "stability", wrong)
    question = question_of("SELECT COUNT(*) FROM visits v WHERE v.cost > (SELECT AVG(w.cost) FROM visits w WHERE w.clinic = v.clinic)",
                           "person", family)
    assert violations((view_of(question),), "person", family)
