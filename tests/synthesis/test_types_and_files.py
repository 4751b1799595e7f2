"""Columns of every type come back as they were, in frames, in Parquet and CSV files, and when the table is asked."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest

import dpsql
from dpsql.backends.held_columns import make_table
from dpsql.errors import OperationalError, OptionError
from dpsql.synthesis import table_plan
from dpsql.synthesis.column_forms import BinnedColumn
from dpsql.synthesis.packed_values import CodedValues, NumberValues, joined, packed_values
from dpsql.synthesis.synthetic_table import SyntheticTable, of_json
from dpsql.trusted.kernel.ledger import Ledger
from dpsql.types import Type

TABLE = """CREATE TABLE t AS SELECT i AS id, CAST(i % 100 AS TINYINT) AS tiny, i % 1000 AS whole, i AS undeclared, i % 2 = 0 AS flag,
    CASE WHEN i % 5 > 0 THEN i % 2 = 0 END AS maybe, CAST(i % 1000 / 100 AS DECIMAL(10, 2)) AS amount, i % 500 / 7 AS ratio,
    DATE '2020-01-01' + CAST(i % 700 AS INTEGER) AS day, TIMESTAMP '2020-01-01 10:00:00' + INTERVAL (i % 9000) MINUTE AS at,
    CASE i % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'b, c' ELSE 'd"''e' END AS txt, CASE WHEN i % 4 > 0 THEN i % 30 END AS some,
    DATE '2021-05-05' + CAST(i % 2 AS INTEGER) AS listed, CAST(i % 5 AS DECIMAL(4, 1)) AS short, 'n' || i AS note, uuid() AS mark,
    CAST(TIMESTAMP '2020-01-01 10:00:00' + INTERVAL (i % 9000) MINUTE AS TIMESTAMP_MS) AS fine FROM range(6000) AS r(i)"""
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
short = { values = [0, 1, 2, 3, 4] }
note = {}
mark = {}
fine = { bounds = [2020-01-01, 2020-01-08] }
[budgets.b]
entity = "e"
epsilon = 200
"""
KINDS = {"tiny": int, "whole": int, "flag": bool, "maybe": bool, "amount": float, "ratio": float, "day": dt.date, "at": dt.datetime,
         "txt": str, "some": int, "listed": dt.date, "short": float, "fine": dt.datetime}
SQL_TYPES = {int: "BIGINT", bool: "BOOLEAN", float: "DOUBLE", dt.date: "DATE", dt.datetime: "TIMESTAMP", str: "VARCHAR"}
OWN_TYPES = {"amount": "DECIMAL(10,2)", "short": "DECIMAL(4,1)", "fine": "TIMESTAMP_MS"}
MADE_UP = "id; note LIKE [A-Z]{2}-[0-9]{4}; mark"


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
    assert {value.microsecond for value in values["at"]} == {0}
    assert {value.microsecond % 1000 for value in values["fine"]} == {0} != {value.microsecond for value in values["fine"]}
    assert min(values["at"]) >= dt.datetime(2020, 1, 1) and max(values["day"]) <= dt.date(2021, 12, 31)


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_files_are_read_back_with_equal_types_and_values(table: SyntheticTable, form: str, tmp_path: Path) -> None:
    file = tmp_path / f"made.{form}"
    table.write(str(file))
    back = duckdb.sql(f"SELECT * FROM '{file}'")
    kinds = {name: SQL_TYPES[kind] for name, kind in KINDS.items()} | OWN_TYPES
    assert {column.name: column.kind for column in table.columns} == kinds
    if form == "csv":  # which DuckDB reads without being told the types
        kinds |= {"amount": "DOUBLE", "short": "DOUBLE"}
    assert [str(kind) for kind in back.types] == [kinds[name].removesuffix("_MS") for name in KINDS]
    rows = [tuple(float(value) if isinstance(value, Decimal) else value for value in row) for row in back.fetchall()]
    assert rows == list(zip(*(column.values for column in table.columns), strict=True))
    with pytest.raises(OperationalError, match="is not overwritten"):
        table.write(file)


