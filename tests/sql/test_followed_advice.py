"""The advice of refusals works: what it proposes, written into the refused statement, is answered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.golden.comparison import PLENTY, released
from support.golden.dense import dense
from support.grammar_sentences import refused as refusals
from support.sessions import reader_of, session_of

from dpsql.audit.exact import Exact
from dpsql.engine.session import Session
from dpsql.errors import Error

PEOPLE, VISITS = "SELECT COUNT(*) FROM people WHERE ", "SELECT COUNT(*) FROM visits WHERE "
OPTIONS = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 5, delta = 1e-6, "
WINDOW = "SELECT COUNT(*) FROM (SELECT {0} AS n FROM visits) AS t"

# (code, refused statement, what of the advice is followed, the statement that follows it)
FOLLOWED = [
    ("not-accepted", PEOPLE + "1 < age < 30", "a < b AND b < c", PEOPLE + "1 < age AND age < 30"),
    ("not-accepted", PEOPLE + "~age + 1 = 1", "(~x) + 1", PEOPLE + "(~age) + 1 = 1"),
    ("not-accepted", PEOPLE + "nickname[1] = 'a'", "substring(x, 1, 2)", PEOPLE + "substring(nickname, 1, 2) = 'a'"),
    ("not-accepted", PEOPLE + "nickname COLLATE NOCASE = 'a'", "lower(x) = lower(y)", PEOPLE + "lower(nickname) = lower('a')"),
    ("not-accepted", "SELECT sex, COUNT(*) FROM people GROUP BY sex WITH ROLLUP", "GROUP BY ROLLUP (a, b)",
     "SELECT sex, COUNT(*) FROM people GROUP BY ROLLUP (sex)"),
    ("not-accepted", "SELECT COUNT(*) FROM visits PIVOT (SUM(cost) FOR year IN (2018, 2019))", "SUM(...) FILTER (WHERE ...)",
     "SELECT SUM(cost) FILTER (WHERE year = 2018), SUM(cost) FILTER (WHERE year = 2019) FROM visits"),
    ("not-accepted", "SELECT AVG(width_bucket(age, 0, 100, 10)) FROM people", "floor(x / 10)", "SELECT AVG(floor(age / 10)) FROM people"),
    ("not-accepted", "SELECT KURTOSIS(age) FROM people", "QUANTILE_CONT(x, 0.1), MEDIAN(x), QUANTILE_CONT(x, 0.9)",
     "SELECT QUANTILE_CONT(age, 0.1), MEDIAN(age), QUANTILE_CONT(age, 0.9) FROM people"),
    ("not-accepted", "SELECT REGR_SXX(age, income) FROM people", "VAR_POP(x) * COUNT(x)",
     "SELECT VAR_POP(income) * COUNT(income) FROM people WHERE age IS NOT NULL"),
    ("not-accepted", "SELECT LIST(age) FROM people", "COUNT(*) with GROUP BY x", "SELECT age, COUNT(*) FROM people GROUP BY age"),
    ("not-accepted", "SELECT APPROX_COUNT_DISTINCT(sex) FROM people", "COUNT(DISTINCT x)", "SELECT COUNT(DISTINCT sex) FROM people"),
    ("not-accepted", "SELECT FIRST(age) FROM people", "MIN or MAX", "SELECT MIN(age), MAX(age) FROM people"),
    ("not-accepted", "SELECT COUNT(*) FROM people, UNNEST([age, 1]) AS u(x)", "UNNEST([1, 2, 3]) AS u(x)",
     "SELECT COUNT(*) FROM people, UNNEST([1, 2, 3]) AS u(x)"),
    ("not-accepted", "SELECT COUNT(*) FROM range(10000)", "generate_series(0, 90, 10) AS s(x)",
     "SELECT COUNT(*) FROM generate_series(0, 90, 10) AS s(x)"),
    ("not-accepted", PEOPLE + "age > ANY (income)", "x > ANY ([1, 2])", PEOPLE + "age > ANY ([1, 2])"),
    ("not-accepted", PEOPLE + "born < current_date", "DATE '2020-12-31'", PEOPLE + "born < DATE '2020-12-31'"),
    ("not-accepted", PEOPLE + "age BETWEEN SYMMETRIC 30 AND 20", "least(a, b) AND greatest(a, b)",
     PEOPLE + "age BETWEEN least(30, 20) AND greatest(30, 20)"),
    ("values", "SELECT COUNT(*) FROM (VALUES (1 + 1)) AS t", "SELECT 1 + 1 AS x UNION ALL SELECT 3",
     "SELECT COUNT(*) FROM (SELECT 1 + 1 AS x UNION ALL SELECT 3) AS t"),
    ("operator", PEOPLE + "age ^ 2 = 9", "pow(a, b)", PEOPLE + "pow(age, 2) = 9"),
    ("in-list", VISITS + "clinic IN ('a', note)", "x = a OR x = b", VISITS + "clinic = 'a' OR clinic = note"),
    ("in-list", PEOPLE + "age > ANY (SELECT beds, clinic FROM clinics)", "(SELECT x FROM t)", PEOPLE + "age > ANY (SELECT beds FROM clinics)"),
    ("tuple", VISITS + "(clinic, year) > ('a', 2020)", "(a, b) = (1, 2)", VISITS + "(clinic, year) = ('a', 2020)"),
    ("null-list", VISITS + "(clinic, year) NOT IN (SELECT clinic, beds FROM clinics)", "NOT EXISTS (SELECT 1 FROM t WHERE t.a = x AND t.b = y)",
     "SELECT COUNT(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM clinics t WHERE t.clinic = v.clinic AND t.beds = v.year)"),
    ("null-list", VISITS + "clinic NOT IN (SELECT clinic FROM visits WHERE cost > 100)", "bound = 'frequency', max_frequency = 10",
     OPTIONS + "bound = 'frequency', max_frequency = 10) COUNT(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM visits t WHERE "
     "t.clinic = v.clinic AND t.cost > 100)"),
    ("distinct-aggregate", "SELECT COUNT(DISTINCT age, sex) FROM people", "SELECT COUNT(*) FROM (SELECT DISTINCT a, b FROM t) AS d",
     "SELECT COUNT(*) FROM (SELECT DISTINCT age, sex FROM people) AS d"),
    ("distinct-aggregate", "SELECT quantile_disc(DISTINCT age, 0.25) FROM people",
     "SELECT quantile_disc(x, 0.25) FROM (SELECT DISTINCT x FROM t) AS d",
     "SELECT quantile_disc(age, 0.25) FROM (SELECT DISTINCT age FROM people) AS d"),
    ("distinct-aggregate", "SELECT STDDEV(DISTINCT age) FROM people", "SELECT STDDEV_SAMP(x) FROM (SELECT DISTINCT x FROM t) AS d",
     "SELECT STDDEV_SAMP(x) FROM (SELECT DISTINCT age AS x FROM people) AS d"),
    ("quantile", "SELECT QUANTILE_CONT(age, [0.1, 0.9]) + 1 FROM people", "quantile_cont(age, 0.1), quantile_cont(age, 0.9)",
     "SELECT quantile_cont(age, 0.1) + 1, quantile_cont(age, 0.9) + 1 FROM people"),
    ("quantile", "SELECT QUANTILE_CONT(age) FROM people", "percentile_cont(0.5) WITHIN GROUP (ORDER BY x)",
     "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY age) FROM people"),
    ("type", "SELECT REGR_SLOPE(age) FROM people", "REGR_SLOPE(y, x)", "SELECT REGR_SLOPE(age, income) FROM people"),
    ("type", "SELECT AVG(born) FROM people", "year(x)", "SELECT AVG(year(born)) FROM people"),
    ("type", "SELECT SUM(sex) FROM people", "COUNT(x)", "SELECT COUNT(sex) FROM people"),
    ("type", PEOPLE + "born - age > '2000-01-01'", "date_diff('day', a, b)", PEOPLE + "date_diff('day', born, DATE '2000-01-01') > age"),
    ("type", PEOPLE + "active = 1", "TRUE", PEOPLE + "active = TRUE"),
    ("no-bounds", "SELECT GEOMEAN(age) FROM people", "GEOMEAN(LEAST(GREATEST(x, 1), 1000))", "SELECT GEOMEAN(LEAST(GREATEST(age, 1), 1000)) FROM people"),
    ("no-bounds", "SELECT MODE() WITHIN GROUP (ORDER BY income) FROM people", "a SELECT of x and COUNT(*) with GROUP BY x ORDER BY 2 DESC LIMIT 1",
     "SELECT income, COUNT(*) FROM people GROUP BY income ORDER BY 2 DESC LIMIT 1"),
    ("no-bounds", "SELECT AVG(s) FROM (SELECT person_id, SUM(weight) AS s FROM people GROUP BY person_id) AS t", "LEAST(GREATEST(x, 0), 1000)",
     "SELECT AVG(s) FROM (SELECT person_id, SUM(LEAST(GREATEST(weight, 0), 1000)) AS s FROM people GROUP BY person_id) AS t"),
    ("unknown-function", "SELECT MAD(age) FROM people", "MEDIAN(abs(x - (SELECT MEDIAN(x) FROM t)))",
     "SELECT MEDIAN(abs(age - (SELECT MEDIAN(age) FROM people))) FROM people"),
    ("unknown-function", "SELECT PRODUCT(age) FROM people", "exp(SUM(ln(x)))", "SELECT exp(SUM(ln(GREATEST(age, 1)))) FROM people"),
    ("unknown-function", "SELECT HISTOGRAM(age) FROM people", "a SELECT of x and COUNT(*) with GROUP BY x ORDER BY 2 DESC LIMIT 3",
     "SELECT age, COUNT(*) FROM people GROUP BY age ORDER BY 2 DESC LIMIT 3"),
    ("unknown-function", "SELECT AVG(EXTRACT(YEAR FROM age(born))) FROM people", "EXTRACT(YEAR FROM age(DATE '2020-12-31', born))",
     "SELECT AVG(EXTRACT(YEAR FROM age(DATE '2020-12-31', born))) FROM people"),
    *(("unknown-function", PEOPLE + "frobnicate(age) = 3", says, PEOPLE + follows) for says, follows in (
        ("CASE WHEN", "CASE WHEN age > 3 THEN 1 END = 1"), ("round(x, 1)", "round(income, 1) = 3"),
        ("regexp_extract(x, 'p')", "regexp_extract(nickname, 'p') = 'p'"), ("date_trunc('month', d)", "date_trunc('month', born) = '2000-01-01'"))),
    ("interval", PEOPLE + "age(DATE '2020-12-31', born) > INTERVAL 30 YEAR", "EXTRACT(YEAR FROM age(DATE '2020-12-31', born))",
     PEOPLE + "EXTRACT(YEAR FROM age(DATE '2020-12-31', born)) >= 30"),
    ("interval", "SELECT AVG(EXTRACT(MONTH FROM age(DATE '2020-12-31', born))) FROM people", "date_sub('month', born, DATE '2020-12-31')",
     "SELECT AVG(date_sub('month', born, DATE '2020-12-31')) FROM people"),
    ("interval", "SELECT AVG(EXTRACT(YEAR FROM age(seen, born))) FROM people JOIN visits USING (person_id)", "date_sub('year', earlier, later)",
     "SELECT AVG(date_sub('year', born, seen)) FROM people JOIN visits USING (person_id)"),
    ("interval", PEOPLE + "born + INTERVAL 3 MICROSECOND > '2000-01-01'", "INTERVAL 3 DAY", PEOPLE + "born + INTERVAL 3 DAY > '2000-01-01'"),
    ("bins", "SELECT bin_floor(income) AS b, COUNT(*) FROM people GROUP BY b", "floor(income / 10) * 10",
     "SELECT floor(income / 10) * 10 AS b, COUNT(*) FROM people GROUP BY b"),
    ("aggregate-here", "SELECT BOOL_AND(active) FROM people", "COUNT(*) FILTER (WHERE NOT x)", "SELECT COUNT(*) FILTER (WHERE NOT active) FROM people"),
    ("aggregate-here", "SELECT ANY_VALUE(age) FROM people", "MIN or MAX", "SELECT MIN(age) FROM people"),
    ("aggregate-here", "SELECT ARG_MAX(sex, age) FROM people", "SELECT AVG(v) FROM (SELECT k, ARG_MAX(x, y) AS v FROM t GROUP BY k) AS s",
     "SELECT AVG(v) FROM (SELECT person_id, ARG_MAX(age, age) AS v FROM people GROUP BY person_id) AS s"),
    ("aggregate-here", PEOPLE + "COUNT(*) > 3", "HAVING", "SELECT COUNT(*) FROM people HAVING COUNT(*) > 3"),
    ("group-by", "SELECT age, COUNT(*) FROM people", "GROUP BY age", "SELECT age, COUNT(*) FROM people GROUP BY age"),
    ("group-by", "SELECT sex, active, COUNT(*) FROM people GROUP BY (sex, active)", "GROUP BY a, b",
     "SELECT sex, active, COUNT(*) FROM people GROUP BY sex, active"),
    ("group-by", "SELECT clinic IN (SELECT clinic FROM clinics), COUNT(*) FROM visits GROUP BY clinic", "a key of GROUP BY",
     "SELECT clinic IN (SELECT clinic FROM clinics) AS known, COUNT(*) FROM visits GROUP BY known"),
    ("outer-union", "SELECT age FROM people UNION ALL SELECT year FROM visits", "SELECT (SELECT COUNT(*) FROM a), (SELECT COUNT(*) FROM b)",
     "SELECT (SELECT COUNT(*) FROM people), (SELECT COUNT(*) FROM visits)"),
    ("window-frame", WINDOW.format("SUM(cost) OVER (PARTITION BY person_id ORDER BY year RANGE 1 PRECEDING)"), "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
     WINDOW.format("SUM(cost) OVER (PARTITION BY person_id ORDER BY year ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)")),
    ("window-frame", "SELECT COUNT(n) FROM (SELECT NTH_VALUE(cost, 2) OVER (PARTITION BY person_id ORDER BY seen ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) "
     "AS n FROM visits) AS t", "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
     WINDOW.format("NTH_VALUE(cost, 2) OVER (PARTITION BY person_id ORDER BY seen ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)")),
    ("window-number", WINDOW.format("NTILE(0) OVER (PARTITION BY person_id ORDER BY cost)"), "NTILE(4)",
     WINDOW.format("NTILE(4) OVER (PARTITION BY person_id ORDER BY cost)")),
    ("window-here", "SELECT COUNT(*) FROM visits WHERE ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY seen) = 1", "SELECT *, LAG(x) OVER",
     "SELECT COUNT(*) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY seen) AS y FROM visits) AS u WHERE y = 1"),
    ("shared-window", "SELECT COUNT(*) FROM (SELECT PERCENT_RANK() OVER (ORDER BY cost DESC) AS r FROM visits) AS t WHERE r <= 0.1",
     "x <= (SELECT QUANTILE_CONT(x, 0.25) FROM t)", VISITS + "cost >= (SELECT QUANTILE_CONT(cost, 0.9) FROM visits)"),
    ("shared-window", "SELECT COUNT(*) FROM (SELECT cost / SUM(cost) OVER (PARTITION BY clinic) AS share FROM visits) AS t WHERE share > 0.1",
     "bound = 'frequency', max_frequency = 10", OPTIONS + "bound = 'frequency', max_frequency = 10) COUNT(*) FROM (SELECT cost / SUM(cost) OVER "
     "(PARTITION BY clinic) AS share FROM visits) AS t WHERE share > 0.1"),
    ("private-list", "SELECT COUNT(*) FROM visits v SEMI JOIN visits w ON v.clinic = w.clinic", "bound = 'frequency', max_frequency = 10",
     OPTIONS + "bound = 'frequency', max_frequency = 10) COUNT(*) FROM visits v SEMI JOIN visits w ON v.clinic = w.clinic"),
    ("private-list", PEOPLE + "age > ALL (SELECT cost FROM visits)", "a link by the entity's key",
     "SELECT COUNT(*) FROM people p WHERE age > ALL (SELECT cost FROM visits v WHERE v.person_id = p.person_id)"),
    ("scalar-subquery", PEOPLE + "age > (SELECT age FROM people)", "(SELECT AVG(x) FROM t)", PEOPLE + "age > (SELECT AVG(age) FROM people)"),
    ("scalar-subquery", PEOPLE + "age > (SELECT beds FROM clinics)", "MAX(x)", PEOPLE + "age > (SELECT MAX(beds) FROM clinics)"),
    ("linked-group", "SELECT COUNT(*) FROM visits v WHERE cost > (SELECT AVG(w.cost) FROM visits w WHERE w.clinic = v.clinic)",
     "WHERE inner.key = outer.key", "SELECT COUNT(*) FROM visits v WHERE cost > (SELECT AVG(w.cost) FROM visits w WHERE w.person_id = v.person_id)"),
    ("no-limit", PEOPLE + "age IN (SELECT points FROM scores)", "bound = 'frequency', max_frequency = 10, max_rows = 10", OPTIONS + "bound = 'frequency', max_frequency = 10, "
     "max_rows = 10) COUNT(*) FROM people WHERE age IN (SELECT points FROM scores)"),
    ("no-limit", "SELECT COUNT(*) FROM (SELECT age FROM people EXCEPT SELECT points FROM scores) AS t", "OPTIONS (max_rows = 10)",
     OPTIONS + "max_rows = 10) COUNT(*) FROM (SELECT age FROM people EXCEPT SELECT points FROM scores) AS t"),
    ("options", "SELECT SUM(age, contribution_bounds_per_row => (0, 50)) FROM people", "SUM(LEAST(GREATEST(x, 0), 50))",
     "SELECT SUM(LEAST(GREATEST(age, 0), 50)) FROM people"),
    ("options", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) SUM(age, contribution_bounds_per_group => (0, 50)) FROM people",
     "OPTIONS (bound = 'clip', clip = 50) SUM(x)", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'clip', clip = 50) SUM(cost) FROM visits"),
    ("options", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, max_groups_contributed = 2) SUM(cost) FROM visits", "max_groups = 2",
     "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, max_groups = 2) year, SUM(cost) FROM visits GROUP BY year"),
    ("many-to-many", "SELECT COUNT(*) FROM people a JOIN (SELECT clinic, AVG(cost) AS n FROM visits GROUP BY clinic) AS b ON a.nickname = b.clinic",
     "bound = 'frequency', max_frequency = 10", OPTIONS + "bound = 'frequency', max_frequency = 10) COUNT(*) FROM people a JOIN (SELECT clinic, "
     "AVG(cost) AS n FROM visits GROUP BY clinic) AS b ON a.nickname = b.clinic"),
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    made = session_of(tmp_path_factory.mktemp("advice"), reader=reader_of(dense()), noise=Exact(), at=PLENTY)
    yield made
    made.close()


def refusal(text: str, session: Session) -> Error:
    with pytest.raises(Error) as caught:
        released(text, session)
    return caught.value


@pytest.mark.parametrize(("code", "refused", "says", "instead"), FOLLOWED)
def test_advice_that_is_followed_is_answered(code: str, refused: str, says: str, instead: str, session: Session) -> None:
    fault = refusal(refused, session)
    assert (fault.code, says in fault.try_) == (code, True), fault.try_
    assert released(instead, session)[0].columns


def test_there_is_enough_advice_of_many_kinds() -> None:
    assert len(FOLLOWED) >= 60 and len({code for code, *_ in FOLLOWED}) >= 20 and {code for code, *_ in FOLLOWED} <= {
        "many-to-many", *(code for _, code, _, _ in refusals())}
