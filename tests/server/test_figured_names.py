"""Names of columns without an alias, as PostgreSQL gives them; in descriptions, answers and COPY alike."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import postgres, worlds

import dpsql
from dpsql.server.front.statements.seat import ConnectionSeat, seats
from dpsql.server.front.terms.figured_names import names_on_wire
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query

ITEMS = """
COUNT(*)|count( * )|AVG(beds)|Sum(beds)|MIN(beds)|COUNT(DISTINCT beds)|-COUNT(*)|COUNT(*) + 1|(COUNT(*))|((SUM(beds)))|CAST(COUNT(*) AS DOUBLE PRECISION)|
COUNT(*)::bigint|COALESCE(SUM(beds), 0)|NULLIF(SUM(beds), 0)|CASE WHEN COUNT(*) > 1 THEN 1 END|CASE WHEN COUNT(*) > 1 THEN 1 ELSE SUM(beds) END|
CASE WHEN true THEN 1 ELSE 2 END|GREATEST(1, 2)|LEAST(COUNT(*), 5)|1|-1|'a'|true|NULL|1::bigint|'1'::text|1::double precision|'2020-01-01'::date|
DATE '2020-01-01'|TIMESTAMP '2020-01-01 00:00:00'|1.5|CAST(1 AS numeric)|'x'::varchar|true::boolean|COUNT(*) FILTER (WHERE beds > 1)|STDDEV(beds)|
VAR_POP(beds)|BOOL_AND(beds > 1)|COUNT(*) > 1|NOT (COUNT(*) > 1)|COUNT(*) IS NULL|1 IN (1, 2)|1 BETWEEN 0 AND 2|'a' || 'b'|'a' LIKE 'b'|lower('A')|
UPPER('a')|length('abc')|abs(-1)|round(1.5)|floor(1.5)|ceil(1.5)|substring('abc', 1, 2)|trim('a')|replace('a', 'b', 'c')|concat('a', 'b')|
extract(year FROM DATE '2020-01-01')|date_trunc('year', DATE '2020-01-01')|date_part('year', DATE '2020-01-01')|(SELECT 1 AS z)|
(SELECT COUNT(*) FROM clinics)|CASE WHEN true THEN 1 ELSE (SELECT 1 AS z) END|sqrt(4)|power(2, 3)|exp(1)|ln(2)|mod(5, 2)|5 % 2|sign(1)|1 / 2|
covar_pop(beds, beds)|corr(beds, beds)|MAX(city)|coalesce(MAX(city), 'x')::text|(MAX(city))::text|CURRENT_DATE|SUM(beds) * 2|ROUND(AVG(beds), 1)|
MAX(beds) - MIN(beds)|CAST(SUM(beds) AS bigint) + 1|COUNT(*) % 2|coalesce(nullif(1, 2), 3)
"""


@pytest.fixture(scope="module")
def theirs() -> Iterator[Any]:
    psycopg2 = pytest.importorskip("psycopg2")
    made = postgres.fresh()
    for table, columns in worlds.SCHEMA.items():
        made.run(f"CREATE TABLE {table} ({worlds.in_postgresql(columns)})")
    with contextlib.closing(psycopg2.connect(made.uri)) as con:
        con.autocommit = True
        yield con.cursor()


@pytest.fixture(scope="module")
def seat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectionSeat]:
    project = worlds.project(tmp_path_factory.mktemp("project"), people=60)
    made = seats(lambda user, database: dpsql.connect(project / "people.duckdb", budget="person", analyst=user, epsilon=1, delta=1e-6))("ada", "study", {})
    yield made
    made.close()


@pytest.mark.parametrize("item", [item.strip() for item in ITEMS.replace("\n", "").split("|") if item])
def test_names_are_those_of_postgresql(item: str, theirs: Any) -> None:
    text = f"SELECT {item} FROM clinics"
    theirs.execute(text)
    statement = parse(text)
    assert isinstance(statement, Query) and names_on_wire(statement.tree, text, ["x"]) == (theirs.description[0].name,)


@pytest.mark.parametrize(("text", "names"), [
    ("SELECT sex, COUNT(*), AVG(age), SUM(age) AS total, COUNT(*) + 1 FROM people GROUP BY sex", ["sex", "count", "avg", "total", "?column?"]),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (errors = true) COUNT(*), AVG(age) AS mean FROM people",
     ["count", "count_low", "count_high", "mean", "mean_low", "mean_high"]),
    ("SELECT COUNT(*), COUNT(*) FROM people", ["count", "count"]), ("SELECT *, beds + 1 FROM clinics", ["clinic", "city", "beds", "?column?"]),
    ("SELECT MEDIAN(age) FROM people", ["median"]), ("SELECT clinic FROM clinics UNION ALL SELECT city FROM clinics", ["clinic"]),
    ("SELECT lower(clinic) FROM clinics WHERE 1 = 0", ["lower"]), ("SELECT 1::bigint, 'a'", ["int8", "?column?"]),
])
def test_a_description_and_an_answer_have_the_same(text: str, names: list[str], seat: ConnectionSeat) -> None:
    described, found = seat.describe(text, []), seat.execute(text, ())
    assert [column.name for column in described.columns or ()] == names == [column.name for column in found.columns or ()]
    assert described.columns == found.columns


def test_a_header_of_copy_has_them_too(seat: ConnectionSeat) -> None:
    found = seat.execute("COPY (SELECT sex, COUNT(*) FROM people GROUP BY sex) TO STDOUT (FORMAT csv, HEADER)", ())
    assert b"sex,count\n" in b"".join(found.copied or ())


def test_others_keep_the_text(tmp_path: Path) -> None:
    project = worlds.project(tmp_path, people=20)
    with dpsql.connect(project / "people.duckdb", budget="person", analyst="ada", epsilon=1, delta=1e-6) as con:
        assert [column[0] for column in con.execute("SELECT COUNT(*) FROM people").description or ()] == ["COUNT(*)"]
