"""Databases that are not at hand, played by a driver that records what it is asked and answers with the types that theirs deliver."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlglot

import dpsql
from dpsql.backends import drivers
from dpsql.backends.dialects import BIGQUERY, DIALECTS, POSTGRES, SNOWFLAKE, SQLITE, Dialect
from dpsql.catalog.database_uris import SCHEMES, fault_of_uri, hidden, parts_of_relation, place_of
from dpsql.catalog.policy import read_policy
from dpsql.engine.opening import open_reader
from dpsql.errors import OperationalError

POLICY = """\
version = 1
[store.passwords]
"{uri}" = "THEIR_PASSWORD"
[entities.person]
table = "people"
key = "id"
[tables.people]
source = "{uri}"
filter = "id > 0"
[tables.people.columns]
{columns}
[tables.visits]
source = "{uri}"
relation = "other.visits"
[tables.visits.columns]
id = {{}}
[budgets.main]
entity = "person"
epsilon = 1
"""
MOMENT = "2026-11-26 12:00:00.000001+00"


class Played(drivers.SourceDatabase):
    """A database with people and visits, whose catalog lists these columns with their types."""

    def __init__(self, dialect: Dialect, columns: Mapping[str, str], rows: pa.Table, name: tuple[str, ...]) -> None:
        super().__init__(None, dialect)
        self.columns, self.found, self.name = columns, rows, name
        self.asked: list[str] = []
        self.collations: Mapping[str, str] = {}

    def stream(self, sql: str) -> Any:
        assert len(sqlglot.parse(sql, dialect=self.dialect.filters)) == 1, "it is one statement of theirs"
        self.asked.append(sql)
        if "collation_name" in sql:
            return pa.table({"a": [*self.columns], "b": pa.array([self.collations.get(column) for column in self.columns], pa.string())})
        if sql == self.dialect.moment:
            return pa.table({"now": [MOMENT]})
        if "columns" in sql.lower():
            columns = {"id": next(iter(self.columns.values()))} if "visits" in sql else self.columns
            names = [*self.name[:-1], "VISITS" if "visits" in sql else self.name[-1]]
            return pa.table({"a": [*columns], "b": [*columns.values()], "c": [False] * len(columns),
                             **{f"n{i}": [part] * len(columns) for i, part in enumerate(names)}})
        return self.found.select([0]) if "VISITS" in sql else self.found


class Options(Exception):
    """What a driver would be given."""


def refreshed(dialect: Dialect, uri: str, columns: Mapping[str, tuple[str, str | None]], rows: pa.Table, name: tuple[str, ...], folder: Path,
              monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[str]]:
    played = Played(dialect, {column: theirs for column, (theirs, _) in columns.items()}, rows, name)
    declared = "\n".join(f"{column.lower()} = {'{}' if kind is None else f'{{ type = {chr(34)}{kind}{chr(34)} }}'}" for column, (_, kind) in columns.items())
    (folder / "dpsql.toml").write_text(POLICY.format(uri=uri, columns=declared), encoding="utf-8")
    monkeypatch.setenv("THEIR_PASSWORD", "s3cret")
    monkeypatch.setattr(drivers, "connection", lambda *given: None)
    monkeypatch.setattr(drivers, "SourceDatabase", lambda connection, dialect: played)
    assert dpsql.refresh(policy=folder / "dpsql.toml") == ["people", "visits"]
    return open_reader(read_policy(folder / "dpsql.toml"), None), played.asked


def test_snowflake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {"ID": ("NUMBER(9,0)", None), "PRICE": ("NUMBER(10,2)", None), "WIDE": ("NUMBER(38,0)", "BIGINT"), "RATE": ("FLOAT", None), "FLAG": ("BOOLEAN", None),
               "NAME": ("TEXT", None), "DAY": ("DATE", None), "SEEN": ("TIMESTAMP_NTZ", None), "ZONED": ("TIMESTAMP_TZ", None), "DOC": ("VARIANT", "VARCHAR")}
    moment = dt.datetime(2020, 1, 1, 12)
    rows = pa.table([
        pa.array([1, None], pa.decimal128(9, 0)), pa.array(["12.50", None]), pa.array(["9007199254740993", "1" * 30]), pa.array([float("nan"), 0.5]), pa.array([True, None]),
        pa.array(["é", None]), pa.array([dt.date(2020, 1, 1), None]), pa.array([moment, None], pa.timestamp("ns")), pa.array([moment, None], pa.timestamp("us")),
        pa.array(['{"a": 1}', None])], names=[f"C{i}" for i in range(10)])
    reader, asked = refreshed(SNOWFLAKE, "snowflake://ada@account/db/PUBLIC", columns, rows, ("PUBLIC", "PEOPLE"), tmp_path, monkeypatch)
    assert [kind for _, kind in reader.schema()["people"].columns] == [
        "BIGINT", "DECIMAL(10,2)", "BIGINT", "DOUBLE", "BOOLEAN", "VARCHAR", "DATE", "TIMESTAMP", "TIMESTAMP", "VARCHAR"]
    first, second = reader.rows("SELECT * FROM people ORDER BY id NULLS LAST")
    assert str(first) == str((1, Decimal("12.50"), 9007199254740993, float("nan"), True, "é", dt.date(2020, 1, 1), moment, moment, '{"a": 1}'))
    assert second == (None, None, None, 0.5, *[None] * 6)
    people, = (sql for sql in asked if 'FROM "PUBLIC"."PEOPLE"' in sql)
    assert people.endswith(f"""FROM "PUBLIC"."PEOPLE" AT (TIMESTAMP => CAST('{MOMENT}' AS TIMESTAMP_LTZ)) WHERE (id > 0\n)""")
    assert """CAST(CONVERT_TIMEZONE('UTC', "ZONED") AS TIMESTAMP_NTZ) AS c8""" in people and 'CAST("PRICE" AS VARCHAR) AS c1' in people
    assert sum(MOMENT in sql for sql in asked) == 2, "both tables are of one moment"
    assert any("c.table_schema IN ('other', UPPER('other')) AND c.table_name IN ('visits', UPPER('visits'))" in sql for sql in asked)


def test_bigquery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {"id": ("INT64", None), "price": ("NUMERIC", None), "small": ("NUMERIC(10, 2)", None), "big": ("BIGNUMERIC", "DOUBLE"), "rate": ("FLOAT64", None),
               "flag": ("BOOL", None), "name": ("STRING", None), "day": ("DATE", None), "seen": ("DATETIME", None), "zoned": ("TIMESTAMP", None), "doc": ("JSON", "VARCHAR")}
    moment = dt.datetime(2020, 1, 1, 12)
    rows = pa.table([
        pa.array([1, None], pa.int64()), pa.array(["12.5", None]), pa.array(["12.5", None]), pa.array(["1e30", "x"]), pa.array([0.5, None]), pa.array([False, None]),
        pa.array(["é", None]), pa.array([dt.date(2020, 1, 1), None]), pa.array([moment, None], pa.timestamp("us")), pa.array([moment, None], pa.timestamp("us")),
        pa.array(["{}", None])], names=[f"c{i}" for i in range(11)])
    reader, asked = refreshed(BIGQUERY, "bigquery://project/clinic", columns, rows, ("project", "clinic", "people"), tmp_path, monkeypatch)
    assert [kind for _, kind in reader.schema()["people"].columns] == [
        "BIGINT", "DECIMAL(38,9)", "DECIMAL(10,2)", "DOUBLE", "DOUBLE", "BOOLEAN", "VARCHAR", "DATE", "TIMESTAMP", "TIMESTAMP", "VARCHAR"]
    first, second = reader.rows("SELECT * FROM people ORDER BY id NULLS LAST")
    assert first == (1, Decimal("12.5"), Decimal("12.5"), 1e30, 0.5, False, "é", dt.date(2020, 1, 1), moment, moment, "{}") and second == (None,) * 11
    people, = (sql for sql in asked if "FROM `project`.`clinic`.`people`" in sql)
    assert people.endswith(f"FROM `project`.`clinic`.`people` FOR SYSTEM_TIME AS OF TIMESTAMP '{MOMENT}' WHERE (id > 0\n)")
    assert "DATETIME(`zoned`, 'UTC') AS c9" in people
    assert any("FROM `other`.INFORMATION_SCHEMA.COLUMNS" in sql for sql in asked)


@pytest.mark.parametrize(("uri", "password", "options"), [
    ("postgresql://ada@host/db", None, {"uri": "postgresql://ada@host/db"}),
    ("postgresql://ada@host/db?sslmode=require", "a&b=c/@", {"uri": "postgresql://ada@host/db?sslmode=require&password=a%26b%3Dc%2F%40"}),
    ("sqlite:////data/a%20b?c.sqlite", None, {"uri": "file:/data/a%20b%3Fc.sqlite?mode=ro"}),
    ("snowflake://ada@account/db/PUBLIC?warehouse=w", "p", {"uri": "ada@account/db/PUBLIC?warehouse=w", "password": "p"}),
    ("bigquery://project/clinic", None, {"adbc.bigquery.sql.project_id": "project", "adbc.bigquery.sql.dataset_id": "clinic"}),
    ("bigquery://project/clinic", "key.json", {
        "adbc.bigquery.sql.project_id": "project", "adbc.bigquery.sql.dataset_id": "clinic", "adbc.bigquery.sql.auth_credentials": "key.json",
        "adbc.bigquery.sql.auth_type": "adbc.bigquery.sql.auth_type.json_credential_file"})])
def test_what_drivers_are_told(uri: str, password: str | None, options: dict[str, str]) -> None:
    assert DIALECTS[uri.split(":")[0]].options(uri, password) == options


@pytest.mark.parametrize("scheme", ["snowflake", "bigquery"])
def test_drivers_that_are_not_installed_are_told(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEIR_PASSWORD", "s3cret")
    (tmp_path / "dpsql.toml").write_text(POLICY.format(uri=f"{scheme}://account/db/x", columns="id = {}"), encoding="utf-8")
    with pytest.raises(OperationalError, match=f"adbc-driver-{scheme}") as caught:
        dpsql.refresh(policy=tmp_path / "dpsql.toml")
    assert caught.value.try_ == f"pip install 'dpsql[{scheme}]'"


def test_every_kind_is_in_the_table() -> None:
    assert DIALECTS.keys() == SCHEMES.keys()
    for dialect in (POSTGRES, SQLITE, SNOWFLAKE, BIGQUERY):
        mark = dialect.mark
        assert dialect.quoted("a", f"b{mark}c") == f"{mark}a{mark}.{mark}b{mark * 2}c{mark}"
        for way in dialect.ways:
            assert re.compile(way.of) and "{0}" in way.asked
        assert bool(dialect.begin) != bool(dialect.moment), "one version of all tables is seen in one of two ways"


@pytest.mark.parametrize("name", ["it's", 'a"b', "a`b", "a\\'b", "a;b--", "é", "a{0}b"])
@pytest.mark.parametrize("dialect", [POSTGRES, SQLITE, SNOWFLAKE, BIGQUERY], ids=lambda dialect: dialect.filters)
def test_names_stay_names(dialect: Dialect, name: str) -> None:
    """However a table or a column is called, it is one name in one statement."""
    tree, = sqlglot.parse(dialect.columns(("s", name)), dialect=dialect.filters)
    assert isinstance(tree, sqlglot.exp.Select)
    texts = [literal.name for literal in tree.find_all(sqlglot.exp.Literal)]
    assert any(name in text or name in text.replace('""', '"') for text in texts)


@pytest.mark.parametrize(("text", "parts"), [
    ("visits", ("visits",)), ("public.visits", ("public", "visits")), ('"my.schema"."a ""b"""', ("my.schema", 'a "b"')), ("a.b.c", ("a", "b", "c")),
    ("my table", ("my table",)), ("", None), ("a.", None), (".a", None), ("a..b", None), ("a.b.c.d", None), ('"a', None), ('"a"b', None)])
def test_names_of_relations(text: str, parts: tuple[str, ...] | None) -> None:
    assert parts_of_relation(text) == parts


@pytest.mark.parametrize(("uri", "place"), [
    ("postgres://Ada@Host:5432/db?x=1", "postgresql://host:5432/db"), ("postgresql:///db?host=/tmp&port=7", "postgresql:///db?host=/tmp&port=7"),
    ("sqlite:////data/a.sqlite", "sqlite:////data/a.sqlite"), ("postgresql://h/db?user=ada", "postgresql://h/db")])
def test_places_are_without_users(uri: str, place: str) -> None:
    assert fault_of_uri(uri) is None and hidden(uri) == uri and place_of(uri) == place
