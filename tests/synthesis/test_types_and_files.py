"""Columns of every type come back as they were, in frames, in Parquet and CSV files, and when the table is asked."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.errors import OperationalError
from dpsql.synthesis.synthetic_table import SyntheticTable, of_json
from dpsql.trusted.kernel.ledger import Ledger

TABLE = """CREATE TABLE t AS SELECT i AS id, CAST(i % 100 AS TINYINT) AS tiny, i % 1000 AS whole, i AS undeclared, i % 2 = 0 AS flag,
    CASE WHEN i % 5 > 0 THEN i % 2 = 0 END AS maybe, CAST(i % 1000 / 100 AS DECIMAL(10, 2)) AS amount, i % 500 / 7 AS ratio,
    DATE '2020-01-01' + CAST(i % 700 AS INTEGER) AS day, TIMESTAMP '2020-01-01 10:00:00' + INTERVAL (i % 9000) MINUTE AS at,
    CASE i % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'b, c' ELSE 'd"''e' END AS txt, CASE WHEN i % 4 > 0 THEN i % 30 END AS some,
    DATE '2021-05-05' + CAST(i % 2 AS INTEGER) AS listed FROM range(6000) AS r(i)"""
POLICY = """version = 1
database = "x.duckdb"
[entities.e]
table = "t"
key = "id"
[tables.t]
key = "id"
[tables.t.columns]
id = {}
tiny = { bounds = [0, 99] }
whole = { bounds = [0, 999], bins = [0, 10, 999] }
undeclared = {}
flag = {}
maybe = {}
amount = { bounds = [0, 10] }
ratio = { bounds = [0, 100] }
day = { bounds = [2020-01-01, 2021-12-31] }
at = { bounds = [2020-01-01, 2020-01-08] }
txt = { values = ["a", "b, c", "d\\"'e"] }
some = { bounds = [0, 29] }
listed = { values = [2021-05-05, 2021-05-06] }
[budgets.b]
entity = "e"
epsilon = 200
"""
KINDS = {"tiny": int, "whole": int, "flag": bool, "maybe": bool, "amount": float, "ratio": float, "day": dt.date, "at": dt.datetime,
         "txt": str, "some": int, "listed": dt.date}


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    folder = tmp_path_factory.mktemp("types")
    with duckdb.connect(str(folder / "x.duckdb")) as made:
        made.execute(TABLE)
    (folder / "x.toml").write_text(POLICY, encoding="utf-8")
    Ledger.create(folder / "x.ledger", None).close()
    with dpsql.connect(policy=folder / "x.toml", analyst="ada") as opened:
        yield opened


@pytest.fixture(scope="module")
def table(connection: dpsql.Connection) -> SyntheticTable:
    return connection.synthesize(f"SELECT {', '.join(KINDS)} FROM t", name="made", epsilon=100, method="independent")


def test_values_are_of_the_type_of_their_column(table: SyntheticTable) -> None:
    assert {column.name: {type(value) for value in column.values} - {type(None)} for column in table.columns} == {
        name: {kind} for name, kind in KINDS.items()}
    with_null = {column.name for column in table.columns if None in column.values}
    assert {"maybe", "some"} <= with_null and of_json(table.as_json()) == table
    values = {column.name: [value for value in column.values if value is not None] for column in table.columns}
    assert all(round(value, 2) == value for value in values["amount"]) and max(values["amount"]) <= 10
    assert set(values["txt"]) == {"a", "b, c", "d\"'e"} and set(values["listed"]) == {dt.date(2021, 5, 5), dt.date(2021, 5, 6)}
    assert sum(value < 10 for value in values["whole"]) / len(values["whole"]) == pytest.approx(0.01, abs=0.005)
    assert min(values["at"]) >= dt.datetime(2020, 1, 1) and max(values["day"]) <= dt.date(2021, 12, 31)


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_files_are_read_back_with_equal_types_and_values(table: SyntheticTable, form: str, tmp_path: Path) -> None:
    file = tmp_path / f"made.{form}"
    table.write(str(file))
    back = duckdb.sql(f"SELECT * FROM '{file}'")
    assert [str(kind) for kind in back.types] == [column.type.value for column in table.columns]
    assert back.fetchall() == list(zip(*(column.values for column in table.columns), strict=True))
    with pytest.raises(OperationalError, match="is not overwritten"):
        table.write(file)


def test_it_is_asked_as_it_is(connection: dpsql.Connection, table: SyntheticTable) -> None:
    asked = connection.execute("SELECT COUNT(*), MIN(at), MAX(day), SUM(amount), COUNT(some), COUNT(*) FILTER (WHERE flag) FROM made")
    values = {column.name: [value for value in column.values if value is not None] for column in table.columns}
    assert asked.fetchall() == [(table.rows, min(values["at"]), max(values["day"]), pytest.approx(sum(values["amount"])),
                                 len(values["some"]), sum(values["flag"]))]


@pytest.mark.parametrize("column", ["undeclared", "id", "tiny, undeclared + 1 AS more"])
def test_all_that_a_type_can_hold_is_no_declaration(connection: dpsql.Connection, column: str) -> None:
    with pytest.raises(dpsql.Error, match="it has neither declared values nor bounds") as told:
        connection.synthesize(f"SELECT {column} FROM t", name="other", epsilon=1)
    assert told.value.span is not None and "bounds = " in told.value.try_
