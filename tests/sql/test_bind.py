"""Queries to questions: keys with their domains, aggregates, names, clauses on noisy rows, and hints for beginners."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support import worlds
from support.binding import Bench, bench, printed
from support.laws.family import nodes

from dpsql.errors import DataError, Error, SqlError, Unsupported
from dpsql.questions.identity import digest
from dpsql.questions.question import Question
from dpsql.questions.rules.limit_rows import limit_rows
from dpsql.sql.binding.binding_context import MOST_NESTING, MOST_QUERIES
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.expr.nodes import Call, Literal, Ref
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.types import Type


@pytest.fixture(scope="module")
def a_bench() -> Iterator[Bench]:
    with bench(worlds.world(2)) as made:
        yield made


def refusal(a_bench: Bench, text: str, **more: Any) -> Error:
    with pytest.raises((SqlError, Unsupported, DataError)) as caught:
        a_bench.bind(text, **more)
    assert caught.value.span is not None and caught.value.text == text
    return caught.value


def keys(question: Question) -> dict[str, list[Any] | None]:
    """The groups that each key shows; None where they are private."""
    return {key.name: None if key.domain is None else [*key.domain.values, *([None] if key.nullable else [])]
            for key in question.keys}


# -- keys and their domains


@pytest.mark.parametrize(("text", "expected"), [
    ("SELECT sex FROM people GROUP BY sex", {"sex": ["f", "m", None]}),
    ("SELECT clinic FROM visits GROUP BY clinic", {"clinic": ["a", "b", "c", "d", None]}),
    ("SELECT year FROM visits GROUP BY year", {"year": [2018, 2019, 2020, 2021, None]}),
    ("SELECT nickname FROM people GROUP BY nickname", {"nickname": None}),
    ("SELECT active FROM people GROUP BY active", {"active": [False, True, None]}),
    ("SELECT age > 50 AS old FROM people GROUP BY old", {"old": [False, True]}),
    ("SELECT income > 50 FROM people GROUP BY 1", {"income > 50": [False, True, None]}),
    ("SELECT age // 50 AS a FROM people GROUP BY ALL", {"a": [0, 1, 2]}),
    ("SELECT upper(sex) || '!' AS u FROM people GROUP BY u", {"u": ["F!", "M!", None]}),
    ("SELECT sex = 'f' AND year > 2020 AS x FROM people JOIN visits USING (person_id) GROUP BY x", {"x": [False, True, None]}),
    ("SELECT bin_floor(age) AS b FROM people WHERE age > 3 GROUP BY b", {"b": [float(10 * i) for i in range(10)]}),
    ("SELECT CASE WHEN income > 3 THEN 'rich' ELSE 'poor' END AS c FROM people GROUP BY c", {"c": ["poor", "rich"]}),
    ("SELECT CASE WHEN income > 3 THEN 1 END AS c FROM people GROUP BY c", {"c": [1, None]}),
    ("SELECT floor(income / 50000) AS f FROM people GROUP BY f", {"f": [0.0, 1.0, 2.0, None]}),
    ("SELECT year(born) AS y FROM people WHERE TRUE GROUP BY y", {"y": [*range(1920, 2021), None]}),
    ("SELECT date_trunc('year', seen) AS y FROM visits GROUP BY y", {"y": [*(dt.datetime(n, 1, 1) for n in range(2018, 2022)), None]}),
    ("SELECT month(date_trunc('quarter', seen)) AS m FROM visits GROUP BY m", {"m": [1, 4, 7, 10, None]}),
    ("SELECT date_trunc('hour', seen) AS h FROM visits GROUP BY h", {"h": None}),
    ("SELECT date_trunc('month', seen) AS m FROM visits WHERE seen >= '2019-02-10' AND seen < '2019-04-01' GROUP BY m",
     {"m": [dt.datetime(2019, n, 1) for n in (2, 3)]}),
    ("SELECT date_trunc('month', seen) AS m FROM visits WHERE seen > '2019-02-10' AND seen <= '2019-04-01' GROUP BY m",
     {"m": [dt.datetime(2019, n, 1) for n in (2, 3, 4)]}),
    ("SELECT date_trunc('year', born) AS y FROM people WHERE born >= TO_DATE('2018-07-01', 'YYYY-MM-DD') GROUP BY y",
     {"y": [dt.datetime(n, 1, 1) for n in (2018, 2019, 2020)]}),
    ("SELECT date_trunc('week', born) AS w FROM people WHERE born BETWEEN '2018-07-03' AND '2018-07-09' GROUP BY w",
     {"w": [dt.datetime(2018, 7, 2), dt.datetime(2018, 7, 9)]}),
    ("SELECT date_trunc('year', seen) AS y FROM visits WHERE seen >= '2020-01-01' OR seen IS NULL GROUP BY y",
     {"y": [*(dt.datetime(n, 1, 1) for n in range(2018, 2022)), None]}),
    ("SELECT x FROM visits, (VALUES (2), (1), (2)) AS t(x) GROUP BY x", {"x": [1, 2]}),
    ("SELECT x FROM visits, (VALUES (2.5), (NULL)) AS t(x) GROUP BY x", {"x": [2.5, None]}),
    ("SELECT sex, sex FROM people GROUP BY sex, sex", {"sex": ["f", "m", None]}),
    ("SELECT DISTINCT sex, active FROM people", {"sex": ["f", "m", None], "active": [False, True, None]}),
    ("SELECT sex FROM (SELECT DISTINCT sex FROM people) AS t GROUP BY sex", {"sex": ["f", "m", None]}),
    ("SELECT s FROM (SELECT sex AS s FROM people UNION ALL SELECT sex FROM people) AS t GROUP BY s", {"s": ["f", "m", None]}),
    ("SELECT s FROM (SELECT sex AS s FROM people UNION ALL SELECT note FROM visits) AS t GROUP BY s", {"s": None}),
])
def test_keys_know_their_groups(a_bench: Bench, text: str, expected: dict[str, list[Any] | None]) -> None:
    assert keys(a_bench.bind(text)) == expected


def test_a_constant_of_time_that_is_read_by_its_form_is_that_constant(a_bench: Bench) -> None:
    text = "SELECT COUNT(*) FROM visits WHERE seen < TIMESTAMP '2020-01-02 03:04:05.000006' AND seen > DATE '2019-01-02'"
    read = ("SELECT COUNT(*) FROM visits WHERE seen < TO_TIMESTAMP('2020-01-02 03:04:05.000006', 'YYYY-MM-DD HH24:MI:SS.US') "
            "AND seen > to_date('2019-01-02', 'YYYY-MM-DD')")
    assert digest(a_bench.bind(text)) == digest(a_bench.bind(read))


@pytest.mark.parametrize("call", [
    "TO_DATE('2019-13-02', 'YYYY-MM-DD')", "TO_DATE('2019-01-02', 'YYYY-DD-MM')", "TO_DATE('2019-01-02')", "TO_DATE(note, 'YYYY-MM-DD')",
    "TO_TIMESTAMP('2019-01-02', 'YYYY-MM-DD HH24:MI:SS')", "TO_TIMESTAMP(5)", "TO_TIMESTAMP(5, 6)", "TO_DATE('٢019-01-02', 'YYYY-MM-DD')"])
def test_other_readings_of_time_are_refused(call: str, a_bench: Bench) -> None:
    with pytest.raises(Unsupported, match="is not answered"):
        a_bench.bind(f"SELECT COUNT(*) FROM visits WHERE seen > {call}")


def test_left_joined_keys_may_be_null(a_bench: Bench) -> None:
    question = a_bench.bind("SELECT v.visit_id > 3 AS x FROM people p LEFT JOIN visits v USING (person_id) GROUP BY x")
    assert keys(question) == {"x": [False, True, None]}
    assert keys(a_bench.bind("SELECT visit_id > 3 AS x FROM visits GROUP BY x")) == {"x": [False, True]}


# -- aggregates


def calls(question: Question) -> list[tuple[Any, ...]]:
    return [(call.function, len(call.columns), call.when is not None, call.fraction, call.discrete, call.type)
            for call in question.aggregates]


@pytest.mark.parametrize(("text", "expected"), [
    ("COUNT(*)", ("count", 0, False, None, False, Type.BIGINT)), ("COUNT(1)", ("count", 0, False, None, False, Type.BIGINT)),
    ("COUNT(age)", ("count", 1, False, None, False, Type.BIGINT)), ("COUNT(NULL)", ("count", 1, False, None, False, Type.BIGINT)),
    ("COUNT_IF(age > 3)", ("count", 1, False, None, False, Type.BIGINT)),
    ("COUNT(DISTINCT sex)", ("count_distinct", 1, False, None, False, Type.BIGINT)),
    ("SUM(age)", ("sum", 1, False, None, False, Type.BIGINT)), ("SUM(income)", ("sum", 1, False, None, False, Type.DOUBLE)),
    ("MEAN(age)", ("avg", 1, False, None, False, Type.DOUBLE)), ("VARIANCE(age)", ("var_samp", 1, False, None, False, Type.DOUBLE)),
    ("STDDEV_POP(age)", ("stddev_pop", 1, False, None, False, Type.DOUBLE)), ("MIN(born)", ("min", 1, False, None, False, Type.DATE)),
    ("CORR(income, age)", ("corr", 3, False, None, False, Type.DOUBLE)), ("REGR_R2(age, age)", ("regr_r2", 3, False, None, False, Type.DOUBLE)),
    ("REGR_COUNT(income, age)", ("count", 1, False, None, False, Type.BIGINT)),
    ("REGR_AVGX(income, points)", ("avg", 1, False, None, False, Type.DOUBLE)),
    ("MIN(abs(points))", ("min", 1, False, None, False, Type.BIGINT)), ("MIN((points))", ("min", 1, False, None, False, Type.BIGINT)),
    ("MEDIAN(greatest(points, abs(-points)))", ("quantile", 1, False, Fraction(1, 2), False, Type.DOUBLE)),
    ("MAX(age) FILTER (WHERE active)", ("max", 1, True, None, False, Type.BIGINT)),
    ("MEDIAN(age)", ("quantile", 1, False, Fraction(1, 2), False, Type.DOUBLE)),
    ("QUANTILE_DISC(age, 0.1)", ("quantile", 1, False, Fraction(1, 10), True, Type.BIGINT)),
    ("MODE(sex)", ("mode", 1, False, None, False, Type.VARCHAR)),
    ("MODE() WITHIN GROUP (ORDER BY sex DESC)", ("mode", 1, False, None, False, Type.VARCHAR)),
    ("GEOMEAN(age + 1)", ("geomean", 1, False, None, False, Type.DOUBLE)),
    ("APPROX_QUANTILE(age, 0.5)", ("quantile", 1, False, Fraction(1, 2), True, Type.BIGINT)),
    ("QUANTILE(age, 1)", ("quantile", 1, False, Fraction(1), True, Type.BIGINT)),
    ("PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY age DESC)", ("quantile", 1, False, Fraction(7, 10), False, Type.DOUBLE)),
    ("PERCENTILE_DISC(0) WITHIN GROUP (ORDER BY born)", ("quantile", 1, False, Fraction(0), True, Type.DATE)),
])
def test_aggregates_are_read(a_bench: Bench, text: str, expected: tuple[Any, ...]) -> None:
    question = a_bench.bind(f"SELECT {text} FROM people JOIN scores USING (person_id)")
    assert calls(question) == [expected]
    assert question.aggregates[0].text == text == question.outputs[0].name


def test_one_aggregate_that_is_written_often_is_one(a_bench: Bench) -> None:
    question = a_bench.bind("SELECT AVG(age), avg( people.age ) + 1, AVG(age) FILTER (WHERE active) FROM people "
                            "HAVING AVG(age) > 3 ORDER BY AVG(age)")
    assert calls(question) == [("avg", 1, False, None, False, Type.DOUBLE), ("avg", 1, True, None, False, Type.DOUBLE)]
    assert question.outputs[0].expr == question.ordering[0].expr


def test_the_view_holds_what_is_needed_and_the_owner(a_bench: Bench) -> None:
    question = a_bench.bind("SELECT sex, SUM(age + 1), COUNT(*) FILTER (WHERE income > 3) FROM people WHERE nickname = 'al' GROUP BY sex")
    assert [field.name for field in question.view.fields] == ["sex", "age + 1", "income > 3", "person_id"]
    known = stability(limit_rows(question.view), a_bench.kernel)
    assert known.owner == question.view.fields[-1].id and known.rows == 1
    assert a_bench.rows(question.view)


@pytest.mark.parametrize(("text", "names"), [
    ("SELECT sex AS s, COUNT(*) FROM people GROUP BY s", ["s", "COUNT(*)"]),
    ("SELECT  AVG( age )  +  1 , people.sex FROM people GROUP BY 2", ["AVG( age ) + 1", "sex"]),
    ('SELECT COUNT(*) AS "how many", COUNT(*) n FROM people', ["how many", "n"]),
    ("SELECT ?, COUNT(*) FROM people", ["?", "COUNT(*)"]),
])
def test_columns_of_the_answer_have_the_names_of_the_text(a_bench: Bench, text: str, names: list[str]) -> None:
    assert [output.name for output in a_bench.bind(text, {"?1": 3}).outputs] == names


# -- names in each clause: what DuckDB does with an alias that is also a column


def named(question: Question, expr: Any) -> str:
    """What an expression over the groups is: the name of a key, or the text of an aggregate."""
    assert isinstance(expr, Ref)
    found = {key.column: key.name for key in question.keys} | {call.id: call.text for call in question.aggregates}
    return found[expr.column]


def test_order_by_takes_the_alias_before_the_column(a_bench: Bench) -> None:
    question = a_bench.bind("SELECT age AS sex, COUNT(*) AS age FROM people GROUP BY people.age ORDER BY age")
    assert named(question, question.ordering[0].expr) == "COUNT(*)"


def test_having_takes_a_key_before_the_alias_and_the_alias_before_a_column(a_bench: Bench) -> None:
    question = a_bench.bind("SELECT COUNT(*) AS age FROM people GROUP BY people.age HAVING age = 3")
    assert isinstance(question.having, Call) and named(question, question.having.args[0]) == "age"
    question = a_bench.bind("SELECT SUM(age) AS age FROM people GROUP BY sex HAVING age = 3")
    assert isinstance(question.having, Call) and named(question, question.having.args[0]) == "SUM(age)"


def test_group_by_takes_the_column_before_the_alias(a_bench: Bench) -> None:
    assert "neither a key" in refusal(a_bench, "SELECT sex AS age, COUNT(*) FROM people GROUP BY age").reason
    assert [key.name for key in a_bench.bind("SELECT sex AS s, COUNT(*) FROM people GROUP BY s").keys] == ["s"]


def test_where_sees_aliases_of_rows_but_not_of_aggregates(a_bench: Bench) -> None:
    a_bench.bind("SELECT age + 1 AS older, COUNT(*) FROM people WHERE older > 3 GROUP BY older")
    assert refusal(a_bench, "SELECT COUNT(*) AS n FROM people WHERE n > 3").try_.startswith("HAVING n")


def test_an_alias_is_not_made_of_itself(a_bench: Bench) -> None:
    assert refusal(a_bench, "SELECT x + 1 AS x, COUNT(*) FROM people GROUP BY ALL").code == "unknown-column"
    assert refusal(a_bench, "SELECT x + 1 AS y, y + 1 AS x, COUNT(*) FROM people GROUP BY ALL").code == "unknown-column"


def test_a_text_without_quotes_is_recognised(a_bench: Bench) -> None:
    assert refusal(a_bench, "SELECT COUNT(*) FROM people WHERE sex = f").try_.startswith("'f' for a text, or one of active")
    assert "for a text" not in refusal(a_bench, "SELECT COUNT(*) FROM people WHERE sex = q").try_


def test_names_do_not_depend_on_case(a_bench: Bench) -> None:
    question = a_bench.bind('SELECT P.SEX, count(*) AS N FROM PEOPLE AS p WHERE "Age" > 3 GROUP BY p.Sex HAVING n > 3 ORDER BY N')
    assert keys(question) == {"Sex": ["f", "m", None]}


def test_nearest_cte_wins_and_tables_may_hide_behind_ctes(a_bench: Bench) -> None:
    text = ("WITH t AS (SELECT 1 AS a), u AS (WITH t AS (SELECT 2 AS b) SELECT b FROM t), people AS (SELECT 3 AS c) "
            "SELECT COUNT(*) FROM t, u, people WHERE a = 1 AND b = 2 AND c = 3")
    assert a_bench.rows(a_bench.bind(text).view) == [(1,)]
    assert refusal(a_bench, "WITH u AS (SELECT * FROM t), t AS (SELECT 1) SELECT COUNT(*) FROM u").code == "unknown-table"
    assert refusal(a_bench, "WITH t AS (SELECT 1), T AS (SELECT 2) SELECT COUNT(*) FROM t").code == "alias"


# -- clauses on noisy rows


def test_ordering_and_limits(a_bench: Bench) -> None:
    question = a_bench.bind("SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY 2 DESC, 1 NULLS FIRST LIMIT ? OFFSET 2", {"?1": 5})
    assert [(term.descending, term.nulls_first) for term in question.ordering] == [(True, False), (False, True)]
    assert (question.limit, question.offset) == (5, 2)
    question = a_bench.bind("SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY ALL DESC LIMIT ALL")
    assert [named(question, term.expr) for term in question.ordering] == ["sex", "COUNT(*)"]
    assert question.limit is None


@pytest.mark.parametrize("value", [-1, 2.5, True, "x", None])
def test_limits_are_numbers_of_rows(a_bench: Bench, value: Any) -> None:
    assert refusal(a_bench, "SELECT COUNT(*) FROM people LIMIT ?", parameters={"?1": value}).code == "limit"


def test_binding_twice_gives_the_same_question(a_bench: Bench) -> None:
    query = a_bench.query("SELECT DISTINCT sex, age > ? AS old FROM people ORDER BY old LIMIT 3")
    from dpsql.sql.binding.bind import bind
    first, again = (bind(query, a_bench.catalogs["person"], a_bench.kernel, a_bench.scratch, {"?1": 3}) for _ in range(2))
    assert first == again
    assert first != bind(query, a_bench.catalogs["person"], a_bench.kernel, a_bench.scratch, {"?1": 4})


# -- parameters


@pytest.mark.parametrize(("value", "kind"), [
    (3, Type.BIGINT), (3.5, Type.DOUBLE), (True, Type.BOOLEAN), ("x", Type.VARCHAR), (Decimal("1.5"), Type.DOUBLE),
    (dt.date(2020, 1, 1), Type.DATE), (dt.datetime(2020, 1, 1, 12), Type.TIMESTAMP), (None, Type.VARCHAR),
    (np.float64(2.5), Type.DOUBLE), (np.float32(2.5), Type.DOUBLE), (np.int64(3), Type.BIGINT), (np.uint8(3), Type.BIGINT),
    (np.bool_(True), Type.BOOLEAN), (np.str_("x"), Type.VARCHAR), (pd.Timestamp("2020-01-01 12:00"), Type.TIMESTAMP),
])
def test_parameters_become_typed_constants(a_bench: Bench, value: Any, kind: Type) -> None:
    (output, _) = a_bench.bind("SELECT ?, COUNT(*) FROM people", {"?1": value}).outputs
    assert isinstance(output.expr, Literal) and output.expr.type is kind and output.expr.value == value
    assert type(output.expr.value).__module__ in ("builtins", "datetime"), "what is written, stored and compared is Python's own"


def test_a_moment_that_is_none_is_null(a_bench: Bench) -> None:
    (output, _) = a_bench.bind("SELECT ?, COUNT(*) FROM people", {"?1": pd.NaT}).outputs
    assert isinstance(output.expr, Literal) and output.expr.value is None


@pytest.mark.parametrize("value", [2**63, -2**63 - 1, "\x00", "\ud800", b"x", [1], object(), 1j, np.uint64(2**63), np.datetime64("2020-01-01"),
                                   Decimal("sNaN"), pd.NA,
                                   dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.time(1), dt.timedelta(1)])
def test_other_values_are_refused_where_the_parameter_stands(a_bench: Bench, value: Any) -> None:
    fault = refusal(a_bench, "SELECT COUNT(*) FROM people WHERE age = :x", parameters={"x": value})
    assert isinstance(fault, DataError) and fault.span is not None
    assert fault.text[fault.span.start : fault.span.end] == ":x"


def test_a_missing_value_is_asked_for(a_bench: Bench) -> None:
    assert refusal(a_bench, "SELECT COUNT(*) FROM people WHERE age = $x").subject == "$x"


def test_parameters_are_values_and_never_text(a_bench: Bench) -> None:
    evil = "x' OR 1 = 1 --"
    question = a_bench.bind("SELECT COUNT(*) FROM people WHERE nickname = ?", {"?1": evil})
    assert printed(question.view).count("x'' OR 1 = 1 --") == 1
    assert a_bench.rows(question.view) == []


# -- whose rows


@pytest.mark.parametrize(("text", "rows"), [
    ("SELECT COUNT(*) FROM people", 1), ("SELECT COUNT(*) FROM visits", 3), ("SELECT COUNT(*) FROM people JOIN visits USING (person_id)", 3),
    ("SELECT COUNT(*) FROM people p, visits v WHERE p.person_id = v.person_id AND v.clinic IN (SELECT clinic FROM clinics)", 3),
    ("SELECT COUNT(*) FROM visits JOIN clinics USING (clinic)", 3),
    ("SELECT COUNT(*) FROM (SELECT person_id, COUNT(*) FROM visits GROUP BY person_id) AS t", 1),
    ("SELECT COUNT(*) FROM (SELECT DISTINCT person_id FROM visits) AS t", 1),
    ("SELECT COUNT(*) FROM (SELECT person_id FROM visits UNION ALL SELECT person_id FROM people) AS t", 4),
    ("SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person_id = p.person_id)", 1),
    ("SELECT COUNT(*) FROM people p JOIN visits v USING (person_id) JOIN visits w ON w.person_id = v.person_id", 9),
])
def test_rows_of_one_person(a_bench: Bench, text: str, rows: int) -> None:
    assert stability(limit_rows(a_bench.bind(text).view), a_bench.kernel).rows == rows


@pytest.mark.parametrize(("text", "rows"), [
    ("SELECT COUNT(*) FROM households", 1), ("SELECT COUNT(*) FROM people", 4), ("SELECT COUNT(*) FROM visits", 12),
    ("SELECT COUNT(*) FROM people JOIN visits USING (person_id)", 12),
    ("SELECT COUNT(*) FROM people p, visits v WHERE p.person_id = v.person_id", 12),
    ("SELECT COUNT(*) FROM people p, visits v WHERE v.clinic = 'a' AND v.person_id = p.person_id AND EXISTS "
     "(SELECT 1 FROM scores s WHERE s.person_id = p.person_id)", 12),
    ("SELECT COUNT(*) FROM households h JOIN people p USING (household_id) JOIN visits v ON v.person_id = p.person_id", 12),
    ("SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person_id = p.person_id)", 4),
    ("SELECT COUNT(*) FROM people WHERE person_id IN (SELECT person_id FROM visits)", 4),
    ("SELECT COUNT(*) FROM visits v JOIN visits w ON v.person_id = w.person_id", 144),
    ("SELECT COUNT(*) FROM visits v JOIN visits w USING (visit_id)", 12),
    ("SELECT COUNT(*) FROM (SELECT person_id, COUNT(*) FROM visits GROUP BY person_id) AS t", 12),
    ("SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM scores s WHERE s.person_id = v.person_id)", 12),
])
def test_rows_of_one_household(a_bench: Bench, text: str, rows: int) -> None:
    question = a_bench.bind(text, budget="household")
    assert stability(limit_rows(question.view), a_bench.kernel).rows == rows
    a_bench.rows(question.view)


def test_equal_numbers_of_other_columns_do_not_make_owners_equal(a_bench: Bench) -> None:
    """An equality of owners is added only where the text implies it: it would change what is asked."""
    for text in ("SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.year = p.person_id + 2015)",
                 "SELECT COUNT(*) FROM people p WHERE p.person_id IN (SELECT points FROM scores)",
                 "SELECT COUNT(*) FROM people p JOIN scores s ON s.points = p.person_id",
                 "SELECT COUNT(*) FROM people p SEMI JOIN scores s ON s.points = p.person_id",
                 "SELECT COUNT(*) FROM people p FULL JOIN scores s ON s.points = p.person_id"):
        found = a_bench.bind(text).view
        assert (len(a_bench.rows(found)),) == a_bench.plain.execute(text).fetchone()
        assert stability(limit_rows(found), a_bench.kernel).owner is None


def test_in_with_private_rows_means_false_for_null_where_rows_are_kept(a_bench: Bench) -> None:
    joined, test = "FROM people p LEFT JOIN visits v USING (person_id)", "v.person_id IN (SELECT person_id FROM scores)"
    text = f"SELECT COUNT(*) {joined} WHERE {test}"
    found = a_bench.bind(text).view
    assert (len(a_bench.rows(found)),) == a_bench.plain.execute(text).fetchone()
    assert stability(limit_rows(found), a_bench.kernel).owner is not None
    for text in (f"SELECT COUNT(*) {joined} WHERE NOT {test}", f"SELECT COUNT(*) FILTER (WHERE {test}) {joined}",
                 f"SELECT COUNT(*) {joined} WHERE ({test}) IS NULL", f"SELECT COUNT(*) {joined} WHERE p.age > 3 OR NOT ({test})"):
        assert refusal(a_bench, text).code == "null-list"


def test_a_list_that_keeps_rows_shows_no_marks(a_bench: Bench) -> None:
    """A listed row then changes half as many rows."""
    for text, keep in (("SELECT COUNT(*) FROM clinics c WHERE EXISTS (SELECT 1 FROM visits v WHERE v.clinic = c.clinic)", True),
                       ("SELECT COUNT(*) FROM clinics c WHERE NOT (EXISTS (SELECT 1 FROM visits v WHERE v.clinic = c.clinic))", False),
                       ("SELECT COUNT(*) FROM clinics WHERE beds > 3 AND clinic IN (SELECT clinic FROM visits)", True),
                       ("SELECT COUNT(*) FROM clinics WHERE beds > 3 OR clinic IN (SELECT clinic FROM visits)", None)):
        view = a_bench.bind(text).view
        (lookup,) = [node for node in nodes(view) if isinstance(node, Lookup)]
        assert lookup.keep is keep
        assert stability(limit_rows(view), a_bench.kernel).rows == (6 if keep is None else 3)


# -- caps


def test_ctes_that_double_are_refused(a_bench: Bench) -> None:
    parts = "".join(f", a{i} AS (SELECT * FROM a{i - 1} UNION ALL SELECT * FROM a{i - 1})" for i in range(1, 11))
    text = f"WITH a0 AS (SELECT * FROM people){parts} SELECT COUNT(*) FROM a10"
    assert str(MOST_QUERIES) in refusal(a_bench, text).reason


def test_deep_nests_are_refused(a_bench: Bench) -> None:
    parts = "".join(f", a{i} AS (SELECT * FROM a{i - 1})" for i in range(1, MOST_NESTING + 2))
    text = f"WITH a0 AS (SELECT * FROM people){parts} SELECT COUNT(*) FROM a{{}}"
    a_bench.bind(text.format(MOST_NESTING - 1))
    assert refusal(a_bench, text.format(MOST_NESTING)).code == "too-deep"
    assert refusal(a_bench, "SELECT SUM(" + " + ".join(["age"] * 300) + ") FROM people").code == "too-deep"


def test_long_conditions_are_not_deep(a_bench: Bench) -> None:
    for word in ("OR", "AND"):
        text = "SELECT COUNT(*) FROM people WHERE " + f" {word} ".join(f"age <> {i}" for i in range(500))
        assert len(a_bench.rows(a_bench.bind(text).view)) <= 12


@pytest.mark.parametrize("expression", [
    "sqrt(" * 20 + "income" + ")" * 20 + " > 1", "(" * 25 + "active" + " BETWEEN false AND true)" * 25,
    "pow(" * 12 + "age" + ", 2)" * 12 + " > 1",
])
def test_expressions_that_grow_when_they_are_printed_are_refused(a_bench: Bench, expression: str) -> None:
    assert refusal(a_bench, f"SELECT COUNT(*) FROM people WHERE {expression}").code == "too-large"


# -- hints


@pytest.mark.parametrize(("text", "hint"), [
    ("SELECT AVG(agee) FROM people", "age"), ("SELECT AVG(p.incme) FROM people p", "income"), ("SELECT AVG(peple.age) FROM people", "people"),
    ("SELECT COUNT(*) FROM vists", "visits"), ("WITH adults AS (SELECT * FROM people) SELECT COUNT(*) FROM adult", "adults"),
    ("SELECT CUONT(*) FROM people", "count"), ("SELECT AGV(age) FROM people", "avg"), ("SELECT MEDAIN(age) FROM people", "median"),
    ("SELECT COUNT(*) FROM people WHERE lowr(sex) = 'f'", "lower"), ("SELECT COUNT(*) FROM people WHERE substrng(sex, 1, 1) = 'f'", "substring"),
    ("SELECT COUNT(*) FROM people WHERE sex = 1", "'1'"), ("SELECT COUNT(*) FROM people WHERE born > 1990", "DATE '2020-12-31'"),
    ("SELECT cost FROM people", "FROM ... JOIN visits ..."), ("SELECT sex FROM people GROUP BY 2", "1"),
    ("SELECT person_id, COUNT(*) FROM people p JOIN visits v ON p.person_id = v.person_id GROUP BY person_id", "p.person_id"),
    ("SELECT MAX(seen) FROM visits", "MAX(CAST(x AS DATE))"), ("SELECT MIN(sex) FROM people", "COUNT(*) with GROUP BY, which shows which values occur"),
    ("SELECT COUNT(*) FROM people WHERE sex = \"f\"", "'f' for a text, or one of active, age, born, household_id, income, nickname, person_id, sex, weight"),
    ("SELECT COUNT(*) FROM people WHERE sex = “it’s”", "'it’s' for a text, or one of active, age, born, household_id, income, nickname, person_id, sex, weight"),
    ("SELECT COUNT(*) FROM people JOIN visits USING (age)", "ON a.key = b.key, where the two have different names"),
    ("SELECT SUM(active) FROM people", "COUNT(*) FILTER (WHERE x)"), ("SELECT date_trunc('mnth', born) AS m FROM people GROUP BY m",
                                                                    "one of year, quarter, month, week, day, hour, minute, second"),
])
def test_mistakes_are_met_with_what_to_write(a_bench: Bench, text: str, hint: str) -> None:
    assert refusal(a_bench, text).try_ == hint


@pytest.mark.parametrize(("text", "place"), [
    ("SELECT AVG(age), AVG(agee) FROM people", "agee"), ("SELECT COUNT(*)\nFROM people p\nJOIN vists v USING (person_id)", "vists"),
    ("SELECT COUNT(*) FROM people WHERE age > 3 AND sex = 4", "4"), ("SELECT COUNT(*) FROM people JOIN visits USING (person_id, agee)", "agee"),
    ("SELECT sex, upper(nickname), COUNT(*) FROM people GROUP BY sex", "nickname"),
    ("SELECT SUM(CASE WHEN active THEN 'x' ELSE 1 END) FROM people", "'x'"),
    ("SELECT COUNT(*) FROM people WHERE age IN (1, sex)", "sex"), ("SELECT COUNT(*) FROM people WHERE round(income, age) = 1", "age"),
    ("SELECT COUNT(*) FROM people ORDER BY 1, 5", "5"), ("SELECT COUNT(*) FROM people LIMIT 2.5", "2.5"),
    ("SELECT COUNT(*) FROM (SELECT age FROM people LIMIT 3) AS t", "LIMIT 3"),
    ("SELECT COUNT(*) FROM people WHERE born + INTERVAL 3 MICROSECOND > '2020-01-01'", "INTERVAL 3 MICROSECOND"),
])
def test_refusals_point_at_the_part_that_is_wrong(a_bench: Bench, text: str, place: str) -> None:
    span = refusal(a_bench, text).span
    assert span is not None and text[span.start : span.end] == place
