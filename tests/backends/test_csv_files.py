"""CSV files as owners have them: drafted, opened as drafted, and read without losing a row or changing a value."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dpsql.backends import cell_readings
from dpsql.backends.csv_counts import file_on_rows
from dpsql.backends.csv_drafts import drafted
from dpsql.backends.duckdb import DuckReader
from dpsql.backends.file_tables import FileTable, open_files
from dpsql.backends.source_files import files_of
from dpsql.catalog.reading import CellReading, CsvFormat
from dpsql.errors import OperationalError
from dpsql.frozen import asdict


def opened(path: Path, cells: Mapping[str, CellReading], how: CsvFormat = CsvFormat()) -> DuckReader:
    return open_files([FileTable(source=files_of("t", path), csv=how, cells=cells)])


def lines(head: str, *rows: str) -> str:
    return "".join(f"{row}\n" for row in (head, *rows))


FORMS: dict[str, tuple[str, bytes | str, dict[str, str], list[tuple[Any, ...]]]] = {
    # by name: the file's name, what it holds, the types of its columns, and its rows
    "R's write.csv": ("t.csv", lines('"","a","b"', '"1",7,NA', '"2",8,2.5'), {"column1": "BIGINT", "a": "BIGINT", "b": "DOUBLE"}, [(1, 7, None), (2, 8, 2.5)]),
    "R's write.table": ("t.txt", lines('"a" "b"', '"1" 7 "x y"', '"2" 8 "z"'), {"row_name": "BIGINT", "a": "BIGINT", "b": "VARCHAR"}, [(1, 7, "x y"), (2, 8, "z")]),
    "columns in line": ("t.txt", lines("  id     x name", '   1   2.5 "x  y"', "  10  12.5  z", "", " 200  -1.0 \tw  "), {"id": "BIGINT", "x": "DOUBLE", "name": "VARCHAR"},
                        [(1, 2.5, "x  y"), (10, 12.5, "z"), (200, -1.0, "w")]),
    "Excel in Germany": ("t.csv", "\ufeff" + lines("id;Wert;am", "1;1.234,5;24.12.2020", "2;0,5;01.03.2020"), {"id": "BIGINT", "Wert": "DOUBLE", "am": "DATE"},
                         [(1, 1234.5, dt.date(2020, 12, 24)), (2, 0.5, dt.date(2020, 3, 1))]),
    "names that repeat": ("t.csv", lines("id,Score,score,", "1,2,3,", "4,5,6,"), {"id": "BIGINT", "Score": "BIGINT", "score_2": "BIGINT", "column4": "VARCHAR"},
                          [(1, 2, 3, None), (4, 5, 6, None)]),
    "no header": ("t.csv", lines("1,x,17-08-1984", "2,y,31-12-1999"), {"column1": "BIGINT", "column2": "VARCHAR", "column3": "DATE"},
                  [(1, "x", dt.date(1984, 8, 17)), (2, "y", dt.date(1999, 12, 31))]),
    "lines in front": ("t.csv", lines("Exported by somebody", "", "id,zip", "1,01234", "2,99999"), {"id": "BIGINT", "zip": "VARCHAR"}, [(1, "01234"), (2, "99999")]),
    "a title in the first cell": ("t.csv", lines("Report of 2020,,", "", "id,x,y", "1,2,3", "4,5,6"), {"id": "BIGINT", "x": "BIGINT", "y": "BIGINT"}, [(1, 2, 3), (4, 5, 6)]),
    "years in the header": ("t.csv", lines("land,1990,1995,2000", "DE,1.5,2,3", "FR,4,5,"), {"land": "VARCHAR", "1990": "DOUBLE", "1995": "BIGINT", "2000": "BIGINT"},
                            [("DE", 1.5, 2, 3), ("FR", 4.0, 5, None)]),
    "years in rows": ("t.csv", lines("a,1990,1991", "b,1992,1993"), {"column1": "VARCHAR", "column2": "BIGINT", "column3": "BIGINT"}, [("a", 1990, 1991), ("b", 1992, 1993)]),
    "rows that lack cells": ("t.csv", lines("1,2", "3,4,5", "6,7,8"), {"column1": "BIGINT", "column2": "BIGINT", "column3": "BIGINT"}, [(1, 2, None), (3, 4, 5), (6, 7, 8)]),
    "cells beyond the header": ("t.csv", lines("a,b,c", "1,2,3,4,5", "5,6,7,8,9"), dict.fromkeys(("a", "b", "c", "column4", "column5"), "BIGINT"), [(1, 2, 3, 4, 5), (5, 6, 7, 8, 9)]),
    "a sparse row first": ("t.csv", lines("1,,,", "2,x,y,z", "3,x,y,4"), {"column1": "BIGINT", "column2": "VARCHAR", "column3": "VARCHAR", "column4": "VARCHAR"},
                           [(1, None, None, None), (2, "x", "y", "z"), (3, "x", "y", "4")]),
    "carriage returns alone": ("t.csv", "id,x\r1,2\r3,4\r", {"id": "BIGINT", "x": "BIGINT"}, [(1, 2), (3, 4)]),
    "a blank line in front": ("t.csv", lines("", "id,x", "1,2"), {"id": "BIGINT", "x": "BIGINT"}, [(1, 2)]),
    "comments": ("t.csv", lines("# made", "id,ok", "1,yes", "2,no"), {"id": "BIGINT", "ok": "BOOLEAN"}, [(1, True), (2, False)]),
    "blanks after commas": ("t.csv", lines("id, name", "1, a", "2, b", "3, "), {"id": "BIGINT", "name": "VARCHAR"}, [(1, "a"), (2, "b"), (3, None)]),
    "single quotes": ("t.csv", lines("'id','name'", "'1','a,b'", "'2','c'"), {"id": "BIGINT", "name": "VARCHAR"}, [(1, "a,b"), (2, "c")]),
    "latin-1": ("t.csv", lines("id,name", "1,Müller").encode("latin-1"), {"id": "BIGINT", "name": "VARCHAR"}, [(1, "Müller")]),
    "cp1252": ("t.csv", lines("id,price", "1,7 €").encode("cp1252"), {"id": "BIGINT", "price": "VARCHAR"}, [(1, "7 €")]),
    "UTF-16": ("t.tsv", lines("id\tname", "1\tMüller").encode("utf-16"), {"id": "BIGINT", "name": "VARCHAR"}, [(1, "Müller")]),
    "gzip": ("t.csv.gz", gzip.compress(lines("id,x", "1,2").encode()), {"id": "BIGINT", "x": "BIGINT"}, [(1, 2)]),
    "times with an offset": ("t.dat", lines("id,at", "1,2024-05-01T10:00:00Z", "2,2024-05-01T10:00:00+02:00"), {"id": "BIGINT", "at": "TIMESTAMP"},
                             [(1, dt.datetime(2024, 5, 1, 10)), (2, dt.datetime(2024, 5, 1, 8))]),
    "American times": ("t.csv", lines("id,at", "1,12/24/2020 6:05 PM", "2,1/2/2021 12:00 AM"), {"id": "BIGINT", "at": "TIMESTAMP"},
                       [(1, dt.datetime(2020, 12, 24, 18, 5)), (2, dt.datetime(2021, 1, 2))]),
    "commas of thousands": ("t.csv", lines("id,x,y", '1,"23,288","7,000"', '2,"9,703","8,000"'), {"id": "BIGINT", "x": "VARCHAR", "y": "VARCHAR"},
                            [(1, "23,288", "7,000"), (2, "9,703", "8,000")]),
    "decimal commas between commas": ("t.csv", lines("id,x,y", '1,"0,072","2,000"', '2,"0,114","3,000"'), {"id": "BIGINT", "x": "DOUBLE", "y": "DOUBLE"},
                                      [(1, 0.072, 2.0), (2, 0.114, 3.0)]),
    "first days of months": ("t.csv", lines("day,x", "1/1/1957,5", "2/1/1957,6", "3/1/1957,7"), {"day": "DATE", "x": "BIGINT"},
                             [(dt.date(1957, 1, 1), 5), (dt.date(1957, 2, 1), 6), (dt.date(1957, 3, 1), 7)]),
    "days without marks": ("t.csv", lines("date,code", "19970131,19970131", "20241201,20241201", "NA,1"), {"date": "DATE", "code": "BIGINT"},
                           [(dt.date(1997, 1, 31), 19970131), (dt.date(2024, 12, 1), 20241201), (None, 1)]),
    "names of months": ("t.csv", lines("a;b;c", "Jan 31 2000;1 March 1999;March 1, 1999", "Feb 1 2001;31 May 2000;May 31, 2000"), dict.fromkeys("abc", "DATE"),
                        [(dt.date(2000, 1, 31), dt.date(1999, 3, 1), dt.date(1999, 3, 1)), (dt.date(2001, 2, 1), dt.date(2000, 5, 31), dt.date(2000, 5, 31))]),
    "letters of one category": ("t.csv", lines("id,sex,ok", "1,F,T", "2,F,F"), {"id": "BIGINT", "sex": "VARCHAR", "ok": "BOOLEAN"}, [(1, "F", True), (2, "F", False)]),
    "missing texts": ("t.csv", lines("x,sex", "NA,f", "1,NA", "2,m"), {"x": "BIGINT", "sex": "VARCHAR"}, [(None, "f"), (1, None), (2, "m")]),
    "texts that are not missing": ("t.csv", lines("x,land", "1,DE", "2,NA"), {"x": "BIGINT", "land": "VARCHAR"}, [(1, "DE"), (2, "NA")]),
    "blanks for missing numbers": ("t.csv", lines("id,x", "1,  ", "2, 5"), {"id": "BIGINT", "x": "BIGINT"}, [(1, None), (2, 5)]),
    "numbers beyond 64 bits": ("t.csv", lines("id,x", "1,99999999999999999999"), {"id": "BIGINT", "x": "DOUBLE"}, [(1, 1e20)]),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_file_is_read_as_it_was_drafted(form: str, tmp_path: Path) -> None:
    name, held, types, rows = FORMS[form]
    path = tmp_path / name
    path.write_bytes(held if isinstance(held, bytes) else held.encode())
    found = drafted(path, "t")
    assert {column: of.reading.type for column, of in found.columns.items()} == types
    reader = opened(path, {column: of.reading for column, of in found.columns.items()}, found.csv)
    assert sorted(reader.rows("SELECT * FROM t"), key=str) == sorted(rows, key=str)


def test_all_rows_decide_types_and_not_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_readings, "MOST", 40)
    monkeypatch.setattr(cell_readings, "LEAST", 1)
    rows = [f"{i},{i}{'.6' if i == 777 else ''},{'n/a' if i != 501 else 7},{'x' if i == 3 else 'NA'},{i}" for i in range(1000)]
    path = tmp_path / "t.csv"
    path.write_text(lines("a,b,c,d,e", *rows, "1000,-,,,unknown"))
    found = drafted(path, "t").columns
    assert [(of.reading.type, of.reading.null) for of in found.values()] == [
        ("BIGINT", ()), ("DOUBLE", ("-",)), ("BIGINT", ("n/a",)), ("VARCHAR", ()), ("VARCHAR", ())]


def test_blanks_within_quotes_stay_and_a_stray_quote_hides_no_line(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text('a b  c\n1  "two  \n  lines ""so""" 3\n4 5\'11" 6\n7   8  9\n')
    reader = opened(path, {name: CellReading(type="VARCHAR") for name in "abc"}, CsvFormat(delimiter=" "))
    assert sorted(reader.rows("SELECT * FROM t")) == [("1", 'two  \n  lines "so"', "3"), ("4", "5'11\"", "6"), ("7", "8", "9")]


