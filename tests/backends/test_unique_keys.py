"""Rows that share a key are found, whatever the key is made of, and wherever they are."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path

import duckdb
import pytest
from support.files import opened_files

from dpsql.backends import file_tables, unique_keys
from dpsql.backends.store import NothingKnown
from dpsql.backends.unique_keys import _are_apart, share_key
from dpsql.errors import IntegrityError, OperationalError


def holding(rows: str) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 2})
    connection.execute(f"CREATE VIEW t AS {rows}")
    return connection


MANY = 150_000  # more than one thread takes at a time


@pytest.mark.parametrize("rows", [
    "SELECT i AS k FROM range({n}) AS t(i)", "SELECT -i AS k FROM range({n}) AS t(i)", "SELECT i * 7 AS k FROM range({n}) AS t(i)",
    "SELECT CAST(i AS INTEGER) AS k FROM range({n}) AS t(i)", "SELECT CAST(i AS UBIGINT) AS k FROM range({n}) AS t(i)",
    "SELECT i - 9223372036854775808 AS k FROM range({n}) AS t(i)", "SELECT i + 9223372036854000000 AS k FROM range({n}) AS t(i)"])
def test_one_row_too_many_is_found_among_whole_numbers(rows: str) -> None:
    """The first one or the last one; and quickly where there is none."""
    apart = rows.format(n=MANY)
    assert _are_apart(holding(apart), "t", ["k"])
    assert not share_key(holding(apart), "t", ["k"])
    for place in (0, MANY - 1):
        connection = holding(f"{apart} UNION ALL (SELECT k FROM ({apart}) ORDER BY k LIMIT 1 OFFSET {place})")
        assert not _are_apart(connection, "t", ["k"]) and share_key(connection, "t", ["k"])


@pytest.mark.parametrize(("values", "shared"), [
    ("('NaN'::DOUBLE), ('-NaN'::DOUBLE)", True), ("('NaN'::FLOAT), (1.0)", False), ("(0.0::DOUBLE), (-0.0::DOUBLE)", True),
    ("(1), (1.0::DOUBLE)", True), ("('1'), ('1.0')", False), ("('1'), ('1')", True), ("('a'), ('A')", False), ("(''), (' ')", False),
    ("('\u00e9'), ('e\u0301')", False), ("(true), (false)", False), ("(true), (true)", True), ("(1.5::DECIMAL(9, 2)), (1.50)", True),
    ("(170141183460469231731687303715884105727::HUGEINT), (-170141183460469231731687303715884105727)", False),
    ("(18446744073709551615::UBIGINT), (0)", False), ("(18446744073709551615::UBIGINT), (18446744073709551614)", False),
    ("(9223372036854775807), (-9223372036854775808)", False), ("(9223372036854775807), (9223372036854775807)", True),
    ("(DATE '2020-01-01'), (DATE 'infinity')", False), ("(1)", False), ("(1), (2), (3), (2)", True)])
def test_keys_of_all_types_go_by_the_equality_of_the_engine(values: str, shared: bool) -> None:
    assert share_key(holding(f"SELECT * FROM (VALUES {values}) AS t(k)"), "t", ["k"]) is shared


def test_a_table_without_rows_has_no_keys_to_share() -> None:
    assert not share_key(holding("SELECT 1 AS k, 2 AS l WHERE false"), "t", ["k", "l"])


def test_several_columns_are_apart_together(monkeypatch: pytest.MonkeyPatch) -> None:
    draw, connection, quick = random.Random(4), duckdb.connect(config={"threads": 1}), 0
    for _ in range(25):
        rows = [(draw.randint(-3, 3), draw.randint(-2, 9), draw.randint(0, 2)) for _ in range(draw.choice([1, 2, 4, 12]))]
        connection.execute("CREATE OR REPLACE TABLE t (a TINYINT, b BIGINT, c UINTEGER)")
        connection.execute(f"INSERT INTO t VALUES {', '.join(map(str, rows))}")
        monkeypatch.setattr(unique_keys, "BITS_OF_ROW", draw.choice([1, 64]))
        for key in (["a", "b", "c"], ["c", "a"], ["b"]):
            shared = len({tuple(row["abc".index(name)] for name in key) for row in rows}) < len(rows)
            assert share_key(connection, "t", key) is shared
            assert not (apart := _are_apart(connection, "t", key)) or not shared
            quick += apart
    assert quick > 5


def test_ends_that_are_wrong_hide_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a query says of the ends: rows outside set no bit, so that nothing is shown."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS FROM (VALUES (1), (5), (9), (5)) AS t(k)")

    class Lying:
        def execute(self, sql: str) -> object:
            return connection.execute(sql.replace("MIN(\"k\"), MAX(\"k\")", "1, 4"))

    assert not _are_apart(Lying(), "t", ['"k"']) and share_key(Lying(), "t", ["k"])  # type: ignore[arg-type]
    connection.execute("DELETE FROM t WHERE k = 9")
    assert share_key(Lying(), "t", ["k"])  # type: ignore[arg-type]


def parquet(folder: Path, rows: str, name: str = "t.parquet") -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    duckdb.execute(f"COPY ({rows}) TO '{folder / name}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")


@pytest.mark.parametrize("last", ["5", "NULL", "30000"])
def test_the_last_row_of_the_last_file_is_looked_at(last: str, tmp_path: Path) -> None:
    """A row without a key belongs to nobody, and shares none, however many there are."""
    parquet(tmp_path, "SELECT i AS k, i AS a, 'word' AS b FROM range(20000) AS t(i)", "t/1.parquet")
    parquet(tmp_path, f"SELECT k, k AS a, 'x' AS b FROM (SELECT NULL::BIGINT AS k FROM range(3000) UNION ALL SELECT {last}::BIGINT)", "t/2.parquet")
    if last == "5":
        with pytest.raises(IntegrityError, match="share the declared key"):
            opened_files({"t": tmp_path / "t"}, {"t": ["k"]})
    else:
        reader = opened_files({"t": tmp_path / "t"}, {"t": ["k"]})
        assert reader.rows("SELECT COUNT(*), COUNT(DISTINCT k) FROM t") == [(20000 + (last != "NULL"),) * 2]
        reader.close()


def test_a_file_that_grows_while_it_is_checked_is_not_taken_for_the_one_that_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Facts(NothingKnown):
        def keep(self, fact: str) -> None:
            raise AssertionError("what was found of another file was remembered")

    def grown(*given: object) -> bool:
        found = share_key(*given)  # type: ignore[arg-type]
        parquet(tmp_path, "SELECT i % 20000 AS k FROM range(20001) AS t(i)")
        return found

    parquet(tmp_path, "SELECT i AS k FROM range(20000) AS t(i)")
    monkeypatch.setattr(file_tables, "share_key", grown)
    with pytest.raises(OperationalError, match="were changed"):
        opened_files({"t": tmp_path / "t.parquet"}, {"t": ["k"]}, facts=Facts())
    monkeypatch.undo()
    with pytest.raises(IntegrityError):
        opened_files({"t": tmp_path / "t.parquet"}, {"t": ["k"]})


def test_texts_and_numbers_of_two_files_are_no_keys_of_one_table(tmp_path: Path) -> None:
    parquet(tmp_path, "SELECT 1 AS k", "t/1.parquet")
    for other in ("'1'", "1.0::DOUBLE"):
        parquet(tmp_path, f"SELECT {other} AS k", "t/2.parquet")
        with pytest.raises(OperationalError, match="columns of other types"):
            opened_files({"t": tmp_path / "t"}, {"t": ["k"]})


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
def test_nan_is_one_key(kind: str, tmp_path: Path) -> None:
    for number, shared in ((2, False), (math.nan, True)):
        parquet(tmp_path, f"SELECT k::{kind} AS k FROM (VALUES (1.0::DOUBLE), ('NaN'::DOUBLE), ('{number}'::DOUBLE)) AS t(k)")
        if shared:
            with pytest.raises(IntegrityError):
                opened_files({"t": tmp_path / "t.parquet"}, {"t": ["k"]})
        else:
            opened_files({"t": tmp_path / "t.parquet"}, {"t": ["k"]}).close()


def test_a_query_reads_the_columns_that_it_names_and_no_others(tmp_path: Path) -> None:
    """The wrapping that keeps beliefs about a column from the engine does not make it read the column."""
    parquet(tmp_path, "SELECT i AS k, i % 7 AS a, 'x' || i AS b, i / 3 AS c FROM range(9000) AS t(i)")
    reader = opened_files({"t": tmp_path / "t.parquet"}, {"t": ["k"]})
    for sql, read in (("SELECT COUNT(*) FROM t", {"k"}), ("SELECT SUM(a) FROM t WHERE c > 3", {"k", "a", "c"}), ("SELECT MIN(b) FROM t", {"k", "b"})):
        (_, plan), = reader.rows(f"EXPLAIN (FORMAT json) {sql}")
        node = json.loads(plan)[0]
        while node["children"]:
            node, = node["children"]
        scan = node["extra_info"]
        projected = scan["Projections"] if isinstance(scan["Projections"], list) else [scan["Projections"]]
        assert {*projected, *re.findall(r"TRY\((\w)\)", str(scan["Filters"]))} - {""} == read, plan
    reader.close()
