"""Columns of all types, NaN, and public tables without rows: answers without noise are DuckDB's own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.golden.comparison import PLENTY, compare, released, short, texts
from support.golden.typed import POLICY, typed
from support.sessions import session_of

from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.catalog.price import price
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.frozen import replace

HERE = Path(__file__).parent
NUMBER = "CASE WHEN NOT isnan({0}) THEN {0} END"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    made = session_of(tmp_path_factory.mktemp("typed"), reader=typed(), noise=Exact(), policy=POLICY, at=PLENTY)
    yield made
    made.close()


@pytest.mark.parametrize("text", texts(HERE / "answers_of_types.sql"), ids=short)
def test_an_answer_without_noise_is_duckdbs(text: str, session: Session) -> None:
    assert compare(text, session) == "", text


@pytest.mark.parametrize("aggregates", [
    "COUNT({0}), COUNT(DISTINCT {0})", "COUNT({0}), COUNT(*)", "COUNT({0}), AVG({0})", "COUNT(*), AVG({0})", "COUNT(*), COUNT({0}), SUM({0}), AVG({0})",
    "COUNT(*), VAR_SAMP({0}), COUNT({0})", "COUNT({0}) FILTER (WHERE flag), AVG({0}) FILTER (WHERE flag)",
    "COUNT(*) FILTER (WHERE flag), AVG({0}) FILTER (WHERE flag)"])
@pytest.mark.parametrize("column", ["x", "given", "x + 1"])
@pytest.mark.parametrize("form", ["SELECT {} FROM people", "SELECT n, {} FROM people GROUP BY n"])
def test_nan_is_left_out_like_null(form: str, column: str, aggregates: str, session: Session) -> None:
    """Whatever stands beside it: a count of a column is of the rows that its sum adds up, and a count of rows is of all."""
    plain = form.format(aggregates.format(NUMBER.format(f"({column})")))
    assert compare(form.format(aggregates.format(column)), session, spelled=plain) == ""


def test_nan_is_left_out_of_workloads_and_of_queries_inside(session: Session) -> None:
    inside = "SELECT SUM(c), SUM(s) FROM (SELECT id, COUNT({0}) AS c, SUM({0}) AS s FROM people GROUP BY id) AS t"
    window = "SELECT SUM(c) FROM (SELECT COUNT({0}) OVER (PARTITION BY id) AS c FROM people) AS t"
    cube = "SELECT n, flag, COUNT({0}), COUNT(*) FROM people GROUP BY CUBE (n, flag)"
    many = "SELECT " + ", ".join(f"COUNT({{0}}) FILTER (WHERE n = {i} AND k = '{k}')" for i in (1, 2, 3) for k in "aB") + " FROM people"
    for text in (inside, window, many):
        assert compare(text.format("x"), session, spelled=text.format(NUMBER.format("x"))) == "", text
    made = answer(cube.format("x"), replace(session, price=price(epsilon=1)))
    expected = session.kernel._reader.rows(cube.format(NUMBER.format("x")))
    assert isinstance(made, Answer)
    assert {row for row in made.rows if row[3]} == set(expected)


def test_a_count_of_the_median_s_rows_leaves_out_nan(session: Session) -> None:
    for text in ("SELECT MEDIAN(x), COUNT(x) FROM people", "SELECT COUNT(x) FROM people"):
        made, _ = released(text, session)
        assert made.rows[0][-1] == session.kernel._reader.rows("SELECT COUNT(*) FROM people WHERE NOT isnan(x)")[0][0]


def test_parameters_of_all_styles_and_types(session: Session) -> None:
    day, moment = dt.date(2000, 2, 1), dt.datetime(2000, 6, 1, 12)
    for text, given, plain in [
        ("SELECT COUNT(*) FROM people WHERE b > ? AND day < ?", (500, day), "b > 500 AND day < DATE '2000-02-01'"),
        ("SELECT COUNT(*) FROM people WHERE seen < $2 AND k = $1", ("a", moment), "seen < TIMESTAMP '2000-06-01 12:00:00' AND k = 'a'"),
        ("SELECT COUNT(*) FROM people WHERE x > :low OR flag = :yes OR x < :low", {"low": 1.5, "yes": True}, "x > 1.5 OR flag OR x < 1.5"),
        ("SELECT COUNT(*) FROM people WHERE b = ?", (None,), "b = NULL"),
        ("SELECT COUNT(*) FROM people WHERE b IS NOT DISTINCT FROM ?", (None,), "b IS NULL"),
        ("SELECT COUNT(*) FROM people WHERE k IN (?, ?)", ("a", None), "k IN ('a', NULL)"),
        ("SELECT COUNT(*) FROM people WHERE k NOT IN (?, ?)", ("a", None), "FALSE"),
        ("SELECT COUNT(*) FROM people WHERE day BETWEEN ? AND ?", (dt.date(2000, 1, 9), "2000-02-09"),
         "day BETWEEN '2000-01-09' AND '2000-02-09'"),
        ("SELECT COUNT(*) FROM people WHERE t = ?", ("'; DROP TABLE people; --",), "FALSE"),
    ]:
        assert compare(text, session, given, spelled=f"SELECT COUNT(*) FROM people WHERE {plain}") == "", text