ODD = ["", "NA", "-", "4.6", "1e3", "1_0", "0x10", "007", "1,5", "nan", "inf", "-0", "99999999999999999999", "true", "17-08-1984", "2020-13-01", "2020-12-31",
       "2020-12-31 10:00", "epoch", "infinity", " 7 ", "x'y", 'q"q', "a,b", "two\nlines", "\t", "é", "\u00a0", "'", "\\", "#", "%d"]


@pytest.mark.parametrize("kind", ["BIGINT", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP", "VARCHAR"])
@pytest.mark.parametrize("key", [(), ("id",)])
def test_no_cell_loses_its_row(kind: str, key: tuple[str, ...], tmp_path: Path) -> None:
    """Whatever a cell holds, its row is there; and it is NULL where it is not of its type."""
    written = io.StringIO()
    rows = [(i, cell, random.Random(i).choice(ODD)) for i, cell in enumerate(ODD * 20)]
    csv.writer(written).writerows([("id", "x", "y"), *rows])
    path = tmp_path / "t.csv"
    path.write_text(written.getvalue(), encoding="utf-8", newline="")
    cells = {"id": CellReading(type="BIGINT"), "x": CellReading(type=kind), "y": CellReading(type=kind)}
    reader = open_files([FileTable(source=files_of("t", path), cells=cells, key=key)])
    assert reader.rows("SELECT COUNT(*), COUNT(id), SUM(id) FROM t") == [(len(rows), len(rows), sum(i for i, *_ in rows))]
    assert reader.rows("SELECT COUNT(*) FROM t WHERE x IS NULL")[0][0] + reader.rows("SELECT COUNT(x) FROM t")[0][0] == len(rows)
    if kind == "VARCHAR":
        assert reader.rows("SELECT id, x FROM t WHERE x IS NOT NULL ORDER BY id") == [(i, x) for i, x, _ in rows if x]


EXACT = {  # what a type makes of a cell, where a cast of the engine would change it
    "BIGINT": {"4.6": None, "1e3": None, "1_0": None, "0x10": None, "4.0": 4, " 7 ": 7, "-0": 0},
    "DATE": {"2020-12-31 10:00": None, "infinity": None, "epoch": None, "2020/1/2": dt.date(2020, 1, 2)},
    "TIMESTAMP": {"2024-05-01T10:00:00+02:00": dt.datetime(2024, 5, 1, 8), "epoch": None, "2024-05-01": dt.datetime(2024, 5, 1)},
    "DOUBLE": {"nan": None, "inf": None, "1e400": None, ".5": 0.5, "1_0": None},
    "BOOLEAN": {"yes": True, "0": False, "2": None},
}


@pytest.mark.parametrize("kind", EXACT)
def test_no_value_is_changed_in_silence(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(lines("id,x", *(f"{i},{cell}" for i, cell in enumerate(EXACT[kind]))))
    reader = opened(path, {"id": CellReading(type="BIGINT"), "x": CellReading(type=kind)})
    assert [x for x, in reader.rows("SELECT x FROM t ORDER BY id")] == [*EXACT[kind].values()]
    found = file_on_rows(path, CsvFormat(), {"x": CellReading(type=kind)})
    assert sum(column.cells for column in found.cells) == sum(value is None for value in EXACT[kind].values())


def test_cells_are_cleaned_as_the_policy_says(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(lines("a,b,c", " Mobile ,-9,31.12.2020 23:59", "MOBIL,5,x", "NA,7,01.01.2021 00:00"))
    reader = opened(path, {"a": CellReading(type="VARCHAR", trim=True, null=("NA",), case="lower", aliases={"mobil": "mobile"}),
                           "b": CellReading(type="BIGINT", null=(-9,)), "c": CellReading(type="TIMESTAMP", format="%d.%m.%Y %H:%M")})
    assert reader.rows("SELECT * FROM t ORDER BY c NULLS LAST") == [
        ("mobile", None, dt.datetime(2020, 12, 31, 23, 59)), (None, 7, dt.datetime(2021, 1, 1)), ("mobile", 5, None)]


def test_lines_that_are_no_rows_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(lines("a,b,c", "1,2,3", "1,2", "1,2,3,4", '"two\nlines",2,3', "x,2,3"))
    found = file_on_rows(path, CsvFormat(), {"a": CellReading(type="BIGINT")})
    assert (found.lines, found.rows, found.short, found.long) == (5, 5, 1, 1)
    assert json.loads(json.dumps(asdict(found)))["name"] == "t.csv", "as check --rows --json prints it"
    assert [(column.column, column.cells, column.examples) for column in found.cells] == [("a", 2, ("two\nlines", "x"))]


WRONG = {
    "nothing": ("t.csv", b""), "no text": ("t.csv", bytes(range(256)) * 9), "a cut gzip": ("t.csv.gz", gzip.compress(b"a,b\n1,2\n" * 9999)[:-9]),
    "gzip in name alone": ("t.csv.gz", b"a,b\n1,2\n"), "a name that repeats": ("t.csv", b"a,A\n1,2\n"), "no name": ("t.csv", b"a,\n1,2\n"),
    "another column": ("t.csv", b"c,d\n1,2\n"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_read_is_told_of_the_table(wrong: str, tmp_path: Path) -> None:
    name, held = WRONG[wrong]
    (tmp_path / name).write_bytes(held)
    with pytest.raises(OperationalError) as caught:
        opened(tmp_path / name, {"a": CellReading(type="BIGINT"), "b": CellReading(type="BIGINT")})
    assert caught.value.subject.startswith("t") and caught.value.try_ != ""


def test_cells_may_be_long_and_hold_the_sign_of_comments(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("# made by hand\nid,x\n1,a # b\n#2,c\n3," + "z" * 5_000_000 + "\n4,d\n")
    how = CsvFormat(comment="#")
    reader = opened(path, {"id": CellReading(type="BIGINT"), "x": CellReading(type="VARCHAR")}, how)
    assert reader.rows("SELECT id, length(x) FROM t ORDER BY id") == [(1, 5), (3, 5_000_000), (4, 1)]
    counts = file_on_rows(path, how, {"id": CellReading(type="BIGINT")})
    assert (counts.lines, counts.rows, counts.short, counts.long) == (3, 3, 0, 0)


def test_quotes_that_are_never_closed_hide_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('id,x\n1,"a"\n2,"b\n3,5"\n4,c\n5,"d\n6,e\n')
    cells = {"id": CellReading(type="BIGINT"), "x": CellReading(type="VARCHAR")}
    with pytest.raises(OperationalError, match="ends inside a quoted text"):
        opened(path, cells)
    found = drafted(path, "t")
    assert found.csv.quote == "" and found.rows == 6
    assert opened(path, cells, found.csv).rows("SELECT x FROM t ORDER BY id") == [('"a"',), ('"b',), ('5"',), ("c",), ('"d',), ("e",)]


def test_a_draft_is_of_so_many_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(",".join(f"c{i}" for i in range(5000)) + "\n" + ",".join("1" for _ in range(5000)) + "\n")
    with pytest.raises(OperationalError, match="5,000 columns"):
        drafted(path, "t")
    assert opened(path, {"c4999": CellReading(type="BIGINT")}).rows("SELECT c4999 FROM t") == [(1,)]