def test_frames_keep_types(table: SyntheticTable) -> None:
    frame = table.df()
    assert {name: str(frame[name].dtype) for name in ("tiny", "flag", "maybe", "ratio", "txt", "amount")} == {
        "tiny": "Int64" if None in table.columns[0].values else "int64", "maybe": "boolean", "ratio": str(frame["ratio"].dtype),
        "flag": "boolean" if None in table.columns[2].values else "bool", "txt": "object", "amount": "object"}
    present = [value for value in frame["amount"] if value is not None]
    assert {value.as_tuple().exponent for value in present} == {-2} and type(present[0]) is Decimal
    for column in table.columns:
        values = [None if value is not value or value is None or str(value) == "<NA>" else value for value in frame[column.name].tolist()]
        assert [float(value) if isinstance(value, Decimal) else value for value in values] == list(column.values)


def test_it_is_asked_as_it_is(connection: dpsql.Connection, table: SyntheticTable) -> None:
    asked = connection.execute("SELECT COUNT(*), MIN(at), MAX(day), SUM(amount), COUNT(some), COUNT(*) FILTER (WHERE flag) FROM made")
    values = {column.name: [value for value in column.values if value is not None] for column in table.columns}
    assert asked.fetchall() == [(table.rows, min(values["at"]), max(values["day"]), pytest.approx(sum(values["amount"])),
                                 len(values["some"]), sum(values["flag"]))]


@pytest.mark.parametrize(("column", "why", "instead"), [
    ("undeclared", "it has neither declared values nor bounds", "bounds = [0, 100] for undeclared in the policy"),
    ("id", "it has neither declared values nor bounds", "OPTIONS (made_up = 'id') if it numbers the rows"),
    ("tiny, undeclared + 1 AS more", "it has neither declared values nor bounds", "bounds = "),
    ("note", "it is a text without declared values", "CASE WHEN note LIKE 'A%' THEN 'A' ELSE 'other' END"),
    ("upper(note) AS big", "it is a text without declared values", "OPTIONS (made_up = 'big LIKE P[0-9]{6}') for new texts"),
    ("mark", "it is a UUID", "OPTIONS (made_up = 'mark') for new UUIDs")])
def test_all_that_a_type_can_hold_is_no_declaration(connection: dpsql.Connection, column: str, why: str, instead: str) -> None:
    with pytest.raises(dpsql.Error, match=why) as told:
        connection.synthesize(f"SELECT {column} FROM t", name="other", epsilon=1)
    assert told.value.span is not None and instead in told.value.try_


# -- columns that are made up


def test_made_up_columns_are_new_and_different(connection: dpsql.Connection, tmp_path: Path) -> None:
    """They are not measured, are where the query has them, and are the same when the table is read again."""
    made = connection.synthesize("SELECT mark, flag, note, id FROM t", name="with_keys", epsilon=1, rows=3000, made_up=MADE_UP)
    assert [column.name for column in made.columns] == ["mark", "flag", "note", "id"] and of_json(made.as_json()) == made
    columns = {column.name: list(column.values) for column in made.columns}
    assert columns["id"] == list(range(1, 3001)) and len(set(columns["mark"])) == len(set(columns["note"])) == 3000
    assert all(re.fullmatch("[A-Z]{2}-[0-9]{4}", str(value)) for value in columns["note"])
    assert {column for each in made.marginals for column in each.columns} == {"flag"}
    made.write(tmp_path / "made.parquet")
    back = duckdb.sql(f"SELECT * FROM '{tmp_path / 'made.parquet'}'")
    assert [str(kind) for kind in back.types] == ["UUID", "BOOLEAN", "VARCHAR", "BIGINT"]
    assert connection.execute("SELECT COUNT(DISTINCT mark), COUNT(DISTINCT note), MAX(id) FROM with_keys").fetchall() == [(3000, 3000, 3000)]
    assert any("note is made up (texts like [A-Z]{2}-[0-9]{4})" in note for note in made.notes)


