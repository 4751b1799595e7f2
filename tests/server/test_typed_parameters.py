"""Parameters as drivers send them: each comes back as from a PostgreSQL, and comparisons take the texts that PostgreSQL takes."""

from __future__ import annotations

import asyncio
import datetime as dt
import importlib
import math
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pygwire", reason="the extra dpsql[server] is not installed")
pytest.importorskip("scramp", reason="the extra dpsql[server] is not installed")
pytest.importorskip("adbc_driver_postgresql", reason="the driver of the tests' PostgreSQL is not installed")

from support.replayed import Pair, pair
from support.wire_servers import PASSWORD

from dpsql.types import read_boolean

BIG = Decimal("12345678901234567890.123456789")
MOMENT = dt.datetime(2020, 1, 2, 3, 4, 5, 600)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("parameters")) as found:
        yield found


@pytest.fixture(scope="module")
def connections(both: Pair) -> Iterator[tuple[Any, Any]]:
    pytest.importorskip("psycopg")
    psycopg = importlib.import_module("psycopg")
    ours = f"host=127.0.0.1 port={both.ours} user=ada password='{PASSWORD}' dbname=study"
    with psycopg.connect(both.theirs.uri, autocommit=True) as theirs, psycopg.connect(ours, autocommit=True) as own:
        yield theirs, own


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize("value", [
    True, False, 1, -40_000, 2**40, 2**62, 1.5, math.inf, -math.inf, Decimal("7.50"), Decimal("-0.001"), BIG, Decimal("1E+3"), dt.date(2020, 1, 2), dt.date(1, 1, 1),
    MOMENT, "o'ä", "", [1, 2], [2**40, -1], [1.5, math.inf], [True, False], ["a", "b,c", 'd"', ""], [dt.date(2020, 1, 2)], [MOMENT], [Decimal("7.50"), Decimal("1.25")],
], ids=repr)
def test_a_parameter_comes_back_as_it_is(value: object, binary: bool, connections: tuple[Any, Any]) -> None:
    theirs, ours = (con.cursor(binary=binary).execute("SELECT %b" if binary else "SELECT %t", [value]) for con in connections)
    found, expected = ours.fetchall(), theirs.fetchall()
    assert found == expected and type(found[0][0]) is type(expected[0][0])
    assert expected == [(value,)] or (not binary and isinstance(value, list)), "a list of texts is sent without a type"
    assert ours.description[0].name == theirs.description[0].name


@pytest.mark.parametrize("cast", ["bigint", "numeric", "boolean", "date", "timestamp", "double precision", "text", "bigint[]", "text[]", "boolean[]"])
def test_a_null_has_the_type_of_its_cast(cast: str, connections: tuple[Any, Any]) -> None:
    theirs, ours = (con.execute(f"SELECT %s::{cast} AS x", [None]) for con in connections)
    assert ours.fetchall() == theirs.fetchall() == [(None,)] and ours.description[0].type_code == theirs.description[0].type_code


def test_nan_is_no_null(connections: tuple[Any, Any]) -> None:
    for con in connections:
        for binary in (False, True):
            assert math.isnan(con.cursor(binary=binary).execute("SELECT %s", [math.nan]).fetchone()[0])
    with pytest.raises(importlib.import_module("psycopg").errors.NumericValueOutOfRange):
        connections[1].execute("SELECT %s", [Decimal("NaN")])


def test_moments_with_a_zone_are_those_of_utc(connections: tuple[Any, Any]) -> None:
    east = dt.datetime(2020, 1, 2, 3, 4, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30)))
    for binary in (False, True):
        found = connections[1].cursor(binary=binary).execute("SELECT %s", [east]).fetchone()[0]
        assert found == dt.datetime(2020, 1, 1, 21, 34)
    own = uuid.UUID("12345678-1234-5678-1234-567812345678")
    assert connections[1].execute("SELECT %s", [own]).fetchone()[0] == str(own) and connections[1].execute("SELECT %b", [own]).fetchone()[0] == str(own)


def test_asyncpg_sends_lists_of_all_types(both: Pair) -> None:
    pytest.importorskip("asyncpg")
    asyncpg = importlib.import_module("asyncpg")
    kinds = {"int2[]": [1, 2], "int4[]": [1, None], "int8[]": [2**40], "float4[]": [1.5], "float8[]": [0.1], "numeric[]": [Decimal("1.50")], "bool[]": [True],
             "text[]": ["a", None], "varchar[]": ["b"], "date[]": [dt.date(2020, 1, 2)], "timestamp[]": [MOMENT]}

    async def ask() -> None:
        con = await asyncpg.connect(host="127.0.0.1", port=both.ours, user="ada", password=PASSWORD, database="study")
        for kind, value in kinds.items():
            assert await con.fetchval(f"SELECT $1::{kind}", value) == value, kind
        assert await con.fetchval("SELECT COUNT(*) FROM clinics WHERE beds = ANY($1)", [10, 20]) == 2
        assert await con.fetchval("SELECT COUNT(*) FROM clinics WHERE beds <> ALL($1)", [10, 20]) == 1
        assert await con.fetchval("SELECT COUNT(*) FROM clinics WHERE beds IN ($1::BIGINT, $2::BIGINT)", 10, 5) == 2
        await con.close()

    asyncio.run(ask())


def test_booleans_are_read_as_by_postgresql(connections: tuple[Any, Any]) -> None:
    psycopg = importlib.import_module("psycopg")
    theirs, ours = connections
    texts = {text[:length] for text in ("true", "false", "yes", "no", "on", "off", "1", "0", "2", "x") for length in range(1, 6)}
    for text in sorted({*texts, *(text.upper() for text in texts), " t ", "t f", ""}):
        try:
            expected = theirs.execute(f"SELECT '{text}'::boolean").fetchone()[0]
        except psycopg.Error:
            expected = None
        assert read_boolean(text) is expected, text
        if text.strip():
            try:
                found: object = ours.execute("SELECT %t::boolean", [text]).fetchone()[0]
            except psycopg.errors.InvalidTextRepresentation:
                found = None
            assert found is expected, text


def test_booleans_are_compared_with_texts(connections: tuple[Any, Any]) -> None:
    asked = "SELECT COUNT(*) FROM people WHERE active = {}"
    ours = connections[1]
    same = {ours.execute(asked.format(text)).fetchone() for text in ("TRUE", "'t'", "'1'", "'YES'", "'on'", "'tru'")}
    assert len(same) == 1, "one question, asked again at no cost"
    assert ours.execute(asked.format("%s"), ["t"]).fetchone() in same
    with pytest.raises(importlib.import_module("psycopg").Error, match="true or false"):
        ours.execute(asked.format("'o'"))
