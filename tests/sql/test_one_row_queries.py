"""Named queries of one row, used as values: they mean the subqueries that could be written in their place."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import worlds
from support.sessions import session_of

from dpsql.audit.exact import Exact
from dpsql.dbapi import Connection
from dpsql.errors import Error
from dpsql.sql.text.parse import parse

NAMED = "WITH m AS (SELECT AVG(age) AS p, COUNT(*) AS n FROM people) "
VALUE, NUMBER = "(SELECT AVG(age) FROM people)", "(SELECT COUNT(*) FROM people)"
ALIKE = [
    (NAMED + "SELECT COUNT(*) FROM people WHERE age > (SELECT p FROM m)", f"SELECT COUNT(*) FROM people WHERE age > {VALUE}"),
    (NAMED + "SELECT COUNT(*) FROM people CROSS JOIN m WHERE age > p", f"SELECT COUNT(*) FROM people WHERE age > {VALUE}"),
    (NAMED + "SELECT COUNT(*) FROM people AS q, m AS k WHERE q.age > k.p AND k.n > 3",
     f"SELECT COUNT(*) FROM people AS q WHERE q.age > {VALUE} AND {NUMBER} > 3"),
    (NAMED + "SELECT sex, COUNT(*) FROM people, m WHERE age BETWEEN p AND p + 20 GROUP BY sex",
     f"SELECT sex, COUNT(*) FROM people WHERE age BETWEEN {VALUE} AND {VALUE} + 20 GROUP BY sex"),
    (NAMED + "SELECT COUNT(*) FROM people JOIN m ON age > p", f"SELECT COUNT(*) FROM people WHERE age > {VALUE}"),
    (NAMED + "SELECT COUNT(*) FROM people JOIN m ON age > p WHERE sex = 'f' OR active",
     f"SELECT COUNT(*) FROM people WHERE (sex = 'f' OR active) AND age > {VALUE}"),
    (NAMED + "SELECT COUNT(*) FROM m, people AS q WHERE q.age > p", f"SELECT COUNT(*) FROM people WHERE age > {VALUE}"),
    (NAMED + "SELECT COUNT(*) FROM people WHERE age > (SELECT p + 2 * n FROM m)",
     "SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) + 2 * COUNT(*) FROM people)"),
    ("WITH m(p) AS (SELECT AVG(age) FROM people) SELECT COUNT(*) FROM people WHERE age > (SELECT * FROM m)",
     f"SELECT COUNT(*) FROM people WHERE age > {VALUE}"),
    ("SELECT COUNT(*) FROM people CROSS JOIN (SELECT AVG(age) AS p FROM people) AS m WHERE age > m.p",
     f"SELECT COUNT(*) FROM people WHERE age > {VALUE}"),
    ("WITH q AS (SELECT * FROM people WHERE active), m AS (SELECT AVG(age) AS p FROM q) SELECT COUNT(*) FROM q, m WHERE age > p",
     "WITH q AS (SELECT * FROM people WHERE active) SELECT COUNT(*) FROM q WHERE age > (SELECT AVG(age) FROM q)"),
    (NAMED + "SELECT COUNT(*) FROM people JOIN m ON age > p LEFT JOIN visits USING (person_id)",
     f"SELECT COUNT(*) FROM people LEFT JOIN visits USING (person_id) WHERE age > {VALUE}"),
]
AS_THEY_ARE = [
    NAMED + "SELECT p / n FROM m",
    NAMED + ", k AS (SELECT COUNT(*) AS c FROM visits) SELECT c / n FROM m CROSS JOIN k",
    "WITH m AS (SELECT sex, AVG(age) AS p FROM people GROUP BY sex) SELECT p FROM m",
    "WITH m AS (SELECT age AS p FROM people) SELECT COUNT(*) FROM m WHERE p > 3",
    "WITH m AS (SELECT AVG(age) AS p FROM people HAVING COUNT(*) > 3) SELECT p FROM m",
    NAMED + "SELECT COUNT(*) FROM people RIGHT JOIN visits USING (person_id) FULL JOIN m ON age > p",
    NAMED + "SELECT COUNT(*) FROM m JOIN people ON age > p FULL JOIN visits USING (person_id)",
]
REFUSED = [
    NAMED + "SELECT COUNT(*) FROM people CROSS JOIN m WHERE age > m.q",
    NAMED + "SELECT COUNT(*) FROM people WHERE age > (SELECT q FROM m)",
    NAMED + "SELECT COUNT(*) FROM people LEFT JOIN m ON age > p",
    "WITH m AS (SELECT AVG(age) AS p FROM people GROUP BY sex) SELECT COUNT(*) FROM people WHERE age > (SELECT p FROM m)",
]


@pytest.mark.parametrize(("text", "other"), ALIKE)
def test_they_mean_the_subqueries(text: str, other: str, tmp_path: Path) -> None:
    with Connection(session_of(tmp_path, worlds.world(5), noise=Exact())) as connection:
        assert connection.execute(text).fetchall() == connection.execute(other).fetchall()


@pytest.mark.parametrize("text", AS_THEY_ARE)
def test_other_named_queries_stay(text: str) -> None:
    assert parse(text).tree.args.get("with_") is not None


@pytest.mark.parametrize("text", REFUSED)
def test_other_uses_are_refused_at_their_place(text: str, tmp_path: Path) -> None:
    session = session_of(tmp_path)
    with pytest.raises(Error) as caught:
        Connection(session).execute(text)
    assert caught.value.span is not None and not session.ledger.entries("person")