def test_made_up_values_follow_from_the_statement(connection: dpsql.Connection) -> None:
    """EXPLAIN tells what is made up; another statement makes up others."""
    told = connection.explain("CREATE SYNTHETIC TABLE m AS SELECT note, flag FROM t OPTIONS (epsilon = 1, made_up = 'note LIKE x[0-9]{9}')")
    assert "note is made up (texts like x[0-9]{9}): it is unrelated to the private values" in str(told)
    first, again = (connection.synthesize("SELECT note, flag FROM t", name=name, epsilon=1, rows=50, made_up="note like [a-f]{9}")
                    for name in ("one", "other"))
    assert list(first.columns[0].values) != list(again.columns[0].values)


@pytest.mark.parametrize(("query", "made_up", "why"), [
    ("SELECT note, flag FROM t", "nte", "the query has no column nte"),
    ("SELECT note, flag FROM t", "note", "note is a text, and has no pattern"),
    ("SELECT note, flag FROM t", "note LIKE a.*", "the pattern of note is wrong: . at character 2 has no meaning"),
    ("SELECT note, flag FROM t", "note LIKE [b-a]", "b-a is no range of characters"),
    ("SELECT note, flag FROM t", "note LIKE a{201}", "its texts have more than 200 characters"),
    ("SELECT note, flag FROM t", "note LIKE [0-9]; note LIKE x", "note can have 10 different texts, and 500 rows"),
    ("SELECT id, flag FROM t", "id LIKE [0-9]{9}", "id is BIGINT, and only texts have a pattern"),
    ("SELECT id, flag FROM t", "id; ID", "ID is made up twice"),
    ("SELECT id, flag FROM t", "flag", "flag is BOOLEAN, and only whole numbers, UUIDs and texts can be made up"),
    ("SELECT id FROM t", "id", "all columns are made up"),
    ("SELECT id, flag FROM t", "", "made_up must be a text"),
    ("SELECT id, flag FROM t", "like x", "names no column|has no column")])
def test_mistakes_are_named_before_anything_is_charged(connection: dpsql.Connection, query: str, made_up: str, why: str) -> None:
    before = str(connection.budget())
    with pytest.raises(OptionError, match=why if "|" in why else re.escape(why)) as told:
        connection.execute(f"CREATE SYNTHETIC TABLE wrong AS {query} OPTIONS (epsilon = 1, rows = 500, made_up = '{made_up}')")
    assert told.value.span is not None and told.value.try_ and str(connection.budget()) == before


