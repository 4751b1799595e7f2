"""Statements that reach every script: each kind of aggregate, key, bound, mechanism, strategy, fit, decider and model, by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpsql.batch.plan_choice import NAMES as STRATEGIES
from dpsql.engine import together
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.mechanisms.all_mechanisms import NAMES as MECHANISMS
from dpsql.mechanisms.named_bounds import BOUNDS
from dpsql.mechanisms.select.undeclared_keys import RULES
from dpsql.microdata.all_fits import METHODS as FITS
from dpsql.sql.text.parse import parse
from dpsql.synthesis.methods.all_methods import METHODS
from dpsql.validation.deciders.all_deciders import DECIDERS
from dpsql.validation.suites import SUITES

FIRST = (
    "CREATE SYNTHETIC TABLE people_syn AS SELECT sex, age, income, born FROM people OPTIONS (epsilon = 1, method = 'independent', rows = 40)",
    "CREATE SYNTHETIC TABLE visits_syn AS SELECT clinic, year, cost FROM visits OPTIONS (epsilon = 1, method = 'independent', rows = 40)",
    "CREATE ONLINE MODEL opened AS SELECT sex, age // 10 AS decade FROM people OPTIONS (epsilon = 2)",
)
"""What later statements refer to."""

PLAIN = (
    "SELECT COUNT(*) FROM people", "SELECT sex, COUNT(*), SUM(age), AVG(income) FROM people GROUP BY sex",
    "SELECT sex, VAR_SAMP(age), STDDEV(income), CORR(income, age), REGR_SLOPE(income, age) FROM people GROUP BY sex",
    "SELECT MEDIAN(age), MIN(age), MAX(born) FROM people", "SELECT sex, QUANTILE_CONT(income, [0.25, 0.5, 0.75]) FROM people GROUP BY sex",
    "SELECT MODE(clinic), COUNT(*) FROM visits", "SELECT COUNT(DISTINCT person_id), COUNT(DISTINCT clinic), COUNT(DISTINCT note) FROM visits",
    "SELECT AVG(weight), SUM(weight) FROM people", "SELECT SUM(cost), COUNT(*) FROM visits", "SELECT SUM(points) FROM scores",
    "SELECT sex, MEDIAN(weight) FROM people GROUP BY sex", "SELECT nickname, COUNT(*) FROM people GROUP BY nickname",
    "SELECT note, SUM(cost) FROM visits GROUP BY note", "SELECT nickname, MEDIAN(age) FROM people GROUP BY nickname",
    "SELECT year, COUNT(*) FROM visits GROUP BY year HAVING COUNT(*) > 1 ORDER BY 2 DESC LIMIT 1",
    "SELECT clinic, year, COUNT(*) FROM visits GROUP BY CUBE (clinic, year)", "SELECT age, COUNT(*) FROM people GROUP BY age",
    "SELECT clinic, year, SUM(cost) FROM visits GROUP BY ROLLUP (clinic, year)",
    "SELECT born, COUNT(*) FROM people WHERE born BETWEEN DATE '1980-01-01' AND DATE '1980-02-01' GROUP BY born",
    "SELECT DATE_TRUNC('month', seen) AS m, COUNT(*) FROM visits GROUP BY m", "SELECT FLOOR(income / 10000) AS f, COUNT(*) FROM people GROUP BY f",
    "SELECT sex, age, SUM(COUNT(*)) OVER (ORDER BY sex, age) AS n FROM people GROUP BY sex, age",
    "SELECT sex, n FROM (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) AS t WHERE n > (SELECT COUNT(*) / 3 FROM people)",
    "SELECT COUNT(*) FROM people UNION ALL SELECT COUNT(*) FROM visits", "SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people)",
    "SELECT COUNT(*) FROM people AS p JOIN visits AS v ON p.person_id = v.person_id WHERE v.cost > 10",
    "SELECT COUNT(*) FROM people AS a JOIN people AS b ON a.household_id = b.household_id AND a.person_id < b.person_id",
    "SELECT a.sex, SUM(a.age) FROM people AS a JOIN people AS b USING (household_id) GROUP BY a.sex",
    "SELECT a.sex, COUNT(DISTINCT b.age) FROM people AS a JOIN people AS b USING (household_id) GROUP BY a.sex",
    "SELECT MEDIAN(a.age) FROM people AS a JOIN people AS b USING (household_id)",
    "SELECT n, COUNT(*) FROM (SELECT a.person_id, COUNT(*) AS n FROM people AS a JOIN people AS b USING (household_id) GROUP BY a.person_id) AS t GROUP BY n",
    "SELECT AVG(n) FROM (SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id) AS t",
    "SELECT n, COUNT(*) FROM (SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id) AS t GROUP BY n",
    "SELECT COUNT(*) FROM (SELECT person_id, ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY cost) AS r FROM visits QUALIFY r = 1) AS t",
    "SELECT COUNT(*) FROM (SELECT DISTINCT person_id, clinic FROM visits) AS t", "SELECT BOOL_OR(active), COUNT_IF(age > 30) FROM people",
    "SELECT AVG(beds), COUNT(*) FROM clinics", "SELECT city, COUNT(*) FROM visits JOIN clinics USING (clinic) GROUP BY city",
    "SELECT sex, COUNT(*) FROM people GROUP BY sex ERROR WITHIN 20", "SELECT age, COUNT(*) FROM people GROUP BY age STANDARD ERROR 9",
    "SELECT year, COUNT(*) ERROR WITHIN 30, SUM(cost) STANDARD ERROR 900 FROM visits GROUP BY year",
    "SELECT MEDIAN(age) FROM people ERROR WITHIN 30", "EXPLAIN PRIVACY SELECT sex, COUNT(*) FROM people GROUP BY sex",
    "EXPLAIN PRIVACY SELECT clinic, year, COUNT(*) FROM visits GROUP BY CUBE (clinic, year)", "SHOW RELEASES", "SHOW TABLES", "DESCRIBE people_syn",
    "SELECT sex, COUNT(*) FROM people_syn GROUP BY sex", "SELECT sex, COUNT(*) FROM opened GROUP BY sex", "SELECT COUNT(*) FROM opened WHERE decade = 3",
    "VALIDATE (SELECT AVG(age) FROM people) WITHIN 2.5, (SELECT MEDIAN(age) FROM people) AGAINST people_syn WITHIN 3",
    "VALIDATE SELECT AVG(income) FROM people AGAINST people_syn WITHIN 50 PERCENT", "VALIDATE SELECT MAX(age) FROM people AGAINST people_syn WITHIN 9",
    "VALIDATE SELECT COUNT(*) FROM people a JOIN people b ON a.household_id = b.household_id AND a.person_id < b.person_id AGAINST people_syn "
    "WITHIN 90 OPTIONS (epsilon = 1, clip = 20)", "VALIDATE (SELECT SUM(cost) FROM visits) AGAINST visits_syn WITHIN 10 PERCENT",
    "CREATE SYNTHETIC TABLES made_people AS SELECT person_id, sex, age FROM people, made_visits AS SELECT person_id AS person, clinic, year FROM visits "
    "OPTIONS (epsilon = 1, method = 'independent', rows = 50)",
    "CREATE SYNTHETIC TABLE made_for_pairs AS SELECT sex, age // 10 AS decade FROM people "
    "OPTIONS (workload = 'all 1-way, all 2-way; SELECT sex, COUNT(*) FROM made_for_pairs GROUP BY sex')",
    "CREATE SYNTHETIC TABLE made_until_close AS SELECT sex, income FROM people OPTIONS (epsilon = 3, method = 'independent', rows = 50, candidates = 2, "
    "accept = '(SELECT sex, COUNT(*) FROM made_until_close GROUP BY sex) WITHIN 9000; SELECT AVG(income) FROM made_until_close WITHIN 1000000')",
)
NAMED = (
    *(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = '{bound.name}'{''.join(f', {need} = 20' for need in bound.needs)}) {what}"
      for bound in BOUNDS for what in ("SUM(cost), COUNT(*) FROM visits", "COUNT(*) FROM people AS a JOIN people AS b USING (household_id)",
                                       "year, SUM(cost) FROM visits GROUP BY year",
                                       "n, COUNT(*) FROM (SELECT a.person_id, COUNT(*) AS n FROM people AS a JOIN people AS b USING "
                                       "(household_id) GROUP BY a.person_id) AS t GROUP BY n")),
    *(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = '{name}') {what}" for name in MECHANISMS
      for what in ("SUM(age) FROM people", "MEDIAN(age) FROM people", "COUNT(DISTINCT clinic) FROM visits", "MODE(clinic) FROM visits")),
    *(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = '{name}') nickname, COUNT(*) FROM people GROUP BY nickname" for name in RULES),
    *(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (strategy = '{name}', planning = 2) {what}" for name in STRATEGIES
      for what in ("age, COUNT(*) FROM people WHERE age < 20 GROUP BY age", "clinic, year, COUNT(*) FROM visits GROUP BY CUBE (clinic, year)")),
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (strategy = 'privtree') COUNT(*) FROM people WHERE age >= 30 AND income < 50000",
    *(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (consistency = '{name}', rounding = 'whole') sex, COUNT(*) FROM people GROUP BY CUBE (sex)"
      for name in FITS),
    *(f"VALIDATE SELECT {what} AGAINST people_syn WITHIN 5 OPTIONS (decider = '{decider.name}')" for decider in DECIDERS
      for what in ("COUNT(*) FROM people", "sex, COUNT(*) FROM people GROUP BY sex", "AVG(age) FROM people", "MEDIAN(age) FROM people")),
    *(f"VALIDATE (SELECT COUNT(*) FROM people), (SELECT SUM(age) FROM people) AGAINST people_syn WITHIN 5 OPTIONS (suite = '{name}')"
      for name in SUITES),
    *(f"CREATE SYNTHETIC TABLE made_{name} AS SELECT sex{'' if name in FITS else ', age // 10 AS decade, active'} FROM people "
      f"OPTIONS (method = '{name}', rows = 30)" for name in METHODS),
    *(f"CREATE ONLINE MODEL made_{name} AS SELECT sex, active FROM people OPTIONS (epsilon = 4, method = '{name}')" for name in ("pmw", "net")),
)
WORKLOADS = (
    ("SELECT COUNT(*) FROM people WHERE age BETWEEN 3 AND 40", "SELECT COUNT(*) FROM people WHERE age BETWEEN 20 AND 60 AND sex = 'f'"),
    ("SELECT year, SUM(cost) FROM visits GROUP BY year", "SELECT clinic, COUNT(*) FROM visits GROUP BY clinic"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex", "SELECT nickname, COUNT(*) FROM people WHERE nickname IN ('al', 'bo') GROUP BY nickname"),
)


def asked(text: str) -> Callable[[Session], Any]:
    return lambda session: answer(text, session)


def asked_together(texts: tuple[str, ...]) -> Callable[[Session], Any]:
    return lambda session: together.workload([parse(text) for text in texts], session)  # type: ignore[misc]


EVERY: dict[str, Callable[[Session], Any]] = {
    **{text: asked(text) for text in (*PLAIN, *NAMED)}, **{"; ".join(texts): asked_together(texts) for texts in WORKLOADS},
}
