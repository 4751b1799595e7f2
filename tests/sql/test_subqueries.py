"""Subqueries as values, as they are bound: what is released first, what is a constant, what becomes a join, what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support import worlds
from support.binding import Bench, bench

from dpsql.errors import Error, SqlError, Unsupported
from dpsql.planning.bounded_view import limited_view
from dpsql.planning.options import Options
from dpsql.questions.identity import digest
from dpsql.questions.question import Question
from dpsql.questions.rules.limit_rows import limit_rows
from dpsql.questions.rules.prune_columns import prune_columns
from dpsql.questions.rules.substitute import has_placeholders
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.expr.nodes import Literal
from dpsql.trusted.plan.node import Node, fold
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.types import ANY_NUMBER, Interval, Type


@pytest.fixture(scope="module")
def a_bench() -> Iterator[Bench]:
    with bench(worlds.world(2)) as made:
        yield made


def nodes(plan: Node) -> list[Node]:
    return fold(plan, lambda node, found: [node, *(part for parts in found for part in parts)])


def texts(question: Question) -> list[str]:
    return [scalar.awaited.text for scalar in question.scalars]


# -- released first


@pytest.mark.parametrize(("text", "expected"), [
    ("SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people)", ["(SELECT AVG(age) FROM people)"]),
    ("SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people) OR age < (select avg(AGE)  from people)",
     ["(SELECT AVG(age) FROM people)"]),
    ("SELECT COUNT(*) FILTER (WHERE age > (SELECT AVG(age) FROM people)), AVG(age) - (SELECT AVG(age) FROM people) FROM people "
     "HAVING COUNT(*) > (SELECT COUNT(*) FROM visits)", ["(SELECT AVG(age) FROM people)", "(SELECT COUNT(*) FROM visits)"]),
    ("SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people WHERE age < (SELECT MAX(age) FROM people))",
     ["(SELECT MAX(age) FROM people)", "(SELECT AVG(age) FROM people WHERE age < (SELECT MAX(age) FROM people))"]),
    ("WITH p AS (SELECT * FROM people) SELECT COUNT(*) FROM p WHERE age > (SELECT AVG(age) FROM p)", ["(SELECT AVG(age) FROM p)"]),
    ("SELECT COUNT(*) FROM (SELECT age, (SELECT AVG(age) FROM people) AS unused FROM people) AS t", []),
    ("SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT (SELECT COUNT(*) FROM visits) FROM visits v WHERE v.person_id = "
     "p.person_id)", []),
    ("SELECT COUNT(*) FROM visits ORDER BY (SELECT COUNT(*) FROM people)", ["(SELECT COUNT(*) FROM people)"]),
])
def test_each_subquery_is_released_once_and_before_it_is_needed(text: str, expected: list[str], a_bench: Bench) -> None:
    question = a_bench.bind(text)
    assert texts(question) == expected
    known: set[str] = set()
    for scalar in question.scalars:
        assert set(has_placeholders(scalar.question)) <= known and not scalar.question.scalars
        known.add(scalar.awaited.id)
    assert set(has_placeholders(prune_columns(question.view))) <= known


def test_names_decide_whether_two_subqueries_are_one(a_bench: Bench) -> None:
    """Two CTEs of one name are two tables."""
    text = ("SELECT COUNT(*) FROM (WITH t AS (SELECT age FROM people WHERE sex = 'f') SELECT person_id FROM people WHERE age > "
            "(SELECT AVG(age) FROM t)) AS a JOIN (WITH t AS (SELECT age FROM people) SELECT person_id, cost FROM visits WHERE cost > "
            "(SELECT AVG(age) FROM t)) AS b USING (person_id)")
    assert len(a_bench.bind(text).scalars) == 2


@pytest.mark.parametrize(("text", "kind", "declared"), [
    ("SELECT AVG(income) FROM people", Type.DOUBLE, Interval(0, 100000)),
    ("SELECT MAX(age) FROM people", Type.BIGINT, Interval(0, 100)),
    ("SELECT quantile_disc(age, 0.9) FROM people", Type.BIGINT, Interval(0, 100)),
    ("SELECT AVG(age) / 2 FROM people", Type.DOUBLE, Interval(0, 50)),
    ("SELECT AVG(weight) FROM people", Type.DOUBLE, ANY_NUMBER),
    ("SELECT COUNT(*) FROM people", Type.BIGINT, ANY_NUMBER),
    ("SELECT SUM(age) FROM people", Type.BIGINT, ANY_NUMBER),
    ("SELECT COUNT(*) > 3 FROM people", Type.BOOLEAN, ANY_NUMBER),
    ("SELECT STDDEV(age) FROM people", Type.DOUBLE, ANY_NUMBER),
])
def test_what_is_known_of_a_value_before_it_is_released(text: str, kind: Type, declared: Interval, a_bench: Bench) -> None:
    (scalar,) = a_bench.bind(f"SELECT COUNT(*) FROM visits HAVING ({text}) IS NOT NULL").scalars
    assert (scalar.awaited.type, scalar.awaited.declared) == (kind, declared)
    assert kind is not Type.BIGINT or scalar.awaited.physical.inside(Interval(-(2**62), 2**62))


def test_keys_may_wait_for_a_value(a_bench: Bench) -> None:
    question = a_bench.bind("SELECT sex = 'f' AND age > (SELECT AVG(age) FROM people) AS x, age // 10 > (SELECT AVG(age) / 10 FROM "
                            "people) AS y, CASE WHEN age > (SELECT AVG(age) FROM people) THEN 'old' ELSE 'young' END AS z, COUNT(*) "
                            "FROM people GROUP BY ALL")
    assert [key.domain.values for key in question.keys if key.domain is not None] == [
        (False, True), (False, True), ("old", "young")]
    assert [key.nullable for key in question.keys] == [True, True, False]


def test_a_question_is_one_with_its_subqueries(a_bench: Bench) -> None:
    """Statements are told apart depending on the query in subqueries, and not by blanks, places and names of columns."""
    def identity(text: str) -> str:
        return digest(a_bench.bind(text))

    one = identity("SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people)")
    assert one == identity("select  count(*) AS n from people where age > (select avg(age) as x from people)")
    assert one != identity("SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people WHERE active)")
    assert one != identity("SELECT COUNT(*) FROM people WHERE age > (SELECT MEDIAN(age) FROM people)")


# -- constants


@pytest.mark.parametrize(("value", "expected"), [
    ("SELECT SUM(beds) FROM clinics", 35), ("SELECT AVG(beds) * 3 FROM clinics", 35.0), ("SELECT COUNT(*) FROM clinics", 4),
    ("SELECT MEDIAN(beds) FROM clinics", 10.0), ("SELECT MAX(beds) FROM clinics WHERE city = 'nowhere'", None),
    ("SELECT SUM(beds) FROM clinics HAVING COUNT(*) > 9", None), ("SELECT SUM(beds) FROM clinics HAVING COUNT(*) > 3", 35),
    ("SELECT SUM(beds) FROM clinics LIMIT 0", None), ("SELECT beds FROM clinics WHERE city = 'Rome'", 5), ("SELECT 1 + 1", 2),
    ("SELECT COUNT(*)", 1), ("VALUES (7)", 7), ("SELECT DISTINCT beds FROM clinics WHERE beds = 5", 5),
    ("WITH b AS (SELECT beds FROM clinics) SELECT MIN(beds) FROM b", 5),
    ("SELECT beds FROM clinics GROUP BY beds HAVING beds > 15", 20),
    ("SELECT COUNT(*) FROM clinics WHERE beds > (SELECT AVG(beds) FROM clinics)", 1),
    ("SELECT beds FROM clinics WHERE beds > (SELECT MIN(beds) FROM clinics) AND beds < 20", 10),
])
def test_what_rests_on_public_tables_is_a_constant(value: str, expected: float | None, a_bench: Bench) -> None:
    question = a_bench.bind(f"SELECT COUNT(*) FROM people HAVING COUNT(*) IS DISTINCT FROM ({value})")
    assert question.scalars == () and question.having is not None
    constants = [part for part in (getattr(question.having, "args", ())) if isinstance(part, Literal) or part != part]
    found = question.having.args[1]  # type: ignore[attr-defined]
    found = found if isinstance(found, Literal) else constants[0]
    assert found.value == expected and found.type in (Type.BIGINT, Type.DOUBLE)


def test_a_constant_narrows_what_is_known(a_bench: Bench) -> None:
    """SUM of a product stays in whole numbers, as the factor is known."""
    question = a_bench.bind("SELECT SUM(age * (SELECT MAX(beds) FROM clinics)) FROM people")
    known = question.view.field(question.aggregates[0].columns[0]).facts
    assert known.type is Type.BIGINT and known.declared == Interval(0, 2000)


# -- linked


@pytest.mark.parametrize(("text", "rows"), [
    ("SELECT COUNT(*) FROM people p WHERE (SELECT COUNT(*) FROM visits v WHERE v.person_id = p.person_id) > 1", 1),
    ("SELECT COUNT(*) FROM visits v WHERE cost > (SELECT AVG(w.cost) FROM visits w WHERE w.person_id = v.person_id)", 3),
    ("SELECT COUNT(*) FROM visits v WHERE cost > (SELECT AVG(w.cost) FROM visits w WHERE w.person_id = v.person_id AND w.year = "
     "v.year)", 3),
    ("SELECT COUNT(*) FROM visits v WHERE (SELECT p.age FROM people p WHERE p.person_id = v.person_id) > 3", 3),
    ("SELECT COUNT(*) FROM visits v WHERE (SELECT c.beds FROM clinics c WHERE c.clinic = v.clinic) > 3", 3),
    ("SELECT COUNT(*) FROM visits v WHERE (SELECT SUM(c.beds) FROM clinics c WHERE c.clinic = v.clinic) > 3", 3),
    ("SELECT COUNT(*) FROM people p WHERE (SELECT MAX(n) FROM (SELECT person_id, year, COUNT(*) AS n FROM visits GROUP BY "
     "person_id, year) AS t WHERE t.person_id = p.person_id) > 1", 1),
])
def test_a_link_by_the_entity_keeps_each_row(text: str, rows: int, a_bench: Bench) -> None:
    question = a_bench.bind(text)
    assert question.scalars == ()
    joins = [node for node in nodes(question.view) if isinstance(node, Join) and node.keep_left]
    assert len(joins) == 1
    known = stability(limit_rows(question.view), a_bench.kernel)
    assert known.rows == rows and known.owner is not None


def test_the_same_subquery_of_a_row_is_joined_once(a_bench: Bench) -> None:
    value = "(SELECT COUNT(*) FROM visits v WHERE v.person_id = p.person_id)"
    question = a_bench.bind(f"SELECT AVG({value}), SUM({value.lower()}) FROM people p WHERE {value} > 0")
    assert sum(isinstance(node, Join) for node in nodes(question.view)) == 1


def test_a_subquery_of_a_row_sees_one_query_around_it(a_bench: Bench) -> None:
    question = a_bench.bind("SELECT COUNT(*) FROM people p WHERE (SELECT SUM(cost) FROM visits v WHERE v.person_id = p.person_id AND "
                            "v.cost > (SELECT AVG(w.cost) FROM visits w WHERE w.person_id = v.person_id)) > 4")
    assert sum(isinstance(node, Join) for node in nodes(question.view)) == 2
    assert stability(limit_rows(question.view), a_bench.kernel).rows == 1


def test_a_name_is_looked_for_inside_before_outside(a_bench: Bench) -> None:
    """Here person_id is that of visits in both places, so nothing is linked."""
    question = a_bench.bind("SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(cost) FROM visits WHERE person_id = person_id)")
    assert texts(question) != [] and not any(isinstance(node, Join) for node in nodes(question.view))


# -- refused


REFUSED = [
    ("SELECT COUNT(*) FROM people WHERE age > (SELECT age FROM people)", "scalar-subquery", "(SELECT age FROM people)", "AVG"),
    ("SELECT COUNT(*) FROM people WHERE age > (SELECT * FROM people)", "scalar-subquery", "(SELECT * FROM people)", "AVG"),
    ("SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people GROUP BY sex)", "scalar-subquery",
     "(SELECT AVG(age) FROM people GROUP BY sex)", "without GROUP BY"),
    ("SELECT COUNT(*) FROM people WHERE age > (SELECT DISTINCT age FROM people)", "scalar-subquery",
     "(SELECT DISTINCT age FROM people)", "AVG"),
    ("SELECT COUNT(*) FROM people WHERE age > (SELECT age FROM people UNION ALL SELECT 1)", "scalar-subquery",
     "(SELECT age FROM people UNION ALL SELECT 1)", "AVG"),
    ("SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age), COUNT(*) FROM people)", "scalar-subquery",
     "(SELECT AVG(age), COUNT(*) FROM people)", "each"),
    ("SELECT COUNT(*) FROM people WHERE age > (SELECT * FROM clinics)", "scalar-subquery", "(SELECT * FROM clinics)", "each"),
    ("SELECT COUNT(*) FROM people WHERE age > (SELECT beds FROM clinics)", "scalar-subquery", "(SELECT beds FROM clinics)", "MAX"),
    ("SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(agee) FROM people)", "unknown-column", "agee", "age"),
    ("SELECT COUNT(*) FROM people WHERE sex > (SELECT AVG(age) FROM people)", "type", "(SELECT AVG(age) FROM people)",
     "CAST"),
    ("SELECT COUNT(*) FROM people WHERE age IN (3, (SELECT AVG(age) FROM people))", "in-list", "(SELECT AVG(age) FROM people)",
     "OR"),
    ("SELECT COUNT(*) FROM people LIMIT (SELECT COUNT(*) FROM people)", "limit", "(SELECT COUNT(*) FROM people)", "LIMIT 10"),
    ("SELECT round(AVG(income), (SELECT COUNT(*) FROM people)) FROM people", "type", "(SELECT COUNT(*) FROM people)", "constant"),
    ("SELECT COUNT(*) FROM visits v JOIN (SELECT city FROM clinics WHERE beds > (SELECT AVG(age) FROM people)) AS c ON v.note = "
     "c.city", "scalar-subquery", "(SELECT AVG(age) FROM people)", "outermost"),
    ("SELECT COUNT(*) FROM people WHERE age > (SELECT beds FROM clinics WHERE beds > (SELECT AVG(age) FROM people))",
     "scalar-subquery", "(SELECT AVG(age) FROM people)", "outermost"),
    # linked
    ("SELECT COUNT(*) FROM people p WHERE age > (SELECT AVG(q.age) FROM people q WHERE q.age < p.age)", "linked", "q.age < p.age",
     "inner.key = outer.key"),
    ("SELECT COUNT(*) FROM visits v WHERE cost > (SELECT AVG(w.cost) FROM visits w WHERE w.person_id = v.person_id AND v.year = "
     "2020)", "linked", "v.year = 2020", "outside"),
    ("SELECT COUNT(*) FROM visits v WHERE cost > (SELECT AVG(w.cost) FROM visits w WHERE w.person_id = v.person_id OR w.year = "
     "v.year)", "linked", "w.person_id = v.person_id OR w.year = v.year", "inner.key = outer.key"),
    ("SELECT COUNT(*) FROM people p WHERE (SELECT SUM(v.cost - p.age) FROM visits v WHERE v.person_id = p.person_id) > 3", "linked",
     "SUM(v.cost - p.age)", "COUNT(*) * p.x"),
    ("SELECT COUNT(*) FROM visits v WHERE cost > (SELECT AVG(w.cost) FROM visits w WHERE w.clinic = v.clinic)", "linked-group",
     "(SELECT AVG(w.cost) FROM visits w WHERE w.clinic = v.clinic)", "inner.key = outer.key"),
    ("SELECT COUNT(*) FROM visits v WHERE cost > (SELECT AVG(w.cost) - v.year FROM visits w)", "linked-group",
     "(SELECT AVG(w.cost) - v.year FROM visits w)", "released first"),
    ("SELECT COUNT(*) FROM people p WHERE (SELECT cost FROM visits v WHERE v.person_id = p.person_id) > 3", "scalar-subquery",
     "(SELECT cost FROM visits v WHERE v.person_id = p.person_id)", "MAX"),
    ("SELECT COUNT(*) FROM people p WHERE (SELECT MIN(cost) FROM visits v WHERE v.person_id = p.person_id LIMIT 1) > 3",
     "inner-limit", "LIMIT 1", "MIN"),
    ("SELECT COUNT(*) FROM people p WHERE (SELECT p.age FROM visits v WHERE v.visit_id = p.person_id) > 3", "linked", "p.age",
     "outside"),
    ("SELECT COUNT(*) FROM people p WHERE (SELECT STDDEV(cost) FROM visits v WHERE v.person_id = p.person_id) > 3",
     "inner-aggregate", "STDDEV(cost)", "MAX"),
    ("SELECT COUNT(*) FROM people p WHERE (SELECT AVG(weight) FROM people q WHERE q.person_id = p.person_id) > 3",
     "no-bounds", "AVG(weight)", "bounds"),
    ("SELECT sex, (SELECT COUNT(*) FROM visits v WHERE v.person_id = p.person_id) FROM people p GROUP BY sex", "group-by",
     "COUNT(*)", "WHERE"),
    ("SELECT COUNT(*) FROM people p HAVING COUNT(*) > (SELECT COUNT(*) FROM visits v WHERE v.person_id = p.person_id)", "group-by",
     "COUNT(*)", "WHERE"),
    ("SELECT COUNT(*) FROM people p JOIN visits v ON v.cost > (SELECT AVG(w.cost) FROM visits w WHERE w.person_id = p.person_id)",
     "join-condition", "v.cost > (SELECT AVG(w.cost) FROM visits w WHERE w.person_id = p.person_id)", "WHERE"),
]


@pytest.mark.parametrize(("text", "code", "place", "hint"), REFUSED, ids=[case[0][28:90] for case in REFUSED])
def test_what_is_refused_is_refused_where_it_stands(text: str, code: str, place: str, hint: str, a_bench: Bench) -> None:
    with pytest.raises((SqlError, Unsupported)) as caught:
        limited_view(a_bench.bind(text), Options(price=None), a_bench.kernel, None)
    fault: Error = caught.value
    assert fault.code == code, fault
    assert fault.span is not None and text[fault.span.start : fault.span.end] == place
    assert hint in fault.try_


def test_a_link_to_limited_values_is_bounded_by_them(a_bench: Bench) -> None:
    """Each of ten rows of a clinic rests on the average of ten, of which an entity has three."""
    question = a_bench.bind("SELECT COUNT(*) FROM visits v WHERE cost > (SELECT AVG(w.cost) FROM visits w WHERE w.clinic = v.clinic)")
    view, known = limited_view(question, Options(price=None, bound="frequency", max_frequency=10), a_bench.kernel, None)
    assert any(isinstance(node, TruncateKeys) for node in nodes(view))
    assert known.rows is not None and known.owners == () and 30 <= known.rows <= 130


def test_a_condition_on_nothing_but_the_value_stays_a_filter(a_bench: Bench) -> None:
    """Awaited values are no columns: the filter may still be seen through to the table."""
    question = a_bench.bind("SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people)")
    assert [type(node) for node in nodes(question.view)][1] is Filter