def test_the_policy_gives_the_pattern_of_new_texts(tmp_path: Path) -> None:
    """Its pattern is used without an option, under any name of the column, and a statement may give another one."""
    with duckdb.connect(str(tmp_path / "x.duckdb")) as made:
        made.execute(TABLE)
    policy = POLICY.replace("note = {}", 'NOTE = { like = "[A-Z]{2}-[0-9]{4}" }')
    (tmp_path / "x.toml").write_text(policy.replace("mark = {}", "mark = { like = 'u\\d{2}' }"), encoding="utf-8")
    Ledger.create(tmp_path / "x.ledger", None).close()
    with dpsql.connect(policy=tmp_path / "x.toml", analyst="ada") as opened:
        told = opened.explain("CREATE SYNTHETIC TABLE m AS SELECT note, flag FROM t OPTIONS (epsilon = 1)")
        assert "note is made up (texts like [A-Z]{2}-[0-9]{4}): it is unrelated to the private values" in str(told)
        texts = [(opened.synthesize(query, name=f"t{at}", epsilon=1, rows=90, **options).columns, pattern) for at, (query, options, pattern) in enumerate([
            ("SELECT note AS n, flag FROM t", {}, "[A-Z]{2}-[0-9]{4}"), ("SELECT note, flag FROM t", {"made_up": "note"}, "[A-Z]{2}-[0-9]{4}"),
            ("SELECT note, flag FROM t", {"made_up": "note like x[0-9]{2}"}, "x[0-9]{2}"), ("SELECT mark, flag FROM t", {}, "u[0-9]{2}"),
            ("SELECT note, flag, id FROM t", {"made_up": "id"}, "[A-Z]{2}-[0-9]{4}")])]
        for columns, pattern in texts:
            assert len({*columns[0].values}) == 90 and all(re.fullmatch(pattern, str(value)) for value in columns[0].values)
        start = "CASE WHEN note LIKE 'n1%' THEN 'a' ELSE 'b' END AS start"
        assert "made up" not in str(opened.explain(f"CREATE SYNTHETIC TABLE m AS SELECT {start}, flag FROM t OPTIONS (epsilon = 1)"))
        for query, why in [("SELECT note FROM t", "all columns are made up"), ("SELECT mark, flag FROM t", "mark can have 100 different texts"),
                           ("SELECT upper(note) AS big, flag FROM t", "the values of big are not known")]:
            with pytest.raises(dpsql.Error, match=why) as fault:
                opened.synthesize(query, name="wrong", epsilon=1, rows=500)
            assert fault.value.try_


@pytest.mark.parametrize(("old", "new", "why", "instead"), [
    ("note = {}", 'note = { like = "a.*" }', "the pattern is wrong: . at character 2 has no meaning", 'as in like = "[A-Z]{2}-[0-9]{4}"'),
    ("undeclared = {}", 'undeclared = { like = "a" }', "new texts are for columns of texts, and this one is BIGINT", "leaving like out"),
    ('txt = { values', 'txt = { like = "a", values', "new texts are for a column whose values are not listed", "leaving like or the values out")])
def test_a_wrong_pattern_of_the_policy_is_named_when_it_is_opened(old: str, new: str, why: str, instead: str, tmp_path: Path) -> None:
    assert old in POLICY
    with duckdb.connect(str(tmp_path / "x.duckdb")) as made:
        made.execute(TABLE)
    (tmp_path / "x.toml").write_text(POLICY.replace(old, new), encoding="utf-8")
    Ledger.create(tmp_path / "x.ledger", None).close()
    with pytest.raises(dpsql.Error, match=re.escape(why)) as told:
        dpsql.connect(policy=tmp_path / "x.toml", analyst="ada")
    assert told.value.span is not None and new.split(" ")[0] in told.value.text[told.value.span.start:told.value.span.end]
    assert instead in told.value.try_


# -- values in arrays


def test_packed_values_are_sequences_of_what_they_hold() -> None:
    coded = packed_values(["b", None, "a", "b"])
    days = NumberValues(Type.DATE, np.array([0, 18262, 5]), np.array([False, False, True]))
    assert isinstance(coded, CodedValues) and coded == ("b", None, "a", "b") == tuple(coded) and coded[-1] == "b" and coded[1:3] == [None, "a"]
    assert coded.places.dtype == np.uint8 and coded.nullable and coded.distinct(5) == ["a", "b"] and coded.distinct(1) is None
    assert list(days) == [dt.date(1970, 1, 1), dt.date(2020, 1, 1), None] and days.ends() == (dt.date(1970, 1, 1), dt.date(2020, 1, 1))
    assert joined([days, days]) == [*days, *days] and joined([coded, coded]) == [*coded, *coded] and coded != days
    cents = NumberValues(Type.DOUBLE, np.array([29, -115, 0], dtype=np.int16), np.array([False, False, True]), parts=100)
    assert list(cents) == [0.29, -1.15, None] and cents.ends() == (-1.15, 0.29) and cents.distinct(2) == [-1.15, 0.29]
    assert joined([cents, cents]) == [*cents, *cents] and cents.taken(np.array([1])) == [-1.15]
    assert NumberValues(Type.TIMESTAMP, np.array([1_577_836_800_000_001]))[0] == dt.datetime(2020, 1, 1, 0, 0, 0, 1)
    assert CodedValues([True, None, False], np.array([2, 0])).nullable is False and CodedValues([], np.array([], dtype=int)).ends() is None


