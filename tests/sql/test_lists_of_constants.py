"""Constants after IN that programs write with casts or compute, and other words for the same statement."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from support import worlds
from support.sessions import session_of

from dpsql.audit.exact import Exact
from dpsql.dbapi import Connection
from dpsql.errors import SqlError, Unsupported
from dpsql.sql.binding import typing
from dpsql.sql.binding.casts import cast
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import Call, Literal, Ref
from dpsql.types import Type, single

ALIKE = [
    ("SELECT COUNT(*) FROM people WHERE age IN (CAST(30 AS BIGINT), 1 + 1, 40)", "SELECT COUNT(*) FROM people WHERE age IN (30, 2, 40)"),
    ("SELECT COUNT(*) FROM people WHERE age NOT IN (CAST(30 AS BIGINT), 20 + 20)", "SELECT COUNT(*) FROM people WHERE age NOT IN (30, 40)"),
    ("SELECT COUNT(*) FROM people WHERE age IN ($1::BIGINT, $2::INTEGER)", "SELECT COUNT(*) FROM people WHERE age IN ($1, $2)"),
    ("SELECT COUNT(*) FROM people WHERE nickname LIKE 'a' || '%'", "SELECT COUNT(*) FROM people WHERE nickname LIKE 'a%'"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY 2 DESC FETCH FIRST 1 ROWS ONLY",
     "SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY 2 DESC LIMIT 1"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY 1 OFFSET 1 ROWS FETCH NEXT ROW ONLY",
     "SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY 1 LIMIT 1 OFFSET 1"),
]


def asked(connection: Connection, text: str) -> list[tuple[Any, ...]]:
    return connection.execute(text, (30, 40) if "$" in text else ()).fetchall()


@pytest.mark.parametrize(("text", "other"), ALIKE)
def test_they_mean_the_same(text: str, other: str, tmp_path: Path) -> None:
    with Connection(session_of(tmp_path, worlds.world(5), noise=Exact())) as connection:
        assert asked(connection, text) == asked(connection, other)


def test_columns_are_no_constants(tmp_path: Path) -> None:
    with Connection(session_of(tmp_path)) as connection, pytest.raises(Unsupported, match="list of constants"):
        connection.execute("SELECT COUNT(*) FROM people WHERE age IN (1, person_id + 1)")


ONE_QUESTION = [
    ("SELECT COUNT(*) FROM people WHERE age IN (1, 2)", "SELECT COUNT(*) FROM people WHERE age IN ($1::BIGINT, $2::BIGINT)", (1, 2)),
    ("SELECT COUNT(*) FROM people WHERE age IN (1, 2)", "SELECT COUNT(*) FROM people WHERE age IN (CAST(1 AS SMALLINT), 2::INTEGER)", ()),
    ("SELECT COUNT(*) FROM people WHERE sex IN ('f', 'm')", "SELECT COUNT(*) FROM people WHERE sex IN ($1::VARCHAR, 'm'::TEXT)", ("f",)),
    ("SELECT COUNT(*) FROM people WHERE sex = 'f' AND age > 30 AND active", "SELECT COUNT(*) FROM people WHERE sex = $1::VARCHAR AND age > $2::BIGINT AND active", ("f", 30)),
    ("SELECT COUNT(*) FROM people WHERE income > 10.3", "SELECT COUNT(*) FROM people WHERE income > $1::DOUBLE", (10.3,)),
    ("SELECT SUM(income * 1.1) FROM people", "SELECT SUM(income * CAST(1.1 AS DOUBLE)) FROM people", ()),
    ("SELECT COUNT(*) FROM people WHERE income > 30", "SELECT COUNT(*) FROM people WHERE income > $1::INTEGER", (30,)),
    ("SELECT COUNT(*) FROM people WHERE born >= DATE '1980-01-01'", "SELECT COUNT(*) FROM people WHERE born >= $1::DATE", (dt.date(1980, 1, 1),)),
    ("SELECT COUNT(*) FROM people WHERE nickname LIKE 'a%'", "SELECT COUNT(*) FROM people WHERE nickname LIKE $1::VARCHAR || '%'::VARCHAR", ("a",)),
    ("SELECT COUNT(*) FROM people WHERE regexp_matches(nickname, '^a')", "SELECT COUNT(*) FROM people WHERE regexp_matches(nickname, $1::VARCHAR)", ("^a",)),
    ("SELECT COUNT(*) FROM people WHERE age IN (-1, 30)", "SELECT COUNT(*) FROM people WHERE age = ANY('{-1, 30}'::int8[])", ()),
    ("SELECT COUNT(*) FROM people WHERE age IN (1, 30)", "SELECT COUNT(*) FROM people WHERE age = ANY(CAST('{1,30,NULL}' AS SMALLINT[]))", ()),
    ("SELECT COUNT(*) FROM people WHERE age IN (1, 30)", "SELECT COUNT(*) FROM people WHERE age = ANY(ARRAY[1, 30]::bigint[])", ()),
    ("SELECT COUNT(*) FROM people WHERE age IN (1, 30)", "SELECT COUNT(*) FROM people WHERE age = ANY($1::int8[])", ([1, 30],)),
    ("SELECT COUNT(*) FROM people WHERE age NOT IN (1, 30)", "SELECT COUNT(*) FROM people WHERE age <> ALL('{1,30}')", ()),
    ("SELECT COUNT(*) FROM people WHERE sex NOT IN ('f')", "SELECT COUNT(*) FROM people WHERE sex <> ALL('{f}'::text[])", ()),
    ("SELECT COUNT(*) FROM people WHERE nickname IN ('a, \"b\"', '}')", """SELECT COUNT(*) FROM people WHERE nickname = ANY('{"a, \\"b\\"","}"}'::varchar[])""", ()),
    ("SELECT COUNT(*) FROM people WHERE born IN (DATE '1980-01-01')", "SELECT COUNT(*) FROM people WHERE born = ANY('{1980-01-01}'::date[])", ()),
    ("SELECT COUNT(*) FROM people WHERE income IN (1.5, 20)", "SELECT COUNT(*) FROM people WHERE income = ANY('{1.5,2e1}'::float8[])", ()),
    ("SELECT COUNT(*) FROM people WHERE active IN (TRUE)", "SELECT COUNT(*) FROM people WHERE active = ANY('{t}'::bool[])", ()),
    ("SELECT SUM(CASE WHEN active THEN 1 ELSE 0 END) FROM people", "SELECT SUM(CASE WHEN active THEN $1::BIGINT ELSE $2::BIGINT END) FROM people", (1, 0)),
]
OTHER_QUESTIONS = [
    ("income > 30.5", "income > CAST(30.5 AS INTEGER)"), ("age IN (30, 2)", "age IN (CAST(30.4 AS BIGINT), 2)"),
    ("age IN (30, 2)", "age IN (CAST(300 AS TINYINT), 2)"), ("income > 0.1", "income > CAST(0.1 AS FLOAT)"),
    ("income > 1.2345", "income > CAST(1.2345 AS DECIMAL(6, 2))"), ("age = -1", "age = CAST(-1 AS UINTEGER)"),
    ("seen > TIMESTAMP '2020-01-01 10:00:00'", "seen > CAST(TIMESTAMP '2020-01-01 10:00:00' AS DATE)"),
]


@pytest.mark.parametrize(("plain", "with_casts", "values"), ONE_QUESTION)
def test_casts_that_change_nothing_are_not_charged_again(plain: str, with_casts: str, values: tuple[Any, ...], tmp_path: Path) -> None:
    with Connection(session_of(tmp_path)) as connection:
        first, again = connection.execute(plain), connection.execute(with_casts, values)
        assert again.answer is not None and again.answer.stored
        assert again.fetchall() == first.fetchall()


@pytest.mark.parametrize(("plain", "with_cast"), OTHER_QUESTIONS)
def test_casts_that_change_values_are_other_questions(plain: str, with_cast: str, tmp_path: Path) -> None:
    with Connection(session_of(tmp_path)) as connection:
        table = "visits" if "seen" in plain else "people"
        connection.execute(f"SELECT COUNT(*) FROM {table} WHERE {plain}")
        again = connection.execute(f"SELECT COUNT(*) FROM {table} WHERE {with_cast}")
        assert again.answer is not None and not again.answer.stored


@pytest.mark.parametrize("name", ["=", "IN"])
def test_a_cast_to_double_keeps_a_constant_from_being_rounded(name: str) -> None:
    """Beside a column of single precision, 0.1 is its nearest number there, and 0.1::DOUBLE is not."""
    env = {"x": Facts(type=Type.DOUBLE, single=True)}
    column, tenth = Ref(column="x", type=Type.DOUBLE), Literal(value=0.1, type=Type.DOUBLE)
    as_double = cast(tenth, "DOUBLE", None)
    plain, with_cast = (typing.call("=", [column, each], env, None) if name == "=" else typing.membership(column, [each], env, None)
                        for each in (tenth, as_double))
    assert isinstance(plain, Call) and isinstance(with_cast, Call)
    assert [plain.args[1], with_cast.args[1]] == [Literal(value=single(0.1), type=Type.DOUBLE), tenth]


def test_a_text_with_a_cast_stays_a_text(tmp_path: Path) -> None:
    with Connection(session_of(tmp_path)) as connection, pytest.raises(SqlError, match="cannot be combined"):
        connection.execute("SELECT COUNT(*) FROM people WHERE age IN ($1::VARCHAR, 2)", ("1",))


@pytest.mark.parametrize(("text", "reason"), [
    ("'{1,x}'::int8[]", "no array of BIGINT"), ("'{1.5}'::int8[]", "no array of BIGINT"), ("'{40000}'::int2[]", "no array of SMALLINT"), ("'1,2'::int8[]", "no array"),
    ("'{1,2'::int8[]", "no array"), ("'{{1},{2}}'::int8[]", "no array"), ("'{1e999}'::float8[]", "no array of DOUBLE"), ("'{1}'::int8[][]", "lists"), ("'{1}'::json[]", "no array of JSON")])
def test_other_texts_are_no_arrays(text: str, reason: str, tmp_path: Path) -> None:
    with Connection(session_of(tmp_path)) as connection, pytest.raises((SqlError, Unsupported), match=reason):
        connection.execute(f"SELECT COUNT(*) FROM people WHERE age = ANY({text})")


def test_an_element_of_a_text_is_rounded_as_its_type_says(tmp_path: Path) -> None:
    with Connection(session_of(tmp_path)) as connection:
        connection.execute("SELECT COUNT(*) FROM people WHERE income = 1.239::numeric(10, 2)")
        rounded = connection.execute("SELECT COUNT(*) FROM people WHERE income = ANY('{1.239}'::numeric(10, 2)[])")
        assert rounded.answer is not None and rounded.answer.stored


def test_an_element_that_a_cast_rounds_is_another_question(tmp_path: Path) -> None:
    with Connection(session_of(tmp_path)) as connection:
        connection.execute("SELECT COUNT(*) FROM people WHERE age = ANY($1)", ([1.5, 30.0],))
        rounded = connection.execute("SELECT COUNT(*) FROM people WHERE age = ANY($1::int8[])", ([1.5, 30.0],))
        assert rounded.answer is not None and not rounded.answer.stored
