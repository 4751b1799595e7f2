"""What a refusal proposes is answered, and means what was asked: DuckDB's answer to the refused text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.golden.comparison import PLENTY, compare, released
from support.golden.dense import dense
from support.sessions import reader_of, session_of

from dpsql.audit.exact import Exact
from dpsql.engine.session import Session
from dpsql.errors import Error
from dpsql.sql.text.syntax import WORDS

PEOPLE, VISITS = "SELECT COUNT(*) FROM people WHERE ", "SELECT COUNT(*) FROM visits WHERE "

# (refused, what of the advice is followed, the statement that follows it)
SAME = [
    ("SELECT SUM(DISTINCT age), COUNT(*) FROM people", "(SELECT SUM(DISTINCT x) FROM t)",
     "SELECT (SELECT SUM(DISTINCT age) FROM people) AS s, COUNT(*) FROM people"),
    ("SELECT SUM(s) FROM (SELECT person_id, SUM(DISTINCT year) AS s FROM visits GROUP BY person_id) AS t", "SELECT DISTINCT k, x",
     "SELECT SUM(s) FROM (SELECT person_id, SUM(year) AS s FROM (SELECT DISTINCT person_id, year FROM visits) AS d GROUP BY person_id) AS t"),
    ("SELECT SUM(a.cost - b.cost) FROM visits a ASOF JOIN visits b ON a.person_id = b.person_id AND a.visit_id >= b.visit_id",
     "QUALIFY ROW_NUMBER()", "SELECT SUM(d) FROM (SELECT a.cost - b.cost AS d FROM visits a JOIN visits b ON a.person_id = b.person_id AND "
     "a.visit_id >= b.visit_id QUALIFY ROW_NUMBER() OVER (PARTITION BY a.visit_id ORDER BY b.visit_id DESC) = 1) AS t"),
    (VISITS + "seen - TIMESTAMP '2020-01-01 00:00:00' > INTERVAL 1 DAY", "date_diff('second', a, b)",
     VISITS + "date_diff('second', TIMESTAMP '2020-01-01 00:00:00', seen) > 86400"),
    (PEOPLE + "sex COLLATE NOCASE = 'F'", "lower(x) = lower(y)", PEOPLE + "lower(sex) = lower('F')"),
    (PEOPLE + "nickname[1] = 'a'", "substring(x, 1, 2)", PEOPLE + "substring(nickname, 1, 1) = 'a'"),
    (PEOPLE + "age IN (30, 40, household_id)", "x = a OR x = b", PEOPLE + "age = 30 OR age = 40 OR age = household_id"),
    ("SELECT SUM(active) FROM people", "COUNT(*) FILTER", "SELECT COUNT(*) FILTER (WHERE active) FROM people"),
    ("SELECT BOOL_OR(cost > 100) FROM visits", "COUNT(*) FILTER", "SELECT COUNT(*) FILTER (WHERE cost > 100) > 0 FROM visits"),
    ("SELECT SUM(n) FROM people p, LATERAL (SELECT COUNT(*) AS n FROM visits v WHERE v.person_id = p.person_id HAVING TRUE) AS t",
     "the subquery as a value", "SELECT SUM(n) FROM (SELECT (SELECT COUNT(*) FROM visits v WHERE v.person_id = p.person_id) AS n FROM "
     "people p) AS t"),
    ("SELECT SUM(c) FROM (SELECT first(cost ORDER BY visit_id DESC) AS c FROM visits WHERE cost > 0 GROUP BY person_id) AS t", "QUALIFY",
     "SELECT SUM(cost) FROM (SELECT cost FROM visits WHERE cost > 0 QUALIFY ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY visit_id "
     "DESC) = 1) AS t"),
    ("SELECT AVG(cost) FROM (SELECT DISTINCT ON (person_id) cost FROM visits WHERE cost > 0 QUALIFY ROW_NUMBER() OVER (PARTITION BY "
     "person_id ORDER BY visit_id) < 9 ORDER BY person_id, visit_id) AS t", "QUALIFY ROW_NUMBER()",
     "SELECT AVG(cost) FROM (SELECT cost FROM visits WHERE cost > 0 QUALIFY ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY visit_id) = 1) "
     "AS t"),
]

# the same, where DuckDB has no such text, or ranks are approximate: it is answered
ANSWERED = [
    (PEOPLE + "age BETWEEN SYMMETRIC 40 AND 20", "least(a, b) AND greatest(a, b)", PEOPLE + "age BETWEEN least(40, 20) AND greatest(40, 20)"),
    ("SELECT MIN(seen) FROM visits", "MIN(CAST(x AS DATE))", "SELECT MIN(CAST(seen AS DATE)) FROM visits"),
    ("SELECT MEDIAN(born) FROM people", "quantile_disc(x, 0.5)", "SELECT quantile_disc(born, 0.5) FROM people"),
    ("SELECT a.nickname, COUNT(*) FROM people a JOIN people b USING (household_id) GROUP BY a.nickname",
     "OPTIONS (bound = 'frequency', max_frequency = 10)", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'frequency', max_frequency = 10, "
     "epsilon = 5, delta = 1e-6) a.nickname, COUNT(*) FROM people a JOIN people b USING (household_id) GROUP BY a.nickname"),
    *((text, "x <= (SELECT QUANTILE_CONT(x, 0.25) FROM t)", "SELECT CASE WHEN age <= (SELECT QUANTILE_CONT(age, 0.25) FROM people) THEN 1 "
       "ELSE 2 END AS q, COUNT(*) FROM people GROUP BY q") for text in (
        "SELECT NTILE(4) OVER (ORDER BY age) AS q, COUNT(*) FROM people GROUP BY 1",
        "SELECT q, COUNT(*) FROM (SELECT NTILE(4) OVER (ORDER BY age) AS q FROM people) AS t GROUP BY q",
        "SELECT COUNT(*) FROM (SELECT RANK() OVER (ORDER BY age) AS q FROM people) AS t WHERE q < 50",
        "SELECT COUNT(*) FROM (SELECT CUME_DIST() OVER (ORDER BY age) AS q FROM people) AS t WHERE q < 0.25")),
    ("SELECT AVG(s) FROM (SELECT SUM(age) OVER (ORDER BY age) AS s FROM people) AS t", "ROWS BETWEEN 6 PRECEDING AND CURRENT ROW",
     "SELECT AVG(s) FROM (SELECT SUM(age) OVER (ORDER BY age ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS s FROM people) AS t"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (strategy = 'auto') a.sex, COUNT(*) FROM people a JOIN people b USING (household_id) "
     "GROUP BY ROLLUP (a.sex)", "the statement without strategy",
     "SELECT a.sex, COUNT(*) FROM people a JOIN people b USING (household_id) GROUP BY ROLLUP (a.sex)"),
    ("SELECT a.sex, COUNT(*) FROM people a JOIN people b USING (household_id) GROUP BY ROLLUP (a.sex) ERROR WITHIN 50", "OPTIONS (epsilon = 0.5)",
     "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) a.sex, COUNT(*) FROM people a JOIN people b USING (household_id) "
     "GROUP BY ROLLUP (a.sex)"),
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    made = session_of(tmp_path_factory.mktemp("advice"), reader=reader_of(dense()), noise=Exact(), at=PLENTY)
    yield made
    made.close()


def advice(text: str, session: Session) -> str:
    with pytest.raises(Error) as caught:
        released(text, session)
    return caught.value.try_


@pytest.mark.parametrize(("refused", "says", "instead"), SAME)
def test_what_is_proposed_means_what_was_asked(refused: str, says: str, instead: str, session: Session) -> None:
    assert says in advice(refused, session)
    assert compare(instead, session, spelled=refused) == ""


@pytest.mark.parametrize(("refused", "says", "instead"), ANSWERED)
def test_what_is_proposed_is_answered(refused: str, says: str, instead: str, session: Session) -> None:
    assert says in advice(refused, session)
    assert released(instead, session)[0].rows


OTHER = ("mad(age)", "geomean(age)", "cot(age)", "asinh(age)", "bit_count(age)", "entropy(age)", "histogram(age)", "kurtosis(age)",
         "sinh(age)", "hex(nickname)", "ord(nickname)", "regexp_extract_all(nickname, 'a')", "list_contains(['a'], nickname)",
         "isoyear(born)", "yearweek(born)", "millisecond(born)")


@pytest.mark.parametrize("call", OTHER)
def test_no_other_function_is_proposed_for_one_of_duckdbs(call: str, session: Session) -> None:
    assert advice(f"SELECT COUNT(*) FROM people WHERE {call} IS NULL", session).lower() not in WORDS


@pytest.mark.parametrize(("slip", "meant"), [("lenght(nickname)", "length"), ("substing(nickname, 1)", "substring"), ("rouund(age)", "round")])
def test_slips_are_corrected(slip: str, meant: str, session: Session) -> None:
    assert advice(f"SELECT COUNT(*) FROM people WHERE {slip} IS NULL", session) == meant