@pytest.mark.parametrize(("ends", "step", "kind"), [
    ((0.0, 7.0, 140.0), Fraction(1, 100), "int16"), ((-1.15, 0.29), Fraction(1, 100), "int8"), ((-1.15, 70.05), Fraction(1, 20), "int16"),
    ((0.1 + 0.2, 7.7), Fraction(1, 10), "float64"), ((0.0, 100.0), Fraction(1, 3), "float64"), ((0.0, 1e15), Fraction(1, 1000), "float64"),
    ((0.0, 100.0), None, "float64"), ((0.0, 1.2), Fraction(2, 5), "int8")])
def test_decimals_are_kept_as_whole_numbers_where_these_are_exact(ends: tuple[float, ...], step: Fraction | None, kind: str) -> None:
    form, uniform = BinnedColumn(name="x", type=Type.DOUBLE, edges=ends, nullable=True, step=step), np.random.default_rng(1).random(2000)
    bins = np.arange(2000) % len(ends)
    found = form.values([*range(len(ends) - 1), None], bins, uniform)
    assert found.arrays.numbers.dtype == kind and found.nullable and form.bytes_of(2) == found.arrays.numbers.itemsize + 1
    values = [value for value in found if value is not None]
    assert all(ends[0] <= value <= ends[-1] for value in values) and len({*values}) > 2
    assert found.arrays.parts == 1 or all(value == float(Fraction(round(value * step.denominator), step.denominator))
                                          for value in values if step is not None)
    with duckdb.connect() as connection:
        make_table(connection, "t", {"x": ("DOUBLE", found)})
        assert [value for value, in connection.execute("SELECT x FROM t").fetchall()] == list(found)


# -- many rows


def test_rows_are_drawn_in_pieces(connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compared with the measurements are the rows of all pieces."""
    monkeypatch.setattr(table_plan, "PIECE", 700)
    assert table_plan.piece_sizes(2000) == [666, 667, 667] and sum(table_plan.piece_sizes(701)) == 701
    made = connection.synthesize("SELECT id, flag, amount, txt FROM t", name="pieces", epsilon=1, rows=2000, made_up="id")
    assert made.rows == 2000 and [len(column.values) for column in made.columns] == [2000] * 4
    assert made.columns[0].values == list(range(1, 2001)) and of_json(made.as_json()) == made
    for each in made.marginals:
        if set(each.columns) <= {"flag", "amount", "txt"}:
            places = [column.counted.places(column.values) for name in each.columns for column in made.columns
                      if column.name == name and column.counted is not None]
            drawn = np.zeros(each.shape)
            np.add.at(drawn, tuple(places), made.total / made.rows)
            assert np.abs(drawn - each.measurement.values).mean() == pytest.approx(each.off)


def test_there_are_as_many_rows_as_the_ledger_can_keep(connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_plan, "MOST_BYTES", 4000)
    with pytest.raises(OptionError, match=r"at most 400 rows of these columns can be drawn") as told:
        connection.execute("CREATE SYNTHETIC TABLE many AS SELECT flag, ratio FROM t OPTIONS (epsilon = 1, rows = 401)")
    assert told.value.span is not None
    made = connection.synthesize("SELECT flag, ratio FROM t", name="many", epsilon=1)
    assert made.rows == 400 and made.total == pytest.approx(6000, rel=0.05)
    with pytest.raises(OptionError, match="rows must be a whole number from 1 to 100000000"):
        connection.synthesize("SELECT flag FROM t", name="more", epsilon=1, rows=10**9)
